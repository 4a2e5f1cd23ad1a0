"""What the owner is asked about a connection, each as one question that shows everything.

1. *Connect it?* shows account, servers, addresses in the owner's network, permissions and tools. A
   yes to it has the scope `connection_manage`, and is for exactly that. Reading alone is a medium
   risk, anything more a high one (spec 5.10.1).
2. *May it do more?* shows what it may now, and what it could then. Approve, just this once, deny.
3. *It does not work* shows why, and what can be done about it (`FailureReport`).
4. *Its sign-in ends soon* comes a week before, for an account that is used.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any
from urllib.parse import quote, urlsplit

from silas.approval import ApprovalEngine, ApprovalScope, ApprovalToken
from silas.audit.models import AuditTrail
from silas.connections.models import (
    Connection,
    FailureReport,
    RecoveryOption,
    covered_by,
    tier_of,
)
from silas.egress.accounts import Endpoint, Tier
from silas.gates.providers.builtin import escalation_needed
from silas.gates.risk import RiskLevel
from silas.kernel import ApprovalError, Clock, IdFactory, TaintLevel, visible
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
from silas.review.unasked import UnaskedCards
from silas.skills.format import Skill

DECLINE, DENY = "decline", "deny"
RECONNECT, LATER = "reconnect", "remind_later"
SETUP, PERMISSION, FAILURE = "connection", "connection_permission", "connection_failure"
EXPIRY, CROSSING = "connection_expiry", "connection_crossing"
"""What a question is about begins with one of these; the ids of connection and question follow."""
_LIMIT = (
    "Silas holds itself to this at its broker. At the provider, the password or token opens what "
    "it opened before: it is not narrowed there."
)
_GUESSED = (
    "These servers are guessed from the address: nobody has confirmed them. Whoever runs them is "
    "told the password. Make sure that they are your provider's."
)
_LATER = "retry_later"
_STOPPED = "Nothing uses this connection until it works again."
_WAITS = f"{_STOPPED} Silas looks again at its next checks, for a week."
_LIFETIME = timedelta(days=7)
_MICROSOFT = "login.microsoftonline.com"
_MANAGE = frozenset({ApprovalScope.CONNECTION_MANAGE})
_NOT_NARROWED = (
    "The provider's token allows this already and cannot be narrowed to one call: it is Silas' "
    "broker, outside of every script, that keeps to what you allow."
)
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
    unasked: UnaskedCards
    """For what nobody has asked about: that a sign-in ends soon."""
    decisions: Decisions
    approvals: ApprovalEngine
    audit: AuditTrail
    clock: Clock
    ids: IdFactory
    owner_id: str

    async def ask_to_connect(
        self,
        connection: Connection,
        skill: Skill,
        *,
        guessed: bool = False,
        secret_from: str | None = None,
    ) -> Question:
        """Rule 1. `guessed` servers are those that nobody has confirmed."""
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
            "address": connection.address,
            "domain": connection.domain,
            "auth_strategy": connection.auth_strategy.value,
            "credential": connection.credential,
            "oauth": oauth_shown(connection),
            "secret_from": secret_from,
            "endpoints": [each.model_dump(mode="json") for each in connection.endpoints],
            "permissions": list(wanted),
            "tools": tools_of(skill, wanted),
        }
        return await self.ask(
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
                body={
                    "summary": summary_of(
                        connection, skill, guessed=guessed, secret_from=secret_from
                    ),
                    "connection": shown,
                },
            ),
        )

    async def ask_for_more(self, connection: Connection, wanted: str, reason: str) -> Question:
        """Rule 2."""
        available = connection.permissions_available
        granted = covered_by(connection.permissions_granted, available)
        if connection.oauth is not None:
            reason = f"{reason} {signs_in_again(connection, wanted) or _NOT_NARROWED}"
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
        return await self.ask(
            about(PERMISSION, connection),
            QuestionContent(
                kind=QuestionKind.PERMISSION,
                intent=f"Let {connection.name} {_TIERS[tier_of(wanted)]}?",
                rationale=f"{reason} {_LIMIT}",
                risk=risk,
                taint=TaintLevel.OWNER,
                actions=[
                    QuestionChoice(value=YES, label="Allow it from now on"),
                    QuestionChoice(value=ONCE, label="Just this once"),
                    QuestionChoice(value=DENY, label="Do not allow it"),
                ],
                body=shown,
            ),
        )

    async def tell_failure(
        self,
        connection: Connection,
        report: FailureReport,
        *,
        secret_kept: bool,
        details: str = "",
        draft: str = "",
    ) -> Question:
        """Rule 3. `draft` is a text that the owner may send to whoever runs the service."""
        service = report.service or connection.provider or connection.name
        done = {"show_details" if details else "", "draft_it_request" if draft else ""}
        options = [
            each
            for each in report.recovery_options(connection, secret_kept=secret_kept)
            if each.action not in done
        ]
        later = any(each.action == _LATER for each in options)
        return await self.ask(
            about(FAILURE, connection),
            QuestionContent(
                kind=QuestionKind.CONNECTION_FAILURE,
                intent=f"{connection.name} does not work",
                rationale=_WAITS if later else _STOPPED,
                risk=RiskLevel.LOW,
                taint=TaintLevel.EXTERNAL,
                actions=[QuestionChoice(value=each.action, label=each.label) for each in options],
                body={
                    "failure_type": report.failure_type,
                    "service": service,
                    "message": f"{report.sentence(service)}\n{details}".strip(),
                    "draft": draft,
                    "recovery_options": [each.model_dump(mode="json") for each in options],
                },
            ),
        )

    async def passes_by_itself(self, connection: Connection) -> bool:
        """Whether the owner knows of a failure that may be over by itself, and has not left it."""
        return any(
            choice.value == _LATER
            for card in await self._open_about(about(FAILURE, connection))
            for choice in card.content.actions
        )

    async def suggest_reconnect(self, connection: Connection, days: int) -> Question:
        """Rule 4."""
        left = "today" if days < 1 else f"in {days} day{'s' * (days != 1)}"
        options = (
            RecoveryOption(
                action=RECONNECT,
                label="Reconnect now",
                description="You sign in again. Nothing uses the connection until you have.",
            ),
            RecoveryOption(
                action=LATER,
                label="Remind me later",
                description="Silas asks again tomorrow.",
            ),
        )
        return await self.ask(
            about(EXPIRY, connection),
            QuestionContent(
                kind=QuestionKind.CONNECTION_FAILURE,
                intent=f"The sign-in of {connection.name} ends {left}",
                rationale="It works until then.",
                risk=RiskLevel.LOW,
                # When it ends was said by the connection's script.
                taint=TaintLevel.EXTERNAL,
                actions=[QuestionChoice(value=each.action, label=each.label) for each in options],
                body={
                    "failure_type": "expires_soon",
                    "service": connection.provider or connection.name,
                    "message": f"Sign in again before it ends {left}, and nothing is interrupted.",
                    "draft": "",
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
        for kind in (SETUP, PERMISSION, FAILURE, EXPIRY):
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

    async def ask(self, subject: str, content: QuestionContent) -> Question:
        """Put a question there, in place of one about the same."""
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
        if subject.startswith(f"{EXPIRY}:"):
            await self.unasked.ask(question)
        else:
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


def signs_in_again(connection: Connection, wanted: str) -> str:
    """What a permission takes at the provider, as the card says it; empty: nothing more."""
    scopes = connection.scopes_for(wanted)
    if connection.oauth is None or not scopes:
        return ""
    return (
        f"You sign in at {connection.oauth.server.issuer} once more, for: {' '.join(scopes)}. "
        "Until that is done, everything stays as it is. The new sign-in also covers this "
        "afterwards, if you allow it just this once: it is Silas' broker, outside of every "
        "script, that keeps to what you allow."
    )


def oauth_shown(connection: Connection) -> dict[str, Any] | None:
    """Where the owner signs in, as the card shows it and the owner signs it."""
    return connection.oauth.model_dump(mode="json") if connection.oauth else None


def _login(connection: Connection) -> str:
    return f", with the user name {connection.username}" if connection.address else ""


def _secret_in_words(connection: Connection, secret_from: str | None) -> list[str]:
    copied = (
        [f"Nobody is asked for its secret: it is copied from {secret_from!a} in the vault."]
        if secret_from
        else []
    )
    if connection.oauth is None:
        return [*copied, "Its password goes to the vault. No script, model, log or backup sees it."]
    server = connection.oauth.server
    at = f", at the address {server.address} in your own network" if server.address else ""
    scopes = " ".join(connection.oauth.scopes) or "nothing in particular"
    return [
        *copied,
        f"You sign in at {server.issuer}{at}, for the client {connection.oauth.client_id}.",
        f"That sign-in covers: {scopes}. Silas keeps to what is said above.",
        "Its tokens go to the vault. No script, model, log or backup sees them.",
    ]


def server_in_words(endpoint: Endpoint) -> str:
    """A server as a person reads it, with its address if that is a private one."""
    how = {"tls": "encrypted", "starttls": "encrypted", "none": "NOT encrypted"}[endpoint.tls]
    where = f"{endpoint.host}:{endpoint.port}"
    at = f", at the address {endpoint.address} in your own network" if endpoint.address else ""
    return f"{endpoint.kind.upper()} {where} ({how}{at})"


def summary_of(
    connection: Connection, skill: Skill, *, guessed: bool = False, secret_from: str | None = None
) -> list[str]:
    """The card in sentences."""
    tiers = sorted({tier_of(each) for each in connection.initial_permissions}, key=list(Tier).index)
    tools = [each["name"] for each in tools_of(skill, connection.initial_permissions)]
    return [
        f"Account: {connection.identity or connection.provider}{_login(connection)}.",
        *(f"Server: {server_in_words(each)}." for each in connection.endpoints),
        *([_GUESSED] if guessed else []),
        *(f"It may {_TIERS[tier]}." for tier in tiers),
        f"Tools: {', '.join(tools) or 'none'}.",
        "Whatever needs more is put before you first.",
        *_secret_in_words(connection, secret_from),
        f"Domain: {connection.domain}.",
    ]


def it_request(connection: Connection, skill: Skill) -> str:
    """A letter to whoever keeps the owner's organisation's rules: what is asked for, and why."""
    service = connection.provider or connection.name
    account = connection.identity or "my account"
    wanted = connection.permissions_granted or connection.initial_permissions
    lines = [
        f"Subject: Please let Silas use {service} for {account}",
        "",
        "Hello,",
        "",
        (
            f"I would like to use {service} ({account}) with Silas, a program on my own computer. "
            "Your rules do not let it in. Could you please allow it?"
        ),
        "",
        "What it would reach:",
        *(f"- {server_in_words(each)}" for each in connection.endpoints),
        "",
        "What it would do:",
    ]
    for permission in wanted:
        tools = tools_of(skill, [permission])
        why = "; ".join(each["description"].rstrip(".") for each in tools) or "nothing by itself"
        lines.append(f"- {permission} ({_TIERS[tier_of(permission)]}): {why}")
    lines += ["", "How it signs in:", *_registration(connection)]
    lines += [
        "",
        (
            "The password or token stays in a vault on my computer. Programs and models that Silas "
            "uses never see it. Whatever needs more than the above is put before me first."
        ),
        "",
        "Thank you.",
    ]
    return visible("\n".join(lines))


def _registration(connection: Connection) -> list[str]:
    """The client at the provider, where there is one; else how the account is opened."""
    oauth = connection.account(Tier.OBSERVE).credential.oauth
    if oauth is None:
        kind = "a token" if connection.credential == "bearer" else "an app password"
        return [f"- with {kind} that I make myself; it can be taken back at any time"]
    lines = [
        f"- application (client) ID: {oauth.client_id}",
        f"- sign-in at: {oauth.server.issuer}",
        f"- scopes: {' '.join(oauth.scopes) or 'none'}",
        "- redirect URI: http://127.0.0.1 (a port of my own computer), or a device code",
    ]
    home = urlsplit(oauth.server.issuer)
    if home.hostname == _MICROSOFT:
        tenant = home.path.split("/")[1] or "organizations"
        link = f"https://{_MICROSOFT}/{tenant}/adminconsent?client_id={quote(oauth.client_id)}"
        lines.append(f"- an administrator can consent here: {link}")
    return lines
