"""Step 7: the personality speaks, the proxy decides who answers, the runtime decides how.

`ask_proxy` makes the call: what the proxy is told, which tools it has, and what its answer is
derived from. If the answer needs a place that the owner has not opened to reading, and the owner's
words name it, the owner is asked instead, once for this message (`silas.stream.places`).
"""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import replace

from silas.gates import GateAction, GateTrigger
from silas.gates.runner import GrowingGates
from silas.kernel import Provenance, TaintLevel, join_taint
from silas.kernel.ids import person_of
from silas.personality.feedback import FEEDBACK, spoken_event
from silas.queue.models import MessageKind, PlanRequest, RequestFolders, UserMessage
from silas.stream.answering import Stage
from silas.stream.attachment_reading import (
    AttachmentReader,
    ConversationFile,
    files_of,
    left_unread,
)
from silas.stream.attachments import provenance_of, unseen_images
from silas.stream.folders import folders_of, paths_named, whole_path
from silas.stream.gate_checks import clip, known_of, look_at_response
from silas.stream.interaction import Surface, resolve_interaction_mode
from silas.stream.limits import beside_context
from silas.stream.models import AgentResponse, AgentTurn, RequestKind, RouteDecision
from silas.stream.place_reading import PlaceReader
from silas.stream.places import OpenedPlaces, PlaceRequest, PlaceWish
from silas.stream.ports import TextListener
from silas.stream.reading_tools import PROXY_TOOLS, ReadingTool, ReadingTools, Rules
from silas.stream.research import add_usage
from silas.stream.steps.vault import answer_about_secret
from silas.stream.steps.visiting import (
    NO_PLANS,
    OWNERS_TOOLS,
    Wish,
    asking_for,
    customer_of,
    goal_tools,
    noting,
)
from silas.stream.turn_context import Turn, TurnContext, message_of, reply_of
from silas.work.models import InteractionMode

_ASKED = "May I read {place}? Answer the card, and I go on with what you asked."
_WAITS = (
    "I may not read {place} yet. Questions about that wait for you in Review and in `silas review "
    "list`: answer them, and ask me again."
)
_MAX_FILES_LOGGED = 50
_NO_GATES = GrowingGates()
_NO_PROXY = "Nobody is here who could answer. Run `silas models test` to see why."

_FEEDBACK = (
    "Changed: {wanted}, from the next answer on. Settings, “How it speaks”, shows it and takes it "
    "back; so does `silas persona undo`."
)


async def ask_proxy(
    services: TurnContext, turn: Turn, *, instruction: str = "", risen: bool = False
) -> Turn:
    """The turn with the proxy's decision; a proxy that is absent answers that it is."""
    with_files = bool(turn.files)
    exact = None
    if not instruction:
        exact = services.exact_for(turn.text, turn.message.taint, with_files=with_files)
    proxy = exact.proxy if exact else services.proxy
    if proxy is None:
        return replace(turn.saying(_NO_PROXY), taint=turn.message.taint)
    hears = services.proxy_hears_context and exact is None
    wishes: list[Wish] = []
    before = services.level_of(turn.origin)
    reader = await _reader(services, turn)
    told = await _told(services, turn, instruction, hears_context=hears)
    attached = await _attached(services, turn)
    files = [*(reader.tools if reader else ()), *(attached.tools if attached else ())]
    files += services.accounts.for_proxy(turn.scope_id) if services.accounts else ()
    tools = _tools(services, turn, wishes, files=files, heard=told.taint)
    listener = await _listener(services, turn, asks_model=exact is None)
    services.answers.derives_from(
        turn.message.trace_id,
        lambda: Provenance(
            join_taint(told.taint, tools.taint), (*told.taint_sources, *tools.sources)
        ),
    )
    answered = await proxy.route(told, tools, on_text=listener)
    if turn.goal is not None and not risen and services.level_of(turn.origin) != before:
        # A gate was passed while it was answering: once more, with the tools that this opens.
        used = add_usage(turn.usage, answered.usage)
        allowed = services.tools_of(turn.origin)
        higher = replace(turn, allowed=allowed, usage=used)
        return await ask_proxy(services, higher, instruction=instruction, risen=True)
    decision = _clipped(answered.output)
    if hears:
        decision = _with_limits(services, turn, decision, read=attached.read if attached else {})
    if answered.fallback:
        await services.audit.log(
            "agent_fallback", role="proxy", reason=answered.fallback, trace_id=turn.message.trace_id
        )
    return replace(
        turn,
        decision=decision,
        is_exact=exact is not None,
        response=decision.response,
        usage=add_usage(turn.usage, answered.usage),
        taint=join_taint(told.taint, answered.taint, tools.taint),
        sources=(*told.taint_sources, *tools.sources),
        read_taint=tools.taint,
        outputs=tuple(tools.outputs),
        wishes=tuple(wishes),
        blocked=tuple(tools.blocked),
        place_wish=reader.wish if reader else None,
        files_read=tuple(reader.read) if reader else (),
    )


async def _reader(services: TurnContext, turn: Turn) -> PlaceReader | None:
    """What the owner's request may read; nobody else's words read anything."""
    said, places = turn.message.payload, services.places
    if turn.message.taint is not TaintLevel.OWNER or places is None:
        return None
    folder, said_in = (said.folder, said.said_in) if isinstance(said, UserMessage) else (None, None)
    around = services.policy.surroundings
    here = folder or said_in
    named = await asyncio.to_thread(paths_named, turn.text, around, said_in=here)
    return PlaceReader(
        places=places,
        opened=await places.readable(),
        named=named,
        here=whole_path(here, around),
        origins=services.reading.origins,
    )


async def _attached(services: TurnContext, turn: Turn) -> AttachmentReader | None:
    """What reads on in the files of this conversation; nobody else's words read anything."""
    if turn.message.taint is not TaintLevel.OWNER or services.attachments is None:
        return None
    mine = files_of([each.file for each in turn.files], turn.message.created_at)
    earlier = await services.attachments.of_conversation(turn.scope_id)
    files = [*mine, *(ConversationFile(*each) for each in earlier)]
    return AttachmentReader(services.attachments, files)


def _with_limits(
    services: TurnContext, turn: Turn, decision: RouteDecision, *, read: Mapping[str, set[int]]
) -> RouteDecision:
    """The decision, saying what of the message's files was not looked at, if anything."""
    response = decision.response
    lines = [left_unread(turn.files, turn.text, read)]
    if not services.proxy_sees_images:
        lines.append(unseen_images([each.file for each in turn.files]))
    if response is None or not any(lines):
        return decision
    message = "\n\n".join([response.message, *filter(None, lines)])
    said = response.model_copy(update={"message": message})
    return decision.model_copy(update={"response": said})


def _clipped(decision: RouteDecision) -> RouteDecision:
    response = decision.response
    if response is None or clip(response.message) == response.message:
        return decision
    shorter = response.model_copy(update={"message": clip(response.message)})
    return decision.model_copy(update={"response": shorter})


async def context_of(
    services: TurnContext, scope_id: str, *, number: int, before: Provenance
) -> tuple[str, Provenance]:
    """The rendered context, and what is known before joined with what it is derived from."""
    if services.context is None:
        return "", before
    text = await services.context.render(scope_id, number)
    return text, before.joined(await services.context.provenance(scope_id))


async def _told(
    services: TurnContext, turn: Turn, instruction: str, *, hears_context: bool
) -> AgentTurn:
    text, found = "", Provenance(turn.message.taint, turn.sources)
    if hears_context:
        text, found = await context_of(services, turn.scope_id, number=turn.number, before=found)
    named = [each.file for each in turn.files]
    found = found.joined(*provenance_of(named, turn.message.created_at))
    sees = hears_context and services.proxy_sees_images
    request = services.frame(turn.text, turn.message.taint)
    return AgentTurn(
        scope_id=turn.scope_id,
        trace_id=turn.message.trace_id,
        request=f"{request}\n\n{instruction}" if instruction else request,
        context=text,
        directives=turn.directives,
        access_level=services.level_of(turn.origin),
        briefing=turn.goal.body if turn.goal else "",
        customer=customer_of(services, turn),
        goal_tools=tuple(tool.name for tool in goal_tools(services, turn)),
        skills=dict(turn.skills),
        files=tuple(each.for_agent(images=sees) for each in turn.files),
        taint=found.taint,
        taint_sources=list(found.sources),
        max_tokens=beside_context(services.policy.max_tokens, text),
        max_cost_usd=services.policy.max_cost_usd,
    )


def is_owners(services: TurnContext, turn: Turn) -> bool:
    """Whether the owner began what this turn is about, whatever was read for it since."""
    return services.is_owners(turn.origin)


def _tools(
    services: TurnContext,
    turn: Turn,
    wishes: list[Wish],
    *,
    files: Sequence[ReadingTool],
    heard: TaintLevel,
) -> ReadingTools:
    told = 0

    async def tell(text: str) -> None:
        nonlocal told
        told += 1
        if told <= services.policy.max_told:
            await _tell_user(services, turn, text, number=told)

    proxys = services.reading.for_proxy(
        turn.scope_id,
        turn_number=turn.number,
        tell=tell,
        # By the signature: whoever only says that he is the owner reads nothing of his.
        owner=turn.message.taint is TaintLevel.OWNER,
        files=files,
    )
    goals = goal_tools(services, turn)
    known = {"scope_id": turn.scope_id, "role": "proxy"}
    mine = PROXY_TOOLS if is_owners(services, turn) else PROXY_TOOLS - OWNERS_TOOLS
    return ReadingTools(
        [*proxys, *services.reading.for_visitor(goals, ask=asking_for(services, turn, wishes))],
        Rules(turn.runner, turn.gates, services.audit, known, noting(services, turn)),
        allowed=(mine & turn.allowed) | {tool.name for tool in goals},
        taint=turn.message.taint,
        now=services.clock.now,
        # The owner's conversation is in the prompt; a visitor's is nobody else's.
        seen_private=is_owners(services, turn),
        looking=services.answers.looking(turn.message.trace_id),
        heard=heard,
    )


async def _tell_user(services: TurnContext, turn: Turn, text: str, *, number: int) -> None:
    """Send a word in between, past the same gates as every answer, once for each number."""
    looked, stopping = await look_at_response(services, replace(turn, response=None).saying(text))
    if stopping is not None or looked.response is None:
        return
    reply = reply_of(
        services, turn, looked.response.message, surface=Surface.STREAM.value, answers=False
    )
    again = {"message_id": f"{turn.message.message_id}.told{number}"}
    await services.enqueue(reply.model_copy(update=again))


async def _listener(services: TurnContext, turn: Turn, *, asks_model: bool) -> TextListener | None:
    """Whoever watches hears the answer grow, as far as the gates can judge its beginning."""
    trace, gates = turn.message.trace_id, _NO_GATES
    if not asks_model or services.proxy_model is None:
        return None  # it is there at once
    if turn.runner is not None:
        gates = await turn.runner.growing(turn.gates, GateTrigger.EVERY_AGENT_RESPONSE)
    elif any(gate.on is GateTrigger.EVERY_AGENT_RESPONSE for gate in turn.gates):
        return None  # nobody can evaluate them, so it will be blocked
    services.answers.enter(trace, Stage.ASKING, what=services.proxy_model, note=_held_by(gates))
    return services.answers.listener(trace, gates)


def _held_by(gates: GrowingGates) -> str:
    """Why the answer is not shown while it is written."""
    names = [f"“{gate.name}”" for gate in gates.holding]
    if not names:
        return ""
    checks = f"check {names[0]} has" if len(names) == 1 else f"checks {', '.join(names)} have"
    return f"You see the answer when the {checks} read all of it."


async def route(services: TurnContext, turn: Turn) -> Turn:
    """Step 7: a direct answer, or a request for a plan. About secrets no agent is asked."""
    about_secret = await answer_about_secret(services, turn)
    if about_secret is not None:
        return about_secret
    to_companion = await _to_companion(services, turn)
    if to_companion is not None:
        return to_companion
    turn = await ask_proxy(services, await _in_character(services, turn))
    decision = turn.decision
    if decision is None:
        return turn
    profile = decision.context_profile
    if profile not in services.policy.profiles:
        profile = services.policy.default_profile
    if services.context is not None:
        await services.context.set_profile(turn.scope_id, profile)
    turn = _logged(services, replace(turn, mode=_mode(services, turn, decision)), decision, profile)
    turn = _with_feedback(services, turn)
    wish = turn.place_wish or await _place_of_question(services, turn, decision)
    if wish is not None and services.places is not None:
        return await _ask_for_place(services, turn, services.places, wish)
    if turn.goal is not None and decision.route == "planner":
        return turn.saying(NO_PLANS)
    return await _to_planner(services, turn, decision) if decision.route == "planner" else turn


async def _to_companion(services: TurnContext, turn: Turn) -> Turn | None:
    """The turn of a message that speaks to a companion: the proxy is not asked."""
    if services.spoken_to is None:
        return None
    # By the signature: whoever only says that he is the owner speaks to none of them.
    return await services.spoken_to(turn, turn.message.taint is TaintLevel.OWNER)


async def _place_of_question(
    services: TurnContext, turn: Turn, decision: RouteDecision
) -> PlaceWish | None:
    """What is not open of what a question names that is answered by looking (a guided model's)."""
    if decision.request_kind is not RequestKind.QUESTION:
        return None
    reader = await _reader(services, turn)
    return await reader.first_closed() if reader else None


async def _ask_for_place(
    services: TurnContext, turn: Turn, places: OpenedPlaces, wish: PlaceWish
) -> Turn:
    """The turn that asks the owner; its request is answered after a yes."""
    said, shown = turn.message.payload, places.shown(wish.place)
    request = PlaceRequest(
        text=turn.text,
        folder=said.folder if isinstance(said, UserMessage) else None,
        said_in=said.said_in if isinstance(said, UserMessage) else None,
    )
    question = await places.asking(
        wish, request, scope_id=turn.scope_id, trace_id=turn.message.trace_id
    )
    told = _ASKED if question else _WAITS
    turn = replace(
        turn,
        response=AgentResponse(message=told.format(place=shown)),
        outputs=(),
        taint=turn.message.taint,
        sources=(),
        read_taint=turn.message.taint,
        place_wish=wish,
    )
    if question is None:
        return turn
    entry = {**known_of(turn), "path": str(wish.place), "card_id": question.question_id}
    turn = turn.auditing(
        lambda tx: places.questions.ask_in(tx, question),
        lambda tx: services.audit.append(tx, "place_asked", entry),
    )
    return replace(turn, card_id=question.question_id)


def _with_feedback(services: TurnContext, turn: Turn) -> Turn:
    """The answer to feedback about the manner says what it moves, and how to take that back."""
    event, response = spoken_event(turn.text), turn.response
    owners = turn.message.taint is TaintLevel.OWNER
    feedback = FEEDBACK.get(event or "")
    if services.personality is None or not owners or feedback is None or response is None:
        return turn
    told = _FEEDBACK.format(wanted=feedback.wanted)
    return turn.saying(f"{response.message}\n\n{told}".strip())


async def _in_character(services: TurnContext, turn: Turn) -> Turn:
    if services.personality is None:
        return turn
    directives, initiative = await services.personality.character(
        person_of(turn.scope_id),
        turn.text,
        must_ask=_must_ask(turn),
        eager_from=services.policy.high_initiative_min,
    )
    if services.context is not None:
        await services.context.set_directives(turn.scope_id, directives)
        directives = ""  # they are part of the context now, and are said once
    return replace(turn, directives=directives, initiative=initiative)


def _must_ask(turn: Turn) -> bool:
    """Whether risk or policy forces this turn to ask first, as far as that is known by now."""
    asked = any(each.action is GateAction.REQUIRE_APPROVAL for each in turn.input_results)
    return asked or turn.taint is TaintLevel.EXTERNAL


def _mode(services: TurnContext, turn: Turn, decision: RouteDecision) -> InteractionMode:
    return resolve_interaction_mode(
        decision.interaction_mode,
        None,
        work_item_mode=None,
        risk_requires_confirmation=_must_ask(turn),
        initiative_level=turn.initiative,
        interaction_register=decision.interaction_register,
        high_initiative_min=services.policy.high_initiative_min,
        default_mode_by_register=services.policy.default_modes,
    )


def _logged(services: TurnContext, turn: Turn, decision: RouteDecision, profile: str) -> Turn:
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
    turn = turn.auditing(lambda tx: services.audit.append(tx, "turn_routed", entry))
    if not turn.files_read:
        return turn
    files = list(dict.fromkeys(turn.files_read))[:_MAX_FILES_LOGGED]
    read = {**known_of(turn), "files": files}
    return turn.auditing(lambda tx: services.audit.append(tx, "files_read", read))


async def _to_planner(services: TurnContext, turn: Turn, decision: RouteDecision) -> Turn:
    services.answers.enter(turn.message.trace_id, Stage.PLANNING)
    request = message_of(
        services,
        turn,
        kind=MessageKind.PLAN_REQUEST,
        content=turn.text,
        payload=PlanRequest(
            connection_id=turn.origin.connection_id,
            interaction_register=decision.interaction_register.value,
            interaction_mode=turn.mode.value if turn.mode else "",
            request_kind=decision.request_kind.value if decision.request_kind else None,
            continuation_of=decision.continuation_of,
            folders=await _folders(services, turn),
            attachments=[each.file.signed for each in turn.files],
            attached_at=turn.message.created_at if turn.files else None,
        ),
        # The request is the message alone. What it goes on from was chosen by the proxy, from all
        # that the proxy was told.
        taint=turn.taint if decision.continuation_of else turn.message.taint,
    )
    return turn.sending(request)


async def _folders(services: TurnContext, turn: Turn) -> RequestFolders:
    """The folders that the owner means; nobody else's words choose one."""
    said = turn.message.payload
    if turn.message.taint is not TaintLevel.OWNER or not isinstance(said, UserMessage):
        return RequestFolders()
    return await asyncio.to_thread(
        folders_of,
        turn.text,
        services.policy.surroundings,
        picked=said.folder,
        said_in=said.said_in,
    )
