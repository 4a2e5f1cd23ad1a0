"""Asks the proxy: what it is told, which tools it has, and what its answer is derived from."""

from silas.gates import GateTrigger
from silas.gates.access import is_owner
from silas.kernel import TaintLevel, join_taint
from silas.stream.gating import clip, look_at_response
from silas.stream.models import AgentTurn, RouteDecision
from silas.stream.ports import TextListener
from silas.stream.reading_room import PROXY_TOOLS
from silas.stream.reading_tools import ReadingTools, Rules
from silas.stream.research import add_usage
from silas.stream.surfaces import Surface
from silas.stream.turn_context import Turn, TurnContext, reply_of

_NO_PROXY = "Nobody is here who could answer. Run `silas models test` to see why."


async def ask_proxy(room: TurnContext, turn: Turn, *, instruction: str = "") -> Turn:
    """The turn with the proxy's decision; a proxy that is absent answers that it is."""
    if room.proxy is None:
        return turn.saying(_NO_PROXY).having(taint=turn.message.taint)
    tools, told = _tools(room, turn), await _told(room, turn, instruction)
    answered = await room.proxy.route(told, tools, on_text=_listener(room, turn))
    decision = _clipped(answered.output)
    if answered.fallback:
        await room.audit.log(
            "agent_fallback", role="proxy", reason=answered.fallback, trace_id=turn.message.trace_id
        )
    return turn.having(
        decision=decision,
        response=decision.response,
        usage=add_usage(turn.usage, answered.usage),
        taint=join_taint(told.taint, answered.taint, tools.taint),
    )


def _clipped(decision: RouteDecision) -> RouteDecision:
    response = decision.response
    if response is None or clip(response.message) == response.message:
        return decision
    shorter = response.model_copy(update={"message": clip(response.message)})
    return decision.model_copy(update={"response": shorter})


async def context_of(
    room: TurnContext, scope_id: str, *, number: int, taint: TaintLevel
) -> tuple[str, TaintLevel]:
    """The rendered context, and the taint joined with what it is derived from."""
    if room.context is None:
        return "", taint
    text = await room.context.render(scope_id, number)
    return text, join_taint(taint, await room.context.taint(scope_id))


async def _told(room: TurnContext, turn: Turn, instruction: str) -> AgentTurn:
    text, taint = "", turn.message.taint
    if room.proxy_hears_context:
        text, taint = await context_of(room, turn.scope_id, number=turn.number, taint=taint)
    request = room.frame(turn.text, turn.message.taint)
    return AgentTurn(
        scope_id=turn.scope_id,
        trace_id=turn.message.trace_id,
        request=f"{request}\n\n{instruction}" if instruction else request,
        context=text,
        directives=turn.directives,
        access_level=_level(room, turn),
        skills=dict(turn.skills),
        taint=taint,
        max_tokens=room.policy.max_tokens,
        max_cost_usd=room.policy.max_cost_usd,
    )


def is_owners(room: TurnContext, turn: Turn) -> bool:
    """Whether the owner began what this turn is about, whatever was read for it since."""
    return is_owner(
        turn.origin.connection_id, owner_id=room.policy.owner_id, taint=turn.origin.taint
    )


def _level(room: TurnContext, turn: Turn) -> str:
    if is_owners(room, turn):
        return "owner"
    return room.visitors.of(turn.origin.connection_id, owner=False).level


def _tools(room: TurnContext, turn: Turn) -> ReadingTools:
    told = 0

    async def tell(text: str) -> None:
        nonlocal told
        told += 1
        if told <= room.policy.max_told:
            await _tell_user(room, turn, text, number=told)

    return ReadingTools(
        room.reading.for_proxy(
            turn.scope_id,
            turn_number=turn.number,
            tell=tell,
            # By the signature: whoever only says that he is the owner reads nothing of his.
            owner=turn.message.taint is TaintLevel.OWNER,
        ),
        Rules(turn.runner, turn.gates, room.audit, {"scope_id": turn.scope_id, "role": "proxy"}),
        allowed=PROXY_TOOLS & turn.allowed,
        taint=turn.message.taint,
        # The owner's conversation is in the prompt; a visitor's is nobody else's.
        seen_private=is_owners(room, turn),
    )


async def _tell_user(room: TurnContext, turn: Turn, text: str, *, number: int) -> None:
    """Send a word in between, past the same gates as every answer, once for each number."""
    looked, stopping = await look_at_response(room, turn.having(response=None).saying(text))
    if stopping is not None or looked.response is None:
        return
    reply = reply_of(
        room, turn, looked.response.message, surface=Surface.STREAM.value, answers=False
    )
    again = {"message_id": f"{turn.message.message_id}.told{number}"}
    await room.enqueue(reply.model_copy(update=again))


def _listener(room: TurnContext, turn: Turn) -> TextListener | None:
    """Whoever watches hears the answer grow, unless a gate has to see it first."""
    live = room.live
    gated = any(gate.on is GateTrigger.EVERY_AGENT_RESPONSE for gate in turn.gates)
    if live is None or gated:
        return None
    return lambda piece: live.text(turn.origin.connection_id, turn.message.trace_id, piece)
