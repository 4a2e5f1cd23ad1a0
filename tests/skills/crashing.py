"""A process that dies between the owner's yes and the installation: `python -m tests.skills.crashing`."""

import asyncio
import os
import signal
import sys
from pathlib import Path
from typing import Any, NoReturn

from silas.app.core import open_core
from silas.app.review import open_questions
from silas.app.skills import make_skills
from silas.settings.load import load_settings


class Killing:
    """A sandbox that takes its process with it."""

    async def run(self, request: Any, *, on_output: Any = None) -> NoReturn:
        os.kill(os.getpid(), signal.SIGKILL)
        raise SystemExit(1)


async def main(root: Path, skill: str) -> None:
    loaded = load_settings(data_dir=str(root / "data"), config_file=None, environ={}, cwd=root)
    async with open_core(loaded, environ=os.environ) as core:
        questions = open_questions(core, core.queue)
        service = make_skills(core, questions)
        asked = await service.install(skill)
        question = await questions.get(asked.card_id)
        await questions.answer_with_vault(asked.card_id, {"selected_value": "approve"})
        service.installer.sandbox = Killing()
        await service.installer.answered(question.about)


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), sys.argv[2]))
