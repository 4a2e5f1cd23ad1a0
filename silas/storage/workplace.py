"""A place for work that is not finished: private, beside its target, gone when it fails."""

import errno
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from silas.kernel import SilasError
from silas.storage.errors import DiskFull


@contextmanager
def workplace_beside(target: Path, *, failure: type[SilasError]) -> Iterator[Path]:
    """A private directory on the same disk as the target; a failing disk becomes our error."""
    try:
        folder = Path(tempfile.mkdtemp(".partial", f".{target.name}.", target.parent))
        try:
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)
    except OSError as error:
        kind = DiskFull if error.errno in {errno.ENOSPC, errno.EDQUOT} else failure
        raise kind(f"{target}: {kind.sentence()} ({error.strerror})") from error
