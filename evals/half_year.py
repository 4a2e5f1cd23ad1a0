"""Half a year with four companions, and what they still know of it.

    python -m evals.half_year [--changes 5000] [--days 182] [--questions 100] [--seed 7]

A seeded journal (work, training, family) changes, companions wake by changes and by their timers,
ask and propose, an owner decides and talks, and what has been kept long enough goes; everything is
real but the clock, the owner and, with `--model`, the model, which answers from what it is told. In
the end it is counted what that was like for the owner, and whether

1. every run has its end and its receipt, a trace, and every write of a companion an operation that
   was decided;
2. no effect was made twice;
3. no card and no question repeats one that waits, no card one that was declined within a week;
4. a question about the half year ("why did we move the long run?") finds the right message. What is
   asked is worded otherwise than what was said, and many messages are about the same thing.
"""

import argparse
import asyncio
import json
import random
import sys
import tempfile
from collections import Counter
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import product
from pathlib import Path

from silas.companions.messages import AgentOperation, RunTrace, WakeRun
from silas.companions.models import OperationStatus, WakeStatus
from silas.companions.ports import CompanionProposal, CompanionRequest, ModelUsage
from silas.companions.retention import Retention
from silas.kernel.models import Data
from silas.testing import FakeClock, MemoryVault
from silas.testing.companions import (
    CompanionDevice,
    FakeGateway,
    ScriptedModel,
    open_device,
)

_ASKED_IN_A_DAY = 15
"""More, and the budget of a day (100,000 tokens) is used up before the last one is answered."""
_LET_GO_EVERY = 7
KINDS = (("planner", "work"), ("gym_coach", "gym"), ("strategist", "work"), ("planner", "family"))
_TITLES = {
    "work": ("Write the offer", "Call the client", "Review the budget", "Answer the audit"),
    "gym": ("Squats", "Long run", "Bench press", "Stretching"),
    "family": ("Buy a present", "Book the dentist", "School trip", "Visit grandma"),
}
_TOPICS = (
    ("long run", "the long run"), ("bench press", "bench press"), ("squats", "squats"),
    ("swimming", "the swim"), ("offer", "the offer"), ("audit", "the audit"),
    ("dentist", "the dentist"), ("holiday", "the holiday"), ("budget", "the budget"),
    ("piano lessons", "the piano lessons"),
)  # fmt: skip
_DEEDS = (
    ("We move {} to Sunday", "why did we move {}?"),
    ("We skip {} for two weeks", "why are we skipping {}?"),
    ("I halve the time for {}", "what made me halve {}?"),
    ("We begin {} an hour earlier", "why does {} begin earlier?"),
    ("I hand {} over to Kim", "why did I hand over {}?"),
    ("We do {} together with Ada", "why is {} together with Ada?"),
    ("I pay more for {}", "why do I pay more for {}?"),
    ("We write {} down each evening", "why do we write {} down?"),
    ("I repeat {} on Fridays", "why do I repeat {}?"),
    ("We stop {} until spring", "why did we stop {}?"),
)
_REASONS = (
    "my knee hurts", "the pool is closed", "the client asked for it", "the trains are late",
    "school begins at eight", "money is short", "the doctor said so", "it rains all month",
    "the deadline moved", "the heating broke",
)  # fmt: skip


class HalfYear(Data):
    """What came of it. What is wrong is listed; the rest is counted."""

    changes: int
    runs: int
    wakes_per_day: float
    tokens: int
    cards_per_day: float
    questions_asked: int
    answers: int
    reports: int
    failed_runs: int
    wrong: tuple[str, ...]
    recall_at_1: float
    recall_at_5: float
    missed: tuple[str, ...]


@dataclass
class _World:
    device: CompanionDevice
    random: random.Random
    agents: dict[str, str] = field(default_factory=dict)
    open_tasks: list[tuple[str, str]] = field(default_factory=list)
    changes: int = 0
    cards: list[tuple[str, str, datetime]] = field(default_factory=list)
    declined: dict[str, datetime] = field(default_factory=dict)
    wrong: list[str] = field(default_factory=list)
    seen: set[str] = field(default_factory=set)
    failed: int = 0
    tokens: int = 0

    async def begin(self) -> None:
        for name in ("family",):
            await self.device.category(name)
        for number, (kind, category) in enumerate(KINDS):
            made = await self.device.service.new(
                kind, category_ids=[self.device.categories[category]]
            )
            self.agents[f"{kind} {number}"] = made.id

    async def change(self) -> None:
        """One change of the owner's."""
        device, dice = self.device, self.random
        self.changes += 1
        what = dice.random()
        if what < 0.45 or not self.open_tasks:
            category = dice.choice(list(_TITLES))
            title = f"{dice.choice(_TITLES[category])} {self.changes}"
            due = device.clock.now() + timedelta(days=dice.randint(-1, 12))
            steps = ("first", "second") if dice.random() < 0.3 else ()
            task = await device.task(title, category, due_at=due, checklist_items=steps)
            self.open_tasks.append((task, category))
        elif what < 0.8:
            task, _ = self.open_tasks.pop(dice.randrange(len(self.open_tasks)))
            await device.do("update_task_fields", task_id=task, fields={"status": "done"})
        else:
            task, _ = dice.choice(self.open_tasks)
            now = device.clock.now()
            await device.do(
                "create_retrospective_time_entry",
                task_id=task,
                started_at=now - timedelta(minutes=dice.randint(10, 90)),
                ended_at=now,
            )

    async def decide(self) -> None:
        """The owner looks at what waits: most is approved, some declined, some left."""
        device, dice = self.device, self.random
        await self._see_repetitions()
        for each in await device.service.waiting():
            key = json.dumps([each.agent_id, each.tool_name, each.arguments], sort_keys=True)
            if each.status == "waiting" and all(each.operation_id != op for op, _, _ in self.cards):
                self._see_card(each.operation_id, key)
            if each.status != "waiting" or dice.random() < 0.3:
                continue
            if dice.random() < 0.7:
                await device.approvals.approve(each.operation_id)
            else:
                device.approvals.decline(each.operation_id)
                self.declined[key] = device.clock.now()
            await device.service.decided(each.operation_id)
        for question in await device.service.questions():
            choice = question.options[0] if question.options else None
            if question.interaction_type == "yes_no":
                choice = dice.choice(["yes", "no"])
            if dice.random() < 0.6:
                await device.service.answer(question.id, choice or "log 30 minutes on it")

    async def _see_repetitions(self) -> None:
        """Rule 3: what waits, and what is asked, is there once."""
        service = self.device.service
        cards = [
            json.dumps([each.agent_id, each.tool_name, each.arguments], sort_keys=True)
            for each in await service.waiting()
        ]
        asked = [f"{each.agent_id}: {each.prompt_text}" for each in await service.questions()]
        repeated = [each for each, count in Counter([*cards, *asked]).items() if count > 1]
        self.wrong += [f"it waits twice: {each}" for each in repeated]

    def _see_card(self, operation_id: str, key: str) -> None:
        now = self.device.clock.now()
        said_no = self.declined.get(key)
        if said_no is not None and now - said_no < timedelta(days=7):
            self.wrong.append(f"a card came back after a no: {key}")
        self.cards.append((operation_id, key, now))

    async def let_go(self) -> None:
        """Count the runs, look for their receipts, and let go of what was kept long enough."""
        store = self.device.store
        traced = {each.run_key: each for each in await store.find(RunTrace)}
        for run in await store.find(WakeRun):
            if run.absorbed_into is not None or run.run_key in self.seen:
                continue
            self.seen.add(run.run_key)
            self.failed += run.status is WakeStatus.FAILED_TERMINAL
            if run.start_count and run.run_key not in traced:
                self.wrong.append(f"no receipt of the run {run.run_key}")
            elif run.start_count:
                self.tokens += traced[run.run_key].usage.tokens
        await Retention(store).prune()

    async def check(self) -> None:
        """Rules 1 and 2."""
        await self.let_go()
        store = self.device.store
        runs = {each.run_key: each for each in await store.find(WakeRun)}
        self.wrong += [
            f"not at its end: {each.run_key}"
            for each in runs.values()
            if each.absorbed_into is None and not each.status.is_terminal
        ]
        done = [
            each
            for each in await store.find(AgentOperation)
            if each.status is OperationStatus.DONE and each.approvable is not None
        ]
        rows = await self.device.journal_db.fetch_all(
            "SELECT count(*) FROM batches WHERE actor LIKE 'companion:%'"
        )
        if rows[0][0] > len(await store.find(AgentOperation)):
            self.wrong.append("a companion has written what no operation knows")
        effects = Counter(
            json.dumps([each.agent_id, each.run_key, each.call.get("arguments")], sort_keys=True)
            for each in done
        )
        self.wrong += [f"done twice: {key}" for key, count in effects.items() if count > 1]


async def half_year(
    folder: Path,
    *,
    changes: int,
    days: int,
    questions: int,
    seed: int,
    model: bool = False,
) -> HalfYear:
    """Live it, then ask."""
    scripted = ScriptedModel(_answering) if model else None
    device = await open_device(
        folder, clock=FakeClock(), vault=MemoryVault(), gateway=FakeGateway(scripted)
    )
    world = _World(device, random.Random(seed))
    try:
        await world.begin()
        said = _said(questions, seed)
        coach = world.agents["gym_coach 1"]
        for day in range(days):
            device.clock.advance(days=1)
            await device.companions.alarms.tick()
            await device.work()
            for _ in range(changes * (day + 1) // days - changes * day // days):
                await world.change()
            await device.journal.settled()
            await device.work()
            await world.decide()
            for words, _, _ in said[len(said) * day // days : len(said) * (day + 1) // days]:
                await _talk(device, coach, words)
            await device.service.end_conversation(coach)
            await device.companions.compactor.work()
            await device.work()
            await device.service.expire()
            if day % _LET_GO_EVERY == 0:
                await world.let_go()
        found = []
        for number, (_, asked, right) in enumerate(said):
            if number % _ASKED_IN_A_DAY == 0:
                device.clock.advance(days=1)
            found.append((asked, right, await _recalled(world, coach, asked)))
        await world.check()
        return await _counted(world, days, found)
    finally:
        await device.close()


def _said(count: int, seed: int) -> list[tuple[str, str, str]]:
    """What the owner says, how it is asked for later, and what the answer must hold."""
    dice = random.Random(seed)
    pairs = dice.sample(list(product(_TOPICS, _DEEDS)), count)
    made = []
    for (said_name, asked_name), (deed, asked) in pairs:
        right = f"{deed.format(said_name)} because {dice.choice(_REASONS)}."
        made.append((right, asked.format(asked_name), right.rstrip(".")))
    return made


async def _talk(device: CompanionDevice, agent: str, words: str) -> str:
    device.clock.advance(seconds=30)
    key = (await device.service.say(agent, words)).run_key
    await device.work()
    return key


async def _recalled(world: _World, agent: str, asked: str) -> list[str]:
    """What a run is told of its own history when it is asked; and it says so."""
    device = world.device
    await device.service.end_conversation(agent)
    trace = await device.service.trace(await _talk(device, agent, asked))
    lines = [str(each["text"]) for each in trace.inputs["requests"][0]["memory"]["recalled"]]
    (turn,) = [
        each
        for each in (await device.service.conversation(agent, limit=1)).turns
        if each.run_key == trace.run_key
    ]
    if lines and lines[0] not in turn.text:
        world.wrong.append(f"it was told, and did not say: {asked}")
    return lines


def _answering(request: CompanionRequest) -> CompanionProposal:
    """A model that says what it is told of its own history, and nothing else."""
    recalled = request.payload.get("memory", {}).get("recalled", [])
    said = request.payload.get("wake", {}).get("said")
    words = "\n".join(str(each["text"]) for each in recalled[:3]) if said else ""
    return CompanionProposal(thought=words, usage=ModelUsage(tokens=len(str(request.payload)) // 4))


async def _counted(world: _World, days: int, found: list[tuple[str, str, list[str]]]) -> HalfYear:
    store, service = world.device.store, world.device.service
    reports = [await service.report(agent) for agent in world.agents.values()]
    first = [asked for asked, right, lines in found if not any(right in x for x in lines[:1])]
    five = [asked for asked, right, lines in found if not any(right in x for x in lines[:5])]
    count = max(1, len(found))
    questions = await store.database.fetch_all("SELECT count(*) FROM agent_prompt_items")
    answers = await store.database.fetch_all("SELECT count(*) FROM agent_prompt_responses")
    return HalfYear(
        changes=world.changes,
        runs=len(world.seen),
        wakes_per_day=round(len(world.seen) / days, 2),
        tokens=world.tokens,
        cards_per_day=round(len(world.cards) / days, 2),
        questions_asked=int(questions[0][0]),
        answers=int(answers[0][0]),
        reports=sum(each is not None for each in reports),
        failed_runs=world.failed,
        wrong=tuple(world.wrong),
        recall_at_1=round(1 - len(first) / count, 3),
        recall_at_5=round(1 - len(five) / count, 3),
        missed=tuple(five),
    )


LEAST_RECALL = 0.9
"""Of the right message among the five that are told."""


def main(arguments: list[str] | None = None) -> int:
    """Print what came of it; 1 if something is wrong or too little was recalled."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--changes", type=int, default=5_000)
    parser.add_argument("--days", type=int, default=182)
    parser.add_argument("--questions", type=int, default=100)
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--model", action="store_true")
    given = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as folder:
        done = asyncio.run(half_year(Path(folder), **vars(given)))
    print(json.dumps(done.model_dump(), indent=1, ensure_ascii=False))
    return int(bool(done.wrong) or done.recall_at_5 < LEAST_RECALL)


if __name__ == "__main__":
    sys.exit(main())
