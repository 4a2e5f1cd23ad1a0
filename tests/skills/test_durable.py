"""What holds when the process dies, and what a backup brings back."""

import os
import signal
import subprocess
import sys
from pathlib import Path

from silas.app.backup import back_up, bring_back
from silas.app.core import open_core
from silas.app.review import open_questions
from silas.app.setup import set_up
from silas.app.skills import make_skills
from silas.kernel import SystemClock
from silas.secrets import create_vault
from silas.settings.load import load_settings
from silas.skills.store import VersionState
from tests.secrets.files import FAST_N, PASSPHRASE
from tests.skills.place import make_skill, open_place

ENVIRON = {
    "SILAS_VAULT_PASSPHRASE": PASSPHRASE,
    "PYTHON_KEYRING_BACKEND": "keyring.backends.fail.Keyring",
}


async def test_kill_9_between_token_and_install_installs_once_afterwards(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir(mode=0o700)
    loaded = load_settings(
        data_dir=str(tmp_path / "data"), config_file=None, environ={}, cwd=tmp_path
    )
    create_vault(
        loaded.paths.vault, environ=ENVIRON, choice="passphrase", unsafe_scrypt_n_for_tests=FAST_N
    )
    await set_up(loaded, environ=ENVIRON, clock=SystemClock())
    skill = make_skill(tmp_path)
    ran = subprocess.run(  # noqa: ASYNC221
        [sys.executable, "-m", "tests.skills.crashing", str(tmp_path), str(skill)],
        env={**os.environ, **ENVIRON},
        check=False,
        capture_output=True,
        timeout=120,
    )
    assert ran.returncode == -signal.SIGKILL, ran.stderr
    async with open_core(loaded, environ=ENVIRON) as core:
        [waiting] = await core.skills.proposed()
        assert waiting.state is VersionState.PROPOSED
        assert await core.skill_files.digest("greeting") is None
        service = make_skills(core, open_questions(core, core.queue))
        for _ in range(2):
            await service.installer.answered(f"skill:greeting:{waiting.digest}")
        assert await core.skill_files.digest("greeting") == waiting.digest
        rows = await core.database.fetch_all("SELECT body FROM audit_log")
        assert sum('"skill_installed"' in body for (body,) in rows) == 1
        assert sum('"approval_carried_out"' in body for (body,) in rows) <= 1


async def test_a_backup_brings_skills_back_to_the_last_byte(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir(mode=0o700)
    loaded = load_settings(
        data_dir=str(tmp_path / "data"), config_file=None, environ={}, cwd=tmp_path
    )
    create_vault(
        loaded.paths.vault, environ=ENVIRON, choice="passphrase", unsafe_scrypt_n_for_tests=FAST_N
    )
    await set_up(loaded, environ=ENVIRON, clock=SystemClock())
    skill = make_skill(tmp_path, scripts={"scripts/greet.py": "print('hi')\n"})
    (skill / "scripts" / "greet.py").chmod(0o755)
    async with open_core(loaded, environ=ENVIRON) as core:
        questions = open_questions(core, core.queue)
        service = make_skills(core, questions)
        asked = await service.install(str(skill))
        question = await questions.get(asked.card_id)
        await questions.answer_with_vault(asked.card_id, {"selected_value": "approve"})
        await service.installer.answered(question.about)
        digest = await core.skill_files.digest("greeting")
        assert digest is not None

    def quiet(_what: str, _done: int, _total: int) -> None:
        return None

    target = tmp_path / "backup.silas"
    clock = SystemClock()
    await _in_thread(
        lambda: back_up(loaded.paths, target, clock=clock, replace=False, progress=quiet)
    )
    await _in_thread(
        lambda: bring_back(loaded.paths, target, clock=clock, replace=True, progress=quiet)
    )
    async with open_core(loaded, environ=ENVIRON) as core:
        assert await core.skill_files.digest("greeting") == digest


async def test_what_a_crash_left_behind_is_erased_at_the_next_start(tmp_path: Path) -> None:
    async with open_place(tmp_path) as place:
        await place.install(make_skill(tmp_path))
        kept = await place.digest("greeting")
        (place.core.paths.skills / ("0" * 64)).mkdir()
        (place.core.paths.skills / f".{'1' * 64}.partial").mkdir()
        await place.core.skills.erase_leftovers()
        assert [each.name for each in place.core.paths.skills.iterdir()] == [kept]


async def _in_thread(run: object) -> None:
    import asyncio

    await asyncio.to_thread(run)  # type: ignore[arg-type]
