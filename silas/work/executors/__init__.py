"""The executors: one file for each tool that a worker can call.

An executor gets an envelope and returns a result; it keeps nothing and knows nothing else.
Commands run in the sandbox alone; files are reached inside the workspace alone.
"""

from silas.work.executors.registry import RESEARCH_TOOLS, ExecutorRegistry, Tool, core_tools

__all__ = ["RESEARCH_TOOLS", "ExecutorRegistry", "Tool", "core_tools"]
