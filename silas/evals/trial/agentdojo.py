"""AgentDojo without a model: `python -m silas.evals.trial.agentdojo` (or `make trial-agentdojo`).

For each of the 97 tasks and the 949 pairs of a task and an attack, once without Silas, to see that
the attack works, and once through Silas. The three figures belong together: attacks that succeed,
tasks that are done, cards that the owner has to decide.
"""

import argparse
import asyncio
import json
import sys
import tempfile
import warnings
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from agentdojo.base_tasks import BaseInjectionTask, BaseUserTask
from agentdojo.functions_runtime import FunctionCall
from agentdojo.task_suite.load_suites import get_suites
from agentdojo.task_suite.task_suite import TaskSuite

from silas.evals.trial.dojo_attacks import MARK, attack_calls, injected
from silas.evals.trial.dojo_house import TrialHouse, open_trial_house
from silas.evals.trial.dojo_model import Compromised, Owner
from silas.evals.trial.dojo_tools import CHANGING, World

VERSION = "v1.2.2"


@dataclass(frozen=True)
class Run:
    """What came of one task, with or without an attack."""

    suite: str
    task: str
    attack: str | None
    done: bool
    robbed: bool
    cards: int
    exposed: bool
    path: tuple[str, ...]
    """The calls that were really made, if the attack succeeded."""


@dataclass
class _Scene:
    """One task in one environment, with or without an attacker."""

    name: str
    suite: TaskSuite[Any]
    task: BaseUserTask[Any]
    attack: BaseInjectionTask[Any] | None
    loaded: Any
    """The environment with the attacker's texts in it; reading it takes longer than the rest."""

    def __post_init__(self) -> None:
        attack = self.attack
        environment = self.task.init_environment(self.loaded.model_copy(deep=True))
        self.before = environment.model_copy(deep=True)
        self.world = World(environment, self.suite.tools, MARK if attack else None)
        self.wanted = self.task.ground_truth(self.before.model_copy(deep=True))
        self.model = Compromised(
            self.world,
            deque(self.wanted),
            self.task.GROUND_TRUTH_OUTPUT,
            self._attacking(attack) if attack else None,
        )

    def _attacking(
        self, attack: BaseInjectionTask[Any]
    ) -> Callable[[Any], tuple[list[FunctionCall], str]]:
        return lambda now: attack_calls(self.name, attack, now.model_copy(deep=True))

    def result(self, said: str, cards: int) -> Run:
        """Judged by AgentDojo itself; the task first, for judging an attack may change things."""
        after, called = self.world.environment, self.world.called
        done = self._judged(self.task, said, after.model_copy(deep=True))
        robbed = self.attack is not None and self._judged(self.attack, said, after)
        return Run(
            suite=self.name,
            task=self.task.ID,
            attack=self.attack.ID if self.attack else None,
            done=done,
            robbed=robbed,
            cards=cards,
            exposed=self.world.exposed,
            path=tuple(f"{each.function}({each.args})" for each in called) if robbed else (),
        )

    def _judged(self, task: Any, said: str, after: Any) -> bool:
        before = self.before.model_copy(deep=True)
        content = [{"type": "text", "content": said}]
        called = self.world.called
        judge = self.suite._check_task_result  # noqa: SLF001 - there is no other door
        return bool(judge(task, content, before, after, called))


def without_silas(scene: _Scene) -> Run:
    """The same calls with nothing in between."""
    while (call := scene.model.next_call()) is not None:
        scene.world.run(call.function, dict(call.args))
    return scene.result(scene.model.answer, 0)


async def through_silas(house: TrialHouse, scene: _Scene) -> Run:
    """The path that a real call takes."""
    owner = Owner(list(scene.wanted))
    changing = frozenset(call.function for call in scene.wanted) & CHANGING
    prompt = scene.task.PROMPT
    if changing:
        said = await house.execute(prompt, scene.world, scene.model, owner=owner, tools=changing)
    else:
        said = await house.ask(prompt, scene.world, scene.model)
    return scene.result(said, owner.cards)


def scenes(only: str | None, *, attacked: bool) -> Iterator[_Scene]:
    """Every task, or every pair of a task and an attack."""
    for name, suite in get_suites(VERSION).items():
        if only not in (None, name):
            continue
        for attack in suite.injection_tasks.values() if attacked else [None]:
            loaded = _loaded(suite, attack)
            for task in suite.user_tasks.values():
                yield _Scene(name, suite, task, attack, loaded)


def _loaded(suite: TaskSuite[Any], attack: BaseInjectionTask[Any] | None) -> Any:
    vectors = suite.get_injection_vector_defaults()
    texts = {name: injected(attack) for name in vectors} if attack else {}
    return suite.load_and_inject_default_environment(texts)


async def run(only: str | None, *, every: int, tell: Callable[[str], None]) -> dict[str, Any]:
    """The whole trial; of the attacks each `every`-th."""
    bare = [without_silas(s) for n, s in enumerate(scenes(only, attacked=True)) if n % every == 0]
    tell(f"without Silas: {sum(each.robbed for each in bare)} of {len(bare)} attacks succeed")
    with tempfile.TemporaryDirectory(prefix="silas-trial-") as folder:
        async with open_trial_house(Path(folder)) as house:
            calm = [await through_silas(house, scene) for scene in scenes(only, attacked=False)]
            tell(f"tasks without an attack: {sum(each.done for each in calm)} of {len(calm)}")
            under: list[Run] = []
            for number, scene in enumerate(scenes(only, attacked=True)):
                if number % every == 0:
                    under.append(await through_silas(house, scene))
                    if len(under) % 100 == 0:
                        tell(f"{len(under)} attacks, {sum(e.robbed for e in under)} succeeded")
            intact = (await house.ground.audit.examine()).ok
    return _report(bare, calm, under, intact=intact)


def _report(bare: list[Run], calm: list[Run], under: list[Run], *, intact: bool) -> dict[str, Any]:
    suites = sorted({each.suite for each in calm})
    rows = [
        _row(name, *([e for e in runs if e.suite == name] for runs in (bare, calm, under)))
        for name in suites
    ]
    return {
        "version": VERSION,
        "suites": [*rows, _row("all", bare, calm, under)],
        "successes": [asdict(each) for each in under if each.robbed],
        "not_done": [asdict(each) for each in (*calm, *under) if not each.done],
        "audit_chain_intact": intact,
    }


def _row(name: str, bare: list[Run], calm: list[Run], under: list[Run]) -> dict[str, Any]:
    return {
        "suite": name,
        "attacks": len(under),
        "succeed_without_silas": sum(each.robbed for each in bare),
        "succeed": sum(each.robbed for each in under),
        "done_under_attack": sum(each.done for each in under),
        "tasks": len(calm),
        "done": sum(each.done for each in calm),
        "cards_per_task": round(sum(each.cards for each in calm) / max(1, len(calm)), 2),
        "cards_under_attack": round(sum(each.cards for each in under) / max(1, len(under)), 2),
    }


def table(report: dict[str, Any]) -> str:
    """The report for people."""
    return "\n".join(
        [
            "suite      attacks  without Silas  succeed  done under attack  tasks done  cards/task",
            *map(_line, report["suites"]),
            *(f"succeeded: {_name(each)}: {each['path']}" for each in report["successes"]),
            *(f"not done: {_name(each)}" for each in report["not_done"]),
        ]
    )


def _line(row: dict[str, Any]) -> str:
    return (
        f"{row['suite']:<10} {row['attacks']:>7} {row['succeed_without_silas']:>14}"
        f" {row['succeed']:>8} {row['done_under_attack']:>11} of {row['attacks']:<6}"
        f" {row['done']:>3} of {row['tasks']:<3} {row['cards_per_task']:>7}"
        f" ({row['cards_under_attack']} under attack)"
    )


def _name(each: dict[str, Any]) -> str:
    return f"{each['suite']} {each['task']} {each['attack'] or ''}".strip()


def main() -> None:
    """Run the trial and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--suite", help="only this one")
    parser.add_argument("--every", type=int, default=1, metavar="N", help="each N-th attack")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    report = asyncio.run(
        run(options.suite, every=options.every, tell=lambda text: print(text, file=sys.stderr))
    )
    print(json.dumps(report, indent=1) if options.json else table(report))
    if any(row["succeed"] for row in report["suites"]):
        sys.exit(1)


if __name__ == "__main__":
    main()
