"""Two databases, one write: after a crash at any moment both come to the same point, once."""

import contextlib
import shutil
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from silas.companions.messages import AgentMessage, AgentOperation, WakeRun
from silas.companions.models import AgentActionType, OperationPhase, OperationStatus
from silas.companions.ports import CompanionProposal, ProposedAction
from silas.storage import SqliteDatabase
from silas.storage.errors import DiskFull
from silas.testing import FakeClock, MemoryVault
from silas.testing.companions import (
    CompanionDevice,
    FakeGateway,
    ScriptedModel,
    open_device,
    restarted,
)

WROTE = "companion_wrote"
STEPS = ("Three sets", "Stretch")


class Power:
    """Cuts the power when the n-th write has reached the disk; 0 cuts it before the first."""

    writes = 0
    cut_after: int | None = None
    off = False

    @classmethod
    def reset(cls, cut_after: int | None = None) -> None:
        cls.writes, cls.cut_after, cls.off = 0, cut_after, cut_after == 0


class PowerCut(Exception):
    """The machine is off."""


class CuttableDatabase(SqliteDatabase):
    """The real database; when the power is cut nothing more reaches it."""

    async def transaction(self, body: Any, **more: Any) -> Any:
        if Power.off:
            raise PowerCut
        Power.writes += 1
        Power.off = Power.cut_after == Power.writes
        result = await super().transaction(body, **more)
        if Power.off:
            raise PowerCut
        return result


@dataclass(frozen=True)
class Beginning:
    """The files of a device with a companion and a task that is about to be finished."""

    path: Path
    vault: MemoryVault
    agent: str
    unasked: bool

    async def again(self, path: Path) -> CompanionDevice:
        """A copy of it, opened."""
        shutil.copytree(self.path, path)
        return await self.opened(path)

    async def opened(self, path: Path) -> CompanionDevice:
        model = FakeGateway(ScriptedModel(_labels)) if self.unasked else FakeGateway()
        return await open_device(
            path, clock=FakeClock(), vault=self.vault, gateway=model, database=CuttableDatabase
        )


async def prepared(path: Path, *, unasked: bool) -> Beginning:
    """`unasked`: the companion is one that may act by itself, else a Planner."""
    path.mkdir()
    Power.reset()
    beginning = Beginning(path, MemoryVault(), agent="", unasked=unasked)
    device = await beginning.opened(path)
    file = path / "labeller.yaml"
    file.write_text(LABELLER)
    agent = await device.service.new(
        "planner",
        category_ids=[device.categories["gym"]],
        file=file if unasked else None,
    )
    await device.task("Squats", checklist_items=STEPS)
    await device.close()
    return replace(beginning, agent=agent.id)


LABELLER = """
kind: labeller
display_name: Labeller
summary: Puts a label on what is done.
instructions: Label what is done.
capabilities: [task_read, task_write]
tools: [list_tasks_in_scope, assign_task_labels]
subscriptions:
  - name: done
    tokens: [{token_class: subtype_token, token_namespace: task.status_changed, token_value: done}]
report:
  headline: Labels
  sections: [{id: changed, title: Changed, shows: changed}]
persona: {voice: Short.}
"""


def _labels(request: Any) -> CompanionProposal:
    tasks = [each for each in request.payload["facts"] if each.get("changed")]
    return CompanionProposal(
        actions=tuple(
            ProposedAction(
                action_type=AgentActionType.TOOL_CALL,
                tool_name="assign_task_labels",
                arguments={"task_id": each["id"], "labels": [f"seen-{len(each['labels'])}"]},
            )
            for each in tasks
        )
    )


async def whole_flow(device: CompanionDevice, agent: str) -> None:
    """From the finished task to the follow-up, with the owner's yes."""
    for task in await device.tasks():
        if task.title == "Squats" and task.status != "done":
            await device.finish(task.id)
    await device.journal.settled()
    await device.companions.orchestrator.catch_up()
    await device.work()
    for each in await device.executor.operations.pending(OperationPhase.WAITING, agent_id=agent):
        if each.operation_id in device.approvals.asked:
            await device.approvals.approve(each.operation_id)
            await device.service.decided(each.operation_id)


async def crash_after(beginning: Beginning, writes: int) -> bool:
    """Run the flow, cut the power, start again, go on; True if the power was cut at all."""
    agent = beginning.agent
    device = await beginning.again(beginning.path.with_name(f"cut-{writes}"))
    Power.reset(writes)
    with contextlib.suppress(PowerCut):
        await whole_flow(device, agent)
    was_cut = Power.off
    Power.reset()
    device.companions.orchestrator.stop()
    device = await restarted(device, database=CuttableDatabase)
    try:
        await whole_flow(device, agent)
        await device.service.recover()
        await (converged_unasked if beginning.unasked else converged)(device, agent)
    finally:
        await device.close()
    return was_cut


async def converged(device: CompanionDevice, agent: str) -> None:
    new = [each for each in await device.tasks() if "follow-up" in each.title]
    assert len(new) == 1
    ((_, items),) = await device.journal.checklists_of(new[0].id)
    assert [each.text for each in items] == list(STEPS)
    (waiting,) = await device.store.find(AgentOperation, {"agent_id": agent})
    assert waiting.status is OperationStatus.DONE
    await both_agree(device, agent)


async def converged_unasked(device: CompanionDevice, agent: str) -> None:
    (task,) = [each for each in await device.tasks() if each.title == "Squats"]
    assert task.labels == ("seen-0",)
    await both_agree(device, agent)


async def both_agree(device: CompanionDevice, agent: str) -> None:
    """What the journal has done under this companion's name is in its log, and the reverse."""
    entries = await device.store.find(AgentOperation, {"agent_id": agent})
    assert {each.status for each in entries} == {OperationStatus.DONE}
    assert {each.phase for each in entries} == {OperationPhase.AGENT_COMMITTED}
    rows = await device.journal_db.fetch_all(
        "SELECT operation_id FROM operations WHERE actor = ?", (f"companion:{agent}",)
    )
    told = [
        each.metadata.operation_id
        for each in await device.store.find(AgentMessage, {"agent_id": agent})
        if each.metadata.status == "success" and each.metadata.changed_entity_ids
    ]
    assert sorted(told) == sorted(row[0] for row in rows)
    audited = {data["operation_id"] for event, data in device.audit.entries if event == WROTE}
    assert audited == {row[0] for row in rows}
    runs = await device.store.find(WakeRun, {"agent_id": agent})
    assert all(each.status.is_terminal for each in runs)


@pytest.mark.parametrize("unasked", [False, True], ids=["approved", "unasked"])
async def test_cross_domain_saga_recovery_converges_after_simulated_crash_between_commits(
    tmp_path: Path, unasked: bool
) -> None:
    """The power is cut after every single write, to whichever database, and nothing is done twice.

    What is cut off before a write is what is cut off after the one before it.
    """
    beginning, writes = await prepared(tmp_path / "beginning", unasked=unasked), 0
    while await crash_after(beginning, writes):
        writes += 1
    assert writes > (8 if unasked else 12), "the power was cut at many different moments"


async def test_recovery_can_be_repeated(tmp_path: Path) -> None:
    beginning = await prepared(tmp_path / "beginning", unasked=False)
    device, agent = await beginning.again(tmp_path / "planner"), beginning.agent
    await whole_flow(device, agent)
    for _ in range(3):
        await device.service.recover()
    await converged(device, agent)
    await device.close()


async def test_what_the_journal_has_done_is_told_also_if_the_run_has_failed(
    tmp_path: Path,
) -> None:
    """The run ends as failed after the journal's commit; the log is completed at the next start."""
    beginning = await prepared(tmp_path / "beginning", unasked=True)
    device, agent = await beginning.again(tmp_path / "labeller"), beginning.agent
    finish = type(device.executor.operations).journal_committed

    async def no_disk(*_: Any) -> None:
        raise DiskFull

    type(device.executor.operations).journal_committed = no_disk  # type: ignore[method-assign]
    try:
        await whole_flow(device, agent)
    finally:
        type(device.executor.operations).journal_committed = finish  # type: ignore[method-assign]
    (run,) = await device.store.find(WakeRun, {"agent_id": agent})
    assert run.status == "failed_terminal"
    assert await device.service.recover() == 1
    await converged_unasked(device, agent)
    await device.close()
