"""What happens when a policy gate blocks. The steps:

1. The gate's `on_block` is looked up: in the goal's `escalation`, then among the built-in ones. A
   name that is nowhere is a `report`, and a warning in the audit log.
2. The action is done. One that cannot be done, or whose retries are used up, goes on with its
   `fallback`, and without one with `report`. No name is followed twice.
3. The block is in the audit log, with gate, reason, sender and everything that was done.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Literal, Self

from pydantic import Field, model_validator

from silas.gates.models import EscalationHandler, GateBlock, Name
from silas.kernel import SilasError
from silas.kernel.models import Data, FieldProblem, refuse

if TYPE_CHECKING:  # the settings know `EscalationAction`, and load no audit log
    from silas.audit.models import AuditTrail


class EscalationAction(Data):
    """What happens when a gate blocks or a check fails."""

    action: Literal[
        "report",
        "escalate_human",
        "transfer_to_queue",
        "suppress_and_rephrase",
        "suppress_and_escalate",
        "respond",
        "spawn_task",
        "retry",
    ]
    queue: str | None = Field(default=None, min_length=1)
    message: str | None = Field(default=None, min_length=1)
    instruction: str | None = Field(default=None, min_length=1)
    max_retries: int = Field(default=2, ge=0, le=100)
    fallback: Name | None = None

    @model_validator(mode="after")
    def _has_what_it_needs(self) -> Self:
        needed = {
            "transfer_to_queue": "queue",
            "respond": "message",
            "suppress_and_rephrase": "instruction",
        }.get(self.action)
        if needed and getattr(self, needed) is None:
            refuse([FieldProblem((needed,), f"is missing; {self.action} needs it")])
        return self


BUILT_IN_ESCALATIONS: Mapping[str, EscalationAction] = MappingProxyType(
    {
        "report": EscalationAction(action="report"),
        "polite_redirect": EscalationAction(
            action="respond", message="I can't help with that. How else can I assist you?"
        ),
        "escalate_human": EscalationAction(action="escalate_human"),
        "spawn_task": EscalationAction(action="spawn_task"),
        "retry": EscalationAction(action="retry"),
    }
)
"""Escalations that need no entry in `escalation`."""


class EscalationOutcome(Data):
    """What was done about a block, in order, and whether the user can go on as if nothing was."""

    steps: list[str]
    resolved: bool


class Escalator:
    """Handles blocks for one conversation or one run."""

    def __init__(
        self,
        handler: EscalationHandler,
        *,
        audit: "AuditTrail",
        escalations: Mapping[str, EscalationAction] | None = None,
    ) -> None:
        self._handler = handler
        self._audit = audit
        self._known = {**BUILT_IN_ESCALATIONS, **(escalations or {})}

    async def handle(self, block: GateBlock) -> EscalationOutcome:
        """Do what the gate's `on_block` says; `resolved` only if a retry has passed the gates."""
        steps: list[str] = []
        resolved = await self._follow(block, steps)
        await self._audit.log(
            "gate_escalated",
            gate=block.gate_name,
            reason=block.reason,
            sender_id=block.sender_id,
            on_block=block.on_block,
            steps=steps,
            resolved=resolved,
        )
        return EscalationOutcome(steps=steps, resolved=resolved)

    async def _follow(self, block: GateBlock, steps: list[str]) -> bool:
        name: str | None = block.on_block
        followed: set[str] = set()
        while name is not None and name not in followed:
            followed.add(name)
            escalation = await self._look_up(block, name)  # 1
            steps.append(escalation.action)
            try:
                ended = await self._do(escalation, block)
            except SilasError as error:
                await self._warn(block, f"{escalation.action} failed: {error.code}")
                ended = None
            if ended is not None:
                return ended
            name = escalation.fallback  # 2
        steps.append("report")
        await self._report(block)
        return False

    async def _look_up(self, block: GateBlock, name: str) -> EscalationAction:
        if name not in self._known:
            await self._warn(block, f"There is no escalation {name}; it is reported instead.")
        return self._known.get(name, BUILT_IN_ESCALATIONS["report"])

    async def _do(self, escalation: EscalationAction, block: GateBlock) -> bool | None:
        """True if it is as if nothing was, False if it ends here, None if the fallback is next."""
        ended: bool | None = False
        match escalation.action:
            case "report":
                await self._report(block)
            case "respond":
                await self._say(escalation)
            case "spawn_task":
                await self._handler.spawn_task(block)
            case "transfer_to_queue":
                ended = await self._transfer(escalation)
            case "escalate_human":
                taken = await self._handler.hand_over(escalation.message)
                ended = False if taken else await self._transfer(escalation)
            case "suppress_and_escalate":
                await self._say(escalation)
                ended = None
            case _:
                ended = await self._again(escalation)
        return ended

    async def _transfer(self, escalation: EscalationAction) -> bool | None:
        if escalation.queue is None:
            return None
        await self._handler.transfer(escalation.queue)
        await self._say(escalation)  # only now: what is announced has happened
        return False

    async def _again(self, escalation: EscalationAction) -> bool | None:
        for _ in range(escalation.max_retries):
            passed = (
                await self._handler.rephrase(escalation.instruction or "")
                if escalation.action == "suppress_and_rephrase"
                else await self._handler.retry()
            )
            if passed:
                return True
        return None

    async def _say(self, escalation: EscalationAction) -> None:
        if escalation.message is not None:
            await self._handler.send(escalation.message)

    async def _report(self, block: GateBlock) -> None:
        """The owner is told; if that fails too, the log still has it."""
        try:
            await self._handler.notify_owner(
                f"The gate {block.gate_name} stopped this: {block.reason}"
            )
        except SilasError as error:
            await self._warn(block, f"the owner could not be told: {error.code}")

    async def _warn(self, block: GateBlock, warning: str) -> None:
        await self._audit.log("escalation_warning", gate=block.gate_name, warning=warning)
