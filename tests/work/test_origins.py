"""Whose text a file is: what Silas delivered, where it lies, and what else is known about it."""

import hashlib
import os
from pathlib import Path
from typing import Any

import pytest

from silas.kernel import OWNERS, Provenance, TaintLevel, external
from silas.storage import SqliteDatabase
from silas.testing.fakes import FakeClock
from silas.testing.work import FakeWorker
from silas.work.effects import FileChange
from silas.work.origins import OriginStore
from silas.work.ports import Briefing, ToolCaller
from silas.work.provenance import command_reads
from tests.work.shop import Shop, task

PAGE = external("https://x.test/a, read at 10:02 UTC on 2026-11-17")
LONG = b"a text that is long enough to be recognised elsewhere\n"


def digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def put(directory: Path, name: str, content: bytes = LONG) -> dict[str, str]:
    path = directory / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return {name: digest(content)}


def change(name: str, content: bytes = LONG) -> list[FileChange]:
    return [FileChange(path=name, before=None, after=digest(content))]


@pytest.fixture
def home(tmp_path: Path) -> Path:
    place = tmp_path / "home"
    place.mkdir()
    return place


@pytest.fixture
def origins(database: SqliteDatabase, clock: FakeClock) -> OriginStore:
    return OriginStore(database, clock, own_repositories=["github.com/me/"])


async def test_what_the_owner_put_there_is_the_owners(origins: OriginStore, home: Path) -> None:
    found = put(home, "notes.txt") | put(home, "src/app.py") | put(home, ".git-notes")
    assert await origins.foreign_files(str(home), found) == {}


async def test_what_silas_delivered_is_what_its_run_had_read(
    origins: OriginStore, home: Path
) -> None:
    mine, theirs = put(home, "mine.txt", b"mine" * 20), put(home, "theirs.txt")
    await origins.note_files(str(home), change("mine.txt", b"mine" * 20), OWNERS, work_item_id="a")
    await origins.note_files(str(home), change("theirs.txt"), PAGE, work_item_id="b")
    found = await origins.foreign_files(str(home), mine | theirs)
    assert found == {
        "theirs.txt": f"the file theirs.txt (made from {PAGE.sources[0]})",
    }


async def test_a_strangers_file_stays_one_when_it_is_copied_or_changed(
    origins: OriginStore, home: Path
) -> None:
    await origins.note_files(str(home), change("page.txt"), PAGE, work_item_id="a")
    copied, changed = put(home, "copy.txt"), put(home, "page.txt", b"and a word of mine")
    assert set(await origins.foreign_files(str(home), copied | changed)) == {
        "copy.txt",
        "page.txt",
    }
    elsewhere = home / "elsewhere"
    assert set(await origins.foreign_files(str(elsewhere), put(elsewhere, "b.txt"))) == {"b.txt"}


async def test_a_short_text_is_not_taken_for_a_copy(origins: OriginStore, home: Path) -> None:
    await origins.note_files(str(home), change("__init__.py", b""), PAGE, work_item_id="a")
    assert await origins.foreign_files(str(home), put(home, "src/__init__.py", b"")) == {}


async def test_what_was_foreign_is_never_written_down_as_the_owners(
    origins: OriginStore, home: Path
) -> None:
    put(home, "page.txt")
    await origins.note_files(str(home), change("page.txt"), PAGE, work_item_id="a")
    await origins.note_files(str(home), change("page.txt"), OWNERS, work_item_id="b")
    assert await origins.foreign_files(str(home), put(home, "page.txt"))
    await origins.note_work("w", PAGE)
    await origins.note_work("w", OWNERS)
    assert await origins.of_work(["w"]) == PAGE


async def test_a_file_that_an_owners_run_has_written_anew_is_the_owners_again(
    origins: OriginStore, home: Path
) -> None:
    await origins.note_files(str(home), change("page.txt"), PAGE, work_item_id="a")
    anew = b"something else that the owner wanted in it"
    await origins.note_files(str(home), change("page.txt", anew), OWNERS, work_item_id="b")
    assert await origins.foreign_files(str(home), put(home, "page.txt", anew)) == {}


@pytest.mark.parametrize(
    ("url", "foreign"),
    [
        ("https://github.com/stranger/tool.git", True),
        ("git@github.com:stranger/tool.git", True),
        ("https://token@github.com/me-too/tool", True),
        ("https://github.com/me/tool.git", False),
        ("git@github.com:me/tool.git", False),
        ("ssh://git@GitHub.com/me/tool", False),
        ("https://github.com/meow/tool", True),
        ("https://github.com/me/../stranger/tool", True),
        ("https://github.com/me/%2e%2e/stranger/tool", True),
        ("https://evil.test/x@github.com/me/tool", True),
        ("https://evil.test#@github.com/me/tool", True),
        ("https://evil.test?@github.com/me/tool", True),
        ("evil.test:x://github.com/me/tool", True),
        ("file://github.com/me/tool", True),
    ],
)
async def test_a_copy_of_a_strangers_repository_is_theirs(
    origins: OriginStore, home: Path, url: str, foreign: bool
) -> None:
    config = f'[core]\n\tbare = false\n[remote "origin"]\n\turl = {url}\n'
    put(home, "clone/.git/config", config.encode())
    found = await origins.foreign_files(str(home), put(home, "clone/src/app.py") | put(home, "b"))
    assert set(found) == ({"clone/src/app.py"} if foreign else set())
    whole = await origins.foreign_files(str(home / "clone"), put(home / "clone", "src/app.py"))
    assert bool(whole) is foreign
    if foreign:
        assert "token" not in found["clone/src/app.py"]
        assert "github.com" in found["clone/src/app.py"]


@pytest.mark.parametrize("own", ["github.com/me", "https://github.com/me/", "github.com/me/tool"])
async def test_what_is_called_ones_own_ends_where_a_name_ends(
    database: SqliteDatabase, clock: FakeClock, home: Path, own: str
) -> None:
    origins = OriginStore(database, clock, own_repositories=[own])
    for name, owner in (("mine", "me/tool"), ("theirs", "meow/tool"), ("other", "me/toolbox")):
        put(home, f"{name}/.git/config", f"[remote]\nurl = git@github.com:{owner}.git\n".encode())
    files = put(home, "mine/a") | put(home, "theirs/a") | put(home, "other/a")
    found = set(await origins.foreign_files(str(home), files))
    assert found == {"theirs/a"} | ({"other/a"} if own.endswith("tool") else set())


@pytest.mark.parametrize(
    "config",
    ['[remote "o"] url = https://x.test/a', '[Remote "o"]\nurl = https://x.test/a'],
)
async def test_a_remote_is_read_as_git_reads_it(
    origins: OriginStore, home: Path, config: str
) -> None:
    put(home, ".git/config", config.encode())
    assert await origins.foreign_files(str(home), put(home, "a.py"))


async def test_a_part_of_a_strangers_repository_is_theirs_wherever_it_lies(
    origins: OriginStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    me = tmp_path / "me"
    monkeypatch.setattr(Path, "home", lambda: me)
    put(tmp_path / "srv" / "clone", ".git/config", b'[remote "o"]\nurl = https://x.test/a\n')
    part = tmp_path / "srv" / "clone" / "docs"
    assert set(await origins.foreign_files(str(part), put(part, "a.md"))) == {"a.md"}
    put(me, ".git/config", b'[remote "o"]\nurl = https://x.test/dotfiles\n')
    notes = me / "notes"
    assert await origins.foreign_files(str(notes), put(notes, "b.md")) == {}


async def test_a_folder_among_packages_is_a_strangers(origins: OriginStore, home: Path) -> None:
    inside = home / "node_modules" / "left"
    found = await origins.foreign_files(str(inside), put(inside, "README.md"))
    assert "in node_modules" in found["README.md"]


async def test_a_file_that_is_gone_is_where_it_was(origins: OriginStore, home: Path) -> None:
    gone = {"node_modules/a.js": digest(LONG), "mine.txt": digest(b"mine")}
    assert set(await origins.foreign_files(str(home), gone)) == {"node_modules/a.js"}


async def test_a_repository_of_ones_own_is_the_owners(origins: OriginStore, home: Path) -> None:
    put(home, ".git/config", b"[core]\n\tbare = false\n[user]\n\turl = https://x.test\n")
    assert await origins.foreign_files(str(home), put(home, "app.py")) == {}


async def test_a_worktree_and_a_broken_repository_are_looked_at_too(
    origins: OriginStore, home: Path
) -> None:
    put(home, "main/.git/config", b'[remote "o"]\nurl = https://github.com/stranger/x\n')
    put(home, "main/.git/worktrees/w/commondir", b"../..\n")
    put(home, "w/.git", f"gitdir: {home}/main/.git/worktrees/w\n".encode())
    (home / "broken" / ".git" / "config").mkdir(parents=True)
    found = await origins.foreign_files(str(home), put(home, "w/a.py") | put(home, "broken/b.py"))
    assert "github.com/stranger/x" in found["w/a.py"]
    assert "cannot be read" in found["broken/b.py"]


@pytest.mark.parametrize(
    "name", ["node_modules/a.js", "lib/site-packages/b.py", "Downloads/c.html", "vendor/d.go"]
)
async def test_places_where_others_write(origins: OriginStore, home: Path, name: str) -> None:
    (source,) = (await origins.foreign_files(str(home), put(home, name))).values()
    assert source.startswith(f"the file {name} (in ")


async def test_a_download_that_says_where_it_is_from(
    origins: OriginStore, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def address(path: Any, _name: str, *, follow_symlinks: bool) -> bytes:
        if Path(path).name == "page.html":
            return b"https://x.test/page"
        raise OSError(61, "no such attribute")

    monkeypatch.setattr(os, "getxattr", address, raising=False)
    found = await origins.foreign_files(str(home), put(home, "page.html") | put(home, "mine.txt"))
    assert found == {"page.html": "the file page.html (from https://x.test/page)"}


async def test_a_file_of_another_user_is_theirs(
    origins: OriginStore, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = put(home, "theirs.txt")
    # The file belongs to this user, and the directory and the process to another.
    uid = home.stat().st_uid
    monkeypatch.setattr(os, "geteuid", lambda: uid + 1)
    real = Path.stat

    def stat(path: Path, **more: Any) -> os.stat_result:
        found = real(path, **more)
        return os.stat_result((*found[:4], uid + 1, *found[5:10])) if path == home else found

    monkeypatch.setattr(Path, "stat", stat)
    found = await origins.foreign_files(str(home), files)
    assert "another user" in found["theirs.txt"]


@pytest.mark.parametrize(
    ("command", "read"),
    [
        ("cat mine.txt", []),
        ("cat ./node_modules/../theirs.js", ["theirs.js"]),
        ("cat theirs.js | wc -l", ["theirs.js"]),
        ("wc -l < theirs.js", ["theirs.js"]),
        ("test -f theirs.js && echo yes", ["theirs.js"]),
        ("echo hello > mine.txt", []),
        ("head -n 3 lib", ["lib/a.js"]),
        ("cat *.js", None),
        ("cat $(ls)", None),
        ("cat /srv/theirs.js", None),
        ("cat ../x", None),
        ("A=1 cat mine.txt", None),
        ("make", None),
        ("ls", None),
        ("for f in a; do cat $f; done", None),
        ("date -u +%F", []),
        ("date -d tomorrow", []),
        ("echo --- > mine.txt", []),
        ("printf '{}' > mine.json", []),
        ("date -f theirs.js", None),
        ("date -ftheirs.js", None),
        ("date --file=theirs.js", None),
        ("wc --files0-from=theirs.js", None),
        ("wc --files0-from mine.txt", None),
        ("cat -- -theirs.js", None),
        ("cat <> theirs.js", ["theirs.js"]),
        ("cat 0<>theirs.js", ["theirs.js"]),
        ("cat their{s,}.js", None),
        ("cat < their{s,}.js", None),
        ("cat $'theirs.js'", None),
        ('cat $"theirs.js"', None),
    ],
)
def test_what_a_command_can_have_read(command: str, read: list[str] | None) -> None:
    names = ["theirs.js", "lib/a.js"]
    assert list(command_reads(command, names)) == (names if read is None else read)


async def test_a_link_is_another_name_of_a_strangers_file(shop: Shop) -> None:
    site = shop.root / "site"
    put(site, "node_modules/left.js")
    (site / "innocent.txt").symlink_to("node_modules/left.js")
    taints: list[TaintLevel] = []

    async def look(_briefing: Briefing, tools: ToolCaller) -> None:
        argv = {"argv": ["cat", "innocent.txt"]}
        taints.append((await tools.call("shell_exec", argv)).taint)

    await shop.run(task(workspace={"path": "site"}), FakeWorker(look))
    assert taints[0] is TaintLevel.EXTERNAL


def test_a_provenance_only_grows() -> None:
    one, two = external("a", "b"), external("b", "c")
    assert OWNERS.joined(one, two) == Provenance(TaintLevel.EXTERNAL, ("a", "b", "c"))
    assert OWNERS.joined(OWNERS) == OWNERS
    assert len(external(*map(str, range(50))).sources) == 8


async def test_files_that_a_run_writes_are_as_foreign_as_what_it_read(shop: Shop) -> None:
    site = shop.root / "site"
    put(site, "node_modules/left.js")

    async def reads(_briefing: Briefing, tools: ToolCaller) -> None:
        await tools.call("read_file", {"path": "node_modules/left.js"})
        await tools.call("write_file", {"path": "summary.txt", "content": "what it says"})

    async def writes(_briefing: Briefing, tools: ToolCaller) -> None:
        await tools.call("write_file", {"path": "own.txt", "content": "what I want"})

    declared = {"path": "site", "changes": {"add": ["summary.txt", "own.txt"]}}
    await shop.run(task(id="t1", workspace=declared), FakeWorker(reads))
    await shop.run(task(id="t2", workspace=declared), FakeWorker(writes))
    names = {name: digest((site / name).read_bytes()) for name in ("summary.txt", "own.txt")}
    found = await shop.bench.origins.foreign_files(str(site), names)
    assert list(found) == ["summary.txt"]
    assert "node_modules/left.js" in found["summary.txt"]
    assert (await shop.bench.origins.of_work(["t1"])).taint is TaintLevel.EXTERNAL
    assert await shop.bench.origins.of_work(["t2"]) == OWNERS
