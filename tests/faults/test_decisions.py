"""Each write and each sync of a decision fails once, and the process dies at each of them.

A decision is whole or it is not there: its row, what lets it be followed, its tokens, and its entry
in the audit log. What was reported as failed leaves none of them.
"""

from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from silas.app.core import Core
from silas.app.review import open_questions
from silas.app.runtime import open_cards
from silas.app.work import open_executor
from silas.approval import ApprovalDecision, ApprovalVerdict, PublicKey
from silas.gates.risk import RiskLevel
from silas.kernel import TaintLevel
from silas.review import OwnersProof
from silas.review.cards import batch_decision_bytes, batch_entry
from silas.review.decisions import QuestionKind
from silas.review.questions import Question, QuestionChoice, QuestionContent
from silas.stream.ports import PlanReview
from silas.testing.work import decide_with_vault
from silas.work import WorkItemStatus
from silas.work.models import BudgetUsed
from silas.work.paused import Scene
from silas.work.ports import AgentLimits, Briefing, PausedCall, PausedRun, WaitingCall
from tests.faults.test_every_write import EVERY, YES, entries
from tests.faults.trouble import Claims, Ending, Trial, Trouble
from tests.faults.trouble import Scene as Place
from tests.work.shop import task

NO = ApprovalDecision(verdict=ApprovalVerdict.DECLINED)
VERDICTS = pytest.mark.parametrize("decision", [YES, NO], ids=["yes", "no"])
DEVICE = Ed25519PrivateKey.from_private_bytes(bytes(32))
KEY = PublicKey(DEVICE.public_key().public_bytes_raw())
CALLS = [
    PausedCall(
        work_item_id="t1",
        attempt=1,
        tool="send_mail",
        args={"to": name},
        reasons=["It is outside of what was approved."],
        taint=TaintLevel.EXTERNAL,
    )
    for name in ("a", "b")
]
Counts = Callable[[Core], Awaitable[list[int]]]


async def count(core: Core, sql: str) -> int:
    row = await core.database.fetch_one(sql)
    assert row is not None
    return int(row[0])


async def whole_or_not_there(
    folder: Path,
    trouble: Trouble,
    *,
    prepare: Callable[[Place], Awaitable[None]],
    decide: Callable[[Core], Awaitable[object]],
    parts: Counts,
    whole: list[int],
) -> None:
    """Decide on a disk that fails at each point in turn; `parts` counts what a decision is."""

    async def act(place: Place) -> None:
        await decide(place.core)
        place.claim("decided")

    async def examine(core: Core, claims: Claims, ending: Ending) -> None:
        found = await parts(core)
        assert found in (whole, [0] * len(whole)), "a part of a decision is there"
        if claims.has("decided") and found != whole:
            assert ending.may_be_lost(claims, "decided"), "it was decided, and is lost"
        if not claims.has("decided") and not trouble.is_deadly:
            assert found != whole, "it was reported as failed, and is carried out"

    trial = Trial(folder)
    await trial.begin(prepare)
    assert await trial.run(trouble, act, examine) > 0


def asking(*names: str) -> Callable[[Place], Awaitable[None]]:
    async def ask(place: Place) -> None:
        core = place.core
        await core.devices.enrol(KEY, name="A phone")
        cards = open_cards(core)
        for name in names:
            item = await open_executor(core).context.items.save(task(id=f"task_{name}"))
            review = PlanReview(
                card_id=name,
                items=[item],
                scope_id="owner",
                connection_id="owner",
                channel="web",
                trace_id=f"trace_{name}",
                message="",
                taint=TaintLevel.OWNER,
            )
            await core.database.transaction(lambda tx, shown=review: cards.ask_plan(tx, shown))

    return ask


async def of_cards(core: Core) -> list[int]:
    return [
        await count(core, "SELECT count(*) FROM review_cards WHERE state <> 'open'"),
        await count(core, "SELECT count(*) FROM decisions"),
        await count(core, "SELECT count(*) FROM approval_tokens"),
        len(await entries(core, "approval_issued")),
        await count(core, "SELECT count(*) FROM queue_messages"),
        len(await entries(core, "card_decided")),
        len(await entries(core, "batch_decided")),
        await count(core, "SELECT count(*) FROM approval_executions"),
        len(await entries(core, "approval_used")),
        await count(core, "SELECT count(*) FROM work_items WHERE approval_token IS NOT NULL"),
    ]


@EVERY
async def test_a_card(tmp_path: Path, trouble: Trouble) -> None:
    async def decide(core: Core) -> None:
        cards = open_cards(core)
        shown = (await cards.get("card_1")).plan_hashes
        decided = await cards.decide_with_vault("card_1", YES, shown=shown)
        assert decided.state == "approved"

    await whole_or_not_there(
        tmp_path,
        trouble,
        prepare=asking("card_1"),
        decide=decide,
        parts=of_cards,
        whole=[1, 1, 1, 1, 1, 1, 0, 1, 1, 1],
    )


@EVERY
async def test_several_cards_by_one_signature(tmp_path: Path, trouble: Trouble) -> None:
    names = ["card_1", "card_2", "card_3"]

    async def decide(core: Core) -> None:
        cards = open_cards(core)
        shown = [batch_entry(await cards.get(name)) for name in names]
        content = {"item_ids": names, "items": shown}
        signature = DEVICE.sign(batch_decision_bytes(content, YES))
        await cards.decide_batch(content, YES, OwnersProof(KEY.key_id, signature))

    await whole_or_not_there(
        tmp_path,
        trouble,
        prepare=asking(*names),
        decide=decide,
        parts=of_cards,
        whole=[3, 3, 3, 3, 3, 3, 1, 3, 3, 3],
    )


@EVERY
async def test_an_answer(tmp_path: Path, trouble: Trouble) -> None:
    async def ask(place: Place) -> None:
        now = place.core.clock.now()
        question = Question(
            question_id="question_1",
            scope_id="owner",
            trace_id="t",
            about="something",
            content=QuestionContent(
                kind=QuestionKind.SUGGESTION,
                intent="Do it",
                rationale="It helps.",
                risk=RiskLevel.LOW,
                taint=TaintLevel.OWNER,
                actions=[
                    QuestionChoice(value="do_it", label="Yes"),
                    QuestionChoice(value="no", label="No"),
                ],
            ),
            created_at=now,
            expires_at=now.replace(year=now.year + 1),
        )
        await open_questions(place.core, place.core.queue).ask(question)

    async def decide(core: Core) -> None:
        questions = open_questions(core, core.queue)
        await questions.answer_with_vault("question_1", {"selected_value": "do_it"})

    async def parts(core: Core) -> list[int]:
        return [
            await count(core, "SELECT count(*) FROM questions WHERE state <> 'open'"),
            await count(core, "SELECT count(*) FROM decisions"),
            await count(core, "SELECT count(*) FROM queue_messages"),
            len(await entries(core, "question_answered")),
        ]

    await whole_or_not_there(
        tmp_path, trouble, prepare=ask, decide=decide, parts=parts, whole=[1, 1, 1, 1]
    )


async def let_calls_wait(place: Place) -> None:
    bench = open_executor(place.core).context
    assert bench.paused is not None
    await bench.items.save(task(id="t1"))
    item = await bench.attempts.start("t1", runner="r")
    limits = AgentLimits(tokens=1, cost_usd=1.0, seconds=1.0)
    briefing = Briefing(work_item_id="t1", attempt=1, instructions="", limits=limits)
    waiting = [WaitingCall(call_id=f"c{n}", call=each) for n, each in enumerate(CALLS)]
    await bench.paused.keep(
        item,
        PausedRun(history="", calls=tuple(waiting)),
        scene=Scene(briefing=briefing, taint=TaintLevel.EXTERNAL),
        runner="r",
        used=BudgetUsed(),
    )


@EVERY
@VERDICTS
async def test_calls_that_wait(
    tmp_path: Path, trouble: Trouble, decision: ApprovalDecision
) -> None:
    """Both of them or neither; a token is there if, and only if, the decision is."""

    async def decide(core: Core) -> None:
        bench = open_executor(core).context
        assert bench.paused is not None
        kept = await bench.paused.of("t1")
        assert kept is not None
        await decide_with_vault(bench, kept.calls, decision)

    async def parts(core: Core) -> list[int]:
        return [
            await count(core, "SELECT count(*) FROM paused_calls WHERE verdict IS NOT NULL"),
            await count(core, "SELECT count(*) FROM paused_calls WHERE token IS NOT NULL"),
            await count(core, "SELECT count(*) FROM approval_tokens"),
            await count(core, "SELECT count(*) FROM approval_executions"),
            len(await entries(core, "approval_issued")),
            len(await entries(core, "approval_used")),
            len(await entries(core, "paused_call_decided")),
            await count(core, "SELECT count(*) FROM decisions"),
        ]

    approved = decision is YES
    await whole_or_not_there(
        tmp_path,
        trouble,
        prepare=let_calls_wait,
        decide=decide,
        parts=parts,
        whole=[2] * 8 if approved else [2, 0, 0, 0, 0, 0, 2, 2],
    )


@EVERY
async def test_cancelling(tmp_path: Path, trouble: Trouble) -> None:
    async def make(place: Place) -> None:
        await open_executor(place.core).context.items.save(task(id="t1"))

    async def parts(core: Core) -> list[int]:
        item = await open_executor(core).context.items.get("t1")
        assert item is not None
        stopped = item.status is WorkItemStatus.FAILED
        return [int(stopped), len(await entries(core, "work_cancelled"))]

    await whole_or_not_there(
        tmp_path,
        trouble,
        prepare=make,
        decide=lambda core: open_executor(core).context.control.cancel("t1"),
        parts=parts,
        whole=[1, 1],
    )
