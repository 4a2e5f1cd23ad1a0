"""What can go wrong with memories, in words."""

from silas.kernel import RecallError


class TrustRefused(RecallError):
    """Nothing from outside becomes trusted, and trust only rises when the owner confirms it."""

    code = "E_MEMORY_TRUST"


class OtherScope(RecallError):
    """This memory belongs to another conversation. Open the memory of that conversation."""

    code = "E_MEMORY_SCOPE"


class MemoryUnknown(RecallError):
    """There is no memory with this id. Run `silas memory list` to see what there is."""

    code = "E_MEMORY_UNKNOWN"


class MemoryExists(RecallError):
    """There is a memory with this id already. Change that one, or choose another id."""

    code = "E_MEMORY_EXISTS"


class BundleRefused(RecallError):
    """This is not a bundle of memories as Silas writes it. Nothing was changed."""

    code = "E_MEMORY_BUNDLE"


class EmbedderRefused(RecallError):
    """The model for vectors cannot be used. Reinstall it: `pip install 'silas[vector]'`."""

    code = "E_MEMORY_EMBEDDER"


class MemoryInvalid(RecallError):
    """This memory cannot be kept as it is. Correct what the message names."""

    code = "E_MEMORY_INVALID"
