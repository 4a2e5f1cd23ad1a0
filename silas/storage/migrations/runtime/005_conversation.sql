-- The conversation: who asked what, what the planner is waiting for, and when goals are due.

-- One row for every message that was taken in: where its answer goes, and how far it is trusted.
-- The taint is decided once, together with the use of the message's nonce: if the process dies in
-- the middle of a turn, the message is not its own replay.
CREATE TABLE IF NOT EXISTS conversation_origins (
    trace_id TEXT PRIMARY KEY,
    scope_id TEXT NOT NULL,
    connection_id TEXT NOT NULL,
    channel TEXT NOT NULL,
    sender_id TEXT NOT NULL,
    message_id TEXT NOT NULL,
    taint TEXT,
    created_at TEXT NOT NULL
);

-- How many turns each scope has had.
CREATE TABLE IF NOT EXISTS conversation_scopes (
    scope_id TEXT PRIMARY KEY,
    turns BIGINT NOT NULL
);

-- Where the work items of the conversation came from. `depth` counts new approaches to the same
-- thing; `replaces` is the item that the one before could not do.
CREATE TABLE IF NOT EXISTS conversation_work (
    work_item_id TEXT PRIMARY KEY,
    trace_id TEXT NOT NULL,
    scope_id TEXT NOT NULL,
    taint TEXT NOT NULL,
    depth INTEGER NOT NULL,
    replaces TEXT,
    created_at TEXT NOT NULL
);
CREATE INDEX IF NOT EXISTS conversation_work_scope ON conversation_work (scope_id);

-- What the planner is working on: `state` is the whole state machine as JSON, `version` counts its
-- changes. `next_deadline` is empty while nothing is waited for.
CREATE TABLE IF NOT EXISTS planner_requests (
    request_id TEXT PRIMARY KEY,
    scope_id TEXT NOT NULL,
    status TEXT NOT NULL,
    state TEXT NOT NULL,
    next_deadline TEXT,
    version BIGINT NOT NULL
);
CREATE INDEX IF NOT EXISTS planner_requests_deadline ON planner_requests (next_deadline);

-- Questions of workers that are stuck. An answer is written down only while it is waited for.
CREATE TABLE IF NOT EXISTS planner_consults (
    consult_id TEXT PRIMARY KEY,
    work_item_id TEXT NOT NULL,
    status TEXT NOT NULL,
    deadline TEXT NOT NULL,
    advice TEXT NOT NULL DEFAULT '',
    tokens BIGINT NOT NULL DEFAULT 0,
    cost_usd REAL NOT NULL DEFAULT 0
);

-- Until when each goal's schedule has been looked at; what was due before will not be due again.
CREATE TABLE IF NOT EXISTS goal_times (
    goal_id TEXT PRIMARY KEY,
    looked_until TEXT NOT NULL
);
