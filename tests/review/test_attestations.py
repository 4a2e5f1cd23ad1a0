"""Proofs for other people's verifiers: they hold, they name the device, and no liar passes."""

import base64
import json
from pathlib import Path
from typing import Any

import pytest
from securesystemslib.dsse import Envelope
from securesystemslib.signer import SSlibKey

from silas.approval import ApprovalVerdict, ProofInvalid, PublicKeys
from silas.approval.keys import PublicKey
from silas.gates.risk import RiskLevel
from silas.kernel import canonical_bytes, strict_loads
from silas.review import QuestionKind
from silas.review.attestations import (
    PAYLOAD_TYPE,
    AttestedApproval,
    AttestedRun,
    RunCheck,
    RunPredicate,
    _chosen_option,
    approval_envelope,
    pre_authentication,
    run_envelope,
    verify_envelope,
)
from tests.approval.desk import open_desk
from tests.review.asking import PASSKEY, SLIDE, TAP, VAULT, WAYS, Place, open_place

EMPTY = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
RISK = {
    TAP: RiskLevel.LOW,
    SLIDE: RiskLevel.HIGH,
    PASSKEY: RiskLevel.IRREVERSIBLE,
    VAULT: RiskLevel.IRREVERSIBLE,
}
SIGNER = {TAP: "A phone", SLIDE: "A phone", PASSKEY: "A phone", VAULT: "the owner's own key"}


async def exported(place: Place) -> bytes:
    """The proof of the newest approval."""
    [token_id, *_] = await place.desk.engine.tokens.list_ids()
    return await approval_envelope(
        await place.desk.engine.tokens.load(token_id),
        place.decisions,
        signing=place.desk.keys,
        now=place.desk.clock.now(),
        devices=place.devices,
        passkeys=place.passkeys,
    )


async def approved(place: Place, kind: str = "plan", strength: Any = TAP) -> bytes:
    way = WAYS[kind]
    await way.decide(
        place, await way.ask(place, RISK[strength]), ApprovalVerdict.APPROVED, strength
    )
    return await exported(place)


def verified(place: Place, document: bytes) -> AttestedApproval:
    attested = verify_envelope(document, place.desk.keys.public)
    assert isinstance(attested, AttestedApproval)
    return attested


def resigned(place: Place, document: bytes, change: Any) -> bytes:
    """The file after a change to its statement, signed by the owner's key all the same."""
    content = strict_loads(document)
    statement = strict_loads(base64.b64decode(content["payload"]))
    change(statement)
    payload = canonical_bytes(statement)
    key_id, signature = place.desk.keys.sign(pre_authentication(payload))
    return canonical_bytes(
        {
            "payload": base64.b64encode(payload).decode(),
            "payloadType": PAYLOAD_TYPE,
            "signatures": [{"keyid": key_id, "sig": base64.b64encode(signature).decode()}],
        }
    )


@pytest.mark.parametrize("strength", list(RISK))
async def test_a_proof_says_which_device_decided_and_how_strongly(
    tmp_path: Path, strength: Any
) -> None:
    place = await open_place(tmp_path / "silas.db")
    attested = verified(place, await approved(place, strength=strength))
    assert attested.signed_by == SIGNER[strength]
    assert attested.passkey == ("A finger" if strength is PASSKEY else None)
    assert attested.device_id == (None if strength is VAULT else place.key_id)
    assert attested.report.token.approval_strength is strength


@pytest.mark.parametrize("kind", [name for name in WAYS if name != QuestionKind.AUTONOMY.value])
@pytest.mark.parametrize("strength", [SLIDE, PASSKEY])
async def test_every_kind_of_approval_carries_its_decision(
    tmp_path: Path, kind: str, strength: Any
) -> None:
    place = await open_place(tmp_path / "silas.db")
    way = WAYS[kind]
    # Only plans of low risk are decided together.
    asked = await way.ask(place, RiskLevel.LOW if kind == "batch" else RISK[strength])
    await way.decide(place, asked, ApprovalVerdict.APPROVED, strength)
    if not await place.desk.engine.tokens.list_ids():
        return  # a question whose answer approves nothing
    assert verified(place, await exported(place)).signed_by == "A phone"


async def test_another_implementation_reads_it(tmp_path: Path) -> None:
    place = await open_place(tmp_path / "silas.db")
    content = json.loads(await approved(place))
    envelope = Envelope.from_dict(content)
    assert envelope.pae() == pre_authentication(base64.b64decode(content["payload"]))
    owner = place.desk.keys.public.keys[0]
    key = SSlibKey(owner.key_id, "ed25519", "ed25519", {"public": owner.hex})
    assert list(envelope.verify([key], 1)) == [owner.key_id]


def _other_subject(statement: Any) -> None:
    statement["subject"][0]["digest"]["sha256"] = EMPTY


def _more_subjects(statement: Any) -> None:
    statement["subject"].append({"name": "else", "digest": {"sha256": EMPTY}})


def _unknown_type(statement: Any) -> None:
    statement["predicateType"] = "urn:silas:predicate:approval/v2"


def _unknown_field(statement: Any) -> None:
    statement["predicate"]["decision"]["note"] = "by phone"


def _longer(statement: Any) -> None:
    statement["predicate"]["proof"]["token"]["expires_at"] = "2099-01-01T00:00:00.000000Z"


def _shown_else(statement: Any) -> None:
    statement["predicate"]["proof"]["shown"] = base64.b64encode(b"{}").decode()


def _stronger(statement: Any) -> None:
    statement["predicate"]["proof"]["token"]["approval_strength"] = "vault"


def _other_device(statement: Any) -> None:
    statement["predicate"]["decision"]["device"]["fields"]["name"] = "Another phone"


def _nobody_signed(statement: Any) -> None:
    statement["predicate"]["decision"]["signature"] = base64.b64encode(bytes(64)).decode()


def _owner_signed(statement: Any) -> None:
    statement["predicate"]["decision"]["device"] = None


def _other_statement(statement: Any) -> None:
    decision = statement["predicate"]["decision"]
    said = strict_loads(base64.b64decode(decision["statement"]))
    said["plan_hashes"] = dict.fromkeys(said["plan_hashes"], EMPTY)
    decision["statement"] = base64.b64encode(canonical_bytes(said)).decode()


def _without_assertion(statement: Any) -> None:
    statement["predicate"]["decision"]["passkey"] = None


def _other_page(statement: Any) -> None:
    statement["predicate"]["decision"]["passkey"]["origin"] = "https://evil.test"


def _other_credential(statement: Any) -> None:
    statement["predicate"]["decision"]["passkey"]["passkey"]["fields"]["public_key"] = "a0"


LIES = (
    _other_subject,
    _more_subjects,
    _unknown_type,
    _unknown_field,
    _longer,
    _shown_else,
    _stronger,
    _other_device,
    _nobody_signed,
    _owner_signed,
    _other_statement,
    _without_assertion,
    _other_page,
    _other_credential,
)


@pytest.mark.parametrize("lie", LIES, ids=[each.__name__.strip("_") for each in LIES])
async def test_a_lie_in_the_statement_is_found_even_under_the_owners_signature(
    tmp_path: Path, lie: Any
) -> None:
    place = await open_place(tmp_path / "silas.db")
    honest = await approved(place, strength=PASSKEY)
    verified(place, resigned(place, honest, lambda _statement: None))
    with pytest.raises(ProofInvalid):
        verify_envelope(resigned(place, honest, lie), place.desk.keys.public)


async def test_a_decision_about_another_card_is_not_taken_for_this_one(tmp_path: Path) -> None:
    place = await open_place(tmp_path / "silas.db")
    first = await approved(place)
    elsewhere = await open_place(tmp_path / "other.db")
    second = strict_loads(
        base64.b64decode(strict_loads(await approved(elsewhere, "call"))["payload"])
    )

    def swapped(statement: Any) -> None:
        statement["predicate"]["decision"] = second["predicate"]["decision"]

    with pytest.raises(ProofInvalid):
        verify_envelope(resigned(place, first, swapped), place.desk.keys.public)


async def test_bytes_that_were_changed_and_strangers_keys(tmp_path: Path) -> None:
    place = await open_place(tmp_path / "silas.db")
    honest = await approved(place)
    stranger = PublicKeys.of([PublicKey(place.phone.public_key().public_bytes_raw())])
    with pytest.raises(ProofInvalid):
        verify_envelope(honest, stranger)
    hint = honest.index(b'"keyid":"')
    for at in range(0, len(honest), 97):
        if hint <= at < hint + 100:
            continue  # the id of the key is a hint, says the standard: the key decides
        changed = honest[:at] + bytes([honest[at] ^ 1]) + honest[at + 1 :]
        with pytest.raises(ProofInvalid):
            verify_envelope(changed, place.desk.keys.public)


async def test_a_revoked_device_has_still_decided_what_it_decided(tmp_path: Path) -> None:
    place = await open_place(tmp_path / "silas.db")
    await approved(place)
    await place.devices.revoke(place.key_id)
    assert verified(place, await exported(place)).signed_by == "A phone"


RUN = RunPredicate(
    exported_at="2026-03-01T12:00:00.000000Z",
    work_item_id="work_1",
    title="Fix it",
    plan_sha256=EMPTY,
    status="done",
    approval="tok_1",
    verifier="silas",
    attempts=[],
    checks=[
        RunCheck(
            name="pytest",
            passed=True,
            passed_before=False,
            influenced_by=[],
            proves=True,
            exit_code=0,
            output_sha256=EMPTY,
        )
    ],
    checked=True,
    files=[{"path": "a.py", "before": None, "after": EMPTY, "taken": True}],
)


async def test_what_was_done_is_a_statement_about_its_plan_and_its_files(tmp_path: Path) -> None:
    desk = await open_desk(tmp_path / "silas.db")
    run = RUN.model_copy(update={"exported_at": desk.clock.now()})
    document = run_envelope(run, signing=desk.keys)
    attested = verify_envelope(document, desk.keys.public)
    assert isinstance(attested, AttestedRun)
    assert attested.run == run
    subject = strict_loads(base64.b64decode(strict_loads(document)["payload"]))["subject"]
    assert [each["name"] for each in subject] == ["work_1", "a.py"]


async def test_checked_without_a_check_that_shows_it_is_refused(tmp_path: Path) -> None:
    desk = await open_desk(tmp_path / "silas.db")
    run = RUN.model_copy(update={"exported_at": desk.clock.now(), "checks": []})
    with pytest.raises(ProofInvalid, match="names no check"):
        verify_envelope(run_envelope(run, signing=desk.keys), desk.keys.public)


def test_words_beside_an_answer_choose_no_other_way() -> None:
    body = {"options": {"archive": {"tool": "a"}, "label": {"tool": "b"}}}
    fields = {"answer": {"selected_value": "leave", "freetext": "archive"}}
    assert _chosen_option(body, fields) == []
    fields = {"answer": {"freetext": "archive", "selected_value": "label"}}
    assert _chosen_option(body, fields) == [{"tool": "b"}]
