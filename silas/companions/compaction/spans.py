"""A span of the log, read; its summary, written."""

from silas.companions.compaction.ports import SummaryRequest
from silas.companions.ids import digest, summary_id
from silas.companions.links import LinkBook
from silas.companions.log import MessageLog, approximate_tokens, pointer_to
from silas.companions.memory import Remembered, read_remembered
from silas.companions.merging import higher_pointer
from silas.companions.models import (
    AgentLinkRelation,
    AgentMessage,
    AgentMessageKind,
    AgentMessageMetadata,
    AgentState,
    CompactionJob,
    Companion,
    Diagnostic,
    JsonMap,
)
from silas.companions.store import CompanionStore
from silas.kernel import CompanionError
from silas.storage import Reader, Transaction

_SEQUENCE = "SELECT sequence FROM agent_messages WHERE id = ? AND deleted_at IS NULL"
_COLUMNS = """
SELECT m.body, p.body FROM agent_messages AS m
LEFT JOIN agent_message_payloads AS p ON p.id = m.content_entry_id AND p.deleted_at IS NULL
"""
_RAW = f"""{_COLUMNS}
WHERE m.agent_id = ? AND m.thread_id = ? AND m.summary_depth = 0
    AND m.sequence BETWEEN ? AND ? AND m.deleted_at IS NULL ORDER BY m.sequence
"""
_SUMMARIES = f"""{_COLUMNS}
WHERE m.agent_id = ? AND m.summary_depth = ?
    AND m.sequence BETWEEN ? AND ? AND m.deleted_at IS NULL ORDER BY m.sequence, m.id
"""


def read_span(reader: Reader, job: CompactionJob) -> tuple[Remembered, ...]:
    """The entries of a span, oldest first; raises if there is nothing left of it."""
    ends = [
        reader.fetch_one(_SEQUENCE, (each,)) for each in (job.start_message_id, job.end_message_id)
    ]
    if ends[0] is None or ends[1] is None:
        raise CompanionError("The messages that were to be summarised are gone.")
    between = (ends[0][0], ends[1][0])
    if job.depth == 1:
        rows = reader.fetch_all(_RAW, (job.agent_id, job.thread_id, *between))
    else:
        rows = reader.fetch_all(_SUMMARIES, (job.agent_id, job.depth - 1, *between))
    return tuple(read_remembered(rows))


def write_summary_in(
    tx: Transaction,
    store: CompanionStore,
    request: SummaryRequest,
    *,
    content: JsonMap,
    contract_version: str,
) -> AgentMessage:
    """The summary, its edges and the pointer to it; or the first one, if there is one already."""
    message = _summary(store, request, content, contract_version)
    summary = store.get_in(tx, AgentMessage, message.id)
    if summary is None:
        summary = MessageLog(store).keep_in(tx, message, content)
        _draw_edges(tx, store, summary)
    else:
        _note_difference(tx, store, summary, digest(content), content)
    _advance_pointer(tx, store, summary)
    return summary


def _summary(
    store: CompanionStore, request: SummaryRequest, content: JsonMap, contract_version: str
) -> AgentMessage:
    start, end = request.entries[0].message, request.entries[-1].message
    return AgentMessage(
        id=summary_id(
            request.agent_id,
            request.thread_id,
            start_message_id=start.id,
            end_message_id=end.id,
            depth=request.depth,
            contract_version=contract_version,
        ),
        agent_id=request.agent_id,
        thread_id=request.thread_id,
        kind=AgentMessageKind.SUMMARY,
        created_at=store.clock.now(),
        host_id=store.host_id,
        # It stands where its span ends.
        sequence=end.sequence,
        summary_start_message_id=start.id,
        summary_end_message_id=end.id,
        summary_depth=request.depth,
        tokens_approx=approximate_tokens(content),
        metadata=AgentMessageMetadata(
            summary_content_hash=digest(content), summary_contract_version=contract_version
        ),
    )


def _draw_edges(tx: Transaction, store: CompanionStore, summary: AgentMessage) -> None:
    links = LinkBook(store)
    for relation, to_id in (
        (AgentLinkRelation.SUMMARY_START, summary.summary_start_message_id),
        (AgentLinkRelation.SUMMARY_END, summary.summary_end_message_id),
    ):
        if to_id is not None:
            links.draw_in(
                tx,
                relation,
                agent_id=summary.agent_id,
                from_id=summary.id,
                to_id=to_id,
                now=summary.created_at,
                thread_id=summary.thread_id,
            )


def _advance_pointer(tx: Transaction, store: CompanionStore, summary: AgentMessage) -> None:
    companion = store.require_in(tx, Companion, summary.agent_id)
    state = store.require_in(tx, AgentState, companion.current_state_id)
    newest = higher_pointer(state.latest_summary, pointer_to(summary))
    if newest != state.latest_summary:
        store.put_in(tx, state.model_copy(update={"latest_summary": newest}))


def _note_difference(
    tx: Transaction,
    store: CompanionStore,
    known: AgentMessage,
    content_hash: str,
    content: JsonMap,
) -> None:
    if known.metadata.summary_content_hash == content_hash:
        return
    store.put_in(
        tx,
        Diagnostic(
            id=digest("summary_divergence", known.id, content_hash),
            agent_id=known.agent_id,
            kind="summary_divergence",
            subject_id=known.id,
            detail={
                "kept": known.metadata.summary_content_hash,
                "refused": content_hash,
                "content": content,
            },
            created_at=store.clock.now(),
        ),
    )
