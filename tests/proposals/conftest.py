"""The fixture of the tests of what other programs ask."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from silas.kernel import IdFactory
from silas.proposals.clients import ClientStore
from silas.proposals.service import ProposalService
from tests.proposals.shop import Shop
from tests.review.asking import open_place


@pytest.fixture
async def shop(tmp_path: Path) -> AsyncIterator[Shop]:
    place = await open_place(tmp_path / "silas.db")
    desk, ids = place.desk, IdFactory(place.desk.clock)
    clients = ClientStore(desk.database, desk.keys, audit=desk.audit, clock=desk.clock, ids=ids)
    service = ProposalService(
        database=desk.database,
        clients=clients,
        questions=place.questions,
        decisions=place.decisions,
        approvals=desk.engine,
        keys=desk.keys,
        nonces=desk.nonces,
        devices=place.devices,
        passkeys=place.passkeys,
        audit=desk.audit,
        clock=desk.clock,
        ids=ids,
        owner_id="owner",
    )
    yield Shop(place, service, (await service.add_client("Claude Code")).token)
    await desk.database.close()
