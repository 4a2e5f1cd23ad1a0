"""Writing: what is returned has been written, in one chain, whoever writes."""

import asyncio
import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

from silas.audit import GENESIS, AuditLog, AuditNotSigned, AuditStateDamaged
from silas.kernel import DatabaseError, IdFactory, canonical_bytes, strict_loads
from silas.storage import Durability, Transaction
from tests.audit.ledger import Ledger, open_ledger
from tests.storage.held_writer import held


async def stored(ledger: Ledger) -> list[tuple[int, str, str]]:
    return await ledger.database.fetch_all("SELECT seq, body, hash FROM audit_log ORDER BY seq")


async def test_an_entry_says_what_happened_and_when(ledger: Ledger) -> None:
    entry_id = await ledger.log.log("secret_stored", ref_id="ref_1", count=2)
    ((seq, body, _),) = await stored(ledger)
    assert seq == 1
    assert strict_loads(body) == {
        "at": "2026-01-01T12:00:00.000000Z",
        "data": {"count": 2, "ref_id": "ref_1"},
        "entry_id": entry_id,
        "event": "secret_stored",
        "seq": 1,
    }
    assert entry_id.startswith("aud_")


async def test_a_body_is_canonical(ledger: Ledger) -> None:
    await ledger.log.log("é\u2028", z=[1.5, {"b": None, "a": True}], ä="\x00\x7f")
    ((_, body, _),) = await stored(ledger)
    assert canonical_bytes(strict_loads(body)) == body.encode()


async def test_each_hash_covers_the_one_before_it(ledger: Ledger) -> None:
    await ledger.write(5)
    digest = bytes.fromhex(GENESIS)
    for _, body, stored_hash in await stored(ledger):
        digest = hashlib.sha256(digest + body.encode()).digest()
        assert digest.hex() == stored_hash
    row = await ledger.database.fetch_one("SELECT head_seq, head_hash FROM audit_state")
    assert row == (5, digest.hex())


def test_the_start_is_the_hash_of_the_name_of_this_format() -> None:
    assert hashlib.sha256(b"silas-audit-chain-v1").hexdigest() == GENESIS


async def test_a_new_database_starts_there(ledger: Ledger) -> None:
    row = await ledger.database.fetch_one(
        "SELECT base_seq, base_hash, base_proof, head_seq, head_hash FROM audit_state"
    )
    assert row == (0, GENESIS, "", 0, GENESIS)


async def test_any_name_can_be_used_for_data(ledger: Ledger) -> None:
    await ledger.log.log("x", event=1, self=2, seq=3, data=4, at=5)
    ((_, body, _),) = await stored(ledger)
    assert strict_loads(body)["data"] == {"event": 1, "self": 2, "seq": 3, "data": 4, "at": 5}


async def test_many_callers_at_once(ledger: Ledger) -> None:
    ids = await asyncio.gather(*(ledger.log.log("x", number=n) for n in range(300)))
    rows = await stored(ledger)
    assert [strict_loads(body)["entry_id"] for _, body, _ in rows] == ids
    assert [strict_loads(body)["data"]["number"] for _, body, _ in rows] == list(range(300))
    assert await ledger.log.verify_chain() == (True, 300)


async def test_callers_that_come_back_together_share_their_commits(ledger: Ledger) -> None:
    commits: list[bool] = []
    ledger.database._writer._connection.set_commit_hook(lambda: commits.append(True) is not None)

    async def caller() -> None:
        for number in range(10):
            await ledger.log.log("thing_happened", number=number)

    await asyncio.gather(*(caller() for _ in range(20)))
    assert len(commits) == 10


async def test_who_comes_while_others_are_being_written_is_next(ledger: Ledger) -> None:
    async with held(ledger.database):
        first = asyncio.create_task(ledger.log.log("x", number=1))
        await asyncio.sleep(0.01)  # its batch is on its way
        second = asyncio.create_task(ledger.log.log("x", number=2))
        await asyncio.sleep(0)
    assert [await first, await second] == [
        strict_loads(body)["entry_id"] for _, body, _ in await stored(ledger)
    ]


async def test_a_cancelled_caller_does_not_take_the_others_with_it(ledger: Ledger) -> None:
    tasks = [asyncio.create_task(ledger.log.log("x", number=n)) for n in range(20)]
    await asyncio.sleep(0)
    for task in tasks[::2]:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    assert all(task.result() for task in tasks[1::2])
    ok, count = await ledger.log.verify_chain()
    assert ok
    assert count >= 10


class TestInsideATransaction:
    async def test_it_happens_together_or_not_at_all(self, ledger: Ledger) -> None:
        def body(tx: Transaction) -> str:
            entry_id = ledger.log.append(tx, "approval_used", {"token_id": "tok_1"})
            tx.execute("INSERT INTO nonces (nonce_key, recorded_at) VALUES ('n', 't')")
            return entry_id

        entry_id = await ledger.database.transaction(body, durability=Durability.TRUST)
        with pytest.raises(DatabaseError):
            await ledger.database.transaction(body, durability=Durability.TRUST)
        ((_, text, _),) = await stored(ledger)
        assert strict_loads(text)["entry_id"] == entry_id
        assert await ledger.log.verify_chain() == (True, 1)

    async def test_several_in_one_transaction(self, ledger: Ledger) -> None:
        await ledger.log.log("before")
        await ledger.database.transaction(
            lambda tx: [ledger.log.append(tx, "x", {"n": n}) for n in range(3)],
            durability=Durability.TRUST,
        )
        await ledger.log.log("after")
        assert await ledger.log.verify_chain() == (True, 5)

    async def test_mixed_with_others_who_log(self, ledger: Ledger) -> None:
        def appending(number: int) -> Any:
            return ledger.database.transaction(
                lambda tx: ledger.log.append(tx, "inside", {"n": number}),
                durability=Durability.TRUST,
            )

        await asyncio.gather(
            *(ledger.log.log("outside", n=n) if n % 2 else appending(n) for n in range(100))
        )
        assert await ledger.log.verify_chain() == (True, 100)


class TestSeveralLogs:
    async def test_on_one_file(self, tmp_path: Path) -> None:
        first = await open_ledger(tmp_path)
        second = await open_ledger(tmp_path, keys=first.keys)
        for _ in range(5):
            await asyncio.gather(first.log.log("a"), second.log.log("b"), first.log.log("c"))
        assert await first.log.verify_chain() == (True, 15)
        assert await second.log.verify_chain() == (True, 15)
        for ledger in (first, second):
            await ledger.database.close()

    async def test_opened_again(self, tmp_path: Path) -> None:
        first = await open_ledger(tmp_path)
        await first.write(3)
        await first.database.close()
        second = await open_ledger(tmp_path, keys=first.keys)
        await second.write(3)
        assert await second.log.verify_chain() == (True, 6)
        await second.database.close()


class TestADamagedState:
    @pytest.mark.parametrize(
        "damage",
        [
            "DELETE FROM audit_state",
            "UPDATE audit_state SET head_hash = 'zz'",
            "UPDATE audit_state SET head_hash = replace(head_hash, substr(head_hash, 1, 1), 'z')",
            "UPDATE audit_state SET head_hash = upper(head_hash)",
            "UPDATE audit_state SET head_seq = 'many'",
            "UPDATE audit_state SET head_seq = 1",
        ],
    )
    async def test_nothing_is_written_behind_it(self, ledger: Ledger, damage: str) -> None:
        await ledger.write(3)
        await ledger.database.execute(damage)
        with pytest.raises(AuditStateDamaged):
            await ledger.log.log("x")
        assert len(await stored(ledger)) == 3
        assert not (await ledger.log.examine()).ok


async def test_without_a_signer_there_are_no_checkpoints(ledger: Ledger) -> None:
    clock = ledger.clock
    log = AuditLog(ledger.database, clock=clock, ids=IdFactory(clock), checkpoint_every=2)
    for _ in range(5):
        await log.log("x")
    assert await log.checkpoint_if_due() is None
    assert await ledger.database.fetch_all("SELECT * FROM audit_checkpoints") == []
    with pytest.raises(AuditNotSigned):
        await log.write_checkpoint()
    with pytest.raises(AuditNotSigned):
        await log.archive(ledger.folder / "x", before=clock.now())


async def test_without_its_state_no_checkpoint_is_due(ledger: Ledger) -> None:
    await ledger.write(1)
    await ledger.database.execute("DELETE FROM audit_state")
    assert await ledger.log.checkpoint_if_due() is None


async def test_before_it_is_due_no_checkpoint_is_made(ledger: Ledger) -> None:
    await ledger.write(1)
    assert await ledger.log.checkpoint_if_due() is None
    assert await ledger.database.fetch_all("SELECT * FROM audit_checkpoints") == []


async def test_after_closing_nothing_is_accepted(tmp_path: Path) -> None:
    ledger = await open_ledger(tmp_path)
    await ledger.database.close()
    with pytest.raises(DatabaseError):
        await ledger.log.log("x")
    with pytest.raises(DatabaseError):  # and the next caller is not left waiting
        await ledger.log.log("y")


async def test_the_stored_text_is_readable_json(ledger: Ledger) -> None:
    await ledger.log.log("x", name="Zoë", path="/tmp/ä")
    ((_, body, _),) = await stored(ledger)
    assert json.loads(body)["data"] == {"name": "Zoë", "path": "/tmp/ä"}
    assert "Zoë" in body


def test_entries_that_wait_when_the_loop_ends_are_cancelled(tmp_path: Path) -> None:
    async def main() -> "asyncio.Task[str]":
        ledger = await open_ledger(tmp_path)
        task = asyncio.create_task(ledger.log.log("x"))
        await asyncio.sleep(0)
        await ledger.database.close()
        return task

    task = asyncio.run(main())
    assert task.done()
