"""A context on its way into a prompt: block by block, and none that is known is looked at again.

Most of a context was in the last prompt too. Which blocks held nothing to disarm is remembered by
their digest; their text is not.
"""

from hashlib import blake2b

from silas.agents.framing import disarm
from silas.context.blocks import BLOCK_END

_MOST = 20_000


class HarmlessBlocks:
    """The blocks that were looked at and held nothing."""

    def __init__(self, *, most: int = _MOST) -> None:
        self._known: dict[bytes, None] = {}
        self._most = most

    def disarmed(self, context: str) -> str:
        """The context with every block disarmed."""
        return BLOCK_END.join(map(self._disarmed, context.split(BLOCK_END)))

    def _disarmed(self, block: str) -> str:
        digest = blake2b(block.encode("utf-8", "surrogatepass"), digest_size=16).digest()
        if digest in self._known:
            return block
        harmless = disarm(block)
        if harmless == block:
            self._remember(digest)
        return harmless

    def _remember(self, digest: bytes) -> None:
        if len(self._known) >= self._most:
            for old in list(self._known)[: self._most // 2]:
                del self._known[old]
        self._known[digest] = None
