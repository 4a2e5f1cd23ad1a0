"""What a tool does not declare is the worst; its name says nothing."""

import pytest
from pydantic import BaseModel

from silas.approval import ApprovalScope
from silas.gates.risk import ActionKind, DeclaredEffect, Reversibility, RiskLevel, risk_of_tool
from silas.kernel import TaintLevel
from silas.testing.work import DESTROYS, LOOKS, SENDS
from silas.tools import (
    ArgumentsRefused,
    ExecutionEnvelope,
    ExecutionResult,
    ToolDeclaration,
    ToolRegistry,
    core_tools,
    restore_tool,
)

CHANGES = DeclaredEffect(action=ActionKind.CHANGE, reversibility=Reversibility.REVERSIBLE)
FINAL = RiskLevel.IRREVERSIBLE


class Nothing(BaseModel):
    """Takes no arguments."""


class NoSandbox:
    async def run(self, request: object, *, on_output: object = None) -> None:
        raise NotImplementedError


async def nothing_kept(directory: str, sha256: str) -> bytes | None:
    return None


class NeverCalled:
    async def execute(self, envelope: ExecutionEnvelope) -> ExecutionResult:
        raise NotImplementedError


def declared(
    name: str = "x", *, effect: DeclaredEffect | None, inverse: str | None = None
) -> ToolDeclaration:
    return ToolDeclaration(name, Nothing, contained=False, effect=effect, inverse=inverse)


def risk(registry: ToolRegistry[ToolDeclaration], name: str) -> RiskLevel:
    effect = registry.effect_of(name)
    return risk_of_tool(ApprovalScope.SINGLE_STEP, effect, taint=TaintLevel.OWNER)


@pytest.mark.parametrize("left_out", ["contained", "effect"])
def test_a_declaration_without_its_effect_or_its_place_cannot_be_made(left_out: str) -> None:
    said = {"contained": False, "effect": LOOKS}
    del said[left_out]
    with pytest.raises(TypeError, match=left_out):
        ToolDeclaration("x", Nothing, **said)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["read_it", "list_all", "get", "delete_nothing", ""])
def test_what_declares_no_effect_is_irreversible_whatever_its_name(name: str) -> None:
    registry = ToolRegistry([declared(name, effect=None)])
    assert risk(registry, name) is FINAL
    tool = registry.tools[name]
    assert tool.changes_state
    assert tool.offer.changes_state
    assert not tool.only_observes


def test_what_is_not_registered_is_irreversible() -> None:
    assert risk(ToolRegistry([declared("x", effect=LOOKS)]), "y") is FINAL


def test_a_name_neither_raises_nor_lowers_the_risk() -> None:
    names = ["read_only", "delete_everything", "x"]
    registry = ToolRegistry([declared(name, effect=SENDS) for name in names])
    assert {risk(registry, name) for name in names} == {RiskLevel.MEDIUM}


def test_nothing_is_called_reversible_without_its_inverse() -> None:
    with pytest.raises(ValueError, match="not by which tool"):
        declared(effect=CHANGES)
    assert declared(effect=LOOKS).only_observes
    assert declared(effect=CHANGES, inverse="undo_it").inverse == "undo_it"


def test_an_inverse_that_is_not_registered_undoes_nothing() -> None:
    change = declared("change_it", effect=CHANGES, inverse="undo_it")
    undo = declared("undo_it", effect=DESTROYS)
    assert risk(ToolRegistry([change]), "change_it") is FINAL
    assert risk(ToolRegistry([change, undo]), "change_it") is RiskLevel.MEDIUM


def test_no_tool_takes_the_name_of_another() -> None:
    with pytest.raises(ValueError, match="two tools"):
        ToolRegistry([declared("x", effect=DESTROYS), declared("x", effect=LOOKS)])


def test_every_tool_of_the_runtime_declares_itself() -> None:
    tools = [*core_tools(NoSandbox()), restore_tool(nothing_kept)]  # type: ignore[arg-type]
    registry = ToolRegistry(tools)
    for tool in registry.tools.values():
        assert tool.effect is not None
        assert registry.effect_of(tool.name) == tool.effect
        assert tool.contained
        assert tool.inverse is None or tool.inverse in registry.tools
    assert "restore_file" not in registry.names


def test_arguments_are_checked_against_the_schema_that_is_offered() -> None:
    tool = declared(effect=LOOKS)
    assert tool.offer.parameters == {"properties": {}, "type": "object"}
    assert tool.offer.description == "Takes no arguments."
    (shell, *_) = core_tools(NoSandbox())  # type: ignore[arg-type]
    with pytest.raises(ArgumentsRefused, match="not one string"):
        shell.check({"argv": "ls -l"})
