"""A consent is for exactly this provider, host, account, model, these fields and this text."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from silas.companions.errors import CompanionInvalid
from silas.companions.gateway import ModelGrants
from silas.companions.ids import projection_policy_id
from silas.companions.messages import WakeRun
from silas.companions.models import ModelGrant, ModelRule, ModelRuleScope, ProjectionPolicy
from silas.companions.ports import CompanionProposal, ModelDestination
from silas.companions.projection import OPERATION_KEY, PROVIDER_FIELDS
from silas.testing.companions import (
    CompanionDevice,
    FakeGateway,
    FakeSecrets,
    ScriptedModel,
    opened_device,
)
from tests.companions.test_kinds import OWN

CLOUD = ModelDestination(
    provider="cloud",
    model="large",
    host="api.cloud.example",
    port=443,
    secret_ref_id="secret:cloud",
)
POLICY = projection_policy_id("provider_inference_request", OPERATION_KEY)


@pytest.fixture
def gateway() -> FakeGateway:
    return FakeGateway(ScriptedModel(CompanionProposal()), CLOUD)


@pytest.fixture
async def device(tmp_path: Path, gateway: FakeGateway) -> AsyncIterator[CompanionDevice]:
    secrets = FakeSecrets("secret:cloud", "secret:free-account")
    async with opened_device(tmp_path, gateway=gateway, secrets=secrets) as device:
        yield device


@pytest.fixture
async def agent(device: CompanionDevice) -> str:
    """A Planner whose owner has agreed to its model."""
    made = await device.service.new(
        "planner", category_ids=[device.categories["gym"]], model_id="cloud:large"
    )
    await agree(device, made.id)
    return made.id


async def agree(device: CompanionDevice, agent: str) -> None:
    shown = await device.service.disclosure(agent)
    assert shown is not None
    await device.service.consent(agent, policy_version=shown.policy_version)


async def code_of_a_run(device: CompanionDevice, agent: str) -> str | None:
    woken = await device.service.wake(agent)
    await device.work()
    return (await device.store.require(WakeRun, woken.run_key)).error_code


async def described(device: CompanionDevice) -> None:
    """What the provider says was configured, and the owner has agreed to it."""
    said = {"training": "No.", "retention": "30 days.", "jurisdiction": "EU."}
    await ModelGrants(device.store).describe(CLOUD, said)


@pytest.mark.parametrize("stored", [False, True], ids=["made up", "configured"])
@pytest.mark.parametrize(
    "other",
    [
        {"host": "proxy.evil.example"},
        {"port": 8443},
        {"secret_ref_id": "secret:free-account"},
    ],
    ids=["host", "port", "account"],
)
async def test_another_host_or_account_asks_again(
    device: CompanionDevice,
    agent: str,
    gateway: FakeGateway,
    monkeypatch: pytest.MonkeyPatch,
    stored: bool,
    other: dict[str, Any],
) -> None:
    if stored:
        await described(device)
        await agree(device, agent)
    assert await code_of_a_run(device, agent) is None
    elsewhere = CLOUD.model_copy(update=other)
    monkeypatch.setitem(gateway._known, "cloud:large", elsewhere)
    assert await code_of_a_run(device, agent) == "privacy_confirmation_required"
    assert [where for where, _ in gateway.sent] == [CLOUD]
    assert (await device.service.list())[0].needs_consent
    await agree(device, agent)
    assert await code_of_a_run(device, agent) is None


async def test_two_servers_on_one_host_are_two(
    device: CompanionDevice, agent: str, gateway: FakeGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each is shown with its port, and what is known about one is not known about the other."""
    one, other = (
        CLOUD.model_copy(update={"host": "127.0.0.1", "port": port}) for port in (11434, 8080)
    )
    monkeypatch.setitem(gateway._known, "cloud:large", one)
    await ModelGrants(device.store).describe(one, {"retention": "Nothing is kept."})
    shown = await device.service.disclosure(agent)
    assert shown is not None
    assert (shown.host, shown.retention) == ("127.0.0.1:11434", "Nothing is kept.")
    monkeypatch.setitem(gateway._known, "cloud:large", other)
    shown = await device.service.disclosure(agent)
    assert shown is not None
    assert shown.host == "127.0.0.1:8080"
    assert shown.retention != "Nothing is kept."


def test_an_address_as_people_write_it() -> None:
    at = [
        CLOUD.model_copy(update={"host": host, "port": port}).address
        for host, port in ((None, None), ("a.example", 443), ("a.example", 80), ("::1", 8080))
    ]
    assert at == [None, "a.example", "a.example:80", "[::1]:8080"]


async def test_other_fields_ask_again_and_fewer_are_shown(
    device: CompanionDevice, agent: str, gateway: FakeGateway
) -> None:
    """The stored projection policy is what is in force."""
    await device.task("Squats")
    policy = await device.store.require(ProjectionPolicy, POLICY)
    fewer = tuple(each for each in policy.allowed_fields if each != "facts[].title")
    await device.store.put(policy.model_copy(update={"allowed_fields": fewer}))
    assert await code_of_a_run(device, agent) == "privacy_confirmation_required"
    await agree(device, agent)
    assert await code_of_a_run(device, agent) is None
    assert "Squats" not in gateway.sent[-1][1].model_dump_json()
    shown = await device.service.disclosure(agent)
    assert shown is not None
    assert set(shown.fields) == set(fewer)


async def test_a_stored_policy_cannot_show_more(
    device: CompanionDevice, agent: str, gateway: FakeGateway
) -> None:
    policy = await device.store.require(ProjectionPolicy, POLICY)
    more = (*policy.allowed_fields, "facts[].body", "*")
    await device.store.put(policy.model_copy(update={"allowed_fields": more}))
    await device.task("Squats", body="A diary entry.")
    assert await code_of_a_run(device, agent) is None
    assert "diary" not in gateway.sent[-1][1].model_dump_json()


async def test_without_a_projection_policy_nothing_is_sent(
    device: CompanionDevice, agent: str, gateway: FakeGateway
) -> None:
    await device.store.delete(ProjectionPolicy, POLICY)
    assert await code_of_a_run(device, agent) == "privacy_confirmation_required"
    await agree(device, agent)
    assert await code_of_a_run(device, agent) == "overshared_payload_blocked"
    assert gateway.sent == []


async def test_the_policy_of_an_older_version_is_written_anew_at_the_start(
    device: CompanionDevice, agent: str
) -> None:
    policy = await device.store.require(ProjectionPolicy, POLICY)
    old = {"policy_version": "old", "allowed_fields": ("now",)}
    await device.store.put(policy.model_copy(update=old))
    await device.service.recover()
    kept = await device.store.require(ProjectionPolicy, POLICY)
    assert set(kept.allowed_fields) == PROVIDER_FIELDS


async def test_a_kind_that_shows_less_has_a_consent_of_its_own(
    device: CompanionDevice, agent: str, tmp_path: Path, gateway: FakeGateway
) -> None:
    file = tmp_path / "own.yaml"
    file.write_text(OWN.replace("persona:", "provider_fields: [now, wake.reason]\npersona:", 1))
    made = await device.service.new(
        "", file=file, category_ids=[device.categories["gym"]], model_id="cloud:large"
    )
    assert (await device.service.show(made.id)).companion.needs_consent
    await agree(device, made.id)
    assert await code_of_a_run(device, made.id) is None
    assert set(gateway.sent[-1][1].payload) == {"now", "wake"}
    receipts = await device.store.find(ModelGrant)
    assert sorted(len(each.fields) for each in receipts) == [2, len(PROVIDER_FIELDS)]


@pytest.mark.parametrize(
    "forged",
    [
        {"host": None},
        {"port": None},
        {"secret_ref_id": None},
        {"fields": ()},
        {"disclosure_hash": "0"},
    ],
    ids=lambda each: next(iter(each)),
)
async def test_a_receipt_is_compared_word_for_word(
    device: CompanionDevice, agent: str, forged: dict[str, Any]
) -> None:
    (receipt,) = await device.store.find(ModelGrant)
    await device.store.put(receipt.model_copy(update=forged))
    assert await code_of_a_run(device, agent) == "privacy_confirmation_required"


@pytest.mark.parametrize(
    "missing", [{"port"}, {"host", "port", "fields", "secret_ref_id"}], ids=len
)
async def test_a_receipt_of_an_earlier_version_is_none(
    device: CompanionDevice, agent: str, missing: set[str]
) -> None:
    """It did not say which host, or which port of it, and which fields it was for."""
    (receipt,) = await device.store.find(ModelGrant)
    old = receipt.model_dump(exclude=missing)
    await device.store.put(ModelGrant.model_validate(old))
    assert await code_of_a_run(device, agent) == "privacy_confirmation_required"


async def test_a_second_companion_on_an_agreed_model_asks_and_then_works(
    device: CompanionDevice, agent: str
) -> None:
    """An agreement is for one companion; nobody is told `agreed` who has not."""
    second = await device.service.new(
        "planner", category_ids=[device.categories["gym"]], model_id="cloud:large"
    )
    shown = await device.service.disclosure(second.id)
    assert shown is not None
    assert (second.needs_consent, shown.confirmed) == (True, False)
    assert await code_of_a_run(device, second.id) == "provider_not_allowed"
    await agree(device, second.id)
    assert await code_of_a_run(device, second.id) is None


async def test_who_gets_a_category_more_is_asked_about_and_is_not_said_to_be_agreed(
    device: CompanionDevice, agent: str
) -> None:
    both = [device.categories["gym"], device.categories["work"]]
    changed = await device.service.configure(agent, category_ids=both)
    shown = await device.service.disclosure(agent)
    assert shown is not None
    assert (changed.needs_consent, shown.confirmed) == (True, False)
    assert await code_of_a_run(device, agent) == "provider_not_allowed"
    await agree(device, agent)
    after = await device.service.disclosure(agent)
    assert after is not None
    assert after.confirmed
    assert await code_of_a_run(device, agent) is None


@pytest.mark.parametrize("of", ["category", "kind"])
async def test_the_owner_says_which_models_are_asked_about_a_category_or_by_a_kind(
    device: CompanionDevice, gateway: FakeGateway, agent: str, of: str
) -> None:
    """A rule stands above every agreement; without it, the agreement holds again."""
    scope = ModelRuleScope(of)
    target = device.categories["gym"] if of == "category" else "planner"
    with pytest.raises(CompanionInvalid, match="not among the configured"):
        await device.service.set_model_rule(scope, target, models=("other:small",))
    rule = ModelRule(
        id=f"{of}:{target}",
        scope=scope,
        target=target,
        models=("home:small",),
        updated_at=device.clock.now(),
    )
    await device.store.put(rule)
    assert await code_of_a_run(device, agent) == "network_denied"
    assert gateway.sent == []
    await device.service.set_model_rule(scope, target, models=("cloud:*",))
    assert await code_of_a_run(device, agent) is None
    await device.service.set_model_rule(scope, target)
    assert await device.service.model_rules() == ()
    assert await code_of_a_run(device, agent) is None
