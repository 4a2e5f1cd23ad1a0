-- The owner's devices, and what people said on the channels that can show it again.

-- A device's key signs messages and decisions. `endorsement` is the owner's own signature over the
-- other columns before it: a row that somebody wrote into the database is nobody's device.
CREATE TABLE IF NOT EXISTS devices (
    device_id TEXT PRIMARY KEY,
    public_key TEXT NOT NULL,
    name TEXT NOT NULL,
    enrolled_at TEXT NOT NULL,
    owner_key_id TEXT NOT NULL,
    endorsement TEXT NOT NULL,
    revoked_at TEXT
);

-- The other half of `deliveries`: together they are the conversation as a person sees it.
CREATE TABLE IF NOT EXISTS said (
    number INTEGER PRIMARY KEY,
    message_id TEXT NOT NULL UNIQUE,
    connection_id TEXT NOT NULL,
    text TEXT NOT NULL,
    created_at TEXT NOT NULL
);
CREATE INDEX IF NOT EXISTS said_connection ON said (connection_id, number);
