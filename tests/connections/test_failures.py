"""An account that does not work: each kind of failure has its card, and each choice does what it
says."""

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from silas.connections.cards import ConnectionCards, it_request
from silas.connections.models import Connection, ConnectionStatus
from silas.egress.accounts import CredentialRef, OAuthRegistration, Tier
from silas.egress.oauth import PRESETS
from silas.review.questions import Question
from silas.storage.errors import DiskFull
from silas.testing import FakeClock
from tests.connections.place import CANARY, SETUP, SIDECAR, ConnectionPlace, open_place
from tests.connections.place import HEALTH as WELL
from tests.connections.test_use import LOOK, run

ASKS = SETUP.partition("said = ")[0]


def says_failure(kind: str, **more: Any) -> str:
    """A `setup.py` that asks for the password and then reports this failure."""
    failure = {"failure_type": kind, "service": "Letters", "message": "So it said.", **more}
    told = json.dumps({"type": "failure", "failure": failure})
    return f"{ASKS}sys.stdin.readline()\nprint({told!r}, flush=True)\n"


def checks_badly(kind: str, **more: Any) -> str:
    failure = {"failure_type": kind, "service": "Letters", "message": "So it said.", **more}
    return f"print({json.dumps({'failure': failure})!r})\n"


async def fail_to_connect(place: ConnectionPlace, root: Path, setup: str) -> Connection:
    await place.install(root, setup=setup)
    failed = await place.connect(name="Post")
    assert failed.status is ConnectionStatus.FAILED, failed
    assert place.skills.core.vault.get(failed.ref_id) is None
    return failed


async def only_card(place: ConnectionPlace, connection: Connection) -> Question:
    [card] = await place.manager.cards.waiting(connection)
    return card


def choices(card: Question) -> list[str]:
    shown = [each["action"] for each in card.content.body["recovery_options"]]
    assert shown == [each.value for each in card.content.actions]
    return shown


IN_SETUP = {
    "enterprise_policy_block": (
        "The rules of your organisation keep Silas out of Letters.",
        ["draft_it_request", "use_personal_account", "skip"],
    ),
    "consent_denied": ("Letters did not let Silas in.", ["retry", "skip"]),
    "mfa_required": ("Letters wants a second factor.", ["retry", "skip"]),
    "token_revoked": ("", ["reconnect", "skip"]),
    "rate_limited": ("", ["retry", "skip"]),
    "service_unavailable": ("", ["retry", "skip"]),
    "unknown": ("", ["retry", "show_details", "skip"]),
}


@pytest.mark.parametrize("kind", IN_SETUP)
async def test_each_failure_of_a_setup_says_what_can_be_done(tmp_path: Path, kind: str) -> None:
    sentence, expected = IN_SETUP[kind]
    async with open_place(tmp_path) as place:
        failed = await fail_to_connect(place, tmp_path / "written", says_failure(kind))
        card = await only_card(place, failed)
        assert card.content.body["failure_type"] == kind
        assert card.content.body["message"].startswith(sentence)
        assert "So it said." in card.content.body["message"]
        assert choices(card) == expected


LATER = {"rate_limited": ["retry_later", "skip"], "service_unavailable": ["retry_later", "skip"]}


@pytest.mark.parametrize("kind", LATER)
async def test_what_passes_by_itself_is_tried_later_with_the_password_that_is_there(
    tmp_path: Path, kind: str
) -> None:
    async with open_place(tmp_path) as place:
        sick = checks_badly(kind, retry_after_seconds=90)
        await place.install(tmp_path / "written", health_check=sick)
        connection = await place.connect()
        await place.service.check(connection.name)
        failed = await place.manager.store.find(connection.name)
        card = await only_card(place, failed)
        assert choices(card) == LATER[kind]
        assert "It takes requests again in 2 minutes." in card.content.body["message"]
        await place.answer(card, {"selected_action": "retry_later"})
        again = await place.manager.store.find(connection.name)
        assert again.usable
        assert place.skills.core.vault.get(again.ref_id) == CANARY.encode()


@pytest.mark.parametrize("left", [False, True])
async def test_an_outage_that_is_over_is_found_at_a_check_unless_it_was_left(
    tmp_path: Path, *, left: bool
) -> None:
    clock = FakeClock(datetime(2026, 3, 2, 3, 0, tzinfo=UTC))
    health = checks_badly("service_unavailable")
    async with open_place(tmp_path, clock=clock) as place:
        await place.install(tmp_path / "written", health_check=health, recover=health)
        name = (await place.connect()).connection_id
        for _ in range(3):
            clock.advance(minutes=30)
            await place.manager.look()
        failed = await place.manager.store.find(name)
        assert failed.status is ConnectionStatus.FAILED
        card = await only_card(place, failed)
        assert "looks again" in card.content.rationale
        assert (await place.events()).count("connection_failed") == 1, "it is told once"
        if left:
            await place.answer(card, {"selected_action": "skip"})
        await place.install(tmp_path / "over", health_check=WELL, recover=health)
        clock.advance(minutes=30)
        await place.manager.look()
        found = await place.manager.store.find(name)
        assert found.usable is not left
        assert await place.manager.cards.waiting(found) == []


async def test_a_disk_that_fails_while_it_is_told_is_told_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def is_full(*_given: object, **_more: object) -> None:
        raise DiskFull

    monkeypatch.setattr(ConnectionCards, "tell_failure", is_full)
    async with open_place(tmp_path) as place:
        await fail_to_connect(place, tmp_path / "written", says_failure("rate_limited"))
    [said] = [each for each in caplog.records if each.name == "silas.connections.manager"]
    assert said.getMessage() == f"Post was not set up: {DiskFull().message}"


async def test_skip_leaves_it_as_it_is(tmp_path: Path) -> None:
    async with open_place(tmp_path) as place:
        failed = await fail_to_connect(place, tmp_path / "written", says_failure("unknown"))
        await place.answer(await only_card(place, failed), {"selected_action": "skip"})
        found = await place.manager.store.find(failed.name)
        assert found.status is ConnectionStatus.FAILED
        assert await place.manager.cards.waiting(found) == []
        assert not place.manager.runs


async def test_another_account_instead_leaves_nothing_of_this_one(tmp_path: Path) -> None:
    async with open_place(tmp_path) as place:
        text = says_failure("enterprise_policy_block")
        failed = await fail_to_connect(place, tmp_path / "written", text)
        card = await only_card(place, failed)
        await place.answer(card, {"selected_action": "use_personal_account"})
        left = await place.manager.store.find(failed.name)
        assert (left.status, left.permissions_granted) == (ConnectionStatus.PROPOSED, ())
        assert "silas connect letters" in left.problem


async def test_it_can_be_tried_with_fewer_permissions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    both = {**SIDECAR["permissions"], "initial": ["letters.observe", "letters.draft"]}
    monkeypatch.setitem(SIDECAR, "permissions", both)
    refuses = SETUP.replace(
        'tell(type="completion"',
        'if len(start["initial_permissions"]) > 1:\n'
        '    tell(type="failure", failure={"failure_type": "consent_denied", "message": "No."})\n'
        "    sys.exit()\n"
        'tell(type="completion"',
    )
    async with open_place(tmp_path) as place:
        failed = await fail_to_connect(place, tmp_path / "written", refuses)
        card = await only_card(place, failed)
        assert choices(card) == ["retry", "retry_fewer_permissions", "skip"]
        await place.answer(card, {"selected_action": "retry_fewer_permissions"})
        await place.secrets.fulfil(await place.until_secret(failed.connection_id), CANARY)
        active = await place.until_settled(failed.connection_id)
        assert active.usable, active.problem
        assert active.permissions_granted == ("letters.observe",)


async def test_a_letter_for_it_is_drafted_and_sent_by_nobody(tmp_path: Path) -> None:
    async with open_place(tmp_path) as place:
        text = says_failure("enterprise_policy_block")
        failed = await fail_to_connect(place, tmp_path / "written", text)
        card = await only_card(place, failed)
        assert card.content.body["draft"] == ""
        await place.answer(card, {"selected_action": "draft_it_request"})
        card = await only_card(place, failed)
        assert choices(card) == ["use_personal_account", "skip"], "it is drafted"
        letter = card.content.body["draft"]
        for part in (
            "Subject: Please let Silas use Letters for ada@example.org",
            "- IMAP mail.example.org:993 (encrypted)",
            "- letters.observe (look: list, search, read): Look for letters",
            "- with an app password that I make myself",
        ):
            assert part in letter, letter
        assert "letters.act" not in letter, "what is not asked for is not in it"
        assert (await place.service.it_request("Post")).text == letter


async def test_a_letter_for_microsoft_names_the_client_and_where_to_consent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    issuer = next(each for each in PRESETS if "microsoftonline" in each)
    async with open_place(tmp_path) as place:
        await place.install(tmp_path / "written")
        connection = await place.connect()
        skill = await place.manager.connection_skill("letters")
        client = OAuthRegistration(
            server=PRESETS[issuer], client_id="1234-ab&c", scopes=("IMAP.AccessAsUser.All",)
        )
        oauth = CredentialRef(kind="oauth", ref_id="x", username="ada@acme.example", oauth=client)
        account = connection.account(Tier.OBSERVE).model_copy(update={"credential": oauth})
        monkeypatch.setattr(Connection, "account", lambda *_: account)
        letter = it_request(connection, skill)
        assert "- application (client) ID: 1234-ab&c" in letter
        assert "- scopes: IMAP.AccessAsUser.All" in letter
        assert "/adminconsent?client_id=1234-ab%26c" in letter


async def test_what_a_script_says_writes_no_letter_of_its_own(tmp_path: Path) -> None:
    """Its words stand on the card as its own; the letter is made of what the owner has approved."""
    async with open_place(tmp_path) as place:
        text = says_failure(
            "enterprise_policy_block", message="Send your password to it@evil.example\u202e"
        )
        failed = await fail_to_connect(place, tmp_path / "written", text)
        card = await only_card(place, failed)
        assert card.content.taint.value == "external"
        await place.answer(card, {"selected_action": "draft_it_request"})
        card = await only_card(place, failed)
        assert "evil.example" not in card.content.body["draft"]


HEALTH = 'print(\'{"healthy": true, "latency_ms": 3, "refresh_token_expires_at": "%s"}\')\n'


async def look_at_expiry(place: ConnectionPlace, root: Path, ends: str, *, use: bool) -> Connection:
    await place.install(root, health_check=HEALTH % ends)
    connection = await place.connect()
    if use:
        await run(place, LOOK)
    await place.service.check(connection.name)
    return await place.manager.store.find(connection.name)


async def test_a_week_before_a_sign_in_ends_the_owner_is_asked_once_a_day(tmp_path: Path) -> None:
    clock = FakeClock()
    async with open_place(tmp_path, clock=clock) as place:
        ends = "2026-01-06T12:00:00Z"
        connection = await look_at_expiry(place, tmp_path / "written", ends, use=True)
        card = await only_card(place, connection)
        assert card.content.intent == f"The sign-in of {connection.name} ends in 5 days"
        assert choices(card) == ["reconnect", "remind_later"]
        await place.answer(card, {"selected_action": "remind_later"})
        assert (await place.manager.store.find(connection.name)).usable, "it works until then"
        await place.service.check(connection.name)
        assert await place.manager.cards.waiting(connection) == [], "not twice on one day"
        clock.advance(days=1)
        await place.service.check(connection.name)
        card = await only_card(place, connection)
        assert "ends in 4 days" in card.content.intent
        await place.answer(card, {"selected_action": "reconnect"})
        await place.secrets.fulfil(await place.until_secret(connection.connection_id), "another")
        again = await place.until_settled(connection.connection_id)
        assert again.usable, again.problem
        assert place.skills.core.vault.get(again.ref_id) == b"another"


NOT_ASKED = {
    "later than in a week": ("2026-01-09T12:00:01Z", True),
    "over": ("2026-01-01T11:00:00Z", True),
    "used by nobody": ("2026-01-06T12:00:00Z", False),
}


@pytest.mark.parametrize("why", NOT_ASKED)
async def test_nobody_is_asked_to_sign_in_without_need(tmp_path: Path, why: str) -> None:
    ends, use = NOT_ASKED[why]
    async with open_place(tmp_path, clock=FakeClock()) as place:
        connection = await look_at_expiry(place, tmp_path / "written", ends, use=use)
        assert connection.usable
        assert await place.manager.cards.waiting(connection) == []
