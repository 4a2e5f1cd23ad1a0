"""The gate runner: one deterministic checkpoint that no model can argue with. Its rules:

1. Of the gates given, those of the trigger are evaluated: first the policy lane, then the quality
   lane, each in the order in which the gates were given.
2. A provider is given a copy of the context. It changes something only through `modified_context`.
3. Of `modified_context`, only the keys in `ALLOWED_MUTATIONS` survive, with a value of the right
   kind. This is the only place that enforces it. Each dropped key is a `rejected_mutation`.
4. What survives is merged from left to right, and every later gate sees it.
5. A block does not end the lane: the remaining gates still run, so that the log is complete.
6. The quality lane sees the context after all policy gates. Whatever it says besides `continue`,
   and whatever it wants to change, is ignored and logged as `quality_lane_violation`.
7. A gate without a provider blocks, in the policy lane. So does a policy gate whose provider fails,
   whose examples do not hold, or that comes after `max_gate_evals_per_turn`. A quality gate that
   fails or comes too late is left out and logged.
8. The same gates, context and answers give the same bytes of results. Nothing is kept between
   calls but which gates' examples hold; what one conversation said cannot reach another.
9. Every block, question, rewriting and violation is in the audit log before the answer is given.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from silas.gates.audit_events import GateEvents
from silas.gates.copies import own_copy
from silas.gates.decisions import blocks
from silas.gates.examples import ExampleBook
from silas.gates.models import (
    ALLOWED_MUTATIONS,
    Gate,
    GateAction,
    GateLane,
    GateResult,
    GateTrigger,
)
from silas.gates.ports import AuditTrail, GateCheckProvider

Context = dict[str, Any]
_KINDS: Mapping[str, type] = {"message": str, "response": str, "tool_args": dict}
_TOO_MANY = "Too many gates were evaluated in this turn."


@dataclass
class Allowance:
    """How many evaluations are left in a turn."""

    left: int

    def take(self) -> bool:
        """Use one; False if there is none."""
        self.left -= 1
        return self.left >= 0


@dataclass(frozen=True)
class GateRunner:
    """Evaluates gates. Each call is a turn of its own; those of `for_turn()` share one."""

    providers: Mapping[str, GateCheckProvider]
    audit: AuditTrail
    max_gate_evals_per_turn: int = 32
    examples: ExampleBook = field(default_factory=ExampleBook)
    allowance: Allowance | None = None

    def for_turn(self) -> "GateRunner":
        """The same runner for one turn: all its calls together keep to the limit."""
        return replace(self, allowance=Allowance(self.max_gate_evals_per_turn))

    async def check_gates(
        self, gates: list[Gate], trigger: GateTrigger, context: Context
    ) -> tuple[list[GateResult], list[GateResult], Context]:
        """The results of the policy lane, of the quality lane, and the context as it is now."""
        turn = self if self.allowance else self.for_turn()
        events = GateEvents(self.audit, context)
        concerned = [gate for gate in gates if _concerned(gate, trigger, context)]
        working = own_copy(context)
        policy: list[GateResult] = []
        for gate in filter(self._decides, concerned):  # 1
            result = await turn._evaluate(gate, working, events)  # noqa: SLF001
            result = await _only_allowed(gate, result, events)  # 3
            working = await _merged(gate, result, working, events)  # 4
            await events.decided(gate, result, policy)  # 5, 9
            policy.append(result)
        quality = [
            await turn._observe(gate, working, events)  # noqa: SLF001
            for gate in concerned
            if not self._decides(gate)
        ]
        return policy, quality, working

    async def check_gate(self, gate: Gate, context: Context) -> GateResult:
        """One gate, whenever it would look; its rewriting is filtered but not merged."""
        turn = self if self.allowance else self.for_turn()
        events = GateEvents(self.audit, context)
        if not self._decides(gate):
            return await turn._observe(gate, context, events)  # noqa: SLF001
        result = await turn._evaluate(gate, context, events)  # noqa: SLF001
        result = await _only_allowed(gate, result, events)
        await events.decided(gate, result, [])
        return result

    def _decides(self, gate: Gate) -> bool:
        return gate.lane is GateLane.POLICY or gate.provider not in self.providers  # 7

    async def _evaluate(self, gate: Gate, context: Context, events: GateEvents) -> GateResult:
        """The word of a policy gate, with everything that can go wrong turned into a block."""
        provider = self.providers.get(gate.provider)
        if provider is None:
            reason = f"No provider: {gate.provider.value}"
            return blocks(gate, reason).model_copy(update={"lane": GateLane.POLICY})
        if self.allowance is None or not self.allowance.take():
            return blocks(gate, _TOO_MANY)
        try:
            problem = await self.examples.problem(gate, provider)
            if problem:
                return blocks(gate, problem)
            result = await provider.check(gate, own_copy(context))  # 2
        except Exception as error:  # noqa: BLE001 - a guard that breaks must not open the door
            await events.failed(gate, error)
            return blocks(gate, "The gate could not be evaluated.")
        return _signed(gate, result)

    async def _observe(self, gate: Gate, context: Context, events: GateEvents) -> GateResult:
        """The word of a quality gate, with everything that it may not say taken out."""
        if self.allowance is None or not self.allowance.take():
            await events.skipped(gate, _TOO_MANY)
            return _advice(gate, _TOO_MANY, ["not_evaluated"])
        try:
            result = await self.providers[gate.provider].check(gate, own_copy(context))  # 2
        except Exception as error:  # noqa: BLE001 - advice that does not come is no reason to stop
            await events.failed(gate, error)
            return _advice(gate, "The gate could not be evaluated.", ["error"])
        await events.observed(gate, result)
        if result.action is not GateAction.CONTINUE or result.modified_context is not None:  # 6
            await events.overstepped(gate, result)
        kept = {"action": GateAction.CONTINUE, "modified_context": None}
        return _signed(gate, result).model_copy(update=kept)


def _concerned(gate: Gate, trigger: GateTrigger, context: Context) -> bool:
    if gate.on is not trigger:
        return False
    return gate.after_step is None or context.get("step_index", gate.after_step) == gate.after_step


def _signed(gate: Gate, result: GateResult) -> GateResult:
    """Which gate it was and in which lane is not the provider's to say."""
    if result.gate_name == gate.name and result.lane is gate.lane:
        return result
    return result.model_copy(update={"gate_name": gate.name, "lane": gate.lane})


def _advice(gate: Gate, reason: str, flags: list[str]) -> GateResult:
    return GateResult(
        gate_name=gate.name,
        lane=gate.lane,
        action=GateAction.CONTINUE,
        reason=reason,
        flags=flags,
    )


async def _only_allowed(gate: Gate, result: GateResult, events: GateEvents) -> GateResult:
    wanted = result.modified_context
    if wanted is None:
        return result
    kept = {
        key: value
        for key, value in wanted.items()
        if key in ALLOWED_MUTATIONS and isinstance(value, _KINDS[key])
    }
    for key in wanted:
        if key not in kept:
            await events.rejected(gate, key)
    return result.model_copy(update={"modified_context": own_copy(kept) or None})


async def _merged(gate: Gate, result: GateResult, context: Context, events: GateEvents) -> Context:
    changed = result.modified_context or {}
    merged = dict(context)
    for key, value in changed.items():
        before = context.get(key)
        old = before if isinstance(before, dict) else {}
        merged[key] = {**old, **own_copy(value)} if key == "tool_args" else value
        if merged[key] != before:
            await events.rewrote(gate, key, before, merged[key])
    return merged
