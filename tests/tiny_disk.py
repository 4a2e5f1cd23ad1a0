"""A disk of a few hundred kilobytes, to see what happens when it is full."""

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest


@contextmanager
def tiny_disk(place: Path, *, kilobytes: int, read_only: bool = False) -> Iterator[Path]:
    """Mount a tmpfs of that size at `place`; skips the test where that cannot be done."""
    place.mkdir(exist_ok=True)
    options = f"size={kilobytes}k" + (",ro" if read_only else "")
    if os.geteuid() != 0:
        pytest.skip("a tiny disk needs root: run the tests with sudo")
    mount = ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(place)]
    if subprocess.run(mount, capture_output=True, check=False).returncode != 0:
        pytest.skip("a tiny disk needs the right to mount: run the tests in a privileged container")
    try:
        yield place
    finally:
        subprocess.run(["umount", "-l", str(place)], check=True)


def make_read_only(place: Path) -> None:
    """Remount the disk read-only."""
    subprocess.run(["mount", "-o", "remount,ro", str(place)], check=True)


def leave(place: Path, *, kilobytes: int) -> None:
    """Make the disk so small that only that much is free."""
    now = os.statvfs(place)
    size = (now.f_blocks - now.f_bfree) * now.f_frsize // 1024 + kilobytes
    resized = ["mount", "-o", f"remount,size={size}k", str(place)]
    subprocess.run(resized, check=True)


def fill(place: Path, *, kilobytes: int = 1 << 30) -> Path:
    """Use up that much space, or all that is left; returns the file that takes it."""
    ballast = place / "ballast"
    with ballast.open("wb", buffering=0) as file:
        try:
            while kilobytes > 0 and file.write(b"\0" * 1024) == 1024:
                kilobytes -= 1
        except OSError:
            pass
    return ballast
