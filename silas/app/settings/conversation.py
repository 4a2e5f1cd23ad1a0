"""Settings of what Silas keeps in mind, and of how it takes the initiative."""

import math
from collections.abc import Mapping
from typing import Literal, Self

from pydantic import Field, model_validator

from silas.app.settings.fields import (
    Count,
    Cron,
    Days,
    Minutes,
    Number,
    Section,
    Share,
    Whole,
    Word,
)

Register = Literal["exploration", "execution", "review", "status"]
Mode = Literal["default_and_offer", "act_and_report", "confirm_only_when_required"]

_MAX_PROFILE_SUM = 0.80


class ContextProfileSettings(Section):
    """How one kind of task divides the context among its zones."""

    chronicle_pct: Share = Field(description="Share for the conversation so far.")
    memory_pct: Share = Field(description="Share for recalled memories.")
    workspace_pct: Share = Field(description="Share for active plans and results.")

    @model_validator(mode="after")
    def _leave_headroom(self) -> Self:
        total = math.fsum((self.chronicle_pct, self.memory_pct, self.workspace_pct))
        if total > _MAX_PROFILE_SUM + 1e-9:  # 0.45 + 0.20 + 0.15 is a little more than 0.80
            raise ValueError(f"must add up to at most {_MAX_PROFILE_SUM:.2f}, not {total:.2f}")
        return self


def _profile(chronicle: float, memory: float, workspace: float) -> ContextProfileSettings:
    return ContextProfileSettings(
        chronicle_pct=chronicle, memory_pct=memory, workspace_pct=workspace
    )


def _default_profiles() -> dict[str, ContextProfileSettings]:
    return {
        "conversation": _profile(0.45, 0.20, 0.15),
        "coding": _profile(0.20, 0.20, 0.40),
        "research": _profile(0.20, 0.40, 0.20),
        "support": _profile(0.40, 0.25, 0.15),
    }


class ContextSettings(Section):
    """The token budget of what a model sees, and when something has to leave it."""

    total_tokens: Count = Field(180_000, description="Size of the context window, in tokens.")
    system_max: Count = Field(8_000, description="Most tokens that the system zone may take.")
    skill_metadata_budget_pct: Number = Field(
        0.02,
        ge=0.0,
        le=0.10,
        description="Share of the window for descriptions of skills not in use.",
    )
    eviction_threshold_pct: Share = Field(
        0.80, description="Usage from which simple rules start to evict."
    )
    scorer_threshold_pct: Share = Field(
        0.90, description="Usage from which the scorer model helps to evict."
    )
    max_subscription_tokens: Count = Field(
        2_000, description="Most tokens of one subscription's content."
    )
    subscription_ttl_turns: Count = Field(
        10, description="Turns without a mention after which a subscription ends."
    )
    observation_mask_after_turns: Count = Field(
        5, description="Turns after which a tool's result is masked."
    )
    session_idle_minutes: Minutes = Field(
        30, description="Silence after which what is said next is another session."
    )
    token_counter: Literal["estimate", "llamacpp", "anthropic"] = Field(
        "estimate",
        description="Who counts tokens: Silas estimates them, or the server of models.proxy does.",
    )
    chronicle_days: Count = Field(
        90, description="Days after which what was said moves from the chronicle to the archive."
    )
    default_profile: Word = Field(
        "conversation", description="The profile in use when routing names none."
    )
    profiles: Mapping[Word, ContextProfileSettings] = Field(
        default_factory=_default_profiles,
        description="Budget per kind of task; the shares of one profile add up to at most 0.80.",
    )


class RehydrationSettings(Section):
    """What is brought back after a restart."""

    max_chronicle_entries: Count = Field(
        50, description="How many entries of each conversation are reloaded."
    )


class MemorySettings(Section):
    """How memories are stored, found again and condensed."""

    embedding_model: Literal["all-MiniLM-L6-v2", "none"] = Field(
        "all-MiniLM-L6-v2", description="The model that turns text into vectors; none: words only."
    )
    embedding_dim: Whole = Field(384, ge=1, le=65_536, description="Length of those vectors.")
    consolidation_interval_minutes: Minutes = Field(
        30, description="How often memories are condensed."
    )
    stale_after_days: Count = Field(
        180, description="Days without a look at it after which a memory moves to the raw lane."
    )
    raw_reingestion_enabled: bool = Field(
        True, description="Whether raw conversations and tool results are kept as well."
    )
    raw_reingestion_default_tier: Literal["active", "low_reingestion"] = Field(
        "low_reingestion", description="How readily raw records come back into the context."
    )
    portability_bundle_format: Literal["jsonl-v1"] = Field(
        "jsonl-v1", description="The format of exported memories."
    )


def _default_modes() -> dict[Register, Mode]:
    return {
        "exploration": "default_and_offer",
        "execution": "act_and_report",
        "review": "confirm_only_when_required",
        "status": "default_and_offer",
    }


class InteractionSettings(Section):
    """How assertively Silas proceeds; no setting here replaces an approval."""

    high_initiative_min: Share = Field(
        0.65, description="Initiative from which Silas proceeds by itself and reports."
    )
    default_mode_by_register: Mapping[Register, Mode] = Field(
        default_factory=_default_modes,
        description="The mode for each kind of turn; all four kinds must be there.",
    )
    require_confirmation_on_material_ambiguity: bool = Field(
        True, description="Whether Silas asks when a request could mean different things."
    )


class SuggestionSettings(Section):
    """When Silas may come forward with something by itself."""

    enabled: bool = Field(True, description="Whether there are suggestions; needs the scheduler.")
    heartbeat_cron: Cron = Field(
        "*/15 * * * *", description="When Silas looks for something to suggest."
    )
    cooldown_minutes: Minutes = Field(120, description="Shortest time between two suggestions.")
    max_pending_per_scope: Count = Field(
        5, description="Most suggestions waiting for an answer in one conversation."
    )
    dedupe_window_minutes: Minutes = Field(
        180, description="Time within which the same suggestion is not made again."
    )


class BehaviorPreferenceSettings(Section):
    """What Silas may conclude about the owner's preferences."""

    enabled: bool = Field(True, description="Whether Silas learns preferences from decisions.")
    promotion_requires_confirmation: bool = Field(
        True, description="Whether a preference lasts only after the owner confirms it."
    )
    max_new_inferences_per_day: Count = Field(
        20, description="Most new preferences that are inferred on one day."
    )


class ConfidenceSettings(Section):
    """Where the bands of confidence begin."""

    high_min: Share = Field(0.85, description="Confidence from which an item joins a batch.")
    medium_min: Share = Field(0.50, description="Confidence from which an item becomes a draft.")


class BatchReviewSettings(Section):
    """How many items one review card holds, and which."""

    default_size: Count = Field(10, description="Items on one batch review card.")
    confidence: ConfidenceSettings = Field(default_factory=ConfidenceSettings)


class AutonomySettings(Section):
    """When Silas proposes to be given more freedom, or less; the owner decides each time."""

    enabled: bool = Field(True, description="Whether thresholds are proposed at all.")
    min_samples: Count = Field(30, description="Actions needed before anything is proposed.")
    window_actions: Count = Field(50, description="How many of the last actions are looked at.")
    window_days: Days = Field(14, description="How many of the last days are looked at.")
    widen_correction_rate_max: Share = Field(
        0.05, description="Rate of corrections up to which more freedom is proposed."
    )
    tighten_correction_rate_min: Share = Field(
        0.20, description="Rate of corrections from which less freedom is proposed."
    )
    hysteresis_delta: Share = Field(
        0.05, description="How far the rate must move before the direction changes."
    )
    max_standing_executions: Count = Field(
        100, description="Most uses that a standing approval can be given."
    )
    max_batch_review_size: Whole = Field(
        50, ge=1, le=10_000, description="Most items that a batch can grow to."
    )
    min_high_confidence: Share = Field(
        0.70, description="Lowest value that the high confidence band can be moved to."
    )
