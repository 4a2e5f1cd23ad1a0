"""A person connects a real account, over the same HTTP and WebSocket as the page."""

import asyncio
from dataclasses import dataclass
from typing import Any

from silas.app.work import off_limits_of, open_executor
from silas.kernel import canonical_bytes
from silas.testing.work import FakeApprover, authorise_with_vault
from silas.work import WorkItemResult, decode_plan, parse_plan
from silas.work.binding import bind_plan
from tests.servers.dovecot import Dovecot
from tests.servers.smtp import SmtpServer
from tests.web.place import Line, Place, TestDevice

_LONGEST_WAIT = 180
PLAN = """---
id: {name}
type: task
title: With an account
skills: [{skill}]
---
# What to do

{calls}
"""


def servers_of(dovecot: Dovecot, smtp: SmtpServer) -> dict[str, str]:
    """Where the mailbox is: on this machine, at exactly these ports, without encryption."""
    return {
        "imap": f"localhost:{dovecot.imap_port}/none@127.0.0.1",
        "smtp": f"localhost:{smtp.plain_port}/none@127.0.0.1",
    }


@dataclass
class MailOwner:
    """The owner, at one device."""

    place: Place
    device: TestDevice
    line: Line
    skill: str = "mail"

    async def command(self, what: str, **given: Any) -> Any:
        answer = await self.device.signed_post(f"/api/connections/{what}", given)
        assert answer.status_code == 200, answer.text
        return answer.json()

    async def answer(self, card: dict[str, Any], kind: str, **answer: str) -> None:
        strength = "slide" if "slide" in card["steps"] else "tap"
        signed = {
            "type": "answer",
            "card_id": card["request_id"],
            "content_hash": card["shown"]["plan_hash"],
            "answer": answer,
            **({} if strength == "tap" else {"approval_strength": strength}),
        }
        frame = {"type": kind, "request_id": card["request_id"], "strength": strength, **answer}
        frame["signature"] = self.device.sign(canonical_bytes(signed))
        await self.line.send(frame)
        await self.line.until("card_closed", request_id=card["request_id"])

    async def shown(self, name: str) -> dict[str, Any]:
        answer = await self.device.get(f"/api/connections/item/{name}")
        assert answer.status_code == 200, answer.text
        return dict(answer.json()["connection"])

    async def until(self, name: str, *statuses: str) -> dict[str, Any]:
        async with asyncio.timeout(_LONGEST_WAIT):
            while True:
                found = await self.shown(name)
                if found["status"] in statuses and not found["step"]:
                    return found
                await asyncio.sleep(0.1)

    async def type_secret(self, password: str) -> None:
        request = await self.line.until("secure_input_request")
        answer = await self.device.signed_post(f"/secrets/{request['ref_id']}", {"value": password})
        assert answer.status_code == 200, answer.text

    async def connect(self, address: str, password: str, **options: Any) -> dict[str, Any]:
        """Ask, read the card, say yes, type the password, and wait for the end."""
        asked = await self.command("connect", skill=self.skill, identity=address, **options)
        card = await self.line.until("decision", request_id=asked["card_id"])
        await self.answer(card, "decision_response", selected_value="approve")
        await self.type_secret(password)
        return await self.until(asked["connection"]["connection_id"], "active", "failed")

    async def run(
        self, *calls: str, approver: FakeApprover | None = None, agent: Any = None
    ) -> tuple[WorkItemResult, str]:
        """Execute an approved plan that makes these calls; its result, and what they gave."""
        core = self.place.core
        executor = open_executor(core, approver=approver, agent=agent)
        if approver is not None:
            approver.decisions = core.decisions
        text = PLAN.format(name=core.ids.new("task"), skill=self.skill, calls="\n\n".join(calls))
        parsed = parse_plan(decode_plan(text.encode()), known=())
        bound = await bind_plan(
            parsed,
            base=self.place.home,
            off_limits=off_limits_of(core.paths),
            skills=core.skill_files,
        )
        items = [await core.work.items.save(each) for each in bound.items]
        await core.conversations.note_typed(items, owner_id="owner")
        approved = [await authorise_with_vault(executor.context, each) for each in items]
        result = await executor.execute(approved[0])
        rows = await core.database.fetch_all(
            "SELECT * FROM work_ledger WHERE work_item_id = ? ORDER BY seq", (items[0].id,)
        )
        return result, "\n".join(str(row) for row in rows)


def call(tool: str, arguments: str = "{}") -> str:
    """One call of a plan's script."""
    return f"```call tool={tool}\n{arguments}\n```"
