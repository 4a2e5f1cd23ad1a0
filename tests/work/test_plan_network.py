"""Plans with hosts to reach: what is hashed, how risky it is, and when the owner is asked."""

import pytest

from silas.approval import ApprovalVerdict
from silas.gates.risk import RiskLevel
from silas.kernel import TaintLevel
from silas.sandbox.bubblewrap import BubblewrapBackend
from silas.testing.work import FakeApprover, FakeWorker
from silas.tools import core_tools
from silas.tools.declaration import ToolRegistry
from silas.work import WorkItem
from silas.work.authorisation import plan_risk
from tests.egress.loopback import PretendInternetOnLoopback, web_server
from tests.work.shop import Shop, check, shell, task
from tests.work.test_toolcalls import Asking

HOSTS = {"network": ["example.org"]}
FETCH = ("shell_exec", {"argv": ["curl", "-fsS", "http://example.org/"]})
CODE = ("python_exec", {"code": "print('hi')"})


def test_hosts_are_part_of_what_is_approved() -> None:
    none, one = task(workspace={"env": {"A": "b"}}), task(workspace={"env": {"A": "b"}, **HOSTS})
    other = task(workspace={"env": {"A": "b"}, "network": ["example.com"]})
    assert len({none.plan_hash, one.plan_hash, other.plan_hash}) == 3
    assert b'"network":["example.org"]' in one.plan_bytes()


@pytest.mark.parametrize("taint", [TaintLevel.OWNER, TaintLevel.EXTERNAL])
def test_network_is_high_risk(taint: TaintLevel) -> None:
    for item in (
        task(workspace=HOSTS),
        task(verify=[{**check("true"), "network": ["example.org"]}]),
    ):
        assert plan_risk(item, taint, lambda _tool: None) is RiskLevel.HIGH
    assert plan_risk(task(), TaintLevel.OWNER, lambda _tool: None) is RiskLevel.MEDIUM


async def test_a_command_reaches_its_host_and_the_audit_log_says_so(shop: Shop) -> None:
    async with web_server() as served:
        sandbox = BubblewrapBackend(way_out=PretendInternetOnLoopback(served.port))
        shop.having(registry=ToolRegistry(core_tools(sandbox)))
        work = Asking(FETCH)
        await shop.run(task(workspace=HOSTS, budget={"max_attempts": 1}), FakeWorker(work))
    assert work.answers[0].return_value == "hello"
    (entry,) = await shop.bench.ledger.entries("t1", 1)
    assert entry.result is not None
    assert entry.result.metadata["network"][0]["host"] == "example.org:80"
    assert "network_used" in shop.audit.events()


@pytest.mark.parametrize("call", [FETCH, CODE], ids=["shell_exec", "python_exec"])
async def test_in_a_tainted_run_a_command_with_network_is_asked_about(shop: Shop, call) -> None:
    """It acts outside of the sandbox, whatever it is called; also with words of the plan."""
    approver = FakeApprover(ApprovalVerdict.DECLINED)
    shop.having(approver=approver, taint_of=_foreign)
    work = Asking(call)
    item = task(f"Run {call[1]}", workspace=HOSTS, budget={"max_attempts": 1})
    await shop.run(item, FakeWorker(work))
    assert [each.tool for each in approver.calls] == [call[0]]
    assert not work.answers[0].success
    assert not [each for each in await shop.bench.ledger.entries("t1", 1) if each.result]


async def test_in_a_tainted_run_a_command_without_network_is_contained(shop: Shop) -> None:
    shop.having(taint_of=_foreign)
    work = Asking(shell("true"))
    await shop.run(task(budget={"max_attempts": 1}), FakeWorker(work))
    assert work.answers[0].success


async def _foreign(_item: WorkItem) -> TaintLevel:
    return TaintLevel.EXTERNAL
