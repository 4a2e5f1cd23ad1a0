"""`silas devices`, and the page that `silas start` serves."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.cli.machine import Machine, failure_of, output_of
from tests.web.place import TestDevice


@contextmanager
def serving(machine: Machine, *options: str) -> Iterator[dict[str, Any]]:
    """A server that runs, and what it said."""
    Path(machine.environ["HOME"]).mkdir(exist_ok=True)
    with machine.start("start", "--json", "--no-browser", *options) as server:
        said = ""
        for line in server.stdout:
            said += line
            if line == "}\n":
                break
        assert said, server.stderr.read()
        yield json.loads(said)


async def test_pair_list_revoke(owner: Machine) -> None:
    with serving(owner) as said:
        link: str = json.loads(output_of(owner.run("devices", "pair", "--json")))["link"]
        assert link.startswith(f"{said['web']}/#pair=")
        device = TestDevice(said["web"], name="A phone")
        assert (await device.pair(link.partition("#pair=")[2])).status_code == 200
        listed = output_of(owner.run("devices", "list"))
        assert f"{device.device_id}  trusted" in listed
        assert "A phone" in listed
        assert (
            output_of(owner.run("devices", "revoke", device.device_id)) == "A phone is revoked.\n"
        )
        assert "not trusted" in output_of(owner.run("devices", "list"))


def test_the_code_is_only_in_the_fragment(owner: Machine) -> None:
    with serving(owner) as said:
        address, _, code = said["link"].partition("#")
        assert code.startswith("pair=")
        assert "?" not in said["link"]
        assert httpx.get(address, timeout=60, verify=False).status_code == 200


def test_without_a_server_there_is_no_link(owner: Machine) -> None:
    assert "No device is paired" in output_of(owner.run("devices", "list"))
    assert failure_of(owner.run("devices", "pair"))[0] == 210
    assert failure_of(owner.run("devices", "revoke", "key_x"))[0] == 120


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1"])
def test_other_machines_need_a_token(owner: Machine, host: str) -> None:
    code, said = failure_of(owner.run("start", "--host", host))
    assert code == 10
    assert "channels.web.auth_token" in said
    assert "other machines" in said


def test_an_address_that_is_taken(owner: Machine, tmp_path: Path) -> None:
    other = owner.moved_to(tmp_path / "other")
    with serving(owner) as said:
        code, told = failure_of(other.run("start", "--port", said["web"].rpartition(":")[2]))
        assert code == 210
        assert "silas start --port" in told


def test_the_page_can_be_switched_off(owner: Machine) -> None:
    owner.environ["SILAS_CHANNELS__WEB__ENABLED"] = "false"
    with serving(owner) as said:
        assert said["web"] is None
        assert "switched off" in failure_of(owner.run("devices", "pair"))[1]
