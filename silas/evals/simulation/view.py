"""What a Silas has on its disk, read by somebody who does not trust it."""

import hashlib
import json
from dataclasses import dataclass
from typing import Any

from silas.app.ground import Ground
from silas.approval import ApprovalToken
from silas.audit.models import AuditReport
from silas.storage import Row
from silas.work.models import WorkItem
from silas.work.rows import SELECT_ITEM, item_from_row

_TOKENS = """
SELECT token_id, token, shown, executions_used,
    (SELECT count(*) FROM approval_executions AS use WHERE use.token_id = issued.token_id)
FROM approval_tokens AS issued
"""
_EVENTS = "SELECT body FROM audit_log WHERE body LIKE ?"


@dataclass(frozen=True)
class IssuedRow:
    """A token and how often it was used, as three places say it."""

    token: ApprovalToken
    shown: str
    counted: int
    recorded: int
    audited: int


@dataclass(frozen=True)
class View:
    """The rows that the rules are about."""

    ground: Ground
    report: AuditReport
    events: str
    """The fingerprint of what the audit log names, in order. Its own hashes are those of this run
    alone: plans are bound to a directory of this machine."""
    damage: list[Row]
    items: dict[str, WorkItem]
    attempted: set[str]
    tokens: list[IssuedRow]
    answers: list[dict[str, Any]]
    """Deliveries, in their order."""
    on_the_bus: set[str]
    """The traces of messages that are on their way."""
    given_up: dict[str, str]
    """Dead letters: their ids, and why."""
    origins: dict[str, str | None]
    """How far each message was trusted, by its trace."""
    work: dict[str, tuple[str, str]]
    """Trace and taint of each work item that came out of a conversation."""
    cards: dict[str, tuple[str, tuple[str, ...]]]
    """The state of each card, and the work items that it shows."""
    lapsed: set[str]
    """Cards whose decision came too late to be followed."""


async def look(ground: Ground) -> View:
    """Read everything."""
    fetch = ground.database.fetch_all
    rows = await fetch(SELECT_ITEM)
    items = {item.id: item for item in map(item_from_row, rows)}
    queued = await fetch("SELECT body FROM queue_messages")
    return View(
        ground=ground,
        report=await ground.audit.examine(),
        events=await _events(ground),
        damage=[row for row in await fetch("PRAGMA quick_check") if row != ("ok",)],
        items=items,
        attempted={name for (name,) in await fetch("SELECT work_item_id FROM work_attempts")},
        tokens=await _tokens(ground),
        answers=[
            json.loads(text)
            for (text,) in await fetch("SELECT message FROM deliveries ORDER BY number")
        ],
        on_the_bus={json.loads(body)["trace_id"] for (body,) in queued},
        given_up=dict(await fetch("SELECT message_id, reason FROM dead_letters")),
        origins=dict(await fetch("SELECT trace_id, taint FROM conversation_origins")),
        work={
            name: (trace, taint)
            for name, trace, taint in await fetch(
                "SELECT work_item_id, trace_id, taint FROM conversation_work"
            )
        },
        cards={
            name: (state, tuple(json.loads(items)))
            for name, state, items in await fetch("SELECT id, state, items FROM review_cards")
        },
        lapsed=set(await _said_of(ground, "decision_lapsed", "card_id")),
    )


async def _events(ground: Ground) -> str:
    rows = await ground.database.fetch_all("SELECT body FROM audit_log ORDER BY seq")
    named = "\n".join(json.loads(body)["event"] for (body,) in rows)
    return hashlib.sha256(named.encode()).hexdigest()


async def _said_of(ground: Ground, event: str, what: str) -> list[str]:
    """What the audit log names in all entries of a kind."""
    rows = await ground.database.fetch_all(_EVENTS, (f'%"{event}"%',))
    entries = [json.loads(body) for (body,) in rows]
    return [entry["data"][what] for entry in entries if entry["event"] == event]


async def _tokens(ground: Ground) -> list[IssuedRow]:
    used = await _said_of(ground, "approval_used", "token_id")
    return [
        IssuedRow(
            ApprovalToken.model_validate_json(text), shown, counted, recorded, used.count(name)
        )
        for name, text, shown, counted, recorded in await ground.database.fetch_all(_TOKENS)
    ]
