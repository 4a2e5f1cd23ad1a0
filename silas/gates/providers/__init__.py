"""Who evaluates gates: each provider behind the port `GateCheckProvider`.

A provider says what it thinks of one value. It enforces nothing, logs nothing and keeps nothing;
whatever it cannot judge, it blocks.
"""

from silas.gates.providers.builtin import CustomProvider, PredicateProvider
from silas.gates.providers.external import LlmProvider, ScriptProvider

__all__ = ["CustomProvider", "LlmProvider", "PredicateProvider", "ScriptProvider"]
