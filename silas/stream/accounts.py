"""The owner's accounts in the conversation: what an agent that answers or plans finds in them.

1. Only the owner's own requests look, with a connection that was granted `observe`, through the
   same tools, broker and sandbox as work. Looking changes nothing and tells nobody anything, so it
   needs no plan.
2. What stands in mails, events and CI is a stranger's text. Whoever has read the text of one has no
   tools from then on (`ReadingTool.ends`): all that is left is to answer.
3. With several accounts of a kind, the one that is named is meant; unless one is, the owner is
   asked. What one request finds comes from one domain, but for a briefing.
4. "That" is the mail that was shown last in the same conversation. After a restart nobody knows it,
   and Silas asks.
5. A briefing looks into every account by itself. What cannot be looked at is said, not left out.
"""

import asyncio
import json
import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta
from email.utils import parseaddr, parsedate_to_datetime
from typing import Annotated, Any, NamedTuple
from zoneinfo import ZoneInfo

from pydantic import Field

from silas.connections.models import Connection
from silas.connections.registry import ConnectionStore
from silas.journal.conversation import JournalConversation
from silas.kernel import Clock, IdFactory, SilasError, TaintLevel, visible
from silas.kernel.errors import TimeNotUnderstood
from silas.kernel.models import Data
from silas.kernel.when import CLOCK_WORDS, parse_day, parse_moment, spans_in
from silas.sandbox.models import SandboxConfig
from silas.skills.loading import SkillResolver
from silas.stream.reading_tools import ReadingTool, answered_view, refused_view
from silas.tools.execution import ExecutionEnvelope, ModelView

MAIL, CALENDAR, GITHUB = "mail", "calendar", "github"
BRIEFING = "Morning briefing"
"""The title of the reminder that is told with a briefing."""
_NAMES = {MAIL: "mail", CALENDAR: "calendar", GITHUB: "GitHub account"}
_EXAMPLE = {MAIL: "YOUR-ADDRESS", CALENDAR: "YOUR-ADDRESS", GITHUB: "YOUR-LOGIN"}
_SECONDS = 60
_LISTED, _IN_BRIEFING, _AHEAD_DAYS = 10, 5, 60
_TIMED = re.compile(rf"\b{CLOCK_WORDS}", re.IGNORECASE)
_MOST_TEXT = 12_000
_OTHER_FORM = (KeyError, TypeError, ValueError, AttributeError)
"""What goes wrong if a skill of the owner's own has a bundled one's name, and other answers."""
_NOT_UNDERSTOOD = "The account answered, and I do not understand its answer."

Words = Annotated[str, Field(min_length=1, max_length=300)]


class _Named(Data):
    account: Annotated[Words | None, Field(description="The name of the connection.")] = None


class MailArguments(_Named):
    """Which mails. Without words: the newest. `period` in words: March, last week, 2026-03-05."""

    words: Words | None = None
    sender: Words | None = None
    period: Words | None = None
    unread: bool = False


class CalendarArguments(_Named):
    """Which day or time, in words: today, tomorrow, this week, 2026-03-05."""

    when: Words = "today"


class CiArguments(_Named):
    """Which repository, as owner/name; unless given, those of the last notifications."""

    repository: Words | None = None


class BriefingArguments(Data):
    """Nothing to say."""


class MoveArguments(_Named):
    """Words of the event's title, and when it shall be, in words: next week, Friday at 10:00."""

    what: Words
    to: Words


class _CannotLook(Exception):
    """The text is for the owner."""

    taint = TaintLevel.OWNER


class _ForeignReason(_CannotLook):
    """The same, with a stranger's words in it."""

    taint = TaintLevel.EXTERNAL


class _ShownMail(NamedTuple):
    account: str
    mail: str


@dataclass(frozen=True)
class AccountReading:
    """Looks into the accounts of one data directory."""

    skills: SkillResolver
    connections: ConnectionStore
    clock: Clock
    ids: IdFactory
    zone: ZoneInfo
    journal: JournalConversation | None = None
    shown: dict[str, _ShownMail] = field(default_factory=dict)
    """By conversation, the mail that was shown last (rule 4)."""

    def for_proxy(self, scope_id: str) -> list[ReadingTool]:
        """What whoever answers looks with."""
        look = _Look(self, scope_id, self.ids.new("look"))
        return [
            _tool(
                "find_mail",
                "Find mails in the owner's mailbox.",
                MailArguments,
                look.find_mail,
                source="your mail",
            ),
            _tool(
                "read_mail",
                "Read the newest mail that fits; without words, the one that was shown last.",
                MailArguments,
                look.read_mail,
                ends=True,
                source="your mail",
            ),
            _tool(
                "look_at_calendar",
                "List the owner's events of a day or a time.",
                CalendarArguments,
                look.look_at_calendar,
                ends=True,
                source="your calendar",
            ),
            _tool(
                "failed_ci",
                "Say what failed in CI, with jobs and steps.",
                CiArguments,
                look.failed_ci,
                ends=True,
                source="GitHub",
            ),
            _tool(
                "briefing",
                "The owner's day: calendar, unread mail, tasks.",
                BriefingArguments,
                look.briefing,
                ends=True,
                source="your accounts",
            ),
        ]

    def for_planner(self, scope_id: str) -> list[ReadingTool]:
        """What whoever plans looks with: all that an answer or a moved event needs, as JSON."""
        look = _Look(self, scope_id, self.ids.new("look"))
        return [
            _tool(
                "mail_to_answer",
                "The mail that is to be answered, with what `mail_send` needs: `account`, "
                "`answer_to`, `to`, `subject`. Without words, the one that was shown last.",
                MailArguments,
                look.mail_to_answer,
                ends=True,
                source="your mail",
            ),
            _tool(
                "event_to_move",
                "An event, with what `calendar_move` needs: `account`, `event`, `start`, `end`.",
                MoveArguments,
                look.event_to_move,
                ends=True,
                source="your calendar",
            ),
        ]

    async def brief(self) -> str:
        """The briefing, for whoever asked for one at a set time (rule 5)."""
        return await _Look(self, "", self.ids.new("look")).told_briefing()


def _tool(
    name: str,
    description: str,
    arguments: type[Data],
    look: Callable[[Any], Awaitable[str]],
    *,
    source: str,
    ends: bool = False,
) -> ReadingTool:
    async def run(args: Data) -> ModelView:
        try:
            return answered_view(await look(args), taint=TaintLevel.EXTERNAL)
        except _CannotLook as told:
            return refused_view(str(told), taint=told.taint)
        except _OTHER_FORM:
            return refused_view(_NOT_UNDERSTOOD, taint=TaintLevel.OWNER)

    return ReadingTool(
        name, description, arguments, run, contained=True, private=True, ends=ends, source=source
    )


@dataclass(frozen=True)
class _Look:
    """What one request looks at."""

    reading: AccountReading
    scope_id: str
    work: str

    # Mail.

    async def find_mail(self, args: MailArguments) -> str:
        """Mails, newest first."""
        connection = await self._account(MAIL, args.account)
        found, mails = await self._mails(connection, args)
        if not mails:
            return f"I found no such mail in {_called(connection)}."
        if len(mails) == 1:
            self.reading.shown[self.scope_id] = _ShownMail(connection.connection_id, mails[0]["id"])
        lines = [f"{number}. {self._line(mail)}" for number, mail in enumerate(mails, 1)]
        more = f"\n… and {found - len(mails)} more." if found > len(mails) else ""
        head = "1 mail" if found == 1 else f"{found} mails"
        return f"{head} in {_called(connection)}, newest first:\n" + "\n".join(lines) + more

    async def read_mail(self, args: MailArguments) -> str:
        """One mail, whole."""
        connection, mail = await self._one_mail(args)
        when = f"{self._when_of_mail(mail['date'])}, in {_called(connection)}"
        sender = f"{_person(mail['from'])} ({_verified(mail)})"
        parts = [
            f"**{_one_line(mail['subject']) or '(no subject)'}**\nFrom {sender}, {when}",
            visible(mail["text"][:_MOST_TEXT].replace("\r\n", "\n")).strip() or "(no text)",
        ]
        if mail["attachments"]:
            names = ", ".join(_one_line(str(each.get("name", ""))) for each in mail["attachments"])
            parts.append(f"Attached: {names}")
        if len(mail["text"]) > _MOST_TEXT or mail["text_goes_on_at"] or mail["not_read"]:
            parts.append("The mail goes on; this is its beginning.")
        return "\n\n".join(parts)

    async def mail_to_answer(self, args: MailArguments) -> str:
        """What an answer needs."""
        connection, mail = await self._one_mail(args)
        name, address = parseaddr(mail.get("reply-to") or mail["from"])
        if "@" not in address:
            raise _CannotLook("This mail says no address that it could be answered to.")
        return json.dumps(
            {
                "account": connection.name,
                "answer_to": mail["id"],
                "to": address,
                "name": _one_line(name) or address,
                "subject": _answer_subject(_one_line(mail["subject"])),
                "sender_verified": mail["sender_verified"],
                "text": mail["text"][:_MOST_TEXT],
            },
            ensure_ascii=False,
        )

    async def _one_mail(self, args: MailArguments) -> tuple[Connection, Mapping[str, Any]]:
        last = self.reading.shown.get(self.scope_id)
        if args.words is None and args.sender is None and args.period is None:
            if last is None:
                raise _CannotLook(
                    "Which mail? Say for example “Read the mail from Ann”, and then answer it."
                )
            connection = await self._account(MAIL, last.account)
            wanted = last.mail
        else:
            connection = await self._account(MAIL, args.account)
            _, mails = await self._mails(connection, args)
            if not mails:
                raise _CannotLook(f"I found no such mail in {_called(connection)}.")
            wanted = mails[0]["id"]
        mail = await self._ask(connection, "mail_read", {"mail": wanted})
        self.reading.shown[self.scope_id] = _ShownMail(connection.connection_id, wanted)
        return connection, mail

    async def _mails(
        self, connection: Connection, args: MailArguments
    ) -> tuple[int, list[dict[str, Any]]]:
        said = {"text": args.words, "sender": args.sender, "unread": args.unread or None}
        given = {name: value for name, value in said.items() if value is not None}
        wanted: dict[str, Any] = {**given, "limit": _LISTED}
        if args.period is None:
            got = await self._ask(connection, "mail_search", wanted)
            return int(got["found"]), list(got["mails"])
        first, end = self._period(args.period)
        dated = {"since": first.isoformat(), "before": end.isoformat()}
        got = await self._ask(connection, "mail_search", {**wanted, **dated})
        # "The invoice from March" may have come in April, and say March.
        named = await self._ask(connection, "mail_search", {**wanted, "subject": args.period})
        more = [each for each in named["mails"] if each not in got["mails"]]
        return int(got["found"]) + len(more), [*got["mails"], *more][:_LISTED]

    def _period(self, words: str) -> tuple[date, date]:
        now, zone = self.reading.clock.now(), self.reading.zone
        spans = [each for each in spans_in(words, now=now, zone=zone) if each.since <= now]
        if spans:
            best = max(spans, key=lambda each: (each.fit, each.since))
            return best.since.astimezone(zone).date(), best.until.astimezone(zone).date()
        day = self._day(words, past=True)
        return day, day + timedelta(days=1)

    def _line(self, mail: Mapping[str, Any]) -> str:
        subject, sender = _one_line(mail["subject"]) or "(no subject)", _person(mail["from"])
        unread = ", unread" if mail["unread"] else ""
        when = self._when_of_mail(mail["date"])
        return f"{subject}, from {sender}, {when} ({_verified(mail)}{unread})"

    def _when_of_mail(self, header: str) -> str:
        try:
            return _moment(parsedate_to_datetime(header).astimezone(self.reading.zone))
        except (ValueError, TypeError, OverflowError):
            return "at a time that it does not say"

    # Calendar.

    async def look_at_calendar(self, args: CalendarArguments) -> str:
        """What happens then."""
        connection = await self._account(CALENDAR, args.account)
        first, end, called = self._days(args.when)
        lines = await self._events(connection, first, end)
        if not lines:
            return f"Nothing is in {_called(connection)} {called}."
        return f"In {_called(connection)} {called}:\n" + "\n".join(lines)

    async def event_to_move(self, args: MoveArguments) -> str:
        """What a moved event needs."""
        connection = await self._account(CALENDAR, args.account)
        today = self._today()
        got = await self._ask(
            connection,
            "calendar_list",
            {**self._span(today, today + timedelta(days=_AHEAD_DAYS)), "limit": 500},
        )
        wanted = args.what.casefold()
        fitting = [each for each in _taking_place(got) if wanted in each["title"].casefold()]
        if not fitting:
            raise _CannotLook(
                f"I found no “{visible(args.what, keep_newlines=False)}” in "
                f"{_called(connection)} in the next {_AHEAD_DAYS} days."
            )
        if len({each["title"].casefold() for each in fitting}) > 1:
            listed = "\n".join(f"- {self._event_line(each)}" for each in fitting[:_LISTED])
            raise _ForeignReason(f"Which one? Say more of its title:\n{listed}")
        # Of several with one name, the next: its card says when it is, and when it would be.
        event = fitting[0]
        if event["repeats"]:
            title = _one_line(event["title"])
            raise _ForeignReason(f"“{title}” repeats, and I cannot move it yet.")
        start, end = self._moved(event, args.to)
        return json.dumps(
            {
                "account": connection.name,
                "event": event["id"],
                "start": start,
                "end": end,
                "title": _one_line(event["title"]),
                "was": self._times(event),
                "becomes": self._times({"start": start, "end": end}),
            },
            ensure_ascii=False,
        )

    def _moved(self, event: Mapping[str, Any], words: str) -> tuple[str, str]:
        """The new start and end: the time of day stays unless the words name one."""
        start, zone = str(event["start"]), self.reading.zone
        day = self._in_next_week(event) if _is_next_week(words) else self._day(words)
        now = self.reading.clock.now()
        if _is_day(start):
            length = date.fromisoformat(str(event["end"])) - date.fromisoformat(start)
            return day.isoformat(), (day + length).isoformat()
        old, end = (self._at(str(event[each])) for each in ("start", "end"))
        if _TIMED.search(words):
            new = parse_moment(words, now=now, zone=zone).astimezone(zone)
        else:
            # By the owner's clocks: at the same hour, also when clocks change in between.
            new = datetime.combine(day, old.time(), tzinfo=zone)
        return new.isoformat(), (new.astimezone(UTC) + (end - old)).astimezone(zone).isoformat()

    def _in_next_week(self, event: Mapping[str, Any]) -> date:
        """The same day of the week, in the week after this one."""
        start, today = str(event["start"]), self._today()
        old = date.fromisoformat(start) if _is_day(start) else self._at(start).date()
        day = today + timedelta(days=7 - today.weekday() + old.weekday())
        if day == old:
            raise _ForeignReason(f"It is next week already: {self._event_line(event)}.")
        return day

    async def _events(self, connection: Connection, first: date, end: date) -> list[str]:
        got = await self._ask(connection, "calendar_list", self._span(first, end))
        lines = [f"- {self._event_line(each)}" for each in _taking_place(got)]
        more = int(got.get("found", 0)) - len(got["events"])
        lines += [f"… and {more} more."] if more > 0 else []
        unclear = [_one_line(str(each)) for each in got.get("unclear", ())]
        named = ", ".join(unclear[:_LISTED])
        lines += [f"I cannot tell whether these are then: {named}."] if unclear else []
        return lines

    def _span(self, first: date, end: date) -> dict[str, str]:
        """The days as the owner's clock has them: elsewhere they begin at other times."""
        zone = self.reading.zone
        begin, until = (datetime.combine(each, time.min, tzinfo=zone) for each in (first, end))
        return {"start": begin.isoformat(), "end": until.isoformat()}

    def _event_line(self, event: Mapping[str, Any]) -> str:
        where = f", {_one_line(event['location'])}" if event["location"] else ""
        waits = event.get("your_answer") == "NEEDS-ACTION"
        open_ = " (you have not answered the invitation)" if waits else ""
        return f"{self._times(event)}: {_one_line(event['title']) or '(no title)'}{where}{open_}"

    def _times(self, event: Mapping[str, Any]) -> str:
        start, end = str(event["start"]), str(event["end"])
        if _is_day(start):
            first, last = date.fromisoformat(start), date.fromisoformat(end) - timedelta(days=1)
            to = f" to {_day_words(last)}" if last > first else ""
            return f"{_day_words(first)}{to}, all day"
        begin, until = self._at(start), self._at(end)
        same_day = begin.date() == until.date()
        return f"{_moment(begin)} to {f'{until:%H:%M}' if same_day else _moment(until)}"

    def _at(self, text: str) -> datetime:
        """A time of an event by the owner's clock; one without a zone is meant by it already."""
        found, zone = datetime.fromisoformat(text), self.reading.zone
        return found.astimezone(zone) if found.tzinfo else found.replace(tzinfo=zone)

    def _days(self, words: str) -> tuple[date, date, str]:
        """The first day, the day after the last, and how they are called."""
        today, small = self._today(), " ".join(words.lower().split())
        monday = today - timedelta(days=today.weekday())
        if small in ("this week", "the week"):
            return today, monday + timedelta(days=7), "this week"
        if _is_next_week(words):
            return monday + timedelta(days=7), monday + timedelta(days=14), "next week"
        day = self._day(words)
        return day, day + timedelta(days=1), f"on {_day_words(day)}"

    def _day(self, words: str, *, past: bool = False) -> date:
        try:
            return parse_day(
                words,
                now=self.reading.clock.now(),
                zone=self.reading.zone,
                prefer="past" if past else "future",
            )
        except TimeNotUnderstood as error:
            raise _CannotLook(error.message) from error

    def _today(self) -> date:
        return self.reading.clock.now().astimezone(self.reading.zone).date()

    # CI.

    async def failed_ci(self, args: CiArguments) -> str:
        """What failed last."""
        connection = await self._account(GITHUB, args.account)
        repositories = [args.repository] if args.repository else await self._noticed(connection)
        if not repositories:
            return (
                "Which repository? Say for example “What failed in CI of octo/app?”; none of your "
                "notifications is about a CI run."
            )
        lines: list[str] = []
        for name in repositories:
            got = await self._ask(connection, "github_ci", {"repository": name})
            lines += [_failed_run(name, each) for each in got["failed"]]
        named = ", ".join(_one_line(each) for each in repositories)
        return "\n".join(lines) if lines else f"Nothing failed lately in {named}."

    async def _noticed(self, connection: Connection) -> list[str]:
        got = await self._ask(connection, "github_notifications", {})
        failed = [
            str(each["repository"])
            for each in got["notifications"]
            if each.get("reason") == "ci_activity" or each.get("type") == "CheckSuite"
        ]
        return list(dict.fromkeys(failed))[:_IN_BRIEFING]

    # The briefing.

    async def briefing(self, _args: BriefingArguments) -> str:
        """The owner's day (rule 5)."""
        return await self.told_briefing()

    async def told_briefing(self) -> str:
        """Calendar, mail, tasks."""
        today = self._today()
        parts = [f"**{_day_words(today)}**"]
        parts += await self._each(CALENDAR, _Look._brief_calendar)
        parts += await self._each(MAIL, _Look._brief_mail)
        if self.reading.journal is not None:
            parts.append(f"**Tasks**\n{await self._brief_tasks(self.reading.journal)}")
        return "\n\n".join(parts)

    async def _each(
        self, skill: str, look: Callable[["_Look", Connection], Awaitable[str]]
    ) -> list[str]:
        """What each account of a kind gives; each is a look of its own, so no domain is mixed."""

        async def by_itself(connection: Connection) -> str:
            alone = _Look(self.reading, self.scope_id, self.reading.ids.new("look"))
            try:
                return await look(alone, connection)
            except _CannotLook as told:
                return f"**{_called(connection)}**\n{told}"
            except _OTHER_FORM:
                return f"**{_called(connection)}**\n{_NOT_UNDERSTOOD}"

        every = await self.reading.connections.listed()
        mine = [each for each in every if each.skill_name == skill]
        # Side by side: one that answers slowly does not keep the others waiting.
        found = await asyncio.gather(*(by_itself(each) for each in mine if each.usable))
        broken = [_not_working(each) for each in mine if not each.usable]
        return [*found, *broken] or [_missing(skill)]

    async def _brief_tasks(self, journal: JournalConversation) -> str:
        try:
            return (await journal.day("today")).text
        except SilasError as error:
            return f"They could not be read: {error.message}"

    async def _brief_calendar(self, connection: Connection) -> str:
        today = self._today()
        lines = await self._events(connection, today, today + timedelta(days=1))
        return f"**{_called(connection)}**\n" + ("\n".join(lines) or "Nothing today.")

    async def _brief_mail(self, connection: Connection) -> str:
        wanted = {"unread": True, "limit": _IN_BRIEFING}
        got = await self._ask(connection, "mail_search", wanted)
        lines = [f"- {self._line(each)}" for each in got["mails"]]
        more = int(got["found"]) - len(lines)
        lines += [f"… and {more} more."] if more > 0 else []
        return f"**{_called(connection)}: unread**\n" + ("\n".join(lines) or "Nothing unread.")

    # The accounts.

    async def _usable(self, skill: str) -> list[Connection]:
        every = await self.reading.connections.listed()
        return [each for each in every if each.skill_name == skill and each.usable]

    async def _account(self, skill: str, named: str | None) -> Connection:
        """The account that is meant (rule 3)."""
        usable = await self._usable(skill)
        if not usable:
            every = await self.reading.connections.listed()
            broken = [each for each in every if each.skill_name == skill]
            raise _CannotLook(_not_working(broken[0]) if broken else _missing(skill))
        if named is not None:
            wanted = named.casefold()
            usable = [
                each
                for each in usable
                if wanted in (each.connection_id, each.identity.casefold(), each.domain)
                or wanted in each.name.casefold()
            ]
        if len(usable) == 1:
            return usable[0]
        known = ", ".join(_called(each) for each in usable or await self._usable(skill))
        if usable:
            raise _CannotLook(f"Which one? You have {known}. Say it with “in” and its name.")
        raise _CannotLook(f"There is no such account. You have {known}.")

    async def _ask(
        self, connection: Connection, tool: str, args: Mapping[str, Any]
    ) -> dict[str, Any]:
        """What a tool of the connection says; raises `_CannotLook` with its reason."""
        digest = await self.reading.skills.digest(connection.skill_name)
        found = await self.reading.skills.tools({connection.skill_name: digest} if digest else {})
        chosen = next((each for each in found if each.name == tool and each.only_observes), None)
        if chosen is None:
            raise _CannotLook(f"{_called(connection)} has no `{tool}`: its skill was changed.")
        whole = {**args, "account": connection.connection_id}
        envelope = ExecutionEnvelope(
            execution_id=f"{self.work}.0.0",
            step_index=0,
            task_description="Look",
            action=tool,
            args=whole,
            timeout_seconds=_SECONDS,
            sandbox_config=SandboxConfig(work_dir=""),
        )
        try:
            chosen.check(whole)
            result = await chosen.executor.execute(envelope)
        except (SilasError, ValueError) as error:
            said = error.message if isinstance(error, SilasError) else str(error)
            raise _CannotLook(f"{_called(connection)} could not be read: {said}") from error
        return _answer_of(connection, result.return_value, result.error)


def _answer_of(connection: Connection, printed: str, error: str | None) -> dict[str, Any]:
    # What the script says of its progress stands before its answer.
    lines = printed.strip().splitlines()
    try:
        said = json.loads(lines[-1]) if lines else None
    except ValueError:
        said = None
    if isinstance(said, dict) and "error" not in said and error is None:
        return said
    why = said.get("error") if isinstance(said, dict) else error
    told = _one_line(str(why or "its script gave no answer"))
    raise _ForeignReason(f"{_called(connection)} could not be read: {told[:500]}")


def _taking_place(got: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The events that were not called off, and that the owner has not declined."""
    return [
        each
        for each in got["events"]
        if each["status"] != "CANCELLED" and each.get("your_answer") != "DECLINED"
    ]


def _failed_run(repository: str, run: Mapping[str, Any]) -> str:
    jobs = []
    for each in run["jobs"]:
        steps = ", ".join(_one_line(str(step)) for step in each["failed_steps"])
        jobs.append(_one_line(str(each["job"])) + (f" (at {steps})" if steps else ""))
    what = ", ".join(jobs) or "no job says why"
    branch = _one_line(str(run.get("branch") or ""))
    name = _one_line(str(run.get("workflow") or "a workflow"))
    return f"- {_one_line(repository)}, {name} on {branch}, {run.get('when')}: {what}"


def _missing(skill: str) -> str:
    return (
        f"I have no {_NAMES[skill]} yet: connect one under Connections in the page, or with "
        f"`silas connect {skill} {_EXAMPLE[skill]}`."
    )


def _not_working(connection: Connection) -> str:
    return (
        f"{_called(connection)} is {connection.status.value}, so I cannot look into it: see "
        f"Connections in the page, or `silas connections show {connection.name}`."
    )


def _called(connection: Connection) -> str:
    return visible(connection.name, keep_newlines=False)


def _person(sender: str) -> str:
    """Whose mail it is. Answers hold no addresses (the gate `pii_scrub`); cards show them whole."""
    name, address = parseaddr(_one_line(sender))
    local, _, domain = address.rpartition("@")
    if not domain:
        return _one_line(sender) or "nobody"
    # A name that is an address itself may be another one than the mail's.
    shown = name if name and "@" not in name else local
    return f"{shown} at {domain}"


def _verified(mail: Mapping[str, Any]) -> str:
    return "sender verified" if mail["sender_verified"] else "sender not verified"


def _answer_subject(subject: str) -> str:
    return subject if subject.lower().startswith("re:") else f"Re: {subject}".strip()


def _one_line(text: str) -> str:
    return visible(" ".join(text.split()), keep_newlines=False)


def _is_next_week(words: str) -> bool:
    return words.lower().split() == ["next", "week"]


def _is_day(text: str) -> bool:
    return len(text) == len("2026-03-05")


def _day_words(day: date) -> str:
    return f"{day:%A} {day.day} {day:%B %Y}"


def _moment(moment: datetime) -> str:
    return f"{_day_words(moment.date())}, {moment:%H:%M}"
