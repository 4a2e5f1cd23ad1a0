-- What waits for the owner's decision, and what is on its way to people.

-- A card shows a plan whole: `items` has the id and the hash of each work item, in their order.
-- `decision` is the canonical JSON that was signed; a row that nobody has signed decides nothing.
CREATE TABLE IF NOT EXISTS review_cards (
    id TEXT PRIMARY KEY,
    scope_id TEXT NOT NULL,
    connection_id TEXT NOT NULL,
    channel TEXT NOT NULL,
    trace_id TEXT NOT NULL,
    title TEXT NOT NULL,
    message TEXT NOT NULL,
    risk TEXT NOT NULL,
    taint TEXT NOT NULL,
    items TEXT NOT NULL,
    replaces TEXT,
    requested_by TEXT NOT NULL,
    created_at TEXT NOT NULL,
    expires_at TEXT NOT NULL,
    state TEXT NOT NULL,
    decision TEXT,
    key_id TEXT,
    signature TEXT,
    decided_at TEXT
);
CREATE INDEX IF NOT EXISTS review_cards_state ON review_cards (state, created_at);

-- Answers and reports, in the order in which they were written, until their retention ends. A
-- channel remembers how far it has read; nothing is lost when it was away.
CREATE TABLE IF NOT EXISTS deliveries (
    number INTEGER PRIMARY KEY,
    message_id TEXT NOT NULL UNIQUE,
    connection_id TEXT NOT NULL,
    scope_id TEXT NOT NULL,
    message TEXT NOT NULL,
    created_at TEXT NOT NULL
);
CREATE INDEX IF NOT EXISTS deliveries_connection ON deliveries (connection_id, number);
