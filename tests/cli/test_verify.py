"""From an approval to a proof that a stranger can check: `silas approvals`, `silas verify`."""

import asyncio
import hashlib
import json
from pathlib import Path

import pytest

from silas.app.core import open_core
from silas.approval import ApprovalDecision, ApprovalVerdict
from silas.settings.load import load_settings
from silas.testing import FakePlan
from tests.cli.machine import Machine, output_of
from tests.cli.test_work_report import carried_out, shop

__all__ = ["shop"]

FRESH = hashlib.sha256(b"fresh\n").hexdigest()
PLAN = FakePlan(content={"run": "echo hi", "trap": "\u202egnp.exe\x1b[2J"})


@pytest.fixture
def token_id(owner: Machine) -> str:
    async def approve() -> str:
        loaded = load_settings(
            data_dir=str(owner.data_dir), config_file=None, environ={}, cwd=owner.data_dir
        )
        async with open_core(loaded, environ=owner.environ) as core:
            decision = ApprovalDecision(verdict=ApprovalVerdict.APPROVED)
            return (await core.approvals.issue_token(PLAN, decision)).token_id

    return asyncio.run(approve())


@pytest.fixture
def proof(owner: Machine, token_id: str, tmp_path: Path) -> Path:
    path = tmp_path / "proof.json"
    output_of(owner.run("approvals", "export", token_id, str(path)))
    return path


@pytest.fixture
def stranger(tmp_path: Path, owner: Machine) -> Machine:
    """Another machine, which has never seen this data directory."""
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    return Machine(elsewhere, {"PATH": owner.environ["PATH"], "HOME": str(elsewhere)})


def test_approvals_are_listed_and_shown(owner: Machine, token_id: str) -> None:
    assert token_id in output_of(owner.run("approvals", "list"))
    shown = output_of(owner.run("approvals", "show", token_id))
    assert "echo hi" in shown
    assert "\x1b" not in shown
    assert "\u202e" not in shown
    listed = json.loads(output_of(owner.run("approvals", "list", "--json")))
    assert [each["token_id"] for each in listed["approvals"]] == [token_id]


def test_an_unknown_approval(owner: Machine) -> None:
    refused = owner.run("approvals", "show", "tok_nothing")
    assert refused.returncode == 40
    assert b"tok_nothing" in refused.stderr


def test_a_stranger_can_check_a_proof_offline(
    owner: Machine, stranger: Machine, proof: Path
) -> None:
    for key in (str(owner.data_dir / "owner.pub"), _hex_key(owner)):
        words = output_of(stranger.run("verify", str(proof), "--public-key", key))
        assert "genuine" in words
        assert "echo hi" in words
        assert "\\u202e" in words
        assert "\x1b" not in words
    assert list(stranger.data_dir.iterdir()) == [], "and it leaves nothing behind"


def test_as_json_it_gives_the_exact_bytes(owner: Machine, stranger: Machine, proof: Path) -> None:
    answer = stranger.run("verify", str(proof), "--public-key", _hex_key(owner), "--json")
    report = json.loads(output_of(answer))
    assert report["valid"] is True
    assert report["shown"].encode() == PLAN.plan_bytes()


def test_a_changed_proof_is_refused_with_the_reason(
    owner: Machine, stranger: Machine, proof: Path
) -> None:
    proof.write_bytes(proof.read_bytes().replace(b'"full_plan"', b'"standing"'))
    refused = stranger.run("verify", str(proof), "--public-key", _hex_key(owner))
    assert refused.returncode == 40
    assert refused.stdout == b""
    assert b"E_APPROVAL_PROOF" in refused.stderr


@pytest.mark.parametrize(
    ("file", "key", "code"),
    [
        ("missing.json", "ab" * 32, b"E_APPROVAL_FILE"),
        (".", "ab" * 32, b"E_APPROVAL_FILE"),
        (None, "nonsense", b"E_APPROVAL_PUBLIC_KEY"),
    ],
)
def test_bad_input(stranger: Machine, proof: Path, file: str | None, key: str, code: bytes) -> None:
    refused = stranger.run("verify", file or str(proof), "--public-key", key)
    assert refused.returncode == 40
    assert code in refused.stderr
    assert len(refused.stderr.decode().splitlines()) == 1


def test_an_existing_file_is_not_replaced(owner: Machine, token_id: str, proof: Path) -> None:
    proof.write_text("mine")
    refused = owner.run("approvals", "export", token_id, str(proof))
    assert refused.returncode == 2
    assert proof.read_text() == "mine"
    output_of(owner.run("approvals", "export", token_id, str(proof), "--force"))
    assert proof.read_text() != "mine"


def test_work_is_proven_to_a_stranger_with_its_approval(
    owner: Machine, stranger: Machine, shop: Path, tmp_path: Path
) -> None:
    """Two envelopes: what was approved and by what, and what came of it."""
    carried_out(owner, shop)
    run, approval = tmp_path / "run.json", tmp_path / "approval.json"
    output_of(owner.run("work", "export", "tidy", str(run)))
    words = output_of(stranger.run("verify", str(run), "--public-key", _hex_key(owner)))
    assert "Outcome   done, and checked" in words
    assert "passed, failed before  the new text is there" in words
    assert f"new.txt  sha256 {FRESH}\n" in words
    told = output_of(stranger.run("verify", str(run), "--public-key", _hex_key(owner), "--json"))
    token_id = json.loads(told)["run"]["approval"]

    export = ("approvals", "export", token_id, str(approval), "--format", "dsse")
    output_of(owner.run(*export))
    words = output_of(stranger.run("verify", str(approval), "--public-key", _hex_key(owner)))
    assert "The approval is genuine." in words
    assert "The decision was signed by the owner's own key." in words

    content = json.loads(run.read_bytes())
    content["payload"] = json.loads(approval.read_bytes())["payload"]
    run.write_text(json.dumps(content))
    refused = stranger.run("verify", str(run), "--public-key", _hex_key(owner))
    assert refused.returncode == 40
    assert b"E_APPROVAL_PROOF" in refused.stderr


def _hex_key(owner: Machine) -> str:
    keys = json.loads(output_of(owner.run("keys", "show", "--json")))["keys"]
    return str(keys[0]["public_key"])


def test_an_approval_is_taken_back(owner: Machine, token_id: str) -> None:
    told = output_of(owner.run("approvals", "revoke", token_id))
    assert told == f"{token_id} is taken back. It allows nothing any more.\n"
    listed = output_of(owner.run("approvals", "list"))
    assert "void: The owner has taken this approval back" in listed
    assert "approval_withdrawn" in output_of(owner.run("audit", "tail"))
    assert owner.run("audit", "verify").returncode == 0


def test_an_approval_that_nobody_gave_cannot_be_taken_back(owner: Machine) -> None:
    refused = owner.run("approvals", "revoke", "tok_nothing")
    assert refused.returncode == 40
    assert b"tok_nothing" in refused.stderr
