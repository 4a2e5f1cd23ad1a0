"""What the log says since a moment is proven, or it is not said at all."""

import json
from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import datetime
from pathlib import Path

import pytest

from silas.audit import AuditBroken, AuditLog, AuditNotSigned
from silas.audit.models import link
from silas.kernel import IdFactory, format_timestamp
from silas.storage import Transaction
from tests.audit.ledger import Ledger, make_keys, open_ledger

DONE = "approval_done"
Attack = Callable[[Ledger], Awaitable[None]]


@pytest.fixture
async def ledger(tmp_path: Path) -> AsyncIterator[Ledger]:
    """Something is begun at `since`, done, vouched for, and more happens."""
    ledger = await open_ledger(tmp_path)
    await ledger.write(5)
    await ledger.log.write_checkpoint()
    await ledger.write(3)
    yield ledger
    await ledger.database.close()


async def done(ledger: Ledger) -> datetime:
    ledger.clock.advance(seconds=1)
    since = ledger.clock.now()
    await ledger.log.log(DONE, token_id="tok_1")
    await ledger.log.write_checkpoint()
    await ledger.write(2)
    await ledger.log.write_checkpoint()
    await ledger.write(2)
    return since


async def found(ledger: Ledger, since: datetime, about: str = "tok_1") -> list[str]:
    proven = await ledger.log.proven_since(since, (DONE,), about=about)
    return [entry.data["token_id"] for entry in proven.entries]


async def refused(ledger: Ledger, since: datetime) -> str:
    with pytest.raises(AuditBroken) as broken:
        await found(ledger, since)
    return broken.value.message


def renumbered(body: str, seq: int) -> str:
    return body[: body.rindex(":") + 1] + f"{seq}}}"


async def rewrite(ledger: Ledger, keep: Callable[[str], bool]) -> None:
    """Compute the chain anew without some entries: all that the database alone can give."""

    def write(tx: Transaction) -> None:
        rows = tx.fetch_all("SELECT seq, body, hash FROM audit_log ORDER BY seq")
        tx.execute("DELETE FROM audit_log")
        seq, digest = 0, "0" * 64
        for number, body, stored in rows:
            if number == seq + 1 and keep(body):
                seq, digest = number, stored
            elif keep(body):
                seq += 1
                digest = link(digest, renumbered(body, seq))
            else:
                continue
            row = (seq, renumbered(body, seq), digest)
            tx.execute("INSERT INTO audit_log VALUES (?, ?, ?)", row)
        tx.execute("UPDATE audit_state SET head_seq = ?, head_hash = ?", (seq, digest))

    await ledger.database.transaction(write)


async def test_what_happened_is_found_and_nothing_else(ledger: Ledger) -> None:
    since = await done(ledger)
    assert await found(ledger, since) == ["tok_1"]
    assert await found(ledger, since, "tok_2") == []
    assert (await ledger.log.proven_since(since, ("thing",), about="")).entries == []
    ledger.clock.advance(minutes=1)
    await ledger.log.write_checkpoint()
    ledger.clock.advance(minutes=1)
    assert await found(ledger, ledger.clock.now()) == []


async def test_a_log_without_checkpoints_is_read_from_its_beginning(tmp_path: Path) -> None:
    ledger = await open_ledger(tmp_path)
    since = ledger.clock.now()
    await ledger.log.log(DONE, token_id="tok_1")
    assert await found(ledger, since) == ["tok_1"]
    await ledger.database.close()


async def test_names_that_only_look_alike_are_other_events(ledger: Ledger) -> None:
    since = ledger.clock.now()
    await ledger.log.log("other", event=DONE, token_id="tok_1")
    await ledger.log.log("APPROVAL_DONE", token_id="tok_1")
    assert await found(ledger, since) == []


async def without_the_entry(ledger: Ledger) -> None:
    await rewrite(ledger, lambda body: DONE not in body)


async def without_entry_and_checkpoints(ledger: Ledger) -> None:
    await without_the_entry(ledger)
    await ledger.database.execute("DELETE FROM audit_checkpoints WHERE seq > 5")


async def without_any_checkpoint(ledger: Ledger) -> None:
    await without_the_entry(ledger)
    await ledger.database.execute("DELETE FROM audit_checkpoints")


async def another_body(ledger: Ledger) -> None:
    await ledger.database.execute("UPDATE audit_log SET body = replace(body, 'tok_1', 'tok_9')")


async def checkpoints_of_another_key(ledger: Ledger) -> None:
    await without_entry_and_checkpoints(ledger)
    other = AuditLog(
        ledger.database, clock=ledger.clock, ids=IdFactory(ledger.clock), signer=make_keys()
    )
    await other.write_checkpoint()


async def an_old_time_on_a_new_checkpoint(ledger: Ledger) -> None:
    """A row that names the newest checkpoint, and says that it is old: the search begins there."""
    rows = await ledger.database.fetch_all(
        "SELECT body FROM audit_checkpoints ORDER BY seq DESC LIMIT 1"
    )
    said = json.loads(rows[0][0])
    said["at"] = "2000-01-01T00:00:00.000000Z"
    body = json.dumps(said, sort_keys=True, separators=(",", ":"))
    await ledger.database.execute(
        "INSERT INTO audit_checkpoints VALUES ('ckp_x', 7, ?, 'k', 'AA==')", (body,)
    )


async def another_name(ledger: Ledger) -> None:
    await ledger.database.execute(
        "UPDATE audit_checkpoints SET checkpoint_id = 'latest' WHERE seq = 5"
    )


async def no_state(ledger: Ledger) -> None:
    await ledger.database.execute("DELETE FROM audit_state")


@pytest.mark.parametrize(
    "attack",
    [
        without_the_entry,
        without_entry_and_checkpoints,
        without_any_checkpoint,
        another_body,
        checkpoints_of_another_key,
        an_old_time_on_a_new_checkpoint,
        another_name,
        no_state,
    ],
)
async def test_whoever_writes_the_database_hides_nothing(ledger: Ledger, attack: Attack) -> None:
    since = await done(ledger)
    await attack(ledger)
    with pytest.raises(AuditBroken):
        await found(ledger, since)


@pytest.mark.parametrize(
    ("attack", "told"),
    [
        (
            another_body,
            (
                "The audit log is not as it was written, so nothing can be decided by it. "
                "The content of entry 9 was changed. Run `silas audit verify`."
            ),
        ),
        (
            an_old_time_on_a_new_checkpoint,
            "A checkpoint of the audit log is not signed by a key of the owner's.",
        ),
    ],
)
async def test_what_is_told(ledger: Ledger, attack: Attack, told: str) -> None:
    since = await done(ledger)
    await attack(ledger)
    assert await refused(ledger, since) == told


async def test_it_is_about_all_of_the_words(ledger: Ledger) -> None:
    since = ledger.clock.now()
    await ledger.log.log(DONE, token_id="ok_1")
    await ledger.log.log(DONE, token_id="tok_")
    assert await found(ledger, since, "tok_1") == []
    assert await found(ledger, since, "tok_") == ["tok_"]


async def test_bytes_instead_of_text_hide_nothing(ledger: Ledger) -> None:
    since = await done(ledger)
    await ledger.database.execute("UPDATE audit_log SET body = CAST(body AS BLOB)")
    assert await found(ledger, since) == ["tok_1"]


async def test_what_somebody_appends_hides_nothing(ledger: Ledger) -> None:
    """Until it is vouched for, an entry can be forged; an old time in it is no new beginning."""
    since = await done(ledger)
    later = ledger.clock.now()
    ledger.clock.set(datetime.fromisoformat("2000-01-01T00:00:00+00:00"))
    await ledger.log.log("approval_issued", token_id="tok_1")
    ledger.clock.set(later)
    await ledger.log.write_checkpoint()
    assert await found(ledger, since) == ["tok_1"]


async def test_an_older_database_is_noticed_also_after_the_next_checkpoint(ledger: Ledger) -> None:
    """The next checkpoint makes a new witness of the old log: since then, nothing is proven."""
    tables = ("audit_log", "audit_checkpoints", "audit_state")
    old = {name: await ledger.database.fetch_all(f"SELECT * FROM {name}") for name in tables}
    since = await done(ledger)

    def put_back(tx: Transaction) -> None:
        for name, rows in old.items():
            tx.execute(f"DELETE FROM {name}")
            for row in rows:
                places = ", ".join("?" * len(row))
                tx.execute(f"INSERT INTO {name} VALUES ({places})", tuple(row))

    await ledger.database.transaction(put_back)
    with pytest.raises(AuditBroken):
        await found(ledger, since)
    await ledger.log.write_checkpoint()
    assert (await ledger.log.examine()).ok, "the log says what happened to it, and goes on"
    with pytest.raises(AuditBroken, match="replaced"):
        await found(ledger, since)
    ledger.clock.advance(minutes=1)
    assert await found(ledger, ledger.clock.now()) == [], "what begins after that is known"


async def test_a_log_that_was_archived_since_is_no_proof(ledger: Ledger, tmp_path: Path) -> None:
    since = await done(ledger)
    ledger.clock.advance(minutes=1)
    await ledger.log.write_checkpoint()
    ledger.clock.advance(minutes=1)
    await ledger.log.archive(tmp_path / "old.jsonl", before=ledger.clock.now())
    assert await refused(ledger, since) == (
        "The audit log does not reach back that far: its old part was archived."
    )


async def test_without_a_witness_nothing_is_proven(ledger: Ledger) -> None:
    for missing in ({"witness": None}, {"verifier": None}):
        more = {"verifier": ledger.keys, "witness": ledger.witness, **missing}
        log = AuditLog(ledger.database, clock=ledger.clock, ids=IdFactory(ledger.clock), **more)
        with pytest.raises(AuditNotSigned):
            await log.proven_since(ledger.clock.now(), (DONE,), about="x")


async def test_a_backup_that_came_back_ends_what_was_known(ledger: Ledger) -> None:
    since = await done(ledger)
    await ledger.log.log("backup_restored", voided_approvals=1)
    assert await refused(ledger, since) == (
        "The audit log was replaced by another one since. What was approved before is void."
    )


async def test_a_checkpoint_says_when_it_was_made(ledger: Ledger) -> None:
    """The beginning is found by this time, so it must be the first thing in the body."""
    made = await ledger.database.fetch_all("SELECT body FROM audit_checkpoints")
    at = format_timestamp(ledger.clock.now())[:10]
    assert all(body.startswith(f'{{"at":"{at}') for (body,) in made)


async def test_what_the_witness_showed_cannot_be_taken_out_before_it_is_signed(
    ledger: Ledger,
) -> None:
    await done(ledger)
    ledger.witness.write_bytes(b"{}\n")
    writer = ledger.log._checkpoints
    assert writer is not None

    async def taken_out(_sentence: str) -> str:
        return "aud_not_there"

    writer._record_problem = taken_out
    with pytest.raises(AuditBroken, match="taken out"):
        await ledger.log.write_checkpoint()
