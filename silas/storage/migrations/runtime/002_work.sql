-- Work items, their attempts, what the attempts did, and what they left behind.

-- `plan` holds the canonical JSON exactly as it is hashed for approval; the other columns are what
-- the runtime keeps, or copies out of the plan for an index. `version` counts changes.
CREATE TABLE IF NOT EXISTS work_items (
    id TEXT PRIMARY KEY,
    type TEXT NOT NULL,
    status TEXT NOT NULL,
    parent TEXT,
    follow_up_of TEXT,
    plan TEXT NOT NULL,
    needs_approval INTEGER NOT NULL,
    approval_token TEXT,
    attempts INTEGER NOT NULL,
    budget_used TEXT NOT NULL,
    verification_results TEXT NOT NULL,
    created_at TEXT NOT NULL,
    updated_at TEXT NOT NULL,
    version BIGINT NOT NULL
);
CREATE INDEX IF NOT EXISTS work_items_status ON work_items (status);
CREATE INDEX IF NOT EXISTS work_items_parent ON work_items (parent);
CREATE INDEX IF NOT EXISTS work_items_follow_up_of ON work_items (follow_up_of);

-- One row for every time that somebody started to work. An attempt without `ended_at` is open, and
-- of one item only one can be open: that is what keeps it from running twice at once.
CREATE TABLE IF NOT EXISTS work_attempts (
    work_item_id TEXT NOT NULL,
    attempt INTEGER NOT NULL,
    runner TEXT NOT NULL,
    started_at TEXT NOT NULL,
    ended_at TEXT,
    outcome TEXT,
    detail TEXT NOT NULL DEFAULT '',
    PRIMARY KEY (work_item_id, attempt)
);
CREATE UNIQUE INDEX IF NOT EXISTS work_attempts_open
    ON work_attempts (work_item_id) WHERE ended_at IS NULL;

-- Every tool call of an attempt, in order. A row without a result is a call that was begun and of
-- which nobody knows how it ended.
CREATE TABLE IF NOT EXISTS work_ledger (
    work_item_id TEXT NOT NULL,
    attempt INTEGER NOT NULL,
    seq INTEGER NOT NULL,
    tool TEXT NOT NULL,
    args TEXT NOT NULL,
    started_at TEXT NOT NULL,
    ended_at TEXT,
    result TEXT,
    PRIMARY KEY (work_item_id, attempt, seq)
);

-- Files under `artifacts/{plan}/{task}/{attempt}/`, with the hash that they had when they were kept.
CREATE TABLE IF NOT EXISTS work_artifacts (
    plan_id TEXT NOT NULL,
    task_id TEXT NOT NULL,
    attempt INTEGER NOT NULL,
    name TEXT NOT NULL,
    sha256 TEXT NOT NULL,
    size BIGINT NOT NULL,
    kept_at TEXT NOT NULL,
    PRIMARY KEY (plan_id, task_id, attempt, name)
);
