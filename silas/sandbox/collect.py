"""Copies what a command produced out of its workspace: files and directories, nothing else.

Links are not followed and not copied, so that nothing from elsewhere comes along. FIFOs, sockets
and devices are left behind, because reading them could hang. Copies belong to us and carry no
special permission bits.
"""

import os
import stat
from dataclasses import dataclass, field
from pathlib import Path

_READ_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_READ_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_NEW_FILE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_CHUNK = 1024 * 1024
_DEEPEST = 64


@dataclass
class Collected:
    """What was copied, and what was left behind and why."""

    files: list[str] = field(default_factory=list)
    skipped: dict[str, str] = field(default_factory=dict)
    total_bytes: int = 0


def collect(source: str, target: str, *, max_bytes: int) -> Collected:
    """Copy a directory that a sandbox wrote to into a new one; stop at `max_bytes`."""
    Path(target).mkdir(mode=0o700)
    done = Collected()
    reading = os.open(source, _READ_DIRECTORY)
    writing = os.open(target, _READ_DIRECTORY)
    try:
        _copy_directory(reading, writing, "", done, max_bytes=max_bytes)
    finally:
        os.close(reading)
        os.close(writing)
    return done


def _copy_directory(
    source: int, target: int, prefix: str, done: Collected, *, max_bytes: int
) -> None:
    for name in sorted(os.listdir(source)):
        path = f"{prefix}{name}"
        try:
            kind = stat.S_IFMT(os.stat(name, dir_fd=source, follow_symlinks=False).st_mode)
            if kind == stat.S_IFDIR and prefix.count("/") < _DEEPEST:
                _enter(source, target, name, prefix, done, max_bytes=max_bytes)
            elif kind == stat.S_IFREG:
                _copy_file(source, target, name, path, done, max_bytes=max_bytes)
            else:
                done.skipped[path] = "not a regular file or directory"
        except OSError as error:
            done.skipped[path] = error.strerror or str(error)


def _enter(
    source: int, target: int, name: str, prefix: str, done: Collected, *, max_bytes: int
) -> None:
    reading = os.open(name, _READ_DIRECTORY, dir_fd=source)
    try:
        os.mkdir(name, 0o700, dir_fd=target)
        writing = os.open(name, _READ_DIRECTORY, dir_fd=target)
        try:
            _copy_directory(reading, writing, f"{prefix}{name}/", done, max_bytes=max_bytes)
        finally:
            os.close(writing)
    finally:
        os.close(reading)


def _copy_file(
    source: int, target: int, name: str, path: str, done: Collected, *, max_bytes: int
) -> None:
    reading = os.open(name, _READ_FILE, dir_fd=source)
    try:
        # What was a file a moment ago may be something else by now.
        if not stat.S_ISREG(os.fstat(reading).st_mode):
            done.skipped[path] = "not a regular file or directory"
            return
        if done.total_bytes + os.fstat(reading).st_size > max_bytes:
            done.skipped[path] = "too large"
            return
        writing = os.open(name, _NEW_FILE, 0o600, dir_fd=target)
        try:
            done.total_bytes += _copy_bytes(reading, writing, max_bytes - done.total_bytes)
        finally:
            os.close(writing)
        done.files.append(path)
    finally:
        os.close(reading)


def _copy_bytes(reading: int, writing: int, room: int) -> int:
    copied = 0
    while copied < room and (chunk := os.read(reading, min(_CHUNK, room - copied))):
        os.write(writing, chunk)
        copied += len(chunk)
    return copied
