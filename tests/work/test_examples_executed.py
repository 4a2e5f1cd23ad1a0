"""The example plans, executed: as they are where that is possible, else with local checks."""

from pathlib import Path

import pytest

from silas.approval import ApprovalScope
from silas.gates import GateAction
from silas.testing.work import FakeGateRunner, FakeSkills, FakeWorker
from silas.work import Plan, WorkItem, WorkItemStatus, decode_plan, parse_plan
from silas.work.binding import bind
from tests.work.shop import OFF_LIMITS, Shop, calls, check, shell

PLANS = Path(__file__).parents[2] / "plans"
SKILLS = FakeSkills(dict.fromkeys(("coding", "ops", "broker", "shop"), "Do it well."))
SLUGIFY = """import re

def slugify(text):
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")
"""
TEST = """import sys, unittest
sys.path.insert(0, "src")
from slugify import slugify

class TestSlugify(unittest.TestCase):
    def test_umlauts(self):
        self.assertEqual(slugify("Größe"), "groesse")
        self.assertEqual(slugify("Ä b"), "ae-b")

unittest.main()
"""
REPAIR = """import re

NAMES = str.maketrans({"ä": "ae", "ö": "oe", "ü": "ue", "ß": "ss"})

def slugify(text):
    return re.sub(r"[^a-z0-9]+", "-", text.lower().translate(NAMES)).strip("-")
"""


def example(name: str) -> Plan:
    return parse_plan(decode_plan((PLANS / f"{name}.md").read_bytes()), known=())


def changed(item: WorkItem, **fields: object) -> WorkItem:
    return WorkItem.model_validate({**item.model_dump(), **fields})


@pytest.fixture
def project(tmp_path: Path) -> Path:
    path = tmp_path / "slugify"
    (path / "src").mkdir(parents=True)
    (path / "tests").mkdir()
    (path / "src" / "slugify.py").write_text(SLUGIFY)
    (path / "tests" / "test_slugify.py").write_text(TEST)
    return path


@pytest.mark.parametrize("honest", [True, False])
async def test_the_bug_fix(shop: Shop, project: Path, honest: bool) -> None:
    """The sandbox's Python has no pytest; unittest decides here."""
    run = "python3 tests/test_slugify.py"
    item = changed(
        example("bug-fix").root,
        workspace={"path": "slugify", "changes": {"change": ["src/slugify.py"]}},
        verify=[check(run, name="the failing test passes")],
    )
    path, content = ("src/slugify.py", REPAIR) if honest else ("tests/test_slugify.py", "")
    worker = FakeWorker(calls(("write_file", {"path": path, "content": content})))
    result = await shop.having(skills=SKILLS).run(item, worker)
    assert result.status is (WorkItemStatus.DONE if honest else WorkItemStatus.STUCK)
    assert (project / "tests" / "test_slugify.py").read_text() == TEST
    assert (project / "src" / "slugify.py").read_text() == (REPAIR if honest else SLUGIFY)


async def test_the_trade_stops_where_nobody_evaluates_its_gates(shop: Shop) -> None:
    worker = FakeWorker(calls(("place_order", {"amount_eur": 40}), shell("true")))
    item = changed(example("trade").root, budget={"max_attempts": 1})
    result = await shop.having(skills=SKILLS).run(item, worker)
    assert result.status is WorkItemStatus.STUCK
    assert await shop.bench.ledger.entries(item.id, 1) == []


async def test_the_health_monitor_repairs(shop: Shop, tmp_path: Path) -> None:
    site = tmp_path / "site"
    site.mkdir()
    goal = example("health-monitor").root
    item = changed(
        goal,
        workspace={"path": "site", "changes": {"add": ["state"]}},
        verify=[check("cat state", name="up", equals="up\n")],
    )
    worker = FakeWorker(calls(("write_file", {"path": "state", "content": "up\n"})))
    gates = FakeGateRunner({"restart_only_web": GateAction.CONTINUE})
    shop.having(skills=SKILLS, agent=worker, gates=gates)
    bound = await bind(item, base=tmp_path, off_limits=OFF_LIMITS, skills=SKILLS)
    approved = await shop.approve(await shop.bench.items.save(bound), ApprovalScope.STANDING)
    assert (await shop.execute(approved)).status is WorkItemStatus.HEALTHY
    assert "up: equals: not as expected" in worker.briefings[0].instructions
    assert (site / "state").read_text() == "up\n"


async def test_the_chatbot_is_for_the_conversation(shop: Shop) -> None:
    bound = await bind(
        example("support-chatbot").root, base=shop.root, off_limits=OFF_LIMITS, skills=SKILLS
    )
    approved = await shop.approve(await shop.bench.items.save(bound), ApprovalScope.STANDING)
    result = await shop.execute(approved)
    assert result.status is WorkItemStatus.BLOCKED


async def test_the_deployment_goes_step_by_step(shop: Shop) -> None:
    plan = example("deployment")
    digest = "sha256:" + "0" * 64
    local = {
        "deploy-2-4-0-build": check("cat dist/digest.txt", regex="^sha256:[0-9a-f]{64}$"),
        "deploy-2-4-0-staging": check("grep -q sha256 deployed.txt", name="deployed"),
    }
    tasks = [
        changed(
            task,
            workspace=None,
            verify=[local.get(task.id, check("true"))],
            budget={"max_attempts": 1},
        )
        for task in plan.tasks
    ]
    root = changed(plan.root, workspace=None, verify=[check("test -f dist/digest.txt")])
    whole = Plan(root, tuple(tasks))
    make = ("write_file", {"path": "dist/digest.txt", "content": f"{digest}\n"})

    async def work(briefing, tools) -> None:
        build = briefing.work_item_id.endswith("build")
        await tools.call(*(make if build else shell("true")))
        if briefing.work_item_id.endswith("staging"):
            await tools.call(*shell("cp", "dist/digest.txt", "deployed.txt"))

    gates = FakeGateRunner({"production_needs_a_person": GateAction.CONTINUE})
    shop.having(skills=SKILLS, agent=FakeWorker(work), gates=gates)
    root, *_ = await shop.approve_plan(whole)
    result = await shop.execute(root)
    assert (result.status, result.last_error) == (WorkItemStatus.DONE, None)
    order = [name for name, data in shop.audit.entries if name == "work_done"]
    assert len(order) == 5
    asked = {context["tool_name"] for _, context in gates.asked}
    assert asked == {"shell_exec", "write_file"}
