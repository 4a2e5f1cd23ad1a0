"""What other processes do to the same approvals; `test_processes.py` starts and kills them."""

import asyncio
from multiprocessing.connection import Connection
from pathlib import Path

from silas.approval import ApprovalToken
from silas.approval.store import ISSUED
from silas.testing import FakePlan, MemoryVault
from tests.approval.desk import YES, open_desk

PLAN = FakePlan()


def approve_and_use(path: Path, vault: MemoryVault, said: Connection) -> None:
    """Issue and use up tokens without end, and say so each time."""

    async def work() -> None:
        desk = await open_desk(path, vault=vault)
        while True:
            token = await desk.engine.issue_token(PLAN, YES)
            said.send(("issued", token.token_id))
            assert await desk.engine.verify(token, PLAN) == (True, "Valid")
            said.send(("used", token.token_id))

    asyncio.run(work())


def use(path: Path, vault: MemoryVault, said: Connection, token: ApprovalToken) -> None:
    """Try to use one token twenty times at once; say how often it worked."""

    async def work() -> None:
        desk = await open_desk(path, vault=vault)
        desk.audit.entries.append((ISSUED, {"token_id": token.token_id}))  # one log for all of them
        answers = await asyncio.gather(*(desk.engine.verify(token, PLAN) for _ in range(20)))
        await desk.database.close()
        said.send(sum(valid for valid, _ in answers))

    asyncio.run(work())
