"""What holds for every context, whatever happens to it."""

from dataclasses import dataclass

from hypothesis import given, settings
from hypothesis import strategies as st

from silas.context.eviction import most_pinned, zone_budgets
from silas.context.manager import ContextManager
from silas.context.models import ContextItem, ContextProfile, ContextZone, TokenBudget, ZoneFull
from silas.context.scope import block_text
from silas.testing.fakes import FakeRecall, FakeTokenCounter
from tests.context.making import PROFILES, ZONES, done, item, items, manager, small_budget

BUDGET = small_budget(profiles=PROFILES)
SCOPES = st.sampled_from(["ann", "bob"])


@dataclass(frozen=True)
class Step:
    """One thing that happens to a context."""

    kind: str
    scope: str
    item: ContextItem | None = None
    name: str = ""
    turn: int = 0


STEPS = st.one_of(
    st.builds(Step, st.just("add"), SCOPES, items()),
    st.builds(Step, st.just("add"), SCOPES, items()),
    st.builds(Step, st.just("add"), SCOPES, items()),
    st.builds(Step, st.just("drop"), SCOPES, st.none(), st.integers(0, 60).map(lambda n: f"i{n}")),
    st.builds(Step, st.just("profile"), SCOPES, st.none(), st.sampled_from(sorted(PROFILES))),
    st.builds(Step, st.just("enforce"), SCOPES, st.none(), st.just(""), st.integers(0, 25)),
    st.builds(Step, st.just("render"), SCOPES, st.none(), st.just(""), st.integers(0, 25)),
)


def do(context: ContextManager, step: Step) -> object:
    if step.kind == "add" and step.item is not None:
        try:
            return context.add(step.scope, step.item)
        except ZoneFull:
            return "full"
    if step.kind == "drop":
        return context.drop(step.scope, step.name)
    if step.kind == "profile":
        return context.set_profile(step.scope, step.name)
    work = context.enforce_budget if step.kind == "enforce" else context.render
    return done(work(step.scope, step.turn))


def fresh(context: ContextManager, scope: str) -> str:
    """The same items, rendered by a manager that never saw them before."""
    other = manager(BUDGET)
    for zone in ContextZone:
        for each in context.get_zone(scope, zone):
            other.add(scope, each)
    return done(other.render(scope, -100))


@settings(max_examples=150)
@given(steps=st.lists(STEPS, max_size=60))
def test_a_context_that_changed_renders_as_one_that_was_always_so(steps: list[Step]) -> None:
    context = manager(BUDGET)
    for step in steps:
        do(context, step)
        if step.kind == "render":
            text = done(context.render(step.scope, -100))
            assert text == fresh(context, step.scope)
            assert text == "".join(
                block_text(each)
                for zone in ContextZone
                for each in context.get_zone(step.scope, zone)
            )


@settings(max_examples=150)
@given(steps=st.lists(STEPS, max_size=60), turn=st.integers(0, 30))
def test_no_budget_is_exceeded_and_nothing_pinned_leaves(steps: list[Step], turn: int) -> None:
    context = manager(BUDGET)
    for step in steps:
        do(context, step)
    for scope in ("ann", "bob"):
        pinned = {
            each.ctx_id: each
            for zone in ContextZone
            for each in context.get_zone(scope, zone)
            if each.pinned
        }
        gone = done(context.enforce_budget(scope, turn))
        assert not pinned.keys() & set(gone)
        left = {each.ctx_id: each for zone in ContextZone for each in context.get_zone(scope, zone)}
        assert {ctx_id: left.get(ctx_id) for ctx_id in pinned} == pinned
        usage, budgets = context.token_usage(scope), context.budgets(scope)
        for zone in (ContextZone.CHRONICLE, ContextZone.MEMORY, ContextZone.WORKSPACE):
            stays = sum(
                each.token_count for each in left.values() if each.zone is zone and each.pinned
            )
            assert usage[zone.value] <= max(budgets.of(zone), stays)
        assert usage["system"] <= BUDGET.system_max
        text = done(context.render(scope, turn))
        assert FakeTokenCounter().count(text) == sum(usage.values()) <= BUDGET.total


@settings(max_examples=100)
@given(steps=st.lists(STEPS, max_size=50), turn=st.integers(0, 25))
def test_a_rendered_context_never_exceeds_the_total(steps: list[Step], turn: int) -> None:
    context = manager(BUDGET)
    for step in steps:
        do(context, step)
        text = done(context.render(step.scope, turn))
        assert FakeTokenCounter().count(text) <= BUDGET.total


@settings(max_examples=100)
@given(steps=st.lists(STEPS, max_size=60))
def test_the_same_happenings_evict_the_same(steps: list[Step]) -> None:
    first, second = manager(BUDGET), manager(BUDGET)
    assert [do(first, step) for step in steps] == [do(second, step) for step in steps]


@settings(max_examples=100)
@given(steps=st.lists(STEPS, max_size=60))
def test_no_scope_touches_another(steps: list[Step]) -> None:
    recall = FakeRecall()
    together, alone = manager(BUDGET, recall=recall), manager(BUDGET)
    for step in steps:
        do(together, step)
        if step.scope == "ann":
            do(alone, step)
    for zone in ContextZone:
        assert together.get_zone("ann", zone) == alone.get_zone("ann", zone)
    assert done(together.render("ann", 5)) == done(alone.render("ann", 5))
    for scope, kept in recall.kept.items():
        assert {each.scope_id for each in kept.values()} == {scope}


@given(
    st.lists(st.tuples(ZONES, st.integers(0, 1000)), max_size=40, unique_by=lambda pair: pair[1])
)
def test_zones_come_in_their_order_and_items_in_the_order_of_their_coming(
    places: list[tuple[ContextZone, int]],
) -> None:
    context = manager(TokenBudget())
    for zone, number in places:
        context.add("ann", items_at(zone, number))
    text = done(context.render("ann", 1))
    expected = [f"<{number}>" for zone in ContextZone for at, number in places if at is zone]
    assert [text.index(mark) for mark in expected] == sorted(text.index(mark) for mark in expected)


def items_at(zone: ContextZone, number: int) -> ContextItem:
    return item(f"n{number}", f"<{number}>", zone)


@given(
    total=st.integers(1, 300_000),
    system=st.integers(0, 20_000),
    shares=st.tuples(*[st.floats(0, 0.8)] * 3).filter(lambda three: sum(three) <= 0.8),
    used=st.integers(0, 400_000),
)
def test_a_fifth_of_what_is_allocable_stays_free(
    total: int, system: int, shares: tuple[float, float, float], used: int
) -> None:
    budget = TokenBudget(total=total, system_max=min(system, total))
    profile = ContextProfile(
        name="x", chronicle_pct=shares[0], memory_pct=shares[1], workspace_pct=shares[2]
    )
    budgets = zone_budgets(budget, profile, system_tokens=used)
    allocable = total - min(used, budget.system_max)
    spent = budgets.chronicle + budgets.memory + budgets.workspace
    assert spent + budgets.headroom == allocable
    assert budgets.headroom >= int(allocable * 0.2)
    assert most_pinned(budget) <= budgets.headroom
