"""Settings of the three loops: how much the planner may look up and spend, and where."""

from pathlib import Path

from pydantic import Field

from silas.app.settings.fields import Count, FilePath, Number, Seconds, Section, Whole


class PlannerSettings(Section):
    """Planning, research and self-healing; what work itself may use is in each plan's budget."""

    workspace_dir: FilePath | None = Field(
        Path("~/silas"),
        description="Where requests without a place of their own work; null: a place is asked for.",
    )
    research_dir: FilePath | None = Field(
        None, description="Research may read the files below this directory; null means none."
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
        50_000, description="Most tokens of one answer of the proxy, or of one piece of research."
    )
    max_cost_usd_per_turn: Number = Field(
        0.5, ge=0.0, le=1000.0, description="Most that one answer of the proxy may cost, in USD."
    )
    max_tokens_per_request: Count = Field(
        200_000, description="Most tokens for one plan, its research included."
    )
    max_cost_usd_per_request: Number = Field(
        2.0, ge=0.0, le=1000.0, description="Most that one plan may cost, research included."
    )
