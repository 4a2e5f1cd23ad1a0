"""An account at GitHub, connected and used through the API; the server holds to its description."""

import json
import re

from silas.testing.work import FakeApprover
from silas.work.models import ENDED_WELL
from tests.servers.github import GitHub, github
from tests.web.mail_account import MailOwner, call
from tests.web.place import Place

__all__ = ["github"]
_ID = re.compile(r"octo/app#\d+\.[0-9a-f]{12}")


async def test_github_from_the_first_card_to_its_removal(
    fresh_place: Place, github: tuple[GitHub, int]
) -> None:
    place, (hub, port) = fresh_place, github
    number = hub.add_issue("It breaks")
    hub.add_run("tests", conclusion="failure", step="run pytest")
    device = await place.device()
    async with device.conversation() as line:
        owner = MailOwner(place, device, line, skill="github")
        server = {"api": f"localhost:{port}/none@127.0.0.1"}
        shown = await owner.connect(hub.login, hub.token, options=server)
        assert shown["status"] == "active", shown["problem"]
        assert shown["found"] == "Signed in as owner."

        repository = json.dumps({"repository": "octo/app"})
        failed, said = await owner.run(call("github_ci", repository))
        assert failed.status in ENDED_WELL, (failed, said)
        assert "run pytest" in said
        _, said = await owner.run(call("github_list", repository))
        issue = _ID.findall(said)[0]

        closing = call("github_close", json.dumps({"issue": issue}))
        refused, _ = await owner.run(closing)
        assert refused.status not in ENDED_WELL, "nobody has approved it"
        assert hub.issues[number]["state"] == "open"
        closed, said = await owner.run(closing, approver=FakeApprover())
        assert closed.status in ENDED_WELL, (closed, said)
        assert hub.issues[number]["state"] == "closed"

        await owner.command("remove", name=shown["connection_id"])
        assert not [each for each in place.core.vault.list() if each.startswith("connections/")]
