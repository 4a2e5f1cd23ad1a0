"""The whole house, wired: minds, rooms, cards, the conversation; whichever front opens it."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

from silas.app.background import in_background
from silas.app.companion_models import ModelGateway
from silas.app.companions import CompanionRoom, companion_jobs, open_companions
from silas.app.context import context_jobs, open_context
from silas.app.gates import load_system_gates, prove_guards
from silas.app.ground import Ground
from silas.app.housekeeping import Housekeeping, PeriodicJob
from silas.app.journal import open_journal
from silas.app.late_minds import open_minds
from silas.app.memory import MemoryRoom, memory_jobs, open_memory
from silas.app.memory_cards import MemoryCards, learning_jobs
from silas.app.personality import open_personality
from silas.app.review import desk_jobs, open_desk, open_gate_desk, open_questions
from silas.app.stream import Minds, Rooms, Stream, open_queue, open_stream
from silas.approval import ApprovalDecision, ApprovalVerdict
from silas.journal import Journal
from silas.journal.spoken import SpokenJournal
from silas.queue import Consumer, QueueName, QueueStore
from silas.storage.errors import translated
from silas.storage.files import make_private_directory
from silas.stream.cards import CardStore
from silas.stream.delivery import Deliveries
from silas.stream.ports import Live
from silas.stream.review.desk import ReviewDesk
from silas.stream.review.models import Kind
from silas.work.models import WorkItem
from silas.work.ports import Approver, Later, PausedCall

_DELIVERIES_KEPT = timedelta(days=90)
_AT_ONCE = 32
"""Deliveries; those of one conversation come one after the other."""


class AskLater:
    """`Approver` of a house with cards: calls wait for the owner, and unasked work is not begun."""

    async def decide_call(self, call: PausedCall) -> ApprovalDecision | Later:
        """Later: `silas work waiting` shows the call."""
        del call
        return Later()

    async def decide_item(self, item: WorkItem) -> ApprovalDecision:
        """No: what was not approved beforehand is not begun while nobody is there."""
        del item
        return ApprovalDecision(verdict=ApprovalVerdict.DECLINED)


@dataclass(frozen=True)
class House:
    """What a front talks to."""

    ground: Ground
    stream: Stream
    cards: CardStore
    deliveries: Deliveries
    journal: Journal
    companions: CompanionRoom
    desk: ReviewDesk
    minds: Minds

    async def warm_up(self) -> None:
        """Do now what the first message would wait for."""
        if self.minds.ready is not None:
            await self.minds.ready()
        await asyncio.to_thread(prove_guards, self.ground.settings)


@contextlib.asynccontextmanager
async def open_house(
    ground: Ground,
    *,
    environ: Mapping[str, str],
    home: Path,
    approver: Approver | None = None,
    live: Live | None = None,
    minds: Minds | None = None,
) -> AsyncIterator[House]:
    """Everything, running; at the end of the block it is taken down, and nothing is lost.

    If a gate of the configuration could not do its work, nothing is started. `minds` are instead of
    those of the settings.
    """
    _make_workspace(ground)
    queue = open_queue(ground)
    cards, deliveries = open_cards(ground, queue), Deliveries(ground.database, ground.clock)
    questions = open_questions(ground, queue)
    desk = open_desk(ground, cards, questions)
    async with (
        open_memory(ground) as memory,
        _given(minds) if minds else open_minds(ground, environ=environ, home=home) as thinking,
        open_journal(ground) as journal,
    ):
        await load_system_gates(ground, model=thinking.gate)
        context = open_context(ground, memory=memory, scorer=thinking.scorer, exact=thinking.tokens)
        learning = MemoryCards(ground, memory, questions, promoted=context.pin_defaults)
        desk.on_answer(Kind.MEMORY, learning.answered)
        rooms = Rooms(
            memory=memory.keeper,
            journal=_spoken(ground, journal),
            context=context,
            personality=open_personality(ground),
            reviews=cards,
            proactive=desk,
            gate_desk=open_gate_desk(ground, questions, live),
            approver=approver or AskLater(),
            live=live,
        )
        async with (
            open_stream(ground, thinking, rooms=rooms, queue=queue) as stream,
            open_companions(
                ground,
                journal,
                queue=queue,
                questions=questions,
                environ=environ,
                gate_model=thinking.gate,
                models=ModelGateway(ground, environ=environ),
            ) as companions,
            in_background(_channel(queue, deliveries).run()),
        ):
            desk.attach(stream.room)
            desk.on_answer(Kind.COMPANION, companions.answered)
            house = House(ground, stream, cards, deliveries, journal, companions, desk, thinking)
            jobs = [*_jobs(house, memory), *learning_jobs(learning)]
            async with in_background(Housekeeping(jobs, clock=ground.clock).run()):
                yield house


def open_cards(ground: Ground, queue: QueueStore | None = None) -> CardStore:
    """The cards of this ground floor."""
    return CardStore(
        ground.database,
        queue or open_queue(ground),
        signer=ground.keys,
        audit=ground.audit,
        clock=ground.clock,
        devices=ground.devices,
        passkeys=ground.passkeys,
    )


def _channel(queue: QueueStore, deliveries: Deliveries) -> Consumer:
    """What brings the answers from the bus to where fronts find them."""
    return Consumer(
        name="channel",
        queue=QueueName.CHANNEL,
        handler=deliveries,
        store=queue,
        concurrency=_AT_ONCE,
    )


def _spoken(ground: Ground, journal: Journal) -> SpokenJournal:
    zone = ZoneInfo(ground.settings.scheduler.timezone)
    return SpokenJournal(journal, clock=ground.clock, zone=zone)


def _make_workspace(ground: Ground) -> None:
    directory = ground.settings.planner.workspace_dir
    if directory is not None:
        with translated(str(directory)):
            make_private_directory(directory)


def _jobs(house: House, memory: MemoryRoom) -> list[PeriodicJob]:
    """What a house does again and again besides the conversation."""

    async def prune_deliveries() -> None:
        await house.deliveries.prune(_DELIVERIES_KEPT)

    return [
        PeriodicJob("decline expired cards", timedelta(minutes=1), house.cards.decline_expired),
        *desk_jobs(house.desk),
        PeriodicJob("prune deliveries", timedelta(hours=1), prune_deliveries),
        *companion_jobs(house.companions),
        *context_jobs(house.ground),
        *memory_jobs(house.ground, memory),
    ]


@contextlib.asynccontextmanager
async def _given(minds: Minds) -> AsyncIterator[Minds]:
    yield minds
