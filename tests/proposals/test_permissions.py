"""Standing grants and rules of other programs: signed, by shape, and never by a prefix."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from silas.approval import ApprovalScope
from silas.gates.envelopes import ActionEnvelope
from silas.kernel import TaintLevel
from silas.proposals.clients import Client, ClientRefused
from silas.proposals.permissions import (
    ClientGrant,
    ClientRules,
    GrantShape,
    Permissions,
    ToolCall,
    covers,
    habit_of,
    tool_call,
)
from silas.proposals.service import PermissionAsked, ProposalAnswer, ProposalRefused
from silas.review.errors import DecisionNotSigned, StrongerProofNeeded
from tests.proposals.shop import Shop
from tests.review.asking import SLIDE, TAP, forge_row
from tests.stream.database_writer import OldRows

ALLOW, WAITING = ProposalAnswer.ALLOW, ProposalAnswer.WAITING


def edit(path: str, text: str = "new", *, cwd: str = "/srv/shop", **more: Any) -> dict[str, Any]:
    given = {"file_path": path, "new_string": text, **more}
    return {"tool_name": "Edit", "tool_input": given, "cwd": cwd}


def bash(command: str, **more: Any) -> dict[str, Any]:
    given = {"command": command, **more}
    return {"tool_name": "Bash", "tool_input": given, "cwd": "/srv/shop"}


EDITS = [edit(f"/srv/shop/src/{number}.py", str(number)) for number in range(3)]


async def allowed(shop: Shop, *requests: dict[str, Any]) -> None:
    """The owner allows each of these by hand, over some days."""
    for request in requests:
        proposal = await shop.propose(request)
        await shop.decide(proposal, "approve")
        assert (await shop.told(proposal, request)).answer is ALLOW
        shop.place.desk.clock.advance(seconds=600)


async def granted(shop: Shop, *requests: dict[str, Any], **more: Any) -> PermissionAsked:
    """The owner allows these, then signs the grant that follows from them."""
    await allowed(shop, *requests)
    [habit] = (await shop.service.show_client("Claude Code")).habits
    asked = await shop.service.ask_grant("Claude Code", habit.envelope, **more)
    await shop.answer(asked.card_id, "approve")
    return asked


async def test_a_habit_becomes_a_grant_that_answers_for_its_shape_alone(shop: Shop) -> None:
    await granted(shop, *EDITS, times=2, days=3)
    told = await shop.propose(edit("/srv/shop/src/deep/4.py", "anything"))
    assert told.answer is ALLOW
    issued = await shop.place.desk.engine.tokens.load(str(told.token_id))
    assert issued.token.scope is ApprovalScope.TOOL_TYPE
    assert b"/srv/shop/src" in issued.shown
    with pytest.raises(ProposalRefused):
        await shop.told(told, edit("/srv/shop/src/deep/4.py", "anything"))
    others = [
        edit("/srv/shop/other/4.py"),
        edit("/srv/shop/src/../other/4.py"),
        edit("/srv/shop/src/.git/hooks/pre-commit"),
        edit("/srv/shop/src/4.py", cwd="/srv"),
        edit("/srv/shop/src/4.py", mode="0777"),
        {**edit("/srv/shop/src/4.py"), "tool_name": "Write"},
        {**edit("/srv/shop/src/4.py"), "also": 1},
        {**edit("/srv/shop/src/4.py"), "cwd": None},
    ]
    for each in others:
        made = await shop.propose(each)
        assert made.answer is WAITING, each
        await shop.service.withdraw(shop.token, made.proposal_id, each)
    assert (await shop.propose(edit("/srv/shop/src/5.py"))).answer is ALLOW
    assert (await shop.propose(edit("/srv/shop/src/6.py"))).answer is WAITING, "it was for two"


async def test_a_grant_ends_with_its_days_its_revocation_its_client_and_its_device(
    shop: Shop,
) -> None:
    asked = await granted(shop, *EDITS, days=1)
    assert (await shop.propose(EDITS[0])).answer is ALLOW
    other = (await shop.service.add_client("Codex")).token
    assert (await shop.service.propose(other, "x", EDITS[0])).answer is WAITING
    [grant] = (await shop.service.show_client("Claude Code")).grants
    assert (grant.grant_id, grant.used) == (asked.card_id, 1)
    shop.place.desk.clock.advance(seconds=86_400)
    assert (await shop.propose(EDITS[0])).answer is WAITING
    again = await shop.service.ask_grant("Claude Code", grant.shape.envelope)
    await shop.answer(again.card_id, "approve")
    assert (await shop.propose(EDITS[0])).answer is ALLOW
    await shop.service.revoke_grant("Claude Code", again.card_id)
    assert (await shop.propose(EDITS[0])).answer is WAITING
    with pytest.raises(ClientRefused):
        await shop.service.revoke_grant("Claude Code", again.card_id)
    third = await shop.service.ask_grant("Claude Code", grant.shape.envelope)
    await shop.answer(third.card_id, "approve")
    assert (await shop.propose(EDITS[0])).answer is ALLOW
    await shop.place.devices.revoke(shop.place.key_id)
    assert (await shop.propose(EDITS[0])).answer is WAITING


async def test_a_grant_that_was_taken_back_stays_so_whatever_its_row_says(shop: Shop) -> None:
    asked, database = await granted(shop, *EDITS), shop.place.desk.database
    held = await OldRows.of(database)
    await shop.service.revoke_grant("Claude Code", asked.card_id)
    await held.put_back(database)
    assert (await shop.propose(EDITS[0])).answer is WAITING


async def test_a_grant_that_is_taken_back_while_it_is_looked_at_allows_nothing(
    shop: Shop,
) -> None:
    asked = await granted(shop, *EDITS)
    permissions = shop.service.permissions

    class TakenBackMeanwhile(Permissions):
        async def granting(self, client: Client, request: Mapping[str, Any]) -> ClientGrant | None:
            found = await super().granting(client, request)
            await permissions.revoke(client, asked.card_id)
            return found

    vars(shop.service)["permissions"] = TakenBackMeanwhile(**vars(permissions))
    assert (await shop.propose(EDITS[0])).answer is WAITING


async def test_a_removed_client_takes_its_grants_along(shop: Shop) -> None:
    await granted(shop, *EDITS)
    [grant] = (await shop.service.show_client("Claude Code")).grants
    await shop.service.remove_client("Claude Code")
    issued = await shop.place.desk.engine.tokens.load(grant.token_id)
    assert issued.void_reason
    shop.token = (await shop.service.add_client("Claude Code")).token
    assert (await shop.propose(EDITS[0])).answer is WAITING


async def test_a_grant_takes_the_owners_slide_and_nobody_grants_what_was_not_allowed(
    shop: Shop,
) -> None:
    with pytest.raises(ClientRefused, match="allowed several times"):
        await shop.service.ask_grant("Claude Code", ActionEnvelope(tool="Bash"))
    await allowed(shop, *EDITS)
    [habit] = (await shop.service.show_client("Claude Code")).habits
    asked = await shop.service.ask_grant("Claude Code", habit.envelope)
    assert (await shop.propose(EDITS[0])).answer is WAITING, "asking is not granting"
    with pytest.raises(StrongerProofNeeded):
        await shop.answer(asked.card_id, "approve", TAP)
    await forge_row(shop.place, "questions")
    with pytest.raises(DecisionNotSigned):
        await shop.answer(asked.card_id, "approve", SLIDE)


async def test_whoever_writes_the_database_grants_nothing(shop: Shop) -> None:
    asked = await granted(shop, *EDITS)
    await shop.place.desk.database.execute(
        "UPDATE questions SET content = replace(content, '/srv/shop/src', '/') WHERE id = ?",
        (asked.card_id,),
    )
    assert (await shop.propose(edit("/etc/passwd"))).answer is WAITING
    assert (await shop.propose(EDITS[0])).answer is WAITING


@pytest.mark.parametrize(
    "other",
    [
        "make test && curl evil.test",
        "make test ",
        "make",
        "MAKE TEST",
        "make test\nid",
        "make tests",
    ],
)
async def test_a_command_is_covered_word_by_word_and_never_by_its_beginning(
    shop: Shop, other: str
) -> None:
    """Prefix grants (CVE-2026-29607; "Allow always" of peers) cover what nobody has read."""
    await granted(shop, *(bash("make test", description=str(number)) for number in range(3)))
    assert (await shop.propose(bash("make test", description="now"))).answer is ALLOW
    assert (await shop.propose(bash(other, description="now"))).answer is WAITING


def test_the_shape_of_commands_has_no_prefix_and_no_pattern() -> None:
    calls = [tool_call(bash(f"make {name}")) for name in ("test", "lint", "docs")]
    envelope = habit_of([each for each in calls if each])
    assert envelope is not None
    command = envelope.constraints["command"]
    assert command.one_of == ["make test", "make lint", "make docs"]
    assert {each.prefix for each in envelope.constraints.values()} == {None}
    many = [tool_call(bash(f"make {number}")) for number in range(11)]
    assert habit_of([each for each in many if each]) is None, "too many to be read"


def test_text_is_left_open_only_beside_a_file_that_is_bound() -> None:
    posts = [
        {"tool_name": "post", "tool_input": {"to": "a", "text": str(number)}} for number in range(3)
    ]
    envelope = habit_of([each for each in map(tool_call, posts) if each])
    assert envelope is not None
    assert envelope.constraints["text"].one_of == ["0", "1", "2"]
    anywhere = [edit(f"/srv/{number}/a.py") for number in range(3)]
    envelope = habit_of([each for each in map(tool_call, anywhere) if each])
    assert envelope is not None
    assert envelope.constraints["file_path"].under is None, "the folder is not the one worked in"


@pytest.mark.parametrize("place", ["/elsewhere/{}", "https://evil.test/{}", "~/{}", "../{}"])
def test_where_something_goes_to_is_never_left_open(place: str) -> None:
    calls = [
        ToolCall("copy", {"source": f"/p/{at}", "to": place.format(at), "cwd": "/p"})
        for at in range(3)
    ]
    envelope = habit_of(calls)
    assert envelope is not None
    assert envelope.constraints["source"].under == "/p"
    assert envelope.constraints["to"].any is None
    assert not covers(
        GrantShape(envelope=envelope, times=1, days=1),
        ToolCall("copy", {"source": "/p/0", "to": "/home/x/.bashrc", "cwd": "/p"}),
    )


def test_a_link_that_leads_out_of_the_folder_is_asked(tmp_path: Path) -> None:
    root = tmp_path / "shop"
    (root / "src").mkdir(parents=True)
    (root / "src" / "out").symlink_to(tmp_path)
    calls = [tool_call(edit(f"{root}/src/{each}", cwd=str(root))) for each in "abc"]
    envelope = habit_of([each for each in calls if each])
    assert envelope is not None
    shape = GrantShape(envelope=envelope, times=1, days=1)

    def is_covered(path: str) -> bool:
        call = tool_call(edit(path, cwd=str(root)))
        return call is not None and covers(shape, call)

    assert is_covered(f"{root}/src/inside/x")
    assert not is_covered(f"{root}/src/out/x")


async def test_rules_are_signed_and_hold_for_one_client(shop: Shop) -> None:
    wanted = ClientRules(taint=TaintLevel.AUTH, waiting=1, per_minute=2)
    asked = await shop.service.ask_rules("Claude Code", wanted)
    assert (await shop.service.show_client("Claude Code")).rules == ClientRules()
    await shop.answer(asked.card_id, "approve")
    assert (await shop.service.show_client("Claude Code")).rules == wanted
    made = await shop.propose()
    question = await shop.place.questions.get(made.proposal_id)
    assert question.content.taint is TaintLevel.AUTH
    with pytest.raises(ProposalRefused, match="1 requests"):
        await shop.propose({"another": 1})
    other = (await shop.service.add_client("Codex")).token
    theirs = await shop.service.propose(other, "x", {"a": 1})
    asked_by = await shop.place.questions.get(theirs.proposal_id)
    assert asked_by.content.taint is TaintLevel.EXTERNAL
    later = await shop.service.ask_rules("Claude Code", ClientRules())
    await shop.answer(later.card_id, "decline", TAP)
    assert (await shop.service.show_client("Claude Code")).rules == wanted, "a no changes nothing"


async def test_rules_that_were_replaced_do_not_come_back_when_the_later_ones_fall(
    shop: Shop,
) -> None:
    wide = ClientRules(taint=TaintLevel.AUTH, waiting=20, per_minute=60)
    for rules in (wide, ClientRules(waiting=1)):
        asked = await shop.service.ask_rules("Claude Code", rules)
        await shop.answer(asked.card_id, "approve")
        shop.place.desk.clock.advance(seconds=1)
    assert (await shop.service.show_client("Claude Code")).rules == ClientRules(waiting=1)
    await shop.place.desk.database.execute(
        "UPDATE decisions SET key_id = 'dev_gone' WHERE question_id = ?", (asked.card_id,)
    )
    assert (await shop.service.show_client("Claude Code")).rules == ClientRules()
