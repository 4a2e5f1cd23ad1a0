"""The documentation of gates: its example is a gate that loads, and it names what there is."""

import re
from pathlib import Path

from silas.gates import ALLOWED_MUTATIONS, GateAction, GateProvider, GateType
from silas.gates.escalation import BUILT_IN_ESCALATIONS
from silas.gates.providers import PredicateProvider
from silas.gates.providers.builtin import BUILT_IN_CHECKS
from silas.gates.risk import RiskLevel
from silas.gates.runner import load_gates
from silas.review import PROOF_FOR
from silas.work import parse

TEXT = (Path(__file__).parents[2] / "docs" / "gates.md").read_text("utf-8")
NAMED = set(re.findall(r"`([a-z_]+)`", TEXT))


async def test_the_example_is_a_gate_whose_examples_hold() -> None:
    (example,) = re.findall(r"```yaml\n(.*?)```", TEXT, re.DOTALL)
    gates = parse(f"---\nid: a\ntype: task\ntitle: T\ngates:\n{example}---\nGo.").gates
    assert await load_gates(gates, {"predicate": PredicateProvider()}) == tuple(gates)


def test_everything_is_named() -> None:
    words = {*GateProvider, *GateAction, *(set(GateType) - {GateType.CUSTOM_CHECK})}
    assert {word.value for word in words} - NAMED == set()
    assert ALLOWED_MUTATIONS <= NAMED
    assert set(BUILT_IN_CHECKS) - NAMED == set()
    assert set(BUILT_IN_ESCALATIONS) - NAMED == set()


def test_the_table_of_risks_is_the_one_in_the_code() -> None:
    names = {"strong_auth": "strong authentication"}
    for level in RiskLevel:
        asked = PROOF_FOR[level]
        steps = ", ".join(names.get(step, step) for step in asked.steps)
        details = "open" if asked.details_expanded else "closed"
        assert f"| `{level.value}` | {steps} | {details} |" in TEXT
