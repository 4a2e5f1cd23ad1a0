"""Tokens and proofs: one that holds, and everything that must not."""

import base64
import hashlib
from copy import deepcopy
from typing import Any

from silas.kernel import canonical_bytes
from tests.vectors.curve import Signer, encode, of_order_eight
from tests.vectors.signatures import OTHER, SIGNER

SHOWN = canonical_bytes({"run": "echo hello", "note": "ünïcode \u202e"})
POLICY = canonical_bytes({"verify": ["df"]})
NOW = "2026-03-01T12:10:00.000000Z"
SIGNED = (
    "plan_hash",
    "work_item_id",
    "scope",
    "verdict",
    "nonce",
    "approval_strength",
    "issued_at",
    "expires_at",
    "max_executions",
    "conditions",
)
Fields = dict[str, Any]


def token(signer: Signer = SIGNER, **changes: Any) -> Fields:
    """A token with these fields, signed as it is."""
    fields: Fields = {
        "token_id": "tok_1",
        "plan_hash": hashlib.sha256(SHOWN).hexdigest(),
        "work_item_id": "work_1",
        "scope": "full_plan",
        "verdict": "approved",
        "issued_at": "2026-03-01T12:00:00.000000Z",
        "expires_at": "2026-03-01T12:30:00.000000Z",
        "nonce": "tok_1." + "ab" * 16,
        "approval_strength": "tap",
        "conditions": {},
        "max_executions": 1,
        **changes,
    }
    signature = signer.sign(canonical_bytes({name: fields[name] for name in SIGNED}))
    return {**fields, "signature": base64.b64encode(signature).decode()}


def proof(signed: Fields, shown: bytes = SHOWN, policy: bytes | None = None, **more: Any) -> bytes:
    """The file that carries a token and what was shown."""
    return canonical_bytes(
        {
            "format": "silas-proof-v1",
            "token": signed,
            "shown": base64.b64encode(shown).decode(),
            "spawn_policy": None if policy is None else base64.b64encode(policy).decode(),
            **more,
        }
    )


_OTHER_VALUES: Fields = {
    "plan_hash": hashlib.sha256(b"another plan").hexdigest(),
    "work_item_id": "work_2",
    "scope": "standing",
    "verdict": "conditional",
    "nonce": "tok_1." + "cd" * 16,
    "approval_strength": "biometric",
    "issued_at": "2026-03-01T12:00:00.000001Z",
    "expires_at": "2027-03-01T12:30:00.000000Z",
    "max_executions": 100,
    "conditions": {"max_cost_usd": 5},
}


def token_cases() -> list[Fields]:
    """Tokens as they come to the door of execution, with what is to be executed there."""
    honest = token()
    found = [_at_the_door("an honest token", honest, None)]
    found += [
        _at_the_door(f"{name} was changed after signing", {**honest, name: value}, "signature")
        for name, value in _OTHER_VALUES.items()
    ]
    return [
        *found,
        _at_the_door("another key signed it", token(OTHER), "signature"),
        _at_the_door("nobody signed it", {**honest, "signature": ""}, "signature"),
        _at_the_door("a copy under a new id", {**honest, "token_id": "tok_2"}, "id"),
        _at_the_door("an id that only begins alike", {**honest, "token_id": "tok_"}, "id"),
        _at_the_door("over by one microsecond", honest, "time", now=honest["expires_at"]),
        _at_the_door("issued in the future", honest, "time", now="2026-03-01T11:57:00.000000Z"),
        _at_the_door("another plan", honest, "plan", shown=SHOWN.replace(b"hello", b"hullo")),
        _at_the_door("the plan with a space behind it", honest, "plan", shown=SHOWN + b" "),
        _at_the_door("another work item", honest, "plan", work_item_id="work_2"),
        _at_the_door("the owner said no", token(verdict="declined"), "verdict"),
        _at_the_door("the owner asked for a change", token(verdict="edit_requested"), "verdict"),
        _at_the_door(
            "a condition that nobody here can enforce",
            token(verdict="conditional", conditions={"only_on_sundays": True}),
            "verdict",
        ),
        *(
            _at_the_door(f"signed for {scope}", token(scope=scope), "scope")
            for scope in ("single_step", "skill_install", "credential_use", "autonomy_threshold")
        ),
    ]


def _at_the_door(name: str, signed: Fields, refused: str | None, **more: Any) -> Fields:
    shown = more.pop("shown", SHOWN)
    return {
        "name": name,
        "token": signed,
        "work_item_id": "work_1",
        "plan": shown.hex(),
        "now": NOW,
        "refused_by": refused,
        **more,
    }


def proof_cases() -> list[Fields]:
    """Proof files in hexadecimal digits, and whether they hold."""
    honest = token()
    standing = token(
        scope="standing", conditions={"spawn_policy_hash": hashlib.sha256(POLICY).hexdigest()}
    )
    small = encode(of_order_eight()).hex()
    return [
        _file("an honest proof", proof(honest), True),
        _file("a standing approval with its policy", proof(standing, policy=POLICY), True),
        _file("a standing approval without its policy", proof(standing), False),
        _file("a standing approval with another", proof(standing, policy=POLICY + b" "), False),
        _file("a policy that nobody signed", proof(honest, policy=POLICY), False),
        _file("something else was shown", proof(honest, shown=SHOWN + b" "), False),
        _file("nothing was shown", proof(honest, shown=b""), False),
        _file("the owner said no", proof(token(verdict="declined")), False),
        _file("another key signed it", proof(token(OTHER)), False),
        _file("a copy under a new id", proof({**honest, "token_id": "tok_2"}), False),
        _file("counters in the file", proof({**honest, "executions_used": 0}), False),
        _file("an unknown field", proof(honest, note="approved by phone"), False),
        _file("an unknown format", proof(honest, format="silas-proof-v2"), False),
        _file("a space behind the end", proof(honest) + b" ", False),
        _file("a line feed behind the end", proof(honest) + b"\n", False),
        _file("a time in another spelling", proof(_respelled(honest)), False),
        _file("a field twice", proof(honest)[:-1] + b',"format":"silas-proof-v1"}', False),
        _file("base64 with other unused bits", _loose_base64(honest), False),
        _file("cut short", proof(honest)[:-10], False),
        _file("empty", b"", False),
        *(
            _file(f"{name} was changed after signing", proof({**honest, name: value}), False)
            for name, value in _OTHER_VALUES.items()
        ),
        {**_file("a key of small order", proof(honest), False), "public_key": small},
    ]


def _file(name: str, document: bytes, valid: bool) -> Fields:
    return {"name": name, "file": document.hex(), "valid": valid}


def _respelled(signed: Fields) -> Fields:
    return {**deepcopy(signed), "issued_at": "2026-03-01T13:00:00.000000+01:00"}


def _loose_base64(signed: Fields) -> bytes:
    """The last letter before the padding says more bits than there are."""
    letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
    text = signed["signature"]
    last = text.rstrip("=")[-1]
    other = letters[letters.index(last) + 1]
    return proof({**signed, "signature": text.rstrip("=")[:-1] + other + "=="})
