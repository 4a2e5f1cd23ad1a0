-- Links with which others may talk to Silas. Of a link's secret, and of each connection's, only a
-- hash is kept. A connection is one browser or one program: it is a scope of its own.
CREATE TABLE IF NOT EXISTS visitor_links (
    id TEXT PRIMARY KEY,
    name TEXT NOT NULL,
    goal_id TEXT NOT NULL,
    customer_id TEXT,
    secret_sha256 TEXT NOT NULL UNIQUE,
    limits TEXT NOT NULL,
    created_at TEXT NOT NULL,
    expires_at TEXT,
    revoked_at TEXT
);
CREATE TABLE IF NOT EXISTS visitor_connections (
    id TEXT PRIMARY KEY,
    link_id TEXT NOT NULL REFERENCES visitor_links (id),
    secret_sha256 TEXT NOT NULL UNIQUE,
    created_at TEXT NOT NULL,
    seen_at TEXT NOT NULL
);
CREATE INDEX IF NOT EXISTS visitor_connections_by_link ON visitor_connections (link_id, seen_at);
-- What a link has used on one day (UTC).
CREATE TABLE IF NOT EXISTS visitor_usage (
    link_id TEXT NOT NULL REFERENCES visitor_links (id),
    day TEXT NOT NULL,
    messages INTEGER NOT NULL DEFAULT 0,
    tokens INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (link_id, day)
);
-- Conversations that were handed over to a person: to the owner, or to a named queue of the owner's.
CREATE TABLE IF NOT EXISTS visitor_cases (
    id TEXT PRIMARY KEY,
    connection_id TEXT NOT NULL REFERENCES visitor_connections (id),
    queue TEXT,
    gate TEXT NOT NULL,
    reason TEXT NOT NULL,
    question_id TEXT NOT NULL,
    opened_at TEXT NOT NULL,
    closed_at TEXT
);
CREATE INDEX IF NOT EXISTS visitor_cases_by_connection ON visitor_cases (connection_id, closed_at);
