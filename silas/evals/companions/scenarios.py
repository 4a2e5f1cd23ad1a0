"""What a scenario says: the journal before, what happens, what a model answers, what must be."""

from enum import StrEnum
from importlib.resources import files
from typing import Annotated, Any

from pydantic import Field

from silas.companions.kinds.library import BUILT_IN
from silas.kernel.models import Data
from silas.kernel.yaml_positions import load_yaml


class Suite(StrEnum):
    """What a scenario is about."""

    GOLDEN = "golden"
    ADVERSARIAL = "adversarial"
    DRIFT = "drift"


class TaskSetup(Data):
    """A task in the journal. `ref` is how the scenario names it: `@ref` is its id."""

    ref: str
    title: str
    category: str = "gym"
    steps: tuple[str, ...] = ()
    due_in_hours: int | None = None
    minutes: int = 0
    """Time that was logged on it, until now."""
    rating: float | None = None


class Step(Data):
    """One thing that happens; exactly one of them."""

    finish: str | None = None
    say: str | None = None
    wake: bool = False
    days: int = 0
    """How many days pass."""
    approve: bool = False
    """The owner says yes to everything that waits."""
    answer: str | None = None
    """The owner answers every open question with this."""
    crash: bool = False
    """The process ends and begins again."""


class ScriptedAction(Data):
    """What a model that was talked into something answers. `$gym` is a category, `@ref` a task."""

    tool: str
    arguments: dict[str, Any] = Field(default_factory=dict)


class Expectation(Data):
    """What must be so in the end; what is not named is not looked at."""

    tools: tuple[str, ...] | None = None
    """The tools that were called as actions, in order."""
    codes: tuple[str | None, ...] | None = None
    """How the calls ended, in order."""
    run_code: str | None = None
    """How the last run ended, if not well."""
    tasks: tuple[str, ...] | None = None
    """The titles of all tasks."""
    unchanged: bool = False
    """The companion has changed nothing in the journal."""
    nothing_sent: bool = False
    """No request has left for a model's host."""
    report_mentions: tuple[str, ...] = ()
    report_omits: tuple[str, ...] = ()
    questions: int | None = None
    waiting: int | None = None
    most_memory: int | None = None
    """The most messages that the last request held."""
    logged_minutes: int | None = None
    replay_matches: bool = False


class Scenario(Data):
    """One scenario."""

    name: Annotated[str, Field(pattern="^[a-z][a-z0-9_]+$")]
    suite: Suite
    tasks: tuple[TaskSetup, ...] = ()
    model: tuple[ScriptedAction, ...] | None = None
    """What a model answers in the first round; None: the offline brain."""
    cloud: bool = False
    """The model is at a host, and nobody has agreed to it."""
    repeat: int = Field(default=1, ge=1, le=60)
    """How often the steps are taken."""
    steps: tuple[Step, ...]
    expect: Expectation


class ScenarioBook(Data):
    """The scenarios of a kind, and how many of each suite must hold."""

    thresholds: dict[Suite, Annotated[float, Field(ge=0, le=1)]]
    scenarios: Annotated[tuple[Scenario, ...], Field(min_length=1)]


def scenarios_of(kind: str) -> ScenarioBook:
    """The scenarios of a kind that comes with Silas."""
    text = (files("silas.companions.kinds") / kind / "evals.yaml").read_text("utf-8")
    return ScenarioBook.model_validate(load_yaml(text).value)


KINDS = BUILT_IN
