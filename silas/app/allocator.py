"""Memory that is free again goes back to the system.

glibc keeps a heap for each thread and raises the size up to which it takes pieces from there; after
an hour of large and small texts the heaps are mostly holes. Other systems are left as they are.
"""

import ctypes
import sys
from datetime import timedelta

TRIM_EVERY = timedelta(minutes=5)
_MMAP_THRESHOLD, _ARENA_MAX = -3, -8
_LARGE = 512 * 1024
_HEAPS = 2


def keep_heaps_small() -> None:
    """To be called once, at the start of a process that stays."""
    libc = _glibc()
    if libc is not None:
        libc.mallopt(_ARENA_MAX, _HEAPS)
        libc.mallopt(_MMAP_THRESHOLD, _LARGE)  # what is larger is given back when it is freed


async def give_back() -> None:
    """Give back what is free now."""
    libc = _glibc()
    if libc is not None:
        libc.malloc_trim(0)


def _glibc() -> ctypes.CDLL | None:
    if sys.platform != "linux":
        return None
    libc = ctypes.CDLL(None)
    return libc if hasattr(libc, "mallopt") and hasattr(libc, "malloc_trim") else None
