-- The ground floor: what was approved, what was used up, what happened.

-- The hash chain: hash = sha256(hash of the row before || body), in hex. `body` holds the canonical
-- JSON exactly as it was hashed; nothing is stored beside it that could disagree with it. INTEGER
-- PRIMARY KEY makes `seq` the row's own place in SQLite: it cannot be empty, doubled or a text.
CREATE TABLE IF NOT EXISTS audit_log (
    seq INTEGER PRIMARY KEY,
    body TEXT NOT NULL,
    hash TEXT NOT NULL
);

-- Where the chain starts (after old entries were archived) and where it ends. One row, there from
-- the beginning: if it is missing, somebody has removed it. `base_proof` is the owner's signed
-- statement that allows a start above 0.
CREATE TABLE IF NOT EXISTS audit_state (
    id INTEGER PRIMARY KEY CHECK (id = 1),
    base_seq BIGINT NOT NULL,
    base_hash TEXT NOT NULL,
    base_proof TEXT NOT NULL,
    head_seq BIGINT NOT NULL,
    head_hash TEXT NOT NULL
);
INSERT INTO audit_state (id, base_seq, base_hash, base_proof, head_seq, head_hash)
VALUES (
    1,
    0, '7f838fbd08430c7074ae12abbc44534fd7a5c068971c328feb07ab8164c01cc8', '',
    0, '7f838fbd08430c7074ae12abbc44534fd7a5c068971c328feb07ab8164c01cc8'
)
ON CONFLICT (id) DO NOTHING;

-- Statements "the chain had this hash at this point", signed with the owner's key.
CREATE TABLE IF NOT EXISTS audit_checkpoints (
    checkpoint_id TEXT PRIMARY KEY,
    seq BIGINT NOT NULL,
    body TEXT NOT NULL,
    key_id TEXT NOT NULL,
    signature TEXT NOT NULL
);
CREATE INDEX IF NOT EXISTS audit_checkpoints_seq ON audit_checkpoints (seq);

-- Every token that was ever issued here, with the exact bytes that were shown. The counters are the
-- only truth about how often a token was used; what a caller's copy says does not matter.
CREATE TABLE IF NOT EXISTS approval_tokens (
    token_id TEXT PRIMARY KEY,
    work_item_id TEXT NOT NULL,
    token TEXT NOT NULL,
    signature TEXT NOT NULL,
    shown TEXT NOT NULL,
    spawn_policy TEXT,
    executions_used INTEGER NOT NULL DEFAULT 0,
    issued_at TEXT NOT NULL,
    expires_at TEXT NOT NULL,
    voided_at TEXT,
    void_reason TEXT
);
CREATE INDEX IF NOT EXISTS approval_tokens_work_item ON approval_tokens (work_item_id);

-- What each use of a token authorised: `check()` finds the task's hash here or refuses.
CREATE TABLE IF NOT EXISTS approval_executions (
    token_id TEXT NOT NULL,
    content_hash TEXT NOT NULL,
    nonce TEXT NOT NULL,
    executed_at TEXT NOT NULL,
    PRIMARY KEY (token_id, content_hash, nonce)
);

-- Nonces that must never be accepted again, until they are too old to be accepted at all.
CREATE TABLE IF NOT EXISTS nonces (
    nonce_key TEXT PRIMARY KEY,
    recorded_at TEXT NOT NULL
);
CREATE INDEX IF NOT EXISTS nonces_recorded_at ON nonces (recorded_at);
