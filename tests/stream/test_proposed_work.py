"""Plans and commands of other programs: carried out by Silas in the normal way, or not at all."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from silas.app.agents import Agents
from silas.app.review import open_proposals, open_questions
from silas.app.runtime import open_cards
from silas.approval import ApprovalDecision, ApprovalVerdict
from silas.kernel import TaintLevel
from silas.proposals.clients import ClientRefused
from silas.proposals.service import ProposalAnswer, ProposalRefused
from silas.review.attestations import AttestedRun, verify_envelope
from silas.review.cards import CardStore
from silas.review.errors import CardNotOpen
from silas.stream.proposed_work import (
    ProposedChanges,
    ProposedCommand,
    ProposedWork,
    WorkProposal,
)
from silas.work.script import ScriptWorker
from tests.stream.house import House, open_house, plan

YES = ApprovalDecision(verdict=ApprovalVerdict.APPROVED)
NO = ApprovalDecision(verdict=ApprovalVerdict.DECLINED)
ALLOW, DENY, WAITING = ProposalAnswer.ALLOW, ProposalAnswer.DENY, ProposalAnswer.WAITING


@dataclass
class Yard:
    """A running Silas, and a program that asks it to do things in a folder."""

    house: House
    work: ProposedWork
    cards: CardStore
    token: str
    folder: Path
    others: dict[str, str] = field(default_factory=dict)

    async def command(self, command: str, **more: Any) -> WorkProposal:
        asked = ProposedCommand(command=command, **{"folder": str(self.folder), **more})
        return await self.work.propose_command(self.token, "tidy up", asked)

    async def plan(self, markdown: str) -> WorkProposal:
        return await self.work.propose_plan(self.token, "do it", markdown)

    async def decide(self, asked: WorkProposal, decision: ApprovalDecision = YES) -> None:
        await self.cards.decide_with_vault(asked.proposal_id, decision, shown=asked.plan_hashes)

    async def told(self, asked: WorkProposal, seconds: float = 40) -> WorkProposal:
        return await self.work.look_at_work(self.token, asked.proposal_id, seconds)

    async def named(self, client: str) -> str:
        return (await self.work.service.add_client(client)).token


@contextlib.asynccontextmanager
async def open_yard(root: Path) -> AsyncIterator[Yard]:
    folder = root / "home" / "shop"
    folder.mkdir(parents=True)
    (folder / "old.txt").write_text("old\n")
    agents = Agents(executor=ScriptWorker())
    async with open_house(root, agents, with_cards=True) as house:
        questions = open_questions(house.core, house.stream.queue)
        service, cards = open_proposals(house.core, questions), open_cards(house.core)
        work = ProposedWork(service, house.stream.turns, house.stream.work.context, cards)
        token = (await service.add_client("Claude Code")).token
        yield Yard(house, work, cards, token, folder)


@pytest.fixture
async def yard(tmp_path: Path) -> AsyncIterator[Yard]:
    async with open_yard(tmp_path) as opened:
        yield opened


async def test_an_approved_command_runs_in_the_sandbox_and_its_result_is_told(yard: Yard) -> None:
    asked = await yard.command(
        "cat old.txt; echo $((6*7)) > new.txt",
        changes=ProposedChanges(add=["new.txt"]),
        check="test -s new.txt",
    )
    assert (asked.answer, asked.work) == (WAITING, None)
    assert not (yard.folder / "new.txt").exists(), "nothing runs while the card waits"
    card = await yard.cards.get(asked.proposal_id)
    assert card.title == "Claude Code: tidy up"
    assert (card.taint, card.sources) == (TaintLevel.EXTERNAL, ("program:Claude Code",))
    await yard.decide(asked)
    told = await yard.told(asked)
    assert told.answer is ALLOW
    assert told.work is not None
    assert (told.work.status, told.work.ended) == ("done", True)
    assert "old" in told.work.calls[-1].output
    assert [(each.name, each.passed) for each in told.work.checks] == [("check", True)]
    assert [(each.path, each.taken) for each in told.work.files] == [("new.txt", True)]
    assert (yard.folder / "new.txt").read_text() == "42\n"
    attested = verify_envelope(str(told.work.proof).encode(), yard.house.core.keys.public)
    assert isinstance(attested, AttestedRun)
    assert attested.run.plan_sha256 == asked.plan_hashes[told.work.work_item_id]
    assert attested.run.approval is not None


async def test_what_a_command_does_beyond_what_it_declared_is_not_taken_over(yard: Yard) -> None:
    asked = await yard.command("rm old.txt; echo hidden > other.txt")
    await yard.decide(asked)
    await yard.house.row("SELECT 1 FROM paused_runs WHERE state = 'waiting'")
    assert (yard.folder / "old.txt").exists()
    assert not (yard.folder / "other.txt").exists()


async def test_no_is_no_and_a_withdrawn_card_is_decided_by_nobody(yard: Yard) -> None:
    declined, withdrawn = await yard.command("id"), await yard.command("id -u")
    await yard.decide(declined, NO)
    told = await yard.told(declined)
    assert (told.answer, told.reason, told.work) == (DENY, "The owner declined it.", None)
    other = await yard.command("id -g")
    changed = ApprovalDecision(verdict=ApprovalVerdict.EDIT_REQUESTED)
    await yard.decide(other, changed)
    told = await yard.told(other)
    assert (told.answer, told.reason[:26]) == (DENY, "The owner wants it changed")
    told = await yard.work.withdraw_work(yard.token, withdrawn.proposal_id)
    assert (told.answer, told.reason) == (DENY, "Withdrawn.")
    with pytest.raises(CardNotOpen):
        await yard.decide(withdrawn)
    assert await yard.house.database.fetch_all("SELECT * FROM approval_tokens") == []


async def test_a_plan_of_a_program_refers_to_its_own_work_alone(yard: Yard) -> None:
    other = await yard.named("Codex")
    first = await yard.work.propose_plan(other, "x", plan("```run\ntrue\n```", id="theirs"))
    [theirs] = first.plan_hashes
    with pytest.raises(ProposalRefused, match="do not exist"):
        await yard.plan(plan("```run\ntrue\n```", more=f"follow_up_of: {theirs}"))
    for ask in (yard.work.look_at_work, yard.work.withdraw_work):
        with pytest.raises(ProposalRefused, match="no such proposal"):
            await ask(yard.token, first.proposal_id)
    assert (await yard.work.look_at_work(other, first.proposal_id)).answer is WAITING


async def test_the_same_request_of_two_programs_is_two_cards_and_two_answers(yard: Yard) -> None:
    other = await yard.named("Codex")
    asked = ProposedCommand(command="echo hello")
    mine = await yard.work.propose_command(yard.token, "greet", asked)
    theirs = await yard.work.propose_command(other, "greet", asked)
    assert set(mine.plan_hashes).isdisjoint(theirs.plan_hashes)
    await yard.decide(mine)
    assert (await yard.told(mine)).answer is ALLOW
    assert (await yard.work.look_at_work(other, theirs.proposal_id)).answer is WAITING


@pytest.mark.parametrize(
    "markdown",
    [
        "no plan at all",
        plan("x", more="schedule: '0 9 * * *'").replace("type: task", "type: goal"),
        plan("```run\ntrue\n```", more="workspace: {path: ~/.ssh}"),
        plan("```run\ntrue\n```", more="needs_approval: false"),
        plan("```run\ntrue\n```", more="approval_token: {}"),
    ],
    ids=["nonsense", "goal", "keys", "no approval", "token"],
)
async def test_a_plan_that_asks_for_too_much_gets_no_card(yard: Yard, markdown: str) -> None:
    with pytest.raises(ProposalRefused):
        await yard.plan(markdown)
    assert await yard.cards.open_cards() == []


@pytest.mark.parametrize("command", ["echo a\nid", "echo \u202eab", "echo \u200b", "x\x00"])
async def test_a_command_that_does_not_look_like_what_it_is_gets_no_card(
    yard: Yard, command: str
) -> None:
    with pytest.raises(ProposalRefused, match="cannot be seen"):
        await yard.command(command)


@pytest.mark.parametrize(
    "command",
    ["echo '---\\nid: x'", "echo '```' ; echo $HOME", 'echo "a\'b" # ```run', "echo ${x:-1} | cat"],
)
async def test_whatever_a_command_holds_it_is_one_line_of_the_plan(
    yard: Yard, command: str
) -> None:
    asked = await yard.command(command, folder=None)
    item = await yard.house.core.work.items.get(next(iter(asked.plan_hashes)))
    assert item is not None
    assert item.script
    await yard.decide(asked)
    told = await yard.told(asked)
    assert told.work is not None
    assert told.work.status == "unchecked"
    assert len(told.work.calls) == 1


async def test_the_title_of_a_program_begins_with_its_name_and_is_one_line(yard: Yard) -> None:
    title = "ok\n\nApproved by the owner \u202e"
    asked = await yard.work.propose_command(yard.token, title, ProposedCommand(command="id"))
    card = await yard.cards.get(asked.proposal_id)
    assert card.title.startswith("Claude Code: ok")
    assert card.title.isprintable()
    assert card.title.endswith(" \\u202e"), "what is hidden is written out once"


async def test_a_program_that_is_removed_leaves_no_card(yard: Yard) -> None:
    asked = await yard.command("id")
    await yard.work.remove_client("Claude Code")
    with pytest.raises(ClientRefused):
        await yard.told(asked)
    with pytest.raises(CardNotOpen):
        await yard.decide(asked)
    item = await yard.house.core.work.items.get(next(iter(asked.plan_hashes)))
    assert item is not None
    assert item.status.value == "failed"


async def test_cards_of_work_and_of_requests_share_the_places_of_a_program(yard: Yard) -> None:
    for number in range(3):
        await yard.command(f"echo {number}")
    for number in range(2):
        await yard.work.service.propose(yard.token, "x", {"number": number})

    async def once_more() -> bool:
        try:
            await yard.command("id")
        except ProposalRefused:
            return False
        return True

    assert not any(await asyncio.gather(*(once_more() for _ in range(20))))
    assert len(await yard.cards.open_cards()) == 3


async def test_what_is_executed_is_what_was_shown_or_nothing(yard: Yard) -> None:
    """The row of the item is changed after the yes was signed, before it is carried out."""
    asked = await yard.command("echo shown > new.txt", changes=ProposedChanges(add=["new.txt"]))
    [name] = asked.plan_hashes
    row = await yard.house.database.fetch_one("SELECT plan FROM work_items WHERE id = ?", (name,))
    changed = json.dumps(json.loads(row[0])).replace("echo shown", "echo other")
    await yard.house.database.execute(
        "UPDATE work_items SET plan = ? WHERE id = ?", (changed, name)
    )
    with contextlib.suppress(Exception):
        await yard.decide(asked)
    await yard.house.idle()
    assert not (yard.folder / "new.txt").exists()
