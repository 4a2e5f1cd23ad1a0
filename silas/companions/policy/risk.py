"""Which calls need the owner's yes: by the risk of the call and what may be done unasked."""

from silas.companions.tools.registry import Tool
from silas.gates.risk import RiskLevel

_LADDER = tuple(RiskLevel)
_ALWAYS = RiskLevel.HIGH


def needs_approval(tool: Tool, risk: RiskLevel, *, confirm_from: RiskLevel) -> bool:
    """Whether a write waits for a card. What is high always does, whatever was configured."""
    if not tool.writes:
        return False
    threshold = min(confirm_from, _ALWAYS, key=_LADDER.index)
    return _LADDER.index(risk) >= _LADDER.index(threshold)
