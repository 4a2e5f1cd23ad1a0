"""Rules that prove themselves: each carries texts that it must find and texts that it must not.

The examples are tried when the rule loads. A rule that contradicts them does not load, because a
guard with a broken rule looks like protection and is none.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TypeVar

from silas.gates.guards.errors import GuardRuleBroken


@dataclass(frozen=True, kw_only=True)
class Rule:
    """One thing that a guard objects to."""

    name: str
    why: str
    """A sentence for the person whose text was stopped or changed."""
    match: tuple[str, ...]
    not_match: tuple[str, ...]


SomeRule = TypeVar("SomeRule", bound=Rule)


def proven(
    rules: Iterable[SomeRule], finds: Callable[[SomeRule, str], bool]
) -> tuple[SomeRule, ...]:
    """The rules, after every example of every rule was tried with `finds`."""
    loaded = tuple(rules)
    for rule in loaded:
        _prove(rule, finds)
    if len({rule.name for rule in loaded}) < len(loaded):
        raise GuardRuleBroken("Two rules of a guard have the same name. Reinstall Silas.")
    return loaded


def _prove(rule: SomeRule, finds: Callable[[SomeRule, str], bool]) -> None:
    if not rule.match or not rule.not_match:
        raise GuardRuleBroken(f"The rule `{rule.name}` has no examples. Reinstall Silas.")
    for text in rule.match:
        if not finds(rule, text):
            raise GuardRuleBroken(f"The rule `{rule.name}` misses its own example: {text!r}.")
    for text in rule.not_match:
        if finds(rule, text):
            raise GuardRuleBroken(f"The rule `{rule.name}` finds what it must not: {text!r}.")
