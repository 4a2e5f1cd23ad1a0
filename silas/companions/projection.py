"""NEED_TO_KNOW: what a model may be shown, field by field.

1. A boundary has an allowlist of paths (`facts[].title`); an empty one lets nothing through.
2. `project` builds what crosses from the allowlist: every other field is left out.
3. `require_projected` looks at what is about to cross, however it was built. A field that is not on
   the list stops the whole request (`overshared_payload_blocked`): somebody tried to add it.
4. A path allows that value alone. `facts[].tags[]` allows texts in a list, `slots.*` the plain
   values of a mapping; nothing allows a whole subtree unseen.
5. Text is cut to a length and secrets are taken out of it, whatever the list says.
6. For every operation there is one stored policy. None means nothing is shown. It is written from
   the lists of this version of Silas, and again when those change.
7. What is shown is on the list of this version, on the stored one, and on that of the companion's
   kind: none of them can widen another, and nothing else can without a change of this file.
"""

import hashlib
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any, Final

from silas.companions.errors import OversharedPayloadBlocked
from silas.companions.ids import projection_policy_id
from silas.companions.models import BoundaryType, ProjectionPolicy
from silas.companions.store import CompanionStore
from silas.kernel.redaction import Redactor
from silas.storage import Transaction

MAX_TEXT = 2_000
MAX_ITEMS = 200
_PLAIN = (str, int, float, bool, type(None))
_REDACTOR = Redactor()


def project(source: Mapping[str, Any], allowed_fields: frozenset[str]) -> dict[str, Any]:
    """The part of `source` that the list allows."""
    result = _projected(source, "", allowed_fields)
    return result if isinstance(result, dict) else {}


def require_projected(payload: Mapping[str, Any], allowed_fields: frozenset[str]) -> None:
    """Raise `OversharedPayloadBlocked` if the payload holds what the list does not name."""
    excess = sorted({path for path in _paths(payload, "") if not _allows(path, allowed_fields)})
    if excess or not allowed_fields:
        named = ", ".join(excess[:5]) or "everything"
        raise OversharedPayloadBlocked(
            f"More was to be sent than is needed ({named}), so nothing was sent.", fields=excess
        )
    if payload != _REDACTOR.value(payload):
        raise OversharedPayloadBlocked(
            "What was to be sent holds something that looks like a secret, so nothing was sent."
        )


def _projected(value: Any, path: str, allowed: frozenset[str]) -> Any:
    if isinstance(value, Mapping):
        found = {
            str(key): _projected(each, _join(path, str(key)), allowed)
            for key, each in value.items()
            if _leads_on(_join(path, str(key)), allowed)
        }
        return {key: each for key, each in found.items() if each is not _NOTHING}
    if isinstance(value, list | tuple):
        items = (_projected(each, f"{path}[]", allowed) for each in value[:MAX_ITEMS])
        return [each for each in items if each is not _NOTHING]
    if not _allows(path, allowed) or not isinstance(value, _PLAIN):
        return _NOTHING
    return _REDACTOR.text(value)[:MAX_TEXT] if isinstance(value, str) else value


class _Nothing:
    """What is left of a value that may not cross."""


_NOTHING = _Nothing()


def _paths(value: Any, path: str) -> Iterator[str]:
    """The path of every plain value; what is no JSON has the path `?`, which nothing allows."""
    if isinstance(value, Mapping):
        for key, each in value.items():
            yield from _paths(each, _join(path, str(key)))
    elif isinstance(value, list | tuple):
        for each in value:
            yield from _paths(each, f"{path}[]")
    else:
        yield path if isinstance(value, _PLAIN) else "?"


def _allows(path: str, allowed: frozenset[str]) -> bool:
    return path in allowed or f"{path.rpartition('.')[0]}.*" in allowed


def _leads_on(path: str, allowed: frozenset[str]) -> bool:
    """Whether anything at this path or below it is allowed."""
    return _allows(path, allowed) or any(
        each.startswith((f"{path}.", f"{path}[]")) for each in allowed
    )


def _join(path: str, key: str) -> str:
    # A key that looks like a path would otherwise be read as one.
    safe = key if key.isidentifier() or key.replace("-", "_").isidentifier() else f"<{key[:20]}>"
    return f"{path}.{safe}" if path else safe


OPERATION_KEY: Final = "companion_run"
SUMMARY_KEY: Final = "companion_summary"

_TASK = (
    "source_id", "kind", "id", "title", "score", "certain", "status", "priority",
    "estimate_minutes", "due_at",
    "category_id", "labels[]", "open_items[]", "open_item_count", "done_item_count",
    "logged_minutes", "logged_minutes_last_days", "changed", "has_follow_up", "language",
    "checklists[].id", "checklists[].title", "checklists[].items[].id",
    "checklists[].items[].text", "checklists[].items[].checked",
)  # fmt: skip
_OTHER_FACTS = (
    "name", "date", "starts_at", "ends_at", "note", "task_id", "dimension", "average", "count",
    "latest", "value", "days", "text", "minutes", "pinned_task_ids[]", "target_id",
)  # fmt: skip

PROVIDER_FIELDS: Final = frozenset(
    {
        "now",
        "time_zone",
        "companion.display_name",
        "companion.kind",
        "companion.instructions",
        "persona.voice",
        "persona.directives[]",
        "persona.coaching_style",
        "persona.anti_sycophancy_policy",
        "persona.tone_bounds.*",
        "wake.reason",
        "wake.said",
        "wake.answers[].question",
        "wake.answers[].answer",
        "memory.recent[].kind",
        "memory.recent[].text",
        "memory.summaries[].text",
        "memory.recalled[].text",
        "memory.recalled[].at",
        "wake.kept",
        "report.scope",
        "report.headline",
        "report.sections[].id",
        "report.sections[].title",
        "slots.primary_goal",
        "slots.active_task_id",
        "slots.open_loops[]",
        "slots.preferences[]",
        *(f"facts[].{name}" for name in (*_TASK, *_OTHER_FACTS)),
        "results[].tool_name",
        "results[].status",
        "results[].error_code",
        *(f"results[].changes[].{name}" for name in ("kind", "what", "id", "label")),
    }
)
"""Whatever is not named here never leaves the machine in a request to a model."""

SUMMARY_FIELDS: Final = frozenset(
    {
        "companion.display_name",
        "companion.kind",
        "companion.instructions",
        "wake.reason",
        "wake.said",
        "memory.recent[].kind",
        "memory.recent[].text",
    }
)
"""What a model is shown that puts a companion's memory into a few sentences."""

FIELDS: Final[Mapping[str, frozenset[str]]] = MappingProxyType(
    {OPERATION_KEY: PROVIDER_FIELDS, SUMMARY_KEY: SUMMARY_FIELDS}
)
"""For each operation that asks a model."""


def version_of(fields: frozenset[str]) -> str:
    """Follows from the fields: whoever adds one asks every owner for a new consent."""
    return hashlib.sha256("\n".join(sorted(fields)).encode()).hexdigest()[:12]


_BOUNDARY = BoundaryType.PROVIDER_INFERENCE_REQUEST
_REDACTED = ("secrets",)
"""What is made unreadable in every text, whatever the list says; see rule 5."""


class ProjectionPolicies:
    """The projection policies of this device."""

    def __init__(self, store: CompanionStore) -> None:
        self._store = store

    async def allowed(
        self, own_fields: frozenset[str] | None, operation_key: str = OPERATION_KEY
    ) -> frozenset[str]:
        """The fields that may be shown (rule 7); nothing without a policy.

        `own_fields` is the list of the companion's kind; None where that has none.
        """
        key = projection_policy_id(_BOUNDARY, operation_key)
        policy = await self._store.get(ProjectionPolicy, key)
        if policy is None:
            return frozenset()
        allowed = FIELDS[operation_key] & set(policy.allowed_fields)
        return allowed if own_fields is None else allowed & own_fields

    async def keep(self) -> None:
        """Write the policies of this version, at the start (rule 6)."""
        await self._store.transaction(self.keep_in)

    def keep_in(self, tx: Transaction) -> None:
        """The same inside a transaction; a policy that is of this version stays as it is."""
        for operation_key, fields in FIELDS.items():
            key, version = projection_policy_id(_BOUNDARY, operation_key), version_of(fields)
            known = self._store.get_in(tx, ProjectionPolicy, key)
            if known is not None and known.policy_version == version:
                continue
            self._store.put_in(
                tx,
                ProjectionPolicy(
                    id=key,
                    boundary_type=_BOUNDARY,
                    operation_key=operation_key,
                    allowed_fields=tuple(sorted(fields)),
                    redaction_rules=_REDACTED,
                    policy_version=version,
                    updated_at=self._store.clock.now(),
                ),
            )
