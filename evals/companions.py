"""Scorecards of companions: what each kind must do, must refuse, and must still know in weeks.

    python -m evals.companions

Scenarios are YAML (`evals.yaml`) beside each kind: tasks of a journal, what is said or decided,
and what must come of it. They are played on the real store, tools, policy and approvals; only the
clock, the owner and, where a scenario says so, the model are scripted.
"""

import asyncio
import json
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from enum import StrEnum
from importlib.resources import files
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field

from silas.companions.kinds.library import BUILT_IN
from silas.companions.messages import WakeRun
from silas.companions.models import AgentActionType
from silas.companions.ports import (
    CompanionProposal,
    CompanionRequest,
    ModelDestination,
    ProposedAction,
    ReportDraft,
)
from silas.journal.operations import ItemUpdate
from silas.journal.queries import checklists_of
from silas.kernel.models import Data
from silas.kernel.yaml_positions import load_yaml
from silas.testing import FakeClock, MemoryVault
from silas.testing.companions import (
    CompanionDevice,
    FakeGateway,
    ScriptedModel,
    open_device,
    restarted,
)


class Suite(StrEnum):
    """What a scenario is about."""

    GOLDEN = "golden"
    ADVERSARIAL = "adversarial"
    DRIFT = "drift"


class TaskSetup(Data):
    """A task in the journal. `ref` is how the scenario names it: `@ref` is its id."""

    ref: str
    title: str
    category: str = "gym"
    steps: tuple[str, ...] = ()
    due_in_hours: int | None = None
    minutes: int = 0
    """Time that was logged on it, until now."""
    rating: float | None = None
    estimate: int | None = None


class Step(Data):
    """One thing that happens; exactly one of them."""

    finish: str | None = None
    say: str | None = None
    wake: bool = False
    days: int = 0
    """How many days pass."""
    minutes: int = 0
    """How many minutes pass."""
    tick: str | None = None
    """Every step of this task is done."""
    approve: bool = False
    """The owner says yes to everything that waits."""
    answer: str | None = None
    """The owner answers every open question with this."""
    crash: bool = False
    """The process ends and begins again."""


class ScriptedAction(Data):
    """What a model that was talked into something answers. `$gym` is a category, `@ref` a task."""

    tool: str
    arguments: dict[str, Any] = Field(default_factory=dict)


class Expectation(Data):
    """What must be so in the end; what is not named is not looked at."""

    tools: tuple[str, ...] | None = None
    """The tools that were called as actions, in order."""
    codes: tuple[str | None, ...] | None = None
    """How the calls ended, in order."""
    run_code: str | None = None
    """How the last run ended, if not well."""
    tasks: tuple[str, ...] | None = None
    """The titles of all tasks."""
    unchanged: bool = False
    """The companion has changed nothing in the journal."""
    nothing_sent: bool = False
    """No request has left for a model's host."""
    report_mentions: tuple[str, ...] = ()
    report_omits: tuple[str, ...] = ()
    questions: int | None = None
    waiting: int | None = None
    most_memory: int | None = None
    """The most messages that the last request held."""
    logged_minutes: int | None = None
    replay_matches: bool = False
    open_tasks: tuple[str, ...] | None = None
    """The titles of the tasks that are not closed."""
    report_scope: str | None = None
    """Which scope the report that its kind writes is filed under."""
    report_by_model: bool | None = None
    """Whether the report is the one that the model has written."""


class Scenario(Data):
    """One scenario."""

    name: Annotated[str, Field(pattern="^[a-z][a-z0-9_]+$")]
    suite: Suite
    tasks: tuple[TaskSetup, ...] = ()
    model: tuple[ScriptedAction, ...] | None = None
    """What a model answers in the first round; None: the offline brain."""
    model_report: ReportDraft | None = None
    """What a model reports; `@ref` in a source is the id of a task."""
    cloud: bool = False
    """The model is at a host, and nobody has agreed to it."""
    repeat: int = Field(default=1, ge=1, le=60)
    """How often the steps are taken."""
    steps: tuple[Step, ...]
    expect: Expectation


class ScenarioBook(Data):
    """The scenarios of a kind, and how many of each suite must hold."""

    thresholds: dict[Suite, Annotated[float, Field(ge=0, le=1)]]
    scenarios: Annotated[tuple[Scenario, ...], Field(min_length=1)]


def scenarios_of(kind: str) -> ScenarioBook:
    """The scenarios of a kind that comes with Silas."""
    text = (files("silas.companions.kinds") / kind / "evals.yaml").read_text("utf-8")
    return ScenarioBook.model_validate(load_yaml(text).value)


KINDS = BUILT_IN


_CLOUD = ModelDestination(provider="cloud", model="large", host="api.cloud.example")


@dataclass
class Stage:
    """One scenario on its way."""

    kind: str
    scenario: Scenario
    device: CompanionDevice
    gateway: FakeGateway
    agent: str = ""
    refs: dict[str, str] = field(default_factory=dict)
    runs: list[str] = field(default_factory=list)

    async def play(self) -> list[str]:
        """What is not as expected; empty if all is."""
        await self._set_up()
        for _ in range(self.scenario.repeat):
            for step in self.scenario.steps:
                await self._take(step)
        return await self._problems()

    async def _set_up(self) -> None:
        device, cloud = self.device, self.scenario.cloud
        for each in self.scenario.tasks:
            due = device.clock.now() + timedelta(hours=each.due_in_hours or 0)
            task = await device.task(
                each.title,
                each.category,
                checklist_items=each.steps,
                due_at=due if each.due_in_hours is not None else None,
            )
            self.refs[each.ref] = task
            if each.minutes:
                began = device.clock.now() - timedelta(minutes=each.minutes)
                await device.do(
                    "create_retrospective_time_entry",
                    task_id=task,
                    started_at=began,
                    ended_at=device.clock.now(),
                )
            if each.estimate is not None:
                await device.do(
                    "update_task_estimate", task_id=task, estimate_minutes=each.estimate
                )
            if each.rating is not None:
                await device.do(
                    "create_or_update_rating", target_id=task, dimension="energy", value=each.rating
                )
        made = await device.service.new(
            self.kind,
            category_ids=[device.categories["gym"]],
            model_id=_CLOUD.model_id if cloud else None,
        )
        self.agent = made.id

    async def _take(self, step: Step) -> None:
        device = self.device
        if step.days:
            device.clock.advance(days=step.days)
        device.clock.advance(minutes=step.minutes)
        if step.tick is not None:
            await self._tick(self.refs[step.tick])
        if step.finish is not None:
            await self._finish(step.finish)
        if step.say is not None or step.wake:
            await device.service.wake(self.agent, said=step.say)
        if step.answer is not None:
            for question in await device.service.questions(self.agent):
                await device.service.answer(question.id, step.answer)
        if step.crash:
            self.device = device = await restarted(device)
        self.runs += await device.work()
        if step.approve:
            for each in await device.service.waiting(self.agent):
                await device.approvals.approve(each.operation_id)
                await device.service.decided(each.operation_id)

    async def _tick(self, task_id: str) -> None:
        found = await self.device.journal.read(lambda view: checklists_of(view, task_id))
        updates = [ItemUpdate(id=item.id, checked=True) for _, items in found for item in items]
        await self.device.do("update_checklist_items", updates=tuple(updates))
        await self.device.journal.settled()

    async def _finish(self, ref: str) -> None:
        """Finish a task; in a repetition a new one of the same title."""
        setup = next(each for each in self.scenario.tasks if each.ref == ref)
        task = await self.device.journal.list_tasks()
        if self.refs[ref] not in {each.id for each in task}:
            self.refs[ref] = await self.device.task(
                setup.title, setup.category, checklist_items=setup.steps
            )
        await self.device.finish(self.refs[ref])

    async def _problems(self) -> list[str]:
        seen, wanted = await self._seen(), self.scenario.expect
        named = {name: getattr(wanted, name) for name in wanted.model_fields_set & seen.keys()}
        found = [
            f"{name}: expected {value!r}, got {seen[name]!r}"
            for name, value in sorted(named.items())
            if seen[name] != value
        ]
        report = str(seen["report"])
        found += [
            f"the report omits {each!r}" for each in wanted.report_mentions if each not in report
        ]
        found += [f"the report says {each!r}" for each in wanted.report_omits if each in report]
        if wanted.most_memory is not None and seen["memory"] > wanted.most_memory:
            found.append(f"{seen['memory']} messages were remembered at once")
        return found

    async def _seen(self) -> dict[str, Any]:
        device, agent = self.device, self.agent
        traces = [await device.service.trace(key) for key in self.runs]
        calls = [call for trace in traces for call in trace.tool_calls]
        ended = await device.store.get(WakeRun, self.runs[-1]) if self.runs else None
        report = await device.service.report(agent)
        rows = await device.journal_db.fetch_all(
            "SELECT 1 FROM batches WHERE actor = ?", (f"companion:{agent}",)
        )
        requests = [each for trace in traces for each in trace.inputs["requests"]]
        entries = await device.journal.time_entries(
            device.clock.now() - timedelta(days=90), device.clock.now()
        )
        logged = sum(
            (each.ended_at - each.started_at).total_seconds() for each in entries if each.ended_at
        )
        replays = [await device.service.replay(key) for key in self.runs]
        return {
            "tools": tuple(call.tool_name for call in calls),
            "codes": tuple(call.error_code for call in calls),
            "run_code": ended.error_code if ended else None,
            "tasks": tuple(sorted(each.title for each in await device.tasks())),
            "unchanged": not rows,
            "nothing_sent": not self.gateway.sent,
            "questions": len(await device.service.questions(agent)),
            "waiting": len(await device.service.waiting(agent)),
            "report": json.dumps(report.report.content, ensure_ascii=False) if report else "",
            "memory": max((_remembered(each) for each in requests[-1:]), default=0),
            "logged_minutes": round(logged / 60),
            "replay_matches": all(each.matches for each in replays),
            "open_tasks": tuple(
                sorted(each.title for each in await device.tasks() if not each.closed)
            ),
            "report_scope": report.report.scope.value if report else None,
            "report_by_model": report is not None
            and self.scenario.model_report is not None
            and report.report.content["headline"] == self.scenario.model_report.headline,
        }


async def play(kind: str, scenario: Scenario, folder: Path) -> list[str]:
    """Play a scenario in an empty folder; returns what is not as expected."""
    script: dict[str, Stage] = {}
    model = ScriptedModel(lambda request: _answer(script["stage"], request))
    gateway = FakeGateway(model if scenario.model is not None else None, _CLOUD)
    device = await open_device(folder, clock=FakeClock(), vault=MemoryVault(), gateway=gateway)
    stage = script["stage"] = Stage(kind, scenario, device, gateway)
    try:
        return await stage.play()
    finally:
        await stage.device.close()


def _answer(stage: Stage, request: CompanionRequest) -> CompanionProposal:
    """What the scripted model says: everything at once, then nothing more."""
    if request.round > 0:
        return CompanionProposal()
    names = {f"${name}": each for name, each in stage.device.categories.items()}
    names |= {f"@{name}": each for name, each in stage.refs.items()}
    return CompanionProposal(
        actions=tuple(
            ProposedAction(
                action_type=AgentActionType.TOOL_CALL,
                tool_name=each.tool,
                arguments=_filled(each.arguments, names),
            )
            for each in stage.scenario.model or ()
        ),
        report=_report(stage.scenario.model_report, names),
    )


def _report(draft: ReportDraft | None, names: Mapping[str, str]) -> ReportDraft | None:
    if draft is None:
        return None
    text = draft.model_dump_json()
    for name, each in names.items():
        text = text.replace(f':{name}"', f':{each}"')
    return ReportDraft.model_validate_json(text)


def _filled(value: Any, names: Mapping[str, str]) -> Any:
    if isinstance(value, dict):
        return {key: _filled(each, names) for key, each in value.items()}
    if isinstance(value, list):
        return [_filled(each, names) for each in value]
    return names.get(value, value) if isinstance(value, str) else value


def _remembered(payload: Mapping[str, Any]) -> int:
    memory = payload.get("memory", {})
    return len(memory.get("recent", ())) + len(memory.get("summaries", ()))


class Scorecard(Data):
    """How a kind has done."""

    kind: str
    scores: dict[Suite, float]
    thresholds: dict[Suite, float]
    failures: dict[str, list[str]]
    """What was not as expected, by scenario."""

    @property
    def passed(self) -> bool:
        """Whether every suite reaches its threshold, and there is at least one of each."""
        return all(
            self.scores.get(suite, 0.0) >= self.thresholds.get(suite, 1.0) for suite in Suite
        )


async def scorecard(kind: str, folder: Path, *, book: ScenarioBook | None = None) -> Scorecard:
    """Play every scenario of a kind."""
    scenarios = book or scenarios_of(kind)
    failures: dict[str, list[str]] = {}
    held: dict[Suite, list[bool]] = {}
    for scenario in scenarios.scenarios:
        place = Path(await asyncio.to_thread(tempfile.mkdtemp, dir=folder))
        problems = await play(kind, scenario, place)
        held.setdefault(scenario.suite, []).append(not problems)
        if problems:
            failures[scenario.name] = problems
    return Scorecard(
        kind=kind,
        scores={suite: sum(each) / len(each) for suite, each in held.items()},
        thresholds=scenarios.thresholds,
        failures=failures,
    )


async def _all(folder: Path) -> list[Scorecard]:
    return [await scorecard(kind, folder) for kind in KINDS]


def main() -> int:
    """Play everything, print what came of it; 1 if a threshold was missed."""
    with tempfile.TemporaryDirectory() as folder:
        cards = asyncio.run(_all(Path(folder)))
    for card in cards:
        told = ", ".join(f"{suite} {score:.0%}" for suite, score in sorted(card.scores.items()))
        print(f"{card.kind}: {told}")
        for name, problems in card.failures.items():
            print(*(f"  {name}: {each}" for each in problems), sep="\n")
    return 0 if all(card.passed for card in cards) else 1


if __name__ == "__main__":
    sys.exit(main())
