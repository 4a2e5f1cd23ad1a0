"""What the engine allows, and every order in which it must not."""

import asyncio
from datetime import timedelta

import pytest

from silas.approval import (
    ApprovalDecision,
    ApprovalPolicy,
    ApprovalScope,
    ApprovalStrength,
    ApprovalToken,
    ApprovalVerdict,
    BatchPayload,
    DecisionRefused,
    KeyManager,
    TokenUnknown,
)
from silas.testing import FakePlan, MemoryVault
from tests.approval.desk import YES, Desk, open_desk

PLAN = FakePlan()
GOAL = FakePlan(id="goal_1", content={"watch": "disk"}, spawn_policy={"verify": ["df"]})
TASK = FakePlan(id="task_1", parent="goal_1", content={"fix": 1}, spawn_policy={"verify": ["df"]})

SUMMARY = {"token_id", "work_item_id", "plan_hash", "scope", "verdict"}
USED_UP = "The token has been used up"
NOT_VERIFIED = "The token has not been verified"
SOMETHING_ELSE = "The token was verified for something else"
EXPIRED = "The token has expired"
FUTURE = "The token was issued in the future: check this machine's clock"
OTHER_PLAN = "The plan is not the one that was approved"
OTHER_ITEM = "The token is for another work item"
OTHER_ID = "The token's id is not the one that was signed"
FOREIGN = "The signature is not the owner's"
RETIRED = "The token was signed with a key that had been retired"
NOT_ISSUED = "The token was not issued here"
VOID = "The token is void: restored"
NEEDS_TASK = "Standing verification requires spawned_task"
NO_TASK = "Only a standing token authorises a spawned task"
NOT_SPAWNED = "The task was not spawned by the approved goal"
NOT_BY_POLICY = "The task does not follow the approved spawn policy"
OTHER_POLICY = "The goal's spawn policy is not the one that was approved"
SKILL_INSTALL = "The token is for skill_install, which does not allow this"


async def standing(desk: Desk, **options: int) -> ApprovalToken:
    return await desk.engine.issue_token(GOAL, YES, ApprovalScope.STANDING, **options)


async def test_issue_verify_check_is_the_way_through(desk: Desk) -> None:
    token = await desk.engine.issue_token(PLAN, YES)
    assert await desk.engine.verify(token, PLAN) == (True, "Valid")
    assert await desk.engine.check(token, PLAN) == (True, "Valid")
    assert await desk.engine.check(token, PLAN) == (True, "Valid"), "check consumes nothing"
    assert desk.audit.events() == ["approval_issued", "approval_used"]


async def test_the_token_carries_what_the_spec_lists(desk: Desk) -> None:
    token = await desk.engine.issue_token(PLAN, YES)
    assert token.executions_used == 0
    assert token.max_executions == 1
    assert token.expires_at - token.issued_at == timedelta(minutes=30)
    assert token.nonce.startswith(token.token_id)
    assert (await desk.engine.tokens.load(token.token_id)).token == token


async def test_loading_shows_the_uses(desk: Desk) -> None:
    token = await desk.engine.issue_token(PLAN, YES)
    await desk.engine.verify(token, PLAN)
    loaded = (await desk.engine.tokens.load(token.token_id)).token
    assert loaded.executions_used == 1
    assert len(loaded.execution_nonces) == 1
    assert await desk.nonces.is_used(
        "exec", f"{token.token_id}:{token.plan_hash}:{loaded.execution_nonces[0]}"
    )


async def test_an_unknown_token_cannot_be_loaded(desk: Desk) -> None:
    with pytest.raises(TokenUnknown, match="tok_nothing"):
        await desk.engine.tokens.load("tok_nothing")


async def test_ids_are_listed_newest_first(desk: Desk) -> None:
    first = await desk.engine.issue_token(PLAN, YES)
    second = await desk.engine.issue_token(PLAN, YES)
    assert await desk.engine.tokens.list_ids() == [second.token_id, first.token_id]
    assert await desk.engine.tokens.list_ids(limit=1) == [second.token_id]


class TestIllegalOrders:
    """Each of these must be refused, with its own reason, and the refusal recorded."""

    async def refused(self, desk: Desk, answer: tuple[bool, str], reason: str) -> None:
        assert answer == (False, reason)
        event, data = desk.audit.entries[-1]
        assert event == "approval_refused"
        assert data["reason"] == reason
        assert data.keys() == {*SUMMARY, "door", "asked_for", "reason"}

    async def test_verify_twice(self, desk: Desk) -> None:
        token = await desk.engine.issue_token(PLAN, YES)
        await desk.engine.verify(token, PLAN)
        await self.refused(desk, await desk.engine.verify(token, PLAN), USED_UP)

    async def test_verify_twice_with_forged_counters(self, desk: Desk) -> None:
        token = await desk.engine.issue_token(PLAN, YES)
        await desk.engine.verify(token, PLAN)
        fresh = token.model_copy(update={"executions_used": 0, "execution_nonces": []})
        await self.refused(desk, await desk.engine.verify(fresh, PLAN), USED_UP)

    async def test_check_before_verify(self, desk: Desk) -> None:
        token = await desk.engine.issue_token(PLAN, YES)
        await self.refused(desk, await desk.engine.check(token, PLAN), NOT_VERIFIED)

    async def test_check_before_verify_with_forged_counters(self, desk: Desk) -> None:
        token = await desk.engine.issue_token(PLAN, YES)
        forged = token.model_copy(update={"executions_used": 1, "execution_nonces": ["x"]})
        await self.refused(desk, await desk.engine.check(forged, PLAN), NOT_VERIFIED)

    async def test_verify_at_and_after_expiry(self, desk: Desk) -> None:
        token = await desk.engine.issue_token(PLAN, YES)
        desk.clock.set(token.expires_at - timedelta(microseconds=1))
        assert (await desk.engine.verify(token, PLAN))[0]
        desk.clock.set(token.expires_at)
        await self.refused(desk, await desk.engine.check(token, PLAN), EXPIRED)
        other = await desk.engine.issue_token(PLAN, YES)
        desk.clock.set(other.expires_at)
        await self.refused(desk, await desk.engine.verify(other, PLAN), EXPIRED)

    async def test_a_clock_set_back_does_not_stretch_a_token(self, desk: Desk) -> None:
        token = await desk.engine.issue_token(PLAN, YES)
        desk.clock.set(token.issued_at - timedelta(minutes=2))
        assert (await desk.engine.verify(token, PLAN))[0], "small corrections are tolerated"
        desk.clock.set(token.issued_at - timedelta(minutes=2, microseconds=1))
        await self.refused(desk, await desk.engine.check(token, PLAN), FUTURE)

    async def test_another_plan(self, desk: Desk) -> None:
        token = await desk.engine.issue_token(PLAN, YES)
        changed = FakePlan(content={"run": "echo hello; rm -rf ~"})
        await self.refused(desk, await desk.engine.verify(token, changed), OTHER_PLAN)
        await desk.engine.verify(token, PLAN)
        await self.refused(desk, await desk.engine.check(token, changed), OTHER_PLAN)

    async def test_another_work_item(self, desk: Desk) -> None:
        token = await desk.engine.issue_token(PLAN, YES)
        other = FakePlan(id="wi_2")
        await self.refused(desk, await desk.engine.verify(token, other), OTHER_ITEM)

    async def test_another_scope(self, desk: Desk) -> None:
        token = await desk.engine.issue_token(PLAN, YES)
        changed = token.model_copy(update={"scope": ApprovalScope.SELF_UPDATE})
        await self.refused(desk, await desk.engine.verify(changed, PLAN), FOREIGN)

    async def test_a_scope_that_does_not_allow_execution(self, desk: Desk) -> None:
        token = await desk.engine.issue_token(PLAN, YES, ApprovalScope.SKILL_INSTALL)
        await self.refused(desk, await desk.engine.verify(token, PLAN), SKILL_INSTALL)
        accept = frozenset({ApprovalScope.SKILL_INSTALL})
        assert (await desk.engine.verify(token, PLAN, accept=accept))[0]
        assert (await desk.engine.check(token, PLAN, accept=accept))[0]
        await self.refused(desk, await desk.engine.check(token, PLAN), SKILL_INSTALL)

    async def test_a_changed_condition(self, desk: Desk) -> None:
        desk.policy = ApprovalPolicy(condition_checks={"limit": lambda value, _: value == 3})
        decision = ApprovalDecision(verdict=ApprovalVerdict.CONDITIONAL, conditions={"limit": 3})
        token = await desk.engine.issue_token(PLAN, decision)
        changed = token.model_copy(update={"conditions": {"limit": 4}})
        await self.refused(desk, await desk.engine.verify(changed, PLAN), FOREIGN)
        token.conditions["limit"] = 4
        await self.refused(desk, await desk.engine.verify(token, PLAN), FOREIGN)
        token.conditions["limit"] = float("nan")
        valid, reason = await desk.engine.verify(token, PLAN)
        assert not valid
        assert reason.startswith("The token has no canonical form: ")

    async def test_a_condition_that_does_not_hold_or_is_unknown(self, desk: Desk) -> None:
        desk.policy = ApprovalPolicy(condition_checks={"limit": lambda value, _: value > 3})
        decision = ApprovalDecision(verdict=ApprovalVerdict.CONDITIONAL, conditions={"limit": 3})
        token = await desk.engine.issue_token(PLAN, decision)
        await self.refused(
            desk, await desk.engine.verify(token, PLAN), "The condition 'limit' does not hold"
        )
        desk.policy = ApprovalPolicy()
        await self.refused(
            desk,
            await desk.engine.verify(token, PLAN),
            "Nothing here can enforce the condition 'limit'",
        )
        await self.refused(
            desk,
            await desk.engine.check(token, PLAN),
            "Nothing here can enforce the condition 'limit'",
        )

    async def test_a_foreign_key(self, desk: Desk) -> None:
        token = await desk.engine.issue_token(PLAN, YES)
        stranger = KeyManager(MemoryVault(), clock=desk.clock)
        stranger.generate_keypair()
        signature = stranger.sign(token.canonical_bytes())[1]
        forged = token.model_copy(update={"signature": signature})
        await self.refused(desk, await desk.engine.verify(forged, PLAN), FOREIGN)

    async def test_a_verdict_that_was_not_yes(self, desk: Desk) -> None:
        token = await desk.engine.issue_token(PLAN, YES)
        for verdict in (ApprovalVerdict.DECLINED, ApprovalVerdict.EDIT_REQUESTED):
            declined = token.model_copy(update={"verdict": verdict})
            signature = desk.keys.sign(declined.canonical_bytes())[1]
            signed = declined.model_copy(update={"signature": signature})
            await self.refused(
                desk,
                await desk.engine.verify(signed, PLAN),
                f"The owner's verdict was {verdict.value}",
            )

    async def test_a_copy_under_a_new_id(self, desk: Desk) -> None:
        token = await desk.engine.issue_token(PLAN, YES)
        await desk.engine.verify(token, PLAN)
        copied = token.model_copy(update={"token_id": "tok_copy"})
        await self.refused(desk, await desk.engine.verify(copied, PLAN), OTHER_ID)
        await self.refused(desk, await desk.engine.check(copied, PLAN), OTHER_ID)

    async def test_a_token_signed_by_the_owner_but_never_issued(self, desk: Desk) -> None:
        token = await desk.engine.issue_token(PLAN, YES)
        other = token.model_copy(update={"token_id": "tok_x", "nonce": "tok_x.00"})
        signed = other.model_copy(update={"signature": desk.keys.sign(other.canonical_bytes())[1]})
        await self.refused(desk, await desk.engine.verify(signed, PLAN), NOT_ISSUED)
        await self.refused(desk, await desk.engine.check(signed, PLAN), NOT_ISSUED)

    async def test_a_second_signature_on_an_issued_id(self, desk: Desk) -> None:
        token = await desk.engine.issue_token(PLAN, YES)
        longer = token.model_copy(update={"max_executions": 9})
        signed = longer.model_copy(
            update={"signature": desk.keys.sign(longer.canonical_bytes())[1]}
        )
        await self.refused(desk, await desk.engine.verify(signed, PLAN), NOT_ISSUED)
        await desk.engine.verify(token, PLAN)
        await self.refused(desk, await desk.engine.check(signed, PLAN), NOT_ISSUED)

    async def test_a_void_token(self, desk: Desk) -> None:
        token = await desk.engine.issue_token(PLAN, YES)
        void = "UPDATE approval_tokens SET voided_at = 'now', void_reason = 'restored'"
        await desk.database.execute(void)
        await self.refused(desk, await desk.engine.verify(token, PLAN), VOID)
        await self.refused(desk, await desk.engine.check(token, PLAN), VOID)

    async def test_a_standing_token_without_spawned_task(self, desk: Desk) -> None:
        token = await standing(desk)
        answer = await desk.engine.verify(token, GOAL)
        await self.refused(desk, answer, NEEDS_TASK)

    async def test_a_single_use_token_with_spawned_task(self, desk: Desk) -> None:
        token = await desk.engine.issue_token(GOAL, YES)
        await self.refused(desk, await desk.engine.verify(token, GOAL, TASK), NO_TASK)

    async def test_a_spawned_task_with_another_parent(self, desk: Desk) -> None:
        token = await standing(desk)
        stray = FakePlan(id="task_1", parent="goal_2", spawn_policy=GOAL.spawn_policy)
        await self.refused(desk, await desk.engine.verify(token, GOAL, stray), NOT_SPAWNED)
        await self.refused(desk, await desk.engine.check(token, stray), NOT_SPAWNED)

    async def test_a_spawned_task_with_another_policy(self, desk: Desk) -> None:
        token = await standing(desk)
        for policy in (None, {"verify": ["true"]}):
            stray = FakePlan(id="task_1", parent="goal_1", spawn_policy=policy)
            await self.refused(desk, await desk.engine.verify(token, GOAL, stray), NOT_BY_POLICY)
            await self.refused(desk, await desk.engine.check(token, stray), NOT_BY_POLICY)

    async def test_a_goal_whose_policy_changed(self, desk: Desk) -> None:
        token = await standing(desk)
        changed = FakePlan(id="goal_1", content=GOAL.content, spawn_policy={"verify": ["true"]})
        await self.refused(desk, await desk.engine.verify(token, changed, TASK), OTHER_POLICY)

    async def test_a_goal_that_changed(self, desk: Desk) -> None:
        token = await standing(desk)
        changed = FakePlan(id="goal_1", content={"watch": "all"}, spawn_policy=GOAL.spawn_policy)
        await self.refused(desk, await desk.engine.verify(token, changed, TASK), OTHER_PLAN)

    async def test_a_spawned_task_that_was_never_verified(self, desk: Desk) -> None:
        token = await standing(desk)
        assert (await desk.engine.verify(token, GOAL, TASK))[0]
        other = FakePlan(id="task_2", parent="goal_1", spawn_policy=GOAL.spawn_policy)
        await self.refused(desk, await desk.engine.check(token, other), SOMETHING_ELSE)

    async def test_the_goal_itself_under_a_standing_token(self, desk: Desk) -> None:
        token = await standing(desk)
        await desk.engine.verify(token, GOAL, TASK)
        await self.refused(desk, await desk.engine.check(token, GOAL), NOT_SPAWNED)


async def test_a_standing_token_serves_until_it_is_used_up(desk: Desk) -> None:
    token = await standing(desk, max_executions=2)
    assert await desk.engine.verify(token, GOAL, TASK) == (True, "Valid")
    assert await desk.engine.check(token, TASK) == (True, "Valid")
    second = FakePlan(id="task_2", parent="goal_1", spawn_policy=GOAL.spawn_policy)
    assert await desk.engine.verify(token, GOAL, second) == (True, "Valid")
    assert await desk.engine.check(token, second) == (True, "Valid")
    assert await desk.engine.verify(token, GOAL, second) == (False, "The token has been used up")


class TestIssuing:
    async def test_only_a_yes_becomes_a_token(self, desk: Desk) -> None:
        for verdict in (ApprovalVerdict.DECLINED, ApprovalVerdict.EDIT_REQUESTED):
            with pytest.raises(DecisionRefused, match=verdict.value):
                await desk.engine.issue_token(PLAN, ApprovalDecision(verdict=verdict))
        assert desk.audit.events() == []

    async def test_a_weak_decision_is_not_made_stronger(self, desk: Desk) -> None:
        strong = {ApprovalScope.SELF_UPDATE: ApprovalStrength.BIOMETRIC}
        desk.policy = ApprovalPolicy(scope_min_strength=strong)
        with pytest.raises(DecisionRefused, match="needs biometric"):
            await desk.engine.issue_token(PLAN, YES, ApprovalScope.SELF_UPDATE)
        for strength in (ApprovalStrength.BIOMETRIC, ApprovalStrength.BIOMETRIC_CONFIRM):
            decision = YES.model_copy(update={"approval_strength": strength})
            token = await desk.engine.issue_token(PLAN, decision, ApprovalScope.SELF_UPDATE)
            assert token.approval_strength is strength

    async def test_a_condition_that_nothing_enforces(self, desk: Desk) -> None:
        decision = YES.model_copy(update={"conditions": {"only_on_sundays": True}})
        with pytest.raises(DecisionRefused, match="only_on_sundays"):
            await desk.engine.issue_token(PLAN, decision)

    async def test_a_standing_approval_binds_its_policy(self, desk: Desk) -> None:
        token = await standing(desk)
        assert set(token.conditions) == {"spawn_policy_hash"}
        assert token.max_executions == 100
        with pytest.raises(DecisionRefused, match="spawn policy"):
            await desk.engine.issue_token(PLAN, YES, ApprovalScope.STANDING)

    @pytest.mark.parametrize("uses", [0, -1, 2])
    async def test_single_use_means_one(self, desk: Desk, uses: int) -> None:
        with pytest.raises(DecisionRefused, match="1 to 1 times"):
            await desk.engine.issue_token(PLAN, YES, max_executions=uses)

    @pytest.mark.parametrize("uses", [0, 101])
    async def test_standing_has_a_limit_too(self, desk: Desk, uses: int) -> None:
        with pytest.raises(DecisionRefused, match="1 to 100 times"):
            await standing(desk, max_executions=uses)
        assert (await standing(desk, max_executions=100)).max_executions == 100

    async def test_what_cannot_be_shown_whole_cannot_be_approved(self, desk: Desk) -> None:
        empty = FakePlan(content={"text": ""})
        room = 1_000_000 - len(empty.plan_bytes())
        fits = FakePlan(content={"text": "x" * room})
        assert len(fits.plan_bytes()) == 1_000_000
        await desk.engine.issue_token(fits, YES)
        with pytest.raises(DecisionRefused, match="too large"):
            await desk.engine.issue_token(FakePlan(content={"text": "x" * (room + 1)}), YES)

    @pytest.mark.parametrize(
        "payload", [b'{"b":1,"a":2}', b'{"a": 1}', b'{"a":1,"a":2}', b"\xff", b"not json", b""]
    )
    async def test_only_canonical_bytes_are_signed(self, desk: Desk, payload: bytes) -> None:
        class Odd(FakePlan):
            def plan_bytes(self) -> bytes:
                return payload

        with pytest.raises(DecisionRefused, match="canonical"):
            await desk.engine.issue_token(Odd(), YES)

    async def test_time_to_live_can_be_chosen(self, desk: Desk) -> None:
        token = await desk.engine.issue_token(PLAN, YES, ttl=timedelta(days=3))
        assert token.expires_at - token.issued_at == timedelta(days=3)


def batch_of(action: str, *items: str) -> BatchPayload:
    blank = ("",) * len(items)
    return BatchPayload(
        "batch_1", "goal_1", action, "conn_1", "mail_archive", {}, "mails", items, blank, blank
    )


async def test_a_batch_is_bound_to_its_items_in_order(desk: Desk) -> None:
    batch = batch_of("archive", "m1", "m2")
    token = await desk.engine.issue_token(batch, YES)
    for items in (("m2", "m1"), ("m1",), ("m1", "m2", "m3"), ("m1", "m4")):
        assert (await desk.engine.verify(token, batch_of("archive", *items)))[0] is False
    assert (await desk.engine.verify(token, batch_of("delete", "m1", "m2")))[0] is False
    assert (await desk.engine.verify(token, batch))[0]


async def test_of_a_hundred_concurrent_verifications_one_succeeds(desk: Desk) -> None:
    token = await desk.engine.issue_token(PLAN, YES)
    answers = await asyncio.gather(*(desk.engine.verify(token, PLAN) for _ in range(100)))
    assert sum(valid for valid, _ in answers) == 1
    assert {reason for valid, reason in answers if not valid} == {"The token has been used up"}


async def test_a_standing_token_is_never_used_more_often_than_allowed(desk: Desk) -> None:
    token = await standing(desk, max_executions=7)
    answers = await asyncio.gather(*(desk.engine.verify(token, GOAL, TASK) for _ in range(50)))
    assert sum(valid for valid, _ in answers) == 7


async def test_old_tokens_outlive_a_rotation(desk: Desk) -> None:
    before = await desk.engine.issue_token(PLAN, YES)
    desk.clock.advance(seconds=1)
    desk.keys.rotate()
    after = await desk.engine.issue_token(PLAN, YES)
    for token in (before, after):
        assert (await desk.engine.verify(token, PLAN))[0]
        assert (await desk.engine.check(token, PLAN))[0]


async def test_waiting_in_line_past_the_expiry_is_too_late(desk: Desk) -> None:
    token = await desk.engine.issue_token(PLAN, YES)
    # The writer is busy with a transaction during which the clock passes the token's expiry.
    first = desk.database.transaction(lambda _: desk.clock.set(token.expires_at))
    _, answer = await asyncio.gather(first, desk.engine.verify(token, PLAN))
    assert answer == (False, "The token has expired")
    assert (await desk.engine.tokens.load(token.token_id)).token.executions_used == 0


async def test_state_survives_a_restart(tmp_path) -> None:
    vault = MemoryVault()
    first = await open_desk(tmp_path / "silas.db", vault=vault)
    token = await first.engine.issue_token(PLAN, YES)
    await first.engine.verify(token, PLAN)
    await first.database.close()
    second = await open_desk(tmp_path / "silas.db", vault=vault)
    second.audit.entries += first.audit.entries
    assert (await second.engine.check(token, PLAN))[0]
    assert await second.engine.verify(token, PLAN) == (False, "The token has been used up")
    await second.database.close()
