"""What the offline brain offers to tap."""

from silas.agents.brain.grammar import PHRASES


def chips() -> tuple[str, ...]:
    """A few things to tap, if nothing was understood."""
    wanted = (
        "run a command",
        "make a file",
        "look at a day",
        "remember",
        "say what was done",
        "help",
    )
    return tuple(phrase.match[0] for phrase in PHRASES if phrase.name in wanted)
