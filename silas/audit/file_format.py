"""An exported log: JSON lines that can be checked on any machine with the public key alone.

1. The first line is the header: format, start (with the owner's permission, if it is not the very
   beginning), end, how many checkpoints there are, and the ids of the keys that signed them.
2. Then come the entries, `{"entry":…,"hash":"…"}`, with the stored bytes in place of the dots. They
   are cut out again as they are; nothing is parsed to be verified.
3. Then come the checkpoints, each a signed statement.
4. Every line ends with a line feed. No byte is without a meaning: each change is found.
"""

import re
from dataclasses import dataclass
from typing import Any

from silas.audit.chain import Position
from silas.audit.errors import AuditFileInvalid
from silas.audit.statements import SignedStatement
from silas.audit.store import ChainState
from silas.kernel import CanonicalError, canonical_bytes, strict_loads

FILE_FORMAT = "silas-audit-export-v1"
LONGEST_LINE = 1 << 20

_ENTRY = re.compile(rb'{"entry":(.*),"hash":"([0-9a-f]{64})"}\n', re.DOTALL)
_DAMAGED = b'{"damaged_entry":'
_CHECKPOINT = b'{"key_id":'


@dataclass(frozen=True, slots=True)
class Header:
    """What the first line says."""

    state: ChainState
    checkpoints: int
    key_ids: tuple[str, ...]


def header_line(header: Header) -> bytes:
    """The first line of a file."""
    state = header.state
    fields = {
        "format": FILE_FORMAT,
        "base": {"seq": state.base.seq, "hash": state.base.hash},
        "base_proof": state.base_proof,
        "head": {"seq": state.head.seq, "hash": state.head.hash},
        "checkpoints": header.checkpoints,
        "key_ids": list(header.key_ids),
    }
    return canonical_bytes(fields) + b"\n"


def read_header(line: bytes) -> Header:
    """What `header_line` wrote; raises `AuditFileInvalid` for anything else."""
    try:
        fields = strict_loads(line)
        if fields["format"] != FILE_FORMAT:
            raise AuditFileInvalid
        state = ChainState(
            _position(fields["base"]), fields["base_proof"], _position(fields["head"])
        )
        header = Header(state, fields["checkpoints"], tuple(fields["key_ids"]))
        if not all(type(text) is str for text in (state.base_proof, *header.key_ids)):
            raise AuditFileInvalid
        if type(header.checkpoints) is not int:
            raise AuditFileInvalid
        # Written again it must be the same bytes, or it holds something that we did not look at.
        if header_line(header) != line:
            raise AuditFileInvalid
    except (CanonicalError, KeyError, TypeError, AttributeError) as error:
        raise AuditFileInvalid from error
    return header


def _position(fields: dict[str, Any]) -> Position:
    if type(fields["seq"]) is not int or type(fields["hash"]) is not str:
        raise AuditFileInvalid
    return Position(fields["seq"], fields["hash"])


def entry_line(body: str, digest: str) -> bytes:
    """The line of an entry; one that is no entry any more is kept as a text, as evidence."""
    line = b'{"entry":%b,"hash":"%b"}\n' % (body.encode(), digest.encode())
    if "\n" in body or not _ENTRY.fullmatch(line):
        return canonical_bytes({"damaged_entry": body, "hash": digest}) + b"\n"
    return line


def read_entry(line: bytes) -> tuple[str, str] | None:
    """Body and hash in an entry's line; empty texts if it was destroyed; None for a checkpoint."""
    match = _ENTRY.fullmatch(line)
    try:
        if match:
            return match[1].decode(), match[2].decode()
        if line.startswith(_DAMAGED):
            fields = strict_loads(line)
            return str(fields["damaged_entry"]), str(fields["hash"])
    except (CanonicalError, UnicodeDecodeError, KeyError, TypeError):
        return "", ""
    return None if line.startswith(_CHECKPOINT) else ("", "")


def checkpoint_line(signed: SignedStatement) -> bytes:
    """The line of a checkpoint."""
    return signed.to_bytes() + b"\n"


def read_checkpoint(line: bytes) -> SignedStatement | None:
    """The checkpoint in a line, or None."""
    return SignedStatement.from_bytes(line[:-1]) if line.endswith(b"\n") else None
