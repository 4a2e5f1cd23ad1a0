"""A real mailbox on a real server, connected and used through the API; no trace of its password."""

import json
import re

import pytest

from silas.agents.executor import ExecutorAgent
from silas.agents.models.choices import Role
from silas.testing.work import FakeApprover
from silas.work.models import ENDED_WELL
from tests.agents.script import Script, calls
from tests.connections.canary import is_in, places_with
from tests.servers.dovecot import Dovecot, dovecot, message
from tests.servers.smtp import SmtpServer, smtp
from tests.web.mail_account import MailOwner, call, servers_of
from tests.web.place import Place

__all__ = ["dovecot", "smtp"]
CANARY = "canary-7c2f9b1e-of-the-mailbox"
_ID = re.compile(r"\d+\.\d+<[^<>\s]+>INBOX")


async def test_a_mailbox_from_the_first_card_to_its_removal(
    fresh_place: Place, dovecot: Dovecot, smtp: SmtpServer, caplog: pytest.LogCaptureFixture
) -> None:
    place = fresh_place
    account = dovecot.add_account(password=CANARY)
    account.deliver(message("Invoice for March", text="42 EUR"), message("Lunch?"))
    device = await place.device()
    async with device.conversation() as line:
        owner = MailOwner(place, device, line)
        shown = await owner.connect(account.address, CANARY, options=servers_of(dovecot, smtp))
        assert shown["status"] == "active", shown["problem"]
        assert "2 mails" in shown["found"]
        assert shown["permissions"] == ["mail.observe"]
        name = shown["connection_id"]

        found, said = await owner.run(call("mail_search", '{"text": "42 EUR"}'))
        assert found.status in ENDED_WELL, (found, said)
        assert "Invoice for March" in said
        assert "Lunch?" not in said
        mail = _ID.findall(said.replace("\\", ""))[0]
        read, said = await owner.run(call("mail_read", json.dumps({"mail": mail})))
        assert read.status in ENDED_WELL, (read, said)
        assert "42 EUR" in said

        # What needs more than was granted is put before the owner, for this one call.
        archiving = call("mail_archive", json.dumps({"mails": [mail]}))
        approver = FakeApprover()
        archived, said = await owner.run(archiving, approver=approver)
        assert archived.status in ENDED_WELL, (archived, said)
        [asked] = approver.calls
        assert any("this needs mail.act" in each for each in asked.reasons), asked.reasons
        assert account.subjects() == ["Lunch?"]
        back = call("mail_unarchive", json.dumps({"mails": [mail]}))
        undone, said = await owner.run(back, approver=FakeApprover())
        assert undone.status in ENDED_WELL, (undone, said)
        assert sorted(account.subjects()) == ["Invoice for March", "Lunch?"]

        letter = {"to": ["ann@example.com"], "subject": "Tuesday", "text": "Tuesday is fine."}
        drafted, said = await owner.run(
            call("mail_draft", json.dumps(letter)), approver=FakeApprover()
        )
        assert drafted.status in ENDED_WELL, (drafted, said)
        assert smtp.sent_by(account.address) == []
        sending = call("mail_send", json.dumps(letter))
        refused, _ = await owner.run(sending)
        assert refused.status not in ENDED_WELL, "nobody has approved it"
        assert smtp.sent_by(account.address) == []
        sent, said = await owner.run(sending, approver=FakeApprover())
        assert sent.status in ENDED_WELL, (sent, said)
        [letter_sent] = smtp.sent_by(account.address)
        assert letter_sent.recipients == ("ann@example.com",)

        # The password is changed elsewhere: the check says so, and the new one is asked for.
        account.change_password(CANARY + "-new")
        checked = await owner.command("check", name=name)
        assert checked["checks"][0]["result"]["healthy"] is False
        card = await line.until("connection_failure")
        assert card["failure_type"] == "token_revoked"
        await owner.answer(card, "connection_failure_response", selected_action="reconnect")
        await owner.type_secret(CANARY + "-new")
        again = await owner.until(name, "active", "failed")
        assert again["status"] == "active", again["problem"]

        details = (await device.get(f"/api/connections/item/{name}")).json()
        used = {each["tool"] for each in details["uses"]}
        assert {"mail_search", "mail_archive", "mail_send"} <= used
        # A model looks into the mailbox: what it was told is searched like all the rest.
        model = Script(
            [
                calls("mail_search", text="42 EUR"),
                calls("mail_read", mail=mail),
                {"summary": "It was 42 EUR."},
            ]
        )
        worker = ExecutorAgent(model.player(role=Role.EXECUTOR))
        await owner.run("Find the invoice.", approver=FakeApprover(), agent=worker)
        prompts = str([*model.asked, *model.told])
        assert "Invoice for March" in prompts
        frames = json.dumps([line.heard, line.unread])
        for secret in (CANARY, CANARY + "-new"):
            data, home = place.core.paths.data_dir, place.home
            assert await places_with(secret, place.core, home, data) == []
            assert not is_in(secret, prompts, frames, caplog.text)

        await owner.command("remove", name=name)
        assert (await device.get("/api/connections")).json()["connections"] == []
        assert not [each for each in place.core.vault.list() if each.startswith("connections/")]
