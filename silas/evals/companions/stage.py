"""Plays one scenario, and says what came of it."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any

from silas.companions.models import AgentActionType, WakeRun
from silas.companions.ports import CompanionRequest, Destination
from silas.companions.proposals import CompanionProposal, ProposedAction
from silas.evals.companions.scenarios import Scenario, Step
from silas.testing import FakeClock, MemoryVault
from silas.testing.companion_room import Room, open_room, restarted
from silas.testing.companions import FakeGateway, ScriptedModel

_CLOUD = Destination(provider="cloud", model="large", host="api.cloud.example")


@dataclass
class Stage:
    """One scenario on its way."""

    kind: str
    scenario: Scenario
    room: Room
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
        room, cloud = self.room, self.scenario.cloud
        for each in self.scenario.tasks:
            due = room.clock.now() + timedelta(hours=each.due_in_hours or 0)
            task = await room.task(
                each.title,
                each.category,
                checklist_items=each.steps,
                due_at=due if each.due_in_hours is not None else None,
            )
            self.refs[each.ref] = task
            if each.minutes:
                began = room.clock.now() - timedelta(minutes=each.minutes)
                await room.do(
                    "create_retrospective_time_entry",
                    task_id=task,
                    started_at=began,
                    ended_at=room.clock.now(),
                )
            if each.rating is not None:
                await room.do(
                    "create_or_update_rating", target_id=task, dimension="energy", value=each.rating
                )
        made = await room.desk.new(
            self.kind,
            category_ids=[room.categories["gym"]],
            model_id=_CLOUD.model_id if cloud else None,
        )
        self.agent = made.id

    async def _take(self, step: Step) -> None:
        room = self.room
        if step.days:
            room.clock.advance(days=step.days)
        if step.finish is not None:
            await self._finish(step.finish)
        if step.say is not None or step.wake:
            await room.desk.wake(self.agent, said=step.say)
        if step.answer is not None:
            for question in await room.desk.questions(self.agent):
                await room.desk.answer(question.id, step.answer)
        if step.crash:
            self.room = room = await restarted(room)
        self.runs += await room.work()
        if step.approve:
            for each in await room.desk.waiting(self.agent):
                await room.approvals.approve(each.operation_id)
                await room.desk.decided(each.operation_id)

    async def _finish(self, ref: str) -> None:
        """Finish a task; in a repetition a new one of the same title."""
        setup = next(each for each in self.scenario.tasks if each.ref == ref)
        task = await self.room.journal.list_tasks()
        if self.refs[ref] not in {each.id for each in task}:
            self.refs[ref] = await self.room.task(
                setup.title, setup.category, checklist_items=setup.steps
            )
        await self.room.finish(self.refs[ref])

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
        room, agent = self.room, self.agent
        traces = [await room.desk.trace(key) for key in self.runs]
        calls = [call for trace in traces for call in trace.tool_calls]
        ended = await room.store.get(WakeRun, self.runs[-1]) if self.runs else None
        report = await room.desk.report(agent)
        rows = await room.journal_db.fetch_all(
            "SELECT 1 FROM batches WHERE actor = ?", (f"companion:{agent}",)
        )
        requests = [each for trace in traces for each in trace.inputs["requests"]]
        entries = await room.journal.time_entries(
            room.clock.now() - timedelta(days=90), room.clock.now()
        )
        logged = sum(
            (each.ended_at - each.started_at).total_seconds() for each in entries if each.ended_at
        )
        replays = [await room.desk.replay(key) for key in self.runs]
        return {
            "tools": tuple(call.tool_name for call in calls),
            "codes": tuple(call.error_code for call in calls),
            "run_code": ended.error_code if ended else None,
            "tasks": tuple(sorted(each.title for each in await room.tasks())),
            "unchanged": not rows,
            "nothing_sent": not self.gateway.sent,
            "questions": len(await room.desk.questions(agent)),
            "waiting": len(await room.desk.waiting(agent)),
            "report": json.dumps(report.report.content, ensure_ascii=False) if report else "",
            "memory": max((_remembered(each) for each in requests[-1:]), default=0),
            "logged_minutes": round(logged / 60),
            "replay_matches": all(each.matches for each in replays),
        }


async def play(kind: str, scenario: Scenario, folder: Path) -> list[str]:
    """Play a scenario in an empty folder; returns what is not as expected."""
    script: dict[str, Stage] = {}
    model = ScriptedModel(lambda request: _answer(script["stage"], request))
    gateway = FakeGateway(model if scenario.model is not None else None, _CLOUD)
    room = await open_room(folder, clock=FakeClock(), vault=MemoryVault(), gateway=gateway)
    stage = script["stage"] = Stage(kind, scenario, room, gateway)
    try:
        return await stage.play()
    finally:
        await stage.room.close()


def _answer(stage: Stage, request: CompanionRequest) -> CompanionProposal:
    """What the scripted model says: everything at once, then nothing more."""
    if request.round > 0:
        return CompanionProposal()
    names = {f"${name}": each for name, each in stage.room.categories.items()}
    names |= {f"@{name}": each for name, each in stage.refs.items()}
    return CompanionProposal(
        actions=tuple(
            ProposedAction(
                action_type=AgentActionType.TOOL_CALL,
                tool_name=each.tool,
                arguments=_filled(each.arguments, names),
            )
            for each in stage.scenario.model or ()
        )
    )


def _filled(value: Any, names: Mapping[str, str]) -> Any:
    if isinstance(value, dict):
        return {key: _filled(each, names) for key, each in value.items()}
    if isinstance(value, list):
        return [_filled(each, names) for each in value]
    return names.get(value, value) if isinstance(value, str) else value


def _remembered(payload: Mapping[str, Any]) -> int:
    memory = payload.get("memory", {})
    return len(memory.get("recent", ())) + len(memory.get("summaries", ()))
