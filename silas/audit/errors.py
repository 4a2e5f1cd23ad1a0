"""What can go wrong with the audit log, in words."""

from silas.kernel import AuditError


class AuditBroken(AuditError):
    """The audit log is not as it was written. Keep the files as they are, and compare a backup."""

    code = "E_AUDIT_BROKEN"


class AuditFileInvalid(AuditError):
    """This file is not an export of an audit log. Make one with `silas audit export FILE`."""

    code = "E_AUDIT_FILE"


class AuditFileExists(AuditError):
    """There is such a file already, and it is not this archive. Choose another name."""

    code = "E_AUDIT_FILE_EXISTS"


class AuditFileNotWritten(AuditError):
    """The file could not be written. Nothing was removed: choose another place and try again."""

    code = "E_AUDIT_FILE_NOT_WRITTEN"


class AuditNotSigned(AuditError):
    """There is no owner key at hand to sign with. Run `silas init`, or unlock the vault."""

    code = "E_AUDIT_NO_SIGNER"


class NothingToArchive(AuditError):
    """No checkpoint lies before that date, so nothing can be archived. Choose a later date."""

    code = "E_AUDIT_NOTHING_TO_ARCHIVE"


class AuditStateDamaged(AuditError):
    """The audit log has lost its place. Run `silas audit verify` to see what happened."""

    code = "E_AUDIT_STATE"


class CheckpointNotWritten(AuditError):
    """Others kept writing checkpoints at the same moment. Try again."""

    code = "E_AUDIT_CHECKPOINT_RACE"
