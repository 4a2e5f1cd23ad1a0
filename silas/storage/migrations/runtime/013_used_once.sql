-- What was approved is done once, also if somebody puts old rows back.

-- The owner's key vouches for when a decision or an answer was kept: an old one is not followed.
CREATE TABLE IF NOT EXISTS decision_receipts (
    card_id TEXT PRIMARY KEY,
    decided_at TEXT NOT NULL,
    key_id TEXT NOT NULL,
    signature TEXT NOT NULL
);

-- The owner's key vouches for each task that a standing approval was used for, and for when.
CREATE TABLE IF NOT EXISTS approval_use_seals (
    token_id TEXT NOT NULL,
    content_hash TEXT NOT NULL,
    used_at TEXT NOT NULL,
    key_id TEXT NOT NULL,
    signature TEXT NOT NULL,
    PRIMARY KEY (token_id, content_hash)
);
