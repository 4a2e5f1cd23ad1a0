"""Loading gates: a gate that could not do its work is found out before it is needed.

A gate loads if its name is used once, its provider is there and can evaluate it, and its examples
hold. Every problem of every gate is told at once, and then none of the gates is loaded.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from silas.gates.errors import GatesNotLoaded
from silas.gates.examples import ExampleBook
from silas.gates.models import Gate
from silas.gates.ports import GateCheckProvider


class GateProblem(NamedTuple):
    """One thing that is wrong with a gate."""

    gate: str
    sentence: str


async def load_gates(
    gates: Sequence[Gate],
    providers: Mapping[str, GateCheckProvider],
    *,
    examples: ExampleBook | None = None,
) -> tuple[Gate, ...]:
    """The gates, checked; raises `GatesNotLoaded` with everything that is wrong."""
    problems = await gate_problems(gates, providers, examples=examples)
    if problems:
        told = "; ".join(f"{each.gate}: {each.sentence}" for each in problems)
        raise GatesNotLoaded(
            f"These gates cannot be used: {told}",
            problems=[{"gate": each.gate, "problem": each.sentence} for each in problems],
        )
    return tuple(gates)


async def gate_problems(
    gates: Sequence[Gate],
    providers: Mapping[str, GateCheckProvider],
    *,
    examples: ExampleBook | None = None,
) -> list[GateProblem]:
    """Everything that is wrong, in the order of the gates."""
    book = examples or ExampleBook()
    found: list[GateProblem] = []
    names: set[str] = set()
    for gate in gates:
        if gate.name in names:
            found.append(GateProblem(gate.name, "The name is used twice."))
        names.add(gate.name)
        provider = providers.get(gate.provider)
        if provider is None:
            found.append(GateProblem(gate.name, f"No provider: {gate.provider.value}"))
            continue
        problem = provider.problem(gate) or await book.problem(gate, provider)
        if problem:
            found.append(GateProblem(gate.name, problem))
    return found
