"""DSSE envelopes around in-toto statements: two that hold, and everything that must not."""

import base64
from collections.abc import Callable
from copy import deepcopy
from typing import Any

from silas.approval.keys import PublicKey
from silas.kernel import canonical_bytes, strict_loads
from tests.vectors.curve import Signer
from tests.vectors.signatures import OTHER, SIGNER
from tests.vectors.tokens import NOW, SHOWN, Fields, proof, token

_TYPE = "application/vnd.in-toto+json"
_DEVICE = PublicKey(OTHER.public)
_OWNER = PublicKey(SIGNER.public)
_EMPTY = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"


def _base64(content: bytes) -> str:
    return base64.b64encode(content).decode()


def envelope(statement: Fields, signer: Signer = SIGNER, kind: str = _TYPE, **more: Any) -> bytes:
    """The file: a statement, signed as the standard says, under the type that it names."""
    payload = canonical_bytes(statement)
    name = _TYPE.encode()
    signature = signer.sign(b"DSSEv1 %d %b %d %b" % (len(name), name, len(payload), payload))
    return canonical_bytes(
        {
            "payload": _base64(payload),
            "payloadType": kind,
            "signatures": [{"keyid": _OWNER.key_id, "sig": _base64(signature)}],
            **more,
        }
    )


def _decision(signed: Fields, gesture: str = "tap") -> Fields:
    """A tap at a device that the owner's key vouches for."""
    said = canonical_bytes(
        {
            "decision": {"approval_strength": gesture, "verdict": "approved"},
            "plan_hashes": {signed["work_item_id"]: signed["plan_hash"]},
        }
    )
    device = {
        "device_id": _DEVICE.key_id,
        "enrolled_at": "2026-02-01T12:00:00.000000Z",
        "name": "A phone",
        "public_key": _DEVICE.hex,
    }
    endorsement = SIGNER.sign(canonical_bytes({"format": "silas-device-v1", **device}))
    return {
        "statement": _base64(said),
        "signature": _base64(OTHER.sign(said)),
        "key_id": _DEVICE.key_id,
        "device": {
            "fields": device,
            "owner_key_id": _OWNER.key_id,
            "endorsement": _base64(endorsement),
        },
        "question": None,
        "passkey": None,
    }


def approval(signed: Fields, decision: Fields | None) -> Fields:
    """An `approval/v1`."""
    return {
        "_type": "https://in-toto.io/Statement/v1",
        "subject": [{"name": signed["work_item_id"], "digest": {"sha256": signed["plan_hash"]}}],
        "predicateType": "urn:silas:predicate:approval/v1",
        "predicate": {
            "exported_at": NOW,
            "proof": strict_loads(proof(signed)),
            "decision": decision,
        },
    }


def run() -> Fields:
    """A `run/v1`."""
    return {
        "_type": "https://in-toto.io/Statement/v1",
        "subject": [
            {"name": "work_1", "digest": {"sha256": token()["plan_hash"]}},
            {"name": "hello.txt", "digest": {"sha256": _EMPTY}},
        ],
        "predicateType": "urn:silas:predicate:run/v1",
        "predicate": {
            "exported_at": NOW,
            "work_item_id": "work_1",
            "title": "Say hello",
            "plan_sha256": token()["plan_hash"],
            "status": "done",
            "approval": "tok_1",
            "verifier": "silas",
            "attempts": [],
            "checks": [
                {
                    "name": "it is there",
                    "passed": True,
                    "passed_before": False,
                    "influenced_by": [],
                    "proves": True,
                    "exit_code": 0,
                    "output_sha256": _EMPTY,
                }
            ],
            "checked": True,
            "files": [{"path": "hello.txt", "before": None, "after": _EMPTY, "taken": True}],
        },
    }


def _changed(statement: Fields, change: Callable[[Fields], object]) -> bytes:
    """A statement after a change, signed by the owner's key all the same."""
    changed = deepcopy(statement)
    change(changed)
    return envelope(changed)


def cases() -> list[Fields]:
    """Files in hexadecimal digits, and whether they hold."""
    honest = approval(token(), _decision(token()))
    other = {"sha256": _EMPTY}
    elsewhere = _decision({**token(), "plan_hash": _EMPTY})
    return [
        _file("an approval with its decision", envelope(honest), True),
        _file("an approval that has none", envelope(approval(token(), None)), True),
        _file("a run", envelope(run()), True),
        _file("another key signed the envelope", envelope(honest, OTHER), False),
        _file("another type than was signed", envelope(honest, kind="text/plain"), False),
        _file("nobody signed", envelope(honest, signatures=[]), False),
        _file("an unknown field of the envelope", envelope(honest, note="x"), False),
        _file("spaces around it: the payload is what is signed", envelope(honest) + b" ", True),
        _file("a native proof", proof(token()), False),
        _file("the owner's token of another key", envelope(approval(token(OTHER), None)), False),
        *(
            _file(name, _changed(honest, change), False)
            for name, change in {
                "another subject": lambda s: s["subject"][0].update(digest=other),
                "one subject more": lambda s: s["subject"].append({"name": "x", "digest": other}),
                "no subject": lambda s: s["subject"].clear(),
                "an unknown predicate": lambda s: s.update(predicateType="urn:silas:x/v2"),
                "an unknown field": lambda s: s["predicate"].update(note="approved by phone"),
                "something else was shown": lambda s: s["predicate"]["proof"].update(
                    shown=_base64(SHOWN + b" ")
                ),
                "a decision about another plan": lambda s: s["predicate"].update(
                    decision=elsewhere
                ),
                "a stronger gesture than the approval names": lambda s: s["predicate"].update(
                    decision=_decision(token(), "slide")
                ),
                "another device than the owner vouches for": lambda s: s["predicate"]["decision"][
                    "device"
                ]["fields"].update(name="Another phone"),
                "a device's signature as the owner's": lambda s: s["predicate"]["decision"].update(
                    device=None
                ),
                "a decision that nobody signed": lambda s: s["predicate"]["decision"].update(
                    signature=_base64(bytes(64))
                ),
            }.items()
        ),
        _file(
            "checked, without a check that shows it",
            _changed(run(), lambda s: s["predicate"]["checks"].clear()),
            False,
        ),
        _file("a file that is not a subject", _changed(run(), lambda s: s["subject"].pop()), False),
    ]


def _file(name: str, document: bytes, valid: bool) -> Fields:
    return {"name": name, "file": document.hex(), "valid": valid}
