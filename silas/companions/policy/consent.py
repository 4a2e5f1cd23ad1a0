"""Privacy: what a provider does with what it is sent, and the owner's consent to exactly that.

1. Before the first question to a model, the owner is shown what is known about the provider and
   which fields are sent, and confirms it. No confirmation, no request.
2. A confirmation is for one version. The version follows from everything that was shown: provider,
   model, host and port, the key and so the account that is used, the fields, and every sentence.
   Another one of these is another version, and asks again.
3. The receipt says all of that in words, and is compared word for word when it is used.
"""

from collections.abc import Mapping

from silas.companions.errors import PrivacyConfirmationRequired
from silas.companions.ids import consent_id, digest, privacy_policy_id
from silas.companions.models import ConsentReceipt, ProviderPrivacyPolicy
from silas.companions.ports import Destination
from silas.companions.store import CompanionStore
from silas.kernel.loopback import is_loopback
from silas.storage import Durability

_HERE = "The model runs on this machine. What it is asked does not leave it."
_AWAY = (
    "Silas sends the fields below to {host} for every run of the companion. What the provider does "
    "with them is set out in its own policy; Silas cannot check or enforce it."
)
_NOT_KNOWN = "Not known to Silas: read the provider's policy."
Fields = frozenset[str]


class PrivacyConsents:
    """The disclosures, and what the owner has confirmed."""

    def __init__(self, store: CompanionStore) -> None:
        self._store = store

    async def disclosure(self, destination: Destination, fields: Fields) -> ProviderPrivacyPolicy:
        """What the owner is shown: what was configured for this provider, or what can be said.

        Its version is that of the whole: what is said, who is meant, and what is sent.
        """
        key = _policy_id(destination)
        known = await self._store.get(ProviderPrivacyPolicy, key)
        said = known or self._made_up(key, destination)
        whole = digest("terms", _hash(said), _bound_to(destination), sorted(fields))
        return said.model_copy(update={"policy_version": whole[:16]})

    async def describe(
        self, destination: Destination, said: Mapping[str, str]
    ) -> ProviderPrivacyPolicy:
        """Keep what a provider says, as the owner has read it: any other word asks again."""
        key = _policy_id(destination)
        known = await self._store.get(ProviderPrivacyPolicy, key)
        text = (known or self._made_up(key, destination)).model_copy(update=dict(said))
        version = digest(text.training, text.retention, text.jurisdiction, text.disclosure)[:16]
        kept = {"policy_version": version, "updated_at": self._store.clock.now()}
        return await self._store.put(text.model_copy(update=kept))

    async def confirm(
        self, destination: Destination, fields: Fields, *, policy_version: str
    ) -> ConsentReceipt:
        """Write down the consent to the version that was shown; raises if it has changed."""
        shown = await self.disclosure(destination, fields)
        if shown.policy_version != policy_version:
            raise PrivacyConfirmationRequired(
                "What the provider does with your data has changed since. Read it again."
            )
        receipt = ConsentReceipt(
            id=consent_id(destination.provider, destination.model, shown.policy_version),
            **_bound_to(destination),
            fields=tuple(sorted(fields)),
            policy_version=shown.policy_version,
            disclosure_hash=_hash(shown),
            confirmed_at=self._store.clock.now(),
        )
        return await self._store.transaction(
            lambda tx: self._store.put_in(tx, receipt), durability=Durability.TRUST
        )

    async def revoke(self, destination: Destination) -> None:
        """Take the consent back; the next request is refused."""
        where = {"provider": destination.provider, "model": destination.model}
        for receipt in await self._store.find(ConsentReceipt, where):
            gone = receipt.model_copy(update={"revoked_at": self._store.clock.now()})
            await self._store.put(gone)

    async def confirmed(self, destination: Destination, fields: Fields) -> bool:
        """Whether the owner has confirmed exactly this (rule 3)."""
        shown = await self.disclosure(destination, fields)
        key = consent_id(destination.provider, destination.model, shown.policy_version)
        receipt = await self._store.get(ConsentReceipt, key)
        if receipt is None or receipt.revoked_at is not None:
            return False
        agreed = receipt.model_dump(include=set(_bound_to(destination)))
        return (
            agreed == _bound_to(destination)
            and receipt.fields == tuple(sorted(fields))
            and receipt.policy_version == shown.policy_version
            and receipt.disclosure_hash == _hash(shown)
        )

    async def require(self, destination: Destination, fields: Fields) -> None:
        """Raise `PrivacyConfirmationRequired` unless it is confirmed."""
        if not await self.confirmed(destination, fields):
            raise PrivacyConfirmationRequired(model=destination.model_id)

    def _made_up(self, key: str, destination: Destination) -> ProviderPrivacyPolicy:
        here = destination.local or is_loopback(destination.host or "")
        text = _HERE if here else _AWAY.format(host=destination.address)
        return ProviderPrivacyPolicy(
            id=key,
            provider=destination.provider,
            model=destination.model,
            policy_version=digest(text)[:16],
            training=_HERE if here else _NOT_KNOWN,
            retention=_HERE if here else _NOT_KNOWN,
            jurisdiction=_HERE if here else _NOT_KNOWN,
            disclosure=text,
            updated_at=self._store.clock.now(),
        )


def _bound_to(destination: Destination) -> dict[str, str | int | None]:
    """Whom a consent is for. What a provider does may depend on the account, so on the key."""
    return {
        "provider": destination.provider,
        "model": destination.model,
        "host": destination.host,
        "port": destination.port,
        "secret_ref_id": destination.secret_ref_id,
    }


def _policy_id(destination: Destination) -> str:
    """What is known about one server is not known about another that has the same model."""
    address = destination.address or ""
    return privacy_policy_id(destination.provider, destination.model, address)


def _hash(policy: ProviderPrivacyPolicy) -> str:
    said = (policy.training, policy.retention, policy.jurisdiction, policy.disclosure)
    return digest("disclosure", policy.policy_version, *said)
