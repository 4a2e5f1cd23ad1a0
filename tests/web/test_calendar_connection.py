"""A real calendar on a real server, connected and used through the API."""

import json
import re

from silas.testing.work import FakeApprover
from silas.work.models import ENDED_WELL
from tests.servers.radicale import Radicale, radicale
from tests.web.mail_account import MailOwner, call
from tests.web.place import Place

__all__ = ["radicale"]
_ID = re.compile(r'"[0-9a-f]{20,}" \S+ /\S+\.ics')
DENTIST = {
    "title": "Dentist",
    "start": "2026-03-05T10:00+01:00",
    "end": "2026-03-05T11:00+01:00",
}


async def test_a_calendar_from_the_first_card_to_its_removal(
    fresh_place: Place, radicale: Radicale
) -> None:
    place, account = fresh_place, radicale.add_account()
    device = await place.device()
    async with device.conversation() as line:
        owner = MailOwner(place, device, line, skill="calendar")
        server = {"caldav": f"localhost:{radicale.port}/none@127.0.0.1"}
        shown = await owner.connect(account.username, account.password, options=server)
        assert shown["status"] == "active", shown["problem"]
        assert shown["found"] == "Calendars: private."
        assert shown["permissions"] == ["calendar.observe"]

        made = call("calendar_create", json.dumps(DENTIST))
        refused, _ = await owner.run(made)
        assert refused.status not in ENDED_WELL, "nobody has approved it"
        assert account.names() == []
        created, said = await owner.run(made, approver=FakeApprover())
        assert created.status in ENDED_WELL, (created, said)
        assert len(account.names()) == 1

        day = {"start": "2026-03-05", "end": "2026-03-06"}
        listed, said = await owner.run(call("calendar_list", json.dumps(day)))
        assert listed.status in ENDED_WELL, (listed, said)
        assert "Dentist" in said
        event = _ID.findall(said.replace("\\", ""))[0]

        # "Move my dentist to next week", and back.
        moving = {
            "event": event,
            "start": "2026-03-12T10:00+01:00",
            "end": "2026-03-12T11:00+01:00",
        }
        moved, said = await owner.run(
            call("calendar_move", json.dumps(moving)), approver=FakeApprover()
        )
        assert moved.status in ENDED_WELL, (moved, said)
        [name] = account.names()
        assert "DTSTART:20260312T090000Z" in (account.get(name) or "")
        back, said = await owner.run(
            call("calendar_move_back", json.dumps(moving)), approver=FakeApprover()
        )
        assert back.status in ENDED_WELL, (back, said)
        assert "DTSTART:20260305T090000Z" in (account.get(name) or "")

        await owner.command("remove", name=shown["connection_id"])
        assert not [each for each in place.core.vault.list() if each.startswith("connections/")]
