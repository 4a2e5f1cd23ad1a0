"""Both ends of a Unix socket: who is at the other one, and an address that is short enough."""

import contextlib
import os
import socket
import struct
import sys
from collections.abc import Iterator
from pathlib import Path

from silas.kernel import ServerError

_MAX_PATH_BYTES = 100

if sys.platform == "linux":

    def _ask(connection: socket.socket) -> int | None:
        # struct ucred: process, user, group.
        size = struct.calcsize("3i")
        credentials = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, size)
        return int(struct.unpack("3i", credentials)[1])

elif sys.platform == "darwin":

    def _ask(connection: socket.socket) -> int | None:
        # SOL_LOCAL and LOCAL_PEERCRED; struct xucred: version, user, number of groups, groups.
        version, user = struct.unpack_from("=II", connection.getsockopt(0, 1, 76))
        return int(user) if version == 0 else None

else:

    def _ask(connection: socket.socket) -> int | None:
        return None


def peer_user(connection: socket.socket) -> int | None:
    """The user id of the process at the other end; None if the system does not say."""
    try:
        return _ask(connection)
    except (OSError, struct.error):
        return None


@contextlib.contextmanager
def short_path(path: Path) -> Iterator[str]:
    """An address for a Unix socket, whose length is limited to about a hundred bytes."""
    if len(os.fsencode(path)) <= _MAX_PATH_BYTES:
        yield str(path)
        return
    if sys.platform != "linux":
        raise ServerError(f"{path} is too long for a socket. Choose a shorter `--data-dir`.")
    directory = os.open(path.parent, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield f"/proc/self/fd/{directory}/{path.name}"
    finally:
        os.close(directory)
