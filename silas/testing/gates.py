"""Gate providers, commands, models and desks under the control of a test."""

from collections.abc import Callable, Mapping
from typing import Any

from silas.gates import Gate, GateAction, GateResult
from silas.gates.ports import CommandOutcome, GateBlock
from silas.kernel import LlmError

Answer = Callable[[Gate, dict[str, Any]], GateResult]


class FakeProvider:
    """`GateCheckProvider` that answers as it is told, and remembers what it was shown."""

    def __init__(self, answer: Answer, *, problem: str | None = None) -> None:
        self._answer = answer
        self._problem = problem
        self.seen: list[tuple[str, dict[str, Any]]] = []

    def problem(self, gate: Gate) -> str | None:
        return self._problem

    async def check(self, gate: Gate, context: dict[str, Any]) -> GateResult:
        self.seen.append((gate.name, context))
        return self._answer(gate, context)


def answer(
    action: GateAction = GateAction.CONTINUE, *, reason: str = "the test says so", **more: Any
) -> Answer:
    """The same answer, whatever is asked."""

    def always(gate: Gate, _context: dict[str, Any]) -> GateResult:
        return GateResult(gate_name=gate.name, lane=gate.lane, action=action, reason=reason, **more)

    return always


class FakeCommands:
    """`CommandRunner` that runs nothing: the same outcome for every command."""

    def __init__(self, output: str | bytes = b"", *, exit_code: int = 0, **more: Any) -> None:
        given = output.encode() if isinstance(output, str) else output
        self._outcome = CommandOutcome(exit_code=exit_code, output=given, **more)
        self.ran: list[tuple[str, dict[str, str], int]] = []

    async def run(self, command: str, *, env: Mapping[str, str], seconds: int) -> CommandOutcome:
        self.ran.append((command, dict(env), seconds))
        return self._outcome


class FakeGateModel:
    """`GateModel` that always says the same; None stands for a model that cannot be reached."""

    def __init__(self, says: str | None) -> None:
        self._says = says
        self.prompts: list[str] = []

    async def ask(self, prompt: str, *, schema: Mapping[str, Any]) -> str:
        self.prompts.append(prompt)
        if self._says is None:
            raise LlmError
        return self._says


class FakeDesk:
    """`EscalationDesk` that writes down what it is asked to do."""

    def __init__(
        self, *, people: bool = True, passes_after: int | None = None, broken: tuple[str, ...] = ()
    ) -> None:
        """`passes_after` retries an answer passes; what is `broken` raises."""
        self._people = people
        self._passes_after = passes_after
        self._broken = broken
        self._tries = 0
        self.done: list[tuple[str, str]] = []

    async def send(self, message: str) -> None:
        self._note("send", message)

    async def hand_over(self, message: str | None) -> bool:
        self._note("hand_over", message or "")
        return self._people

    async def transfer(self, queue: str) -> None:
        self._note("transfer", queue)

    async def rephrase(self, instruction: str) -> bool:
        self._note("rephrase", instruction)
        return self._again()

    async def retry(self) -> bool:
        self._note("retry", "")
        return self._again()

    async def spawn_task(self, block: GateBlock) -> None:
        self._note("spawn_task", block.gate_name)

    async def notify_owner(self, text: str) -> None:
        self._note("notify_owner", text)

    def _again(self) -> bool:
        self._tries += 1
        return self._passes_after is not None and self._tries >= self._passes_after

    def _note(self, what: str, detail: str) -> None:
        self.done.append((what, detail))
        if what in self._broken:
            raise LlmError
