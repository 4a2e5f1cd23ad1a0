"""What the owner can do with companions, from the page and from the terminal."""

from silas.companions.service import CompanionService as Service
from silas.web.commands import ApiCommand, PageAccess, by_name

_SIGNED = PageAccess.SIGNED

COMPANION_COMMANDS = by_name(
    [
        # Looking. The page has GET routes of its own, which put several of these together.
        ApiCommand(Service.list),
        ApiCommand(Service.meant),
        ApiCommand(Service.listed),
        ApiCommand(Service.show),
        ApiCommand(Service.kinds),
        ApiCommand(Service.models),
        ApiCommand(Service.runs),
        ApiCommand(Service.report),
        ApiCommand(Service.reports),
        ApiCommand(Service.why),
        ApiCommand(Service.trace),
        ApiCommand(Service.switches),
        ApiCommand(Service.questions),
        ApiCommand(Service.waiting),
        ApiCommand(Service.disclosure),
        ApiCommand(Service.persona),
        ApiCommand(Service.timers),
        ApiCommand(Service.conversation),
        ApiCommand(Service.replay, _SIGNED),
        ApiCommand(Service.again, _SIGNED),
        ApiCommand(Service.forgotten),
        # Versions of a kind, objectives, and what was odd.
        ApiCommand(Service.rollout),
        ApiCommand(Service.adopt_version, _SIGNED),
        ApiCommand(Service.previous_version, _SIGNED),
        ApiCommand(Service.objectives),
        ApiCommand(Service.diagnostics),
        # Forgetting: without `really` it only looks.
        ApiCommand(Service.forget, _SIGNED),
        # Making and configuring. A browser names no file: Silas would read it with its own rights.
        ApiCommand(Service.new, _SIGNED, without=frozenset({"file"})),
        ApiCommand(Service.new, alias="new_from_file"),
        ApiCommand(Service.configure, _SIGNED),
        ApiCommand(Service.set_timers, _SIGNED),
        ApiCommand(Service.propose_persona, _SIGNED),
        ApiCommand(Service.approve_persona, _SIGNED),
        ApiCommand(Service.decline_persona, _SIGNED),
        # Consent.
        ApiCommand(Service.consent, _SIGNED),
        ApiCommand(Service.revoke_consent, _SIGNED),
        ApiCommand(Service.describe_provider, _SIGNED),
        ApiCommand(Service.model_rules),
        ApiCommand(Service.set_model_rule, _SIGNED),
        # Waking, resting, ending; and the switches that stop.
        ApiCommand(Service.wake, _SIGNED),
        ApiCommand(Service.say, _SIGNED, without=frozenset({"reply_to"})),
        ApiCommand(Service.end_conversation, _SIGNED),
        ApiCommand(Service.answer, _SIGNED),
        ApiCommand(Service.leave, _SIGNED),
        ApiCommand(Service.let_go, _SIGNED),
        ApiCommand(Service.pause, _SIGNED),
        ApiCommand(Service.resume, _SIGNED),
        ApiCommand(Service.cancel, _SIGNED),
        ApiCommand(Service.destroy, _SIGNED),
        ApiCommand(Service.stop, _SIGNED),
        ApiCommand(Service.release, _SIGNED),
        ApiCommand(Service.resume_all, _SIGNED),
    ]
)
"""By name. `decided`, `recover` and `expire` are what the rest of Silas calls, and are not here."""
