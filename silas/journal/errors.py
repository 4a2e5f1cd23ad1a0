"""What can go wrong with the journal, in words.

`tool_code` is what the result of a companion's tool calls it.
"""

from typing import ClassVar

from silas.kernel.errors import JournalError


class RecordOutOfScope(JournalError):
    """This belongs to a category that is out of reach. Allow the category, or ask the owner."""

    code = "E_JOURNAL_OUT_OF_SCOPE"
    tool_code: ClassVar[str] = "out_of_scope"


class RecordUnknown(JournalError):
    """There is no such record in the journal. Run `silas journal search` to find it."""

    code = "E_JOURNAL_UNKNOWN"
    tool_code: ClassVar[str] = "not_found"


class AmbiguousReference(JournalError):
    """Several records fit this. Nothing was changed: name one of them by its id."""

    code = "E_JOURNAL_AMBIGUOUS"
    tool_code: ClassVar[str] = "ambiguous_reference"


class RecordInvalid(JournalError):
    """The journal cannot keep this as it is. Correct what the message names."""

    code = "E_JOURNAL_INVALID"
    tool_code: ClassVar[str] = "invalid_arguments"


class OperationReused(JournalError):
    """This operation was made before with other arguments. Nothing was changed: use a new id."""

    code = "E_JOURNAL_OPERATION"
    tool_code: ClassVar[str] = "operation_conflict"


class MissingChangeProvenance(JournalError):
    """A change does not say where it came from, so nobody is woken by it. Report this defect."""

    code = "E_JOURNAL_PROVENANCE"
    tool_code: ClassVar[str] = "missing_change_provenance"


class ImportRefused(JournalError):
    """This file cannot be taken in. Nothing was changed: correct what the message names."""

    code = "E_JOURNAL_IMPORT"
    tool_code: ClassVar[str] = "import_refused"
