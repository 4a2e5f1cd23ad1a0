"""What clients propose: a card, a wait, and an answer that is good for these bytes, once.

1. A request is shown whole on a card, as text of the client's; what the client says about it stands
   beside the exact bytes, and not in their place. What is too long to be shown, or comes while too
   many wait, is refused; places are counted in the transaction that takes one.
2. Only the owner's proven yes allows, and only the request whose bytes are on the card: whoever
   comes back with other bytes is refused, and the card is withdrawn.
3. A yes is used up when the client is told of it. Nobody is told twice. Whoever wants to check what
   the client was given asks `verify`: it holds once, for these bytes, this client and this time.
4. A client that stops waiting withdraws its card; a card that nobody answers expires. Both are no.
5. A client sees what it proposed itself. What is somebody else's is answered like what never was.
6. A standing grant (`silas.proposals.grants`) answers in the owner's place, for its shape alone.
"""

import asyncio
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from functools import cached_property
from typing import Annotated, Any, Literal

from pydantic import Field, StringConstraints

from silas.approval import (
    ApprovalEngine,
    ApprovalScope,
    DeviceStore,
    KeyManager,
    NonceStore,
    PasskeyStore,
    ProofInvalid,
    PublicKeys,
    TokenUnknown,
)
from silas.approval.errors import NonceUsed
from silas.approval.rules import digest
from silas.approval.store import is_open_in
from silas.audit.models import AuditTrail
from silas.gates.envelopes import ActionEnvelope
from silas.gates.risk import RiskLevel
from silas.kernel import (
    ApprovalError,
    CanonicalError,
    Clock,
    IdFactory,
    canonical_bytes,
    format_timestamp,
    parse_timestamp,
    strict_loads,
    visible,
)
from silas.kernel.models import Data, UtcDatetime
from silas.proposals.clients import AddedClient, Client, ClientRefused, ClientStore
from silas.proposals.permissions import (
    ClientGrant,
    ClientHabit,
    ClientRules,
    Days,
    GrantShape,
    Permissions,
    Times,
    uses_query,
)
from silas.review.attestations import AttestedApproval, approval_envelope, verify_envelope
from silas.review.decisions import Decisions, QuestionKind
from silas.review.questions import (
    QUESTION,
    YES,
    Question,
    QuestionChoice,
    QuestionContent,
    QuestionStore,
    ShownPayload,
    proposal_payload,
)
from silas.storage import Database, Durability, Reader, Transaction

DECLINE = "decline"
MAX_REQUEST_BYTES = 64 * 1024
MAX_PROOF_CHARS = 512 * 1024
_ONE_STEP = frozenset({ApprovalScope.SINGLE_STEP})
_LOOK_SECONDS = 0.2
_REDEEMED = "proposal"
"""The nonces of approvals that were redeemed by whoever checked them."""
_WAITING = """
SELECT count(*) FROM proposals AS p WHERE p.client_id = ?1 AND (
    EXISTS (SELECT 1 FROM questions AS q
        WHERE q.id = p.proposal_id AND q.state = 'open' AND q.expires_at > ?2)
    OR EXISTS (SELECT 1 FROM review_cards AS c
        WHERE c.id = p.proposal_id AND c.state = 'open' AND c.expires_at > ?2)
)
"""
_INSERT = """
INSERT INTO proposals (proposal_id, client_id, request_hash, created_at, redeemed_at)
VALUES (?, ?, ?, ?, ?)
"""
_LATELY = """
SELECT p.proposal_id, p.created_at, coalesce(c.state, q.state), c.title
FROM proposals AS p LEFT JOIN questions AS q ON q.id = p.proposal_id
    LEFT JOIN review_cards AS c ON c.id = p.proposal_id
WHERE p.client_id = ? ORDER BY p.created_at DESC, p.proposal_id DESC LIMIT ?
"""
_OURS = "It would be done by that program, outside Silas's sandbox and checks."

Name = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9._ -]{0,39}$")]
Title = Annotated[str, StringConstraints(min_length=1, max_length=200)]
Rendering = Annotated[str, StringConstraints(max_length=8_000)]
Seconds = Annotated[int, Field(ge=1, le=3600)]
WaitSeconds = Annotated[float, Field(ge=0, le=50)]
Proof = Annotated[str, StringConstraints(min_length=1, max_length=MAX_PROOF_CHARS)]
Request = dict[str, Any]


class ProposalRefused(ApprovalError):
    """This cannot be put before the owner. Nothing was allowed."""

    code = "E_APPROVAL_PROPOSAL_REFUSED"


class ProposalAnswer(StrEnum):
    """What a client is told."""

    WAITING = "waiting"
    ALLOW = "allow"
    DENY = "deny"


class Proposal(Data):
    """What was asked, and how it stands."""

    proposal_id: str
    answer: ProposalAnswer
    reason: str
    expires_at: UtcDatetime
    token_id: str | None = None
    """The approval, for `silas approvals export`; only with a yes."""


class ProposalResult(Proposal):
    """The answer, and with a yes what proves it."""

    proof: str | None = None
    """A DSSE envelope over what was shown: these bytes, this client, until when."""


class ProofCheck(Data):
    """What a proof that a client was given is good for now."""

    valid: bool
    reason: str
    token_id: str | None = None
    strength: str | None = None
    signed_by: str | None = None
    expires_at: UtcDatetime | None = None


class ClientList(Data):
    """The clients that may ask."""

    clients: list[Client]


class ClientProposal(Data):
    """One request of a client, as the owner sees it in its list."""

    proposal_id: str
    asked: str
    state: str
    created_at: UtcDatetime


class ClientShown(Client):
    """A client, what it may, and what it has asked lately."""

    rules: ClientRules
    grants: list[ClientGrant]
    habits: list[ClientHabit]
    """What could become a grant."""
    proposals: list[ClientProposal]


class PermissionAsked(Data):
    """The card that asks the owner whether a client may do more, or less."""

    card_id: str
    asks: str


@dataclass(frozen=True)
class ProposalService:
    """Puts what clients propose before the owner, and tells them the answer."""

    database: Database
    clients: ClientStore
    questions: QuestionStore
    decisions: Decisions
    approvals: ApprovalEngine
    keys: KeyManager
    nonces: NonceStore
    devices: DeviceStore
    passkeys: PasskeyStore
    audit: AuditTrail
    clock: Clock
    ids: IdFactory
    owner_id: str

    @cached_property
    def permissions(self) -> Permissions:
        """What the owner has signed for clients in advance."""
        return Permissions(
            self.database, self.questions, self.approvals, self.clock, self.ids, self.owner_id
        )

    async def add_client(self, name: Name) -> AddedClient:
        """Let a program ask from now on."""
        return await self.clients.add(name)

    async def list_clients(self) -> ClientList:
        """Which programs may ask."""
        return ClientList(clients=await self.clients.list())

    async def show_client(self, name: str) -> ClientShown:
        """What one program may do, and what it has asked lately; raises `ClientRefused`."""
        client = await self.named(name)
        return ClientShown(
            **client.model_dump(),
            rules=await self.permissions.rules(client),
            grants=await self.permissions.grants(client),
            habits=await self.permissions.habits(client),
            proposals=await self._lately(client),
        )

    async def remove_client(self, name: str) -> Client:
        """Let it ask no more. What it has asked is withdrawn, and its grants are taken back."""
        removed = await self.clients.remove(name)
        await self.permissions.end(removed)
        for question in await self._waiting(removed):
            await self.questions.close(question.question_id, "outdated")
        return removed

    async def ask_rules(self, name: str, rules: ClientRules) -> PermissionAsked:
        """Put before the owner what shall hold for a program from now on."""
        asked = await self.permissions.ask_rules(await self.named(name), rules)
        return PermissionAsked(card_id=asked.question_id, asks=asked.content.intent)

    async def ask_grant(
        self, name: str, envelope: ActionEnvelope, times: Times = 50, days: Days = 14
    ) -> PermissionAsked:
        """Put a standing grant before the owner: one that the program's habits call for."""
        client = await self.named(name)
        habits = await self.permissions.habits(client)
        if envelope not in [each.envelope for each in habits]:
            raise ClientRefused(
                "A grant is for what you have allowed several times. `silas clients show NAME` "
                "shows what that is."
            )
        shape = GrantShape(envelope=envelope, times=times, days=days)
        asked = await self.permissions.ask_grant(client, shape)
        return PermissionAsked(card_id=asked.question_id, asks=asked.content.intent)

    async def revoke_grant(self, name: str, grant_id: str) -> ClientGrant:
        """Take a standing grant back."""
        return await self.permissions.revoke(await self.named(name), grant_id)

    async def named(self, name: str) -> Client:
        """The client with this name or id; raises `ClientRefused`."""
        for each in await self.clients.list():
            if name in (each.name, each.client_id):
                return each
        raise ClientRefused(f"There is no client {name!a}. `silas clients list` shows them.")

    async def recognise(self, token: str) -> Client:
        """Whose token this is; raises `ClientRefused`."""
        return await self.clients.recognise(token)

    async def propose(
        self,
        token: str,
        title: Title,
        request: Request,
        *,
        seconds: Seconds = 300,
        kind: Literal["command", "tool", "json"] = "json",
        rendering: Rendering = "",
    ) -> Proposal:
        """Put a request before the owner; raises `ClientRefused` or `ProposalRefused` (rule 1)."""
        client = await self.clients.recognise(token)
        content = bytes_of(request)
        granted = await self._granted(client, request, content)
        if granted is not None:
            return granted
        now, name = self.clock.now(), self.ids.new(QUESTION)
        rules = await self.permissions.rules(client)
        proposal = {
            "proposal_id": name,
            "client_id": client.client_id,
            "client": client.name,
            "kind": kind,
            "request": request,
            **({"rendering": rendering} if rendering else {}),
        }
        question = Question(
            question_id=name,
            scope_id=self.owner_id,
            trace_id=f"trace_{name}",
            about=f"proposal:{client.client_id}:{name}",
            content=QuestionContent(
                kind=QuestionKind.PROPOSAL,
                intent=f"{client.name} asks: {visible(title, keep_newlines=False)}",
                rationale=_OURS,
                risk=RiskLevel.HIGH,
                taint=rules.taint,
                actions=[
                    QuestionChoice(value=YES, label="Allow it once"),
                    QuestionChoice(value=DECLINE, label="Decline"),
                ],
                body={"proposal": proposal},
            ),
            created_at=now,
            expires_at=now + timedelta(seconds=seconds),
        )
        if len(question.content.to_bytes()) > 2 * MAX_REQUEST_BYTES:
            raise ProposalRefused("The request is too long to be shown whole. Nothing was allowed.")

        def write(tx: Transaction) -> None:
            self.take_place_in(tx, client, rules, name, request_hash=digest(content))
            self.questions.ask_in(tx, question)

        await self.database.transaction(write)
        self.questions.tell()
        await self.note_made(client, name, request_hash=digest(content))
        return _waiting_for(question)

    def take_place_in(
        self,
        tx: Transaction,
        client: Client,
        rules: ClientRules,
        name: str,
        *,
        request_hash: str,
    ) -> None:
        """Write a proposal down if there is room for it; raises `ProposalRefused` (rule 1)."""
        now = self.clock.now()
        since = format_timestamp(now - timedelta(minutes=1))
        waiting = _count(tx, _WAITING, client.client_id, format_timestamp(now))
        if waiting >= rules.waiting:
            raise ProposalRefused(
                f"{rules.waiting} requests of {client.name} wait already. Nothing was allowed."
            )
        lately = "SELECT count(*) FROM proposals WHERE client_id = ? AND created_at > ?"
        if _count(tx, lately, client.client_id, since) >= rules.per_minute:
            raise ProposalRefused(
                f"{client.name} asked more than {rules.per_minute} times in a minute. "
                "Nothing was allowed."
            )
        tx.execute(_INSERT, (name, client.client_id, request_hash, format_timestamp(now), None))

    async def note_made(self, client: Client, name: str, *, request_hash: str) -> None:
        """Tell the log that something was proposed."""
        await self.audit.log(
            "proposal_made", card_id=name, client_id=client.client_id, request_hash=request_hash
        )

    async def _granted(self, client: Client, request: Request, content: bytes) -> Proposal | None:
        """The answer that a standing grant gives (rule 6); None if the owner is asked."""
        grant = await self.permissions.granting(client, request)
        if grant is None:
            return None
        now = format_timestamp(self.clock.now())
        name = f"{grant.grant_id}.{self.ids.new('use')}"

        def use(tx: Transaction) -> bool:
            if not is_open_in(tx, grant.token_id):
                return False  # taken back since it was looked at
            query, between = uses_query(grant.grant_id)
            if _count(tx, query, *between) >= grant.shape.times:
                return False
            values = (name, client.client_id, digest(content), now, now)
            tx.execute(_INSERT, values)
            entry = {"card_id": name, "client_id": client.client_id, "token_id": grant.token_id}
            self.audit.append(tx, "proposal_granted", entry)
            return True

        if not await self.database.transaction(use, durability=Durability.TRUST):
            return None
        return Proposal(
            proposal_id=name,
            answer=ProposalAnswer.ALLOW,
            reason="A standing grant of the owner's covers it.",
            expires_at=grant.expires_at,
            token_id=grant.token_id,
        )

    async def look(self, token: str, proposal_id: str, wait_seconds: WaitSeconds = 0) -> Proposal:
        """How it stands; waits for an answer for a while, and uses nothing up."""
        client = await self.clients.recognise(token)
        await self._row(client, proposal_id)
        question = await self.questions.get(proposal_id)
        return await self._until(wait_seconds, question)

    async def status(
        self,
        token: str,
        proposal_id: str,
        request: Request,
        wait_seconds: WaitSeconds = 0,
    ) -> Proposal:
        """How it stands; waits for an answer for a while. A yes is used up by it (rules 2, 3)."""
        client = await self.clients.recognise(token)
        question = await self._own(client, proposal_id, request)
        told = await self._until(wait_seconds, question)
        if told.answer is not ProposalAnswer.ALLOW:
            return told
        return await self._redeemed(client, question)

    async def result(
        self, token: str, proposal_id: str, request: Request, wait_seconds: WaitSeconds = 0
    ) -> ProposalResult:
        """The same, and what proves a yes: for these bytes, this client, this time, once."""
        told = await self.status(token, proposal_id, request, wait_seconds)
        proof = None
        if told.answer is ProposalAnswer.ALLOW and told.token_id is not None:
            issued = await self.approvals.tokens.load(told.token_id)
            envelope = await approval_envelope(
                issued,
                self.decisions,
                signing=self.keys,
                now=self.clock.now(),
                devices=self.devices,
                passkeys=self.passkeys,
            )
            proof = envelope.decode()
            told = told.model_copy(update={"expires_at": issued.token.expires_at})
        return ProposalResult(**told.model_dump(), proof=proof)

    async def verify(self, token: str, proof: Proof, request: Request) -> ProofCheck:
        """Check what a client was given, and redeem it: it is good once (rule 3)."""
        client = await self.clients.recognise(token)
        try:
            attested = _approval_in(proof.encode(), self.keys.public)
            await self._require_good(client, attested, bytes_of(request))
        except (ProofInvalid, ProposalRefused, TokenUnknown, UnicodeEncodeError) as error:
            return ProofCheck(valid=False, reason=str(error))
        except NonceUsed:
            return ProofCheck(valid=False, reason="It was redeemed before.")
        approved = attested.report.token
        return ProofCheck(
            valid=True,
            reason="The owner allowed exactly this, once.",
            token_id=approved.token_id,
            strength=approved.approval_strength.value,
            signed_by=attested.signed_by,
            expires_at=approved.expires_at,
        )

    async def _require_good(
        self, client: Client, attested: AttestedApproval, content: bytes
    ) -> None:
        shown, approved = strict_loads(attested.report.shown), attested.report.token
        if approved.scope is not ApprovalScope.SINGLE_STEP or not isinstance(shown, dict):
            raise ProofInvalid("It is no answer to a request of a program.")
        if shown.get("client_id") != client.client_id:
            raise ProofInvalid("It was given to another program.")
        if "request" not in shown or canonical_bytes(shown["request"]) != content:
            raise ProofInvalid("The request is not the one that the owner allowed.")
        if self.clock.now() >= approved.expires_at:
            raise ProofInvalid("The approval is over.")
        state = await self.approvals.tokens.load(approved.token_id)
        if state.token.signature != approved.signature or state.void_reason:
            raise ProofInvalid("The approval was taken back.")
        payload = ShownPayload(approved.work_item_id, shown)
        if await self.nonces.is_used(_REDEEMED, approved.token_id):
            raise NonceUsed
        valid, why = await self.approvals.enter(approved, payload, accept=_ONE_STEP)
        if not valid:  # what the log knows, whatever the rows say
            raise ProofInvalid(f"{why}.")

        def redeem(tx: Transaction) -> None:
            self.nonces.record_in(tx, _REDEEMED, approved.token_id)
            entry = {"token_id": approved.token_id, "client_id": client.client_id}
            self.audit.append(tx, "proposal_redeemed", entry)

        await self.database.transaction(redeem, durability=Durability.TRUST)
        await self.approvals.carried_out(approved, payload)

    async def withdraw(self, token: str, proposal_id: str, request: Request) -> Proposal:
        """Take the card away: nobody waits for its answer any more (rule 4)."""
        client = await self.clients.recognise(token)
        question = await self._own(client, proposal_id, request)
        await self.questions.close(proposal_id, "outdated")
        return _told(question, ProposalAnswer.DENY, "It was withdrawn before anybody answered.")

    async def _row(self, client: Client, proposal_id: str) -> str:
        """The hash of what this client proposed; raises `ProposalRefused` (rule 5)."""
        found = await self.request_hash(client, proposal_id)
        # A grant has answered at once, and its answer is told once.
        if found is None or "." in proposal_id:
            raise ProposalRefused("There is no such proposal of this client.")
        return found

    async def request_hash(self, client: Client, proposal_id: str) -> str | None:
        """The hash of what this client proposed; None if it proposed no such thing."""
        row = await self.database.fetch_one(
            "SELECT client_id, request_hash FROM proposals WHERE proposal_id = ?", (proposal_id,)
        )
        return str(row[1]) if row is not None and row[0] == client.client_id else None

    async def _own(self, client: Client, proposal_id: str, request: Request) -> Question:
        """Rules 2 and 5."""
        asked = await self._row(client, proposal_id)
        question = await self.questions.get(proposal_id)
        shown = canonical_bytes(question.content.body["proposal"]["request"])
        if not asked == digest(bytes_of(request)) == digest(shown):
            await self.questions.close(proposal_id, "outdated")
            await self.audit.log("proposal_changed", card_id=proposal_id)
            raise ProposalRefused("The request is not the one on the card. The card is withdrawn.")
        return question

    async def _until(self, wait_seconds: float, asked: Question) -> Proposal:
        """The answer, or that there is none after this time."""
        end = self.clock.now() + timedelta(seconds=wait_seconds)
        while True:
            told = await self._standing(asked.question_id)
            if told.answer is not ProposalAnswer.WAITING or self.clock.now() >= end:
                return told
            await asyncio.sleep(_LOOK_SECONDS)

    async def _standing(self, name: str) -> Proposal:
        question = await self.questions.get(name)
        if question.state == "open" and self.clock.now() < question.expires_at:
            return _waiting_for(question)
        found = await self.questions.answered(name)
        if found is None:
            reason = "Nobody answered in time." if question.state != "outdated" else "Withdrawn."
            return _told(question, ProposalAnswer.DENY, reason)
        if found.value != YES:
            return _told(question, ProposalAnswer.DENY, "The owner declined it.")
        return _told(question, ProposalAnswer.ALLOW, "The owner allowed it, once.")

    async def _redeemed(self, client: Client, asked: Question) -> Proposal:
        """Tell a yes, once (rules 2 and 3)."""
        name = asked.question_id
        found = await self.questions.answered(name)
        payload = proposal_payload(asked)
        token = await self.decisions.token_of(found.decision, payload.id) if found else None
        if found is None or found.value != YES or token is None:
            return _told(asked, ProposalAnswer.DENY, "The answer leads to no approval.")
        valid, why = await self.approvals.verify(token, payload, accept=_ONE_STEP)  # 3
        if not valid:
            return _told(asked, ProposalAnswer.DENY, why)
        await self.database.execute(
            "UPDATE proposals SET redeemed_at = ? WHERE proposal_id = ?",
            (format_timestamp(self.clock.now()), name),
        )
        await self.audit.log("proposal_allowed", card_id=name, client_id=client.client_id)
        # A use that could be cut off the end of the log unnoticed could be told again.
        await self.approvals.vouch()
        told = _told(asked, ProposalAnswer.ALLOW, "The owner allowed it, once.")
        return told.model_copy(update={"token_id": token.token_id})

    async def _waiting(self, client: Client) -> list[Question]:
        begins = f"proposal:{client.client_id}:"
        return [each for each in await self.questions.open() if each.about.startswith(begins)]

    async def _lately(self, client: Client, most: int = 20) -> list[ClientProposal]:
        """What it has asked, the newest first."""
        rows = await self.database.fetch_all(_LATELY, (client.client_id, most))
        found = []
        for name, created_at, state, title in rows:
            asked = title or "Covered by a standing grant"
            if title is None and "." not in name:
                asked = (await self.questions.get(name)).content.intent
            found.append(
                ClientProposal(
                    proposal_id=name,
                    asked=asked,
                    state=state or "granted",
                    created_at=parse_timestamp(created_at),
                )
            )
        return found


def bytes_of(request: Request) -> bytes:
    """The exact bytes of a request; raises `ProposalRefused`."""
    try:
        content = canonical_bytes(request)
    except CanonicalError as error:
        raise ProposalRefused(f"The request cannot be shown exactly: {error}") from error
    if len(content) > MAX_REQUEST_BYTES:
        raise ProposalRefused("The request is too long to be shown whole. Nothing was allowed.")
    return content


def _approval_in(proof: bytes, trusted: PublicKeys) -> AttestedApproval:
    attested = verify_envelope(proof, trusted)
    if not isinstance(attested, AttestedApproval):
        raise ProofInvalid("It proves what was done, and allows nothing.")
    return attested


def _count(reader: Reader, query: str, *values: str) -> int:
    row = reader.fetch_one(query, values)
    return int(row[0]) if row is not None else 0


def _waiting_for(question: Question) -> Proposal:
    return _told(question, ProposalAnswer.WAITING, "It waits for the owner.")


def _told(question: Question, answer: ProposalAnswer, reason: str) -> Proposal:
    return Proposal(
        proposal_id=question.question_id,
        answer=answer,
        reason=reason,
        expires_at=question.expires_at,
    )
