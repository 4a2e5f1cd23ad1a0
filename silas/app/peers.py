"""Who is at the other end of a Unix socket. Where that cannot be known, it is nobody."""

import socket
import struct
import sys

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
