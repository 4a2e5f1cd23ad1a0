"""Who evaluates gates: one file for each provider, each behind the port `GateCheckProvider`.

A provider says what it thinks of one value. It enforces nothing, logs nothing and keeps nothing;
whatever it cannot judge, it blocks.
"""

from silas.gates.providers.custom import CustomProvider
from silas.gates.providers.llm import LlmProvider
from silas.gates.providers.predicate import PredicateProvider
from silas.gates.providers.script import ScriptProvider

__all__ = ["CustomProvider", "LlmProvider", "PredicateProvider", "ScriptProvider"]
