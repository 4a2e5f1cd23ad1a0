"""What the runtime offers the owner by itself, as questions and plans. It asks no model for it.

- *Stuck work* cannot go on by itself: the owner chooses what becomes of it.
- *Undo* is offered only where the work has left what it takes. It is a plan of its own that puts
  back what the files held, if they still are what the work has made of them. It declares exactly
  these files, and its checks compare the result. It is approved, executed and checked like any
  other; its script is executed as it stands, also where a model works.
- *Drafts*: a plan of which the owner wants another version, and whose first step writes a text
  file, becomes a text to edit. What the owner makes of it goes back into the plan, which asks anew.
- *Batches* are plans that wait and are much alike, decided together by one signature over them all:
  1. Only plans of at most medium risk, as the runtime has sealed them, and never an undo.
  2. An item that is unlike the others is flagged, and not chosen from the start.
  3. The batch names every card with its hashes, its risk and its taint, in order, and their number.
     When one of them is decided elsewhere, the batch is outdated.
"""

import shlex
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace as replaced
from datetime import timedelta
from typing import NamedTuple

from pydantic import ValidationError

from silas.egress import in_words
from silas.gates.risk import RiskLevel
from silas.kernel import TaintLevel
from silas.review.cards import UNDO, Card, batch_entry
from silas.review.decisions import QuestionKind
from silas.review.questions import QUESTION, Question, QuestionChoice, QuestionContent
from silas.stream.store import Origin
from silas.stream.turn_context import TurnContext
from silas.work.before_images import BeforeImage
from silas.work.effects import ChangeKind, DeclaredChanges, Workspace, executed_by
from silas.work.letters import Letter, letter_of, with_letter
from silas.work.models import (
    VerificationCheck,
    WorkItem,
    WorkItemResult,
    WorkItemStatus,
    WorkItemType,
)
from silas.work.script import FileStep, RestoreStep, RunStep, ScriptInvalid, Step, read_script
from silas.work.wording import NO_PROOF, declared_paths, has_proof, verb_of

AGAIN, ANOTHER_WAY, LEAVE = "again", "another_way", "leave"
STUCK_TTL = timedelta(days=7)
_STOPPED = (WorkItemStatus.STUCK, WorkItemStatus.BLOCKED)
_MAX_REASON_LENGTH = 500


_TRIED = "It did not work, and I have tried everything I can do without asking you."
_BLOCKED = "It is blocked: I may not go on with it by myself."


def question_about(
    services: TurnContext,
    origin: Origin,
    item: WorkItem,
    result: WorkItemResult,
    *,
    taint: TaintLevel,
) -> Question | None:
    """What to ask; None for work that is done, cancelled, paused, or still being tried."""
    if result.status not in _STOPPED or item.type is WorkItemType.PROJECT:
        return None
    blocked = result.status is WorkItemStatus.BLOCKED
    failed = [check.name for check in result.verification_results if not check.passed]
    why = (result.last_error or ", ".join(failed) or result.summary)[:_MAX_REASON_LENGTH]
    now = services.clock.now()
    return Question(
        question_id=services.ids.new(QUESTION),
        scope_id=origin.scope_id,
        trace_id=origin.trace_id,
        about=f"stuck:{item.id}:{item.attempts}",
        content=QuestionContent(
            kind=QuestionKind.DECISION,
            intent=f"What should I do about “{item.title}”?",
            rationale=_BLOCKED if blocked else _TRIED,
            risk=RiskLevel.LOW,
            taint=taint,
            actions=[
                QuestionChoice(value=AGAIN, label="Ask me for it again"),
                QuestionChoice(value=ANOTHER_WAY, label="Plan another way"),
                QuestionChoice(value=LEAVE, label="Leave it"),
            ],
            body={
                "question": why,
                "work_item_id": item.id,
                "failed_checks": failed,
                "allow_freetext": True,
            },
        ),
        created_at=now,
        expires_at=now + STUCK_TTL,
    )


UNDO_TTL = timedelta(minutes=5)
_LONGEST_COMMAND = 32_000
_CHECK_SECONDS = 600


def is_undo(item: WorkItem) -> bool:
    """Whether this is itself an undo; that is not undone again."""
    return item.domain == UNDO


def is_unused_offer(item: WorkItem) -> bool:
    """Whether this is an undo that nobody has wanted yet, or at all: it is offered, not work."""
    unwanted = item.approval_token is None or item.status is WorkItemStatus.FAILED
    return is_undo(item) and not item.attempts and unwanted


def undo_id(item: WorkItem) -> str:
    """The id of the plan that undoes an item: the same work is offered to be undone once."""
    return f"{UNDO}_{item.id}"[:128]


def undo_item(item: WorkItem, images: Sequence[BeforeImage], *, title: str) -> WorkItem | None:
    """The plan that takes an item's changes back; None if there is none that surely would."""
    workspace = item.workspace
    if workspace is None or workspace.path is None or not images or is_undo(item):
        return None
    if not all(image.taken and image.kept for image in images):
        return None
    steps = [*_guards(images), *_steps(images)]
    body = "\n\n".join(["# What to do", "Put back what was there before.", *map(_block, steps)])
    try:
        if read_script(body) != steps:
            return None
        return WorkItem(
            id=undo_id(item),
            type=WorkItemType.TASK,
            title=f"Undo: {title}"[:200],
            domain=UNDO,
            budget=item.budget,
            body=f"{body}\n",
            verify=_checks(images),
            workspace=_workspace(workspace, images),
            script=True,  # no model plays it: what was signed is what is run
            on_stuck="report",
        )
    except (ScriptInvalid, ValidationError):
        return None  # a name that no plan can say, or more files than one plan can declare


def summary_of(images: Sequence[BeforeImage]) -> str:
    """What would be taken back, in words."""
    made = sum(image.before is None for image in images)
    changed = len(images) - made
    parts = [
        _counted(changed, "file is", "files are", "put back"),
        _counted(made, "new file is", "new files are", "removed"),
    ]
    return ", ".join(part for part in parts if part) + "."


def _counted(count: int, one: str, more: str, what: str) -> str:
    return f"{count} {one if count == 1 else more} {what}" if count else ""


def _workspace(workspace: Workspace, images: Sequence[BeforeImage]) -> Workspace:
    """The same directory, with exactly these files declared."""
    kinds = {image.path: image.kind for image in images}
    declared = DeclaredChanges(
        add=[path for path, kind in kinds.items() if kind is ChangeKind.REMOVED],
        change=[path for path, kind in kinds.items() if kind is ChangeKind.CHANGED],
        remove=[path for path, kind in kinds.items() if kind is ChangeKind.ADDED],
        executable=[image.path for image in images if image.before and image.was_executable],
    )
    return Workspace(path=workspace.path, identity=workspace.identity, changes=declared)


def _guards(images: Sequence[BeforeImage]) -> list[Step]:
    """Whoever has changed a file since keeps it: then nothing at all is undone."""
    tests = [_test(image.path, image.after, executable=image.executable) for image in images]
    return [RunStep(("sh", "-c", " && ".join(some))) for some in _portions(tests)]


def _steps(images: Sequence[BeforeImage]) -> list[Step]:
    restored = [
        RestoreStep(image.path, image.before, image.was_executable)
        for image in images
        if image.before is not None
    ]
    made = [image.path for image in images if image.before is None]
    return [*restored, *(RunStep(("rm", "--", *some)) for some in _portions(made))]


def _checks(images: Sequence[BeforeImage]) -> list[VerificationCheck]:
    tests = {
        _test(image.path, image.before, executable=image.was_executable): image.path
        for image in images
    }
    checks = []
    for some in _portions(tests):
        first = tests[some[0]]
        name = f"{first} is as before"
        if len(some) > 1:
            name = f"{len(some)} files are as before, the first is {first}"
        checks.append(
            VerificationCheck.model_validate(
                {
                    "name": name[:200],
                    "run": " && ".join(some),
                    "expect": {"exit_code": 0},
                    "timeout": _CHECK_SECONDS,
                }
            )
        )
    return checks


def _test(path: str, digest: str | None, *, executable: bool) -> str:
    quoted = shlex.quote(f"./{path}")
    if digest is None:
        return f"test ! -e {quoted}"
    mode = "test -x" if executable else "test ! -x"
    return f'test "$(sha256sum < {quoted})" = "{digest}  -" && {mode} {quoted}'


def _portions(texts: Iterable[str]) -> list[list[str]]:
    """As many texts in one command as the system lets one argument have."""
    portions: list[list[str]] = []
    size = 0
    for text in texts:
        size += len(text.encode())
        if not portions or size > _LONGEST_COMMAND:
            portions.append([])
            size = len(text.encode())
        portions[-1].append(text)
    return portions


def _block(step: Step) -> str:
    if isinstance(step, RestoreStep):
        mode = "yes" if step.executable else "no"
        return f"```restore path={step.path} sha256={step.sha256} executable={mode}\n```"
    argv = step.argv if isinstance(step, RunStep) else ()
    return f"```run\n{shlex.join(argv)}\n```"


FEWEST = 3
BATCH_TTL = timedelta(days=7)
_TOGETHER = (RiskLevel.LOW, RiskLevel.MEDIUM)
_ACTION = "run"


def is_batchable(card: Card, items: Sequence[WorkItem]) -> bool:
    """Rule 1."""
    return (
        card.sealed
        and card.risk in _TOGETHER
        and card.requested_by != "undo"
        and len(items) == 1
        and items[0].type is WorkItemType.TASK
        and items[0].plan_hash == card.plan_hashes.get(items[0].id)
    )


def anomaly_of(card: Card, item: WorkItem, *, usual_place: str | None) -> str:
    """How an item differs from the others (rule 2); empty if it does not."""
    place = item.workspace.path if item.workspace else None
    if card.taint is TaintLevel.EXTERNAL:
        return "Text from outside had a part in it."
    if item.workspace and item.workspace.network:
        return f"Its network: {in_words(item.workspace.network)}."
    if item.workspace and item.workspace.changes.remove:
        return "It removes files."
    if item.workspace and _writes_programs(item.workspace.changes):
        return "It writes files that other programs execute."
    if place != usual_place:
        return f"It works somewhere else: {place or 'in a private folder'}."
    return "" if has_proof(item) else NO_PROOF


def _writes_programs(changes: DeclaredChanges) -> bool:
    return bool(changes.executable) or any(map(executed_by, (*changes.add, *changes.change)))


def batch_of(
    services: TurnContext, cards: Sequence[tuple[Card, WorkItem]], *, most: int
) -> Question | None:
    """The question about these cards, if there are enough of them to ask together."""
    chosen = [pair for pair in cards if is_batchable(pair[0], [pair[1]])][:most]
    if len(chosen) < FEWEST:
        return None
    places = Counter(item.workspace.path if item.workspace else None for _, item in chosen)
    usual = places.most_common(1)[0][0]
    entries = [
        {
            **batch_entry(card),
            "title": item.title,
            "actor": card.connection_id,
            "occurred_at": card.created_at.isoformat(),
            "reason": _reason(item),
            "anomaly": anomaly_of(card, item, usual_place=usual),
        }
        for card, item in chosen
    ]
    return _question(services, chosen[0][0], entries)


def selection_of(
    services: TurnContext, question: Question, chosen: Sequence[str]
) -> Question | None:
    """A new batch of some of the items, in their order; it needs an approval of its own."""
    entries = [entry for entry in question.content.body["items"] if entry["card_id"] in chosen]
    known = [entry["card_id"] for entry in entries]
    if (
        not entries
        or set(known) != set(chosen)
        or len(known) == len(question.content.body["items"])
    ):
        return None
    quiet = [{**entry, "anomaly": ""} for entry in entries]
    return _question(services, question, quiet)


def _question(
    services: TurnContext, first: Card | Question, entries: list[dict[str, object]]
) -> Question:
    ids, now = [str(entry["card_id"]) for entry in entries], services.clock.now()
    odd = sum(bool(entry["anomaly"]) for entry in entries)
    told = "They are all alike." if not odd else f"{odd} of them are unlike the others: look there."
    risk = max((RiskLevel(str(entry["risk"])) for entry in entries), key=list(RiskLevel).index)
    external = any(entry["taint"] == TaintLevel.EXTERNAL for entry in entries)
    return Question(
        question_id=services.ids.new(QUESTION),
        scope_id=first.scope_id,
        trace_id=first.trace_id,
        about=f"batch:{','.join(ids)}",
        content=QuestionContent(
            kind=QuestionKind.BATCH,
            intent=f"Decide {len(ids)} plans together",
            rationale=f"{len(ids)} plans wait, each of one task. {told}",
            risk=risk,
            taint=TaintLevel.EXTERNAL if external else TaintLevel.OWNER,
            actions=[
                QuestionChoice(value="approve", label=f"Approve {len(ids)} and run them"),
                QuestionChoice(value="edit_selection", label="Approve only those chosen"),
                QuestionChoice(value="decline", label=f"Decline {len(ids)}, do nothing"),
            ],
            body={
                "goal_id": first.scope_id,
                "action": _ACTION,
                "item_ids": ids,
                "count": len(ids),
                "items": entries,
            },
        ),
        created_at=now,
        expires_at=now + BATCH_TTL,
    )


def _reason(item: WorkItem) -> str:
    checks = len(item.verify)
    checked = "no check" if not checks else f"{checks} check{'s' if checks > 1 else ''}"
    changes = item.workspace.changes if item.workspace else DeclaredChanges()
    paths: dict[ChangeKind, list[str]] = {}
    for kind, path in declared_paths(changes):
        paths.setdefault(kind, []).append(path)
    told = [
        f"{verb_of(kind).lower()} {found[0] if len(found) == 1 else f'{len(found)} files'}"
        for kind, found in paths.items()
    ]
    return ", ".join([*(told or ["changes no files"]), checked])


DRAFT_TTL = timedelta(days=7)
_MAX_DRAFT_LENGTH = 20_000
_ACTIONS = [
    QuestionChoice(value="edit", label="Use my version"),
    QuestionChoice(value="approve", label="Keep it as it is"),
    QuestionChoice(value="rephrase", label="Have it rewritten"),
    QuestionChoice(value="reject", label="Drop it"),
]


def text_of(item: WorkItem) -> FileStep | None:
    """The text that a plan writes, if it is one that a person could edit."""
    try:
        steps = read_script(item.body)
    except ScriptInvalid:
        return None
    texts = [step for step in steps if isinstance(step, FileStep)]
    if len(texts) != 1 or len(texts[0].content) > _MAX_DRAFT_LENGTH:
        return None
    return texts[0]


def draft_of(
    services: TurnContext, origin: Origin, item: WorkItem, taint: TaintLevel
) -> Question | None:
    """The question about a plan's text; None if there is no such text."""
    letter = letter_of(item)
    if letter is not None:
        return _draft(services, origin, item, taint, shown=_shown_letter(item, letter))
    text = text_of(item)
    if text is None:
        return None
    where = item.workspace.path if item.workspace and item.workspace.path else "a private folder"
    shown = _ShownText(
        f"Edit the text of {text.path}",
        "You asked for changes. Nothing is written before you approve the new plan.",
        f"{item.title}, in {where}",
        text.content,
        {"path": text.path},
    )
    return _draft(services, origin, item, taint, shown=shown)


class _ShownText(NamedTuple):
    """A text that can be edited, and what is said of it."""

    intent: str
    rationale: str
    context: str
    text: str
    metadata: dict[str, str]


def _shown_letter(item: WorkItem, letter: Letter) -> _ShownText:
    return _ShownText(
        f"Edit the mail: {item.title}",
        "You asked for changes. Nothing is sent before you approve the new plan.",
        letter.heading,
        letter.text,
        {},
    )


def _draft(
    services: TurnContext, origin: Origin, item: WorkItem, taint: TaintLevel, *, shown: _ShownText
) -> Question:
    now = services.clock.now()
    return Question(
        question_id=services.ids.new(QUESTION),
        scope_id=origin.scope_id,
        trace_id=origin.trace_id,
        about=f"draft:{item.id}",
        content=QuestionContent(
            kind=QuestionKind.DRAFT,
            intent=shown.intent,
            rationale=shown.rationale,
            risk=RiskLevel.LOW,
            taint=taint,
            actions=_ACTIONS,
            body={
                "context": shown.context,
                "draft": shown.text,
                "metadata": {**shown.metadata, "work_item_id": item.id},
            },
        ),
        created_at=now,
        expires_at=now + DRAFT_TTL,
    )


def with_text(item: WorkItem, text: str) -> WorkItem | None:
    """The plan with another text in place of its own; None if that cannot be written down.

    A check that demands exactly the old text demands the new one.
    """
    if letter_of(item) is not None:
        return with_letter(item, text)
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
