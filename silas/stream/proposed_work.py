"""Work that other programs propose: a plan on a card, carried out by Silas, and what came of it.

1. A command or a plan of a client becomes work items and a card like any other: parsed, bound to
   its folder, shown whole, approved by hash, executed at the one door of execution, checked. There
   is no shorter way for clients.
2. It is the client's text: its taint is the client's, the program is named as its source, and its
   title begins with the client's name, which Silas writes.
3. A client has a scope of its own. Its plans refer to its own work alone, and it proposes tasks and
   projects: what goes on by the clock is the owner's to set up.
4. A command is one line for a shell in the sandbox, once, as it is written; no model takes part.
5. A client is told how its own work stands, what it printed and changed, and gets a proof of what
   was done. It stops waiting by withdrawing its card; what was approved is the owner's to stop.
"""

import asyncio
import json
import os
from dataclasses import dataclass
from datetime import timedelta
from pathlib import PurePath
from typing import Annotated, Any, Literal

from pydantic import Field, StringConstraints

from silas.approval import ApprovalVerdict
from silas.approval.rules import digest
from silas.gates.risk import riskiest
from silas.kernel import WorkError, canonical_bytes, format_timestamp, visible
from silas.kernel.ids import conversation_scope
from silas.kernel.models import Data
from silas.proposals.clients import Client
from silas.proposals.permissions import ClientRules
from silas.proposals.service import (
    Proposal,
    ProposalAnswer,
    ProposalRefused,
    ProposalService,
    Seconds,
    Title,
    WaitSeconds,
)
from silas.queue.models import RequestFolders
from silas.review.attestations import run_envelope
from silas.review.cards import Card
from silas.review.decision_log import ASKED
from silas.storage import Durability, Transaction
from silas.stream.adopting import Wanted, adopt, folder_of
from silas.stream.cards import PlanCards
from silas.stream.models import PlanAction, PlanActionType
from silas.stream.ports import PlanReview
from silas.stream.store import Origin, WorkOrigin
from silas.stream.turn_context import TurnContext
from silas.work.authorisation import plan_risk
from silas.work.control import WITHDRAWN, Cancelled
from silas.work.execution_context import ExecutionContext
from silas.work.models import WorkItem, WorkItemStatus, WorkItemType
from silas.work.output import ends_of
from silas.work.plan import Plan
from silas.work.plan_text import MAX_PLAN_BYTES
from silas.work.report import WorkReport, report_of, run_predicate
from silas.work.store import save_item
from silas.work.wording import status_words

CHANNEL = "mcp"
CLIENT_WORK = "client"
"""Who asks on the card of such work."""
_LOOK_SECONDS = 0.2
_MOST_OUTPUT_CHARS = 20_000
_MOST_SHOWN = 50
_GOES_ON = frozenset({WorkItemStatus.PENDING, WorkItemStatus.RUNNING, WorkItemStatus.PAUSED})

Markdown = Annotated[str, StringConstraints(min_length=1, max_length=MAX_PLAN_BYTES)]
Command = Annotated[str, StringConstraints(min_length=1, max_length=8_000)]
Folder = Annotated[str, StringConstraints(min_length=1, max_length=4_096)]
PathPattern = Annotated[str, StringConstraints(min_length=1, max_length=400)]


class ProposedChanges(Data):
    """The files that a command may add, change and remove; everything else waits on a card."""

    add: list[PathPattern] = Field(default_factory=list, max_length=100)
    change: list[PathPattern] = Field(default_factory=list, max_length=100)
    remove: list[PathPattern] = Field(default_factory=list, max_length=100)


class ProposedCommand(Data):
    """A command, where it runs, what it may change, and what shows that it worked."""

    command: Command
    folder: Folder | None = None
    changes: ProposedChanges = ProposedChanges()
    check: Command | None = None
    """A command that fails before it and passes after it."""


class CalledOnce(Data):
    """One call of the work, and what it printed."""

    title: str
    success: bool | None
    output: str


class CheckedOnce(Data):
    """One check."""

    name: str
    passed: bool
    output: str


class ChangedFile(Data):
    """One file that the work changed."""

    path: str
    kind: str
    taken: bool
    """Whether it is so in the owner's files."""


class WorkTold(Data):
    """How work that a client has proposed stands, and what came of it."""

    work_item_id: str
    status: str
    words: str
    ended: bool
    calls: list[CalledOnce]
    checks: list[CheckedOnce]
    files: list[ChangedFile]
    proof: str | None = None
    """A DSSE envelope of what was done, once it has ended."""


class WorkProposal(Proposal):
    """What was proposed, how it stands, and what came of it."""

    kind: Literal["work"] = "work"
    plan_hashes: dict[str, str] = Field(default_factory=dict)
    """What the owner is shown and signs, by work item."""
    work: WorkTold | None = None


@dataclass(frozen=True)
class ProposedWork:
    """Puts work that clients propose before the owner, and tells them what came of it."""

    service: ProposalService
    services: TurnContext
    ctx: ExecutionContext
    cards: PlanCards

    async def propose_plan(
        self, token: str, title: Title, plan: Markdown, seconds: Seconds = 300
    ) -> WorkProposal:
        """Put a plan (docs/plans.md) before the owner; raises what is wrong with it (rule 1)."""
        client = await self.service.clients.recognise(token)
        return await self._propose(client, title, plan, request={"plan": plan}, seconds=seconds)

    async def propose_command(
        self, token: str, title: Title, command: ProposedCommand, seconds: Seconds = 300
    ) -> WorkProposal:
        """Put a command before the owner; raises what is wrong with it (rule 4)."""
        client = await self.service.clients.recognise(token)
        written = _as_plan(title, command)
        request = _command_request(command)
        return await self._propose(client, title, written, request=request, seconds=seconds)

    async def _propose(
        self, client: Client, title: str, markdown: str, *, request: dict[str, Any], seconds: int
    ) -> WorkProposal:
        rules = await self.service.permissions.rules(client)
        plan = await self._adopted(client, rules, markdown, title=title)
        card_id, request_hash = self.services.ids.new("card"), digest(canonical_bytes(request))
        review = PlanReview(
            card_id=card_id,
            items=list(plan.items),
            scope_id=self._scope_of(client),
            connection_id=client.client_id,
            channel=CHANNEL,
            trace_id=f"trace_{card_id}",
            message=(
                f"The program {client.name} asks for this. It is told what comes of it: what is "
                "printed, what tools answer, and which files change."
            ),
            taint=rules.taint,
            sources=(f"program:{client.name}",),
            requested_by=CLIENT_WORK,
            valid_for=timedelta(seconds=seconds),
        )

        def write(tx: Transaction) -> None:
            self.service.take_place_in(tx, client, rules, card_id, request_hash=request_hash)
            self._ask_in(tx, review)

        await self.services.store.write([write])
        self.service.questions.tell()
        await self.service.note_made(client, card_id, request_hash=request_hash)
        return await self._standing(card_id)

    def _ask_in(self, tx: Transaction, review: PlanReview) -> None:
        """The items, where they come from, and the card, in one transaction."""
        services, now = self.services, format_timestamp(self.services.clock.now())
        for item in review.items:
            save_item(tx, item, now=now)
            made = WorkOrigin(
                work_item_id=item.id,
                trace_id=review.trace_id,
                scope_id=review.scope_id,
                taint=review.taint,
            )
            services.store.note_work(tx, made)
        services.store.note_origin(
            tx,
            Origin(
                trace_id=review.trace_id,
                scope_id=review.scope_id,
                connection_id=review.connection_id,
                channel=review.channel,
                sender_id=review.connection_id,
                message_id=review.card_id,
                taint=review.taint,
            ),
        )
        self.cards.ask_plan(tx, review)
        risks = (plan_risk(item, review.taint, services.effect_of) for item in review.items)
        asked = {"card_id": review.card_id, "risk": riskiest(*risks).value}
        services.audit.append(tx, ASKED, {"trace_id": review.trace_id, **asked})

    async def _adopted(
        self, client: Client, rules: ClientRules, markdown: str, *, title: str
    ) -> Plan:
        """The plan as it will be shown (rules 1 to 3)."""
        wanted = Wanted(
            action=PlanAction(action=PlanActionType.PROPOSE, plan_markdown=markdown),
            scope_id=self._scope_of(client),
            is_owners=False,
            taint=rules.taint,
            folders=RequestFolders(base=rules.folder),
            asked=title,
        )
        try:
            plan = (await adopt(self.services, wanted)).plan
        except WorkError as error:
            raise ProposalRefused(error.message) from error
        if any(item.type is WorkItemType.GOAL for item in plan.items):
            raise ProposalRefused("A program proposes tasks and projects. Goals are the owner's.")
        for item in plan.items:
            _require_folder(item, rules.folder)
        return _named_by(client, plan)

    def _scope_of(self, client: Client) -> str:
        return conversation_scope(self.service.owner_id, client.client_id)

    async def look_at_work(
        self, token: str, proposal_id: str, wait_seconds: WaitSeconds = 0
    ) -> WorkProposal:
        """How it stands, and what came of it; waits for news for a while (rule 5)."""
        await self._own(token, proposal_id)
        clock = self.services.clock
        end = clock.now() + timedelta(seconds=wait_seconds)
        while True:
            told = await self._standing(proposal_id)
            goes_on = told.answer is ProposalAnswer.WAITING or _is_busy(told)
            if not goes_on or clock.now() >= end:
                return told
            await asyncio.sleep(_LOOK_SECONDS)

    async def work_result(
        self,
        token: str,
        proposal_id: str,
        *,
        plan: Markdown | None = None,
        command: ProposedCommand | None = None,
        wait_seconds: WaitSeconds = 0,
    ) -> WorkProposal:
        """The same, for whoever shows what it has proposed; another plan withdraws the card."""
        client = await self._own(token, proposal_id)
        request = {"plan": plan} if command is None else _command_request(command)
        shown = digest(canonical_bytes(request))
        if shown != await self.service.request_hash(client, proposal_id):
            await self._withdraw(client, proposal_id)
            await self.services.audit.log("proposal_changed", card_id=proposal_id)
            raise ProposalRefused("That is not what was proposed. The card is withdrawn.")
        return await self.look_at_work(token, proposal_id, wait_seconds)

    async def withdraw_work(self, token: str, proposal_id: str) -> WorkProposal:
        """Take the card away: nobody waits for its answer any more."""
        client = await self._own(token, proposal_id)
        await self._withdraw(client, proposal_id)
        return await self._standing(proposal_id)

    async def remove_client(self, name: str) -> Client:
        """Let a program ask no more. What it asked is withdrawn, its grants are taken back."""
        removed = await self.service.remove_client(name)
        await self._withdraw(removed, None)
        return removed

    async def _withdraw(self, client: Client, card_id: str | None) -> None:
        """Withdraw one card of a client, or all that wait, and end the work behind them."""
        ended: list[Cancelled] = []
        control, scope = self.ctx.control, self._scope_of(client)

        def withdraw(tx: Transaction) -> None:
            names = self.cards.withdraw_in(tx, scope, card_id=card_id)
            ended[:] = [
                each for name in names for each in control.cancel_in(tx, name, event=WITHDRAWN)
            ]

        await self.service.database.transaction(withdraw, durability=Durability.TRUST)
        await control.after_cancel(ended)
        self.service.questions.tell()

    async def _own(self, token: str, proposal_id: str) -> Client:
        client = await self.service.clients.recognise(token)
        if await self.service.request_hash(client, proposal_id) is None:
            raise ProposalRefused("There is no such proposal of this client.")
        return client

    async def _standing(self, card_id: str) -> WorkProposal:
        card = await self.cards.get(card_id)
        answer, reason = await self._answer(card)
        work = None
        if answer is ProposalAnswer.ALLOW:
            work = await self._told(next(iter(card.plan_hashes)))
        return WorkProposal(
            proposal_id=card_id,
            answer=answer,
            reason=reason,
            expires_at=card.expires_at,
            plan_hashes=card.plan_hashes,
            work=work,
        )

    async def _answer(self, card: Card) -> tuple[ProposalAnswer, str]:
        if card.state == "open" and self.services.clock.now() < card.expires_at:
            return ProposalAnswer.WAITING, "It waits for the owner."
        if card.state == "withdrawn":
            return ProposalAnswer.DENY, "Withdrawn."
        decided = await self.cards.decision(card.card_id)
        if decided is None or decided.expired:
            return ProposalAnswer.DENY, "Nobody answered in time."
        if decided.decision.verdict is ApprovalVerdict.EDIT_REQUESTED:
            return ProposalAnswer.DENY, "The owner wants it changed. Nothing of it is done."
        if decided.decision.verdict is not ApprovalVerdict.APPROVED:
            return ProposalAnswer.DENY, "The owner declined it."
        return ProposalAnswer.ALLOW, "The owner approved it. Silas carries it out."

    async def _told(self, work_item_id: str) -> WorkTold:
        report = await report_of(self.ctx, work_item_id)
        item = report.item
        ended = item.status not in _GOES_ON
        proof = None
        if ended:
            run = run_predicate(report, now=self.services.clock.now())
            envelope = await asyncio.to_thread(run_envelope, run, signing=self.service.keys)
            proof = envelope.decode()
        return WorkTold(
            work_item_id=item.id,
            status=item.status.value,
            words=status_words(item.status),
            ended=ended,
            calls=_calls(report),
            checks=[
                CheckedOnce(name=each.name, passed=each.passed, output=ends_of(each.output))
                for each in report.checks
            ],
            files=[
                ChangedFile(path=each.path, kind=each.kind.value, taken=each.taken)
                for each in report.files[:_MOST_SHOWN]
            ],
            proof=proof,
        )


def _command_request(command: ProposedCommand) -> dict[str, Any]:
    return {"command": command.model_dump(mode="json")}


def _is_busy(told: WorkProposal) -> bool:
    return told.work is not None and not told.work.ended


def _calls(report: WorkReport) -> list[CalledOnce]:
    """What was called, the last ones, and what they printed, cut to what can be told."""
    calls = [each for attempt in report.attempts for each in attempt.calls][-_MOST_SHOWN:]
    most = _MOST_OUTPUT_CHARS // max(1, len(calls))
    return [
        CalledOnce(title=each.title, success=each.success, output=ends_of(each.text, most=most))
        for each in calls
    ]


def _require_folder(item: WorkItem, folder: str | None) -> None:
    """The owner may have said where a client's work happens."""
    place = folder_of(item)
    if folder is None or place is None:
        return
    real = PurePath(os.path.realpath(place))
    if not real.is_relative_to(os.path.realpath(folder)):
        raise ProposalRefused(f"Work of this program happens below {visible(folder)} alone.")


_MAX_TITLE_CHARS = 120


def _named_by(client: Client, plan: Plan) -> Plan:
    """The plan with whose it is in its titles (rule 2)."""

    def named(item: WorkItem) -> WorkItem:
        hidden = not item.title.isprintable()
        said = visible(item.title, keep_newlines=False) if hidden else item.title
        title = f"{client.name}: {said}"
        return item.model_copy(update={"title": title[:_MAX_TITLE_CHARS]})

    return Plan(named(plan.root), tuple(named(each) for each in plan.tasks))


def _as_plan(title: str, asked: ProposedCommand) -> str:
    """A plan that runs one line in a shell of the sandbox, as it is written (rule 4)."""
    if not asked.command.isprintable():
        raise ProposalRefused(
            "The command has line breaks or characters that cannot be seen. Send one line, or a "
            "plan."
        )
    front: dict[str, Any] = {
        "id": "proposed-command",
        "type": "task",
        "title": visible(title, keep_newlines=False),
        "script": True,
        "on_stuck": "report",
        "budget": {"max_attempts": 1},
    }
    if asked.folder is not None:
        changes = {name: paths for name, paths in asked.changes.model_dump().items() if paths}
        front["workspace"] = {"path": asked.folder, **({"changes": changes} if changes else {})}
    if asked.check is None:
        front["without_proof"] = True
    else:
        front["verify"] = [{"name": "check", "run": asked.check, "expect": {"exit_code": 0}}]
    lines = [f"{name}: {json.dumps(value)}" for name, value in front.items()]
    quoted = asked.command.replace("'", "'\\''")
    line = f"/bin/sh -c '{quoted}'"
    return "\n".join(["---", *lines, "---", "# Command", "", "```run", line, "```", ""])
