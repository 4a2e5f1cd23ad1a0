"""An account that one signs in to at its provider: a certified OpenID provider on loopback."""

import asyncio
import contextlib
import json
import shutil
import socket
import urllib.error
import urllib.request
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from silas.connections.models import Connection, ConnectionRefused, ConnectionStatus, SignInShown
from silas.testing import MemoryVault
from silas.testing.fakes import FakeClock
from tests.connections.place import ConnectionPlace, open_place
from tests.servers.dovecot import Dovecot, require_dovecot
from tests.servers.oidc import CLIENT, OidcProvider, oidc

__all__ = ["oidc"]

LOGIN = "ada@example.org"
BUNDLED = Path(__file__).parents[2] / "silas" / "skills" / "bundled"
DISCOVER = """import json, sys
LATER = {}
hint = json.loads(sys.stdin.readline())["identity_hint"]
print(json.dumps({"auth_strategy": hint.get("flow", "device_code"), "provider": "Letters",
    "username": hint["identity"], "endpoints": [{"kind": "imap", "host": "mail.example.org",
    "port": 993, "tls": "tls"}], "oauth": {"issuer": hint["issuer"], "address": "127.0.0.1",
    "client_id": "silas-tests", "client_secret": "secret" in hint,
    "scopes": ["openid", "offline_access", "email"], "later_scopes": LATER}}))
"""
SETUP = """import json, sys
def tell(**event): print(json.dumps(event), flush=True)
def step(name, step):
    tell(type="setup_step", step_id=name, step=step)
    tell(type="await_input", step_id=name)
    return json.loads(sys.stdin.readline())
start = json.loads(sys.stdin.readline())
tell(type="log", message=json.dumps(start["incremental_scopes"]))
if start["client_secret"]:
    step("c", {"type": "secure_input", "request": {"ref_id": "client_secret", "label": "Secret"}})
said = step("s", {"type": start["auth_strategy"]})
assert said["payload"] == {"ref_id": "sign_in", "success": True}, said
tell(type="completion", connection_payload={"summary": "done"})
"""


@pytest.fixture
async def place(tmp_path: Path):
    async with open_place(tmp_path, vault=MemoryVault()) as place:
        await prepared(place, tmp_path)
        yield place


async def prepared(place: ConnectionPlace, root: Path) -> None:
    await place.install(root / "written", discover=DISCOVER, setup=SETUP)
    quick(place)


def quick(place: ConnectionPlace) -> None:
    """The provider is asked at once, and not every five seconds."""

    async def moment(_: float) -> None:
        await asyncio.sleep(0.05)

    place.manager.sign_ins.oauth._sleep = moment


def tokens(place: ConnectionPlace) -> dict[str, str]:
    """What the vault holds of connections."""
    vault = place.skills.core.vault
    names = [name for name in vault.list() if name.startswith("connections/")]
    return {name: (vault.get(name) or b"").decode() for name in names}


async def begin(place: ConnectionPlace, oidc: OidcProvider, **options: str) -> str:
    """Card and yes; the id of the connection, which is being set up then."""
    question = await place.ask(LOGIN, options={"issuer": oidc.issuer, **options})
    await place.approve(question)
    return str(question.content.body["connection"]["connection_id"])


async def until_sign_in(place: ConnectionPlace, name: str) -> SignInShown:
    async with asyncio.timeout(90):
        while True:
            shown = (await place.service.show(name)).connection
            if shown.sign_in is not None:
                return shown.sign_in
            assert shown.status is ConnectionStatus.CONNECTING, shown.problem
            await asyncio.sleep(0.02)


async def signed_in(place: ConnectionPlace, oidc: OidcProvider) -> Connection:
    name = await begin(place, oidc)
    sign_in = await until_sign_in(place, name)
    assert sign_in.user_code is not None
    await asyncio.to_thread(oidc.enter_code, sign_in.user_code, login=LOGIN)
    active = await place.until_settled(name)
    assert active.status is ConnectionStatus.ACTIVE, active.problem
    return active


def is_open(listening_on: str | None) -> bool:
    host, _, port = str(listening_on).partition(":")
    try:
        with socket.create_connection((host, int(port)), timeout=5):
            return True
    except OSError:
        return False


def still_granted(oidc: OidcProvider, refresh: str) -> bool:
    form = {"client_id": CLIENT, "grant_type": "refresh_token", "refresh_token": refresh}
    return oidc.post("/token", **form)[0] == 200


async def card_of(place: ConnectionPlace, connection: Connection) -> dict[str, Any]:
    [card] = await place.manager.cards.waiting(connection)
    return card.content.body


async def test_the_card_shows_where_one_signs_in_and_the_owner_signs_that(
    place: ConnectionPlace, oidc: OidcProvider
) -> None:
    question = await place.ask(LOGIN, options={"issuer": oidc.issuer})
    summary = " ".join(question.content.body["summary"])
    assert f"You sign in at {oidc.issuer}, at the address 127.0.0.1" in summary
    assert CLIENT in summary
    assert "offline_access" in summary
    assert "password" not in summary
    [row] = await place.manager.list_connections()
    assert row.oauth is not None
    other = row.oauth.model_copy(update={"client_id": "somebody-else"})
    await place.skills.core.database.execute(
        "UPDATE connection_sign_ins SET oauth = ?", (json.dumps(other.model_dump(mode="json")),)
    )
    await place.approve(question)
    [row] = await place.manager.list_connections()
    assert not row.sealed
    assert not place.manager.runs


async def test_by_browser_to_its_end_and_the_port_is_closed(
    place: ConnectionPlace, oidc: OidcProvider
) -> None:
    name = await begin(place, oidc, flow="browser_redirect")
    sign_in = await until_sign_in(place, name)
    assert sign_in.user_code is None
    assert is_open(sign_in.listening_on)

    def person() -> tuple[bytes, int]:
        back = oidc.sign_in(sign_in.url, login=LOGIN)
        forged = back.replace("state=", "state=x")
        with pytest.raises(urllib.error.HTTPError):
            urllib.request.urlopen(forged, timeout=90)
        with urllib.request.urlopen(back, timeout=90) as page:
            return page.read(), page.status

    assert b"You are signed in" in (await asyncio.to_thread(person))[0]
    active = await place.until_settled(name)
    assert active.status is ConnectionStatus.ACTIVE, active.problem
    assert active.token_expires_at is None or active.token_expires_at > active.created_at
    assert not is_open(sign_in.listening_on)


@pytest.mark.parametrize("step", ["device_code", "browser_redirect", "client_secret"])
async def test_cancelled_at_each_step_nothing_is_left(
    place: ConnectionPlace, oidc: OidcProvider, step: str
) -> None:
    if step == "client_secret":
        name = await begin(place, oidc, secret="yes")
        ref = await place.until_secret(name)
        assert ref == f"connections/{name}/client"
        listening_on = None
    else:
        name = await begin(place, oidc, flow=step)
        listening_on = (await until_sign_in(place, name)).listening_on
    await place.service.cancel(name)
    found = await place.manager.store.find(name)
    assert (found.status, found.permissions_granted) == (ConnectionStatus.PROPOSED, ())
    assert tokens(place) == {}
    assert await place.secrets.open_requests() == []
    assert not place.manager.runs
    assert listening_on is None or not is_open(listening_on)


async def test_declined_at_the_provider_the_card_offers_another_try(
    place: ConnectionPlace, oidc: OidcProvider
) -> None:
    name = await begin(place, oidc)
    sign_in = await until_sign_in(place, name)
    await asyncio.to_thread(oidc.deny_code, str(sign_in.user_code))
    failed = await place.until_settled(name)
    assert failed.status is ConnectionStatus.FAILED
    card = await card_of(place, failed)
    assert card["failure_type"] == "consent_denied"
    assert "retry" in [each["action"] for each in card["recovery_options"]]
    assert tokens(place) == {}
    await place.service.reconnect(name)
    again = await until_sign_in(place, name)
    assert again.user_code != sign_in.user_code
    await place.service.cancel(name)


async def test_a_code_that_nobody_enters_ends(tmp_path: Path, oidc: OidcProvider) -> None:
    clock = FakeClock()
    async with open_place(tmp_path, vault=MemoryVault(), clock=clock) as place:
        await prepared(place, tmp_path)
        name = await begin(place, oidc)
        await until_sign_in(place, name)
        clock.advance(minutes=31)
        failed = await place.until_settled(name)
        assert failed.status is ConnectionStatus.FAILED
        assert "in time" in failed.problem
        assert tokens(place) == {}


async def test_removing_takes_the_sign_in_back_at_the_provider(
    place: ConnectionPlace, oidc: OidcProvider
) -> None:
    connection = await signed_in(place, oidc)
    refresh = tokens(place)[f"{connection.ref_id}/refresh"]
    removed = await place.service.remove(connection.connection_id)
    assert removed.problem == ""
    assert tokens(place) == {}
    assert not still_granted(oidc, refresh)
    assert "connection_sign_in_revoked" in await place.events()


async def test_what_a_crash_has_left_is_taken_back_when_silas_starts(
    tmp_path: Path, oidc: OidcProvider
) -> None:
    vault = MemoryVault()
    async with open_place(tmp_path, vault=vault) as place:
        await prepared(place, tmp_path)
        connection = await signed_in(place, oidc)
        half = connection.model_copy(update={"status": ConnectionStatus.CONNECTING})
        await place.manager.store.save(half, "connection_setup_started")
        refresh = tokens(place)[f"{connection.ref_id}/refresh"]
    async with open_place(tmp_path, vault=vault) as place:
        [found] = await place.manager.list_connections()
        assert found.status is ConnectionStatus.PROPOSED
        assert tokens(place) == {}
        assert not still_granted(oidc, refresh)


async def test_tokens_are_renewed_before_they_end_and_a_revoked_one_is_told_with_the_step(
    tmp_path: Path, oidc: OidcProvider
) -> None:
    clock = FakeClock()
    async with open_place(tmp_path, vault=MemoryVault(), clock=clock) as place:
        await prepared(place, tmp_path)
        connection = await signed_in(place, oidc)
        name, first = connection.connection_id, tokens(place)
        connection = await place.manager.store.find(name)
        assert connection.token_expires_at == clock.now() + timedelta(hours=1)
        await place.manager.look()
        assert tokens(place) == first, "an hour is long"
        clock.advance(minutes=51)
        await place.manager.look()
        second = tokens(place)
        assert second[f"{connection.ref_id}/refresh"] != first[f"{connection.ref_id}/refresh"]
        renewed = await place.manager.store.find(name)
        assert renewed.last_refresh == clock.now()
        assert renewed.token_expires_at == clock.now() + timedelta(hours=1)
        await place.manager.look()
        assert tokens(place) == second
        # Somebody uses the old token: the provider takes the whole grant back.
        assert not still_granted(oidc, first[f"{connection.ref_id}/refresh"])
        clock.advance(minutes=51)
        await place.manager.look()
        failed = await place.manager.store.find(name)
        assert failed.status is ConnectionStatus.FAILED
        assert not failed.usable
        card = await card_of(place, failed)
        assert card["failure_type"] == "token_revoked"
        assert next(each["action"] for each in card["recovery_options"]) == "reconnect"
        assert tokens(place) == {}


async def test_a_sign_in_that_is_hardly_used_is_kept_alive(
    tmp_path: Path, oidc: OidcProvider
) -> None:
    clock = FakeClock()
    async with open_place(tmp_path, vault=MemoryVault(), clock=clock) as place:
        await prepared(place, tmp_path)
        connection = await signed_in(place, oidc)
        state = f"{connection.ref_id}/state"
        clock.advance(days=31)
        ends = {"expires_at": None, "scopes": ["email"]}
        soon = (clock.now() + timedelta(days=3)).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        place.skills.core.vault.set(
            state, json.dumps({**ends, "refresh_expires_at": soon}).encode()
        )
        old = tokens(place)[f"{connection.ref_id}/refresh"]
        await place.manager.look()
        assert tokens(place)[f"{connection.ref_id}/refresh"] != old
        assert "proactive_refresh_dormant" in await place.events()


async def test_an_issuer_that_is_another_one_is_refused(
    place: ConnectionPlace, oidc: OidcProvider
) -> None:
    with pytest.raises(ConnectionRefused, match="names another issuer"):
        await place.ask(LOGIN, options={"issuer": f"{oidc.issuer}/"})
    assert await place.manager.list_connections() == []


async def test_just_this_once_says_that_the_token_is_not_narrowed(
    place: ConnectionPlace, oidc: OidcProvider
) -> None:
    connection = await signed_in(place, oidc)
    asked = await place.service.allow(connection.connection_id, "letters.act")
    question = await place.manager.cards.questions.get(str(asked.card_id))
    assert "cannot be narrowed to one call" in question.content.body["reason"]


async def wider(place: ConnectionPlace, connection: Connection, value: str) -> SignInShown:
    """The owner says yes to more, and is asked to sign in again."""
    asked = await place.service.allow(connection.connection_id, "letters.act")
    question = await place.manager.cards.questions.get(str(asked.card_id))
    assert "once more, for: mail." in question.content.body["reason"]
    await place.answer(question, {"verdict": value})
    async with asyncio.timeout(90):
        while True:
            shown = (await place.service.show(connection.connection_id)).connection
            assert shown.status is ConnectionStatus.ACTIVE, "it can be used meanwhile"
            if shown.sign_in is not None:
                return shown.sign_in
            assert place.manager.runs, shown.problem
            await asyncio.sleep(0.02)


@pytest.mark.parametrize("end", ["agreed", "denied", "cancelled", "stopped", "crashed"])
async def test_more_is_granted_with_a_wider_sign_in_or_everything_stays_as_it_was(
    tmp_path: Path, oidc: OidcProvider, end: str
) -> None:
    vault = MemoryVault()
    async with open_place(tmp_path, vault=vault) as place:
        later = DISCOVER.replace("LATER = {}", 'LATER = {"letters.act": ["mail"]}')
        await place.install(tmp_path / "written", discover=later, setup=SETUP)
        quick(place)
        old = await signed_in(place, oidc)
        name, before = old.connection_id, tokens(place)
        shown = await wider(place, old, "approve")
        run = place.manager.runs[name]
        assert run.logged == ['["mail"]'], "the script hears what is new"
        with pytest.raises(ConnectionRefused, match="Finish it first"):
            await place.service.allow(name, "letters.act")
        if end == "agreed":
            await asyncio.to_thread(oidc.enter_code, str(shown.user_code), login=LOGIN)
        elif end == "denied":
            await asyncio.to_thread(oidc.deny_code, str(shown.user_code))
        elif end == "cancelled":
            await place.service.cancel(name)
        if end in ("agreed", "denied"):
            assert run.task is not None
            await asyncio.wait_for(run.task, 90)
    if end == "crashed":  # both were in the vault, and the row named the old one
        for part in ("access", "refresh", "state"):
            kept = before[f"{old.ref_id}/state"] if part == "state" else "of-the-new-one"
            vault.set(f"{old.ref_id}/wider/{part}", kept.encode())
    async with open_place(tmp_path, vault=vault) as place:
        now, after = await place.manager.store.find(name), tokens(place)
        assert now.sealed
        assert now.status is ConnectionStatus.ACTIVE
        assert len(after) == 3, "one sign-in is left"
        if end != "agreed":
            assert now.permissions_granted == ("letters.observe",)
            assert after == before
            assert still_granted(oidc, before[f"{old.ref_id}/refresh"])
            return
        assert now.permissions_granted == ("letters.observe", "letters.act")
        assert "mail" in json.loads(after[f"{now.ref_id}/state"])["scopes"]
        assert not is_valid(oidc, before[f"{old.ref_id}/access"])
        assert is_valid(oidc, after[f"{now.ref_id}/access"])
        await place.manager.refresh_token(name)
        assert (await place.service.remove(name)).problem == ""
        assert tokens(place) == {}


def is_valid(oidc: OidcProvider, access: str) -> bool:
    request = urllib.request.Request(
        f"{oidc.issuer}/me", headers={"Authorization": f"Bearer {access}"}
    )
    try:
        with urllib.request.urlopen(request, timeout=90) as answer:
            return bool(answer.status == 200)
    except urllib.error.HTTPError:
        return False


@pytest.fixture(scope="module")
def mail_server(oidc: OidcProvider) -> Iterator[Dovecot]:
    """A mail server that asks the provider whose a token is."""
    require_dovecot()
    with contextlib.closing(Dovecot(oauth=f"{oidc.issuer}/me")) as server:
        server.start()
        yield server


async def test_the_bundled_mail_signs_in_and_reads_and_its_tokens_are_in_the_vault_alone(
    tmp_path: Path, oidc: OidcProvider, mail_server: Dovecot
) -> None:
    mail = mail_server.add_account()
    async with open_place(tmp_path, vault=MemoryVault()) as place:
        quick(place)
        directory = tmp_path / "skills" / "mail"
        shutil.copytree(BUNDLED / "mail", directory)
        await place.skills.install(directory)
        options = {
            "imap": f"localhost:{mail_server.imap_port}/none@127.0.0.1",
            "smtp": "localhost:9/none@127.0.0.1",
            "issuer": f"{oidc.issuer}@127.0.0.1",
            "client_id": CLIENT,
            "scopes": "openid offline_access email",
        }
        wrong = {**options, "client_secret": "a-secret-in-the-wrong-place"}
        with pytest.raises(ConnectionRefused, match="Silas asks for it"):
            await place.service.connect("mail", mail.address, wrong)
        asked = await place.service.connect("mail", mail.address, options)
        question = await place.manager.cards.questions.get(str(asked.card_id))
        await place.approve(question)
        name = asked.connection.connection_id
        sign_in = await until_sign_in(place, name)
        await asyncio.to_thread(oidc.enter_code, str(sign_in.user_code), login=mail.address)
        active = await place.until_settled(name)
        assert active.status is ConnectionStatus.ACTIVE, active.problem
        assert "The inbox has" in (await place.service.show(name)).connection.found
        checked = await place.service.check(name)
        assert checked.checks[0].result.healthy
        secrets = [value for key, value in tokens(place).items() if not key.endswith("/state")]
        assert len(secrets) == 2
        shown = (await place.service.list_connections()).model_dump_json()
        for secret in secrets:
            assert secret not in shown
            assert not found_below(tmp_path, secret)
            assert not in_processes(secret)
        # Three in the morning: the owner has changed the password, and the provider ended it all.
        refresh = tokens(place)[f"{active.ref_id}/refresh"]
        assert await asyncio.to_thread(still_granted, oidc, refresh)
        await asyncio.to_thread(still_granted, oidc, refresh)
        checked = await place.service.check(name)
        assert not checked.checks[0].result.healthy
        failed = await place.manager.store.find(name)
        card = await card_of(place, failed)
        assert card["failure_type"] == "token_revoked"
        assert tokens(place) == {}
        assert not mail.opens_with_token(secrets[0])
        assert (await place.service.remove(name)).problem == ""


def found_below(root: Path, secret: str) -> list[Path]:
    files = (path for path in root.rglob("*") if path.is_file())
    return [path for path in files if secret.encode() in path.read_bytes()]


def in_processes(secret: str) -> bool:
    for kind in ("cmdline", "environ"):
        for path in Path("/proc").glob(f"[0-9]*/{kind}"):
            with contextlib.suppress(OSError):
                if secret.encode() in path.read_bytes():
                    return True
    return False
