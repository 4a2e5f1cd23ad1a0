"""Whoever changes one byte of a vault file is found out, with or without a fitting digest."""

import base64
import copy
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from silas.secrets import FileVault, VaultTampered, WrongKey, open_vault
from silas.secrets.documents import MAX_DOCUMENT_BYTES, read_document, write_document
from silas.secrets.vault import KeyringPointer
from silas.storage.errors import DatabaseFromTheFuture
from tests.secrets.files import PASSPHRASE, forge, make_vault, reopen

FLIPS = [*(1 << bit for bit in range(8)), 0xFF]


@pytest.fixture
def stored(vault_path: Path) -> bytes:
    vault = make_vault(vault_path)
    vault.set("mail/password", b"hunter2")
    vault.set("other", b"value")
    return vault_path.read_bytes()


def flips(path: Path, stored: bytes) -> Iterator[int]:
    """Change the file in place, one byte at a time; it is whole again in the end."""
    with path.open("r+b", buffering=0) as file:
        for position, byte in enumerate(stored):
            for flip in FLIPS:
                os.pwrite(file.fileno(), bytes([byte ^ flip]), position)
                yield position
            os.pwrite(file.fileno(), bytes([byte]), position)
    assert path.read_bytes() == stored


def open_fresh(path: Path) -> FileVault:
    vault = open_vault(path, environ={}, passphrase=PASSPHRASE)
    assert isinstance(vault, FileVault)
    return vault


def test_every_flipped_bit_is_damage_and_never_a_wrong_passphrase(
    vault_path: Path, stored: bytes
) -> None:
    for _ in flips(vault_path, stored):
        with pytest.raises(VaultTampered):
            open_fresh(vault_path).get("other")
    assert open_fresh(vault_path).get("other") == b"value"


def test_every_flipped_bit_of_a_keyring_pointer_is_damage(vault_path: Path) -> None:
    write_document(vault_path, KeyringPointer(id="ab" * 16).model_dump(mode="json"))
    for _ in flips(vault_path, vault_path.read_bytes()):
        with pytest.raises(VaultTampered):
            open_vault(vault_path, environ={})


def test_every_truncation_is_damage(vault_path: Path, stored: bytes) -> None:
    for length in range(len(stored)):
        vault_path.write_bytes(stored[:length])
        with pytest.raises(VaultTampered):
            open_fresh(vault_path)


@pytest.mark.parametrize("addition", [b"\n", b" ", b"\0", b"{}"])
def test_additions_are_damage(vault_path: Path, stored: bytes, addition: bytes) -> None:
    for content in (stored + addition, addition + stored):
        vault_path.write_bytes(content)
        with pytest.raises(VaultTampered):
            open_fresh(vault_path)


@pytest.mark.parametrize(
    "content", [b"", b"[]\n", b"null\n", b"{}\n", b'{"digest":"x"}\n', b"\xff"]
)
def test_what_is_no_vault_is_damage(vault_path: Path, content: bytes) -> None:
    vault_path.write_bytes(content)
    with pytest.raises(VaultTampered):
        open_fresh(vault_path)


def test_a_file_without_end_is_not_read_to_its_end(vault_path: Path) -> None:
    with vault_path.open("wb") as file:
        file.truncate(MAX_DOCUMENT_BYTES + 1)
    with pytest.raises(VaultTampered, match="too large"):
        open_fresh(vault_path)


def test_a_forged_header_opens_nothing(vault_path: Path, stored: bytes) -> None:
    """With a digest that fits, the seal holds.

    Salt, parameters and check value make the key: a change there looks like another passphrase,
    because nothing can tell the two apart. Every other change is named as one.
    """
    content = read_document(vault_path)
    makes_the_key = {("kdf", name) for name in ("n", "r", "p", "salt")} | {("key_check",)}
    seen = set()
    for place, changed in _changes(content):
        forge(vault_path, changed)
        expected = (VaultTampered, WrongKey) if place in makes_the_key else VaultTampered
        with pytest.raises(expected):
            reopen(vault_path).get("other")
        seen.add(place)
    assert {
        ("ciphertext",),
        ("unlock", "path"),
        ("cipher", "nonce"),
        ("id",),
    } | makes_the_key < seen


def _changes(content: dict[str, Any]) -> Iterator[tuple[tuple[str, ...], dict[str, Any]]]:
    """Every field with each of its characters exchanged, a field more and a field less."""
    for place in _places(content):
        value = _at(content, place)
        for other in _variants(value):
            if other != value:
                yield place, _with(content, place, other)
        yield (*place[:-1], "extra"), _with(content, (*place[:-1], "extra"), value)
        yield (*place, "missing"), _with(content, place, None, remove=True)


def _places(content: dict[str, Any], above: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    for key, value in content.items():
        if isinstance(value, dict):
            yield from _places(value, (*above, key))
        else:
            yield (*above, key)


def _variants(value: Any) -> Iterator[Any]:
    if isinstance(value, int):
        yield from (0, 1, value + 1, value * 2, value // 2, -value, str(value), 2**40)
    elif value is None:
        yield from ("", "/etc/passwd", 1)
    else:
        yield from (
            value[:index] + ("0" if char != "0" else "1") + value[index + 1 :]
            for index, char in enumerate(value)
        )
        yield from ("", value + "00", value[:-2], value.upper() + "x", None, 7, [value])


def _at(content: dict[str, Any], place: tuple[str, ...]) -> Any:
    for key in place:
        content = content[key]
    return content


def _with(
    content: dict[str, Any], place: tuple[str, ...], value: Any, *, remove: bool = False
) -> dict[str, Any]:
    changed = copy.deepcopy(content)
    target = _at(changed, place[:-1])
    if remove:
        del target[place[-1]]
    else:
        target[place[-1]] = value
    return changed


def test_every_forged_bit_of_the_ciphertext_breaks_the_seal(
    vault_path: Path, stored: bytes
) -> None:
    content = read_document(vault_path)
    sealed = base64.b64decode(content["ciphertext"])
    vault = reopen(vault_path)
    assert vault.list()
    for position in range(len(sealed)):
        for flip in FLIPS:
            changed = bytearray(sealed)
            changed[position] ^= flip
            forge(vault_path, {**content, "ciphertext": base64.b64encode(changed).decode()})
            with pytest.raises(VaultTampered, match="seal"):
                vault.get("other")


def test_parts_of_two_versions_do_not_fit_together(vault_path: Path, stored: bytes) -> None:
    old = read_document(vault_path)
    reopen(vault_path).set("other", b"new value")
    new = read_document(vault_path)
    for one, other in ((old, new), (new, old)):
        forge(vault_path, {**one, "ciphertext": other["ciphertext"]})
        with pytest.raises(VaultTampered):
            reopen(vault_path).list()
        forge(vault_path, {**one, "cipher": other["cipher"]})
        with pytest.raises(VaultTampered):
            reopen(vault_path).list()


@pytest.mark.parametrize(
    "kdf",
    [{"n": 2**40}, {"n": 2**20, "r": 32}, {"r": 2**20}, {"p": 2**20}, {"n": 17}, {"name": "none"}],
    ids=str,
)
def test_a_hostile_file_cannot_exhaust_the_machine(
    vault_path: Path, stored: bytes, kdf: dict[str, Any]
) -> None:
    content = read_document(vault_path)
    forge(vault_path, {**content, "kdf": {**content["kdf"], **kdf}})
    with pytest.raises(VaultTampered, match="kdf"):
        reopen(vault_path).list()


def test_a_vault_of_a_later_silas_is_left_alone(vault_path: Path, stored: bytes) -> None:
    forge(vault_path, {"format": "silas-vault-v2", "anything": [1, 2]})
    before = vault_path.read_bytes()
    with pytest.raises(DatabaseFromTheFuture):
        open_fresh(vault_path)
    assert vault_path.read_bytes() == before
    forge(vault_path, {"format": "something-else"})
    with pytest.raises(VaultTampered):
        open_fresh(vault_path)
