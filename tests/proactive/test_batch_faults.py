"""A batch under SIGKILL, and with a mail server that fails: nothing twice, nothing lost, no lie.

`SILAS_CHAOS_ROUNDS=200` runs as many rounds as one likes.
"""

import asyncio
import os
import random
import signal
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from silas.approval import BatchPayload
from silas.proactive.batch_run import BatchReport, ItemState, batch_report
from silas.review.questions import Question, batch_payload
from silas.work.models import ENDED_WELL
from silas.work.undo_calls import undo_calls
from tests.chaos import Runner
from tests.proactive.batch_runner import FileVault
from tests.proactive.mailbox import SortedMailbox, mail, open_mailbox
from tests.servers.dovecot import Dovecot, MailAccount, dovecot

__all__ = ["dovecot"]

ROUNDS = int(os.environ.get("SILAS_CHAOS_ROUNDS", "3"))
MAILS = 4
YES = {"verdict": "approve", "selected_item_ids": []}


@pytest.fixture(scope="module")
def runner() -> Iterator[Runner]:
    runner = Runner("tests.proactive.batch_runner")
    yield runner
    runner.close()


async def approved(mailbox: SortedMailbox, *, follow: bool) -> Question:
    """A batch that the owner has approved."""
    mailbox.account.deliver(*(mail(f"News {number}") for number in range(MAILS)))
    await mailbox.approve_goal()
    await mailbox.look()
    [card] = await mailbox.cards()
    await mailbox.batches.questions.answer_with_vault(card.question_id, YES)
    if follow:
        await mailbox.batches.answered(card.about)
    return card


def payload_of(card: Question) -> BatchPayload:
    payload = batch_payload(card.content.body, "approve")
    assert payload is not None
    return payload


async def require_honest(mailbox: SortedMailbox, card: Question) -> BatchReport:
    """Each mail is there once, each call was begun once at the most, and what is told is so."""
    payload = payload_of(card)
    report = await batch_report(mailbox.work.context, payload)
    inbox, archive = (mailbox.account.subjects(each) for each in ("INBOX", "Archive"))
    assert sorted([*inbox, *archive]) == [f"News {number}" for number in range(MAILS)]
    rows = await mailbox.core.database.fetch_all(
        "SELECT args FROM work_ledger WHERE work_item_id = ?", (payload.batch_id,)
    )
    assert max(Counter(str(args) for (args,) in rows).values(), default=0) <= 1
    for each in report.outcomes:
        subject = each.line.partition(",")[0]
        if each.state in (ItemState.DONE, ItemState.SAME):
            assert subject in archive, "done is done"
        if each.state in (ItemState.NOT_DONE, ItemState.NOT_TRIED):
            assert subject in inbox, "not done is not done"
    return report


@pytest.mark.parametrize("number", range(ROUNDS))
async def test_whoever_goes_on_after_a_kill_repeats_nothing_and_loses_nothing(
    number: int, tmp_path: Path, dovecot: Dovecot, runner: Runner
) -> None:
    account, vault = dovecot.add_account(), tmp_path / "vault.json"
    async with open_mailbox(tmp_path, account, vault=FileVault(vault)) as mailbox:
        card = await approved(mailbox, follow=False)
    dice, killed = random.Random(number), 0
    while True:
        child = runner.run(tmp_path)
        waiting = asyncio.create_task(asyncio.to_thread(runner.wait))
        # Longer each time, so that one of them comes to the end.
        patience = dice.uniform(0.3, 1.8) if killed < 3 else None
        done, _ = await asyncio.wait({waiting}, timeout=patience)
        if not done:
            os.kill(child, signal.SIGKILL)
            killed += 1
        if await waiting == 0:
            break
    async with open_mailbox(tmp_path, account, vault=FileVault(vault), connect=False) as mailbox:
        report = await require_honest(mailbox, card)
        item = await mailbox.core.work.items.get(payload_of(card).batch_id)
        assert item is not None
        assert item.status in ENDED_WELL
        assert report.count(ItemState.NOT_TRIED) == 0, "every item was tried"
        unknown = report.count(ItemState.UNKNOWN)
        assert unknown <= killed, "only what was going on when it was killed"


class FailingServer:
    """Stands before a mail server, and ends the connection at every n-th command."""

    def __init__(self, port: int) -> None:
        self._upstream = port
        self.every = 0
        """0: it fails never."""
        self.answers_lost = False
        """Whether the command is carried out first, and its answer is lost."""
        self._commands = 0
        self.port = 0

    async def serve(self) -> asyncio.Server:
        server = await asyncio.start_server(self._meet, "127.0.0.1", 0)
        self.port = server.sockets[0].getsockname()[1]
        return server

    async def _meet(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        up_reader, up_writer = await asyncio.open_connection("127.0.0.1", self._upstream)
        back = asyncio.create_task(_copy(up_reader, writer))
        try:
            while line := await reader.readline():
                self._commands += 1
                if self.every and self._commands % self.every == 0:
                    if self.answers_lost:
                        back.cancel()
                        up_writer.write(line)
                        await up_writer.drain()
                        await asyncio.sleep(0.3)  # the server carries it out; nobody hears of it
                    break
                up_writer.write(line)
                await up_writer.drain()
        except OSError:
            pass
        finally:
            back.cancel()
            for each in (writer, up_writer):
                each.close()


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(65_536):
        writer.write(data)
        await writer.drain()
    writer.close()


@pytest.fixture
async def failing(dovecot: Dovecot) -> AsyncIterator[FailingServer]:
    server = FailingServer(dovecot.imap_port)
    serving = await server.serve()
    yield server
    serving.close()


@pytest.mark.parametrize(
    ("every", "lost"),
    [(11, False), (7, True)] if ROUNDS < 40 else [(n, n % 2) for n in range(3, 30)],
)
async def test_a_server_that_fails_at_every_nth_command_is_told_of_item_by_item(
    every: int, lost: bool, tmp_path: Path, dovecot: Dovecot, failing: FailingServer
) -> None:
    account: MailAccount = dovecot.add_account()
    async with open_mailbox(tmp_path, account, imap_port=failing.port) as mailbox:
        card = await approved(mailbox, follow=False)
        failing.every, failing.answers_lost = every, bool(lost)
        await mailbox.batches.answered(card.about)
        failing.every = 0
        report = await require_honest(mailbox, card)
        assert len(mailbox.told) == 1
        told = mailbox.told[0].content
        for each in report.outcomes:
            wrong = each.state not in (ItemState.DONE, ItemState.SAME)
            assert (each.line in told) == wrong
        before = mailbox.account.subjects("Archive")
        await mailbox.batches.answered(card.about)
        assert mailbox.account.subjects("Archive") == before
        # What is not tried may come again; what was begun does not.
        await mailbox.look()
        again = {each["title"] for c in await mailbox.cards() for each in c.content.body["items"]}
        tried = {ItemState.DONE, ItemState.SAME, ItemState.UNKNOWN}
        assert again == {
            each.line.partition(",")[0] for each in report.outcomes if each.state not in tried
        }


@pytest.mark.parametrize("prefix", [0, 2])
async def test_an_undo_after_any_part_of_it_restores_what_was_there(
    prefix: int, tmp_path: Path, dovecot: Dovecot
) -> None:
    async with open_mailbox(tmp_path, dovecot.add_account()) as mailbox:
        card = await approved(mailbox, follow=False)
        payload, ctx = payload_of(card), mailbox.work.context
        calls, begun = 0, asyncio.Event()

        def after_so_many(work: str, what: str, detail: str = "") -> None:
            nonlocal calls
            del detail
            calls += what == "call" and work == payload.batch_id
            if calls > prefix:
                begun.set()

        object.__setattr__(ctx, "progress", after_so_many)
        following = asyncio.create_task(mailbox.batches.answered(card.about))
        await begun.wait()
        await ctx.control.cancel(payload.batch_id)  # the owner stops it in the middle
        await following
        report = await require_honest(mailbox, card)
        assert "You have stopped it" in mailbox.told[-1].content
        assert report.count(ItemState.NOT_TRIED) >= MAILS - prefix - 2
        undone = await undo_calls(ctx, payload.batch_id)
        left = {each.seq for each in undone if not each.undone}
        archived = mailbox.account.subjects("Archive")
        said = [each.line.partition(",")[0] for each in report.outcomes if each.seq in left]
        assert sorted(archived) == sorted(said), "what is not restored is said not to be"
