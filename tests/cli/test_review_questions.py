"""Questions, passkey codes and secrets that are asked for: everything in the page has a command."""

import asyncio
import json
from types import SimpleNamespace
from typing import Any

import pytest

from silas.app.core import open_core
from silas.app.review import open_questions
from silas.proactive.suggestions import card_of, from_habit
from silas.settings.load import load_settings
from tests.cli.machine import Machine, failure_of, output_of
from tests.cli.test_devices import serving

pytestmark = pytest.mark.slow


async def _ask(machine: Machine) -> str:
    loaded = load_settings(
        data_dir=str(machine.data_dir), config_file=None, environ={}, cwd=machine.data_dir
    )
    async with open_core(loaded, environ=machine.environ) as core:
        room: Any = SimpleNamespace(ids=core.ids, clock=core.clock)
        question = card_of(from_habit(room.ids, room.clock.now(), "make test", 3, scope_id="owner"))
        await open_questions(core, core.queue).ask(question)
        return question.question_id


def test_a_question_is_listed_shown_and_answered_once(owner: Machine) -> None:
    name = asyncio.run(_ask(owner))
    assert f"{name}  low" in output_of(owner.run("review", "list"))
    shown = output_of(owner.run("review", "show", name))
    assert "watch the command `make test` every day" in shown
    hashed = shown.split("hash ")[1].split()[0]
    assert failure_of(owner.run("review", "answer", name, "maybe", "--hash", hashed))[0] == 2
    assert failure_of(owner.run("review", "answer", name, "not_now"))[0] == 2, "unseen"
    assert failure_of(owner.run("review", "answer", name, "not_now", "--hash", "0"))[0] == 2
    answered = owner.run("review", "answer", name, "not_now", "--hash", hashed)
    assert "not_now" in output_of(answered)
    assert failure_of(owner.run("review", "answer", name, "do_it", "--hash", hashed))[0] == 120
    assert "Nothing is waiting" in output_of(owner.run("review", "list"))


def test_codes_for_passkeys_and_secrets_to_be_typed(owner: Machine) -> None:
    for command in (["devices", "passkey"], ["secrets", "ask", "notes"]):
        assert failure_of(owner.run(*command))[0] == 210, "nobody is there"
    with serving(owner):
        said = json.loads(output_of(owner.run("devices", "passkey", "--json")))
        assert len(said["code"]) == 10
        assert "notes can be typed" in output_of(owner.run("secrets", "ask", "notes"))
        assert failure_of(owner.run("secrets", "ask", "silas/owner-key"))[0] != 0


def test_what_waits_is_listed_without_the_passphrase_while_silas_runs(owner: Machine) -> None:
    name = asyncio.run(_ask(owner))
    unopened = {key: value for key, value in owner.environ.items() if "VAULT" not in key}
    locked = Machine(owner.data_dir, unopened)
    assert "E_SECRETS_LOCKED" in failure_of(locked.run("review", "list"))[1]
    with serving(owner):
        found = json.loads(output_of(locked.run("review", "list", "--json")))
        assert [each["question_id"] for each in found["questions"]] == [name]
        assert f"{name}  low" in output_of(locked.run("review", "list"))
        # To show is not to decide.
        refused = failure_of(locked.run("review", "answer", name, "not_now", "--hash", "0" * 64))
        assert "E_SECRETS_LOCKED" in refused[1]
