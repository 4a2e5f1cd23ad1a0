"""Who waits for which token: in memory, made from the database, kept up with it.

The three classes of tokens are apart, so that a record's id can never be taken for a kind of
record, and a value is looked up as it is.
"""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from silas.companions.models import AgentSubscription, SubscriptionPredicate
from silas.journal.notifications import TokenClass, TypedToken
from silas.storage import Database, Reader

_ACTIVE = """
SELECT t.subscription_id, s.agent_id, json_extract(s.body, '$.predicate'),
    t.token_class, t.token_namespace, t.token_value
FROM agent_subscription_tokens AS t JOIN agent_subscriptions AS s ON s.id = t.subscription_id
WHERE t.active = 1
"""

_SEMANTIC, _SUBTYPE = TokenClass.SEMANTIC_KEY, TokenClass.SUBTYPE_TOKEN


class Waiting(NamedTuple):
    """A subscription as the index knows it."""

    subscription_id: str
    agent_id: str
    predicate: SubscriptionPredicate


class TokenIndex:
    """Finds the subscriptions of a set of tokens."""

    def __init__(self) -> None:
        self._clear()

    async def load(self, database: Database) -> None:
        """Make the index anew from the database."""
        loaded = await database.snapshot(_loaded)
        self._clear()
        for waiting, tokens in loaded:
            self._insert(waiting, tokens)

    def add(self, subscription: AgentSubscription) -> None:
        """Take up a subscription, in the place of what it was before."""
        self.remove(subscription.id)
        if subscription.active and subscription.deleted_at is None:
            waiting = Waiting(subscription.id, subscription.agent_id, subscription.predicate)
            self._insert(waiting, [_key(token) for token in subscription.tokens])

    def remove(self, subscription_id: str) -> None:
        """Forget a subscription; nothing happens if it is not known."""
        self._waiting.pop(subscription_id, None)
        for token_class, key in self._keys.pop(subscription_id, ()):
            waiting = self._of_class[token_class]
            waiting[key].discard(subscription_id)
            if not waiting[key]:
                del waiting[key]

    def remove_agent(self, agent_id: str) -> None:
        """Forget all subscriptions of a companion."""
        mine = [
            each.subscription_id for each in self._waiting.values() if each.agent_id == agent_id
        ]
        for subscription_id in mine:
            self.remove(subscription_id)

    def match(self, tokens: Iterable[TypedToken]) -> set[str]:
        """The ids of the subscriptions that wait for any of these tokens."""
        semantic, subtype, entity = self._semantic, self._subtype, self._entity
        found = []
        for token in tokens:
            token_class = token.token_class
            if token_class is _SEMANTIC:
                hit = semantic.get(token.token_value)
            elif token_class is _SUBTYPE:
                hit = subtype.get((token.token_namespace, token.token_value))
            else:
                hit = entity.get(token.token_value)
            if hit:
                found.append(hit)
        return set().union(*found)

    def waiting(self, subscription_id: str) -> Waiting:
        """What is known of a subscription that `match` has found."""
        return self._waiting[subscription_id]

    def __len__(self) -> int:
        return len(self._waiting)

    def _clear(self) -> None:
        self._semantic: dict[object, set[str]] = {}
        self._subtype: dict[object, set[str]] = {}
        self._entity: dict[object, set[str]] = {}
        self._of_class: Mapping[TokenClass, dict[object, set[str]]] = {
            TokenClass.SEMANTIC_KEY: self._semantic,
            TokenClass.SUBTYPE_TOKEN: self._subtype,
            TokenClass.ENTITY_ID: self._entity,
        }
        self._waiting: dict[str, Waiting] = {}
        self._keys: dict[str, list[tuple[TokenClass, object]]] = {}

    def _insert(self, waiting: Waiting, keys: list[tuple[TokenClass, object]]) -> None:
        self._waiting[waiting.subscription_id] = waiting
        self._keys[waiting.subscription_id] = keys
        for token_class, key in keys:
            self._of_class[token_class].setdefault(key, set()).add(waiting.subscription_id)


def _key(token: TypedToken) -> tuple[TokenClass, object]:
    return _key_of(token.token_class, token.token_namespace, token.token_value)


def _key_of(
    token_class: TokenClass, namespace: str | None, value: str
) -> tuple[TokenClass, object]:
    key = (namespace, value) if token_class is TokenClass.SUBTYPE_TOKEN else value
    return token_class, key


def _loaded(reader: Reader) -> list[tuple[Waiting, list[tuple[TokenClass, object]]]]:
    # Most subscriptions ask for the same few things: each predicate is read once.
    predicates: dict[str, SubscriptionPredicate] = {}
    found: dict[str, tuple[Waiting, list[tuple[TokenClass, object]]]] = {}
    for subscription_id, agent_id, asked, token_class, namespace, value in reader.rows(_ACTIVE):
        if asked not in predicates:
            predicates[asked] = SubscriptionPredicate.model_validate_json(asked)
        known = found.get(subscription_id)
        if known is None:
            known = found[subscription_id] = (
                Waiting(subscription_id, agent_id, predicates[asked]),
                [],
            )
        known[1].append(_key_of(TokenClass(token_class), namespace, value))
    return list(found.values())
