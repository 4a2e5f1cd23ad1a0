"""A whole execution, on a disk that fails once, anywhere: the same process goes on with it.

Whatever was not written down then, nobody has to restart anything: the next time that the item is
executed it is done, once, and its record is complete.
"""

from pathlib import Path
from random import Random

import pytest

from evals.simulation.machine import SimulatedSandbox
from silas.app.core import Core
from silas.app.work import open_executor
from silas.approval import ApprovalDecision, ApprovalVerdict
from silas.kernel import SilasError
from silas.work import AttemptOutcome, Plan, WorkItemStatus
from silas.work.binding import bind_plan
from tests.faults.trouble import Claims, Ending, Scene, Trial, Trouble
from tests.work.shop import OFF_LIMITS, check, task

YES = ApprovalDecision(verdict=ApprovalVerdict.APPROVED)
ONCE = (Trouble.WRITE_IO_ERROR, Trouble.SYNC_IO_ERROR)


class AtOnce(Random):
    """Nothing takes time."""

    def uniform(self, a: float, b: float) -> float:
        del b
        return a


@pytest.mark.parametrize("trouble", ONCE, ids=lambda each: each.name.lower())
async def test_the_same_process_goes_on(tmp_path: Path, trouble: Trouble) -> None:
    site = tmp_path / "site"
    site.mkdir()

    async def prepare(scene: Scene) -> None:
        body = "```run\nsh -c 'printf once >> log.txt'\n```"
        workspace = {"path": "site", "changes": {"change": ["log.txt"]}}
        shown = check("cat log.txt", contains="once")
        wanted = task(body, verify=[shown], workspace=workspace)
        bound = await bind_plan(Plan(wanted), base=tmp_path, off_limits=OFF_LIMITS)
        [item] = await scene.core.work.items.save_plan(bound)
        token = await scene.core.approvals.issue_token(item, YES)
        assert await scene.core.approvals.verify(token, item) == (True, "Valid")
        approved = item.model_copy(update={"approval_token": token})
        await scene.core.work.items.save(approved)

    async def act(scene: Scene) -> None:
        (site / "log.txt").write_text("start\n")
        shop = open_executor(scene.core)
        item = await shop.context.items.get("t1")
        assert item is not None
        for _ in range(2):
            try:
                result = await shop.execute(item)
            except SilasError:
                continue
            scene.claim("ended", result.status)
            return

    async def examine(core: Core, claims: Claims, ending: Ending) -> None:
        assert claims.told.get("ended") is WorkItemStatus.DONE, ending
        assert (site / "log.txt").read_text() == "start\nonce", "not at all, or twice"
        stores = core.work
        item = await stores.items.get("t1")
        assert item is not None
        assert item.status is WorkItemStatus.DONE
        assert [result.passed for result in item.verification_results] == [True]
        tried = [each.outcome for each in await stores.attempts.list_of("t1")]
        assert tried.count(AttemptOutcome.PASSED) == 1
        assert None not in tried
        assert len(tried) == item.attempts == item.budget_used.attempts <= 2

    sandbox = SimulatedSandbox(AtOnce(), off_limits=tmp_path / "now", alive=lambda: True)
    trial = Trial(tmp_path, sandbox=sandbox)
    await trial.begin(prepare)
    assert await trial.run(trouble, act, examine) > 0
