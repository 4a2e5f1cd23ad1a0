"""Two directories that trade places in one step, so that a crash leaves neither name empty."""

import ctypes
import errno
import os
import sys
from pathlib import Path

_HERE = -100  # AT_FDCWD
_EXCHANGE = 2  # RENAME_EXCHANGE on Linux, RENAME_SWAP on macOS
_NOT_HERE = {errno.ENOSYS, errno.EINVAL, errno.ENOTSUP}


def exchange(one: Path, other: Path) -> None:
    """Swap the two names; where the system has no single step for it, in three."""
    try:
        _exchange_at_once(os.fsencode(one), os.fsencode(other))
    except OSError as error:
        if error.errno not in _NOT_HERE:
            raise
        _exchange_in_steps(one, other)


def _exchange_at_once(one: bytes, other: bytes) -> None:
    library = ctypes.CDLL(None, use_errno=True)
    try:
        if sys.platform == "darwin":
            result = library.renamex_np(one, other, _EXCHANGE)
        else:
            result = library.renameat2(_HERE, one, _HERE, other, _EXCHANGE)
    except AttributeError:
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS)) from None
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), os.fsdecode(other))


def _exchange_in_steps(one: Path, other: Path) -> None:
    between = one.with_name(f"{one.name}.swapping")
    other.rename(between)
    try:
        one.rename(other)
    except BaseException:
        between.rename(other)
        raise
    between.rename(one)
