"""Doors to the host that are neither files nor the network."""

import os
import socket


def _connect(address):
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(60)
        connection.connect(address)
        return connection.recv(100).decode()


def pathname_socket(world):
    """connect to a pathname socket of the host"""
    return _connect(world["hidden_socket"])


def visible_socket(world):
    """connect to a socket that lies in a listed path"""
    return _connect(world["visible_socket"])


def abstract_socket(world):
    """connect to an abstract socket"""
    return _connect("\0" + world["abstract_socket"])


def agents_in_the_environment(world):
    """SSH_AUTH_SOCK, DBUS, DOCKER_HOST in the environment"""
    names = {"SSH_AUTH_SOCK", "DBUS_SESSION_BUS_ADDRESS", "DOCKER_HOST"}
    return " ".join(sorted(names & set(os.environ)))


def inherited_descriptor(world):
    """an inherited file descriptor that is open on a secret"""
    for descriptor in range(3, 4096):
        try:
            content = os.pread(descriptor, 100, 0)
        except OSError:
            continue
        if world["secret"].encode() in content:
            return f"descriptor {descriptor}"
    return None
