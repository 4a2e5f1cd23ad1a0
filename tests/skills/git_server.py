"""A git server on loopback: the real `git http-backend` behind a very small HTTP server."""

import asyncio
import os
import subprocess
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

HOST = "git.home.arpa"
_GIT = {
    "PATH": os.environ["PATH"],
    "HOME": "/nonexistent",
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_GLOBAL": "/dev/null",
    **{
        f"GIT_{who}_{what}": "test@example.org"
        for who in ("AUTHOR", "COMMITTER")
        for what in ("NAME", "EMAIL")
    },
}


def git(directory: Path, *words: str, stdin: bytes = b"") -> str:
    """Run git as the author of a repository would."""
    done = subprocess.run(
        ["git", *words], cwd=directory, env=_GIT, input=stdin, capture_output=True, check=True
    )
    return done.stdout.decode().strip()


def files_of(directory: Path, *, below: str = "") -> dict[str, str | bytes]:
    """The files of a folder by their paths, below another folder if one is named."""
    return {
        f"{below}{path.relative_to(directory)}": path.read_bytes()
        for path in sorted(directory.rglob("*"))
        if path.is_file()
    }


def make_repository(
    root: Path,
    name: str = "skills.git",
    *,
    files: Mapping[str, str | bytes],
    links: Mapping[str, str] | None = None,
    executable: Sequence[str] = (),
    submodule: str | None = None,
    sha256: bool = False,
) -> tuple[Path, str]:
    """A bare repository with one commit of these files; returns where it is, and the commit."""
    bare, work = root / name, root / f"{name}.work"
    kind = "sha256" if sha256 else "sha1"
    root.mkdir(exist_ok=True, parents=True)
    git(root, "init", "-q", "--bare", "-b", "main", f"--object-format={kind}", str(bare))
    git(root, "init", "-q", "-b", "main", f"--object-format={kind}", str(work))
    git(work, "remote", "add", "origin", str(bare))
    for path, content in files.items():
        target = work / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(content if isinstance(content, bytes) else content.encode())
        if path in executable:
            target.chmod(0o755)
    for path, target_name in (links or {}).items():
        (work / path).parent.mkdir(parents=True, exist_ok=True)
        (work / path).symlink_to(target_name)
    git(work, "add", "-A")
    if submodule is not None:
        git(work, "update-index", "--add", "--cacheinfo", f"160000,{'1' * 40},{submodule}")
    return bare, commit(work)


def commit(work: Path, message: str = "One more") -> str:
    """Commit what is staged, and publish it."""
    git(work, "commit", "-q", "-m", message)
    git(work, "push", "-q", "origin", "HEAD:main")
    return git(work, "rev-parse", "HEAD")


@dataclass
class GitServer:
    """What it serves, and what it was asked."""

    root: Path
    port: int = 0
    requests: list[tuple[str, dict[str, str]]] = field(default_factory=list)
    answers: dict[str, bytes] = field(default_factory=dict)
    """What is said to a path that begins so, instead of what git says."""

    def url(self, name: str = "skills.git") -> str:
        return f"http://{HOST}:{self.port}/{name}"

    async def handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            writer.write(await self._answer(reader))
            await writer.drain()
        finally:
            writer.close()

    async def _answer(self, reader: asyncio.StreamReader) -> bytes:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        first, *lines = head.strip().split("\r\n")
        headers = {
            name.lower(): value.strip()
            for name, _, value in (each.partition(":") for each in lines)
        }
        method, target, _ = first.split(" ")
        self.requests.append((f"{method} {target}", headers))
        body = await self._body(reader, headers)
        path, _, query = target.partition("?")
        for start, answer in self.answers.items():
            if path.startswith(start):
                return answer
        return await self._backend(method, path, query, headers, body)

    async def _body(self, reader: asyncio.StreamReader, headers: Mapping[str, str]) -> bytes:
        if headers.get("transfer-encoding") != "chunked":
            return await reader.readexactly(int(headers.get("content-length", "0")))
        body = b""
        while size := int((await reader.readline()).strip(), 16):
            body += await reader.readexactly(size)
            await reader.readline()
        return body

    async def _backend(
        self, method: str, path: str, query: str, headers: Mapping[str, str], body: bytes
    ) -> bytes:
        env = {
            **_GIT,
            "GIT_PROJECT_ROOT": str(self.root),
            "GIT_HTTP_EXPORT_ALL": "1",
            "REQUEST_METHOD": method,
            "PATH_INFO": path,
            "QUERY_STRING": query,
            "CONTENT_TYPE": headers.get("content-type", ""),
            "CONTENT_LENGTH": str(len(body)),
            "HTTP_CONTENT_ENCODING": headers.get("content-encoding", ""),
            "GIT_PROTOCOL": headers.get("git-protocol", ""),
            # A push of a test made these files as another user, as far as git can tell.
            "GIT_CONFIG_COUNT": "1",
            "GIT_CONFIG_KEY_0": "safe.directory",
            "GIT_CONFIG_VALUE_0": "*",
        }
        process = await asyncio.create_subprocess_exec(
            "git",
            "http-backend",
            env=env,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
        )
        said, _ = await process.communicate(body)
        top, _, content = said.partition(b"\r\n\r\n")
        lines = top.decode().split("\r\n")
        status = next((each[8:] for each in lines if each.lower().startswith("status: ")), "200 OK")
        kept = [each for each in lines if not each.lower().startswith("status: ")]
        heads = [
            f"HTTP/1.1 {status}",
            *kept,
            f"Content-Length: {len(content)}",
            "Connection: close",
        ]
        return "\r\n".join(heads).encode() + b"\r\n\r\n" + content


@asynccontextmanager
async def git_server(root: Path) -> AsyncIterator[GitServer]:
    """Serve the repositories below a directory."""
    served = GitServer(root)
    server = await asyncio.start_server(served.handle, "127.0.0.1", 0)
    served.port = server.sockets[0].getsockname()[1]
    async with server:
        yield served
