-- Vectors of memories: derived, and made anew by `silas memory reindex`.

-- `item` is the memory's id in the runtime database; half-precision numbers, little-endian. A vector
-- counts only if its model is the one in use and its hash is that of the memory's content.
-- `written` counts up with every write, so that a copy of the table knows what it lacks.
CREATE TABLE IF NOT EXISTS vectors (
    item INTEGER PRIMARY KEY,
    model TEXT NOT NULL,
    content_hash BLOB NOT NULL,
    vector BLOB NOT NULL,
    written BIGINT NOT NULL
);
CREATE INDEX IF NOT EXISTS vectors_written ON vectors (written);
