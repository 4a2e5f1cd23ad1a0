"""How Silas proceeds in a turn or with a work item: one function decides, and nobody else.

The order of precedence: what risk demands, what the planner overrides, what the plan says, what the
proxy chose, how much initiative the personality has, and at last the default of the register. No
mode replaces an approval.
"""

from collections.abc import Mapping

from silas.stream.models import InteractionRegister
from silas.work.models import InteractionMode


def resolve_interaction_mode(
    proxy_mode: InteractionMode | None,
    planner_override: InteractionMode | None,
    *,
    work_item_mode: InteractionMode | None,
    risk_requires_confirmation: bool,
    initiative_level: float,
    interaction_register: InteractionRegister,
    high_initiative_min: float,
    default_mode_by_register: Mapping[InteractionRegister, InteractionMode],
) -> InteractionMode:
    """The mode that is in force."""
    if risk_requires_confirmation:
        return InteractionMode.CONFIRM_ONLY_WHEN_REQUIRED
    for said in (planner_override, work_item_mode, proxy_mode):
        if said is not None:
            return said
    if initiative_level >= high_initiative_min:
        if interaction_register is InteractionRegister.EXECUTION:
            return InteractionMode.ACT_AND_REPORT
        if interaction_register is InteractionRegister.EXPLORATION:
            return InteractionMode.DEFAULT_AND_OFFER
    return default_mode_by_register.get(interaction_register, InteractionMode.DEFAULT_AND_OFFER)
