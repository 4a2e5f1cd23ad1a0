"""Regular expressions from outside: which of them cannot take for ever.

Python's engine tries one way after the other. An expression in which the same text can be divided
among repetitions in many ways, such as `(a+)+`, takes a time that doubles with every character.
`regex_problem` accepts an expression only if

1. it compiles, is not too long, does not refer back to groups, and does not look ahead or behind
   inside a repetition;
2. inside a repetition the next character always decides how to go on: alternatives start with
   different characters, and an inner repetition ends where a different character starts, as in
   `(?:\\w+\\.)+` or `(?:,\\d+)*`;
3. what is repeated cannot be empty.

The rules are stricter than needed: some harmless expressions are refused, no doubling one passes.
What remains can still take time that grows with the square of a long text: limit the text.
"""

import re
import warnings
from collections.abc import Iterable
from functools import cache
from re import _constants as ops  # type: ignore[attr-defined]
from re import _parser  # type: ignore[attr-defined]
from typing import Any, NamedTuple

_MAX_LENGTH = 1000
_NEARBY = range(0x250)
_LOOPS = {ops.MAX_REPEAT, ops.MIN_REPEAT, ops.POSSESSIVE_REPEAT}
_SINGLE = {ops.LITERAL, ops.NOT_LITERAL, ops.ANY, ops.IN}
_REFERENCES = {ops.GROUPREF, ops.GROUPREF_EXISTS}
_CATEGORIES = {
    ops.CATEGORY_DIGIT: r"\d",
    ops.CATEGORY_NOT_DIGIT: r"\D",
    ops.CATEGORY_SPACE: r"\s",
    ops.CATEGORY_NOT_SPACE: r"\S",
    ops.CATEGORY_WORD: r"\w",
    ops.CATEGORY_NOT_WORD: r"\W",
}

Node = tuple[Any, Any]


class Characters(NamedTuple):
    """The characters that can stand at one place: those nearby exactly, the far ones as one."""

    near: frozenset[int]
    far: bool

    def meets(self, other: "Characters") -> bool:
        """Whether some character may belong to both."""
        return bool(self.near & other.near) or (self.far and other.far)


_NOTHING = Characters(frozenset(), far=False)
_EVERYTHING = Characters(frozenset(_NEARBY), far=True)


def regex_problem(pattern: str) -> str | None:
    """What is wrong with the expression, as a sentence that says what would be right; or None."""
    if len(pattern) > _MAX_LENGTH:
        return f"this expression is longer than {_MAX_LENGTH} characters"
    try:
        with warnings.catch_warnings():
            # A warning means that Python will read the expression differently one day.
            warnings.simplefilter("error")
            tree = _parser.parse(pattern)
        re.compile(pattern)
        return _problem_in(list(tree), in_loop=False)
    except (re.error, OverflowError, RecursionError, Warning) as error:
        return f"this is not a regular expression: {error}"


def _problem_in(nodes: list[Node], *, in_loop: bool) -> str | None:
    for node in nodes:
        problem = _problem_of(node, in_loop=in_loop)
        if problem:
            return problem
    return None


def _problem_of(node: Node, *, in_loop: bool) -> str | None:
    kind, _ = node
    if kind in _REFERENCES:
        return "references to earlier groups can take for ever; write the text out"
    if kind in (ops.ASSERT, ops.ASSERT_NOT) and in_loop:
        return "looking ahead or behind inside a repetition can take for ever; move it outside"
    if kind in _LOOPS and _repeats(node):
        in_loop = True
        body = _body(node)
        starts, may_be_empty = _first(body)
        if may_be_empty or not _decided(body, starts):
            return (
                "inside a repetition the next character must decide how to go on, or matching can "
                "take for ever; write `[ab]*` instead of `(?:a|ab)*`, `(?:\\w+,)*` instead of "
                "`(?:\\w+,?)*`"
            )
    return next(
        (found for part in _parts(node) if (found := _problem_in(part, in_loop=in_loop))), None
    )


def _decided(nodes: list[Node], follow: Characters) -> bool:
    """Rule 2 for a sequence, when `follow` is what can come after it."""
    return all(
        _node_decided(node, _follow(nodes[index + 1 :], follow)) for index, node in enumerate(nodes)
    )


def _follow(rest: list[Node], follow: Characters) -> Characters:
    starts, may_be_empty = _first(rest)
    return _union([starts, follow]) if may_be_empty else starts


def _node_decided(node: Node, follow: Characters) -> bool:
    kind, value = node
    if kind in _LOOPS:
        starts, may_be_empty = _first(_body(node))
        variable = value[0] != value[1]
        if may_be_empty or (variable and starts.meets(follow)):
            return False
        follow = _union([starts, follow])
    if kind is ops.BRANCH and not _branch_decided(node, follow):
        return False
    return all(_decided(part, follow) for part in _parts(node))


def _branch_decided(node: Node, follow: Characters) -> bool:
    """Whether every alternative starts differently; an empty one starts with what follows."""
    seen = _NOTHING
    for part in _parts(node):
        starts = _follow(part, follow)
        if starts.meets(seen):
            return False
        seen = _union([seen, starts])
    return True


def _repeats(node: Node) -> bool:
    """Whether it can go round more than once."""
    return bool(node[1][1] > 1)


def _body(node: Node) -> list[Node]:
    return list(node[1][2])


def _parts(node: Node) -> list[list[Node]]:
    """The sequences of nodes inside this one."""
    kind, value = node
    if kind in _LOOPS:
        return [_body(node)]
    if kind is ops.SUBPATTERN:
        return [list(value[3])]
    if kind is ops.ATOMIC_GROUP:
        return [list(value)]
    if kind is ops.BRANCH:
        return [list(alternative) for alternative in value[1]]
    if kind in (ops.ASSERT, ops.ASSERT_NOT):
        return [list(value[1])]
    return []


def _first(nodes: list[Node]) -> tuple[Characters, bool]:
    """What the sequence can start with, and whether it can be empty."""
    starts = _NOTHING
    for node in nodes:
        here, may_be_empty = _first_of(node)
        starts = _union([starts, here])
        if not may_be_empty:
            return starts, False
    return starts, True


def _first_of(node: Node) -> tuple[Characters, bool]:
    kind, value = node
    if kind in _SINGLE:
        return _characters(node), False
    if kind in (ops.AT, ops.ASSERT, ops.ASSERT_NOT):
        return _NOTHING, True
    parts = [_first(part) for part in _parts(node)]
    if not parts:
        return _EVERYTHING, True
    optional = kind in _LOOPS and value[0] == 0
    return _union(starts for starts, _ in parts), optional or any(empty for _, empty in parts)


def _union(sets: Iterable[Characters]) -> Characters:
    both = list(sets)
    near = frozenset[int]().union(*(each.near for each in both))
    return Characters(near, any(each.far for each in both))


def _characters(node: Node, *, both_cases: bool = True) -> Characters:
    """What one place can hold; letters count in both cases, because the flag `i` may be set."""
    kind, value = node
    if kind is ops.LITERAL:
        return _literals([value], far=value not in _NEARBY, both_cases=both_cases)
    if kind is ops.NOT_LITERAL:
        return _set([(ops.NEGATE, None), (ops.LITERAL, value)], both_cases=both_cases)
    if kind is ops.IN:
        return _set(value, both_cases=both_cases)
    if kind is ops.RANGE:
        low, high = value
        near = range(low, min(high + 1, _NEARBY.stop))
        return _literals(near, far=high not in _NEARBY, both_cases=both_cases)
    if kind is ops.CATEGORY:
        return Characters(_category(value), far=True)
    return _EVERYTHING


def _set(items: list[Node], *, both_cases: bool) -> Characters:
    if items[0][0] is not ops.NEGATE:
        return _union(_characters(item, both_cases=both_cases) for item in items)
    # What is left out must be known exactly: more here would mean less in the set.
    excluded = _union(_characters(item, both_cases=False) for item in items[1:])
    return Characters(_EVERYTHING.near - excluded.near, far=True)


@cache
def _category(name: Any) -> frozenset[int]:
    matches = re.compile(_CATEGORIES[name]).match
    return frozenset(code for code in _NEARBY if matches(chr(code)))


def _literals(codes: Iterable[int], *, far: bool, both_cases: bool) -> Characters:
    near: set[int] = set()
    for code in codes:
        char = chr(code)
        spellings = {char, char.lower(), char.upper()} if both_cases else {char}
        found = {ord(each) for each in spellings if len(each) == 1}
        far = far or any(each not in _NEARBY for each in found)
        near |= {each for each in found if each in _NEARBY}
    return Characters(frozenset(near), far)
