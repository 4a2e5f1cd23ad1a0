"""Copies of JSON-like values that share nothing that could be changed."""

import copy
from typing import Any


def own_copy(value: Any) -> Any:
    """A copy whose mappings and lists are nobody else's; texts and numbers cannot change anyway."""
    kind = type(value)
    if kind is str or value is None or kind is int or kind is bool or kind is float:
        return value
    if kind is dict:
        return {key: own_copy(item) for key, item in value.items()}
    if kind is list:
        return [own_copy(item) for item in value]
    return copy.deepcopy(value)
