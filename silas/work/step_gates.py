"""The gates after steps (step 2d): they look at what a call has given when the worker has ended."""

from silas.gates import Gate, GateAction, GateTrigger
from silas.kernel import ApprovalError, CanonicalError, strict_loads
from silas.work.authorisation import authorise_call
from silas.work.door import Blocked
from silas.work.ledger import LedgerEntry
from silas.work.ports import GateRunner
from silas.work.toolcalls import AttemptTools

GATE_BLOCKED = "execution_blocked_gate"


async def pass_gates_after_steps(tools: AttemptTools, entries: list[LedgerEntry]) -> None:
    """Raise `Blocked` unless every gate lets its step pass, or the owner does."""
    for gate in tools.gates:
        if gate.on is not GateTrigger.AFTER_STEP:
            continue
        if tools.bench.gates is None:
            raise Blocked(GATE_BLOCKED, f"Nobody here can evaluate the gate {gate.name}.")
        for entry in entries:
            if entry.seq - 1 == gate.after_step:
                await _pass_gate(tools, tools.bench.gates, gate, entry)


async def _pass_gate(
    tools: AttemptTools, runner: GateRunner, gate: Gate, entry: LedgerEntry
) -> None:
    known = {"work_dir": str(tools.files.directory), "work_item_id": tools.files.item.id}
    context = {**_step_context(entry), **known}
    policy, quality, _ = await runner.check_gates([gate], GateTrigger.AFTER_STEP, context)
    await tools.log_quality("quality_gate_after_step", quality)
    for result in policy:
        if result.action is GateAction.BLOCK:
            raise Blocked(GATE_BLOCKED, f"{result.gate_name}: {result.reason}")
        if result.action is GateAction.REQUIRE_APPROVAL:
            await _ask(tools, entry, result.reason)


async def _ask(tools: AttemptTools, entry: LedgerEntry, reason: str) -> None:
    try:
        decided = await authorise_call(
            tools.bench, tools.as_paused(entry.tool, entry.args, [reason])
        )
    except ApprovalError as error:
        raise Blocked(GATE_BLOCKED, error.message) from error
    if not decided:
        # The worker has ended: there is no run that could be taken up again after the decision.
        raise Blocked(GATE_BLOCKED, f"This needs the owner's decision at once: {reason}")


def _step_context(entry: LedgerEntry) -> dict[str, object]:
    """What a gate can look at: the step, its output, and the output's values if it is JSON."""
    output = entry.result.return_value if entry.result else ""
    try:
        values = strict_loads(output)
    except CanonicalError:
        values = {}
    named = dict(values) if isinstance(values, dict) else {}
    return {**named, "step_index": entry.seq - 1, "tool_name": entry.tool, "response": output}
