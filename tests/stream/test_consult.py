"""A stuck worker and the planner: suspended, resumed, in time or not at all."""

import asyncio
from dataclasses import dataclass
from typing import Any

import pytest

from silas.kernel import IdFactory, TaintLevel
from silas.queue import QueueName, QueueStore
from silas.queue.models import (
    Agent,
    ConsultRequest,
    ExecutionRequest,
    MessageKind,
    PlannerGuidance,
    QueueMessage,
)
from silas.storage import SqliteDatabase
from silas.stream.consult import BusPlanner, Consultations
from silas.testing import FakeClock, RecordingAudit
from silas.work import WorkItem
from silas.work.models import VerificationResult

ITEM = WorkItem.model_validate({"id": "t1", "type": "task", "title": "T", "body": "Do it."})
FAILED = VerificationResult(
    name="page", passed=False, reason="not there", output="ignore all", exit_code=1
)


@dataclass
class Desk:
    queue: QueueStore
    consultations: Consultations
    planner: BusPlanner
    clock: FakeClock

    async def asked(self) -> QueueMessage:
        """The question, once it is on the bus."""
        while True:
            lease = await self.queue.lease(QueueName.PLANNER, consumer="planner")
            if lease is not None:
                await self.queue.ack(lease)
                return lease.message
            await asyncio.sleep(0)


@pytest.fixture
async def desk(database: SqliteDatabase, clock: FakeClock) -> Desk:
    ids = IdFactory(clock)
    queue = QueueStore(database, clock=clock, ids=ids)
    cause = QueueMessage(
        message_id="m",
        trace_id="trace",
        content="",
        sender=Agent.RUNTIME,
        message_kind=MessageKind.EXECUTION_REQUEST,
        scope_id="owner",
        taint=TaintLevel.OWNER,
        created_at=clock.now(),
        payload=ExecutionRequest(work_item_id="t1", connection_id="owner"),
    )
    consultations = Consultations(database, clock=clock, poll=0.01)
    planner = BusPlanner(
        queue,
        database,
        consultations,
        audit=RecordingAudit(),
        clock=clock,
        ids=ids,
        cause=lambda item: cause if item.id == "t1" else None,
    )
    return Desk(queue, consultations, planner, clock)


def guidance(question: QueueMessage, **more: Any) -> PlannerGuidance:
    asked = question.payload
    assert isinstance(asked, ConsultRequest)
    return PlannerGuidance(
        **{"consult_id": asked.consult_id, "work_item_id": asked.work_item_id, **more}
    )


async def test_the_worker_waits_and_goes_on_with_the_advice(desk: Desk) -> None:
    waiting = asyncio.create_task(desk.planner.consult(ITEM, [FAILED], reason="no page"))
    question = await desk.asked()
    assert question.trace_id == "trace"
    assert question.taint is TaintLevel.EXTERNAL, "what a check prints may be anybody's"
    assert "not there" in question.content
    assert "      ignore all" in question.content
    assert not waiting.done()
    said = guidance(question, tokens=99, cost_usd=0.25)
    assert await desk.consultations.answer(said, "Make one.")
    advice = await waiting
    assert advice.text == "Make one."
    assert (advice.tokens, advice.cost_usd) == (99, 0.25), "the item is charged for its advice"


async def test_the_answer_may_come_in_another_process(
    desk: Desk, database: SqliteDatabase, clock: FakeClock
) -> None:
    waiting = asyncio.create_task(desk.planner.consult(ITEM, [], reason=""))
    question = await desk.asked()
    elsewhere = Consultations(database, clock=clock)
    assert await elsewhere.answer(guidance(question), "From afar.")
    assert (await waiting).text == "From afar."


async def test_after_the_deadline_the_advice_is_ignored(desk: Desk) -> None:
    waiting = asyncio.create_task(desk.planner.consult(ITEM, [], reason=""))
    question = await desk.asked()
    desk.clock.advance(seconds=90)
    assert not await desk.consultations.answer(guidance(question), "Too late.")
    with pytest.raises(TimeoutError, match="90 seconds"):
        await waiting
    assert not await desk.consultations.answer(guidance(question), "Much too late.")


async def test_advice_counts_once_and_for_its_own_item(desk: Desk) -> None:
    waiting = asyncio.create_task(desk.planner.consult(ITEM, [], reason=""))
    question = await desk.asked()
    assert not await desk.consultations.answer(guidance(question, work_item_id="t2"), "Other.")
    assert not await desk.consultations.answer(guidance(question, consult_id="x"), "Uninvited.")
    assert await desk.consultations.answer(guidance(question), "First.")
    assert not await desk.consultations.answer(guidance(question), "Second.")
    assert (await waiting).text == "First."


async def test_work_that_nobody_asked_for_asks_nobody(desk: Desk) -> None:
    orphan = ITEM.model_copy(update={"id": "orphan"})
    with pytest.raises(TimeoutError):
        await desk.planner.consult(orphan, [], reason="")
    assert await desk.queue.lease(QueueName.PLANNER, consumer="planner") is None
