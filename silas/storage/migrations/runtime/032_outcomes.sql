-- What became of each decision of the owner's about an action, by its family (mail_archive,
-- file_write, send, …). One decision counts once for each family and outcome.
CREATE TABLE IF NOT EXISTS action_outcomes (
    ref TEXT NOT NULL,
    family TEXT NOT NULL,
    outcome TEXT NOT NULL CHECK (outcome IN (
        'approved', 'edited', 'declined', 'undone', 'dismissed')),
    scope_id TEXT NOT NULL,
    goal_id TEXT,
    confidence REAL,
    touched INTEGER NOT NULL,
    at TEXT NOT NULL,
    PRIMARY KEY (ref, family, outcome)
);
CREATE INDEX IF NOT EXISTS action_outcomes_at ON action_outcomes (at);
