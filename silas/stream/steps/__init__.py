"""The steps of a turn, each a small function: the turn in, the turn that follows out.

`silas.stream.turn` lists them in their order. A step does nothing where what it needs is absent.
"""
