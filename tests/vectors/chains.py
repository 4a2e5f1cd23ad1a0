"""Audit logs as exported files: one that holds, and everything that was done to it."""

import base64
import hashlib
from typing import Any

from silas.approval.keys import PublicKey
from silas.kernel import canonical_bytes
from tests.vectors.curve import Signer
from tests.vectors.signatures import OTHER, SIGNER

GENESIS = hashlib.sha256(b"silas-audit-chain-v1").hexdigest()


class Chain:
    """A log that is written line by line."""

    def __init__(self, events: list[str]) -> None:
        self.bodies = [_body(seq, event) for seq, event in enumerate(events, start=1)]
        self.signer: Signer = SIGNER
        self.vouched = len(events)

    def hashes(self) -> list[str]:
        """The hash after each entry, the beginning included."""
        found = [GENESIS]
        for body in self.bodies:
            found.append(hashlib.sha256(bytes.fromhex(found[-1]) + body).hexdigest())
        return found

    def lines(self) -> list[bytes]:
        """The lines of the exported file."""
        hashes = self.hashes()
        key_id = PublicKey(self.signer.public).key_id
        header = {
            "format": "silas-audit-export-v1",
            "base": {"seq": 0, "hash": GENESIS},
            "base_proof": "",
            "head": {"seq": len(self.bodies), "hash": hashes[-1]},
            "checkpoints": 1,
            "key_ids": [key_id],
        }
        entries = [
            b'{"entry":%b,"hash":"%b"}\n' % (body, digest.encode())
            for body, digest in zip(self.bodies, hashes[1:], strict=True)
        ]
        return [canonical_bytes(header) + b"\n", *entries, self._checkpoint(key_id, hashes)]

    def _checkpoint(self, key_id: str, hashes: list[str]) -> bytes:
        statement = canonical_bytes(
            {
                "format": "silas-audit-checkpoint-v1",
                "checkpoint_id": "ckp_1",
                "at": "2026-03-01T12:00:00.000000Z",
                "seq": self.vouched,
                "hash": hashes[self.vouched],
                "previous": None,
            }
        )
        signature = base64.b64encode(self.signer.sign(statement)).decode()
        fields = {"key_id": key_id, "signature": signature, "statement": statement.decode()}
        return canonical_bytes(fields) + b"\n"


def _body(seq: int, event: str) -> bytes:
    return canonical_bytes(
        {
            "at": f"2026-03-01T11:00:{seq:02}.000000Z",
            "data": {"number": seq},
            "entry_id": f"aud_{seq}",
            "event": event,
            "seq": seq,
        }
    )


EVENTS = ["started", "approval_issued", "approval_used", "work_done", "stopped"]


def cases() -> list[dict[str, Any]]:
    """Files in hexadecimal digits, and whether they are as they were written."""
    lines = Chain(EVENTS).lines()
    head, entries, checkpoint = lines[0], lines[1:-1], lines[-1]
    rewritten = Chain(["started", "work_done", "stopped"])
    rewritten.signer = OTHER
    other = Chain(["started", "approval_issued", "approval_used", "work_FAKE", "stopped"])
    partly = Chain(EVENTS)
    partly.vouched = 3
    swapped = [entries[0], entries[2], entries[1], *entries[3:]]
    return [
        _file("as it was written", lines, True),
        _file("the last entries are not vouched for yet", partly.lines(), True),
        _file("an entry was changed", [x.replace(b"work_done", b"work_gone") for x in lines]),
        _file("an entry was removed", [head, *entries[:1], *entries[2:], checkpoint]),
        _file("the first entry was removed", [head, *entries[1:], checkpoint]),
        _file("the last entry was removed", [head, *entries[:-1], checkpoint]),
        _file("an entry is there twice", [head, entries[0], *entries, checkpoint]),
        _file("two entries changed places", [head, *swapped, checkpoint]),
        _file("the checkpoint was removed", [head, *entries]),
        _file("the checkpoint is there twice", [*lines, checkpoint]),
        _file("a whole new log, signed by another key", rewritten.lines()),
        _file("a whole new log under the old checkpoint", [*other.lines()[:-1], checkpoint]),
        _file("an old header", [Chain(EVENTS[:4]).lines()[0], *entries, checkpoint]),
        _file("a space before the first entry", [head, b" " + entries[0], *lines[2:]]),
        _file("an empty line", [*lines[:3], b"\n", *lines[3:]]),
        _file("the last line feed is missing", [*lines[:-1], checkpoint[:-1]]),
        _file("Windows' line ends", [line[:-1] + b"\r\n" for line in lines]),
        _file("the header alone", [head]),
    ]


def _file(name: str, lines: list[bytes], valid: bool = False) -> dict[str, Any]:
    return {"name": name, "file": b"".join(lines).hex(), "valid": valid}
