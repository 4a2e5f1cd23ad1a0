"""The rules of trust, as the store enforces them. Pure: nothing here reads or writes.

1. A memory inherits the taint of what it was made from. A change joins its own taint to that of
   the memory: taint never improves.
2. Without the owner's confirmation a memory is `working`. A change can lower trust, never raise it.
3. What is `external` is `working`, confirmed or not. Whoever wants it trusted says it himself.
4. `constitutional` needs the owner's own taint and a confirmation. No change touches it.
5. What is `verified` is changed and deleted only with a confirmation of exactly that.
6. What is `external` is neither a preference nor a profile, carries no `behavior:` tag, and
   neither changes nor deletes a memory that is one of these, or one that is trusted.
7. The raw lane holds `working` memories only, and a memory leaves it only by being told anew.
"""

from collections.abc import Mapping
from typing import Any

from silas.kernel import TaintLevel, join_taint
from silas.memory.errors import MemoryInvalid, TrustRefused
from silas.memory.models import MemoryItem, MemoryType, ReingestionTier, TrustLevel

BEHAVIOR = "behavior:"
OWN_KINDS = frozenset({MemoryType.PREFERENCE, MemoryType.PROFILE})
"""The kinds that say who the owner is and what the owner wants."""

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
    external = item.taint is TaintLevel.EXTERNAL
    if not external and item.trust_level is TrustLevel.WORKING:
        return item
    own = external and item.memory_type in OWN_KINDS
    tags = [tag for tag in item.semantic_tags if not (external and _is_behavior(tag))]
    return item.model_copy(
        update={
            "trust_level": TrustLevel.WORKING,
            "memory_type": MemoryType.FACT if own else item.memory_type,
            "semantic_tags": tags,
        }
    )


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


def _is_behavior(tag: str) -> bool:
    # As the word index reads it: case and what stands around the word do not matter there.
    return tag.strip().casefold().startswith(BEHAVIOR)


def _leaves_raw_lane(old: MemoryItem, new: MemoryItem) -> bool:
    raw = ReingestionTier.LOW_REINGESTION
    return old.reingestion_tier is raw and new.reingestion_tier is not raw
