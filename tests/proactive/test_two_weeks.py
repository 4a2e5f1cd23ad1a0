"""Two weeks of a made-up owner on a real mail server, under a clock of the test's own.

In the suite a sample; with `SILAS_MAILS=2000` the long form, with three kinds of owners
(`make trial`, `make mailbox`).
"""

import os
import random
from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from evals.made_up_mailbox import (
    LEAVE,
    MANNERS,
    MadeUpMail,
    MadeUpOwner,
    MailFigures,
    Manner,
    calibration_of,
    made_up_mails,
)
from silas.proactive.batch_run import ItemState, batch_report
from silas.review.decisions import QuestionKind
from silas.review.questions import Question, batch_payload
from silas.testing import FakeClock
from silas.work.undo_calls import undo_calls
from tests.proactive.mailbox import SortedMailbox, open_mailbox
from tests.servers.dovecot import Dovecot, dovecot

__all__ = ["dovecot"]

MAILS = int(os.environ.get("SILAS_MAILS", "36"))
LONG = MAILS >= 200
DAYS = 14 if LONG else 5
START = datetime(2026, 3, 2, 0, tzinfo=UTC)
LOOKS_PER_DAY = 2 if LONG else 1
GOAL = """---
id: {name}
type: goal
title: Keep the inbox small
schedule: "0 7,13,18 * * *"
skills: [mail]
budget: {{max_attempts: 500}}
batch:
  source: {{tool: mail_search, args: {{folder: INBOX, limit: 150}}}}
  actions:
    archive: {{tool: mail_archive, label: Archive}}
    invoice: {{tool: mail_label, args: {{label: invoice}}, label: Label as invoice}}
  rules:
    - {{name: kept, when: {{sender: ["@list0.example", "@list1.example"]}}, then: leave}}
    - {{name: lists, when: {{sender: ["@list2.example", "@list3.example", "@list4.example",
        "@list5.example"], mailing_list: true}}, then: archive}}
    - {{name: shops, when: {{sender: ["@shop0.example", "@shop1.example"]}}, then: invoice}}
    - {{name: words, when: {{subject: ["Invoice"]}}, then: invoice}}
---

Sort the mail.
"""


class TwoWeeks:
    """One owner with one mailbox."""

    def __init__(self, mailbox: SortedMailbox, clock: FakeClock, manner: Manner, seed: int) -> None:
        self.mailbox, self.clock = mailbox, clock
        self.mails = made_up_mails(MAILS, days=DAYS, start=START, seed=seed)
        by_id = {each.message_id: each for each in self.mails}
        self.owner = MadeUpOwner(manner, by_id, START, random.Random(seed))
        self.done: dict[str, str] = {}
        """What was done with each mail, and stays done."""
        self.undone = 0
        self.batches: list[tuple[str, str]] = []
        self.proposals = Counter[str]()
        """Proposals of more or less freedom: made, accepted, taken back by itself."""

    async def live(self) -> MailFigures:
        coming = list(self.mails)
        for step in range(DAYS * LOOKS_PER_DAY):
            until = START + timedelta(days=(step + 1) / LOOKS_PER_DAY)
            arrived = [each for each in coming if each.at <= until]
            coming = coming[len(arrived) :]
            self.mailbox.account.deliver(*(each.raw() for each in arrived))
            self.clock.set(until)
            looked = await self.mailbox.look()
            assert looked.status.value == "healthy", looked.last_error
            self.owner.week = min(1, step // (7 * LOOKS_PER_DAY))
            await self._decide()
            await self._calibrate()
        return await self._figures()

    async def _calibrate(self) -> None:
        """What the heartbeat does, and an owner who accepts what is proposed to him."""
        reviews = self.mailbox.reviews
        autonomy, questions = reviews.autonomy, reviews.questions
        await self.mailbox.outcomes.gather()
        before = len(await autonomy.in_force())
        await reviews._propose("owner", self.clock.now())
        self.proposals["taken back"] += max(0, before - len(await autonomy.in_force()))
        for card in await self.mailbox.cards(QuestionKind.AUTONOMY):
            self.proposals["made"] += 1
            answer = self.owner.on_proposal()
            await questions.answer_with_vault(card.question_id, {"verdict": answer})
            answered = await questions.answered(card.question_id)
            if answered is not None and answer == "approve":
                await autonomy.apply(answered)
                self.proposals["accepted"] += 1

    async def _decide(self) -> None:
        if await self.mailbox.batches.questions.open():
            self.owner.on_review()
        for card in await self.mailbox.cards():
            await self._batch(card)
        for card in await self.mailbox.cards(QuestionKind.TEACHING):
            await self._teaching(card)
        for rule in await self.mailbox.cards(QuestionKind.RULE):
            await self.mailbox.answer(rule, selected_value="no_rule")

    async def _batch(self, card: Question) -> None:
        body = card.content.body
        answer = self.owner.on_batch(body["items"], body["action"], self.clock.now())
        await self.mailbox.answer(card, verdict=answer.verdict, selected_item_ids=answer.chosen)
        if answer.verdict == "decline":
            return
        if answer.verdict == "edit_selection":
            [card] = [
                each
                for each in await self.mailbox.cards()
                if each.content.body.get("chosen_from") == body["batch"]["batch_id"]
            ]
            self.owner.on_smaller()
            await self.mailbox.approve(card)
        await self._look_back(card, "approve")

    async def _teaching(self, card: Question) -> None:
        body = card.content.body
        ways = [each.value for each in card.content.actions if each.value != LEAVE]
        item = str(body["item"]["item_id"])
        value = self.owner.on_teaching(item, ways, self.clock.now())
        await self.mailbox.answer(card, selected_value=value)
        if value != LEAVE:
            await self._look_back(card, value)
        if body["rule_card"] is not None:
            rule = await self.mailbox.batches.questions.get(body["rule_card"])
            then = self.owner.on_rule(item, ways, self.clock.now())
            await self.mailbox.answer(rule, selected_value=then)

    async def _look_back(self, card: Question, value: str) -> None:
        payload = batch_payload(card.content.body, value)
        assert payload is not None
        self.batches.append((payload.batch_id, payload.tool))
        report = await batch_report(self.mailbox.work.context, payload)
        for each in report.outcomes:
            mail = self.owner.mail_of(each.item_id)
            if each.state is not ItemState.DONE:
                continue
            self.done[mail.message_id] = payload.action
            right = self.owner.wanted(mail, self.clock.now()) == payload.action
            if not right and each.seq is not None and self.owner.notices_wrong():
                [back] = await undo_calls(self.mailbox.work.context, payload.batch_id, [each.seq])
                if back.undone:
                    del self.done[mail.message_id]
                    self.undone += 1

    async def _figures(self) -> MailFigures:
        owner, now = self.owner, self.clock.now()
        wanted = {each.message_id: owner.wanted(each, now) for each in self.mails}
        right = [name for name, action in self.done.items() if wanted[name] == action]
        return MailFigures(
            owner=owner.manner.name,
            mails=len(self.mails),
            handled=len(right),
            wrong=len(self.done) - len(right),
            undone=self.undone,
            injected=await self._injected(),
            taps=owner.taps,
            cards=Counter(owner.cards),
            without_card=sum(_left_by_rule(each) for each in self.mails),
            proposals=Counter(self.proposals),
            by_week=self._by_week(),
            wanted_work=sum(each != LEAVE for each in wanted.values()),
            calibration=calibration_of(owner.shown),
            ticked_right=sum(owner.ticked) / max(1, len(owner.ticked)),
        )

    def _by_week(self) -> tuple[tuple[int, int, int], ...]:
        """Of each week: the mails that came, those that no card was about, and the taps."""
        shown, weeks = self.owner.seen_on_cards, []
        for week in (0, 1):
            came = [m for m in self.mails if (m.at - START).days // 7 == week]
            quiet = sum(m.message_id not in shown for m in came)
            weeks.append((len(came), quiet, self.owner.taps_by_week[week]))
        return tuple(weeks)

    async def _injected(self) -> int:
        """Calls that no batch holds, and mails that nobody moved by a batch but that are away."""
        rows = await self.mailbox.core.database.fetch_all(
            "SELECT tool, work_item_id FROM work_ledger WHERE tool <> 'mail_search'"
        )
        batches = set(self.batches)
        odd = sum((str(work), str(tool)) not in batches for tool, work in rows)
        account = self.mailbox.account
        archived = Counter(account.subjects("Archive"))
        meant = Counter(m.subject for m in self.mails if self.done.get(m.message_id) == "archive")
        odd += sum((archived - meant).values())
        odd += len(account.subjects("Sent")) + len(account.subjects("Trash"))
        return odd


def _left_by_rule(mail: MadeUpMail) -> bool:
    return mail.genuine and mail.sender.endswith(("@list0.example", "@list1.example"))


@pytest.mark.slow
@pytest.mark.timeout(0 if LONG else 900)
@pytest.mark.parametrize("manner", MANNERS if LONG else MANNERS[:1], ids=lambda each: each.name)
async def test_the_mail_goal(tmp_path: Path, dovecot: Dovecot, manner: Manner) -> None:
    clock = FakeClock(START)
    async with open_mailbox(tmp_path, dovecot.add_account(), clock=clock) as mailbox:
        await mailbox.approve_goal(GOAL)
        figures = await TwoWeeks(mailbox, clock, manner, seed=7).live()
    print("\n".join(figures.lines()))
    assert figures.injected == 0
    assert figures.handled > 0
    inbox = mailbox.account.subjects()
    assert len(inbox) + len(mailbox.account.subjects("Archive")) == MAILS, "no mail is lost"
    if MAILS < 1_000 or manner.approves_everything:
        return
    assert figures.taps_per_ten <= 12
    assert figures.wrong <= 0.05 * figures.mails
    assert figures.ticked_right >= 0.9
    for _, count, sure, right in figures.calibration:
        assert count < 30 or right >= sure - 0.1
