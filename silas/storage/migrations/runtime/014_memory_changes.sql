-- What agents' wishes have changed in the memory, with the whole memory before and after (JSON), so
-- that each change can be undone. Forgetting erases from here too; old changes are dropped.
CREATE TABLE IF NOT EXISTS memory_changes (
    change_id TEXT PRIMARY KEY,
    scope_id TEXT NOT NULL,
    memory_id TEXT NOT NULL,
    op TEXT NOT NULL,
    before TEXT,
    after TEXT,
    made_at TEXT NOT NULL,
    undone_at TEXT
);
CREATE INDEX IF NOT EXISTS memory_changes_made ON memory_changes (scope_id, made_at);
