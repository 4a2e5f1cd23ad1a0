"""The projection policies in force: which fields a model may be shown for which operation.

1. For every operation there is one policy, kept with the companions. None means nothing is shown.
2. It is written from the lists of this version of Silas (`fields.py`), and again when those change.
3. What is shown is on the list of this version, on the stored one, and on that of the companion's
   kind. So none of them can widen another.
"""

from silas.companions.ids import projection_policy_id
from silas.companions.kinds.definition import CompanionDefinition
from silas.companions.models import BoundaryType, ProjectionPolicy
from silas.companions.policy.fields import FIELDS, OPERATION_KEY, version_of
from silas.companions.store import CompanionStore
from silas.storage import Transaction

_BOUNDARY = BoundaryType.PROVIDER_INFERENCE_REQUEST
_REDACTED = ("secrets",)
"""What is made unreadable in every text, whatever the list says; see `projection.py`."""


class ProjectionPolicies:
    """The projection policies of this device."""

    def __init__(self, store: CompanionStore) -> None:
        self._store = store

    async def allowed(
        self, definition: CompanionDefinition, operation_key: str = OPERATION_KEY
    ) -> frozenset[str]:
        """The fields that may be shown for this companion (rule 3); nothing without a policy."""
        key = projection_policy_id(_BOUNDARY, operation_key)
        policy = await self._store.get(ProjectionPolicy, key)
        if policy is None:
            return frozenset()
        allowed = FIELDS[operation_key] & set(policy.allowed_fields)
        own = definition.provider_fields
        return allowed if own is None else allowed & own

    async def keep(self) -> None:
        """Rule 2, at the start."""
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
