"""Which value of the context a gate looks at, and how a changed value is put back.

1. Without `extract`: the message, the response, or on a tool call the name of the tool.
2. `extract` names a value of the context itself, or else an argument of the tool call. What the
   runtime says goes first: an argument that calls itself `tool_name` is not taken for it.
3. With dots it is a path, such as `tool_args.order.amount`.
4. On a tool call, a value that the tool has no parameter for does not concern the gate. One that it
   has a parameter for and that was left out is missing: a default must not slip through.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from silas.gates.models import Gate, GateTrigger

_DEFAULTS = {
    GateTrigger.EVERY_USER_MESSAGE: ("message",),
    GateTrigger.EVERY_AGENT_RESPONSE: ("response",),
    GateTrigger.AFTER_STEP: ("response",),
    GateTrigger.ON_TOOL_CALL: ("tool_name",),
}
_TEXTS = {"message", "response"}
Path = tuple[str, ...]


class NoValue(Exception):
    """The value that a gate looks at is not there."""


class NotConcerned(Exception):
    """The tool that is called has no such value."""


@dataclass(frozen=True)
class GateSubject:
    """One value, and the way to it."""

    path: Path
    value: Any

    @property
    def rewritable(self) -> bool:
        """Whether a gate may change it: texts and arguments, nothing else."""
        whole_text = len(self.path) == 1 and self.path[0] in _TEXTS
        return whole_text or self.path[0] == "tool_args"

    def rewriting(self, value: Any, context: Mapping[str, Any]) -> dict[str, Any]:
        """The `modified_context` that puts another value in its place."""
        if len(self.path) == 1:
            return {self.path[0]: value}
        argument = self.path[1]
        whole = context["tool_args"][argument]
        return {"tool_args": {argument: _replaced(whole, self.path[2:], value)}}


def subject_of(gate: Gate, context: Mapping[str, Any]) -> GateSubject:
    """What the gate looks at; raises `NoValue` or `NotConcerned`."""
    for path in _paths(gate, context):
        try:
            return GateSubject(path, _walk(context, path))
        except KeyError:
            continue
    name = gate.extract or _DEFAULTS[gate.on][0]
    if gate.on is GateTrigger.ON_TOOL_CALL and not _could_have(name, context):
        raise NotConcerned(f"This tool has no {name}.")
    raise NoValue(f"There is no value {name}.")


def _paths(gate: Gate, context: Mapping[str, Any]) -> list[Path]:
    if gate.extract is None:
        return [_DEFAULTS[gate.on]]
    path = tuple(gate.extract.split("."))
    in_arguments = ("tool_args", *path)
    if gate.on is GateTrigger.ON_TOOL_CALL and path[0] not in context:
        return [in_arguments]
    return [path]


def _walk(value: Any, path: Path) -> Any:
    for name in path:
        if not isinstance(value, Mapping):
            raise KeyError(name)
        value = value[name]
    return value


def _could_have(name: str, context: Mapping[str, Any]) -> bool:
    """Whether the tool takes such an argument; yes if the runtime does not say."""
    parameters = context.get("tool_parameters")
    if not isinstance(parameters, list | tuple | set | frozenset):
        return True
    parts = name.removeprefix("tool_args.").split(".")
    return parts[0] in parameters or parts[0] in context


def _replaced(whole: Any, path: Path, value: Any) -> Any:
    if not path:
        return value
    return {**whole, path[0]: _replaced(whole[path[0]], path[1:], value)}
