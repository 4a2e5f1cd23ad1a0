"""The process guards its own secrets: the vault's passphrase, and what is in its memory.

1. The passphrase is taken out of the environment before anything else runs, so that no program
   that Silas starts inherits it. `/proc/PID/environ` goes on showing what a process was started
   with: if the passphrase is there, the process starts itself anew without it (`execve`, same
   arguments, same process id) and hands it over through a pipe.
2. It also comes through a descriptor that whoever starts Silas names, or as a credential of
   systemd. The first of variable, descriptor and credential counts.
3. Other programs of the same user read neither memory nor environment nor descriptors of a process
   that is not dumpable, and cannot trace it; there are no core dumps. A program that Silas starts
   is dumpable again: the kernel says so at every `execve`.

Root may read everything, and so may whoever reads a process in the moments before rule 1 is done.
"""

import ctypes
import os
import resource
import sys
from collections.abc import Mapping, MutableMapping
from pathlib import Path

from silas.kernel.errors import ConfigError

PASSPHRASE_VARIABLE = "SILAS_VAULT_PASSPHRASE"  # noqa: S105 - the name of a variable
DESCRIPTOR_VARIABLE = "SILAS_VAULT_PASSPHRASE_FD"
CREDENTIAL = "silas-vault-passphrase"
_CREDENTIALS = "CREDENTIALS_DIRECTORY"
_LONGEST = 4096
"""What any pipe holds without a reader."""
_PR_GET_DUMPABLE, _PR_SET_DUMPABLE = 3, 4
_STARTED_WITH = Path("/proc/self/environ")


def take_passphrase(environ: MutableMapping[str, str]) -> str | None:
    """The vault's passphrase if one was given, taken out of this environment (rules 1 and 2).

    Does not return if the process has to start itself anew. Raises `ConfigError`.
    """
    given = environ.pop(PASSPHRASE_VARIABLE, None)
    descriptor = environ.pop(DESCRIPTOR_VARIABLE, None)
    if given and _is_shown_to_others():
        _start_anew(given, environ)
    if given:
        return given
    if descriptor:
        return _read_descriptor(descriptor)
    return _credential(environ)


def guard_process() -> bool:
    """Rule 3; False where the system offers only a part of it (`is_guarded` says so later)."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if not sys.platform.startswith("linux"):
        return False
    return _prctl(_PR_SET_DUMPABLE, 0) == 0 and is_guarded()


def is_guarded() -> bool:
    """Whether other programs of the same user are kept from this process's memory."""
    return sys.platform.startswith("linux") and _prctl(_PR_GET_DUMPABLE, 0) == 0


def environment_to_pass_on() -> dict[str, str]:
    """This process's environment without the passphrase, for a program that needs all the rest."""
    secret = {PASSPHRASE_VARIABLE, DESCRIPTOR_VARIABLE}
    return {name: value for name, value in os.environ.items() if name not in secret}


def _prctl(option: int, value: int) -> int:
    return int(ctypes.CDLL(None).prctl(option, value, 0, 0, 0))


def _is_shown_to_others() -> bool:
    """Whether the process was started with the passphrase in its environment; in doubt, it was."""
    try:
        started_with = _STARTED_WITH.read_bytes()
    except OSError:
        return True
    return f"\0{PASSPHRASE_VARIABLE}=".encode() in b"\0" + started_with


def _start_anew(passphrase: str, environ: Mapping[str, str]) -> None:
    content = os.fsencode(passphrase) + b"\n"
    if len(content) > _LONGEST:
        raise ConfigError(f"{PASSPHRASE_VARIABLE} is longer than {_LONGEST - 1} bytes.")
    reader, writer = os.pipe()
    os.write(writer, content)
    os.close(writer)
    os.set_inheritable(reader, True)
    try:
        os.execve(  # noqa: S606 - this very program, with its own arguments
            sys.executable,
            [sys.executable, *sys.orig_argv[1:]],
            {**environ, DESCRIPTOR_VARIABLE: str(reader)},
        )
    except OSError as error:
        os.close(reader)
        raise ConfigError(
            f"Silas could not start itself anew without {PASSPHRASE_VARIABLE} in its environment "
            f"({error}). Give the passphrase by {DESCRIPTOR_VARIABLE} or use a key file."
        ) from error


def _read_descriptor(number: str) -> str:
    try:
        with os.fdopen(int(number), "rb") as file:
            return _text(file.read(_LONGEST + 1), f"{DESCRIPTOR_VARIABLE}={number}")
    except (OSError, ValueError, TypeError) as error:
        raise ConfigError(
            f"{DESCRIPTOR_VARIABLE} must name a descriptor that is open for reading: {number!a} is "
            "none. Try `SILAS_VAULT_PASSPHRASE_FD=3 silas start 3< <(your password manager)`."
        ) from error


def _credential(environ: Mapping[str, str]) -> str | None:
    directory = environ.get(_CREDENTIALS)
    path = Path(directory) / CREDENTIAL if directory else None
    if path is None or not path.exists():
        return None
    try:
        with path.open("rb") as file:
            return _text(file.read(_LONGEST + 1), str(path))
    except OSError as error:
        raise ConfigError(f"The credential {path} cannot be read ({error}).") from error


def _text(content: bytes, where: str) -> str:
    if not content.strip(b"\n") or len(content) > _LONGEST:
        raise ConfigError(f"{where} holds no passphrase of 1 to {_LONGEST - 1} bytes.")
    return os.fsdecode(content.removesuffix(b"\n"))
