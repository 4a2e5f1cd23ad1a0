"""Steps 3 to 5, 9, 11 and 11.5: chronicle, files, memory and context. What is absent does nothing.

What is said is kept once: its entry of the chronicle is its raw record. Only if the owner wants raw
records to come back by themselves, a memory is kept beside it.

All of it happens before the turn is committed, and may happen again if the process dies in between:
every entry has an id made from the message's own, so that the same thing is added once.
"""

import re
from dataclasses import replace

from silas.approval.devices import Attached
from silas.context.models import ContextKind
from silas.context.service import ChronicleEntry, ContextService
from silas.kernel import Provenance, TaintLevel, join_taint, read_at
from silas.kernel.ids import person_of
from silas.memory.models import MemoryItem, MemoryQuery, MemoryQueryStrategy
from silas.queue.models import Agent, ExecutionStatus, StatusPayload, UserMessage
from silas.stream.attachment_reading import shown_of
from silas.stream.attachments import ReadFile, read_files, source_of
from silas.stream.models import WHAT_CAN_BE_SAID
from silas.stream.turn_context import Turn, TurnContext, Write

_SILAS = "Silas: "
_LISTED = "I listed what can be said to me."
ENDS = frozenset(ExecutionStatus) - {
    ExecutionStatus.RUNNING,
    ExecutionStatus.VERIFICATION_FAILED,
}
"""How work can have ended, or wait for somebody."""
_RECALLED = 5
_MY_NAME = re.compile(r"\b(?:my|the owner's) name is\b", re.IGNORECASE)
_MAX_QUERY = 2000


async def chronicle_message(services: TurnContext, turn: Turn) -> Turn:
    """Step 3: what was said is part of the conversation; the next step writes it down.

    What the owner signed was written down with its nonce, and what is answered after a yes when it
    was said.
    """
    if services.context is None or turn.entry is not None or turn.is_resumed:
        return turn
    entry = await services.context.prepare(entry_of_message(services, turn, turn.message.taint))
    return replace(turn, entry=entry, message_writes=(*turn.message_writes, entry.write))


def entry_of_message(services: TurnContext, turn: Turn, taint: TaintLevel) -> ChronicleEntry:
    """The entry of the chronicle for the message that is answered."""
    begin = f"[{taint.value}] {turn.sender_id}: "
    return ChronicleEntry(
        entry_id=f"{turn.message.message_id}.in",
        scope_id=turn.scope_id,
        turn_number=turn.number,
        source=f"channel:{turn.origin.channel}",
        text=f"{begin}{turn.text}",
        taint=taint,
        sources=message_sources(turn, taint),
        words_from=_words_from(services, begin, turn.text),
    )


def message_sources(turn: Turn, taint: TaintLevel) -> tuple[str, ...]:
    """A message that nobody has signed as the owner, in words for the owner."""
    if taint is not TaintLevel.EXTERNAL:
        return ()
    who = f"a message of {turn.sender_id} over {turn.origin.channel}, not signed as yours"
    return (read_at(who, turn.message.created_at),)


async def keep_message(services: TurnContext, turn: Turn) -> Turn:
    """Step 3.5: the message is written down, and its files are read.

    In one transaction with what was found out about it: from here on it is known, whatever becomes
    of the answer.
    """
    if turn.is_resumed:
        return turn
    active = _active(
        services, turn, "in", turn.text, kind="conversation_raw", taint=turn.message.taint
    )
    writes = (*turn.message_writes, *active)
    if writes:
        await services.store.write(writes)
    if turn.entry is not None:
        await turn.entry.show()
    return await _read_attachments(services, replace(turn, message_writes=(), entry=None))


async def _read_attachments(services: TurnContext, turn: Turn) -> Turn:
    """Put the files of a message that the owner has signed into the context.

    Whoever wrote them, they are foreign text: see `silas.stream.attachments`.
    """
    said, store = turn.message.payload, services.attachments
    if not isinstance(said, UserMessage) or not said.attachments:
        return turn
    if turn.message.taint is not TaintLevel.OWNER or store is None:
        return turn
    files = await read_files(store, said.attachments)
    known = {each.file.sha256: each for each in files}
    for number, named in enumerate(said.attachments, 1):
        await _show_attachment(services, turn, number, named, known.get(named.sha256))
    return replace(turn, files=tuple(files))


async def _show_attachment(
    services: TurnContext, turn: Turn, number: int, named: Attached, found: ReadFile | None
) -> None:
    """Put one file into the chronicle, with what is to be seen of it, once."""
    if services.context is None:
        return
    source = source_of(named.name, turn.message.created_at)
    begin = f"{source} ({found.file.facts if found else 'it is not kept any more'}):\n"
    text = shown_of(found, turn.text) if found else ""
    entry = await services.context.prepare(
        ChronicleEntry(
            entry_id=f"{turn.message.message_id}_file{number}.in",
            scope_id=turn.scope_id,
            turn_number=turn.number,
            source=f"attachment:{named.name}",
            text=f"{begin}{text}",
            taint=TaintLevel.EXTERNAL,
            sources=(source,),
            kind=ContextKind.TOOL_RESULT,
            words_from=_words_from(services, begin, text) if text else None,
        )
    )
    await services.store.write((entry.write,))
    await entry.show()


async def recall(services: TurnContext, turn: Turn) -> Turn:
    """Step 4: memories that fit the message come into the context."""
    text = turn.text.strip()[:_MAX_QUERY]
    if text:
        await _inject(services, turn, [MemoryQuery(query=text, max_results=_RECALLED)])
    if services.proxy_hears_context and turn.scope_id == services.policy.owner_id:
        await _recall_name(services, turn)
    return turn


async def _recall_name(services: TurnContext, turn: Turn) -> None:
    """What the owner is called is in the context whatever the message is about."""
    if services.memory is None or services.context is None:
        return
    query = MemoryQuery(
        query="my name is", strategy=MemoryQueryStrategy.KEYWORD, max_results=_RECALLED
    )
    found = await services.memory.retrieve(query, turn.scope_id)
    names = [each for each in found if _MY_NAME.search(each.content)]
    await services.context.add_memories(turn.scope_id, names[:1], turn_number=turn.number)


async def enforce_budget(services: TurnContext, turn: Turn) -> Turn:
    """Step 5: what does not fit leaves the context."""
    if services.context is not None:
        goal = services.active_goal.title if services.active_goal else None
        await services.context.enforce_budget(turn.scope_id, turn.number, current_goal=goal)
    return turn


async def answer_queries(services: TurnContext, turn: Turn) -> Turn:
    """Step 9: what the agent wants to remember next time comes into the context."""
    if turn.response is not None:
        queries = turn.response.memory_queries
        await _inject(services, turn, queries)
        if services.context is not None:
            for query in queries:
                await services.context.watch_query(
                    turn.scope_id, query.query, turn_number=turn.number
                )
    return turn


async def chronicle_response(services: TurnContext, turn: Turn) -> Turn:
    """Step 11: the answer is part of the conversation, once it is sent."""
    if turn.response is None or services.context is None:
        return turn
    message, is_status = _told_later(services, turn, turn.response.message), _is_status(turn)
    turn = await _chronicle_outputs(services, turn, services.context)
    answer = ChronicleEntry(
        entry_id=f"{turn.message.message_id}.out",
        scope_id=turn.scope_id,
        turn_number=turn.number,
        source=f"agent:{turn.speaker.value}",
        text=f"{_SILAS}{message}",
        taint=turn.taint,
        sources=turn.sources if turn.taint is TaintLevel.EXTERNAL else (),
        # How work goes is in its own records, not in those of what was said.
        words_from=None if is_status else _words_from(services, _SILAS, message),
    )
    entry = await services.context.prepare(answer)
    turn = replace(turn.writing(entry.write), entry=entry, after=(*turn.after, entry.show))
    return _with_result(turn, services.context, message)


def _is_status(turn: Turn) -> bool:
    return turn.speaker is Agent.RUNTIME


def _told_later(services: TurnContext, turn: Turn, message: str) -> str:
    """What agents are told of an answer: a list of what can be said would only fill the context."""
    without_model = turn.is_exact or not services.proxy_hears_context
    listed = turn.decision is not None and turn.decision.reason == WHAT_CAN_BE_SAID
    return _LISTED if without_model and listed else message


async def _chronicle_outputs(services: TurnContext, turn: Turn, context: ContextService) -> Turn:
    """What tools gave stands before the answer; what came from outside is its own raw record."""
    for number, output in enumerate(turn.outputs, 1):
        begin = f"{output.asked}\n"
        result = ChronicleEntry(
            entry_id=f"{turn.message.message_id}_tool{number}.out",
            scope_id=turn.scope_id,
            turn_number=turn.number,
            source=f"tool:{output.tool}{'' if output.success else ':failed'}",
            text=f"{begin}{output.text}",
            taint=output.provenance.taint,
            sources=output.provenance.sources,
            kind=ContextKind.TOOL_RESULT,
            words_from=None if output.contained else _words_from(services, begin, output.text),
        )
        entry = await context.prepare(result)
        turn = replace(turn.writing(entry.write), after=(*turn.after, entry.show))
    return turn


def _with_result(turn: Turn, context: ContextService, text: str) -> Turn:
    """The turn that shows in the workspace what came of work, if that is what it tells."""
    status, work_item_id = turn.message.payload, turn.message.task_id
    if not isinstance(status, StatusPayload) or work_item_id is None or status.status not in ENDS:
        return turn
    found = Provenance(turn.taint, turn.sources)

    async def show() -> None:
        await context.add_result(
            turn.scope_id, work_item_id, text=text, turn_number=turn.number, found=found
        )

    return replace(turn, after=(*turn.after, show))


async def keep_response(services: TurnContext, turn: Turn) -> Turn:
    """Step 11.5: where raw answers come back by themselves, it is kept as an agent's words."""
    if turn.response is None:
        return turn
    text, taint = turn.response.message, join_taint(turn.taint, TaintLevel.AUTH)
    return turn.writing(
        *_active(services, turn, "out", text, kind="agent_response_raw", taint=taint)
    )


def _words_from(services: TurnContext, before: str, text: str) -> int | None:
    """Where the words begin, if the entry is to be their raw record."""
    return len(before) if services.memory is not None and services.memory.is_record(text) else None


def _active(
    services: TurnContext, turn: Turn, end: str, text: str, *, kind: str, taint: TaintLevel
) -> tuple[Write, ...]:
    """What keeps a text as a memory, in the session that its entry of the chronicle has."""
    if services.memory is None or not text:
        return ()
    now, entry = services.clock.now(), turn.entry
    keep = services.memory.active_record(
        MemoryItem(
            memory_id=f"raw_{turn.message.message_id}.{end}",
            scope_id=person_of(turn.scope_id),
            content=text,
            taint=taint,
            created_at=now,
            updated_at=now,
            source_kind=kind,
        )
    )
    if keep is None:
        return ()
    return (lambda tx: keep(tx, entry.session if entry is not None else None),)


async def _inject(services: TurnContext, turn: Turn, queries: list[MemoryQuery]) -> None:
    if services.memory is None or services.context is None:
        return
    for query in queries:
        found = await services.memory.retrieve(query, person_of(turn.scope_id))
        await services.context.add_memories(turn.scope_id, found, turn_number=turn.number)
