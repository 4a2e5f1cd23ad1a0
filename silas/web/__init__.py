"""The web page and its API: who may come in, the conversation over a WebSocket, the PWA.

Everything that leaves here has a type in `wire/`; everything that decides anything is signed on
the owner's device and checked in `silas.approval`. Nothing here executes, and nothing is trusted
because it came from this machine.
"""
