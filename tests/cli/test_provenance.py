"""Whoever is asked for a yes is told who wants it, and whose words it was made from."""

from datetime import UTC, datetime, timedelta

import pytest

from silas.cli.review import _provenance, _tell
from silas.gates.risk import RiskLevel
from silas.kernel import TaintLevel
from silas.review.cards import Card
from silas.work import WorkItem

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
    told = _provenance(card("guest\nowner", taint))
    assert told.startswith("Asked for by guest")
    assert "\n" not in told
    assert ("your own words" in told) is (taint is TaintLevel.OWNER)
    assert ("not yours" in told) is (taint is TaintLevel.EXTERNAL)


class Shown:
    """As much of a `CliContext` as telling needs."""

    def __init__(self) -> None:
        self.text = ""

    def show(self, data: object, text: str) -> None:
        self.text = text


@pytest.mark.parametrize(
    ("status", "does_it"), [("pending", True), ("running", True), ("failed", False)]
)
def test_an_approval_tells_the_state_after_it(status: str, *, does_it: bool) -> None:
    shown = Shown()
    decided = card("owner", TaintLevel.OWNER).model_copy(update={"state": "approved"})
    item = WorkItem.model_validate(
        {"id": "one", "type": "task", "title": "T", "body": "x", "status": status}
    )
    _tell(shown, decided, [item])  # type: ignore[arg-type]
    assert ("Silas does it now" in shown.text) is does_it
    assert ("stopped meanwhile" in shown.text) is not does_it
