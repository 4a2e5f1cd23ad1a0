"""What was ended stays ended, by the vault: rows and old backups do not bring it back."""

from datetime import UTC, datetime, timedelta

import pytest

from silas.approval.errors import DeviceUnknown
from silas.approval.keys import EndedUntil, RevokedList
from silas.kernel import format_timestamp
from silas.testing import MemoryVault

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
MOMENT = timedelta(microseconds=1)


class TestEndedUntil:
    def test_nothing_has_ended_at_first(self) -> None:
        assert not EndedUntil(MemoryVault(), "ended").covers(NOON)

    def test_what_was_approved_up_to_the_moment_has_ended(self) -> None:
        ended = EndedUntil(MemoryVault(), "ended")
        ended.end(NOON)
        assert ended.covers(NOON - MOMENT)
        assert ended.covers(NOON)
        assert not ended.covers(NOON + MOMENT)

    def test_it_is_never_taken_back(self) -> None:
        ended = EndedUntil(MemoryVault(), "ended")
        ended.end(NOON)
        ended.end(NOON - timedelta(days=1))
        assert ended.covers(NOON)
        ended.end(NOON + timedelta(days=1))
        assert ended.covers(NOON + timedelta(days=1))

    def test_it_is_kept_in_the_vault_under_its_name(self) -> None:
        vault = MemoryVault()
        EndedUntil(vault, "ended").end(NOON)
        said = f'{{"format":"silas-ended-until-v1","until":"{format_timestamp(NOON)}"}}'
        assert vault.get("ended") == said.encode()
        assert EndedUntil(vault, "ended").covers(NOON)
        assert not EndedUntil(vault, "another").covers(NOON)

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
        ],
    )
    def test_if_it_cannot_be_read_everything_has_ended(self, stored: bytes) -> None:
        vault = MemoryVault()
        vault.set("ended", stored)
        assert EndedUntil(vault, "ended").covers(NOON + timedelta(days=365_000))


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
