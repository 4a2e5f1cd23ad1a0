"""Examples of a gate: what it must catch (`match`) and what it must let pass (`not_match`).

To catch is to block, to ask, or to rewrite; to let pass is to continue with nothing changed. An
example is the value that the gate would look at, or a mapping that is the whole context. They are
tried once for each gate and remembered, because the same gate on the same value says the same.
"""

from collections.abc import Iterator
from typing import Any

from silas.gates.models import Gate, GateAction, GateTrigger
from silas.gates.ports import GateCheckProvider
from silas.kernel import canonical_bytes

_REMEMBERED = 1000
_TEXTS = {
    GateTrigger.EVERY_USER_MESSAGE: "message",
    GateTrigger.EVERY_AGENT_RESPONSE: "response",
    GateTrigger.AFTER_STEP: "response",
}


class ExampleBook:
    """Remembers for which gates the examples hold."""

    def __init__(self) -> None:
        self._tried: dict[bytes, str | None] = {}

    async def problem(self, gate: Gate, provider: GateCheckProvider) -> str | None:
        """Which example does not hold, as a sentence; None if all do, or there is none."""
        if not gate.match and not gate.not_match:
            return None
        key = canonical_bytes(gate.model_dump(mode="json"))
        if key not in self._tried:
            if len(self._tried) >= _REMEMBERED:
                self._tried.clear()
            self._tried[key] = await _first_problem(gate, provider)
        return self._tried[key]


async def _first_problem(gate: Gate, provider: GateCheckProvider) -> str | None:
    for name, number, example in _examples(gate):
        caught = await _caught(gate, example, provider)
        if caught is not (name == "match"):
            happened = "was caught" if caught else "was let pass"
            return f"Example {number} of {name} does not hold: it {happened}."
    return None


def _examples(gate: Gate) -> Iterator[tuple[str, int, Any]]:
    for name in ("match", "not_match"):
        for number, example in enumerate(getattr(gate, name), 1):
            yield name, number, example


async def _caught(gate: Gate, example: Any, provider: GateCheckProvider) -> bool:
    try:
        result = await provider.check(gate, _context(gate, example))
    except Exception:  # noqa: BLE001 - the runner turns it into a block, so it would be caught
        return True
    return result.action is not GateAction.CONTINUE or bool(result.modified_context)


def _context(gate: Gate, example: Any) -> dict[str, Any]:
    if isinstance(example, dict):
        return dict(example)
    if gate.on is not GateTrigger.ON_TOOL_CALL:
        return _nested((gate.extract or _TEXTS[gate.on]).split("."), example)
    if gate.extract is None:
        return {"tool_name": example, "tool_args": {"text": example}}
    path = gate.extract.removeprefix("tool_args.").split(".")
    return {"tool_name": "example", **_nested(["tool_args", *path], example)}


def _nested(path: list[str], value: Any) -> dict[str, Any]:
    for name in reversed(path):
        value = {name: value}
    nested: dict[str, Any] = value
    return nested
