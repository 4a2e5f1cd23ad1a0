"""Lets the owner sign in, by an app password or at the provider. It never learns the secret."""

from dav import Conflict, Unavailable, account
from lifecycle import SERVICE, failure, heard, look_inside, signed_in, tell

STEP = "password"
_GUIDANCE = (
    "Type the password of your account. If your provider has app passwords, make one for Silas: "
    "you can take it back there at any time."
)
# By how the name of the server ends: they take no password of the account itself.
_AT = {
    ".icloud.com": (
        "Sign in at account.apple.com and make an app-specific password.",
        "https://account.apple.com/account/manage",
    ),
    ".fastmail.com": (
        "Settings, Privacy & Security, Manage app passwords: one for calendars.",
        "https://app.fastmail.com/settings/security/apps",
    ),
}


def guidance() -> dict[str, str | None]:
    """Where the owner gets the password."""
    hosts = [str(each["host"]) for each in account().get("endpoints", ())]
    known = (told for end, told in _AT.items() for host in hosts if host.endswith(end))
    instructions, page = next(known, (_GUIDANCE, None))
    return {"instructions": instructions, "help_url": page}


def main() -> None:
    start = heard()
    if start["type"] != "start":
        return
    request = {
        "ref_id": STEP,
        "label": "Password for the calendars",
        "input_hint": None,
        "guidance": guidance(),
    }
    if not signed_in(start, request):
        return
    tell(
        type="setup_step",
        step_id="signing_in",
        step={"type": "progress", "message": "Silas signs in and looks for the calendars."},
    )
    try:
        summary = look_inside()
    except (Unavailable, Conflict) as error:
        kind = error.kind if isinstance(error, Unavailable) else "unknown"
        tell(type="failure", failure=failure(kind, str(error), SERVICE))
        return
    granted = start.get("initial_permissions", [])
    tell(
        type="completion",
        connection_payload={"summary": summary, "permissions_granted": granted},
    )


if __name__ == "__main__":
    main()
