"""Approval: no call passes unless the runtime has let it pass; otherwise it waits for the owner.

The library's wrapper asks for approval of every call that does not count as approved. Whether one
does is said by `GatedToolset`, which is the only caller of this, after the runtime's review. So a
call that comes here on another way is never made.
"""

from pydantic_ai.toolsets import AbstractToolset, ApprovalRequiredToolset


def approval_required(inner: AbstractToolset[None]) -> ApprovalRequiredToolset[None]:
    """Every call needs approval."""
    return inner.approval_required()
