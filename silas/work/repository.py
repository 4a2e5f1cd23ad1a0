"""The owner's repository. Every git runs in the sandbox, on a GIT_DIR of Silas' own.

1. git gets a directory that Silas makes for each use: with Silas' configuration, an index of its
   own, and the owner's `.git/objects` as the place of further objects. It never takes the owner's
   `.git` for a repository, so nothing in there can name a program: no configuration (includes,
   worktree configuration, filters, drivers, signing), no hook, no attribute, no replaced object.
2. It runs in a sandbox without network that sees the objects, read-only; to list files it sees the
   working directory too, read-only.
3. What git would look up in `.git` is read here, by descriptor, as data: HEAD and the reference
   that it names, which kind of hash is used, and `info/exclude`, which holds patterns alone.
4. Contents are recorded byte for byte. The commit and the contents are made here; the trees that
   git made are inflated and hashed before they are copied.
5. The owner's `.git` receives new objects and one reference. Nothing else in it changes.
6. The owner is the author of a commit, as their own git configuration names them, and Silas the
   committer. That file is read as data, and nothing that a repository says is asked for it.
"""

import asyncio
import errno
import os
import re
import zlib
from collections.abc import Iterable, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from silas.kernel import Clock, SystemClock
from silas.sandbox.models import MEBIBYTE, SandboxRunner
from silas.storage.trees import is_text
from silas.tools.git import OBJECT_ID, ContainedGit, contained_git, hash_object
from silas.tools.tree import FileRefused, Tree, split_path

_NOT_A_PLAIN_FILE = {errno.ENOENT, errno.ENOTDIR, errno.ELOOP}
_MAX_REFERENCE, _MAX_PACKED, _MAX_PATTERNS = 4096, 64 * MEBIBYTE, MEBIBYTE
_MAX_OBJECT, _MAX_MERGED = 64 * MEBIBYTE, 8 * MEBIBYTE
_MAX_SYMBOLIC = 5
_REFERENCE = re.compile(r"refs(?:/(?!\.)[^\x00-\x20\x7f~^:?*\[\\/]+(?<!\.lock)(?<!\.))+")
_OURS = re.compile(r"refs/heads/silas/[A-Za-z0-9_][A-Za-z0-9._-]{0,150}")
_SHA256 = re.compile(rb"(?im)^\s*objectformat\s*=\s*\"?sha256")
_CONVERT = "Run `git refs migrate --ref-format=files` there."
_SILAS = "Silas <silas@localhost>"
_SECTION = re.compile(r"\s*\[([^\]]*)\]")
_SETTING = re.compile(r"""\s*(name|email)\s*=\s*("[^"]*"|[^#;]*)""", re.IGNORECASE)
_NOT_IN_NAMES = re.compile(r"[\x00-\x1f\x7f<>\\\"\u2028\u2029]")
_LONGEST_NAME = 200
_MADE_BY_SILAS = re.compile(rb"\ncommitter Silas <silas@localhost> ([0-9]{1,12}) \+0000\n\n")


@dataclass(frozen=True)
class RepositoryFiles:
    """Names of regular files and links in the working directory; ignored ones are left out."""

    tracked: frozenset[str]
    """Those that the commit has that HEAD names."""
    untracked: frozenset[str]

    @property
    def names(self) -> frozenset[str]:
        return self.tracked | self.untracked


@dataclass(frozen=True)
class Blob:
    """The content of a file, as it is to be recorded."""

    content: bytes
    executable: bool = False


@dataclass(frozen=True)
class _State:
    """What the owner's `.git` says, read as data."""

    head: str | None
    branch: str | None
    sha256: bool
    exclude: bytes = b""

    @property
    def nothing(self) -> str:
        """The id that stands for no object."""
        return "0" * (64 if self.sha256 else 40)

    def hash(self, kind: str, content: bytes) -> tuple[str, bytes]:
        """The id of an object, and what git hashes: the content behind its kind and length."""
        return hash_object(kind, content, sha256=self.sha256)


class Repository:
    """One repository of the owner's; what git needs for the moment is made below `scratch`."""

    def __init__(
        self,
        path: Path,
        *,
        sandbox: SandboxRunner,
        scratch: Path,
        clock: Clock | None = None,
        author: str | None = None,
    ) -> None:
        """`author` is who commits are by, as git writes it; None: Silas."""
        self._author = author or _SILAS
        self._path = path
        self._sandbox = sandbox
        self._scratch = scratch
        self._clock = clock or SystemClock()

    @staticmethod
    def is_at(path: Path) -> bool:
        """Whether this directory is the top of a repository whose `.git` is a real directory."""
        return (path / ".git").is_dir() and not (path / ".git").is_symlink()

    async def files(self) -> RepositoryFiles:
        """The files of the working directory; raises `FileRefused` if git cannot list them."""
        state = await asyncio.to_thread(self._read_state)
        listing = ("ls-files", "-z", "-t", "--cached", "--others", "--exclude-standard")
        async with self._git(state) as git:
            output = await git.run(
                _read_tree(state), listing, work_tree=self._path, read=(self._path,)
            )
        tracked: set[str] = set()
        untracked: set[str] = set()
        for entry in filter(None, os.fsdecode(output).split("\0")):
            # A nested repository is one untracked name that ends with a slash.
            if not entry.endswith("/"):
                (untracked if entry.startswith("? ") else tracked).add(entry[2:])
        there = await asyncio.to_thread(self._present, tracked | untracked)
        return RepositoryFiles(frozenset(tracked & there), frozenset(untracked & there - tracked))

    async def record(self, changes: Mapping[str, Blob | None], *, ref: str, message: str) -> str:
        """Commit the changes on top of HEAD, as the branch `ref`, and return the commit's id.

        None removes a path. Paths that are ignored and not tracked are left out. The owner's HEAD,
        index and files stay as they are. Doing it again gives the same commit.
        """
        if not _OURS.fullmatch(ref) or not _REFERENCE.fullmatch(ref) or ".." in ref:
            raise FileRefused(f"{ref[:200]!a} is not a branch below refs/heads/silas/.")
        for name in changes:
            if ".git" in (part.lower() for part in split_path(name)):
                raise FileRefused(f"{name[:200]!a} cannot be recorded: git keeps .git to itself.")
        state = await asyncio.to_thread(self._read_state)
        before = await asyncio.to_thread(self._require_free, ref, state)
        async with self._git(state) as git:
            await asyncio.to_thread(self._copy_patterns, git.work, changes)
            wanted = await _without_ignored(git, state, changes)
            blobs = await asyncio.to_thread(_framed_blobs, state, wanted)
            output = await git.run(
                ("update-index", "-z", "--index-info"),
                ("write-tree", "--missing-ok"),
                stdin=_index_lines(state, wanted, blobs),
            )
            tree = _one_id(output)
            existing = await git.run(("cat-file", "commit", before)) if before else None
            commit = self._commit(state, tree, message, existing=existing)
            trees = await asyncio.to_thread(_new_trees, git.place, state, tree)
        objects = [*blobs.values(), *trees, commit]
        await asyncio.to_thread(self._publish, objects, ref, commit[0])
        return commit[0]

    def _git(self, state: _State) -> AbstractAsyncContextManager[ContainedGit]:
        return contained_git(
            self._sandbox,
            self._scratch,
            sha256=state.sha256,
            exclude=state.exclude,
            objects=self._path / ".git" / "objects",
        )

    def _read_state(self) -> _State:
        with Tree.open(self._path) as tree:
            if _read(tree, ".git/reftable/tables.list", limit=_MAX_PACKED) is not None:
                raise FileRefused(f"{self._path} keeps its references as a reftable. {_CONVERT}")
            if _read(tree, ".git/commondir", limit=_MAX_REFERENCE) is not None:
                raise FileRefused(f"{self._path} belongs to another repository (commondir).")
            head, branch = _resolve(tree, "HEAD")
            configuration = _read(tree, ".git/config", limit=MEBIBYTE) or b""
            sha256 = len(head) == 64 if head else bool(_SHA256.search(configuration))
            exclude = _read(tree, ".git/info/exclude", limit=_MAX_PATTERNS) or b""
            return _State(head, branch, sha256, exclude)

    def _require_free(self, ref: str, state: _State) -> str | None:
        """What the branch is now, if it is there; raises `FileRefused` if another is in its way."""
        if state.branch == ref:
            raise FileRefused(f"{ref} is checked out in {self._path}. Switch to another branch.")
        above = {str(each) for each in PurePosixPath(ref).parents}
        with Tree.open(self._path) as tree:
            for name in _packed(tree):
                if name in above or name.startswith(f"{ref}/"):
                    raise FileRefused(f"The branch {name} is in the way of {ref}. Rename it.")
            if tree.present([".git/refs/heads/silas"]):
                raise FileRefused(f"The branch silas is in the way of {ref}. Rename it.")
            return _resolve(tree, ref)[0]

    def _copy_patterns(self, work: Path, changes: Mapping[str, Blob | None]) -> None:
        """Give git the `.gitignore` files that decide about the changes, as they will be then."""
        places = {str(place) for name in changes for place in PurePosixPath(name).parents}
        with Tree.open(self._path) as source, Tree.open(work) as target:
            for place in places:
                name = ".gitignore" if place == "." else f"{place}/.gitignore"
                if name in changes:
                    changed = changes[name]
                    content = changed.content if changed else None
                else:
                    # git does not follow a link of this name either.
                    content = _read(source, name, limit=_MAX_PATTERNS, links_are_absent=True)
                if content is not None:
                    target.write(name, content)

    def _commit(
        self, state: _State, tree: str, message: str, *, existing: bytes | None
    ) -> tuple[str, bytes]:
        now = int(self._clock.now().timestamp())
        made = _commit_text(state, tree, message, now, author=self._author)
        if existing is not None:
            ours = _MADE_BY_SILAS.search(existing)
            if ours is None:
                raise FileRefused("The branch has commits that Silas did not make. Rename it.")
            again = _commit_text(state, tree, message, int(ours[1]), author=self._author)
            made = again if again == existing else made
        return state.hash("commit", made)

    def _publish(self, objects: Iterable[tuple[str, bytes]], ref: str, commit: str) -> None:
        with Tree.open(self._path) as tree:
            for name, framed in objects:
                path = _object_path(".git/objects", name)
                stored = _read(tree, path, limit=_MAX_OBJECT + len(framed))
                if stored is None:
                    tree.add(path, zlib.compress(framed), mode=0o444)
                elif _inflate(stored, limit=len(framed)) != framed:
                    raise FileRefused(f"{path} is damaged. Run `git fsck` in {self._path}.")
            if _resolve(tree, ref)[0] != commit:
                tree.add(f".git/{ref}", f"{commit}\n".encode(), mode=0o644)

    def _present(self, names: set[str]) -> set[str]:
        with Tree.open(self._path) as tree:
            # Whoever copies the files says of a name that is not UTF-8 that it is left out.
            return tree.present(names) | {name for name in names if not is_text(name)}


async def merge_texts(
    sandbox: SandboxRunner, scratch: Path, *, base: bytes, ours: bytes, theirs: bytes
) -> bytes | None:
    """Both changes of a text in one; None if they clash, or if it is not a text that git merges."""
    texts = {"ours": ours, "base": base, "theirs": theirs}
    if sum(map(len, texts.values())) > _MAX_MERGED:
        return None
    async with contained_git(sandbox, scratch) as git:
        for name, content in texts.items():
            await asyncio.to_thread((git.work / name).write_bytes, content)
        try:
            return await git.run(("merge-file", "--stdout", "--quiet", *texts))
        except FileRefused:
            return None


def _read_tree(state: _State) -> tuple[str, ...]:
    return ("read-tree", state.head or "--empty")


async def _without_ignored(
    git: ContainedGit, state: _State, changes: Mapping[str, Blob | None]
) -> dict[str, Blob | None]:
    """The changes that git would record; the index is HEAD's afterwards."""
    # Behind `./`, a name that begins with a colon has no other meaning.
    names = b"".join(b"./" + os.fsencode(name) + b"\0" for name in changes)
    # `check-ignore` ends with 1 if nothing is ignored, and the others never do.
    output = await git.run(
        *((("cat-file", "-t", state.head),) if state.head else ()),
        _read_tree(state),
        ("check-ignore", "-z", "--stdin"),
        stdin=names,
        ok=(0, 1),
    )
    kind, _, ignored = output.partition(b"\n") if state.head else (b"commit", b"", output)
    if kind != b"commit":
        raise FileRefused(f"HEAD is {state.head}, which is not a commit.")
    left_out = {name.removeprefix("./") for name in os.fsdecode(ignored).split("\0")}
    return {name: blob for name, blob in changes.items() if name not in left_out}


def _framed_blobs(
    state: _State, changes: Mapping[str, Blob | None]
) -> dict[str, tuple[str, bytes]]:
    return {name: state.hash("blob", blob.content) for name, blob in changes.items() if blob}


def _index_lines(
    state: _State, changes: Mapping[str, Blob | None], blobs: Mapping[str, tuple[str, bytes]]
) -> bytes:
    """The changes as `update-index --index-info` reads them: what is removed comes first."""
    lines = []
    for name, blob in sorted(changes.items(), key=lambda each: each[1] is not None):
        mode = "0" if blob is None else "100755" if blob.executable else "100644"
        object_id = blobs[name][0] if blob else state.nothing
        lines.append(f"{mode} {object_id}\t".encode() + os.fsencode(name) + b"\0")
    return b"".join(lines)


def _commit_text(state: _State, tree: str, message: str, seconds: int, *, author: str) -> bytes:
    parent = f"parent {state.head}\n" if state.head else ""
    when = f"{seconds} +0000\n"
    words = message.replace("\0", "").rstrip("\n")
    people = f"author {author} {when}committer {_SILAS} {when}"
    return f"tree {tree}\n{parent}{people}\n{words}\n".encode(errors="replace")


def owner_identity(home: Path, config_home: Path | None = None) -> str | None:
    """`Name <address>` from the owner's own git configuration; None if it names nobody (rule 6).

    As git does, the file in the home directory goes before the one below `config_home`. Files that
    it includes are not followed.
    """
    found: dict[str, str] = {}
    for path in ((config_home or home / ".config") / "git" / "config", home / ".gitconfig"):
        found |= _user_section(path)
    name, address = found.get("name", ""), found.get("email", "")
    return f"{name} <{address}>" if name and address else None


def _user_section(path: Path) -> dict[str, str]:
    """What a configuration file says of its user, without whatever could break a commit."""
    try:
        with path.open("rb") as file:
            text = file.read(MEBIBYTE).decode(errors="replace")
    except OSError:
        return {}
    found, section = {}, ""
    for line in text.splitlines():
        if heading := _SECTION.match(line):
            section = heading[1].strip().lower()
        elif section == "user" and (setting := _SETTING.match(line)):
            value = setting[2].strip().removeprefix('"').removesuffix('"')
            found[setting[1].lower()] = _NOT_IN_NAMES.sub("", value).strip()[:_LONGEST_NAME]
    return found


def _new_trees(place: Path, state: _State, root: str) -> list[tuple[str, bytes]]:
    """The trees that git made, the innermost first; each is what its id says."""
    found: dict[str, bytes] = {}
    waiting = [root]
    with Tree.open(place / "git/objects") as objects:
        while waiting:
            name = waiting.pop()
            stored = _read(objects, _object_path("", name), limit=_MAX_OBJECT)
            if stored is None or name in found:
                continue  # The owner's repository has it already.
            framed = _inflate(stored, limit=_MAX_OBJECT)
            content = framed.partition(b"\0")[2]
            if state.hash("tree", content) != (name, framed):
                raise FileRefused(f"git made an object that is not what it is called: {name}.")
            found[name] = framed
            waiting += _trees_in(content, len(root) // 2)
    return [*reversed(found.items())]


def _trees_in(content: bytes, id_bytes: int) -> list[str]:
    found, start = [], 0
    while start < len(content):
        end = content.find(b"\0", start) + 1
        if content.startswith(b"40000 ", start):
            found.append(content[end : end + id_bytes].hex())
        start = end + id_bytes
    return found


def _inflate(stored: bytes, *, limit: int) -> bytes:
    try:
        return zlib.decompressobj().decompress(stored, limit + 1)
    except zlib.error:
        return b""


def _object_path(above: str, name: str) -> str:
    return f"{above}/{name[:2]}/{name[2:]}".removeprefix("/")


def _one_id(output: bytes) -> str:
    found = output.decode(errors="replace").strip()
    if not OBJECT_ID.fullmatch(found):
        raise FileRefused("git did not say which tree it made.")
    return found


def _resolve(tree: Tree, name: str) -> tuple[str | None, str | None]:
    """The commit that a reference names, None if there is none yet, and the last name on the way.

    The name is None where HEAD holds the commit itself.
    """
    reached = None
    for _ in range(_MAX_SYMBOLIC):
        content = _read(tree, f".git/{name}", limit=_MAX_REFERENCE)
        if content is None:
            if reached is None and name == "HEAD":
                raise FileRefused(f"{tree.path} has no .git/HEAD: it is not a repository.")
            return _packed(tree).get(name), name
        text = content.decode("utf-8", errors="replace").rstrip()
        if OBJECT_ID.fullmatch(text):
            return text, reached
        name = reached = text.removeprefix("ref:").strip()
        if not text.startswith("ref:") or not _REFERENCE.fullmatch(name) or ".." in name:
            break
    raise FileRefused(f"A reference of {tree.path} makes no sense: {name[:100]!a}.")


def _packed(tree: Tree) -> dict[str, str]:
    found = {}
    for line in (_read(tree, ".git/packed-refs", limit=_MAX_PACKED) or b"").splitlines():
        value, _, name = line.decode("utf-8", errors="replace").partition(" ")
        if OBJECT_ID.fullmatch(value):
            found[name] = value
    return found


def _read(tree: Tree, name: str, *, limit: int, links_are_absent: bool = False) -> bytes | None:
    """The content of a file, None if there is none; anything else of that name is refused."""
    try:
        return tree.read(name, limit=limit)
    except FileRefused as error:
        absent = _NOT_A_PLAIN_FILE if links_are_absent else {errno.ENOENT}
        if isinstance(error.__cause__, OSError) and error.__cause__.errno in absent:
            return None
        raise
