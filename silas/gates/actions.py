"""What a call does to the world, as far as its name says so.

No tool outside of the sandbox describes itself yet. A name that speaks of destroying makes a call
riskier; no name makes one less risky than a change that is hard to take back.
"""

import re

from silas.gates.risk import ActionKind

_WORD = re.compile(r"[a-z]+")
_DESTROYS = frozenset(
    {
        *("delete", "destroy", "drop", "erase", "purge", "remove", "revoke", "shred"),
        *("terminate", "truncate", "uninstall", "unsubscribe", "wipe", "cancel", "close"),
    }
)


def action_of(tool: str) -> ActionKind:
    """What calling this tool is."""
    words = _WORD.findall(re.sub(r"(?<=[a-z])(?=[A-Z])", "_", tool).lower())
    return ActionKind.DESTROY if _DESTROYS & set(words) else ActionKind.CHANGE
