"""All settings of Silas, with their defaults."""

from pathlib import Path

from pydantic import ConfigDict, Field

from silas.settings.conversation import (
    AutonomySettings,
    BatchReviewSettings,
    BehaviorPreferenceSettings,
    ContextSettings,
    InteractionSettings,
    MemorySettings,
    PersonalitySettings,
    RehydrationSettings,
    SuggestionSettings,
)
from silas.settings.fields import DatabaseUrl, FilePath, Section, Word
from silas.settings.services import (
    BackpressureSettings,
    ChannelSettings,
    CompanionSettings,
    ConnectionSettings,
    LimitSettings,
    ModelSettings,
    PlannerSettings,
    SchedulerSettings,
    SearchSettings,
    SkillSettings,
)
from silas.settings.trust import (
    ApprovalSettings,
    AuditSettings,
    GatesSettings,
    NonceStoreSettings,
    SandboxSettings,
    UndoSettings,
)


class Settings(Section):
    """Everything that can be set, as it is in force. Paths are absolute once they are loaded."""

    model_config = ConfigDict(defer_build=False)

    owner_id: Word = Field("owner", description="The name under which the owner is known.")
    data_dir: FilePath = Field(Path("data"), description="Where Silas keeps its data.")
    database_url: DatabaseUrl | None = Field(
        None, description="Must be null: everything is in data_dir; there is no PostgreSQL yet."
    )
    models: ModelSettings = Field(default_factory=ModelSettings)
    search: SearchSettings = Field(default_factory=SearchSettings)
    context: ContextSettings = Field(default_factory=ContextSettings)
    rehydration: RehydrationSettings = Field(default_factory=RehydrationSettings)
    memory: MemorySettings = Field(default_factory=MemorySettings)
    personality: PersonalitySettings = Field(default_factory=PersonalitySettings)
    interaction: InteractionSettings = Field(default_factory=InteractionSettings)
    planner: PlannerSettings = Field(default_factory=PlannerSettings)
    suggestions: SuggestionSettings = Field(default_factory=SuggestionSettings)
    behavior_preferences: BehaviorPreferenceSettings = Field(
        default_factory=BehaviorPreferenceSettings
    )
    channels: ChannelSettings = Field(default_factory=ChannelSettings)
    limits: LimitSettings = Field(default_factory=LimitSettings)
    backpressure: BackpressureSettings = Field(default_factory=BackpressureSettings)
    sandbox: SandboxSettings = Field(default_factory=SandboxSettings)
    approval: ApprovalSettings = Field(default_factory=ApprovalSettings)
    undo: UndoSettings = Field(default_factory=UndoSettings)
    nonce_store: NonceStoreSettings = Field(default_factory=NonceStoreSettings)
    audit: AuditSettings = Field(default_factory=AuditSettings)
    companions: CompanionSettings = Field(default_factory=CompanionSettings)
    connections: ConnectionSettings = Field(default_factory=ConnectionSettings)
    batch_review: BatchReviewSettings = Field(default_factory=BatchReviewSettings)
    autonomy: AutonomySettings = Field(default_factory=AutonomySettings)
    gates: GatesSettings = Field(default_factory=GatesSettings)
    active_goal: FilePath | None = Field(
        None, description="The file of a goal that Silas works on from the start."
    )
    scheduler: SchedulerSettings = Field(default_factory=SchedulerSettings)
    skills: SkillSettings = Field(default_factory=SkillSettings)
    skills_dir: FilePath = Field(Path("silas/skills"), description="Where the owner's skills are.")
