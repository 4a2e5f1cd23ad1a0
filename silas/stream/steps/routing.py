"""Step 7: the personality speaks, the proxy decides who answers, the runtime decides how."""

from silas.gates import GateAction
from silas.kernel import TaintLevel
from silas.queue.models import MessageKind, PlanRequest
from silas.stream.asking import ask_proxy
from silas.stream.gating import known_of
from silas.stream.interaction import resolve_interaction_mode
from silas.stream.models import RouteDecision
from silas.stream.turn_context import Turn, TurnContext, message_of
from silas.work.models import InteractionMode


async def route(room: TurnContext, turn: Turn) -> Turn:
    """Step 7: a direct answer, or a request for a plan."""
    turn = await ask_proxy(room, await _in_character(room, turn))
    decision = turn.decision
    if decision is None:
        return turn
    profile = decision.context_profile
    if profile not in room.policy.profiles:
        profile = room.policy.default_profile
    if room.context is not None:
        await room.context.set_profile(turn.scope_id, profile)
    turn = _logged(room, turn.having(mode=_mode(room, turn, decision)), decision, profile)
    return _to_planner(room, turn, decision) if decision.route == "planner" else turn


async def _in_character(room: TurnContext, turn: Turn) -> Turn:
    if room.personality is None:
        return turn
    directives, initiative = await room.personality.character(turn.scope_id, turn.text)
    if room.context is not None:
        await room.context.set_directives(turn.scope_id, directives)
        directives = ""  # they are part of the context now, and are said once
    return turn.having(directives=directives, initiative=initiative)


def _mode(room: TurnContext, turn: Turn, decision: RouteDecision) -> InteractionMode:
    asked = any(each.action is GateAction.REQUIRE_APPROVAL for each in turn.input_results)
    return resolve_interaction_mode(
        decision.interaction_mode,
        None,
        work_item_mode=None,
        risk_requires_confirmation=asked or turn.taint is TaintLevel.EXTERNAL,
        initiative_level=turn.initiative,
        interaction_register=decision.interaction_register,
        high_initiative_min=room.policy.high_initiative_min,
        default_mode_by_register=room.policy.default_modes,
    )


def _logged(room: TurnContext, turn: Turn, decision: RouteDecision, profile: str) -> Turn:
    """The turn with an entry of the audit log, which is written once, together with the rest."""
    entry = {
        **known_of(turn),
        "route": decision.route,
        "interaction_register": decision.interaction_register.value,
        "interaction_mode": turn.mode.value if turn.mode else None,
        "context_profile": profile,
        "tokens": turn.usage.tokens,
        "cost_usd": turn.usage.cost_usd,
    }
    return turn.auditing(lambda tx: room.audit.append(tx, "turn_routed", entry))


def _to_planner(room: TurnContext, turn: Turn, decision: RouteDecision) -> Turn:
    if room.live is not None:
        room.live.progress(turn.message.trace_id, "planning")
    request = message_of(
        room,
        turn,
        kind=MessageKind.PLAN_REQUEST,
        content=turn.text,
        payload=PlanRequest(
            connection_id=turn.origin.connection_id,
            interaction_register=decision.interaction_register.value,
            interaction_mode=turn.mode.value if turn.mode else "",
            continuation_of=decision.continuation_of,
        ),
        taint=turn.taint,
    )
    return turn.sending(request)
