-- Cards that nobody asked for: how many were shown on a day, and which are held for the digest.
CREATE TABLE IF NOT EXISTS unasked_cards (
    question_id TEXT PRIMARY KEY,
    at TEXT NOT NULL,
    shown INTEGER NOT NULL
);
CREATE INDEX IF NOT EXISTS unasked_cards_at ON unasked_cards (at);

-- What the owner allows for a while, and what was done under it since.
CREATE TABLE IF NOT EXISTS standing_grants (
    grant_id TEXT PRIMARY KEY,
    content TEXT NOT NULL,
    token TEXT NOT NULL,
    granted_at TEXT NOT NULL,
    ended_at TEXT
);
CREATE TABLE IF NOT EXISTS grant_uses (
    use_id INTEGER PRIMARY KEY,
    grant_id TEXT NOT NULL,
    work_item_id TEXT NOT NULL,
    tool TEXT NOT NULL,
    args TEXT NOT NULL,
    at TEXT NOT NULL
);
CREATE INDEX IF NOT EXISTS grant_uses_of ON grant_uses (grant_id, at);
