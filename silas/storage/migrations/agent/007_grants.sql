-- The owner's yes to a model is one grant: for a companion, in its categories, under the terms that
-- were shown. It was kept in two tables, of which one knew the companion and one knew the terms.
CREATE TABLE IF NOT EXISTS model_grants (
    id TEXT PRIMARY KEY,
    agent_id TEXT NOT NULL,
    provider TEXT NOT NULL,
    model TEXT NOT NULL,
    policy_version TEXT NOT NULL,
    confirmed_at TEXT NOT NULL,
    body TEXT NOT NULL
);
CREATE INDEX IF NOT EXISTS idx_model_grants_agent ON model_grants (agent_id);

-- A file can be run twice: the second time there is nothing left to move.
CREATE TABLE IF NOT EXISTS provider_access_policies (
    id TEXT PRIMARY KEY,
    agent_kind TEXT,
    agent_id TEXT,
    category_id TEXT NOT NULL,
    provider TEXT NOT NULL,
    model TEXT NOT NULL,
    deleted_at TEXT,
    body TEXT NOT NULL
);
CREATE TABLE IF NOT EXISTS consent_receipts (
    id TEXT PRIMARY KEY,
    provider TEXT NOT NULL,
    model TEXT NOT NULL,
    policy_version TEXT NOT NULL,
    confirmed_at TEXT NOT NULL,
    body TEXT NOT NULL
);

INSERT INTO model_grants
SELECT
    a.agent_id || ':' || r.provider || ':' || r.model || ':' || r.policy_version,
    a.agent_id,
    r.provider,
    r.model,
    r.policy_version,
    r.confirmed_at,
    json_set(
        r.body,
        '$.id', a.agent_id || ':' || r.provider || ':' || r.model || ':' || r.policy_version,
        '$.agent_id', a.agent_id,
        '$.category_ids', json(a.category_ids)
    )
FROM consent_receipts AS r
JOIN (
    SELECT agent_id, provider, model, json_group_array(category_id) AS category_ids
    FROM provider_access_policies
    WHERE deleted_at IS NULL AND agent_id IS NOT NULL
    GROUP BY agent_id, provider, model
) AS a ON a.provider = r.provider AND a.model = r.model;

DROP TABLE IF EXISTS provider_access_policies;
DROP TABLE IF EXISTS consent_receipts;
