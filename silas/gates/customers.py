"""Customers' records, each in a JSON file of its own, in a directory that nobody else may write.

1. The directory lies inside the data directory, behind all links.
2. It and the file belong to this user (or to root), and no group and no other user may write them.
3. The name of the file is the customer's id and `.json`. An id that is not a plain name is refused,
   and a link is not followed.
4. The file is a JSON object of at most a megabyte.
"""

import os
import re
import stat
from pathlib import Path
from typing import Any

from silas.gates.errors import CustomerContextRefused
from silas.kernel import CanonicalError, strict_loads

_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.:@+-]{0,127}")
_LARGEST = 1024 * 1024
_OTHERS_MAY_WRITE = stat.S_IWGRP | stat.S_IWOTH


class CustomerDirectory:
    """`CustomerFiles` in a directory."""

    def __init__(self, directory: Path, *, data_dir: Path) -> None:
        self._directory = directory
        self._data_dir = data_dir

    def load(self, customer_id: str) -> dict[str, Any] | None:
        """One customer's record, None if there is none; raises `CustomerContextRefused`."""
        if not _ID.fullmatch(customer_id):  # 3
            raise CustomerContextRefused("The customer's id cannot be the name of a file.")
        try:
            content = self._read(f"{customer_id}.json")
        except FileNotFoundError:
            return None
        except OSError as error:
            told = f"The customer's file cannot be read: {error.strerror}"
            raise CustomerContextRefused(told) from error
        return _record(content)

    def _read(self, name: str) -> bytes:
        real = Path(os.path.realpath(self._directory))
        if Path(os.path.realpath(self._data_dir)) not in real.parents:  # 1
            raise CustomerContextRefused("The customers' directory lies outside of data_dir.")
        directory = os.open(real, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            _require_ours(os.fstat(directory), "The customers' directory")
            return _content(name, directory)
        finally:
            os.close(directory)


def _content(name: str, directory: int) -> bytes:
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    with os.fdopen(os.open(name, flags, dir_fd=directory), "rb") as file:
        found = os.fstat(file.fileno())
        if not stat.S_ISREG(found.st_mode):
            raise CustomerContextRefused("The customer's file is not a regular file.")
        _require_ours(found, "The customer's file")
        content = file.read(_LARGEST + 1)
    if len(content) > _LARGEST:  # 4
        raise CustomerContextRefused("The customer's file is larger than a megabyte.")
    return content


def _require_ours(found: os.stat_result, what: str) -> None:
    if found.st_mode & _OTHERS_MAY_WRITE or found.st_uid not in (os.geteuid(), 0):  # 2
        raise CustomerContextRefused(f"{what} may be written by other users; run `chmod go-w`.")


def _record(content: bytes) -> dict[str, Any]:
    try:
        record = strict_loads(content)
    except CanonicalError as error:
        raise CustomerContextRefused("The customer's file is not JSON.") from error
    if not isinstance(record, dict):
        raise CustomerContextRefused("The customer's file is not a JSON object.")
    return record
