"""Consents and permissions of earlier versions, which were two tables, are one grant each."""

import json
from pathlib import Path

from silas.companions.models import ModelGrant
from silas.companions.store import CompanionStore
from silas.kernel import IdFactory
from silas.storage import SqliteDatabase, load_migrations, migrate
from silas.testing import FakeClock

NOW = "2026-01-01T12:00:00.000000Z"
RECEIPT = {
    "id": "x",
    "provider": "cloud",
    "model": "large",
    "host": "api.cloud.example",
    "port": 443,
    "secret_ref_id": "secret:cloud",
    "fields": ["now"],
    "policy_version": "v1",
    "disclosure_hash": "h",
    "confirmed_at": NOW,
    "revoked_at": None,
}
ACCESS = (
    "INSERT INTO provider_access_policies"
    " (id, agent_kind, agent_id, category_id, provider, model, deleted_at, body)"
    " VALUES (?, NULL, ?, ?, 'cloud', ?, ?, '{}')"
)
CONSENT = (
    "INSERT INTO consent_receipts (id, provider, model, policy_version, confirmed_at, body)"
    " VALUES (?, 'cloud', 'large', ?, ?, ?)"
)


async def test_who_had_both_has_a_grant_and_nobody_else(tmp_path: Path, clock: FakeClock) -> None:
    database = SqliteDatabase.open(tmp_path / "agent.db")
    steps = load_migrations("agent")
    await migrate(database, steps[:6], clock=clock)
    rows = [
        ("1", "coach", "gym", "large", None),
        ("2", "coach", "work", "large", None),
        ("3", "planner", "gym", "large", NOW),  # it was taken back
        ("4", "other", "gym", "tiny", None),  # nobody has agreed to this model
    ]
    for row in rows:
        await database.execute(ACCESS, row)
    for version, revoked in (("v1", None), ("v0", NOW)):
        body = {**RECEIPT, "policy_version": version, "revoked_at": revoked}
        await database.execute(CONSENT, (version, version, NOW, json.dumps(body)))
    await migrate(database, steps, clock=clock)
    store = CompanionStore(database, clock=clock, ids=IdFactory(clock), host_id="here")
    found = {each.id: each for each in await store.find(ModelGrant)}
    assert set(found) == {"coach:cloud:large:v1", "coach:cloud:large:v0"}
    grant = found["coach:cloud:large:v1"]
    assert (grant.agent_id, sorted(grant.category_ids)) == ("coach", ["gym", "work"])
    assert (grant.host, grant.port, grant.fields) == ("api.cloud.example", 443, ("now",))
    assert found["coach:cloud:large:v0"].revoked_at is not None
    await database.close()
