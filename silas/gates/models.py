"""Gates: what is checked, when, by whom, and what came of it.

A gate's `type` says how the value is judged, its `provider` who judges. `Gate` refuses a
combination that could never let anything pass or never look at anything: such a gate is a mistake,
and a mistake in a guard must be found when it is written, not when it is needed.

Results are ordered, and the strictest wins: continue < require_approval < block.
`Expectation` says what a command must give for a check to pass: exactly one predicate, decided
without opinion.

And what the gates need from others. A port that is absent means no: see each one.
"""

import math
import re
from collections.abc import Iterable, Iterator, Mapping
from enum import StrEnum
from typing import Annotated, Any, Protocol, Self

from pydantic import (
    AfterValidator,
    Field,
    SerializerFunctionWrapHandler,
    model_serializer,
    model_validator,
)

from silas.kernel.models import Data, FieldProblem, refuse, text_like
from silas.kernel.safe_regex import compiled, regex_problem

_PREDICATES = (
    "exit_code",
    "equals",
    "contains",
    "regex",
    "output_lt",
    "output_gt",
    "file_exists",
    "not_empty",
)
_UNLIKELY_OUTPUT = "\ue000"


def check_regex(pattern: str) -> str:
    """A validator: the expression compiles and cannot take for ever."""
    problem = regex_problem(pattern)
    if problem:
        raise ValueError(problem)
    return pattern


def check_path(path: str) -> str:
    """A validator: the path stays where it starts, whatever directory that is.

    Which directories are permitted is decided by whoever looks the file up.
    """
    if any(ord(char) < 32 for char in path):
        raise ValueError("a path must not contain control characters")
    if ".." in re.split(r"[/\\]", path):
        raise ValueError("a path must not contain `..`; name a file below the working directory")
    if path.startswith("~"):
        raise ValueError("a path must not start with `~`; write it out")
    return path


def _decides_something(pattern: str) -> str:
    expression = compiled(pattern)
    if expression.search("") and expression.search(_UNLIKELY_OUTPUT):
        raise ValueError("this matches any output; a check must be able to fail")
    return pattern


SafeRegex = Annotated[str, Field(min_length=1), AfterValidator(check_regex)]
SafePath = Annotated[str, Field(min_length=1, max_length=4096), AfterValidator(check_path)]
Finite = Annotated[float, Field(allow_inf_nan=False)]


class Expectation(Data):
    """A deterministic predicate about a command's output, exit code or files; exactly one is set.

    `output_lt` and `output_gt` read the output as a number. `file_exists` is looked up only inside
    directories that the runtime permits.
    """

    exit_code: int | None = Field(default=None, ge=0, le=255)
    equals: str | None = None
    contains: str | None = Field(default=None, min_length=1)
    regex: Annotated[SafeRegex, AfterValidator(_decides_something)] | None = None
    output_lt: Finite | None = None
    output_gt: Finite | None = None
    file_exists: SafePath | None = None
    not_empty: bool | None = None

    @model_validator(mode="after")
    def _exactly_one(self) -> Self:
        if len(self.predicates) != 1:
            found = ", ".join(self.predicates) or "none"
            raise ValueError(f"set exactly one of {', '.join(_PREDICATES)} (set here: {found})")
        return self

    @property
    def predicates(self) -> tuple[str, ...]:
        """The names of the predicates that are set; `not_empty: false` asks for nothing."""
        return tuple(
            name
            for name in _PREDICATES
            if getattr(self, name) is not None and not (name == "not_empty" and not self.not_empty)
        )


def judge_output(expect: Expectation, output: str, exit_code: int) -> tuple[bool, str]:
    """Whether a command's output and exit code are as expected, and why (not).

    A file is not looked for: whoever knows the permitted directories does that.
    """
    (named,) = expect.predicates
    wanted = getattr(expect, named)
    if named == "exit_code":
        return exit_code == wanted, f"exit code {exit_code}, expected {wanted}"
    if named in ("output_lt", "output_gt"):
        return _compare(named, output, wanted)
    if named == "regex":
        passed = compiled(wanted).search(output)
    elif named == "contains":
        passed = wanted in output
    elif named == "equals":
        passed = output == wanted
    else:
        passed = named == "not_empty" and bool(output)
    return passed, f"{named}: {'as expected' if passed else 'not as expected'}"


def _compare(named: str, output: str, wanted: float) -> tuple[bool, str]:
    try:
        number = float(output)
    except ValueError:
        return False, "the output is not a number"
    if not math.isfinite(number):
        return False, "the output is not a finite number"
    passed = number < wanted if named == "output_lt" else number > wanted
    return passed, f"{number:g}, expected {'below' if named == 'output_lt' else 'above'} {wanted:g}"


ALLOWED_MUTATIONS = frozenset({"response", "message", "tool_args"})
"""The only keys that a gate's `modified_context` may change; the gate runner drops the others."""

Name = Annotated[
    str,
    text_like(
        r"[A-Za-z_][A-Za-z0-9_.-]{0,127}", "must be one word of letters, digits, `_`, `-` and `.`"
    ),
]


class GateType(StrEnum):
    """What kind of check it is."""

    NUMERIC_RANGE = "numeric_range"
    STRING_MATCH = "string_match"
    REGEX = "regex"
    FILE_VALID = "file_valid"
    APPROVAL_ALWAYS = "approval_always"
    CUSTOM_CHECK = "custom_check"


class GateLane(StrEnum):
    """Whether a gate decides (`policy`) or only observes (`quality`)."""

    POLICY = "policy"
    QUALITY = "quality"


class GateProvider(StrEnum):
    """Who evaluates a gate."""

    GUARDRAILS_AI = "guardrails_ai"
    PREDICATE = "predicate"
    LLM = "llm"
    SCRIPT = "script"
    CUSTOM = "custom"


class GateTrigger(StrEnum):
    """When a gate looks."""

    EVERY_USER_MESSAGE = "every_user_message"
    EVERY_AGENT_RESPONSE = "every_agent_response"
    AFTER_STEP = "after_step"
    ON_TOOL_CALL = "on_tool_call"


class GateAction(StrEnum):
    """What a gate says; later values are stricter."""

    CONTINUE = "continue"
    REQUIRE_APPROVAL = "require_approval"
    BLOCK = "block"


class NumericRange(Data):
    """Numbers from `min` to `max`, both included."""

    min: Finite
    max: Finite

    @model_validator(mode="after")
    def _not_empty(self) -> Self:
        if self.min > self.max:
            raise ValueError("min is above max: no number is in this range")
        return self


class BlockRange(Data):
    """Numbers outside `outside` = [low, high] are blocked, whatever else is said."""

    outside: tuple[Finite, Finite]

    @model_validator(mode="after")
    def _not_empty(self) -> Self:
        if self.outside[0] > self.outside[1]:
            raise ValueError("outside must be [low, high]")
        return self


Example = str | Finite | dict[str, Any]
"""A value as the gate would find it, or a whole context to look at."""


class Gate(Data):
    """One check: it lets pass, blocks, or asks the owner."""

    name: Name
    on: GateTrigger
    after_step: int | None = Field(default=None, ge=0)
    provider: GateProvider = GateProvider.PREDICATE
    type: GateType = GateType.STRING_MATCH
    check: str | None = Field(default=None, min_length=1)
    config: dict[str, Any] = Field(default_factory=dict)
    extract: str | None = Field(default=None, min_length=1)
    auto_approve: NumericRange | None = None
    require_approval: NumericRange | None = None
    block: BlockRange | None = None
    allowed_values: list[str] | None = None
    approval_values: list[str] | None = None
    on_block: Name = "report"
    check_command: str | None = Field(default=None, min_length=1)
    check_expect: Expectation | None = None
    promote_to_policy: bool = False
    match: list[Example] = Field(default_factory=list)
    not_match: list[Example] = Field(default_factory=list)
    """Examples, checked when the gate is loaded: what it must catch, and what it must let pass."""

    @property
    def lane(self) -> GateLane:
        """`llm` only observes, unless it was promoted; every other provider decides."""
        observes = self.provider is GateProvider.LLM and not self.promote_to_policy
        return GateLane.QUALITY if observes else GateLane.POLICY

    @model_serializer(mode="wrap")
    def _without_empty_examples(self, written: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Examples are in the bytes of every gate that has them, and leave the others alone."""
        fields: dict[str, Any] = written(self)
        return {name: value for name, value in fields.items() if value or name not in _EXAMPLES}

    @model_validator(mode="after")
    def _can_work(self) -> Self:
        refuse([*_trigger_problems(self), *_provider_problems(self), *_type_problems(self)])
        return self


def _trigger_problems(gate: Gate) -> Iterator[FieldProblem]:
    wants_step = gate.on is GateTrigger.AFTER_STEP
    if wants_step and gate.after_step is None:
        yield FieldProblem(("after_step",), "is missing; say after which step (0, 1, …)")
    if not wants_step and gate.after_step is not None:
        yield FieldProblem(("after_step",), "is used only with `on: after_step`")


def _provider_problems(gate: Gate) -> Iterator[FieldProblem]:
    named = gate.check is not None or gate.check_command is not None
    if gate.provider in _NEED_A_CHECK and not named:
        yield FieldProblem(("check",), f"is missing; {_NEED_A_CHECK[gate.provider]}")
    if gate.type is GateType.CUSTOM_CHECK and gate.provider not in _CUSTOM_CHECKERS:
        yield FieldProblem(("provider",), "must be script or custom for a custom_check")
    if gate.provider is not GateProvider.SCRIPT:
        for name in ("check_command", "check_expect"):
            if getattr(gate, name) is not None:
                yield FieldProblem((name,), "is used only with `provider: script`")
    if gate.provider is GateProvider.LLM:
        for name in sorted(_EXAMPLES):
            if getattr(gate, name):
                yield FieldProblem((name,), "cannot be promised for a model's opinion")


def _type_problems(gate: Gate) -> Iterator[FieldProblem]:
    """The values that a type judges by must be there, and no other type's."""
    for owner, names in _FIELDS_OF_TYPE.items():
        for name in names:
            if gate.type is not owner and getattr(gate, name) is not None:
                yield FieldProblem((name,), f"is used only with `type: {owner.value}`")
    if not _judges_a_value(gate):
        return
    if gate.type in (GateType.NUMERIC_RANGE, GateType.FILE_VALID) and gate.extract is None:
        yield FieldProblem(("extract",), "is missing; name the value to look at")
    if gate.type is GateType.NUMERIC_RANGE and not (gate.auto_approve or gate.require_approval):
        yield FieldProblem(("auto_approve",), "or require_approval is needed: nothing could pass")
    if gate.type is GateType.STRING_MATCH and not (gate.allowed_values or gate.approval_values):
        yield FieldProblem(("allowed_values",), "or approval_values is needed: nothing could pass")
    if gate.type is GateType.REGEX:
        problem = _pattern_problem(gate.config)
        if problem:
            yield FieldProblem(("config", "pattern"), problem)


def _judges_a_value(gate: Gate) -> bool:
    """Whether the built-in predicates decide: always for `predicate`, for a script's value too."""
    extracted = gate.provider is GateProvider.SCRIPT and gate.extract is not None
    return gate.provider is GateProvider.PREDICATE or (extracted and gate.check_expect is None)


def _pattern_problem(config: Mapping[str, Any]) -> str | None:
    pattern = config.get("pattern")
    if not isinstance(pattern, str) or not pattern:
        return "is missing; write the regular expression that a good value matches"
    return regex_problem(pattern)


_EXAMPLES = {"match", "not_match"}
_CUSTOM_CHECKERS = {GateProvider.SCRIPT, GateProvider.CUSTOM}
_NEED_A_CHECK = {
    GateProvider.GUARDRAILS_AI: "name the validator, such as `jailbreak` or `pii`",
    GateProvider.SCRIPT: "write the command to run",
    GateProvider.CUSTOM: "name the callable",
    GateProvider.LLM: "write what the model is to judge",
}
_FIELDS_OF_TYPE = {
    GateType.NUMERIC_RANGE: ("auto_approve", "require_approval", "block"),
    GateType.STRING_MATCH: ("allowed_values", "approval_values"),
}


class GateResult(Data):
    """What a provider said about one value.

    This is the provider's word, not yet the decision: the gate runner ignores a `block` from the
    quality lane and drops keys of `modified_context` that are not in `ALLOWED_MUTATIONS`, and it
    writes both down.
    """

    gate_name: str
    lane: GateLane
    action: GateAction
    reason: str
    value: str | float | None = None
    score: float | None = Field(default=None, ge=0.0, le=1.0)
    flags: list[str] = Field(default_factory=list)
    modified_context: dict[str, Any] | None = None
    taint_sources: list[str] = Field(default_factory=list)
    """Where the foreign content came from that made the gate ask."""


class AccessLevel(Data):
    """Which tools a visitor may use once the required gates have been passed."""

    description: str
    tools: list[str] = Field(default_factory=list)
    requires: list[str] = Field(default_factory=list)
    expires_after: int | None = Field(default=None, gt=0)


_STRICTNESS = {action: rank for rank, action in enumerate(GateAction)}


def strictest(results: Iterable[GateResult]) -> GateAction:
    """What all results together mean. Where no gate looks, nothing stands in the way."""
    actions = [result.action for result in results]
    return max(actions, key=_STRICTNESS.__getitem__, default=GateAction.CONTINUE)


def passes(gate: Gate, reason: str = "", **more: Any) -> GateResult:
    """The gate lets it pass."""
    return _result(gate, GateAction.CONTINUE, reason, more)


def asks(gate: Gate, reason: str, **more: Any) -> GateResult:
    """The owner has to decide."""
    return _result(gate, GateAction.REQUIRE_APPROVAL, reason, more)


def blocks(gate: Gate, reason: str, **more: Any) -> GateResult:
    """The gate stops it."""
    return _result(gate, GateAction.BLOCK, reason, more)


def _result(gate: Gate, action: GateAction, reason: str, more: dict[str, Any]) -> GateResult:
    return GateResult(gate_name=gate.name, lane=gate.lane, action=action, reason=reason, **more)


class GateCheckProvider(Protocol):
    """Evaluates the gates of one provider name. Not registered: its gates block."""

    async def check(self, gate: Gate, context: dict[str, Any]) -> GateResult:
        """The provider's word about one gate; whatever it raises counts as a block."""
        ...

    def problem(self, gate: Gate) -> str | None:
        """Why this gate can never be evaluated here, as a sentence; None if it can."""
        ...


class CommandOutcome(Data):
    """What a gate's script did. `stopped` says why it did not end by itself."""

    exit_code: int
    output: bytes
    truncated: bool = False
    stopped: str | None = None


class CommandRunner(Protocol):
    """Runs the command of a script gate, contained. Absent: script gates block."""

    async def run(self, command: str, *, env: Mapping[str, str], seconds: int) -> CommandOutcome:
        """Run the command in the gates' own directory; raises `SilasError` if it cannot."""
        ...


class GateModel(Protocol):
    """A language model that is asked one question. Absent: see `LlmProvider`."""

    async def ask(self, prompt: str, *, schema: Mapping[str, Any]) -> str:
        """The model's answer as text; raises `SilasError` if there is none.

        `schema` is the JSON schema of the answer, for models that can be held to one.
        """
        ...


class GateBlock(Data):
    """One block, as whoever handles it needs to know it."""

    gate_name: str
    reason: str
    sender_id: str = ""
    on_block: str = "report"
    context: dict[str, Any] = Field(default_factory=dict)


class EscalationHandler(Protocol):
    """The channel and the runtime, as far as escalations need them. It may raise `SilasError`."""

    async def send(self, message: str) -> None:
        """Show the user a message."""
        ...

    async def hand_over(self, message: str | None) -> bool:
        """Ask a person to take over; False if this channel has nobody to ask."""
        ...

    async def transfer(self, queue: str) -> None:
        """Move the conversation to a queue of the channel."""
        ...

    async def rephrase(self, instruction: str) -> bool:
        """Have the agent answer anew; True if the new answer passed the gates and was sent."""
        ...

    async def retry(self) -> bool:
        """Do the current step again; True if it passed."""
        ...

    async def spawn_task(self, block: GateBlock) -> None:
        """Make a task that repairs what went wrong; it needs its own approval."""
        ...

    async def notify_owner(self, text: str) -> None:
        """Tell the owner."""
        ...
