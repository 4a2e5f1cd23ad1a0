"""The policy: one way out, allowlists, consent, secrets by name, projections, budgets."""

import json
from collections.abc import AsyncIterator
from datetime import UTC, date, datetime, time, timedelta
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from silas.companions.errors import OversharedPayloadBlocked
from silas.companions.gateway import ModelGrants
from silas.companions.messages import AgentMessage, RunTrace, WakeRun
from silas.companions.models import (
    AgentActionType,
    BudgetLimits,
    BudgetUsage,
    BudgetWindow,
    Companion,
    ModelGrant,
    ProviderPrivacyPolicy,
)
from silas.companions.ports import (
    CompanionProposal,
    CompanionRequest,
    ModelDestination,
    ModelUsage,
    ProposedAction,
)
from silas.companions.projection import PROVIDER_FIELDS, project, require_projected
from silas.testing.companions import (
    CompanionDevice,
    FakeGateway,
    FakeSecrets,
    ScriptedModel,
    opened_device,
    restarted,
)

CLOUD = ModelDestination(
    provider="cloud", model="large", host="api.cloud.example", secret_ref_id="secret:cloud"
)
OTHER = ModelDestination(provider="other", model="small", host="api.other.example")
KEY = "sk-live-0123456789abcdefghij"

LABELLER = """
kind: labeller
display_name: Labeller
summary: Labels tasks.
instructions: For tests.
capabilities: [task_read, task_write]
tools: [list_tasks_in_scope, assign_task_labels]
confirm_from: high
subscriptions:
  - name: changed
    tokens: [{token_class: semantic_key, token_value: TASK}]
report:
  headline: Labels
  sections: [{id: changed, title: Changed, shows: changed}]
persona: {voice: Short.}
budget: {tool_calls: 6}
"""


@pytest.fixture
def secrets() -> FakeSecrets:
    return FakeSecrets("secret:cloud")


@pytest.fixture
def gateway() -> FakeGateway:
    answer = CompanionProposal(usage=ModelUsage(tokens=1000, cost_usd=0.01, seconds=1.0))
    return FakeGateway(ScriptedModel(answer), CLOUD, OTHER)


@pytest.fixture
async def device(
    tmp_path: Path, gateway: FakeGateway, secrets: FakeSecrets
) -> AsyncIterator[CompanionDevice]:
    async with opened_device(tmp_path, gateway=gateway, secrets=secrets) as device:
        yield device


@pytest.fixture
async def agent(device: CompanionDevice) -> str:
    """A Planner with a model in the cloud, to which nobody has agreed yet."""
    made = await device.service.new(
        "planner", category_ids=[device.categories["gym"]], model_id="cloud:large"
    )
    return made.id


async def agree(device: CompanionDevice, agent: str) -> None:
    shown = await device.service.disclosure(agent)
    assert shown is not None
    await device.service.consent(agent, policy_version=shown.policy_version)


async def run(device: CompanionDevice, agent: str) -> WakeRun:
    woken = await device.service.wake(agent)
    await device.work()
    return await device.store.require(WakeRun, woken.run_key)


class TestEgress:
    async def test_network_egress_deny_by_default(
        self, device: CompanionDevice, agent: str, gateway: FakeGateway
    ) -> None:
        companion = await device.store.require(Companion, agent)
        away = companion.config.model_copy(update={"model_id": "evil:host.example"})
        await device.store.put(companion.model_copy(update={"config": away}))
        ended = await run(device, agent)
        assert (ended.status, ended.error_code) == ("failed_terminal", "network_denied")
        assert gateway.sent == []
        (told,) = await device.store.find(AgentMessage, {"agent_id": agent, "kind": "tool_result"})
        assert told.metadata.tool_name == "model_inference"
        assert (told.metadata.status, told.metadata.error_code) == ("error", "network_denied")

    async def test_a_model_that_is_not_configured_cannot_be_chosen(
        self, device: CompanionDevice
    ) -> None:
        with pytest.raises(Exception, match="not among the configured models: cloud:large"):
            await device.service.new(
                "planner", category_ids=[device.categories["gym"]], model_id="evil:host.example"
            )

    async def test_whose_model_is_gone_can_still_be_configured(
        self, device: CompanionDevice, agent: str
    ) -> None:
        companion = await device.store.require(Companion, agent)
        gone = companion.config.model_copy(update={"model_id": "gone:model"})
        await device.store.put(companion.model_copy(update={"config": gone}))
        assert (await device.service.configure(agent, display_name="Pia")).display_name == "Pia"
        assert (await device.service.configure(agent, model_id="cloud:large")).needs_consent

    async def test_no_gateway_means_no_way_out(self, tmp_path: Path) -> None:
        async with opened_device(tmp_path) as device:
            made = await device.service.new("planner", category_ids=[device.categories["gym"]])
            device.companions.workflow.door._gateway = None
            ended = await run(device, made.id)
            assert ended.error_code == "network_denied"

    async def test_nothing_picks_another_model(
        self, device: CompanionDevice, agent: str, gateway: FakeGateway
    ) -> None:
        await agree(device, agent)
        await run(device, agent)
        assert {destination.model_id for destination, _ in gateway.sent} == {"cloud:large"}


class TestAccess:
    async def test_inference_with_disallowed_provider_or_model_fails_with_no_outbound_request(
        self, device: CompanionDevice, agent: str, gateway: FakeGateway
    ) -> None:
        assert (await run(device, agent)).error_code == "provider_not_allowed"
        await agree(device, agent)
        (grant,) = await device.store.find(ModelGrant)
        await device.store.put(grant.model_copy(update={"model": "tiny"}))
        assert (await run(device, agent)).error_code == "model_not_allowed"
        await device.store.put(grant.model_copy(update={"category_ids": ("elsewhere",)}))
        assert (await run(device, agent)).error_code == "provider_not_allowed"
        assert gateway.sent == []

    async def test_a_category_that_is_added_later_needs_its_own_yes(
        self, device: CompanionDevice, agent: str, gateway: FakeGateway
    ) -> None:
        await agree(device, agent)
        await device.service.configure(agent, category_ids=list(device.categories.values()))
        assert (await run(device, agent)).error_code == "provider_not_allowed"
        await agree(device, agent)
        assert (await run(device, agent)).status == "completed"
        assert len(gateway.sent) == 1

    async def test_provider_model_policy_enforcement_by_agent_and_category(
        self, device: CompanionDevice, agent: str
    ) -> None:
        await agree(device, agent)
        other = await device.service.new(
            "strategist", category_ids=[device.categories["gym"]], model_id="cloud:large"
        )
        assert (await device.service.show(other.id)).companion.needs_consent
        assert (await run(device, other.id)).error_code == "provider_not_allowed"
        (grant,) = await device.store.find(ModelGrant)
        key = grant.id.replace(agent, other.id)
        await device.store.put(grant.model_copy(update={"id": key}))
        assert (await run(device, other.id)).error_code == "provider_not_allowed"


class TestConsent:
    async def test_inference_with_missing_privacy_confirmation_fails_closed(
        self, device: CompanionDevice, agent: str, gateway: FakeGateway
    ) -> None:
        await agree(device, agent)
        (grant,) = await device.store.find(ModelGrant)
        await device.store.put(grant.model_copy(update={"disclosure_hash": "of another text"}))
        ended = await run(device, agent)
        assert ended.error_code == "privacy_confirmation_required"
        assert gateway.sent == []
        assert (await device.service.list())[0].needs_consent
        await agree(device, agent)
        assert (await run(device, agent)).status == "completed"
        assert len(gateway.sent) == 1
        assert not (await device.service.list())[0].needs_consent

    async def test_policy_version_change_invalidates_prior_confirmation(
        self, device: CompanionDevice, agent: str, gateway: FakeGateway
    ) -> None:
        await agree(device, agent)
        await device.service.describe_provider(agent, training="Now used for training.")
        assert (await run(device, agent)).error_code == "privacy_confirmation_required"
        assert gateway.sent == []
        await agree(device, agent)
        assert (await run(device, agent)).status == "completed"

    async def test_another_text_under_the_same_version_is_no_consent(
        self, device: CompanionDevice, agent: str
    ) -> None:
        await agree(device, agent)
        shown = (await ModelGrants(device.store).terms(CLOUD, PROVIDER_FIELDS)).shown
        await device.store.put(shown.model_copy(update={"retention": "For ever."}))
        assert (await run(device, agent)).error_code == "privacy_confirmation_required"

    async def test_what_was_not_shown_cannot_be_confirmed(
        self, device: CompanionDevice, agent: str
    ) -> None:
        with pytest.raises(Exception, match="changed since"):
            await device.service.consent(agent, policy_version="something else")
        assert await device.store.find(ModelGrant) == []

    async def test_a_consent_can_be_taken_back(self, device: CompanionDevice, agent: str) -> None:
        await agree(device, agent)
        await device.service.revoke_consent(agent)
        assert (await run(device, agent)).status == "failed_terminal"

    async def test_the_disclosure_names_every_field(
        self, device: CompanionDevice, agent: str
    ) -> None:
        shown = await device.service.disclosure(agent)
        assert shown is not None
        assert set(shown.fields) == PROVIDER_FIELDS
        assert "api.cloud.example" in shown.disclosure
        assert await device.store.find(ProviderPrivacyPolicy) == []


class TestSecrets:
    async def test_inference_with_missing_or_locked_secret_fails_closed(
        self, device: CompanionDevice, agent: str, gateway: FakeGateway, secrets: FakeSecrets
    ) -> None:
        await agree(device, agent)
        secrets.names.clear()
        assert (await run(device, agent)).error_code == "secret_unavailable"
        assert gateway.sent == []

    async def test_raw_provider_secrets_are_never_persisted_only_secret_ref_id_appears(
        self, device: CompanionDevice, agent: str, gateway: FakeGateway
    ) -> None:
        await agree(device, agent)
        await device.task(f"Rotate {KEY}")
        ended = await run(device, agent)
        assert ended.status == "completed"
        assert KEY not in gateway.sent[0][1].model_dump_json()
        trace = await device.service.trace(ended.run_key)
        assert KEY not in json.dumps(trace.inputs["requests"])
        assert "secret:cloud" not in trace.model_dump_json()
        (receipt,) = await device.store.find(ModelGrant)
        assert receipt.secret_ref_id == "secret:cloud", "where it is, never what it is"


class TestProjection:
    async def test_need_to_know_boundary_payloads_include_only_allowlisted_fields(
        self, device: CompanionDevice, agent: str, gateway: FakeGateway
    ) -> None:
        await agree(device, agent)
        await device.task("Squats", body="A diary entry that is nobody's business.")
        await run(device, agent)
        payload = gateway.sent[0][1].payload
        require_projected(payload, PROVIDER_FIELDS)
        assert "nobody's business" not in json.dumps(payload)
        assert [each["title"] for each in payload["facts"]] == ["Squats"]

    async def test_need_to_know_projection_blocks_overshared_fields(
        self,
        device: CompanionDevice,
        agent: str,
        gateway: FakeGateway,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        await agree(device, agent)
        monkeypatch.setattr(
            "silas.companions.run_record.RunSetting.payload",
            lambda *_, **__: {"now": "x", "diary": "Everything."},
        )
        ended = await run(device, agent)
        assert ended.error_code == "overshared_payload_blocked"
        assert gateway.sent == []
        trace = await device.store.require(RunTrace, ended.run_key)
        (refusal,) = [each for each in trace.policy_decisions if not each.allowed]
        assert (refusal.check, refusal.error_code) == ("projection", "overshared_payload_blocked")

    def test_a_kind_may_show_less(self) -> None:
        allowed = frozenset({"now", "facts[].title"})
        source = {"now": "1", "time_zone": "UTC", "facts": [{"title": "a", "status": "b"}]}
        assert project(source, allowed) == {"now": "1", "facts": [{"title": "a"}]}

    def test_an_empty_list_lets_nothing_through(self) -> None:
        assert project({"now": "1"}, frozenset()) == {}
        with pytest.raises(OversharedPayloadBlocked):
            require_projected({}, frozenset())

    @pytest.mark.parametrize(
        "sneaky",
        [
            {"facts": [{"title": {"deep": "x"}}]},
            {"facts": {"title": "x"}},
            {"facts[].title": "x"},
            {"now": ["x"]},
            {"now": {"x": 1}},
            {"facts": [["title"]]},
            {"now": object()},
        ],
    )
    def test_another_shape_is_another_field(self, sneaky: dict[str, Any]) -> None:
        with pytest.raises(OversharedPayloadBlocked):
            require_projected(sneaky, frozenset({"now", "facts[].title"}))

    values = st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(max_size=5),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(
                st.sampled_from(["now", "facts", "title", "x", "a.b"]), inner, max_size=3
            )
        ),
        max_leaves=12,
    )

    @given(st.dictionaries(st.sampled_from(["now", "facts", "title", "x"]), values, max_size=4))
    def test_what_was_projected_always_passes(self, source: dict[str, Any]) -> None:
        allowed = frozenset({"now", "facts[].title", "facts[].facts[]", "x.*"})
        require_projected(project(source, allowed), allowed)


class TestBudgets:
    async def test_budget_policy_gives_a_deterministic_budget_exceeded(
        self, device: CompanionDevice, agent: str
    ) -> None:
        await device.service.configure(agent, budget=BudgetLimits(tool_calls=2))
        codes = [
            (await device.call(agent, "list_tasks_in_scope", op=str(number))).error_code
            for number in range(4)
        ]
        assert codes == [None, None, "budget_exceeded", "budget_exceeded"]
        assert (await device.service.list())[0].health == "out_of_budget"

    async def test_budget_enforcement_blocks_writes_at_hard_limit_across_restart(
        self, device: CompanionDevice, agent: str
    ) -> None:
        await device.service.configure(agent, budget=BudgetLimits(tool_calls=1))
        await device.call(agent, "list_tasks_in_scope")
        before = await device.journal.last_cursor()
        plan = {"plan_date": "2026-01-02"}
        codes = [(await device.call(agent, "get_or_create_day_plan", op="w1", **plan)).error_code]
        fresh = await restarted(device)
        try:
            result = await fresh.call(agent, "get_or_create_day_plan", op="w2", **plan)
            assert [*codes, result.error_code] == ["budget_exceeded"] * 2
            assert await fresh.journal.last_cursor() == before
        finally:
            await fresh.close()

    async def test_tokens_and_money_are_counted_and_limited(
        self, device: CompanionDevice, agent: str, gateway: FakeGateway
    ) -> None:
        await agree(device, agent)
        await device.service.configure(agent, budget=BudgetLimits(tokens=1500))
        assert (await run(device, agent)).status == "completed"
        state = (await device.service.list())[0].budget
        assert (state.used.tokens, state.used.cost_micro_usd) == (1000, 10_000)
        assert gateway.sent[-1][1].allowance.tokens == 750, "half of a day at most"
        await run(device, agent)
        assert (await run(device, agent)).error_code == "budget_exceeded"
        assert len(gateway.sent) == 2

    async def test_the_time_of_a_model_is_counted_once(
        self,
        device: CompanionDevice,
        agent: str,
        gateway: FakeGateway,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        await agree(device, agent)
        answer = gateway.propose

        async def slow(*asked: Any) -> CompanionProposal:
            device.clock.advance(seconds=1)
            return await answer(*asked)

        monkeypatch.setattr(gateway, "propose", slow)
        await run(device, agent)
        assert (await device.service.list())[0].budget.used.runtime_ms == 1000

    async def test_the_soft_share_warns_and_stops_nothing(
        self, device: CompanionDevice, agent: str
    ) -> None:
        await device.service.configure(agent, budget=BudgetLimits(tool_calls=5, soft_share=0.4))
        for number in range(3):
            result = await device.call(agent, "list_tasks_in_scope", op=str(number))
            assert result.success
        state = (await device.service.list())[0].budget
        assert (state.over_soft, state.over_hard) == (("tool_calls",), ())

    async def test_companions_that_wake_each_other_come_to_an_end(self, tmp_path: Path) -> None:
        def label(request: CompanionRequest) -> CompanionProposal:
            (task,) = [each for each in request.payload["facts"] if each.get("changed")]
            named = {"task_id": task["id"], "labels": [f"label-{len(task['labels'])}"]}
            action = ProposedAction(
                action_type=AgentActionType.TOOL_CALL,
                tool_name="assign_task_labels",
                arguments=named,
            )
            return CompanionProposal(actions=(action,))

        file = tmp_path / "labeller.yaml"
        file.write_text(LABELLER)
        async with opened_device(tmp_path, gateway=FakeGateway(ScriptedModel(label))) as device:
            for _ in range(2):
                await device.service.new("", file=file, category_ids=[device.categories["gym"]])
            task = await device.task("Squats")
            for _ in range(40):
                await device.journal.settled()
                if not await device.work():
                    break
            else:
                pytest.fail("they wake each other for ever")
            (kept,) = [each for each in await device.tasks() if each.id == task]
            assert 2 <= len(kept.labels) <= 6
            assert {each.health for each in await device.service.list()} <= {
                "out_of_budget",
                "failing",
            }

    async def test_budget_window_daily_reset_boundaries(
        self, device: CompanionDevice, agent: str
    ) -> None:
        """Berlin's day ends at 23:00 UTC in winter."""
        device.clock.set(datetime(2026, 1, 1, 22, 59, tzinfo=UTC))
        await device.service.configure(agent, budget=BudgetLimits(tool_calls=1))
        await device.call(agent, "list_tasks_in_scope", op="1")
        assert (await device.call(agent, "list_tasks_in_scope", op="2")).error_code
        device.clock.advance(minutes=1)
        assert (await device.call(agent, "list_tasks_in_scope", op="3")).success

    @pytest.mark.parametrize(("day", "hours"), [(date(2026, 3, 29), 23), (date(2026, 10, 25), 25)])
    async def test_days_of_23_and_25_hours(
        self, device: CompanionDevice, agent: str, day: date, hours: int
    ) -> None:
        begin = datetime.combine(day, time(), ZoneInfo("Europe/Berlin")).astimezone(UTC)
        await device.service.configure(agent, budget=BudgetLimits(tool_calls=1))
        device.clock.set(begin)
        await device.call(agent, "list_tasks_in_scope", op="1")
        device.clock.set(begin + timedelta(hours=hours, seconds=-1))
        assert (await device.call(agent, "list_tasks_in_scope", op="2")).error_code
        device.clock.set(begin + timedelta(hours=hours))
        assert (await device.call(agent, "list_tasks_in_scope", op="3")).success

    async def test_budget_enforcement_blocks_at_hard_limit_across_devices(
        self, device: CompanionDevice, agent: str
    ) -> None:
        await device.service.configure(agent, budget=BudgetLimits(tool_calls=3))
        await device.call(agent, "list_tasks_in_scope", op="1")
        (window,) = await device.store.find(BudgetWindow, {"agent_id": agent})
        # As sync will write it: each host has counted its own part.
        usage = {**window.usage_by_host, "host-b": BudgetUsage(tool_calls=2)}
        await device.store.put(window.model_copy(update={"usage_by_host": usage}))
        result = await device.call(agent, "list_tasks_in_scope", op="2")
        assert result.error_code == "budget_exceeded"
