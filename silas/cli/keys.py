"""`silas keys`: the owner's signing key. Its private part is never shown."""

import asyncio
import contextlib

import click

from silas.app.ground import Ground
from silas.app.instance import NotRunning, call_server
from silas.approval import PublicKey
from silas.cli.commands import JsonGroup
from silas.cli.context import CliContext, pass_cli
from silas.cli.opening import with_ground
from silas.cli.terminal import confirm
from silas.kernel import format_timestamp


@click.group(cls=JsonGroup)
def keys() -> None:
    """Show and rotate the owner's signing key."""


@keys.command("show")
@pass_cli
def show_keys(cli: CliContext) -> None:
    """Show the public keys, the active one first. They are safe to share."""
    public = with_ground(cli, _public_keys)
    cli.show({"keys": [_as_data(key) for key in public]}, "\n".join(_line(key) for key in public))


@keys.command("rotate")
@click.option("--yes", is_flag=True, help="Do not ask.")
@pass_cli
def rotate_key(cli: CliContext, yes: bool) -> None:
    """Replace the owner's key.

    The old private key is destroyed. What it signed stays verifiable; what is signed from now on
    is signed with the new key. Give the new public key to everyone who checks your proofs.
    """
    confirm("Replace the owner's key? The old private key is destroyed.", yes=yes)
    rotation = with_ground(cli, _rotate)
    cli.show(
        rotation,
        f"The owner's key is now {rotation['new_key_id']}.\n"
        f"  public key  {rotation['new_public_key']}\n"
        f"{rotation['old_key_id']} is retired; what it signed stays verifiable.",
    )


async def _public_keys(ground: Ground) -> tuple[PublicKey, ...]:
    public = await asyncio.to_thread(lambda: ground.keys.public)
    return public.keys


async def _rotate(ground: Ground) -> dict[str, str]:
    # Said before it is done: if the machine dies in between, the log shows what was under way.
    await ground.audit.log("key_rotation_started")
    rotation = await asyncio.to_thread(ground.keys.rotate)
    ground.publish_keys()
    await ground.audit.log("key_rotated", **rotation)
    await ground.audit.write_checkpoint()
    with contextlib.suppress(NotRunning):
        await asyncio.to_thread(call_server, ground.paths, "reload_keys")
        await asyncio.to_thread(call_server, ground.paths, "devices_changed")
    return rotation


def _as_data(key: PublicKey) -> dict[str, str | None]:
    return {
        "key_id": key.key_id,
        "public_key": key.hex,
        "created_at": format_timestamp(key.created_at) if key.created_at else None,
        "retired_at": format_timestamp(key.retired_at) if key.retired_at else None,
    }


def _line(key: PublicKey) -> str:
    state = f"retired {key.retired_at:%Y-%m-%d %H:%M}" if key.retired_at else "active"
    return f"{key.key_id}  {key.hex}  {state}"
