"""A Silas with a real mailbox (Dovecot) and a goal that sorts it; nothing is mocked."""

import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from silas.app.core import Core
from silas.app.review import open_batches, open_outcomes, open_reviews
from silas.app.runtime import open_cards
from silas.app.skills import accept_bundled
from silas.app.work import off_limits_of, open_executor
from silas.proactive.batches import Batches
from silas.proactive.outcomes import OutcomeFeed
from silas.queue.models import QueueMessage
from silas.review.decisions import QuestionKind
from silas.review.questions import Question
from silas.stream.review_service import ReviewService
from silas.testing.work import authorise_with_vault
from silas.work import WorkItem, WorkItemResult, decode_plan, parse_plan
from silas.work.binding import bind_plan
from silas.work.executor import WorkItemExecutor
from tests.connections.place import ConnectionPlace, open_place
from tests.servers.dovecot import MailAccount, message

HOST = "imap.gmail.com"
"""A provider whose word about senders counts; the tests' server stands at its address."""
GOAL = """---
id: {name}
type: goal
title: Keep the inbox small
schedule: "0 7 * * *"
skills: [mail]
batch:
  source: {{tool: mail_search, args: {{folder: INBOX, limit: 100}}}}
  actions:
    archive: {{tool: mail_archive, label: Archive}}
    invoice: {{tool: mail_label, args: {{label: invoice}}, label: Label as invoice}}
  rules:
    - {{name: lists, when: {{sender: ["@news.example"], mailing_list: true}}, then: archive}}
    - {{name: bills, when: {{sender: ["billing@power.example"]}}, then: invoice}}
    - {{name: family, when: {{sender: ["@family.example"]}}, then: leave}}
---

Sort the mail.
"""
PASSWORD = "a-password-of-the-mailbox"


def mail(
    subject: str,
    sender: str = "hello@news.example",
    *,
    listed: bool = True,
    genuine: bool = True,
    text: str = "Hello.",
    days: int = 3,
) -> bytes:
    """A mail as the provider has stored it, with what it found out about the sender."""
    domain = sender.rpartition("@")[2].rstrip(">")
    found = f"dmarc=pass header.from={domain}" if genuine else "dmarc=fail"
    return message(
        subject,
        sender=sender,
        text=text,
        authentication=f"mx.google.com; {found}",
        when=datetime.now(UTC) - timedelta(days=days),
        headers=[("List-Unsubscribe", f"<https://{domain}/leave>")] if listed else [],
    )


@dataclass
class SortedMailbox:
    """The owner, a mailbox, and the goal that sorts it."""

    place: ConnectionPlace
    inbox: MailAccount | None
    batches: Batches
    work: WorkItemExecutor
    reviews: ReviewService
    outcomes: OutcomeFeed
    told: list[QueueMessage] = field(default_factory=list)
    goal: WorkItem | None = None
    connection: str = ""

    @property
    def account(self) -> MailAccount:
        assert self.inbox is not None
        return self.inbox

    @property
    def core(self) -> Core:
        return self.place.skills.core

    async def approve_goal(self, text: str = GOAL) -> WorkItem:
        """The owner approves the goal, as bound as on its card."""
        core = self.core
        parsed = parse_plan(decode_plan(text.format(name=core.ids.new("goal")).encode()), known=())
        bound = await bind_plan(
            parsed,
            base=self.place.skills.root,
            off_limits=off_limits_of(core.paths),
            skills=core.skill_files,
        )
        saved = await core.work.items.save(bound.root)
        await core.conversations.note_typed([saved], owner_id="owner")
        self.goal = await authorise_with_vault(self.work.context, saved)
        return self.goal

    async def look(self) -> WorkItemResult:
        """One cycle of the goal."""
        assert self.goal is not None
        item = await self.core.work.items.get(self.goal.id)
        assert item is not None
        return await self.work.execute(item)

    async def cards(self, kind: QuestionKind = QuestionKind.ITEMS) -> list[Question]:
        return [each for each in await self.batches.questions.open() if each.content.kind is kind]

    async def answer(self, question: Question, **answer: Any) -> list[str]:
        """The owner answers, and the answer is followed; what the owner is told then."""
        before = len(self.told)
        await self.batches.questions.answer_with_vault(question.question_id, answer)
        await self.batches.answered(question.about)
        return [each.content for each in self.told[before:]]

    async def approve(self, question: Question) -> list[str]:
        return await self.answer(question, verdict="approve", selected_item_ids=[])

    async def allow(self, permission: str = "mail.act") -> None:
        asked = await self.place.service.allow(self.connection, permission)
        assert asked.card_id is not None
        question = await self.place.manager.cards.questions.get(asked.card_id)
        await self.place.answer(question, {"verdict": "approve"})


@contextlib.asynccontextmanager
async def open_mailbox(
    root: Path,
    account: MailAccount | None,
    *,
    connect: bool = True,
    imap_port: int | None = None,
    **given: Any,
) -> AsyncIterator[SortedMailbox]:
    """The data directory below `root`, new or as it was left, with this mailbox connected."""
    async with open_place(root, **given) as place:
        core, questions = place.skills.core, place.skills.questions
        cards = open_cards(core)
        reviews = open_reviews(core, cards, questions)
        batches = open_batches(core, questions, reviews)
        work = open_executor(core, propose=batches.propose)
        batches.attach(work.context)
        outcomes = open_outcomes(core, cards, questions)
        mailbox = SortedMailbox(place, account, batches, work, reviews, outcomes)

        async def tell(told: QueueMessage) -> bool:
            mailbox.told.append(told)
            return await core.queue.enqueue(told)

        batches.enqueue = tell
        if connect and account is not None:
            await _connect(mailbox, account, imap_port or account.server.imap_port)
        yield mailbox


async def _connect(mailbox: SortedMailbox, account: MailAccount, port: int) -> None:
    place = mailbox.place
    await accept_bundled(mailbox.core)
    servers = {
        "imap": f"{HOST}:{port}/none@127.0.0.1",
        "smtp": f"smtp.gmail.com:{port}/none@127.0.0.1",
    }
    asked = await place.service.connect("mail", account.address, options=servers)
    assert asked.card_id is not None
    question = await place.manager.cards.questions.get(asked.card_id)
    await place.answer(question, {"selected_value": "approve"})
    name = question.content.body["connection"]["connection_id"]
    await place.secrets.fulfil(await place.until_secret(name), account.password)
    connected = await place.until_settled(name)
    assert connected.usable, connected
    mailbox.connection = name
    await mailbox.allow()
