"""Lets the owner sign in, by an app password or at the provider. It never learns the secret."""

from dav import Conflict, Unavailable
from lifecycle import SERVICE, failure, heard, look_inside, signed_in, tell

STEP = "password"
_GUIDANCE = (
    "Type the password of your account. If your provider has app passwords, make one for Silas: "
    "you can take it back there at any time."
)


def main() -> None:
    start = heard()
    if start["type"] != "start":
        return
    request = {
        "ref_id": STEP,
        "label": "Password for the calendars",
        "input_hint": None,
        "guidance": {"instructions": _GUIDANCE, "help_url": None},
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
