"""What the owner is asked about a connection, each as one question that shows everything.

1. *Connect it?* shows account, servers, addresses in the owner's network, permissions and tools. A
   yes to it has the scope `connection_manage`, and is for exactly that. Reading alone is a medium
   risk, anything more a high one (spec 5.10.1).
2. *May it do more?* shows what it may now, and what it could then. Approve, just this once, deny.
3. *It does not work* shows why, and what can be done about it (`FailureReport`).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from silas.approval import ApprovalEngine, ApprovalScope, ApprovalToken
from silas.audit.models import AuditTrail
from silas.connections.models import (
    SENTENCES,
    Connection,
    FailureReport,
    covered_by,
    tier_of,
)
from silas.egress.accounts import Endpoint, Tier
from silas.gates.providers.builtin import escalation_needed
from silas.gates.risk import RiskLevel
from silas.kernel import ApprovalError, Clock, IdFactory, TaintLevel
from silas.review.decisions import Decisions, QuestionKind
from silas.review.questions import (
    ONCE,
    QUESTION,
    YES,
    AnsweredQuestion,
    Question,
    QuestionChoice,
    QuestionContent,
    QuestionStore,
    connection_payload,
)
from silas.skills.format import Skill

DECLINE, DENY = "decline", "deny"
SETUP, PERMISSION, FAILURE = "connection", "connection_permission", "connection_failure"
"""What a question is about begins with one of these; the ids of connection and question follow."""
_LIFETIME = timedelta(days=7)
_MANAGE = frozenset({ApprovalScope.CONNECTION_MANAGE})
_TIERS = {
    Tier.OBSERVE: "look: list, search, read",
    Tier.DRAFT: "prepare drafts that you send yourself",
    Tier.ACT: "act: change, send, delete",
    Tier.MANAGE: "manage the account's own rules and settings",
}


@dataclass(frozen=True)
class ConnectionCards:
    """Asks the owner about connections, and finds out what the owner has said."""

    questions: QuestionStore
    decisions: Decisions
    approvals: ApprovalEngine
    audit: AuditTrail
    clock: Clock
    ids: IdFactory
    owner_id: str

    async def ask_to_connect(self, connection: Connection, skill: Skill) -> Question:
        """Rule 1."""
        wanted = connection.initial_permissions
        reads = all(tier_of(each) is Tier.OBSERVE for each in wanted)
        shown = {
            "approval_id": self.ids.new("link"),
            "connection_id": connection.connection_id,
            "name": connection.name,
            "skill": skill.name,
            "skill_digest": skill.digest,
            "provider": connection.provider,
            "username": connection.username,
            "domain": connection.domain,
            "auth_strategy": connection.auth_strategy.value,
            "credential": connection.credential,
            "endpoints": [each.model_dump(mode="json") for each in connection.endpoints],
            "permissions": list(wanted),
            "tools": tools_of(skill, wanted),
        }
        return await self._ask(
            about(SETUP, connection),
            QuestionContent(
                kind=QuestionKind.CONNECTION,
                intent=f"Connect {connection.name}?",
                rationale=f"You asked for it. The skill {skill.name} looks after the account.",
                risk=RiskLevel.MEDIUM if reads else RiskLevel.HIGH,
                # Who the servers are was said by a script, which may have asked somebody.
                taint=TaintLevel.EXTERNAL,
                actions=[
                    QuestionChoice(value=YES, label="Connect it"),
                    QuestionChoice(value=DECLINE, label="Do not connect it"),
                ],
                body={"summary": summary_of(connection, skill), "connection": shown},
            ),
        )

    async def ask_for_more(self, connection: Connection, wanted: str, reason: str) -> Question:
        """Rule 2."""
        available = connection.permissions_available
        granted = covered_by(connection.permissions_granted, available)
        needed = escalation_needed(granted, [wanted])
        risk = RiskLevel.MEDIUM if needed and needed.risk == "medium" else RiskLevel.HIGH
        shown = {
            "approval_id": self.ids.new("link"),
            "connection_id": connection.connection_id,
            "connection_name": connection.name,
            "current_permissions": list(connection.permissions_granted),
            "requested_permissions": [wanted],
            "reason": reason,
        }
        return await self._ask(
            about(PERMISSION, connection),
            QuestionContent(
                kind=QuestionKind.PERMISSION,
                intent=f"Let {connection.name} {_TIERS[tier_of(wanted)]}?",
                rationale=reason,
                risk=risk,
                actions=[
                    QuestionChoice(value=YES, label="Allow it from now on"),
                    QuestionChoice(value=ONCE, label="Just this once"),
                    QuestionChoice(value=DENY, label="Do not allow it"),
                ],
                body=shown,
            ),
        )

    async def tell_failure(
        self, connection: Connection, report: FailureReport, *, details: str = ""
    ) -> Question:
        """Rule 3."""
        service = report.service or connection.provider or connection.name
        message = f"{SENTENCES[report.failure_type].format(service=service)} {report.message}"
        options = list(report.recovery_options)
        if details:
            options = [each for each in options if each.action != "show_details"]
        return await self._ask(
            about(FAILURE, connection),
            QuestionContent(
                kind=QuestionKind.CONNECTION_FAILURE,
                intent=f"{connection.name} does not work",
                rationale="Nothing uses this connection until it works again.",
                risk=RiskLevel.LOW,
                taint=TaintLevel.EXTERNAL,
                actions=[QuestionChoice(value=each.action, label=each.label) for each in options],
                body={
                    "failure_type": report.failure_type,
                    "service": service,
                    "message": f"{message}\n{details}".strip(),
                    "recovery_options": [each.model_dump(mode="json") for each in options],
                },
            ),
        )

    async def close(self, subject: str) -> None:
        """Nobody needs an answer to this any more."""
        for each in await self._open_about(subject):
            await self.questions.close(each.question_id, "outdated")

    async def answered(self, question_id: str) -> AnsweredQuestion | None:
        """The owner's answer, if there is one that is proven."""
        return await self.questions.answered(question_id)

    async def waiting(self, connection: Connection) -> list[Question]:
        """What waits for an answer about this connection."""
        found = []
        for kind in (SETUP, PERMISSION, FAILURE):
            found += await self._open_about(about(kind, connection))
        return found

    async def _open_about(self, subject: str) -> list[Question]:
        return [
            each for each in await self.questions.open() if each.about.startswith(f"{subject}:")
        ]

    async def use(self, found: AnsweredQuestion) -> bool:
        """Use up the token of a yes, once, for exactly what was shown; False: it gives nothing."""
        payload = connection_payload(found.question)
        try:
            token: ApprovalToken | None = await self.decisions.token_of(found.decision, payload.id)
        except ApprovalError as error:
            card = found.question.question_id
            await self.audit.log("decision_refused", card_id=card, reason=error.message)
            return False
        if token is None:
            return False
        valid, _ = await self.approvals.enter(token, payload, accept=_MANAGE)
        if valid:
            await self.approvals.carried_out(token, payload)
        return valid

    async def _ask(self, subject: str, content: QuestionContent) -> Question:
        await self.close(subject)
        now, name = self.clock.now(), self.ids.new(QUESTION)
        question = Question(
            question_id=name,
            scope_id=self.owner_id,
            trace_id=f"trace_{name}",
            about=f"{subject}:{name}",
            content=content,
            created_at=now,
            expires_at=now + _LIFETIME,
        )
        await self.questions.ask(question)
        return question


def about(kind: str, connection: Connection) -> str:
    """How what a question is about begins; its own id follows."""
    return f"{kind}:{connection.connection_id}"


def tools_of(skill: Skill, permissions: Sequence[str]) -> list[dict[str, Any]]:
    """The tools that these permissions open."""
    available = skill.sidecar.permissions.available
    open_ = set(covered_by(permissions, (*permissions, *available)))
    found = []
    for path, declared in sorted(skill.sidecar.scripts.items()):
        if declared.permission in open_:
            effect = declared.effect
            found.append(
                {
                    "name": declared.tool_name(path),
                    "description": declared.description,
                    "permission": declared.permission,
                    "action": effect.action.value if effect else "not declared",
                }
            )
    return found


def server_in_words(endpoint: Endpoint) -> str:
    """A server as a person reads it, with its address if that is a private one."""
    how = {"tls": "encrypted", "starttls": "encrypted", "none": "NOT encrypted"}[endpoint.tls]
    where = f"{endpoint.host}:{endpoint.port}"
    at = f", at the address {endpoint.address} in your own network" if endpoint.address else ""
    return f"{endpoint.kind.upper()} {where} ({how}{at})"


def summary_of(connection: Connection, skill: Skill) -> list[str]:
    """The card in sentences."""
    tiers = sorted({tier_of(each) for each in connection.initial_permissions}, key=list(Tier).index)
    tools = [each["name"] for each in tools_of(skill, connection.initial_permissions)]
    return [
        f"Account: {connection.username or connection.provider}.",
        *(f"Server: {server_in_words(each)}." for each in connection.endpoints),
        *(f"It may {_TIERS[tier]}." for tier in tiers),
        f"Tools: {', '.join(tools) or 'none'}.",
        "Whatever needs more is put before you first.",
        "Its password goes to the vault. No script, model, log or backup sees it.",
        f"Domain: {connection.domain}.",
    ]
