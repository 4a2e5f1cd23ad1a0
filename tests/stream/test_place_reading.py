"""Reading in an opened place: what is seen, whose text it is, and what is refused."""

import os
from pathlib import Path
from typing import Any

import pytest

from silas.kernel import TaintLevel
from silas.stream import place_reading
from silas.stream.places import OpenedPlace
from silas.tools import files as file_tools
from silas.tools.execution import ModelView
from silas.tools.tree import Tree
from tests.stream.reading_home import Reading, ReadingHome, open_reading

SECRET = "the vault's own words"


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    return tmp_path / "home"


@pytest.fixture
def shop(home: Path) -> Path:
    shop = home / "shop"
    shop.mkdir(parents=True)
    (shop / "hours.txt").write_text("9 to 17\n")
    (home / "outside.txt").write_text(SECRET)
    return shop


async def look(house: ReadingHome, tool: str, **args: Any) -> ModelView:
    """What one call gives in a turn whose words name nothing."""
    reader = place_reading.PlaceReader(
        places=house.places,
        opened=await house.places.readable(),
        named=(),
        here=None,
        origins=house.core.work.origins,
    )
    (found,) = [each for each in reader.tools if each.name == tool]
    return await found.run(found.arguments.model_validate(args))


@pytest.mark.parametrize("tool", ["read_file", "list_folder", "find_text"])
async def test_links_out_of_a_place_are_not_followed(
    tmp_path: Path, home: Path, shop: Path, tool: str
) -> None:
    (home / "other").mkdir()
    (home / "other" / "secret.txt").write_text(SECRET)
    (shop / "file").symlink_to(home / "outside.txt")
    (shop / "folder").symlink_to(home / "other")
    more = {"text": "own"} if tool == "find_text" else {}
    async with open_reading(tmp_path) as house:
        await house.open(shop)
        for name in ("file", "folder", "folder/secret.txt"):
            seen = await look(house, tool, path=f"{shop}/{name}", **more)
            assert not seen.success
            assert SECRET not in str(seen)
        listed = await look(house, "list_folder", path=str(shop))
        assert "file (a link, which is not followed)" in listed.return_value
        found = await look(house, "find_text", path=str(shop), text="own words")
        assert SECRET not in found.return_value


@pytest.mark.parametrize(
    "path",
    [
        "~/shop/../outside.txt",
        "../outside.txt",
        "~/outside.txt",
        "~/shop/./../../data/silas.db",
        "/proc/self/environ",
        "/proc/self/cwd",
        "/proc/self/root/etc/passwd",
        "/dev/zero",
        "~/.ssh/id_rsa",
        "/etc/passwd",
        "~/shop/\x00",
        "~/" + "a/" * 600,
        "~root/.bashrc",
    ],
)
async def test_no_path_leaves_a_place(tmp_path: Path, home: Path, shop: Path, path: str) -> None:
    (home / ".ssh").mkdir()
    (home / ".ssh" / "id_rsa").write_text(SECRET)
    async with open_reading(tmp_path) as house:
        await house.open(shop)
        seen = await look(house, "read_file", path=path[:1024])
        assert not seen.success
        assert seen.error
        assert SECRET not in str(seen)


async def test_pipes_and_devices_are_refused_at_once(tmp_path: Path, shop: Path) -> None:
    os.mkfifo(shop / "pipe")
    async with open_reading(tmp_path) as house:
        await house.open(shop)
        seen = await look(house, "read_file", path=f"{shop}/pipe")
        assert seen.error == "pipe is not a regular file."
        listed = await look(house, "list_folder", path=str(shop))
        assert "pipe (a pipe)" in listed.return_value
        found = await look(house, "find_text", path=str(shop), text="17")
        assert "hours.txt:1: 9 to 17" in found.return_value


async def test_what_is_too_large_or_no_text_is_said_so(tmp_path: Path, shop: Path) -> None:
    (shop / "photo.jpg").write_bytes(b"\xff\xd8\xff\x00")
    with (shop / "large.txt").open("wb") as file:
        file.truncate(file_tools.MAX_FILE_BYTES + 1)
    async with open_reading(tmp_path) as house:
        await house.open(shop)
        photo = await look(house, "read_file", path=f"{shop}/photo.jpg")
        assert photo.error == "photo.jpg is not UTF-8 text."
        large = await look(house, "read_file", path=f"{shop}/large.txt")
        assert large.error == f"large.txt has more than {file_tools.MAX_FILE_BYTES} bytes."
        assert (await look(house, "read_file", path=str(shop))).error == (
            "~/shop is a folder, and no file."
        )
        hours = await look(house, "list_folder", path=f"{shop}/hours.txt")
        assert hours.error == "~/shop/hours.txt is no folder."


async def test_names_that_are_not_utf8_are_shown_escaped(tmp_path: Path, shop: Path) -> None:
    (Path(os.fsdecode(os.fsencode(shop) + b"/bad\xff.txt"))).write_text("17 cows")
    (shop / "two\nlines").write_text("")
    async with open_reading(tmp_path) as house:
        await house.open(shop)
        listed = await look(house, "list_folder", path=str(shop))
        assert "bad\\xff.txt (7 bytes)" in listed.return_value
        assert "two\\nlines (0 bytes)" in listed.return_value
        assert listed.taint is TaintLevel.OWNER
        found = await look(house, "find_text", path=str(shop), text="17")
        assert "cows" not in found.return_value


async def test_keys_and_passwords_are_read_in_no_place(tmp_path: Path, shop: Path) -> None:
    for name in (".env", "server.pem", "id_rsa", "sub/.aws/credentials"):
        (shop / name).parent.mkdir(parents=True, exist_ok=True)
        (shop / name).write_text(f"{SECRET}\n")
    async with open_reading(tmp_path) as house:
        await house.open(shop)
        for name in (".env", "server.pem", "id_rsa", "sub/.aws/credentials"):
            seen = await look(house, "read_file", path=f"{shop}/{name}")
            assert "is a name for keys or passwords" in (seen.error or "")
            again = await look(house, "find_text", path=f"{shop}/{name}", text="own")
            assert not again.success
        found = await look(house, "find_text", path=str(shop), text="own words")
        assert found.return_value == "“own words” is in no text file of ~/shop."


async def test_a_place_that_became_a_link_is_refused(
    tmp_path: Path, home: Path, shop: Path
) -> None:
    async with open_reading(tmp_path) as house:
        await house.open(shop)
        shop.rename(home / "moved")
        (home / "private").mkdir()
        (home / "private" / "hours.txt").write_text(SECRET)
        shop.symlink_to(home / "private")
        seen = await look(house, "read_file", path=f"{shop}/hours.txt")
        assert not seen.success
        assert SECRET not in str(seen)


async def test_a_folder_swapped_after_the_look_is_refused(
    tmp_path: Path, home: Path, shop: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (shop / "sub").mkdir()
    (shop / "sub" / "a.txt").write_text("fine")
    (home / "private").mkdir()
    (home / "private" / "a.txt").write_text(SECRET)
    opening = Tree.open

    def swap(path: Path) -> Any:
        if path == shop / "sub" and not (shop / "sub").is_symlink():
            path.rename(shop / "gone")
            path.symlink_to(home / "private")
        return opening(path)

    async with open_reading(tmp_path) as house:
        await house.open(shop)
        monkeypatch.setattr(place_reading.Tree, "open", swap)
        seen = await look(house, "read_file", path=f"{shop}/sub/a.txt")
        assert not seen.success
        assert SECRET not in str(seen)


async def test_whose_text_it_is_follows_the_bytes_that_were_read(
    tmp_path: Path, shop: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A stranger's file is put away as soon as it was read, and the owner's stands in its place."""
    foreign = "Written by somebody else, and long enough to be known again.\n"
    reading = place_reading.read_text

    def read_then_swap(tree: Tree, name: str) -> file_tools.ReadText:
        found = reading(tree, name)
        (shop / name).write_text("The owner's own words.\n")
        return found

    async with open_reading(tmp_path) as house:
        await house.open(shop)
        (shop / "copy.txt").write_text(foreign)
        await note_foreign(house, foreign)
        monkeypatch.setattr(place_reading, "read_text", read_then_swap)
        seen = await look(house, "read_file", path=f"{shop}/copy.txt")
        assert foreign.strip() in seen.return_value
        assert seen.taint is TaintLevel.EXTERNAL


async def note_foreign(house: ReadingHome, text: str) -> None:
    """Silas has delivered this text elsewhere, from a stranger's page."""
    import hashlib

    await house.core.database.execute(
        "INSERT INTO file_origins (path, digest, taint, sources, work_item_id, written_at) "
        "VALUES ('/elsewhere/a.txt', ?, 'external', '[\"https://a.test\"]', 'one', '2026')",
        (hashlib.sha256(text.encode()).hexdigest(),),
    )


async def test_only_what_uses_a_strangers_file_is_tainted(tmp_path: Path, shop: Path) -> None:
    clone = shop / "clone"
    (clone / ".git").mkdir(parents=True)
    (clone / ".git" / "config").write_text('[remote "origin"]\n\turl = https://a.test/x\n')
    (clone / "readme.md").write_text("hours of others\n")
    async with open_reading(tmp_path) as house:
        await house.open(shop)
        own = await look(house, "read_file", path=f"{shop}/hours.txt")
        assert own.taint is TaintLevel.OWNER
        found = await look(house, "find_text", path=str(shop), text="9 to")
        assert found.taint is TaintLevel.OWNER
        listed = await look(house, "list_folder", path=str(shop))
        assert listed.taint is TaintLevel.OWNER
        theirs = await look(house, "read_file", path=f"{clone}/readme.md")
        assert theirs.taint is TaintLevel.EXTERNAL
        assert "https://a.test/x" in theirs.sources[0]
        names = await look(house, "list_folder", path=str(clone))
        assert names.taint is TaintLevel.EXTERNAL
        both = await look(house, "find_text", path=str(shop), text="hours")
        assert both.taint is TaintLevel.EXTERNAL


async def test_the_answer_has_the_taint_of_what_was_read_and_names_it(
    tmp_path: Path, shop: Path
) -> None:
    (shop / ".git").mkdir()
    (shop / ".git" / "config").write_text('[remote "origin"]\n\turl = https://a.test/x\n')
    reading = Reading([("read_file", {"path": f"{shop}/hours.txt"})])
    async with open_reading(tmp_path, reading.agents) as house:
        await house.open(shop)
        told = await house.answer(await house.say("When is the shop open?"))
        assert told.taint is TaintLevel.EXTERNAL
        assert any("https://a.test/x" in each for each in told.taint_sources)
        kept = await house.core.database.fetch_all(
            "SELECT taint FROM chronicle_entries WHERE source = 'tool:read_file'"
        )
        assert kept == [("external",)]


async def test_little_is_shown_at_once(tmp_path: Path, shop: Path) -> None:
    (shop / "long.txt").write_text("".join(f"line {number}\n" for number in range(1, 1001)))
    (shop / "wide.txt").write_text("x" * 50_000)
    for number in range(300):
        (shop / f"many{number:03}").touch()
    async with open_reading(tmp_path) as house:
        await house.open(shop)
        part = await look(house, "read_file", path=f"{shop}/long.txt", first_line=990)
        assert part.return_value.splitlines()[0] == "~/shop/long.txt, lines 990 to 1000 of 1000:"
        whole = await look(house, "read_file", path=f"{shop}/long.txt")
        assert "lines 1 to 200 of 1000:" in whole.return_value
        wide = await look(house, "read_file", path=f"{shop}/wide.txt")
        assert len(wide.return_value) < 17_000
        assert wide.return_value.endswith("[the line goes on]")
        beyond = await look(house, "read_file", path=f"{shop}/long.txt", first_line=2000)
        assert beyond.error == "~/shop/long.txt has 1000 lines."
        listed = await look(house, "list_folder", path=str(shop))
        assert listed.return_value.endswith("[103 more are left out]")
        found = await look(house, "find_text", path=str(shop), text="LINE")
        assert "[there are more than 50 lines]" in found.return_value


async def test_an_expression_is_only_words(tmp_path: Path, shop: Path) -> None:
    (shop / "code.py").write_text("total = sum(prices) * 1.2  # (a+)+\n")
    async with open_reading(tmp_path) as house:
        await house.open(shop)
        found = await look(house, "find_text", path=str(shop), text="(A+)+")
        assert "code.py:1:" in found.return_value
        none = await look(house, "find_text", path=str(shop), text="t.tal")
        assert none.return_value == "“t.tal” is in no text file of ~/shop."


def test_a_file_is_a_place_without_its_neighbours() -> None:
    place = OpenedPlace(place_id="a", path="/home/me/a.txt", kind="file", seen_by=[])
    assert place.holds(Path("/home/me/a.txt"))
    assert not place.holds(Path("/home/me/a.txt/b"))
    assert not place.holds(Path("/home/me"))
