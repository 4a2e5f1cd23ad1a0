"""A summary by the companion's own model, through the same door as everything it is asked.

So the owner's stop switches, budget, permissions, consent and allowlist hold here as well. Without
a model of the owner's choice there is nobody to ask, and rules do it.
"""

from silas.companions.compaction.ports import SummaryRequest
from silas.companions.compaction.rules import line_of
from silas.companions.decisions import Decisions
from silas.companions.ids import digest
from silas.companions.kinds.kept import Definitions
from silas.companions.models import Companion, JsonMap, WakeReason
from silas.companions.policy.fields import SUMMARY_KEY
from silas.companions.policy.gateway import ModelDoor
from silas.companions.policy.projecting import ProjectionPolicies
from silas.companions.policy.projection import project
from silas.companions.ports import CallAllowance, CompanionRequest
from silas.companions.store import CompanionStore
from silas.kernel import CompanionError, LlmError

PROMPT_ID = "companion.summary"
PROMPT_VERSION = "1"
_ASKED = (
    "Put what is in your memory below into `thought`: at most ten sentences that you will need "
    "later. Keep names, numbers, promises and what the owner prefers; leave out what is over. "
    "Propose no actions and no report."
)
_SET_AT_THE_DOOR = CallAllowance(tokens=0, cost_usd=0.0, seconds=0.0)


class ModelSummariser:
    """`Summariser` over the door to the models."""

    def __init__(self, store: CompanionStore, door: ModelDoor, *, definitions: Definitions) -> None:
        self._store = store
        self._door = door
        self._definitions = definitions
        self._projections = ProjectionPolicies(store)

    @property
    def contract_version(self) -> str:
        return f"{PROMPT_ID}-{PROMPT_VERSION}"

    async def summarise(self, request: SummaryRequest) -> JsonMap:
        """What the model says; raises what stands against asking it."""
        companion = await self._store.require(Companion, request.agent_id)
        if self._door.destination(companion).local:
            raise CompanionError("This companion has no model. Rules summarise what it remembers.")
        definition = await self._definitions.of(companion.id)
        fields = await self._projections.allowed(definition, SUMMARY_KEY)
        payload = project(
            {
                "companion": {
                    "display_name": companion.display_name,
                    "kind": companion.kind,
                    "instructions": definition.instructions,
                },
                "wake": {"reason": WakeReason.MANUAL.value, "said": _ASKED},
                "memory": {
                    "recent": [
                        {"kind": each.message.kind.value, "text": line}
                        for each in request.entries
                        if (line := line_of(each))
                    ]
                },
            },
            fields,
        )
        proposal = await self._door.ask(
            companion,
            _request(companion, request, payload),
            definition=definition,
            operation_key=SUMMARY_KEY,
            decisions=Decisions(),
        )
        if proposal.fallback is not None or not proposal.thought.strip():
            raise LlmError(proposal.fallback or "The model gave no summary.")
        return {"text": proposal.thought, "messages": len(request.entries)}


def _request(companion: Companion, request: SummaryRequest, payload: JsonMap) -> CompanionRequest:
    first, last = request.entries[0].message.id, request.entries[-1].message.id
    return CompanionRequest(
        agent_id=companion.id,
        agent_kind=companion.kind,
        category_ids=companion.allowed_category_ids,
        run_key=digest("summary", first, last),
        wake_reason=WakeReason.MANUAL,
        prompt_id=PROMPT_ID,
        prompt_version=PROMPT_VERSION,
        persona_version_id=None,
        payload=payload,
        allowance=_SET_AT_THE_DOOR,
    )
