"""What the owner is asked about a tool server: whether it is started, and whether it is used.

1. *Start it?* shows what would run, to the byte: program, folders, arguments, variables. A yes is
   for one start, in the sandbox, without network, credentials or files of the owner's, to read
   which tools it has. A server of somebody else's is asked over the network instead, at the one
   address that the card shows.
2. *Use it?* is the card of a skill. It shows every tool with what its server says of it, and with
   the effect that the owner has given it. Its yes is to exactly that.
3. Annotations stand there as the server's claims. No effect follows from them.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from pydantic import Field

from silas.approval import ApprovalScope
from silas.egress import named
from silas.gates.risk import ActionKind, Reversibility, risk_of
from silas.kernel import Clock, IdFactory, TaintLevel, visible
from silas.kernel.models import Data
from silas.mcp.launch import Launch
from silas.mcp.remote import RemoteServer
from silas.mcp.toolset import PinnedServer, tool_name
from silas.review.decisions import QuestionKind
from silas.review.questions import (
    QUESTION,
    YES,
    Question,
    QuestionChoice,
    QuestionContent,
    ShownPayload,
)
from silas.skills.card import DECLINE
from silas.skills.sidecar import ServedEffect, ServedTool

START = "tool_server"
"""What the question about a start is about begins so; its id follows."""
_LIFETIME = timedelta(days=7)
EFFECTS: Mapping[ServedEffect | None, str] = {
    ServedEffect.READ: "it only reads",
    ServedEffect.CHANGE: "it changes something",
    ServedEffect.SEND: "it tells somebody something, which cannot be taken back",
    ServedEffect.IRREVERSIBLE: "what it does cannot be taken back",
    None: "you have not said what it does, so it asks every time",
}


class ServerWish(Data):
    """What the owner would start or connect to, in order to read its tools."""

    name: str
    launch: Launch | None = None
    remote: RemoteServer | None = None
    served: dict[str, ServedTool] = Field(default_factory=dict)
    """The effects that the owner has given its tools before."""
    reasons: tuple[str, ...] = ()
    """What has changed, of one that was quarantined."""


@dataclass(frozen=True)
class ServerCards:
    """Asks the owner about starts."""

    clock: Clock
    ids: IdFactory
    owner_id: str

    def start_question(self, wish: ServerWish) -> Question:
        """Rule 1."""
        now, name = self.clock.now(), self.ids.new(QUESTION)
        remote = wish.remote
        verb = f"Ask {remote.endpoint.host}" if remote else "Start it in the sandbox"
        return Question(
            question_id=name,
            scope_id=self.owner_id,
            trace_id=f"trace_{name}",
            about=f"{START}:{name}",
            content=QuestionContent(
                kind=QuestionKind.TOOL_SERVER,
                intent=f"{verb} to read which tools {wish.name} has?",
                rationale="You asked for it." if not wish.reasons else "It is quarantined.",
                risk=risk_of(
                    ApprovalScope.SINGLE_STEP,
                    ActionKind.GRANT,
                    reversibility=Reversibility.REVERSIBLE,
                    taint=TaintLevel.EXTERNAL,
                    inside_envelope=False,
                ),
                taint=TaintLevel.EXTERNAL,
                actions=[
                    QuestionChoice(value=YES, label=verb),
                    QuestionChoice(value=DECLINE, label="Do not do it"),
                ],
                body={
                    "summary": [*wish.reasons, *start_summary(wish)],
                    "server": {"start_id": name, **wish.model_dump(mode="json")},
                },
            ),
            created_at=now,
            expires_at=now + _LIFETIME,
        )


def start_payload(question: Question) -> ShownPayload:
    """What a yes to a start approves."""
    server = question.content.body["server"]
    return ShownPayload(str(server["start_id"]), server)


def wish_of(question: Question) -> ServerWish:
    """What a question asks for."""
    server = {**question.content.body["server"]}
    server.pop("start_id")
    return ServerWish.model_validate_json(json.dumps(server), strict=True)


def start_summary(wish: ServerWish) -> list[str]:
    """The card of a start in sentences."""
    if wish.launch is not None:
        return [
            *launch_lines(wish.launch),
            "It is started once, without network, and sees no file of yours and no credential.",
            "You then get a card with all of its tools. None of them is used before your yes.",
        ]
    if wish.remote is None:
        return []
    return [
        *wish.remote.lines(),
        "Its tools are read, and none of them is called.",
        "You then get a card with all of them.",
    ]


def launch_lines(launch: Launch) -> list[str]:
    """What runs, to the byte."""
    program, *interpreters = launch.programs
    words = " ".join([program.path, *launch.arguments])
    lines = [f"It runs: {visible(words, keep_newlines=False)}"]
    for each in (program, *interpreters):
        leads = f", which is {each.target}" if each.target != each.path else ""
        lines.append(f"The program {each.path}{leads}: SHA-256 {each.sha256}.")
    lines += [
        f"Its folder {tree.path}: {tree.files} files, {tree.size} bytes, SHA-256 {tree.sha256}."
        for tree in launch.trees
    ]
    lines += [
        f"The variable {name} is {visible(value, keep_newlines=False)}."
        for name, value in sorted(launch.variables.items())
    ]
    lines.append(f"It gets at most {launch.memory_mb} MB of memory.")
    return lines


_SEES = {
    "none": "It sees no workspace.",
    "read": "It sees a copy of the workspace of the plan that names it, and cannot write there.",
    "write": "It sees a copy of the workspace of the plan that names it, and may write there.",
}


def use_summary(
    pinned: PinnedServer, served: Mapping[str, ServedTool], changes: Sequence[str]
) -> list[str]:
    """The card of its use in sentences: what is new first, then what it gets, then each tool."""
    lines = [f"Different from what you have approved: {each}" for each in changes]
    if pinned.launch is not None:
        hosts = sorted({host for each in served.values() for host in each.hosts})
        lines += [*launch_lines(pinned.launch), _SEES[pinned.launch.workspace]]
        lines.append(
            f"Its tools reach {named(hosts)}, each as it is said below, and nothing else."
            if hosts
            else "It reaches no host."
        )
        lines.append("It gets no credential, no variable of yours and nothing from Silas' memory.")
    elif pinned.remote is not None:
        lines += pinned.remote.lines()
    says = pinned.says or "nothing"
    lines.append(f"It calls itself {says}, and speaks the revision {pinned.protocol}.")
    known = pinned.tool_set.by_name()
    lines += [_tool_line(name, each, known[each.served].claims) for name, each in served.items()]
    if pinned.tool_set.instructions:
        lines.append(
            "Its instructions, which no model is given: "
            f"“{visible(pinned.tool_set.instructions, keep_newlines=False)}”"
        )
    lines.append(f"SHA-256 over all tools: {pinned.tool_set.sha256}.")
    return lines


def _tool_line(name: str, served: ServedTool, claims: str) -> str:
    parts = [EFFECTS[served.effect]]
    if served.inverse:
        parts.append(f"{served.inverse} undoes it")
    if served.hosts:
        parts.append(f"it reaches {named(served.hosts)}")
    told = f"Tool {name}: {', '.join(parts)}."
    return f"{told} Its server claims: {claims}." if claims else told


def shown_tools_of(pinned: PinnedServer, served: Mapping[str, ServedTool]) -> list[dict[str, Any]]:
    """Every tool whole, as the card shows it."""
    known = pinned.tool_set.by_name()
    return [
        {
            "name": name,
            "served": each.served,
            "effect": each.effect.value if each.effect else None,
            "inverse": each.inverse,
            "hosts": list(each.hosts),
            "claims": known[each.served].claims,
            "title": known[each.served].title,
            "description": known[each.served].description,
            "input_schema": known[each.served].input_schema,
        }
        for name, each in served.items()
    ]


def served_tools(
    server: str, pinned: PinnedServer, before: Mapping[str, ServedTool]
) -> dict[str, ServedTool]:
    """All tools by their names here, with the effects that the owner has given them before."""
    found: dict[str, ServedTool] = {}
    for tool in pinned.tool_set.tools:
        name = tool_name(server, tool.name)[:64]
        while name in found:
            name = f"{name[:62]}_{len(found) % 10}"
        known = before.get(name)
        kept = known if known is not None and known.served == tool.name else None
        found[name] = kept or ServedTool(served=tool.name)
    return found
