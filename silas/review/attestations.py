"""Proofs for other people's verifiers: the native proof in a DSSE envelope, as in-toto statements.

1. The native proof is the truth. `approval/v1` carries it whole, and it is verified as it stands;
   nothing is said a second time in other words.
2. It carries the owner's decision too: the signed statement, the device that signed it with the
   owner's endorsement of that device, and the passkey's assertion. The strength that they prove is
   the strength that the approval names, or the file is refused.
3. The decision is about what was approved: its statement names the hash of the shown bytes, or the
   hash of a question that shows them.
4. `run/v1` says what was done under approvals, with the digests of what came of it. Silas vouches
   for it, as it does for its log: it is a record, not a right.
5. The envelope is signed by the owner's key, in use when the file was made. One such signature is
   enough; others are not looked at.
6. What is in the file and not understood refuses it.
"""

import base64
import hashlib
from collections.abc import Mapping
from datetime import datetime
from typing import Any, Literal, Protocol, TypeVar

from pydantic import ConfigDict, Field, JsonValue, ValidationError

from silas.approval import (
    ApprovalStrength,
    DecisionRefused,
    DeviceStore,
    PasskeyStore,
    ProofInvalid,
    ProofReport,
    PublicKeyInvalid,
    PublicKeys,
    export_proof,
    verify_proof,
)
from silas.approval.devices import DEVICE_SEAL
from silas.approval.keys import PublicKey, decode_signature, sealed_bytes
from silas.approval.models import Base64Bytes
from silas.approval.passkeys import PASSKEY_SEAL, Assertion, page_name, read_assertion
from silas.approval.proofs import MAX_PROOF_BYTES
from silas.approval.store import IssuedToken
from silas.kernel import CanonicalError, canonical_bytes, parse_timestamp, strict_loads
from silas.kernel.models import Data, UtcDatetime
from silas.review.decisions import (
    DecisionRow,
    Decisions,
    UsedPasskey,
    challenge_of,
    gesture_of,
    statement_fields,
)
from silas.review.questions import value_of

STATEMENT_TYPE = "https://in-toto.io/Statement/v1"
PAYLOAD_TYPE = "application/vnd.in-toto+json"
APPROVAL_TYPE = "urn:silas:predicate:approval/v1"
RUN_TYPE = "urn:silas:predicate:run/v1"
_SHA256 = r"^[0-9a-f]{64}$"


class Endorsed(Data):
    """A key that the owner's key vouches for: what is vouched for, by which key, and how."""

    fields: dict[str, str]
    owner_key_id: str
    endorsement: str

    def require(self, kind: str, trusted: PublicKeys) -> dict[str, str]:
        """What is vouched for; raises `ProofInvalid` if nobody who is trusted does."""
        try:
            made_at = parse_timestamp(self.fields["enrolled_at"])
            signature = decode_signature(self.endorsement)
        except (KeyError, ValueError) as error:
            raise ProofInvalid("The device's endorsement cannot be read.") from error
        payload = sealed_bytes(kind, self.fields)
        if not trusted.verify(self.owner_key_id, payload, signature, at=made_at):
            raise ProofInvalid("The owner's key does not vouch for the device that signed.")
        return self.fields


class PasskeyUse(Data):
    """A passkey's part of a decision."""

    assertion: Assertion
    origin: str
    passkey: Endorsed


class SignedDecision(Data):
    """What the owner signed, and what shows who signed it (rule 2)."""

    statement: Base64Bytes
    signature: Base64Bytes
    key_id: str
    device: Endorsed | None
    """None: the owner's own key signed."""
    question: Base64Bytes | None
    """The content of the question, if the statement names it by its hash (rule 3)."""
    passkey: PasskeyUse | None


class ApprovalPredicate(Data):
    """`approval/v1`: the native proof, and the decision that it rests on."""

    exported_at: UtcDatetime
    proof: dict[str, JsonValue]
    """The native proof: `format`, `token`, `shown`, `spawn_policy`."""
    decision: SignedDecision | None
    """None for an approval that was issued without a stored decision."""


class RunCall(Data):
    """One call of an attempt. What it printed is named by its digest."""

    tool: str
    title: str
    success: bool | None
    output_sha256: str = Field(pattern=_SHA256)


class RunAttempt(Data):
    """One attempt."""

    attempt: int
    started_at: UtcDatetime
    ended_at: UtcDatetime | None
    outcome: str
    calls: list[RunCall]


class RunCheck(Data):
    """One check, run by Silas on files that the worker could not touch any more."""

    name: str
    passed: bool
    passed_before: bool | None
    influenced_by: list[str]
    proves: bool
    """It failed before the work, passes after it, and the worker could not influence it."""
    exit_code: int | None
    output_sha256: str = Field(pattern=_SHA256)


class RunFile(Data):
    """One file before and after, by SHA-256; None means that it is not there."""

    path: str
    before: str | None = Field(pattern=_SHA256)
    after: str | None = Field(pattern=_SHA256)
    taken: bool
    """Whether it is so in the owner's files."""


class RunPredicate(Data):
    """`run/v1`: what was done, what was checked, and what came of it."""

    exported_at: UtcDatetime
    work_item_id: str
    title: str
    plan_sha256: str = Field(pattern=_SHA256)
    status: str
    approval: str | None
    """The id of the token that it ran under."""
    verifier: str
    """Who ran the checks: never the worker."""
    attempts: list[RunAttempt]
    checks: list[RunCheck]
    checked: bool
    """It is done, and at least one check proves it."""
    files: list[RunFile]


_Predicate = TypeVar("_Predicate", ApprovalPredicate, RunPredicate)


class _Subject(Data):
    name: str
    digest: dict[Literal["sha256"], str]


class _Statement(Data):
    """An in-toto statement. Its type is written with an underscore."""

    model_config = ConfigDict(populate_by_name=False)

    type_: Literal["https://in-toto.io/Statement/v1"] = Field(alias="_type")
    subject: list[_Subject] = Field(min_length=1)
    predicateType: str  # noqa: N815 the standard's spelling
    predicate: dict[str, JsonValue]


class _Signature(Data):
    keyid: str
    sig: Base64Bytes


class _Envelope(Data):
    payload: Base64Bytes
    payloadType: Literal["application/vnd.in-toto+json"]  # noqa: N815 the standard's spelling
    signatures: list[_Signature] = Field(min_length=1, max_length=16)


class Signing(Protocol):
    """Whoever signs with the owner's key."""

    def sign(self, payload: bytes) -> tuple[str, bytes]: ...


class AttestedApproval(Data):
    """What a valid `approval/v1` says."""

    report: ProofReport
    signed_by: str
    """The device by its name, `the owner's own key`, or nothing if the decision is not in it."""
    device_id: str | None
    passkey: str | None
    exported_at: UtcDatetime


class AttestedRun(Data):
    """What a valid `run/v1` says."""

    run: RunPredicate
    key_id: str


def is_envelope(document: bytes) -> bool:
    """Whether a file is a DSSE envelope, and not a native proof."""
    try:
        content = strict_loads(document)
    except CanonicalError:
        return False
    return isinstance(content, dict) and "payloadType" in content


async def approval_envelope(
    issued: IssuedToken,
    decisions: Decisions,
    *,
    signing: Signing,
    now: datetime,
    devices: DeviceStore,
    passkeys: PasskeyStore,
) -> bytes:
    """The `approval/v1` of an issued token."""
    found = await decisions.row_of_token(issued.token.token_id)
    predicate = ApprovalPredicate(
        exported_at=now,
        proof=strict_loads(export_proof(issued)),
        decision=await _signed_decision(found, issued, devices, passkeys) if found else None,
    )
    subject = {issued.token.work_item_id: issued.token.plan_hash}
    return _enveloped(APPROVAL_TYPE, subject, predicate, signing)


async def _signed_decision(
    found: tuple[DecisionRow, str | None],
    issued: IssuedToken,
    devices: DeviceStore,
    passkeys: PasskeyStore,
) -> SignedDecision | None:
    """The decision, if the file can show that it is about what was approved (rule 3)."""
    row, content = found
    if row.statement is None:
        return None
    used = UsedPasskey.model_validate_json(row.assertion) if row.assertion else None
    endorsed = await devices.endorsed(row.key_id)
    passkey = await passkeys.endorsed(used.assertion.credential_id) if used else None
    decision = SignedDecision(
        statement=row.statement.encode(),
        signature=decode_signature(row.signature),
        key_id=row.key_id,
        device=_endorsed(endorsed) if endorsed else None,
        question=content.encode() if content is not None else None,
        passkey=PasskeyUse(assertion=used.assertion, origin=used.origin, passkey=_endorsed(passkey))
        if used and passkey
        else None,
    )
    return decision if _is_about(decision, issued.token.plan_hash, issued.shown) else None


def _endorsed(row: tuple[Mapping[str, str], str, str]) -> Endorsed:
    fields, owner_key_id, endorsement = row
    return Endorsed(fields=dict(fields), owner_key_id=owner_key_id, endorsement=endorsement)


def run_envelope(run: RunPredicate, *, signing: Signing) -> bytes:
    """The `run/v1` of a piece of work. Its subjects are its plan and the files that it left."""
    left = {each.path: each.after for each in run.files if each.after is not None}
    return _enveloped(RUN_TYPE, {run.work_item_id: run.plan_sha256, **left}, run, signing)


def _enveloped(
    predicate_type: str, subjects: Mapping[str, str], predicate: Data, signing: Signing
) -> bytes:
    payload = canonical_bytes(
        {
            "_type": STATEMENT_TYPE,
            "subject": [
                {"name": name, "digest": {"sha256": digest}} for name, digest in subjects.items()
            ],
            "predicateType": predicate_type,
            "predicate": predicate.model_dump(mode="json"),
        }
    )
    key_id, signature = signing.sign(pre_authentication(payload))
    return canonical_bytes(
        {
            "payload": base64.b64encode(payload).decode(),
            "payloadType": PAYLOAD_TYPE,
            "signatures": [{"keyid": key_id, "sig": base64.b64encode(signature).decode()}],
        }
    )


def pre_authentication(payload: bytes) -> bytes:
    """What a DSSE signature is over (the standard's `PAE`)."""
    kind = PAYLOAD_TYPE.encode()
    return b"DSSEv1 %d %b %d %b" % (len(kind), kind, len(payload), payload)


def verify_envelope(document: bytes, trusted: PublicKeys) -> AttestedApproval | AttestedRun:
    """Check a file against the keys that the verifier trusts; raises `ProofInvalid` with why."""
    if len(document) > 2 * MAX_PROOF_BYTES:
        raise ProofInvalid("The file is too large to be a proof.")
    try:
        envelope = _Envelope.model_validate(strict_loads(document))
        statement = _Statement.model_validate(strict_loads(envelope.payload))
    except (CanonicalError, ValidationError) as error:
        raise ProofInvalid(f"The file is not a proof, or it was changed: {error}") from error
    signer = _signer(envelope, trusted)
    if statement.predicateType == APPROVAL_TYPE:
        return _approval(statement, signer, trusted)
    if statement.predicateType == RUN_TYPE:
        return _run(statement, signer)
    raise ProofInvalid(f"The file says {statement.predicateType!a}, which is not known here.")


def _signer(envelope: _Envelope, trusted: PublicKeys) -> PublicKey:
    signed = pre_authentication(envelope.payload)
    for each in envelope.signatures:
        # The id is a hint, says the standard: the key decides.
        if signer := trusted.signer_of(signed, each.sig):
            return signer
    raise ProofInvalid("The signature does not fit: the file was changed, or another key made it.")


def _approval(statement: _Statement, signer: PublicKey, trusted: PublicKeys) -> AttestedApproval:
    predicate = _read(ApprovalPredicate, statement, signer)
    report = verify_proof(canonical_bytes(predicate.proof), trusted)  # 1
    _require_subjects(statement, {report.token.work_item_id: report.token.plan_hash})
    decision = predicate.decision
    if decision is None:
        who, device_id, passkey = "", None, None
    else:
        if not _is_about(decision, report.token.plan_hash, report.shown):
            raise ProofInvalid("The decision is about something else than what was approved.")
        who, device_id, passkey = _require_strength(decision, report, trusted)
    return AttestedApproval(
        report=report,
        signed_by=who,
        device_id=device_id,
        passkey=passkey,
        exported_at=predicate.exported_at,
    )


def _run(statement: _Statement, signer: PublicKey) -> AttestedRun:
    run = _read(RunPredicate, statement, signer)
    left = {each.path: each.after for each in run.files if each.after is not None}
    _require_subjects(statement, {run.work_item_id: run.plan_sha256, **left})
    if run.checked and not any(each.proves for each in run.checks):
        raise ProofInvalid("The file says that it was checked, and names no check that shows it.")
    return AttestedRun(run=run, key_id=signer.key_id)


def _read(model: type[_Predicate], statement: _Statement, signer: PublicKey) -> _Predicate:
    try:
        predicate = model.model_validate(statement.predicate)
    except ValidationError as error:
        raise ProofInvalid(f"The statement is not well formed: {error}") from error
    if not signer.in_use_at(predicate.exported_at):  # 5
        raise ProofInvalid(f"{signer.key_id} had been retired when this was signed.")
    return predicate


def _require_subjects(statement: _Statement, expected: Mapping[str, str]) -> None:
    named = {each.name: each.digest.get("sha256") for each in statement.subject}
    if named != dict(expected) or len(statement.subject) != len(expected):
        raise ProofInvalid("The subjects of the statement are not what it is about.")


def _is_about(decision: SignedDecision, plan_hash: str, shown: bytes) -> bool:
    """Rule 3."""
    fields = statement_fields(decision.statement)
    if decision.question is None:
        named = [each.get("plan_hashes") for each in (fields, *_batch_items(fields))]
        return any(isinstance(each, dict) and plan_hash in each.values() for each in named)
    if fields.get("content_hash") != hashlib.sha256(decision.question).hexdigest():
        return False
    body = statement_fields(decision.question).get("body")
    parts = [body, *body.values()] if isinstance(body, dict) else []
    return any(_bytes_of(each) == shown for each in [*parts, *_chosen_option(body, fields)])


def _chosen_option(body: object, fields: Mapping[str, Any]) -> list[object]:
    """Of a question with several ways, the one that was answered, and no other."""
    options, answer = body.get("options") if isinstance(body, dict) else None, fields.get("answer")
    if not isinstance(options, dict) or not isinstance(answer, dict):
        return []
    value = value_of(answer)  # words beside it may name another way, and have chosen none
    return [options[value]] if value in options else []


def _batch_items(fields: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The cards that a decision about several names."""
    batch = fields.get("batch")
    items = batch.get("items") if isinstance(batch, dict) else None
    return [each for each in items if isinstance(each, dict)] if isinstance(items, list) else []


def _bytes_of(value: object) -> bytes | None:
    try:
        return canonical_bytes(value)
    except CanonicalError:
        return None


def _require_strength(
    decision: SignedDecision, report: ProofReport, trusted: PublicKeys
) -> tuple[str, str | None, str | None]:
    """Rule 2: who signed, from which device, with which passkey."""
    token, passkey = report.token, None
    if decision.device is None:
        signed = trusted.verify(
            decision.key_id, decision.statement, decision.signature, at=token.issued_at
        )
        who, device_id, proven = "the owner's own key", None, ApprovalStrength.VAULT
    else:
        fields = decision.device.require(DEVICE_SEAL, trusted)
        key = _device_key(fields)
        signed = key.key_id == decision.key_id == fields.get("device_id") and key.signed(
            decision.statement, decision.signature
        )
        who, device_id = fields.get("name", ""), key.key_id
        slid = gesture_of(statement_fields(decision.statement)).rank >= ApprovalStrength.SLIDE.rank
        proven = ApprovalStrength.SLIDE if slid else ApprovalStrength.TAP
    if not signed:
        raise ProofInvalid("The decision is not signed by the device that the file names.")
    if decision.passkey is not None:
        passkey = _require_passkey(decision, decision.passkey, trusted)
        if proven is not ApprovalStrength.VAULT:
            proven = ApprovalStrength.PASSKEY
    if proven is not token.approval_strength:
        raise ProofInvalid(
            f"The approval says {token.approval_strength.value}; the decision shows {proven.value}."
        )
    return who, device_id, passkey


def _device_key(fields: Mapping[str, str]) -> PublicKey:
    try:
        return PublicKey.from_hex(fields.get("public_key", ""))
    except PublicKeyInvalid as error:
        raise ProofInvalid("The device's key cannot be read.") from error


def _challenge(statement: bytes) -> bytes:
    """What a passkey signs for a statement; raises `ValueError`."""
    fields = statement_fields(statement)
    if isinstance(hashes := fields.get("plan_hashes"), dict):
        return challenge_of({str(name): str(each) for name, each in hashes.items()})
    if "content_hash" in fields:
        return bytes.fromhex(str(fields["content_hash"]))
    return hashlib.sha256(statement).digest()


def _require_passkey(decision: SignedDecision, use: PasskeyUse, trusted: PublicKeys) -> str:
    fields = use.passkey.require(PASSKEY_SEAL, trusted)
    try:
        challenge = _challenge(decision.statement)
        if (
            use.assertion.credential_id != fields["credential_id"]
            or page_name(use.origin) != fields["rp_id"]
        ):
            raise ProofInvalid("The passkey is not the one that the owner vouches for.")
        key = bytes.fromhex(fields["public_key"])
        read_assertion(use.assertion, key, challenge=challenge, origins=(use.origin,))
    except (DecisionRefused, KeyError, ValueError) as error:
        raise ProofInvalid("The passkey has not signed this.") from error
    return fields.get("name", "")


def predicate_schemas() -> dict[str, dict[str, Any]]:
    """The published JSON schemas, by the type of the predicate."""
    return {
        APPROVAL_TYPE: ApprovalPredicate.model_json_schema(),
        RUN_TYPE: RunPredicate.model_json_schema(),
    }
