"""Gates: what is checked, when, by whom, and what came of it.

A gate's `type` says how the value is judged, its `provider` who judges. `Gate` refuses a
combination that could never let anything pass or never look at anything: such a gate is a mistake,
and a mistake in a guard must be found when it is written, not when it is needed.
"""

from collections.abc import Iterator, Mapping
from enum import StrEnum
from typing import Annotated, Any, Self

from pydantic import Field, SerializerFunctionWrapHandler, model_serializer, model_validator

from silas.gates.expectations import Expectation, Finite
from silas.kernel.field_problems import FieldProblem, refuse, text_like
from silas.kernel.models import Data
from silas.kernel.safe_regex import regex_problem

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
