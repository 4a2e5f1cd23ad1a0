"""`silas devices`, and the page that `silas start` serves."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.cli.machine import Machine, failure_of, output_of
from tests.web.certificates import Authority
from tests.web.place import TestDevice
from tests.web.test_pairing import read_by_a_camera


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


def test_a_phone_is_shown_a_code(owner: Machine) -> None:
    owner.environ["SILAS_CHANNELS__WEB__PUBLIC_ORIGINS"] = '["https://silas.example.org"]'
    with serving(owner):
        lines = output_of(owner.run("devices", "pair")).splitlines()
    drawn = [line for line in lines if set(line) <= set(" ▀▄█")]
    halves = {" ": "00", "▀": "10", "▄": "01", "█": "11"}
    rows = ["".join(halves[each][half] for each in line) for line in drawn for half in (0, 1)]
    link = lines[-1]
    assert link.startswith("https://silas.example.org/#pair=")
    assert read_by_a_camera(rows) == link
    assert max(map(len, drawn)) <= 80


def test_without_an_address_for_phones_it_says_so(owner: Machine) -> None:
    with serving(owner):
        [here, missing] = output_of(owner.run("devices", "pair")).splitlines()
    assert "http://127.0.0.1:" in here
    assert "channels.web.public_origins" in missing


@pytest.mark.parametrize(("days", "status"), [(90, "ok"), (5, "warning"), (-1, "problem")])
def test_doctor_looks_at_the_certificate(
    owner: Machine, tmp_path: Path, days: int, status: str
) -> None:
    issued = Authority().issue(tmp_path, days=days)
    owner.environ |= {
        "SILAS_CHANNELS__WEB__TLS_CERTIFICATE": str(issued.chain),
        "SILAS_CHANNELS__WEB__TLS_KEY": str(issued.key),
        "SILAS_CHANNELS__WEB__PUBLIC_ORIGINS": '["https://silas.test:8420"]',
    }
    found = json.loads(owner.run("doctor", "--json").stdout)["findings"]
    [finding] = [each for each in found if each["topic"] == "certificate"]
    assert finding["status"] == status, finding


def test_a_certificate_that_cannot_be_used_stops_the_start(owner: Machine, tmp_path: Path) -> None:
    issued = Authority().issue(tmp_path)
    issued.key.chmod(0o644)
    owner.environ |= {
        "SILAS_CHANNELS__WEB__TLS_CERTIFICATE": str(issued.chain),
        "SILAS_CHANNELS__WEB__TLS_KEY": str(issued.key),
        "SILAS_CHANNELS__WEB__PUBLIC_ORIGINS": '["https://silas.test:8420"]',
    }
    code, told = failure_of(owner.run("start", "--no-browser"))
    assert code == 210
    assert "chmod o-rw" in told


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
