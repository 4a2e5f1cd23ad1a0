"""A skill is fetched from a git repository: asked for first, fetched contained, then imported.

1. A repository is named by a plain address, `https://HOST/PATH`. Whatever else git would understand
   there (other protocols, options, credentials, queries) is refused with a sentence. A service that
   is not on the public network is named with its port and its address, and may speak `http`.
2. Fetching is an action of its own. Its card names host, repository, folder and commit; a yes is to
   exactly that, gets a token for it, and leads to one fetch.
3. git runs in the sandbox (`silas.tools.git`) and reaches this host alone. Redirects are not
   followed: what is fetched is what the card names. No credential is sent.
4. Nothing is checked out, so no hook, filter, attribute, link or submodule of the repository takes
   effect. Commit, folders and files are taken out by their ids, and each is compared with its id:
   the commit that is shown is the one whose files these are.
5. Links, submodules, files kept elsewhere (LFS), and what is too large stay behind, and the card of
   the skill says so. Time, size and number are limited.
6. What then happens is the ordinary import: report, findings, card, yes. The commit stands on it.
"""

import asyncio
import re
import tempfile
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Literal, NamedTuple

from silas.approval import ApprovalScope
from silas.egress import ListedHost
from silas.gates.risk import ActionKind, Reversibility, risk_of
from silas.kernel import Clock, IdFactory, TaintLevel
from silas.kernel.models import Data
from silas.review.decisions import QuestionKind
from silas.review.questions import (
    QUESTION,
    YES,
    Question,
    QuestionChoice,
    QuestionContent,
    ShownPayload,
)
from silas.sandbox.models import MEBIBYTE, SandboxLimits, SandboxRunner
from silas.skills.card import DECLINE
from silas.skills.format import lenient_front_matter
from silas.skills.importing import skill_name
from silas.skills.installing import SkillRefused
from silas.skills.store import SkillOrigin
from silas.skills.tree import (
    MAX_DEPTH,
    MAX_FILE_BYTES,
    MAX_FILES,
    MAX_TREE_BYTES,
    path_problem,
    write_tree,
)
from silas.storage.files import make_private_directory
from silas.storage.trees import shown
from silas.tools.git import OBJECT_ID, ContainedGit, GitRemote, contained_git, hash_object
from silas.tools.tree import FileRefused

MAX_FETCHED_BYTES = 256 * MEBIBYTE
_MAX_ENTRIES = 20_000
_LIFETIME = timedelta(days=7)
_FETCH = SandboxLimits(
    wall_seconds=180,
    cpu_seconds=60,
    memory_bytes=1024 * MEBIBYTE,
    file_bytes=MAX_FETCHED_BYTES,
    disk_bytes=MAX_FETCHED_BYTES,
    output_bytes=64 * 1024,
)
_READ = SandboxLimits(
    wall_seconds=60,
    memory_bytes=1024 * MEBIBYTE,
    output_bytes=MAX_TREE_BYTES + 8 * MEBIBYTE,
    flood_bytes=MAX_TREE_BYTES + 16 * MEBIBYTE,
)
_ADDRESS = re.compile(r"(?P<scheme>https?)://(?P<place>[^/?#\\\s]+)(?P<path>/[^\s]*)?")
_STEP = re.compile(r"[A-Za-z0-9_~][A-Za-z0-9._~+-]{0,199}")
_REMOTE = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*::?//?|[A-Za-z][A-Za-z0-9+.-]*::|[^/\s:]+@[^/\s:]+:")
_POINTER = b"version https://git-lfs.github.com/spec/"
_HTTPS = (
    "Silas fetches over https alone: write https://HOST/PATH, or clone the repository yourself and "
    "name its folder."
)
_PLAIN = (
    "The address of a repository is https://HOST/PATH, without options, spaces, `%`, `?` and `#`."
)
_NO_CREDENTIAL = (
    "Leave the name and the password out of the address: Silas sends no credential. A private "
    "repository is cloned by yourself; then name its folder."
)
_NOT_PUBLIC = (
    "Only a service in your own network or on this machine is asked over http, and only with its "
    "port and its address: add --address, such as --address 192.168.1.20."
)
_WHOLE_ID = "Name the commit by its whole id: 40 digits (0-9, a-f), or 64 in newer repositories."
_SENT_ON = (
    "The host sends on to another address, which is not followed. Name the address that it sends "
    "to; some hosts want `.git` at the end."
)
_NOT_REACHED = (
    "The host was not reached: its address is not on the public network. If it is a machine of "
    "yours, name its port and its address: --address."
)
_WHYS = {
    r"mismatched algorithms": (
        "The repository uses longer ids. Name the commit that you want: --commit with 64 digits."
    ),
    r"not our ref|unadvertised object|find remote ref": (
        "The repository does not give out this commit. Look whether it is still there."
    ),
    r"returned error: 30\d|redirect": _SENT_ON,
    r"40[37] from proxy|response 40[37]": _NOT_REACHED,
    r"returned error: 40[134]|not found|could not read|Authentication failed": (
        "There is no such repository, or not for everybody: Silas sends no credential."
    ),
    r"50\d from proxy|response 50\d|returned error: 50\d|Failed to connect|resolve host": (
        "The host does not answer. Look whether the address is right, and try again."
    ),
    r"certificate|SSL|TLS|self.signed": (
        "The host could not prove who it is: its certificate is not one that this machine trusts."
    ),
    r"fsck|index-pack|bad object|corrupt": (
        "The repository holds something that git calls dangerous or broken. Nothing was taken."
    ),
    r"took too much": "The repository is too large: clone it yourself, and name the folder.",
}
"""What git says when it does not work, and what to tell the owner."""


class GitSource(Data):
    """What is fetched: exactly what the owner is asked about (rule 2)."""

    url: str
    host: str
    """As a list of hosts names it."""
    commit: str | None = None
    """None: what the default branch holds when it is fetched."""
    path: str = ""
    address: str | None = None

    @property
    def remote(self) -> GitRemote:
        """What git may reach for it."""
        protocol: Literal["https", "http"] = "https" if self.url.startswith("https:") else "http"
        return GitRemote(protocol, self.host)


def is_remote(source: str) -> bool:
    """Whether somebody means an address, and no folder of this machine."""
    return _REMOTE.match(source) is not None


def parse_source(
    url: str, *, commit: str | None = None, path: str = "", address: str | None = None
) -> GitSource:
    """What an address names; raises `SkillRefused` with what to write instead (rule 1)."""
    text = url.strip()
    found = _ADDRESS.fullmatch(text)
    if found is None:
        raise SkillRefused(_PLAIN if text.startswith(("https://", "http://")) else _HTTPS)
    place = found["place"]
    if "@" in place:
        raise SkillRefused(_NO_CREDENTIAL)
    steps = (found["path"] or "").strip("/").split("/")
    if not all(_STEP.fullmatch(each) for each in steps):
        raise SkillRefused(_PLAIN)
    if found["scheme"] == "http" and address is None:
        raise SkillRefused(_NOT_PUBLIC)
    host = f"{place.lower()}@{address}" if address else place.lower()
    try:
        ListedHost.parse(host)
    except ValueError as error:
        raise SkillRefused(f"The host {shown(host, most=100)} {error}.") from error
    if commit is not None and not OBJECT_ID.fullmatch(commit):
        raise SkillRefused(_WHOLE_ID)
    return GitSource(
        url=f"{found['scheme']}://{place.lower()}/{'/'.join(steps)}",
        host=host,
        commit=commit,
        path=_folder(path),
        address=address,
    )


def _folder(path: str) -> str:
    parts = [each for each in path.strip().strip("/").split("/") if each]
    if any(path_problem(each) or each.lower() in (".", "..", ".git") for each in parts):
        raise SkillRefused("Name the folder as it is called in the repository, without `..`.")
    return "/".join(parts)


def fetch_question(
    source: GitSource, *, hint: str | None, clock: Clock, ids: IdFactory, owner_id: str
) -> Question:
    """The question whether to fetch it (rule 2)."""
    now, name = clock.now(), ids.new(QUESTION)
    host = ListedHost.parse(source.host)
    what = f"the folder {source.path} of {source.url}" if source.path else source.url
    which = (
        f"the commit {source.commit}"
        if source.commit
        else "what its default branch holds at that moment; the next card names the commit"
    )
    summary = [
        f"It reaches {host}, and nothing else. No credential is sent.",
        f"It fetches {what}: {which}.",
        f"git does it in the sandbox, and takes at most {MAX_FETCHED_BYTES // MEBIBYTE} MB.",
        "Nothing of it is run or installed: you then get a card with all of it.",
    ]
    return Question(
        question_id=name,
        scope_id=owner_id,
        trace_id=f"trace_{name}",
        about=f"skill_source:{name}",
        content=QuestionContent(
            kind=QuestionKind.SKILL_SOURCE,
            intent=f"Fetch a skill from {host.name}?",
            rationale="You asked for it.",
            # The host learns that somebody here wants it; nothing is changed anywhere.
            risk=risk_of(
                ApprovalScope.SINGLE_STEP,
                ActionKind.SEND,
                reversibility=Reversibility.REVERSIBLE,
                taint=TaintLevel.OWNER,
                inside_envelope=False,
            ),
            taint=TaintLevel.OWNER,
            actions=[
                QuestionChoice(value=YES, label="Fetch it"),
                QuestionChoice(value=DECLINE, label="Do not fetch it"),
            ],
            body={
                "summary": summary,
                "fetch": {"fetch_id": name, "hint": hint, **source.model_dump(mode="json")},
            },
        ),
        created_at=now,
        expires_at=now + _LIFETIME,
    )


def fetch_payload(question: Question) -> ShownPayload:
    """What a yes to this question approves."""
    fetch = question.content.body["fetch"]
    return ShownPayload(str(fetch["fetch_id"]), fetch)


def fetch_of(question: Question) -> tuple[GitSource, str | None]:
    """What a question asks for, and whose format it is said to be."""
    fetch = {**question.content.body["fetch"]}
    fetch.pop("fetch_id")
    hint = fetch.pop("hint")
    return GitSource.model_validate(fetch), hint


class FetchedSkill(NamedTuple):
    """A skill out of a repository, in a folder of Silas' own."""

    directory: Path
    origin: SkillOrigin
    left_out: tuple[str, ...]
    """What stayed behind, each with the reason."""


@asynccontextmanager
async def fetched(
    sandbox: SandboxRunner, source: GitSource, scratch: Path
) -> AsyncIterator[FetchedSkill]:
    """Fetch what the owner approved (rules 3 to 5); raises `SkillRefused` if it cannot be had."""
    await asyncio.to_thread(make_private_directory, scratch)
    with tempfile.TemporaryDirectory(prefix="fetched-", dir=scratch) as place:
        sha256 = source.commit is not None and len(source.commit) == 64
        try:
            async with contained_git(sandbox, Path(place) / "git", sha256=sha256) as git:
                commit = await _fetch(git, source)
                snapshot = _Snapshot(git, sha256=sha256)
                root = await snapshot.root(commit)
                folder = await snapshot.skill_folder(root, source)
                files, programs = await snapshot.files(folder)
        except FileRefused as error:
            raise SkillRefused(_why(error.message)) from error
        directory = Path(place) / "skill" / _name(files, source)
        await asyncio.to_thread(make_private_directory, directory.parent)
        await asyncio.to_thread(write_tree, directory, files, executable=programs)
        origin = SkillOrigin(
            url=source.url, commit=commit, path=folder.path, address=source.address
        )
        yield FetchedSkill(directory, origin, tuple(snapshot.left_out))


def _name(files: Mapping[str, bytes], source: GitSource) -> str:
    """What the skill calls itself; else, how its folder or its repository is called."""
    text = next(each for path, each in files.items() if path.lower() == "skill.md")
    front, _ = lenient_front_matter(text.decode("utf-8", "replace"))
    last = (source.path or source.url).rpartition("/")[2].removesuffix(".git")
    return skill_name(str(front.get("name") or last))


async def _fetch(git: ContainedGit, source: GitSource) -> str:
    """The id of the commit that was fetched."""
    options = ("--quiet", "--depth=1", "--no-tags", "--no-recurse-submodules")
    wanted = ("--end-of-options", source.url, source.commit or "HEAD")
    await git.run(("fetch", *options, *wanted), limits=_FETCH, remote=source.remote)
    told = await git.run(("rev-parse", "--verify", "--end-of-options", "FETCH_HEAD^{commit}"))
    commit = told.decode(errors="replace").strip()
    if not OBJECT_ID.fullmatch(commit) or source.commit not in (None, commit):
        raise SkillRefused("What the host gave is not the commit that you named.")
    return commit


def _why(message: str) -> str:
    """What git said, in words for the owner."""
    for pattern, sentence in _WHYS.items():
        if re.search(pattern, message, re.IGNORECASE):
            return sentence
    return f"It could not be fetched: {message}"


class _TreeEntry(NamedTuple):
    mode: str
    name: str
    object_id: str


class _Folder(NamedTuple):
    """A folder of the commit, with everything below it by paths that begin there."""

    path: str
    entries: Mapping[str, _TreeEntry]


@dataclass
class _Snapshot:
    """The objects of one commit, each compared with its id (rule 4)."""

    git: ContainedGit
    sha256: bool
    left_out: list[str] = field(default_factory=list)

    async def root(self, commit: str) -> str:
        """The id of the commit's tree."""
        content = (await self._objects([commit], "commit"))[commit]
        found = re.match(rb"tree ([0-9a-f]+)\n", content)
        if found is None or not OBJECT_ID.fullmatch(found[1].decode()):
            raise SkillRefused("The commit names no files.")
        return found[1].decode()

    async def skill_folder(self, root: str, source: GitSource) -> _Folder:
        """The folder of the skill that is meant; raises `SkillRefused` unless it is one."""
        tree = root
        for part in filter(None, source.path.split("/")):
            entries = _entries((await self._objects([tree], "tree"))[tree], sha256=self.sha256)
            inside = {each.name: each for each in entries if each.mode == "40000"}
            if part not in inside:
                raise SkillRefused(
                    f"The repository holds no folder {shown(source.path, most=200)}."
                )
            tree = inside[part].object_id
        below = await self._below(tree)
        found = sorted(
            path.rpartition("/")[0]
            for path, each in below.items()
            if each.name.lower() == "skill.md" and path.count("/") < 4 and each.mode[:2] == "10"
        )
        if not found:
            raise SkillRefused("The repository holds no SKILL.md there: it is no skill.")
        if "" not in found and len(found) > 1:
            names = ", ".join(shown(each, most=80) for each in found[:10])
            raise SkillRefused(f"It holds several skills: {names}. Name one of them: --path.")
        chosen = "" if "" in found else found[0]
        start = f"{chosen}/" if chosen else ""
        kept = {path[len(start) :]: each for path, each in below.items() if path.startswith(start)}
        return _Folder("/".join(filter(None, (source.path, chosen))), kept)

    async def _below(self, tree: str) -> dict[str, _TreeEntry]:
        """Everything below a tree that is no folder, level by level."""
        found: dict[str, _TreeEntry] = {}
        level = {"": tree}
        for _ in range(MAX_DEPTH):
            contents = await self._objects(set(level.values()), "tree")
            deeper: dict[str, str] = {}
            for above, object_id in level.items():
                for each in _entries(contents[object_id], sha256=self.sha256):
                    path = f"{above}{each.name}"
                    if each.mode == "40000":
                        deeper[f"{path}/"] = each.object_id
                    else:
                        found[path] = each
                    if len(found) + len(deeper) > _MAX_ENTRIES:
                        raise SkillRefused(
                            "The repository holds too many files. Name the folder of the skill: "
                            "--path."
                        )
            if not deeper:
                return found
            level = deeper
        raise SkillRefused(f"Its folders are more than {MAX_DEPTH} deep.")

    async def files(self, folder: _Folder) -> tuple[dict[str, bytes], list[str]]:
        """The files of the folder, and which of them are programs (rule 5)."""
        plain: dict[str, _TreeEntry] = {}
        for path, each in folder.entries.items():
            why = _KINDS.get(each.mode) or path_problem(path)
            if why is None:
                plain[path] = each
            else:
                self.left_out.append(f"{shown(path, most=100)}: {why}")
        if len(plain) > MAX_FILES:
            raise SkillRefused(
                f"It holds more than {MAX_FILES} files: it is too large for a skill."
            )
        plain = await self._small(plain)
        contents = await self._objects({each.object_id for each in plain.values()}, "blob")
        files = {}
        for path, each in plain.items():
            content = contents[each.object_id]
            if content.startswith(_POINTER) and path.lower() != "skill.md":
                self.left_out.append(f"{path}: its content is kept elsewhere (git LFS)")
            else:
                files[path] = content
        return files, [path for path in files if plain[path].mode == "100755"]

    async def _small(self, files: Mapping[str, _TreeEntry]) -> dict[str, _TreeEntry]:
        """Those that have the size of a file of a skill."""
        ids = sorted({each.object_id for each in files.values()})
        told = await self.git.run(
            ("cat-file", "--batch-check=%(objectname) %(objectsize)"),
            stdin="".join(f"{each}\n" for each in ids).encode(),
        )
        sizes = dict(line.split(" ", 1) for line in told.decode(errors="replace").splitlines())
        kept, total = {}, 0
        for path, each in files.items():
            size = sizes.get(each.object_id, "")
            if not size.isdecimal():
                raise SkillRefused(f"The commit is not whole: {shown(path, most=100)} is missing.")
            if int(size) > MAX_FILE_BYTES and path.lower() != "skill.md":
                self.left_out.append(f"{path}: it is too large for a skill")
                continue
            kept[path], total = each, total + int(size)
        if total > MAX_TREE_BYTES:
            raise SkillRefused("Its files are too large for a skill: leave data out of it.")
        return kept

    async def _objects(self, ids: Iterable[str], kind: str) -> dict[str, bytes]:
        """Objects by their ids; raises `SkillRefused` if one is not what its id says."""
        wanted = sorted(set(ids))
        if not wanted:
            return {}
        told = await self.git.run(
            ("cat-file", "--batch"),
            stdin="".join(f"{each}\n" for each in wanted).encode(),
            limits=_READ,
        )
        found, start = {}, 0
        for object_id in wanted:
            end = told.find(b"\n", start)
            name, _, size = told[start:end].decode(errors="replace").rpartition(" ")
            if name != f"{object_id} {kind}" or not size.isdecimal():
                raise SkillRefused("The commit is not whole, so nothing of it was taken.")
            content = told[end + 1 : end + 1 + int(size)]
            if hash_object(kind, content, sha256=self.sha256)[0] != object_id:
                raise SkillRefused("A file of the commit is not what its id says.")
            found[object_id], start = content, end + 1 + int(size) + 1
        return found


_KINDS = {
    "120000": "it is a link",
    "160000": "it is another repository (a submodule)",
}


def _entries(content: bytes, *, sha256: bool) -> list[_TreeEntry]:
    """What a tree object lists; raises `SkillRefused` for a name that no folder can have."""
    found, start, id_bytes = [], 0, 32 if sha256 else 20
    while start < len(content):
        end = content.find(b"\0", start)
        mode, _, raw = content[start:end].partition(b" ")
        name = raw.decode("utf-8", "surrogateescape")
        if end < 0 or not name or name.lower() in (".", "..", ".git") or "/" in name:
            raise SkillRefused("The commit lists a name that no folder can hold.")
        start = end + 1 + id_bytes
        found.append(
            _TreeEntry(mode.decode(errors="replace"), name, content[end + 1 : start].hex())
        )
    return found
