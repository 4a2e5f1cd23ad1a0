-- What companions wait for, and what they were made from. Local to this device.

-- Actions that cannot be done at once: a question is open, or a card is before the owner.
CREATE TABLE IF NOT EXISTS agent_waiting_actions (
    operation_id TEXT PRIMARY KEY,
    run_key TEXT NOT NULL,
    agent_id TEXT NOT NULL,
    status TEXT NOT NULL,
    created_at TEXT NOT NULL,
    body TEXT NOT NULL
);
CREATE INDEX IF NOT EXISTS idx_agent_waiting_actions_status
    ON agent_waiting_actions (status, created_at);
CREATE INDEX IF NOT EXISTS idx_agent_waiting_actions_agent
    ON agent_waiting_actions (agent_id, status);

-- The definition of each companion, as it was when the owner made or configured it.
CREATE TABLE IF NOT EXISTS agent_definitions (
    agent_id TEXT PRIMARY KEY REFERENCES agents (id),
    definition_hash TEXT NOT NULL,
    updated_at TEXT NOT NULL,
    body TEXT NOT NULL
);
