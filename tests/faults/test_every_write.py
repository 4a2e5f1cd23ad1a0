"""Each write and each sync of the trust rooms, the queue and the work store fails once.

The system reports: one of our errors, with a sentence. It recovers when it is opened again. And it
never claims what did not happen: what somebody was told is on the disk, and what somebody was told
had failed is not.
"""

import json
from pathlib import Path

import pytest

from silas.app.core import Core
from silas.approval import ApprovalDecision, ApprovalVerdict
from silas.queue import QueueName
from silas.testing.fakes import FakePlan
from silas.work import AttemptOutcome, WorkItemStatus
from silas.work.models import BudgetUsed
from tests.faults.trouble import Claims, Ending, Scene, Trial, Trouble
from tests.queue.messages import answer, message
from tests.work.shop import task

YES = ApprovalDecision(verdict=ApprovalVerdict.APPROVED)
EVERY = pytest.mark.parametrize("trouble", list(Trouble), ids=lambda each: each.name.lower())
PLAN = FakePlan()


async def entries(core: Core, event: str) -> list[dict[str, object]]:
    rows = await core.database.fetch_all("SELECT body FROM audit_log ORDER BY seq")
    found = [json.loads(body) for (body,) in rows]
    return [each["data"] for each in found if each["event"] == event]


@EVERY
async def test_tokens(tmp_path: Path, trouble: Trouble) -> None:
    async def act(scene: Scene) -> None:
        engine = scene.core.approvals
        token = await engine.issue_token(PLAN, YES)
        scene.claim("issued", token)
        valid, _ = await engine.verify(token, PLAN)
        assert valid
        scene.claim("consumed")

    async def examine(core: Core, claims: Claims, ending: Ending) -> None:
        rows = await core.database.fetch_all(
            "SELECT token_id, executions_used, (SELECT count(*) FROM approval_executions AS use"
            " WHERE use.token_id = issued.token_id) FROM approval_tokens AS issued"
        )
        used = [each["token_id"] for each in await entries(core, "approval_used")]
        for name, counted, recorded in rows:
            assert counted == recorded == used.count(name), "the books do not agree"
        if not claims.has("issued"):
            assert all(counted == 0 for _, counted, _ in rows)
            return
        token = claims.told["issued"]
        assert [name for name, _, _ in rows] == [token.token_id]
        assert len(await entries(core, "approval_issued")) == 1
        if claims.has("consumed"):
            assert await core.approvals.check(token, PLAN) == (True, "Valid")
            assert await core.approvals.verify(token, PLAN) == (
                False,
                "The token has been used up",
            )
        elif not trouble.is_deadly:
            assert used == [], "it was reported as failed, and has happened"
            assert await core.approvals.verify(token, PLAN) == (True, "Valid")

    await failing_everywhere(tmp_path, trouble, act, examine)


@EVERY
async def test_the_audit_log(tmp_path: Path, trouble: Trouble) -> None:
    async def act(scene: Scene) -> None:
        for number in range(3):
            await scene.core.audit.log("happened", number=number)
            scene.claim(str(number))
        await scene.core.audit.write_checkpoint()
        scene.claim("vouched")

    async def examine(core: Core, claims: Claims, ending: Ending) -> None:
        found = [str(each["number"]) for each in await entries(core, "happened")]
        acknowledged = [name for name in claims.told if name != "vouched"]
        assert found[: len(acknowledged)] == acknowledged
        if not trouble.is_deadly:
            assert found == acknowledged, "an entry that was reported as failed is there"
        report = await core.audit.examine()
        if claims.has("vouched"):
            assert report.vouched_seq == report.head_seq
        await core.audit.log("goes_on")

    await failing_everywhere(tmp_path, trouble, act, examine)


@EVERY
async def test_the_queue(tmp_path: Path, trouble: Trouble) -> None:
    async def act(scene: Scene) -> None:
        queue = scene.core.queue
        await queue.enqueue(message("m1"))
        scene.claim("accepted")
        lease = await queue.lease(QueueName.PROXY, consumer="proxy")
        assert lease is not None
        await queue.finish(lease, consumer="proxy", messages=(answer("m2"),))
        scene.claim("finished")

    async def examine(core: Core, claims: Claims, ending: Ending) -> None:
        queue = core.queue
        await queue.recover(alive=lambda _: False)
        rows = await core.database.fetch_all("SELECT message_id FROM queue_messages")
        done = await queue.has_processed("proxy", "m1")
        assert rows in ([], [("m1",)], [("m2",)]), "a message is there with what follows from it"
        assert done is (rows == [("m2",)]), "the mark and what follows are not one"
        if claims.has("accepted") and not rows:
            assert ending.may_be_lost(claims, "accepted"), "it was accepted, and is lost"
        if claims.has("finished") and not done:
            assert ending.may_be_lost(claims, "finished"), "it was finished, and is not"
        if not trouble.is_deadly:
            assert bool(rows) is claims.has("accepted")
            assert done is claims.has("finished")
        await _work_it_off(core)

    async def _work_it_off(core: Core) -> None:
        queue = core.queue
        await queue.enqueue(message("m1"))
        while lease := await queue.lease(QueueName.PROXY, consumer="proxy"):
            await queue.finish(lease, consumer="proxy", messages=(answer("m2"),))
        rows = await core.database.fetch_all("SELECT message_id FROM queue_messages")
        assert rows == [("m2",)]

    await failing_everywhere(tmp_path, trouble, act, examine)


@EVERY
async def test_work(tmp_path: Path, trouble: Trouble) -> None:
    async def prepare(scene: Scene) -> None:
        await scene.core.work.items.save(task(id="before"))

    async def act(scene: Scene) -> None:
        stores = scene.core.work
        await stores.items.save(task(id="t1"))
        scene.claim("saved")
        item = await stores.attempts.start("before", runner="r")
        scene.claim("started")
        done = {"outcome": AttemptOutcome.PASSED, "status": WorkItemStatus.DONE}
        await stores.attempts.finish("before", item.attempts, budget_used=BudgetUsed(), **done)
        scene.claim("done")

    async def examine(core: Core, claims: Claims, ending: Ending) -> None:
        stores = core.work
        saved, item = await stores.items.get("t1"), await stores.items.get("before")
        assert item is not None
        tried = [each.outcome for each in await stores.attempts.list_of("before")]
        agree = {
            WorkItemStatus.PENDING: [],
            WorkItemStatus.RUNNING: [None],
            WorkItemStatus.DONE: [AttemptOutcome.PASSED],
        }
        assert agree[item.status] == tried, "the item and its attempts do not agree"
        if claims.has("saved") and saved is None:
            assert ending.may_be_lost(claims, "saved"), "it was saved, and is lost"
        assert not claims.has("started") or tried, "it was started, and is not"
        assert not claims.has("done") or item.status is WorkItemStatus.DONE
        if not trouble.is_deadly:
            assert (saved is not None, bool(tried)) == (claims.has("saved"), claims.has("started"))
            assert (item.status is WorkItemStatus.DONE) is claims.has("done")
        await stores.attempts.interrupt()
        if item.status is not WorkItemStatus.DONE:
            assert (await stores.attempts.start("before", runner="next")).attempts <= 2

    trial = Trial(tmp_path)
    await trial.begin(prepare)
    assert await trial.run(trouble, act, examine) > 0


async def failing_everywhere(tmp_path: Path, trouble: Trouble, act, examine) -> None:  # type: ignore[no-untyped-def]
    trial = Trial(tmp_path)
    await trial.begin()
    assert await trial.run(trouble, act, examine) > 0, "nothing was tried"
