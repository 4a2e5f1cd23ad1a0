"""Lines that are typed at the terminal, read without a thread.

A thread that waits for a key cannot be ended: after Ctrl-C, Silas would stay until one is pressed.
"""

import asyncio
import os
import sys

import click

_AT_ONCE = 65_536
_ANSWERS = {"y": True, "yes": True, "n": False, "no": False, "": False}


class Keyboard:
    """What is typed; bytes that are not UTF-8 become a replacement character."""

    def __init__(self, descriptor: int | None = None) -> None:
        self._descriptor = sys.stdin.fileno() if descriptor is None else descriptor
        self._typed = b""

    async def line(self) -> str | None:
        """The next line; None when there is no more."""
        while b"\n" not in self._typed:
            piece = await read_piece(self._descriptor)
            if not piece:
                rest, self._typed = self._typed, b""
                return rest.decode(errors="replace") or None
            self._typed += piece
        line, _, self._typed = self._typed.partition(b"\n")
        return line.decode(errors="replace")

    async def confirm(self, question: str) -> bool | None:
        """Whether the answer is a typed yes; an empty line is a no, and no line at all is None."""
        while True:
            click.echo(f"{question} [y/N]: ", nl=False, err=True)
            line = await self.line()
            if line is None:
                return None
            answer = _ANSWERS.get(line.strip().lower())
            if answer is not None:
                return answer
            question = "Please answer yes or no."


async def read_piece(descriptor: int) -> bytes:
    """What is typed next; nothing when there is no more."""
    loop = asyncio.get_running_loop()
    ready = asyncio.Event()
    loop.add_reader(descriptor, ready.set)
    try:
        await ready.wait()
    finally:
        loop.remove_reader(descriptor)
    try:
        return os.read(descriptor, _AT_ONCE)
    except OSError:
        return b""  # the terminal is gone
