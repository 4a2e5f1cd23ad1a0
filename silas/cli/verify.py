"""`silas verify`: is this approval genuine? Needs the file and the public key, nothing else."""

from datetime import UTC, datetime
from pathlib import Path

import click

from silas.approval import ProofReport, PublicKeyInvalid, PublicKeys, verify_proof
from silas.approval.proofs import MAX_PROOF_BYTES
from silas.cli.commands import CliContext, JsonCommand, pass_cli
from silas.kernel import ApprovalError, format_timestamp, strict_loads, visible, visible_json
from silas.review.attestations import AttestedApproval, AttestedRun, is_envelope, verify_envelope


class ProofUnreadable(ApprovalError):
    """The file cannot be read. Check the path."""

    code = "E_APPROVAL_FILE"


@click.command(cls=JsonCommand)
@click.argument("file", type=click.Path(path_type=Path))
@click.option(
    "--public-key",
    metavar="KEY|FILE",
    help="The owner's public key: 64 hexadecimal digits, or the path of an owner.pub file.",
)
@pass_cli
def verify(cli: CliContext, file: Path, public_key: str | None) -> None:
    """Check a proof of an approval or of what was done, offline.

    Reads what `silas approvals export` and `silas work export` write. Says in words what was
    approved or done, by which key and when, and shows the exact bytes that were signed. The exit
    code is 0 only if everything holds.
    """
    proof = _read(file)
    if public_key is None:
        raise click.UsageError(
            "Say whose approval it should be: --public-key with the owner's key, or with the path "
            "of an owner.pub file."
        )
    trusted = read_public_keys(public_key)
    if not is_envelope(proof):
        report = verify_proof(proof, trusted)
        cli.show(_as_data(report), _in_words(report))
        return
    attested = verify_envelope(proof, trusted)
    if isinstance(attested, AttestedRun):
        run = attested.run.model_dump(mode="json")
        cli.show({"valid": True, "key_id": attested.key_id, "run": run}, _run_in_words(attested))
        return
    decided = {"device_id": attested.device_id, "passkey": attested.passkey}
    data = {**_as_data(attested.report), "signed_by": attested.signed_by or None, **decided}
    cli.show(data, f"{_in_words(attested.report)}\n\n{_decided_in_words(attested)}")


def read_public_keys(text: str) -> PublicKeys:
    """The keys that a person gave: as digits, or as the path of a file."""
    path = Path(text)
    try:
        if path.is_file():
            return PublicKeys.from_text(path.read_text("utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise PublicKeyInvalid(f"{text} cannot be read as an owner.pub file: {error}") from error
    try:
        return PublicKeys.from_text(text)
    except PublicKeyInvalid as error:
        raise PublicKeyInvalid(
            f"{visible(text)} is neither a file here nor a public key of 64 hexadecimal digits."
        ) from error


def _read(file: Path) -> bytes:
    try:
        with file.open("rb") as stream:
            return stream.read(2 * MAX_PROOF_BYTES + 1)
    except OSError as error:
        raise ProofUnreadable(f"{file}: {error.strerror}. Check the path.") from error


def _as_data(report: ProofReport) -> dict[str, object]:
    return {
        "valid": True,
        "key_id": report.key_id,
        "token": report.token.model_dump(
            mode="json", exclude={"executions_used", "execution_nonces"}
        ),
        "shown": report.shown.decode(),
        "spawn_policy": report.spawn_policy.decode() if report.spawn_policy else None,
    }


def _in_words(report: ProofReport) -> str:
    token = report.token
    expired = " (over by now)" if datetime.now(UTC) >= token.expires_at else ""
    times = "once" if token.max_executions == 1 else f"{token.max_executions} times"
    lines = [
        "The approval is genuine.",
        f"  What        {visible(token.work_item_id)}, scope {token.scope.value}",
        f"  Decision    {token.verdict.value}, made with {token.approval_strength.value}",
        f"  Key         {report.key_id}, one of the keys that you gave",
        f"  When        {format_timestamp(token.issued_at)}",
        f"  Valid       until {format_timestamp(token.expires_at)}{expired}, to be used {times}",
        f"  Conditions  {visible_json(token.conditions)}",
        "",
        f"Exactly this was shown and signed ({len(report.shown)} bytes, sha256 {token.plan_hash}):",
        _shown(report.shown),
    ]
    if report.spawn_policy:
        lines += ["", "Tasks may be spawned under this policy:", _shown(report.spawn_policy)]
    return "\n".join(lines)


def _decided_in_words(attested: AttestedApproval) -> str:
    if not attested.signed_by:
        return "The file does not carry the decision itself: it does not say which device decided."
    device = f" (device {attested.device_id})" if attested.device_id else ""
    passkey = f", with the passkey {visible(attested.passkey)}" if attested.passkey else ""
    return f"The decision was signed by {visible(attested.signed_by)}{device}{passkey}."


def _run_in_words(attested: AttestedRun) -> str:
    run = attested.run
    checks = [
        f"  {'passed' if each.passed else 'failed'}{', failed before' if each.proves else ''}  "
        f"{visible(each.name)}"
        for each in run.checks
    ]
    files = [
        f"  {visible(each.path)}  sha256 {each.after or 'removed'}"
        f"{'' if each.taken else '  (not among the files of the owner)'}"
        for each in run.files
    ]
    calls = [visible(call.title) for attempt in run.attempts for call in attempt.calls]
    return "\n".join(
        [
            "The record is genuine.",
            f"  What      {visible(run.title)} ({visible(run.work_item_id)})",
            f"  Plan      sha256 {run.plan_sha256}",
            f"  Approval  {visible(run.approval or 'none')}",
            f"  Outcome   {visible(run.status)}{', and checked' if run.checked else ''}",
            f"  Key       {attested.key_id}, one of the keys that you gave",
            f"  Written   {format_timestamp(run.exported_at)}",
            *(["", "What ran:", *(f"  {each}" for each in calls)] if calls else []),
            *(["", f"Checks, made by {visible(run.verifier)}:", *checks] if checks else []),
            *(["", "Files:", *files] if files else []),
        ]
    )


def _shown(payload: bytes) -> str:
    """The payload, indented for reading, with nothing in it that a terminal would obey."""
    return "\n".join(f"  {line}" for line in visible_json(strict_loads(payload)).splitlines())
