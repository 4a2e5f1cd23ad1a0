"""The encrypted vault file: what it keeps, what it refuses, what it never shows."""

import base64
import gc
import os
import stat
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from silas.kernel import SecretsError
from silas.secrets import (
    MAX_VALUE_BYTES,
    FileVault,
    InvalidSecret,
    VaultLocked,
    VaultMissing,
    VaultUnreachable,
    WrongKey,
    documents,
    new_passphrase,
)
from silas.secrets.documents import read_document
from silas.secrets.file_vault import SCRYPT_N
from silas.secrets.key_material import Unlocking, typed_passphrase
from silas.storage.errors import DatabaseReadOnly, DiskFull
from tests.secrets.files import FAST_N, PASSPHRASE, VAULT_ID, files_below, make_vault, reopen
from tests.tiny_disk import fill, make_read_only, tiny_disk

SECRET = b"sk-live-0123456789-the-secret-value"


def test_what_was_stored_is_there_after_opening_again(vault_path: Path) -> None:
    vault = make_vault(vault_path)
    vault.set("mail/password", SECRET)
    vault.set("ref_01jc.bin-key", bytes(range(256)))
    again = reopen(vault_path)
    assert again.list() == ["mail/password", "ref_01jc.bin-key"]
    assert again.get("mail/password") == SECRET
    assert again.get("ref_01jc.bin-key") == bytes(range(256))
    assert again.get("another") is None


def test_a_secret_is_replaced_and_removed(vault_path: Path) -> None:
    vault = make_vault(vault_path)
    vault.set("a", b"one")
    vault.set("a", b"two")
    assert vault.get("a") == b"two"
    assert vault.delete("a") is True
    assert vault.delete("a") is False
    assert vault.list() == []


def test_the_file_is_for_its_owner_alone(vault_path: Path) -> None:
    make_vault(vault_path).set("a", SECRET)
    for path in files_below(vault_path.parent):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600, path


def test_nothing_readable_reaches_the_disk(vault_path: Path) -> None:
    vault = make_vault(vault_path)
    vault.set("mail/password", SECRET)
    traces = [SECRET, SECRET.hex().encode(), base64.b64encode(SECRET), PASSPHRASE.encode()]
    traces += [b"mail/password", base64.b64encode(b"mail/password")]
    for path in files_below(vault_path.parent):
        content = path.read_bytes()
        assert [trace for trace in traces if trace in content] == [], path


def test_every_write_has_a_new_nonce(vault_path: Path) -> None:
    vault = make_vault(vault_path)
    nonces = set()
    for number in range(20):
        vault.set("a", b"%d" % (number % 2))
        nonces.add(read_document(vault_path)["cipher"]["nonce"])
    assert len(nonces) == 20


def test_nothing_is_written_when_nothing_changes(vault_path: Path) -> None:
    vault = make_vault(vault_path)
    vault.set("a", SECRET)
    before = vault_path.read_bytes()
    vault.set("a", SECRET)
    vault.delete("b")
    assert vault_path.read_bytes() == before


def test_a_wrong_passphrase_is_named_and_changes_nothing(vault_path: Path) -> None:
    make_vault(vault_path).set("a", SECRET)
    before = vault_path.read_bytes()
    wrong = reopen(vault_path, "wrong horse")
    for attempt in (lambda: wrong.get("a"), lambda: wrong.set("a", b"x"), wrong.list):
        with pytest.raises(WrongKey, match="does not open"):
            attempt()
    assert vault_path.read_bytes() == before


def test_the_same_passphrase_in_another_unicode_form_opens_it(vault_path: Path) -> None:
    make_vault(vault_path, "schöne Grüße").set("a", SECRET)
    assert reopen(vault_path, "scho\u0308ne Gru\u0308ße").get("a") == SECRET


def test_the_key_is_sought_once(vault_path: Path) -> None:
    make_vault(vault_path).set("a", SECRET)
    questions: list[str] = []
    everybody_wants_it = threading.Event()

    def prompt(question: str) -> str:
        questions.append(question)
        everybody_wants_it.wait()
        return PASSPHRASE

    vault = FileVault(vault_path, unlocking=Unlocking(environ={}, prompt=prompt))
    assert questions == []
    threads = [threading.Thread(target=vault.get, args=("a",)) for _ in range(4)]
    for thread in threads:
        thread.start()
    everybody_wants_it.set()
    for thread in threads:
        thread.join()
    vault.set("b", b"x")
    assert len(questions) == 1


def test_the_passphrase_is_not_kept(vault_path: Path) -> None:
    created, opened = make_vault(vault_path), reopen(vault_path)
    assert PASSPHRASE in _texts(opened), "until it is needed"
    opened.list()
    for vault in (created, opened):
        assert {PASSPHRASE, PASSPHRASE.encode()}.isdisjoint(_texts(vault))


def _texts(root: object) -> set[str | bytes]:
    return {item for item in _reachable(root) if isinstance(item, str | bytes)}


def _reachable(root: object) -> Iterator[Any]:
    """Every plain object that hangs on this one; functions and classes lead to the whole world."""
    seen, todo = set(), [vars(root)]
    while todo:
        item = todo.pop()
        if id(item) in seen or callable(item):
            continue
        seen.add(id(item))
        yield item
        todo += gc.get_referents(item)


def test_one_instance_sees_what_another_wrote(vault_path: Path) -> None:
    one, other = make_vault(vault_path), reopen(vault_path)
    one.set("a", b"1")
    other.set("b", b"2")
    assert one.list() == other.list() == ["a", "b"]


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """Each time that a vault file is opened, read and checked."""
    found: list[Path] = []
    read = documents.read_regular_file

    def count(path: Path, *, limit: int, flags: int = 0) -> tuple[bytes, os.stat_result]:
        found.append(path)
        return read(path, limit=limit, flags=flags)

    monkeypatch.setattr(documents, "read_regular_file", count)
    return found


@pytest.fixture
def settled(monkeypatch: pytest.MonkeyPatch) -> None:
    """What was written a moment ago counts as written long ago."""
    monkeypatch.setattr(documents, "_SETTLED_NANOSECONDS", -(10**9))


@pytest.mark.usefixtures("settled")
def test_a_file_that_is_as_it_was_is_read_once(vault_path: Path, reads: list[Path]) -> None:
    make_vault(vault_path).set("a", SECRET)
    vault = reopen(vault_path)
    reads.clear()
    assert [vault.get("a") for _ in range(20)] == [SECRET] * 20
    assert len(reads) == 1
    assert SECRET not in _texts(vault), "what is remembered is sealed"


def test_of_two_writes_in_one_moment_the_second_is_noticed(vault_path: Path) -> None:
    make_vault(vault_path).set("revoked", b"[]")
    reading, writing = reopen(vault_path), reopen(vault_path)
    for number in range(100, 200):
        writing.set("revoked", str(number).encode())  # always of the same length
        assert reading.get("revoked") == str(number).encode()


@pytest.mark.usefixtures("settled")
def test_what_another_process_takes_away_is_noticed_at_once(vault_path: Path) -> None:
    make_vault(vault_path).set("device", SECRET)
    vault = reopen(vault_path)
    assert vault.get("device") == SECRET
    script = "import sys, pathlib; from tests.secrets.files import reopen; "
    script += "reopen(pathlib.Path(sys.argv[1])).delete('device')"
    subprocess.run([sys.executable, "-c", script, str(vault_path)], check=True)
    assert vault.get("device") is None


@pytest.mark.usefixtures("settled")
def test_a_change_in_place_that_keeps_size_and_time_is_noticed(vault_path: Path) -> None:
    make_vault(vault_path).set("a", SECRET)
    vault = reopen(vault_path)
    assert vault.get("a") == SECRET
    state, raw = vault_path.stat(), bytearray(vault_path.read_bytes())
    raw[len(raw) // 2] ^= 1
    again = vault_path.with_name("copy")
    again.write_bytes(raw)
    os.utime(again, ns=(state.st_atime_ns, state.st_mtime_ns))
    again.replace(vault_path)
    with pytest.raises(SecretsError):
        vault.get("a")


def test_a_new_passphrase_replaces_the_old_one(vault_path: Path) -> None:
    vault = make_vault(vault_path)
    vault.set("a", SECRET)
    running = reopen(vault_path)
    assert running.get("a") == SECRET
    old = read_document(vault_path)
    vault.change_key(new_passphrase("a better passphrase"), unsafe_scrypt_n_for_tests=FAST_N)
    new = read_document(vault_path)
    assert vault.get("a") == SECRET
    assert reopen(vault_path, "a better passphrase").get("a") == SECRET
    with pytest.raises(WrongKey):
        reopen(vault_path).get("a")
    with pytest.raises(VaultLocked, match="Start it again"):
        running.get("a")
    assert old["id"] == new["id"]
    assert old["kdf"]["salt"] != new["kdf"]["salt"]
    assert old["ciphertext"] != new["ciphertext"]


def test_a_wrong_passphrase_changes_no_passphrase(vault_path: Path) -> None:
    make_vault(vault_path).set("a", SECRET)
    with pytest.raises(WrongKey):
        reopen(vault_path, "wrong horse").change_key(
            new_passphrase("a better passphrase"), unsafe_scrypt_n_for_tests=FAST_N
        )
    assert reopen(vault_path).get("a") == SECRET


def test_a_vault_is_never_made_over_another(vault_path: Path) -> None:
    make_vault(vault_path).set("a", SECRET)
    with pytest.raises(SecretsError, match="already a vault"):
        make_vault(vault_path, "another passphrase")
    assert reopen(vault_path).get("a") == SECRET


def test_of_many_who_make_a_vault_at_once_one_succeeds(tmp_path: Path) -> None:
    for number in range(20):
        path = tmp_path / f"{number}.json"
        start = threading.Barrier(4)
        made: list[str] = []

        def make(
            name: str, path: Path = path, start: threading.Barrier = start, made: list[str] = made
        ) -> None:
            start.wait()
            try:
                make_vault(path, name).set("maker", name.encode())
                made.append(name)
            except SecretsError:
                pass

        threads = [threading.Thread(target=make, args=(f"passphrase {each}",)) for each in "abcd"]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(made) == 1
        assert reopen(path, made[0]).get("maker") == made[0].encode()


def test_the_real_parameters_are_slow_ones(vault_path: Path) -> None:
    vault = FileVault.create(vault_path, typed_passphrase(PASSPHRASE), vault_id=VAULT_ID)
    kdf = read_document(vault_path)["kdf"]
    assert (kdf["name"], kdf["n"], kdf["r"], kdf["p"]) == ("scrypt", 2**17, 8, 1)
    assert kdf["n"] == SCRYPT_N
    assert vault.describe().warnings == ()
    assert reopen(vault_path).list() == []


def test_it_describes_itself_while_locked(vault_path: Path) -> None:
    make_vault(vault_path)
    description = FileVault(vault_path, unlocking=Unlocking(environ={})).describe()
    assert description.kind == "file"
    assert description.where == str(vault_path)
    assert description.unlocked_by == "passphrase"
    assert "weak parameters" in description.warnings[0]


def test_it_warns_when_others_may_read_the_file(vault_path: Path) -> None:
    vault = make_vault(vault_path)
    vault_path.chmod(0o640)
    assert any("chmod 600" in warning for warning in vault.describe().warnings)


@pytest.mark.parametrize("name", ["", "a b", "ä", "a\n", "a:b", "x" * 201, "a\0", "../a?", "٣"])
def test_invalid_names_are_refused(vault_path: Path, name: str) -> None:
    vault = make_vault(vault_path)
    for attempt in (lambda: vault.get(name), lambda: vault.set(name, b"x")):
        with pytest.raises(InvalidSecret):
            attempt()
    with pytest.raises(InvalidSecret):
        vault.delete(name)


@pytest.mark.parametrize("name", ["a", "x" * 200, "silas/owner-keys", "ref_01JC", "-", "a.b_c/d-9"])
def test_valid_names_are_taken(vault_path: Path, name: str) -> None:
    vault = make_vault(vault_path)
    vault.set(name, b"x")
    assert vault.list() == [name]


def test_values_are_neither_empty_nor_huge(vault_path: Path) -> None:
    vault = make_vault(vault_path)
    vault.set("a", b"x" * MAX_VALUE_BYTES)
    for value in (b"", b"x" * (MAX_VALUE_BYTES + 1)):
        with pytest.raises(InvalidSecret):
            vault.set("a", value)
    assert vault.get("a") == b"x" * MAX_VALUE_BYTES


def test_a_full_vault_says_so_and_stays_readable(
    vault_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("silas.secrets.documents.MAX_DOCUMENT_BYTES", 100_000)
    vault = make_vault(vault_path)
    vault.set("a", b"x" * 50_000)
    with pytest.raises(InvalidSecret, match="full"):
        vault.set("b", b"x" * 50_000)
    assert vault.list() == ["a"]


def test_a_missing_vault_is_not_an_empty_one(vault_path: Path) -> None:
    with pytest.raises(VaultMissing, match="silas init"):
        reopen(vault_path).list()


def test_what_is_not_a_file_is_refused(vault_path: Path, tmp_path: Path) -> None:
    vault_path.mkdir()
    with pytest.raises(VaultUnreachable):
        reopen(vault_path).list()
    vault_path.rmdir()
    os.mkfifo(vault_path)
    with pytest.raises(VaultUnreachable):
        reopen(vault_path).list()
    vault_path.unlink()
    make_vault(tmp_path / "elsewhere.json")
    vault_path.symlink_to(tmp_path / "elsewhere.json")
    with pytest.raises(VaultUnreachable):
        reopen(vault_path).list()


def test_a_full_disk_loses_nothing(tmp_path: Path) -> None:
    with tiny_disk(tmp_path / "disk", kilobytes=64) as disk:
        vault = make_vault(disk / "vault.json")
        vault.set("a", SECRET)
        ballast = fill(disk)
        with pytest.raises(DiskFull, match=r"vault\.json"):
            vault.set("b", b"x" * 8000)
        assert {path.name for path in files_below(disk)} == {
            "ballast",
            "vault.json",
            "vault.json.lock",
        }
        assert reopen(disk / "vault.json").get("a") == SECRET
        ballast.unlink()
        vault.set("b", b"x" * 8000)
        assert vault.list() == ["a", "b"]


def test_a_read_only_disk_can_be_read(tmp_path: Path) -> None:
    with tiny_disk(tmp_path / "disk", kilobytes=64) as disk:
        make_vault(disk / "vault.json").set("a", SECRET)
        make_read_only(disk)
        vault = reopen(disk / "vault.json")
        assert vault.get("a") == SECRET
        with pytest.raises(DatabaseReadOnly, match=r"vault\.json"):
            vault.set("a", b"x")
        with pytest.raises(DatabaseReadOnly):
            make_vault(disk / "other.json")


def test_leftovers_of_a_killed_writer_are_removed(vault_path: Path) -> None:
    vault = make_vault(vault_path)
    leftover = vault_path.with_name(".vault.json.12345.partial")
    leftover.write_bytes(vault_path.read_bytes())
    vault.set("a", b"x")
    assert not leftover.exists()


def test_writers_at_the_same_time_lose_no_update(vault_path: Path) -> None:
    make_vault(vault_path)
    code = f"""
import sys
from pathlib import Path
from tests.secrets.files import reopen
vault = reopen(Path({str(vault_path)!r}))
print("ready", flush=True)
sys.stdin.readline()
for number in range(25):
    vault.set(f"{{sys.argv[1]}}/{{number}}", sys.argv[1].encode() * 10)
"""
    command = [sys.executable, "-c", code]
    pipe = subprocess.PIPE
    writers = [
        subprocess.Popen([*command, name], stdin=pipe, stdout=pipe, text=True) for name in "abc"
    ]
    for writer in writers:
        assert writer.stdout.readline() == "ready\n"
    for writer in writers:
        writer.stdin.write("\n")
        writer.stdin.flush()
    here = reopen(vault_path)
    threads = [
        threading.Thread(target=here.set, args=(f"thread/{number}", b"x")) for number in range(10)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for writer in writers:
        writer.communicate()
        assert writer.returncode == 0
    expected = {f"{name}/{number}" for name in "abc" for number in range(25)}
    expected |= {f"thread/{number}" for number in range(10)}
    vault = reopen(vault_path)
    assert set(vault.list()) == expected
    assert vault.get("b/24") == b"b" * 10
