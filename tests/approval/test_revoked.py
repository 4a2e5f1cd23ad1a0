"""What was ended stays ended, by the vault: rows and old backups do not bring it back."""

import threading
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest

from silas.approval.errors import DeviceUnknown
from silas.approval.keys import EVERYTHING, EndedNames, RevokedList
from silas.kernel import format_timestamp
from silas.testing import FakeClock, MemoryVault

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
MOMENT = timedelta(microseconds=1)


def ended_in(vault: MemoryVault, ref: str = "ended") -> EndedNames:
    return EndedNames(vault, ref, FakeClock(NOON))


class SlowVault(MemoryVault):
    """Whoever writes first waits for another writer, as long as that one may need."""

    def __init__(self) -> None:
        super().__init__()
        self.writing = threading.Event()
        self.other = threading.Thread()

    def set(self, ref_id: str, value: bytes) -> None:
        if not self.writing.is_set():
            self.writing.set()
            self.other.join(0.2)
        super().set(ref_id, value)

    def both(self, end: Callable[[str], None]) -> None:
        """End `one` and `another` at once, each in a thread of its own."""

        def another() -> None:
            self.writing.wait(5)
            end("another")

        self.other = threading.Thread(target=another)
        self.other.start()
        end("one")
        self.other.join(5)


def test_two_that_end_something_at_once_both_do() -> None:
    """Each look has a list of its own, and ends things in a thread."""
    vault = SlowVault()
    vault.both(lambda name: ended_in(vault).end([name], NOON))
    assert ended_in(vault).covers("one", NOON)
    assert ended_in(vault).covers("another", NOON)


def test_two_that_are_revoked_at_once_both_are() -> None:
    vault = SlowVault()
    vault.both(lambda name: RevokedList(vault, "gone", "things").add(name))
    assert RevokedList(vault, "gone", "things").ids() == {"one", "another"}


class TestEndedNames:
    def test_nothing_has_ended_at_first(self) -> None:
        assert not ended_in(MemoryVault()).covers("one", NOON)

    def test_what_was_approved_up_to_the_moment_has_ended(self) -> None:
        ended = ended_in(MemoryVault())
        ended.end(["one"], NOON)
        assert ended.covers("one", NOON - MOMENT)
        assert ended.covers("one", NOON)
        assert not ended.covers("one", NOON + MOMENT)
        assert not ended.covers("another", NOON)
        ended.end([EVERYTHING], NOON)
        assert ended.covers("another", NOON)

    def test_it_is_never_taken_back(self) -> None:
        ended = ended_in(MemoryVault())
        ended.end(["one"], NOON)
        ended.end(["one"], NOON - timedelta(days=1))
        assert ended.covers("one", NOON)
        ended.end(["one"], NOON + timedelta(days=1))
        assert ended.covers("one", NOON + timedelta(days=1))

    def test_only_what_has_run_out_by_itself_is_forgotten(self) -> None:
        ended = ended_in(MemoryVault())
        ended.end(["old"], NOON - timedelta(days=201))
        ended.end(["new"], NOON - timedelta(days=199))
        assert ended.until("old") is None
        assert ended.until("new") is not None

    def test_what_an_older_version_has_ended_stays_ended(self) -> None:
        vault = MemoryVault()
        old = f'{{"format":"silas-ended-until-v1","until":"{format_timestamp(NOON)}"}}'
        vault.set("ended", old.encode())
        ended_in(vault).end(["one"], NOON + MOMENT)
        assert ended_in(vault).covers("another", NOON)
        assert not ended_in(vault).covers("another", NOON + MOMENT)
        assert not ended_in(vault, "elsewhere").covers("another", NOON)

    @pytest.mark.parametrize(
        "stored",
        [
            b"",
            b"no JSON",
            b"[]",
            b"{}",
            b'{"format":"silas-ended-until-v1"}',
            b'{"format":"silas-ended-until-v1","until":7}',
            b'{"format":"silas-ended-until-v1","until":"noon"}',
            b'{"format":"silas-ended-until-v2","until":"2020-01-01T00:00:00.000000Z"}',
            b'{"format":"silas-ended-by-name-v1","until":[]}',
            b'{"format":"silas-ended-by-name-v1","until":{"one":7}}',
        ],
    )
    def test_if_it_cannot_be_read_everything_has_ended(self, stored: bytes) -> None:
        vault = MemoryVault()
        vault.set("ended", stored)
        later = NOON + timedelta(days=365_000)
        assert ended_in(vault).covers("one", later)
        ended_in(vault).end(["one"], NOON)
        assert ended_in(vault).covers("one", later), "to end more does not repair it"


class TestRevokedList:
    def test_names_are_added_and_stay(self) -> None:
        vault = MemoryVault()
        gone = RevokedList(vault, "gone", "things")
        assert gone.ids() == frozenset()
        for name in ("b", "a", "b"):
            gone.add(name)
        assert gone.ids() == {"a", "b"}
        assert vault.get("gone") == b'{"format":"silas-revoked-things-v1","things":["a","b"]}'

    @pytest.mark.parametrize(
        "stored",
        [
            b"",
            b"no JSON",
            b"[]",
            b"{}",
            b'{"format":"silas-revoked-devices-v1"}',
            b'{"format":"silas-revoked-devices-v1","devices":7}',
            b'{"format":"silas-revoked-things-v1","things":["a"]}',
        ],
    )
    def test_a_list_that_cannot_be_read_is_no_empty_list(self, stored: bytes) -> None:
        vault = MemoryVault()
        vault.set("gone", stored)
        with pytest.raises(DeviceUnknown) as refused:
            RevokedList(vault, "gone", "devices").ids()
        assert refused.value.message == (
            "The list of revoked devices cannot be read. None of them is trusted."
        )
