"""The error taxonomy: stable, unique, and written for people."""

import pickle
import re
from collections import Counter

import pytest

from silas.kernel import DatabaseError, SilasError
from silas.kernel import errors as kernel_errors
from tests.documents import all_errors

ERRORS = all_errors()
FAMILIES = {kind for kind in ERRORS if SilasError in kind.__bases__}
named = pytest.mark.parametrize("kind", ERRORS, ids=lambda kind: kind.__name__)


def family_of(kind: type[SilasError]) -> type[SilasError]:
    return next(each for each in kind.__mro__ if each in FAMILIES or each is SilasError)


def prefix_of(family: type[SilasError]) -> str:
    return "_".join(family.code.split("_")[:2])


def test_every_family_is_a_root_in_the_kernel() -> None:
    assert {family.__module__ for family in FAMILIES} == {"silas.kernel.errors"}
    prefixes = [prefix_of(family) for family in FAMILIES]
    assert len(set(prefixes)) == len(prefixes)
    for expected in ["E_CFG", "E_LLM", "E_DB", "E_SANDBOX", "E_GATE", "E_CHANNEL", "E_APPROVAL"]:
        assert expected in prefixes


def test_codes_are_unique_and_families_have_an_exit_code_each() -> None:
    codes = Counter(kind.code for kind in ERRORS)
    exit_codes = Counter(family.exit_code for family in FAMILIES | {SilasError})
    assert [code for code, times in codes.items() if times > 1] == []
    assert [code for code, times in exit_codes.items() if times > 1] == []


@named
def test_each_class_has_a_code_of_its_own(kind: type[SilasError]) -> None:
    assert "code" in vars(kind)


@named
def test_the_code_is_well_formed_and_names_the_family(kind: type[SilasError]) -> None:
    if kind is SilasError:
        assert kind.code == "E_INTERNAL"
        return
    assert re.fullmatch(r"E(_[A-Z]+){2,5}", kind.code)
    assert kind.code.startswith(prefix_of(family_of(kind)) + "_")


@named
def test_the_exit_code_is_that_of_the_family(kind: type[SilasError]) -> None:
    assert kind.exit_code == family_of(kind).exit_code
    assert not 126 <= kind.exit_code < 193, "the shell and signals use these"


@named
def test_the_sentence_is_for_people(kind: type[SilasError]) -> None:
    sentence = kind.sentence()
    assert re.fullmatch(r"[A-Z`].{20,240}[.]", sentence), sentence
    assert "|" not in sentence, "it would break the table in docs/errors.md"


def test_the_ranges_are_told_in_the_kernel() -> None:
    told = kernel_errors.__doc__ or ""
    for family in FAMILIES | {SilasError}:
        assert re.search(rf"\b{family.exit_code} [a-z]", told), family


class _LongWinded(DatabaseError):
    """The first paragraph
    runs over two lines.

    The second is for developers.
    """


def test_the_default_message_is_the_first_paragraph_on_one_line() -> None:
    assert str(_LongWinded()) == "The first paragraph runs over two lines."
    assert _LongWinded("Something else.").message == "Something else."
    assert str(_LongWinded("Something else.")) == "Something else."


class _Undocumented(DatabaseError):
    pass


def test_a_class_without_a_docstring_does_not_borrow_one() -> None:
    assert _Undocumented().message == ""


def test_it_explains_itself_as_data() -> None:
    error = DatabaseError("No.", correlation_id="abc", path="/x")
    assert error.explain() == {
        "code": "E_DB_FAILED",
        "message": "No.",
        "correlation_id": "abc",
        "details": {"path": "/x"},
    }
    assert "details" not in DatabaseError("No.").explain()
    assert error.details == {"path": "/x"}


def test_every_error_has_a_correlation_id_of_its_own() -> None:
    one, other = SilasError(), SilasError()
    assert re.fullmatch("[0-9a-f]{12}", one.correlation_id)
    assert one.correlation_id != other.correlation_id


def test_it_survives_the_way_to_another_process() -> None:
    error = pickle.loads(pickle.dumps(DatabaseError("No.", path="/x")))
    assert (error.message, error.details) == ("No.", {"path": "/x"})
