"""A directory as one file inside a backup, and back: plain files and directories, nothing else."""

import tarfile
from pathlib import Path

from silas.storage.errors import BackupRefused
from silas.storage.files import PRIVATE_DIRECTORY, PRIVATE_FILE

_KINDS = (tarfile.REGTYPE, tarfile.DIRTYPE)


def pack_tree(directory: Path, target: Path) -> None:
    """Write all regular files below `directory` to `target`; a link or a device is left out."""
    with tarfile.open(target, "x", format=tarfile.PAX_FORMAT) as archive:
        for path in sorted(directory.rglob("*")):
            # It may vanish meanwhile: whoever works here also tidies up.
            if path.is_symlink() or not path.exists():
                continue
            archive.add(path, path.relative_to(directory).as_posix(), False, filter=_plain)


def unpack_tree(archive: Path, directory: Path) -> None:
    """Put the files back below `directory`; raises `BackupRefused` if one would leave it."""
    directory.mkdir(mode=PRIVATE_DIRECTORY)
    try:
        with tarfile.open(archive) as members:
            members.extractall(directory, filter=_private)  # noqa: S202 - `_private` checks each
    except tarfile.TarError as error:
        raise BackupRefused(f"{BackupRefused.sentence()} ({archive.name}: {error})") from error


def _plain(member: tarfile.TarInfo) -> tarfile.TarInfo | None:
    if member.type not in _KINDS:
        return None
    member.uid = member.gid = 0
    member.uname = member.gname = ""
    return member


def _private(member: tarfile.TarInfo, destination: str) -> tarfile.TarInfo | None:
    """The strict rules of `tarfile`, and readable by nobody else."""
    if member.type not in _KINDS:
        raise tarfile.SpecialFileError(member)
    checked = tarfile.data_filter(member, destination)
    return checked.replace(mode=PRIVATE_DIRECTORY if member.isdir() else PRIVATE_FILE)
