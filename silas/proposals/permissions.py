"""What the owner has signed for a client in advance: its rules, and standing grants by shape.

1. Both are questions to which the owner has signed a yes, like any other. A row without that answer
   allows nothing, and what was signed with a device ends with the device.
2. Without rules a client is a stranger: its text is `external`, five of its requests wait at most,
   and twenty come in a minute.
3. A grant is an approval of its own (`tool_type`): signed, listed, expiring, for a number of
   times, taken back by its id, and gone with its client. Each use is checked anew.
4. It covers a request by its shape: this tool, these arguments and no others, each as its
   constraint says (`silas.gates.envelopes`). A command is covered word by word, or not at all:
   there are no prefixes and no patterns. An argument is left open only where another one names a
   file below a folder, and the card says which; one that named a place itself is not.
5. A path is looked at as it is on the disk by then: what leads out of the folder through a link, or
   into a folder with a dot, is asked.
6. A grant is offered for what the owner has allowed several times. Nobody is asked unbidden.
"""

import os
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import PurePath
from typing import Annotated, Any, Literal, NamedTuple

from pydantic import Field, ValidationError

from silas.approval import ApprovalEngine, ApprovalScope, ApprovalToken
from silas.gates.envelopes import ActionEnvelope, ArgumentConstraint, is_inside
from silas.gates.models import SafePath
from silas.gates.risk import RiskLevel
from silas.kernel import Clock, IdFactory, TaintLevel, format_timestamp, visible
from silas.kernel.models import Data, UtcDatetime
from silas.proposals.clients import Client, ClientRefused
from silas.review.decisions import QuestionKind
from silas.review.questions import (
    GRANT,
    GRANT_DAYS,
    QUESTION,
    RULES,
    YES,
    Question,
    QuestionChoice,
    QuestionContent,
    QuestionStore,
    proposal_payload,
)
from silas.storage import Database

Arguments = dict[str, str | bool | int | float]
_SHAPE = frozenset({"tool_name", "tool_input", "cwd"})
_COMMAND = frozenset({"command", "cmd", "argv", "args", "script", "code"})
"""Arguments that are carried out: they are covered word by word."""
_WORDS = "description"
"""What an agent says about a command; nothing is done with it."""
_LIFETIME = timedelta(days=7)
_LOOK_BACK = timedelta(days=30)
_LOOKED_AT = 200
_OFTEN = 3
_MOST_VALUES = 10
_MOST_GRANTS = 20
_DECLINE = "decline"
_TOOL_TYPE = frozenset({ApprovalScope.TOOL_TYPE})
_ALLOWED = """
SELECT proposal_id FROM proposals
WHERE client_id = ? AND redeemed_at IS NOT NULL AND created_at > ? AND proposal_id NOT LIKE '%.%'
ORDER BY created_at DESC LIMIT ?
"""


class ClientRules(Data):
    """What holds for one client (rule 2)."""

    taint: Literal[TaintLevel.EXTERNAL, TaintLevel.AUTH] = TaintLevel.EXTERNAL
    """What its text counts as: a stranger's, or somebody's whom the owner knows."""
    folder: SafePath | None = None
    """Where work that it proposes may happen; None: wherever a plan may."""
    waiting: int = Field(default=5, ge=1, le=20)
    per_minute: int = Field(default=20, ge=1, le=60)


class GrantShape(Data):
    """What a grant covers (rule 4)."""

    envelope: ActionEnvelope
    times: int = Field(ge=1, le=1000)
    days: int = Field(ge=1, le=GRANT_DAYS)


class ClientGrant(Data):
    """A grant in force."""

    grant_id: str
    token_id: str
    client_id: str
    shape: GrantShape
    words: list[str]
    expires_at: UtcDatetime
    used: int = 0


class ClientHabit(Data):
    """A kind of request that the owner has allowed several times."""

    allowed: int
    envelope: ActionEnvelope
    words: list[str]


class ToolCall(NamedTuple):
    """A request that has a shape."""

    tool: str
    args: Arguments


def tool_call(request: Mapping[str, Any]) -> ToolCall | None:
    """The tool and the arguments of a request; None if it is not of that form, or not flat."""
    tool, given, folder = (request.get(name) for name in ("tool_name", "tool_input", "cwd"))
    if set(request) - _SHAPE or not isinstance(tool, str) or not isinstance(given, dict):
        return None
    args = {**given, "cwd": folder} if folder is not None else dict(given)
    if "cwd" in given or not all(
        isinstance(each, str | bool | int | float) for each in args.values()
    ):
        return None
    return ToolCall(tool, args)


def covers(shape: GrantShape, call: ToolCall) -> bool:
    """Whether a request is of this shape, as things are on the disk now (rules 4 and 5)."""
    if not is_inside([shape.envelope], call.tool, call.args):
        return False
    return all(
        _stays_below(each.under, str(call.args[name]))
        for name, each in shape.envelope.constraints.items()
        if each.under is not None and name in call.args
    )


def _stays_below(folder: str, path: str) -> bool:
    real, found = PurePath(os.path.realpath(folder)), PurePath(os.path.realpath(path))
    if not found.is_relative_to(real):
        return False
    return not any(part.startswith(".") for part in found.relative_to(real).parts)


def habit_of(calls: Sequence[ToolCall]) -> ActionEnvelope | None:
    """The narrowest envelope that covers all of these calls of one tool; None if there is none."""
    names = set(calls[0].args)
    values = {name: list(dict.fromkeys(each.args[name] for each in calls)) for name in names}
    runs = bool(names & _COMMAND)
    constraints: dict[str, ArgumentConstraint] = {}
    for name, seen in sorted(values.items()):
        folder = None if runs else _folder_of(seen, within=values.get("cwd"))
        if len(seen) == 1:
            constraints[name] = ArgumentConstraint(equals=seen[0])
        elif folder is not None:
            constraints[name] = ArgumentConstraint(under=folder)
    bound = any(each.under is not None for each in constraints.values())
    for name in sorted(names - set(constraints)):
        # Where something goes to is never left open: another folder, another host.
        open_ = bound and not any(map(_names_a_place, values[name]))
        open_ = open_ or (runs and name == _WORDS)
        if not open_ and len(values[name]) > _MOST_VALUES:
            return None
        constraints[name] = (
            ArgumentConstraint(any=True) if open_ else ArgumentConstraint(one_of=values[name])
        )
    try:
        return ActionEnvelope(tool=calls[0].tool, constraints=constraints)
    except ValidationError:
        return None


def _names_a_place(value: object) -> bool:
    return isinstance(value, str) and (
        value.startswith(("/", "~", "./", "../")) or "://" in value.partition("\n")[0]
    )


def _folder_of(seen: Sequence[object], *, within: Sequence[object] | None) -> str | None:
    """The folder that all of these paths are below, if it is the one worked in or below it."""
    if len(seen) < 2 or not within or len(within) != 1:
        return None
    paths = [PurePath(os.path.normpath(str(each))) for each in seen]
    if not all(each.is_absolute() for each in paths):
        return None
    common = os.path.commonpath([each.parent for each in paths])
    return common if PurePath(common).is_relative_to(str(within[0])) else None


def in_words(envelope: ActionEnvelope) -> list[str]:
    """What an envelope leaves open and what it does not, for people."""
    return [
        f"{visible(name, keep_newlines=False)} {_constraint_words(each)}"
        for name, each in envelope.constraints.items()
    ]


def _constraint_words(each: ArgumentConstraint) -> str:
    if each.under is not None:
        return f"is a file below {visible(each.under, keep_newlines=False)}"
    if each.any:
        return "is left open"
    if each.one_of is not None:
        told = " or ".join(visible(str(one), keep_newlines=False) for one in each.one_of)
        return f"is exactly {told}"
    return f"is exactly {visible(str(each.equals), keep_newlines=False)}"


@dataclass(frozen=True)
class Permissions:
    """The rules and grants of the clients of one data directory."""

    database: Database
    questions: QuestionStore
    approvals: ApprovalEngine
    clock: Clock
    ids: IdFactory
    owner_id: str

    async def rules(self, client: Client) -> ClientRules:
        """What holds for this client now (rules 1 and 2): what was signed last, or nothing."""
        for question in await self.questions.asked_about(_about(RULES, client)):
            if question.state != YES:
                continue
            answered = await self.questions.answered(question.question_id)
            if answered is None or answered.value != YES:
                break  # what it replaced does not come back when its device is revoked
            return ClientRules.model_validate(_shown(question))
        return ClientRules()

    async def ask_rules(self, client: Client, rules: ClientRules) -> Question:
        """Ask the owner whether this may hold for the client from now on."""
        told = [
            "Its text counts as a stranger's."
            if rules.taint is TaintLevel.EXTERNAL
            else "Its text counts as that of somebody whom you know, and not as a stranger's.",
            f"At most {rules.waiting} of its requests wait, {rules.per_minute} come in a minute.",
        ]
        if rules.folder is not None:
            told.append(f"Work that it proposes happens below {visible(rules.folder)} alone.")
        return await self._ask(
            client,
            RULES,
            f"Change what {client.name} may do",
            " ".join(told),
            rules.model_dump(mode="json"),
        )

    async def ask_grant(self, client: Client, shape: GrantShape) -> Question:
        """Ask the owner for a standing grant (rule 3)."""
        if len(await self.grants(client)) >= _MOST_GRANTS:
            raise ClientRefused(f"{client.name} has {_MOST_GRANTS} grants. Take one back first.")
        envelope = shape.envelope
        told = "; ".join(in_words(envelope))
        return await self._ask(
            client,
            GRANT,
            f"Let {client.name} use {envelope.tool} without asking",
            f"It would be done by that program, outside Silas's sandbox and checks, {shape.times} "
            f"times at most in the next {shape.days} days. {told}.",
            shape.model_dump(mode="json"),
        )

    async def _ask(
        self,
        client: Client,
        kind: str,
        intent: str,
        rationale: str,
        request: dict[str, Any],
    ) -> Question:
        now, name, about = self.clock.now(), self.ids.new(QUESTION), _about(kind, client)
        for waiting in await self.questions.asked_about(about):
            if kind == RULES or _shown(waiting) == request:
                await self.questions.close(waiting.question_id, "outdated")
        question = Question(
            question_id=name,
            scope_id=self.owner_id,
            trace_id=f"trace_{name}",
            about=about,
            content=QuestionContent(
                kind=QuestionKind.PROPOSAL,
                intent=intent,
                rationale=rationale,
                risk=RiskLevel.HIGH,
                taint=TaintLevel.OWNER,
                actions=[
                    QuestionChoice(value=YES, label="Allow it from now on"),
                    QuestionChoice(value=_DECLINE, label="Leave it as it is"),
                ],
                body={
                    "proposal": {
                        "proposal_id": name,
                        "client_id": client.client_id,
                        "client": client.name,
                        "kind": kind,
                        "request": request,
                    }
                },
            ),
            created_at=now,
            expires_at=now + _LIFETIME,
        )
        await self.questions.ask(question)
        return question

    async def grants(self, client: Client) -> list[ClientGrant]:
        """Those in force now, the newest first (rules 1 and 3)."""
        found = []
        since = self.clock.now() - timedelta(days=GRANT_DAYS) - _LIFETIME
        for question in await self.questions.asked_about(_about(GRANT, client)):
            if question.created_at < since or question.state != YES:
                continue
            grant = await self._in_force(client, question)
            if grant is not None:
                found.append(grant)
        return found

    async def _in_force(self, client: Client, question: Question) -> ClientGrant | None:
        answered = await self.questions.answered(question.question_id)
        if answered is None or answered.value != YES or answered.decision.decided_at is None:
            return None
        payload = proposal_payload(question)
        token_id = answered.decision.tokens.get(payload.id)
        token = await self._token(token_id) if token_id else None
        if token is None or payload.content["client_id"] != client.client_id:
            return None
        if not (await self.approvals.check(token, payload, accept=_TOOL_TYPE))[0]:
            return None
        shape = GrantShape.model_validate(_shown(question))
        row = await self.database.fetch_one(*uses_query(question.question_id))
        return ClientGrant(
            grant_id=question.question_id,
            token_id=token.token_id,
            client_id=client.client_id,
            shape=shape,
            words=in_words(shape.envelope),
            expires_at=token.expires_at,
            used=int(row[0]) if row else 0,
        )

    async def _token(self, token_id: str) -> ApprovalToken | None:
        issued = await self.approvals.tokens.load(token_id)
        # One that is over or taken back needs no entry in the log each time that somebody looks.
        over = issued.void_reason or self.clock.now() >= issued.token.expires_at
        return None if over else issued.token

    async def granting(self, client: Client, request: Mapping[str, Any]) -> ClientGrant | None:
        """The grant that covers this request and is not used up; None if the owner is asked."""
        call = tool_call(request)
        if call is None:
            return None
        for grant in await self.grants(client):
            if grant.used < grant.shape.times and covers(grant.shape, call):
                return grant
        return None

    async def revoke(self, client: Client, grant_id: str) -> ClientGrant:
        """Take a grant back; raises `ClientRefused`."""
        for grant in await self.grants(client):
            if grant_id in (grant.grant_id, grant.token_id):
                await self.approvals.revoke(grant.token_id)
                return grant
        raise ClientRefused(f"{client.name} has no grant {grant_id!a}.")

    async def end(self, client: Client) -> None:
        """Take back everything that a client may (rule 3), and what it waits for."""
        for grant in await self.grants(client):
            await self.approvals.revoke(grant.token_id)
        for kind in (RULES, GRANT):
            for question in await self.questions.asked_about(_about(kind, client)):
                await self.questions.close(question.question_id, "outdated")

    async def habits(self, client: Client) -> list[ClientHabit]:
        """What the owner has allowed this client several times, without a grant (rule 6)."""
        since = format_timestamp(self.clock.now() - _LOOK_BACK)
        rows = await self.database.fetch_all(_ALLOWED, (client.client_id, since, _LOOKED_AT))
        alike: dict[tuple[object, ...], list[ToolCall]] = defaultdict(list)
        for (name,) in rows:
            question = await self.questions.get(name)
            call = tool_call(_shown(question)) if question.sealed else None
            if call is not None:
                key = (call.tool, call.args.get("cwd"), frozenset(call.args))
                alike[key].append(call)
        granted = [each.shape for each in await self.grants(client)]
        found = []
        for calls in alike.values():
            envelope = habit_of(calls) if len(calls) >= _OFTEN else None
            known = any(all(covers(shape, each) for each in calls) for shape in granted)
            if envelope is not None and not known:
                found.append(
                    ClientHabit(allowed=len(calls), envelope=envelope, words=in_words(envelope))
                )
        return found


Days = Annotated[int, Field(ge=1, le=GRANT_DAYS)]
Times = Annotated[int, Field(ge=1, le=1000)]


def uses_query(grant_id: str) -> tuple[str, tuple[str, str]]:
    """What counts the requests that a grant has answered: their ids begin with its own."""
    query = "SELECT count(*) FROM proposals WHERE proposal_id > ? AND proposal_id < ?"
    return query, (f"{grant_id}.", f"{grant_id}/")


def _about(kind: str, client: Client) -> str:
    return f"permission:{kind}:{client.client_id}"


def _shown(question: Question) -> dict[str, Any]:
    request = question.content.body["proposal"]["request"]
    return dict(request) if isinstance(request, dict) else {}
