"""How a model is asked for structure, and what it cost."""

from datetime import UTC, datetime
from pathlib import Path

import pytest
from pydantic_ai.models.test import TestModel
from pydantic_ai.usage import RunUsage

from silas.agents.models.choices import ModelChoice, OutputMode, Role, RoleChoice
from silas.agents.models.errors import ModelNotUsable
from silas.agents.models.factory import BRAIN_NAME, Models, make_model
from silas.agents.models.modes import (
    UNKNOWN,
    KnownModes,
    ModeMemory,
    cost_of,
    mode_for,
    shared_mode,
)
from silas.testing.fakes import FakeClock

LOCAL = ModelChoice(name="openai:small", base_url="http://127.0.0.1:8080/v1")
CLOUD = ModelChoice(name="openai:gpt-4o")
ENVIRON = {"OPENAI_API_KEY": "sk-x"}
NOW = datetime(2026, 1, 1, tzinfo=UTC)


def mode(choice: ModelChoice, memory: ModeMemory | None = None) -> OutputMode:
    return mode_for(choice, make_model(choice, ENVIRON), memory or ModeMemory(None))


def test_a_local_server_is_held_to_a_schema_and_a_cloud_model_to_its_profile() -> None:
    assert mode(LOCAL) is OutputMode.NATIVE
    assert mode(CLOUD) is OutputMode.TOOL


def test_what_a_test_found_out_counts_more_and_what_the_owner_set_most(tmp_path: Path) -> None:
    path = tmp_path / "modes.json"
    known = KnownModes(working=(OutputMode.PROMPTED,), tested_at=NOW)
    ModeMemory(path).remember(LOCAL, known)
    assert path.stat().st_mode & 0o077 == 0
    assert mode(LOCAL, ModeMemory(path)) is OutputMode.PROMPTED
    assert mode(CLOUD, ModeMemory(path)) is OutputMode.TOOL
    decided = LOCAL.model_copy(update={"output_mode": OutputMode.TOOL})
    assert mode(decided, ModeMemory(path)) is OutputMode.TOOL


def test_two_addresses_are_two_models(tmp_path: Path) -> None:
    memory = ModeMemory(tmp_path / "modes.json")
    memory.remember(LOCAL, KnownModes(working=(OutputMode.TOOL,), tested_at=NOW))
    elsewhere = LOCAL.model_copy(update={"base_url": "http://127.0.0.1:8081/v1"})
    assert memory.recall(elsewhere) is None
    assert memory.recall(LOCAL) is not None


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"models": 1}', b"\xff\xfe"])
def test_a_damaged_file_is_as_good_as_none(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "modes.json"
    path.write_bytes(content)
    memory = ModeMemory(path)
    assert memory.recall(LOCAL) is None
    memory.remember(LOCAL, KnownModes(working=(), tested_at=NOW))
    assert memory.recall(LOCAL) is not None


def test_a_model_and_a_fallback_that_differ_meet_in_the_prompt() -> None:
    assert shared_mode(OutputMode.NATIVE, OutputMode.NATIVE) is OutputMode.NATIVE
    assert shared_mode(OutputMode.NATIVE, OutputMode.TOOL) is OutputMode.PROMPTED


def test_prices_come_from_the_price_list() -> None:
    usage = RunUsage(requests=1, input_tokens=1_000_000, output_tokens=0)
    cost = cost_of(CLOUD, usage)
    assert cost.known
    assert cost.usd > 0
    double = cost_of(CLOUD, RunUsage(requests=1, input_tokens=2_000_000, output_tokens=0))
    assert double.usd == pytest.approx(2 * cost.usd)


@pytest.mark.parametrize(
    "choice",
    [
        ModelChoice(name="openai:no-such-model-at-all"),
        ModelChoice(name="openai:gpt-4o", base_url="https://other.example.org/v1"),
    ],
)
def test_an_unknown_price_is_said_to_be_unknown(choice: ModelChoice) -> None:
    assert cost_of(choice, RunUsage(requests=1, input_tokens=10)) == UNKNOWN


def test_ones_own_machine_is_free() -> None:
    cost = cost_of(LOCAL, RunUsage(requests=1, input_tokens=10))
    assert (cost.usd, cost.known) == (0.0, True)
    ollama = cost_of(ModelChoice(name="ollama:qwen"), RunUsage(requests=1, input_tokens=10))
    assert (ollama.usd, ollama.known) == (0.0, True)


def test_a_role_without_a_model_is_played_by_the_brain_or_says_what_to_do() -> None:
    bare = Models({}, environ={}, clock=FakeClock())
    with pytest.raises(ModelNotUsable, match=r"models\.planner.*silas models detect"):
        bare.for_role(Role.PLANNER)
    models = Models({}, environ={}, clock=FakeClock(), brain=lambda _: TestModel())
    role_model = models.for_role(Role.PLANNER)
    assert role_model.name == BRAIN_NAME
    assert role_model.price(RunUsage(input_tokens=10**9)) == 0


def test_roles_with_the_same_model_share_a_breaker_and_are_made_once() -> None:
    choices = {role: RoleChoice(role=role, model=LOCAL) for role in Role}
    models = Models(choices, environ={}, clock=FakeClock())
    first, second = models.for_role(Role.PROXY), models.for_role(Role.PLANNER)
    assert first is models.for_role(Role.PROXY)
    breakers = {each.model.wrapped.models[0].breaker for each in (first, second)}
    assert len(breakers) == 1
