"""The documentation of plans names every key, and its examples are plans."""

import re
from pathlib import Path

from silas.gates import ActionEnvelope, ArgumentConstraint, Expectation, Gate, GateType
from silas.gates.models import AccessLevel, GateProvider, GateTrigger
from silas.work import Budget, EscalationAction, VerificationCheck, WorkItem, parse, parse_plan
from silas.work.effects import DeclaredChanges, Workspace

TEXT = (Path(__file__).parents[2] / "docs" / "plans.md").read_text("utf-8")
NAMED = set(re.findall(r"`([a-z_]+)`", TEXT))


def test_every_key_is_documented() -> None:
    models = [
        WorkItem,
        Budget,
        VerificationCheck,
        Expectation,
        Gate,
        EscalationAction,
        AccessLevel,
        ArgumentConstraint,
        Workspace,
        DeclaredChanges,
    ]
    keys = {field.alias or name for model in models for name, field in model.model_fields.items()}
    assert keys - NAMED == set()
    assert set(ActionEnvelope.model_fields) - NAMED <= {"constraints"}


def test_every_word_of_a_gate_is_documented() -> None:
    words = {*GateType, *GateProvider, *GateTrigger}
    assert {word.value for word in words} - NAMED == set()


def test_the_examples_are_plans() -> None:
    (markdown,) = re.findall(r"```markdown\n(.*?)```", TEXT, re.DOTALL)
    assert parse(markdown).id == "fix-login"
    (tasks,) = re.findall(r"```yaml\n(.*?)```", TEXT, re.DOTALL)
    project = parse_plan(f"---\nid: p\ntype: project\ntitle: P\n{tasks}---\n")
    assert [task.id for task in project.tasks] == ["build", "deploy"]
