"""Standing grants: what the owner approved again and again, unchanged, allowed for a while.

1. A grant is proposed from calls that the owner decided himself, one by one, and approved every
   time: same tool, same account, same recipients, nothing taken back. What a stranger's text had a
   part in, what expired and what was ticked beforehand count for nothing.
2. It is never proposed for what cannot be undone but for words to people, for what deletes, grants
   or pays, for a tool that declares nothing, or for a value that changed and is no plain text.
3. It is an action envelope (`silas.gates.envelopes`) with a tool, a constraint for each argument, a
   most for each day and for all of it, and an end. The card shows all of that, and the owner signs
   exactly that.
4. It is in force by that token alone, checked at every look, until its end, and as long as nobody
   has taken it back: that is kept in the vault. A row alone allows nothing.
5. It covers a call whose run has read nothing of a stranger's. One that has is asked about, as
   always. Gates come before it, and what a gate asks is not answered by it.
6. Each use is counted before the call is made, in one transaction with its entry in the log, and
   told on Activity. What is used up for today or for good covers nothing more.
7. What the owner has widened of a grant (`standing.*`) is in force by a token of its own
   (`calibrator`), within the caps.
8. When the owner corrects more of this kind, the grant ends by itself.
"""

import asyncio
import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cached_property
from itertools import takewhile
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo

from pydantic import ValidationError

from silas.approval import ApprovalEngine, ApprovalScope, ApprovalToken
from silas.approval.keys import EVERYTHING, EndedNames
from silas.audit.models import AuditTrail
from silas.gates.envelopes import ActionEnvelope, ArgumentConstraint, is_inside
from silas.gates.risk import ActionKind, DeclaredEffect, EffectOf, Reversibility, RiskLevel
from silas.kernel import (
    ApprovalError,
    CanonicalError,
    Clock,
    IdFactory,
    TaintLevel,
    canonical_bytes,
    format_timestamp,
    parse_timestamp,
    strict_loads,
    visible,
)
from silas.kernel.models import Data, UtcDatetime
from silas.proactive.calibrator import AutonomyCalibrator, InForce, Knob, KnobSubject
from silas.proactive.outcomes import Case, OutcomeStore, Tally, family_of_tool
from silas.review.decisions import Decisions, QuestionKind
from silas.review.questions import (
    GRANT_TTL,
    QUESTION,
    YES,
    AnsweredQuestion,
    Question,
    QuestionChoice,
    QuestionContent,
    QuestionStore,
    ShownPayload,
)
from silas.storage import Database, Durability, Transaction
from silas.work.authorisation import final_lines, payload_of
from silas.work.ports import PausedCall

ENDED_GRANTS_REF = "silas/ended-grants"
GRANT_USED, GRANT_GIVEN, GRANT_ENDED = "grant_used", "grant_given", "grant_ended"
_ACCEPT = frozenset({ApprovalScope.TOOL_TYPE})
_JUST_BEFORE = timedelta(microseconds=1)
_LOOKED_BACK = timedelta(days=60)
_NOT_AGAIN = timedelta(days=30)
_SOON = timedelta(days=7)
_WORTH_ASKING = timedelta(days=1)
_LIFETIME = timedelta(days=7)
_RECIPIENTS = ("to", "cc", "bcc")
_FREE_TEXTS = frozenset({"text", "subject", "body", "message", "title", "comment"})
_MONEY = ("amount", "price", "iban", "currency", "payment", "salary", "account_number", "sum")
_ACCOUNT = "account"
_GRANTED = frozenset({ActionKind.TIDY, ActionKind.SEND, ActionKind.CHANGE})
_MOST_SHOWN = 12
_INSERT = """
INSERT INTO standing_grants (grant_id, content, token, granted_at) VALUES (?, ?, ?, ?)
ON CONFLICT (grant_id) DO NOTHING
"""
_OPEN = "SELECT content, token FROM standing_grants WHERE ended_at IS NULL ORDER BY granted_at"
_GIVEN = "SELECT granted_at FROM standing_grants WHERE grant_id = ?"
_HOLDS = "SELECT 1 FROM standing_grants WHERE grant_id = ? AND ended_at IS NULL"
_NAMES = "SELECT grant_id, token FROM standing_grants WHERE ended_at IS NULL"
_ALL = "SELECT content, token, granted_at, ended_at FROM standing_grants ORDER BY granted_at DESC"
_END = "UPDATE standing_grants SET ended_at = ? WHERE grant_id = ? AND ended_at IS NULL"
_USES = "SELECT count(*) FROM grant_uses WHERE grant_id = ? AND at >= ?"
_USE = "INSERT INTO grant_uses (grant_id, work_item_id, tool, args, at) VALUES (?, ?, ?, ?, ?)"
_USED = """
SELECT work_item_id, tool, args, at FROM grant_uses WHERE grant_id = ? ORDER BY at DESC LIMIT 200
"""
_CALL = "SELECT call FROM paused_calls WHERE id = ?"


class GrantPolicy(Data):
    """The settings, as far as grants are concerned."""

    enabled: bool = True
    repeats: int = 12
    """So many approvals in a row."""
    days: int = 30
    most_a_day: int = 5
    most: int = 30


class StandingGrant(Data):
    """What the owner allows for a while, as it is shown and signed (rule 3)."""

    grant_id: str
    scope_id: str
    tool: str
    family: str
    envelope: ActionEnvelope
    most_a_day: int
    until: UtcDatetime

    @property
    def account(self) -> str | None:
        """The account that it is about, if it is about one."""
        found = self.envelope.constraints.get(_ACCOUNT)
        return str(found.equals) if found is not None and found.equals is not None else None

    @property
    def recipients(self) -> frozenset[str]:
        """To whom it may speak."""
        named = [self.envelope.constraints.get(name) for name in _RECIPIENTS]
        known = [each for each in named if each is not None]
        one = [str(each.equals) for each in known if each.equals is not None]
        return frozenset([*one, *(str(e) for each in known for e in each.each_of or ())])

    @property
    def names_people(self) -> bool:
        """Whether it has lists of recipients, to which somebody can be added."""
        named = [self.envelope.constraints.get(name) for name in _RECIPIENTS]
        return any(each is not None and each.each_of is not None for each in named)

    def payload(self) -> ShownPayload:
        """What its token is for."""
        return ShownPayload(self.grant_id, self.model_dump(mode="json"))


class GrantUse(Data):
    """One call that was made under a grant."""

    work_item_id: str
    tool: str
    args: dict[str, Any]
    at: UtcDatetime


class GrantShown(Data):
    """A grant as the page and `silas grants` show it."""

    grant_id: str
    tool: str
    account: str | None
    words: tuple[str, ...]
    until: UtcDatetime
    most_a_day: int
    most: int
    used: int
    used_today: int
    in_force: bool
    granted_at: UtcDatetime
    uses: tuple[GrantUse, ...] = ()


class StandingGrantUnknown(ApprovalError):
    """There is no such grant in force. `silas grants list` shows them."""

    code = "E_APPROVAL_GRANT"


class _Decided(NamedTuple):
    """A call that the owner decided himself."""

    call: PausedCall
    case: Case


class _Alike(NamedTuple):
    """What calls must share to be the same again and again."""

    tool: str
    account: str
    recipients: frozenset[str]


@dataclass(frozen=True)
class StandingGrants:
    """The grants of one data directory."""

    database: Database
    approvals: ApprovalEngine
    decisions: Decisions
    questions: QuestionStore
    outcomes: OutcomeStore
    calibrator: AutonomyCalibrator
    effect_of: EffectOf
    audit: AuditTrail
    clock: Clock
    ids: IdFactory
    zone: ZoneInfo
    owner_id: str
    policy: GrantPolicy

    @cached_property
    def ended(self) -> EndedNames:
        """What was taken back (rule 4)."""
        return EndedNames(self.calibrator.vault, ENDED_GRANTS_REF, self.clock)

    async def in_force(self) -> list[StandingGrant]:
        """The grants that hold now, as they were widened (rules 4 and 7)."""
        rows = await self.database.fetch_all(_OPEN)
        if not rows:
            return []
        changes = await self.calibrator.in_force()
        found = [await self._proven(str(content), str(token), changes) for content, token in rows]
        return [each for each in found if each is not None]

    async def _proven(
        self, content: str, kept: str, changes: Sequence[InForce]
    ) -> StandingGrant | None:
        try:
            token = ApprovalToken.model_validate_json(kept)
            grant = StandingGrant.model_validate(strict_loads(content))
        except (CanonicalError, ValidationError):
            return None
        if await asyncio.to_thread(self.ended.covers, grant.grant_id, token.issued_at):
            return None
        if not (await self.approvals.check(token, grant.payload(), accept=_ACCEPT))[0]:
            return None
        widened = _widened(grant, [e for e in changes if e.goal_id == grant.grant_id])
        # However long it was made to hold, it ends with its token.
        until = min(widened.until, token.expires_at)
        return widened.model_copy(update={"until": until}) if self.clock.now() < until else None

    async def use(self, call: PausedCall, make: bool) -> str | None:
        """The grant that covers this call (rules 5 and 6); `make`: one use of it is counted.

        None if none does: then the owner is asked, as always.
        """
        effect = self.effect_of(call.tool)
        # What the tool of this name does may have changed since it was granted (rule 2).
        if effect is None or not _may_be_granted(effect, [call.args]):
            return None
        if call.taint is TaintLevel.EXTERNAL:
            return None
        for grant in await self.in_force():
            if not is_inside([grant.envelope], call.tool, call.args):
                continue
            free = await self._count_in(grant, call) if make else await self._has_room(grant)
            if free:
                return grant.grant_id
        return None

    async def _has_room(self, grant: StandingGrant) -> bool:
        today = await self._used(grant.grant_id, since=self._today())
        return today < grant.most_a_day and await self._used(grant.grant_id) < _most(grant)

    async def _count_in(self, grant: StandingGrant, call: PausedCall) -> bool:
        """Count one use, if there is one left (rule 6)."""
        now, today = format_timestamp(self.clock.now()), self._today()

        def write(tx: Transaction) -> bool:
            if tx.fetch_one(_HOLDS, (grant.grant_id,)) is None:
                return False  # taken back since it was looked at
            used = [
                int((tx.fetch_one(_USES, (grant.grant_id, since)) or (0,))[0])
                for since in (today, "")
            ]
            if used[0] >= grant.most_a_day or used[1] >= _most(grant):
                return False
            args = canonical_bytes(call.args).decode()
            tx.execute(_USE, (grant.grant_id, call.work_item_id, call.tool, args, now))
            entry = {"work_item_id": call.work_item_id, "tool": call.tool, "grant": grant.grant_id}
            self.audit.append(tx, GRANT_USED, entry)
            return True

        return await self.database.transaction(write, durability=Durability.TRUST)

    async def answered(self, about: str) -> None:
        """Follow an answer to a proposal: put the grant in force, if the owner has signed that."""
        name = about.removeprefix("grant:")
        found = await self.questions.answered(name)
        if found is None or found.value != YES:
            return
        grant, token, reason = await self._signed(found)
        if grant is None or token is None:
            await self.audit.log("decision_refused", card_id=name, reason=reason)
            return
        now = format_timestamp(self.clock.now())
        content = canonical_bytes(grant.model_dump(mode="json")).decode()

        def write(tx: Transaction) -> None:
            if tx.execute(_INSERT, (grant.grant_id, content, token.model_dump_json(), now)):
                entry = {"grant": grant.grant_id, "tool": grant.tool}
                self.audit.append(tx, GRANT_GIVEN, entry)

        await self.database.transaction(write, durability=Durability.TRUST)

    async def _signed(
        self, found: AnsweredQuestion
    ) -> tuple[StandingGrant | None, ApprovalToken | None, str]:
        """The grant that a yes has signed, with its token; or why there is none."""
        try:
            grant = StandingGrant.model_validate(found.question.content.body["grant"])
            token = await self.decisions.token_of(found.decision, grant.grant_id)
        except (ApprovalError, ValidationError, KeyError) as error:
            return None, None, str(error)
        if token is None:
            return None, None, "It was decided too long ago."
        payload = grant.payload()
        valid, reason = await self.approvals.verify(token, payload, accept=_ACCEPT)
        if not valid:  # it may have been used up for this very grant, just before a crash
            valid, reason = await self.approvals.check(token, payload, accept=_ACCEPT)
        return (grant, token, "") if valid else (None, None, reason)

    async def revoke(self, grant_id: str, *, why: str = "the owner took it back") -> None:
        """Take a grant back, at once and for good; raises `StandingGrantUnknown`."""
        if grant_id not in {each.grant_id for each in await self.in_force()}:
            raise StandingGrantUnknown
        await self._end([grant_id], why)

    async def revoke_all(self) -> int:
        """Take all grants back; returns how many held."""
        holding = len(await self.in_force())
        await asyncio.to_thread(self.ended.end, [EVERYTHING], self.clock.now())
        # Also what does not hold now: the clock may have been wrong when it was given.
        names = [str(name) for name, _ in await self.database.fetch_all(_NAMES)]
        await self._end(names, "the owner took everything back")
        return holding

    async def _end(self, names: Sequence[str], why: str) -> None:
        now = self.clock.now()
        await asyncio.to_thread(self.ended.end, names, now)
        # A name is given once: it has ended for good, whatever the clock said when it was given.
        for name, token in await self.database.fetch_all(_NAMES):
            issued_at = _issued_at(str(token)) if name in names else None
            if issued_at is not None and issued_at > now:
                await asyncio.to_thread(self.ended.end, [str(name)], issued_at)

        def write(tx: Transaction) -> None:
            for name in names:
                tx.execute(_END, (format_timestamp(now), name))
                self.audit.append(tx, GRANT_ENDED, {"grant": name, "why": why})

        await self.database.transaction(write, durability=Durability.TRUST)

    async def end_where_corrected(self) -> list[str]:
        """End the grants of whose kind the owner corrects much lately (rule 8)."""
        turned = []
        for grant in await self.in_force():
            since = self.clock.now() - self.calibrator.policy.window
            cases = await self.outcomes.cases(self.owner_id, since=since)
            family = Tally(grant.family, tuple(c for c in cases if grant.family in c.families))
            if self.calibrator.has_turned(family):
                turned.append(grant.grant_id)
        if turned:
            await self._end(turned, "you corrected much of this kind lately")
        return turned

    async def shown(self) -> list[GrantShown]:
        """All grants that were given, the newest first, with what was done under them."""
        holding = {each.grant_id: each for each in await self.in_force()}
        found = []
        for content, _, granted_at, _ in await self.database.fetch_all(_ALL):
            try:
                grant = StandingGrant.model_validate(strict_loads(str(content)))
            except (CanonicalError, ValidationError):
                continue
            now = holding.get(grant.grant_id, grant)
            found.append(
                GrantShown(
                    grant_id=grant.grant_id,
                    tool=grant.tool,
                    account=grant.account,
                    words=tuple(in_words(now)),
                    until=now.until,
                    most_a_day=now.most_a_day,
                    most=_most(now),
                    used=await self._used(grant.grant_id),
                    used_today=await self._used(grant.grant_id, since=self._today()),
                    in_force=grant.grant_id in holding,
                    granted_at=parse_timestamp(str(granted_at)),
                    uses=tuple(await self._uses_of(grant.grant_id)),
                )
            )
        return found

    async def propose(self, now: datetime) -> list[Question]:
        """Grants that the owner's decisions speak for (rules 1 and 2)."""
        if not self.policy.enabled:
            return []
        holding = await self.in_force()
        found = []
        for alike, decided in (await self._decided(now)).items():
            grant = self._of(alike, decided, now)
            if grant is None or any(_covers(each, alike) for each in holding):
                continue
            names = _names(alike, now)
            asked = [
                await self.questions.was_asked(f"grant:{name}", since=now - _NOT_AGAIN)
                for name in names
            ]
            if not any(asked):
                found.append(self._card(grant, _in_a_row(decided), name=names[0]))
        return found

    def _of(
        self, alike: _Alike, decided: Sequence[_Decided], now: datetime
    ) -> StandingGrant | None:
        """The grant that these calls would have stayed inside; None if there is none."""
        last = _in_a_row(decided)[: self.policy.repeats]
        if len(last) < self.policy.repeats:
            return None
        effect = self.effect_of(alike.tool)
        if effect is None or not _may_be_granted(effect, [each.call.args for each in last]):
            return None
        constraints = constraints_of([each.call.args for each in last], effect)
        if constraints is None:
            return None
        most = min(self.policy.most, self.calibrator.policy.standing_cap)
        return StandingGrant(
            grant_id=self.ids.new("grant"),
            scope_id=self.owner_id,
            tool=alike.tool,
            family=family_of_tool(alike.tool, self.effect_of),
            envelope=ActionEnvelope(tool=alike.tool, constraints=constraints, most=most),
            most_a_day=min(self.policy.most_a_day, most),
            until=now + timedelta(days=self.policy.days),
        )

    async def _decided(self, now: datetime) -> dict[_Alike, list[_Decided]]:
        """The calls that the owner decided himself, the newest first, by what they share."""
        found: dict[_Alike, list[_Decided]] = {}
        for case in await self.outcomes.cases(self.owner_id, since=now - _LOOKED_BACK):
            call = await self._call_of(case)
            if call is not None and call.taint is not TaintLevel.EXTERNAL:
                found.setdefault(_alike(call), []).append(_Decided(call, case))
        return found

    async def _call_of(self, case: Case) -> PausedCall | None:
        """The call of a case, if it is the one that the owner has signed (rule 1)."""
        name = case.ref.removeprefix("call:")
        if name == case.ref:
            return None
        kept = await self.database.fetch_one(_CALL, (name,))
        row, at = await self.decisions.row(name), await self.decisions.decided_at(name)
        if kept is None or row is None or at is None:
            return None
        try:
            call = PausedCall.model_validate_json(str(kept[0]))
        except ValidationError:
            return None
        hashes = row.fields().get("plan_hashes")
        signed = hashes.get(name) if isinstance(hashes, dict) else None
        return call if signed == payload_of(name, call).plan_hash else None

    def _card(self, grant: StandingGrant, decided: Sequence[_Decided], *, name: str) -> Question:
        now, count = self.clock.now(), len(decided)
        lines = [*in_words(grant), *final_lines([grant.tool], self.effect_of), _TAINTED]
        return Question(
            question_id=name,
            scope_id=grant.scope_id,
            trace_id=f"trace_{name}",
            about=f"grant:{name}",
            content=QuestionContent(
                kind=QuestionKind.GRANT,
                intent=f"Let me use {grant.tool} without asking until {grant.until:%Y-%m-%d}?",
                rationale=f"You approved it {count} times, unchanged.",
                risk=RiskLevel.HIGH,
                # Calls with a stranger's text in them are not counted.
                taint=TaintLevel.OWNER,
                actions=[
                    QuestionChoice(value=YES, label="Allow this"),
                    QuestionChoice(value="decline", label="Go on asking me"),
                ],
                body={
                    "question": "\n".join(f"- {each}" for each in lines),
                    "grant": grant.model_dump(mode="json"),
                    "decisions": [
                        {"ref": e.case.ref, "at": format_timestamp(e.case.at)}
                        for e in decided[:_MOST_SHOWN]
                    ],
                },
            ),
            created_at=now,
            expires_at=now + _LIFETIME,
        )

    async def subjects(self) -> list[KnobSubject]:
        """What could be widened of the grants that hold (rule 7)."""
        now, found = self.clock.now(), []
        decided = await self._decided(now)
        for grant in await self.in_force():
            given = await self._given_at(grant)
            inside = [
                each.case
                for calls in decided.values()
                for each in calls
                if each.case.at > given
                and is_inside([grant.envelope], each.call.tool, each.call.args)
            ]
            cap = self.calibrator.policy.standing_cap
            if _most(grant) < cap:
                found.append(self._more_uses(grant, inside, cap))
            # Nothing holds longer than what was signed for it, whatever is signed later.
            ends_soon = grant.until - now <= _SOON
            could_hold = given + GRANT_TTL - grant.until >= _WORTH_ASKING
            if ends_soon and could_hold and await self._used(grant.grant_id):
                found.append(await self._longer(grant, given + GRANT_TTL))
            found += self._more_people(grant, decided)
        return found

    async def _given_at(self, grant: StandingGrant) -> datetime:
        """When it was given: what came before has spoken for it already."""
        row = await self.database.fetch_one(_GIVEN, (grant.grant_id,))
        return parse_timestamp(str(row[0])) if row else self.clock.now()

    def _more_uses(self, grant: StandingGrant, cases: Sequence[Case], cap: int) -> KnobSubject:
        return KnobSubject(
            grant.grant_id,
            Knob.EXECUTIONS,
            str(_most(grant)),
            str(min(_most(grant) * 2, cap)),
            cases,
            self.policy.repeats,
            "I had to ask about them, though a standing grant covers such calls.",
        )

    async def _longer(self, grant: StandingGrant, latest: datetime) -> KnobSubject:
        uses = await self._uses_of(grant.grant_id)
        since = self.clock.now() - _LOOKED_BACK
        cases = await self.outcomes.cases(self.owner_id, since=since)
        mine = {each.work_item_id for each in uses}
        undone = [c for c in cases if c.corrected and c.ref.removeprefix("plan:") in mine]
        longer = min(grant.until + timedelta(days=self.policy.days), latest)
        # Without a decision about each use, what the owner let stand is counted by what he undid.
        kept = [] if undone else [c for c in cases if grant.family in c.families]
        return KnobSubject(
            grant.grant_id,
            Knob.EXPIRY,
            format_timestamp(grant.until),
            format_timestamp(longer),
            kept,
            self.policy.repeats,
            f"A grant was used {len(uses)} times, and nothing of it was taken back.",
        )

    def _more_people(
        self, grant: StandingGrant, decided: Mapping[_Alike, Sequence[_Decided]]
    ) -> list[KnobSubject]:
        if not grant.names_people:
            return []
        found = []
        for alike, calls in decided.items():
            same = alike.tool == grant.tool and alike.account == (grant.account or "")
            new = alike.recipients - grant.recipients
            if same and new and not any("," in each for each in alike.recipients):
                found.append(
                    KnobSubject(
                        grant.grant_id,
                        Knob.SCOPE,
                        ", ".join(sorted(grant.recipients)),
                        ", ".join(sorted(grant.recipients | new)),
                        [each.case for each in calls],
                        self.policy.repeats,
                        "They were like those of a standing grant, but to somebody else.",
                    )
                )
        return found

    async def _used(self, grant_id: str, since: str = "") -> int:
        row = await self.database.fetch_one(_USES, (grant_id, since))
        return int(row[0]) if row else 0

    async def _uses_of(self, grant_id: str) -> list[GrantUse]:
        return [
            GrantUse(
                work_item_id=str(item),
                tool=str(tool),
                args=strict_loads(str(args)),
                at=parse_timestamp(str(at)),
            )
            for item, tool, args, at in await self.database.fetch_all(_USED, (grant_id,))
        ]

    def _today(self) -> str:
        here = self.clock.now().astimezone(self.zone)
        return format_timestamp(here.replace(hour=0, minute=0, second=0, microsecond=0))


_TAINTED = "When a stranger's text has entered the work, I ask you, as always."


def in_words(grant: StandingGrant) -> list[str]:
    """A grant as a person reads it: all of what it allows."""
    lines = []
    for name, each in sorted(grant.envelope.constraints.items()):
        lines.append(f"{visible(name)}: {_value_in_words(each)}")
    lines.append(
        f"At most {grant.most_a_day} a day and {_most(grant)} in all, "
        f"until {grant.until:%Y-%m-%d %H:%M} UTC."
    )
    return lines


def _value_in_words(constraint: ArgumentConstraint) -> str:
    if constraint.each_of is not None:
        shown = ", ".join(visible(str(e), keep_newlines=False) for e in constraint.each_of)
        return f"only {shown}" if shown else "nobody"
    if constraint.equals is not None:
        return f"always {visible(str(constraint.equals), keep_newlines=False)}"
    return "anything"


def constraints_of(
    calls: Sequence[Mapping[str, Any]], effect: DeclaredEffect
) -> dict[str, ArgumentConstraint] | None:
    """A constraint for each argument of these calls (rule 2); None if one cannot be bound."""
    tidies = effect.action is ActionKind.TIDY
    found = {}
    for name in sorted({name for args in calls for name in args}):
        values = [args[name] for args in calls if args.get(name) is not None]
        constraint = _constraint(name, values, tidies=tidies)
        if constraint is None:
            return None
        absent = len(values) < len(calls)
        found[name] = constraint.model_copy(update={"optional": absent})
    return found


def _constraint(name: str, values: Sequence[Any], *, tidies: bool) -> ArgumentConstraint | None:
    first = values[0] if values else None
    if isinstance(first, list):
        if name in _RECIPIENTS or all(each == first for each in values):
            parts = [each for some in values if isinstance(some, list) for each in some]
            # What is nested is no plain text: nobody could bind it (rule 2).
            if not parts or not all(isinstance(e, str | int | float | bool) for e in parts):
                return None
            return ArgumentConstraint(each_of=sorted(set(parts), key=str))
        return ArgumentConstraint(any=True) if tidies else None
    if isinstance(first, str | bool | int | float) and all(
        type(each) is type(first) and each == first for each in values
    ):
        return ArgumentConstraint(equals=first)
    is_text = all(isinstance(each, str) for each in values)
    return ArgumentConstraint(any=True) if is_text and name in _FREE_TEXTS else None


def _may_be_granted(effect: DeclaredEffect, calls: Sequence[Mapping[str, Any]]) -> bool:
    """Rule 2."""
    if effect.action not in _GRANTED:
        return False
    speaks = effect.action is ActionKind.SEND
    if effect.reversibility is Reversibility.IRREVERSIBLE and not speaks:
        return False
    if speaks and not all(_recipients(args) for args in calls):
        return False
    names = {name.casefold() for args in calls for name in args}
    return not any(money in name for name in names for money in _MONEY)


def _names(alike: _Alike, now: datetime) -> tuple[str, str]:
    """What the question about these calls is called this month, and was called the last."""
    month = int(now.timestamp() // _NOT_AGAIN.total_seconds())
    about = [alike.tool, alike.account, sorted(alike.recipients)]
    this, last = (
        f"{QUESTION}_{hashlib.sha256(canonical_bytes([*about, each])).hexdigest()[:40]}"
        for each in (month, month - 1)
    )
    return this, last


def _in_a_row(decided: Sequence[_Decided]) -> list[_Decided]:
    """The newest of them, up to the first that was not approved as it was, or was taken back."""
    return list(takewhile(lambda each: not each.case.corrected, decided))


def _alike(call: PausedCall) -> _Alike:
    account = call.args.get(_ACCOUNT)
    return _Alike(call.tool, "" if account is None else str(account), _recipients(call.args))


def _recipients(args: Mapping[str, Any]) -> frozenset[str]:
    named = [args.get(name) for name in _RECIPIENTS]
    lists = [each if isinstance(each, list) else [each] for each in named if each]
    return frozenset(str(each) for some in lists for each in some)


def _covers(grant: StandingGrant, alike: _Alike) -> bool:
    same = grant.tool == alike.tool and (grant.account or "") == alike.account
    return same and (alike.recipients <= grant.recipients or grant.names_people)


def _issued_at(token: str) -> datetime | None:
    """When a token was given; None if it is none."""
    try:
        return ApprovalToken.model_validate_json(token).issued_at
    except ValidationError:
        return None


def _most(grant: StandingGrant) -> int:
    return grant.envelope.most or 1


def _widened(grant: StandingGrant, changes: Sequence[InForce]) -> StandingGrant:
    """The grant with what the owner has widened of it (rule 7)."""
    envelope, until = grant.envelope, grant.until
    for each in changes:
        if each.key == Knob.EXECUTIONS:
            envelope = envelope.model_copy(update={"most": int(each.value)})
        elif each.key == Knob.EXPIRY:
            until = parse_timestamp(each.value)
        elif each.key == Knob.SCOPE:
            people = each.value.split(", ")
            bound = {
                name: one.model_copy(update={"each_of": people})
                if name in _RECIPIENTS and one.each_of is not None
                else one
                for name, one in envelope.constraints.items()
            }
            envelope = envelope.model_copy(update={"constraints": bound})
    return grant.model_copy(update={"envelope": envelope, "until": until})
