"""How a companion is, what keeps it from its work, and the one step that helps.

1. What the owner has decided comes first: ended, stopped, paused. Then what it does just now.
2. A companion that could not work is never called ready: not without the owner's yes to its model,
   not while a class of calls is stopped that it needs, not after a run that failed. It is ready
   again when a run has gone through, or when nothing stands in its way any more.
3. What is wrong is said once, the nearest cause alone, with one step. A step is a thing that the
   owner can do at once (`way`), and a sentence that names it.
4. What only warns (`blocks` is false) changes nothing about the health.
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from datetime import datetime
from types import MappingProxyType

from silas.companions.budgets import BudgetState
from silas.companions.messages import WakeRun
from silas.companions.models import Companion, StopScope, StopSwitch
from silas.companions.tools.registry import ToolClass
from silas.companions.views import CompanionHealth, CompanionTrouble, TroubleWay

_MEASURES = MappingProxyType(
    {"tokens": "tokens", "cost_micro_usd": "money", "runtime_ms": "time", "tool_calls": "calls"}
)
_CONSENT = "Read what its model means for privacy, and agree."
_CONFIGURE_MODEL = "Choose one of your configured models for it, or none."
_STEPS: MappingProxyType[str, tuple[TroubleWay, str]] = MappingProxyType(
    {
        "budget_exceeded": (TroubleWay.CONFIGURE, "Give it a larger budget, or wait for tomorrow."),
        "privacy_confirmation_required": (TroubleWay.CONSENT, _CONSENT),
        "provider_not_allowed": (TroubleWay.CONSENT, _CONSENT),
        "model_not_allowed": (TroubleWay.CONSENT, _CONSENT),
        "network_denied": (TroubleWay.CONFIGURE, _CONFIGURE_MODEL),
        "secret_unavailable": (
            TroubleWay.WAKE,
            "Unlock the vault, or store the key of its provider in it; then wake it.",
        ),
        "model_unavailable": (
            TroubleWay.WAKE,
            "Look whether the model runs (`silas models test`), then wake it.",
        ),
        "out_of_scope": (TroubleWay.WAKE, "Wake it: it begins anew with what it may see now."),
        "stopped": (TroubleWay.WAKE, "Wake it: the switch is off again."),
    }
)
_OTHERWISE = (TroubleWay.WAKE, "Wake it once more; what it did says where it ended.")
_GIVEN_SINCE = frozenset(
    {"privacy_confirmation_required", "provider_not_allowed", "model_not_allowed"}
)
_AGREED_SINCE = (TroubleWay.WAKE, "You have agreed since. Wake it.")


@dataclass(frozen=True)
class CompanionCondition:
    """All that is known of how a companion is."""

    companion: Companion
    now: datetime
    running: bool
    budget: BudgetState
    switches: Collection[StopSwitch] = ()
    classes: frozenset[ToolClass] = frozenset()
    """Of the calls that it may make; asking a model is one of them."""
    needs_consent: bool = False
    model_unknown: bool = False
    """Its model is none of those that the settings name."""
    failures: int = 0
    failed: WakeRun | None = None
    """The newest run that failed."""
    rests_until: datetime | None = None
    """After failures in a row it does not try by itself before this moment."""
    sleep_until: datetime | None = None

    @property
    def asleep_until(self) -> datetime | None:
        """Until when only the owner wakes it, if it sleeps."""
        until = self.sleep_until
        return until if until is not None and until > self.now else None

    @property
    def stopped_by(self) -> StopSwitch | None:
        """The switch that stops it whole."""
        return next((each for each in self.switches if stops_whole(each, self.companion.id)), None)

    @property
    def class_stopped(self) -> StopSwitch | None:
        """The switch that stops a class of its calls."""
        mine = {str(each) for each in self.classes}
        return next(
            (
                each
                for each in self.switches
                if each.scope is StopScope.TOOL_CLASS and each.target in mine
            ),
            None,
        )


def health_of(about: CompanionCondition) -> CompanionHealth:
    """The first word that applies (rules 1 and 2)."""
    companion = about.companion
    dormant = companion.lifecycle == "dormant"
    order = (
        (companion.is_destroyed, CompanionHealth.DESTROYED),
        (about.stopped_by is not None, CompanionHealth.STOPPED),
        (companion.paused_at is not None, CompanionHealth.PAUSED),
        (about.running, CompanionHealth.RUNNING),
        (bool(about.budget.over_hard), CompanionHealth.OUT_OF_BUDGET),
        (about.needs_consent, CompanionHealth.NEEDS_CONSENT),
        (about.class_stopped is not None, CompanionHealth.HELD_BACK),
        (about.asleep_until is not None or dormant, CompanionHealth.SLEEPING),
        (about.failures > 0 or about.model_unknown, CompanionHealth.FAILING),
    )
    return next((health for applies, health in order if applies), CompanionHealth.IDLE)


def trouble_of(about: CompanionCondition) -> CompanionTrouble | None:
    """What keeps it from its work, with the step that helps (rule 3); None if nothing does."""
    found = _TROUBLES.get(health_of(about))
    return found(about) if found is not None else None


def stops_whole(switch: StopSwitch, agent_id: str) -> bool:
    """Whether a switch stops everything of this companion."""
    mine = switch.scope is StopScope.COMPANION and switch.target == agent_id
    return mine or switch.scope is StopScope.GLOBAL


def _release(switch: StopSwitch | None, text: str) -> CompanionTrouble:
    why = f" Why: {switch.reason}." if switch is not None and switch.reason else ""
    found = _trouble("stopped", f"{text}{why}", TroubleWay.RELEASE, "Let it go on.")
    changes = {} if switch is None else {"scope": switch.scope, "target": switch.target}
    return found.model_copy(update=changes)


def _stopped(about: CompanionCondition) -> CompanionTrouble:
    return _release(about.stopped_by, "It is stopped: nothing of it runs.")


def _held_back(about: CompanionCondition) -> CompanionTrouble:
    switch = about.class_stopped
    what = str(switch.target if switch is not None else "").replace("_", " ")
    calls = "Asking models" if what == ToolClass.MODEL else f"Every call of the class “{what}”"
    return _release(switch, f"{calls} is stopped, so it cannot do all of its work.")


def _paused(about: CompanionCondition) -> CompanionTrouble:
    text = "You have paused it. It rests until you resume it."
    return _trouble("agent_paused", text, TroubleWay.RESUME, "Resume it.")


def _unagreed(about: CompanionCondition) -> CompanionTrouble:
    text = f"Nothing is sent to {about.companion.config.model_id} before you have agreed."
    return _of_code("privacy_confirmation_required", text)


def _spent(about: CompanionCondition) -> CompanionTrouble:
    spent = _measures(about.budget.over_hard)
    return _of_code("budget_exceeded", f"Its budget for today is used up, or is 0: {spent}.")


def _asleep(about: CompanionCondition) -> CompanionTrouble:
    until = about.asleep_until
    text = "It sleeps: neither changes nor its times wake it."
    found = _trouble("asleep", text, TroubleWay.RESUME, "Wake it up.")
    return found.model_copy(update={"until": until})


def _failing(about: CompanionCondition) -> CompanionTrouble:
    failed = about.failed
    if about.model_unknown:
        text = f"{about.companion.config.model_id} is not among your configured models."
        return _of_code("network_denied", text)
    code = (failed.error_code if failed is not None else None) or "internal_error"
    text = (failed.error_message if failed is not None else None) or "Its last run failed."
    found = _of_code(code, text)
    if code in _GIVEN_SINCE:
        # Without the owner's yes its health would say so.
        found = _trouble(code, text, *_AGREED_SINCE)
    rests = about.rests_until
    until = rests if rests is not None and rests > about.now else None
    return found.model_copy(update={"failures": about.failures, "until": until})


def _warning(about: CompanionCondition) -> CompanionTrouble | None:
    """Rule 4."""
    near = about.budget.over_soft
    if not near:
        return None
    share = round(about.companion.config.budget.soft_share * 100)
    text = f"It has used more than {share} % of today's budget: {_measures(near)}."
    found = _of_code("budget_exceeded", text)
    return found.model_copy(update={"blocks": False, "code": "budget_near"})


def _measures(names: Collection[str]) -> str:
    return ", ".join(_MEASURES.get(each, each) for each in names)


def _of_code(code: str, text: str) -> CompanionTrouble:
    return _trouble(code, text, *_STEPS.get(code, _OTHERWISE))


def _trouble(code: str, text: str, way: TroubleWay, step: str) -> CompanionTrouble:
    return CompanionTrouble(code=code, text=text, way=way, step=step)


_TROUBLES: Mapping[CompanionHealth, Callable[[CompanionCondition], CompanionTrouble | None]] = (
    MappingProxyType(
        {
            CompanionHealth.STOPPED: _stopped,
            CompanionHealth.PAUSED: _paused,
            CompanionHealth.OUT_OF_BUDGET: _spent,
            CompanionHealth.NEEDS_CONSENT: _unagreed,
            CompanionHealth.HELD_BACK: _held_back,
            CompanionHealth.SLEEPING: _asleep,
            CompanionHealth.FAILING: _failing,
            CompanionHealth.IDLE: _warning,
        }
    )
)
