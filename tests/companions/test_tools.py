"""The tool bed: schemas, capabilities, category scope, idempotency, previews, references."""

from dataclasses import replace
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import pytest

from silas.companions.messages import AgentOperation, PolicyDecisions
from silas.companions.models import WakeReason
from silas.companions.tools.catalogue import companion_tools
from silas.companions.tools.registry import AgentToolRegistry
from silas.gates.risk import RiskLevel
from silas.journal.operations.tasks import ItemUpdate
from silas.testing.companions import CompanionDevice

REGISTRY = companion_tools()

KIND = """
kind: everything
display_name: Everything
summary: May use every tool.
instructions: For tests.
capabilities: [category_read, task_read, task_write, checklist_write, time_write, day_plan_read,
  day_plan_write, rating_read, rating_write]
tools: [{tools}]
confirm_from: high
report:
  headline: Nothing
  sections: [{{id: nothing, title: Nothing}}]
persona: {{voice: Short.}}
"""


@pytest.fixture
async def agent(device: CompanionDevice, tmp_path: Path) -> str:
    """A companion that may use every tool, in `gym` alone; only what is high needs a card."""
    file = tmp_path / "everything.yaml"
    file.write_text(KIND.format(tools=", ".join(REGISTRY.names)))
    made = await device.service.new(
        "everything", category_ids=[device.categories["gym"]], file=file
    )
    return made.id


def changed_registry(name: str, **changes: Any) -> AgentToolRegistry:
    changed = {**REGISTRY.tools, name: replace(REGISTRY.tools[name], **changes)}
    return AgentToolRegistry(changed.values())


async def ok(device: CompanionDevice, agent: str, tool: str, /, **arguments: Any) -> dict[str, Any]:
    result = await device.call(agent, tool, **arguments)
    assert result.success, (result.error_code, result.error_message)
    found = REGISTRY.get(tool)
    assert found is not None
    found.output.model_validate(result.payload)
    return result.payload


async def code(device: CompanionDevice, agent: str, tool: str, /, **arguments: Any) -> str | None:
    return (await device.call(agent, tool, **arguments)).error_code


class TestSchemaAndCapability:
    async def test_tool_schema_validation(self, device: CompanionDevice, agent: str) -> None:
        for wrong in ({}, {"task_id": ""}, {"task_id": 3}, {"task_id": "x", "more": 1}):
            assert await code(device, agent, "start_task_timer", **wrong) == "invalid_arguments"

    async def test_a_tool_that_is_not_registered_is_refused(
        self, device: CompanionDevice, agent: str
    ) -> None:
        for name in ("http_get", "create_task ", "CREATE_TASK", "create_tas", ""):
            assert await code(device, agent, name) == "unknown_tool"

    async def test_capability_gating(self, device: CompanionDevice) -> None:
        coach = await device.service.new("gym_coach", category_ids=[device.categories["gym"]])
        task = await device.task("Squats")
        asked = {"task_id": task, "priority": "P0"}
        assert await code(device, coach.id, "update_task_priority", **asked) == "capability_denied"

    async def test_a_tool_that_may_not_be_used_for_this_reason(
        self, device: CompanionDevice, agent: str
    ) -> None:
        name, by_hand = "list_tasks_in_scope", frozenset({WakeReason.MANUAL})
        registry = changed_registry(name, allowed_wake_reasons=by_hand)
        executor = replace(device.executor, registry=registry)
        for reason, refusal in (
            (WakeReason.TIMER, "wake_reason_denied"),
            (WakeReason.MANUAL, None),
        ):
            call = device.tool_call(agent, name, wake_reason=reason)
            result = await executor.execute(call, decisions=PolicyDecisions())
            assert result.error_code == refusal


class TestCategoryScope:
    async def test_category_scope_enforcement_for_reads(
        self, device: CompanionDevice, agent: str
    ) -> None:
        mine = await device.task("Squats")
        await device.task("Taxes", "work")
        listed = await ok(device, agent, "list_tasks_in_scope")
        assert [each["id"] for each in listed["tasks"]] == [mine]
        found = await ok(device, agent, "resolve_task_reference", reference="Taxes")
        assert [each["title"] for each in found["candidates"]] in ([], ["Squats"])
        names = await ok(device, agent, "list_allowed_categories")
        assert [each["name"] for each in names["categories"]] == ["gym"]

    async def test_what_a_crash_left_is_told_without_what_others_have_pinned(
        self, device: CompanionDevice, agent: str
    ) -> None:
        own, other, day = (
            await device.task("Squats"),
            await device.task("Taxes", "work"),
            "2026-01-02",
        )
        await device.do("pin_day_plan_tasks", plan_date=date.fromisoformat(day), task_ids=(other,))
        call = device.tool_call(agent, "pin_day_plan_tasks", plan_date=day, task_ids=[own])
        await device.executor.execute(call, decisions=PolicyDecisions())
        result = await device.executor.result_in_journal(call)
        assert result is not None
        assert own in result.model_dump_json()
        assert other not in result.model_dump_json()

    async def test_a_read_of_another_category_is_out_of_scope(
        self, device: CompanionDevice, agent: str
    ) -> None:
        asked = {"category_id": device.categories["work"]}
        assert await code(device, agent, "list_tasks_in_scope", **asked) == "out_of_scope"

    async def test_time_ratings_and_days_are_limited_too(
        self, device: CompanionDevice, agent: str
    ) -> None:
        other, now = await device.task("Taxes", "work"), device.clock.now()
        await device.do(
            "create_retrospective_time_entry",
            task_id=other,
            started_at=now - timedelta(hours=1),
            ended_at=now,
        )
        await device.do("create_or_update_rating", target_id=other, dimension="mood", value=3)
        assert (await ok(device, agent, "get_time_summary"))["categories"] == []
        assert (await ok(device, agent, "get_ratings_summary"))["dimensions"] == []
        asked = {"target_type": "task", "target_id": other}
        assert (await ok(device, agent, "get_rating_for_target", **asked))["ratings"] == []

    @pytest.mark.parametrize(
        ("tool", "arguments"),
        [
            ("update_task_priority", {"priority": "P0"}),
            ("update_task_estimate", {"estimate_minutes": 5}),
            ("update_task_due_date", {"due_at": None}),
            ("set_task_language", {"language": "de"}),
            ("assign_task_labels", {"labels": ["x"]}),
            ("create_checklist", {}),
            ("add_multiple_checklist_items", {"items": ["x"]}),
            ("start_task_timer", {}),
        ],
    )
    async def test_category_scope_enforcement_for_writes(
        self, device: CompanionDevice, agent: str, tool: str, arguments: dict[str, Any]
    ) -> None:
        other = await device.task("Taxes", "work")
        before = await device.journal.last_cursor()
        assert await code(device, agent, tool, task_id=other, **arguments) == "out_of_scope"
        assert await device.journal.last_cursor() == before

    async def test_creating_in_another_category_is_out_of_scope(
        self, device: CompanionDevice, agent: str
    ) -> None:
        asked = {"category_id": device.categories["work"], "title": "Sneak in"}
        assert await code(device, agent, "create_task", **asked) == "out_of_scope"

    async def test_a_move_between_categories_needs_both(
        self, device: CompanionDevice, agent: str
    ) -> None:
        mine, other = (
            await device.task("Squats", checklist_items=("a",)),
            await device.task("Taxes", "work", checklist_items=("b",)),
        )
        ((here, items),) = await device.journal.checklists_of(mine)
        ((there, _),) = await device.journal.checklists_of(other)
        asked = {
            "item_ids": [items[0].id],
            "from_checklist_id": here.id,
            "to_checklist_id": there.id,
        }
        assert await code(device, agent, "move_checklist_items", **asked) == "out_of_scope"
        moved = {"task_id": mine, "category_id": device.categories["work"]}
        assert await code(device, agent, "update_task_fields", **moved) == "out_of_scope"
        assert device.approvals.asked == {}

    async def test_a_scope_that_is_wider_than_the_companion_is_refused(
        self, device: CompanionDevice, agent: str
    ) -> None:
        for scope in (("work",), ("gym", "work"), ()):
            assert await code(device, agent, "list_tasks_in_scope", scope=scope) == "out_of_scope"

    async def test_a_category_that_was_taken_away_is_gone_at_once(
        self, device: CompanionDevice, agent: str
    ) -> None:
        await device.service.configure(agent, category_ids=[device.categories["work"]])
        assert await code(device, agent, "list_tasks_in_scope", scope=("gym",)) == "out_of_scope"


class TestIdempotency:
    async def test_operation_id_idempotency(self, device: CompanionDevice, agent: str) -> None:
        asked = {"category_id": device.categories["gym"], "title": "Deadlift"}
        first = await ok(device, agent, "create_task", op="one", **asked)
        again = await ok(device, agent, "create_task", op="one", **asked)
        assert first["ids"] == again["ids"]
        assert [each.title for each in await device.tasks()] == ["Deadlift"]

    async def test_other_arguments_under_the_same_operation_are_refused(
        self, device: CompanionDevice, agent: str
    ) -> None:
        asked = {"category_id": device.categories["gym"]}
        await ok(device, agent, "create_task", op="one", title="Deadlift", **asked)
        assert await code(device, agent, "create_task", op="one", title="Other", **asked) == (
            "operation_conflict"
        )

    async def test_what_changed_is_told_with_ids_and_tokens(
        self, device: CompanionDevice, agent: str
    ) -> None:
        asked = {"category_id": device.categories["gym"], "title": "Deadlift"}
        result = await device.call(agent, "create_task", **asked)
        (task,) = await device.tasks()
        assert task.id in result.changed_entity_ids
        assert f"entity_id|-|{task.id}" in result.changed_tokens
        assert "semantic_key|-|TASK" in result.changed_tokens

    async def test_a_refused_write_ends_its_saga(self, device: CompanionDevice, agent: str) -> None:
        other = await device.task("Taxes", "work")
        await device.call(agent, "start_task_timer", op="refused", task_id=other)
        entry = await device.store.get(AgentOperation, "refused")
        assert entry is not None
        assert entry.status == "failed"


class TestPreview:
    async def test_a_preview_changes_nothing(self, device: CompanionDevice, agent: str) -> None:
        task = await device.task("Squats", checklist_items=("a", "b"))
        before = await device.journal.last_cursor()
        result = await device.call(
            agent, "conclude_task_with_rollover", task_id=task, preview_only=True
        )
        assert result.success
        assert result.status == "partial"
        assert result.payload["preview"]
        told = {
            (each["kind"], each["what"], each["id"] is None) for each in result.payload["changes"]
        }
        assert ("task", "created", True) in told
        assert ("task", "updated", False) in told
        assert await device.journal.last_cursor() == before
        assert device.approvals.asked == {}

    async def test_what_only_moved_is_not_called_changed(
        self, device: CompanionDevice, agent: str
    ) -> None:
        """A step that goes along to a follow-up as it is; one that was edited earlier as well."""
        task = await device.task("Squats", checklist_items=("a", "b", "c"))
        ((source, items),) = await device.journal.checklists_of(task)
        edited = ItemUpdate(id=items[1].id, text="b, slowly")
        ticked = ItemUpdate(id=items[2].id, checked=True)
        await device.do("update_checklist_items", updates=(edited, ticked))
        carried = await device.call(
            agent, "conclude_task_with_rollover", task_id=task, preview_only=True
        )
        steps = [each for each in carried.payload["changes"] if each["kind"] == "checklist_item"]
        told = {(each["label"], each["what"]) for each in steps}
        assert told == {("a", "moved"), ("b, slowly", "moved")}

        there = await device.task("Lunges", checklist_items=("d",))
        ((target, _),) = await device.journal.checklists_of(there)
        moved = await device.call(
            agent,
            "move_checklist_items",
            preview_only=True,
            item_ids=[each.id for each in items],
            from_checklist_id=source.id,
            to_checklist_id=target.id,
        )
        assert {each["what"] for each in moved.payload["changes"]} == {"moved"}
        changes = [{"item_id": items[0].id, "checked": True}]
        done = await device.call(
            agent, "update_checklist_items", preview_only=True, changes=changes
        )
        assert [each["what"] for each in done.payload["changes"]] == ["updated"]

    async def test_high_risk_waits_whatever_was_configured(
        self, device: CompanionDevice, agent: str
    ) -> None:
        task = await device.task("Squats", checklist_items=("a", "b"))
        result = await device.call(agent, "conclude_task_with_rollover", task_id=task)
        assert result.error_code == "confirmation_required"
        assert result.status == "partial"
        assert [each.status for each in await device.tasks()] == ["open"]

    async def test_arguments_can_make_a_call_a_high_risk(
        self, device: CompanionDevice, agent: str
    ) -> None:
        task = await device.task("Squats")
        asked = {"source_task_id": task, "new_task_title": "More squats"}
        assert await code(device, agent, "create_follow_up_task", op="a", **asked) is None
        closing = {**asked, "close_source_task_as": "done"}
        assert await code(device, agent, "create_follow_up_task", op="b", **closing) == (
            "confirmation_required"
        )


class TestDeclarations:
    """What a tool does not declare counts as irreversible, whatever its name and its kind say."""

    @pytest.mark.parametrize("name", REGISTRY.names)
    def test_a_tool_without_an_effect_is_irreversible(self, name: str) -> None:
        registry = changed_registry(name, effect=None)
        assert registry.risk_of(registry.tools[name]) is RiskLevel.IRREVERSIBLE
        assert "high_risk" in registry.classes_of(registry.tools[name])
        assert registry.tools[name].writes

    async def test_a_call_of_a_tool_without_an_effect_waits_for_the_owner(
        self, device: CompanionDevice, agent: str
    ) -> None:
        asked = device.tool_call(agent, "list_tasks_in_scope")
        undeclared = replace(
            device.executor, registry=changed_registry("list_tasks_in_scope", effect=None)
        )
        result = await undeclared.execute(asked, decisions=PolicyDecisions())
        assert result.error_code == "confirmation_required"
        (held,) = await device.store.find(AgentOperation)
        assert held.approvable is not None
        assert held.approvable["risk"] == "irreversible"

    def test_what_nothing_can_undo_is_irreversible(self) -> None:
        """The inverse of a write has to be registered, too."""
        left = [each for name, each in REGISTRY.tools.items() if name != "undo_change"]
        registry = AgentToolRegistry(left)
        assert {registry.risk_of(tool) for tool in left if tool.writes} == {
            RiskLevel.HIGH,
            RiskLevel.IRREVERSIBLE,
        }

    def test_two_tools_have_no_name_in_common(self) -> None:
        with pytest.raises(ValueError, match="two tools"):
            AgentToolRegistry([*REGISTRY.tools.values(), REGISTRY.tools["create_task"]])

    async def test_the_inverse_is_the_owners_alone(
        self, device: CompanionDevice, agent: str
    ) -> None:
        assert await code(device, agent, "undo_change", change_id="op_1") == "unknown_tool"
        assert "undo_change" not in REGISTRY.names


class TestReferences:
    async def test_task_resolution_confidence_thresholds_and_disambiguation_responses(
        self, device: CompanionDevice, agent: str
    ) -> None:
        squats = await device.task("Squats")
        found = await ok(device, agent, "resolve_task_reference", reference="squats")
        assert not found["ambiguous"]
        assert found["candidates"][0]["id"] == squats
        await device.task("Squats, heavy")
        await device.task("Squats, light")
        found = await ok(device, agent, "resolve_task_reference", reference="Squats, h")
        assert found["ambiguous"]
        assert len(found["candidates"]) >= 2
        scores = [each["score"] for each in found["candidates"]]
        assert scores == sorted(scores, reverse=True)

    async def test_nothing_fits_is_ambiguous_not_a_guess(
        self, device: CompanionDevice, agent: str
    ) -> None:
        await device.task("Squats")
        found = await ok(device, agent, "resolve_task_reference", reference="xylophone")
        assert found == {"candidates": [], "ambiguous": True}

    async def test_ambiguous_target_resolution_never_auto_writes(
        self, device: CompanionDevice, agent: str
    ) -> None:
        await device.task("Squats")
        before = await device.journal.last_cursor()
        for name in ("Squats", "squats", "the first", "task", "task_01 or task_02"):
            assert await code(device, agent, "start_task_timer", task_id=name) == "unsafe_target"
        block = {"start_time": "2026-01-02T09:00:00Z", "end_time": "2026-01-02T10:00:00Z"}
        plan = {"plan_date": "2026-01-02", "upserts": [{"task_id": "Squats", **block}]}
        assert await code(device, agent, "upsert_day_plan_blocks", **plan) == "unsafe_target"
        asked = {"task_id": "task_00000000000000000000000000"}
        assert await code(device, agent, "start_task_timer", **asked) == "not_found"
        assert await device.journal.last_cursor() == before


async def test_every_tool_does_what_it_says(device: CompanionDevice, agent: str) -> None:
    """One walk through the whole catalogue; what is high goes through the owner."""
    gym, now = device.categories["gym"], device.clock.now()
    task = await device.task("Squats", checklist_items=("a", "b"))
    ((_, items),) = await device.journal.checklists_of(task)
    iso = now.isoformat()
    calls: list[tuple[str, dict[str, Any]]] = [
        ("set_task_language", {"task_id": task, "language": "de"}),
        ("update_task_estimate", {"task_id": task, "estimate_minutes": 30}),
        ("update_task_due_date", {"task_id": task, "due_at": iso}),
        ("update_task_priority", {"task_id": task, "priority": "P1"}),
        ("assign_task_labels", {"task_id": task, "labels": ["legs"]}),
        ("create_task", {"category_id": gym, "title": "Bench", "checklist_items": ["x"]}),
        ("update_task_fields", {"task_id": task, "body": "Slowly."}),
        ("create_follow_up_task", {"source_task_id": task, "new_task_title": "More"}),
        ("create_checklist", {"task_id": task, "title": "Second", "items": ["c"]}),
        ("add_multiple_checklist_items", {"task_id": task, "items": ["d", "e"]}),
        ("update_checklist_items", {"changes": [{"item_id": items[0].id, "checked": True}]}),
        (
            "create_retrospective_time_entry",
            {
                "task_id": task,
                "started_at": (now - timedelta(hours=2)).isoformat(),
                "ended_at": (now - timedelta(hours=1)).isoformat(),
                "description": "Three sets",
            },
        ),
        ("start_task_timer", {"task_id": task}),
        ("stop_task_timer", {"task_id": task}),
        ("get_or_create_day_plan", {"plan_date": str(now.date())}),
        (
            "upsert_day_plan_blocks",
            {
                "plan_date": str(now.date()),
                "upserts": [
                    {
                        "category_id": gym,
                        "start_time": iso,
                        "end_time": (now + timedelta(hours=1)).isoformat(),
                    }
                ],
            },
        ),
        ("pin_day_plan_tasks", {"plan_date": str(now.date()), "task_ids": [task]}),
        (
            "replan_day_blocks",
            {
                "plan_date": str(now.date()),
                "blocks": [
                    {
                        "task_id": task,
                        "start_time": iso,
                        "end_time": (now + timedelta(hours=2)).isoformat(),
                        "note": "Longer",
                    }
                ],
            },
        ),
        (
            "create_or_update_rating",
            {"target_type": "task", "target_id": task, "dimension": "energy", "value": 7},
        ),
        ("get_rating_for_target", {"target_type": "task", "target_id": task}),
        ("get_ratings_summary", {"days": 7}),
        ("get_time_summary", {"days": 7}),
        ("get_day_plan", {"plan_date": str(now.date())}),
        ("conclude_task_with_rollover", {"task_id": task}),
    ]
    for number, (tool, arguments) in enumerate(calls):
        op = f"op-{number}"
        result = await device.call(agent, tool, op=op, **arguments)
        if result.error_code == "confirmation_required":
            await device.approvals.approve(op)
            after = await device.companions.resumption.follow(op)
            assert after is not None
            result = after
        assert result.success, (tool, result.error_code, result.error_message)
        found = REGISTRY.get(tool)
        assert found is not None
        found.output.model_validate(result.payload)
        assert bool(result.changed_entity_ids) == found.writes, tool
    done = await device.journal.get(type((await device.tasks())[0]), task)
    assert (done.language, done.estimate_minutes, done.labels) == ("de", 30, ("legs",))
    assert done.status == "done"
    plan = await device.journal.day_plan(now.date())
    assert plan is not None
    assert [each.note for each in plan[1]] == ["Longer"]


async def test_conclude_with_rollover_workflow_preserves_and_moves_checklist_items(
    device: CompanionDevice, agent: str
) -> None:
    task = await device.task("Squats", checklist_items=("a", "b"))
    await device.call(agent, "conclude_task_with_rollover", op="end", task_id=task)
    await device.approvals.approve("end")
    result = await device.companions.resumption.follow("end")
    assert result is not None
    new = result.payload["ids"]["follow_up_task_id"]
    ((_, items),) = await device.journal.checklists_of(new)
    assert [each.text for each in items] == ["a", "b"]


async def test_retrospective_time_entry_creation_links_to_task_and_optional_source_entry(
    device: CompanionDevice, agent: str
) -> None:
    task, now = await device.task("Squats"), device.clock.now()
    note = await device.do("create_note", text="said aloud", category_id=device.categories["gym"])
    told_in = note.payload["note_id"]
    payload = await ok(
        device,
        agent,
        "create_retrospective_time_entry",
        task_id=task,
        started_at=(now - timedelta(hours=2)).isoformat(),
        ended_at=now.isoformat(),
        source_entry_id=told_in,
    )
    (entry,) = await device.journal.time_entries(now - timedelta(days=1), now)
    assert (entry.task_id, entry.id) == (task, payload["ids"]["time_entry_id"])
    assert {each["kind"] for each in payload["changes"]} == {"time_entry", "link"}


async def test_what_it_was_told_in_must_be_in_reach(device: CompanionDevice, agent: str) -> None:
    task, now = await device.task("Squats"), device.clock.now()
    note = await device.do("create_note", text="secret", category_id=device.categories["work"])
    asked = {
        "task_id": task,
        "started_at": (now - timedelta(hours=2)).isoformat(),
        "ended_at": now.isoformat(),
        "source_entry_id": note.payload["note_id"],
    }
    assert await code(device, agent, "create_retrospective_time_entry", **asked) == "out_of_scope"
