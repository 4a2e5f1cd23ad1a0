"""A Silas for the trial: real stores, keys, approvals, gates and audit log, in a folder of its own.

A task that only asks something is answered by the proxy, whose tools can only look. A task that
changes something is a plan: the owner approves it, and the executor works through it.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from silas.agents.executor import ExecutorAgent
from silas.agents.models.roles import Role
from silas.agents.proxy import ProxyAgent
from silas.app.gates import open_gates
from silas.app.ground import Ground, OnDemandVault, make_ground
from silas.app.settings import load_settings
from silas.app.workshop import open_workshop
from silas.evals.trial.dojo_model import Compromised, Owner
from silas.evals.trial.dojo_tools import World
from silas.gates.envelopes import ActionEnvelope
from silas.kernel import TaintLevel
from silas.stream.models import AgentTurn
from silas.stream.reading_tools import ReadingTool, ReadingTools, Rules, answered_view
from silas.testing import MemoryVault
from silas.work import Plan, WorkItem
from silas.work.binding import bind_plan
from silas.work.execution_models import ModelView
from silas.work.executor import WorkItemExecutor
from silas.work.executors import ExecutorRegistry, Tool

_PROFILE = "conversation"


@dataclass
class TrialHouse:
    """Where a task is carried out as Silas would."""

    ground: Ground
    root: Path
    number: int = 0

    async def ask(self, prompt: str, world: World, model: Compromised) -> str:
        """Answer a question, with tools that look."""
        tools = [tool for tool in world.tools() if not tool.changes_state]
        settings = self.ground.settings
        rules = Rules(
            open_gates(self.ground), settings.gates.system, self.ground.audit, {"scope_id": "owner"}
        )
        names = frozenset(tool.name for tool in tools)
        reading = ReadingTools(
            [_looking(tool, world) for tool in tools],
            rules,
            allowed=names,
            taint=TaintLevel.OWNER,
        )
        agent = ProxyAgent(
            model.player(Role.PROXY, _direct),
            profiles=(_PROFILE,),
            default_profile=_PROFILE,
            allowed=names,
        )
        turn = AgentTurn(
            scope_id="owner",
            trace_id=f"trial_{self.number}",
            request=prompt,
            taint=TaintLevel.OWNER,
            max_tokens=1_000_000,
            max_cost_usd=1.0,
        )
        decision = (await agent.route(turn, reading)).output
        return decision.response.message if decision.response else ""

    async def execute(
        self, prompt: str, world: World, model: Compromised, *, owner: Owner, tools: frozenset[str]
    ) -> str:
        """Have a plan with these words approved and worked through; returns the report."""
        self.number += 1
        item = WorkItem.model_validate(
            {
                "id": f"trial{self.number}",
                "type": "task",
                "title": "A task of the owner's",
                "body": prompt,
                "approvals": [_as_asked(tool) for tool in world.tools() if tool.name in tools],
                "budget": {"max_attempts": 1, "max_tokens": 1_000_000},
            }
        )
        agent = ExecutorAgent(model.player(Role.EXECUTOR, _report))
        workshop = open_workshop(self.ground, agent=agent, approver=owner)
        bench = replace(workshop.bench, registry=ExecutorRegistry(world.tools()))
        (bound,) = await bench.items.save_plan(await bind_plan(Plan(item), base=self.root))
        approved = await self._approved(bound, owner)
        return (await WorkItemExecutor(bench).execute(approved)).summary

    async def _approved(self, item: WorkItem, owner: Owner) -> WorkItem:
        approvals = self.ground.approvals
        token = await approvals.issue_token(item, await owner.decide_item(item))
        valid, reason = await approvals.verify(token, item)
        if not valid:
            raise RuntimeError(reason)
        approved = item.model_copy(update={"approval_token": token})
        return await open_workshop(self.ground).bench.items.save(approved)


@asynccontextmanager
async def open_trial_house(root: Path) -> AsyncIterator[TrialHouse]:
    """A house in this folder, with a key of its own."""
    data = str(root / "data")
    loaded = load_settings(data_dir=data, config_file=None, environ={}, cwd=root)
    loaded.paths.data_dir.mkdir(parents=True, mode=0o700)
    vault = MemoryVault()
    async with make_ground(loaded, OnDemandVault(lambda: vault)) as ground:  # type: ignore[arg-type,return-value]
        ground.keys.generate_keypair()
        yield TrialHouse(ground, root)


def _looking(tool: Tool, world: World) -> ReadingTool:
    async def run(args: Any) -> ModelView:
        text, _ = world.run(tool.name, args.model_dump(exclude_unset=True))
        return answered_view(text, taint=TaintLevel.EXTERNAL)

    return ReadingTool(
        name=tool.name,
        description=tool.description,
        arguments=tool.arguments,
        run=run,
        contained=tool.own_account,
        private=tool.own_account,
    )


def _as_asked(tool: Tool) -> ActionEnvelope:
    """What an honest plan can say before anything was read: exactly what the owner wrote."""
    constraints = {name: {"from": "plan", "optional": True} for name in tool.arguments.model_fields}
    return ActionEnvelope.model_validate({"tool": tool.name, "constraints": constraints})


def _direct(text: str) -> dict[str, Any]:
    return {
        "reason": "asked",
        "route": "direct",
        "interaction_register": "status",
        "interaction_mode": "default_and_offer",
        "context_profile": _PROFILE,
        "continuation_of": None,
        "response": {"message": text or "Done."},
    }


def _report(text: str) -> dict[str, Any]:
    return {"summary": text or "Done.", "artifact_refs": [], "next_steps": []}
