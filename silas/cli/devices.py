"""`silas devices`: the browsers and phones that may sign in your name."""

import contextlib

import click

from silas.app.ground import Ground
from silas.app.instance import NotRunning, call_server
from silas.approval import Device, PasskeyCode, make_code
from silas.cli.commands import JsonGroup
from silas.cli.context import CliContext, pass_cli
from silas.cli.opening import settings_of, with_ground
from silas.kernel import visible


@click.group(cls=JsonGroup)
def devices() -> None:
    """Show, pair and revoke the browsers that may talk and decide in your name."""


@devices.command("list")
@pass_cli
def list_devices(cli: CliContext) -> None:
    """Show every device that was ever paired."""

    async def inside(ground: Ground) -> list[Device]:
        return await ground.devices.list()

    found = with_ground(cli, inside)
    data = {"devices": [device.model_dump(mode="json") for device in found]}
    cli.show(data, "\n".join(map(_line, found)) or "No device is paired. Try: silas devices pair")


@devices.command("revoke")
@click.argument("device_id")
@pass_cli
def revoke(cli: CliContext, device_id: str) -> None:
    """End a device at once and for good; its open pages are closed."""

    async def inside(ground: Ground) -> Device:
        return await ground.devices.revoke(device_id)

    gone = with_ground(cli, inside)
    with contextlib.suppress(NotRunning):
        call_server(settings_of(cli).paths, "devices_changed")
    cli.show(gone.model_dump(mode="json"), f"{visible(gone.name)} is revoked.")


@devices.command("pair")
@pass_cli
def pair(cli: CliContext) -> None:
    """Print a link that lets one browser in, once, within ten minutes. Silas must be running."""
    answer = call_server(settings_of(cli).paths, "pair")
    cli.show(answer, f"Open this in the browser within ten minutes: {answer['link']}")


@devices.command("passkey")
@pass_cli
def passkey(cli: CliContext) -> None:
    """Print a code with which a paired browser adds its first passkey. Silas must be running.

    It opens the vault: a paired browser alone cannot give itself a passkey.
    """

    async def inside(ground: Ground) -> PasskeyCode:
        return make_code(ground.keys, ground.clock)

    made = with_ground(cli, inside)
    call_server(settings_of(cli).paths, "passkey_code", made.statement)
    told = "In the page, open Devices, choose “Add a passkey”, and type within ten minutes:"
    cli.show({"code": made.code}, f"{told} {made.code}")


def _line(device: Device) -> str:
    state = "trusted" if device.trusted else "not trusted"
    since = f"{device.enrolled_at:%Y-%m-%d %H:%M}"
    return f"{device.device_id}  {state:11}  since {since}  {visible(device.name)}"
