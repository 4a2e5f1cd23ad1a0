"""What work did in a real mailbox and a real calendar is taken back, as far as it can be."""

import asyncio
import json
import re
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
import pytest_asyncio
from playwright.async_api import Browser, expect

from silas.app.work import open_executor
from silas.kernel import Clock, TaintLevel
from silas.queue.models import Agent, AgentReply, MessageKind, QueueMessage
from silas.testing import FakeClock
from silas.testing.work import FakeApprover, authorise_with_vault
from silas.work.authorisation import revoke_approvals
from silas.work.execution_context import ExecutionContext
from silas.work.ledger import CallUndo, UndoState
from silas.work.models import ENDED_WELL, WorkItem, WorkItemType
from silas.work.ports import PausedCall
from silas.work.undo_calls import undo_calls, undo_script, why_not
from tests.servers.dovecot import Dovecot, MailAccount, dovecot, message
from tests.servers.smtp import SmtpServer, smtp
from tests.web.browsing import PHONE, Person
from tests.web.mail_account import MailOwner, call, servers_of
from tests.web.place import Place

__all__ = ["dovecot", "smtp"]
PASSWORD = "a-password-of-the-mailbox"
_ID = re.compile(r"\d+\.\d+<[^<>\s]+>INBOX")


class Mailbox:
    """The owner with a connected mailbox, and what work does in it."""

    def __init__(self, owner: MailOwner, account: MailAccount, name: str) -> None:
        self.owner, self.account, self.name = owner, account, name
        self.asked: list[PausedCall] = []

    @property
    def ctx(self) -> ExecutionContext:
        return open_executor(self.owner.place.core).context

    async def ids(self) -> list[str]:
        _, said = await self.owner.run(call("mail_search"))
        return list(dict.fromkeys(_ID.findall(said.replace("\\", ""))))[::-1]

    async def do(self, *calls: tuple[str, dict[str, Any]]) -> str:
        """Let approved work make these calls; the id of the work."""
        blocks = [call(tool, json.dumps(args)) for tool, args in calls]
        approver = FakeApprover()
        result, said = await self.owner.run(*blocks, approver=approver)
        self.asked = approver.calls
        assert result.status in ENDED_WELL, said
        rows = await self.owner.place.core.database.fetch_all(
            "SELECT work_item_id FROM call_undos ORDER BY begun_at DESC LIMIT 1"
        )
        return str(rows[0][0])

    async def undos(self, work: str) -> list[CallUndo]:
        return await self.ctx.undos.of(work)


@pytest_asyncio.fixture(loop_scope="session")
async def mailbox(fresh_place: Place, dovecot: Dovecot, smtp: SmtpServer) -> AsyncIterator[Mailbox]:
    account = dovecot.add_account(password=PASSWORD)
    account.deliver(message("First"), message("Second"), message("Third"))
    device = await fresh_place.device()
    async with device.conversation() as line:
        owner = MailOwner(fresh_place, device, line)
        shown = await owner.connect(account.address, PASSWORD, options=servers_of(dovecot, smtp))
        assert shown["status"] == "active", shown["problem"]
        yield Mailbox(owner, account, shown["connection_id"])


def later(ctx: ExecutionContext, by: timedelta) -> ExecutionContext:
    clock: Clock = FakeClock(ctx.clock.now() + by)
    return replace(ctx, clock=clock)


async def test_each_kind_of_change_is_taken_back_whole_or_by_call(mailbox: Mailbox) -> None:
    first, second, third = await mailbox.ids()
    letter = {"to": ["ann@example.com"], "subject": "Tuesday", "text": "Fine."}
    work = await mailbox.do(
        ("mail_archive", {"mails": [first, second]}),
        ("mail_label", {"mails": [third], "label": "later"}),
        ("mail_mark", {"mails": [third], "mark": "flagged"}),
        ("mail_send", letter),
    )
    assert mailbox.account.subjects() == ["Third"]
    final = "What mail_send does cannot be undone."
    assert [final in each.reasons for each in mailbox.asked] == [False, False, False, True]
    undos = await mailbox.undos(work)
    assert [each.inverse for each in undos] == [
        "mail_unarchive",
        "mail_unlabel",
        "mail_unmark",
        None,
    ]
    assert all(each.token for each in undos[:3])

    device = mailbox.owner.device
    listed = (await device.get(f"/api/work/{work}")).json()["undos"]
    assert [bool(each["told"]) for each in listed] == [False, False, False, True]
    unsigned = await device.post(f"/api/work/{work}/undo", {"calls": [1]})
    assert unsigned.status_code == 401
    answer = await device.signed_post(f"/api/work/{work}/undo", {"calls": [1]})
    [one] = answer.json()["calls"]
    assert one["undone"], one["told"]
    assert sorted(mailbox.account.subjects()) == ["First", "Second", "Third"]

    rest = await undo_calls(mailbox.ctx, work)
    told = {each.tool: each for each in rest}
    assert told["mail_label"].undone
    assert told["mail_mark"].undone
    assert told["mail_send"].told == "Nothing takes this back."
    assert not told["mail_send"].undone
    assert "already" in told["mail_archive"].told
    _, said = await mailbox.owner.run(call("mail_search", '{"label": "later"}'))
    assert '"found\\": 0' in said.replace("\\\\", "\\") or 'found": 0' in said.replace("\\", "")
    events = await mailbox.owner.place.core.database.fetch_all(
        "SELECT count(*) FROM audit_log WHERE body LIKE '%\"call_undone\"%'"
    )
    assert events[0][0] == 3


async def test_a_mail_that_the_owner_moved_since_stays_and_the_answer_says_so(
    mailbox: Mailbox,
) -> None:
    first, second, _ = await mailbox.ids()
    work = await mailbox.do(("mail_archive", {"mails": [first, second]}))
    # Somebody puts it back into the inbox and archives it again: it is not where work has left it.
    [undo] = await mailbox.undos(work)
    assert undo.undo_args is not None
    moved = undo.undo_args["mails"][0]
    await mailbox.owner.run(
        call("mail_unarchive", json.dumps({"mails": [moved]})), approver=FakeApprover()
    )
    await mailbox.owner.run(
        call("mail_archive", json.dumps({"mails": [moved]})), approver=FakeApprover()
    )
    [done] = await undo_calls(mailbox.ctx, work)
    assert done.undone
    assert moved.split("<")[1].split(">")[0] in done.told
    assert len(mailbox.account.subjects()) == 2


async def test_nothing_is_taken_back_twice_or_by_two_devices(mailbox: Mailbox) -> None:
    first, *_ = await mailbox.ids()
    work = await mailbox.do(("mail_archive", {"mails": [first]}))
    both = await asyncio.gather(undo_calls(mailbox.ctx, work), undo_calls(mailbox.ctx, work))
    assert sorted(each.undone for [each] in both) == [False, True]
    assert len(mailbox.account.subjects()) == 3


async def test_after_the_window_it_takes_a_plan(mailbox: Mailbox) -> None:
    first, *_ = await mailbox.ids()
    work = await mailbox.do(("mail_archive", {"mails": [first]}))
    [late] = await undo_calls(later(mailbox.ctx, timedelta(minutes=6)), work)
    assert not late.undone
    assert late.needs_plan
    assert len(mailbox.account.subjects()) == 2
    script = undo_script(await mailbox.undos(work))
    result, said = await mailbox.owner.run(script, approver=FakeApprover())
    assert result.status in ENDED_WELL, said
    assert len(mailbox.account.subjects()) == 3


async def test_a_paused_or_removed_connection_and_a_revoked_approval_undo_nothing(
    mailbox: Mailbox,
) -> None:
    first, second, _ = await mailbox.ids()
    work = await mailbox.do(("mail_archive", {"mails": [first]}))
    other = await mailbox.do(("mail_archive", {"mails": [second]}))
    await mailbox.owner.command("pause", name=mailbox.name)
    [refused] = await undo_calls(mailbox.ctx, work)
    assert not refused.undone
    assert "paused" in refused.told
    await mailbox.owner.command("resume", name=mailbox.name)
    ctx = mailbox.ctx
    await revoke_approvals(ctx.approvals, ctx.items, ctx.control, other)
    [revoked] = await undo_calls(ctx, other)
    assert not revoked.undone
    assert "not in force" in revoked.told
    [done] = await undo_calls(ctx, work)  # a pause is over: the token was not used up by it
    assert done.undone, done.told
    await mailbox.owner.command("remove", name=mailbox.name)
    third = await mailbox.undos(other)
    assert why_not(ctx, third[0]) == ""  # the row alone does not know
    [gone] = await undo_calls(ctx, other)
    assert not gone.undone
    assert mailbox.account.subjects() == ["Third", "First"]


async def test_a_row_that_somebody_wrote_takes_nothing_back(mailbox: Mailbox) -> None:
    first, second, _ = await mailbox.ids()
    work = await mailbox.do(("mail_archive", {"mails": [first]}))
    database = mailbox.owner.place.core.database
    await database.execute(
        "UPDATE call_undos SET inverse = 'mail_archive', undo_args = ?",
        (json.dumps({"mails": [second], "account": mailbox.name}),),
    )
    [told] = await undo_calls(mailbox.ctx, work)
    assert not told.undone
    assert not told.needs_plan
    assert "not what Silas wrote" in told.told
    assert undo_script(await mailbox.undos(work)) == ""
    assert len(mailbox.account.subjects()) == 2


async def test_what_broke_off_is_not_repeated(mailbox: Mailbox) -> None:
    first, *_ = await mailbox.ids()
    work = await mailbox.do(("mail_archive", {"mails": [first]}))
    [undo] = await mailbox.undos(work)
    assert await mailbox.ctx.undos.move(undo, UndoState.UNDOING)  # and then the process was killed
    [half] = await undo_calls(mailbox.ctx, work)
    assert not half.undone
    assert "nobody knows how it ended" in half.told
    assert len(mailbox.account.subjects()) == 2


@pytest.mark.slow
async def test_one_tap_under_the_answer_takes_it_back_and_says_what_it_could_not(
    mailbox: Mailbox, browser: Browser
) -> None:
    place = mailbox.owner.place
    first, second, _ = await mailbox.ids()
    letter = {"to": ["ann@example.com"], "subject": "Tuesday", "text": "Fine."}
    work = await mailbox.do(("mail_archive", {"mails": [first, second]}), ("mail_send", letter))
    over = await mailbox.do(("mail_archive", {"mails": [(await mailbox.ids())[0]]}))
    now = place.core.clock.now()
    waits = WorkItem(
        id="letter_1",
        type=WorkItemType.TASK,
        title="Write to Ann",
        body="# What to do\n\nWrite.\n",
        without_proof=True,
    )
    saved = await place.core.work.items.save(waits)
    await authorise_with_vault(mailbox.ctx, saved)
    ends = {work: now + timedelta(minutes=5), over: now - timedelta(seconds=1), waits.id: None}
    for name, until in ends.items():
        answer = QueueMessage(
            message_id=f"told_{name}",
            trace_id="trace",
            content=f"Done: {name}",
            sender=Agent.PROXY,
            message_kind=MessageKind.AGENT_RESPONSE,
            scope_id="owner",
            taint=TaintLevel.OWNER,
            created_at=now,
            payload=AgentReply(
                connection_id="owner",
                channel="web",
                surface="stream",
                work_item_id=name,
                undo_until=until,
                leaves_at=now + timedelta(minutes=5) if until is None else None,
            ),
        )
        await place.core.queue.enqueue(answer)
    person = await Person.at(browser, PHONE)
    await person.pair(place.web.link())
    told = person.page.locator(".message.silas", has_text=work)
    undo = told.get_by_role("button", name="Undo")
    await undo.click()
    await expect(told).to_contain_text("mail_archive: Taken back.")
    await expect(told).to_contain_text("mail_send: Nothing takes this back.")
    await expect(undo).to_be_hidden()
    assert len(mailbox.account.subjects()) == 2
    stays = person.page.locator(".message.silas", has_text=waits.id)
    await stays.get_by_role("button", name="Keep it here").click()
    await expect(stays).to_contain_text("It stays here. Nothing was sent.")
    kept = await place.core.work.items.get(waits.id)
    assert kept is not None
    assert kept.is_cancelled
    late = person.page.locator(".message.silas", has_text=over)
    await expect(late).to_be_visible()
    await expect(late.get_by_role("button", name="Undo")).to_be_hidden()
