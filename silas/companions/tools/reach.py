"""What a handler can reach: the journal, within one scope, under one operation."""

from dataclasses import dataclass
from datetime import datetime
from zoneinfo import ZoneInfo

from silas.journal.fence import Guard
from silas.journal.models import AccessScope
from silas.journal.store import Journal


@dataclass(frozen=True)
class ToolReach:
    """Handed to a handler for one call; nothing else is within its reach."""

    journal: Journal
    scope: AccessScope
    actor: str
    operation_id: str
    preview_only: bool
    now: datetime
    zone: ZoneInfo
    guard: Guard | None = None
    """Has the last word in the journal's own transaction."""

    @property
    def categories(self) -> frozenset[str]:
        """The categories that are in reach; without a scope, none."""
        return self.scope.allowed_category_ids or frozenset()
