"""Suggestions: what could come next. Each is asked once, and then not again for a while.

Where they come from, without asking any model: what a worker has named as next steps, and commands
that the owner has let run again and again.
"""

import shlex
from collections import Counter
from collections.abc import Sequence
from datetime import timedelta

from silas.gates.risk import RiskLevel
from silas.kernel import TaintLevel
from silas.stream.review.models import QUESTION, Action, Content, Kind, Question
from silas.stream.turn_context import TurnContext
from silas.work.models import WorkItem, WorkItemType
from silas.work.offline_script import RunStep, ScriptInvalid, read_script

LIFETIME = timedelta(days=3)
MOST_STEPS = 2
OFTEN = 3
_LONGEST = 300
_YES, _NO = "Plan it", "Not now"


def suggestion(
    room: TurnContext,
    *,
    scope_id: str,
    source: str,
    request: str,
    intent: str,
    rationale: str,
    taint: TaintLevel,
) -> Question:
    """The question; a yes leads to a plan, which asks again before anything happens."""
    now, name = room.clock.now(), room.ids.new(QUESTION)
    key = f"suggestion:{request.strip().lower()}"[:400]
    return Question(
        question_id=name,
        scope_id=scope_id,
        trace_id=f"trace_{name}",
        about=key,
        content=Content(
            kind=Kind.SUGGESTION,
            intent=intent,
            rationale=rationale,
            risk=RiskLevel.LOW,
            taint=taint,
            actions=[Action(value="do_it", label=_YES), Action(value="not_now", label=_NO)],
            body={"source": source, "request": request, "cooldown_key": key},
        ),
        created_at=now,
        expires_at=now + LIFETIME,
    )


def from_next_steps(
    room: TurnContext,
    item: WorkItem,
    next_steps: Sequence[str],
    *,
    scope_id: str,
    taint: TaintLevel,
) -> list[Question]:
    """What the worker named; its words are derived from what it has seen."""
    return [
        suggestion(
            room,
            scope_id=scope_id,
            source="post_execution",
            request=step[:_LONGEST],
            intent=step[:_LONGEST],
            rationale=f"It came up while I worked on “{item.title}”.",
            taint=taint,
        )
        for step in next_steps[:MOST_STEPS]
        if step.strip()
    ]


def repeated_command(done: Sequence[WorkItem]) -> tuple[str, int] | None:
    """The command that was run most often by itself, if it was often enough."""
    commands = Counter(command for item in done if (command := _only_command(item)))
    often = [(command, count) for command, count in commands.most_common(1) if count >= OFTEN]
    return often[0] if often else None


def from_habit(room: TurnContext, command: str, count: int, *, scope_id: str) -> Question:
    """To let it be watched, instead of asking each time."""
    return suggestion(
        room,
        scope_id=scope_id,
        source="idle_heartbeat",
        request=f"watch the command `{command}` every day",
        intent=f"Watch `{command}` every day",
        rationale=f"You have let me run it {count} times lately. I could look by myself, and tell "
        "you when it does not work.",
        taint=TaintLevel.OWNER,
    )


def _only_command(item: WorkItem) -> str | None:
    if item.type is not WorkItemType.TASK:
        return None
    try:
        steps = read_script(item.body)
    except ScriptInvalid:
        return None
    if len(steps) != 1 or not isinstance(steps[0], RunStep):
        return None
    argv = steps[0].argv
    command = argv[2] if argv[:2] == ("sh", "-c") and len(argv) == len("abc") else shlex.join(argv)
    return command if "`" not in command and "\n" not in command else None
