"""Settings of skills: what is accepted, and from where."""

from typing import Literal

from pydantic import Field

from silas.app.settings.fields import Count, Section


class SkillValidationSettings(Section):
    """What a skill must be like to be installed."""

    description_min_chars: Count = Field(24, description="Shortest description of a skill.")
    description_max_chars: Count = Field(1024, description="Longest description of a skill.")
    fail_on_process_heavy_description: bool = Field(
        True,
        description="Whether a description that lists steps is refused; fixed rules decide.",
    )
    forbid_undeclared_env: bool = Field(
        True, description="Whether a skill may read only the variables that it declares."
    )


class SkillImportSettings(Section):
    """Where skills may come from."""

    allow_external: bool = Field(True, description="Whether skills of others may be imported.")
    allowed_sources: tuple[Literal["github", "local_path"], ...] = Field(
        ("github", "local_path"), description="Where they may come from."
    )
    require_transform_report: bool = Field(
        True, description="Whether an import must show what was changed; external ones always do."
    )


class SkillSettings(Section):
    """What skills must be like, and where they may come from."""

    validation: SkillValidationSettings = Field(default_factory=SkillValidationSettings)
    import_: SkillImportSettings = Field(default_factory=SkillImportSettings, alias="import")
