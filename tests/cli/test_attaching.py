"""`silas ask --attach`, and `/attach` in `silas chat`."""

import asyncio
import json
from pathlib import Path

import pytest

from silas.channels.terminal import TerminalChannel
from silas.kernel import ChannelError
from silas.stream.attachments import MAX_FILE_BYTES, MAX_FILES
from tests.cli.machine import Machine, output_of


@pytest.fixture(autouse=True)
def home(owner: Machine) -> Path:
    where = Path(owner.environ["HOME"])
    where.mkdir(exist_ok=True)
    return where


def test_ask_takes_files_along(owner: Machine, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("first line\n")
    (tmp_path / "b.bin").write_bytes(b"\0\1\2")
    ran = owner.run("ask", "what is this?", "--attach", "a.txt", "--attach", "b.bin", cwd=tmp_path)
    told = output_of(ran)
    assert "a.txt: text, 11 bytes, 1 line. It begins:" in told
    assert "b.bin: file of an unknown kind, 3 bytes." in told


def test_a_plan_that_saves_one_says_where_it_came_from(owner: Machine, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("first line\n")
    said = "save it as notes/a.txt"
    asked = json.loads(
        output_of(owner.run("ask", said, "--attach", "a.txt", "--json", cwd=tmp_path))
    )
    shown = output_of(owner.run("review", "show", asked["review_id"]))
    assert "from a.txt, attached at " in shown
    assert "```attachment path=notes/a.txt sha256=" in shown


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("none.txt", "There is no such file"),
        ("empty.txt", "is empty"),
        ("big.bin", "larger than 10 MB"),
    ],
)
def test_what_cannot_be_attached_is_said_and_nothing_is_sent(
    owner: Machine, tmp_path: Path, name: str, says: str
) -> None:
    (tmp_path / "empty.txt").touch()
    with (tmp_path / "big.bin").open("wb") as big:
        big.truncate(MAX_FILE_BYTES + 1)
    ran = owner.run("ask", "look", "--attach", name, cwd=tmp_path)
    assert ran.returncode == 120
    assert says in ran.stderr.decode()


def test_too_many_files_are_refused(owner: Machine, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("a")
    named = ["--attach", "a.txt"] * (MAX_FILES + 1)
    ran = owner.run("ask", "look", *named, cwd=tmp_path)
    assert ran.returncode == 120
    assert "at most 8 files" in ran.stderr.decode()


def test_chat_attaches_to_the_next_message() -> None:
    said: list[str] = []

    async def attach(path: str) -> str:
        if path == "none":
            raise ChannelError("There is no such file.")
        return f"Attached: {path}"

    channel = TerminalChannel(
        connection_id="owner",
        deliveries=None,  # type: ignore[arg-type]
        cards=None,  # type: ignore[arg-type]
        send=None,  # type: ignore[arg-type]
        show_card=None,  # type: ignore[arg-type]
        show_exact=None,  # type: ignore[arg-type]
        say=said.append,
        attach=attach,
    )
    for line in ("/attach my file.txt", "/attach none", "/attach"):
        asyncio.run(channel._take(line))
    assert said == [
        "Attached: my file.txt",
        "There is no such file.",
        "Name the file: /attach FILE",
    ]
