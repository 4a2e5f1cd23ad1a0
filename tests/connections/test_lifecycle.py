"""A connection is found, approved, set up, used, watched and taken back."""

import asyncio
import json
from datetime import UTC, datetime
from pathlib import Path

import pytest

from silas.connections.models import ConnectionRefused, ConnectionStatus, ConnectionUnknown
from silas.testing import FakeClock
from tests.connections.canary import is_in
from tests.connections.place import CANARY, DISCOVER, HEALTH, ConnectionPlace, open_place
from tests.stream.database_writer import OldRows


@pytest.fixture
async def place(tmp_path: Path):
    async with open_place(tmp_path) as place:
        await place.install(tmp_path / "written")
        yield place


async def test_connected_checked_paused_renamed_and_removed(place: ConnectionPlace) -> None:
    question = await place.ask()
    shown = question.content
    assert shown.risk.value == "medium"
    assert "Server: IMAP mail.example.org:993 (encrypted)." in shown.body["summary"]
    assert [each["name"] for each in shown.body["connection"]["tools"]] == ["letters_look"]
    await place.approve(question)
    name = shown.body["connection"]["connection_id"]
    assert name.startswith("conn_")
    ref = await place.until_secret(name)
    assert ref == f"connections/{name}", "the script's own choice of a name does not count"
    [request] = await place.secrets.open_requests()
    assert (request.input_hint, request.guidance) == ("abcd-...", {"instructions": "Type it."})
    await place.secrets.fulfil(ref, CANARY)
    active = await place.until_settled(name)
    assert (active.status, active.permissions_granted) == (
        ConnectionStatus.ACTIVE,
        ("letters.observe",),
    ), active.problem
    assert (await place.service.show(name)).connection.found == "3 letters"

    checked = await place.service.check(name)
    assert checked.checks[0].result.healthy
    assert (await place.service.pause(name)).status == "paused"
    with pytest.raises(ConnectionRefused, match="paused"):
        await place.service.check(name)
    await place.service.resume(name)
    assert (await place.service.rename(name, "Post")).name == "Post"
    vault = place.skills.core.vault
    assert vault.get(ref) == CANARY.encode()
    await place.service.remove("Post")
    assert vault.get(ref) is None
    with pytest.raises(ConnectionUnknown):
        await place.service.show(name)


async def test_a_no_leaves_it_proposed_and_runs_nothing(place: ConnectionPlace) -> None:
    question = await place.ask()
    await place.answer(question, {"selected_value": "decline"})
    [found] = await place.manager.list_connections()
    assert (found.status, found.problem) == (ConnectionStatus.PROPOSED, "You declined it.")
    assert not place.manager.runs
    again = await place.ask()
    assert again.content.body["connection"]["connection_id"] == found.connection_id


@pytest.mark.parametrize("how", ["cancel", "decline", "remove"])
async def test_cancelled_at_the_password_nothing_is_left(place: ConnectionPlace, how: str) -> None:
    question = await place.ask()
    await place.approve(question)
    name = question.content.body["connection"]["connection_id"]
    ref = await place.until_secret(name)
    if how == "cancel":
        await place.service.cancel(name)
    elif how == "decline":
        assert await place.secrets.decline(ref)
        await place.until_settled(name)
    else:
        await place.service.remove(name)
    assert await place.secrets.open_requests() == []
    assert place.skills.core.vault.get(ref) is None
    assert not place.manager.runs
    if how != "remove":
        found = await place.manager.store.find(name)
        assert (found.status, found.permissions_granted) == (ConnectionStatus.PROPOSED, ())


async def test_what_a_crash_has_left_half_way_is_proposed_again(tmp_path: Path) -> None:
    from silas.testing import MemoryVault

    vault = MemoryVault()
    async with open_place(tmp_path, vault=vault) as place:
        await place.install(tmp_path / "written")
        connection = await place.connect()
        half = connection.model_copy(update={"status": ConnectionStatus.CONNECTING})
        await place.manager.store.save(half, "connection_setup_started")
        await place.secrets.ask(connection.ref_id, "Password")
    async with open_place(tmp_path, vault=vault) as place:
        [found] = await place.manager.list_connections()
        assert found.status is ConnectionStatus.PROPOSED
        assert vault.get(connection.ref_id) is None
        assert await place.secrets.open_requests() == []


async def test_a_row_that_somebody_else_changed_is_no_connection(place: ConnectionPlace) -> None:
    connection = await place.connect()
    await place.skills.core.database.execute(
        "UPDATE connections SET permissions_granted = ?", (json.dumps(["letters.act"]),)
    )
    found = await place.manager.store.find(connection.connection_id)
    assert not found.sealed
    assert not found.usable
    shown = (await place.service.list_connections()).connections[0]
    assert not shown.intact


async def test_two_accounts_of_a_kind_and_no_account_twice(place: ConnectionPlace) -> None:
    await place.connect()
    with pytest.raises(ConnectionRefused, match="connected already"):
        await place.ask()
    await place.connect("bob@example.org", domain="business:acme")
    every = await place.manager.list_connections()
    assert [each.username for each in every] == ["ada@example.org", "bob@example.org"]
    assert [each.username for each in await place.manager.list_connections("personal")] == [
        "ada@example.org"
    ]


async def test_the_secret_is_in_the_vault_and_nowhere_else(
    place: ConnectionPlace, tmp_path: Path
) -> None:
    await place.connect()
    await place.service.check()
    for path in tmp_path.rglob("*"):
        if path.is_file():
            assert CANARY.encode() not in path.read_bytes(), path


async def test_more_is_granted_by_a_card_once_or_from_now_on(place: ConnectionPlace) -> None:
    connection = await place.connect()
    name = connection.connection_id
    with pytest.raises(ConnectionRefused, match="no permission"):
        await place.service.allow(name, "letters.manage")
    for verdict, granted, once in (
        ("deny", ("letters.observe",), ()),
        ("just_this_once", ("letters.observe",), ("letters.act",)),
        ("approve", ("letters.observe", "letters.act"), ("letters.act",)),
    ):
        asked = await place.service.allow(name, "letters.act")
        assert asked.card_id is not None
        question = await place.manager.cards.questions.get(asked.card_id)
        assert question.content.body["current_permissions"] == ["letters.observe"]
        await place.answer(question, {"verdict": verdict})
        found = await place.manager.store.find(name)
        assert (found.permissions_granted, found.permissions_once) == (granted, once), verdict
    assert (await place.service.allow(name, "letters.draft")).card_id is None, "act includes it"
    await place.service.disallow(name, "letters.act")
    found = await place.manager.store.find(name)
    assert found.permissions_granted == found.initial_permissions == ("letters.observe",)


async def test_rows_of_before_give_nothing_back(place: ConnectionPlace) -> None:
    """The seal of an old row is genuine: the vault knows what was narrowed, paused or removed."""
    store, service, database = place.manager.store, place.service, place.skills.core.database
    name = (await place.connect()).connection_id

    async def allowed() -> OldRows:
        asked = await service.allow(name, "letters.act")
        question = await place.manager.cards.questions.get(str(asked.card_id))
        await place.answer(question, {"verdict": "approve"})
        return await OldRows.of(database)

    wide = await allowed()
    await service.disallow(name, "letters.act")
    narrow = await OldRows.of(database)
    await wide.put_back(database)
    assert not (await store.find(name)).sealed
    await narrow.put_back(database)
    assert (await store.find(name)).sealed
    wide = await allowed()
    assert (await store.find(name)).sealed, "signed anew, it holds"
    await service.pause(name)
    await wide.put_back(database)
    assert not (await store.find(name)).sealed


async def test_a_permission_for_one_call_is_used_by_one_however_many_come_together(
    place: ConnectionPlace,
) -> None:
    store, name = place.manager.store, (await place.connect()).connection_id
    asked = await place.service.allow(name, "letters.act")
    question = await place.manager.cards.questions.get(str(asked.card_id))
    await place.answer(question, {"verdict": "just_this_once"})
    granted = await store.find(name)
    used = await asyncio.gather(*(store.use_once(granted, "letters.act") for _ in range(8)))
    assert sum(used) == 1
    assert (await store.find(name)).permissions_once == ()


async def test_whoever_takes_a_permission_back_takes_what_was_granted_for_one_call_too(
    place: ConnectionPlace,
) -> None:
    name = (await place.connect()).connection_id
    for verdicts in (("just_this_once", "approve"), ("just_this_once",)):
        for verdict in verdicts:
            asked = await place.service.allow(name, "letters.act")
            question = await place.manager.cards.questions.get(str(asked.card_id))
            await place.answer(question, {"verdict": verdict})
        await place.service.disallow(name, "letters.act")
        found = await place.manager.store.find(name)
        assert (found.permissions_granted, found.permissions_once) == (("letters.observe",), ())


async def test_a_secret_of_the_vault_is_named_on_the_card_and_nobody_is_asked(
    place: ConnectionPlace,
) -> None:
    vault = place.skills.core.vault
    for missing in ("mailbox", "silas/owner-key", "connections/other"):
        with pytest.raises(ConnectionRefused, match="secrets set"):
            await place.ask(secret=missing)
    vault.set("mailbox", CANARY.encode())
    question = await place.ask(secret="mailbox")
    assert any("copied from 'mailbox'" in each for each in question.content.body["summary"])
    assert not is_in(CANARY, str(question.content.body))
    await place.approve(question)
    name = question.content.body["connection"]["connection_id"]
    active = await place.until_settled(name)
    assert active.status is ConnectionStatus.ACTIVE, active.problem
    assert vault.get(active.ref_id) == CANARY.encode()
    assert await place.secrets.open_requests() == []

    # It stopped working, and a program has put another password there.
    failed = active.model_copy(update={"status": ConnectionStatus.FAILED})
    await place.manager.store.save(failed, "connection_failed", kind="token_revoked")
    vault.set("mailbox", b"another")
    await place.service.reconnect(name, secret="mailbox")
    assert (await place.until_settled(name)).usable
    assert vault.get(active.ref_id) == b"another"
    await place.service.remove(name)
    assert vault.get("mailbox") == b"another", "what is the owner's own stays"


async def test_a_secret_that_is_gone_by_the_yes_connects_nothing(place: ConnectionPlace) -> None:
    vault = place.skills.core.vault
    vault.set("mailbox", CANARY.encode())
    question = await place.ask(secret="mailbox")
    vault.delete("mailbox")
    await place.approve(question)
    found = await place.until_settled(question.content.body["connection"]["connection_id"])
    assert found.status is ConnectionStatus.FAILED
    assert "holds no 'mailbox' any more" in found.problem


@pytest.mark.parametrize("confirmed", [True, False])
async def test_servers_that_were_guessed_are_said_to_be_so(tmp_path: Path, confirmed: bool) -> None:
    discover = DISCOVER.replace("{", f'{{"identity_match": {confirmed}, ', 1)
    async with open_place(tmp_path) as place:
        await place.install(tmp_path / "written", discover=discover)
        shown = (await place.ask()).content.body["summary"]
        guessed = [each for each in shown if "guessed from the address" in each]
        assert bool(guessed) is not confirmed


async def test_a_password_that_was_changed_at_night_is_found_at_the_next_check_and_told_once(
    tmp_path: Path,
) -> None:
    """Nobody is awake, and nothing is tried again and again meanwhile."""
    clock = FakeClock(datetime(2026, 3, 1, 22, tzinfo=UTC))
    refused = {"failure": {"failure_type": "token_revoked", "message": "It is not taken."}}
    # The service knows when the password was changed: an hour before three in the morning.
    health = f"import os, sys\nprint({json.dumps(json.dumps(refused))})\n"
    async with open_place(tmp_path, clock=clock) as place:
        await place.install(tmp_path / "written", health_check=HEALTH)
        connection = await place.connect()
        name = connection.connection_id
        clock.set(datetime(2026, 3, 2, 2, 30, tzinfo=UTC))
        await place.manager.look()
        assert (await place.manager.store.find(name)).usable
        await place.install(tmp_path / "changed", health_check=health, recover=health)
        clock.set(datetime(2026, 3, 2, 3, 0, tzinfo=UTC))
        for _ in range(20):  # a look in each of the minutes that follow
            await place.manager.look()
            clock.advance(minutes=1)
        failed = await place.manager.store.find(name)
        assert (failed.status, failed.problem) == (ConnectionStatus.FAILED, "It is not taken.")
        waiting = await place.manager.cards.waiting(failed)
        assert [each.content.body["failure_type"] for each in waiting] == ["token_revoked"]
        events = await place.events()
        assert events.count("connection_failed") == 1
        # In the morning: reconnect, with the new password.
        await place.answer(waiting[0], {"selected_action": "reconnect"})
        await place.secrets.fulfil(await place.until_secret(name), CANARY + "-new")
        assert (await place.until_settled(name)).usable
