-- What was carried out is not carried out again, and what waits is as it was when it was paused.

-- Work that was done under an approval: a row of the item that says otherwise opens no door.
CREATE TABLE IF NOT EXISTS approval_completions (
    token_id TEXT NOT NULL,
    content_hash TEXT NOT NULL,
    completed_at TEXT NOT NULL,
    PRIMARY KEY (token_id, content_hash)
);

-- The owner's key vouches for what a paused run knows: its taint, its briefing and its calls. A run
-- without a valid seal is dropped.
CREATE TABLE IF NOT EXISTS paused_seals (
    run_id TEXT PRIMARY KEY,
    key_id TEXT NOT NULL,
    signature TEXT NOT NULL
);

-- For forgetting old requests: when they came, and what still belongs to them.
CREATE INDEX IF NOT EXISTS conversation_origins_age ON conversation_origins (created_at);
CREATE INDEX IF NOT EXISTS conversation_work_trace ON conversation_work (trace_id);
CREATE INDEX IF NOT EXISTS review_cards_trace ON review_cards (trace_id);
CREATE INDEX IF NOT EXISTS review_cards_scope ON review_cards (scope_id, state);
