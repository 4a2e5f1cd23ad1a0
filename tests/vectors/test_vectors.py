"""What `vectors/` says must hold, holds here; what must fail, fails."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from silas.approval import (
    ApprovalToken,
    ProofInvalid,
    PublicKeyInvalid,
    PublicKeys,
    rules,
    verify_proof,
)
from silas.approval.keys import PublicKey
from silas.approval.models import EXECUTION_SCOPES
from silas.audit import AuditFileInvalid, examine_file
from silas.kernel import CanonicalError, canonical_bytes, parse_timestamp, strict_loads
from silas.review.attestations import verify_envelope

FOLDER = Path(__file__).parents[2] / "vectors"


def load(name: str) -> list[Any]:
    content = json.loads((FOLDER / f"{name}.json").read_text())
    common = {key: value for key, value in content.items() if key != "cases"}
    return [pytest.param({**common, **case}, id=case["name"]) for case in content["cases"]]


@pytest.mark.parametrize("case", load("canonical_json"))
def test_a_document_has_one_form_or_none(case: dict[str, Any]) -> None:
    document = bytes.fromhex(case["document"])
    if case["canonical"] is None:
        with pytest.raises(CanonicalError):
            canonical_bytes(strict_loads(document))
    else:
        assert canonical_bytes(strict_loads(document)) == bytes.fromhex(case["canonical"])


@pytest.mark.parametrize("case", load("ed25519"))
def test_a_signature_holds_or_not(case: dict[str, Any]) -> None:
    try:
        key = PublicKey(bytes.fromhex(case["public_key"]))
    except PublicKeyInvalid:
        assert not case["valid"]
        return
    holds = key.signed(bytes.fromhex(case["message"]), bytes.fromhex(case["signature"]))
    assert holds is case["valid"]


@dataclass(frozen=True)
class Shown:
    """`Approvable` with the bytes of a vector."""

    id: str
    content: bytes
    parent: str | None = None

    def plan_bytes(self) -> bytes:
        return self.content

    def spawn_policy_bytes(self) -> bytes:
        return b""


_REASONS = {
    "signature": "The signature is not the owner's",
    "id": "The token's id is not the one",
    "time": "expired|issued in the future",
    "plan": "another work item|not the one that was approved",
    "verdict": "verdict was|can enforce the condition",
    "scope": "which does not allow this",
}


def through_the_door(case: dict[str, Any]) -> None:
    """The rules of a token, in the order in which the engine asks."""
    token = ApprovalToken.model_validate(case["token"])
    plan = Shown(case["work_item_id"], bytes.fromhex(case["plan"]))
    rules.require_signature(token, PublicKeys.from_text(case["public_key"]))
    rules.require_scope(token, EXECUTION_SCOPES)
    rules.require_plan(token, plan)
    rules.require_verdict(token, plan, {})
    rules.require_time(token, parse_timestamp(case["now"]))


@pytest.mark.parametrize("case", load("tokens"))
def test_a_token_opens_the_door_or_not(case: dict[str, Any]) -> None:
    if case["refused_by"] is None:
        through_the_door(case)
        return
    with pytest.raises(rules.Refused, match=_REASONS[case["refused_by"]]):
        through_the_door(case)


@pytest.mark.parametrize("case", load("proofs"))
def test_a_proof_holds_or_not(case: dict[str, Any]) -> None:
    document = bytes.fromhex(case["file"])
    if case["valid"]:
        verify_proof(document, PublicKeys.from_text(case["public_key"]))
        return
    with pytest.raises((ProofInvalid, PublicKeyInvalid)):
        verify_proof(document, PublicKeys.from_text(case["public_key"]))


@pytest.mark.parametrize("case", load("attestations"))
def test_an_envelope_holds_or_not(case: dict[str, Any]) -> None:
    document, trusted = bytes.fromhex(case["file"]), PublicKeys.from_text(case["public_key"])
    if case["valid"]:
        verify_envelope(document, trusted)
        return
    with pytest.raises(ProofInvalid):
        verify_envelope(document, trusted)


@pytest.mark.parametrize("case", load("audit_chains"))
def test_a_log_is_as_it_was_written_or_not(case: dict[str, Any], tmp_path: Path) -> None:
    file = tmp_path / "audit.jsonl"
    file.write_bytes(bytes.fromhex(case["file"]))
    try:
        report = examine_file(file, verifier=PublicKeys.from_text(case["public_key"]))
    except AuditFileInvalid:
        assert not case["valid"]
        return
    assert report.ok is case["valid"], report.problems
