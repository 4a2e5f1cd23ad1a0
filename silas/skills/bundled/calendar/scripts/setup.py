"""Lets the owner sign in with an app password. It learns that there is one, and never which."""

from dav import Conflict, Unavailable
from lifecycle import SERVICE, failure, heard, look_inside, tell

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
    step = {"type": "secure_input", "request": request}
    tell(type="setup_step", step_id=STEP, step=step)
    tell(type="await_input", step_id=STEP)
    if heard()["type"] != "step_result":
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
