"""No git of Silas' own acts on a repository's word."""

import hashlib
import os
import shutil
import subprocess
import zlib
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from silas.sandbox.bubblewrap import BubblewrapBackend
from silas.sandbox.errors import CannotContain
from silas.sandbox.models import Boundary, OutputListener, SandboxRequest, SandboxResult
from silas.testing import FakeClock
from silas.tools.tree import FileRefused, Tree
from silas.work.repository import Blob, Repository, merge_texts, owner_identity

REF = "refs/heads/silas/t1"
CRLF = b"one\r\ntwo\r\n\x00\xff $Id$"
CHANGES = {"README.md": Blob(b"# Fixed\n"), "src/new.py": Blob(CRLF), "src/b.py": None}
RECORDED = {"README.md": b"# Fixed\n", "src/new.py": CRLF}


def git(place: Path, *arguments: str, home: Path | None = None, check: bool = True) -> str:
    """The owner's git, which obeys everything."""
    env = {
        "PATH": os.environ["PATH"],
        "HOME": str(home or "/nonexistent"),
        "GIT_CONFIG_NOSYSTEM": "1",
        **{f"GIT_{who}_NAME": "Owner" for who in ("AUTHOR", "COMMITTER")},
        **{f"GIT_{who}_EMAIL": "owner@localhost" for who in ("AUTHOR", "COMMITTER")},
    }
    command = ["git", "-C", str(place), *arguments]
    ran = subprocess.run(command, capture_output=True, env=env, check=check, timeout=300)
    return ran.stdout.decode(errors="replace")


def start(site: Path, *options: str) -> Path:
    (site / "src").mkdir(parents=True)
    (site / "README.md").write_text("# Fxied\n")
    (site / "src/a.py").write_text("a = 1\n")
    (site / "src/b.py").write_text("b = 1\n")
    (site / ".gitignore").write_text("build/\n*.o\n")
    git(site, "init", "-q", "-b", "main", *options)
    git(site, "add", ".")
    git(site, "commit", "-q", "-m", "start")
    return site


class Watched:
    """The real sandbox; looks after each run for what a planted program would have left."""

    def __init__(self) -> None:
        self._sandbox = BubblewrapBackend()
        self.requests: list[SandboxRequest] = []

    async def run(
        self, request: SandboxRequest, *, on_output: OutputListener | None = None
    ) -> SandboxResult:
        self.requests.append(request)
        result = await self._sandbox.run(request, on_output=on_output)
        left = [each for place in request.write for each in Path(place).rglob("PWNED*")]
        assert not left, "a planted program ran inside the sandbox"
        return result


class Site:
    """An owner's repository with a program in it that wants to be run."""

    def __init__(self, path: Path, outside: Path) -> None:
        self.path, self.outside = path, outside
        self.marker = outside / "PWNED"
        self.trap = str(path / ".git/objects/trap")
        self.home = outside / "home"
        self.home.mkdir()
        self.sandbox = Watched()
        self.repository = Repository(path, sandbox=self.sandbox, scratch=outside / "scratch")

    def set_trap(self) -> None:
        # Where every sandbox sees it; it leaves a mark on the host and in git's own directory.
        lines = ["#!/bin/sh", f": > {self.marker}", ': > "$GIT_DIR/PWNED"', "exit 1"]
        Path(self.trap).write_text("\n".join(lines) + "\n")
        Path(self.trap).chmod(0o755)

    def config(self, text: str, name: str = ".git/config") -> None:
        with (self.path / name).open("a") as file:
            file.write(text.replace("TRAP", self.trap))

    def write(self, name: str, text: str | bytes, mode: int = 0o644) -> None:
        path = self.path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        # Another plant may have put a link there: never write through it.
        path.unlink(missing_ok=True)
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        path.chmod(mode)

    def git(self, *arguments: str, check: bool = True) -> str:
        return git(self.path, *arguments, home=self.home, check=check)

    def object(self, revision: str) -> Path:
        name = self.git("rev-parse", revision).strip()
        return self.path / ".git/objects" / name[:2] / name[2:]

    def content(self, commit: str) -> dict[str, bytes]:
        """The files of a commit, as a repository without any configuration sees them."""
        clean = self.outside / "clean.git"
        shutil.rmtree(clean, ignore_errors=True)
        kind = "sha256" if len(commit) == 64 else "sha1"
        git(self.outside, "init", "-q", "--bare", f"--object-format={kind}", str(clean))
        (clean / "objects/info/alternates").write_text(f"{self.path}/.git/objects\n")
        listed = git(clean, "ls-tree", "-r", "-z", commit).split("\0")[:-1]
        found = {}
        for entry in listed:
            attributes, _, name = entry.partition("\t")
            mode, kind, blob = attributes.split()
            if kind == "blob":
                command = ["git", "-C", str(clean), "cat-file", "blob", blob]
                ran = subprocess.run(command, capture_output=True, check=False)
                found[name] = ran.stdout + (b"+x" if mode == "100755" else b"")
        return found

    def snapshot(self) -> dict[str, tuple[int, bytes]]:
        """Everything in `.git`: names, modes, contents and where links lead."""
        found = {}
        top = self.path / ".git"
        for place, directories, names in os.walk(top):
            for name in (*directories, *names):
                path = Path(place, name)
                key, status = str(path.relative_to(top)), path.lstat()
                if path.is_symlink():
                    found[key] = (status.st_mode, str(path.readlink()).encode())
                elif path.is_file():
                    found[key] = (status.st_mode, path.read_bytes())
                elif not key.startswith(("objects/", "refs/heads/silas")):
                    found[key] = (status.st_mode, b"")
        return found

    def require_harmless(self, before: Mapping[str, tuple[int, bytes]]) -> None:
        """Nothing ran, and `.git` has new objects and one reference at most."""
        assert not self.marker.exists()
        after = self.snapshot()
        changed = {key for key in before.keys() | after.keys() if before.get(key) != after.get(key)}
        changed.discard("refs/heads/silas/t1")
        assert all(key not in before for key in changed)
        for key in changed:
            mode, content = after[key]
            directory, place, name = key.split("/")
            assert (directory, mode & 0o7777) == ("objects", 0o444)
            algorithm = hashlib.sha1 if len(name) == 38 else hashlib.sha256
            assert algorithm(zlib.decompress(content)).hexdigest() == place + name
        for request in self.sandbox.requests:
            assert request.require == frozenset(Boundary)
            assert not request.network
            assert all(str(self.path) not in each for each in request.write)
        scratch = self.outside / "scratch"
        assert not scratch.exists() or not [*scratch.iterdir()]


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return start(tmp_path_factory.mktemp("template") / "site")


@pytest.fixture
def site(template: Path, tmp_path: Path) -> Site:
    path = tmp_path / "site"
    shutil.copytree(template, path, symlinks=True)
    outside = tmp_path / "outside"
    outside.mkdir()
    return Site(path, outside)


# What somebody may have planted. Each says whether it leaves the repository usable.

EVIL = (
    '[filter "x"]\n\tclean = TRAP\n\tsmudge = TRAP\n\tprocess = TRAP\n\trequired = true\n'
    '[diff "x"]\n\tcommand = TRAP\n\ttextconv = TRAP\n[merge "x"]\n\tdriver = TRAP\n'
    "[core]\n\tfsmonitor = TRAP\n"
)
ATTRIBUTES = "* filter=x diff=x merge=x text eol=crlf ident working-tree-encoding=UTF-16\n"
HOOKS = (
    "applypatch-msg",
    "pre-applypatch",
    "post-applypatch",
    "pre-commit",
    "pre-merge-commit",
    "prepare-commit-msg",
    "commit-msg",
    "post-commit",
    "pre-rebase",
    "post-checkout",
    "post-merge",
    "pre-push",
    "pre-receive",
    "update",
    "proc-receive",
    "post-receive",
    "post-update",
    "reference-transaction",
    "push-to-checkout",
    "pre-auto-gc",
    "post-rewrite",
    "sendemail-validate",
    "fsmonitor-watchman",
    "p4-pre-submit",
    "post-index-change",
)
PLANTS: dict[str, Callable[[Site], None]] = {}
UNUSABLE: dict[str, Callable[[Site], None]] = {}


def plant(into: dict[str, Callable[[Site], None]]) -> Callable[[Callable[[Site], None]], None]:
    def add(function: Callable[[Site], None]) -> None:
        into[function.__name__] = function

    return add


def setting(name: str, text: str) -> None:
    PLANTS[name] = lambda site: site.config(text)


def unusable_head(name: str, head: bytes) -> None:
    UNUSABLE[name] = lambda site: site.write(".git/HEAD", head)


@plant(PLANTS)
def include_of_a_tracked_file(site: Site) -> None:
    site.config("[include]\n\tpath = ../.gitconfig\n")
    site.config(EVIL, ".gitconfig")
    site.write(".gitattributes", ATTRIBUTES)


@plant(PLANTS)
def include_of_an_absolute_path(site: Site) -> None:
    site.config(f"[include]\n\tpath = {site.path}/evil\n")
    site.config(EVIL, "evil")
    site.write(".gitattributes", ATTRIBUTES)


@plant(PLANTS)
def include_from_home(site: Site) -> None:
    site.config("[include]\n\tpath = ~/evil\n")
    (site.home / "evil").write_text(EVIL.replace("TRAP", site.trap))
    site.write(".gitattributes", ATTRIBUTES)


@plant(PLANTS)
def include_if(site: Site) -> None:
    site.config('[includeIf "gitdir:/"]\n\tpath = ../evil\n')
    site.config(EVIL, "evil")
    site.write(".gitattributes", ATTRIBUTES)


@plant(PLANTS)
def worktree_configuration(site: Site) -> None:
    site.config("[core]\n\trepositoryFormatVersion = 1\n[extensions]\n\tworktreeConfig = true\n")
    site.config(EVIL, ".git/config.worktree")
    site.write(".gitattributes", ATTRIBUTES)


@plant(PLANTS)
def filters_and_drivers(site: Site) -> None:
    site.config(EVIL)
    site.write(".gitattributes", ATTRIBUTES)
    site.write("src/.gitattributes", ATTRIBUTES)


@plant(PLANTS)
def attributes_in_info(site: Site) -> None:
    site.config(EVIL)
    site.write(".git/info/attributes", ATTRIBUTES)


@plant(PLANTS)
def attributes_file(site: Site) -> None:
    site.config(EVIL + f"[core]\n\tattributesFile = {site.path}/attributes\n")
    site.write("attributes", ATTRIBUTES)


@plant(PLANTS)
def encodings(site: Site) -> None:
    site.write(".gitattributes", "* text eol=crlf ident working-tree-encoding=UTF-16\n")
    site.config("[core]\n\tautocrlf = true\n\teol = crlf\n\tsafecrlf = true\n")


@plant(PLANTS)
def hooks(site: Site) -> None:
    for name in HOOKS:
        site.write(f".git/hooks/{name}", Path(site.trap).read_bytes(), 0o755)


@plant(PLANTS)
def hooks_elsewhere(site: Site) -> None:
    site.config(f"[core]\n\thooksPath = {site.path}/hooks\n")
    for name in HOOKS:
        site.write(f"hooks/{name}", Path(site.trap).read_bytes(), 0o755)


setting("fsmonitor_program", "[core]\n\tfsmonitor = TRAP\n\tfsmonitorHookVersion = 2\n")
setting("fsmonitor_daemon", "[core]\n\tfsmonitor = true\n\tuntrackedCache = true\n")
setting(
    "signing", "[gpg]\n\tprogram = TRAP\n[commit]\n\tgpgSign = true\n[log]\n\tshowSignature=1\n"
)
setting(
    "interactive_programs",
    "[core]\n\tpager = TRAP\n\teditor = TRAP\n\taskPass = TRAP\n\tsshCommand = TRAP\n"
    "\tgitProxy = TRAP\n[sequence]\n\teditor = TRAP\n[credential]\n\thelper = !TRAP\n"
    "[pager]\n\tls-files = TRAP\n\tread-tree = TRAP\n",
)
setting("aliases", '[alias]\n\tls-files = "!TRAP"\n\tread-tree = "!TRAP"\n\twrite-tree = "!TRAP"\n')
setting("trust", "[safe]\n\tdirectory = *\n\tbareRepository = all\n")
setting("another_working_directory", "[core]\n\tworktree = /etc\n")
setting("bare", "[core]\n\tbare = true\n")
setting("unknown_extension", "[core]\n\trepositoryFormatVersion = 1\n[extensions]\n\tnoop2 = x\n")
setting("configuration_that_cannot_be_read", "[core\n\x00\xff = [[[\n")
setting("case_and_links", "[core]\n\tignoreCase = true\n\tsymlinks = false\n\tfileMode = false\n")


@plant(PLANTS)
def ownership(site: Site) -> None:
    if os.geteuid() == 0:
        os.chown(site.path / ".git/config", 12345, 12345)
    (site.path / ".git/config").chmod(0o666)


@plant(PLANTS)
def submodule_with_its_own_configuration(site: Site) -> None:
    sub = start(site.path / "sub")
    head = git(sub, "rev-parse", "HEAD").strip()
    site.write(".gitmodules", '[submodule "s"]\n\tpath = sub\n\turl = ext::TRAP\n')
    site.git("update-index", "--add", "--cacheinfo", f"160000,{head},sub")
    site.git("commit", "-q", "-m", "sub")
    site.config(EVIL, "sub/.git/config")
    site.write("sub/.gitattributes", ATTRIBUTES)
    site.write("sub/a.py", "changed")
    site.config(
        '[submodule "s"]\n\tactive = true\n\tupdate = !TRAP\n[submodule]\n\trecurse = true\n'
    )
    (site.path / ".git/modules").mkdir()


PROMISOR = (
    '[remote "origin"]\n\turl = ext::TRAP\n\tpromisor = true\n\tpartialCloneFilter = blob:none\n'
    "[core]\n\trepositoryFormatVersion = 1\n[extensions]\n\tpartialClone = origin\n"
    '[protocol]\n\tallow = always\n[protocol "ext"]\n\tallow = always\n'
)


@plant(PLANTS)
def promisor_of_a_missing_content(site: Site) -> None:
    site.object("HEAD:src/a.py").unlink()
    site.config(PROMISOR)


@plant(UNUSABLE)
def promisor_of_a_missing_tree(site: Site) -> None:
    site.object("HEAD:src").unlink()
    site.config(PROMISOR)


@plant(UNUSABLE)
def promisor_of_the_missing_head(site: Site) -> None:
    site.object("HEAD").unlink()
    site.config(PROMISOR)


@plant(PLANTS)
def alternates_to_elsewhere(site: Site) -> None:
    other = start(site.outside / "other")
    names = ("/etc", f"{other}/.git/objects", "../../../other", "/proc/self/root")
    site.write(".git/objects/info/alternates", "\n".join(names))


@plant(UNUSABLE)
def objects_borrowed_from_elsewhere(site: Site) -> None:
    moved = site.object("HEAD^{tree}")
    place = site.outside / "borrowed" / moved.parent.name
    place.mkdir(parents=True)
    moved.rename(place / moved.name)
    site.write(".git/objects/info/alternates", f"{site.outside}/borrowed\n")


@plant(PLANTS)
def replaced_objects(site: Site) -> None:
    names = ("HEAD", "HEAD^{tree}", "HEAD:README.md")
    replaced = [site.git("rev-parse", name).strip() for name in names]
    empty = site.git("mktree").strip()
    other = site.git("commit-tree", empty, "-m", "other").strip()
    for name, by in zip(replaced, (other, empty, other), strict=True):
        site.write(f".git/refs/replace/{name}", f"{by}\n")


@plant(PLANTS)
def grafts_and_shallow(site: Site) -> None:
    head = site.git("rev-parse", "HEAD").strip()
    site.write(".git/info/grafts", f"{head} {'1' * 40}\n")
    site.write(".git/shallow", f"{head}\nnonsense\n")


@plant(PLANTS)
def bare_repository_in_the_tree(site: Site) -> None:
    git(site.outside, "init", "-q", "--bare", str(site.path / "docs"))
    site.config(EVIL, "docs/config")


@plant(PLANTS)
def index_that_makes_no_sense(site: Site) -> None:
    site.write(".git/index", b"DIRC\0\0\0\x02\xff\xff\xff\xff" + b"\x81" * 300)
    site.write(".git/index.lock", b"")
    site.write(".git/sharedindex.abc", b"")


@plant(PLANTS)
def gitignore_that_is_a_link(site: Site) -> None:
    (site.path / "src/.gitignore").symlink_to(site.outside / "patterns")


@plant(PLANTS)
def gitignore_that_is_expensive(site: Site) -> None:
    star = "a*" * 60 + "b"
    site.write("src/.gitignore", f"{star}\n**/{star}/**/{star}\n[[[\n!\n\\\n" * 50)
    site.write("src/" + "a" * 200, "")


@plant(PLANTS)
def packed_references_that_make_no_sense(site: Site) -> None:
    head = site.git("rev-parse", "HEAD").strip()
    lines = [
        b"# pack-refs with: \xff",
        b"^" + b"0" * 40,
        head.encode() + b" ../../x",
        b"\x00",
        b"x",
    ]
    site.write(".git/packed-refs", b"\n".join(lines))


@plant(PLANTS)
def damaged_content(site: Site) -> None:
    damaged = site.object("HEAD:src/a.py")
    damaged.chmod(0o644)
    damaged.write_bytes(b"nonsense")


@plant(PLANTS)
def object_caches_that_lie(site: Site) -> None:
    empty = site.git("mktree").strip()
    other = site.git("commit-tree", empty, "-m", "other").strip()
    site.git("update-ref", "refs/heads/other", other)
    site.git("repack", "-q", "-a", "-d")
    site.git("multi-pack-index", "write")
    site.git("commit-graph", "write", "--reachable")
    graph = site.path / ".git/objects/info/commit-graph"
    tree = bytes.fromhex(site.git("rev-parse", "HEAD^{tree}").strip())
    content = graph.read_bytes()
    assert tree in content
    graph.chmod(0o644)
    graph.write_bytes(content.replace(tree, bytes.fromhex(empty)))
    Path(site.trap).chmod(0o755)


@plant(UNUSABLE)
def damaged_head(site: Site) -> None:
    damaged = site.object("HEAD")
    damaged.chmod(0o644)
    damaged.write_bytes(damaged.read_bytes()[:20])


@plant(UNUSABLE)
def inflating_tree(site: Site) -> None:
    tree = site.object("HEAD^{tree}")
    tree.chmod(0o644)
    tree.write_bytes(zlib.compress(b"tree 99999999999\0" + bytes(1 << 24)))


@plant(UNUSABLE)
def tree_with_git_inside(site: Site) -> None:
    blob = site.git("rev-parse", "HEAD:README.md").strip()
    tree = b"100755 .git\0" + bytes.fromhex(blob)
    framed = b"tree %d\0" % len(tree) + tree
    name = hashlib.sha1(framed).hexdigest()
    site.write(f".git/objects/{name[:2]}/{name[2:]}", zlib.compress(framed))
    site.git("update-ref", "HEAD", site.git("commit-tree", name, "-m", "x").strip())


@plant(UNUSABLE)
def git_directory_that_is_a_link(site: Site) -> None:
    (site.path / ".git").rename(site.outside / "real.git")
    (site.path / ".git").symlink_to(site.outside / "real.git")


@plant(UNUSABLE)
def git_directory_that_is_a_file(site: Site) -> None:
    (site.path / ".git").rename(site.outside / "real.git")
    site.write(".git", f"gitdir: {site.outside}/real.git\n")


@plant(UNUSABLE)
def objects_that_are_a_link(site: Site) -> None:
    (site.path / ".git/objects").rename(site.outside / "objects")
    (site.path / ".git/objects").symlink_to(site.outside / "objects")


@plant(UNUSABLE)
def references_that_are_a_link(site: Site) -> None:
    (site.path / ".git/refs").rename(site.outside / "refs")
    (site.path / ".git/refs").symlink_to(site.outside / "refs")


@plant(UNUSABLE)
def head_that_is_a_link(site: Site) -> None:
    (site.path / ".git/HEAD").unlink()
    (site.path / ".git/HEAD").symlink_to("refs/heads/main")


@plant(UNUSABLE)
def head_that_is_a_blob(site: Site) -> None:
    site.write(".git/HEAD", site.git("rev-parse", "HEAD:README.md"))


@plant(UNUSABLE)
def reftable(site: Site) -> None:
    site.write(".git/HEAD", "ref: refs/heads/.invalid\n")
    site.write(".git/reftable/tables.list", "0x1-0x2-aaaa.ref\n")


@plant(UNUSABLE)
def common_directory(site: Site) -> None:
    site.write(".git/commondir", f"{site.outside}\n")


unusable_head("head_outside", b"ref: ../../outside/x\n")
unusable_head("head_through_parents", b"ref: refs/heads/../../config\n")
unusable_head("head_with_control_characters", b"ref: refs/heads/\x1b[31m\n")
unusable_head("head_with_a_second_line", b"ref: refs/heads/main\nref: refs/heads/x\n")
unusable_head("head_that_is_empty", b"")
unusable_head("head_that_is_huge", b"ref: refs/heads/" + b"a" * 100_000)
unusable_head("head_that_is_an_option", b"--index-output=/tmp/x\n")
unusable_head("head_with_an_unknown_commit", b"1" * 40 + b"\n")
unusable_head("head_of_the_other_hash", b"1" * 64 + b"\n")
EVERY = {**PLANTS, **UNUSABLE}


@pytest.mark.parametrize("name", EVERY)
async def test_nothing_planted_before_acts(site: Site, name: str) -> None:
    site.set_trap()
    EVERY[name](site)
    await _use(site, usable=name in PLANTS)


@pytest.mark.parametrize("name", EVERY)
async def test_nothing_planted_meanwhile_acts(site: Site, name: str) -> None:
    site.set_trap()
    assert "README.md" in (await site.repository.files()).tracked
    EVERY[name](site)
    await _use(site, usable=name in PLANTS, list_files=False)


async def test_nothing_acts_if_everything_is_planted_at_once(site: Site) -> None:
    site.set_trap()
    # These need a git that still works, or are about the same object.
    first = ("submodule_with_its_own_configuration", "promisor_of_a_missing_content")
    then = ("replaced_objects", "grafts_and_shallow", "packed_references_that_make_no_sense")
    alone = ("damaged_content", "object_caches_that_lie")
    for name in (*first, *then, *sorted(PLANTS.keys() - {*first, *then, *alone})):
        PLANTS[name](site)
    await _use(site, usable=True)


async def _use(site: Site, *, usable: bool, list_files: bool = True) -> None:
    site.marker.unlink(missing_ok=True)  # The owner's git, which planted, may have sprung it.
    before = site.snapshot()
    if usable:
        await _work(site, list_files=list_files)
    else:
        with pytest.raises(FileRefused) as refused:
            await _work(site, list_files=list_files)
        assert len(refused.value.message) > 20
        assert refused.value.message.isprintable()
    site.require_harmless(before)


async def _work(site: Site, *, list_files: bool) -> None:
    if list_files:
        found = await site.repository.files()
        assert {"README.md", "src/a.py", "src/b.py", ".gitignore"} <= found.tracked
        assert not any(each.startswith((".git/", "sub/")) for each in found.names)
    commit = await site.repository.record(CHANGES, ref=REF, message="Fix it")
    assert (site.path / ".git" / REF).read_text() == f"{commit}\n"
    content = site.content(commit)
    assert content.items() >= RECORDED.items()
    assert content.keys() >= {".gitignore", "src/a.py"}
    assert "src/b.py" not in content


SPRINGS = {
    "include_of_a_tracked_file": ("status",),
    "include_of_an_absolute_path": ("status",),
    "include_from_home": ("status",),
    "include_if": ("status",),
    "worktree_configuration": ("status",),
    "filters_and_drivers": ("add", "-A"),
    "attributes_in_info": ("add", "-A"),
    "attributes_file": ("add", "-A"),
    "hooks": ("commit", "--allow-empty", "-m", "x"),
    "hooks_elsewhere": ("commit", "--allow-empty", "-m", "x"),
    "fsmonitor_program": ("status",),
    "signing": ("commit", "--allow-empty", "-m", "x"),
    "interactive_programs": ("commit", "--allow-empty"),
    "submodule_with_its_own_configuration": ("status",),
    "promisor_of_a_missing_content": ("cat-file", "-p", "HEAD:src/a.py"),
    "promisor_of_a_missing_tree": ("ls-tree", "-r", "HEAD"),
    "promisor_of_the_missing_head": ("log",),
}


@pytest.mark.parametrize("name", SPRINGS)
def test_what_is_planted_is_alive(site: Site, name: str) -> None:
    """The owner's own git runs it: the tests above would notice."""
    site.set_trap()
    EVERY[name](site)
    site.write("README.md", "changed\n")
    site.git(*SPRINGS[name], check=False)
    assert site.marker.exists()


async def test_a_program_that_ran_inside_would_be_noticed(site: Site) -> None:
    site.set_trap()
    scratch = site.outside / "write"
    scratch.mkdir()
    request = SandboxRequest(
        argv=("/bin/sh", site.trap),
        env={"GIT_DIR": str(scratch)},
        read=(str(site.path / ".git/objects"),),
        write=(str(scratch),),
    )
    with pytest.raises(AssertionError, match="inside the sandbox"):
        await site.sandbox.run(request)


async def test_git_gets_nothing_of_the_environment(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    site.set_trap()
    for name in ("GIT_SSH_COMMAND", "GIT_EXTERNAL_DIFF", "GIT_ASKPASS", "GIT_EXEC_PATH", "PAGER"):
        monkeypatch.setenv(name, site.trap)
    monkeypatch.setenv("GIT_DIR", str(site.outside))
    monkeypatch.setenv("GIT_CONFIG_PARAMETERS", f"'core.fsmonitor={site.trap}'")
    before = site.snapshot()
    await site.repository.record(CHANGES, ref=REF, message="Fix it")
    site.require_harmless(before)


# Ordinary use.


async def test_the_files_are_listed(site: Site) -> None:
    names = ["new.txt", "ümläut", "line\nbreak", "a b", ":(top)x", "deep/" * 20 + "end", "-n"]
    for name in (*names, "build/out", "src/x.o"):
        site.write(name, "x")
    site.write("private/notes", "x")
    site.write(".git/info/exclude", "private/\n")
    (site.path / "link").symlink_to("/etc/passwd")
    (site.path / "directory").symlink_to(site.outside)
    (site.path / "src/b.py").unlink()
    start(site.path / "nested")
    bad = os.fsdecode(b"not-\xff-text")
    site.write(bad, "x")
    found = await site.repository.files()
    assert found.tracked == {".gitignore", "README.md", "src/a.py"}
    assert found.untracked == {*names, "link", "directory", bad}
    assert found.names == found.tracked | found.untracked


async def test_what_lies_behind_a_link_is_not_in_the_working_directory(site: Site) -> None:
    (site.path / "src").rename(site.path / "elsewhere")
    (site.path / "src").symlink_to("elsewhere")
    (site.path / "README.md").unlink()
    (site.path / "README.md").mkdir()
    found = await site.repository.files()
    assert found.tracked == {".gitignore"}
    assert found.untracked == {"elsewhere/a.py", "elsewhere/b.py", "src"}


@pytest.mark.parametrize("name", [".gitignore", "closed"])
async def test_what_git_may_not_read_is_not_passed_over(site: Site, name: str) -> None:
    site.write("build/secret", "x")
    (site.path / "closed").mkdir()
    (site.path / name).chmod(0)
    with pytest.raises(FileRefused, match="Permission denied"):
        await site.repository.files()
    (site.path / name).chmod(0o700)


async def test_a_thousand_files_are_listed_by_as_few_programs_as_one(site: Site) -> None:
    site.write("many/0/0", "x")
    await site.repository.files()
    for_one = len(site.sandbox.requests)
    for index in range(1000):
        site.write(f"many/{index % 20}/{index}", "x")
    found = await site.repository.files()
    assert len(found.untracked) == 1000
    assert len(site.sandbox.requests) == 2 * for_one


async def test_a_commit_has_the_bytes_modes_and_names_that_were_given(site: Site) -> None:
    names = ["ümläut", "line\nbreak", "a\tb", ":(top)x", "deep/" * 20 + "end", "-n", '"q"']
    changes: dict[str, Blob | None] = {name: Blob(name.encode()) for name in names}
    changes |= {"run.sh": Blob(b"#!", executable=True), "src/a.py": None, "gone": None}
    changes |= {"src/b.py/now/a/directory": Blob(b"d"), "README.md": Blob(b"", executable=True)}
    commit = await site.repository.record(changes, ref=REF, message="Title\n\nBody: ü\n")
    assert site.content(commit) == {
        ".gitignore": b"build/\n*.o\n",
        "README.md": b"+x",
        "run.sh": b"#!+x",
        "src/b.py/now/a/directory": b"d",
        **{name: name.encode() for name in names},
    }
    assert site.git("log", "-1", "--format=%s|%b|%an|%ce|%P", commit).strip() == (
        f"Title|Body: ü\n|Silas|silas@localhost|{site.git('rev-parse', 'main').strip()}"
    )
    assert site.git("fsck", "--strict", "--no-dangling") == ""
    assert site.git("rev-parse", "silas/t1").strip() == commit
    assert site.git("status", "--porcelain") == ""


async def test_the_git_directory_receives_objects_and_one_reference(site: Site) -> None:
    before = site.snapshot()
    commit = await site.repository.record(CHANGES, ref=REF, message="Fix it")
    site.require_harmless(before)
    added = site.snapshot().keys() - before.keys()
    # Two contents, two trees, one commit, one reference.
    assert len(added) == 6
    assert {f"objects/{commit[:2]}/{commit[2:]}", REF} <= added
    assert site.snapshot()[REF] == (0o100644, f"{commit}\n".encode())


async def test_recording_again_gives_the_same(site: Site, clock: FakeClock) -> None:
    again = Repository(
        site.path, sandbox=site.sandbox, scratch=site.outside / "scratch", clock=clock
    )
    first = await again.record(CHANGES, ref=REF, message="Fix it")
    before = site.snapshot()
    clock.advance(hours=1)
    assert await again.record(CHANGES, ref=REF, message="Fix it") == first
    assert site.snapshot() == before
    (site.path / ".git" / REF).unlink()
    assert await again.record(CHANGES, ref=REF, message="Fix it") != first


async def test_recording_again_after_everything_was_packed(site: Site) -> None:
    first = await site.repository.record(CHANGES, ref=REF, message="Fix it")
    site.git("gc", "-q")
    assert not (site.path / ".git" / REF).exists()
    assert await site.repository.record(CHANGES, ref=REF, message="Fix it") == first
    assert not (site.path / ".git" / REF).exists()


async def test_other_work_under_the_same_name_replaces_what_silas_made(site: Site) -> None:
    first = await site.repository.record(CHANGES, ref=REF, message="Fix it")
    second = await site.repository.record({"x": Blob(b"x")}, ref=REF, message="Other")
    assert first != second
    assert site.git("rev-parse", REF).strip() == second


@pytest.mark.parametrize("checked_out", [False, True])
async def test_a_branch_with_commits_of_the_owner_is_kept(site: Site, checked_out: bool) -> None:
    site.git("branch", "silas/t1")
    if checked_out:
        site.git("checkout", "-q", "silas/t1")
    before = site.snapshot()
    with pytest.raises(FileRefused, match="is checked out" if checked_out else "did not make"):
        await site.repository.record(CHANGES, ref=REF, message="Fix it")
    assert site.snapshot() == before


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("branch", ["silas", "silas/t1/more"])
async def test_a_branch_in_the_way_is_refused(site: Site, branch: str, packed: bool) -> None:
    site.git("branch", branch)
    if packed:
        site.git("pack-refs", "--all")
    before = site.snapshot()
    with pytest.raises(FileRefused):
        await site.repository.record(CHANGES, ref=REF, message="Fix it")
    assert {**before, **site.snapshot()} == site.snapshot()


async def test_ignored_files_are_left_out_unless_they_are_tracked(site: Site) -> None:
    site.write("src/tracked.o", "1")
    site.write(".git/info/exclude", "private/\n")
    site.git("add", "-f", "src/tracked.o")
    site.git("commit", "-q", "-m", "tracked")
    names = ("build/report", "src/x.o", "src/tracked.o", "private/notes", "kept.txt", "new/y.tmp")
    changes: dict[str, Blob | None] = {name: Blob(b"2") for name in names}
    changes["new/.gitignore"] = Blob(b"*.tmp\n")
    commit = await site.repository.record(changes, ref=REF, message="Fix it")
    added = site.content(commit).keys() - {"README.md", "src/a.py", "src/b.py", ".gitignore"}
    assert added == {"src/tracked.o", "kept.txt", "new/.gitignore"}


@pytest.mark.parametrize("options", [(), ("--object-format=sha256",)])
async def test_a_repository_without_a_commit(tmp_path: Path, options: tuple[str, ...]) -> None:
    (tmp_path / "outside").mkdir()
    (tmp_path / "site").mkdir()
    git(tmp_path / "site", "init", "-q", *options)
    site = Site(tmp_path / "site", tmp_path / "outside")
    assert (await site.repository.files()).names == frozenset()
    site.write("a", "1")
    assert (await site.repository.files()).untracked == {"a"}
    commit = await site.repository.record({"a": Blob(b"1")}, ref=REF, message="First")
    assert site.git("log", "--format=%s|%P", "silas/t1") == "First|\n"
    assert site.content(commit) == {"a": b"1"}
    assert site.git("fsck", "--strict", "--no-dangling") == ""


async def test_sha256_packed_and_detached(tmp_path: Path) -> None:
    (tmp_path / "outside").mkdir()
    site = Site(start(tmp_path / "site", "--object-format=sha256"), tmp_path / "outside")
    site.git("gc", "-q")
    site.git("checkout", "-q", "--detach")
    assert len((await site.repository.files()).tracked) == 4
    commit = await site.repository.record(CHANGES, ref=REF, message="Fix it")
    assert len(commit) == 64
    assert site.content(commit).items() >= RECORDED.items()
    assert site.git("fsck", "--strict", "--no-dangling") == ""


async def test_a_packed_branch(site: Site) -> None:
    site.git("checkout", "-q", "-b", "feature/x")
    site.git("gc", "-q")
    assert not (site.path / ".git/refs/heads/feature/x").exists()
    commit = await site.repository.record(CHANGES, ref=REF, message="Fix it")
    assert site.git("rev-parse", f"{commit}^") == site.git("rev-parse", "HEAD")


async def test_everything_can_be_removed(site: Site) -> None:
    names = (await site.repository.files()).tracked
    commit = await site.repository.record(dict.fromkeys(names), ref=REF, message="Clear")
    assert site.content(commit) == {}
    assert site.git("fsck", "--strict", "--no-dangling") == ""


@pytest.mark.parametrize(
    "name", ["../x", "/etc/x", ".git/config", "a/.GIT/hooks/x", "", "a//b", "a/./b", "sub/x"]
)
async def test_paths_that_are_not_the_repositorys_are_refused(site: Site, name: str) -> None:
    site.set_trap()
    EVERY["submodule_with_its_own_configuration"](site)
    with pytest.raises(FileRefused):
        await site.repository.record({name: Blob(b"x")}, ref=REF, message="Fix it")
    assert not (site.path / ".git" / REF).exists()


@pytest.mark.parametrize(
    "ref",
    [
        *("refs/heads/main", "HEAD", "refs/heads/silas/../main", "refs/heads/silas/x.lock"),
        *("refs/heads/silas/", "refs/heads/silas/.x", "refs/heads/silas/a..b"),
        "refs/heads/silas/a\n",
    ],
)
async def test_only_branches_of_silas_are_written(site: Site, ref: str) -> None:
    before = site.snapshot()
    with pytest.raises(FileRefused):
        await site.repository.record(CHANGES, ref=ref, message="Fix it")
    assert site.snapshot() == before


async def test_an_object_that_lies_in_the_place_of_ours_is_refused(site: Site) -> None:
    name = hashlib.sha1(b"blob 8\0# Fixed\n").hexdigest()
    site.write(f".git/objects/{name[:2]}/{name[2:]}", zlib.compress(b"blob 8\0# Other\n"))
    before = site.snapshot()
    with pytest.raises(FileRefused, match="damaged"):
        await site.repository.record(CHANGES, ref=REF, message="Fix it")
    site.require_harmless(before)


async def test_a_sandbox_that_contains_no_files_runs_no_git(site: Site) -> None:
    class Weak(Watched):
        async def run(
            self, request: SandboxRequest, *, on_output: OutputListener | None = None
        ) -> SandboxResult:
            raise CannotContain("This machine does not contain files.")

    weak = Repository(site.path, sandbox=Weak(), scratch=site.outside / "scratch")
    with pytest.raises(FileRefused, match="does not contain") as refused:
        await weak.files()
    assert isinstance(refused.value.__cause__, CannotContain)


async def test_a_machine_without_git(site: Site) -> None:
    class WithoutGit(Watched):
        async def run(
            self, request: SandboxRequest, *, on_output: OutputListener | None = None
        ) -> SandboxResult:
            env = {**request.env, "PATH": "/nonexistent"}
            return await super().run(request.model_copy(update={"env": env}))

    bare = Repository(site.path, sandbox=WithoutGit(), scratch=site.outside / "scratch")
    with pytest.raises(FileRefused, match="Install git"):
        await bare.files()


def test_where_a_repository_is(site: Site) -> None:
    assert Repository.is_at(site.path)
    assert not Repository.is_at(site.path / "src")
    UNUSABLE["git_directory_that_is_a_link"](site)
    assert not Repository.is_at(site.path)
    (site.path / ".git").unlink()
    site.write(".git", "gitdir: x")
    assert not Repository.is_at(site.path)


def test_names_that_are_present(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a/file").touch()
    (tmp_path / "link").symlink_to("a")
    os.mkfifo(tmp_path / "pipe")
    with Tree.open(tmp_path) as tree:
        names = ["a", "a/file", "a/file/x", "link", "link/file", "pipe", "gone", "gone/x"]
        assert tree.present(names) == {"a/file", "link"}


LINES = [f"{number}\n" for number in range(20)]


def text(**changed: str) -> bytes:
    return "".join(changed.get(f"line{i}", line) for i, line in enumerate(LINES)).encode()


@pytest.mark.parametrize(
    ("ours", "theirs", "merged"),
    [
        (text(line1="x\n"), text(line18="y\n"), text(line1="x\n", line18="y\n")),
        (text(line1="x\r\n"), text(line18="ü\n"), text(line1="x\r\n", line18="ü\n")),
        (text(line1="x\n"), text(line1="x\n"), text(line1="x\n")),
        (text(), b"", b""),
        (text(line1="x\n"), text(line1="y\n"), None),
        (text(line1="x\0\n"), text(line18="y\n"), None),
        (text(line1="x" * 9_000_000), text(line18="y\n"), None),
    ],
)
async def test_texts_are_merged(
    tmp_path: Path, ours: bytes, theirs: bytes, merged: bytes | None
) -> None:
    sandbox = Watched()
    found = await merge_texts(sandbox, tmp_path / "s", base=text(), ours=ours, theirs=theirs)
    assert found == merged
    assert not (tmp_path / "s").exists() or not [*(tmp_path / "s").iterdir()]


class TestWhoseCommitItIs:
    def test_the_owners_own_configuration_names_the_author(self, tmp_path: Path) -> None:
        assert owner_identity(tmp_path) is None
        further = tmp_path / ".config" / "git" / "config"
        further.parent.mkdir(parents=True)
        further.write_text("[User]\n\tname = Far Away\n\temail = far@example.org\n")
        assert owner_identity(tmp_path) == "Far Away <far@example.org>"
        (tmp_path / ".gitconfig").write_text(
            '[core]\n\teditor = vi\n[user]\n  name = "Ada Lovelace" # me\n[alias]\n  name = no\n'
        )
        assert owner_identity(tmp_path) == "Ada Lovelace <far@example.org>"

    @pytest.mark.parametrize(
        "text",
        [
            "[user]\n\tname = Only A Name\n",
            "[user]\n\temail = only@example.org\n",
            '[user "work"]\n\tname = Other\n\temail = o@example.org\n',
            "[include]\n\tpath = /etc/passwd\n",
            "\x00\xff[user",
        ],
    )
    def test_what_names_nobody_gives_nobody(self, tmp_path: Path, text: str) -> None:
        (tmp_path / ".gitconfig").write_text(text)
        assert owner_identity(tmp_path) is None

    def test_a_name_cannot_break_out_of_its_line(self, tmp_path: Path) -> None:
        (tmp_path / ".gitconfig").write_text(
            "[user]\n\tname = A <b>\x0bcommitter X\n\temail = a@x> 0 +0000\n"
        )
        found = owner_identity(tmp_path)
        assert found is not None
        assert found.count("<") == found.count(">") == 1
        assert found.isprintable()

    async def test_the_owner_is_the_author_and_silas_the_committer(self, site: Site) -> None:
        repository = Repository(
            site.path,
            sandbox=BubblewrapBackend(),
            scratch=site.outside / "scratch",
            clock=FakeClock(),
            author="Ada Lovelace <ada@example.org>",
        )
        commit = await repository.record(CHANGES, ref=REF, message="Fix it")
        people = git(site.path, "log", "-1", "--format=%an <%ae>%n%cn <%ce>", commit)
        assert people == "Ada Lovelace <ada@example.org>\nSilas <silas@localhost>\n"
        assert await repository.record(CHANGES, ref=REF, message="Fix it") == commit
