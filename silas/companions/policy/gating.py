"""The owner's gates, before a companion's write: the same gates as before every other call."""

from collections.abc import Sequence

from silas.companions.tools.models import AgentToolCall
from silas.companions.tools.registry import Tool
from silas.gates import Gate, GateAction, GateTrigger
from silas.gates.runner import GateRunner
from silas.kernel import GateError, TaintLevel


class CallGates:
    """Evaluates the gates `on_tool_call` of the settings; where there are none, all calls pass."""

    def __init__(self, gates: Sequence[Gate], runner: GateRunner) -> None:
        self._gates = [gate for gate in gates if gate.on is GateTrigger.ON_TOOL_CALL]
        self._runner = runner

    async def asks(self, call: AgentToolCall, tool: Tool) -> bool:
        """Whether a gate wants the owner to be asked; raises `GateError` if one says no."""
        if not self._gates:
            return False
        policy, _, merged = await self._runner.check_gates(
            self._gates, GateTrigger.ON_TOOL_CALL, _context(call, tool)
        )
        for result in policy:
            if result.action is GateAction.BLOCK:
                raise GateError(f"A gate stopped this: {result.gate_name}: {result.reason}")
        if merged.get("tool_args", call.arguments) != call.arguments:
            # Other arguments would be another action, with an id of its own.
            raise GateError("A gate wants other arguments than the companion's. Nothing was done.")
        return any(each.action is GateAction.REQUIRE_APPROVAL for each in policy)


def _context(call: AgentToolCall, tool: Tool) -> dict[str, object]:
    """The call, and what the runtime knows about it; nothing of it is a model's opinion."""
    return {
        "tool_name": tool.name,
        "tool_args": call.arguments,
        "tool_parameters": sorted(tool.input.model_fields),
        "contained": False,
        "changes_state": tool.writes,
        # What a companion acts on is text of the journal, which may come from anywhere.
        "taint": TaintLevel.EXTERNAL.value,
        "taint_sources": ["journal"],
        "envelopes": [],
        "companion_id": call.agent_id,
        "companion_kind": call.agent_kind,
    }
