"""What only explains a run goes after a while; what a person reads, and what waits, stays."""

from pathlib import Path

from silas.companions.models import ActionPlan, AgentMessage, RunTrace, SagaEntry, WaitingAction
from silas.companions.retention import Retention
from silas.testing.companion_room import opened_room


async def test_old_traces_go_and_the_log_and_what_waits_stay(tmp_path: Path) -> None:
    async with opened_room(tmp_path) as room:
        made = await room.desk.new("planner", category_ids=[room.categories["gym"]])
        for title in ("Squats", "Bench"):
            await room.finish(await room.task(title, checklist_items=("a",)))
            await room.work()
        done, _ = await room.desk.waiting(made.id)
        await room.approvals.approve(done.operation_id)
        await room.desk.decided(done.operation_id)
        retention = Retention(room.store)
        assert await retention.prune() == 0
        before = await room.store.find(AgentMessage, {"agent_id": made.id})
        room.clock.advance(days=91)
        assert await retention.prune() > 0
        assert await room.store.find(RunTrace) == []
        assert await room.store.find(ActionPlan) == []
        assert await room.store.find(SagaEntry) == []
        (waiting,) = await room.store.find(WaitingAction)
        assert waiting.status == "waiting"
        assert await room.store.find(AgentMessage, {"agent_id": made.id}) == before
        assert await room.desk.report(made.id) is not None
