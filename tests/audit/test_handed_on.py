"""An examination is handed on: the checkpoint behind it examines only what came since."""

from collections.abc import AsyncIterator
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from silas.audit import AuditBroken, log
from silas.audit.models import ExaminedLog
from tests.audit.ledger import Ledger, open_ledger

BEGUN = "approval_begun"


@pytest.fixture
async def ledger(tmp_path: Path) -> AsyncIterator[Ledger]:
    ledger = await open_ledger(tmp_path)
    await ledger.write(5)
    await ledger.log.write_checkpoint()
    await ledger.write(3)
    yield ledger
    await ledger.database.close()


async def examined(ledger: Ledger, since: datetime | None = None) -> ExaminedLog:
    proven = await ledger.log.proven_since(since or ledger.clock.now(), (BEGUN,), about="x")
    assert proven.examined is not None
    return proven.examined


def count_examinations(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    made: list[str] = []
    examine = log.examine_chain

    def counted(*args: Any, **options: Any) -> Any:
        made.append("examined")
        return examine(*args, **options)

    monkeypatch.setattr(log, "examine_chain", counted)
    return made


async def vouched(ledger: Ledger) -> tuple[int, int]:
    """The entry that the newest checkpoint vouches for, and how many are not vouched for."""
    report = await ledger.log.examine()
    assert report.ok
    return report.vouched_seq, report.head_seq - report.vouched_seq


async def test_one_examination_is_enough(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    made = count_examinations(monkeypatch)
    known = await examined(ledger)
    await ledger.log.log(BEGUN, token_id="tok_1")
    await ledger.log.write_checkpoint(known)
    assert made == ["examined"]
    assert await vouched(ledger) == (9, 0)


async def test_nothing_has_come_since(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    known = await examined(ledger)
    made = count_examinations(monkeypatch)
    await ledger.log.write_checkpoint(known)
    assert made == []
    assert await vouched(ledger) == (8, 0)


async def test_another_checkpoint_was_made_meanwhile(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    known = await examined(ledger)
    await ledger.log.log(BEGUN, token_id="tok_1")
    await ledger.log.write_checkpoint()
    await ledger.log.log(BEGUN, token_id="tok_2")
    made = count_examinations(monkeypatch)
    await ledger.log.write_checkpoint(known)
    assert made == ["examined"], "what was handed on does not hold any more"
    assert await vouched(ledger) == (10, 0)


@pytest.mark.parametrize(
    "attack",
    [
        "UPDATE audit_log SET body = replace(body, 'tok_1', 'tok_9') WHERE seq = 9",
        "DELETE FROM audit_log WHERE seq = 9",
        "UPDATE audit_state SET head_hash = hash FROM audit_log WHERE seq = 8",
        "UPDATE audit_state SET head_seq = 8",
    ],
)
async def test_what_came_since_is_examined(ledger: Ledger, attack: str) -> None:
    known = await examined(ledger)
    await ledger.log.log(BEGUN, token_id="tok_1")
    await ledger.database.execute(attack)
    with pytest.raises(AuditBroken):
        await ledger.log.write_checkpoint(known)


async def test_a_checkpoint_vouches_for_what_was_examined(ledger: Ledger) -> None:
    """Who changes an entry behind the examiner's back is found: another hash was signed."""
    known = await examined(ledger)
    await ledger.log.log(BEGUN, token_id="tok_1")
    await ledger.database.execute(
        "UPDATE audit_log SET body = replace(body, 'thing', 'other') WHERE seq = 7"
    )
    await ledger.log.write_checkpoint(known)
    assert not (await ledger.log.examine()).ok


async def test_a_witness_that_shows_something_else_is_recorded(ledger: Ledger) -> None:
    known = await examined(ledger)
    ledger.witness.unlink()
    await ledger.write(1)
    await ledger.log.write_checkpoint(known)
    assert ledger.witness.exists()


async def test_a_witness_that_was_changed_is_a_problem_and_not_passed_over(
    ledger: Ledger,
) -> None:
    await ledger.log.write_checkpoint()
    known = await examined(ledger)
    ledger.witness.write_text("something else\n")
    await ledger.log.write_checkpoint(known)
    events = [entry.event for entry in await ledger.log.tail(5)]
    assert "audit_witness_problem" in events


async def test_a_checkpoint_beside_the_first_is_not_handed_on(ledger: Ledger) -> None:
    """The examination begins behind its first checkpoint, so it has not seen one beside it."""
    ledger.clock.advance(seconds=1)
    since = ledger.clock.now()
    assert (await ledger.log.proven_since(since, (BEGUN,), about="x")).examined is not None
    await ledger.database.execute(
        "INSERT INTO audit_checkpoints SELECT 'ckp_zzz', seq, "
        "replace(replace(body, '2026-', '2027-'), checkpoint_id, 'ckp_zzz'), key_id, signature "
        "FROM audit_checkpoints"
    )
    assert (await ledger.log.proven_since(since, (BEGUN,), about="x")).examined is None
