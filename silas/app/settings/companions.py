"""Settings of companions: how long what they leave behind is kept, and how memory is compacted."""

from pydantic import Field

from silas.app.settings.fields import Days, Section, Whole


class CompanionRetentionSettings(Section):
    """For how many days what companions leave behind is kept; null keeps it for ever."""

    job: Days | None = Field(14, description="Finished compactions, and what was odd.")
    provenance: Days | None = Field(30, description="What the wakes were derived from.")
    trace: Days | None = Field(90, description="Traces of runs, and conversations that are over.")
    wake: Days | None = Field(180, description="The log of wakes, and the plans of their runs.")
    prompt: Days | None = Field(180, description="Questions that are settled, and their answers.")
    action_result: Days | None = Field(
        365, description="Messages of the log that a summary has taken up."
    )
    report: Days | None = Field(365, description="Reports that are not the newest ones.")
    tombstone: Days | None = Field(180, description="What says that something was removed.")
    destroyed: Days | None = Field(365, description="Everything of a companion that was destroyed.")


class CompanionSettings(Section):
    """Companions: long-lived helpers with one purpose each."""

    keep_days: CompanionRetentionSettings = Field(default_factory=CompanionRetentionSettings)
    summary_model_attempts: Whole = Field(
        2, ge=0, le=5, description="How often a model is tried before rules summarise the memory."
    )
