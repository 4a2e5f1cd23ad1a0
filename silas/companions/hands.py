"""Everything that a run needs, put together once: policy, tools, the model's door, the workflow."""

from collections.abc import Callable
from dataclasses import dataclass

from silas.companions.approving import Approving
from silas.companions.budgets import Budgets
from silas.companions.kinds.kept import Definitions
from silas.companions.log import MessageLog
from silas.companions.memory import MemoryAssembler
from silas.companions.persona import Personas
from silas.companions.policy.access import AgentModelAccessResolver
from silas.companions.policy.consent import PrivacyConsents
from silas.companions.policy.gateway import ModelDoor
from silas.companions.policy.gating import CallGates
from silas.companions.policy.projecting import ProjectionPolicies
from silas.companions.policy.switches import StopSwitches
from silas.companions.ports import ActionApprovals, ProviderGateway, SecretProvider
from silas.companions.prompt_items import PromptItems
from silas.companions.replay import Replayer
from silas.companions.saga import SagaLog
from silas.companions.store import CompanionStore
from silas.companions.tools.catalogue import REGISTRY
from silas.companions.tools.executor import ToolExecutor
from silas.companions.tools.registry import AgentToolRegistry
from silas.companions.waiting import WaitingRoom
from silas.companions.workflow import CompanionWorkflow
from silas.journal.store import Journal
from silas.work.ports import AuditTrail


@dataclass(frozen=True)
class Hands:
    """What companions do things with."""

    definitions: Definitions
    personas: Personas
    prompts: PromptItems
    switches: StopSwitches
    budgets: Budgets
    access: AgentModelAccessResolver
    consents: PrivacyConsents
    projections: ProjectionPolicies
    waiting: WaitingRoom
    executor: ToolExecutor
    door: ModelDoor
    workflow: CompanionWorkflow
    approving: Approving
    replayer: Replayer


def make_hands(
    store: CompanionStore,
    journal: Journal,
    *,
    gateway: ProviderGateway | None,
    approvals: ActionApprovals | None,
    secrets: SecretProvider | None,
    time_zone: Callable[[], str],
    gates: CallGates | None = None,
    audit: AuditTrail | None = None,
    registry: AgentToolRegistry = REGISTRY,
) -> Hands:
    """The hands of the companions in this store. What is absent is a no."""
    definitions, personas, prompts = Definitions(store), Personas(store), PromptItems(store)
    switches, saga = StopSwitches(store, fence=journal.fence.move), SagaLog(store)
    budgets = Budgets(store, time_zone=time_zone)
    access, consents = AgentModelAccessResolver(store), PrivacyConsents(store)
    projections = ProjectionPolicies(store)
    waiting = WaitingRoom(store, approvals)
    executor = ToolExecutor(
        registry=registry,
        store=store,
        journal=journal,
        definitions=definitions,
        switches=switches,
        budgets=budgets,
        saga=saga,
        waiting=waiting,
        time_zone=time_zone,
        gates=gates,
        audit=audit,
    )
    door = ModelDoor(
        store,
        gateway,
        switches=switches,
        budgets=budgets,
        access=access,
        consents=consents,
        projections=projections,
        secrets=secrets,
    )
    workflow = CompanionWorkflow(
        store=store,
        journal=journal,
        memory=MemoryAssembler(store),
        definitions=definitions,
        personas=personas,
        prompts=prompts,
        executor=executor,
        door=door,
        projections=projections,
        saga=saga,
        budgets=budgets,
        time_zone=time_zone,
    )
    approving = Approving(store, executor, log=MessageLog(store), saga=saga, prompts=prompts)
    return Hands(
        definitions=definitions,
        personas=personas,
        prompts=prompts,
        switches=switches,
        budgets=budgets,
        access=access,
        consents=consents,
        projections=projections,
        waiting=waiting,
        executor=executor,
        door=door,
        workflow=workflow,
        approving=approving,
        replayer=Replayer(store),
    )
