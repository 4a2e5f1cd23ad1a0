"""`silas init`: everything a data directory needs, made once and never made again.

1. The data directory, readable by its owner alone. One with something in it that others may enter
   is refused (`require_own_files`).
2. The configuration file, commented, with nothing decided in it.
3. The vault: the system keyring, or an encrypted file.
4. The database and the journal, with their schemas.
5. The owner's key, in the vault; its public part in `owner.pub`.
6. The directories for checks and for customers' files.
7. The skills that come with Silas, as exactly the versions of this package.
8. An audit entry, which names them, and the first signed checkpoint.

Each step looks first and leaves alone what is there, so that a second run changes nothing.

`require_own_files` sees whose the files are that Silas believes: `silas init` and `silas start`
refuse what another user of the machine could read or rewrite, each with the command that mends it.
What root owns is as good as one's own. A group that holds only its user is nobody else: on systems
with umask 002 its members' write permission means nothing.
"""

import asyncio
import grp
import os
import pwd
import shlex
import stat
from collections.abc import Mapping
from pathlib import Path

from silas.app.core import Core, make_core
from silas.app.journal import open_journal
from silas.app.skills import accept_bundled
from silas.kernel import Clock, ConfigError
from silas.kernel.models import Data
from silas.secrets import (
    OnDemandVault,
    Prompt,
    VaultChoice,
    VaultDescription,
    create_vault,
    open_vault,
)
from silas.settings.load import LoadedSettings
from silas.settings.paths import DEFAULT, Paths
from silas.settings.write import render_default_config
from silas.storage.errors import translated
from silas.storage.files import PRIVATE_DIRECTORY, make_private_directory, write_private_file

_ROOT = 0
_ANYBODY_ELSE = stat.S_IRWXG | stat.S_IRWXO


def require_own_files(paths: Paths) -> None:
    """Raise `ConfigError` if somebody else may read the data, or change what Silas believes.

    What is not there yet is not looked at.
    """
    if paths.data_dir.exists():
        _require_private(paths.data_dir)
    for path in (paths.config_file, paths.vault, paths.public_key):
        if path.exists():
            _require_not_changeable(path)
            _require_not_changeable(path.resolve().parent)


def _require_private(directory: Path) -> None:
    found = directory.stat()
    if found.st_uid != os.geteuid():
        raise _of_another(directory, found)
    if found.st_mode & _ANYBODY_ELSE:
        raise ConfigError(
            f"Others on this machine may enter the data directory {directory}. "
            f"Close it with: chmod go-rwx {shlex.quote(str(directory))}"
        )


def _require_not_changeable(path: Path) -> None:
    found = path.stat()
    if found.st_uid not in (os.geteuid(), _ROOT):
        raise _of_another(path, found)
    # In a directory like /tmp only the owner of a file may replace it.
    sticky = stat.S_ISDIR(found.st_mode) and found.st_mode & stat.S_ISVTX
    by_group = found.st_mode & stat.S_IWGRP and not _is_own_group(found.st_gid)
    if not sticky and (by_group or found.st_mode & stat.S_IWOTH):
        raise ConfigError(
            f"Others on this machine may change {path}, and Silas does what it says. "
            f"Mend it with: chmod go-w {shlex.quote(str(path))}"
        )


def _is_own_group(gid: int) -> bool:
    """Whether the group is the user's own, in which nobody else is."""
    try:
        user, group = pwd.getpwuid(os.geteuid()), grp.getgrgid(gid)
    except KeyError:
        return False
    alone = set(group.gr_mem) <= {user.pw_name}
    return alone and user.pw_gid == gid and group.gr_name == user.pw_name


def _of_another(path: Path, found: os.stat_result) -> ConfigError:
    named = shlex.quote(str(path))
    return ConfigError(
        f"{path} belongs to another user (number {found.st_uid}). If it is meant to be yours: "
        f"sudo chown -R {os.geteuid()} {named}"
    )


class SetupStep(Data):
    """What was made, or was there already."""

    what: str
    where: str
    made: bool


class SetupReport(Data):
    """What `silas init` did."""

    steps: tuple[SetupStep, ...]
    vault: VaultDescription
    public_key: str
    key_id: str


async def set_up(
    loaded: LoadedSettings,
    *,
    environ: Mapping[str, str],
    clock: Clock,
    vault_choice: VaultChoice = "auto",
    new_passphrase: Prompt | None = None,
    passphrase: Prompt | None = None,
    chosen: Mapping[str, str] | None = None,
) -> SetupReport:
    """Make what is missing; returns what was made and what was there.

    `chosen` are settings that the owner decided on while being asked, by their dotted names; they
    are written into a new configuration file, never into one that is there.
    """
    paths = loaded.paths
    if not _is_empty(paths.data_dir):
        require_own_files(paths)
    steps = [
        _make_directory("data directory", paths.data_dir),
        _make_config(loaded, chosen or {}),
        SetupStep(what="vault", where=str(paths.vault), made=not paths.vault.exists()),
        SetupStep(what="database", where=str(paths.database), made=not paths.database.exists()),
        SetupStep(what="journal", where=str(paths.journal), made=not paths.journal.exists()),
    ]
    if paths.vault.exists():
        vault = open_vault(paths.vault, environ=environ, prompt=passphrase)
    else:
        vault = await asyncio.to_thread(
            create_vault, paths.vault, environ=environ, choice=vault_choice, prompt=new_passphrase
        )
    require_own_files(paths)
    async with make_core(loaded, OnDemandVault(lambda: vault), clock=clock) as core:
        async with open_journal(core):
            pass  # opening makes it
        steps.append(await _make_key(core))
        steps += [
            _make_directory("place for checks", loaded.settings.sandbox.verify_dir),
            _make_directory("files for visitors", loaded.settings.sandbox.customer_context_dir),
        ]
        steps.append(await _accept_skills(core))
        await _record(core, steps)
        active = core.keys.public.keys[0]
    return SetupReport(
        steps=tuple(steps), vault=vault.describe(), public_key=active.hex, key_id=active.key_id
    )


def _make_directory(what: str, path: Path) -> SetupStep:
    made = not path.exists()
    with translated(str(path)):
        make_private_directory(path)
        if not any(path.iterdir()):
            path.chmod(PRIVATE_DIRECTORY)  # an empty one that was made by hand is ours to close
    return SetupStep(what=what, where=str(path), made=made)


def _make_config(loaded: LoadedSettings, decided: Mapping[str, str]) -> SetupStep:
    path = loaded.paths.config_file
    if not loaded.file_exists:
        # A data directory that was chosen on the command line is one more thing to remember; a
        # file inside it says so relatively, so that the directory can be moved.
        chosen = loaded.origin_of(("data_dir",)) != DEFAULT
        data_dir = "." if path.parent == loaded.paths.data_dir else str(loaded.paths.data_dir)
        values = {**decided, **({"data_dir": data_dir} if chosen else {})}
        with translated(str(path)):
            make_private_directory(path.parent)
            write_private_file(path, render_default_config(values).encode())
    return SetupStep(what="configuration", where=str(path), made=not loaded.file_exists)


def _is_empty(directory: Path) -> bool:
    with translated(str(directory)):
        return not directory.exists() or not any(directory.iterdir())


async def _make_key(core: Core) -> SetupStep:
    made = not await asyncio.to_thread(core.keys.exists)
    if made:
        await asyncio.to_thread(core.keys.generate_keypair)
    core.publish_keys()
    return SetupStep(what="owner key", where=str(core.paths.public_key), made=made)


async def _accept_skills(core: Core) -> SetupStep:
    """Whoever runs `silas init` accepts the skills of the package, and is told their names."""
    accepted = await accept_bundled(core, event=None)
    names = ", ".join(each.name for each in await core.skills.listed() if each.bundled)
    return SetupStep(what="skills", where=names or "none", made=bool(accepted))


async def _record(core: Core, steps: list[SetupStep]) -> None:
    made = [step.what for step in steps if step.made]
    if made:
        await core.audit.log(
            "initialised",
            made=made,
            key_id=core.keys.public.keys[0].key_id,
            skills={each.name: each.digest for each in await core.skills.listed() if each.bundled},
        )
        await core.audit.write_checkpoint()
