"""Secrets in environments."""

import os


def own_environment(world):
    """secrets in env"""
    return "the secret" if world["secret"] in "".join(os.environ.values()) else None


def _environ(path, world):
    with open(path, "rb") as file:
        return "the secret" if world["secret"].encode() in file.read() else None


def own_environ_file(world):
    """/proc/self/environ"""
    return _environ("/proc/self/environ", world)


def first_environ_file(world):
    """/proc/1/environ"""
    return _environ("/proc/1/environ", world)
