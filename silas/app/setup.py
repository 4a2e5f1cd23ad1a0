"""`silas init`: everything a data directory needs, made once and never made again.

1. The data directory, readable by its owner alone.
2. The configuration file, commented, with nothing decided in it.
3. The vault: the system keyring, or an encrypted file.
4. The database and the journal, with their schemas.
5. The owner's key, in the vault; its public part in `owner.pub`.
6. The directories for checks and for customers' files.
7. An audit entry, and the first signed checkpoint.

Each step looks first and leaves alone what is there, so that a second run changes nothing.
"""

import asyncio
from collections.abc import Mapping
from pathlib import Path

from silas.app.ground import Ground, OnDemandVault, make_ground
from silas.app.journal import open_journal
from silas.app.settings import LoadedSettings, render_default_config
from silas.app.settings.origin import DEFAULT
from silas.kernel import Clock
from silas.kernel.models import Data
from silas.secrets import Prompt, VaultChoice, VaultDescription, create_vault, open_vault
from silas.storage.errors import translated
from silas.storage.files import PRIVATE_DIRECTORY, make_private_directory, write_private_file


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
    async with make_ground(loaded, OnDemandVault(lambda: vault), clock=clock) as ground:
        async with open_journal(ground):
            pass  # opening makes it
        steps.append(await _make_key(ground))
        steps += [
            _make_directory("check directory", loaded.settings.sandbox.verify_dir),
            _make_directory("customer files", loaded.settings.sandbox.customer_context_dir),
        ]
        await _record(ground, steps)
        active = ground.keys.public.keys[0]
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
            path.parent.mkdir(parents=True, exist_ok=True)
            write_private_file(path, render_default_config(values).encode())
    return SetupStep(what="configuration", where=str(path), made=not loaded.file_exists)


async def _make_key(ground: Ground) -> SetupStep:
    made = not await asyncio.to_thread(ground.keys.exists)
    if made:
        await asyncio.to_thread(ground.keys.generate_keypair)
    ground.publish_keys()
    return SetupStep(what="owner key", where=str(ground.paths.public_key), made=made)


async def _record(ground: Ground, steps: list[SetupStep]) -> None:
    made = [step.what for step in steps if step.made]
    if made:
        await ground.audit.log("initialised", made=made, key_id=ground.keys.public.keys[0].key_id)
        await ground.audit.write_checkpoint()
