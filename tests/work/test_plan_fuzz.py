"""The plan parser against nonsense: no crash, no hang, nothing accepted that is not a plan."""

import json
import random
from pathlib import Path
from typing import Any

from hypothesis import example, given, settings
from hypothesis import strategies as st

from silas.kernel.yaml_positions import load_yaml
from silas.work import Plan, PlanInvalid, WorkItem, decode_plan, parse_plan
from silas.work.models import BOUND_FIELDS
from silas.work.plan_text import NOT_IN_PLANS, split_plan

EXAMPLES = [
    path.read_text("utf-8") for path in sorted((Path(__file__).parents[2] / "plans").glob("*.md"))
]
WORDS = sorted({word for text in EXAMPLES for word in text.split()})


def parsed(text: str) -> Plan | None:
    """The plan, or None if it was refused in the right way. Anything else fails the test."""
    problems = ()
    try:
        return parse_plan(text)
    except PlanInvalid as error:
        problems = error.problems
    lines = text.count("\n") + text.count("\r") + 2
    assert problems
    assert all(1 <= each.line <= lines and each.message for each in problems)
    return None


def require_sense(text: str, plan: Plan) -> None:
    """What was accepted is a plan: valid, hashable, and with nothing in it that was not written."""
    front = load_yaml(split_plan(text).yaml).value
    assert not NOT_IN_PLANS & front.keys()
    assert front["id"] == plan.root.id
    for item in plan.items:
        again = WorkItem.model_validate_json(item.model_dump_json(), strict=True)
        assert again.plan_hash == item.plan_hash
        assert item.needs_approval
        assert item.status == "pending"
        assert item.approval_token is None
        assert set(item.depends_on) <= set(plan.root.tasks) or item is plan.root
    written = json.loads(plan.root.plan_bytes())
    for name in front.keys() - {"tasks", "needs_approval"}:
        assert _contains(written.get(name, _unsaid(name)), front[name]), name


def _unsaid(name: str) -> Any:
    """What it means that the bytes lack this field: some are there only if they say more."""
    if name not in BOUND_FIELDS:
        return None
    return WorkItem.model_fields[name].get_default(call_default_factory=True)


def _contains(whole: Any, part: Any) -> bool:
    """Whether everything that was written is there, beside defaults."""
    if isinstance(part, dict):
        return isinstance(whole, dict) and all(
            key in whole and _contains(whole[key], value) for key, value in part.items()
        )
    if isinstance(part, list):
        return len(whole) == len(part) and all(map(_contains, whole, part))
    return bool(whole == part)


@given(st.text(max_size=300))
def test_any_text(text: str) -> None:
    assert parsed(text) is None


@given(st.text(max_size=300), st.text(max_size=100))
def test_any_front_matter(front: str, body: str) -> None:
    text = f"---\n{front}\n---\n{body}"
    plan = parsed(text)
    assert plan is None


@given(st.binary(max_size=300))
def test_any_bytes(raw: bytes) -> None:
    try:
        text = decode_plan(raw)
    except PlanInvalid:
        return
    assert parsed(text) is None


def _cut(text: str, rng: random.Random) -> str:
    start = rng.randrange(len(text))
    return text[:start] + text[start + rng.randrange(1, 30) :]


def _double(text: str, rng: random.Random) -> str:
    lines = text.split("\n")
    index = rng.randrange(len(lines))
    return "\n".join([*lines[: index + 1], *lines[index:]])


def _swap_lines(text: str, rng: random.Random) -> str:
    lines = text.split("\n")
    a, b = rng.randrange(len(lines)), rng.randrange(len(lines))
    lines[a], lines[b] = lines[b], lines[a]
    return "\n".join(lines)


def _replace_word(text: str, rng: random.Random) -> str:
    words = text.split(" ")
    words[rng.randrange(len(words))] = rng.choice(WORDS)
    return " ".join(words)


def _insert(text: str, rng: random.Random) -> str:
    place = rng.randrange(len(text))
    what = rng.choice([":", "- ", "[", "]", "{", "}", "'", '"', "&a ", "*a", "!!str ", "\n", "  "])
    return text[:place] + what + text[place:]


def _strange(text: str, rng: random.Random) -> str:
    place = rng.randrange(len(text))
    return (
        text[:place] + rng.choice("\x00\x07\x1b\u2028\u202e\ufeff\x85\ud800é日🙂\t") + text[place:]
    )


def _number(text: str, rng: random.Random) -> str:
    digits = [index for index, char in enumerate(text) if char.isdigit()]
    place = rng.choice(digits)
    what = rng.choice(["-1", "0", "1e999", ".nan", "9" * 30, "1.5", "true", "null", "~", "x", "08"])
    return text[:place] + what + text[place + 1 :]


MUTATIONS = [_cut, _double, _swap_lines, _replace_word, _insert, _strange, _number]


@settings(max_examples=600)
@given(st.sampled_from(EXAMPLES), st.integers(0, 2**32), st.integers(1, 4))
def test_mutated_plans(example: str, seed: int, count: int) -> None:
    rng = random.Random(seed)
    text = example
    for _ in range(count):
        text = rng.choice(MUTATIONS)(text, rng)
    plan = parsed(text)
    if plan is not None:
        require_sense(text, plan)


values = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 10**20) | st.floats() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3)
    ),
    max_leaves=6,
)
KEYS = sorted(WorkItem.model_fields)


@settings(max_examples=400)
@given(
    st.dictionaries(st.sampled_from(KEYS), values, max_size=6), st.sampled_from(["task", "goal"])
)
@example({"accepts_unchecked": False}, "task")
def test_any_value_under_any_key(fields: dict[str, Any], kind: str) -> None:
    front = {"id": "a", "type": kind, "title": "T", **fields}
    lines = "\n".join(f"{key}: {json.dumps(value)}" for key, value in front.items())
    text = f"---\n{lines}\n---\nDo it."
    plan = parsed(text)
    if plan is not None:
        require_sense(text, plan)


def test_the_examples_make_sense_themselves() -> None:
    for text in EXAMPLES:
        plan = parsed(text)
        assert plan is not None
        require_sense(text, plan)


@settings(max_examples=200)
@given(st.integers(2, 40), st.randoms(use_true_random=False))
def test_a_graph_is_accepted_exactly_if_it_has_an_order(size: int, rng: random.Random) -> None:
    names = [f"t{index}" for index in range(size)]
    edges = {name: sorted(rng.sample(names, rng.randrange(min(3, size)))) for name in names}
    tasks = "".join(
        f"  - {{id: {name}, title: T, body: b, depends_on: [{', '.join(waits)}]}}\n"
        for name, waits in edges.items()
    )
    plan = parsed(f"---\nid: p\ntype: project\ntitle: P\ntasks:\n{tasks}---\n")
    done: set[str] = set()
    while ready := {name for name in names if name not in done and set(edges[name]) <= done}:
        done |= ready
    assert (plan is not None) == (len(done) == size)
