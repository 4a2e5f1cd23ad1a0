"""Work uses connections within what was granted; more is put before the owner, call by call."""

import dataclasses
from pathlib import Path
from typing import Any

import pytest

from silas.approval import ApprovalVerdict
from silas.connections.tools import AccountTools
from silas.egress.accounts import BrokeredAccount, Tier
from silas.testing.work import FakeApprover
from silas.work.models import ENDED_WELL, WorkItemResult
from tests.connections.place import ConnectionPlace, open_place

PLAN = """---
id: {name}
type: task
title: Letters
skills: [letters]
---
# What to do

{calls}
"""
LOOK = "```call tool=letters_look\n{}\n```"
POST = '```call tool=letters_post\n{"text": "hello"}\n```'


@pytest.fixture
async def place(tmp_path: Path):
    async with open_place(tmp_path) as place:
        await place.install(tmp_path / "written")
        yield place


def named(tool: str, account: str) -> str:
    more = ', "text": "hello"' if tool == "letters_post" else ""
    return f'```call tool={tool}\n{{"account": "{account}"{more}}}\n```'


async def run(
    place: ConnectionPlace, *calls: str, approver: FakeApprover | None = None
) -> tuple[WorkItemResult, str]:
    core = place.skills.core
    name = core.ids.new("task")
    text = PLAN.format(name=name, calls="\n\n".join(calls))
    result = await place.skills.run_plan(text, approver=approver)
    rows = await core.database.fetch_all(
        "SELECT * FROM work_ledger WHERE work_item_id = ? ORDER BY seq", (name,)
    )
    return result, "\n".join(map(str, rows))


def accounts_given(place: ConnectionPlace) -> list[BrokeredAccount]:
    """Every account that a run in the sandbox is given from now on.

    The skill lists a host, for finding an account: with one, nothing else is reached.
    """
    sandbox, given = place.skills.core.sandbox, []
    inner = sandbox.run

    async def noted(request: Any, **more: Any) -> Any:
        given.extend(request.accounts)
        assert not (request.accounts and request.network), request.network
        return await inner(request, **more)

    sandbox.run = noted  # type: ignore[method-assign]
    return given


async def test_what_is_granted_is_used_and_written_down(place: ConnectionPlace) -> None:
    connection = await place.connect()
    result, said = await run(place, LOOK)
    assert result.status in ENDED_WELL, (result, said)
    assert "ada@example.org" in said
    uses = (await place.service.show(connection.name)).uses
    assert [each.tool for each in uses if each.event == "connection_used"] == ["letters_look"]
    assert (await place.manager.store.find(connection.name)).last_used_at is not None


async def test_more_than_was_granted_needs_a_yes_to_this_call(place: ConnectionPlace) -> None:
    await place.connect()
    given = accounts_given(place)
    no = FakeApprover(ApprovalVerdict.DECLINED)
    refused, _ = await run(place, POST, approver=no)
    assert refused.status not in ENDED_WELL
    assert "needs letters.act" in " ".join(no.calls[0].reasons)
    assert given == []
    yes = FakeApprover()
    allowed, said = await run(place, POST, POST, approver=yes)
    assert allowed.status in ENDED_WELL, (allowed, said)
    assert len(yes.calls) == 2, "each call is asked about by itself"
    assert [each.tier for each in given] == [Tier.ACT, Tier.ACT]
    connection = await place.manager.store.find("ada@example.org")
    assert connection.permissions_granted == ("letters.observe",), "nothing was widened"


async def test_a_tool_that_does_not_say_its_account_is_given_none(
    place: ConnectionPlace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its gate has nothing to look at then; what it decides is decided again before the call."""
    await place.connect()
    given, connected = accounts_given(place), AccountTools._connected
    monkeypatch.setattr(
        AccountTools,
        "_connected",
        lambda *args: dataclasses.replace(connected(*args), account=None),
    )
    result, said = await run(place, POST, approver=FakeApprover())
    assert result.status not in ENDED_WELL
    assert "was not granted letters.act" in said
    assert given == []


async def test_who_looks_cannot_send_whatever_was_granted(place: ConnectionPlace) -> None:
    connection = await place.connect()
    widened = connection.model_copy(
        update={"permissions_granted": ("letters.observe", "letters.act")}
    )
    await place.manager.store.save(widened, "connection_permission_granted", permissions="")
    given = accounts_given(place)
    result, said = await run(place, LOOK, POST, approver=FakeApprover())
    assert result.status in ENDED_WELL, (result, said)
    assert [(each.tier, each.narrowed.messages) for each in given] == [
        (Tier.OBSERVE, 0),
        (Tier.ACT, 1),
    ]


async def test_a_mail_goes_to_whom_the_call_names_and_to_nobody_else(
    place: ConnectionPlace,
) -> None:
    await place.connect()
    given = accounts_given(place)
    call = '```call tool=letters_post\n{"text": "hello", "to": [%s], "copy_to": "b@b.example"}\n```'
    sent, said = await run(place, call % '"ann@a.example"', POST, approver=FakeApprover())
    assert sent.status in ENDED_WELL, (sent, said)
    assert [each.narrowed.recipients for each in given] == [("ann@a.example", "b@b.example"), ()]
    assert {each.narrowed.imap for each in given} == {("APPEND",)}
    given.clear()
    refused, said = await run(place, call % '"Ann <ann@a.example>"', approver=FakeApprover())
    assert refused.status not in ENDED_WELL
    assert "is no address" in said
    assert given == []


async def test_who_signs_in_by_another_name_is_known_by_their_address(
    place: ConnectionPlace,
) -> None:
    question = await place.ask("ada@example.org", options={"user": "ab123"})
    [account] = [each for each in question.content.body["summary"] if each.startswith("Account")]
    assert account == "Account: ada@example.org, with the user name ab123."
    connection = await place.connect("ada@example.org", options={"user": "ab123"})
    assert connection.usable
    assert connection.name == "Letters — ada@example.org"
    result, said = await run(place, LOOK)
    assert result.status in ENDED_WELL, (result, said)
    assert '"username": "ab123", "address": "ada@example.org"' in said.replace("\\", "")
    await place.skills.core.database.execute(
        "UPDATE connection_addresses SET address = 'eve@example.net'"
    )
    assert not (await place.manager.store.find(connection.connection_id)).sealed
    await place.manager.remove(connection.connection_id)
    rows = await place.skills.core.database.fetch_all("SELECT * FROM connection_addresses")
    assert rows == []


async def test_just_this_once_is_gone_with_the_call(place: ConnectionPlace) -> None:
    connection = await place.connect()
    asked = await place.service.allow(connection.name, "letters.act")
    assert asked.card_id is not None
    question = await place.manager.cards.questions.get(asked.card_id)
    await place.answer(question, {"verdict": "just_this_once"})
    approver = FakeApprover()
    first, said = await run(place, POST, approver=approver)
    assert first.status in ENDED_WELL, (first, said)
    assert "letters.act" not in " ".join(approver.calls[0].reasons), "it was granted"
    await run(place, POST, approver=approver)
    assert "needs letters.act" in " ".join(approver.calls[1].reasons)


async def test_without_an_account_that_works_nothing_is_called(place: ConnectionPlace) -> None:
    given = accounts_given(place)
    none, said = await run(place, LOOK)
    assert none.status not in ENDED_WELL
    connection = await place.connect()
    given.clear()
    await place.service.pause(connection.name)
    paused, _ = await run(place, LOOK)
    assert paused.status not in ENDED_WELL
    await place.service.resume(connection.name)
    forged = '["letters.observe", "letters.act"]'
    await place.skills.core.database.execute(
        "UPDATE connections SET permissions_granted = ?", (forged,)
    )
    changed, _ = await run(place, LOOK)
    assert changed.status not in ENDED_WELL
    assert given == [], said


async def test_two_accounts_are_told_apart_and_domains_are_not_mixed(
    place: ConnectionPlace,
) -> None:
    await place.connect(name="Private")
    await place.connect("ada@acme.example", name="Office", domain="business:acme")
    unclear, _ = await run(place, LOOK)
    assert unclear.status not in ENDED_WELL, "which one is meant?"
    private, said = await run(place, named("letters_look", "Private"))
    assert private.status in ENDED_WELL, (private, said)
    assert "ada@example.org" in said
    given = accounts_given(place)
    both, said = await run(place, named("letters_look", "Private"), named("letters_look", "Office"))
    assert both.status not in ENDED_WELL
    assert "nothing crosses" in said
    assert {each.credential.username for each in given} == {"ada@example.org"}


async def test_a_plan_of_which_a_step_was_refused_is_not_done(place: ConnectionPlace) -> None:
    """The call was refused before it was made: nothing of it is among the calls that were."""
    await place.connect()
    result, said = await run(place, LOOK, named("letters_look", "Nobody"))
    assert "Nobody" not in said
    assert result.status not in ENDED_WELL, (result, said)
    assert "Step 2 of 2 did not work" in (result.last_error or "")
