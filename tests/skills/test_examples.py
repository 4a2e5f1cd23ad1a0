"""The example plans, as they are, with their skills: installed by a card, against stand-ins.

The services answer on loopback, through the real egress proxy and sandbox; gates, envelopes and
checks are the plans' own. `support-chatbot.md` runs in tests/web/test_visitors_with_skill.py.
"""

import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from silas.app.core import Machine
from silas.app.skills import accept_bundled
from silas.sandbox.bubblewrap import BubblewrapBackend
from silas.testing.work import FakeApprover, FakeWorker
from silas.work import WorkItemStatus
from tests.egress.loopback import PretendInternetOnLoopback
from tests.skills.place import SkillPlace, open_place
from tests.skills.standins import FUND, Broker, Ops, Site, serving

PLANS = Path(__file__).parents[2] / "plans"
DIGEST = "sha256:" + "1" * 64


@asynccontextmanager
async def place_with(root: Path, services: dict[str, Any]) -> AsyncIterator[SkillPlace]:
    answers = {host: service.answer for host, service in services.items()}
    async with serving(answers) as port:
        sandbox = BubblewrapBackend(way_out=PretendInternetOnLoopback(port))
        async with open_place(root, machine=Machine(sandbox=sandbox)) as place:
            yield place


def example(name: str) -> str:
    return (PLANS / f"{name}.md").read_text()


def website(ops: Ops) -> dict[str, Any]:
    return {
        "ops.example.org": ops,
        "staging.example.org": Site(ops, "staging"),
        "www.example.org": Site(ops, "production"),
    }


async def test_the_bug_fix_repairs_the_project_that_ships_with_it(tmp_path: Path) -> None:
    shutil.copytree(PLANS / "slugify", tmp_path / "slugify")
    async with place_with(tmp_path, {}) as place:
        result = await place.run_plan(example("bug-fix"))
    assert (result.status, result.last_error) == (WorkItemStatus.DONE, None)
    assert '"ß": "ss"' in (tmp_path / "slugify" / "src" / "slugify.py").read_text()


async def test_the_trade_buys_within_its_envelope_at_the_quoted_price(tmp_path: Path) -> None:
    broker = Broker()
    seen: list[bool] = []

    async def work(_briefing: Any, tools: Any) -> None:
        order = {"isin": FUND, "side": "buy", "amount_eur": 50, "order_type": "limit"}
        quoted = {**order, "limit_price": broker.price}
        for tool, args in (
            ("place_order", quoted),  # its price comes from no quote yet
            ("get_quote", {"isin": "US0000000000"}),  # another security
            ("get_quote", {"isin": FUND}),
            ("get_positions", {}),
            ("place_order", {**quoted, "amount_eur": 600}),
            ("place_order", {**quoted, "limit_price": 80}),
            *[("place_order", quoted)] * 5,
        ):
            seen.append((await tools.call(tool, args)).success)

    async with place_with(tmp_path, {"api.broker.example": broker}) as place:
        await place.install(PLANS / "skills" / "broker")
        assert broker.orders == [], "the trial reaches nobody"
        result = await place.run_plan(example("trade"), agent=FakeWorker(work))
    assert seen == [False, False, True, True, False, False, True, True, True, True, True]
    assert (result.status, result.last_error) == (WorkItemStatus.DONE, None)
    assert [each["amount_eur"] for each in broker.orders] == [50] * 5
    assert broker.held == 5_950


async def test_a_trade_that_says_it_is_done_and_bought_nothing_is_not_done(tmp_path: Path) -> None:
    async def work(_briefing: Any, tools: Any) -> None:
        await tools.call("get_quote", {"isin": FUND})

    async with place_with(tmp_path, {"api.broker.example": Broker()}) as place:
        await place.install(PLANS / "skills" / "broker")
        result = await place.run_plan(example("trade"), agent=FakeWorker(work))
    assert result.status is WorkItemStatus.STUCK


@pytest.mark.parametrize("unit", ["web.service", "database.service"])
async def test_the_monitor_restarts_what_its_envelope_names_and_nothing_else(
    tmp_path: Path, unit: str
) -> None:
    ops = Ops({}, units={"web.service": False})

    async def work(_briefing: Any, tools: Any) -> None:
        await tools.call("restart_unit", {"unit": unit})

    async with place_with(tmp_path, website(ops)) as place:
        await place.install(PLANS / "skills" / "ops")
        worker = FakeWorker(work)
        result = await place.run_plan(example("health-monitor"), agent=worker)
    assert "the site answers" in worker.briefings[0].instructions
    if unit == "web.service":
        assert (result.status, result.last_error) == (WorkItemStatus.HEALTHY, None)
        assert ops.asked == [("/restart", {"unit": "web.service"})]
    else:
        assert ops.asked == []
        assert result.status is not WorkItemStatus.HEALTHY


@pytest.mark.parametrize("honest", [True, False])
async def test_the_deployment_goes_step_by_step_and_production_asks(
    tmp_path: Path, honest: bool
) -> None:
    shutil.copytree(PLANS / "website", tmp_path / "website")
    ops = Ops({DIGEST: "2.4.0"}, running={})

    async def work(briefing: Any, tools: Any) -> None:
        step = briefing.work_item_id.removeprefix("deploy-2-4-0-")
        if step == "build":
            content = f"{DIGEST}\n"
            await tools.call("write_file", {"path": "dist/digest.txt", "content": content})
        elif step in ("staging", "production"):
            read = await tools.call("read_file", {"path": "dist/digest.txt"})
            found = DIGEST if honest or step == "staging" else "sha256:" + "2" * 64
            assert DIGEST in read.return_value
            await tools.call("deploy", {"environment": step, "digest": found})

    async with place_with(tmp_path, website(ops)) as place:
        await place.install(PLANS / "skills" / "ops")
        await accept_bundled(place.core)
        approver = FakeApprover()
        result = await place.run_plan(
            example("deployment"), agent=FakeWorker(work), approver=approver
        )
    asked = [each.args["environment"] for each in approver.calls]
    if honest:
        # Its first two tasks look at what is there: nothing can show that they were done.
        assert (result.status, result.last_error) == (WorkItemStatus.UNCHECKED, None)
        assert all(each.passed for each in result.verification_results)
        assert asked == ["production"]
        assert ops.running == {"staging": DIGEST, "production": DIGEST}
    else:
        assert result.status is WorkItemStatus.FAILED
        assert ops.running == {"staging": DIGEST}
