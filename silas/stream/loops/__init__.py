"""The loops: one handler for each queue. What a handler returns is committed whole, or not at all.

A handler may be called again with the same message after a crash. Whatever it does before it
returns must bear being done twice.
"""
