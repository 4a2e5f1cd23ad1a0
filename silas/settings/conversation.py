"""Settings of a conversation: context, memory, initiative, and personality.

Those of the personality shape wording and pace, never a decision about trust.
"""

import math
from collections.abc import Mapping
from typing import Literal, Self

from pydantic import Field, model_validator

from silas.settings.fields import (
    Count,
    Cron,
    Days,
    Delta,
    Minutes,
    Number,
    Section,
    Share,
    Text,
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
    grant_after: Whole = Field(
        12,
        ge=3,
        le=1000,
        description="Approvals in a row, unchanged, after which a standing grant is proposed.",
    )
    grant_days: Whole = Field(
        30, ge=1, le=90, description="How many days a standing grant is proposed for."
    )
    grant_uses_per_day: Count = Field(
        5, description="Uses a day that a standing grant is proposed for."
    )


Axis = Literal[
    "warmth", "assertiveness", "verbosity", "formality", "humor", "initiative", "certainty"
]
Mood = Literal["energy", "patience", "curiosity", "frustration"]
AxisDeltas = Mapping[Axis, Delta]
MoodDeltas = Mapping[Mood, Delta]


class AxisSettings(Section):
    """Where Silas stands on each axis when nothing moves it."""

    warmth: Share = Field(0.50, description="From clinical (0) to caring (1).")
    assertiveness: Share = Field(0.75, description="From deferential (0) to confrontational (1).")
    verbosity: Share = Field(0.30, description="From terse (0) to elaborate (1).")
    formality: Share = Field(0.30, description="From casual (0) to professional (1).")
    humor: Share = Field(0.40, description="From dry (0) to playful (1).")
    initiative: Share = Field(0.70, description="From reactive (0) to proactive (1).")
    certainty: Share = Field(0.80, description="From hedging (0) to declarative (1).")


class NeutralMoodSettings(Section):
    """The mood that Silas returns to."""

    energy: Share = Field(0.50, description="Drive.")
    patience: Share = Field(0.50, description="Tolerance for repetition and failure.")
    curiosity: Share = Field(0.50, description="Interest in what is new.")
    frustration: Share = Field(0.50, description="Pressure from what is in the way.")


class EventWeightSettings(Section):
    """What one kind of event does to mood and axes."""

    mood: MoodDeltas = Field(default_factory=dict, description="How the mood moves.")
    axes: AxisDeltas = Field(default_factory=dict, description="How the axes move.")


def _event(mood: MoodDeltas | None = None, axes: AxisDeltas | None = None) -> EventWeightSettings:
    return EventWeightSettings(mood=mood or {}, axes=axes or {})


def _default_events() -> dict[str, EventWeightSettings]:
    return {
        "task_completed": _event({"energy": 0.05, "frustration": -0.10}),
        "ci_failure": _event({"frustration": 0.10, "patience": -0.05}),
        "blocked": _event({"frustration": 0.08, "patience": -0.04}),
        "compliment": _event({"energy": 0.10}, {"warmth": 0.05}),
        "feedback_too_harsh": _event(axes={"assertiveness": -0.05}),
    }


class MoodSettings(Section):
    """How events move the mood."""

    neutral: NeutralMoodSettings = Field(default_factory=NeutralMoodSettings)
    event_weights: Mapping[Word, EventWeightSettings] = Field(
        default_factory=_default_events, description="What each kind of event does to the mood."
    )


class VoiceSettings(Section):
    """Tone and habits of speech."""

    tone: Text = Field("direct, pragmatic, concise", description="The tone, in a few words.")
    quirks: tuple[Text, ...] = Field(
        ("names tradeoffs explicitly", "states assumptions"), description="Small habits."
    )
    speech_patterns: tuple[Text, ...] = Field(
        ("short actionable bullets", "clear next-step phrasing"), description="Preferred phrasing."
    )
    anti_patterns: tuple[Text, ...] = Field(
        ("sycophantic agreement", "vague hedging", "performative hype"),
        description="Habits to avoid.",
    )


def _default_contexts() -> dict[str, AxisDeltas]:
    return {
        "code_review": {
            "assertiveness": 0.20,
            "certainty": 0.10,
            "humor": -0.20,
            "verbosity": 0.10,
        },
        "casual_chat": {"warmth": 0.20, "humor": 0.30, "formality": -0.30, "verbosity": -0.10},
        "crisis": {"verbosity": -0.30, "assertiveness": 0.20, "initiative": 0.30, "humor": -0.50},
        "group_chat": {"assertiveness": -0.10, "verbosity": -0.20, "initiative": -0.20},
        "deep_research": {"verbosity": 0.30, "certainty": -0.20, "humor": -0.30, "formality": 0.10},
    }


def _default_presets() -> dict[str, Mapping[Axis, Share]]:
    return {
        "default": {},
        "work": {"formality": 0.70, "humor": 0.10, "assertiveness": 0.80},
        "chill": {"warmth": 0.75, "humor": 0.70, "formality": 0.10, "assertiveness": 0.55},
        "review": {"humor": 0.00, "verbosity": 0.55, "assertiveness": 0.90, "certainty": 0.85},
    }


def _default_context_words() -> dict[str, tuple[str, ...]]:
    return {
        "crisis": (
            *("urgent", "emergency", "outage", "asap", "right now", "is down", "went down"),
            *("on fire", "hacked", "leaked", "data loss"),
        ),
        "code_review": (
            *("review", "diff", "pull request", "merge request", "refactor", "lint", "commit"),
        ),
        "deep_research": (
            *("research", "compare", "analyse", "analyze", "investigate", "literature"),
            *("sources", "in depth", "deeper"),
        ),
        "group_chat": ("everyone", "everybody", "all of you", "you all", "hi all", "hello team"),
        "casual_chat": (
            *("hi", "hello", "hey", "good morning", "good evening", "how are you", "thanks"),
            *("thank you", "lol", "haha", "joke"),
        ),
    }


def _default_preset_voices() -> dict[str, VoiceSettings]:
    return {
        "work": VoiceSettings(tone="professional, factual, to the point"),
        "chill": VoiceSettings(
            tone="relaxed, friendly, a little playful", quirks=("light asides",)
        ),
        "review": VoiceSettings(
            tone="critical, precise, fair", quirks=("names the weakest point first",)
        ),
    }


class PersonalitySettings(Section):
    """How Silas sounds. Nothing here can change what is allowed."""

    enabled: bool = Field(True, description="Whether Silas has a manner of its own.")
    directive_tokens_min: Whole = Field(
        200, ge=0, le=350, description="Shortest description of the manner; less is filled up."
    )
    directive_tokens_max: Whole = Field(
        400,
        ge=200,
        le=10_000,
        description="Longest description of the manner; habits of the voice are left out first.",
    )
    decay_rate_per_hour: Share = Field(
        0.10, description="How fast the mood returns to neutral, per hour."
    )
    baseline: AxisSettings = Field(default_factory=AxisSettings)
    contexts: Mapping[Word, AxisDeltas] = Field(
        default_factory=_default_contexts,
        description="How each situation moves the axes, from -1 to 1.",
    )
    context_words: Mapping[Word, tuple[Text, ...]] = Field(
        default_factory=_default_context_words,
        description="Words by which a message is told to belong to a situation, the first one that "
        "fits; each is one of contexts.",
    )
    mood: MoodSettings = Field(default_factory=MoodSettings)
    constitution: tuple[Text, ...] = Field(
        (
            "Never fabricate information",
            "Defend reasoning under pressure",
            "Private data stays private",
            "Own mistakes immediately",
        ),
        description="Rules that no mood or preset can change.",
    )
    voice: VoiceSettings = Field(default_factory=VoiceSettings)
    presets: Mapping[Word, Mapping[Axis, Share]] = Field(
        default_factory=_default_presets,
        description="Named positions on the axes that the owner can choose.",
    )
    preset_voices: Mapping[Word, VoiceSettings] = Field(
        default_factory=_default_preset_voices,
        description="The voice of each preset; one that is not named here has the voice above.",
    )
