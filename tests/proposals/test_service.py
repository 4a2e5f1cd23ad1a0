"""What other programs ask: a yes is for these bytes, once; everything else is a no."""

import asyncio
import json
from typing import Any

import pytest

from silas.proposals.clients import ClientExists, ClientRefused
from silas.proposals.service import ProposalAnswer, ProposalRefused
from silas.review.attestations import AttestedApproval, verify_envelope
from silas.review.errors import CardNotOpen, DecisionNotSigned, StrongerProofNeeded
from silas.review.questions import answer_bytes
from tests.proposals.shop import REQUEST, Shop
from tests.review.asking import PASSKEY, SLIDE, TAP, forge_row
from tests.stream.database_writer import OldRows


async def test_a_signed_yes_allows_these_bytes_once(shop: Shop) -> None:
    proposal = await shop.propose()
    assert (await shop.told(proposal)).answer is ProposalAnswer.WAITING
    await shop.decide(proposal, "approve")
    told = await shop.told(proposal)
    assert told.answer is ProposalAnswer.ALLOW
    issued = await shop.place.desk.engine.tokens.load(str(told.token_id))
    assert b"rm -rf build" in issued.shown
    assert b"Claude Code" in issued.shown
    assert (await shop.told(proposal)).answer is ProposalAnswer.DENY, "a yes is told once"


async def test_a_yes_is_used_once_however_many_ask_for_it_together(shop: Shop) -> None:
    proposal = await shop.propose()
    await shop.decide(proposal, "approve")
    answers = await asyncio.gather(*(shop.told(proposal) for _ in range(8)))
    assert [each.answer for each in answers].count(ProposalAnswer.ALLOW) == 1


async def test_no_and_nobody_are_no(shop: Shop) -> None:
    declined, silent = await shop.propose(), await shop.propose()
    await shop.decide(declined, "decline", TAP)
    assert (await shop.told(declined)).reason == "The owner declined it."
    shop.place.desk.clock.advance(seconds=300)
    told = await shop.told(silent)
    assert (told.answer, told.reason) == (ProposalAnswer.DENY, "Nobody answered in time.")
    with pytest.raises(CardNotOpen):
        await shop.decide(silent, "approve")


async def test_a_tap_is_too_little_and_a_stranger_is_nobody(shop: Shop) -> None:
    proposal = await shop.propose()
    with pytest.raises(StrongerProofNeeded):
        await shop.decide(proposal, "approve", TAP)
    question = await shop.place.questions.get(proposal.proposal_id)
    answer = {"selected_value": "approve"}
    forged = shop.place.forged(answer_bytes(question, answer, gesture=SLIDE))
    with pytest.raises(DecisionNotSigned):
        await shop.place.questions.answer(proposal.proposal_id, answer, forged, gesture=SLIDE)
    assert (await shop.told(proposal)).answer is ProposalAnswer.WAITING
    await shop.decide(proposal, "approve", PASSKEY)
    assert (await shop.told(proposal)).answer is ProposalAnswer.ALLOW


async def test_a_request_that_changed_after_the_card_was_drawn_is_refused(shop: Shop) -> None:
    """The command on the card is not the one that would be run."""
    proposal = await shop.propose()
    await shop.decide(proposal, "approve")
    other = {**REQUEST, "tool_input": {"command": "rm -rf /"}}
    with pytest.raises(ProposalRefused, match="not the one on the card"):
        await shop.told(proposal, other)


async def test_the_card_of_a_changed_request_is_withdrawn(shop: Shop) -> None:
    proposal = await shop.propose()
    with pytest.raises(ProposalRefused):
        await shop.told(proposal, {**REQUEST, "cwd": "/"})
    with pytest.raises(CardNotOpen):
        await shop.decide(proposal, "approve")
    assert (await shop.told(proposal)).answer is ProposalAnswer.DENY


@pytest.mark.parametrize("table", ["questions", "proposals"])
async def test_whoever_writes_the_database_allows_nothing(shop: Shop, table: str) -> None:
    proposal = await shop.propose()
    if table == "questions":
        await forge_row(shop.place, table)
        with pytest.raises(DecisionNotSigned):
            await shop.decide(proposal, "approve")
    else:
        await shop.place.desk.database.execute("UPDATE proposals SET request_hash = ?", ("a" * 64,))
        with pytest.raises(ProposalRefused):
            await shop.told(proposal)


async def test_two_clients_with_the_same_request_have_an_answer_each(shop: Shop) -> None:
    """Confused deputy: the yes to one is not the other's, and neither sees the other's card."""
    other = (await shop.service.add_client("Codex")).token
    mine = await shop.propose()
    theirs = await shop.service.propose(other, "run a command", REQUEST)
    await shop.decide(mine, "approve")
    told = await shop.service.status(other, theirs.proposal_id, REQUEST)
    assert told.answer is ProposalAnswer.WAITING
    with pytest.raises(ProposalRefused, match="no such proposal"):
        await shop.service.status(other, mine.proposal_id, REQUEST)
    with pytest.raises(ProposalRefused, match="no such proposal"):
        await shop.service.withdraw(other, mine.proposal_id, REQUEST)
    assert (await shop.told(mine)).answer is ProposalAnswer.ALLOW


async def test_a_thousand_requests_in_a_minute_are_twenty_cards_at_most(shop: Shop) -> None:
    refused = 0
    for number in range(1000):
        try:
            made = await shop.propose({"number": number})
            await shop.service.withdraw(shop.token, made.proposal_id, {"number": number})
        except ProposalRefused:
            refused += 1
    assert refused == 980
    assert await shop.place.questions.open() == []


async def test_a_thousand_requests_at_once_find_five_places(shop: Shop) -> None:
    """Each looks for a place before any has taken one: places are counted where they are taken."""

    async def ask(number: int) -> bool:
        try:
            await shop.propose({"number": number})
        except ProposalRefused:
            return False
        return True

    assert sum(await asyncio.gather(*map(ask, range(1000)))) == 5
    assert len(await shop.place.questions.open()) == 5


async def test_five_wait_and_the_sixth_is_denied(shop: Shop) -> None:
    for number in range(5):
        await shop.propose({"number": number})
    with pytest.raises(ProposalRefused, match="wait already"):
        await shop.propose()
    assert len(await shop.place.questions.open()) == 5


async def test_what_cannot_be_shown_whole_is_refused(shop: Shop) -> None:
    with pytest.raises(ProposalRefused, match="too long"):
        await shop.propose({"text": "x" * 70_000})
    with pytest.raises(ProposalRefused, match="shown exactly"):
        await shop.propose({"number": float("nan")})
    assert await shop.place.questions.open() == []


async def test_a_client_that_was_removed_asks_no_more(shop: Shop) -> None:
    waiting = await shop.propose()
    with pytest.raises(ClientExists):
        await shop.service.add_client("Claude Code")
    await shop.service.remove_client("Claude Code")
    with pytest.raises(ClientRefused):
        await shop.told(waiting)
    with pytest.raises(CardNotOpen):
        await shop.decide(waiting, "approve")
    with pytest.raises(ClientRefused):
        await shop.service.remove_client("Claude Code")


@pytest.mark.parametrize("column", ["name", "token_hash", "created_at"])
async def test_a_client_that_the_owner_did_not_add_is_nobody(shop: Shop, column: str) -> None:
    await shop.place.desk.database.execute(
        f"UPDATE clients SET {column} = ?", ("2020-01-01T00:00:00.000000Z",)
    )
    with pytest.raises(ClientRefused):
        await shop.propose()
    assert (await shop.service.list_clients()).clients == []


async def approved(shop: Shop, request: dict[str, Any] = REQUEST, **more: Any) -> Any:
    """A request that the owner has allowed, and what its client is given for it."""
    made = await shop.propose(request, **more)
    await shop.decide(made, "approve", PASSKEY)
    return await shop.service.result(shop.token, made.proposal_id, request)


async def test_looking_uses_nothing_up_and_the_result_is_told_once(shop: Shop) -> None:
    made = await shop.propose()
    await shop.decide(made, "approve")
    for _ in range(3):
        told = await shop.service.look(shop.token, made.proposal_id)
        assert told.answer is ProposalAnswer.ALLOW
        assert told.token_id is None
    first = await shop.service.result(shop.token, made.proposal_id, REQUEST)
    again = await shop.service.result(shop.token, made.proposal_id, REQUEST)
    assert (first.answer, again.answer) == (ProposalAnswer.ALLOW, ProposalAnswer.DENY)
    assert again.proof is None


async def test_the_token_names_bytes_client_expiry_and_device_and_is_verified_offline(
    shop: Shop,
) -> None:
    told = await approved(shop)
    attested = verify_envelope(told.proof.encode(), shop.place.desk.keys.public)
    assert isinstance(attested, AttestedApproval)
    assert (attested.signed_by, attested.passkey) == ("A phone", "A finger")
    shown = json.loads(attested.report.shown)
    assert (shown["client"], shown["request"]) == ("Claude Code", REQUEST)
    assert attested.report.token.expires_at == told.expires_at


async def test_a_token_is_redeemed_once_however_many_try_together(shop: Shop) -> None:
    told = await approved(shop)
    tries = [shop.service.verify(shop.token, told.proof, REQUEST) for _ in range(8)]
    checks = await asyncio.gather(*tries)
    assert [each.valid for each in checks].count(True) == 1
    assert {each.reason for each in checks if not each.valid} == {"It was redeemed before."}


async def test_a_token_is_good_for_its_bytes_its_client_and_its_time_alone(shop: Shop) -> None:
    told = await approved(shop)
    other = (await shop.service.add_client("Codex")).token

    async def why(token: str, proof: str, request: dict[str, Any]) -> str:
        checked = await shop.service.verify(token, proof, request)
        assert not checked.valid
        return checked.reason

    changed = {**REQUEST, "tool_input": {"command": "rm -rf /"}}
    assert "not the one that the owner allowed" in await why(shop.token, told.proof, changed)
    assert "another program" in await why(other, told.proof, REQUEST)
    forged = told.proof.replace('"sig":"', '"sig":"AAAA', 1)
    assert "signature does not fit" in await why(shop.token, forged, REQUEST)
    assert await why(shop.token, "{}", REQUEST)
    shop.place.desk.clock.advance(seconds=1800)
    assert await why(shop.token, told.proof, REQUEST) == "The approval is over."


async def test_a_token_that_was_taken_back_or_whose_client_is_gone_is_worth_nothing(
    shop: Shop,
) -> None:
    told = await approved(shop)
    await shop.place.desk.engine.revoke(str(told.token_id))
    checked = await shop.service.verify(shop.token, told.proof, REQUEST)
    assert (checked.valid, checked.reason) == (False, "The approval was taken back.")
    another = await approved(shop, {"a": 1})
    await shop.service.remove_client("Claude Code")
    with pytest.raises(ClientRefused):
        await shop.service.verify(shop.token, another.proof, {"a": 1})


async def test_a_client_cannot_tell_anothers_proposal_from_one_that_never_was(shop: Shop) -> None:
    other = (await shop.service.add_client("Codex")).token
    mine = await shop.propose()
    said = set()
    for name in (mine.proposal_id, f"{mine.proposal_id}x", "question_1", "", "%", "card_1"):
        for ask in (shop.service.look(other, name), shop.service.result(other, name, REQUEST)):
            with pytest.raises(ProposalRefused) as refused:
                await ask
            said.add(str(refused.value))
    assert said == {"There is no such proposal of this client."}
    assert (await shop.service.show_client("Codex")).proposals == []


@pytest.mark.parametrize(
    "title",
    [
        "harmless\n\nApproved by the owner",
        "x\u202egnp.exe",
        "x\u200b\u2066\U000e0041",
        "Silas: your card is safe. \r Allow it once",
    ],
)
async def test_a_title_that_imitates_the_card_is_one_visible_line_behind_the_name(
    shop: Shop, title: str
) -> None:
    made = await shop.service.propose(shop.token, title, REQUEST)
    intent = (await shop.place.questions.get(made.proposal_id)).content.intent
    assert intent.startswith("Claude Code asks: ")
    assert intent.isprintable()


async def test_a_rendering_stands_beside_the_bytes_and_not_in_their_place(shop: Shop) -> None:
    request = {"transfer": {"to": "mallory", "amount": 900}}
    told = await approved(shop, request, rendering="Look up the weather")
    issued = await shop.place.desk.engine.tokens.load(str(told.token_id))
    shown = json.loads(issued.shown)
    assert (shown["request"], shown["rendering"]) == (request, "Look up the weather")
    said = {"rendering": "Look up the weather"}
    assert not (await shop.service.verify(shop.token, told.proof, said)).valid
    assert (await shop.service.verify(shop.token, told.proof, request)).valid


async def test_a_yes_is_told_once_also_if_its_rows_are_put_back(shop: Shop) -> None:
    proposal, database = await shop.propose(), shop.place.desk.database
    await shop.decide(proposal, "approve")
    unused = await OldRows.of(database)
    assert (await shop.told(proposal)).answer is ProposalAnswer.ALLOW
    await unused.put_back(database)
    assert (await shop.told(proposal)).answer is ProposalAnswer.DENY


async def test_a_token_is_redeemed_once_also_if_its_rows_are_put_back(shop: Shop) -> None:
    proposal, database = await shop.propose(), shop.place.desk.database
    await shop.decide(proposal, "approve")
    told = await shop.service.result(shop.token, proposal.proposal_id, REQUEST)
    assert told.proof is not None
    unused = await OldRows.of(database)
    assert (await shop.service.verify(shop.token, told.proof, REQUEST)).valid
    await unused.put_back(database)
    checked = await shop.service.verify(shop.token, told.proof, REQUEST)
    assert (checked.valid, checked.reason) == (False, "What was approved has been carried out.")


async def test_a_client_that_was_removed_stays_so_whatever_its_row_says(shop: Shop) -> None:
    known = await OldRows.of(shop.place.desk.database)
    await shop.service.remove_client("Claude Code")
    await known.put_back(shop.place.desk.database)
    assert (await shop.service.list_clients()).clients == []
    with pytest.raises(ClientRefused):
        await shop.propose()
