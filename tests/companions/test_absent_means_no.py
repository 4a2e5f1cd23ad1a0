"""Absent means no: every optional field of what carries policy is left out once, and refuses."""

import dataclasses
import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any, get_type_hints

import pytest
from pydantic import BaseModel

from silas.app.companions import build_companions
from silas.companions.budgets import Budgets
from silas.companions.gateway import ModelDoor, ModelGrants, StopSwitches
from silas.companions.kinds.library import CompanionDefinition, KindLibrary
from silas.companions.messages import AgentOperation, WakeRun
from silas.companions.models import (
    AgentConfig,
    Companion,
    ModelGrant,
    OperationPhase,
    ProjectionPolicy,
)
from silas.companions.operations import Operations
from silas.companions.ports import ApprovableAction, ModelDestination
from silas.companions.projection import PROVIDER_FIELDS
from silas.companions.tools.catalogue import companion_tools
from silas.companions.tools.executor import CallGates, ToolExecutor
from silas.companions.tools.registry import AgentCapabilityProfile, AgentToolCall, CompanionTool
from silas.kernel import TaintLevel
from silas.testing.companions import (
    CompanionDevice,
    FakeGateway,
    FakeSecrets,
    ScriptedModel,
    opened_device,
)
from silas.tools import ToolDeclaration

CLOUD = ModelDestination(
    provider="cloud", model="large", host="api.cloud.example", port=443, secret_ref_id="secret:x"
)
NOTHING_OPTIONAL = (ToolExecutor, StopSwitches, Budgets, ModelDoor, Operations, CallGates)
"""What every call passes. A parameter with a default would be one that somebody forgets."""


def optional(kind: type) -> set[str]:
    """The fields of a model or a dataclass, or the parameters of a class, that can be left out."""
    if issubclass(kind, BaseModel):
        return {name for name, each in kind.model_fields.items() if not each.is_required()}
    if dataclasses.is_dataclass(kind):
        missing = dataclasses.MISSING
        return {
            each.name
            for each in dataclasses.fields(kind)
            if each.default is not missing or each.default_factory is not missing
        }
    parameters = inspect.signature(kind).parameters.values()
    return {each.name for each in parameters if each.default is not inspect.Parameter.empty}


@pytest.mark.parametrize("kind", NOTHING_OPTIONAL, ids=lambda each: each.__name__)
def test_nothing_of_the_checks_can_be_left_out(kind: type) -> None:
    assert optional(kind) == set()


def test_nothing_that_decides_can_be_left_out_of_the_whole() -> None:
    """`kinds`, `compaction`, `run` and `tell` decide nothing: ports and checks are all named."""
    parameters = inspect.signature(build_companions).parameters
    left_out = {name for name, each in parameters.items() if each.default is not each.empty}
    assert left_out == {"kinds", "compaction", "run", "tell"}


@pytest.fixture
async def agreed(tmp_path: Path) -> Any:
    """A companion with a model to which its owner has agreed."""
    gateway, secrets = FakeGateway(ScriptedModel(), CLOUD), FakeSecrets("secret:x")
    async with opened_device(tmp_path, gateway=gateway, secrets=secrets) as device:
        made = await device.service.new(
            "planner", category_ids=[device.categories["gym"]], model_id="cloud:large"
        )
        shown = await device.service.disclosure(made.id)
        assert shown is not None
        await device.service.consent(made.id, policy_version=shown.policy_version)
        yield device, made.id


async def error_of_a_run(device: CompanionDevice, agent: str) -> str | None:
    woken = await device.service.wake(agent)
    await device.work()
    return (await device.store.require(WakeRun, woken.run_key)).error_code


async def test_the_companion_of_these_tests_may_ask(agreed: Any) -> None:
    assert await error_of_a_run(*agreed) is None


@pytest.mark.parametrize("port", ["_gateway", "_secret_available"])
async def test_a_door_without_this_port_lets_nothing_out(agreed: Any, port: str) -> None:
    """Walks every port of the door that may be None."""
    device, agent = agreed
    hints = get_type_hints(ModelDoor.__init__)
    assert {
        name for name, hint in hints.items() if type(None) in getattr(hint, "__args__", ())
    } == {
        "gateway",
        "secret_available",
    }
    setattr(device.companions.workflow.door, port, None)
    assert await error_of_a_run(device, agent) in ("network_denied", "secret_unavailable")
    assert device.gateway.sent == []


async def test_without_approvals_nothing_that_needs_a_yes_is_done(agreed: Any) -> None:
    device, agent = agreed
    device.executor.operations.approvals = None
    asked = {"category_id": device.categories["gym"], "title": "x"}
    assert (await device.call(agent, "create_task", **asked)).error_code == "confirmation_required"
    assert await device.tasks() == []


@pytest.mark.parametrize("field", sorted(optional(ModelGrant) - {"revoked_at"}))
async def test_a_grant_without_a_field_grants_nothing(agreed: Any, field: str) -> None:
    """`revoked_at` is the one field whose presence refuses."""
    device, agent = agreed
    (grant,) = await device.store.find(ModelGrant)
    left = ModelGrant.model_validate(grant.model_dump(exclude={field}))
    assert left != grant
    await device.store.put(left)
    refusals = ("provider_not_allowed", "privacy_confirmation_required")
    assert await error_of_a_run(device, agent) in refusals
    assert device.gateway.sent == []


async def test_a_destination_without_its_key_or_port_is_another_one(agreed: Any) -> None:
    device, agent = agreed
    companion = await device.store.require(Companion, agent)
    grants = ModelGrants(device.store)
    assert optional(ModelDestination) == {"host", "port", "secret_ref_id"}
    for field in optional(ModelDestination):
        left = ModelDestination.model_validate(CLOUD.model_dump(exclude={field}))
        terms = await grants.terms(left, PROVIDER_FIELDS)
        assert not await grants.confirmed(companion, terms), field


async def test_a_projection_policy_without_fields_shows_nothing(agreed: Any) -> None:
    device, agent = agreed
    assert "allowed_fields" not in optional(ProjectionPolicy)
    for policy in await device.store.find(ProjectionPolicy):
        await device.store.put(policy.model_copy(update={"allowed_fields": ()}))
    assert await error_of_a_run(device, agent) == "privacy_confirmation_required"


LEAVES_OUT: dict[str, Callable[[AgentOperation], dict[str, Any]]] = {
    "reason": lambda _: {},  # it is for people; what is done does not depend on it
    "attempt_count": lambda _: {},
    "last_error": lambda _: {},
    "result": lambda _: {},
    "phase": lambda _: {"phase": OperationPhase.PLANNED},
    "status": lambda _: {},  # pending, as it is
    "prompt_item_ids": lambda _: {},
    "approvable": lambda _: {"approvable": None},
    "token": lambda _: {"token": None, "phase": OperationPhase.APPROVED},
}


@pytest.mark.parametrize("field", sorted(optional(AgentOperation)))
async def test_an_operation_without_a_field_does_nothing_unasked(agreed: Any, field: str) -> None:
    """A card is open, and nobody has said yes: whatever is missing in its row, nothing is done."""
    device, agent = agreed
    asked = {"category_id": device.categories["gym"], "title": "x"}
    await device.call(agent, "create_task", op="op_1", **asked)
    (kept,) = await device.store.find(AgentOperation)
    await device.store.put(kept.model_copy(update=LEAVES_OUT[field](kept)))
    for _ in range(2):
        await device.service.recover()
        await device.service.decided("op_1")
    assert await device.tasks() == []


async def test_a_call_whose_origin_nobody_has_looked_at_is_external(agreed: Any) -> None:
    device, agent = agreed
    call = device.tool_call(agent, "create_task")
    left = AgentToolCall.model_validate(call.model_dump(exclude={"taint"}))
    assert left.taint is TaintLevel.EXTERNAL


def test_an_action_is_shown_whole_and_carries_its_risk() -> None:
    assert optional(ApprovableAction) == {"preview", "reason"}


def test_a_profile_that_names_nothing_allows_nothing() -> None:
    assert optional(AgentCapabilityProfile) == set()
    empty = AgentCapabilityProfile(capabilities=frozenset(), tools=frozenset({"create_task"}))
    assert not empty.allows("create_task", frozenset())


def test_a_tool_says_what_it_needs_and_how_risky_it_is() -> None:
    free = {"side_effects", "high_when", "allowed_wake_reasons", "data_minimization_policy_ref"}
    assert optional(CompanionTool) - optional(ToolDeclaration) == free
    for tool in companion_tools().tools.values():
        assert bool(tool.capabilities) == tool.offered, tool.name


def test_a_kind_asks_first_unless_it_says_otherwise() -> None:
    """The defaults of a definition: a yes from medium on, every usual limit, nothing that wakes."""
    shipped = KindLibrary(companion_tools()).get("planner")
    needed = {"kind", "display_name", "summary", "instructions", "capabilities", "tools"}
    fields = {name: getattr(shipped, name) for name in (*needed, "report", "persona")}
    bare = CompanionDefinition(**fields)
    assert bare.confirm_from == "medium"
    limits = bare.budget
    assert None not in (limits.tokens, limits.cost_micro_usd, limits.runtime_ms, limits.tool_calls)
    assert (bare.subscriptions, bare.timers, bare.offline) == ((), (), "report_only")


async def test_a_companion_without_categories_sees_nothing(agreed: Any) -> None:
    device, agent = agreed
    companion = await device.store.require(Companion, agent)
    await device.store.put(companion.model_copy(update={"allowed_category_ids": ()}))
    result = await device.call(agent, "list_tasks_in_scope")
    assert result.error_code == "out_of_scope"


async def test_a_companion_without_a_model_asks_none(agreed: Any) -> None:
    device, agent = agreed
    assert AgentConfig().model_id is None
    await device.service.configure(agent, offline=True)
    assert await error_of_a_run(device, agent) is None
    assert device.gateway.sent == []
