"""What a companion may use and send, and what it has used."""

from datetime import date

from pydantic import Field

from silas.companions.models.identity import Identifier
from silas.companions.models.kinds import BoundaryType, StopScope
from silas.companions.models.synced import Synced
from silas.kernel.models import Data, UtcDatetime


class BudgetUsage(Data):
    """What was used, in whole numbers so that sums are exact."""

    tokens: int = Field(default=0, ge=0)
    cost_micro_usd: int = Field(default=0, ge=0)
    runtime_ms: int = Field(default=0, ge=0)
    tool_calls: int = Field(default=0, ge=0)

    def __add__(self, other: "BudgetUsage") -> "BudgetUsage":
        return BudgetUsage(
            tokens=self.tokens + other.tokens,
            cost_micro_usd=self.cost_micro_usd + other.cost_micro_usd,
            runtime_ms=self.runtime_ms + other.runtime_ms,
            tool_calls=self.tool_calls + other.tool_calls,
        )


class BudgetWindow(Synced):
    """The use of one local day. Each host counts its own; the sum over all counts."""

    id: Identifier
    agent_id: Identifier
    window_start_local_date: date
    time_zone: Identifier
    usage_by_host: dict[str, BudgetUsage] = Field(default_factory=dict)
    updated_at: UtcDatetime

    @property
    def total(self) -> BudgetUsage:
        return sum(self.usage_by_host.values(), BudgetUsage())


class BudgetReservation(Data):
    """What one question to a model may use, set aside before it is asked. Kept on this device.

    It is gone when the question is settled. One that is left was not: all of it counts as used.
    """

    id: Identifier
    agent_id: Identifier
    window_start_local_date: date
    time_zone: Identifier
    usage: BudgetUsage
    created_at: UtcDatetime


class ProviderAccessPolicy(Synced):
    """Allows a model of a provider for a kind of companion, or one companion, in a category."""

    id: Identifier
    agent_kind: str | None = None
    agent_id: str | None = None
    category_id: Identifier
    provider: Identifier
    model: Identifier
    created_at: UtcDatetime


class ProviderPrivacyPolicy(Synced):
    """What a provider says that it does with what it is sent."""

    id: Identifier
    provider: Identifier
    model: Identifier
    policy_version: Identifier
    training: str
    retention: str
    jurisdiction: str
    disclosure: str
    updated_at: UtcDatetime


class ConsentReceipt(Data):
    """The owner has read what a provider does with these fields, and agreed. Kept on this device.

    It is for this provider, host and port, model, account and these fields, and for nothing else.
    Of the key it knows where the vault keeps it; never the key itself.
    """

    id: Identifier
    provider: Identifier
    model: Identifier
    host: str | None = None
    port: int | None = None
    secret_ref_id: str | None = None
    fields: tuple[str, ...] = ()
    policy_version: Identifier
    disclosure_hash: Identifier
    confirmed_at: UtcDatetime
    revoked_at: UtcDatetime | None = None


class ProjectionPolicy(Synced):
    """The fields that may cross a border for an operation, and what is made unreadable in them."""

    id: Identifier
    boundary_type: BoundaryType
    operation_key: Identifier
    allowed_fields: tuple[str, ...]
    redaction_rules: tuple[str, ...] = ()
    policy_version: Identifier
    updated_at: UtcDatetime


class StopSwitch(Data):
    """The owner's emergency stop for everything, one companion, or a class of tools."""

    id: Identifier
    scope: StopScope
    target: str | None = None
    engaged: bool
    reason: str | None = None
    changed_at: UtcDatetime
