"""A secret that is told in the conversation: kept nowhere, offered to the vault by its name."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from playwright.async_api import Browser, expect

from silas.app.agents import Agents
from silas.app.core import Core, make_core
from silas.secrets import OnDemandVault
from silas.settings.load import load_settings
from silas.stream.models import AgentTurn, RouteDecision
from silas.stream.turn_context import VaultDoor
from silas.testing import FakeClock, MemoryVault
from silas.testing.stream import FakeProxy, direct
from silas.web.pending_secrets import PendingSecrets, SecretState
from silas.work.ports import ToolCaller
from tests.stream.house import open_house
from tests.web.browsing import PHONE, Person
from tests.web.place import Place, TestDevice, environ_for, open_place
from tests.web.test_accessibility import violations

VALUE = "hunter2pass"
TOLD = f"my wifi password is {VALUE}"


@pytest_asyncio.fixture(loop_scope="session")
async def core(tmp_path: Path) -> AsyncIterator[Core]:
    loaded = load_settings(data_dir=str(tmp_path), config_file=None, environ={}, cwd=tmp_path)
    vault = MemoryVault()
    async with make_core(loaded, OnDemandVault(lambda: vault)) as core:
        yield core


async def no_agent(turn: AgentTurn, tools: ToolCaller) -> RouteDecision:
    return direct(f"I was asked: {turn.request}")


async def say(line: Any, text: str) -> str:
    said = await line.say(text)
    told = await line.until("message", sender="silas", trace_id=f"trace_{said['message_id']}")
    return str(told["text"])


async def test_it_is_kept_nowhere_and_goes_to_the_vault(place: Place, device: TestDevice) -> None:
    async with device.conversation() as line:
        answer = await say(line, TOLD)
        assert answer == (
            "That looks like a secret, so I did not keep it. Type it into the card under Review, "
            "and it goes to the vault as `wifi-password`."
        )
        asked = await line.until("secure_input_request", ref_id="wifi-password")
        assert asked["label"] == "Your wifi password"
        [shown] = [each for each in line.heard if each.get("sender") == "owner"]
        assert shown["text"] == "my wifi password is [redacted]"
        listed = (await device.get("/api/memory/page/remembered/newest")).json()
        assert listed["memories"] == []
        # Nothing is in the vault yet, so nothing says that it is.
        assert "vault" not in await say(line, "What is my wifi password?")
        stored = await device.signed_post("/secrets/wifi-password", {"value": VALUE})
        assert stored.status_code == 200
        answer = await say(line, "What is my wifi password?")
        assert "in the vault as `wifi-password`" in answer
        assert "`silas secrets show wifi-password`" in answer
        assert VALUE not in answer
        [memory] = (await device.get("/api/memory/page/remembered/newest")).json()["memories"]
        assert memory["memory"]["content"] == (
            "Your wifi password is in the vault, under the name wifi-password."
        )
        assert memory["origin"] == "You put a secret into the vault"
        assert "yours replaces it" in await say(line, f"Remember that the wifi password is {VALUE}")
    assert place.core.vault.get("wifi-password") == VALUE.encode()
    named = "SELECT name FROM sqlite_master WHERE type = 'table'"
    tables = [name for (name,) in await place.core.database.fetch_all(named)]
    assert {"chronicle_entries", "said", "conversations", "memory_items", "audit_log"} <= {*tables}
    for table in tables:
        rows = await place.core.database.fetch_all(f"SELECT * FROM {table}")
        assert VALUE not in str(rows), table
    context = place.house.stream.turns.context
    assert context is not None
    assert VALUE not in await context.render("owner", 9)


async def test_the_card_is_there_again_after_a_restart_and_its_value_never_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    environ = environ_for(tmp_path)
    monkeypatch.setenv("HOME", environ["HOME"])
    async with open_place(tmp_path, environ) as place:
        device = await place.device()
        async with device.conversation() as line:
            await say(line, TOLD)
            await say(line, "my door code is 4711")
    async with open_place(tmp_path, environ) as place:
        device = await place.device()
        async with device.conversation() as line:
            asked = await line.until("secure_input_request", ref_id="wifi-password")
            assert asked["label"] == "Your wifi password"
            rows = await place.core.database.fetch_all("SELECT * FROM asked_secrets")
            assert VALUE not in str(rows)
            assert "4711" not in str(rows)
            stored = await device.signed_post("/secrets/wifi-password", {"value": VALUE})
            assert stored.status_code == 200
            await line.until("card_closed", request_id="secret:wifi-password", state="stored")
            declined = await device.signed_post("/api/secrets/decline", {"ref_id": "door-code"})
            assert declined.status_code == 200
            await line.until("card_closed", request_id="secret:door-code", state="declined")
        [memory] = (await device.get("/api/memory/page/remembered/newest")).json()["memories"]
        assert "under the name wifi-password" in memory["memory"]["content"]
        again = await device.signed_post("/secrets/wifi-password", {"value": "x"})
        assert again.status_code == 409
    async with open_place(tmp_path, environ) as place:
        assert await place.front.secrets.open_requests() == []
        device = await place.device()
        async with device.conversation():
            gone = await device.signed_post("/secrets/door-code", {"value": "4711"})
        assert gone.status_code == 404


async def test_a_card_that_nobody_answers_is_withdrawn_in_time(core: Core) -> None:
    clock = FakeClock()
    secrets = PendingSecrets(core.vault, core.database, clock)
    await secrets.ask("wifi-password", "Your wifi password", told="wifi password")
    clock.advance(days=6)
    assert [each.ref_id for each in await secrets.open_requests()] == ["wifi-password"]
    clock.advance(days=2)
    assert await secrets.open_requests() == []
    assert await secrets.fulfil("wifi-password", VALUE) == (SecretState.UNKNOWN, "")
    assert core.vault.get("wifi-password") is None
    await secrets.ask("door-code", "Your door code")
    assert len(await core.database.fetch_all("SELECT * FROM asked_secrets")) == 1


async def test_what_is_typed_twice_at_once_is_stored_once(core: Core) -> None:
    secrets = PendingSecrets(core.vault, core.database, FakeClock())
    await secrets.ask("wifi-password", "Your wifi password")
    states = await asyncio.gather(
        *(secrets.fulfil("wifi-password", value) for value in ("first", "second"))
    )
    assert {state for state, _ in states} == {SecretState.PENDING, SecretState.FULFILLED}


async def test_a_model_is_neither_asked_nor_told(tmp_path: Path) -> None:
    proxy = FakeProxy(no_agent)
    async with open_house(tmp_path, Agents(proxy=proxy)) as house:
        told = await house.say(f"Remember: my API key is sk-{'a' * 30}")
        answer = await house.answer_to(told)
        assert "`silas secrets set api-key` puts it into the vault." in answer.content
        assert proxy.turns == []
        object.__setattr__(house.stream.turns, "vault", VaultDoor(lambda: ["api-key"]))
        asked = await house.say("What is my API key?")
        assert "in the vault as `api-key`" in (await house.answer_to(asked)).content
        assert proxy.turns == []
        assert await house.audited("secret_not_kept")


async def test_somebody_who_did_not_sign_gets_no_card(tmp_path: Path) -> None:
    asked: list[str] = []

    async def ask(name: str, _label: str) -> bool:
        asked.append(name)
        return True

    async with open_house(tmp_path, Agents(proxy=FakeProxy(no_agent))) as house:
        object.__setattr__(house.stream.turns, "vault", VaultDoor(lambda: ["wifi-password"], ask))
        told = await house.say(TOLD, signed=False)
        assert "not signed as yours" in (await house.answer_to(told)).content
        question = await house.say("What is my wifi password?", signed=False)
        assert "in the vault" not in (await house.answer_to(question)).content
    assert asked == []


@pytest.mark.slow
async def test_on_the_page_the_card_takes_it_to_the_vault(place: Place, browser: Browser) -> None:
    person = await Person.at(browser, PHONE)
    page = person.page
    await page.emulate_media(reduced_motion="reduce")
    await person.pair(place.web.link())
    await person.say(TOLD)
    await expect(page.locator(".message.owner .bubble")).to_have_text(
        "my wifi password is [redacted]"
    )
    await page.get_by_text("That looks like a secret").wait_for()
    await person.go("review")
    await person.card_is_awake()
    assert await violations(person) == []
    await page.get_by_role("textbox", name="Your wifi password").fill(VALUE)
    await page.get_by_role("button", name="Store it in the vault").click()
    await expect(page.get_by_text("Nothing is waiting for you")).to_be_visible()
    assert place.core.vault.get("wifi-password") == VALUE.encode()
    assert VALUE not in await page.content()
    assert person.complaints == []


@pytest.mark.slow
async def test_on_the_page_the_card_can_be_declined(place: Place, browser: Browser) -> None:
    person = await Person.at(browser, PHONE)
    await person.page.emulate_media(reduced_motion="reduce")
    await person.pair(place.web.link())
    await place.web.ask_secret("door-code", "Your door code")
    await person.go("review")
    await person.card_is_awake()
    await person.page.get_by_role("button", name="Do not store it").click()
    await expect(person.page.get_by_text("Nothing is waiting for you")).to_be_visible()
    assert await place.front.secrets.open_requests() == []


@pytest.mark.slow
async def test_a_card_that_expires_leaves_an_open_page_by_itself(
    place: Place, browser: Browser
) -> None:
    person = await Person.at(browser, PHONE)
    await person.page.emulate_media(reduced_motion="reduce")
    await person.page.clock.install()
    await person.pair(place.web.link())
    await place.web.ask_secret("door-code", "Your door code")
    await person.go("review")
    await person.page.locator(".card-of-secret").wait_for()
    await person.page.clock.fast_forward((7 * 24 * 60 - 1) * 60 * 1000)
    await expect(person.page.locator(".card-of-secret")).to_have_count(1)
    await person.page.clock.fast_forward("02:00")
    await expect(person.page.locator(".card-of-secret")).to_have_count(0)
    await expect(person.page.get_by_text("Nothing is waiting for you")).to_be_visible()
