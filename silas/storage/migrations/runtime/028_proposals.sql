-- Other programs that may ask the owner through Silas, each sealed by the owner's key. What a client
-- shows to be recognised is kept as its hash.
CREATE TABLE IF NOT EXISTS clients (
    client_id TEXT PRIMARY KEY,
    name TEXT NOT NULL,
    token_hash TEXT NOT NULL,
    created_at TEXT NOT NULL,
    removed_at TEXT,
    seal_key_id TEXT NOT NULL,
    seal TEXT NOT NULL
);

-- What they asked for. What was shown and what was answered is in the question of the same id.
CREATE TABLE IF NOT EXISTS proposals (
    proposal_id TEXT PRIMARY KEY,
    client_id TEXT NOT NULL REFERENCES clients (client_id),
    request_hash TEXT NOT NULL,
    created_at TEXT NOT NULL,
    redeemed_at TEXT
);
CREATE INDEX IF NOT EXISTS proposals_by_client ON proposals (client_id, created_at);
