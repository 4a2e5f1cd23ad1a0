"""Access levels, and the records of customers."""

import json
import os
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from silas.gates import AccessLevel
from silas.gates.access import AccessChange, AccessController, CustomerDirectory, is_owner
from silas.gates.errors import CustomerContextRefused
from silas.kernel import TaintLevel
from silas.testing import FakeClock

LEVELS = {
    "public": AccessLevel(description="all", tools=["faq"]),
    "known": AccessLevel(description="known", tools=["faq", "orders"], requires=["id"]),
    "trusted": AccessLevel(
        description="trusted",
        tools=["faq", "orders", "refund"],
        requires=["id", "code"],
        expires_after=600,
    ),
}


class Visit:
    def __init__(
        self, levels: Mapping[str, AccessLevel] = LEVELS, *, owner: bool = False, **more: Any
    ) -> None:
        self.clock = FakeClock()
        self.changes: list[AccessChange] = []
        self.access = AccessController(
            "anna",
            levels,
            clock=self.clock,
            on_change=self.changes.append,
            owner=owner,
            all_tools=["everything"],
            **more,
        )

    def told(self) -> list[tuple[str, str, str]]:
        return [(each.before, each.after, each.reason) for each in self.changes]


def test_a_visitor_rises_gate_by_gate() -> None:
    visit = Visit()
    assert visit.access.get_allowed_tools() == ["faq"]
    visit.access.gate_passed("code")
    assert visit.access.level == "public"
    visit.access.gate_passed("id")
    assert visit.access.get_allowed_tools() == ["faq", "orders", "refund"]
    assert visit.told() == [("public", "trusted", "gates passed")]


def test_an_unrelated_gate_changes_nothing() -> None:
    visit = Visit()
    visit.access.gate_passed("other")
    visit.access.gate_passed("id")
    visit.access.gate_passed("id")
    assert visit.access.level == "known"
    assert len(visit.changes) == 1


def test_the_order_of_levels_is_by_what_they_require() -> None:
    visit = Visit(dict(reversed(LEVELS.items())))
    visit.access.gate_passed("id")
    visit.access.gate_passed("code")
    assert visit.access.level == "trusted"


@pytest.mark.parametrize(("seconds", "level"), [(599.999, "trusted"), (600, "public")])
def test_a_level_ends_exactly_when_it_says(seconds: float, level: str) -> None:
    visit = Visit()
    visit.access.gate_passed("id")
    visit.access.gate_passed("code")
    visit.clock.advance(seconds=seconds)
    assert visit.access.level == level


def test_after_that_everything_must_be_proven_again() -> None:
    visit = Visit()
    visit.access.gate_passed("id")
    visit.access.gate_passed("code")
    visit.clock.advance(seconds=600)
    visit.access.gate_passed("code")
    assert visit.access.get_allowed_tools() == ["faq"]
    visit.access.gate_passed("id")
    assert visit.access.level == "trusted"
    assert visit.told() == [
        ("public", "known", "gates passed"),
        ("known", "trusted", "gates passed"),
        ("trusted", "public", "expired"),
        ("public", "trusted", "gates passed"),
    ]


def test_setting_the_clock_back_does_not_prolong_a_level() -> None:
    visit = Visit()
    visit.access.gate_passed("id")
    visit.access.gate_passed("code")
    visit.clock.advance(seconds=599)
    visit.clock.set(datetime(2020, 1, 1, tzinfo=UTC))
    visit.clock.advance(seconds=1)
    assert visit.access.level == "public"


def test_the_owner_is_not_subject_to_levels() -> None:
    visit = Visit(owner=True)
    assert visit.access.get_allowed_tools() == ["everything"]
    visit.access.gate_passed("id")
    assert visit.access.get_allowed_tools() == ["everything"]
    assert visit.changes == []


@pytest.mark.parametrize(
    ("connection", "owner", "taint", "wanted"),
    [
        ("owner", "owner", None, True),
        ("anna", "owner", None, False),
        ("anna", "owner", TaintLevel.OWNER, True),
        ("anna", "owner", TaintLevel.AUTH, False),
        ("anna", "owner", TaintLevel.EXTERNAL, False),
        ("", "", None, False),
        ("Owner", "owner", None, False),
    ],
)
def test_who_is_the_owner(
    connection: str, owner: str, taint: TaintLevel | None, wanted: bool
) -> None:
    assert is_owner(connection, owner_id=owner, taint=taint) is wanted


def test_without_levels_there_are_no_tools() -> None:
    assert Visit({}).access.get_allowed_tools() == []
    without_public = Visit({"known": LEVELS["known"]})
    assert without_public.access.get_allowed_tools() == []
    without_public.access.gate_passed("id")
    assert without_public.access.get_allowed_tools() == ["faq", "orders"]


def test_a_level_that_requires_nothing_is_never_reached() -> None:
    visit = Visit({"public": LEVELS["public"], "gift": AccessLevel(description="", tools=["all"])})
    visit.access.gate_passed("id")
    assert visit.access.get_allowed_tools() == ["faq"]


@given(st.lists(st.sampled_from(["id", "code", "x"]) | st.integers(1, 700), max_size=12))
def test_any_history_leads_where_the_rules_say(history: list[str | int]) -> None:
    visit = Visit()
    now, proven, trusted_since = 0, set[str](), None
    for event in [*history, 0]:
        if trusted_since is not None and now - trusted_since >= 600:
            proven, trusted_since = set(), None
        if isinstance(event, int):
            now += event
            visit.clock.advance(seconds=event)
        else:
            visit.access.gate_passed(event)
            proven.add(event)
            if trusted_since is None and proven >= {"id", "code"}:
                trusted_since = now
    lower = "known" if "id" in proven else "public"
    assert visit.access.level == ("trusted" if trusted_since is not None else lower)


def test_what_a_caller_does_with_the_lists_changes_nothing() -> None:
    visit = Visit()
    visit.access.get_allowed_tools().append("refund")
    assert visit.access.get_allowed_tools() == ["faq"]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "data" / "customers"
    folder.mkdir(parents=True, mode=0o700)
    (folder / "anna.json").write_text(json.dumps({"name": "Anna", "plan": "gold"}))
    (folder / "anna.json").chmod(0o600)
    return folder


def files(folder: Path) -> CustomerDirectory:
    return CustomerDirectory(folder, data_dir=folder.parent)


def test_a_customer_is_known_once_a_level_is_reached(folder: Path) -> None:
    visit = Visit(customers=files(folder))
    assert visit.changes == []
    visit.access.gate_passed("id")
    assert visit.changes[0].customer_id == "anna"


def test_a_file_that_cannot_be_trusted_gives_the_level_without_the_context(folder: Path) -> None:
    (folder / "anna.json").chmod(0o666)
    visit = Visit(customers=files(folder))
    visit.access.gate_passed("id")
    assert visit.access.level == "known"
    assert visit.changes[0].customer_id is None
    assert "chmod go-w" in (visit.changes[0].customer_problem or "")


def test_an_unknown_customer_has_no_record(folder: Path) -> None:
    assert files(folder).load("bob") is None


@pytest.mark.parametrize(
    "customer",
    ["", ".", "..", "../anna", "a/b", "/etc/passwd", "a\0b", ".hidden", "a" * 200, "a\n", "\ud800"],
)
def test_an_id_that_is_no_plain_name_is_refused(folder: Path, customer: str) -> None:
    with pytest.raises(CustomerContextRefused):
        files(folder).load(customer)


def test_nothing_outside_of_the_data_directory_is_read(folder: Path, tmp_path: Path) -> None:
    for data_dir in (folder, tmp_path / "elsewhere"):
        with pytest.raises(CustomerContextRefused):
            CustomerDirectory(folder, data_dir=data_dir).load("anna")
    link = folder.parent / "link"
    outside = tmp_path / "outside"
    outside.mkdir(mode=0o700)
    link.symlink_to(outside)
    with pytest.raises(CustomerContextRefused):
        CustomerDirectory(link, data_dir=folder.parent).load("anna")


@pytest.mark.parametrize("mode", [0o770, 0o707, 0o777])
def test_a_directory_that_others_may_write_is_refused(folder: Path, mode: int) -> None:
    folder.chmod(mode)
    with pytest.raises(CustomerContextRefused):
        files(folder).load("anna")


def test_only_small_regular_json_objects_are_read(folder: Path) -> None:
    (folder / "link.json").symlink_to(folder / "anna.json")
    os.mkfifo(folder / "pipe.json", 0o600)
    (folder / "folder.json").mkdir(mode=0o700)
    for name, content in {
        "large": b'{"x": "' + b"x" * 1024 * 1024 + b'"}',
        "list": b"[]",
        "twice": b'{"a": 1, "a": 2}',
        "broken": b"{",
        "bytes": b"\xff",
    }.items():
        (folder / f"{name}.json").write_bytes(content)
        (folder / f"{name}.json").chmod(0o600)
    for name in ("link", "pipe", "folder", "large", "list", "twice", "broken", "bytes"):
        with pytest.raises(CustomerContextRefused):
            files(folder).load(name)
