"""The chain against a simple model: a list, and the hashes computed over it."""

import asyncio
import hashlib
import tempfile
from pathlib import Path
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from silas.audit import GENESIS
from silas.kernel import strict_loads
from silas.kernel.redaction import redact
from silas.storage import Durability, Transaction
from tests.audit.ledger import Ledger, make_keys, open_ledger

KEYS = make_keys()

names = st.text("abcdefghij_", min_size=1, max_size=8)
data = st.dictionaries(
    names,
    st.integers(-1000, 1000)
    | st.text(max_size=8)
    | st.none()
    | st.lists(st.booleans(), max_size=2),
    max_size=3,
)
entries = st.lists(st.tuples(names, data), max_size=20)
actions = st.lists(
    st.one_of(
        st.tuples(st.just("log"), entries),
        st.tuples(st.just("together"), entries),
        st.tuples(st.just("append"), entries),
        st.tuples(st.just("take back"), entries),
        st.tuples(st.just("checkpoint"), st.none()),
        st.tuples(st.just("reopen"), st.none()),
        st.tuples(st.just("verify"), st.none()),
    ),
    max_size=8,
)

Expected = list[tuple[str, dict[str, Any]]]


class TakenBack(Exception):
    pass


@settings(max_examples=40, deadline=None)
@given(actions=actions, every=st.sampled_from([1, 3, 1000]))
def test_whatever_is_written_is_there_in_order(actions: list[Any], every: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(_drive(Path(folder), actions, every))


async def _drive(folder: Path, actions: list[Any], every: int) -> None:
    ledger = await open_ledger(folder, keys=KEYS, checkpoint_every=every)
    expected: Expected = []
    for action, given_entries in actions:
        if action == "reopen":
            await ledger.database.close()
            ledger = await open_ledger(folder, keys=KEYS, checkpoint_every=every)
        elif action == "checkpoint":
            await ledger.log.write_checkpoint()
        elif action == "verify":
            assert await ledger.log.verify_chain() == (True, len(expected))
            assert (await ledger.log.verify_from_checkpoint())[0]
        else:
            await _write(ledger, action, given_entries, expected)
    await _compare(ledger, expected)
    await ledger.database.close()


async def _write(ledger: Ledger, action: str, given_entries: Expected, expected: Expected) -> None:
    log = ledger.log
    if action == "log":
        for event, values in given_entries:
            await log.log(event, **values)
    elif action == "together":
        await asyncio.gather(*(log.log(event, **values) for event, values in given_entries))
    else:

        def body(tx: Transaction) -> None:
            for event, values in given_entries:
                log.append(tx, event, values)
            if action == "take back":
                raise TakenBack

        try:
            await ledger.database.transaction(body, durability=Durability.TRUST)
        except TakenBack:
            return
    expected += given_entries


async def _compare(ledger: Ledger, expected: Expected) -> None:
    rows = await ledger.database.fetch_all("SELECT seq, body, hash FROM audit_log ORDER BY seq")
    digest = bytes.fromhex(GENESIS)
    assert len(rows) == len(expected)
    for number, ((seq, body, stored), (event, values)) in enumerate(
        zip(rows, expected, strict=True), start=1
    ):
        entry = strict_loads(body)
        digest = hashlib.sha256(digest + body.encode()).digest()
        assert (seq, entry["seq"], stored) == (number, number, digest.hex())
        assert (entry["event"], entry["data"]) == (event, redact(values))
    report = await ledger.log.examine()
    assert report.ok
    assert (report.entries, report.head_hash) == (len(expected), digest.hex())
