"""The wiring: what the rooms promise holds when the application puts them together."""

from pathlib import Path

import pytest

from silas.app.core import make_core, open_core
from silas.approval import ApprovalDecision, ApprovalScope, ApprovalVerdict, DecisionRefused
from silas.secrets import OnDemandVault
from silas.settings.load import LoadedSettings, load_settings
from silas.settings.paths import NotInitialised
from silas.testing import FakePlan, MemoryVault

YES = ApprovalDecision(verdict=ApprovalVerdict.APPROVED)
SECRET = "a value that nobody would guess"


def loaded(folder: Path, **environ: str) -> LoadedSettings:
    return load_settings(data_dir=str(folder), config_file=None, environ=environ, cwd=folder)


def in_memory() -> OnDemandVault:
    return OnDemandVault(MemoryVault)  # type: ignore[arg-type]


async def test_a_directory_without_a_database_is_not_opened(tmp_path: Path) -> None:
    with pytest.raises(NotInitialised, match="silas init"):
        async with open_core(loaded(tmp_path), environ={}):
            pass
    assert not (tmp_path / "silas.db").exists()


async def test_an_approval_and_its_traces_are_written_together(tmp_path: Path) -> None:
    async with make_core(loaded(tmp_path), in_memory()) as core:
        core.keys.generate_keypair()
        token = await core.approvals.issue_token(FakePlan(), YES)
        assert (await core.approvals.verify(token, FakePlan()))[0]
        assert (await core.approvals.check(token, FakePlan()))[0]
        assert not (await core.approvals.verify(token, FakePlan()))[0]
        bodies = await core.database.fetch_all("SELECT body FROM audit_log ORDER BY seq")
        events = [event for (body,) in bodies for event in EVENTS if f'"{event}"' in body]
        assert events == ["approval_issued", "approval_used", "approval_refused"]
        report = await core.audit.examine()
        assert report.ok
        assert report.vouched_seq >= 1, "an issued approval is under a signed checkpoint"


EVENTS = ["approval_issued", "approval_used", "approval_refused"]


async def test_the_settings_limit_approvals(tmp_path: Path) -> None:
    settings = loaded(
        tmp_path,
        SILAS_APPROVAL__SCOPE_MIN_STRENGTH='{"self_update": "biometric"}',
        SILAS_APPROVAL__DEFAULT_TTL_MINUTES="5",
    )
    async with make_core(settings, in_memory()) as core:
        core.keys.generate_keypair()
        token = await core.approvals.issue_token(FakePlan(), YES)
        assert (token.expires_at - token.issued_at).total_seconds() == 300
        with pytest.raises(DecisionRefused, match="biometric"):
            await core.approvals.issue_token(FakePlan(), YES, ApprovalScope.SELF_UPDATE)


async def test_a_secret_that_was_used_never_reaches_the_log(tmp_path: Path) -> None:
    async with make_core(loaded(tmp_path), in_memory()) as core:
        core.vault.set("mail", SECRET.encode())
        await core.audit.log("oops", text=f"logged in with {SECRET}", nested=[{"x": SECRET}])
        ((body,),) = await core.database.fetch_all("SELECT body FROM audit_log")
        assert SECRET not in body
        assert "oops" in body
