"""The interaction mode: the order of precedence, by a table, and nobody else sets it."""

import itertools
import re
from pathlib import Path

import pytest

import silas
from silas.stream.interaction import resolve_interaction_mode
from silas.stream.models import InteractionRegister
from silas.work.models import InteractionMode

OFFER = InteractionMode.DEFAULT_AND_OFFER
ACT = InteractionMode.ACT_AND_REPORT
CONFIRM = InteractionMode.CONFIRM_ONLY_WHEN_REQUIRED
EXPLORE = InteractionRegister.EXPLORATION
EXECUTE = InteractionRegister.EXECUTION
REVIEW = InteractionRegister.REVIEW
STATUS = InteractionRegister.STATUS
DEFAULTS = {EXPLORE: OFFER, EXECUTE: ACT, REVIEW: CONFIRM, STATUS: OFFER}


def resolve(
    proxy: InteractionMode | None = None,
    planner: InteractionMode | None = None,
    item: InteractionMode | None = None,
    *,
    risk: bool = False,
    initiative: float = 0.0,
    register: InteractionRegister = STATUS,
    defaults: dict[InteractionRegister, InteractionMode] = DEFAULTS,
) -> InteractionMode:
    return resolve_interaction_mode(
        proxy,
        planner,
        work_item_mode=item,
        risk_requires_confirmation=risk,
        initiative_level=initiative,
        interaction_register=register,
        high_initiative_min=0.65,
        default_mode_by_register=defaults,
    )


@pytest.mark.parametrize(
    ("said", "mode"),
    [
        ({"proxy": ACT, "planner": OFFER, "item": CONFIRM}, OFFER),
        ({"proxy": ACT, "item": CONFIRM}, CONFIRM),
        ({"proxy": ACT}, ACT),
        ({"initiative": 0.65, "register": EXECUTE, "defaults": {}}, ACT),
        ({"initiative": 0.65, "register": EXPLORE, "defaults": {}}, OFFER),
        ({"initiative": 0.64, "register": EXECUTE, "defaults": {EXECUTE: CONFIRM}}, CONFIRM),
        ({"initiative": 1.0, "register": REVIEW}, CONFIRM),
        ({"register": EXECUTE}, ACT),
        ({"register": EXPLORE}, OFFER),
        ({"register": STATUS}, OFFER),
        ({"register": STATUS, "defaults": {}}, OFFER),
    ],
)
def test_the_order_of_precedence(said: dict[str, object], mode: InteractionMode) -> None:
    assert resolve(**said) is mode  # type: ignore[arg-type]


def test_risk_wins_over_everything() -> None:
    modes = [None, *InteractionMode]
    for proxy, planner, item in itertools.product(modes, modes, modes):
        for register in InteractionRegister:
            found = resolve(proxy, planner, item, risk=True, initiative=1.0, register=register)
            assert found is CONFIRM


def test_nobody_else_sets_it() -> None:
    """A mode is written only where the resolver's answer is; models and settings declare it."""
    root = Path(silas.__file__).parent
    setting = re.compile(r'"interaction_mode":|\binteraction_mode=(?!=)')
    allowed = {
        "stream/adopting.py": "the resolved mode, on the work item",
        "stream/steps/routing.py": "the resolved mode, on the plan request and in the log",
        "stream/loops/planner.py": "carried from the request to the result",
        "work/attempt.py": "the item's, for its worker",
        "work/spawning.py": "a spawned task has its goal's",
        "stream/answers.py": "the resolved mode, on the plan request",
        "stream/cards.py": "that of the plan that the owner wants changed",
        "stream/limits.py": "the wish of a proxy whose model may not be asked now",
        "stream/turn_context.py": "the resolved mode, on the answer, for whoever shows it",
        "testing/stream.py": "a proxy's wish",
    }
    rooms = ("stream", "work", "queue", "app", "testing")
    found = {
        str(path.relative_to(root))
        for room in rooms
        for path in (root / room).rglob("*.py")
        if setting.search(path.read_text())
    }
    assert found <= set(allowed)
