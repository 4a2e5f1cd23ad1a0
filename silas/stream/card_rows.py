"""Cards as rows."""

import json

from pydantic import TypeAdapter

from silas.gates.risk import RiskLevel
from silas.kernel import TaintLevel, format_timestamp, parse_timestamp
from silas.storage import Row
from silas.stream.card_statements import Card

_ITEMS = TypeAdapter(dict[str, str])
INSERT = """
INSERT INTO review_cards (id, scope_id, connection_id, channel, trace_id, title, message, risk,
    taint, items, replaces, requested_by, created_at, expires_at, state)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 'open')
ON CONFLICT (id) DO NOTHING
"""
SEAL = """
INSERT INTO card_seals (card_id, key_id, signature) VALUES (?, ?, ?)
ON CONFLICT (card_id) DO NOTHING
"""
SELECT = """
SELECT id, scope_id, connection_id, channel, trace_id, title, message, risk, taint, items, replaces,
    requested_by, created_at, expires_at, state, decision, review_cards.key_id,
    review_cards.signature, card_seals.key_id, card_seals.signature
FROM review_cards LEFT JOIN card_seals ON card_seals.card_id = review_cards.id
"""
DECIDE = """
UPDATE review_cards SET state = ?, decision = ?, key_id = ?, signature = ?, decided_at = ?
WHERE id = ? AND state = 'open'
"""
LAST_SENT_BACK = """
SELECT title, state, items FROM review_cards
WHERE scope_id = ? AND decided_at > ? AND state IN ('edit_requested', 'declined')
    AND requested_by <> 'undo'
ORDER BY decided_at DESC LIMIT 1
"""


def card_of(row: Row) -> Card:
    """The card as the row has it; whether its seal holds is not looked at here."""
    return Card(
        card_id=row[0],
        scope_id=row[1],
        connection_id=row[2],
        channel=row[3],
        trace_id=row[4],
        title=row[5],
        message=row[6],
        risk=RiskLevel(row[7]),
        taint=TaintLevel(row[8]),
        plan_hashes=_ITEMS.validate_json(row[9]),
        replaces=row[10],
        requested_by=row[11],
        created_at=parse_timestamp(row[12]),
        expires_at=parse_timestamp(row[13]),
        state=row[14],
    )


def card_values(card: Card) -> tuple[str | None, ...]:
    """What `INSERT` takes."""
    return (
        card.card_id,
        card.scope_id,
        card.connection_id,
        card.channel,
        card.trace_id,
        card.title,
        card.message,
        card.risk.value,
        card.taint.value,
        json.dumps(card.plan_hashes),
        card.replaces,
        card.requested_by,
        format_timestamp(card.created_at),
        format_timestamp(card.expires_at),
    )
