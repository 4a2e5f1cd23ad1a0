"""Settings of the guards: sandbox, approval, nonces, audit, gates."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from pydantic import ConfigDict, Field

from silas.gates import Gate, GateProvider, GateTrigger
from silas.settings.fields import (
    Count,
    Days,
    FilePath,
    Minutes,
    ModelName,
    Number,
    Seconds,
    Section,
    Text,
    Whole,
)

# The words of `silas.approval.models`, which is not imported: it brings the cryptography along.
Scope = Literal[
    "full_plan",
    "single_step",
    "step_range",
    "tool_type",
    "skill_install",
    "credential_use",
    "budget",
    "self_update",
    "connection_act",
    "connection_manage",
    "autonomy_threshold",
    "standing",
]
Strength = Literal["tap", "slide", "biometric", "biometric_confirm", "passkey", "vault"]


_GATE_FIELDS = {
    "name": "The name of the gate, used once only.",
    "on": "When the gate looks.",
    "after_step": "After which step it looks, if `on` is after_step.",
    "provider": "Who evaluates the gate.",
    "type": "What kind of check it is.",
    "check": "The provider's name for the check.",
    "config": "What the provider needs to know.",
    "extract": "The value of the context to look at.",
    "auto_approve": "The range that passes.",
    "require_approval": "The range that the owner is asked about.",
    "block": "The range outside of which everything is blocked.",
    "allowed_values": "Values that pass.",
    "approval_values": "Values that the owner is asked about.",
    "on_block": "What happens if the gate blocks.",
    "check_command": "The command of a custom_check.",
    "check_expect": "What the command of a custom_check must give.",
    "promote_to_policy": "Whether a gate of the provider llm may block.",
    "match": "Examples that the gate must catch; it does not load otherwise.",
    "not_match": "Examples that the gate must let pass; it does not load otherwise.",
}


def _describe_gate(schema: dict[str, Any]) -> None:
    for name, field in schema["properties"].items():
        field["description"] = _GATE_FIELDS[name]


class SandboxSettings(Section):
    """Where commands run, and what they may use."""

    backend: Literal["auto", "bubblewrap", "subprocess", "docker"] = Field(
        "auto", description="What contains a command; auto is bubblewrap if there, else subprocess."
    )
    base_image: Text = Field("python:3.12-slim", description="The image of the docker backend.")
    default_memory_mb: Whole = Field(
        512, ge=16, le=1_048_576, description="Memory of one command, in megabytes."
    )
    default_cpu_seconds: Seconds = Field(60, description="Processor time of one command.")
    verify_dir: FilePath = Field(
        Path("data/verify"), description="Where checks run; default: verify in data_dir."
    )
    customer_context_dir: FilePath = Field(
        Path("data/customer_context"),
        description="Where customers' files are kept; default: customer_context in data_dir.",
    )


def _default_strengths() -> dict[Scope, Strength]:
    return {
        "self_update": "tap",
        "connection_act": "tap",
        "connection_manage": "tap",
        "autonomy_threshold": "tap",
        "skill_install": "tap",
    }


class ApprovalSettings(Section):
    """How long and how often the owner's approval is valid."""

    default_ttl_minutes: Minutes = Field(30, description="How long an approval is valid.")
    standing_ttl_days: Count = Field(
        90, description="How long the standing approval of a goal is valid, in days."
    )
    max_executions: Count = Field(1, description="How often an approval may be used.")
    auto_approve_risk_levels: tuple[Literal["low", "medium", "high", "irreversible"], ...] = Field(
        (), description="Must be empty: nothing is executed without your signed approval."
    )
    scope_min_strength: Mapping[Scope, Strength] = Field(
        default_factory=_default_strengths,
        description="How the owner must be recognised for each scope; a scope not named: tap.",
    )


class UndoSettings(Section):
    """How long Silas can give back what it has changed or removed."""

    window_minutes: Minutes = Field(
        5,
        description="Minutes for which what was done is taken back with one tap; after them it "
        "takes a plan.",
    )
    delay_sending: bool = Field(
        False,
        description="Whether a letter that you approved leaves only when these minutes are over; "
        "until then one tap keeps it here.",
    )
    keep_days: Days = Field(
        30, description="Days for which what files held before a change or removal is kept."
    )


class NonceStoreSettings(Section):
    """How long used nonces of approvals are remembered; those of messages are, for over a year."""

    ttl_minutes: Minutes = Field(
        40, description="At least approval.default_ttl_minutes and ten minutes more."
    )
    prune_interval_minutes: Minutes = Field(10, description="How often old nonces are removed.")


class AuditSettings(Section):
    """The log of everything that happened."""

    retention_days: Days | None = Field(
        None, description="How long entries are kept; null keeps them for ever."
    )
    checkpoint_every: Count = Field(
        1024, description="Entries between two signed checkpoints of the chain."
    )


class SystemGate(Gate):
    """A gate that is always active, before those of a plan."""

    model_config = ConfigDict(defer_build=True, json_schema_extra=_describe_gate)


class LlmGateSettings(Section):
    """How gates of the provider llm ask."""

    model: ModelName | None = Field(
        None, description="The model, as `provider:model`; null is the one of models.scorer."
    )
    temperature: Number = Field(0.0, ge=0.0, le=2.0, description="How freely the model answers.")
    timeout_seconds: Seconds = Field(8, description="How long an answer may take.")
    max_tokens: Count = Field(256, description="Longest answer.")


def _default_gates() -> tuple[SystemGate, ...]:
    return (
        SystemGate(
            name="input_guard",
            on=GateTrigger.EVERY_USER_MESSAGE,
            provider=GateProvider.GUARDRAILS_AI,
            check="jailbreak",
            on_block="polite_redirect",
        ),
        SystemGate(
            name="pii_scrub",
            on=GateTrigger.EVERY_AGENT_RESPONSE,
            provider=GateProvider.GUARDRAILS_AI,
            check="pii",
            on_block="report",
        ),
        # A link can carry away what the answer knows, also without a click: programs show previews.
        SystemGate(
            name="link_guard",
            on=GateTrigger.EVERY_AGENT_RESPONSE,
            provider=GateProvider.GUARDRAILS_AI,
            check="urls",
            on_block="report",
        ),
        # A key in an answer ends in the history of every device, and in what a model reads next.
        SystemGate(
            name="secret_guard",
            on=GateTrigger.EVERY_AGENT_RESPONSE,
            provider=GateProvider.GUARDRAILS_AI,
            check="secrets",
            on_block="report",
        ),
    )


class GatesSettings(Section):
    """What every message and answer has to pass."""

    system: tuple[SystemGate, ...] = Field(
        default_factory=_default_gates,
        description="Gates that are always active, before those of a plan.",
    )
    llm_defaults: LlmGateSettings = Field(default_factory=LlmGateSettings)
