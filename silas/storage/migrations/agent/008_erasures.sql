-- What the owner has had forgotten: what went, what stays, and no word of it.
CREATE TABLE IF NOT EXISTS agent_erasures (
    id TEXT PRIMARY KEY,
    created_at TEXT NOT NULL,
    body TEXT NOT NULL
);
CREATE INDEX IF NOT EXISTS idx_agent_erasures_created ON agent_erasures (created_at DESC);
