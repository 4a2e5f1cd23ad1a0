"""The tools of a connection as work uses them: with an account, and as far as it goes.

1. A tool's name says nothing of an account. Its argument `account` does; without it, the only
   account of this kind is meant.
2. The gate `connection_permission` looks at every call (`silas.work.tool_calls`). What is decided
   there is decided again here: no permission, no account.
3. A call gets the account as far as its own tool needs, and no further: who searches with a
   connection that may send cannot send. A tool that sends sends one message, and if it names the
   arguments with its recipients, to these alone: the ones that the owner has seen.
4. *Just this once* is used up before the call is made.
5. What work has read of one domain is not used with an account of another one, unless the owner
   has signed a policy for it (`domains`).
6. Each use is written down: with which connection, which tool.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError

from silas.audit.models import AuditTrail
from silas.connections.domains import DomainPolicies, account_source
from silas.connections.models import Connection, covered_by, tier_of
from silas.connections.registry import ConnectionStore
from silas.egress.accounts import BrokeredAccount, Narrowing
from silas.gates.risk import ActionKind
from silas.kernel import Clock, TaintLevel, visible
from silas.kernel.models import problem_text
from silas.skills.format import Skill
from silas.skills.sidecar import ACCOUNT, ArgumentType, ScriptArgument, ScriptDeclaration
from silas.tools.declaration import ArgumentsRefused, Tool
from silas.tools.execution import (
    ACCOUNT_SOURCE,
    EphemeralExecutor,
    ExecutionEnvelope,
    ExecutionResult,
    failed,
)

_WHICH = ScriptArgument(
    type=ArgumentType.STRING,
    description="The name of the connection; it can be left out if there is only one.",
    optional=True,
    max_length=120,
)


@dataclass(frozen=True)
class AccountTools:
    """Gives the tools of connections their accounts (`Connected` of the skills)."""

    store: ConnectionStore
    audit: AuditTrail
    clock: Clock

    @property
    def policies(self) -> DomainPolicies:
        """What may cross from one domain to another."""
        return DomainPolicies(self.store)

    def __call__(self, skill: Skill, tools: Sequence[Tool]) -> Sequence[Tool]:
        """The same tools, each with its account."""
        by_name = {tool: skill.sidecar.scripts[path] for tool, path in skill.sidecar.tools.items()}
        return [self._connected(skill.name, each, by_name[each.name]) for each in tools]

    def _connected(self, skill: str, tool: Tool, declared: ScriptDeclaration) -> Tool:
        asked = declared.model_copy(update={"arguments": {**declared.arguments, ACCOUNT: _WHICH}})
        use = _Use(self.store, skill, declared.permission)
        return Tool(
            tool.name,
            asked.arguments_model,
            _AccountExecutor(use, tool.executor, self, declared),
            contained=False,
            effect=tool.effect,
            inverse=tool.inverse,
            # To search an account of one's own tells nobody anything.
            own_account=tool.only_observes,
            description=tool.description,
            account=use,
        )


def _narrowed(declared: ScriptDeclaration, args: Mapping[str, Any]) -> Narrowing:
    """Rule 3; raises `ArgumentsRefused` if a recipient is no address."""
    # To unsubscribe is a mail to a list.
    sends = declared.action in (ActionKind.SEND, ActionKind.DESTROY)
    uses, recipients = declared.uses, None
    if uses.recipients is not None:
        said = [args.get(name) or () for name in uses.recipients]
        recipients = [to for each in said for to in ([each] if isinstance(each, str) else each)]
    try:
        return Narrowing(
            messages=1 if sends else 0, http=uses.http, imap=uses.imap, recipients=recipients
        )
    except ValidationError as error:
        raise ArgumentsRefused(problem_text(error)) from error


@dataclass(frozen=True)
class _Use:
    """`AccountUse` of one tool."""

    store: ConnectionStore
    skill: str
    permission: str | None

    async def connection(self, args: Mapping[str, Any]) -> Connection:
        """The account that a call means; raises `ArgumentsRefused` (rule 1)."""
        every = [each for each in await self.store.listed() if each.skill_name == self.skill]
        usable = [each for each in every if each.usable]
        named = args.get(ACCOUNT)
        if named is not None:
            wanted = str(named).casefold()
            usable = [
                each for each in usable if wanted in (each.name.casefold(), each.connection_id)
            ]
        if len(usable) == 1:
            return usable[0]
        known = ", ".join(f"{each.name} ({each.status.value})" for each in every) or "none"
        if usable:
            raise ArgumentsRefused(f"{ACCOUNT}: say which one is meant: {known}")
        raise ArgumentsRefused(
            f"{ACCOUNT}: there is no such connection that works; there are: {known}"
        )

    async def gate_context(self, args: Mapping[str, Any]) -> Mapping[str, Any]:
        """What the gate looks at (rule 2)."""
        connection = await self.connection(args)
        available = connection.permissions_available
        return {
            "connection": connection.name,
            "connection_id": connection.connection_id,
            "required_permissions": None if self.permission is None else [self.permission],
            "permissions_granted": covered_by(connection.permissions_granted, available),
            "permissions_once": covered_by(connection.permissions_once, available),
            "permissions_available": list(available),
        }


@dataclass(frozen=True)
class _AccountExecutor:
    """Runs a script of a connection with its account."""

    use: _Use
    inner: EphemeralExecutor
    tools: AccountTools
    declared: ScriptDeclaration

    async def execute(self, envelope: ExecutionEnvelope) -> ExecutionResult:
        """Rules 2 to 6."""
        try:
            connection = await self.use.connection(envelope.args)
            account = await self._account(connection, envelope)
        except ArgumentsRefused as error:
            return failed(envelope, str(error), taint=TaintLevel.EXTERNAL)
        args = {name: value for name, value in envelope.args.items() if name != ACCOUNT}
        config = envelope.sandbox_config.model_copy(update={"accounts": (account,)})
        await self._note(connection, envelope)
        result = await self.inner.execute(
            envelope.model_copy(update={"args": args, "sandbox_config": config})
        )
        read = account_source(visible(connection.name, keep_newlines=False), connection.domain)
        return result.model_copy(update={"metadata": {**result.metadata, ACCOUNT_SOURCE: read}})

    async def _account(
        self, connection: Connection, envelope: ExecutionEnvelope
    ) -> BrokeredAccount:
        permission = self.use.permission
        await self._require_domain(connection, envelope)
        if permission is None or not await self._may(connection, permission, envelope):
            name = visible(connection.name, keep_newlines=False)
            raise ArgumentsRefused(f"{name} was not granted {permission or 'what this needs'}")
        account = connection.account(tier_of(permission))
        narrowed = _narrowed(self.declared, envelope.args)
        await self.tools.policies.note(_work_of(envelope), connection.domain)
        return account.model_copy(update={"narrowed": narrowed})

    async def _require_domain(self, connection: Connection, envelope: ExecutionEnvelope) -> None:
        """Rule 5."""
        target = connection.domain
        related = (_work_of(envelope), *envelope.made_from)
        refused = await self.tools.policies.refused(target, work=related, sources=envelope.sources)
        if refused:
            raise ArgumentsRefused(
                f"{visible(connection.name, keep_newlines=False)} belongs to {target}, and this "
                f"work has read of {', '.join(refused)}: nothing crosses without your policy "
                f"(`silas connections cross {refused[0]} {target}`)"
            )

    async def _may(
        self, connection: Connection, permission: str, envelope: ExecutionEnvelope
    ) -> bool:
        available = connection.permissions_available
        if permission in covered_by(connection.permissions_granted, available):
            return True
        if permission in envelope.permissions_once:
            return True
        if permission not in covered_by(connection.permissions_once, available):
            return False
        return await self.tools.store.use_once(connection, permission)  # rule 4

    async def _note(self, connection: Connection, envelope: ExecutionEnvelope) -> None:
        await self.tools.store.note(connection.connection_id, last_used_at=self.tools.clock.now())
        await self.tools.audit.log(
            "connection_used",
            connection=connection.connection_id,
            name=connection.name,
            tool=envelope.action,
            work_item_id=_work_of(envelope),
        )


def _work_of(envelope: ExecutionEnvelope) -> str:
    return envelope.execution_id.rsplit(".", 2)[0]
