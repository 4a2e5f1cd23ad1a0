"""A shop that stands in for the tools of `plans/support-chatbot.md`: orders and refunds in files.

A skill would bring such tools. These are real tools all the same: declared, called through gates
and approvals, and what they change is on the disk.
"""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from pydantic import Field

from silas.gates.risk import ActionKind, DeclaredEffect, Reversibility
from silas.kernel.models import Data
from silas.tools.declaration import OBSERVES, Tool
from silas.tools.execution import ExecutionEnvelope, ExecutionResult, failed

OrderId = Annotated[str, Field(pattern=r"^SH-\d{8}$")]
Email = Annotated[str, Field(pattern=r"^[^\s@]{1,64}@[^\s@]{1,128}$")]
_REFUNDS = "refunds.jsonl"
_HOURS = "Monday to Friday, 9 to 17."


class HelpArguments(Data):
    """What a customer wants to know."""

    query: Annotated[str, Field(min_length=1, max_length=500)]


class NoShopArguments(Data):
    """Nothing to say."""


class OrderArguments(Data):
    """An order, and the e-mail address that it was made with."""

    order_id: OrderId
    email: Email


class RefundArguments(OrderArguments):
    """How much of an order is to be paid back, and why."""

    refund_eur: Annotated[float, Field(gt=0, le=10_000)]
    reason: Annotated[str, Field(max_length=500)] | None = None


@dataclass(frozen=True)
class ShopExecutor:
    """`EphemeralExecutor` of all tools of one shop."""

    directory: Path

    async def execute(self, envelope: ExecutionEnvelope) -> ExecutionResult:
        """Answer from the files, or write a refund into them."""
        orders = json.loads((self.directory / "orders.json").read_text("utf-8"))
        order = orders.get(str(envelope.args.get("order_id", "")))
        match envelope.action:
            case "opening_hours":
                said = _HOURS
            case "search_help":
                said = "Parcels take three days. Returns are free for thirty days."
            case "verify_order":
                said = "The order is known." if order else "There is no such order."
            case "order_status":
                said = order["status"] if order else "There is no such order."
            case "request_refund":
                said = self._write("refund", envelope)
            case "cancel_refund":
                said = self._write("cancel", envelope)
            case _:
                return failed(envelope, "The shop has no such tool.")
        return ExecutionResult(
            execution_id=envelope.execution_id,
            step_index=envelope.step_index,
            success=True,
            return_value=said,
        )

    def _write(self, what: str, envelope: ExecutionEnvelope) -> str:
        with (self.directory / _REFUNDS).open("a", encoding="utf-8") as file:
            file.write(f"{json.dumps({'what': what, **envelope.args}, sort_keys=True)}\n")
        return "It is written down."


def shop_tools(directory: Path) -> tuple[Tool, ...]:
    """The tools; `directory` holds `orders.json`, and gets `refunds.jsonl`."""
    executor = ShopExecutor(directory)
    pays = DeclaredEffect(action=ActionKind.CHANGE, reversibility=Reversibility.REVERSIBLE)
    looking = (
        ("search_help", HelpArguments, "Look something up in the shop's help."),
        ("opening_hours", NoShopArguments, "When the shop is open."),
        ("verify_order", OrderArguments, "Show that somebody knows an order and its address."),
        ("order_status", OrderArguments, "How far an order is."),
    )
    paying = (("request_refund", "cancel_refund"), ("cancel_refund", "request_refund"))
    return (
        *(
            Tool(
                name,
                arguments,
                executor,
                contained=False,
                effect=OBSERVES,
                own_account=True,
                offered=False,
                description=told,
            )
            for name, arguments, told in looking
        ),
        *(
            Tool(
                name,
                RefundArguments,
                executor,
                contained=False,
                effect=pays,
                inverse=inverse,
                offered=False,
                description="Pay a part of an order back, or take that back.",
            )
            for name, inverse in paying
        ),
    )
