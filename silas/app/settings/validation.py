"""From a draft to settings: every value checked, every problem with its place."""

import re
import zoneinfo
from collections.abc import Iterable

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from silas.agents.models.providers import PROVIDERS
from silas.app.settings.draft import Draft
from silas.app.settings.fields import TIME_ZONE_ERROR
from silas.app.settings.keys import Kind, children, kind_at, walk
from silas.app.settings.model_roles import PROVIDER_ERROR
from silas.app.settings.models import Settings
from silas.app.settings.origin import KeyPath
from silas.app.settings.suggest import did_you_mean
from silas.kernel.field_problems import FieldProblem, dotted, problems_in

_MAX_ROUNDS = 20
_CHOICE = re.compile(r"'([^']*)'")


def validate(draft: Draft) -> Settings | None:
    """The settings; what is wrong is noted in the draft, and the default stands in for it.

    Stand-ins let the rules between settings be checked as well, so that a person sees all problems
    at once. None if not even that is possible.
    """
    for problem in draft.problems:
        draft.remove(problem.key)
    for _ in range(_MAX_ROUNDS):
        try:
            return Settings.model_validate(draft.values)
        except ValidationError as error:
            problems = problems_in(error)
            hints = {_key_of(each): _hint(draft, each) for each in error.errors(include_url=False)}
        _note(draft, problems, hints)
        for key in {_removable(draft, problem.path) for problem in problems}:
            draft.remove(key)
    return None


def _removable(draft: Draft, key: KeyPath) -> KeyPath:
    """What has to go if this is wrong: the value, or what it is missing from."""
    while key and not draft.has(key):
        key = key[:-1]
    return key


def _note(draft: Draft, problems: Iterable[FieldProblem], hints: dict[KeyPath, str]) -> None:
    fresh = [problem for problem in problems if not draft.is_doubtful(problem.path)]
    for problem in fresh:
        draft.complain(problem.path, problem.message + hints.get(problem.path, ""))


def _key_of(error: ErrorDetails) -> KeyPath:
    return tuple(part for part in error["loc"] if part != "[key]")


def _hint(draft: Draft, error: ErrorDetails) -> str:
    """What the person probably meant, where that can be told."""
    key, kind = _key_of(error), error["type"]
    if kind == "extra_forbidden":
        return _other_key(key)
    value = error["input"]
    if not isinstance(value, str) or key in draft.concealed:
        return ""
    if kind in ("literal_error", "enum"):
        return did_you_mean(value, _CHOICE.findall(error["ctx"]["expected"]))
    if kind == PROVIDER_ERROR:
        return did_you_mean(value.partition(":")[0], PROVIDERS)
    return did_you_mean(value, zoneinfo.available_timezones()) if kind == TIME_ZONE_ERROR else ""


def _other_key(key: KeyPath) -> str:
    siblings = children(kind_at(key[:-1]) or Kind("value", None))
    near = did_you_mean(str(key[-1]), siblings)
    if near:
        return near
    elsewhere = [dotted(known) for known, _ in walk() if known[-1] == key[-1]]
    return f"; did you mean `{elsewhere[0]}`?" if elsewhere else ""
