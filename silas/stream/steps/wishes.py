"""Step 10: what an agent wishes to be remembered, and what the owner wishes about his journal."""

from silas.stream.steps.journal import apply_journal_ops
from silas.stream.steps.remembering import apply_memory_ops
from silas.stream.turn_context import Turn, TurnContext


async def apply_ops(room: TurnContext, turn: Turn) -> Turn:
    """Step 10: both, each by its own rules."""
    return await apply_journal_ops(room, await apply_memory_ops(room, turn))
