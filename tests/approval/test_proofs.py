"""Proofs: whole or worthless."""

from typing import Any

import pytest

from silas.approval import (
    ApprovalScope,
    ApprovalToken,
    ApprovalVerdict,
    IssuedToken,
    KeyManager,
    ProofInvalid,
    PublicKeys,
    export_proof,
    verify_proof,
)
from silas.kernel import canonical_bytes, strict_loads
from silas.testing import FakePlan, MemoryVault
from tests.approval.desk import YES, Desk

PLAN = FakePlan(content={"run": "echo hello", "note": "ünïcode \u202e"})
GOAL = FakePlan(id="goal_1", spawn_policy={"verify": ["df"]})


async def proof_of(desk: Desk, plan: FakePlan = PLAN, **options: Any) -> bytes:
    token = await desk.engine.issue_token(plan, YES, **options)
    return export_proof(await desk.engine.tokens.load(token.token_id))


def changed(proof: bytes, **changes: Any) -> bytes:
    return canonical_bytes({**strict_loads(proof), **changes})


async def test_a_proof_says_what_was_approved_by_which_key(desk: Desk) -> None:
    proof = await proof_of(desk)
    report = verify_proof(proof, desk.keys.public)
    assert report.shown == PLAN.plan_bytes()
    assert report.key_id == desk.keys.public.keys[0].key_id
    assert report.token.work_item_id == PLAN.id
    assert report.spawn_policy is None


async def test_it_needs_nothing_but_the_public_key(desk: Desk) -> None:
    proof = await proof_of(desk)
    assert verify_proof(proof, PublicKeys.from_text(desk.keys.public.keys[0].hex))


async def test_it_does_not_depend_on_how_often_the_token_was_used(desk: Desk) -> None:
    token = await desk.engine.issue_token(PLAN, YES)
    before = export_proof(await desk.engine.tokens.load(token.token_id))
    await desk.engine.verify(token, PLAN)
    assert export_proof(await desk.engine.tokens.load(token.token_id)) == before


async def test_a_standing_approval_proves_its_policy_too(desk: Desk) -> None:
    proof = await proof_of(desk, GOAL, scope=ApprovalScope.STANDING)
    assert verify_proof(proof, desk.keys.public).spawn_policy == GOAL.spawn_policy_bytes()
    for policy in (None, "e30="):
        with pytest.raises(
            ProofInvalid, match=r"^The spawn policy is not the one that was signed: the hash is "
        ):
            verify_proof(changed(proof, spawn_policy=policy), desk.keys.public)


async def test_flipping_any_bit_of_any_byte_is_found(desk: Desk) -> None:
    proof = await proof_of(desk)
    for position in range(len(proof)):
        for mask in (0x01, 0x20, 0x80):
            damaged = bytearray(proof)
            damaged[position] ^= mask
            with pytest.raises(ProofInvalid):
                verify_proof(bytes(damaged), desk.keys.public)


async def test_cutting_or_growing_it_is_found(desk: Desk) -> None:
    proof = await proof_of(desk)
    with pytest.raises(
        ProofInvalid, match=r"^The file is not in canonical form: it was changed after"
    ):
        verify_proof(proof + b"\n", desk.keys.public)
    for damaged in (
        b"",
        proof[:-1],
        proof + b"\n",
        b" " + proof,
        proof * 2,
        proof[: len(proof) // 2],
    ):
        with pytest.raises(ProofInvalid):
            verify_proof(damaged, desk.keys.public)


async def test_another_owner_is_not_the_owner(desk: Desk) -> None:
    stranger = KeyManager(MemoryVault(), clock=desk.clock)
    stranger.generate_keypair()
    with pytest.raises(
        ProofInvalid,
        match=r"^The signature does not fit: the approval was changed, or another key signed it\.$",
    ):
        verify_proof(await proof_of(desk), stranger.public)


async def test_a_key_that_had_been_retired(desk: Desk) -> None:
    token = await desk.engine.issue_token(PLAN, YES)
    desk.clock.advance(hours=-1)
    keys = KeyManager(MemoryVault(), clock=desk.clock)
    keys.generate_keypair()
    resigned = token.model_copy(update={"signature": keys.sign(token.canonical_bytes())[1]})
    keys.rotate()
    proof = export_proof(IssuedToken(resigned, PLAN.plan_bytes(), None))
    with pytest.raises(ProofInvalid, match="retired"):
        verify_proof(proof, keys.public)


def resigned(desk: Desk, token: ApprovalToken, **changes: Any) -> ApprovalToken:
    other = token.model_copy(update=changes)
    return other.model_copy(update={"signature": desk.keys.sign(other.canonical_bytes())[1]})


async def test_a_signed_no_proves_no_approval(desk: Desk) -> None:
    token = await desk.engine.issue_token(PLAN, YES)
    declined = resigned(desk, token, verdict=ApprovalVerdict.DECLINED)
    with pytest.raises(ProofInvalid, match="declined"):
        verify_proof(export_proof(IssuedToken(declined, PLAN.plan_bytes(), None)), desk.keys.public)


async def test_an_id_that_was_not_signed(desk: Desk) -> None:
    proof = strict_loads(await proof_of(desk))
    proof["token"]["token_id"] = "tok_other"
    with pytest.raises(ProofInvalid, match=r"^The token's id is not the one that was signed\.$"):
        verify_proof(canonical_bytes(proof), desk.keys.public)


async def test_a_policy_on_an_approval_that_is_not_standing(desk: Desk) -> None:
    proof = changed(await proof_of(desk), spawn_policy="e30=")
    with pytest.raises(
        ProofInvalid,
        match=r"^The proof carries a spawn policy, but the approval is not a standing one\.$",
    ):
        verify_proof(proof, desk.keys.public)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"format": "silas-proof-v2"}, "format"),
        ({"shown": "e30="}, "^What was shown is not what was signed: the hash is "),
        ({"shown": "@"}, "not a proof"),
        ({"token": {}}, "well formed"),
        ({"token": []}, "not a proof"),
        ({"extra": 1}, "not a proof"),
    ],
)
async def test_named_defects(desk: Desk, change: dict[str, Any], reason: str) -> None:
    proof = changed(await proof_of(desk), **change)
    with pytest.raises(ProofInvalid, match=reason):
        verify_proof(proof, desk.keys.public)


async def test_another_spelling_of_the_same_token(desk: Desk) -> None:
    proof = strict_loads(await proof_of(desk))
    proof["token"]["issued_at"] = proof["token"]["issued_at"].replace("Z", "+00:00")
    with pytest.raises(
        ProofInvalid, match=r"^The token in the proof is not in its canonical spelling\.$"
    ):
        verify_proof(canonical_bytes(proof), desk.keys.public)


async def test_counters_cannot_be_smuggled_in(desk: Desk) -> None:
    proof = strict_loads(await proof_of(desk))
    proof["token"]["executions_used"] = 0
    with pytest.raises(
        ProofInvalid, match=r"^The token in the proof is not in its canonical spelling\.$"
    ):
        verify_proof(canonical_bytes(proof), desk.keys.public)


def test_a_huge_file_is_not_even_parsed() -> None:
    with pytest.raises(ProofInvalid, match=r"^The file is too large to be a proof\.$"):
        verify_proof(b"[" * 8_000_001, PublicKeys(()))
    with pytest.raises(ProofInvalid, match="not a proof"):
        verify_proof(b"[" * 8_000_000, PublicKeys(()))
