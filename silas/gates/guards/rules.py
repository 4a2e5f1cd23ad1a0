"""Rules that prove themselves: each carries texts that it must find and texts that it must not.

The examples are tried when the rule loads, or, where that takes long, before its guard looks at its
first text (`Proof`). A rule that contradicts them is not used, because a guard with a broken rule
looks like protection and is none.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from threading import RLock
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


class Proof:
    """The proof of a guard's rules: held once, before the guard says anything about a text."""

    def __init__(self, prove: Callable[[], object]) -> None:
        self._prove = prove
        self._lock = RLock()
        self._is_trying = False
        self._is_held = False

    def hold(self) -> None:
        """Try the examples, unless they were; raises `GuardRuleBroken`, and then every time."""
        if not self._is_held:
            with self._lock:
                self._try()

    def _try(self) -> None:
        if self._is_held or self._is_trying:  # the second: the examples ask the guard itself
            return
        self._is_trying = True
        try:
            self._prove()
            self._is_held = True
        finally:
            self._is_trying = False


def _prove(rule: SomeRule, finds: Callable[[SomeRule, str], bool]) -> None:
    if not rule.match or not rule.not_match:
        raise GuardRuleBroken(f"The rule `{rule.name}` has no examples. Reinstall Silas.")
    for text in rule.match:
        if not finds(rule, text):
            raise GuardRuleBroken(f"The rule `{rule.name}` misses its own example: {text!r}.")
    for text in rule.not_match:
        if finds(rule, text):
            raise GuardRuleBroken(f"The rule `{rule.name}` finds what it must not: {text!r}.")
