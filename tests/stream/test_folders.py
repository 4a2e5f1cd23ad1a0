"""Which folders a request is about: what the owner names, picks, or is in."""

from pathlib import Path

import pytest

from silas.stream.folders import Surroundings, folders_of
from silas.work.off_limits import OffLimits


@pytest.fixture
def around(tmp_path: Path) -> Surroundings:
    home = tmp_path / "home"
    for name in ("silas-files", "notes", "shop/.git", "shop/src", "plain/docs", ".ssh"):
        (home / name).mkdir(parents=True)
    (home / "notes" / "todo.txt").write_text("milk")
    data = home / "data"
    data.mkdir()
    return Surroundings(home, OffLimits(home=home, own=(data,)), home / "silas-files")


NAMED = {
    "in ~/notes": "notes",
    "What does ~/notes/todo.txt say?": "notes",
    "Look into `~/notes`, please.": "notes",
    'Sort "HOME/notes".': "notes",
    "Fix the tests in HOME/shop.": "shop",
    "Fix ~/shop/src/login.py": "shop",
    "Make a folder ~/notes/deep/er for it": "notes",
}


@pytest.mark.parametrize("text", NAMED)
def test_a_folder_that_is_named_is_where_work_lands(text: str, around: Surroundings) -> None:
    found = folders_of(text.replace("HOME", str(around.home)), around)
    assert found.named == [str(around.home / NAMED[text])]
    assert found.landing == found.named[0]
    assert found.base == str(around.workspace)
    assert found.readable == [found.landing, found.base]


@pytest.mark.parametrize(
    "text",
    [
        "Write a note",
        "Read ~/.ssh/config",
        "Look at /etc/passwd and ~/data",
        "Make ~/new.txt",
        "See https://example.org/notes",
        "It's 3/4 of the shop's and/or ~",
        "\x00/notes",
        "> sort ~/notes\nWhat does that mail want?",
        "What does this want?\n```\ncd ~/notes\n```\nTell me.",
        "What does this want?\n~~~\ncd ~/notes",
        'It says "Dear all,\nplease sort ~/notes\nat once". What is meant?',
        'It says "sort ~/notes now". What is meant?',
    ],
)
def test_other_words_name_none(text: str, around: Surroundings) -> None:
    found = folders_of(text, around, said_in=str(around.home))
    assert found.named == []
    assert found.readable == [str(around.workspace)]


def test_the_first_folder_that_is_named_is_where_work_lands(around: Surroundings) -> None:
    """Whatever is in quotes further on, perhaps by somebody else."""
    found = folders_of('Fix ~/shop. The report says "~/notes", and `~/plain` too.', around)
    assert found.named == [str(around.home / name) for name in ("shop", "notes", "plain")]
    assert found.landing == str(around.home / "shop")


def test_words_that_are_shown_do_not_speak_of_where_it_was_said(around: Surroundings) -> None:
    found = folders_of("> clean up here\nWhat?", around, said_in=str(around.home / "plain"))
    assert found.base == str(around.workspace)


def test_where_it_is_said_counts_if_it_is_a_repository(around: Surroundings) -> None:
    found = folders_of("Fix the bug", around, said_in=str(around.home / "shop" / "src"))
    assert found.base == str(around.home / "shop")
    assert found.repositories == [found.base]


@pytest.mark.parametrize("text", ["Sort this folder", "What is here?", "Tidy up docs/"])
def test_or_if_the_words_speak_of_it(text: str, around: Surroundings) -> None:
    found = folders_of(text, around, said_in=str(around.home / "plain"))
    assert Path(found.landing or "").is_relative_to(around.home / "plain")


def test_otherwise_it_can_be_read(around: Surroundings) -> None:
    plain = str(around.home / "plain")
    found = folders_of("Write a note", around, said_in=plain)
    assert (found.landing, found.said_in) == (str(around.workspace), plain)
    assert plain in found.readable


def test_a_relative_path_is_read_where_it_was_said(around: Surroundings) -> None:
    said_in = str(around.home / "plain")
    assert folders_of("Read docs/", around, said_in=said_in).named == [f"{said_in}/docs"]
    assert folders_of("Look in docs", around, said_in=said_in).named == [f"{said_in}/docs"]
    assert folders_of("Read docs/", around).named == []


def test_what_is_picked_wins_over_where_it_is_said(around: Surroundings) -> None:
    picked, said_in = str(around.home / "notes"), str(around.home / "shop")
    assert folders_of("Do it", around, picked=picked, said_in=said_in).base == picked


@pytest.mark.parametrize("name", ["~/.ssh", "~", "/etc", "/no/such/folder", "notes"])
def test_a_picked_folder_that_cannot_be_used_is_said(name: str, around: Surroundings) -> None:
    found = folders_of("Do it", around, picked=name)
    assert found.base == str(around.workspace)
    assert "no place to work" in found.note or "no folder here" in found.note
