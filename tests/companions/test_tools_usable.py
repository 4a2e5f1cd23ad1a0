"""Every tool can be used by a model that sees only what the reading tools give it."""

from collections.abc import AsyncIterator, Callable
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from silas.companions.kinds.library import BUILT_IN, KindLibrary
from silas.companions.messages import PolicyDecisions
from silas.companions.models import WakeReason
from silas.companions.ports import CompanionProposal, CompanionRequest, ProposedAction
from silas.companions.tools.catalogue import companion_tools
from silas.journal.operations import BlockInput
from silas.testing.companions import CompanionDevice, FakeGateway, ScriptedModel, opened_device
from tests.companions.test_tools import KIND
from tests.companions.test_workflow import call

REGISTRY = companion_tools()
OFFERED = [each for each in REGISTRY.tools.values() if each.offered]
SEEN = (None, "confirmation_required")


class Payload:
    """What a model was told, and nothing else."""

    def __init__(self, request: CompanionRequest) -> None:
        self.request = request
        self.facts = request.payload["facts"]
        self.now = datetime.fromisoformat(request.payload["now"])
        self.day = self.now.date().isoformat()

    def one(self, kind: str, fits: Callable[[dict[str, Any]], Any] = lambda fact: True) -> Any:
        return next(each for each in self.facts if each["kind"] == kind and fits(each))

    @property
    def task(self) -> str:
        """An open task that has steps."""
        return str(self.listed["id"])

    @property
    def listed(self) -> dict[str, Any]:
        fact: dict[str, Any] = self.one("task", lambda each: len(each["checklists"]) > 1)
        return fact

    @property
    def step(self) -> dict[str, Any]:
        found: dict[str, Any] = self.listed["checklists"][0]["items"][0]
        return found

    @property
    def block(self) -> dict[str, Any]:
        start = self.now + timedelta(hours=2)
        end = start + timedelta(hours=1)
        times = {"start_time": start.isoformat(), "end_time": end.isoformat()}
        return {**times, "task_id": self.task}


def _rated(kind: str) -> Callable[[Payload], dict[str, Any]]:
    def form(seen: Payload) -> dict[str, Any]:
        target = {"target_type": kind, "target_id": seen.one(kind)["id"]}
        return {**target, "dimension": "energy", "value": 7}

    return form


FORMS: dict[str, Callable[[Payload], dict[str, Any]]] = {
    "list_allowed_categories": lambda seen: {},
    "list_tasks_in_scope": lambda seen: {"category_id": seen.one("category")["id"]},
    "resolve_task_reference": lambda seen: {"reference": seen.one("task")["title"]},
    "get_time_summary": lambda seen: {"days": 30},
    "get_day_plan": lambda seen: {"plan_date": seen.day},
    "get_ratings_summary": lambda seen: {"dimension": seen.one("ratings")["dimension"]},
    "get_rating_for_target": lambda seen: {"target_type": "task", "target_id": seen.task},
    "set_task_language": lambda seen: {"task_id": seen.task, "language": "de"},
    "update_task_estimate": lambda seen: {"task_id": seen.task, "estimate_minutes": 30},
    "update_task_due_date": lambda seen: {"task_id": seen.task, "due_at": seen.now.isoformat()},
    "update_task_priority": lambda seen: {"task_id": seen.task, "priority": "P1"},
    "assign_task_labels": lambda seen: {"task_id": seen.task, "labels": ["legs"]},
    "create_task": lambda seen: {"category_id": seen.listed["category_id"], "title": "New"},
    "update_task_fields": lambda seen: {"task_id": seen.task, "title": "Deep squats"},
    "create_follow_up_task": lambda seen: {
        "source_task_id": seen.task,
        "new_task_title": "Next",
        "carry_over_open_checklist_items": False,
    },
    "conclude_task_with_rollover": lambda seen: {"task_id": seen.task},
    "add_multiple_checklist_items": lambda seen: {
        "task_id": seen.task, "checklist_id": seen.listed["checklists"][1]["id"], "items": ["Rest"],
    },
    "update_checklist_items": lambda seen: {
        "changes": [{"item_id": seen.step["id"], "checked": not seen.step["checked"]}]
    },
    "create_checklist": lambda seen: {"task_id": seen.task, "title": "More"},
    "move_checklist_items": lambda seen: {
        "item_ids": [seen.step["id"]],
        "from_checklist_id": seen.listed["checklists"][0]["id"],
        "to_checklist_id": seen.listed["checklists"][1]["id"],
    },
    "move_checklist_items_to_new_task": lambda seen: {
        "item_ids": [seen.step["id"]],
        "from_checklist_id": seen.listed["checklists"][0]["id"],
        "new_task_title": "Out of the list",
    },
    "create_retrospective_time_entry": lambda seen: {
        "task_id": seen.task,
        "started_at": (seen.now - timedelta(hours=1)).isoformat(),
        "ended_at": seen.now.isoformat(),
    },
    "start_task_timer": lambda seen: {"task_id": seen.task},
    "stop_task_timer": lambda seen: {
        "task_id": seen.one("time_entry", lambda each: each["ends_at"] is None)["task_id"]
    },
    "annotate_time_entry": lambda seen: {
        "time_entry_id": seen.one("time_entry")["id"], "note": "Heavy",
    },
    "get_or_create_day_plan": lambda seen: {"plan_date": seen.day},
    "upsert_day_plan_blocks": lambda seen: {
        "plan_date": seen.day,
        "upserts": [seen.block],
        "deletes": [seen.one("day_block")["id"]],
    },
    "pin_day_plan_tasks": lambda seen: {"plan_date": seen.day, "task_ids": [seen.task]},
    "replan_day_blocks": lambda seen: {"plan_date": seen.day, "blocks": [seen.block]},
    "create_or_update_rating": _rated("task"),
}  # fmt: skip


class Ideal:
    """A device with something of everything, and a companion that may use every tool."""

    def __init__(self, device: CompanionDevice, model: ScriptedModel, agent: str) -> None:
        self.device, self.model, self.agent = device, model, agent

    async def uses(self, tool: str, form: Callable[[Payload], dict[str, Any]]) -> Any:
        """The result of a call whose arguments were made from what the first round has read."""

        def second(request: CompanionRequest) -> CompanionProposal:
            return CompanionProposal(actions=(call(tool, **form(Payload(request))),))

        results = await self.play(second)
        return results[-1]

    async def play(self, *rounds: Callable[[CompanionRequest], CompanionProposal]) -> Any:
        def first(request: CompanionRequest) -> CompanionProposal:
            day = str(request.payload["now"])[:10]
            reads: tuple[ProposedAction, ...] = (
                call("list_allowed_categories"),
                call("list_tasks_in_scope"),
                call("get_time_summary", entries=20),
                call("get_ratings_summary"),
                call("get_day_plan", plan_date=day),
            )
            return CompanionProposal(actions=reads)

        self.model._answers[:] = [first, *rounds, CompanionProposal()]
        self.device.clock.advance(minutes=1)
        woken = await self.device.service.wake(self.agent)
        await self.device.work()
        trace = await self.device.service.trace(woken.run_key)
        assert trace.error_code is None, trace.error_message
        return trace.inputs["results"]


@pytest.fixture
async def ideal(tmp_path: Path) -> AsyncIterator[Ideal]:
    model = ScriptedModel(CompanionProposal())
    async with opened_device(tmp_path, gateway=FakeGateway(model)) as device:
        file = tmp_path / "everything.yaml"
        file.write_text(KIND.format(tools=", ".join(each.name for each in OFFERED)))
        gym = device.categories["gym"]
        made = await device.service.new("everything", category_ids=[gym], file=file)
        squats = await device.task("Squats", checklist_items=("Warm up", "Three sets"))
        await device.do("create_checklist", task_id=squats, title="Afterwards", items=("Stretch",))
        now = device.clock.now()
        await device.do(
            "create_retrospective_time_entry",
            task_id=squats,
            started_at=now - timedelta(hours=3),
            ended_at=now - timedelta(hours=2),
        )
        await device.do("start_task_timer", task_id=squats)
        rated = {"target_type": "task", "target_id": squats, "dimension": "energy"}
        await device.do("create_or_update_rating", **rated, value=6)
        block = BlockInput(start_time=now, end_time=now + timedelta(hours=1), task_id=squats)
        await device.do("upsert_day_plan_blocks", plan_date=now.date(), upserts=(block,))
        await device.journal.settled()
        yield Ideal(device, model, made.id)


async def test_an_ideal_model_forms_valid_arguments_for_every_tool(ideal: Ideal) -> None:
    assert set(FORMS) == {each.name for each in OFFERED}
    for tool, form in FORMS.items():
        result = await ideal.uses(tool, form)
        assert result["tool_name"] == tool
        assert result["error_code"] in SEEN, (tool, result["error_code"], result["error_message"])


async def test_everything_that_can_be_rated_can_be_named(ideal: Ideal) -> None:
    for kind in ("task", "time_entry", "day_block"):
        result = await ideal.uses("create_or_update_rating", _rated(kind))
        assert result["error_code"] in SEEN, (kind, result["error_message"])


async def test_what_a_call_reads_reaches_the_model(ideal: Ideal) -> None:
    heard: list[Any] = []

    def ask(request: CompanionRequest) -> CompanionProposal:
        arguments = FORMS["get_rating_for_target"](Payload(request))
        return CompanionProposal(actions=(call("get_rating_for_target", **arguments),))

    def hear(request: CompanionRequest) -> CompanionProposal:
        heard.extend(each for each in request.payload["facts"] if each["kind"] == "rating")
        return CompanionProposal()

    await ideal.play(ask, hear)
    assert [(each["dimension"], each["value"]) for each in heard] == [("energy", 6)]


async def test_the_id_of_what_a_call_has_made_can_be_used_in_the_same_run(ideal: Ideal) -> None:
    def make(request: CompanionRequest) -> CompanionProposal:
        return CompanionProposal(actions=(call("create_task", **_new(request)),))

    def use(request: CompanionRequest) -> CompanionProposal:
        made = request.payload["results"][-1]["changes"][0]
        assert (made["kind"], made["label"]) == ("task", "Lunges")
        more = call("create_checklist", task_id=made["id"], items=["Left", "Right"])
        # Named once more, it is not done once more.
        return CompanionProposal(actions=(call("create_task", **_new(request)), more))

    def _new(request: CompanionRequest) -> dict[str, Any]:
        return {"category_id": Payload(request).listed["category_id"], "title": "Lunges"}

    results = await ideal.play(make, use)
    assert [each["tool_name"] for each in results[-2:]] == ["create_task", "create_checklist"]
    (lunges,) = [each for each in await ideal.device.tasks() if each.title == "Lunges"]
    listed = await ideal.device.call(ideal.agent, "list_tasks_in_scope", task_ids=[lunges.id])
    assert listed.payload["tasks"][0]["open_items"] == ["Left", "Right"]


async def test_a_clock_is_not_offered_what_only_a_person_can_tell(ideal: Ideal) -> None:
    denied = {
        WakeReason.TIMER: "create_retrospective_time_entry",
        WakeReason.RECOVERY_CATCHUP: "start_task_timer",
        WakeReason.SUBSCRIPTION: "replan_day_blocks",
    }
    for reason, tool in denied.items():
        arguments: dict[str, Any] = {
            "create_retrospective_time_entry": {
                "task_id": "task_1",
                "started_at": "2026-01-01T10:00:00Z",
                "ended_at": "2026-01-01T11:00:00Z",
            },
            "start_task_timer": {"task_id": "task_1"},
            "replan_day_blocks": {"plan_date": "2026-01-01", "blocks": []},
        }[tool]
        made = ideal.device.tool_call(ideal.agent, tool, wake_reason=reason, **arguments)
        result = await ideal.device.executor.execute(made, decisions=PolicyDecisions())
        assert result.error_code == "wake_reason_denied", tool


def test_every_tool_belongs_to_a_kind_that_comes_with_silas() -> None:
    library = KindLibrary(REGISTRY)
    used = {tool for kind in BUILT_IN for tool in library.get(kind).tools}
    assert {each.name for each in OFFERED} - used == set()
