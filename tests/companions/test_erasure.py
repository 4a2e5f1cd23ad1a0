"""Forgetting: a companion, a category, a span, a word; nothing of it is in any table or file."""

from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from silas.companions.erasure import (
    KEPT,
    SAID,
    WITHOUT_WORDS,
    ErasedElsewhere,
    Erasure,
    ErasureWish,
)
from silas.companions.messages import (
    AgentMessage,
    AgentMessagePayload,
    AgentOperation,
    AgentReport,
    Diagnostic,
    RunTrace,
    WakeRun,
)
from silas.companions.models import (
    AgentActionType,
    AgentInteractionType,
    Companion,
    ErasureReceipt,
    StopScope,
    WakeStatus,
)
from silas.companions.ports import (
    ClaimDraft,
    CompanionProposal,
    CompanionQuestion,
    CompanionRequest,
    ProposedAction,
    ReportDraft,
    SectionDraft,
)
from silas.companions.retention import Retention
from silas.companions.store import TABLES
from silas.companions.words import RECORDS
from silas.kernel import CompanionError
from silas.storage import SqliteDatabase
from silas.storage.errors import DiskFull
from silas.testing.companions import CompanionDevice, FakeGateway, ScriptedModel, opened_device
from tests.companions.test_workflow import call

CANARY = "Zanzibarine"
SMALL = CANARY.casefold()


async def everything_in(database: SqliteDatabase) -> dict[str, str]:
    """Every table with all that is in it, as one text."""
    names = await database.fetch_all("SELECT name FROM sqlite_master WHERE type = 'table'")
    return {
        name: str(await database.fetch_all(f'SELECT * FROM "{name}"')).casefold()
        for (name,) in names
    }


async def tables_with(device: CompanionDevice, text: str = SMALL) -> set[str]:
    found = {**await everything_in(device.agent_db), **await everything_in(device.runtime_db)}
    return {name for name, content in found.items() if text in content}


def files_with(device: CompanionDevice, text: str = CANARY) -> list[str]:
    return [
        each.name
        for each in sorted(device.path.iterdir())
        if each.is_file() and not each.name.startswith("journal")
        if text.encode() in each.read_bytes() or text.casefold().encode() in each.read_bytes()
    ]


class Talkative:
    """A companion whose every record has the canary in it."""

    def __init__(self, device: CompanionDevice, model: ScriptedModel) -> None:
        self.device, self.model = device, model
        self.agent = ""

    async def run(self, said: str | None = None) -> str:
        woken = await self.device.service.wake(self.agent, said=said)
        await self.device.work()
        return woken.run_key

    async def live(self) -> None:
        device = self.device
        made = await device.service.new("planner", category_ids=[device.categories["gym"]])
        self.agent = made.id
        task = await device.task(f"{CANARY} squats", checklist_items=("Stretch",))
        await device.journal.settled()

        def speaks(request: CompanionRequest) -> CompanionProposal:
            source = f"task:{task}"
            claim = ClaimDraft(text=f"{CANARY} is open", sources=(source,))
            section = SectionDraft(section_id="open", title="Open", claims=(claim,))
            return CompanionProposal(
                thought=f"Think of {CANARY}.",
                actions=(
                    ProposedAction(
                        action_type=AgentActionType.ASK_USER,
                        question=CompanionQuestion(
                            interaction_type=AgentInteractionType.FREE_TEXT,
                            prompt_text=f"Shall I move {CANARY}?",
                        ),
                    ),
                    call("create_task", category_id=request.category_ids[0], title=f"{CANARY} 2"),
                    call("update_task_priority", task_id=task, priority="P0"),
                    call(f"{SMALL}_get", url="https://example.org"),
                ),
                report=ReportDraft(headline=f"About {CANARY}", sections=(section,)),
            )

        self.model._answers[:] = [speaks, CompanionProposal()]
        await self.run(f"How is {CANARY}?")
        operation = next(iter(device.approvals.asked))
        await device.approvals.approve(operation)
        await device.service.decided(operation)
        self.model._answers[:] = [speaks, CompanionProposal()]
        await self.run()
        (question, *_) = await device.service.questions(self.agent)
        await device.service.answer(question.id, f"Not {CANARY}")
        await device.work()
        await device.companions.compactor.consider(self.agent, f"{self.agent}:x", ended=True)
        await device.companions.compactor.work()
        await device.service.configure(self.agent, display_name=f"The {CANARY} one")
        await device.service.propose_persona(self.agent, {"coaching_style": f"{CANARY} first"})
        await device.service.stop(StopScope.COMPANION, self.agent, reason=f"{CANARY} again")
        await device.service.release(StopScope.COMPANION, self.agent)
        await device.service.stop(StopScope.TOOL_CLASS, "model", reason=f"too much {CANARY}")
        odd = Diagnostic(
            id="odd",
            agent_id=self.agent,
            kind="odd",
            subject_id="x",
            detail={CANARY: [f"a {CANARY}"]},
            created_at=device.clock.now(),
        )
        await device.store.put(odd)


@pytest.fixture
async def talkative(tmp_path: Path) -> AsyncIterator[Talkative]:
    model = ScriptedModel(CompanionProposal())
    async with opened_device(tmp_path, gateway=FakeGateway(model)) as device:
        made = Talkative(device, model)
        await made.live()
        yield made


def test_every_table_is_accounted_for() -> None:
    """A new table has to say whether what is in it was said, stays, or has no words."""
    assert {*SAID, *KEPT, *WITHOUT_WORDS} == set(TABLES)
    assert len(SAID) + len(KEPT) + len(WITHOUT_WORDS) == len(TABLES)


async def test_a_word_is_gone_from_every_table_and_file(talkative: Talkative) -> None:
    device = talkative.device
    before = await tables_with(device)
    assert {
        "agents", "agent_messages", "agent_message_payloads", "agent_reports", "agent_run_traces",
        "agent_action_plans", "agent_operations", "agent_prompt_items", "agent_prompt_responses",
        "agent_persona_versions", "agent_diagnostics", "wake_run_log", "stop_switches",
        "approval_tokens",
    } <= before  # fmt: skip
    looked = await device.service.forget(ErasureWish(words=CANARY))
    assert await tables_with(device) == before, "a preview changes nothing"
    receipt = await device.service.forget(ErasureWish(words=CANARY.upper()), really=True)
    assert await tables_with(device) == set()
    assert files_with(device) == []
    assert receipt.removed.items() >= looked.removed.items()
    assert receipt.redacted == looked.redacted
    assert receipt.done
    assert receipt.words_digest
    assert SMALL not in receipt.model_dump_json().lower()
    assert any("Backups" in each for each in receipt.stays)
    assert [each.id for each in await device.service.forgotten()] == [receipt.id]
    # It still works: it has its kind, its persona, a name, and a log that goes on.
    shown = await device.service.show(talkative.agent)
    assert shown.companion.display_name == "The erased one"
    await device.service.resume_all()
    talkative.model._answers[:] = [CompanionProposal(thought="Hello.")]
    key = await talkative.run("Hello?")
    assert (await device.store.require(WakeRun, key)).status is WakeStatus.COMPLETED


async def test_what_broke_off_in_between_is_forgotten_when_it_is_asked_for_again(
    talkative: Talkative,
) -> None:
    device = talkative.device
    before = await tables_with(device)

    async def broken(about: ErasedElsewhere) -> dict[str, int]:
        raise DiskFull

    erasure = Erasure(device.store, elsewhere=[device.approvals.forget, broken])
    with pytest.raises(DiskFull):
        await erasure.erase(ErasureWish(words=CANARY))
    assert {"agent_messages", "agent_operations"} <= await tables_with(device) <= before
    assert await device.store.find(ErasureReceipt) == []
    await device.service.forget(ErasureWish(words=CANARY), really=True)
    assert await tables_with(device) == set()


def test_what_is_counted_has_words() -> None:
    assert {TABLES[each].name for each in (*SAID, *KEPT)} <= RECORDS.keys()


async def test_a_companion_is_forgotten_whole(talkative: Talkative) -> None:
    device = talkative.device
    other = await device.service.new("planner", category_ids=[device.categories["work"]])
    await device.service.release(StopScope.TOOL_CLASS, "model")
    receipt = await device.service.forget(ErasureWish(agent_id=talkative.agent), really=True)
    left = await tables_with(device, talkative.agent)
    # What happened, without a word of it: the audit log is another one in this test.
    assert left <= {"agent_erasures"}
    assert await tables_with(device) <= {"stop_switches"}  # the reason for stopping a class
    assert receipt.removed["agents"] == 1
    assert [each.id for each in await device.store.find(Companion)] == [other.id]


async def test_of_a_category_everything_goes_that_may_hold_something_of_it(
    talkative: Talkative,
) -> None:
    device, gym = talkative.device, talkative.device.categories["gym"]
    other = await device.service.new("planner", category_ids=[device.categories["work"]])
    await device.service.wake(other.id)
    await device.work()
    kept = await device.store.find(RunTrace, {"agent_id": other.id})
    await device.service.forget(ErasureWish(category_id=gym), really=True)
    for kind in (AgentReport, RunTrace, AgentOperation, AgentMessagePayload, AgentMessage):
        assert await device.store.find(kind, {"agent_id": talkative.agent}) == [], kind
    assert await device.store.find(RunTrace, {"agent_id": other.id}) == kept
    assert device.approvals.asked == {}


async def test_who_loses_a_category_forgets_its_traces_reports_and_tombstones_as_well(
    talkative: Talkative,
) -> None:
    device = talkative.device
    work = device.categories["work"]
    await device.service.configure(talkative.agent, display_name="Plain", category_ids=[work])
    await device.service.resume_all()
    left = await tables_with(device)
    assert left <= {"agent_persona_versions", "stop_switches"}, left
    assert await device.service.report(talkative.agent) is None


async def test_a_span_takes_what_covers_and_what_repeats_it(tmp_path: Path) -> None:
    model = ScriptedModel(CompanionProposal())
    async with opened_device(tmp_path, gateway=FakeGateway(model)) as device:
        agent = (await device.service.new("planner", category_ids=[device.categories["gym"]])).id
        keys = []
        for day in range(3):
            model._answers[:] = [CompanionProposal(thought=f"Thought of day {day}.")]
            keys.append((await device.service.wake(agent, said=f"Said on day {day}")).run_key)
            await device.work()
            device.clock.advance(days=1)
        now = device.clock.now()
        begin = now - timedelta(days=2, hours=12)
        wish = ErasureWish(since=begin, until=begin + timedelta(days=1))
        receipt = await device.service.forget(wish, really=True)
        assert receipt.companions == (agent,)
        assert "agent_run_traces" in receipt.removed
        left = await tables_with(device, "day 1")
        assert left == set(), left
        assert await tables_with(device, "said on day 0") != set()
        assert await tables_with(device, "said on day 2") != set()
        # The first trace is of before and stays; later ones repeat what was remembered.
        assert [each.run_key for each in await device.store.find(RunTrace)] == keys[:1]
        # The log goes on behind what was there.
        model._answers[:] = [CompanionProposal(thought="On.")]
        await device.service.wake(agent, said="On")
        await device.work()
        found = await device.store.find(AgentMessage, {"agent_id": agent}, with_deleted=True)
        assert len({each.sequence for each in found}) == len(found)


async def test_a_run_that_is_going_on_leaves_nothing_behind(tmp_path: Path) -> None:
    model = ScriptedModel(CompanionProposal())
    async with opened_device(tmp_path, gateway=FakeGateway(model)) as device:
        agent = (await device.service.new("planner", category_ids=[device.categories["gym"]])).id
        original = device.companions.workflow.door.ask

        async def meanwhile(*args: Any, **more: Any) -> CompanionProposal:
            wish = ErasureWish(category_id=device.categories["gym"])
            await device.service.forget(wish, really=True)
            return CompanionProposal(thought=f"{CANARY} it was.")

        device.companions.workflow.door.ask = meanwhile  # type: ignore[method-assign]
        woken = await device.service.wake(agent, said=f"About {CANARY}")
        await device.work()
        device.companions.workflow.door.ask = original  # type: ignore[method-assign]
        run = await device.store.require(WakeRun, woken.run_key)
        assert (run.status, run.skip_reason) == (WakeStatus.CANCELLED, "forgotten")
        assert await tables_with(device) == set()


@pytest.mark.parametrize(
    "wrong",
    [{}, {"words": "ab"}, {"since": "2026-01-02T00:00:00Z", "until": "2026-01-01T00:00:00Z"}],
)
def test_what_nobody_can_mean_is_no_wish(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"a word|ends before"):
        ErasureWish.model_validate(wrong)


async def test_forgetting_somebody_unknown_says_so(device: CompanionDevice) -> None:
    with pytest.raises(CompanionError):
        await device.service.forget(ErasureWish(agent_id="companion_none"), really=True)
    assert await device.store.find(ErasureReceipt) == []


async def test_words_of_the_code_are_not_the_owners(talkative: Talkative) -> None:
    """`subscription` and `create_task` stand in every second row, and nobody has said them."""
    device = talkative.device
    before = len(await device.store.find(AgentMessage))
    receipt = await device.service.forget(ErasureWish(words="create_task"), really=True)
    assert receipt.removed.get("agent_messages", 0) < before
    assert await device.store.find(RunTrace) != []


async def test_tombstones_go_when_their_time_is_over(talkative: Talkative) -> None:
    device = talkative.device
    gym = device.categories["gym"]
    await device.service.forget(ErasureWish(category_id=gym), really=True)
    assert len(await device.store.find(AgentMessage, with_deleted=True)) > 0
    device.clock.advance(days=181)
    await Retention(device.store).prune()
    assert await device.store.find(AgentMessage, with_deleted=True) == []
