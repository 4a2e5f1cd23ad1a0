"""A Silas that was started without its passphrase: the page asks for it, and nothing else works."""

import asyncio
import contextlib
import json
import logging
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import pytest
import schemathesis
from fastapi import FastAPI
from playwright.async_api import Browser, expect
from schemathesis import GenerationMode

from silas.app.core import Core, make_core
from silas.app.web import WebFront
from silas.kernel import SystemClock
from silas.secrets import OnDemandVault, open_vault
from silas.testing import FakeClock
from tests.secrets.files import PASSPHRASE
from tests.web.browsing import Person
from tests.web.place import TestDevice, environ_for, http_client, open_place, settings_for
from tests.web.test_accessibility import violations_by_day_and_night
from tests.web.test_api import cases_of


@dataclass
class Locked:
    """A locked Silas, and what was tried on its vault."""

    web: WebFront
    core: Core
    tried: list[str] = field(default_factory=list)

    def code(self) -> str:
        return self.web.link().partition("#pair=")[2]

    async def ask(self, method: str, path: str, **more: Any) -> httpx.Response:
        headers = {"Origin": self.web.address, **more.pop("headers", {})}
        async with http_client(self.web.address) as client:
            return await client.request(method, path, headers=headers, **more)

    async def unlock(self, **body: Any) -> httpx.Response:
        return await self.ask("POST", "/api/unlock", json=body)


@contextlib.asynccontextmanager
async def locked_place(
    directory: Path, environ: dict[str, str], *, clock: Any = None
) -> AsyncIterator[Locked]:
    """Locked, until somebody gives the passphrase; then the whole Silas, at the same address."""
    loaded = settings_for(directory, environ)
    without = {k: v for k, v in environ.items() if k != "SILAS_VAULT_PASSPHRASE"}
    vault = OnDemandVault(lambda: open_vault(loaded.paths.vault, environ=without))
    web = WebFront(clock or SystemClock(), environ=without, home=Path(environ["HOME"]))
    ready, stopping = asyncio.Event(), asyncio.Event()

    async def live(core: Core, place: Locked) -> None:
        def unlock(passphrase: str) -> None:
            place.tried.append(passphrase)
            opened = open_vault(loaded.paths.vault, environ={}, passphrase=passphrase)
            opened.list()
            vault.use(opened)

        await web.wait_for_passphrase(core, unlock, stopping=stopping, ready=ready.set)
        if not stopping.is_set():
            async with web.open(core):
                await stopping.wait()

    async with make_core(loaded, vault) as core:
        place = Locked(web, core)
        living = asyncio.create_task(live(core, place))
        try:
            await ready.wait()
            yield place
        finally:
            stopping.set()
            await living


@pytest.fixture
async def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """The environment of a directory in which one device is paired."""
    environ = environ_for(tmp_path)
    monkeypatch.setenv("HOME", environ["HOME"])
    async with open_place(tmp_path, environ):
        pass
    return environ


async def _is_open(place: Locked) -> None:
    """The whole Silas has come up; who asks in between waits in the queue of the same address."""
    while (await place.ask("GET", "/health")).json()["status"] != "ok":  # noqa: ASYNC110
        await asyncio.sleep(0.02)


async def test_health_and_the_page_answer_and_nothing_else_works(
    tmp_path: Path, home: dict[str, str]
) -> None:
    async with locked_place(tmp_path, home) as place:
        assert (await place.ask("GET", "/health")).json() == {"status": "locked", "connections": 0}
        assert "<title>Silas</title>" in (await place.ask("GET", "/")).text
        assert (await place.ask("GET", "/pairing.js")).status_code == 200
        for method, path in [
            ("GET", "/api/setup"),
            ("GET", "/api/approvals"),
            ("POST", "/api/pair"),
            ("POST", "/secrets/models/openai"),
        ]:
            body = {"json": {}} if method == "POST" else {}
            answer = await place.ask(method, path, **body)
            assert answer.status_code == 423, path
            assert "Silas is locked" in answer.json()["detail"]
            assert answer.json()["code"] == "E_SECRETS_LOCKED"
        # What is for the owner's socket alone stays so.
        assert (await place.ask("POST", "/api/web/pair", json={})).status_code == 404
        assert place.tried == []


async def test_the_right_passphrase_opens_it_and_the_code_still_pairs(
    tmp_path: Path, home: dict[str, str], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    async with locked_place(tmp_path, home) as place:
        code, address = place.code(), place.web.address
        wrong = await place.unlock(passphrase="not the one at all", code=code)
        assert wrong.status_code == 403
        assert "not the passphrase" in wrong.json()["detail"]
        right = await place.unlock(passphrase=PASSPHRASE, code=code)
        assert (right.status_code, right.json()) == (200, {"unlocked": True})
        await _is_open(place)
        assert place.web.address == address
        device = TestDevice(address)
        assert (await device.pair(code)).status_code == 200
        events = [entry.event for entry in await place.core.audit.tail(20)]
        assert "vault_unlocked" in events
        assert (await place.unlock(passphrase=PASSPHRASE, code=code)).status_code == 404
    assert PASSPHRASE not in caplog.text
    assert "not the one at all" not in caplog.text
    assert "Traceback" not in caplog.text


async def test_who_had_connected_to_the_locked_page_is_answered_by_the_open_one(
    tmp_path: Path, home: dict[str, str]
) -> None:
    async with locked_place(tmp_path, home) as place:
        host, _, port = place.web.address.removeprefix("http://").partition(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        writer.write(b"GET /health HTTP/1.1\r\n")  # the rest comes when Silas is open
        await writer.drain()
        right = await place.unlock(passphrase=PASSPHRASE, code=place.code())
        assert right.status_code == 200
        await _is_open(place)
        writer.write(f"Host: {host}:{port}\r\n\r\n".encode())
        assert (await reader.readline()).startswith(b"HTTP/1.1 200")
        writer.close()
        await writer.wait_closed()


async def test_a_device_that_signs_may_give_it_and_a_stranger_may_not(
    tmp_path: Path, home: dict[str, str]
) -> None:
    async with open_place(tmp_path, home) as open_one:
        device = await open_one.device()
        revoked = await open_one.device("Another")
        await open_one.core.devices.revoke(revoked.device_id)
    async with locked_place(tmp_path, home) as place:
        body = {"passphrase": PASSPHRASE, "device_id": device.device_id}
        assert (await place.unlock(passphrase=PASSPHRASE)).status_code == 401
        assert (await place.unlock(**body)).status_code == 401  # not signed
        strange = TestDevice(place.web.address)
        assert (await strange.signed_post("/api/unlock", body)).status_code == 401
        gone = await revoked.signed_post("/api/unlock", {**body, "device_id": revoked.device_id})
        assert gone.status_code == 401
        assert (await place.unlock(passphrase=PASSPHRASE, code="x" * 32)).status_code == 403
        assert place.tried == []
        device.address = place.web.address
        assert (await device.signed_post("/api/unlock", body)).status_code == 200
        await _is_open(place)


async def test_few_tries_in_a_minute(tmp_path: Path, home: dict[str, str]) -> None:
    clock = FakeClock()
    async with locked_place(tmp_path, home, clock=clock) as place:
        code = place.code()
        for _ in range(5):
            assert (await place.unlock(passphrase="wrong again", code=code)).status_code == 403
        answer = await place.unlock(passphrase=PASSPHRASE, code=code)
        assert answer.status_code == 429
        assert "Wait" in answer.json()["detail"]
        assert len(place.tried) == 5
        clock.advance(seconds=61)
        assert (await place.unlock(passphrase=PASSPHRASE, code=code)).status_code == 200
        await _is_open(place)


async def test_only_this_machine_gives_it(tmp_path: Path, home: dict[str, str]) -> None:
    environ = {**home, "SILAS_CHANNELS__WEB__PUBLIC_ORIGINS": '["https://silas.example"]'}
    async with locked_place(tmp_path, environ) as place:
        # As a proxy passes it on: the caller is on loopback, the page is not.
        answer = await place.ask(
            "POST",
            "/api/unlock",
            json={"passphrase": PASSPHRASE, "code": place.code()},
            headers={"Host": "silas.example", "Origin": "https://silas.example"},
        )
        assert answer.status_code == 403
        assert "on the machine where Silas runs" in answer.json()["detail"]
        assert place.tried == []


@pytest.mark.parametrize(
    "body",
    [{}, {"passphrase": ""}, {"passphrase": 5}, {"passphrase": "x" * 5000}, {"passphrase": ["x"]}],
)
async def test_what_is_no_passphrase_is_refused_and_not_repeated(
    tmp_path: Path, home: dict[str, str], body: dict[str, Any]
) -> None:
    async with locked_place(tmp_path, home) as place:
        answer = await place.unlock(**body, code=place.code())
        assert answer.status_code == 422
        assert "xxxx" not in answer.text
        assert place.tried == []


async def test_the_page_asks_for_it_and_goes_on(
    tmp_path: Path, home: dict[str, str], browser: Browser
) -> None:
    async with locked_place(tmp_path, home) as place:
        person = await Person.at(browser)
        await person.page.goto(place.web.link())
        await expect(person.page.get_by_role("heading", name="Silas is locked")).to_be_visible()
        await person.page.reload()  # the link was used up by nothing
        field_ = person.page.get_by_label("Passphrase")
        await expect(field_).to_be_focused()
        await field_.fill("wrong wrong")
        await person.page.keyboard.press("Enter")
        await expect(person.page.get_by_role("alert")).to_contain_text("not the passphrase")
        await expect(field_).to_have_value("")
        assert await violations_by_day_and_night(person) == []
        await field_.fill(PASSPHRASE)
        await person.page.get_by_role("button", name="Unlock").click()
        await person.page.get_by_role("button", name="Pair this browser").click()
        await person.is_in()


async def test_a_browser_that_is_not_paired_is_told_what_to_type(
    tmp_path: Path, home: dict[str, str], browser: Browser
) -> None:
    async with locked_place(tmp_path, home) as place:
        person = await Person.at(browser)
        await person.page.goto(place.web.address)
        await expect(person.page.get_by_role("heading", name="Silas is locked")).to_be_visible()
        await expect(person.page.get_by_text("silas unlock")).to_be_visible()
        await expect(person.page.get_by_label("Passphrase")).to_have_count(0)
        assert await violations_by_day_and_night(person) == []


async def test_a_paired_page_notices_that_silas_came_back_locked(
    tmp_path: Path, home: dict[str, str], browser: Browser
) -> None:
    person = await Person.at(browser)
    async with open_place(tmp_path, home) as place:
        await person.pair(place.web.link())
    await person.is_out()
    async with locked_place(tmp_path, home):
        await expect(person.page.get_by_role("heading", name="Silas is locked")).to_be_visible()
        await person.page.get_by_label("Passphrase").fill(PASSPHRASE)
        await person.page.get_by_role("button", name="Unlock").click()
        await person.is_in()


async def test_pairing_survives_a_reload_and_ends_with_it(tmp_path: Path, browser: Browser) -> None:
    environ = environ_for(tmp_path)
    async with open_place(tmp_path, environ) as place:
        person = await Person.at(browser)
        await person.page.goto(place.web.link())
        button = person.page.get_by_role("button", name="Pair this browser")
        await expect(button).to_be_visible()
        assert "pair" not in person.page.url
        await person.page.reload()
        await button.click()
        await person.is_in()
        assert await person.page.evaluate("history.state") is None
        await person.page.reload()
        await person.is_in()


@pytest.mark.slow
@pytest.mark.parametrize("mode", list(GenerationMode), ids=lambda mode: mode.value)
async def test_a_stranger_gets_nothing_from_a_locked_silas(
    tmp_path: Path, home: dict[str, str], mode: GenerationMode
) -> None:
    async with locked_place(tmp_path, home) as place:
        served = place.web.api._open
        assert isinstance(served, FastAPI)
        schema = schemathesis.openapi.from_dict(served.openapi())
        for found in schema.get_all_operations():
            operation = found.ok()
            for case in cases_of(operation, mode, 3):
                body = {} if not case.operation.body else {"json": as_jsonable(case.body)}
                answer = await place.ask(case.method, case.formatted_path, **body)
                if operation.path != "/health":
                    assert answer.status_code in {401, 403, 404, 405, 413, 415, 422, 423, 429}
        assert place.tried == []
        assert (await place.ask("GET", "/health")).json()["status"] == "locked"


def as_jsonable(body: Any) -> Any:
    try:
        json.dumps(body)
    except (TypeError, ValueError):
        return {}
    return body
