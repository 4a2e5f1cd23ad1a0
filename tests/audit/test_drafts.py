"""What is logged never makes logging fail, never grows without end, and never holds a secret."""

import base64
import dataclasses
import hashlib
import json
import math
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from enum import Enum, IntEnum, StrEnum
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, RootModel, SecretStr

from silas.audit.drafts import MAX_BODY, Drafter, plain
from silas.kernel import (
    DatabaseError,
    IdFactory,
    canonical_bytes,
    strict_loads,
)
from silas.kernel.redaction import REDACTED, redact
from silas.testing import FakeClock
from tests.audit.ledger import open_ledger
from tests.kernel.test_redaction import EXAMPLES


def body_of(event: Any = "x", data: Any = None, **options: Any) -> bytes:
    clock = FakeClock()
    drafter = Drafter(clock=clock, ids=IdFactory(clock), **options)
    return drafter.draft(event, {} if data is None else data).body(7).encode()


def written(value: Any, **options: Any) -> Any:
    """The value as it would be stored."""
    body = body_of(data={"v": value}, **options)
    assert canonical_bytes(strict_loads(body)) == body
    assert len(body) <= MAX_BODY
    return strict_loads(body)["data"]["v"]


ORDINARY = st.text() | st.integers() | st.none() | st.booleans()


@given(st.dictionaries(st.text(st.characters(exclude_categories=["Cs"])), ORDINARY))
def test_ordinary_data_is_written_as_if_it_were_odd(data: dict[str, Any]) -> None:
    """The shortest way, which most entries take, gives what the longest would."""
    known = ["1", "00", *(name for name in data if len(name) == 1)]
    body = body_of(data=data, known_secrets=lambda: known)
    assert canonical_bytes(strict_loads(body)) == body
    assert strict_loads(body)["data"] == redact(plain(data), known=known)


@pytest.mark.parametrize("name", ["name", "key", "header"])
def test_a_value_beside_a_telling_name_is_taken_out_of_ordinary_data(name: str) -> None:
    data = {name: "password", "value": "hunter2"}
    assert strict_loads(body_of(data=data))["data"] == {name: "password", "value": REDACTED}


class Colour(Enum):
    RED = "red"


class Level(IntEnum):
    HIGH = 3


class Name(StrEnum):
    BOB = "bob"


class Model(BaseModel):
    count: int
    secret: SecretStr = SecretStr("hunter2")
    at: datetime = datetime(2026, 1, 2, tzinfo=UTC)


@dataclasses.dataclass
class Point:
    x: int
    y: Any


class Hostile:
    def __str__(self) -> str:
        raise RuntimeError("no")

    __repr__ = __str__


class HostileMapping(Mapping[str, int]):
    def __getitem__(self, key: str) -> int:
        raise RuntimeError("no")

    def __iter__(self) -> Iterator[str]:
        raise RuntimeError("no")

    def __len__(self) -> int:
        return 1


class Outer(BaseModel):
    inner: list[Model]
    name: str


class Listed(RootModel[list[int]]):
    pass


class HostileModel(BaseModel):
    def model_dump(self, **_: Any) -> dict[str, Any]:
        raise RuntimeError("no")


class TestOddValues:
    @pytest.mark.parametrize(
        ("value", "expected"),
        [
            (Colour.RED, "red"),
            (Level.HIGH, 3),
            (Name.BOB, "bob"),
            (
                datetime(2026, 1, 2, 3, tzinfo=timezone(timedelta(hours=1))),
                "2026-01-02T02:00:00.000000Z",
            ),
            (datetime(2026, 1, 2), "2026-01-02T00:00:00 (no time zone)"),  # noqa: DTZ001
            (
                datetime(1, 1, 1, tzinfo=timezone(timedelta(hours=9))),
                "[unserialisable: datetime.datetime, ValueError]",
            ),
            (date(2026, 1, 2), "2026-01-02"),
            (timedelta(hours=1), "1:00:00"),
            (Decimal("1.10"), "1.10"),
            (UUID(int=1), "00000000-0000-0000-0000-000000000001"),
            (Path("/tmp/x"), "/tmp/x"),
            (b"text", "text"),
            (b"\xff\x00", "[binary: 2 bytes]"),
            (bytearray(b"\n"), "[binary: 1 bytes]"),
            (bytes(32), "[binary: 32 bytes]"),
            (math.nan, "nan"),
            (-math.inf, "-inf"),
            (1.5, 1.5),
            (2**53, str(2**53)),
            (-(2**70), str(-(2**70))),
            ({"b", "a"}, ["a", "b"]),
            ((1, (2,)), [1, [2]]),
            ({1: "a", "1": "b", None: "c"}, {"1": "a", "1'": "b", "None": "c"}),
            (Point(1, Colour.RED), {"x": 1, "y": "red"}),
            ("\ud800x", "\\ud800x"),
            (Model(count=1), {"count": 1, "secret": REDACTED, "at": "2026-01-02T00:00:00.000000Z"}),
            (Listed([1, 2]), [1, 2]),
            (ValueError("bad"), {"error": "ValueError", "message": "bad"}),
            (KeyboardInterrupt(), {"error": "KeyboardInterrupt", "message": ""}),
            (Hostile(), "[unserialisable: tests.audit.test_drafts.Hostile]"),
            (
                HostileMapping(),
                "[unserialisable: tests.audit.test_drafts.HostileMapping, RuntimeError]",
            ),
            (
                HostileModel(),
                "[unserialisable: tests.audit.test_drafts.HostileModel, RuntimeError]",
            ),
            (ValueError(Hostile()), "[unserialisable: builtins.ValueError, RuntimeError]"),
            (object, "[unserialisable: builtins.type]"),
            (iter([1]), "[unserialisable: builtins.list_iterator]"),
            ([Hostile(), 1], ["[unserialisable: tests.audit.test_drafts.Hostile]", 1]),
        ],
        ids=lambda value: type(value).__name__,
    )
    def test_become_something_sensible(self, value: Any, expected: Any) -> None:
        assert written(value) == expected

    def test_one_of_our_errors_keeps_its_code(self) -> None:
        error = DatabaseError("Full.", correlation_id="abc")
        assert written(error) == {
            "error": "DatabaseError",
            "message": "Full.",
            "code": "E_DB_FAILED",
            "correlation_id": "abc",
        }

    def test_a_validation_error_does_not_quote_its_input(self) -> None:
        with pytest.raises(ValueError) as caught:
            Model.model_validate({"count": "hunter2"})
        assert "hunter2" in str(caught.value)
        assert "hunter2" not in json.dumps(written(caught.value))
        assert "count: Input should be a valid integer" in written(caught.value)["message"]

    def test_a_validation_error_names_each_place(self) -> None:
        with pytest.raises(ValueError) as caught:
            Outer.model_validate({"inner": [{"count": 1}, {"count": "x"}], "name": 5})
        assert written(caught.value) == {
            "error": "ValidationError",
            "message": "inner.1.count: Input should be a valid integer, unable to parse string as "
            "an integer; name: Input should be a valid string",
        }

    def test_the_same_name_three_times(self) -> None:
        assert written({1: "a", "1": "b", Path("1"): "c"}) == {"1": "a", "1'": "b", "1''": "c"}

    def test_how_deep_is_deep(self) -> None:
        def nested(wrap: Callable[[Any], Any], levels: int) -> str:
            value: Any = Path("end")
            for _ in range(levels):
                value = wrap(value)
            return json.dumps(plain(value))

        for wrap in (
            lambda inner: [inner],
            lambda inner: {"k": inner},
            lambda inner: Point(1, inner),
        ):
            assert '"end"' in nested(wrap, 24)
            assert "[left out" not in nested(wrap, 24)
            assert '"end"' not in nested(wrap, 25)
            assert '"[left out: too deep or too much]"' in nested(wrap, 25)

    def test_what_contains_itself(self) -> None:
        loop: list[Any] = [1]
        loop.append(loop)
        assert "[left out: too deep or too much]" in json.dumps(written(loop))

    def test_deep_nesting(self) -> None:
        deep: Any = 1
        for _ in range(100_000):
            deep = [deep]
        assert "[left out" in json.dumps(written(deep))

    @pytest.mark.parametrize("data", [None, 5, "text", [1], HostileMapping()])
    def test_data_that_is_no_mapping(self, data: Any) -> None:
        clock = FakeClock()
        draft = Drafter(clock=clock, ids=IdFactory(clock)).draft("x", data)
        assert isinstance(strict_loads(draft.body(1))["data"], dict)

    @pytest.mark.parametrize(
        ("event", "expected"),
        [
            ("approved", "approved"),
            (Name.BOB, "bob"),
            (Colour.RED, "red"),
            (5, "5"),
            (None, "None"),
            (["a", 1], "['a', 1]"),
            (Hostile(), "[unserialisable: tests.audit.test_drafts.Hostile]"),
            ("\ud800", "\\ud800"),
            ("x" * 500, "x" * 200),
        ],
    )
    def test_odd_events(self, event: Any, expected: str) -> None:
        assert strict_loads(body_of(event))["event"] == expected

    @given(
        st.recursive(
            st.none()
            | st.booleans()
            | st.integers()
            | st.floats()
            | st.text(st.characters())
            | st.binary()
            | st.datetimes()
            | st.decimals(),
            lambda inner: st.lists(inner) | st.dictionaries(st.text() | st.integers(), inner),
        )
    )
    def test_anything_can_be_logged(self, value: Any) -> None:
        written(value)

    @given(st.dictionaries(st.text(max_size=8), st.integers(-(2**53) + 1, 2**53 - 1) | st.text()))
    def test_plain_data_is_recorded_as_it_is(self, data: dict[str, Any]) -> None:
        assert strict_loads(body_of(data=data))["data"] == redact(data)


class TestLargeValues:
    def test_up_to_the_limit_nothing_is_cut(self) -> None:
        text = "x" * (MAX_BODY - 5000)
        assert written(text) == text

    @pytest.mark.parametrize(
        "value",
        [
            "x" * MAX_BODY,
            "é" * MAX_BODY,
            "\x00" * MAX_BODY,
            "x" * 900_000,
            ["y" * 1000] * 200,
            {f"k{n}": "y" * 1000 for n in range(200)},
            {"k" * MAX_BODY: 1},
            [[["z" * 50] * 50] * 50] * 50,
        ],
        ids=lambda v: type(v).__name__,
    )
    def test_beyond_it_is_cut_visibly(self, value: Any) -> None:
        body = body_of(data={"v": value})
        assert len(body) <= MAX_BODY
        data = strict_loads(body)["data"]
        assert data["cut_from_bytes"] > MAX_BODY - 5000
        assert len(data["cut_from_sha256"]) == 64
        assert "cut: " in json.dumps(data)

    @pytest.mark.parametrize(
        "value", [list(range(100_000)), {f"k{n}": list(range(100)) for n in range(5000)}]
    )
    def test_too_many_values_end_visibly(self, value: Any) -> None:
        assert "left out" in json.dumps(written(value))

    def test_how_many_is_too_many(self) -> None:
        """The whole counts as one value; of a mapping, the names count as well."""
        assert plain(list(range(9_999))) == list(range(9_999))
        assert plain(list(range(10_000))) == [*range(9_999), "[left out: more]"]
        assert plain(dict.fromkeys(range(5_100), 0)) == {
            **{str(number): 0 for number in range(4_999)},
            "4999": "[left out: too deep or too much]",
            "[left out]": 100,
        }
        assert "[left out]" not in plain(dict.fromkeys(range(5_000), 0))

    def test_the_hash_is_that_of_the_whole(self) -> None:
        value = {"v": "x" * 70_000}
        data = strict_loads(body_of(data=value))["data"]
        whole = canonical_bytes(value)
        assert data["cut_from_bytes"] == len(whole)
        assert data["cut_from_sha256"] == hashlib.sha256(whole).hexdigest()
        assert data["cut"]["v"] == "x" * 4000 + "[cut: 66000 more characters]"

    def test_what_is_cut_off_is_counted(self) -> None:
        texts = [f"{number:03}" + "y" * 397 for number in range(501)]
        data = strict_loads(body_of(data={"exact": texts[:500], "more": texts[:52]}))["data"]
        # Of texts this long, 500 do not fit; of 50 that are just short enough, nothing is lost.
        assert data["cut"] == {
            "exact": [*texts[:50], "[cut: 450 more]"],
            "more": [*texts[:50], "[cut: 2 more]"],
        }
        fifty = {"all": texts[:50], "long": "z" * 100_000}
        assert strict_loads(body_of(data=fifty))["data"]["cut"] == {
            "all": texts[:50],
            "long": "z" * 4000 + "[cut: 96000 more characters]",
        }

    def test_names_that_are_cut_off_are_counted(self) -> None:
        many = {f"{number:03}": "y" * 400 for number in range(200)}
        data = strict_loads(body_of(data={"v": many}))["data"]
        kept = {f"{number:03}": "y" * 400 for number in range(50)}
        assert data["cut"] == {"v": {**kept, "[cut]": "150 more"}}

    def test_names_that_become_the_same_are_counted(self) -> None:
        data = strict_loads(body_of(data={"a" * 5000 + str(n): "y" * 5000 for n in range(13)}))
        assert data["data"]["cut"] == {
            "a" * 4000 + "[cut: 1001 more characters]": "y" * 4000 + "[cut: 1000 more characters]",
            "a" * 4000 + "[cut: 1002 more characters]": "y" * 4000 + "[cut: 1000 more characters]",
            "[cut]": "11 more",
        }

    @pytest.mark.parametrize(("spare", "is_cut"), [(0, False), (1, True)])
    def test_the_limit_to_the_byte(self, spare: int, is_cut: bool) -> None:
        """Both ways of writing: what is large, and what is plain and small."""
        room = MAX_BODY - 4096 - len('{"a":"","b":""}')
        for first in (5_000, 20_000):
            data = {"a": "x" * first, "b": "x" * (room - first + spare)}
            assert ("cut" in strict_loads(body_of(data=data))["data"]) == is_cut
        # A value that is not JSON yet takes the long way, whatever its size.
        odd = {"a": Path("x" * 5_000), "b": "x" * (room - 5_000 + spare)}
        assert ("cut" in strict_loads(body_of(data=odd))["data"]) == is_cut

    def test_what_cannot_be_cut_to_fit_leaves_its_measure(self) -> None:
        value = {f"{n}" + "k" * 400: {f"{m}" + "k" * 400: 1 for m in range(80)} for n in range(80)}
        data = strict_loads(body_of(data=value))["data"]
        assert set(data) >= {"cut_from_bytes", "cut_from_sha256"}

    def test_if_no_cut_is_small_enough_only_the_measure_is_left(self) -> None:
        value: Any = ["\x00" * 50] * 4
        for _ in range(6):
            value = [value] * 4
        data = strict_loads(body_of(data={"v": value}))["data"]
        assert set(data) == {"cut_from_bytes", "cut_from_sha256"}

    def test_an_enormous_text_is_left_out(self) -> None:
        assert written("x" * 1_000_001) == "[left out: a text of 1000001 characters]"

    def test_a_secret_at_the_cut_is_not_halved(self) -> None:
        token = EXAMPLES["github token"][0]
        text = "x " * 1980 + token + " x" * 40_000
        assert token[:12] not in body_of(data={"v": text}).decode()


def unsafe_places(text: str) -> dict[str, Any]:
    """The text wherever somebody might put it."""
    return {
        "value": {"note": text},
        "key": {text: 1},
        "nested": {"a": [{"b": (text, {"c": {text}})}]},
        "sentence": {"note": f"it is {text}, really"},
        "address": {"url": f"https://example.org/?q={text}#x"},
        "json": {"body": json.dumps({"inner": {"deep": text}})},
        "bytes": {"raw": text.encode()},
        "base64": {"raw": base64.b64encode(f"user:{text} and more".encode()).decode()},
        "error": {"error": RuntimeError(f"could not use {text!r}")},
        "path": {"path": Path("/tmp") / text.replace("\n", " ")},
        "dataclass": {"point": Point(1, text)},
        "large": {"text": text + " x" * 60_000},
    }


class TestSecrets:
    @pytest.mark.parametrize("name", EXAMPLES)
    async def test_no_format_reaches_the_disk(self, tmp_path: Path, name: str) -> None:
        text, secret = EXAMPLES[name]
        ledger = await open_ledger(tmp_path, signer=None)
        for data in unsafe_places(text).values():
            await ledger.log.log("x", data=data)
        await ledger.log.log(f"event {text}")
        await ledger.database.close()
        for forbidden in (secret, base64.b64encode(b"user:" + text.encode())[:-8].decode()[8:]):
            assert _is_nowhere(forbidden, tmp_path)

    async def test_no_known_secret_reaches_the_disk(self, tmp_path: Path) -> None:
        secret = 'kn0wn "value"/é with spaces'
        ledger = await open_ledger(tmp_path, signer=None, known_secrets=lambda: [secret, "771199"])
        for data in unsafe_places(secret).values():
            await ledger.log.log("x", **data)
        await ledger.log.log(f"event {secret}", number=771199)
        await ledger.database.close()
        for forbidden in (secret, json.dumps(secret)[1:-1], "kn0wn", "771199"):
            assert _is_nowhere(forbidden, tmp_path)

    def test_a_secret_that_becomes_known_is_hidden_from_then_on(self) -> None:
        known: list[str] = []
        clock = FakeClock()
        drafter = Drafter(clock=clock, ids=IdFactory(clock), known_secrets=lambda: known)
        assert "plainvalue" in drafter.draft("event plainvalue", {"a": "plainvalue"}).body(1)
        known.append("plainvalue")
        entry = strict_loads(drafter.draft("event plainvalue", {"a": "plainvalue", "b": 1}).body(2))
        assert entry["event"] == f"event {REDACTED}"
        assert entry["data"] == {"a": REDACTED, "b": 1}

    def test_known_secrets_are_looked_for_in_odd_values_as_well(self) -> None:
        body = body_of(data={"v": {"plainvalue"}}, known_secrets=lambda: ["plainvalue"])
        assert strict_loads(body)["data"] == {"v": [REDACTED]}

    def test_what_is_known_is_asked_each_time_and_prepared_once(self) -> None:
        """Preparing a thousand secrets for every entry would make logging slow."""
        asked: list[int] = []
        clock = FakeClock()

        def known() -> list[str]:
            asked.append(1)
            return ["plainvalue"]

        drafter = Drafter(clock=clock, ids=IdFactory(clock), known_secrets=known)
        drafter.draft("x", {})
        rules = drafter._rules
        drafter.draft("x", {})
        assert drafter._rules is rules
        assert len(asked) == 2

    def test_if_the_known_secrets_cannot_be_had_the_data_is_withheld(self) -> None:
        def fails() -> list[str]:
            raise OSError("the keyring is gone: hunter2")

        body = body_of("login hunter2", {"password_is": "hunter2"}, known_secrets=fails)
        assert b"hunter2" not in body
        assert strict_loads(body)["event"] == "[withheld]"
        assert strict_loads(body)["data"] == {
            "withheld": "the known secrets could not be read (OSError)"
        }

    def test_many_different_events(self) -> None:
        clock = FakeClock()
        drafter = Drafter(clock=clock, ids=IdFactory(clock))
        for _ in range(2):
            for number in range(1000):
                event = strict_loads(drafter.draft(f"event_{number}", {}).body(1))["event"]
                assert event == f"event_{number}"


def _is_nowhere(secret: str, folder: Path) -> bool:
    return all(secret.encode() not in path.read_bytes() for path in folder.iterdir())


def test_two_keys_that_would_be_one_in_json_stay_two() -> None:
    assert plain({1: "a", "1": "b"}) == {"1": "a", "1'": "b"}


def test_a_text_that_is_cut_says_by_how_much() -> None:
    data = {"one_more": "x" * 401, "fits": "y" * 400, "large": ["z" * 3000] * 40}
    cut = strict_loads(body_of(data=data))["data"]["cut"]
    assert cut["one_more"] == "x" * 400 + "[cut: 1 more characters]"
    assert cut["fits"] == "y" * 400


def test_names_are_in_the_order_of_canonical_json() -> None:
    body = body_of(data={"\U00010000": 1, "\ufb01": 2})
    assert canonical_bytes(strict_loads(body)) == body


def test_data_that_is_plain_already_is_written_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    data = {"name": 'a "b"', "count": -(2**53) + 1, "none": None, "yes": True, "no": False}

    def longer_way(value: object) -> object:
        raise AssertionError(value)

    clock = FakeClock()
    drafter = Drafter(clock=clock, ids=IdFactory(clock))
    drafter.draft("something_happened", {})
    monkeypatch.setattr("silas.audit.drafts.plain", longer_way)
    body = drafter.draft("something_happened", dict(reversed(data.items()))).body(1).encode()
    assert strict_loads(body)["data"] == data
    assert canonical_bytes(strict_loads(body)) == body


@pytest.mark.parametrize("data", [[1], "text", 7], ids=repr)
def test_data_that_is_no_mapping_has_the_name_value(data: Any) -> None:
    assert strict_loads(body_of(data=data))["data"] == {"value": data}
