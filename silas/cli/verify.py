"""`silas verify`: is this approval genuine? Needs the file and the public key, nothing else."""

from datetime import UTC, datetime
from pathlib import Path

import click

from silas.approval import ProofReport, PublicKeyInvalid, PublicKeys, verify_proof
from silas.approval.proofs import MAX_PROOF_BYTES
from silas.cli.commands import CliContext, JsonCommand, pass_cli
from silas.kernel import ApprovalError, format_timestamp, strict_loads, visible, visible_json


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
    """Check a proof of approval, offline.

    Says in words what was approved, by which key and when, and shows the exact bytes that were
    signed. The exit code is 0 only if everything holds.
    """
    proof = _read(file)
    if public_key is None:
        raise click.UsageError(
            "Say whose approval it should be: --public-key with the owner's key, or with the path "
            "of an owner.pub file."
        )
    report = verify_proof(proof, read_public_keys(public_key))
    cli.show(_as_data(report), _in_words(report))


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
            return stream.read(MAX_PROOF_BYTES + 1)
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


def _shown(payload: bytes) -> str:
    """The payload, indented for reading, with nothing in it that a terminal would obey."""
    return "\n".join(f"  {line}" for line in visible_json(strict_loads(payload)).splitlines())
