"""What the gates need from others. A port that is absent means no: see each one."""

from collections.abc import Mapping
from typing import Any, Protocol

from pydantic import Field

from silas.gates.models import Gate, GateResult
from silas.kernel.models import Data


class GateCheckProvider(Protocol):
    """Evaluates the gates of one provider name. Not registered: its gates block."""

    async def check(self, gate: Gate, context: dict[str, Any]) -> GateResult:
        """The provider's word about one gate; whatever it raises counts as a block."""
        ...

    def problem(self, gate: Gate) -> str | None:
        """Why this gate can never be evaluated here, as a sentence; None if it can."""
        ...


class AuditTrail(Protocol):
    """Where every block, question, rewriting and violation is written down."""

    async def log(self, event: str, /, **data: Any) -> str:
        """Add an entry; returns its id once it is on the disk."""
        ...


class CommandOutcome(Data):
    """What a gate's script did. `stopped` says why it did not end by itself."""

    exit_code: int
    output: bytes
    truncated: bool = False
    stopped: str | None = None


class CommandRunner(Protocol):
    """Runs the command of a script gate, contained. Absent: script gates block."""

    async def run(self, command: str, *, env: Mapping[str, str], seconds: int) -> CommandOutcome:
        """Run the command in the gates' own directory; raises `SilasError` if it cannot."""
        ...


class GateModel(Protocol):
    """A language model that is asked one question. Absent: see the two lanes in `llm.py`."""

    async def ask(self, prompt: str, *, schema: Mapping[str, Any]) -> str:
        """The model's answer as text; raises `SilasError` if there is none.

        `schema` is the JSON schema of the answer, for models that can be held to one.
        """
        ...


class CustomerFiles(Protocol):
    """What is known about customers. Absent: nothing."""

    def load(self, customer_id: str) -> dict[str, Any] | None:
        """One customer's record, None if there is none; raises `CustomerContextRefused`."""
        ...


class GateBlock(Data):
    """One block, as whoever handles it needs to know it."""

    gate_name: str
    reason: str
    sender_id: str = ""
    on_block: str = "report"
    context: dict[str, Any] = Field(default_factory=dict)


class EscalationDesk(Protocol):
    """The channel and the runtime, as far as escalations need them. It may raise `SilasError`."""

    async def send(self, message: str) -> None:
        """Show the user a message."""
        ...

    async def hand_over(self, message: str | None) -> bool:
        """Ask a person to take over; False if this channel has nobody to ask."""
        ...

    async def transfer(self, queue: str) -> None:
        """Move the conversation to a queue of the channel."""
        ...

    async def rephrase(self, instruction: str) -> bool:
        """Have the agent answer anew; True if the new answer passed the gates and was sent."""
        ...

    async def retry(self) -> bool:
        """Do the current step again; True if it passed."""
        ...

    async def spawn_task(self, block: GateBlock) -> None:
        """Make a task that repairs what went wrong; it needs its own approval."""
        ...

    async def notify_owner(self, text: str) -> None:
        """Tell the owner."""
        ...
