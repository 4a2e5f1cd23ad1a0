"""The taint lattice: `owner` is trusted more than `auth`, `auth` more than `external`."""

from enum import StrEnum


class TaintLevel(StrEnum):
    """Where content came from, and so how far it may be trusted."""

    OWNER = "owner"
    AUTH = "auth"
    EXTERNAL = "external"


_DISTRUST = {TaintLevel.OWNER: 0, TaintLevel.AUTH: 1, TaintLevel.EXTERNAL: 2}


def join_taint(*levels: TaintLevel) -> TaintLevel:
    """The taint of something made from all of these: the least trusted of them.

    Made from nothing known means `external`: an empty provenance earns no trust.
    """
    return max(levels, key=_DISTRUST.__getitem__, default=TaintLevel.EXTERNAL)
