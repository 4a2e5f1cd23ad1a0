"""The risk ladder: how risky something is. What a yes to it takes is `silas.review.decisions`.

One pure function gives the level. It is told what will be done, by the runtime; there is no way to
hand it a level, so no agent and no plan can have an opinion.

1. What an action does and whether it can be undone give a level (`_LEVELS`). An action or a
   reversibility that is not known counts as the worst of its kind.
2. The scope of the approval gives a level of its own (`_SCOPES`). The higher of the two counts.
3. An action that the plan's envelope does not cover is at least `medium`, unless it only looks.
4. Outside of the envelope, foreign content in the run raises the level by one, up to `high`.
"""

from collections.abc import Callable, Mapping
from enum import StrEnum
from types import MappingProxyType

from silas.approval import ApprovalScope
from silas.kernel import TaintLevel
from silas.kernel.models import Data


class RiskLevel(StrEnum):
    """How risky it is; later values are riskier."""

    LOW = "low"
    MEDIUM = "medium"
    HIGH = "high"
    IRREVERSIBLE = "irreversible"


class ActionKind(StrEnum):
    """What an action does to the world."""

    OBSERVE = "observe"
    """Look, acknowledge, search."""
    TIDY = "tidy"
    """Archive, label, move, format."""
    SEND = "send"
    """Say something to somebody in the owner's name."""
    CHANGE = "change"
    """Create, modify, run, install, spend."""
    GRANT = "grant"
    """Change what somebody or something may do."""
    DESTROY = "destroy"
    """Delete, drop, revoke, unsubscribe."""


class Reversibility(StrEnum):
    """Whether it can be undone; later values are worse."""

    REVERSIBLE = "reversible"
    HARD = "hard"
    IRREVERSIBLE = "irreversible"


class DeclaredEffect(Data):
    """What a tool declares where it is defined. Nothing is read out of a tool's name."""

    action: ActionKind
    reversibility: Reversibility


EffectOf = Callable[[str], DeclaredEffect | None]
"""Gives what the tool with exactly this name declares; None if no tool has this name."""

_LADDER = tuple(RiskLevel)
_LOW, _MEDIUM, _HIGH, _FINAL = _LADDER
_LEVELS: Mapping[ActionKind, tuple[RiskLevel, RiskLevel, RiskLevel]] = MappingProxyType(
    {
        # reversible, hard to reverse, irreversible
        ActionKind.OBSERVE: (_LOW, _LOW, _LOW),
        ActionKind.TIDY: (_LOW, _MEDIUM, _HIGH),
        ActionKind.SEND: (_MEDIUM, _MEDIUM, _MEDIUM),
        ActionKind.CHANGE: (_MEDIUM, _HIGH, _FINAL),
        ActionKind.GRANT: (_HIGH, _HIGH, _FINAL),
        ActionKind.DESTROY: (_HIGH, _FINAL, _FINAL),
    }
)
_SCOPES: Mapping[ApprovalScope, RiskLevel] = MappingProxyType(
    {
        ApprovalScope.FULL_PLAN: _MEDIUM,
        ApprovalScope.SINGLE_STEP: _LOW,
        ApprovalScope.STEP_RANGE: _MEDIUM,
        ApprovalScope.TOOL_TYPE: _HIGH,
        ApprovalScope.SKILL_INSTALL: _MEDIUM,
        ApprovalScope.CREDENTIAL_USE: _HIGH,
        ApprovalScope.BUDGET: _MEDIUM,
        ApprovalScope.SELF_UPDATE: _HIGH,
        ApprovalScope.CONNECTION_ACT: _LOW,
        ApprovalScope.CONNECTION_MANAGE: _HIGH,
        ApprovalScope.AUTONOMY_THRESHOLD: _HIGH,
        ApprovalScope.STANDING: _HIGH,
    }
)


def risk_of(
    scope: ApprovalScope,
    action: ActionKind | None,
    *,
    reversibility: Reversibility | None,
    taint: TaintLevel,
    inside_envelope: bool,
) -> RiskLevel:
    """The level of risk; None for what is not known."""
    kind = action or ActionKind.DESTROY
    worst = reversibility or Reversibility.IRREVERSIBLE
    level = _LEVELS[kind][tuple(Reversibility).index(worst)]  # 1
    level = riskiest(level, _SCOPES[scope])  # 2
    if inside_envelope:
        return level
    if kind is not ActionKind.OBSERVE:
        level = riskiest(level, _MEDIUM)  # 3
    if taint is TaintLevel.EXTERNAL and level in (_LOW, _MEDIUM):
        level = _LADDER[_LADDER.index(level) + 1]  # 4
    return level


def risk_of_tool(
    scope: ApprovalScope,
    effect: DeclaredEffect | None,
    *,
    taint: TaintLevel,
    inside_envelope: bool = False,
) -> RiskLevel:
    """The level of risk of what a tool declares; a tool that declares nothing is the worst."""
    return risk_of(
        scope,
        effect.action if effect else None,
        reversibility=effect.reversibility if effect else None,
        taint=taint,
        inside_envelope=inside_envelope,
    )


def riskiest(*levels: RiskLevel) -> RiskLevel:
    """The highest of the levels; of none, `irreversible`: nothing known earns no trust."""
    return max(levels, key=_LADDER.index, default=_FINAL)
