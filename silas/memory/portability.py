"""Memories carried from one Silas to another, scope by scope, all or nothing.

1. A bundle is checked whole before anything is changed, and imported in one transaction.
2. Import never raises trust: what is above `working` in the bundle stays so only if this scope
   holds the same already, or if the owner confirms the bundle (`BundleClaim`).
3. A bundle that the owner's key signed keeps its taints. Any other comes from outside: everything
   in it is `external`, unless the owner confirms it.
4. `merge` writes what is new or changed, by id. The rules for changes hold: what is trusted or the
   owner's own is not overwritten by what may not change it.
5. `replace` also removes what the bundle lacks. If that is trusted, the owner must confirm.

A bundle (`jsonl-v1`) is a header, one memory per line, and an end that proves it is whole. Every
line is canonical JSON. The last one holds the number of memories, the SHA-256 of all bytes
before it, and the owner's signature of that hash, if the one who exported it had a key. The
signature is what makes the memories the owner's own: without it they come from outside.
"""

import hashlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from pydantic import ValidationError

from silas.approval import ApprovalToken
from silas.audit.models import OwnerKey
from silas.kernel import (
    CanonicalError,
    RecallError,
    TaintLevel,
    canonical_bytes,
    format_timestamp,
    join_taint,
    parse_timestamp,
    strict_loads,
)
from silas.memory.errors import BundleRefused, TrustRefused
from silas.memory.models import MemoryItem, ReingestionTier, TrustLevel
from silas.memory.rows import (
    COLUMNS,
    allot_ids,
    as_list,
    exported_records,
    insert_rows,
    item_from,
    lane_of,
    record_by_id,
    remove_records_outside_bundle,
    scope_number,
    update_row,
)
from silas.memory.store import MemoryStores
from silas.memory.trust import (
    ACCEPTED,
    lowered,
    require_admissible,
    require_touchable,
    shown_bytes,
    shown_fields,
)
from silas.storage import Durability, Reader, Transaction

BUNDLE_VERSION = "jsonl-v1"
SCHEMA_VERSION = 1
_LONGEST_LINE = 8_000_000

Write = Callable[[bytes], object]


@dataclass(frozen=True)
class BundleEnd:
    """What the end of a bundle says, after it was checked."""

    count: int
    sha256: str
    signed: bool


class BundleWriter:
    """Writes one bundle, line by line."""

    def __init__(self, write: Write) -> None:
        self._write = write
        self._hash = hashlib.sha256()
        self._count = 0

    def begin(self, *, scope_id: str, exported_at: datetime, include_raw: bool) -> None:
        """The first line."""
        self._line(
            {
                "bundle_version": BUNDLE_VERSION,
                "schema_version": SCHEMA_VERSION,
                "exported_at": format_timestamp(exported_at),
                "scope_id": scope_id,
                "include_raw": include_raw,
            }
        )

    def add(self, item: MemoryItem) -> None:
        """One memory."""
        self._line(item.model_dump(mode="json"))
        self._count += 1

    def end(self, keys: OwnerKey | None, *, at: datetime) -> BundleEnd:
        """The last line."""
        digest = self._hash.hexdigest()
        last: dict[str, Any] = {"bundle_end": True, "count": self._count, "sha256": digest}
        if keys is not None:
            key_id, signature = keys.sign(_statement(digest, at))
            signed = {"key_id": key_id, "signature": signature.hex()}
            last |= {"signed_at": format_timestamp(at), **signed}
        self._line(last)
        return BundleEnd(self._count, digest, keys is not None)

    def _line(self, content: dict[str, Any]) -> None:
        line = canonical_bytes(content) + b"\n"
        self._hash.update(line)
        self._write(line)


def check_bundle(lines: Iterable[bytes], keys: OwnerKey | None) -> BundleEnd:
    """Raise unless a bundle is complete and unchanged. Its memories are read by `items_in`."""
    digest = hashlib.sha256()
    count = -1
    last = b""
    for line in lines:
        if count == 0:
            _require_header(_parsed(last, 1))
        digest.update(last)
        count, last = count + 1, line
    end = _parsed(last, count + 1) if count > 0 else {}
    whole = end.get("bundle_end") is True and end.get("count") == count - 1
    if not whole or end.get("sha256") != digest.hexdigest():
        raise BundleRefused("The bundle is not complete, or was changed. Nothing was imported.")
    return BundleEnd(count - 1, digest.hexdigest(), _is_signed(end, keys))


def items_in(lines: Iterable[bytes]) -> Iterator[MemoryItem]:
    """The memories of a bundle that was checked."""
    for number, line in enumerate(lines, 1):
        content = _parsed(line, number)
        if number > 1 and content.get("bundle_end") is not True:
            yield _item(content, number)


def _is_signed(end: dict[str, Any], keys: OwnerKey | None) -> bool:
    if keys is None or "signature" not in end:
        return False
    try:
        at = parse_timestamp(end["signed_at"])
        signature = bytes.fromhex(end["signature"])
        return keys.verify(end["key_id"], _statement(end["sha256"], at), signature, at=at)
    except (ValueError, KeyError, TypeError):
        return False


def _statement(digest: str, at: datetime) -> bytes:
    """What is signed says what it is, so that no other signature can stand for it."""
    return canonical_bytes(
        {"kind": "silas-memory-bundle", "sha256": digest, "signed_at": format_timestamp(at)}
    )


def _require_header(content: dict[str, Any]) -> None:
    if content.get("bundle_version") != BUNDLE_VERSION:
        raise BundleRefused(f"The bundle is not of the version {BUNDLE_VERSION}.")
    if content.get("schema_version") != SCHEMA_VERSION:
        raise BundleRefused("The bundle was written by another version of Silas. Upgrade this one.")


def _parsed(line: bytes, number: int) -> dict[str, Any]:
    if len(line) > _LONGEST_LINE:
        raise BundleRefused(f"Line {number} is too long.")
    try:
        content = strict_loads(line)
    except (CanonicalError, ValueError) as error:
        raise BundleRefused(f"Line {number} is not JSON as Silas writes it.") from error
    if not isinstance(content, dict):
        raise BundleRefused(f"Line {number} is not a record.")
    return content


def _item(content: dict[str, Any], number: int) -> MemoryItem:
    try:
        return MemoryItem.model_validate(content)
    except ValidationError as error:
        raise BundleRefused(f"Line {number} is not a memory.") from error


MODES = ("merge", "replace")
_BLOCK = 500
Lines = Callable[[], Iterable[bytes]]
"""Gives the lines of a bundle, each time from the start."""

_EXPORTED = f"""
SELECT {COLUMNS} FROM memory_items AS m
WHERE m.id BETWEEN ? AND ? AND m.updated_at >= ? ORDER BY m.id
"""  # noqa: S608 - names of columns only
_HERE = f"""
SELECT m.id, {COLUMNS} FROM json_each(?) AS wanted
CROSS JOIN memory_items AS m ON m.scope_no = ? AND m.memory_id = wanted.value
"""  # noqa: S608


@dataclass(frozen=True)
class BundleClaim:
    """`Approvable`: this bundle is the owner's own, and these memories of it are trusted."""

    scope_id: str
    mode: str
    end: BundleEnd
    trusted: tuple[MemoryItem, ...]

    @property
    def id(self) -> str:
        return f"bundle-{self.end.sha256}"

    @property
    def parent(self) -> str | None:
        return None

    def plan_bytes(self) -> bytes:
        return canonical_bytes(
            {
                "kind": "memory-bundle",
                "scope_id": self.scope_id,
                "mode": self.mode,
                "sha256": self.end.sha256,
                "count": self.end.count,
                "trusted": [shown_fields(item) for item in self.trusted],
            }
        )

    def spawn_policy_bytes(self) -> bytes:
        return b""


class MemoryPortability:
    """Exports and imports the memory of one scope."""

    def __init__(
        self, memories: MemoryStores, scope_id: str, *, keys: OwnerKey | None = None
    ) -> None:
        self._memories = memories
        self._store = memories.of(scope_id)
        self._scope_id = scope_id
        self._keys = keys

    async def export_bundle(self, since: datetime | None = None, include_raw: bool = True) -> bytes:
        """The bundle in one piece."""
        parts: list[bytes] = []
        await self.export_to(parts.append, since=since, include_raw=include_raw)
        return b"".join(parts)

    async def export_to(
        self, write: Write, *, since: datetime | None = None, include_raw: bool = True
    ) -> BundleEnd:
        """Write the bundle piece by piece, on another thread, from one consistent view."""
        await self._memories.access.flush()
        lane = await self._store.lane(None if include_raw else ReingestionTier.ACTIVE)
        after = format_timestamp(since) if since else ""
        bundle = BundleWriter(write)

        now = self._memories.clock.now()

        def copy(reader: Reader) -> BundleEnd:
            bundle.begin(scope_id=self._scope_id, exported_at=now, include_raw=include_raw)
            for row in reader.rows(_EXPORTED, (*lane.bounds, after)):
                bundle.add(item_from(self._scope_id, row))
            if include_raw:
                prepare = self._memories.intake.prepared
                for item in exported_records(reader, self._scope_id, after, prepare=prepare):
                    bundle.add(item)
            return bundle.end(self._keys, at=now)

        return await self._memories.database.snapshot(copy)

    async def import_bundle(
        self, bundle: bytes, mode: str = "merge", *, token: ApprovalToken | None = None
    ) -> dict[str, int]:
        """Take a bundle in; returns what became of its memories, in numbers."""
        lines = bundle.splitlines(keepends=True)
        return await self.import_from(lambda: lines, mode, token=token)

    async def import_from(
        self, lines: Lines, mode: str = "merge", *, token: ApprovalToken | None = None
    ) -> dict[str, int]:
        """The same for a bundle that is read line by line, twice."""
        if mode not in MODES:
            raise BundleRefused(f"A bundle is imported by {' or '.join(MODES)}, not by {mode!r}.")
        end = check_bundle(lines(), self._keys)
        if token is not None:
            await self._confirm(token, self.claim(lines, mode, end))
        intake = _Intake(
            self._memories.intake.prepared, self._scope_id, end.signed, token is not None
        )
        return await self._memories.database.transaction(
            lambda tx: self._take_in(tx, lines, mode, intake), durability=Durability.TRUST
        )

    def claim(self, lines: Lines, mode: str, end: BundleEnd | None = None) -> BundleClaim:
        """What the owner confirms to have everything taken in as the bundle has it."""
        checked = end or check_bundle(lines(), self._keys)
        trusted = (i for i in items_in(lines()) if i.trust_level is not TrustLevel.WORKING)
        return BundleClaim(self._scope_id, mode, checked, tuple(trusted))

    async def _confirm(self, token: ApprovalToken, claim: BundleClaim) -> None:
        approvals = self._memories.approvals
        if approvals is None:
            raise TrustRefused("Nobody here can check the owner's confirmation.")
        valid, reason = await approvals.verify(token, claim, accept=ACCEPTED)
        if not valid:
            raise TrustRefused(f"The owner's confirmation does not hold: {reason}.")

    def _take_in(
        self, tx: Transaction, lines: Lines, mode: str, intake: "_Intake"
    ) -> dict[str, int]:
        stats = {"added": 0, "changed": 0, "kept": 0, "lowered": 0, "removed": 0}
        ids = _Ids(tx, self._scope_id)
        replaces = mode == "replace"
        if replaces:
            tx.execute("CREATE TEMP TABLE IF NOT EXISTS bundle_ids (memory_id TEXT PRIMARY KEY)")
            tx.execute("DELETE FROM temp.bundle_ids")
        for block in _blocks(items_in(lines())):
            if replaces:
                names = ((name,) for name in block)
                tx.execute_many("INSERT OR IGNORE INTO temp.bundle_ids VALUES (?)", names)
            self._take_block(tx, block, intake, stats, ids=ids)
        if replaces:
            stats["removed"] = self._remove_others(tx, confirmed=intake.confirmed)
            tx.execute("DELETE FROM temp.bundle_ids")
        if self._memories.audit is not None:
            data = {"scope_id": self._scope_id, "mode": mode, "signed": intake.signed, **stats}
            self._memories.audit.append(tx, "memory_imported", data)
        return stats

    def _take_block(
        self,
        tx: Transaction,
        block: dict[str, MemoryItem],
        intake: "_Intake",
        stats: dict[str, int],
        *,
        ids: "_Ids",
    ) -> None:
        here = self._here(tx, ids.scope_no, list(block))
        new: list[tuple[int, MemoryItem]] = []
        prepare = self._memories.intake.prepared
        for name, claimed in block.items():
            row_id, old = here.get(name, (0, None))
            if record_by_id(tx, self._scope_id, name, prepare=prepare) is not None:
                stats["kept"] += 1  # what was said here is not said otherwise by a bundle
                continue
            item = intake.taken(claimed, old)
            stats["lowered"] += item.trust_level is not claimed.trust_level
            if old is None:
                new.append((ids.next(item.reingestion_tier), item))
            elif old == item or not intake.may_change(old, item):
                stats["kept"] += 1
            else:
                self._overwrite(tx, row_id, old, item)
                stats["changed"] += 1
        insert_rows(tx, ids.scope_no, new)
        stats["added"] += len(new)

    def _overwrite(self, tx: Transaction, row_id: int, old: MemoryItem, item: MemoryItem) -> None:
        new_id = row_id
        if item.reingestion_tier is not old.reingestion_tier:
            _, new_id = allot_ids(tx, self._scope_id, item.reingestion_tier)
        update_row(tx, row_id, item, new_id=new_id)
        self._memories.reworded.add(row_id)

    def _here(
        self, reader: Reader, scope_no: int, names: list[str]
    ) -> dict[str, tuple[int, MemoryItem]]:
        rows = reader.fetch_all(_HERE, (as_list(names), scope_no))
        items = ((row[0], item_from(self._scope_id, row[1:])) for row in rows)
        return {item.memory_id: (row_id, item) for row_id, item in items}

    def _remove_others(self, tx: Transaction, *, confirmed: bool) -> int:
        lane = lane_of(scope_number(tx, self._scope_id) or 0, None)
        others = "id BETWEEN ? AND ? AND memory_id NOT IN (SELECT memory_id FROM temp.bundle_ids)"
        trusted = tx.fetch_one(
            f"SELECT 1 FROM memory_items WHERE {others} AND trust_level <> 'working' LIMIT 1",  # noqa: S608
            lane.bounds,
        )
        if trusted is not None and not confirmed:
            raise TrustRefused("This would remove memories that are trusted: confirm the bundle.")
        gone = tx.fetch_all(f"SELECT id FROM memory_items WHERE {others}", lane.bounds)  # noqa: S608
        tx.execute(f"DELETE FROM memory_items WHERE {others}", lane.bounds)  # noqa: S608
        self._memories.access.forget(row for (row,) in gone)
        return len(gone) + remove_records_outside_bundle(tx, self._scope_id)


def _blocks(items: Iterable[MemoryItem]) -> Iterator[dict[str, MemoryItem]]:
    """Some hundreds at a time by their ids; what comes again comes in a later block."""
    block: dict[str, MemoryItem] = {}
    for item in items:
        if len(block) == _BLOCK or item.memory_id in block:
            yield block
            block = {}
        block[item.memory_id] = item
    yield block


class _Ids:
    """Ids for new memories, taken in blocks; what is left of a block is never used."""

    def __init__(self, tx: Transaction, scope_id: str) -> None:
        self._tx = tx
        self._scope_id = scope_id
        self._left: dict[ReingestionTier, list[int]] = {tier: [] for tier in ReingestionTier}
        self.scope_no, _ = allot_ids(tx, scope_id, ReingestionTier.ACTIVE, count=0)

    def next(self, tier: ReingestionTier) -> int:
        """An id that was never used before."""
        if not self._left[tier]:
            _, first = allot_ids(self._tx, self._scope_id, tier, count=_BLOCK)
            self._left[tier] = list(range(first + _BLOCK - 1, first - 1, -1))
        return self._left[tier].pop()


@dataclass(frozen=True)
class _Intake:
    """How the memories of one bundle are taken in (rules 2 to 4)."""

    prepared: Callable[[MemoryItem], MemoryItem]
    scope_id: str
    signed: bool
    confirmed: bool

    def taken(self, claimed: MemoryItem, old: MemoryItem | None) -> MemoryItem:
        taint = claimed.taint if self.signed or self.confirmed else TaintLevel.EXTERNAL
        if old is not None:
            taint = join_taint(old.taint, taint)
        item = claimed
        if (claimed.scope_id, claimed.taint) != (self.scope_id, taint):
            item = claimed.model_copy(update={"scope_id": self.scope_id, "taint": taint})
        if not self.confirmed and not (old is not None and shown_bytes(old) == shown_bytes(item)):
            item = lowered(item)
        item = self.prepared(item)
        require_admissible(item, confirmed=True)
        return item

    def may_change(self, old: MemoryItem, item: MemoryItem) -> bool:
        if shown_bytes(old) == shown_bytes(item):
            return True
        try:
            require_touchable(old, taint=item.taint, confirmed=self.confirmed)
        except RecallError:
            return False
        return True
