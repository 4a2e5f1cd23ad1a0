"""The bundle `jsonl-v1`: a header, one memory per line, and an end that proves it is whole.

Every line is canonical JSON. The last one holds the number of memories, the SHA-256 of all bytes
before it, and the owner's signature of that hash, if the one who exported it had a key. The
signature is what makes the memories the owner's own: without it they come from outside.
"""

import hashlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Protocol

from pydantic import ValidationError

from silas.kernel import (
    CanonicalError,
    canonical_bytes,
    format_timestamp,
    parse_timestamp,
    strict_loads,
)
from silas.memory.errors import BundleRefused
from silas.memory.models import MemoryItem

BUNDLE_VERSION = "jsonl-v1"
SCHEMA_VERSION = 1
_LONGEST_LINE = 8_000_000

Write = Callable[[bytes], object]


class BundleKeys(Protocol):
    """The owner's key: it vouches for what is exported, and recognises it again."""

    def sign(self, payload: bytes) -> tuple[str, bytes]:
        """The id of the key, and its signature."""
        ...

    def verify(self, key_id: str, payload: bytes, signature: bytes, *, at: datetime) -> bool:
        """Whether this key of the owner's made this signature, and was in use then."""
        ...


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

    def end(self, keys: BundleKeys | None, *, at: datetime) -> BundleEnd:
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


def check_bundle(lines: Iterable[bytes], keys: BundleKeys | None) -> BundleEnd:
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


def _is_signed(end: dict[str, Any], keys: BundleKeys | None) -> bool:
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
