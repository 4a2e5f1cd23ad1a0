"""`python -m silas.evals.companions`: the scorecards of all kinds."""

import asyncio
import sys
import tempfile
from pathlib import Path

from silas.evals.companions.scenarios import KINDS
from silas.evals.companions.scorecard import Scorecard, scorecard


async def _all(folder: Path) -> list[Scorecard]:
    return [await scorecard(kind, folder) for kind in KINDS]


def main() -> int:
    """Play everything, print what came of it; 1 if a threshold was missed."""
    with tempfile.TemporaryDirectory() as folder:
        cards = asyncio.run(_all(Path(folder)))
    for card in cards:
        told = ", ".join(f"{suite} {score:.0%}" for suite, score in sorted(card.scores.items()))
        print(f"{card.kind}: {told}")
        for name, problems in card.failures.items():
            print(*(f"  {name}: {each}" for each in problems), sep="\n")
    return 0 if all(card.passed for card in cards) else 1


if __name__ == "__main__":
    sys.exit(main())
