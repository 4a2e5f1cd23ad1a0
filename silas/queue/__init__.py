"""The durable bus between the agents: messages, leases, idempotency, dead letters, routing.

A message that was accepted is delivered at least once, and its effects happen once. Nothing here
knows what a message means to its consumer, and nothing here decides what is allowed.
"""
