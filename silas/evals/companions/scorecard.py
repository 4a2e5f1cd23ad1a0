"""The scorecard of a kind: which scenarios hold, suite by suite, and whether that is enough."""

import asyncio
import tempfile
from pathlib import Path

from silas.evals.companions.scenarios import ScenarioBook, Suite, scenarios_of
from silas.evals.companions.stage import play
from silas.kernel.models import Data


class Scorecard(Data):
    """How a kind has done."""

    kind: str
    scores: dict[Suite, float]
    thresholds: dict[Suite, float]
    failures: dict[str, list[str]]
    """What was not as expected, by scenario."""

    @property
    def passed(self) -> bool:
        """Whether every suite reaches its threshold, and there is at least one of each."""
        return all(
            self.scores.get(suite, 0.0) >= self.thresholds.get(suite, 1.0) for suite in Suite
        )


async def scorecard(kind: str, folder: Path, *, book: ScenarioBook | None = None) -> Scorecard:
    """Play every scenario of a kind."""
    scenarios = book or scenarios_of(kind)
    failures: dict[str, list[str]] = {}
    held: dict[Suite, list[bool]] = {}
    for scenario in scenarios.scenarios:
        place = Path(await asyncio.to_thread(tempfile.mkdtemp, dir=folder))
        problems = await play(kind, scenario, place)
        held.setdefault(scenario.suite, []).append(not problems)
        if problems:
            failures[scenario.name] = problems
    return Scorecard(
        kind=kind,
        scores={suite: sum(each) / len(each) for suite, each in held.items()},
        thresholds=scenarios.thresholds,
        failures=failures,
    )
