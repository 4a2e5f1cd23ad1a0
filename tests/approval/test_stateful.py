"""Random walks through issue, verify, check, expire, rotate, restart, against a simple model."""

import asyncio
import tempfile
from datetime import timedelta
from pathlib import Path

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, invariant, rule

from silas.approval import ApprovalScope, ApprovalToken
from silas.testing import FakeClock, FakePlan, MemoryVault
from tests.approval.desk import YES, open_desk

PLANS = [FakePlan(id=f"wi_{number}") for number in range(3)]
GOAL = FakePlan(id="goal", spawn_policy={"verify": ["df"]})
TASKS = [
    FakePlan(id=f"task_{number}", parent="goal", spawn_policy=GOAL.spawn_policy)
    for number in range(2)
]
TTL = timedelta(minutes=10)


class Approvals(RuleBasedStateMachine):
    """The model: how often each token was used, and for which content."""

    tokens = Bundle("tokens")

    def __init__(self) -> None:
        super().__init__()
        self.runner = asyncio.Runner()
        self.folder = tempfile.TemporaryDirectory()
        self.vault = MemoryVault()
        self.clock = FakeClock()
        self.uses: dict[str, list[str]] = {}
        self.open()

    def open(self) -> None:
        path = Path(self.folder.name) / "silas.db"
        self.desk = self.runner.run(open_desk(path, vault=self.vault, clock=self.clock))

    @rule(target=tokens, plan=st.sampled_from(PLANS))
    def issue(self, plan: FakePlan) -> ApprovalToken:
        token = self.runner.run(self.desk.engine.issue_token(plan, YES, ttl=TTL))
        self.uses[token.token_id] = []
        return token

    @rule(target=tokens, uses=st.integers(1, 3))
    def issue_standing(self, uses: int) -> ApprovalToken:
        issue = self.desk.engine.issue_token(
            GOAL, YES, ApprovalScope.STANDING, max_executions=uses, ttl=TTL
        )
        token = self.runner.run(issue)
        self.uses[token.token_id] = []
        return token

    @rule(token=tokens, plan=st.sampled_from(PLANS), times=st.integers(1, 3))
    def verify(self, token: ApprovalToken, plan: FakePlan, times: int) -> None:
        fits = token.scope is ApprovalScope.FULL_PLAN and token.work_item_id == plan.id
        calls = [self.desk.engine.verify(token, plan) for _ in range(times)]
        self.expect_uses(token, plan, calls, fits=fits)

    @rule(token=tokens, task=st.sampled_from(TASKS), times=st.integers(1, 3))
    def verify_spawned(self, token: ApprovalToken, task: FakePlan, times: int) -> None:
        fits = token.scope is ApprovalScope.STANDING
        calls = [self.desk.engine.verify(token, GOAL, task) for _ in range(times)]
        self.expect_uses(token, task, calls, fits=fits)

    def expect_uses(self, token, content, calls, *, fits: bool) -> None:
        async def together() -> list[tuple[bool, str]]:
            return await asyncio.gather(*calls)

        used = self.uses[token.token_id]
        left = token.max_executions - len(used) if fits and self.alive(token) else 0
        answers = self.runner.run(together())
        assert sum(valid for valid, _ in answers) == min(left, len(calls))
        used += [content.id] * min(left, len(calls))

    @rule(token=tokens, content=st.sampled_from([*PLANS, *TASKS, GOAL]))
    def check(self, token: ApprovalToken, content: FakePlan) -> None:
        valid, _ = self.runner.run(self.desk.engine.check(token, content))
        assert valid == (self.alive(token) and content.id in self.uses[token.token_id])

    def alive(self, token: ApprovalToken) -> bool:
        return self.clock.now() < token.expires_at

    @rule(minutes=st.integers(1, 6))
    def time_passes(self, minutes: int) -> None:
        self.clock.advance(minutes=minutes)

    @rule()
    def rotate(self) -> None:
        self.desk.keys.rotate()

    @rule()
    def restart(self) -> None:
        self.runner.run(self.desk.database.close())
        audit = self.desk.audit
        self.open()
        self.desk.audit = audit

    @rule()
    def prune(self) -> None:
        self.runner.run(self.desk.nonces.prune_expired(self.clock.now()))

    @invariant()
    def the_store_agrees_with_the_model(self) -> None:
        rows = self.runner.run(
            self.desk.database.fetch_all("SELECT token_id, executions_used FROM approval_tokens")
        )
        assert dict(rows) == {token_id: len(used) for token_id, used in self.uses.items()}

    def teardown(self) -> None:
        self.runner.run(self.desk.database.close())
        self.runner.close()
        self.folder.cleanup()


Approvals.TestCase.settings = settings(max_examples=40, stateful_step_count=30, deadline=None)
TestApprovals = Approvals.TestCase
