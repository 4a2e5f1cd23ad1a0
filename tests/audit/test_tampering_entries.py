"""Entries removed, inserted, reordered, cut off and rewritten: each is found and named."""

import random
from collections.abc import Iterator
from itertools import permutations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from silas.audit import AuditReport, ProblemKind
from silas.audit.models import GENESIS, link
from tests.audit.ledger import Copy, Ledger, make_keys, prepared_copy

ENTRIES = 12
VOUCHED = 8
Entry = tuple[int, str, str]


@pytest.fixture(scope="module")
def untouched(tmp_path_factory: pytest.TempPathFactory) -> Copy:
    """Twelve entries, checkpoints after four and eight."""

    async def fill(ledger: Ledger) -> None:
        for count in (4, 4):
            await ledger.write(count)
            await ledger.log.write_checkpoint()
        await ledger.write(ENTRIES - VOUCHED)

    return prepared_copy(tmp_path_factory.mktemp("log"), fill)


@pytest.fixture
def copy(untouched: Copy) -> Iterator[Copy]:
    with untouched.tampering():
        yield untouched


def found(report: AuditReport) -> list[tuple[ProblemKind, int]]:
    return [(problem.kind, problem.seq) for problem in report.problems]


def kinds(report: AuditReport) -> set[ProblemKind]:
    return {problem.kind for problem in report.problems}


def renumbered(entries: list[Entry]) -> list[Entry]:
    """The same rows, one behind the other from 1 on; their own numbers stay in their bodies."""
    return [(place, body, digest) for place, (_, body, digest) in enumerate(entries, start=1)]


def relinked(entries: list[Entry], *, start: int = 0) -> list[Entry]:
    """The hashes computed anew from this place on, as a clever forger would."""
    result = list(entries[:start])
    previous = result[-1][2] if result else GENESIS
    for seq, body, _ in entries[start:]:
        previous = link(previous, body)
        result.append((seq, body, previous))
    return result


def set_end(copy: Copy, entries: list[Entry]) -> None:
    seq, _, digest = entries[-1]
    copy.run("UPDATE audit_state SET head_seq = ?, head_hash = ?", seq, digest)


FORGED = '{"at":"2026-01-01T12:00:00.000000Z","data":{},"entry_id":"aud_x","event":"f","seq":%d}'


class TestRemoved:
    @pytest.mark.parametrize("seq", range(1, ENTRIES))
    def test_one(self, copy: Copy, seq: int) -> None:
        copy.run("DELETE FROM audit_log WHERE seq = ?", seq)
        report = copy.examine()
        assert (ProblemKind.REMOVED, seq) in found(report)
        assert report.problems[0].sentence == f"Entry {seq} is missing."
        assert kinds(report) <= {ProblemKind.REMOVED, ProblemKind.CHECKPOINT_MISMATCH}

    @pytest.mark.parametrize("seq", range(1, ENTRIES))
    def test_one_and_the_rest_moved_up(self, copy: Copy, seq: int) -> None:
        entries = copy.entries()
        copy.replace_entries(renumbered(entries[: seq - 1] + entries[seq:]))
        report = copy.examine()
        assert (ProblemKind.REMOVED, seq) in found(report)
        assert kinds(report) <= {ProblemKind.REMOVED, ProblemKind.CHECKPOINT_MISMATCH}

    @pytest.mark.parametrize("seq", range(1, ENTRIES))
    def test_one_and_the_hashes_computed_anew(self, copy: Copy, seq: int) -> None:
        entries = copy.entries()
        rest = relinked(renumbered(entries[: seq - 1] + entries[seq:]), start=seq - 1)
        copy.replace_entries(rest)
        set_end(copy, rest)
        report = copy.examine()
        assert (ProblemKind.REMOVED, seq) in found(report)

    @pytest.mark.parametrize(("first", "last"), [(1, 2), (3, 6), (1, 11), (9, 11), (5, 8)])
    def test_several(self, copy: Copy, first: int, last: int) -> None:
        copy.run("DELETE FROM audit_log WHERE seq BETWEEN ? AND ?", first, last)
        report = copy.examine()
        assert report.problems[0].kind is ProblemKind.REMOVED
        assert report.problems[0].sentence == f"Entries {first} to {last} are missing."

    def test_in_two_places(self, copy: Copy) -> None:
        copy.run("DELETE FROM audit_log WHERE seq IN (2, 7)")
        removed = [seq for kind, seq in found(copy.examine()) if kind is ProblemKind.REMOVED]
        assert removed == [2, 7]

    def test_everything(self, copy: Copy) -> None:
        copy.run("DELETE FROM audit_log")
        report = copy.examine()
        assert kinds(report) == {ProblemKind.TRUNCATED}
        assert report.problems[0].sentence.startswith("Entries 1 to ")

    def test_as_if_it_had_been_archived(self, copy: Copy) -> None:
        """A checkpoint is no permission to let the log start there."""
        copy.run("DELETE FROM audit_log WHERE seq <= 4")
        copy.run(
            "UPDATE audit_state SET base_seq = 4, base_hash ="
            " (SELECT json_extract(body, '$.hash') FROM audit_checkpoints WHERE seq = 4)"
        )
        report = copy.examine()
        assert report.problems[0].kind is ProblemKind.BASE_UNPROVEN
        assert (ProblemKind.REMOVED, 1) in found(report)


class TestTruncated:
    @pytest.mark.parametrize("kept", range(ENTRIES))
    def test_at_the_end(self, copy: Copy, kept: int) -> None:
        copy.run("DELETE FROM audit_log WHERE seq > ?", kept)
        report = copy.examine()
        assert (ProblemKind.TRUNCATED, kept + 1) in found(report)
        assert kinds(report) == {ProblemKind.TRUNCATED}

    @pytest.mark.parametrize("kept", range(1, VOUCHED))
    def test_with_the_note_of_the_end_put_right(self, copy: Copy, kept: int) -> None:
        copy.run("DELETE FROM audit_log WHERE seq > ?", kept)
        set_end(copy, copy.entries())
        report = copy.examine()
        assert (ProblemKind.TRUNCATED, kept + 1) in found(report)
        assert "vouches for entry 8" in report.problems[-1].sentence

    @pytest.mark.parametrize("kept", range(1, VOUCHED))
    def test_and_the_checkpoints_removed_as_well(self, copy: Copy, kept: int) -> None:
        copy.run("DELETE FROM audit_log WHERE seq > ?", kept)
        copy.run("DELETE FROM audit_checkpoints WHERE seq > ?", kept)
        set_end(copy, copy.entries())
        report = copy.examine()
        assert found(report) == [(ProblemKind.TRUNCATED, kept + 1)]
        assert "an older copy of the log was put in its place" in report.problems[0].sentence
        in_part = copy.examine(from_checkpoint="latest")
        assert found(in_part) == [(ProblemKind.TRUNCATED, kept + 1)]


class TestInserted:
    @pytest.mark.parametrize("place", range(1, ENTRIES + 1))
    @pytest.mark.parametrize("linked", [True, False])
    def test_one_that_was_made_up(self, copy: Copy, place: int, linked: bool) -> None:
        entries = copy.entries()
        before = entries[place - 2][2] if place > 1 else GENESIS
        body = FORGED % place
        digest = link(before, body) if linked else "0" * 64
        forged = renumbered([*entries[: place - 1], (0, body, digest), *entries[place - 1 :]])
        copy.replace_entries(forged)
        report = copy.examine()
        assert (ProblemKind.INSERTED, place) in found(report)
        assert kinds(report) <= {ProblemKind.INSERTED, ProblemKind.CHECKPOINT_MISMATCH}

    @pytest.mark.parametrize("linked", [True, False])
    def test_one_behind_the_end(self, copy: Copy, linked: bool) -> None:
        body = FORGED % (ENTRIES + 1)
        digest = link(copy.entries()[-1][2], body) if linked else "0" * 64
        copy.run("INSERT INTO audit_log VALUES (?, ?, ?)", ENTRIES + 1, body, digest)
        assert found(copy.examine()) == [(ProblemKind.INSERTED, ENTRIES + 1)]

    def test_one_far_behind_the_end(self, copy: Copy) -> None:
        copy.run("INSERT INTO audit_log VALUES (99, ?, ?)", FORGED % 99, "0" * 64)
        assert (ProblemKind.INSERTED, 99) in found(copy.examine())

    @pytest.mark.parametrize("seq", [0, -5])
    def test_one_before_the_start(self, copy: Copy, seq: int) -> None:
        copy.run("INSERT INTO audit_log VALUES (?, ?, ?)", seq, FORGED % 1, "0" * 64)
        assert (ProblemKind.INSERTED, seq) in found(copy.examine())

    @pytest.mark.parametrize("place", range(2, ENTRIES + 1))
    def test_a_second_copy_of_a_genuine_one(self, copy: Copy, place: int) -> None:
        entries = copy.entries()
        copy.replace_entries(renumbered([*entries[:place], entries[place - 1], *entries[place:]]))
        report = copy.examine()
        assert kinds(report) == {ProblemKind.INSERTED}

    @pytest.mark.parametrize("place", range(1, VOUCHED + 1))
    def test_one_with_everything_after_it_rewritten(self, copy: Copy, place: int) -> None:
        entries = copy.entries()
        rest = [
            (seq + 1, body.replace(f'"seq":{seq}}}', f'"seq":{seq + 1}}}'), digest)
            for seq, body, digest in entries[place - 1 :]
        ]
        forged = relinked(
            [*entries[: place - 1], (place, FORGED % place, ""), *rest], start=place - 1
        )
        copy.replace_entries(forged)
        set_end(copy, forged)
        assert kinds(copy.examine()) == {ProblemKind.CHECKPOINT_MISMATCH}


class TestReordered:
    @pytest.mark.parametrize("seq", range(1, ENTRIES))
    def test_neighbours(self, copy: Copy, seq: int) -> None:
        entries = copy.entries()
        entries[seq - 1], entries[seq] = entries[seq], entries[seq - 1]
        copy.replace_entries(renumbered(entries))
        report = copy.examine()
        assert (ProblemKind.REORDERED, seq) in found(report)
        assert kinds(report) <= {ProblemKind.REORDERED, ProblemKind.CHECKPOINT_MISMATCH}

    @pytest.mark.parametrize("order", list(permutations(range(3)))[1:])
    def test_three_in_any_order(self, copy: Copy, order: tuple[int, ...]) -> None:
        entries = copy.entries()
        entries[4:7] = [entries[4 + index] for index in order]
        copy.replace_entries(renumbered(entries))
        report = copy.examine()
        assert kinds(report) == {ProblemKind.REORDERED}

    @pytest.mark.parametrize("seq", range(1, ENTRIES))
    def test_neighbours_with_the_hashes_computed_anew(self, copy: Copy, seq: int) -> None:
        entries = copy.entries()
        entries[seq - 1], entries[seq] = entries[seq], entries[seq - 1]
        forged = relinked(renumbered(entries))
        copy.replace_entries(forged)
        set_end(copy, forged)
        assert (ProblemKind.REORDERED, seq) in found(copy.examine())

    def test_the_contents_of_two_rows_exchanged(self, copy: Copy) -> None:
        entries = copy.entries()
        (a, body_a, hash_a), (b, body_b, hash_b) = entries[2], entries[9]
        entries[2], entries[9] = (a, body_b, hash_a), (b, body_a, hash_b)
        copy.replace_entries(entries)
        assert found(copy.examine()) == [(ProblemKind.CHANGED, 3), (ProblemKind.CHANGED, 10)]

    def test_all_moved_to_other_numbers(self, copy: Copy) -> None:
        copy.replace_entries([(seq + 5, body, digest) for seq, body, digest in copy.entries()])
        report = copy.examine()
        assert found(report) == [(ProblemKind.REORDERED, 6)]
        assert report.entries == ENTRIES

    def test_some_moved_to_other_numbers(self, copy: Copy) -> None:
        moved = [(seq + 5 * (seq > 6), body, digest) for seq, body, digest in copy.entries()]
        copy.replace_entries(moved)
        assert found(copy.examine()) == [(ProblemKind.REORDERED, 12)]


class TestChanged:
    @pytest.mark.parametrize("seq", range(1, ENTRIES + 1))
    def test_body_and_hash(self, copy: Copy, seq: int) -> None:
        entries = copy.entries()
        body = entries[seq - 1][1].replace("thing", "THING")
        before = entries[seq - 2][2] if seq > 1 else GENESIS
        copy.run(
            "UPDATE audit_log SET body = ?, hash = ? WHERE seq = ?", body, link(before, body), seq
        )
        report = copy.examine()
        assert not report.ok
        assert report.problems[0].seq in (seq, seq + 1, VOUCHED - 3, 1, 5)
        named = {problem.seq for problem in report.problems}
        assert named & {seq, seq + 1}

    @pytest.mark.parametrize("seq", range(1, ENTRIES))
    def test_two_in_a_row(self, copy: Copy, seq: int) -> None:
        copy.run(
            "UPDATE audit_log SET body = replace(body, 'thing', 'THING') WHERE seq IN (?, ?)",
            seq,
            seq + 1,
        )
        # Whether the second was changed cannot be told once the hash before it is in doubt.
        assert found(copy.examine()) == [
            (ProblemKind.CHANGED, seq),
            (ProblemKind.UNPROVEN, seq + 1),
        ]

    def test_all(self, copy: Copy) -> None:
        copy.run("UPDATE audit_log SET body = replace(body, 'thing', 'THING')")
        report = copy.examine()
        assert found(report) == [
            *((ProblemKind.CHANGED, seq) for seq in range(1, ENTRIES)),
            (ProblemKind.UNPROVEN, ENTRIES),
        ]

    def test_all_hashes(self, copy: Copy) -> None:
        copy.run("UPDATE audit_log SET hash = '0' || substr(hash, 2)")
        copy.run("UPDATE audit_log SET hash = 'x'")
        report = copy.examine()
        assert (ProblemKind.CHANGED, 1) in found(report)

    @pytest.mark.parametrize("seq", range(1, ENTRIES + 1))
    def test_the_number_in_a_body(self, copy: Copy, seq: int) -> None:
        for other in (1, 5, 7, 99):
            if other == seq:
                continue
            with copy.tampering():
                copy.run(
                    "UPDATE audit_log SET body = replace(body, ?, ?) WHERE seq = ?",
                    f'"seq":{seq}}}',
                    f'"seq":{other}}}',
                    seq,
                )
                assert found(copy.examine()) == [(ProblemKind.CHANGED, seq)]


class TestRewritten:
    @pytest.mark.parametrize("seq", range(1, ENTRIES + 1))
    def test_consistently_from_any_entry_on(self, copy: Copy, seq: int) -> None:
        """Up to the last checkpoint it is found. What came after is held by the chain alone, and
        the report says from where on that is."""
        entries = copy.entries()
        entries[seq - 1] = (seq, entries[seq - 1][1].replace("thing", "THING"), "")
        forged = relinked(entries, start=seq - 1)
        copy.replace_entries(forged)
        set_end(copy, forged)
        report = copy.examine()
        if seq > VOUCHED:
            assert report.ok
            assert report.vouched_seq == VOUCHED
            return
        assert kinds(report) == {ProblemKind.CHECKPOINT_MISMATCH}
        first = 1 if seq <= 4 else 5
        assert report.problems[0].seq == first
        assert report.problems[0].sentence.startswith(
            f"Entries {first} to {first + 3} are not what"
        )

    def test_with_the_checkpoints_signed_by_another_key(self, copy: Copy) -> None:
        """The pinned public key gives it away."""
        stranger = make_keys()
        forged = Copy.__new__(Copy)
        forged.__dict__ = {**copy.__dict__, "keys": stranger}
        assert not forged.examine().ok
        assert kinds(forged.examine()) == {ProblemKind.CHECKPOINT_FORGED}

    def test_with_all_checkpoints_removed(self, copy: Copy) -> None:
        entries = copy.entries()
        entries[0] = (1, entries[0][1].replace("thing", "THING"), "")
        copy.replace_entries(relinked(entries))
        set_end(copy, copy.entries())
        copy.run("DELETE FROM audit_checkpoints")
        assert kinds(copy.examine()) == {ProblemKind.CHECKPOINT_MISSING}


actions = st.lists(
    st.tuples(
        st.sampled_from(["remove", "swap", "copy", "forge", "change", "rehash", "renumber"]),
        st.integers(0, ENTRIES - 1),
        st.integers(0, ENTRIES - 1),
    ),
    min_size=1,
    max_size=4,
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(actions=actions, renumber=st.booleans(), seed=st.integers(0, 9))
def test_whatever_is_done_is_found(
    copy: Copy, actions: list[tuple[str, int, int]], renumber: bool, seed: int
) -> None:
    """Any mixture of changes is found, unless it amounts to none."""
    chance = random.Random(seed)
    original = copy.entries()
    entries = list(original)
    for action, first, second in actions:
        if not entries:
            break
        a, b = first % len(entries), second % len(entries)
        seq, body, digest = entries[a]
        if action == "remove":
            del entries[a]
        elif action == "swap":
            entries[a], entries[b] = entries[b], entries[a]
        elif action == "copy":
            entries.insert(b, entries[a])
        elif action == "forge":
            previous = entries[b][2]
            forged = FORGED % (a + 1)
            entries.insert(b + 1, (0, forged, link(previous, forged)))
        elif action == "change":
            entries[a] = (seq, body.replace("thing", f"thong{chance.random()}"), digest)
        elif action == "rehash":
            entries[a] = (seq, body, link(chance.choice(entries)[2], body))
        else:
            entries[a] = (seq, body.replace('"seq":', '"seq":1'), digest)
    if renumber:
        entries = renumbered(entries)
    else:
        entries = list({entry[0]: entry for entry in entries if entry[0] > 0}.values())
    with copy.tampering():
        copy.replace_entries(entries)
        report = copy.examine()
    assert report.ok == (sorted(entries) == original)
    assert len(report.problems) == report.problem_count
