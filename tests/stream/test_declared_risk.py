"""Plans and calls are as risky as their tools declare, whatever the tools are named."""

import ast
import re
from pathlib import Path

import pytest

import silas
from silas.gates import ActionEnvelope
from silas.gates.risk import ActionKind, DeclaredEffect, Reversibility, RiskLevel
from silas.kernel import TaintLevel
from silas.kernel.models import Data
from silas.testing.work import DESTROYS, LOOKS, SENDS, declaring
from silas.tools.declaration import Tool, ToolRegistry
from silas.tools.execution import ExecutionEnvelope, ExecutionResult
from silas.work.authorisation import call_risk, plan_risk
from silas.work.models import WorkItem
from silas.work.plan import parse
from silas.work.ports import PausedCall

FINAL, HIGH = RiskLevel.IRREVERSIBLE, RiskLevel.HIGH
PAYS = DeclaredEffect(action=ActionKind.CHANGE, reversibility=Reversibility.IRREVERSIBLE)
DECLARED = declaring(
    read_everything=DESTROYS,
    delete_nothing=LOOKS,
    transfer_money=PAYS,
    send_all=SENDS,
)


class NeverCalled:
    async def execute(self, envelope: ExecutionEnvelope) -> ExecutionResult:
        raise NotImplementedError


def letting_out(*tools: str) -> WorkItem:
    item = parse("---\nid: one\ntype: task\ntitle: One\n---\nDo it.\n")
    return item.model_copy(update={"approvals": [ActionEnvelope(tool=each) for each in tools]})


def call_of(tool: str) -> PausedCall:
    return PausedCall(
        work_item_id="one",
        attempt=1,
        tool=tool,
        args={},
        reasons=[],
        taint=TaintLevel.OWNER,
        taint_sources=[],
    )


@pytest.mark.parametrize(
    ("tools", "risk"),
    [
        ((), RiskLevel.MEDIUM),
        (("read_everything",), FINAL),
        (("delete_nothing",), HIGH),
        (("transfer_money",), FINAL),
        (("send_all",), HIGH),
        (("delete_nothing", "read_everything"), FINAL),
        (("nobody_knows_it",), FINAL),
        (("READ_EVERYTHING",), FINAL),
        (("delete_nothing ",), FINAL),
    ],
)
def test_a_plan_is_as_risky_as_what_it_lets_out(tools: tuple[str, ...], risk: RiskLevel) -> None:
    item = letting_out()
    envelopes = [ActionEnvelope.model_construct(tool=each, constraints={}) for each in tools]
    item = item.model_copy(update={"approvals": envelopes})
    assert plan_risk(item, TaintLevel.OWNER, DECLARED) is risk


@pytest.mark.parametrize(
    ("tool", "risk"),
    [
        ("read_everything", FINAL),
        ("delete_nothing", RiskLevel.LOW),
        ("transfer_money", FINAL),
        ("send_all", RiskLevel.MEDIUM),
        ("nobody_knows_it", FINAL),
        ("", FINAL),
    ],
)
def test_a_call_is_as_risky_as_its_tool_declares(tool: str, risk: RiskLevel) -> None:
    assert call_risk(call_of(tool), DECLARED) is risk


def test_a_goal_is_no_less_risky_for_its_envelopes() -> None:
    goal = letting_out("nobody_knows_it").model_copy(update={"type": "goal"})
    assert plan_risk(goal, TaintLevel.OWNER, DECLARED) is FINAL


def test_a_registry_hands_out_what_its_tools_declare() -> None:
    registry = ToolRegistry(
        [Tool("read_everything", Data, NeverCalled(), contained=False, effect=DESTROYS)]
    )
    assert registry.effect_of("read_everything") == DESTROYS
    assert registry.effect_of("read_everything2") is None


def test_no_tool_comes_without_a_declaration() -> None:
    with pytest.raises(TypeError, match="effect"):
        Tool("x", Data, NeverCalled(), contained=False)  # type: ignore[call-arg]


@pytest.mark.parametrize(
    ("effect", "contained", "changes"),
    [(LOOKS, False, False), (SENDS, False, True), (DESTROYS, False, True), (DESTROYS, True, False)],
)
def test_whether_the_outside_changes_follows_from_the_declaration(
    effect: DeclaredEffect, *, contained: bool, changes: bool
) -> None:
    tool = Tool("get_x", Data, NeverCalled(), contained=contained, effect=effect)
    assert (tool.changes_state, tool.offer.changes_state) == (changes, changes)


def test_no_code_reads_a_meaning_out_of_a_tools_name() -> None:
    """Verbs as text beside a tool's name are how the guess was made before."""
    guessed = re.compile(r"(delete|destroy|erase|purge|revoke|wipe|truncate)")
    found = []
    for path in Path(silas.__file__).parent.glob("gates/*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                words = node.value.split()
                found += [path.name for word in words if len(words) == 1 and guessed.match(word)]
    assert sorted(set(found)) == ["risk.py"], "the ladder's own kinds, and nothing else"
