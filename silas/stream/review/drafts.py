"""Drafts: a text that Silas would write, given to the owner to edit before it is a plan again.

A plan of which the owner wants another version, and whose first step writes a text file, becomes a
draft. What he makes of it goes back into the plan, and the plan asks anew, with what has changed.
"""

from dataclasses import replace as replaced
from datetime import timedelta

from silas.gates.risk import RiskLevel
from silas.kernel import TaintLevel
from silas.stream.review.models import QUESTION, Action, Content, Kind, Question
from silas.stream.store import Origin
from silas.stream.turn_context import TurnContext
from silas.work.models import WorkItem
from silas.work.offline_script import FileStep, ScriptInvalid, read_script

LIFETIME = timedelta(days=7)
_LONGEST = 20_000
_ACTIONS = [
    Action(value="edit", label="Use my version"),
    Action(value="approve", label="Keep it as it is"),
    Action(value="rephrase", label="Have it rewritten"),
    Action(value="reject", label="Drop it"),
]


def text_of(item: WorkItem) -> FileStep | None:
    """The text that a plan writes, if it is one that a person could edit."""
    try:
        steps = read_script(item.body)
    except ScriptInvalid:
        return None
    texts = [step for step in steps if isinstance(step, FileStep)]
    if len(texts) != 1 or len(texts[0].content) > _LONGEST:
        return None
    return texts[0]


def draft_of(
    room: TurnContext, origin: Origin, item: WorkItem, taint: TaintLevel
) -> Question | None:
    """The question about a plan's text; None if there is no such text."""
    text = text_of(item)
    if text is None:
        return None
    where = item.workspace.path if item.workspace and item.workspace.path else "a private folder"
    now = room.clock.now()
    return Question(
        question_id=room.ids.new(QUESTION),
        scope_id=origin.scope_id,
        trace_id=origin.trace_id,
        about=f"draft:{item.id}",
        content=Content(
            kind=Kind.DRAFT,
            intent=f"Edit the text of {text.path}",
            rationale="You asked for changes. Nothing is written before you approve the new plan.",
            risk=RiskLevel.LOW,
            taint=taint,
            actions=_ACTIONS,
            body={
                "context": f"{item.title}, in {where}",
                "draft": text.content,
                "metadata": {"path": text.path, "work_item_id": item.id},
            },
        ),
        created_at=now,
        expires_at=now + LIFETIME,
    )


def with_text(item: WorkItem, text: str) -> WorkItem | None:
    """The plan with another text in place of its own; None if that cannot be written down.

    A check that demands exactly the old text demands the new one.
    """
    old = text_of(item)
    if old is None:
        return None
    content = text if text.endswith("\n") else f"{text}\n"
    body = item.body.replace(old.content, content, 1)
    steps = [
        replaced(step, content=content) if isinstance(step, FileStep) else step
        for step in read_script(item.body)
    ]
    checks = [
        check.model_copy(update={"expect": check.expect.model_copy(update={"equals": content})})
        if getattr(check.expect, "equals", None) == old.content
        else check
        for check in item.verify
    ]
    try:
        if read_script(body) != steps:
            return None
    except ScriptInvalid:
        return None
    return item.model_copy(update={"body": body, "verify": checks})
