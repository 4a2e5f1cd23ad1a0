"""What a plan would write, known before the work where it can be, and said where it cannot."""

from pathlib import Path

import pytest

from silas.work.effects import ChangeKind
from silas.work.models import WorkItem
from silas.work.plan import parse
from silas.work.previews import (
    BY_A_MODEL,
    BY_COMMANDS,
    COMMITS,
    FilePreview,
    PlanPreview,
    preview_plan,
)

EDIT = "```edit path=a.txt\n<<<<<<<\ntwo\n=======\n2\n>>>>>>>\n```"


def plan(place: Path, body: str, changes: str = "add: [new.txt], change: [a.txt]") -> WorkItem:
    return parse(
        "---\nid: one\ntype: task\ntitle: One\n"
        f"workspace: {{path: {place}, changes: {{{changes}}}}}\n---\n{body}\n"
    )


async def previewed(place: Path, body: str, *, scripted: bool = True) -> PlanPreview:
    return await preview_plan([plan(place, body)], scripted=scripted)


async def one(place: Path, body: str) -> FilePreview:
    (found,) = (await previewed(place, body)).files
    return found


async def test_a_new_file_is_all_added(tmp_path: Path) -> None:
    found = await one(tmp_path, "```file path=new.txt\nhello\nyou\n```")
    assert (found.path, found.kind) == ("new.txt", ChangeKind.ADDED)
    assert (found.lines, found.added, found.removed) == (
        ["@@ -0,0 +1,2 @@", "+hello", "+you"],
        2,
        0,
    )
    assert list(tmp_path.iterdir()) == [], "it is only shown"


async def test_a_file_that_is_there_shows_what_goes_and_what_comes(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("one\ntwo\nthree\n")
    found = await one(tmp_path, f"{EDIT}\n\n```append path=a.txt\nfour\n```")
    assert found.kind is ChangeKind.CHANGED
    assert found.lines[1:] == [" one", "-two", "+2", " three", "+four"]
    assert (found.added, found.removed) == (2, 1)
    found = await one(tmp_path, "```file path=a.txt\none\n```")
    assert found.lines[1:] == [" one", "-two", "-three"]


@pytest.mark.parametrize("text", ["one\n", "two\ntwo\n"])
async def test_a_passage_that_would_not_be_found_says_so(tmp_path: Path, text: str) -> None:
    (tmp_path / "a.txt").write_text(text)
    found = await one(tmp_path, EDIT)
    assert (found.lines, "this step would fail" in found.note) == ([], True)


async def test_what_cannot_be_read_as_text_is_not_compared(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes(b"\xff\x00\xfe")
    assert "cannot be compared" in (await one(tmp_path, "```file path=a.txt\nnow\n```")).note
    outside = tmp_path / "outside"
    outside.write_text("secret of somebody else\n")
    (tmp_path / "a.txt").unlink()
    (tmp_path / "a.txt").symlink_to(outside)
    found = await one(tmp_path, "```append path=a.txt\nnow\n```")
    assert (found.lines, "cannot be compared" in found.note) == ([], True)


async def test_what_is_very_long_is_counted_and_not_shown(tmp_path: Path) -> None:
    body = "\n".join(str(number) for number in range(2000))
    found = await one(tmp_path, f"```file path=new.txt\n{body}\n```")
    assert (found.lines, found.added, "too long" in found.note) == ([], 2000, True)


async def test_what_a_model_or_a_command_writes_is_not_guessed(tmp_path: Path) -> None:
    body = "```file path=new.txt\nhello\n```"
    assert await previewed(tmp_path, body, scripted=False) == PlanPreview(note=BY_A_MODEL)
    found = await previewed(tmp_path, f"{body}\n\n```run\nmake\n```")
    assert (len(found.files), found.note) == (1, BY_COMMANDS)
    exact = plan(tmp_path, body).model_copy(update={"script": True})
    assert len((await preview_plan([exact], scripted=False)).files) == 1
    nothing = parse("---\nid: one\ntype: task\ntitle: One\n---\n```run\nmake\n```\n")
    assert await preview_plan([nothing], scripted=True) == PlanPreview()
    assert await preview_plan([nothing], scripted=False) == PlanPreview()


async def test_a_commit_to_the_owners_repository_is_said_before_the_yes(tmp_path: Path) -> None:
    body = "```file path=new.txt\nhello\n```"
    assert "commits" not in (await previewed(tmp_path, body)).note
    (tmp_path / ".git").mkdir()
    assert (await previewed(tmp_path, body)).note == COMMITS.format("silas/one")
    assert "the branch silas/one" in (await previewed(tmp_path, body, scripted=False)).note


async def test_one_plan_after_the_other(tmp_path: Path) -> None:
    first = plan(tmp_path, "```file path=new.txt\nhello\n```")
    second = plan(tmp_path, "```append path=new.txt\nyou\n```")
    (found,) = (await preview_plan([first, second], scripted=True)).files
    assert found.lines[1:] == ["+hello", "+you"]
