-- Files that the owner has attached, by the hash of their bytes. The bytes are files of their own
-- below `attachments/` in the data directory.
CREATE TABLE IF NOT EXISTS attachments (
    sha256 TEXT PRIMARY KEY,
    kind TEXT NOT NULL,
    size INTEGER NOT NULL,
    kept_at TEXT NOT NULL
);
-- Which message names which of them, in its order, and under which name.
CREATE TABLE IF NOT EXISTS message_attachments (
    message_id TEXT NOT NULL,
    position INTEGER NOT NULL,
    sha256 TEXT NOT NULL,
    name TEXT NOT NULL,
    said_at TEXT NOT NULL,
    PRIMARY KEY (message_id, position)
);
CREATE INDEX IF NOT EXISTS message_attachments_by_file ON message_attachments (sha256);
