"""The conversation: the loops of proxy, planner and executor on the bus, and the turn pipeline.

It decides what an agent's answer leads to; the agents themselves are ports. Whether something may
be executed is decided below, by approvals and gates, and never here.
"""
