"""The rules of trust, as the store enforces them, and the confirmation that lifts them.

1. A memory inherits the taint of what it was made from. A change joins its own taint to that of
   the memory: taint never improves.
2. Without the owner's confirmation a memory is `working`. A change can lower trust, never raise it.
3. What is `external` is `working`, confirmed or not. The owner who wants it trusted says it anew.
4. `constitutional` needs the owner's own taint and a confirmation. No change touches it.
5. What is `verified` is changed and deleted only with a confirmation of exactly that.
6. What is `external` is neither a preference nor a profile, carries no `behavior:` tag, and
   neither changes nor deletes a memory that is one of these, or one that is trusted.
7. The raw lane holds `working` memories only, and a memory leaves it only by being told anew.
8. What a model has worded says so (`model_wording`), is never `owner`, and has the limits of rules
   3 and 6: it stays `working`, and is no preference, no profile and no behaviour. The owner who
   wants it to be more says it anew.

The owner's confirmation is a signed token over exactly what was shown. Only `silas.approval` can
make one: whoever wants a memory to be trusted shows `MemoryClaim`, the owner decides, and
`ApprovalEngine.issue_token(claim, decision, CONFIRMATION)` signs it. The store hands the token back
to the engine, which uses it up. A token for any other content, action, scope or memory does not
fit, and none of these tokens lets a work item run.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from silas.approval import ApprovalScope, ApprovalToken
from silas.approval.engine import ApprovalEngine
from silas.kernel import TaintLevel, canonical_bytes, join_taint
from silas.memory.errors import MemoryInvalid, TrustRefused
from silas.memory.models import MODEL_WORDING, MemoryItem, MemoryType, ReingestionTier, TrustLevel

BEHAVIOR = "behavior:"
OWN_KINDS = frozenset({MemoryType.PREFERENCE, MemoryType.PROFILE})
"""The kinds that say who the owner is and what the owner wants."""

WORDED = "worded by a model, not by the owner"
"""What is said of a memory of rule 8, wherever it is shown."""

CHANGEABLE = frozenset(
    {
        "content",
        "memory_type",
        "reingestion_tier",
        "trust_level",
        "valid_from",
        "valid_until",
        "semantic_tags",
        "entity_refs",
        "causal_refs",
        "temporal_next",
        "temporal_prev",
    }
)
_RANK = {TrustLevel.WORKING: 0, TrustLevel.VERIFIED: 1, TrustLevel.CONSTITUTIONAL: 2}
_MOST = {
    TaintLevel.OWNER: TrustLevel.CONSTITUTIONAL,
    TaintLevel.AUTH: TrustLevel.VERIFIED,
    TaintLevel.EXTERNAL: TrustLevel.WORKING,
}


def least_trust(*levels: TrustLevel) -> TrustLevel:
    """The lowest of several levels; of nothing known, `working`."""
    return min(levels, key=_RANK.__getitem__, default=TrustLevel.WORKING)


def most_trust(taint: TaintLevel) -> TrustLevel:
    """The highest level that content of this taint can have, with whatever confirmation."""
    return _MOST[taint]


def rises(old: TrustLevel, new: TrustLevel) -> bool:
    """Whether the new level is above the old one."""
    return _RANK[new] > _RANK[old]


def require_admissible(item: MemoryItem, *, confirmed: bool) -> None:
    """Raise unless a new memory may be kept as it is (rules 2, 3, 4, 6, 7)."""
    if rises(TrustLevel.WORKING, item.trust_level):
        if not confirmed:
            raise TrustRefused(f"Only the owner's confirmation makes a memory {item.trust_level}.")
        if item.reingestion_tier is ReingestionTier.LOW_REINGESTION:
            raise TrustRefused("The raw lane holds nothing that is trusted.")
    _require_taint(item)


def lowered(item: MemoryItem) -> MemoryItem:
    """The memory as it can be kept without any confirmation; for text that must not get lost."""
    foreign = item.taint is TaintLevel.EXTERNAL or is_model_worded(item)
    if not foreign and item.trust_level is TrustLevel.WORKING:
        return item
    own = foreign and item.memory_type in OWN_KINDS
    tags = [tag for tag in item.semantic_tags if not (foreign and _is_behavior(tag))]
    return item.model_copy(
        update={
            "trust_level": TrustLevel.WORKING,
            "memory_type": MemoryType.FACT if own else item.memory_type,
            "semantic_tags": tags,
        }
    )


def model_worded(item: MemoryItem) -> MemoryItem:
    """The memory as words of a model's, whatever it was before (rule 8)."""
    taint = join_taint(item.taint, TaintLevel.AUTH)
    return lowered(item.model_copy(update={"taint": taint, "source_kind": MODEL_WORDING}))


def is_model_worded(item: MemoryItem) -> bool:
    """Whether a model has worded it."""
    return item.source_kind == MODEL_WORDING


def without_behavior(names: Iterable[str]) -> list[str]:
    """Tags or entities without those that stand for the owner's behaviour: a model gives none."""
    return [name for name in names if not _is_behavior(name)]


def changed(
    old: MemoryItem, changes: Mapping[str, Any], *, taint: TaintLevel, confirmed: bool
) -> MemoryItem:
    """The memory after a change made from something of this taint; raises if it may not be."""
    unknown = sorted(set(changes) - CHANGEABLE)
    if unknown:
        raise MemoryInvalid(f"These are no fields that can be changed: {', '.join(unknown)}.")
    require_touchable(old, taint=taint, confirmed=confirmed)
    if old.trust_level is TrustLevel.CONSTITUTIONAL:
        raise TrustRefused("A constitutional memory is not changed. Forget it and tell it anew.")
    joined = join_taint(old.taint, taint)
    wanted = TrustLevel(
        changes.get("trust_level", least_trust(old.trust_level, most_trust(joined)))
    )
    new = MemoryItem.model_validate(
        {**old.model_dump(), **changes, "taint": joined, "trust_level": wanted}
    )
    if rises(old.trust_level, new.trust_level) and not confirmed:
        raise TrustRefused(f"Only the owner's confirmation makes a memory {new.trust_level}.")
    if _leaves_raw_lane(old, new):
        raise TrustRefused("A memory leaves the raw lane only by being told anew.")
    require_admissible(new, confirmed=confirmed or new.trust_level is old.trust_level)
    return new


def require_touchable(old: MemoryItem, *, taint: TaintLevel, confirmed: bool) -> None:
    """Raise unless something of this taint may change or delete the memory (rules 5 and 6)."""
    trusted = old.trust_level is not TrustLevel.WORKING
    if trusted and not confirmed:
        raise TrustRefused(f"This memory is {old.trust_level}: the owner must confirm the change.")
    if taint is TaintLevel.EXTERNAL and (trusted or is_owners_own(old)):
        raise TrustRefused("Text from outside changes neither what is trusted nor who you are.")


def is_owners_own(item: MemoryItem) -> bool:
    """Whether the memory says who the owner is or what the owner wants."""
    return item.memory_type in OWN_KINDS or any(map(_is_behavior, item.semantic_tags))


def _require_taint(item: MemoryItem) -> None:
    if rises(most_trust(item.taint), item.trust_level):
        raise TrustRefused(f"What is {item.taint} cannot become {item.trust_level}.")
    if item.taint is TaintLevel.EXTERNAL and is_owners_own(item):
        raise TrustRefused("Text from outside is neither a preference nor a profile.")
    if is_model_worded(item):
        _require_humble(item)


def _require_humble(item: MemoryItem) -> None:
    """Rule 8."""
    trusted = item.trust_level is not TrustLevel.WORKING
    if trusted or item.taint is TaintLevel.OWNER or is_owners_own(item):
        raise TrustRefused("What a model has worded is not the owner's, and stays `working`.")


def _is_behavior(tag: str) -> bool:
    # As the word index reads it: case and what stands around the word do not matter there.
    return tag.strip().casefold().startswith(BEHAVIOR)


def _leaves_raw_lane(old: MemoryItem, new: MemoryItem) -> bool:
    raw = ReingestionTier.LOW_REINGESTION
    return old.reingestion_tier is raw and new.reingestion_tier is not raw


CONFIRMATION = ApprovalScope.SINGLE_STEP
"""The scope of these tokens: one step, and none that executes anything."""

ACCEPTED = frozenset({CONFIRMATION})


@dataclass(frozen=True)
class MemoryClaim:
    """`Approvable`: these memories shall be stored, changed to, deleted, or imported like this."""

    action: str
    scope_id: str
    items: tuple[MemoryItem, ...]

    @property
    def id(self) -> str:
        return self.items[0].memory_id if self.items else self.scope_id

    @property
    def parent(self) -> str | None:
        return None

    def plan_bytes(self) -> bytes:
        """Everything that decides what the memory says and how far it is trusted."""
        return canonical_bytes(
            {
                "kind": "memory",
                "action": self.action,
                "scope_id": self.scope_id,
                "items": [shown_fields(item) for item in self.items],
            }
        )

    def spawn_policy_bytes(self) -> bytes:
        return b""


def shown_bytes(item: MemoryItem) -> bytes:
    """What the owner sees of a memory when confirming it."""
    return canonical_bytes(shown_fields(item))


def shown_fields(item: MemoryItem) -> dict[str, object]:
    """The fields that decide what a memory says and how far it is trusted."""
    shown = item.model_dump(
        mode="json",
        include={
            "memory_id",
            "content",
            "memory_type",
            "trust_level",
            "taint",
            "semantic_tags",
            "valid_from",
            "valid_until",
        },
    )
    return dict(shown)


async def require_confirmed(
    approvals: ApprovalEngine | None,
    token: ApprovalToken,
    *,
    action: str,
    scope_id: str,
    items: Sequence[MemoryItem],
) -> None:
    """Use the token up for exactly this; raises `TrustRefused` if it is not valid for it."""
    if approvals is None:
        raise TrustRefused("Nobody here can check the owner's confirmation.")
    claim = MemoryClaim(action, scope_id, tuple(items))
    valid, reason = await approvals.verify(token, claim, accept=ACCEPTED)
    if not valid:
        raise TrustRefused(f"The owner's confirmation does not hold: {reason}.")
