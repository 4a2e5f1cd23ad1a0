"""Tries the mailbox out: how many mails the inbox has."""

from collections.abc import Mapping
from typing import Any

from lifecycle import answer, look_inside


def probe(_request: Mapping[str, Any]) -> dict[str, Any]:
    total, unread = look_inside()
    summary = f"The inbox has {total} mails, {unread} of them unread."
    return {"summary": summary, "mails": total, "unread": unread}


if __name__ == "__main__":
    answer(probe)
