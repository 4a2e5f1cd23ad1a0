"""Many at once: the owner on several devices, and strangers, at one server.

The devices are paired and talk over WebSockets. Strangers have no socket of their own yet, so they
come in as from a channel of another process: over the bus, on the same data directory.
"""
