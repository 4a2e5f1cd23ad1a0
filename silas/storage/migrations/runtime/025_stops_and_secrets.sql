-- Answers that the owner has stopped and that are not written down as stopped yet. The transaction
-- that writes down the answer removes the row.
CREATE TABLE IF NOT EXISTS stopped_answers (
    trace_id TEXT PRIMARY KEY,
    stopped_at TEXT NOT NULL
);
-- Secrets that the owner is asked to type into a card: what they are called, never what they are.
CREATE TABLE IF NOT EXISTS asked_secrets (
    ref_id TEXT PRIMARY KEY,
    label TEXT NOT NULL,
    -- What the owner called it in a conversation; empty if it was not told there.
    told TEXT NOT NULL,
    asked_at TEXT NOT NULL
);
