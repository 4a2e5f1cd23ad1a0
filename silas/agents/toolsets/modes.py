"""What a run is for; it decides which tools exist in it at all."""

from enum import StrEnum


class ToolMode(StrEnum):
    """What a run is for."""

    EXECUTION = "execution"
    """Approved work: whatever the access level allows."""
    RESEARCH = "research"
    """Finding things out. What could change anything does not exist."""
    CONVERSATION = "conversation"
    """The proxy and the planner: the tools that the stream gives them."""
