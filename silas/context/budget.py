"""The arithmetic of the budget: what each zone may take, and what stays free.

1. `system_actual = min(system_zone_tokens, system_max)`
2. `allocable = max(total - system_actual, 0)`
3. `zone = floor(allocable * share)`, with the shares of the profile
4. `headroom = allocable - (chronicle + memory + workspace)`

Shares add up to 0.80 at most, so at least a fifth of what is allocable is headroom. What is pinned
outside the system zone has to fit into the least headroom there can be. So even if a profile leaves
a zone less than what is pinned there, all zones together stay within the total.
"""

import math
from dataclasses import dataclass

from silas.context.models import ContextProfile, ContextZone, TokenBudget

_LEAST_HEADROOM = 0.20
_EXACT = 1e-9  # 0.45 * 100 is a little less than 45


@dataclass(frozen=True)
class ZoneBudgets:
    """Tokens for each zone."""

    chronicle: int
    memory: int
    workspace: int
    headroom: int

    def of(self, zone: ContextZone) -> int:
        """What this zone may take; the system zone has a limit of its own."""
        match zone:
            case ContextZone.CHRONICLE:
                return self.chronicle
            case ContextZone.MEMORY:
                return self.memory
            case ContextZone.WORKSPACE:
                return self.workspace
            case ContextZone.SYSTEM:
                raise ValueError("the system zone is limited by system_max")


def zone_budgets(
    budget: TokenBudget, profile: ContextProfile, *, system_tokens: int
) -> ZoneBudgets:
    """What each zone may take while the system zone takes this much."""
    allocable = max(budget.total - min(system_tokens, budget.system_max), 0)
    chronicle, memory, workspace = (
        math.floor(allocable * share + _EXACT)
        for share in (profile.chronicle_pct, profile.memory_pct, profile.workspace_pct)
    )
    return ZoneBudgets(
        chronicle, memory, workspace, headroom=allocable - chronicle - memory - workspace
    )


def most_pinned(budget: TokenBudget) -> int:
    """How much may be pinned outside the system zone, all zones together."""
    return math.floor((budget.total - budget.system_max) * _LEAST_HEADROOM)
