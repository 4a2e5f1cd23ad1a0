"""`make firsthour`: the tasks of a first hour through the whole server; one table.

--only NAME    only tasks whose name holds this; may be given several times
--json         the outcomes as JSON
--list         the names, and which twelve a real model does
--model URL    the twelve, with a real model behind an address of OpenAI's protocol
--name NAME    what that server calls its model
--words        what Silas said in tasks that fail

Ends with 1 if a task fails.
"""

import argparse
import asyncio
import json
import sys
from collections.abc import Sequence
from dataclasses import asdict

from evals.firsthour.run import Outcome, RealModel, run_tasks
from evals.firsthour.task import Task
from evals.firsthour.tasks import TASKS


def chosen_tasks(only: Sequence[str], *, real: bool) -> list[Task]:
    """The tasks that were asked for."""
    tasks = [task for task in TASKS if task.real or not real]
    return [task for task in tasks if not only or any(each in task.name for each in only)]


def line_of(outcome: Outcome) -> str:
    """One line of the table."""
    word = "pass" if outcome.passed else "FAIL"
    why = "; ".join(outcome.problems)
    return f"{word}  {outcome.seconds:6.1f} s  {outcome.name:38}  {why}".rstrip()


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="evals.firsthour", description=__doc__)
    parser.add_argument("--only", action="append", default=[], metavar="NAME")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--words", action="store_true")
    parser.add_argument("--model", metavar="URL")
    parser.add_argument("--name", default="local")
    parser.add_argument("--patience", type=float, default=900.0, metavar="SECONDS")
    return parser.parse_args()


def main() -> int:
    """Run, and print."""
    wanted = _arguments()
    real = RealModel(wanted.model, wanted.name, wanted.patience) if wanted.model else None
    tasks = chosen_tasks(wanted.only, real=real is not None)
    if wanted.list:
        print(*(f"{'real' if task.real else '    '}  {task.name}" for task in tasks), sep="\n")
        return 0

    def tell(outcome: Outcome) -> None:
        if not wanted.json:
            print(line_of(outcome), flush=True)
        if wanted.words and not outcome.passed:
            print(*(f"      | {text}" for text in outcome.heard), sep="\n", flush=True)

    outcomes = asyncio.run(run_tasks(tasks, real=real, tell=tell))
    failed = [each for each in outcomes if not each.passed]
    if wanted.json:
        print(json.dumps([{**asdict(each), "passed": each.passed} for each in outcomes], indent=2))
    else:
        print(f"{len(outcomes) - len(failed)} of {len(outcomes)} tasks pass.")
    return 1 if failed or not outcomes else 0


if __name__ == "__main__":
    sys.exit(main())
