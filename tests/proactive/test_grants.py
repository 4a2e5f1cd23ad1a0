"""Standing grants: proposed from the owner's own decisions, and good for exactly what they say."""

import json
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from pydantic import Field

from silas.approval import ApprovalDecision, ApprovalScope, ApprovalVerdict
from silas.gates.envelopes import ActionEnvelope, ArgumentConstraint, is_inside
from silas.gates.risk import ActionKind, DeclaredEffect, Reversibility
from silas.kernel import IdFactory, TaintLevel
from silas.kernel.models import Data
from silas.proactive.calibrator import AutonomyCalibrator, AutonomyPolicy, Knob
from silas.proactive.grants import (
    GrantPolicy,
    StandingGrants,
    StandingGrantUnknown,
    constraints_of,
)
from silas.proactive.outcomes import ActionOutcome, OutcomeFeed, OutcomeStore, record_outcome
from silas.review.decisions import QuestionKind
from silas.review.questions import Question
from silas.testing import MemoryVault
from silas.testing.work import DESTROYS, SENDS, LaterApprover, PausingWorker, decide_with_vault
from silas.tools.declaration import Tool, ToolRegistry
from silas.tools.execution import ExecutionEnvelope, ExecutionResult, succeeded
from silas.work import WorkItemStatus
from silas.work.ports import AgentRun, Briefing, PausedCall, PausedRun, ToolCaller
from silas.work.tool_calls import AttemptTools, calls_of
from tests.proactive.test_outcomes import feed_of_shop
from tests.work.conftest import shop
from tests.work.shop import YES, Shop, task

__all__ = ["shop"]
NO = ApprovalDecision(verdict=ApprovalVerdict.DECLINED)
PAYS = DeclaredEffect(action=ActionKind.CHANGE, reversibility=Reversibility.HARD)
ANN = {"account": "home", "to": ["ann@example.org"], "text": "Hello"}


class MailArguments(Data):
    account: str = "home"
    to: list[str] = Field(default_factory=list)
    text: str = ""
    amount: float | None = None


class Post:
    """A tool that acts outside, and remembers what it did."""

    def __init__(self) -> None:
        self.sent: list[dict[str, Any]] = []

    async def execute(self, envelope: ExecutionEnvelope) -> ExecutionResult:
        self.sent.append(dict(envelope.args))
        return succeeded(envelope, "sent")


@dataclass
class Mailer:
    """Work that sends, an owner who decides, and the grants that come of it."""

    shop: Shop
    post: Post
    feed: OutcomeFeed
    grants: StandingGrants
    number: int = 0

    async def work(self, tool: str = "mail", **args: Any) -> WorkItemStatus:
        """Work that makes one call; it waits if the owner is asked."""
        self.number += 1
        self.shop.clock.advance(minutes=1)
        item = task(id=f"t{self.number}", budget={"max_attempts": 1})
        return (await self.shop.run(item, PausingWorker((tool, {**ANN, **args})))).status

    async def decide(self, decision: ApprovalDecision = YES) -> None:
        runs = self.shop.bench.paused
        kept = await runs.of(f"t{self.number}") if runs else None
        assert kept is not None
        await decide_with_vault(self.shop.bench, kept.calls, decision)
        item = await self.shop.bench.items.get(f"t{self.number}")
        assert item is not None
        await self.shop.execute(item)
        await self.feed.gather()

    async def approved(self, count: int = 3, tool: str = "mail", **args: Any) -> None:
        for at in range(count):
            assert await self.work(tool, **{"text": f"Hello {at}", **args}) is (
                WorkItemStatus.BLOCKED
            )
            await self.decide()

    async def proposed(self) -> list[Question]:
        return await self.grants.propose(self.shop.clock.now())

    async def granted(self) -> str:
        """A grant that the owner has given, after three equal approvals."""
        await self.approved()
        [question] = await self.proposed()
        await self.say(question)
        [grant] = await self.grants.in_force()
        return grant.grant_id

    async def say(self, question: Question, verdict: str = "approve") -> None:
        await self.grants.questions.ask(question)
        answer = {"selected_value": verdict}
        await self.grants.questions.answer_with_vault(question.question_id, answer)
        await self.grants.answered(question.about)

    def call(self, **changes: Any) -> PausedCall:
        args = {**ANN, **changes.pop("args", {})}
        fields = {"work_item_id": "t", "attempt": 1, "tool": "mail", "args": args}
        return PausedCall.model_validate(
            {**fields, "reasons": ["x"], "taint": TaintLevel.OWNER, **changes}
        )


@pytest.fixture
def mailer(shop: Shop) -> Mailer:
    post = Post()
    tools = [
        *shop.bench.registry.tools.values(),
        Tool("mail", MailArguments, post, contained=False, effect=SENDS),
        Tool("pay", MailArguments, post, contained=False, effect=PAYS),
        Tool("drop", MailArguments, post, contained=False, effect=DESTROYS),
    ]
    shop.having(registry=ToolRegistry(tools), approver=LaterApprover())
    feed, bench = feed_of_shop(shop), shop.bench
    ids, outcomes = IdFactory(bench.clock), OutcomeStore(feed.database, bench.clock)
    calibrator = AutonomyCalibrator(
        feed.database,
        shop.engine,
        bench.decisions,
        AutonomyPolicy(min_samples=4),
        outcomes,
        MemoryVault(),
        shop.audit,
        bench.clock,
        ids,
    )
    grants = StandingGrants(
        feed.database,
        shop.engine,
        bench.decisions,
        feed.questions,
        outcomes,
        calibrator,
        bench.registry.effect_of,
        shop.audit,
        bench.clock,
        ids,
        ZoneInfo("UTC"),
        "owner",
        GrantPolicy(repeats=3, most_a_day=2, most=3),
    )
    shop.having(grants=grants.use)
    return Mailer(shop, post, feed, grants)


class TestProposals:
    async def test_what_was_approved_again_and_again_unchanged(self, mailer: Mailer) -> None:
        await mailer.approved(2)
        assert await mailer.proposed() == [], "twice is no habit"
        await mailer.approved(1)
        [question] = await mailer.proposed()
        content = question.content
        assert content.kind is QuestionKind.GRANT
        assert question.approval_scope is ApprovalScope.TOOL_TYPE
        assert "approved it 3 times, unchanged" in content.rationale
        assert "to: only ann@example.org" in content.body["question"]
        assert "account: always home" in content.body["question"]
        assert "At most 2 a day and 3 in all" in content.body["question"]
        assert "What mail does cannot be undone." in content.body["question"]
        assert "Hello" not in content.to_bytes().decode(), "no text of anybody words it"

    async def test_a_no_or_a_change_is_no_habit(self, mailer: Mailer) -> None:
        await mailer.approved(2)
        await mailer.work()
        await mailer.decide(NO)
        await mailer.approved(2)
        assert await mailer.proposed() == []
        await mailer.approved(1)
        assert len(await mailer.proposed()) == 1

    async def test_what_was_undone_is_no_habit(self, mailer: Mailer) -> None:
        await mailer.approved(3)
        [ref] = await mailer.feed.database.fetch_all("SELECT max(ref) FROM action_outcomes")
        await mailer.feed.database.transaction(
            lambda tx: record_outcome(
                tx,
                family="send",
                scope_id="owner",
                outcome=ActionOutcome.UNDONE,
                ref=str(ref[0]),
                at=mailer.shop.clock.now(),
            )
        )
        assert await mailer.proposed() == []

    @pytest.mark.parametrize(("tool", "args"), [("drop", {}), ("pay", {"amount": 5.0})])
    async def test_never_for_what_deletes_or_pays(
        self, mailer: Mailer, tool: str, args: dict[str, Any]
    ) -> None:
        await mailer.approved(4, tool, **args)
        assert await mailer.proposed() == []

    async def test_what_a_strangers_text_had_a_part_in_counts_for_nothing(
        self, mailer: Mailer
    ) -> None:
        await mailer.approved(2)
        taints = mailer.shop.bench.taint_of

        async def foreign(_item: object) -> TaintLevel:
            return TaintLevel.EXTERNAL

        mailer.shop.having(taint_of=foreign)
        await mailer.approved(3)
        assert await mailer.proposed() == []
        mailer.shop.having(taint_of=taints)

    async def test_a_row_that_somebody_changed_after_the_yes_counts_for_nothing(
        self, mailer: Mailer
    ) -> None:
        await mailer.approved(3)
        await mailer.feed.database.execute(
            "UPDATE paused_calls SET call = replace(call, 'ann@', 'mal@')"
        )
        assert await mailer.proposed() == []


class TestUse:
    async def test_inside_it_work_goes_on_and_is_told_up_to_its_most(self, mailer: Mailer) -> None:
        await mailer.granted()
        assert await mailer.work(text="New words") is not WorkItemStatus.BLOCKED
        assert await mailer.work() is not WorkItemStatus.BLOCKED
        assert len(mailer.post.sent) == 5
        assert await mailer.work() is WorkItemStatus.BLOCKED, "two a day"
        mailer.shop.clock.advance(days=1)
        assert await mailer.work() is not WorkItemStatus.BLOCKED
        mailer.shop.clock.advance(days=1)
        assert await mailer.work() is WorkItemStatus.BLOCKED, "three in all"
        used = [data for name, data in mailer.shop.audit.entries if name == "grant_used"]
        assert [each["tool"] for each in used] == ["mail"] * 3
        [shown] = await mailer.grants.shown()
        assert (shown.used, shown.used_today, len(shown.uses)) == (3, 0, 3)

    @pytest.mark.parametrize(
        "args",
        [
            {"to": ["mal@evil.test"]},
            {"to": ["ann@example.org", "mal@evil.test"]},
            {"to": []},
            {"account": "work"},
            {"amount": 5.0},
        ],
    )
    async def test_another_recipient_account_or_amount_is_asked_about(
        self, mailer: Mailer, args: dict[str, Any]
    ) -> None:
        await mailer.granted()
        assert await mailer.work(**args) is WorkItemStatus.BLOCKED
        assert len(mailer.post.sent) == 3

    async def test_another_tool_is_asked_about(self, mailer: Mailer) -> None:
        await mailer.granted()
        assert await mailer.work("pay") is WorkItemStatus.BLOCKED

    async def test_a_run_with_a_strangers_text_in_it_is_asked_about(self, mailer: Mailer) -> None:
        await mailer.granted()

        async def foreign(_item: object) -> TaintLevel:
            return TaintLevel.EXTERNAL

        mailer.shop.having(taint_of=foreign)
        assert await mailer.work() is WorkItemStatus.BLOCKED
        assert await mailer.grants.use(mailer.call(taint=TaintLevel.EXTERNAL), False) is None

    async def test_revoked_or_over_it_covers_nothing_and_no_row_brings_it_back(
        self, mailer: Mailer
    ) -> None:
        name = await mailer.granted()
        await mailer.grants.revoke(name)
        await mailer.feed.database.execute("UPDATE standing_grants SET ended_at = NULL")
        assert await mailer.grants.in_force() == []
        assert await mailer.work() is WorkItemStatus.BLOCKED
        with pytest.raises(StandingGrantUnknown):
            await mailer.grants.revoke(name)

    async def test_taken_back_between_the_look_and_the_call_it_covers_nothing(
        self, mailer: Mailer
    ) -> None:
        name = await mailer.granted()
        [grant] = await mailer.grants.in_force()
        await mailer.grants.revoke(name)
        assert not await mailer.grants._count_in(grant, mailer.call())
        assert await mailer.feed.database.fetch_all("SELECT * FROM grant_uses") == []

    async def test_everything_taken_back_also_when_the_clock_was_ahead_as_it_was_given(
        self, mailer: Mailer
    ) -> None:
        await mailer.granted()
        right = mailer.shop.clock.now() - timedelta(days=2)
        mailer.shop.clock.set(right)
        await mailer.grants.revoke_all()
        await mailer.feed.database.execute("UPDATE standing_grants SET ended_at = NULL")
        mailer.shop.clock.set(right + timedelta(days=3))
        assert await mailer.grants.in_force() == []

    @pytest.mark.parametrize("now", [DESTROYS, None])
    async def test_a_tool_that_does_something_else_by_now_is_asked_about(
        self, mailer: Mailer, now: DeclaredEffect | None
    ) -> None:
        """A skill was updated: its tool has the same name, and deletes or declares nothing."""
        await mailer.granted()
        updated = replace(mailer.grants, effect_of=lambda _name: now)
        assert await mailer.grants.use(mailer.call(), False) is not None
        assert await updated.use(mailer.call(), False) is None

    async def test_the_runtimes_own_calls_are_never_made_under_one(self, mailer: Mailer) -> None:
        """A batch is approved item by item: what a gate has rewritten is not its call any more."""
        await mailer.granted()
        answers: list[str | None] = []

        class Alone(PausingWorker):
            async def run(self, briefing: Briefing, tools: ToolCaller) -> AgentRun | PausedRun:
                assert isinstance(tools, AttemptTools)
                own = await calls_of(tools.ctx, tools.files)
                answers.append((await own.call("mail", ANN)).error)
                return await super().run(briefing, tools)

        await mailer.shop.run(task(id="own", budget={"max_attempts": 1}), Alone())
        assert answers != [None]
        assert len(mailer.post.sent) == 3

    async def test_it_ends_by_itself(self, mailer: Mailer) -> None:
        await mailer.granted()
        mailer.shop.clock.advance(days=31)
        assert await mailer.grants.use(mailer.call(), False) is None

    @pytest.mark.parametrize(
        ("old", "new"), [("ann@", "mal@"), ('"most":3', '"most":99'), ('_day":2', '_day":9')]
    )
    async def test_a_row_that_says_more_than_was_signed_allows_nothing(
        self, mailer: Mailer, old: str, new: str
    ) -> None:
        await mailer.granted()
        database = mailer.feed.database
        await database.execute(
            "UPDATE standing_grants SET content = replace(content, ?, ?)", (old, new)
        )
        [(content,)] = await database.fetch_all("SELECT content FROM standing_grants")
        assert new in str(content)
        assert await mailer.grants.in_force() == []

    async def test_a_row_with_the_token_of_something_else_allows_nothing(
        self, mailer: Mailer
    ) -> None:
        """A worker's or a model's own wish: a grant that nobody was asked for."""
        await mailer.approved()
        [question] = await mailer.proposed()
        grant = question.content.body["grant"]
        other = task(id="other")
        token = await mailer.shop.engine.issue_token(other, YES)
        await mailer.feed.database.execute(
            "INSERT INTO standing_grants (grant_id, content, token, granted_at) "
            "VALUES (?, ?, ?, '2026')",
            (grant["grant_id"], json.dumps(grant), token.model_dump_json()),
        )
        assert await mailer.grants.in_force() == []

    async def test_a_no_gives_nothing(self, mailer: Mailer) -> None:
        await mailer.approved()
        [question] = await mailer.proposed()
        await mailer.say(question, "decline")
        assert await mailer.grants.in_force() == []
        for days in (1, 20):
            mailer.shop.clock.advance(days=days)
            assert await mailer.proposed() == [], "not again for a month"

    async def test_when_the_owner_corrects_more_it_ends_by_itself(self, mailer: Mailer) -> None:
        name = await mailer.granted()
        for _ in range(4):
            await mailer.work(to=["bob@example.org"])
            await mailer.decide(NO)
        assert await mailer.grants.end_where_corrected() == [name]
        assert await mailer.work() is WorkItemStatus.BLOCKED


class TestWidening:
    async def approve(self, mailer: Mailer, key: Knob) -> None:
        calibrator, now = mailer.grants.calibrator, mailer.shop.clock.now()
        found = await calibrator.evaluate("owner", now, mailer.grants.subjects)
        [question] = [q for q in found if q.content.body["changes"][0]["key"] == key]
        await mailer.grants.questions.ask(question)
        answer = {"verdict": "approve"}
        await mailer.grants.questions.answer_with_vault(question.question_id, answer)
        answered = await mailer.grants.questions.answered(question.question_id)
        assert answered is not None
        await calibrator.apply(answered)

    async def test_one_more_recipient_by_a_token_of_its_own(self, mailer: Mailer) -> None:
        await mailer.granted()
        await mailer.approved(3, to=["bob@example.org"])
        assert await mailer.proposed() == [], "it is the same grant, for one more"
        await self.approve(mailer, Knob.SCOPE)
        bob, mal = {"to": ["bob@example.org"]}, {"to": ["mal@evil.test"]}
        assert await mailer.grants.use(mailer.call(args=bob), False)
        assert await mailer.grants.use(mailer.call(args=mal), False) is None
        await mailer.grants.calibrator.tighten()
        assert await mailer.grants.use(mailer.call(args=bob), False) is None
        assert await mailer.grants.use(mailer.call(), False), "the grant itself stays"

    async def test_more_uses_once_they_were_used_up_and_asked_for(self, mailer: Mailer) -> None:
        await mailer.granted()
        with pytest.raises(ValueError, match="not enough values"):
            await self.approve(mailer, Knob.EXECUTIONS)  # on the decisions that it came from
        for _ in range(3):
            mailer.shop.clock.advance(days=1)
            assert await mailer.work() is not WorkItemStatus.BLOCKED
        await mailer.approved(3)
        await self.approve(mailer, Knob.EXECUTIONS)
        [grant] = await mailer.grants.in_force()
        assert grant.envelope.most == 6

    async def test_a_later_end_and_never_beyond_ninety_days(self, mailer: Mailer) -> None:
        await mailer.granted()
        start, ends = mailer.shop.clock.now(), []
        for _ in range(2):
            [grant] = await mailer.grants.in_force()
            left = (grant.until - mailer.shop.clock.now()).days
            mailer.shop.clock.advance(days=left - 5)
            await mailer.approved(3, to=["bob@example.org"])
            if not ends:
                keys = {each.key for each in await mailer.grants.subjects()}
                assert Knob.EXPIRY not in keys, "what was never used need not hold longer"
                assert await mailer.work() is not WorkItemStatus.BLOCKED
            await self.approve(mailer, Knob.EXPIRY)
            [grant] = await mailer.grants.in_force()
            ends.append((grant.until - start).days)
        assert ends == [60, 90]
        mailer.shop.clock.advance(days=(grant.until - mailer.shop.clock.now()).days - 5)
        await mailer.approved(3, to=["bob@example.org"])
        subjects = await mailer.grants.subjects()
        assert Knob.EXPIRY not in {each.key for each in subjects}, "it could not hold longer"
        mailer.shop.clock.advance(days=10)
        assert await mailer.grants.in_force() == []


@pytest.mark.parametrize("value", [[["a"]], [{"a": 1}], []])
def test_what_is_nested_or_empty_binds_nothing_and_stops_nothing(value: list[Any]) -> None:
    """Tools of servers take such arguments; one of them must not end all proposals."""
    calls = [{"to": ["ann@example.org"], "rows": value}] * 3
    assert constraints_of(calls, SENDS) is None
    assert constraints_of([{"to": value}] * 3, SENDS) is None


def test_a_list_is_bound_element_by_element() -> None:
    only = ActionEnvelope(
        tool="mail", constraints={"to": ArgumentConstraint(each_of=["a@x", "b@x"])}
    )
    for good in (["a@x"], ["b@x", "a@x"]):
        assert is_inside([only], "mail", {"to": good})
    for bad in ([], ["a@x", "c@x"], "a@x", ["a@x", ["b@x"]], [True], None, ["A@x"]):
        assert not is_inside([only], "mail", {"to": bad})
    assert "each_of" not in ArgumentConstraint(equals=1).model_dump()
