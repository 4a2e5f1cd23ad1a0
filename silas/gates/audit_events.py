"""What gates write into the audit log, so that it tells everything and repeats no secret.

A text that a guard rewrote held something that must not be repeated: of the original, only what is
left in the new text is written down. Everything else goes through the redaction of secrets.
"""

from collections.abc import Sequence
from typing import Any

from silas.gates.models import Gate, GateAction, GateProvider, GateResult
from silas.gates.ports import AuditTrail
from silas.kernel.redaction import REDACTED, redact

_LONGEST = 2000
_WHO = ("sender_id", "connection_id", "work_item_id", "tool_name")


class GateEvents:
    """Writes down what the gates of one call did, with who it was about."""

    def __init__(self, audit: AuditTrail, context: dict[str, Any]) -> None:
        self._audit = audit
        self._who = {
            name: _short(context[name]) for name in _WHO if isinstance(context.get(name), str)
        }

    async def decided(self, gate: Gate, result: GateResult, earlier: Sequence[GateResult]) -> None:
        """A block or a question; a second block is logged and not escalated again."""
        if result.action is GateAction.CONTINUE:
            return
        blocked = result.action is GateAction.BLOCK
        again = blocked and any(each.action is GateAction.BLOCK for each in earlier)
        data: dict[str, Any] = {"reason": _short(result.reason), "on_block": gate.on_block}
        if result.taint_sources:
            data["taint_sources"] = result.taint_sources
        if again:
            data["already_blocked"] = True
        await self._log("gate_blocked" if blocked else "gate_approval_required", gate, data)

    async def rewrote(self, gate: Gate, key: str, before: Any, after: Any) -> None:
        """What a gate changed: the value before and after."""
        shown = _shown(gate, before, after)
        await self._log("gate_mutation", gate, {"key": key, **shown})

    async def rejected(self, gate: Gate, key: str) -> None:
        """A gate wanted to change what no gate may change."""
        await self._log("rejected_mutation", gate, {"key": _short(key)})

    async def overstepped(self, gate: Gate, result: GateResult) -> None:
        """A quality gate wanted to decide or to change something."""
        keys = sorted(map(_short, result.modified_context or {}))
        data = {"action": result.action.value, "keys": keys}
        await self._log("quality_lane_violation", gate, data)

    async def observed(self, gate: Gate, result: GateResult) -> None:
        """Advice that says by itself that it is none."""
        if "llm_error" in result.flags:
            await self._log("quality_gate_failed", gate, {"reason": _short(result.reason)})

    async def failed(self, gate: Gate, error: Exception) -> None:
        """A provider raised; its text may repeat what it was given, so only its kind is told."""
        await self._log("gate_failed", gate, {"error": type(error).__name__})

    async def skipped(self, gate: Gate, reason: str) -> None:
        """A quality gate was left out."""
        await self._log("quality_gate_skipped", gate, {"reason": reason})

    async def _log(self, event: str, gate: Gate, data: dict[str, Any]) -> None:
        about = {"gate": gate.name, "provider": gate.provider.value}
        await self._audit.log(event, **{**self._who, **about, **data})


def _shown(gate: Gate, before: Any, after: Any) -> dict[str, Any]:
    if gate.provider is GateProvider.GUARDRAILS_AI:
        before = _remaining(before, after)
    return {"before": _short(redact(before)), "after": _short(redact(after))}


def _remaining(before: Any, after: Any) -> Any:
    """The original without what the new value no longer has, found from both ends."""
    if isinstance(before, str) and isinstance(after, str):
        start = _common(before, after)
        end = _common(before[start:][::-1], after[start:][::-1])
        return f"{before[:start]}{REDACTED}{before[len(before) - end :]}"
    if isinstance(before, dict) and isinstance(after, dict):
        return {
            key: item if after.get(key) == item else _remaining(item, after.get(key))
            for key, item in before.items()
        }
    return REDACTED


def _common(one: str, other: str) -> int:
    """How many characters both start with."""
    low, high = 0, min(len(one), len(other))
    while low < high:
        middle = (low + high + 1) // 2
        if one[:middle] == other[:middle]:
            low = middle
        else:
            high = middle - 1
    return low


def _short(value: Any) -> Any:
    if isinstance(value, str):
        return value if len(value) <= _LONGEST else f"{value[:_LONGEST]}…"
    if isinstance(value, dict):
        return {_short(key): _short(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_short(item) for item in value]
    return value
