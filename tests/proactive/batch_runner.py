"""A process that follows what the owner has approved, in children which can be killed."""

import asyncio
import base64
import json
import os
from datetime import UTC, datetime
from pathlib import Path

from silas.review.decisions import QuestionKind
from silas.testing import MemoryVault
from tests.chaos import serve_runner
from tests.proactive.mailbox import open_mailbox

_EVER = datetime.min.replace(tzinfo=UTC)


class FileVault(MemoryVault):
    """`Vault` in one file, which another process can read too."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self._path = path
        if path.exists():
            kept = json.loads(path.read_text())
            self.entries = {name: base64.b64decode(each) for name, each in kept.items()}

    def set(self, ref_id: str, value: bytes) -> None:
        super().set(ref_id, value)
        self._keep()

    def delete(self, ref_id: str) -> bool:
        gone = super().delete(ref_id)
        self._keep()
        return gone

    def _keep(self) -> None:
        kept = {name: base64.b64encode(each).decode() for name, each in self.entries.items()}
        written = self._path.with_suffix(f".{os.getpid()}")
        written.write_text(json.dumps(kept))
        written.replace(self._path)


async def go_on(root: Path) -> int:
    """As the running Silas does after a start: recover, then follow each decision."""
    async with open_mailbox(root, None, vault=FileVault(root / "vault.json")) as mailbox:
        await mailbox.work.recover()
        for each in await mailbox.batches.questions.answered_since(QuestionKind.ITEMS, _EVER):
            await mailbox.batches.answered(each.about)
    return 0


def run(root: Path) -> int:
    return asyncio.run(go_on(root))


if __name__ == "__main__":
    serve_runner(run)
