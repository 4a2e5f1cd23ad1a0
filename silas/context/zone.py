"""One zone of one scope: blocks in the order in which they came, and their text, kept in pieces.

A change touches the piece that it lies in. The other pieces are the same strings as before, so a
turn that adds two blocks joins a few dozen strings instead of thousands.
"""

from collections.abc import Iterable, Iterator

from silas.context.blocks import Block
from silas.kernel import TaintLevel

_BLOCKS_IN_A_PIECE = 64


class _Piece:
    __slots__ = ("blocks", "text")

    def __init__(self) -> None:
        self.blocks: dict[str, Block] = {}
        self.text: str | None = ""

    def joined(self) -> str:
        if self.text is None:
            self.text = "".join([block.text for block in self.blocks.values()])
        return self.text


class Zone:
    """The blocks of a zone, with the sums that a budget needs."""

    def __init__(self) -> None:
        self._pieces: list[_Piece] = []
        self._where: dict[str, _Piece] = {}
        self._texts: list[str] | None = []
        self._taints = dict.fromkeys(TaintLevel, 0)
        self.tokens = 0
        self.pinned_tokens = 0
        self.pinned = 0

    def __len__(self) -> int:
        return len(self._where)

    def __contains__(self, ctx_id: str) -> bool:
        return ctx_id in self._where

    def __iter__(self) -> Iterator[Block]:
        """The blocks, the oldest first."""
        for piece in self._pieces:
            yield from piece.blocks.values()

    def get(self, ctx_id: str) -> Block | None:
        """The block of this id."""
        piece = self._where.get(ctx_id)
        return piece.blocks[ctx_id] if piece else None

    def put(self, block: Block) -> None:
        """Add a block at the end; one with an id that is known takes the place of the old one."""
        ctx_id = block.item.ctx_id
        piece = self._where.get(ctx_id)
        if piece is None:
            piece = self._where[ctx_id] = self._last_piece()
        else:
            self._count(piece.blocks[ctx_id], -1)
        piece.blocks[ctx_id] = block
        self._count(block, 1)
        piece.text = self._texts = None

    def remove_all(self, blocks: Iterable[Block]) -> None:
        """Take out many blocks that are there."""
        where, taints = self._where, self._taints
        tokens = pinned_tokens = 0
        for block in blocks:
            item = block.item
            piece = where.pop(item.ctx_id)
            del piece.blocks[item.ctx_id]
            piece.text = None
            tokens += block.tokens
            taints[item.taint] -= 1
            if item.pinned:
                pinned_tokens += block.tokens
                self.pinned -= 1
        self.tokens -= tokens
        self.pinned_tokens -= pinned_tokens
        self._texts = None

    def texts(self) -> list[str]:
        """The text of the zone in pieces; those that did not change are the same objects."""
        if self._texts is None:
            self._pieces = [piece for piece in self._pieces if piece.blocks]
            self._texts = [piece.joined() for piece in self._pieces]
        return self._texts

    def taints(self) -> list[TaintLevel]:
        """The taints of the items, each once."""
        return [taint for taint, count in self._taints.items() if count > 0]

    def _last_piece(self) -> _Piece:
        pieces = self._pieces
        if not pieces or len(pieces[-1].blocks) >= _BLOCKS_IN_A_PIECE:
            pieces.append(_Piece())
        return pieces[-1]

    def _count(self, block: Block, sign: int) -> None:
        item, tokens = block.item, sign * block.tokens
        self.tokens += tokens
        self._taints[item.taint] += sign
        if item.pinned:
            self.pinned_tokens += tokens
            self.pinned += sign
