"""How Silas proceeds in a turn or with a work item: one function decides, and nobody else.

The order of precedence: what risk demands, what the planner overrides, what the plan says, what the
proxy chose, how much initiative the personality has, and at last the default of the register. No
mode replaces an approval.

`surface_of_status` says which surface shows an event. The runtime decides by that table; no agent
has a say.
"""

from collections.abc import Mapping
from enum import StrEnum

from silas.queue.models import ExecutionStatus
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


class Surface(StrEnum):
    """Where a person sees something."""

    STREAM = "stream"
    """The conversation."""
    REVIEW = "review"
    """What waits for a decision."""
    ACTIVITY = "activity"
    """What has happened, to be looked at when one likes."""


_DONE = frozenset({ExecutionStatus.DONE, ExecutionStatus.UNCHECKED})
_IN_BETWEEN = frozenset({ExecutionStatus.RUNNING, ExecutionStatus.VERIFICATION_FAILED})


def surface_of_status(status: ExecutionStatus, *, asked_for: bool, is_last: bool) -> Surface:
    """Where a status is shown.

    `asked_for`: a person is waiting for it, rather than the scheduler. `is_last`: nothing more will
    be tried without a person.
    """
    if status in _IN_BETWEEN:
        return Surface.ACTIVITY
    if status in _DONE:
        return Surface.STREAM if asked_for else Surface.ACTIVITY
    return Surface.STREAM if is_last else Surface.ACTIVITY


def surface_of_reply(*, has_card: bool) -> Surface:
    """Where an answer is shown: one that asks for a decision goes where decisions are made."""
    return Surface.REVIEW if has_card else Surface.STREAM
