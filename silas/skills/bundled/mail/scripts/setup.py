"""Lets the owner sign in, by an app password or at the provider. It never learns the secret."""

import json
import os

import providers
from imap_session import Conflict, Unavailable
from lifecycle import SERVICE, failure, heard, look_inside, signed_in, tell

STEP = "password"


def main() -> None:
    start = heard()
    if start["type"] != "start":
        return
    address = str(start.get("identity_hint", {}).get("identity", ""))
    known = json.loads(os.environ.get("SILAS_ACCOUNT") or "{}")
    servers = [each["host"] for each in known.get("endpoints", ()) if each["kind"] == "imap"]
    provider = providers.by_domain(address.rpartition("@")[2])
    provider = next(filter(None, map(providers.by_server, servers)), provider)
    request = {
        "ref_id": STEP,
        "label": "App password" if provider else "Password",
        "input_hint": None,
        "guidance": {
            "instructions": provider.guidance if provider else _USUAL,
            "help_url": provider.help_url if provider else None,
        },
    }
    if not signed_in(start, request):
        return
    tell(
        type="setup_step",
        step_id="signing_in",
        step={"type": "progress", "message": "Silas signs in and opens the inbox."},
    )
    service = provider.name if provider else SERVICE
    try:
        total, unread = look_inside()
    except (Unavailable, Conflict) as error:
        kind = error.kind if isinstance(error, Unavailable) else "unknown"
        tell(type="failure", failure=failure(kind, str(error), service))
        return
    summary = f"The inbox has {total} mails, {unread} of them unread."
    granted = start.get("initial_permissions", [])
    tell(
        type="completion",
        connection_payload={"summary": summary, "permissions_granted": granted},
    )


_USUAL = (
    "Type the password of your mailbox. If your provider has app passwords, make one for Silas: "
    "you can take it back there at any time."
)

if __name__ == "__main__":
    main()
