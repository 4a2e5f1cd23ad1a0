"""What the doors leave behind: durable writes, complete audit entries, the right questions."""

from datetime import timedelta

import pytest

from silas.approval import (
    ApprovalDecision,
    ApprovalPolicy,
    ApprovalScope,
    ApprovalToken,
    ApprovalVerdict,
    ChannelMessage,
    MessageVerifier,
    NonceUsed,
    SignedMessage,
)
from silas.approval.engine import ApprovalEngine
from silas.storage import Durability
from silas.testing import FakePlan
from tests.approval.desk import YES, Desk

PLAN = FakePlan()
POLICY = {"verify": ["df"]}
GOAL = FakePlan(id="goal_1", content={"watch": "disk"}, spawn_policy=POLICY)
TASK = FakePlan(id="task_1", parent="goal_1", spawn_policy=POLICY)
CONDITIONAL = ApprovalDecision(verdict=ApprovalVerdict.CONDITIONAL, conditions={"only": "wi_1"})


class TestDurability:
    """Whatever a right depends on is on the disk before anybody is told."""

    async def during(self, desk: Desk, work) -> set[Durability]:
        desk.database.durabilities = []
        await work
        return set(desk.database.durabilities)

    async def test_every_write_of_an_approval_is_synced(self, desk: Desk) -> None:
        trust = {Durability.TRUST}
        assert await self.during(desk, desk.engine.issue_token(PLAN, YES)) == trust
        token = await desk.engine.issue_token(PLAN, YES)
        assert await self.during(desk, desk.engine.verify(token, PLAN)) == trust
        assert await self.during(desk, desk.engine.verify(token, PLAN)) == trust, "the refusal too"
        assert await self.during(desk, desk.engine.check(token, PLAN)) == set()
        assert await self.during(desk, desk.nonces.record("msg", "n")) == trust

    async def test_every_decision_about_a_message_is_synced(self, desk: Desk) -> None:
        verifier = MessageVerifier(
            desk.database, nonces=desk.nonces, audit=desk.audit, clock=desk.clock
        )
        message = signed(desk, nonce="n")
        for _ in ("accepted", "replayed"):
            assert await self.during(desk, verifier.classify(message, desk.keys.public)) == {
                Durability.TRUST
            }


class TestAuditEntries:
    async def test_issued(self, desk: Desk) -> None:
        token = await desk.engine.issue_token(PLAN, YES)
        assert desk.audit.entries == [
            (
                "approval_issued",
                {
                    **summary(token),
                    "key_id": desk.keys.public.keys[0].key_id,
                    "expires_at": token.expires_at,
                },
            )
        ]

    async def test_used(self, desk: Desk) -> None:
        token = await desk.engine.issue_token(GOAL, YES, ApprovalScope.STANDING)
        await desk.engine.verify(token, GOAL, TASK)
        event, data = desk.audit.entries[-1]
        assert event == "approval_used"
        assert data.keys() == {*summary(token), "content_hash"}
        assert data["content_hash"] != token.plan_hash

    async def test_refused_at_each_door(self, desk: Desk) -> None:
        token = await desk.engine.issue_token(PLAN, YES)
        doors = {
            "check": desk.engine.check(token, PLAN),
            "verify": desk.engine.verify(token, GOAL),
            "check_goal": desk.engine.check_goal(token, GOAL),
        }
        for door, answer in doors.items():
            assert (await answer)[0] is False
            data = desk.audit.entries[-1][1]
            assert data["door"] == door
            assert data["asked_for"] == (PLAN.id if door == "check" else GOAL.id)

    async def test_a_downgraded_message(self, desk: Desk) -> None:
        verifier = MessageVerifier(
            desk.database, nonces=desk.nonces, audit=desk.audit, clock=desk.clock
        )
        message = signed(desk, nonce="n")
        changed = message.model_copy(update={"signature": b"x" * 64})
        await verifier.classify(changed, desk.keys.public)
        assert desk.audit.entries == [
            (
                "message_downgraded",
                {
                    "reason": "the signature is not the owner's",
                    "channel": "web",
                    "sender_id": "someone",
                    "sent_at": message.message.timestamp,
                },
            )
        ]


@pytest.mark.parametrize(
    ("nonce", "text", "reason"),
    [
        ("", "x", "the nonce is empty or too long"),
        ("n", "\ud800", "the message has no canonical form"),
    ],
)
async def test_why_a_message_is_not_the_owners(
    desk: Desk, nonce: str, text: str, reason: str
) -> None:
    verifier = MessageVerifier(
        desk.database, nonces=desk.nonces, audit=desk.audit, clock=desk.clock
    )
    good = signed(desk, nonce="n")
    odd = good.model_copy(
        update={"nonce": nonce, "message": good.message.model_copy(update={"text": text})}
    )
    await verifier.classify(odd, desk.keys.public)
    assert desk.audit.entries[-1][1]["reason"] == reason


async def test_a_nonce_of_one_character_is_enough(desk: Desk) -> None:
    verifier = MessageVerifier(
        desk.database, nonces=desk.nonces, audit=desk.audit, clock=desk.clock
    )
    assert (await verifier.classify(signed(desk, nonce="1"), desk.keys.public)).taint == "owner"


class TestConditions:
    async def test_they_are_asked_about_what_will_be_executed(self, desk: Desk) -> None:
        desk.policy = ApprovalPolicy(
            condition_checks={"only": lambda value, approvable: approvable.id == value}
        )
        token = await desk.engine.issue_token(PLAN, CONDITIONAL)
        assert (await desk.engine.verify(token, PLAN))[0]
        assert (await desk.engine.check(token, PLAN))[0]

    async def test_under_a_standing_approval_about_the_task(self, desk: Desk) -> None:
        asked = []

        def remember(value: str, approvable: FakePlan) -> bool:
            asked.append(approvable.id)
            return True

        desk.policy = ApprovalPolicy(condition_checks={"only": remember})
        token = await desk.engine.issue_token(GOAL, CONDITIONAL, ApprovalScope.STANDING)
        assert (await desk.engine.verify(token, GOAL, TASK))[0]
        assert asked == [TASK.id]

    async def test_a_spawn_policy_on_a_single_use_token_is_unknown(self, desk: Desk) -> None:
        token = await desk.engine.issue_token(PLAN, YES)
        odd = resigned(desk, token, conditions={"spawn_policy_hash": "00"})
        assert await desk.engine.verify(odd, PLAN) == (
            False,
            "Nothing here can enforce the condition 'spawn_policy_hash'",
        )

    async def test_a_condition_after_the_spawn_policy_is_still_asked(self, desk: Desk) -> None:
        desk.policy = ApprovalPolicy(condition_checks={"zz": lambda *_: False})
        decision = YES.model_copy(update={"conditions": {"zz": 1}})
        token = await desk.engine.issue_token(GOAL, decision, ApprovalScope.STANDING)
        reordered = token.model_copy(update={"conditions": dict(sorted(token.conditions.items()))})
        assert next(iter(reordered.conditions)) == "spawn_policy_hash"
        assert await desk.engine.verify(reordered, GOAL, TASK) == (
            False,
            "The condition 'zz' does not hold",
        )


class TestGoals:
    """`check_goal` lets a goal's own checks run, and nothing else."""

    async def standing(self, desk: Desk) -> ApprovalToken:
        return await desk.engine.issue_token(GOAL, YES, ApprovalScope.STANDING)

    async def test_a_standing_approval_in_force(self, desk: Desk) -> None:
        token = await self.standing(desk)
        assert await desk.engine.check_goal(token, GOAL) == (True, "Valid")
        assert (await desk.engine.tokens.load(token.token_id)).token.executions_used == 0

    async def test_it_opens_no_door_for_tasks(self, desk: Desk) -> None:
        token = await self.standing(desk)
        await desk.engine.check_goal(token, GOAL)
        assert (await desk.engine.check(token, TASK))[0] is False

    @pytest.mark.parametrize(
        ("goal", "reason"),
        [
            (FakePlan(id="goal_2"), "The token is for another work item"),
            (
                FakePlan(id="goal_1", content={"watch": "all"}, spawn_policy=POLICY),
                "The plan is not the one that was approved",
            ),
            (
                FakePlan(id="goal_1", content={"watch": "disk"}, spawn_policy={"verify": []}),
                "The goal's spawn policy is not the one that was approved",
            ),
        ],
    )
    async def test_another_goal(self, desk: Desk, goal: FakePlan, reason: str) -> None:
        assert await desk.engine.check_goal(await self.standing(desk), goal) == (False, reason)

    async def test_another_scope(self, desk: Desk) -> None:
        token = await desk.engine.issue_token(GOAL, YES)
        await desk.engine.verify(token, GOAL)
        assert await desk.engine.check_goal(token, GOAL) == (
            False,
            "The token is for full_plan, which does not allow this",
        )

    async def test_expired_void_forged_unknown(self, desk: Desk) -> None:
        token = await self.standing(desk)
        forged = token.model_copy(update={"signature": b"x" * 64})
        assert await desk.engine.check_goal(forged, GOAL) == (
            False,
            "The signature is not the owner's",
        )
        longer = resigned(desk, token, max_executions=7)
        assert await desk.engine.check_goal(longer, GOAL) == (
            False,
            "The token was not issued here",
        )
        await desk.database.execute("UPDATE approval_tokens SET void_reason = 'restored'")
        assert await desk.engine.check_goal(token, GOAL) == (
            False,
            "The token is void: restored",
        )
        desk.clock.set(token.expires_at)
        assert await desk.engine.check_goal(token, GOAL) == (False, "The token has expired")

    async def test_a_condition(self, desk: Desk) -> None:
        desk.policy = ApprovalPolicy(condition_checks={"only": lambda _, goal: goal is None})
        token = await desk.engine.issue_token(GOAL, CONDITIONAL, ApprovalScope.STANDING)
        assert await desk.engine.check_goal(token, GOAL) == (
            False,
            "The condition 'only' does not hold",
        )


async def test_a_token_of_a_retired_key(desk: Desk) -> None:
    token = await desk.engine.issue_token(PLAN, YES)
    late = resigned(desk, token, issued_at=token.issued_at + timedelta(minutes=1))
    desk.keys.rotate()
    assert await desk.engine.verify(late, PLAN) == (
        False,
        "The token was signed with a key that had been retired",
    )


async def test_a_used_execution_nonce_is_refused(desk: Desk) -> None:
    """It is random, so this never happens; if it did, nothing would be executed."""

    class Replayed:
        def record_in(self, *_: object) -> None:
            raise NonceUsed

    engine = ApprovalEngine(
        desk.database,
        desk.keys,
        nonces=Replayed(),  # type: ignore[arg-type]
        audit=desk.audit,
        clock=desk.clock,
        ids=desk.ids,
        policy=desk.policy,
    )
    token = await engine.issue_token(PLAN, YES)
    assert await engine.verify(token, PLAN) == (False, "The execution nonce was used before")
    assert (await engine.tokens.load(token.token_id)).token.executions_used == 0


async def test_a_rotation_says_when(desk: Desk) -> None:
    rotation = desk.keys.rotate()
    assert rotation["at"] == "2026-01-01T12:00:00.000000Z"
    assert rotation.keys() == {
        "format",
        "at",
        "old_key_id",
        "new_key_id",
        "new_public_key",
        "endorsement",
    }


def summary(token: ApprovalToken) -> dict[str, str]:
    return {
        "token_id": token.token_id,
        "work_item_id": token.work_item_id,
        "plan_hash": token.plan_hash,
        "scope": token.scope.value,
        "verdict": token.verdict.value,
    }


def resigned(desk: Desk, token: ApprovalToken, **changes: object) -> ApprovalToken:
    other = token.model_copy(update=changes)
    return other.model_copy(update={"signature": desk.keys.sign(other.canonical_bytes())[1]})


def signed(desk: Desk, *, nonce: str) -> SignedMessage:
    message = ChannelMessage(
        channel="web", sender_id="someone", text="hello", timestamp=desk.clock.now()
    )
    unsigned = SignedMessage(message=message, signature=b"", nonce=nonce)
    return unsigned.model_copy(update={"signature": desk.keys.sign(unsigned.canonical_bytes())[1]})
