"""The chain of toolsets between a model and the runtime: one wrapper, one file, one responsibility.

From the inside out: skill tools, prepared, filtered, approval required, gated, revocation. A call
comes in at the outside. No wrapper decides what is safe: the runtime's `ToolCaller` does, and the
chain sees to it that there is no way around it.
"""

from silas.agents.toolsets.chain import tool_chain
from silas.agents.toolsets.modes import ToolMode
from silas.agents.toolsets.revocation import CallsRevoked

__all__ = ["CallsRevoked", "ToolMode", "tool_chain"]
