"""`silas keys` and `silas devices`: what signs in the owner's name, here and in their browsers.

The private part of the owner's key is never shown.
"""

import asyncio
import contextlib
from collections.abc import Sequence
from itertools import zip_longest

import click

from silas.app.client import NotRunning, call_server
from silas.app.core import Core
from silas.approval import Device, PasskeyCode, PublicKey, make_code
from silas.cli.commands import CliContext, JsonGroup, confirm, pass_cli, settings_of, with_core
from silas.kernel import format_timestamp, visible


@click.group(cls=JsonGroup)
def keys() -> None:
    """Show and rotate the owner's signing key."""


@keys.command("show")
@pass_cli
def show_keys(cli: CliContext) -> None:
    """Show the public keys, the active one first. They are safe to share."""
    public = with_core(cli, _public_keys)
    cli.show(
        {"keys": [_as_data(key) for key in public]}, "\n".join(_key_line(key) for key in public)
    )


@keys.command("rotate")
@click.option("--yes", is_flag=True, help="Do not ask.")
@pass_cli
def rotate_key(cli: CliContext, yes: bool) -> None:
    """Replace the owner's key.

    The old private key is destroyed. What it signed stays verifiable; what is signed from now on
    is signed with the new key. Give the new public key to everyone who checks your proofs.
    """
    confirm("Replace the owner's key? The old private key is destroyed.", yes=yes)
    rotation = with_core(cli, _rotate)
    cli.show(
        rotation,
        f"The owner's key is now {rotation['new_key_id']}.\n"
        f"  public key  {rotation['new_public_key']}\n"
        f"{rotation['old_key_id']} is retired; what it signed stays verifiable.",
    )


async def _public_keys(core: Core) -> tuple[PublicKey, ...]:
    public = await asyncio.to_thread(lambda: core.keys.public)
    return public.keys


async def _rotate(core: Core) -> dict[str, str]:
    # Said before it is done: if the machine dies in between, the log shows what was under way.
    await core.audit.log("key_rotation_started")
    rotation = await asyncio.to_thread(core.keys.rotate)
    core.publish_keys()
    await core.audit.log("key_rotated", **rotation)
    await core.audit.write_checkpoint()
    with contextlib.suppress(NotRunning):
        await asyncio.to_thread(call_server, core.paths, "/api/server/reload_keys")
        await asyncio.to_thread(call_server, core.paths, "/api/web/devices_changed")
    return rotation


def _as_data(key: PublicKey) -> dict[str, str | None]:
    return {
        "key_id": key.key_id,
        "public_key": key.hex,
        "created_at": format_timestamp(key.created_at) if key.created_at else None,
        "retired_at": format_timestamp(key.retired_at) if key.retired_at else None,
    }


def _key_line(key: PublicKey) -> str:
    state = f"retired {key.retired_at:%Y-%m-%d %H:%M}" if key.retired_at else "active"
    return f"{key.key_id}  {key.hex}  {state}"


@click.group(cls=JsonGroup)
def devices() -> None:
    """Show, pair and revoke the browsers that may talk and decide in your name."""


@devices.command("list")
@pass_cli
def list_devices(cli: CliContext) -> None:
    """Show every device that was ever paired."""

    async def inside(core: Core) -> list[Device]:
        return await core.devices.list()

    found = with_core(cli, inside)
    data = {"devices": [device.model_dump(mode="json") for device in found]}
    cli.show(
        data, "\n".join(map(_device_line, found)) or "No device is paired. Try: silas devices pair"
    )


@devices.command("revoke")
@click.argument("device_id")
@pass_cli
def revoke(cli: CliContext, device_id: str) -> None:
    """End a device at once and for good; its open pages are closed."""

    async def inside(core: Core) -> Device:
        return await core.devices.revoke(device_id)

    gone = with_core(cli, inside)
    with contextlib.suppress(NotRunning):
        call_server(settings_of(cli).paths, "/api/web/devices_changed")
    cli.show(gone.model_dump(mode="json"), f"{visible(gone.name)} is revoked.")


@devices.command("pair")
@pass_cli
def pair(cli: CliContext) -> None:
    """Print a link that lets one browser in, once, within ten minutes. Silas must be running.

    Where a phone can reach Silas, the same is shown as a QR code for its camera.
    """
    answer = call_server(settings_of(cli).paths, "/api/web/pair")
    lines = [f"Open this in the browser within ten minutes: {answer['link']}"]
    phone = answer.get("phone")
    if phone is None:
        lines.append(answer["missing"])
    else:
        lines += ["Or point a phone's camera at this, instead:", *qr_lines(phone["qr"])]
        lines.append(phone["link"])
    if phone and phone["needs_token"]:
        lines.append("The phone also asks for the access token, `channels.web.auth_token`.")
    cli.show(answer, "\n".join(lines))


def qr_lines(rows: Sequence[str]) -> list[str]:
    """A QR code with two rows to a line, dark on light whatever the colours of the terminal are."""
    return [
        click.style("".join(_HALVES[pair] for pair in zip(*two, strict=True)), "black", "white")
        for two in zip_longest(rows[::2], rows[1::2], fillvalue="0" * len(rows[0]))
    ]


_HALVES = {("0", "0"): " ", ("1", "0"): "▀", ("0", "1"): "▄", ("1", "1"): "█"}


@devices.command("passkey")
@pass_cli
def passkey(cli: CliContext) -> None:
    """Print a code with which a paired browser adds its first passkey. Silas must be running.

    It opens the vault: a paired browser alone cannot give itself a passkey.
    """

    async def inside(core: Core) -> PasskeyCode:
        return make_code(core.keys, core.clock)

    made = with_core(cli, inside)
    call_server(settings_of(cli).paths, "/api/web/passkey_code", {"statement": made.statement})
    text = "In the page, open Devices, choose “Add a passkey”, and type within ten minutes:"
    cli.show({"code": made.code}, f"{text} {made.code}")


def _device_line(device: Device) -> str:
    state = "trusted" if device.trusted else "not trusted"
    since = f"{device.enrolled_at:%Y-%m-%d %H:%M}"
    return f"{device.device_id}  {state:11}  since {since}  {visible(device.name)}"
