"""What was approved is done once, by the audit log: whatever the rows say."""

import base64
from collections.abc import Collection
from datetime import datetime, timedelta

import pytest

from silas.approval import (
    ApprovalDecision,
    ApprovalScope,
    ApprovalToken,
    ApprovalVerdict,
    DecisionRefused,
)
from silas.approval.rules import digest
from silas.approval.store import BEGUN, DONE, ISSUED, USED, WITHDRAWN, done_entry
from silas.audit.models import ExaminedLog, Proven
from silas.kernel import AuditError, canonical_bytes, format_timestamp
from silas.storage import Durability
from silas.testing import FakePlan, RecordingAudit
from tests.approval.desk import YES, Desk

VALID = (True, "Valid")
CARRIED_OUT = (False, "What was approved has been carried out")
TAKEN_BACK = (False, "The owner has taken this approval back")
TRIED = (False, "What was approved has been tried as often as was approved")
NOT_KNOWN = (False, "The audit log does not know this approval")
USED_UP = (False, "The token has been used up")
NOT_FOR_THIS = (False, "The token was not used for this task")
PLAN = FakePlan()
OTHER = FakePlan(id="wi_2", content={"run": "echo other"})
POLICY = {"verify": ["df"]}
GOAL = FakePlan(id="goal_1", content={"watch": "disk"}, spawn_policy=POLICY)
TASK = FakePlan(id="task_1", parent="goal_1", spawn_policy=POLICY)
SECOND = FakePlan(id="task_2", parent="goal_1", spawn_policy=POLICY)
TASK_HASH = digest(TASK.plan_bytes())


class AskedAudit(RecordingAudit):
    """Remembers what it was asked, and can refuse to answer."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[tuple[datetime, frozenset[str], str]] = []
        self.checkpoints = 0
        self.refuses: AuditError | None = None

    async def write_checkpoint(self, examined: ExaminedLog | None = None) -> str:
        self.checkpoints += 1
        return await super().write_checkpoint(examined)

    async def proven_since(
        self, moment: datetime, events: Collection[str], *, about: str
    ) -> Proven:
        self.asked.append((moment, frozenset(events), about))
        if self.refuses is not None:
            raise self.refuses
        return await super().proven_since(moment, events, about=about)


@pytest.fixture
def log(desk: Desk) -> AskedAudit:
    desk.audit = AskedAudit()
    return desk.audit


async def used(desk: Desk, plan: FakePlan = PLAN) -> ApprovalToken:
    token = await desk.engine.issue_token(plan, YES)
    assert await desk.engine.verify(token, plan) == VALID
    return token


async def standing(desk: Desk, uses: int | None = None) -> ApprovalToken:
    return await desk.engine.issue_token(GOAL, YES, ApprovalScope.STANDING, max_executions=uses)


async def spawned(desk: Desk, task: FakePlan = TASK) -> ApprovalToken:
    token = await standing(desk)
    desk.clock.advance(minutes=5)
    assert await desk.engine.verify(token, GOAL, task) == VALID
    return token


class TestEntering:
    async def test_what_was_authorised_may_be_entered(self, desk: Desk, log: AskedAudit) -> None:
        token = await used(desk)
        log.asked.clear()
        assert await desk.engine.enter(token, PLAN) == VALID
        assert await desk.engine.enter(token, PLAN, most=1) == VALID
        asked = (token.issued_at, frozenset({ISSUED, BEGUN, DONE, WITHDRAWN}), token.plan_hash)
        assert log.asked == [asked, asked]

    async def test_an_approval_is_used_once_whatever_the_counters_say(
        self, desk: Desk, log: AskedAudit
    ) -> None:
        token = await used(desk)
        await desk.database.execute("UPDATE approval_tokens SET executions_used = 0")
        await desk.database.execute("DELETE FROM approval_executions")
        assert await desk.engine.verify(token, PLAN) == USED_UP

    @pytest.mark.parametrize("scope", [ApprovalScope.FULL_PLAN, ApprovalScope.TOOL_TYPE])
    async def test_what_was_taken_back_before_its_use_is_not_used(
        self, desk: Desk, log: AskedAudit, scope: ApprovalScope
    ) -> None:
        token = await desk.engine.issue_token(PLAN, YES, scope)
        await desk.engine.revoke(token.token_id)
        await desk.database.execute(
            "UPDATE approval_tokens SET voided_at = NULL, void_reason = NULL"
        )
        accept = frozenset({scope})
        valid, reason = await desk.engine.verify(token, PLAN, accept=accept)
        assert (valid, reason) == TAKEN_BACK

    @pytest.mark.parametrize("scope", [ApprovalScope.TOOL_TYPE, ApprovalScope.AUTONOMY_THRESHOLD])
    async def test_what_lasts_and_was_taken_back_opens_nothing_whatever_its_row_says(
        self, desk: Desk, log: AskedAudit, scope: ApprovalScope
    ) -> None:
        token, accept = await desk.engine.issue_token(PLAN, YES, scope), frozenset({scope})
        assert await desk.engine.verify(token, PLAN, accept=accept) == VALID
        assert await desk.engine.check(token, PLAN, accept=accept) == VALID
        await desk.engine.revoke(token.token_id)
        await desk.database.execute(
            "UPDATE approval_tokens SET voided_at = NULL, void_reason = NULL"
        )
        assert await desk.engine.check(token, PLAN, accept=accept) == TAKEN_BACK

    async def test_what_check_refuses_is_not_asked_about(self, desk: Desk, log: AskedAudit) -> None:
        token = await desk.engine.issue_token(PLAN, YES)
        assert await desk.engine.enter(token, PLAN) == (False, "The token has not been verified")
        assert log.asked == []
        assert log.events().count("approval_refused") == 1

    async def test_the_door_says_which_scopes_it_takes(self, desk: Desk, log: AskedAudit) -> None:
        token = await used(desk)
        none = frozenset[ApprovalScope]()
        valid, reason = await desk.engine.enter(token, PLAN, accept=none)
        assert not valid
        assert "full_plan" in reason

    async def test_a_log_that_does_not_know_the_token(self, desk: Desk, log: AskedAudit) -> None:
        token = await used(desk)
        log.entries.clear()
        assert await desk.engine.enter(token, PLAN) == NOT_KNOWN
        # An entry about the same plan under another token does not vouch for this one.
        log.entries.append((ISSUED, {"token_id": "tok_x", "plan_hash": token.plan_hash}))
        assert await desk.engine.enter(token, PLAN) == NOT_KNOWN
        log.entries.append(
            (USED, {"token_id": token.token_id, "content_hash": token.plan_hash}),
        )
        assert await desk.engine.enter(token, PLAN) == NOT_KNOWN

    async def test_a_log_that_cannot_be_proven_opens_nothing(
        self, desk: Desk, log: AskedAudit
    ) -> None:
        token = await used(desk)
        log.refuses = AuditError("Somebody has changed the log.")
        assert await desk.engine.enter(token, PLAN) == (False, "Somebody has changed the log.")
        event, data = log.entries[-1]
        assert event == "approval_refused"
        assert (data["door"], data["reason"]) == ("enter", "Somebody has changed the log.")
        assert (data["asked_for"], data["token_id"]) == (PLAN.id, token.token_id)

    @pytest.mark.parametrize("under", ["the same token", "another token"])
    async def test_what_was_done_is_not_done_again(
        self, desk: Desk, log: AskedAudit, under: str
    ) -> None:
        """Whichever approval it was done under."""
        token = await used(desk)
        by = token.token_id if under == "the same token" else "tok_x"
        log.entries.append((DONE, {"token_id": by, "content_hash": token.plan_hash}))
        assert await desk.engine.enter(token, PLAN) == CARRIED_OUT

    async def test_what_else_was_done_does_not_matter(self, desk: Desk, log: AskedAudit) -> None:
        token = await used(desk)
        # It only speaks of this plan, in another field.
        log.entries.append((DONE, {"content_hash": "other", "about": token.plan_hash}))
        assert await desk.engine.enter(token, PLAN) == VALID

    async def test_what_was_taken_back_is_not_done(self, desk: Desk, log: AskedAudit) -> None:
        token = await used(desk)
        about = {"content_hash": token.plan_hash}
        log.entries.append((WITHDRAWN, {"token_id": "tok_x", **about}))
        assert await desk.engine.enter(token, PLAN) == VALID
        log.entries.append((WITHDRAWN, {"token_id": token.token_id, **about}))
        assert await desk.engine.enter(token, PLAN) == TAKEN_BACK

    async def test_it_is_begun_as_often_as_was_approved(self, desk: Desk, log: AskedAudit) -> None:
        token = await used(desk)
        begun = (BEGUN, done_entry(token.token_id, token.plan_hash))
        log.entries.append(begun)
        assert await desk.engine.enter(token, PLAN, most=1) == TRIED
        assert await desk.engine.enter(token, PLAN, most=2) == VALID
        log.entries.append(begun)
        assert await desk.engine.enter(token, PLAN, most=2) == TRIED
        assert await desk.engine.enter(token, PLAN) == VALID, "if nobody counts"


class TestCarryingOut:
    async def test_it_closes_the_door_in_the_rows_and_in_the_log(
        self, desk: Desk, log: AskedAudit
    ) -> None:
        token = await used(desk)
        desk.database.durabilities, log.checkpoints = [], 0
        await desk.engine.carried_out(token, PLAN)
        assert desk.database.durabilities == [Durability.TRUST]
        assert log.entries[-1] == (
            DONE,
            {"token_id": token.token_id, "content_hash": token.plan_hash},
        )
        assert log.checkpoints == 1
        assert await desk.engine.check(token, PLAN) == CARRIED_OUT
        rows = await desk.database.fetch_all("SELECT * FROM approval_completions")
        assert rows == [(token.token_id, token.plan_hash, format_timestamp(desk.clock.now()))]

    async def test_rows_that_were_put_back_open_nothing(self, desk: Desk, log: AskedAudit) -> None:
        token = await used(desk)
        await desk.engine.carried_out(token, PLAN)
        await desk.database.execute("DELETE FROM approval_completions")
        assert await desk.engine.check(token, PLAN) == VALID
        assert await desk.engine.enter(token, PLAN) == CARRIED_OUT


class TestTakingBack:
    async def test_it_is_in_the_log_and_vouched_for(self, desk: Desk, log: AskedAudit) -> None:
        token = await used(desk)
        desk.database.durabilities, log.checkpoints = [], 0
        await desk.engine.withdraw(token, PLAN)
        assert desk.database.durabilities == [Durability.TRUST]
        assert log.checkpoints == 1
        said = {"token_id": token.token_id, "content_hash": token.plan_hash}
        assert log.entries[-1] == (WITHDRAWN, said)
        assert desk.keys.withdrawn.ids() == frozenset()
        assert await desk.engine.enter(token, PLAN) == TAKEN_BACK

    async def test_of_a_standing_approval_the_vault_remembers_it(
        self, desk: Desk, log: AskedAudit
    ) -> None:
        token = await spawned(desk)
        await desk.engine.withdraw(token, GOAL)
        assert desk.keys.withdrawn.ids() == {token.token_id}
        log.entries.clear()  # however the log is put back
        assert await desk.engine.check_goal(token, GOAL) == TAKEN_BACK
        assert await desk.engine.check(token, TASK) == TAKEN_BACK
        assert await desk.engine.verify(token, GOAL, SECOND) == TAKEN_BACK

    async def test_one_task_of_a_goal(self, desk: Desk, log: AskedAudit) -> None:
        token = await spawned(desk)
        await desk.engine.withdraw(token, TASK)
        assert desk.keys.withdrawn.ids() == frozenset()
        assert await desk.engine.enter(token, TASK) == TAKEN_BACK
        assert await desk.engine.verify(token, GOAL, SECOND) == VALID
        assert await desk.engine.enter(token, SECOND) == VALID

    async def test_a_list_that_cannot_be_read_opens_nothing(
        self, desk: Desk, log: AskedAudit
    ) -> None:
        token = await spawned(desk)
        withdrawn = desk.keys.withdrawn
        withdrawn.vault.set(withdrawn.ref_id, b'{"format":"another"}')
        valid, reason = await desk.engine.check_goal(token, GOAL)
        assert not valid
        assert "cannot be read" in reason


class TestStandingUses:
    async def test_a_task_is_asked_about_since_its_seal(self, desk: Desk, log: AskedAudit) -> None:
        token = await spawned(desk)
        log.asked.clear()
        sealed = desk.clock.now()
        desk.clock.advance(minutes=5)
        assert await desk.engine.enter(token, TASK) == VALID
        assert log.asked == [(sealed, frozenset({USED, BEGUN, DONE, WITHDRAWN}), TASK_HASH)]
        log.entries = [each for each in log.entries if each[0] != USED]
        assert await desk.engine.enter(token, TASK) == NOT_KNOWN

    async def test_the_use_for_one_task_does_not_vouch_for_another(
        self, desk: Desk, log: AskedAudit
    ) -> None:
        token = await spawned(desk)
        log.entries = [
            (
                event,
                {**data, "content_hash": "other", "about": TASK_HASH} if event == USED else data,
            )
            for event, data in log.entries
        ]
        assert await desk.engine.enter(token, TASK) == NOT_KNOWN

    @pytest.mark.parametrize(
        "forged",
        [
            "DELETE FROM approval_use_seals",
            "UPDATE approval_use_seals SET used_at = '2020-01-01T00:00:00.000000Z'",
            "UPDATE approval_use_seals SET used_at = 'yesterday'",
            "UPDATE approval_use_seals SET signature = 'none'",
            "UPDATE approval_use_seals SET signature = '00'",
            "UPDATE approval_use_seals SET key_id = 'key_0'",
        ],
    )
    async def test_a_seal_that_is_not_the_owners(
        self, desk: Desk, log: AskedAudit, forged: str
    ) -> None:
        token = await spawned(desk)
        await desk.database.execute(forged)
        log.asked.clear()
        assert await desk.engine.enter(token, TASK) == NOT_FOR_THIS
        assert log.asked == []

    async def test_the_seal_of_one_task_does_not_serve_another(
        self, desk: Desk, log: AskedAudit
    ) -> None:
        token = await spawned(desk)
        for row in (
            "UPDATE approval_executions SET content_hash = ?",
            "UPDATE approval_use_seals SET content_hash = ?",
        ):
            await desk.database.execute(row, (digest(SECOND.plan_bytes()),))
        assert await desk.engine.check(token, SECOND) == VALID
        assert await desk.engine.enter(token, SECOND) == NOT_FOR_THIS

    async def test_the_seal_under_one_approval_does_not_serve_another(
        self, desk: Desk, log: AskedAudit
    ) -> None:
        await spawned(desk)
        token = await standing(desk)
        await desk.database.execute(
            "UPDATE approval_tokens SET executions_used = 1 WHERE token_id = ?", (token.token_id,)
        )
        for row in (
            "UPDATE approval_executions SET token_id = ?",
            "UPDATE approval_use_seals SET token_id = ?",
        ):
            await desk.database.execute(row, (token.token_id,))
        assert await desk.engine.check(token, TASK) == VALID
        assert await desk.engine.enter(token, TASK) == NOT_FOR_THIS

    async def test_the_bytes_of_a_seal(self, desk: Desk, log: AskedAudit) -> None:
        """Seals that lie in a database have to be read by every later version."""
        token = await spawned(desk)
        ((name, content, used_at, key_id, signature),) = await desk.database.fetch_all(
            "SELECT token_id, content_hash, used_at, key_id, signature FROM approval_use_seals"
        )
        assert (name, content) == (token.token_id, TASK_HASH)
        payload = canonical_bytes(
            {
                "type": "approval_use",
                "token_id": token.token_id,
                "content_hash": TASK_HASH,
                "used_at": format_timestamp(desk.clock.now()),
            }
        )
        made = base64.b64decode(signature)
        assert desk.keys.public.verify(key_id, payload, made, at=desk.clock.now())
        assert used_at == format_timestamp(desk.clock.now())

    async def test_a_seal_that_an_older_version_has_written_is_read(
        self, desk: Desk, log: AskedAudit
    ) -> None:
        token = await spawned(desk)
        ((signature,),) = await desk.database.fetch_all("SELECT signature FROM approval_use_seals")
        older = base64.b64decode(signature).hex()
        await desk.database.execute("UPDATE approval_use_seals SET signature = ?", (older,))
        assert await desk.engine.enter(token, TASK) == VALID

    async def test_a_seal_outlives_its_key(self, desk: Desk, log: AskedAudit) -> None:
        token = await spawned(desk)
        desk.clock.advance(hours=1)
        desk.keys.rotate()
        assert await desk.engine.enter(token, TASK) == VALID

    async def test_a_task_that_is_authorised_again_keeps_its_seal(
        self, desk: Desk, log: AskedAudit
    ) -> None:
        token = await spawned(desk)
        first = await desk.database.fetch_all("SELECT * FROM approval_use_seals")
        desk.clock.advance(minutes=5)
        assert await desk.engine.verify(token, GOAL, TASK) == VALID
        assert await desk.database.fetch_all("SELECT * FROM approval_use_seals") == first

    async def test_counters_that_were_put_back_give_no_use(
        self, desk: Desk, log: AskedAudit
    ) -> None:
        token = await standing(desk, uses=2)
        assert await desk.engine.verify(token, GOAL, TASK) == VALID
        log.asked.clear()
        assert await desk.engine.verify(token, GOAL, SECOND) == VALID
        asked = frozenset({ISSUED, USED, DONE, WITHDRAWN})
        assert log.asked == [(token.issued_at, asked, token.token_id)]
        await desk.database.execute("UPDATE approval_tokens SET executions_used = 0")
        await desk.database.execute("DELETE FROM approval_executions")
        assert await desk.engine.verify(token, GOAL, SECOND) == USED_UP

    @pytest.mark.parametrize(("done", "left"), [(("a",), True), (("a", "a"), True), ("ab", False)])
    async def test_what_was_done_counts_if_the_uses_were_taken_out(
        self, desk: Desk, log: AskedAudit, done: tuple[str, ...], *, left: bool
    ) -> None:
        token = await standing(desk, uses=2)
        log.entries += [(DONE, done_entry(token.token_id, each)) for each in done]
        assert await desk.engine.verify(token, GOAL, TASK) == (VALID if left else USED_UP)

    async def test_a_standing_approval_that_the_log_does_not_know(
        self, desk: Desk, log: AskedAudit
    ) -> None:
        token = await standing(desk)
        log.entries.clear()
        assert await desk.engine.verify(token, GOAL, TASK) == NOT_KNOWN
        assert await desk.database.fetch_all("SELECT * FROM approval_use_seals") == []

    async def test_a_use_that_is_refused_leaves_no_seal(self, desk: Desk, log: AskedAudit) -> None:
        token = await standing(desk, uses=1)
        await desk.database.execute("UPDATE approval_tokens SET executions_used = 1")
        assert await desk.engine.verify(token, GOAL, TASK) == USED_UP
        assert await desk.database.fetch_all("SELECT * FROM approval_use_seals") == []


class TestWhileADecisionIsFollowed:
    async def test_an_old_decision_is_made_again(self, desk: Desk, log: AskedAudit) -> None:
        decided = desk.clock.now()
        desk.clock.advance(seconds=desk.policy.default_ttl.total_seconds() - 1)
        assert desk.engine.is_current(decided)
        desk.clock.advance(seconds=1)
        assert not desk.engine.is_current(decided)

    async def test_a_decision_of_the_future_counts_after_a_small_wrong_of_the_clock(
        self, desk: Desk, log: AskedAudit
    ) -> None:
        now = desk.clock.now()
        assert desk.engine.is_current(now + timedelta(minutes=2))
        assert not desk.engine.is_current(now + timedelta(minutes=2, seconds=1))

    async def test_what_is_prepared_is_what_is_signed(self, desk: Desk, log: AskedAudit) -> None:
        made = await desk.engine.prepare(GOAL, YES, ApprovalScope.STANDING, ttl=timedelta(hours=7))
        token = made.token
        assert (token.scope, token.work_item_id) == (ApprovalScope.STANDING, GOAL.id)
        assert token.expires_at - token.issued_at == timedelta(hours=7)
        assert await desk.engine.check_goal(token, GOAL) == (False, "The token was not issued here")

    async def test_nothing_is_prepared_for_a_no(self, desk: Desk, log: AskedAudit) -> None:
        no = ApprovalDecision(verdict=ApprovalVerdict.DECLINED)
        with pytest.raises(DecisionRefused, match="declined"):
            await desk.engine.prepare(PLAN, no, ApprovalScope.FULL_PLAN)

    async def test_whether_anything_was_approved(self, desk: Desk, log: AskedAudit) -> None:
        assert not await desk.engine.tokens.any_for(PLAN.id)
        await desk.engine.issue_token(PLAN, YES)
        assert await desk.engine.tokens.any_for(PLAN.id)
        assert not await desk.engine.tokens.any_for(OTHER.id)
