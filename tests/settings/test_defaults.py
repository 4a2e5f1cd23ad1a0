"""The defaults are those of the specification, apart from what the architecture decides."""

from pathlib import Path
from typing import Any, get_args

import pytest
from pydantic import BaseModel, ValidationError

from silas.approval.models import ApprovalScope, ApprovalStrength
from silas.companions.retention import KEEP_DAYS
from silas.kernel.yaml_positions import load_yaml
from silas.settings.keys import walk
from silas.settings.models import Settings
from silas.settings.trust import Scope, Strength
from tests.settings.project import Project
from tests.settings.spec_configuration import SPEC_CONFIGURATION

DECIDED_OTHERWISE = {
    # With nothing configured, the offline brain is in charge.
    "models.proxy": None,
    "models.planner": None,
    "models.executor": None,
    "models.scorer": None,
    "gates.llm_defaults.model": None,
    # Bubblewrap when it is installed, else subprocess.
    "sandbox.backend": "auto",
    # At most one attempt (specification 5.10.4): what fails again is the owner's to know.
    "connections.recovery_max_attempts": 1,
    # Null until the variable that the specification names is set.
    "search.api_key": None,
    "channels.telegram.token": None,
    "channels.telegram.owner_chat_id": None,
}
ADDED = {
    "database_url": None,
    "models.base_url": None,
    "models.gate": None,
    "models.fallback": None,
    "models.timeout_seconds": 300,
    "models.max_retries": 2,
    "models.breaker_failures": 5,
    "models.breaker_seconds": 60,
    "models.output_mode": "auto",
    **{
        f"models.per_role.{role}.{name}": None
        for role in ("proxy", "planner", "executor", "scorer", "gate")
        for name in (
            "base_url",
            "api_key",
            "fallback",
            "timeout_seconds",
            "max_retries",
            "output_mode",
        )
    },
    "channels.web.public_origins": [],
    "channels.web.tls_certificate": None,
    "channels.web.tls_key": None,
    "limits.unasked_cards_per_day": 5,
    "autonomy.grant_after": 12,
    "autonomy.grant_days": 30,
    "autonomy.grant_uses_per_day": 5,
    "undo.delay_sending": False,
    "undo.keep_days": 30,
    "undo.window_minutes": 5,
    "audit.retention_days": None,
    "audit.checkpoint_every": 1024,
    **{f"companions.keep_days.{each.value}": days or None for each, days in KEEP_DAYS.items()},
    "companions.max_megabytes": 500,
    "companions.summary_model_attempts": 2,
    "context.session_idle_minutes": 30,
    "context.token_counter": "estimate",
    "context.chronicle_days": 90,
    "memory.stale_after_days": 180,
    "limits.messages_per_minute_per_sender": 60,
    "backpressure.max_open_cards_per_visitor": 3,
    "approval.standing_ttl_days": 90,
    "planner.workspace_dir": "~/silas-files",
    "planner.research_dir": None,
    "planner.own_repositories": [],
    "planner.research_in_flight": 3,
    "planner.research_rounds": 5,
    "planner.research_timeout_seconds": 120,
    "planner.consult_timeout_seconds": 90,
    "planner.max_replans": 2,
    "planner.max_tokens_per_turn": 50_000,
    "planner.max_cost_usd_per_turn": 0.5,
    "planner.max_tokens_per_request": 200_000,
    "planner.max_cost_usd_per_request": 2.0,
}


RETIRED_BY_US = (
    "channels.cli.enabled",
    "memory.portability_bundle_format",
    "personality.scope_mode",
)
"""Keys of the specification with one value, or without a meaning here."""


def flat(value: Any, name: str = "") -> dict[str, Any]:
    if isinstance(value, dict) and value:
        items = [flat(item, f"{name}.{key}" if name else key) for key, item in value.items()]
        return {key: each for item in items for key, each in item.items()}
    return {name: value}


def given_by_spec() -> dict[str, Any]:
    values = flat(load_yaml(SPEC_CONFIGURATION).value["silas"])
    paths = ("data_dir", "skills_dir", "sandbox.verify_dir", "sandbox.customer_context_dir")
    return {
        key: str(Path(value)) if key in paths else value
        for key, value in values.items()
        if value != {} and key not in RETIRED_BY_US
    }


def defaults() -> dict[str, Any]:
    values = Settings().model_dump(mode="json", by_alias=True)
    manner = values["personality"]
    assert manner.pop("context_words").keys() == manner["contexts"].keys()
    assert manner.pop("preset_voices").keys() < manner["presets"].keys()
    spec_gates = load_yaml(SPEC_CONFIGURATION).value["silas"]["gates"]["system"]
    *gates, links, secrets = values["gates"]["system"]
    assert links["check"] == "urls", "links in answers are looked at as well"
    assert secrets["check"] == "secrets", "and keys are taken out of them"
    values["gates"]["system"] = [
        {key: gate[key] for key in spec} for gate, spec in zip(gates, spec_gates, strict=True)
    ]
    return {key: value for key, value in flat(values).items() if value != {}}


def test_every_default_is_the_one_of_the_specification() -> None:
    assert defaults() == {**given_by_spec(), **DECIDED_OTHERWISE, **ADDED}


def test_the_configuration_of_the_specification_loads(project: Project) -> None:
    loaded = project.write(SPEC_CONFIGURATION).load()
    named = [warning.partition(" is no setting any more")[0] for warning in loaded.warnings]
    assert named == ["channels.cli", "memory.portability_bundle_format", "personality.scope_mode"]
    assert loaded.settings.models.proxy == "openrouter:anthropic/claude-haiku-4-5"
    assert loaded.settings.sandbox.backend == "subprocess"
    same = {"models", "gates", "sandbox"}
    nothing_written = Project(project.directory / "elsewhere").load()
    assert loaded.settings.personality == nothing_written.settings.personality
    # Each of the two has a home of its own.
    at_home = nothing_written.settings.planner.model_copy(
        update={"workspace_dir": loaded.settings.planner.workspace_dir}
    )
    assert loaded.settings.planner == at_home
    # The specification's own number goes beyond its rule; see `DECIDED_OTHERWISE`.
    once = loaded.settings.connections.model_copy(update={"recovery_max_attempts": 1})
    assert once == nothing_written.settings.connections
    same |= {"data_dir", "skills_dir", "planner", "connections"}
    for name in Settings.model_fields.keys() - same:
        assert getattr(loaded.settings, name) == getattr(nothing_written.settings, name), name
    assert loaded.settings.gates.system == nothing_written.settings.gates.system[:-2]


def test_without_a_file_the_defaults_are_in_force(project: Project) -> None:
    loaded = project.load()
    assert not loaded.file_exists
    assert loaded.settings.channels.web.port == 8420
    assert loaded.settings.data_dir == project.directory / "data"
    assert not loaded.settings.search.web_search_enabled
    assert {origin.source for origin in loaded.provenance.values()} <= {"default"}


def sections(value: BaseModel) -> list[BaseModel]:
    inner = [each for _, each in value if isinstance(each, BaseModel)]
    return [value, *(found for each in inner for found in sections(each))]


def test_settings_are_frozen_all_the_way_down() -> None:
    found = sections(Settings())
    assert len(found) > 30
    for section in found:
        name = next(iter(type(section).model_fields))
        with pytest.raises(ValidationError, match="frozen"):
            setattr(section, name, getattr(section, name))


def test_there_are_no_lists_that_could_be_changed() -> None:
    assert not [key for key, kind in walk() if "list[" in str(kind.type)]


def test_no_limit_hides_another() -> None:
    """Of two upper limits on one field, pydantic silently forgets one."""
    for section in sections(Settings()):
        for name, field in type(section).model_fields.items():
            limits = [type(each) for each in field.metadata if type(each).__name__ in ("Ge", "Le")]
            assert len(limits) == len(set(limits)), name


def test_scopes_and_strengths_are_those_of_the_approval_room() -> None:
    assert set(get_args(Scope)) == {scope.value for scope in ApprovalScope}
    assert set(get_args(Strength)) == {strength.value for strength in ApprovalStrength}
