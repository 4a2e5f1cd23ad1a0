"""A whole Silas with its web page, on a free port, in this process."""

import asyncio
import base64
import contextlib
import json
import secrets
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from websockets.asyncio.client import ClientConnection, connect

from silas.agents.models.detection import LocalServer
from silas.app.core import Core, Machine, open_core
from silas.app.runtime import Runtime
from silas.app.setup import set_up
from silas.app.web import WebFront
from silas.approval import PublicKey, message_bytes
from silas.approval.devices import Attached
from silas.kernel import SystemClock, canonical_bytes, format_timestamp
from silas.secrets import create_vault
from silas.settings.load import load_settings
from silas.testing.fakes import with_schema
from silas.web.access import request_bytes
from silas.web.front import Front
from tests.cli.machine import free_port
from tests.secrets.files import FAST_N, PASSPHRASE

_LONGEST_WAIT = 120


@dataclass(frozen=True)
class Place:
    """What a test needs to get at."""

    web: WebFront
    core: Core
    house: Runtime
    home: Path

    @property
    def address(self) -> str:
        return self.web.address

    @property
    def front(self) -> Front:
        assert self.web._front is not None
        return self.web._front

    def code(self) -> str:
        return self.web.link().partition("#pair=")[2]

    async def device(self, name: str = "A test") -> "TestDevice":
        device = TestDevice(self.address, name=name)
        answer = await device.pair(self.code())
        assert answer.status_code == 200, answer.text
        return device


def settings_for(directory: Path, environ: dict[str, str]) -> Any:
    return load_settings(
        data_dir=str(directory / "data"), config_file=None, environ=environ, cwd=directory
    )


def environ_for(directory: Path, **more: str) -> dict[str, str]:
    return {
        "HOME": str(directory / "home"),
        "SILAS_VAULT_PASSPHRASE": PASSPHRASE,
        "PYTHON_KEYRING_BACKEND": "keyring.backends.fail.Keyring",
        "SILAS_CHANNELS__WEB__PORT": str(free_port()),
        "SILAS_BACKPRESSURE__SHUTDOWN_GRACE_SECONDS": "1",
        **more,
    }


async def make_home(directory: Path, environ: dict[str, str]) -> None:
    (directory / "home").mkdir(exist_ok=True)
    data = directory / "data"
    data.mkdir(mode=0o700)
    create_vault(
        data / "vault.json", environ=environ, choice="passphrase", unsafe_scrypt_n_for_tests=FAST_N
    )
    for name, schema in (("silas", "runtime"), ("journal", "journal"), ("agent", "agent")):
        with_schema(data / f"{name}.db", schema)
    await set_up(settings_for(directory, environ), environ=environ, clock=SystemClock())
    # The first run has tests of its own; everybody else has been here before.
    (data / "first_run.json").write_text("{}")


@contextlib.asynccontextmanager
async def open_place(
    directory: Path,
    environ: dict[str, str],
    *,
    servers: Sequence[LocalServer] = (),
    machine: Machine | None = None,
) -> AsyncIterator[Place]:
    """Silas, running; the same directory opened again is the same Silas after a restart."""
    if not (directory / "data").exists():
        await make_home(directory, environ)
    loaded = settings_for(directory, environ)
    web = WebFront(
        SystemClock(),
        environ=environ,
        home=Path(environ["HOME"]),
        reload=lambda: settings_for(directory, environ),
        servers=servers,
    )
    async with open_core(loaded, environ=environ, machine=machine) as core, web.open(core) as house:
        yield Place(web, core, house, Path(environ["HOME"]))


def http_client(address: str) -> httpx.AsyncClient:
    """Ask a Silas of this machine: without TLS, whose certificates take long to load."""
    return httpx.AsyncClient(base_url=address, timeout=_LONGEST_WAIT, verify=False, trust_env=False)


@dataclass
class TestDevice:
    """A device that is not a browser: the same key, the same bytes."""

    __test__ = False

    address: str
    name: str = "A test"
    private: Ed25519PrivateKey = field(default_factory=Ed25519PrivateKey.generate)
    cookie: str | None = None

    @property
    def public_key(self) -> str:
        return self.private.public_key().public_bytes_raw().hex()

    @property
    def device_id(self) -> str:
        return PublicKey.from_hex(self.public_key).key_id

    def sign(self, payload: bytes) -> str:
        return base64.b64encode(self.private.sign(payload)).decode()

    async def post(self, path: str, body: Any, **headers: str) -> httpx.Response:
        content = json.dumps(body).encode()
        given = {"Origin": self.address, "Content-Type": "application/json", **headers}
        async with http_client(self.address) as client:
            return await client.post(path, content=content, headers=given)

    async def get(self, path: str, **headers: str) -> httpx.Response:
        given = {"Cookie": f"silas_session={self.cookie}"} if self.cookie else {}
        async with http_client(self.address) as client:
            return await client.get(path, headers={**given, **headers})

    async def signed_post(self, path: str, body: Any, **headers: str) -> httpx.Response:
        at, nonce = format_timestamp(SystemClock().now()), secrets.token_hex(8)
        payload = request_bytes(
            method="POST", path=path, body=json.dumps(body).encode(), timestamp=at, nonce=nonce
        )
        given = {
            "Cookie": f"silas_session={self.cookie}",
            "Silas-Timestamp": at,
            "Silas-Nonce": nonce,
            "Silas-Signature": self.sign(payload),
        }
        return await self.post(path, body, **{**given, **headers})

    async def pair(self, code: str, **changes: Any) -> httpx.Response:
        proof = {
            "type": "pair",
            "code": code,
            "public_key": self.public_key,
            "name": self.name,
            "origin": self.address,
        }
        body = {
            "code": code,
            "public_key": self.public_key,
            "name": self.name,
            "signature": self.sign(canonical_bytes(proof)),
            **changes,
        }
        return await self.post("/api/pair", body)

    @contextlib.asynccontextmanager
    async def conversation(self, **position: int) -> AsyncIterator["Line"]:
        """An open socket that was let in."""
        async with self.socket() as socket:
            line = Line(self, socket)
            await line.enter(**position)
            yield line

    @contextlib.asynccontextmanager
    async def socket(self, origin: str | None = "") -> AsyncIterator[ClientConnection]:
        sent = self.address if origin == "" else origin
        address = f"{self.address.replace('http', 'ws')}/ws"
        more: Any = {"origin": sent, "proxy": None, "open_timeout": _LONGEST_WAIT}
        # With frames that nobody has read, closing would wait ten seconds for the last one.
        more["max_queue"] = None
        async with connect(address, **more) as socket:
            yield socket

    def auth(self, challenge: str) -> dict[str, Any]:
        proof = {
            "type": "auth",
            "challenge": challenge,
            "device_id": self.device_id,
            "origin": self.address,
        }
        signature = self.sign(canonical_bytes(proof))
        return {"type": "auth", "device_id": self.device_id, "signature": signature}


@dataclass
class Line:
    """One conversation of a device's."""

    device: TestDevice
    socket: ClientConnection
    heard: list[dict[str, Any]] = field(default_factory=list)
    unread: list[dict[str, Any]] = field(default_factory=list)

    async def enter(self, **position: int) -> None:
        hello = json.loads(await self.socket.recv())
        assert hello["type"] == "hello"
        await self.send({**self.device.auth(hello["challenge"]), **position})
        ready = await self.until("ready")
        answer = await self.device.post("/api/session", {"ticket": ready["ticket"]})
        self.device.cookie = answer.cookies["silas_session"]

    async def send(self, frame: dict[str, Any]) -> None:
        await self.socket.send(json.dumps(frame))

    async def until(self, kind: str, /, **wanted: Any) -> dict[str, Any]:
        """The first frame of this kind with these fields that nobody has waited for yet."""

        def fits(frame: dict[str, Any]) -> bool:
            return frame["type"] == kind and wanted.items() <= frame.items()

        for frame in self.unread:
            if fits(frame):
                self.unread.remove(frame)
                return frame
        async with asyncio.timeout(_LONGEST_WAIT):
            while True:
                frame = json.loads(await self.socket.recv())
                self.heard.append(frame)
                if fits(frame):
                    return frame
                self.unread.append(frame)

    def message(
        self,
        text: str,
        files: Sequence[Mapping[str, Any]] = (),
        *,
        conversation: str | None = None,
        **changes: Any,
    ) -> dict[str, Any]:
        now, nonce = SystemClock().now(), secrets.token_hex(8)
        named = [{"sha256": each["sha256"], "name": each["name"]} for each in files]
        payload = message_bytes(
            text=text,
            timestamp=now,
            nonce=nonce,
            conversation=conversation,
            attachments=[Attached.model_validate(each) for each in named],
        )
        signature = self.device.sign(payload)
        where = {"conversation": conversation} if conversation else {}
        return {
            **where,
            "type": "message",
            "text": text,
            "message_id": f"msg_{secrets.token_hex(8)}",
            "timestamp": format_timestamp(now),
            "nonce": nonce,
            "signature": signature,
            **({"attachments": named} if named else {}),
            **changes,
        }

    async def say(self, text: str, *, conversation: str | None = None) -> dict[str, Any]:
        frame = self.message(text, conversation=conversation)
        await self.send(frame)
        await self.until("accepted", message_id=frame["message_id"])
        return frame

    def decision(self, card: dict[str, Any], verdict: str, *, changes: str = "") -> dict[str, Any]:
        strength = strength_of(card, verdict)
        conditions = {"changes": changes} if changes else {}
        said = {
            "type": "card_decision",
            "card_id": card["request_id"],
            "plan_hashes": {item["id"]: item["plan_hash"] for item in card["items"]},
            "risk": card["risk_level"],
            "taint": card["taint"],
            "decision": {
                "verdict": verdict,
                "approval_strength": strength,
                "conditions": conditions,
            },
        }
        return {
            **({"changes": changes} if changes else {}),
            "type": "approval_response",
            "request_id": card["request_id"],
            "verdict": verdict,
            "strength": strength,
            "signature": self.device.sign(canonical_bytes(said)),
        }


def strength_of(card: dict[str, Any], verdict: str) -> str:
    """What a page says that was done for a decision: the steps that the card asks for."""
    steps = card["steps"] if verdict == "approved" else ()
    if "strong_auth" in steps:
        return "passkey"
    return "slide" if "slide" in steps else "tap"
