"""A Silas with a shop's chat: the goal is in force, its tools stand in, its proxy is scripted."""

import contextlib
import json
import re
import shutil
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx

from silas.app.core import Machine
from silas.stream.models import AgentTurn, RouteDecision
from silas.testing.shop import shop_tools
from silas.testing.stream import FakeProxy, direct, to_planner
from silas.work.ports import ToolCaller
from tests.web.place import Place, environ_for, http_client, open_place

PLANS = Path(__file__).parents[2] / "plans"
ANNA = {"order_id": "SH-20260001", "email": "anna@example.org"}
BEN = {"order_id": "SH-20260002", "email": "ben@example.org"}
_ORDER = re.compile(r"(SH-\d{8})\s+(\S+@[\w.]*\w)")


@dataclass
class Shop:
    """The place, and what its proxy was told."""

    place: Place
    proxy: FakeProxy
    directory: Path
    heard: list[tuple[str, tuple[str, ...]]] = field(default_factory=list)

    @property
    def address(self) -> str:
        return self.place.address

    async def invite(self, **more: Any) -> dict[str, Any]:
        return await self.place.front.visits.invite("Web shop", **more)

    async def visitor(self, link: dict[str, Any] | None = None) -> "Visitor":
        made = link or await self.invite()
        return await Visitor.entered(self.address, made["secret"])

    def refunds(self) -> list[dict[str, Any]]:
        path = self.directory / "refunds.jsonl"
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


@dataclass
class Visitor:
    """A program that talks to Silas with a link."""

    address: str
    secret: str
    after: int = 0

    @classmethod
    async def entered(cls, address: str, link: str) -> "Visitor":
        answer = await call(address, "POST", "/visit/connections", link, {})
        assert answer.status_code == 200, answer.text
        return cls(address, answer.json()["secret"])

    async def post(self, text: str, key: str | None = None) -> httpx.Response:
        body = {"text": text, "key": key or text}
        return await call(self.address, "POST", "/visit/messages", self.secret, body)

    async def hear(self) -> list[dict[str, str]]:
        answer = await call(self.address, "GET", f"/visit/messages/{self.after}", self.secret)
        assert answer.status_code == 200, answer.text
        self.after = answer.json()["after"]
        return list(answer.json()["lines"])

    async def until(self, text: str) -> dict[str, str]:
        """The next line that contains this."""
        while True:
            for line in await self.hear():
                if text in line["text"]:
                    return line

    async def say(self, text: str) -> str:
        assert (await self.post(text)).status_code == 202
        return (await self.until(""))["text"]


async def call(
    address: str, method: str, path: str, secret: str | None, body: Any = None, **headers: str
) -> httpx.Response:
    given = {"Origin": address, "Content-Type": "application/json", **headers}
    if secret is not None:
        given["Authorization"] = f"Bearer {secret}"
    async with http_client(address) as client:
        content = None if body is None else json.dumps(body).encode()
        return await client.request(method, path, content=content, headers=given)


async def clerk(turn: AgentTurn, tools: ToolCaller) -> RouteDecision:
    """What a model would do: verify, look, ask for a refund; and a few things it should not."""
    said = turn.request
    found = _ORDER.search(said)
    order = {"order_id": found[1], "email": found[2]} if found else {}
    if "plan" in said:
        return to_planner()
    if "tools" in said:
        return direct(f"{turn.access_level}: {', '.join(sorted(tools.names))}")
    if "record" in said:
        return direct(f"customer: {turn.customer}; context: {turn.context}")
    if "help" in said:
        return direct((await tools.call("search_help", {"query": said})).return_value)
    if "hours" in said:
        view = await tools.call("opening_hours", {})
        return direct(view.return_value or view.error or "")
    if order and "order_status" not in tools.names:
        await tools.call("verify_order", order)
        return direct("I looked at the order.")
    if "refund" in said and order:
        wish = {**order, "refund_eur": float(said.split("refund")[1].split()[0])}
        view = await tools.call("request_refund", wish)
        return direct(view.return_value or view.error or "")
    if order:
        view = await tools.call("order_status", order)
        return direct(view.return_value or view.error or "")
    return direct(f"You said: {said.splitlines()[-1].strip()}")


@contextlib.asynccontextmanager
async def open_shop(
    directory: Path, *, goal: str | None = None, machine: Machine | None = None
) -> AsyncIterator[Shop]:
    """The whole server, with the goal of `plans/support-chatbot.md` in force.

    Unless the machine is another one, a shop of files has its tools.
    """
    chat = directory / "chat.md"
    text = (PLANS / "support-chatbot.md").read_text()
    stands_in = text.replace("skills: [shop]\n", "")
    chat.write_text(goal or (stands_in if machine is None else text))
    shop = directory / "shop"
    shop.mkdir(exist_ok=True)
    orders = {ANNA["order_id"]: {"status": "On its way."}, BEN["order_id"]: {"status": "Packed."}}
    (shop / "orders.json").write_text(json.dumps(orders))
    environ = environ_for(directory, SILAS_ACTIVE_GOAL=str(chat))
    usual = Machine(tools=shop_tools(shop))
    async with open_place(directory, environ, machine=machine or usual) as place:
        gates = place.core.paths.gates
        gates.mkdir(mode=0o700, exist_ok=True)
        for name in ("verify_order.sh", "orders.txt"):
            shutil.copy(PLANS / "shop" / name, gates / name)
        proxy = FakeProxy(clerk)
        room = place.house.stream.turns
        object.__setattr__(room, "proxy", proxy)
        object.__setattr__(room, "proxy_hears_context", True)
        yield Shop(place, proxy, shop)
