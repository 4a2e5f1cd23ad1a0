"""Whoever is asked for a yes is told who wants it, and whose words it was made from."""

from datetime import UTC, datetime, timedelta

import pytest

from silas.cli.review import provenance
from silas.gates.risk import RiskLevel
from silas.kernel import TaintLevel
from silas.stream.cards import Card

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def card(connection_id: str, taint: TaintLevel) -> Card:
    return Card(
        card_id="card_1",
        scope_id=connection_id,
        connection_id=connection_id,
        channel="web",
        trace_id="trace",
        title="T",
        message="",
        risk=RiskLevel.MEDIUM,
        taint=taint,
        plan_hashes={},
        replaces=None,
        requested_by="planner",
        created_at=NOW,
        expires_at=NOW + timedelta(days=1),
        state="open",
    )


@pytest.mark.parametrize("taint", list(TaintLevel))
def test_a_guests_wish_does_not_look_like_the_owners(taint: TaintLevel) -> None:
    told = provenance(card("guest\nowner", taint))
    assert told.startswith("Asked for by guest")
    assert "\n" not in told
    assert ("your own words" in told) is (taint is TaintLevel.OWNER)
    assert ("not yours" in told) is (taint is TaintLevel.EXTERNAL)
