-- What companions were before they were given a newer version of their kind: the way back.
CREATE TABLE IF NOT EXISTS agent_earlier_definitions (
    id TEXT PRIMARY KEY,
    agent_id TEXT NOT NULL REFERENCES agents (id),
    replaced_at TEXT NOT NULL,
    body TEXT NOT NULL
);
CREATE INDEX IF NOT EXISTS idx_agent_earlier_definitions_agent
    ON agent_earlier_definitions (agent_id, replaced_at DESC);
