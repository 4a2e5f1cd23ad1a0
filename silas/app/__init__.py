"""Settings and wiring: the only room that constructs implementations and hands them to each other.

Everything below receives its ports; everything above asks this room for a wired whole.
No decision about trust is taken here.
"""
