"""The scripts of a connection are strangers: what they say is read strictly, and they are ended."""

import asyncio
import contextlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from silas.connections import scripts, setup
from silas.connections.models import ConnectionStatus
from silas.connections.scripts import AccountFailed, ScriptMisbehaved
from tests.connections.place import CANARY, DISCOVER, SETUP, ConnectionPlace, open_place

_OPEN = Path("/proc/self/fd")
ASK = SETUP.partition("said = ")[0]
MISBEHAVING = {
    "garbage": "print('hello')",
    "no object": "print('[1]')",
    "not utf-8": "import sys; sys.stdout.buffer.write(b'\\xff\\n')",
    "twice the same key": 'print(\'{"type": "log", "type": "log"}\')',
    "unknown event": 'print(\'{"type": "shell", "command": "id"}\')',
    "an unknown step": 'print(\'{"type":"setup_step","step_id":"a","step":{"type":"x"}}\')',
    "waits for no step": 'print(\'{"type": "await_input", "step_id": "never"}\')',
    "a line without end": "print('x' * 70000, end='', flush=True); import time; time.sleep(600)",
    "dies": "raise SystemExit(3)",
    "ends early": "pass",
    "too many lines": 'for _ in range(3000): print(\'{"type": "log"}\')',
    "nested without end": "print('{\"type\":' + '[' * 30000)",
    "a number that is none": 'print(\'{"type": "completion", "x": NaN}\')',
    "a number of 50,000 digits": "print('{\"type\": ' + '9' * 50000 + '}')",
    "half a character": 'print(r\'{"type": "failure", "failure": {"message": "\\ud800"}}\')',
    "a failure that is none": 'print(\'{"type": "failure", "failure": 5}\')',
    "a failure of another kind": 'print(\'{"type": "failure", "failure": {"failure_type": "x"}}\')',
    "a completion that is none": 'print(\'{"type": "completion", "connection_payload": [1]}\')',
    "a step without a name": 'print(\'{"type": "setup_step", "step": {"type": "progress"}}\')',
    "an event in two lines": 'print(\'{"type":\\n"log"}\')',
    "two events in a line": 'print(\'{"type": "log"}{"type": "log"}\')',
    "a line of 64 KiB and one byte": "print('{' + ' ' * 65535 + '}')",
    "a flood": "import sys\nwhile True: sys.stdout.write('{}' * 1000)",
}


async def begin(place: ConnectionPlace, root: Path, text: str) -> str:
    await place.install(root, setup=text)
    question = await place.ask()
    await place.approve(question)
    return str(question.content.body["connection"]["connection_id"])


@pytest.mark.parametrize("text", MISBEHAVING.values(), ids=MISBEHAVING)
async def test_a_setup_that_is_not_understood_fails_with_a_card(tmp_path: Path, text: str) -> None:
    async with open_place(tmp_path) as place:
        name = await begin(place, tmp_path / "written", text)
        found = await place.until_settled(name)
        assert found.status is ConnectionStatus.FAILED
        assert found.problem
        [card] = await place.manager.cards.waiting(found)
        assert card.content.kind.value == "connection_failure"
        assert card.content.actions[-1].value == "skip"


async def test_a_setup_that_dies_after_the_password_leaves_none(tmp_path: Path) -> None:
    async with open_place(tmp_path) as place:
        name = await begin(place, tmp_path / "written", ASK + "sys.stdin.readline()\nraise OSError")
        ref = await place.until_secret(name)
        await place.secrets.fulfil(ref, CANARY)
        found = await place.until_settled(name)
        assert found.status is ConnectionStatus.FAILED
        assert place.skills.core.vault.get(ref) is None


async def test_a_setup_that_says_nothing_is_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(setup, "_SILENCE_SECONDS", 0.2)
    async with open_place(tmp_path) as place:
        name = await begin(place, tmp_path / "written", "import time; time.sleep(600)")
        found = await place.until_settled(name)
        assert "said nothing for long" in found.problem


async def test_cancelled_the_script_is_told_and_no_process_or_pipe_is_left(tmp_path: Path) -> None:
    async with open_place(tmp_path) as place:
        name = await begin(place, tmp_path / "written", ASK + "import time; time.sleep(600)")
        await place.until_secret(name)
        before = len(list(_OPEN.iterdir()))
        await place.service.cancel(name)
        assert len(list(_OPEN.iterdir())) < before
        assert not [each for each in asyncio.all_tasks() if "_set_up" in repr(each)]


async def test_a_failure_names_its_kind_and_what_can_be_done(tmp_path: Path) -> None:
    failing = (
        'print(\'{"type": "failure", "failure": {"failure_type": "mfa_required", '
        '"service": "Letters", "message": "A code is needed."}}\')'
    )
    async with open_place(tmp_path) as place:
        name = await begin(place, tmp_path / "written", failing)
        found = await place.until_settled(name)
        [card] = await place.manager.cards.waiting(found)
        assert "second factor" in card.content.body["message"]
        assert [each.value for each in card.content.actions] == ["retry", "skip"]
        await place.answer(card, {"selected_action": "retry"})
        again = await place.until_settled(name)
        assert again.status is ConnectionStatus.FAILED


async def test_details_of_an_unknown_failure_are_shown_when_asked_for(tmp_path: Path) -> None:
    failing = (
        'print(\'{"type": "log", "level": "info", "message": "port 25 is closed"}\')\n'
        'print(\'{"type": "failure", "failure": {"message": "It broke."}}\')'
    )
    async with open_place(tmp_path) as place:
        name = await begin(place, tmp_path / "written", failing)
        found = await place.until_settled(name)
        [card] = await place.manager.cards.waiting(found)
        assert "port 25" not in card.content.body["message"]
        await place.answer(card, {"selected_action": "show_details"})
        [card] = await place.manager.cards.waiting(found)
        assert "port 25 is closed" in card.content.body["message"]


TELLS_NOTHING = {
    "errors are not read": ("import sys; sys.stderr.write('{\"healthy\": true}\\n')", "0 answers"),
    "it dies after its answer": ("print('{\"healthy\": true}'); raise SystemExit(9)", None),
    "it is killed": ("import os; os.kill(os.getpid(), 9)", "0 answers"),
    "two answers": ('print(\'{"healthy": true}\\n{"healthy": true}\')', "2 answers"),
    "a flood": ("while True: print('{}')", "more than anyone should read"),
    "a line without end": ("while True: print('x' * 1000, end='')", "more than 65536 bytes"),
    "garbage": ("print('healthy')", "no JSON"),
    "half an answer": ("print('{\"healthy\": tr', end='')", "no JSON"),
    "healthy by a word": ('print(\'{"healthy": "yes"}\')', "does not understand"),
    "a latency below nothing": (
        'print(\'{"healthy": true, "latency_ms": -1}\')',
        "does not understand",
    ),
    "a time that is none": (
        'print(\'{"healthy": true, "token_expires_at": "soon"}\')',
        "does not understand",
    ),
    "it says nothing": ("import time; time.sleep(600)", "took too long"),
}


@pytest.mark.parametrize("trick", TELLS_NOTHING)
async def test_a_check_that_is_not_understood_is_no_good_news(
    tmp_path: Path, trick: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    text, expected = TELLS_NOTHING[trick]
    async with open_place(tmp_path) as place:
        await place.install(tmp_path / "written", health_check=text, recover=None)
        connection = await place.connect()
        monkeypatch.setattr(scripts, "_ANSWER_SECONDS", 5.0)
        [checked] = (await place.service.check(connection.connection_id)).checks
        assert checked.result.healthy is (expected is None)
        assert (expected or "") in (checked.result.error or "")
        found = await place.manager.store.find(connection.connection_id)
        assert found.usable is (expected is None)


async def test_a_script_that_is_cancelled_is_told_so_and_ended_though_it_does_not_listen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent: list[dict[str, object]] = []
    send = scripts.ScriptConversation.send

    def noted(self: scripts.ScriptConversation, **event: object) -> None:
        sent.append(event)
        send(self, **event)

    monkeypatch.setattr(scripts.ScriptConversation, "send", noted)
    deaf = (
        "import signal\nfor each in range(1, 32):\n"
        "    try: signal.signal(each, signal.SIG_IGN)\n    except (OSError, ValueError): pass\n"
    )
    async with open_place(tmp_path) as place:
        text = deaf + ASK + "import time\nwhile True: time.sleep(1)"
        name = await begin(place, tmp_path / "written", text)
        await place.until_secret(name)
        found = await place.service.cancel(name)
        assert found.status == "proposed"
        assert sent[-1] == {"type": "cancel", "reason": "user_cancelled"}
        assert [each["type"] for each in sent] == ["start", "cancel"]
        assert not [each for each in _command_lines() if str(tmp_path).encode() in each]


def _command_lines() -> Iterator[bytes]:
    for process in Path("/proc").iterdir():
        with contextlib.suppress(OSError):  # it may end at any moment
            if process.name.isdigit():
                yield (process / "cmdline").read_bytes()


DISCOVERIES = {
    "two answers": "print('{}'); print('{}')",
    "none": "",
    "a host that is none": DISCOVER.replace("mail.example.org", "localhost"),
    "no encryption": DISCOVER.replace('"tls": "tls"', '"tls": "none"'),
    "metadata": DISCOVER.replace('"tls": "tls"', '"tls": "none", "address": "169.254.169.254"'),
    "more than it begins with": DISCOVER.replace(
        '"provider": "Letters"', '"provider": "L", "initial_permissions": ["letters.act"]'
    ),
}


@pytest.mark.parametrize("text", DISCOVERIES.values(), ids=DISCOVERIES)
async def test_a_discovery_that_cannot_be_is_refused(tmp_path: Path, text: str) -> None:
    async with open_place(tmp_path) as place:
        await place.install(tmp_path / "written", discover=text)
        with pytest.raises(ScriptMisbehaved):
            await place.ask()
        assert await place.manager.list_connections() == []


async def test_a_discovery_that_fails_says_why(tmp_path: Path) -> None:
    text = 'print(\'{"failure": {"failure_type": "unknown", "message": "Say which account."}}\')'
    async with open_place(tmp_path) as place:
        await place.install(tmp_path / "written", discover=text)
        with pytest.raises(AccountFailed, match="Say which account"):
            await place.ask()


async def test_what_a_check_finds_is_recovered_once_and_then_told(tmp_path: Path) -> None:
    sick = 'print(\'{"healthy": false, "error": "the password was changed"}\')'
    async with open_place(tmp_path) as place:
        await place.install(tmp_path / "written", health_check=sick)
        connection = await place.connect()
        asked: list[str] = []
        ask = place.manager.scripts.ask

        async def counted(skill, script, request, **more):
            asked.append(script)
            return await ask(skill, script, request, **more)

        object.__setattr__(place.manager.scripts, "ask", counted)
        checked = await place.service.check(connection.connection_id)
        assert checked.checks[0].result.error == "the password was changed"
        assert asked == [scripts.HEALTH_CHECK, scripts.RECOVER, scripts.HEALTH_CHECK]
        found = await place.manager.store.find(connection.connection_id)
        assert found.status is ConnectionStatus.FAILED
        assert not found.usable
        [card] = await place.manager.cards.waiting(found)
        await place.service.check(connection.connection_id)
        assert [each.question_id for each in await place.manager.cards.waiting(found)] == [
            card.question_id
        ], "the same failure is told once"
