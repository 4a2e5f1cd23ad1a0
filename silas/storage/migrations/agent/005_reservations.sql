-- What questions to models may use, set aside before they are asked. Local to this device.
CREATE TABLE IF NOT EXISTS agent_budget_reservations (
    id TEXT PRIMARY KEY,
    agent_id TEXT NOT NULL,
    window_start_local_date TEXT NOT NULL,
    created_at TEXT NOT NULL,
    body TEXT NOT NULL
);
CREATE INDEX IF NOT EXISTS idx_agent_budget_reservations_agent
    ON agent_budget_reservations (agent_id, window_start_local_date);

-- Where a provider's key is belongs to the owner's consent; nothing was ever kept here.
DROP TABLE IF EXISTS provider_credential_refs;
