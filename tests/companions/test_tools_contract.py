"""The written contract of the tools: it validates, and the registry is held to it, one to one."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from silas.companions.projection import OPERATION_KEY
from silas.companions.tools.catalogue import companion_tools
from silas.gates.risk import RiskLevel
from silas.kernel.yaml_positions import load_yaml
from tests.companions.contract import contract_entry

REGISTRY = companion_tools()

FOLDER = Path(__file__).parents[2] / "docs" / "agent_tools"
SPEC = load_yaml((FOLDER / "agent_tool_contract_spec.yaml").read_text()).value
SCHEMA = json.loads((FOLDER / "agent_tool_contract_spec.schema.json").read_text())
ENTRIES = {entry["name"]: entry for entry in SPEC["tools"]}
PLANNED = {
    "set_task_language",
    "update_task_estimate",
    "update_task_due_date",
    "update_task_priority",
    "add_multiple_checklist_items",
    "update_checklist_items",
    "assign_task_labels",
    "list_allowed_categories",
    "list_tasks_in_scope",
    "resolve_task_reference",
    "create_task",
    "update_task_fields",
    "create_follow_up_task",
    "conclude_task_with_rollover",
    "create_checklist",
    "move_checklist_items",
    "move_checklist_items_to_new_task",
    "create_retrospective_time_entry",
    "start_task_timer",
    "stop_task_timer",
    "annotate_time_entry",
    "get_or_create_day_plan",
    "upsert_day_plan_blocks",
    "pin_day_plan_tasks",
    "replan_day_blocks",
    "get_ratings_summary",
    "get_rating_for_target",
    "create_or_update_rating",
}
_TYPES = {
    "object": dict, "array": list, "string": str, "integer": int, "boolean": bool,
}  # fmt: skip


def problems(value: Any, schema: dict[str, Any], path: str = "$") -> list[str]:
    """What is wrong with a value. A keyword that is not understood is wrong, too."""
    known = {
        "$schema", "title", "type", "required", "additionalProperties", "properties", "enum",
        "minItems", "items", "pattern", "minimum", "minLength", "uniqueItems",
    }  # fmt: skip
    found = [f"{path}: unknown keyword {each}" for each in schema.keys() - known]
    kind = _TYPES[schema["type"]]
    if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
        return [*found, f"{path}: not of type {schema['type']}"]
    if "enum" in schema and value not in schema["enum"]:
        found.append(f"{path}: {value!r} is not in the enum")
    if "pattern" in schema and not re.search(schema["pattern"], value):
        found.append(f"{path}: does not match")
    if "minimum" in schema and value < schema["minimum"]:
        found.append(f"{path}: too small")
    return [*found, *_size_problems(value, schema, path), *_inner_problems(value, schema, path)]


def _size_problems(value: Any, schema: dict[str, Any], path: str) -> list[str]:
    if not isinstance(value, str | list):
        return []
    shortest = schema.get("minLength", schema.get("minItems", 0))
    twice = schema.get("uniqueItems") and len(set(map(str, value))) < len(value)
    return [
        *([f"{path}: too short"] if len(value) < shortest else []),
        *([f"{path}: not unique"] if twice else []),
    ]


def _inner_problems(value: Any, schema: dict[str, Any], path: str) -> list[str]:
    found: list[str] = []
    if isinstance(value, list):
        for number, each in enumerate(value):
            found += problems(each, schema["items"], f"{path}[{number}]")
    if isinstance(value, dict):
        inner = schema["properties"]
        found += [f"{path}: lacks {each}" for each in schema["required"] if each not in value]
        found += [f"{path}: unknown key {key}" for key in value if key not in inner]
        for key, each in value.items():
            found += problems(each, inner[key], f"{path}.{key}") if key in inner else []
    return found


def test_the_spec_validates_against_its_schema() -> None:
    assert problems(SPEC, SCHEMA) == []


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("riskLevel", "mild"),
        ("capabilitiesRequired", []),
        ("name", "Create Task"),
        ("inputSchemaRef", "elsewhere.json#/X"),
        ("extra", 1),
    ],
)
def test_the_schema_refuses_what_is_wrong(key: str, value: Any) -> None:
    wrong = {**SPEC, "tools": [{**SPEC["tools"][0], key: value}]}
    assert problems(wrong, SCHEMA) != []


def test_the_schema_demands_every_field_of_the_plan() -> None:
    for key in SCHEMA["properties"]["tools"]["items"]["required"]:
        entry = {name: each for name, each in SPEC["tools"][0].items() if name != key}
        assert problems({**SPEC, "tools": [entry]}, SCHEMA) != [], key


def test_registry_and_spec_name_the_same_tools() -> None:
    assert list(ENTRIES) == list(REGISTRY.names)
    assert len(SPEC["tools"]) == len(ENTRIES)


@pytest.mark.parametrize("name", REGISTRY.names)
def test_registry_and_spec_say_the_same(name: str) -> None:
    tool = REGISTRY.get(name)
    assert tool is not None
    written = dict(ENTRIES[name])
    assert (written.pop("highRiskWhen", None) is not None) == (tool.high_when is not None)
    for key in ("capabilitiesRequired", "allowedWakeReasons"):
        written[key] = sorted(written[key])
    assert written == contract_entry(REGISTRY, tool)


def test_every_schema_that_is_named_is_there() -> None:
    schemas = json.loads((FOLDER / "tool_schemas.json").read_text())
    for entry in SPEC["tools"]:
        for key in ("inputSchemaRef", "outputSchemaRef"):
            assert entry[key].partition("#/")[2] in schemas


def test_the_whole_catalogue_of_the_plan_is_there() -> None:
    assert set(REGISTRY.names) >= PLANNED


def test_every_write_is_idempotent_scoped_and_told() -> None:
    for tool in REGISTRY.tools.values():
        assert tool.writes == bool(tool.side_effects.notification_tokens)
        assert tool.data_minimization_policy_ref.endswith(OPERATION_KEY)
        assert tool.scope_rules


def test_what_the_plan_calls_high_risk_is() -> None:
    for name in ("conclude_task_with_rollover", "move_checklist_items", "replan_day_blocks"):
        tool = REGISTRY.get(name)
        assert tool is not None
        assert REGISTRY.risk_of(tool) is RiskLevel.HIGH, name
