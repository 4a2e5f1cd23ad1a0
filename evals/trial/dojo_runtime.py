"""The part of Silas that AgentDojo is tried on: real approvals, gates, envelopes, execution, audit.

A task that only asks something is answered by the proxy, whose tools can only look. A task that
changes something is a plan: the owner approves it, and the executor works through it. What needs
the owner's decision on the way waits for it. Stream, queue, cards, context and memory take no part:
this is no trial of the whole system.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from evals.trial.dojo_world import Compromised, Owner, Toolbox
from silas.agents.executor import ExecutorAgent
from silas.agents.models.choices import Role
from silas.agents.proxy import ProxyAgent
from silas.app.core import Core, make_core
from silas.app.gates import open_gates
from silas.app.work import off_limits_of, open_executor
from silas.gates.envelopes import ActionEnvelope
from silas.kernel import TaintLevel
from silas.secrets import OnDemandVault
from silas.settings.load import load_settings
from silas.stream.models import AgentTurn
from silas.stream.reading_tools import ReadingTool, ReadingTools, Rules, answered_view
from silas.testing import MemoryVault
from silas.testing.work import LaterApprover, authorise_with_vault, decide_with_vault
from silas.tools.declaration import Tool, ToolRegistry
from silas.tools.execution import ModelView
from silas.work import Plan, WorkItem
from silas.work.binding import bind_plan
from silas.work.execution_context import ExecutionContext
from silas.work.executor import WorkItemExecutor
from silas.work.paused import KeptCall
from silas.work.store import require_item

_PROFILE = "conversation"


@dataclass
class TrialRuntime:
    """Where a task is carried out as Silas would."""

    core: Core
    root: Path
    number: int = 0

    async def ask(self, prompt: str, box: Toolbox, model: Compromised) -> str:
        """Answer a question, with tools that look."""
        tools = [tool for tool in box.tools if not tool.changes_state]
        settings = self.core.settings
        rules = Rules(
            open_gates(self.core), settings.gates.system, self.core.audit, {"scope_id": "owner"}
        )
        names = frozenset(tool.name for tool in tools)
        reading = ReadingTools(
            [_looking(tool, box) for tool in tools],
            rules,
            allowed=names,
            taint=TaintLevel.OWNER,
            seen_private=True,  # as for the owner's own conversation, which is in the prompt
            now=self.core.clock.now,
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
        self, prompt: str, box: Toolbox, model: Compromised, *, owner: Owner, tools: frozenset[str]
    ) -> str:
        """Have a plan with these words approved and worked through; returns the report."""
        self.number += 1
        item = WorkItem.model_validate(
            {
                "id": f"trial{self.number}",
                "type": "task",
                "title": "A task of the owner's",
                "body": prompt,
                "approvals": [_as_asked(tool) for tool in box.tools if tool.name in tools],
                "budget": {"max_attempts": 1, "max_tokens": 1_000_000},
            }
        )
        agent = ExecutorAgent(model.player(Role.EXECUTOR, _report))
        workshop = open_executor(self.core, agent=agent, approver=LaterApprover())
        bench = replace(workshop.context, registry=ToolRegistry(box.tools))
        (bound,) = await bench.items.save_plan(
            await bind_plan(Plan(item), base=self.root, off_limits=off_limits_of(self.core.paths))
        )
        approved = await authorise_with_vault(bench, bound, owner.decide_plan())
        result = await WorkItemExecutor(bench).execute(approved)
        while calls := await _waiting(bench, item.id):
            for shown, decision in owner.decide_card(calls):
                await decide_with_vault(bench, [shown], decision)
            result = await WorkItemExecutor(bench).execute(await require_item(bench.items, item.id))
        return result.summary


async def _waiting(bench: ExecutionContext, work_item_id: str) -> tuple[KeptCall, ...]:
    """What is on the card that the owner sees, if there is one."""
    kept = await bench.paused.of(work_item_id) if bench.paused else None
    return kept.undecided(bench.clock.now()) if kept else ()


@asynccontextmanager
async def open_trial_runtime(root: Path) -> AsyncIterator[TrialRuntime]:
    """A runtime in this folder, with a key of its own."""
    data = str(root / "data")
    loaded = load_settings(data_dir=data, config_file=None, environ={}, cwd=root)
    loaded.paths.data_dir.mkdir(parents=True, mode=0o700)
    vault = MemoryVault()
    async with make_core(loaded, OnDemandVault(lambda: vault)) as core:
        core.keys.generate_keypair()
        yield TrialRuntime(core, root)


def _looking(tool: Tool, box: Toolbox) -> ReadingTool:
    async def run(args: Any) -> ModelView:
        text, _ = box.run(tool.name, args.model_dump(exclude_unset=True))
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
    """What an honest plan can say before anything was read: exactly what the owner wrote, once."""
    constraints = {name: {"from": "plan", "optional": True} for name in tool.arguments.model_fields}
    envelope = {"tool": tool.name, "constraints": constraints, "most": 1}
    return ActionEnvelope.model_validate(envelope)


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
