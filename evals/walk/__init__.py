"""The four ways through a running Silas, function by function.

`tracer` is a server that notes which functions it calls; `ways` talks to it as the owner's devices
and commands do, and counts; `flow` keeps `docs/flow.md` true.
"""
