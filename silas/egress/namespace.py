"""Opens listening sockets in the network namespace of a process that waits to be let go.

A socket belongs to the namespace in which it was made, whoever holds it. So a small process enters
the namespace, brings up its loopback, listens there, hands the sockets back over a descriptor that
it inherited, and ends. From then on Silas accepts what the sandbox sends to `127.0.0.1:PORT`. The
sandbox itself holds no descriptor, and nothing else leads out of its namespace.

The small process is this file, executed on its own: it imports nothing of Silas.
"""

import asyncio
import ctypes
import fcntl
import os
import socket
import struct
import sys
from pathlib import Path

PORT = 3128
"""Where the proxy listens, inside. The namespace is new, so the port is free."""

_NEW_USER, _NEW_NET = 0x10000000, 0x40000000
_GET_USER_NAMESPACE = 0xB701
_GET_FLAGS, _SET_FLAGS, _UP = 0x8913, 0x8914, 0x1
_LOOPBACK = b"lo"
_WAITING = 64
_HERE = Path(__file__)


async def listen_in_namespace_of(pid: int, *ports: int) -> dict[int, socket.socket]:
    """A socket for each port; raises `OSError` with why there is no way into the namespace."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        helper = await asyncio.create_subprocess_exec(
            *(sys.executable, "-I", "-S", str(_HERE), str(theirs.fileno()), str(pid)),
            *map(str, ports),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.PIPE,
            env={},
            pass_fds=[theirs.fileno()],
        )
        try:
            _, told = await helper.communicate()
        finally:
            if helper.returncode is None:
                helper.kill()
                await helper.wait()
        if helper.returncode != 0:
            raise OSError(told.decode(errors="replace").strip() or "the helper ended early")
        return dict(zip(ports, _received(ours, len(ports)), strict=True))


def _received(ours: socket.socket, number: int) -> list[socket.socket]:
    ours.setblocking(False)
    _, descriptors, _, _ = socket.recv_fds(ours, 1, number)
    listeners = [socket.socket(fileno=descriptor) for descriptor in descriptors]
    for listener in listeners:
        listener.setblocking(False)
    return listeners


def _enter_namespaces_of(pid: int) -> None:
    namespace = os.open(f"/proc/{pid}/ns/net", os.O_RDONLY | os.O_CLOEXEC)
    if os.path.sameopenfile(namespace, os.open("/proc/self/ns/net", os.O_RDONLY | os.O_CLOEXEC)):
        raise OSError("the command has no network namespace of its own")
    # The rights over a network namespace are held in the user namespace that owns it.
    _enter(fcntl.ioctl(namespace, _GET_USER_NAMESPACE), _NEW_USER)
    _enter(namespace, _NEW_NET)


def _listen(port: int) -> socket.socket:
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    _bring_up_loopback(listener)
    listener.bind(("127.0.0.1", port))
    listener.listen(_WAITING)
    return listener


def _enter(namespace: int, kind: int) -> None:
    library = ctypes.CDLL(None, use_errno=True)
    if library.setns(namespace, kind) != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"the namespace cannot be entered: {os.strerror(number)}")


def _bring_up_loopback(any_socket: socket.socket) -> None:
    asked = struct.pack("16sH14x", _LOOPBACK, 0)
    (flags,) = struct.unpack_from("H", fcntl.ioctl(any_socket, _GET_FLAGS, asked), 16)
    fcntl.ioctl(any_socket, _SET_FLAGS, struct.pack("16sH14x", _LOOPBACK, flags | _UP))


def _main(descriptor: int, pid: int, *ports: int) -> None:
    _enter_namespaces_of(pid)
    listeners = [_listen(port) for port in ports]
    with socket.socket(fileno=descriptor) as back:
        socket.send_fds(back, [b"+"], [listener.fileno() for listener in listeners])


if __name__ == "__main__":
    try:
        _main(*map(int, sys.argv[1:]))
    except OSError as error:
        sys.exit(str(error.strerror or error))
