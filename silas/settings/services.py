"""Settings of what Silas works with: models, search, channels, skills, companions; and its limits.

An API key is never written here: a setting names the secret or the variable that holds it.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Literal, TypeAlias

from pydantic import AfterValidator, BeforeValidator, Field
from pydantic_core import PydanticCustomError

from silas.agents.models.providers import provider_problem
from silas.kernel.models import text_like
from silas.settings.fields import (
    Count,
    Cron,
    Days,
    Domain,
    FilePath,
    Host,
    HttpAddress,
    ModelName,
    NullIfUnset,
    Number,
    Seconds,
    Secret,
    Section,
    Text,
    TimeZone,
    Whole,
)


class SearchSettings(Section):
    """Web search. Without a provider or a key, the tool web_search is not there."""

    provider: Literal["tavily", "brave", "searxng"] | None = Field(
        "tavily", description="Who searches; null turns search off."
    )
    api_key: Secret | None = Field(
        None,
        description="The provider's key, or the address of your SearXNG; if not set here, "
        "${SEARCH_API_KEY}.",
    )
    timeout_seconds: Seconds = Field(8, description="How long a search may take.")
    max_results: Whole = Field(5, ge=1, le=100, description="Most results of one search.")
    max_query_chars: Whole = Field(300, ge=1, le=10_000, description="Longest query.")
    allowed_domains: tuple[Domain, ...] = Field(
        (), description="Only these domains are searched; an empty list means all."
    )

    @property
    def web_search_enabled(self) -> bool:
        """Whether the tool `web_search` may be registered."""
        return self.provider is not None and self.api_key is not None


class WebSettings(Section):
    """The web page and its API."""

    enabled: bool = Field(True, description="Whether Silas listens for browsers.")
    host: Host = Field(
        "127.0.0.1", description="Address to listen on; any but this machine's needs auth_token."
    )
    port: Whole = Field(8420, ge=1, le=65_535, description="Port to listen on.")
    public_origins: tuple[HttpAddress, ...] = Field(
        (), description="Other addresses of the page, such as https://silas.example.org."
    )
    tls_certificate: FilePath | None = Field(
        None, description="Your certificate chain (PEM): Silas then serves https, and no http."
    )
    tls_key: FilePath | None = Field(
        None, description="The certificate's private key (PEM), which nobody else may read."
    )
    auth_token: Secret | None = Field(
        None, description="What a browser must present; better written as ${VARIABLE}."
    )


def _as_text(value: object) -> object:
    """A chat's id is a number that is not calculated with."""
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else value


class TelegramSettings(Section):
    """Silas as a Telegram bot; this version has none, and refuses to be told to run one."""

    enabled: bool = Field(False, description="Must be false: there is no Telegram channel yet.")
    token: Secret | None = Field(
        None, description="The bot's token; if not set here, ${SILAS_TELEGRAM_TOKEN}."
    )
    owner_chat_id: Annotated[Text, BeforeValidator(_as_text), NullIfUnset()] | None = Field(
        None, description="The owner's chat; if not set here, ${SILAS_TELEGRAM_OWNER_ID}."
    )


class ChannelSettings(Section):
    """Where the owner and Silas talk."""

    web: WebSettings = Field(default_factory=WebSettings)
    telegram: TelegramSettings = Field(default_factory=TelegramSettings)


class LimitSettings(Section):
    """How much may happen in a given time; what is over the limit is refused or waits."""

    ws_messages_per_minute_per_scope: Count = Field(
        60, description="Messages a minute in one conversation."
    )
    messages_per_minute_per_sender: Count = Field(
        60, description="Messages a minute of one person, in whatever conversations."
    )
    ws_messages_per_minute_per_ip: Count = Field(
        240, description="Messages a minute from one address."
    )
    llm_calls_per_minute_per_scope: Count = Field(
        30, description="Calls to models a minute in one conversation."
    )
    web_search_calls_per_minute_per_scope: Count = Field(
        20, description="Web searches a minute in one conversation."
    )
    memory_ops_per_minute_per_scope: Count = Field(
        120, description="Memory operations a minute in one conversation."
    )
    max_memory_ops_per_turn: Count = Field(10, description="Memory operations in one turn.")
    max_gate_evals_per_turn: Count = Field(32, description="Evaluations of gates in one turn.")
    suggestions_per_hour_per_scope: Count = Field(
        6, description="Suggestions an hour in one conversation."
    )
    autonomy_proposals_per_week_per_scope: Count = Field(
        3, description="Proposals about autonomy a week in one conversation."
    )
    unasked_cards_per_day: Count = Field(
        5, description="Cards a day that nobody asked for; the rest is named in one digest."
    )


class BackpressureSettings(Section):
    """What happens when more comes in than can be worked off."""

    max_pending_turns_per_scope: Count = Field(
        20, description="Most turns that wait in one conversation."
    )
    max_pending_turns_total: Count = Field(500, description="Most turns that wait altogether.")
    max_open_cards_per_visitor: Count = Field(
        3, description="Most decisions of the owner's that somebody else's conversation waits for."
    )
    shutdown_grace_seconds: Seconds = Field(
        30, description="How long running turns may finish when Silas is stopped."
    )


class ConnectionSettings(Section):
    """External accounts: how their health is watched and restored."""

    health_check_default: Cron = Field(
        "*/30 * * * *", description="When the health of a connection is checked."
    )
    auto_recovery_enabled: bool = Field(
        True, description="Whether a failed connection is restored without asking."
    )
    recovery_max_attempts: Whole = Field(
        1,
        ge=0,
        le=100,
        description="How often that is tried before the owner is asked: more than 1 counts as 1.",
    )


class SchedulerSettings(Section):
    """The clock for goals, suggestions and health checks."""

    enabled: bool = Field(True, description="Whether anything runs at set times.")
    timezone: TimeZone = Field(
        "Europe/Vienna", description="The owner's time zone, in which cron expressions are read."
    )


class CompanionRetentionSettings(Section):
    """For how many days what companions leave behind is kept; null keeps it for ever."""

    job: Days | None = Field(14, description="Finished compactions, and what was odd.")
    provenance: Days | None = Field(30, description="What the wakes were derived from.")
    trace: Days | None = Field(90, description="Traces of runs, and conversations that are over.")
    wake: Days | None = Field(180, description="The log of wakes, and the plans of their runs.")
    prompt: Days | None = Field(180, description="Questions that are settled, and their answers.")
    budget: Days | None = Field(400, description="What was used, day by day.")
    action_result: Days | None = Field(
        365, description="Messages of the log that a summary has taken up."
    )
    summary: Days | None = Field(
        730, description="Summaries that a summary of summaries has taken up."
    )
    report: Days | None = Field(365, description="Reports that are not the newest ones.")
    persona: Days | None = Field(
        None, description="Versions of a persona that are not in use any more."
    )
    tombstone: Days | None = Field(180, description="What says that something was removed.")
    destroyed: Days | None = Field(365, description="Everything of a companion that was destroyed.")


class CompanionSettings(Section):
    """Companions: long-lived helpers with one purpose each."""

    keep_days: CompanionRetentionSettings = Field(default_factory=CompanionRetentionSettings)
    max_megabytes: Whole | None = Field(
        500,
        ge=10,
        description="How much room all of it may take; beyond that, what explains goes earlier.",
    )
    summary_model_attempts: Whole = Field(
        2, ge=0, le=5, description="How often a model is tried before rules summarise the memory."
    )


class PlannerSettings(Section):
    """Planning, research and self-healing; what work itself may use is in each plan's budget."""

    workspace_dir: FilePath | None = Field(
        Path("~/silas-files"),
        description="Where requests without a place of their own work; null: a place is asked for.",
    )
    research_dir: FilePath | None = Field(
        None,
        description="Research may always read the files below this directory; null: only those of "
        "the folders that a request is about.",
    )
    own_repositories: tuple[str, ...] = Field(
        (),
        description=(
            "Beginnings of remotes that are your own, such as github.com/me/. Files in a copy of "
            "any other repository count as text from outside."
        ),
    )
    research_in_flight: Whole = Field(
        3, ge=1, le=32, description="Most questions that are out at a time for one request."
    )
    research_rounds: Whole = Field(
        5, ge=1, le=100, description="Rounds of research after which the planner must finish."
    )
    research_timeout_seconds: Seconds = Field(
        120, description="How long one question may take to be answered."
    )
    consult_timeout_seconds: Seconds = Field(
        90, description="How long a worker that is stuck waits for the planner's advice."
    )
    max_replans: Whole = Field(
        2, ge=0, le=20, description="New approaches to the same thing before the owner is asked."
    )
    max_tokens_per_turn: Count = Field(
        50_000,
        description="Most tokens of one answer or piece of research, beside the context shown.",
    )
    max_cost_usd_per_turn: Number = Field(
        0.5, ge=0.0, le=1000.0, description="Most that one answer of the proxy may cost, in USD."
    )
    max_tokens_per_request: Count = Field(
        200_000,
        description="Most tokens for one plan and its research; its last reading comes on top.",
    )
    max_cost_usd_per_request: Number = Field(
        2.0, ge=0.0, le=1000.0, description="Most that one plan may cost, research included."
    )


class SkillValidationSettings(Section):
    """What a skill must be like to be installed."""

    description_min_chars: Count = Field(24, description="Shortest description of a skill.")
    description_max_chars: Count = Field(1024, description="Longest description of a skill.")
    fail_on_process_heavy_description: bool = Field(
        True,
        description="Whether a description that lists steps is refused; fixed rules decide.",
    )
    forbid_undeclared_env: bool = Field(
        True, description="Always true: no skill gets a variable of the owner's."
    )


class SkillImportSettings(Section):
    """Where skills may come from."""

    allow_external: bool = Field(True, description="Whether skills of others may be imported.")
    allowed_sources: tuple[Literal["github", "local_path"], ...] = Field(
        ("github", "local_path"),
        description="Where they may come from: `github` stands for repositories on any host.",
    )
    require_transform_report: bool = Field(
        True, description="Whether an import must show what was changed; external ones always do."
    )


class SkillSettings(Section):
    """What skills must be like, and where they may come from."""

    validation: SkillValidationSettings = Field(default_factory=SkillValidationSettings)
    import_: SkillImportSettings = Field(default_factory=SkillImportSettings, alias="import")


PROVIDER_ERROR = "model_provider"


def _check_provider(value: str) -> str:
    if problem := provider_problem(value):
        raise PydanticCustomError(PROVIDER_ERROR, problem)
    return value


UsableModel = Annotated[ModelName, AfterValidator(_check_provider)]
"""A model of a provider that exists."""
KeyReference = Annotated[
    str,
    text_like(
        r"secret:[A-Za-z0-9._/-]{1,200}|env:[A-Za-z_][A-Za-z0-9_]{0,199}",
        "must say where the key is, not the key itself: `secret:NAME` for one that "
        "`silas secrets set NAME` has stored, or `env:NAME` for a variable",
    ),
]
Mode: TypeAlias = Literal["auto", "native", "tool", "prompted"]


class RoleModelSettings(Section):
    """What is different for one role; what is null is as for all roles."""

    base_url: HttpAddress | None = Field(None, description="Address of the server of this role.")
    api_key: KeyReference | None = Field(None, description="Where this role's key is.")
    fallback: UsableModel | None = Field(None, description="Who steps in if the model fails.")
    timeout_seconds: Seconds | None = Field(None, description="How long an answer may take.")
    max_retries: Whole | None = Field(None, ge=0, le=10, description="Further tries.")
    output_mode: Mode | None = Field(None, description="How a structured answer is asked for.")


class PerRoleSettings(Section):
    """Details for single roles."""

    proxy: RoleModelSettings = Field(default_factory=RoleModelSettings)
    planner: RoleModelSettings = Field(default_factory=RoleModelSettings)
    executor: RoleModelSettings = Field(default_factory=RoleModelSettings)
    scorer: RoleModelSettings = Field(default_factory=RoleModelSettings)
    gate: RoleModelSettings = Field(default_factory=RoleModelSettings)


class ModelSettings(Section):
    """Which model plays which role. Without one, the offline brain does: no network, no account."""

    proxy: UsableModel | None = Field(
        None, description="Answers and routes, as `provider:model`; null is the offline brain."
    )
    planner: UsableModel | None = Field(
        None, description="Writes plans, as `provider:model`; null is the offline brain."
    )
    executor: UsableModel | None = Field(
        None, description="Carries out approved plans; null is the offline brain."
    )
    scorer: UsableModel | None = Field(
        None, description="Judges what may leave the context; null is the offline brain."
    )
    gate: UsableModel | None = Field(
        None,
        description="Judges texts for gates; null is gates.llm_defaults.model, else the scorer.",
    )
    base_url: HttpAddress | None = Field(
        None, description="Address of an OpenAI-compatible server for `openai:` models."
    )
    api_keys: Mapping[str, KeyReference] = Field(
        default_factory=dict,
        description="Where each provider's key is: `openrouter: secret:openrouter`. "
        "A provider that is not named here takes its usual variable.",
    )
    fallback: UsableModel | None = Field(
        None, description="The model that steps in when the one of a role fails."
    )
    timeout_seconds: Seconds = Field(
        300, description="How long one answer may take, with all tries."
    )
    max_retries: Whole = Field(
        2, ge=0, le=10, description="How often a failed request is tried again."
    )
    breaker_failures: Whole = Field(
        5, ge=1, le=1000, description="After so many failures in a row a model is left alone."
    )
    breaker_seconds: Seconds = Field(60, description="How long it is left alone.")
    output_mode: Mode = Field(
        "auto",
        description="How structured answers are asked for: by a native schema, a tool call or in "
        "the prompt; auto is what `silas models test` found best.",
    )
    per_role: PerRoleSettings = Field(default_factory=PerRoleSettings)
