-- What was said in each conversation, in the order in which it was said, until its retention ends.

-- `entry_id` is made from the message's own id: the same entry, added again, is the same entry.
CREATE TABLE IF NOT EXISTS chronicle (
    number INTEGER PRIMARY KEY,
    scope_id TEXT NOT NULL,
    entry_id TEXT NOT NULL,
    turn_number BIGINT NOT NULL,
    kind TEXT NOT NULL,
    source TEXT NOT NULL,
    content TEXT NOT NULL,
    taint TEXT NOT NULL,
    created_at TEXT NOT NULL,
    UNIQUE (scope_id, entry_id)
);
CREATE INDEX IF NOT EXISTS chronicle_scope ON chronicle (scope_id, number);
CREATE INDEX IF NOT EXISTS chronicle_age ON chronicle (created_at);

-- The sessions of each scope. There is one `stream`, which never ends; `side` sessions come and go.
-- `pinned_ctx_ids` is a JSON array.
CREATE TABLE IF NOT EXISTS sessions (
    scope_id TEXT NOT NULL,
    session_id TEXT NOT NULL,
    session_type TEXT NOT NULL,
    title TEXT NOT NULL,
    created_at TEXT NOT NULL,
    last_active TEXT NOT NULL,
    turn_count BIGINT NOT NULL,
    active INTEGER NOT NULL,
    pinned_ctx_ids TEXT NOT NULL,
    PRIMARY KEY (scope_id, session_id)
);
CREATE UNIQUE INDEX IF NOT EXISTS sessions_one_stream ON sessions (scope_id)
    WHERE session_type = 'stream';
