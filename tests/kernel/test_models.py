"""Records: a changed copy is what pydantic's own would be."""

from typing import Any

import pytest
from pydantic import BaseModel, Field, PrivateAttr

from silas.kernel.models import Data


class Inner(Data):
    names: list[str] = Field(default_factory=list)


class Record(Data):
    number: int
    text: str = "usual"
    inner: Inner = Inner()


class Noting(Data):
    number: int
    _notes: list[str] = PrivateAttr(default_factory=list)

    def note(self, text: str) -> None:
        self._notes.append(text)

    @property
    def notes(self) -> list[str]:
        return self._notes


@pytest.mark.parametrize("deep", [False, True])
@pytest.mark.parametrize("update", [None, {}, {"text": "other"}, {"number": 2, "inner": Inner()}])
def test_a_copy_is_pydantics_copy(update: dict[str, Any] | None, deep: bool) -> None:
    record = Record(number=1, inner=Inner(names=["a"]))
    copied = record.model_copy(update=update, deep=deep)
    expected = BaseModel.model_copy(record, update=update, deep=deep)
    assert copied == expected
    assert type(copied) is Record
    assert copied.model_fields_set == expected.model_fields_set
    assert copied.model_dump_json() == expected.model_dump_json()
    assert (copied.inner is record.inner) == (expected.inner is record.inner)
    assert record == Record(number=1, inner=Inner(names=["a"])), "the record stays as it was"
    with pytest.raises(ValueError, match="frozen"):
        copied.number = 3  # type: ignore[misc]


def test_what_a_record_keeps_to_itself_is_copied_too() -> None:
    noting = Noting(number=1)
    noting.note("seen")
    copied = noting.model_copy(update={"number": 2})
    assert (copied.number, copied.notes) == (2, ["seen"])
