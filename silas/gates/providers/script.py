"""The provider `script`: a command that the owner wrote judges the context. Its rules:

1. The command is the text of the gate and nothing else. Values reach it only through environment
   variables, so no value is ever read by a shell: `GATE_MESSAGE`, `GATE_RESPONSE`,
   `GATE_TOOL_NAME`, `GATE_SENDER_ID` …, `GATE_ARG_<NAME>` for each argument of a tool call that is
   text, a number or a boolean, and `GATE_CONTEXT` with everything as JSON.
2. What an environment variable cannot hold is blocked: NUL, invalid Unicode, too many bytes.
3. It has thirty seconds. A command that is stopped, does not start or floods its output blocks.
4. Of the output, a line `name: value` gives a value. The reserved name `modified_context` gives a
   rewriting, as JSON. A name that decides something may be there once only.
5. With `check_expect`, the output and the exit code decide. With `extract`, the value of that name
   is judged as the type of the gate says. With neither, the exit code decides: 0 passes.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from silas.gates.decisions import blocks, passes
from silas.gates.expectations import Expectation, judge_output
from silas.gates.models import Gate, GateResult
from silas.gates.ports import CommandOutcome, CommandRunner
from silas.gates.providers.files import FileRefused, permitted_file
from silas.gates.providers.predicate import PredicateProvider
from silas.kernel import CanonicalError, SilasError, canonical_bytes, strict_loads

SECONDS = 30
_LONGEST_VALUE = 100_000
_LONGEST_TOGETHER = 500_000
_LONGEST_SHOWN = 1000
_NAME = re.compile(r"[A-Z0-9_]{1,100}")
_REWRITING = "modified_context"


class NotPassable(Exception):
    """A value cannot be given to a command."""


class ScriptProvider:
    """Runs commands through the port, and judges what they say."""

    def __init__(self, runner: CommandRunner | None, directories: Sequence[Path] = ()) -> None:
        self._runner = runner
        self._directories = tuple(directories)
        self._predicate = PredicateProvider(directories)

    def problem(self, gate: Gate) -> str | None:
        """Whether there is somebody to run it."""
        if self._runner is None:
            return "Nobody here can run a script."
        if gate.extract is not None and gate.check_expect is None:
            return self._predicate.problem(gate)
        return None

    async def check(self, gate: Gate, context: dict[str, Any]) -> GateResult:
        """What the command's output means."""
        command = gate.check_command or gate.check
        if self._runner is None or command is None:
            return blocks(gate, "Nobody here can run a script.")
        try:
            env = environment_of(context)
            ran = await self._runner.run(command, env=env, seconds=SECONDS)
        except NotPassable as error:
            return blocks(gate, str(error))
        except SilasError as error:
            return blocks(gate, f"The script was not run: {error.message}")
        if ran.stopped is not None or ran.truncated:
            return blocks(gate, f"The script was stopped: {ran.stopped or 'too much output'}.")
        return self._judged(gate, ran, context)

    def _judged(self, gate: Gate, ran: CommandOutcome, context: dict[str, Any]) -> GateResult:
        output = ran.output.decode("utf-8", "replace")
        try:
            values = values_in(output, {_REWRITING, gate.extract or _REWRITING})
            rewriting = _rewriting(values)
        except NotPassable as error:
            return blocks(gate, str(error))
        result = self._verdict(gate, ran, output, values, context)
        return result.model_copy(update={"modified_context": rewriting})

    def _verdict(
        self,
        gate: Gate,
        ran: CommandOutcome,
        output: str,
        values: Mapping[str, str],
        context: dict[str, Any],
    ) -> GateResult:
        if gate.check_expect is not None:
            passed, why = self._expected(gate.check_expect, output, ran.exit_code, context)
            return passes(gate, why) if passed else blocks(gate, why)
        if ran.exit_code != 0:
            return blocks(gate, f"The script ended with exit code {ran.exit_code}.")
        if gate.extract is None:
            return passes(gate, "The script has no objection.", value=output[:_LONGEST_SHOWN])
        if gate.extract not in values:
            return blocks(gate, f"The script gave no value {gate.extract}.")
        return self._predicate.judge(gate, values[gate.extract], context)

    def _expected(
        self, expect: Expectation, output: str, exit_code: int, context: Mapping[str, Any]
    ) -> tuple[bool, str]:
        if expect.file_exists is None:
            return judge_output(expect, output, exit_code)
        try:
            permitted_file(expect.file_exists, self._directories, work_dir=context.get("work_dir"))
        except FileRefused as error:
            return False, str(error)
        return True, "the file is there"


def environment_of(context: Mapping[str, Any]) -> dict[str, str]:
    """The variables that hold the context; raises `NotPassable`."""
    variables: dict[str, str] = {}
    ambiguous: set[str] = set()
    for name, value in _variables(context):
        if name in variables:
            ambiguous.add(name)
        variables[name] = value
    env = {name: value for name, value in variables.items() if name not in ambiguous}
    if sum(len(value.encode()) for value in env.values()) > _LONGEST_TOGETHER:
        raise NotPassable("The values are too large for a script.")
    return env


def _variables(context: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    try:
        yield "GATE_CONTEXT", _fitting(canonical_bytes(dict(context)).decode())
    except CanonicalError:
        raise NotPassable("The context cannot be written as JSON.") from None
    for name, value in context.items():
        yield from _variable("GATE_", name, value)
    arguments = context.get("tool_args")
    if isinstance(arguments, Mapping):
        for name, value in arguments.items():
            yield from _variable("GATE_ARG_", name, value)


def _variable(prefix: str, name: Any, value: Any) -> Iterator[tuple[str, str]]:
    upper = str(name).upper()
    if not _NAME.fullmatch(upper) or not isinstance(value, str | int | float):
        return  # it is in GATE_CONTEXT
    text = value if isinstance(value, str) else canonical_bytes(value).decode()
    yield prefix + upper, _fitting(text)


def _fitting(text: str) -> str:
    if "\0" in text:
        raise NotPassable("A value holds a NUL character, which no script can be given.")
    try:
        size = len(text.encode())
    except UnicodeEncodeError:
        raise NotPassable("A value is not valid Unicode.") from None
    if size > _LONGEST_VALUE:
        raise NotPassable("A value is too large for a script.")
    return text


def values_in(output: str, once: set[str]) -> dict[str, str]:
    """The values that the output names; those that decide something must not be there twice."""
    values: dict[str, str] = {}
    for line in output.split("\n"):
        name, colon, value = line.partition(":")
        name = name.strip()
        if not colon or not name:
            continue
        if name in values and name in once:
            raise NotPassable(f"The script said twice what {name} is.")
        values[name] = value.strip()
    return values


def _rewriting(values: Mapping[str, str]) -> dict[str, Any] | None:
    if _REWRITING not in values:
        return None
    try:
        rewriting = strict_loads(values[_REWRITING])
    except CanonicalError:
        raise NotPassable("The script's modified_context is not JSON.") from None
    if not isinstance(rewriting, dict):
        raise NotPassable("The script's modified_context is not a JSON object.")
    return rewriting
