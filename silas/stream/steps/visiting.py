"""What a turn does for a visitor: who came for which goal, with which tools, and what is asked.

1. A visitor is served as long as the link is good and its goal is in force. Otherwise the turn ends
   with a sentence that says so, before anybody reads the message.
2. A visitor has the tools of the reached level, and no plans. Tools that act in a workspace are
   none of a visitor's; nor is what looks at the owner's log, journal or accounts, whatever the goal
   names.
3. A tool that only looks is used. What would change something is put before the owner on a card,
   with exactly these arguments: an approval runs this one call.
4. A gate `on_tool_call` of type `custom_check` that names an argument (`extract`) proves something
   about the visitor when a call with that argument passes it.
"""

import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from silas.gates import ActionEnvelope, Gate
from silas.gates.envelopes import ArgumentConstraint
from silas.kernel import ChannelError, TaintLevel, visible
from silas.kernel.models import Data
from silas.queue.models import ExecutionStatus, MessageKind
from silas.review.decision_log import ASKED
from silas.storage import Transaction
from silas.stream.cards import asking
from silas.stream.errors import LinkUnknown
from silas.stream.gate_checks import known_of
from silas.stream.reading_tools import (
    ACCOUNT_TOOLS,
    PLACE_TOOLS,
    PROXY_TOOLS,
    answered_view,
    refused_view,
)
from silas.stream.turn_context import Turn, TurnContext, Write
from silas.stream.visitors import is_visit
from silas.tools import ATTACHMENT_TOOLS
from silas.tools.declaration import Tool
from silas.tools.execution import ModelView
from silas.work.authorisation import plan_risk
from silas.work.models import Budget, WorkItem, WorkItemType

Wish = tuple[str, Mapping[str, Any]]
"""A tool and its arguments."""
NO_PLANS = "I cannot do that here. I can answer with what I have at hand."
OWNERS_TOOLS = PLACE_TOOLS | ATTACHMENT_TOOLS | ACCOUNT_TOOLS | {"recent_activity", "journal_read"}
_WAITS = "“{title}” waits for a person's decision. Nothing of it has happened yet."
_TO_AGENT = "It is put before a person, who decides. Nothing has happened yet: say so."
_TOO_MANY = "Earlier requests of this visitor wait for a decision still. Nothing was asked for."
_NOT_PLAIN = "A visitor can ask for calls with plain values only: texts, numbers, yes or no."
_NOBODY = "Nobody can be asked here, so it is not done."
_TITLE_CHARS, _MAX_WISHES = 160, 2


async def meet(services: TurnContext, turn: Turn) -> Turn:
    """Part of step 0: the goal that a visitor came for (rule 1)."""
    name = turn.origin.connection_id
    if not is_visit(name) or turn.message.message_kind is not MessageKind.USER_MESSAGE:
        return turn
    try:
        found = await services.door.store.connection(name) if services.door else None
        if services.door is None or found is None:
            raise LinkUnknown
        goal = await services.door.goal_of(found)
    except ChannelError as error:
        return replace(turn, stopped=f"no visit: {error.code}").saying(error.message)
    version = f"{goal.id} {goal.plan_hash}"
    customer = found.link.customer_id
    services.visitors.serve(name, version, goal.access_levels, customer_id=customer)
    return replace(turn, goal=goal, link_id=found.link.link_id)


def goal_tools(services: TurnContext, turn: Turn) -> list[Tool]:
    """The goal's tools that this visitor may use now (rule 2)."""
    if turn.goal is None:
        return []
    names = sorted(turn.allowed - PROXY_TOOLS)
    found = [services.goal_tool(name) or turn.skill_tools.get(name) for name in names]
    return [tool for tool in found if tool is not None and not tool.contained]


def customer_of(services: TurnContext, turn: Turn) -> str:
    """The customer's record as JSON; empty if there is none, or nothing was proven."""
    if turn.goal is None:
        return ""
    record = services.visitors.of(turn.origin.connection_id, owner=False).get_customer_context()
    return "" if record is None else json.dumps(record, ensure_ascii=False, sort_keys=True)


def proving_gates(services: TurnContext, turn: Turn) -> dict[str, Gate]:
    """The gates that can raise the level of this sender, by the names that `requires` uses.

    Those of the goal that the visitor came for, and those of the configuration. A gate of another
    goal looks at the turn as well, and proves nothing here, whatever it is called.
    """
    goal = turn.goal or services.active_goal
    return {gate.name: gate for gate in (*services.system_gates, *(goal.gates if goal else ()))}


def noting(services: TurnContext, turn: Turn) -> Callable[[Gate, Mapping[str, Any]], None] | None:
    """What is told which checks a visitor has passed (rule 4)."""
    if turn.goal is None:
        return None
    own = proving_gates(services, turn)
    access = services.visitors.of(turn.origin.connection_id, owner=False)

    def passed(gate: Gate, args: Mapping[str, Any]) -> None:
        if own.get(gate.name) == gate and gate.extract is not None:
            access.gate_passed(gate.name, verified=str(args[gate.extract]))

    return passed


def asking_for(
    services: TurnContext, turn: Turn, wishes: list[Wish]
) -> Callable[[Tool, Data], Awaitable[ModelView]]:
    """What takes a call down that changes something (rule 3)."""

    async def ask(tool: Tool, args: Data) -> ModelView:
        if services.reviews is None:
            return refused_view(_NOBODY, taint=TaintLevel.OWNER)
        waiting = await services.store.open_cards(turn.scope_id) + len(wishes)
        if len(wishes) >= _MAX_WISHES or waiting >= services.policy.max_open_cards:
            return refused_view(_TOO_MANY, taint=TaintLevel.OWNER)
        given = args.model_dump(mode="json", exclude_none=True, by_alias=True)
        if not all(isinstance(value, str | int | float) for value in given.values()):
            return refused_view(_NOT_PLAIN, taint=TaintLevel.OWNER)
        wishes.append((tool.name, given))
        return answered_view(_TO_AGENT, taint=TaintLevel.OWNER)

    return ask


async def ask_for_wishes(services: TurnContext, turn: Turn) -> Turn:
    """Part of step 12: each wish on a card of its own, told in the runtime's words."""
    for number, (tool, args) in enumerate(turn.wishes):
        item = _wished(turn, tool, args, number=number)
        title = f"A visitor asks for it ({turn.goal.title if turn.goal else ''})."
        review, write = asking(
            services,
            turn.origin,
            item,
            taint=turn.taint,
            message=title,
            requested_by="visitor",
            card_id=f"card_{item.id}",
        )
        risk = plan_risk(item, turn.taint, services.effect_of)
        asked = {**known_of(turn), "card_id": review.card_id, "risk": risk.value}
        told = (
            f"{turn.response.message if turn.response else ''}\n\n{_WAITS.format(title=item.title)}"
        )
        turn = turn.saying(told.strip())
        turn = turn.writing(_unless_over(services, turn, write))
        noted = partial(_note_asked, services, asked)
        turn = turn.auditing(_unless_over(services, turn, noted))
    return turn


def _note_asked(services: TurnContext, entry: dict[str, Any], tx: Transaction) -> None:
    services.audit.append(tx, ASKED, entry)


def _unless_over(services: TurnContext, turn: Turn, write: Write) -> Write:
    """The same, unless the link has ended while the turn went on: then nobody is asked."""
    name, store = turn.origin.connection_id, services.door.store if services.door else None

    def guarded(tx: Transaction) -> None:
        if store is not None and not store.is_over_in(tx, name):
            write(tx)

    return guarded


def _wished(turn: Turn, tool: str, args: Mapping[str, Any], *, number: int) -> WorkItem:
    """A task that makes this one call, and nothing else."""
    said = visible(
        ", ".join(f"{name} {value}" for name, value in args.items()), keep_newlines=False
    )
    exact = json.dumps(dict(args), ensure_ascii=True, sort_keys=True)
    covered = {name: ArgumentConstraint(equals=value) for name, value in args.items()}
    return WorkItem(
        id=f"{turn.message.message_id.replace('.', '-')}-{number}"[-100:],
        type=WorkItemType.TASK,
        title=f"{tool.replace('_', ' ').capitalize()}: {said}"[:_TITLE_CHARS],
        body=f"# What a visitor asks for\n\n```call tool={tool}\n{exact}\n```\n",
        budget=Budget(max_attempts=1),
        approvals=[ActionEnvelope(tool=tool, constraints=covered, most=1)],
        without_proof=True,
        on_stuck="report",
    )


def told_to_visitor(status: ExecutionStatus, title: str) -> str:
    """How work that a visitor asked for has ended, without what is the owner's business."""
    if status in {ExecutionStatus.DONE, ExecutionStatus.UNCHECKED}:
        return f"“{title}” was carried out."
    return f"“{title}” was not carried out. The owner can see why."
