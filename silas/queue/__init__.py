"""The durable bus between the agents: messages, leases, idempotency, dead letters, routing.

A message that was accepted is delivered at least once, and its effects happen once. Nothing here
knows what a message means to its consumer, and nothing here decides what is allowed.
"""

from silas.queue.consumer import Consumer, Handled, Handler
from silas.queue.dead_letters import RetryPolicy
from silas.queue.errors import (
    LeaseLost,
    MessageInWork,
    MessageRefused,
    MessageUnknown,
    NoRoute,
    NotWorthRetrying,
)
from silas.queue.models import (
    ORDERED,
    ROUTES,
    Agent,
    MessageKind,
    QueueMessage,
    QueueName,
    Urgency,
    follow,
    route,
)
from silas.queue.store import Bus, QueueStore
from silas.queue.table import Lease

__all__ = [
    "ORDERED",
    "ROUTES",
    "Agent",
    "Bus",
    "Consumer",
    "Handled",
    "Handler",
    "Lease",
    "LeaseLost",
    "MessageInWork",
    "MessageKind",
    "MessageRefused",
    "MessageUnknown",
    "NoRoute",
    "NotWorthRetrying",
    "QueueMessage",
    "QueueName",
    "QueueStore",
    "RetryPolicy",
    "Urgency",
    "follow",
    "route",
]
