"""The approval engine: issues tokens, consumes them, and guards the door of execution.

- `issue_token`: after the owner decided. Signs exactly the bytes that were shown and remembers
  them. What is not canonical, too large, or approved too weakly is not signed.
- `prepare`, `issue_in`, `use_in`, `vouch`: the same in the transaction that stores the decision
  (`silas.review`): what is reported as failed has issued nothing.
- `verify`: before authorising. Applies the rules (`rules.py`), asks the audit log what was used
  before, whatever the counters say, then consumes one use in one atomic step: counter, execution
  nonce and audit entry are written together or not at all. Of any number of concurrent calls on a
  single-use token, in one process or several, exactly one succeeds.
- `check`: at the door of execution. Applies the rules again and demands that `verify` has consumed
  a use for exactly this content, which has not been carried out yet. It changes nothing.
- `enter`: the same, and the audit log bears it out (`RecordedUses`): counters that somebody has put
  back open nothing. It reads the log, so it is asked once for each execution, and not for each
  call. Whoever has just asked `check` asks `borne_out` for the rest.
"""

import asyncio
import contextlib
import os
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from silas.approval import rules
from silas.approval.errors import DecisionRefused, NonceUsed
from silas.approval.keys import KeyManager
from silas.approval.models import (
    EXECUTION_SCOPES,
    Approvable,
    ApprovalDecision,
    ApprovalScope,
    ApprovalStrength,
    ApprovalToken,
)
from silas.approval.rules import ApprovalPolicy, Refused, shown_whole
from silas.approval.store import (
    DONE,
    EXECUTION,
    ISSUED,
    TAKEN_BACK,
    USED,
    WITHDRAWN,
    NonceStore,
    RecordedUses,
    TokenState,
    TokenStore,
    UseSeal,
    complete_token,
    consume_token,
    done_entry,
    insert_token,
    void_token,
)
from silas.audit.models import AuditTrail, ExaminedLog
from silas.kernel import Clock, IdFactory, SilasError, format_timestamp
from silas.storage import Database, Durability, Transaction

VALID = (True, "Valid")
_STANDING = frozenset({ApprovalScope.STANDING})
_LASTING = frozenset(
    {ApprovalScope.STANDING, ApprovalScope.TOOL_TYPE, ApprovalScope.AUTONOMY_THRESHOLD}
)
"""What is in force for weeks, and asked about again and again: the vault knows what of it ended."""
_NONCE_BYTES = 16


class ApprovalEngine:
    """Issues and verifies approvals for one data directory."""

    def __init__(
        self,
        database: Database,
        keys: KeyManager,
        *,
        nonces: NonceStore,
        audit: AuditTrail,
        clock: Clock,
        ids: IdFactory,
        policy: ApprovalPolicy,
        entropy: Callable[[int], bytes] = os.urandom,
    ) -> None:
        self._database = database
        self._keys = keys
        self._nonces = nonces
        self._audit = audit
        self._clock = clock
        self._ids = ids
        self._policy = policy
        self._entropy = entropy
        self.tokens = TokenStore(database)
        self._recorded = RecordedUses(database, keys, audit)

    async def issue_token(
        self,
        work_item: Approvable,
        decision: ApprovalDecision,
        scope: ApprovalScope = ApprovalScope.FULL_PLAN,
        *,
        max_executions: int | None = None,
        ttl: timedelta | None = None,
    ) -> ApprovalToken:
        """Sign the owner's yes to exactly these bytes; raises `DecisionRefused` if it cannot be."""
        prepared = await self.prepare(
            work_item, decision, scope, max_executions=max_executions, ttl=ttl
        )
        await self._database.transaction(
            lambda tx: self.issue_in(tx, prepared), durability=Durability.TRUST
        )
        # An approval that could be cut off the end of the log unnoticed would not be worth much.
        await self._audit.write_checkpoint()
        return prepared.token

    def minimum_strength(self, scope: ApprovalScope) -> ApprovalStrength:
        """How strongly a decision of this scope has to be proven, by the settings."""
        return self._policy.minimum_strength(scope)

    async def prepare(
        self,
        work_item: Approvable,
        decision: ApprovalDecision,
        scope: ApprovalScope,
        *,
        max_executions: int | None = None,
        ttl: timedelta | None = None,
    ) -> "PreparedToken":
        """Sign a token that is not issued yet; raises `DecisionRefused` if it cannot be."""
        shown = shown_whole(work_item.plan_bytes())
        self._policy.require_decision(decision, scope)
        conditions, spawn_policy = self._policy.conditions_of(work_item, decision, scope)
        uses = self._policy.uses_of(scope, max_executions)
        now = self._clock.now()
        token_id = self._ids.new("tok")
        token = ApprovalToken(
            token_id=token_id,
            plan_hash=rules.digest(shown),
            work_item_id=work_item.id,
            scope=scope,
            verdict=decision.verdict,
            signature=b"",
            issued_at=now,
            expires_at=now + (ttl or self._policy.ttl_of(scope)),
            nonce=f"{token_id}.{self._entropy(_NONCE_BYTES).hex()}",
            approval_strength=decision.approval_strength,
            conditions=conditions,
            max_executions=uses,
        )
        # Reading the key may mean asking the operating system's keyring: not on the event loop.
        key_id, signature = await asyncio.to_thread(self._keys.sign, token.canonical_bytes())
        token = token.model_copy(update={"signature": signature})
        return PreparedToken(token, key_id, shown, spawn_policy)

    def issue_in(self, tx: Transaction, prepared: "PreparedToken") -> None:
        """Issue a token as part of a transaction; `vouch` belongs after it."""
        token = prepared.token
        insert_token(tx, token, shown=prepared.shown, spawn_policy=prepared.spawn_policy)
        event = {**_summary(token), "key_id": prepared.key_id, "expires_at": token.expires_at}
        self._audit.append(tx, ISSUED, event)

    def use_in(
        self, tx: Transaction, token: ApprovalToken, work_item: Approvable, scope: ApprovalScope
    ) -> None:
        """Use a token up for this, as part of the transaction that issues it."""
        try:
            content_hash = self._require_rules(token, work_item, None, frozenset({scope}))
            used = self._use(tx, token, content_hash, seal=None)
        except (Refused, NonceUsed) as refused:
            raise DecisionRefused(f"The decision could not be used: {refused}.") from refused
        if not used:
            raise DecisionRefused("The decision could not be used: The token has been used up.")

    async def vouch(self) -> None:
        """Have the log vouched for. What was committed has happened, whether that works or not."""
        try:
            await self._audit.write_checkpoint()
        except SilasError as error:
            entry = {"error": error.message}
            with contextlib.suppress(SilasError):  # a disk that fails now takes nothing of it back
                await self._database.transaction(
                    lambda tx: self._audit.append(tx, "audit_checkpoint_failed", entry),
                    durability=Durability.TRUST,
                )

    def is_current(self, decided_at: datetime) -> bool:
        """Whether a decision of that time may still lead to an approval."""
        return rules.is_current(decided_at, self._clock.now(), self._policy.default_ttl)

    async def verify(
        self,
        token: ApprovalToken,
        work_item: Approvable,
        spawned_task: Approvable | None = None,
        *,
        accept: frozenset[ApprovalScope] = EXECUTION_SCOPES,
    ) -> tuple[bool, str]:
        """Consume one use of the token for this work; returns (valid, reason)."""
        try:
            content_hash = self._require_rules(token, work_item, spawned_task, accept)
            await self._consume(token, content_hash)
        except Refused as refused:
            return await self._refuse("verify", token, work_item, str(refused))
        return VALID

    async def check(
        self,
        token: ApprovalToken,
        work_item: Approvable,
        *,
        accept: frozenset[ApprovalScope] = EXECUTION_SCOPES,
        as_of: datetime | None = None,
    ) -> tuple[bool, str]:
        """Whether `verify` has authorised exactly this work; consumes nothing.

        `as_of` is when work was begun that goes on now: it must have been in time then. Whoever
        gives it has proof of that moment. Everything else must hold now.
        """
        try:
            content_hash = self._require_entry(token, work_item, accept, as_of=as_of)
            await self._require_consumed(token, content_hash)
        except Refused as refused:
            return await self._refuse("check", token, work_item, str(refused))
        return VALID

    async def enter(
        self,
        token: ApprovalToken,
        work_item: Approvable,
        *,
        accept: frozenset[ApprovalScope] = EXECUTION_SCOPES,
        most: int | None = None,
        as_of: datetime | None = None,
    ) -> tuple[bool, str]:
        """`check`, borne out by the audit log; with `most`, for one of so many attempts."""
        valid, reason = await self.check(token, work_item, accept=accept, as_of=as_of)
        if not valid:
            return False, reason
        found = await self.borne_out(token, work_item, most=most)
        return found.valid, found.reason

    async def borne_out(
        self, token: ApprovalToken, work_item: Approvable, *, most: int | None = None
    ) -> "BorneOut":
        """Whether the audit log bears out what `check` has just allowed; see `enter`."""
        content_hash = rules.digest(work_item.plan_bytes())
        try:
            examined = await self._recorded.require_open(token, content_hash, most=most)
        except Refused as refused:
            return BorneOut(*await self._refuse("enter", token, work_item, str(refused)), None)
        return BorneOut(*VALID, examined)

    async def carried_out(self, token: ApprovalToken, work_item: Approvable) -> None:
        """Remember that this was done: its approval opens no door any more."""
        content_hash = rules.digest(work_item.plan_bytes())
        now = format_timestamp(self._clock.now())

        def remember(tx: Transaction) -> None:
            complete_token(tx, token.token_id, content_hash=content_hash, now=now)
            self._audit.append(tx, DONE, done_entry(token.token_id, content_hash))

        await self._database.transaction(remember, durability=Durability.TRUST)
        await self._audit.write_checkpoint()

    async def withdraw(self, token: ApprovalToken, work_item: Approvable) -> None:
        """The owner takes it back: nothing more is done under it, whatever the rows will say."""
        content_hash = rules.digest(work_item.plan_bytes())
        if token.scope is ApprovalScope.STANDING and content_hash == token.plan_hash:
            await asyncio.to_thread(self._keys.withdrawn.add, token.token_id)
        entry = done_entry(token.token_id, content_hash)
        await self._database.transaction(
            lambda tx: self._audit.append(tx, WITHDRAWN, entry), durability=Durability.TRUST
        )
        await self._audit.write_checkpoint()

    async def revoke(
        self, token_id: str, *, also: Callable[[Transaction, ApprovalToken], None] | None = None
    ) -> ApprovalToken:
        """The owner takes an approval back by its id, used or not; raises `TokenUnknown`.

        From now on `verify`, `check` and `check_goal` refuse it. The log forbids it as well, if
        somebody puts the row back, and for what is in force for long, the vault. `also` is written
        in the same transaction, so that nobody finds the approval gone and its work going on.
        """
        token = (await self.tokens.load(token_id)).token
        if token.scope in _LASTING:
            await asyncio.to_thread(self._keys.withdrawn.add, token.token_id)

        def write(tx: Transaction) -> None:
            self.revoke_in(tx, token)
            if also is not None:
                also(tx, token)

        await self._database.transaction(write, durability=Durability.TRUST)
        await self.vouch()
        return token

    def revoke_in(self, tx: Transaction, token: ApprovalToken) -> None:
        """The row and the log of taking back an approval that is good once; `vouch` comes after."""
        now, entry = (
            format_timestamp(self._clock.now()),
            done_entry(token.token_id, token.plan_hash),
        )
        void_token(tx, token.token_id, now=now, reason=TAKEN_BACK)
        self._audit.append(tx, WITHDRAWN, {**entry, "work_item_id": token.work_item_id})

    async def check_goal(self, token: ApprovalToken, goal: Approvable) -> tuple[bool, str]:
        """Whether a standing approval of exactly this goal is in force; consumes nothing.

        It lets the goal's own checks run. Every task that they lead to needs `verify`.
        """
        try:
            rules.require_signature(token, self._keys.public)
            rules.require_scope(token, _STANDING)
            rules.require_plan(token, goal)
            rules.require_policy(token, goal)
            rules.require_verdict(token, goal, self._policy.condition_checks)
            rules.require_time(token, self._clock.now())
            await self._require_in_force(token, token.plan_hash)
        except Refused as refused:
            return await self._refuse("check_goal", token, goal, str(refused))
        return VALID

    def _require_rules(
        self,
        token: ApprovalToken,
        work_item: Approvable,
        spawned_task: Approvable | None,
        accept: frozenset[ApprovalScope],
    ) -> str:
        """The rules before consumption; returns the hash of what will be executed."""
        rules.require_signature(token, self._keys.public)
        rules.require_scope(token, accept)
        plan_hash = rules.require_plan(token, work_item)
        if token.scope is not ApprovalScope.STANDING:
            if spawned_task is not None:
                raise Refused("Only a standing token authorises a spawned task")
            content, content_hash = work_item, plan_hash
        else:
            if spawned_task is None:
                raise Refused("Standing verification requires spawned_task")
            rules.require_policy(token, work_item)
            content, content_hash = spawned_task, rules.require_spawned(token, spawned_task)
        rules.require_verdict(token, content, self._policy.condition_checks)
        rules.require_time(token, self._clock.now())
        return content_hash

    def _require_entry(
        self,
        token: ApprovalToken,
        work_item: Approvable,
        accept: frozenset[ApprovalScope],
        *,
        as_of: datetime | None,
    ) -> str:
        """The rules at the door of execution, where a standing token meets the task itself."""
        rules.require_signature(token, self._keys.public)
        rules.require_scope(token, accept)
        standing = token.scope is ApprovalScope.STANDING
        require = rules.require_spawned if standing else rules.require_plan
        content_hash = require(token, work_item)
        rules.require_verdict(token, work_item, self._policy.condition_checks)
        now = self._clock.now()
        rules.require_time(token, now if as_of is None else min(as_of, now))
        return content_hash

    async def _consume(self, token: ApprovalToken, content_hash: str) -> None:
        seal = None
        await self._require_in_force(token, content_hash)
        await self._recorded.require_left(token)
        if token.scope is ApprovalScope.STANDING:
            began = self._clock.now()
            seal = await asyncio.to_thread(self._recorded.seal, token, content_hash, began)
        try:
            used = await self._database.transaction(
                lambda tx: self._use(tx, token, content_hash, seal=seal),
                durability=Durability.TRUST,
            )
        except NonceUsed as error:
            raise Refused("The execution nonce was used before") from error
        if not used:
            raise Refused(await self._why_not_consumed(token, content_hash))

    def _use(
        self, tx: Transaction, token: ApprovalToken, content_hash: str, *, seal: UseSeal | None
    ) -> bool:
        """Consume one use, as part of this transaction; False if there is none."""
        nonce = self._entropy(_NONCE_BYTES).hex()
        now = self._clock.now()
        rules.require_time(token, now)  # waiting in line may have taken it past its expiry
        if not consume_token(
            tx, token, content_hash=content_hash, nonce=nonce, now=format_timestamp(now)
        ):
            return False
        self._nonces.record_in(tx, EXECUTION, f"{token.token_id}:{content_hash}:{nonce}")
        if seal is not None:
            seal.insert(tx)
        self._audit.append(tx, USED, {**_summary(token), "content_hash": content_hash})
        return True

    async def _why_not_consumed(self, token: ApprovalToken, content_hash: str) -> str:
        state = await self.tokens.state(token.token_id, content_hash)
        if state is None or state.signature != token.signature.hex():
            return "The token was not issued here"
        if state.void_reason:
            return f"The token is void: {state.void_reason}"
        return "The token has been used up"

    async def _require_in_force(self, token: ApprovalToken, content_hash: str) -> TokenState:
        state = await self.tokens.state(token.token_id, content_hash)
        if state is None or state.signature != token.signature.hex():
            raise Refused("The token was not issued here")
        if state.void_reason:
            raise Refused(f"The token is void: {state.void_reason}")
        if token.scope in _LASTING:
            await asyncio.to_thread(self._require_not_withdrawn, token)
        return state

    def _require_not_withdrawn(self, token: ApprovalToken) -> None:
        try:
            if token.token_id not in self._keys.withdrawn.ids():
                return
        except SilasError as error:
            raise Refused(error.message) from error
        raise Refused(TAKEN_BACK)

    async def _require_consumed(self, token: ApprovalToken, content_hash: str) -> None:
        state = await self._require_in_force(token, content_hash)
        if not 1 <= state.executions_used <= token.max_executions:
            raise Refused("The token has not been verified")
        if not state.used_for_content:
            raise Refused("The token was verified for something else")
        if state.completed:
            raise Refused("What was approved has been carried out")

    async def _refuse(
        self, door: str, token: ApprovalToken, work_item: Approvable, reason: str
    ) -> tuple[bool, str]:
        event = {"door": door, "reason": reason, "asked_for": work_item.id, **_summary(token)}
        await self._database.transaction(
            lambda tx: self._audit.append(tx, "approval_refused", event),
            durability=Durability.TRUST,
        )
        return False, reason


class BorneOut(NamedTuple):
    """What the audit log says to an execution."""

    valid: bool
    reason: str
    examined: ExaminedLog | None
    """How far the log was examined, for the checkpoint that the execution begins with."""


@dataclass(frozen=True)
class PreparedToken:
    """A token that nobody has been given yet, and the bytes that it is about."""

    token: ApprovalToken
    key_id: str
    shown: bytes
    spawn_policy: bytes | None


def _summary(token: ApprovalToken) -> dict[str, Any]:
    return {
        "token_id": token.token_id,
        "work_item_id": token.work_item_id,
        "plan_hash": token.plan_hash,
        "scope": token.scope.value,
        "verdict": token.verdict.value,
    }
