"""What a tool's name says about what it does."""

import pytest

from silas.gates.actions import action_of
from silas.gates.risk import ActionKind


@pytest.mark.parametrize(
    "tool", ["delete_mail", "mail.delete", "dropTable", "db:drop-table", "REVOKE_access", "wipe"]
)
def test_what_destroys(tool: str) -> None:
    assert action_of(tool) is ActionKind.DESTROY


@pytest.mark.parametrize(
    "tool", ["send_mail", "undelete", "dropbox_upload", "closet", "x", "deleted"]
)
def test_everything_else_is_a_change(tool: str) -> None:
    assert action_of(tool) is ActionKind.CHANGE
