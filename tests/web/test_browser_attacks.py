"""Other people's pages in the same Chromium, and what they get: nothing.

The browser's own protections of private networks are switched off, so that Silas has to defend
itself. One Silas and one browser serve all of these; every test is a person with a device of his.
"""

import asyncio
import contextlib
import hashlib
import json
import re
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio
from playwright.async_api import Browser, Page, expect
from playwright.async_api import Error as PlaywrightError

from silas.kernel import canonical_bytes
from silas.web.showing import items_of, shown_card
from silas.web.wire import TO_PAGE
from tests.web.browsing import DESK, Person
from tests.web.place import Place, environ_for, open_place

pytestmark = pytest.mark.slow
PAYLOAD = '<img src=x onerror="window.hit=1"><script>window.hit=1</script>'


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def place(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Place]:
    directory: Path = tmp_path_factory.mktemp("attacked")
    environ = environ_for(directory)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HOME", environ["HOME"])
        async with open_place(directory, environ) as place:
            yield place


@pytest_asyncio.fixture(loop_scope="session")
async def person(place: Place, browser: Browser) -> AsyncIterator[Person]:
    """Somebody who is paired; what he leaves open is declined when he goes."""
    await close_everything(place)
    person = await Person.at(browser, DESK)
    await person.pair(place.web.link())
    yield person
    await person.page.context.close()
    await close_everything(place)


async def close_everything(place: Place) -> None:
    """Cards, the questions that follow from deciding many of them, and secrets asked for."""
    # Work that is shown as done still asks whether it is to be undone.
    async with asyncio.timeout(120):
        while await place.core.database.fetch_one("SELECT 1 FROM queue_messages"):  # noqa: ASYNC110
            await asyncio.sleep(0.02)
    await place.core.database.execute("UPDATE review_cards SET state = 'declined'")
    for question in await place.house.reviews.questions.open():
        await place.house.reviews.questions.close(question.question_id, "outdated")
    for request in await place.front.secrets.open_requests():
        await place.front.secrets.decline(request.ref_id)
    await place.web.hub.tell_cards(place.front)


@contextlib.asynccontextmanager
async def evil_page(person: Person) -> AsyncIterator[Page]:
    """A page of somebody else's, in the browser of a paired owner."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        body = b"<!doctype html><title>evil</title><body>evil"
        head = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nConnection: close\r\n"
        writer.write(head + b"Content-Length: %d\r\n\r\n" % len(body) + body)
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    page = await person.page.context.new_page()
    try:
        await page.goto(f"http://evil.test:{port}/")
        yield page
    finally:
        server.close()


def port_of(place: Place) -> str:
    return place.address.rpartition(":")[2]


async def tell(place: Place, text: str, message_id: str) -> None:
    """An answer of Silas's with this text."""
    frame = {
        "type": "message", "sender": "silas", "number": 900, "message_id": message_id,
        "text": text, "timestamp": "2099-01-01T00:00:00.000000Z", "trace_id": "t",
        "surface": "stream", "final": True, "chips": [PAYLOAD], "card_id": None,
    }  # fmt: skip
    place.web.hub.tell(TO_PAGE.validate_python(frame))


class TestAnotherPage:
    async def test_gets_no_websocket(self, place: Place, person: Person) -> None:
        before = set(place.web.hub.pages)
        async with evil_page(person) as evil:
            socket = f"""new Promise((resolve) => {{
                const socket = new WebSocket("{place.address.replace("http", "ws")}/ws");
                socket.onopen = () => resolve("open");
                socket.onmessage = () => resolve("message");
                socket.onclose = () => resolve("closed");
            }})"""
            assert await evil.evaluate(socket) == "closed"
        assert place.web.hub.pages <= before, "a page of an earlier test may still be going"

    async def test_reads_nothing_and_loads_no_script(self, place: Place, person: Person) -> None:
        async with evil_page(person) as evil:
            fetched = f"""fetch("{place.address}/api/devices", {{ credentials: "include" }})
                .then((answer) => answer.text()).catch(() => "blocked")"""
            assert await evil.evaluate(fetched) == "blocked"
            loaded = f"""new Promise((resolve) => {{
                const script = document.createElement("script");
                script.onload = () => resolve("loaded");
                script.onerror = () => resolve("blocked");
                script.src = "{place.address}/app.js";
                document.body.append(script);
            }})"""
            assert await evil.evaluate(loaded) == "blocked"

    async def test_a_no_cors_fetch_stores_no_secret(self, place: Place, person: Person) -> None:
        await place.front.secrets.ask("evil/a", "x")
        async with evil_page(person) as evil:
            for kind in ("text/plain", "application/x-www-form-urlencoded"):
                await evil.evaluate(f"""fetch("{place.address}/secrets/evil/a", {{
                    method: "POST", mode: "no-cors", credentials: "include",
                    headers: {{ "Content-Type": "{kind}" }}, body: '{{"value":"x"}}',
                }}).catch(() => null)""")
            beacon = f'navigator.sendBeacon("{place.address}/secrets/evil/a", \'{{"value":"x"}}\')'
            await evil.evaluate(beacon)
        assert place.core.vault.get("evil/a") is None

    @pytest.mark.parametrize("path", ["/secrets/evil/b", "/api/pair", "/api/setup/model"])
    async def test_an_auto_submitted_form_does_nothing(
        self, place: Place, person: Person, path: str
    ) -> None:
        await place.front.secrets.ask("evil/b", "x")
        devices = len(await place.core.devices.list())
        async with evil_page(person) as evil:
            await evil.evaluate(f"""() => {{
                const form = document.createElement("form");
                form.method = "post";
                form.enctype = "text/plain";
                form.action = "{place.address}{path}";
                form.innerHTML = '<input name=\\'{{"value":"x","a":"\\' value=\\'"}}\\'>';
                document.body.append(form);
                form.submit();
            }}""")
            await expect(evil.locator("body")).to_contain_text("Another page sent this.")
        assert place.core.vault.get("evil/b") is None
        assert len(await place.core.devices.list()) == devices

    async def test_cannot_put_the_approve_button_under_a_frame(
        self, place: Place, person: Person
    ) -> None:
        async with evil_page(person) as evil:
            await evil.evaluate(f"""() => {{
                const frame = document.createElement("iframe");
                frame.src = "{place.address}/";
                frame.style = "opacity: 0; position: absolute; inset: 0";
                document.body.append(frame);
                return new Promise((resolve) => {{ frame.onload = resolve; }});
            }}""")
            texts = [await frame.locator("body").inner_text() for frame in evil.frames[1:]]
            assert not any("Silas" in text for text in texts)

    async def test_has_no_handle_on_our_window_and_is_none_of_ours(
        self, place: Place, person: Person
    ) -> None:
        async with evil_page(person) as evil:
            async with evil.context.expect_page() as opening:
                await evil.evaluate(f'void (window.other = window.open("{place.address}/"))')
            ours = await opening.value
            await ours.wait_for_load_state()
            assert await ours.evaluate("window.opener") is None
            seen = """() => { try { return window.other.closed || typeof window.other.document; }
                catch { return "blocked"; } }"""
            assert await evil.evaluate(seen) in {True, "blocked"}

    async def test_cannot_register_a_service_worker_for_us(
        self, place: Place, person: Person
    ) -> None:
        register = """(address) => navigator.serviceWorker?.register(address)
            .then(() => "registered", () => "refused") ?? "none here" """
        async with evil_page(person) as evil:
            assert await evil.evaluate(register, f"{place.address}/sw.js") != "registered"


class TestAnotherName:
    @pytest.mark.parametrize("name", ["rebind.test", "localhost.", "0.0.0.0"])
    async def test_opens_nothing(self, place: Place, person: Person, name: str) -> None:
        page = await person.page.context.new_page()
        with contextlib.suppress(PlaywrightError):  # the browser itself may refuse the address
            answer = await page.goto(f"http://{name}:{port_of(place)}/")
            assert answer is not None
            assert answer.status == 421
        assert await page.locator("script").count() == 0


class TestTheAddress:
    async def test_a_parameter_points_the_page_nowhere(self, place: Place, person: Person) -> None:
        """CVE-2026-25253: a URL parameter sends the client to another server, with its token."""
        page = await person.page.context.new_page()
        answer = await page.goto(f"{place.address}/?gatewayUrl=ws://evil.test/")
        assert answer is not None
        assert answer.status == 400
        sockets: list[str] = []
        page.on("websocket", lambda socket: sockets.append(socket.url))
        await page.goto(f"{place.address}/#ws=ws://evil.test/&token=x")
        await expect(page.locator("[data-line]")).to_have_attribute("data-state", "open")
        assert {re.sub(r"/ws$", "", each) for each in sockets} == {f"ws{place.address[4:]}"}
        assert page.url == f"{place.address}/"

    async def test_the_code_is_in_no_referrer_history_or_log(
        self, place: Place, browser: Browser, caplog: pytest.LogCaptureFixture
    ) -> None:
        caplog.set_level("DEBUG")
        other = await Person.at(browser)
        link = place.web.link()
        code = link.partition("#pair=")[2]
        headers: list[str] = []
        other.page.on("request", lambda request: headers.append(str(request.headers)))
        await other.pair(link)
        await tell(place, "[out](https://example.org/x)", "out_1")
        await other.page.locator("[data-message=out_1] a").wait_for()
        relation = await other.page.locator("[data-message=out_1] a").evaluate(
            "(link) => [link.rel, link.referrerPolicy, link.target]"
        )
        assert relation == ["noopener noreferrer nofollow", "no-referrer", "_blank"]
        entries = await other.page.evaluate(
            "JSON.stringify([history.state, document.referrer, location.href])"
        )
        assert code not in entries + " ".join(headers) + caplog.text
        await other.page.go_back()
        assert "pair=" not in other.page.url or code not in other.page.url
        audited = str([entry.data for entry in await place.core.audit.tail(50)])
        assert code not in audited
        await other.page.context.close()


class TestText:
    async def test_is_never_markup(self, place: Place, person: Person) -> None:
        page = person.page
        asked: list[str] = []
        page.on("request", lambda request: asked.append(request.url))
        await person.say(PAYLOAD)
        await expect(page.locator(".bubble").last).to_have_text(PAYLOAD)
        links = "[a](javascript:window.hit=1) ![b](http://evil.test/c.png) [d](data:text/html,x)"
        svg = '<svg onload="window.hit=1"><image href="//evil.test/d.png"/></svg>'
        text = f"{PAYLOAD} {links} {svg} <b>bold</b> [fine](https://example.org/x) \u202e\u200b"
        await tell(place, text, "evil_1")
        shown = page.locator("[data-message=evil_1]")
        await expect(shown).to_contain_text("<script>window.hit=1</script>")
        await expect(shown.locator(".hidden-character")).to_have_count(2)
        assert await shown.locator("img, script, b, iframe, image, svg[onload]").count() == 0
        addresses = await shown.locator("a").evaluate_all("(all) => all.map((each) => each.href)")
        assert addresses == ["https://example.org/x"]
        assert await page.evaluate("window.hit") is None
        assert [url for url in asked if "evil.test" in url] == [], "nothing is fetched unasked"

    async def test_of_a_card_is_shown_to_the_letter(self, place: Place, person: Person) -> None:
        page = person.page
        await person.say("create a file evil.txt with hello")
        await person.card_is_awake()
        [card] = await place.house.cards.open_cards()
        shown = shown_card(
            card,
            await items_of(card, place.front.items),
            place.front.decisions,
            place.front.calls.work.registry.effect_of,
        )
        plan = json.loads(shown.items[0].plan)
        plan["title"] = "Read a\u202eb\u200bc"
        plan["body"] = f"{PAYLOAD} d\u2066e"
        text = canonical_bytes(plan).decode()
        digest = hashlib.sha256(text.encode()).hexdigest()
        item = shown.items[0].model_copy(update={"plan": text, "plan_hash": digest})
        place.web.hub.tell(shown.model_copy(update={"request_id": "card_odd", "items": [item]}))
        await page.get_by_role("button", name="Decline, do nothing").click()
        await expect(page.locator(".card-intent")).to_have_text("Read aU+202EbU+200Bc")
        await page.get_by_text("Everything that is signed").click()
        await expect(page.locator(".plan-text")).to_have_text(f"{PAYLOAD} dU+2066e")
        assert await page.locator(".card img, .card script").count() == 0
        assert await page.evaluate("window.hit") is None

    async def test_no_script_and_no_picture_of_elsewhere_runs_here(self, person: Person) -> None:
        outside = await person.page.evaluate("""() => new Promise((resolve) => {
            const image = new Image();
            image.onload = image.onerror = (event) => resolve(event.type);
            image.src = "http://evil.test:9/x.png";
        })""")
        assert outside == "error"
        async with asyncio.timeout(60):
            while not any("Content Security" in text for text in person.complaints):  # noqa: ASYNC110
                await asyncio.sleep(0.02)
        tried = await person.page.evaluate("""() => [
            () => { document.body.innerHTML = "x"; },
            () => { document.createElement("script").src = "/app.js"; },
        ].map((each) => { try { each(); return "done"; } catch { return "no"; } })""")
        assert tried == ["no", "no"]


class TestTheServiceWorker:
    async def test_no_other_file_becomes_one(self, place: Place, person: Person) -> None:
        scope = await person.page.evaluate(
            "navigator.serviceWorker.ready.then((worker) => worker.scope)"
        )
        assert scope == f"{place.address}/"
        for path in ("/app.js", "/secrets/x", "data:text/javascript,1"):
            tried = await person.page.evaluate(
                """(path) => { try { return navigator.serviceWorker.register(path)
                    .then(() => "registered", () => "no"); } catch { return "no"; } }""",
                path,
            )
            assert tried == "no", path

    async def test_keeps_no_card_and_shows_no_stale_one(self, place: Place, person: Person) -> None:
        page = person.page
        await page.evaluate("navigator.serviceWorker.ready.then(() => true)")
        await page.reload()
        await person.is_in()
        await person.say("create a file stale.txt with secret words")
        await person.card_is_awake()
        kept = await page.evaluate("""async () => {
            const all = [];
            for (const name of await caches.keys()) {
                const cache = await caches.open(name);
                for (const request of await cache.keys()) {
                    const answer = await cache.match(request);
                    all.push(new URL(request.url).pathname + " " + await answer.text());
                }
            }
            return all;
        }""")
        assert len(kept) > 10
        assert [each[:40] for each in kept if "secret words" in each] == []
        assert all(re.match(r"/[\w.-]* ", each) for each in kept)
        await page.context.set_offline(True)
        await page.reload()
        await expect(page.locator("[data-line]")).to_have_attribute("data-state", "waiting")
        assert await page.locator(".card").count() == 0
        await page.context.set_offline(False)


class TestACard:
    async def test_that_lies_cannot_be_approved(self, place: Place, person: Person) -> None:
        await person.say("create a file a.txt with hello")
        await person.card_is_awake()
        [card] = await place.house.cards.open_cards()
        shown = shown_card(
            card,
            await items_of(card, place.front.items),
            place.front.decisions,
            place.front.calls.work.registry.effect_of,
        )
        [item] = shown.items
        lie = item.model_copy(update={"plan": item.plan.replace("hello", "other")})
        place.web.hub.tell(shown.model_copy(update={"request_id": "card_lie", "items": [lie]}))
        await person.page.get_by_role("button", name="Decline, do nothing").click()
        await expect(person.page.locator(".card-broken")).to_contain_text(
            "does not show what would be signed"
        )
        assert await person.page.locator(".card-broken button").count() == 0

    async def test_a_click_that_is_too_early_and_one_of_a_script_do_nothing(
        self, place: Place, person: Person
    ) -> None:
        early = """() => new Promise((resolve) => {
            const watch = new MutationObserver(() => {
                const button = document.querySelector(".card .primary");
                if (!button) return;
                watch.disconnect();
                button.click();
                resolve(document.querySelectorAll(".card .confirm").length);
            });
            watch.observe(document.body, { childList: true, subtree: true });
        })"""
        await person.page.evaluate(f"void (window.early = ({early})())")
        await person.say("create a file early.txt with x")
        assert await person.page.evaluate("window.early") == 0
        await person.card_is_awake()
        await person.page.evaluate("document.querySelector('.card .primary').click()")
        assert await person.page.locator(".card .confirm").count() == 0, "no script can click it"

    async def test_submitted_twice_is_decided_once(self, place: Place, person: Person) -> None:
        await person.say("create a file twice.txt with x")
        await person.card_is_awake()
        await person.page.get_by_role("button", name="Approve and run").dblclick()
        await person.card_is_awake()
        await person.page.get_by_role("button", name=re.compile("^Yes: ")).dblclick()
        await person.sees_it_done()
        entries = await place.core.audit.tail(60)
        decided = [e for e in entries if e.event == "card_decided"]
        assert len({str(e.data.get("card_id")) for e in decided}) == len(decided)

    async def test_replayed_from_a_second_tab_does_nothing(
        self, place: Place, person: Person
    ) -> None:
        page = person.page
        sent: list[str] = []
        page.on(
            "websocket",
            lambda socket: socket.on("framesent", lambda frame: sent.append(str(frame))),
        )
        await page.reload()
        await person.is_in()
        await person.say("create a file replay.txt with x")
        await person.card_is_awake()
        await page.get_by_role("button", name="Decline, do nothing").click()
        await expect(page.get_by_text("Nothing is waiting for you")).to_be_visible()
        [frame] = [each for each in sent if "approval_response" in each]
        second = await Person.at(page.context.browser, context=page.context)  # type: ignore[arg-type]
        await second.page.add_init_script("""(() => {
            const send = WebSocket.prototype.send;
            WebSocket.prototype.send = function (...all) {
                window.line = this;
                return send.apply(this, all);
            };
        })()""")
        await second.page.goto(place.address)
        await second.is_in()
        await second.page.evaluate("(frame) => window.line.send(frame)", frame)
        await expect(second.page.locator(".toast")).to_contain_text("decided")


async def test_used_and_wrong_codes_pair_nobody(place: Place, browser: Browser) -> None:
    link = place.web.link()
    other = await Person.at(browser)
    await other.pair(link)
    third = await Person.at(browser)
    await third.page.goto(link)
    await third.page.get_by_role("button", name="Pair this browser").click()
    await expect(third.page.get_by_role("alert")).to_contain_text("wrong, used or too old")
    assert "pair=" not in third.page.url


async def test_a_revoked_device_with_an_open_socket_is_out_at_once(
    place: Place, browser: Browser
) -> None:
    """GHSA-m8wm-r5vq-qjpg: an open connection outlives the credential that opened it."""
    person = await Person.at(browser)
    known = {each.device_id for each in await place.core.devices.list()}
    await person.pair(place.web.link())
    [device] = [d for d in await place.core.devices.list() if d.device_id not in known]
    # Written before: a page that asks for something else meanwhile has no field any more.
    await person.page.get_by_label("Message to Silas").fill("create a file revoked.txt with x")
    await place.core.devices.revoke(device.device_id)
    await person.page.keyboard.press("Enter")
    await expect(person.page.get_by_text("This browser is no longer paired")).to_be_visible()
    assert await place.house.cards.open_cards() == []
