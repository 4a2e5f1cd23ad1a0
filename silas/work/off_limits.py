"""Where no work happens, whatever a plan says and whoever approved it.

A workspace is copied, shown to a model and changed. These places are none, lie in none and hold
none:

1. The owner's home itself (a folder in it is fine): it holds everything below, and the files that
   a shell obeys.
2. Keys, credentials and the configuration of the usual programs: who reads them is the owner, who
   writes them runs code as the owner.
3. The system's own directories.
4. Silas's code and the Python that runs it: who writes there is Silas.
5. Silas's configuration and data: its keys, its records and its rules.

Links and `..` are followed before the question is asked, on both sides, and a directory is also
known by its number on the disk: a second mount of a home is still the home.
"""

import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from silas.tools.tree import FileRefused

_PRIVATE = (
    # keys and credentials
    *(".ssh", ".gnupg", ".pki", ".password-store", ".keychain", ".gem/credentials"),
    *(".aws", ".azure", ".kube", ".docker", ".oci", ".minikube", ".terraform.d", ".vault-token"),
    *(".netrc", ".pgpass", ".my.cnf", ".git-credentials", ".pypirc", ".npmrc", ".cargo"),
    *(".local/share/keyrings", ".local/share/kwalletd", "Library/Keychains", ".bitcoin"),
    *(".electrum", ".ethereum"),
    # browsers and mail
    *(".mozilla", ".thunderbird", ".chromium", "snap", ".var/app", "Library/Application Support"),
    # configuration that programs obey, and programs that start by themselves
    *(".config", ".local/bin", ".local/lib", ".local/share", ".local/state", ".gitconfig"),
    *(".vscode", ".vscode-server", ".idea", ".claude", ".cursor", ".codex", ".vim", ".emacs.d"),
    *("Library/LaunchAgents", "bin"),
)
_SYSTEM = (
    *("/bin", "/boot", "/dev", "/etc", "/lib", "/lib32", "/lib64", "/libx32", "/proc", "/run"),
    *("/sbin", "/sys", "/usr", "/var/lib", "/var/run", "/var/spool", "/var/log", "/nix/store"),
    *("/System", "/Library", "/private/etc"),
)


@dataclass(frozen=True)
class _Place:
    path: Path
    reason: str
    below: bool = True
    """Whether what lies below it is off limits too."""


@dataclass(frozen=True)
class OffLimits:
    """The places that are never worked on; `own` are Silas's configuration and data."""

    home: Path
    own: tuple[Path, ...]

    def require_allowed(self, path: Path) -> None:
        """Raise `FileRefused` if this directory is one of them, lies in one or holds one."""
        reason = self.reason_against(path)
        if reason is not None:
            raise FileRefused(
                f"{path} is no place to work: {reason}. Name a folder for this work alone, such as "
                "~/silas-files/NAME, and copy what it needs."
            )

    def reason_against(self, path: Path) -> str | None:
        """Why this path is one of them, lies in one or holds one; None if it does not."""
        real = path.resolve()
        above = _identities((real, *real.parents))
        identity = _identity(real)
        for place in self._places:
            holds = _is_below(place.path, real) or identity in _above(place.path)
            within = _is_below(real, place.path) or _identity(place.path) in above
            if real == place.path or holds or (place.below and within):
                return f"{place.path} is {place.reason}"
        return None

    @cached_property
    def _places(self) -> tuple[_Place, ...]:
        return tuple(self._every_place())

    def _every_place(self) -> Iterator[_Place]:
        yield from _named((self.home,), "the home directory", below=False)
        private = (self.home / name for name in _PRIVATE)
        yield from _named(private, "a place for keys or for other programs' settings")
        yield from _named((Path(name) for name in _SYSTEM), "a part of the system")
        yield from _named(_code(), "Silas's own program")
        yield from _named(self.own, "Silas's own configuration or data")


def _named(paths: Iterable[Path], reason: str, *, below: bool = True) -> Iterator[_Place]:
    for path in paths:
        for each in dict.fromkeys((path.absolute(), path.resolve())):
            yield _Place(each, reason, below)


def _code() -> Iterator[Path]:
    package = Path(__file__).resolve().parent.parent
    yield package
    # An editable install runs from a repository: its configuration builds Silas anew.
    if (package.parent / "pyproject.toml").exists():
        yield package.parent
    for prefix in {sys.prefix, sys.base_prefix} - {"/"}:
        yield Path(prefix)


def _is_below(path: Path, directory: Path) -> bool:
    return path != directory and path.is_relative_to(directory)


def _above(path: Path) -> frozenset[tuple[int, int]]:
    return _identities((path, *path.parents))


def _identities(paths: Iterable[Path]) -> frozenset[tuple[int, int]]:
    return frozenset(known for path in paths if (known := _identity(path)) is not None)


def _identity(path: Path) -> tuple[int, int] | None:
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_dev, status.st_ino
