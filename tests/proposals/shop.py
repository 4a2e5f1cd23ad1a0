"""A program that asks, the service that it asks, and an owner with a phone."""

from dataclasses import dataclass
from typing import Any

from silas.approval import ApprovalStrength
from silas.proposals.service import Proposal, ProposalService
from silas.review.questions import answer_bytes
from tests.review.asking import SLIDE, Place

REQUEST = {"tool_name": "Bash", "tool_input": {"command": "rm -rf build"}, "cwd": "/srv/shop"}


@dataclass
class Shop:
    """A place, its service, and a client with its token."""

    place: Place
    service: ProposalService
    token: str

    async def propose(self, request: dict[str, Any] = REQUEST, **more: Any) -> Proposal:
        return await self.service.propose(self.token, "run a command", request, **more)

    async def told(self, proposal: Proposal, request: dict[str, Any] = REQUEST) -> Proposal:
        return await self.service.status(self.token, proposal.proposal_id, request)

    async def decide(
        self, proposal: Proposal, verdict: str, strength: ApprovalStrength = SLIDE
    ) -> None:
        await self.answer(proposal.proposal_id, verdict, strength)

    async def answer(self, card_id: str, verdict: str, strength: ApprovalStrength = SLIDE) -> None:
        """What the owner signs on the phone."""
        question = await self.place.questions.get(card_id)
        answer = {"selected_value": verdict}
        statement = answer_bytes(question, answer, gesture=strength)
        challenge = bytes.fromhex(question.content_hash)
        proof = self.place.proof(statement, challenge, strength)
        await self.place.questions.answer(card_id, answer, proof, gesture=strength)
