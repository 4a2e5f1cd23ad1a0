"""A connection is found, approved, set up, used, watched and taken back."""

import json
from pathlib import Path

import pytest

from silas.connections.models import ConnectionRefused, ConnectionStatus, ConnectionUnknown
from tests.connections.place import CANARY, ConnectionPlace, open_place


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
