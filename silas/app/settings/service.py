"""Settings of what Silas talks to: search, channels, connections; and its limits."""

from typing import Annotated

from pydantic import BeforeValidator, Field

from silas.app.settings.fields import (
    Count,
    Cron,
    Domain,
    Host,
    HttpAddress,
    NullIfUnset,
    Seconds,
    Secret,
    Section,
    Text,
    TimeZone,
    Whole,
    Word,
)


class SearchSettings(Section):
    """Web search. Without a provider or a key, the tool web_search is not there."""

    provider: Word | None = Field("tavily", description="Who searches; null turns search off.")
    api_key: Secret | None = Field(
        None, description="The provider's key; if not set here, ${SEARCH_API_KEY}."
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
    auth_token: Secret | None = Field(
        None, description="What a browser must present; better written as ${VARIABLE}."
    )


def _as_text(value: object) -> object:
    """A chat's id is a number that is not calculated with."""
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else value


class TelegramSettings(Section):
    """Silas as a Telegram bot; needs the extra `telegram`."""

    enabled: bool = Field(False, description="Whether the bot runs; needs token and owner_chat_id.")
    token: Secret | None = Field(
        None, description="The bot's token; if not set here, ${SILAS_TELEGRAM_TOKEN}."
    )
    owner_chat_id: Annotated[Text, BeforeValidator(_as_text), NullIfUnset()] | None = Field(
        None, description="The owner's chat; if not set here, ${SILAS_TELEGRAM_OWNER_ID}."
    )


class CliChannelSettings(Section):
    """The conversation in a terminal, for development."""

    enabled: bool = Field(False, description="Whether Silas also talks in the terminal.")


class ChannelSettings(Section):
    """Where the owner and Silas talk."""

    web: WebSettings = Field(default_factory=WebSettings)
    telegram: TelegramSettings = Field(default_factory=TelegramSettings)
    cli: CliChannelSettings = Field(default_factory=CliChannelSettings)


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
        3, ge=1, le=100, description="How often that is tried before the owner is asked."
    )


class SchedulerSettings(Section):
    """The clock for goals, suggestions and health checks."""

    enabled: bool = Field(True, description="Whether anything runs at set times.")
    timezone: TimeZone = Field(
        "Europe/Vienna", description="The owner's time zone, in which cron expressions are read."
    )
