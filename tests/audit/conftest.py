from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.audit.ledger import Ledger, open_ledger


@pytest.fixture
async def ledger(tmp_path: Path) -> AsyncIterator[Ledger]:
    ledger = await open_ledger(tmp_path)
    yield ledger
    await ledger.database.close()
