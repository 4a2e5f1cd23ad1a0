"""The tool servers that other programs are set up with: read, shown, and nothing granted.

1. Claude, Cursor and VS Code keep JSON (`mcpServers`, `servers`), Codex keeps TOML
   (`mcp_servers`). A file is read with limits; what is not understood is said, and not guessed.
2. Of variables and headers the names alone are taken over: their values are credentials as a rule.
   `${VARIABLES}` are not filled in.
3. A package runner (`npx`, `uvx` and the like) fetches and runs what nobody has looked at. Such an
   entry is shown with what to install instead.
4. Reading an entry starts nothing and asks nobody: adding a server is a card of its own.
"""

import json
import shlex
import shutil
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path, PurePosixPath
from typing import Any

from silas.kernel import SkillError, visible
from silas.kernel.models import Data
from silas.kernel.redaction import redact

MAX_FILE_BYTES = 4 * 1024 * 1024
MAX_SERVERS = 100
_TABLES = ("mcpServers", "servers", "mcp_servers")
RUNNERS = {
    **dict.fromkeys(("npx", "npm", "pnpm", "yarn", "bunx", "bun", "deno"), "npm"),
    **dict.fromkeys(("uvx", "uv", "pip", "pipx", "hatch", "poetry"), "PyPI"),
    **dict.fromkeys(("docker", "podman"), "its registry"),
}
"""Programs that fetch what they run, and where from."""


class ConfigurationUnreadable(SkillError):
    """The file is no configuration of tool servers that Silas can read. Name another file."""

    code = "E_SKILL_MCP_CONFIGURATION"


class ConfiguredServer(Data):
    """One tool server that another program is set up with."""

    name: str
    program: str = ""
    """Absolute where it was found on this machine, else as it is written."""
    arguments: tuple[str, ...] = ()
    directory: str = ""
    url: str = ""
    variables: tuple[str, ...] = ()
    """Names of variables and headers. Their values are not taken over."""
    problems: tuple[str, ...] = ()
    """Why it cannot be added as it is."""

    @property
    def can_be_added(self) -> bool:
        return not self.problems

    @property
    def command_line(self) -> str:
        """What adds it."""
        target = [self.url] if self.url else ["--", self.program, *self.arguments]
        return shlex.join(["silas", "mcp", "add", self.name, *target])


def read_configuration(path: Path) -> list[ConfiguredServer]:
    """Every server that the file names; raises `ConfigurationUnreadable` (rules 1 to 3)."""
    try:
        if path.stat().st_size > MAX_FILE_BYTES:
            raise ConfigurationUnreadable(f"{path} is too large for a configuration.")
        text = path.read_text("utf-8")
        document = tomllib.loads(text) if path.suffix == ".toml" else json.loads(text)
    except (OSError, ValueError, RecursionError) as error:
        raise ConfigurationUnreadable(f"{path} cannot be read: {error}") from error
    found = [_server(str(name), entry) for name, entry in _entries(document)]
    if not found:
        raise ConfigurationUnreadable(
            f"{path} names no tool server: it has none of {', '.join(_TABLES)}."
        )
    return found[:MAX_SERVERS]


def _entries(document: Any) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """The entries of the tables, also of those that stand below a project of Claude's."""
    if not isinstance(document, dict):
        return
    projects = document.get("projects")
    places = [document, *(projects.values() if isinstance(projects, dict) else ())]
    for place in places:
        for table in _TABLES:
            entries = place.get(table) if isinstance(place, dict) else None
            if isinstance(entries, dict):
                yield from (
                    (name, each) for name, each in entries.items() if isinstance(each, dict)
                )


def _server(name: str, entry: Mapping[str, Any]) -> ConfiguredServer:
    command, url = _text(entry.get("command")), _text(entry.get("url") or entry.get("serverUrl"))
    arguments = tuple(map(_text, _list(entry.get("args"))))
    program, problems = _program(command) if command else ("", [])
    if not command and not url:
        problems.append("It says neither what to run nor where to connect to.")
    if any("${" in each for each in (command, url, *arguments)):
        problems.append("It holds ${variables}, which Silas does not fill in.")
    words = [url, *arguments]
    if redact(words) != words:
        problems.append("There is a credential in its command or address. Leave it out.")
        arguments, url = (), ""
    return ConfiguredServer(
        name=_name(name),
        program=program,
        arguments=arguments,
        directory=_text(entry.get("cwd")),
        url=url,
        variables=tuple(sorted(_variables(entry))),
        problems=tuple(problems),
    )


def fetches(program: str) -> str:
    """Why a package runner, or the script below one, is no server; empty for anything else."""
    path = PurePosixPath(program)
    for name in (path.name, path.stem.removesuffix("-cli"), path.name.rstrip("0123456789.")):
        if name in RUNNERS:
            return (
                f"{path.name} fetches from {RUNNERS[name]} and runs what nobody has looked at. "
                "Install the package, and name the program that it brings."
            )
    return ""


def _program(command: str) -> tuple[str, list[str]]:
    if runner := fetches(command):
        return command, [runner]
    found = command if command.startswith("/") else shutil.which(command)
    if found is None or not Path(found).is_file():
        return command, [f"There is no program {visible(command)} on this machine."]
    return found, []


def _variables(entry: Mapping[str, Any]) -> Iterator[str]:
    for key in ("env", "headers", "http_headers", "env_http_headers"):
        given = entry.get(key)
        if isinstance(given, dict):
            yield from map(_text, given)
    yield from map(_text, _list(entry.get("env_vars")))
    yield from filter(None, [_text(entry.get("bearer_token_env_var"))])


def _name(text: str) -> str:
    """The name as skills have it: lower-case words with hyphens."""
    plain = "".join(each if each.isascii() and each.isalnum() else " " for each in text.lower())
    return "-".join(plain.split())[:64].strip("-") or "server"


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _text(value: Any) -> str:
    return visible(value, keep_newlines=False) if isinstance(value, str) else ""
