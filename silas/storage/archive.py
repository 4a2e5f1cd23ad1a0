"""The backup file: an uncompressed tar whose first member lists all others with their checksums.

1. The manifest comes first. It names every file, with its size and SHA-256.
2. Names are those of files that Silas keeps; nothing else is ever unpacked.
3. The headers follow from the manifest, byte for byte. So there is no room for links, devices,
   absolute paths, duplicates, or anything that another reader of tar files would see differently.
4. The length of the whole file follows from the manifest too, and is compared before anything is
   unpacked. Nothing is compressed, so nothing can grow.

A directory is one file inside a backup (`pack_tree`): plain files and directories, nothing else.
"""

import hashlib
import os
import tarfile
from pathlib import Path
from typing import BinaryIO, Literal

from pydantic import Field, ValidationError

from silas.kernel import canonical_bytes, parse_timestamp, strict_loads
from silas.kernel.models import Data
from silas.storage.errors import BackupDamaged, BackupRefused
from silas.storage.files import PRIVATE_DIRECTORY, PRIVATE_FILE
from silas.storage.ports import Progress

_MANIFEST = "manifest.json"
_MAX_MANIFEST = 1 << 20
_BLOCK = tarfile.BLOCKSIZE
_END = bytes(2 * _BLOCK)
_CHUNK = 1 << 20
TREES = ("artifacts", "attachments", "companions", "customer_context", "skills")
"""The directories that a backup holds, each as one tar file."""
_NAME = (
    r"^([A-Za-z0-9_][A-Za-z0-9_.-]{0,60}\.(db|ya?ml)|vault\.json|owner\.pub|audit\.checkpoint"
    rf"|archive/[A-Za-z0-9_][A-Za-z0-9_.-]{{0,60}}\.jsonl|({'|'.join(TREES)})\.tar)$"
)


class ArchivedFile(Data):
    """One file of a backup."""

    name: str = Field(pattern=_NAME)
    size: int = Field(ge=0, strict=True)
    sha256: str = Field(pattern=r"^[0-9a-f]{64}$")


class Manifest(Data):
    """What a backup holds."""

    format: Literal["silas-backup-v1"] = "silas-backup-v1"
    created_at: str
    silas_version: str = Field(max_length=64)
    files: tuple[ArchivedFile, ...]

    def encoded(self) -> bytes:
        return canonical_bytes(self.model_dump(mode="json"))


def describe(folder: Path, name: str, progress: Progress) -> ArchivedFile:
    """The manifest's line for a file of this name in the folder."""
    path = folder / name
    digest, size, total = hashlib.sha256(), 0, path.stat().st_size
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK):
            digest.update(chunk)
            size += len(chunk)
            progress(f"reading {name}", size, total)
    return ArchivedFile(name=name, size=size, sha256=digest.hexdigest())


def write_archive(target: BinaryIO, manifest: Manifest, folder: Path, progress: Progress) -> None:
    """Write the manifest and the files that it names, which lie in `folder`."""
    encoded = manifest.encoded()
    target.write(_header(_MANIFEST, len(encoded), manifest) + _padded(encoded))
    for entry in manifest.files:
        target.write(_header(entry.name, entry.size, manifest))
        done = 0
        with (folder / entry.name).open("rb") as file:
            while chunk := file.read(_CHUNK):
                target.write(chunk)
                done += len(chunk)
                progress(f"writing {entry.name}", done, entry.size)
        target.write(_padding(done))
    target.write(_END)


def read_archive(archive: BinaryIO, folder: Path | None, progress: Progress) -> Manifest:
    """Check the whole archive, and unpack it into `folder` on the way if there is one."""
    manifest = _read_manifest(archive)
    for entry in manifest.files:
        if archive.read(_BLOCK) != _header(entry.name, entry.size, manifest):
            raise BackupRefused(f"{BackupRefused.sentence()} ({entry.name} is not as it is listed)")
        if folder is None:
            _check_content(archive, entry, None, progress)
        else:
            with _new_file(folder / entry.name) as target:
                _check_content(archive, entry, target, progress)
    if archive.read(len(_END) + 1) != _END:
        raise BackupRefused(f"{BackupRefused.sentence()} (it does not end where it should)")
    return manifest


def _read_manifest(archive: BinaryIO) -> Manifest:
    header = archive.read(_BLOCK)
    try:
        info = tarfile.TarInfo.frombuf(header, "utf-8", "strict")
    except (tarfile.HeaderError, UnicodeDecodeError) as error:
        raise BackupRefused from error
    if info.name != _MANIFEST or not 0 < info.size <= _MAX_MANIFEST:
        raise BackupRefused
    encoded = archive.read(info.size)
    manifest = _parse_manifest(encoded)
    padding = archive.read(len(_padding(info.size)))
    if header != _header(_MANIFEST, info.size, manifest) or padding != _padding(info.size):
        raise BackupRefused(f"{BackupRefused.sentence()} (its list of contents is not as written)")
    expected = sum(_BLOCK + len(_padding(e.size)) + e.size for e in manifest.files) + len(_END)
    if os.fstat(archive.fileno()).st_size - archive.tell() != expected:
        raise BackupDamaged(f"{BackupDamaged.sentence()} (its length is not what its list says)")
    return manifest


def _parse_manifest(encoded: bytes) -> Manifest:
    try:
        manifest = Manifest.model_validate(strict_loads(encoded))
        parse_timestamp(manifest.created_at)
        names = {entry.name for entry in manifest.files}
    except (ValidationError, ValueError) as error:
        raise BackupRefused(
            f"{BackupRefused.sentence()} (its list of contents cannot be used)"
        ) from error
    if len(names) != len(manifest.files) or manifest.encoded() != encoded:
        raise BackupRefused(f"{BackupRefused.sentence()} (its list of contents is ambiguous)")
    return manifest


def _check_content(
    archive: BinaryIO, entry: ArchivedFile, target: BinaryIO | None, progress: Progress
) -> None:
    digest, left = hashlib.sha256(), entry.size
    while left:
        chunk = archive.read(min(left, _CHUNK))
        if not chunk:
            break
        digest.update(chunk)
        if target:
            target.write(chunk)
        left -= len(chunk)
        progress(f"checking {entry.name}", entry.size - left, entry.size)
    padding = _padding(entry.size)
    if left or digest.hexdigest() != entry.sha256 or archive.read(len(padding)) != padding:
        raise BackupDamaged(f"{BackupDamaged.sentence()} ({entry.name} is not what was written)")


def _new_file(path: Path) -> BinaryIO:
    path.parent.mkdir(mode=PRIVATE_DIRECTORY, exist_ok=True)
    flags = os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC
    return os.fdopen(os.open(path, flags, PRIVATE_FILE), "wb")


def _header(name: str, size: int, manifest: Manifest) -> bytes:
    info = tarfile.TarInfo(name)
    info.size = size
    info.mode = PRIVATE_FILE
    info.mtime = int(parse_timestamp(manifest.created_at).timestamp())
    return info.tobuf(tarfile.GNU_FORMAT, "utf-8", "strict")


def _padded(content: bytes) -> bytes:
    return content + _padding(len(content))


def _padding(size: int) -> bytes:
    return bytes(-size % _BLOCK)


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
    """The strict rules of `tarfile`, and readable by nobody else.

    Programs stay programs: the digest of a skill says which of its files are.
    """
    if member.type not in _KINDS:
        raise tarfile.SpecialFileError(member)
    checked = tarfile.data_filter(member, destination)
    program = (checked.mode or 0) & 0o100
    return checked.replace(mode=PRIVATE_DIRECTORY if member.isdir() else PRIVATE_FILE | program)
