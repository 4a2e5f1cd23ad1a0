"""Copies of JSON-like values that share nothing that could be changed."""

import copy
from typing import Any

from silas.gates.errors import GateInputInvalid

_MAX_DEPTH = 100


def own_copy(value: Any, depth: int = _MAX_DEPTH) -> Any:
    """A copy whose mappings and lists are nobody else's; texts and numbers cannot change anyway."""
    kind = type(value)
    if kind is str or value is None or kind is int or kind is bool or kind is float:
        return value
    if depth == 0:
        raise GateInputInvalid(f"Values nested more than {_MAX_DEPTH} deep are not looked at.")
    if kind is dict:
        return {key: own_copy(item, depth - 1) for key, item in value.items()}
    if kind is list:
        return [own_copy(item, depth - 1) for item in value]
    return copy.deepcopy(value)
