"""The example plans with the example skills: installed by a card, run against stand-ins on loopback."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from silas.app.core import Machine
from silas.sandbox.bubblewrap import BubblewrapBackend
from silas.testing.work import FakeWorker
from silas.work import WorkItemStatus
from tests.egress.loopback import PretendInternetOnLoopback
from tests.skills.place import SkillPlace, open_place

PLANS = Path(__file__).parents[2] / "plans"
DIGEST = "sha256:" + "0" * 64


class StandIn:
    """A service on loopback: answers every request with what was prepared for its path."""

    def __init__(self, answers: dict[str, Any]) -> None:
        self.answers = answers
        self.asked: list[tuple[str, Any]] = []
        self.port = 0

    async def handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        path = head.split()[1].partition("?")[0].removeprefix("http://")
        path = path[path.find("/") :]
        length = next(
            (
                int(line.partition(":")[2])
                for line in head.splitlines()
                if line.lower().startswith("content-length")
            ),
            0,
        )
        body = json.loads(await reader.readexactly(length)) if length else None
        self.asked.append((path, body))
        text = json.dumps(self.answers.get(path, {"ok": True})).encode()
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(text) + text)
        await writer.drain()
        writer.close()


@asynccontextmanager
async def standing_in(
    root: Path, answers: dict[str, Any]
) -> AsyncIterator[tuple[SkillPlace, StandIn]]:
    service = StandIn(answers)
    server = await asyncio.start_server(service.handle, "127.0.0.1", 0)
    service.port = server.sockets[0].getsockname()[1]
    sandbox = BubblewrapBackend(way_out=PretendInternetOnLoopback(service.port))
    async with server, open_place(root, machine=Machine(sandbox=sandbox)) as place:
        yield place, service


def front_matter(name: str, *, without: tuple[str, ...], more: str) -> str:
    """An example plan, with checks that need no network in place of its own."""
    import yaml

    _, front, body = (PLANS / f"{name}.md").read_text().split("---\n", 2)
    values = {key: value for key, value in yaml.safe_load(front).items() if key not in without}
    return f"---\n{yaml.safe_dump(values)}{more}\n---\n{body}"


async def test_the_trade_buys_within_its_envelope_at_the_quoted_price(tmp_path: Path) -> None:
    answers = {"/quote": {"price": 90.5, "age_seconds": 3}, "/orders": {"order_id": "o-1"}}
    async with standing_in(tmp_path, answers) as (place, service):
        await place.install(PLANS / "skills" / "broker")
        assert service.asked == [], "the trial reaches nobody"
        text = front_matter("trade", without=("gates", "verify"), more="without_proof: true")
        seen: list[Any] = []

        async def work(_briefing: Any, tools: Any) -> None:
            order = {
                "isin": "IE00B4L5Y983",
                "side": "buy",
                "amount_eur": 40,
                "order_type": "limit",
                "limit_price": 90.5,
            }
            for tool, args in (
                ("place_order", order),  # its price comes from no quote yet
                ("get_quote", {"isin": "US0000000000"}),  # another security
                ("get_quote", {"isin": "IE00B4L5Y983"}),
                ("place_order", {**order, "amount_eur": 400}),
                ("place_order", {**order, "limit_price": 80}),
                ("place_order", order),
            ):
                seen.append((await tools.call(tool, args)).success)

        result = await place.run_plan(text, agent=FakeWorker(work))
        assert seen == [False, False, True, False, False, True]
        assert result.status is WorkItemStatus.UNCHECKED
        assert [path for path, _ in service.asked] == ["/quote", "/orders"]
        assert service.asked[1][1]["amount_eur"] == 40


@pytest.mark.parametrize("unit", ["web.service", "database.service"])
async def test_the_monitor_restarts_what_its_envelope_names_and_nothing_else(
    tmp_path: Path, unit: str
) -> None:
    async with standing_in(tmp_path, {}) as (place, service):
        await place.install(PLANS / "skills" / "ops")
        text = front_matter(
            "health-monitor",
            without=("gates", "verify", "schedule", "type", "failure_context", "on_failure"),
            more="type: task\nwithout_proof: true",
        )

        async def work(_briefing: Any, tools: Any) -> None:
            await tools.call("restart_unit", {"unit": unit})

        result = await place.run_plan(text, agent=FakeWorker(work))
        asked = [body for _, body in service.asked]
        if unit == "web.service":
            assert result.status is WorkItemStatus.UNCHECKED
            assert asked == [{"unit": "web.service"}]
        else:
            assert asked == []
