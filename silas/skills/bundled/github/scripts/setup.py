"""Lets the owner sign in, with a token or at GitHub. It never learns the token."""

from lifecycle import failure, heard, look_inside, signed_in, tell
from rest import Conflict, Unavailable

STEP = "token"
_GUIDANCE = (
    "Make a fine-grained token for the repositories that Silas may see: issues, pull requests and "
    "actions to read, and issues to write if it may comment. Notifications need a classic token "
    "with the scope notifications."
)
_HELP = "https://github.com/settings/personal-access-tokens/new"


def main() -> None:
    start = heard()
    if start["type"] != "start":
        return
    request = {
        "ref_id": STEP,
        "label": "Token of GitHub",
        "input_hint": "github_pat_...",
        "guidance": {"instructions": _GUIDANCE, "help_url": _HELP},
    }
    if not signed_in(start, request):
        return
    message = "Silas asks GitHub whose token it is."
    tell(type="setup_step", step_id="signing_in", step={"type": "progress", "message": message})
    try:
        summary = look_inside()
    except (Unavailable, Conflict) as error:
        kind = error.kind if isinstance(error, Unavailable) else "unknown"
        tell(type="failure", failure=failure(kind, str(error)))
        return
    granted = start.get("initial_permissions", [])
    tell(
        type="completion",
        connection_payload={"summary": summary, "permissions_granted": granted},
    )


if __name__ == "__main__":
    main()
