"""What a tool declares, and what follows from it. Nothing is read out of a tool's name.

1. A tool declares its arguments, what it does to the world, whether that can be undone, which tool
   undoes it, and whether it is contained: it acts in the workspace and its sandbox alone.
2. A tool whose effect is not declared (`effect=None`) is as bad as any: it counts as destroying,
   and as irreversible (`silas.gates.risk.risk_of_tool`).
3. A tool is called reversible only if it names its inverse. One that only observes leaves nothing
   to undo. A declaration that breaks this rule cannot be made.
4. A tool that is not known to be contained acts outside of the sandbox.
5. A name belongs to one tool. A second tool with the same name is refused: it could take the place
   of a tool that the owner trusts.
6. An inverse that is not registered undoes nothing: such a tool counts as irreversible.
7. Tools of skills are registered for the work alone that names the skill (`with_tools`). What they
   declare is known everywhere (`declared`): the risk of a plan follows from it.

Tools of work, companions, skills, connections and tool servers are declared and registered here,
and nowhere else.
"""

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from types import MappingProxyType
from typing import Any, Generic, Protocol, TypeVar

from pydantic import BaseModel, ValidationError

from silas.gates.risk import ActionKind, DeclaredEffect, EffectOf, Reversibility
from silas.kernel.models import Data, problem_text
from silas.tools.execution import EphemeralExecutor

A = TypeVar("A", bound=BaseModel)

OBSERVES = DeclaredEffect(action=ActionKind.OBSERVE, reversibility=Reversibility.REVERSIBLE)
CHANGES = DeclaredEffect(action=ActionKind.CHANGE, reversibility=Reversibility.REVERSIBLE)


class ArgumentsRefused(ValueError):
    """The arguments do not fit the tool; the text says why, for the worker."""


def checked(model: type[A], args: Mapping[str, Any]) -> A:
    """The arguments as the tool's own type; raises `ArgumentsRefused` with every problem."""
    try:
        return model.model_validate(dict(args), strict=True)
    except ValidationError as error:
        problems = problem_text(error)
        raise ArgumentsRefused(problems or "these arguments do not fit") from error


class AccountUse(Protocol):
    """Which account of the owner's a tool uses, and what it needs there."""

    async def gate_context(self, args: Mapping[str, Any]) -> Mapping[str, Any]:
        """What the gate `connection_permission` looks at; raises `ArgumentsRefused`."""
        ...


class ToolOffer(Data):
    """One tool as a worker sees it: what it does, and which arguments it takes."""

    name: str
    description: str
    parameters: dict[str, Any]
    """The JSON schema of its arguments."""
    contained: bool
    """Whether it acts in the workspace and its sandbox, and nowhere else."""
    changes_state: bool
    """Whether the outside is different afterwards."""


@dataclass(frozen=True)
class ToolDeclaration:
    """One tool, as it is shown to a model and judged by the runtime."""

    name: str
    arguments: type[BaseModel]
    contained: bool = field(kw_only=True)
    effect: DeclaredEffect | None = field(kw_only=True)
    """What it does to the world, and whether that can be undone; None: nobody has said so."""
    inverse: str | None = field(default=None, kw_only=True)
    """The name of the tool that undoes what this one does."""
    stays_offline: bool = field(default=False, kw_only=True)
    """It reaches no host, also where the workspace has hosts to reach. A tool that does not say so
    is not contained there: a program that it runs may tell them anything it sees."""
    own_account: bool = field(default=False, kw_only=True)
    """It only looks into an account of the owner's: its arguments reach nobody else."""
    tells_more: bool = field(default=False, kw_only=True)
    """It reaches hosts and sees the workspace: what it tells them is not in its arguments alone."""
    made_once: bool = field(default=False, kw_only=True)
    """Nobody can look whether a call was made: one whose answer was lost is not made again."""
    offered: bool = field(default=True, kw_only=True)
    """False: it does not exist for a model. Only the script of an approved plan calls it."""
    description: str = field(default="", kw_only=True)
    """For a model: what it does, and one example. Empty: what its arguments say of themselves."""

    def __post_init__(self) -> None:
        claims = self.effect is not None and self.effect.reversibility is Reversibility.REVERSIBLE
        if claims and not self.only_observes and self.inverse is None:
            raise ValueError(f"{self.name} says that it can be undone, but not by which tool")

    @property
    def only_observes(self) -> bool:
        return self.effect is not None and self.effect.action is ActionKind.OBSERVE

    @property
    def changes_state(self) -> bool:
        """Whether the outside is different afterwards; a contained tool does not reach it."""
        return not self.contained and not self.only_observes

    @cached_property
    def offer(self) -> ToolOffer:
        """The tool as a worker sees it."""
        schema = _without_titles(self.arguments.model_json_schema())
        of_arguments = schema.pop("description", "")
        return ToolOffer(
            name=self.name,
            description=self.description or of_arguments,
            parameters=schema,
            contained=self.contained,
            changes_state=self.changes_state,
        )

    def is_contained(self, network: Sequence[str]) -> bool:
        """Whether it acts in the sandbox alone, in a workspace that reaches these hosts."""
        return self.contained and (self.stays_offline or not network)

    def check(self, args: Mapping[str, Any]) -> None:
        """Raise `ArgumentsRefused` unless the arguments fit."""
        checked(self.arguments, args)


@dataclass(frozen=True)
class Tool(ToolDeclaration):
    """A tool of work: its declaration, and what executes it."""

    executor: EphemeralExecutor
    account: AccountUse | None = field(default=None, kw_only=True)
    """It acts in an account of the owner's: the gate `connection_permission` looks at each call."""
    release: Callable[[], Awaitable[None]] | None = field(default=None, kw_only=True)
    """Ends what it keeps running for one piece of work. Called when that is over."""


D = TypeVar("D", bound=ToolDeclaration)


class ToolRegistry(Generic[D]):
    """Tools by their exact names (rules 5 and 6). What is not registered cannot be called."""

    def __init__(self, tools: Iterable[D], *, declared: EffectOf = lambda _name: None) -> None:
        found: dict[str, D] = {}
        self._declared = declared
        for tool in tools:
            if tool.name in found:
                raise ValueError(f"There are two tools with the name {tool.name}.")
            found[tool.name] = tool
        self.tools: Mapping[str, D] = MappingProxyType(found)

    def with_tools(self, more: Iterable[D]) -> "ToolRegistry[D]":
        """These tools, and more for one piece of work; raises `ValueError` by rule 5."""
        return ToolRegistry([*self.tools.values(), *more], declared=self._declared)

    @cached_property
    def offers(self) -> tuple[ToolOffer, ...]:
        """The tools as a worker sees them."""
        return tuple(tool.offer for tool in self.tools.values() if tool.offered)

    @property
    def names(self) -> tuple[str, ...]:
        """The tools that are offered."""
        return tuple(each.name for each in self.offers)

    def get(self, name: str) -> D | None:
        """The tool with exactly this name."""
        return self.tools.get(name)

    def effect_of(self, name: str) -> DeclaredEffect | None:
        """What the tool with exactly this name declares (`silas.gates.risk.EffectOf`)."""
        tool = self.tools.get(name)
        if tool is None:
            return self._declared(name)
        if tool.effect is None:
            return None
        if tool.inverse is not None and tool.inverse not in self.tools:
            lost = {"reversibility": Reversibility.IRREVERSIBLE}
            return tool.effect.model_copy(update=lost)
        return tool.effect


def _without_titles(schema: Any) -> Any:
    """The schema without pydantic's titles: they repeat the names, and a model pays for them."""
    if isinstance(schema, dict):
        return {
            key: {name: _without_titles(each) for name, each in value.items()}
            if key in ("properties", "$defs")
            else _without_titles(value)
            for key, value in schema.items()
            if key != "title"
        }
    if isinstance(schema, list):
        return [_without_titles(each) for each in schema]
    return schema
