"""How a device of the owner's answers what it is asked."""

from typing import Any

from silas.approval import ApprovalDecision, ApprovalVerdict
from silas.evals.crowd.page import Frame, Page
from silas.stream.card_statements import batch_decision_bytes

_FIELDS = {
    "gate_approval": ("gate_response", "verdict"),
    "decision": ("decision_response", "selected_value"),
    "suggestion": ("suggestion_response", "selected_value"),
    "autonomy_threshold_review": ("autonomy_threshold_response", "verdict"),
    "draft_review": ("draft_review_response", "verdict"),
}
_VERDICTS = {"approve": ApprovalVerdict.APPROVED, "decline": ApprovalVerdict.DECLINED}
QUESTIONS = frozenset({*_FIELDS, "batch_review"})


async def decide(page: Page, card: Frame, verdict: str) -> None:
    """Sign a decision about a plan or a call, as its card shows it."""
    hashes = {item["id"]: item["plan_hash"] for item in card["items"]}
    decision = ApprovalDecision(verdict=ApprovalVerdict(verdict)).model_dump(mode="json")
    said: dict[str, Any] = {"card_id": card["request_id"], "plan_hashes": hashes}
    if card["kind"] == "call":
        said |= {"type": "call_decision", "decision": decision}
    else:
        shown = {"risk": card["risk_level"], "taint": card["taint"]}
        said |= {"type": "card_decision", "decision": decision, **shown}
    await page.send(
        {
            "type": "approval_response",
            "request_id": card["request_id"],
            "verdict": verdict,
            "signature": page.device.signed(said),
        }
    )


async def answer(page: Page, question: Frame, value: str) -> None:
    """Sign one of the answers that a question offers."""
    name = question["request_id"]
    if question["type"] == "batch_review":
        decision = ApprovalDecision(verdict=_VERDICTS[value])
        signature = page.device.sign(batch_decision_bytes(question["batch"], decision))
        said, kind = {"verdict": value}, "batch_review_response"
    else:
        kind, field = _FIELDS[question["type"]]
        said = {field: value}
        content = question["shown"]["plan_hash"]
        signature = page.device.signed(
            {"type": "answer", "card_id": name, "content_hash": content, "answer": said}
        )
    await page.send({"type": kind, "request_id": name, "signature": signature, **said})


def offered(question: Frame) -> list[str]:
    """What can be answered with one tap, the refusing answer last."""
    values = [action["value"] for action in question["actions"]]
    if question["type"] == "batch_review":
        return [each for each in values if each in _VERDICTS]
    return values
