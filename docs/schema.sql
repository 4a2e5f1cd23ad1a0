-- The schema that the migrations add up to. Generated; the migrations are the source.

-- runtime

CREATE TABLE approval_executions (
    token_id TEXT NOT NULL,
    content_hash TEXT NOT NULL,
    nonce TEXT NOT NULL,
    executed_at TEXT NOT NULL,
    PRIMARY KEY (token_id, content_hash, nonce)
);

CREATE TABLE approval_tokens (
    token_id TEXT PRIMARY KEY,
    work_item_id TEXT NOT NULL,
    token TEXT NOT NULL,
    signature TEXT NOT NULL,
    shown TEXT NOT NULL,
    spawn_policy TEXT,
    executions_used INTEGER NOT NULL DEFAULT 0,
    issued_at TEXT NOT NULL,
    expires_at TEXT NOT NULL,
    voided_at TEXT,
    void_reason TEXT
);

CREATE INDEX approval_tokens_work_item ON approval_tokens (work_item_id);

CREATE TABLE audit_checkpoints (
    checkpoint_id TEXT PRIMARY KEY,
    seq BIGINT NOT NULL,
    body TEXT NOT NULL,
    key_id TEXT NOT NULL,
    signature TEXT NOT NULL
);

CREATE INDEX audit_checkpoints_seq ON audit_checkpoints (seq);

CREATE TABLE audit_log (
    seq INTEGER PRIMARY KEY,
    body TEXT NOT NULL,
    hash TEXT NOT NULL
);

CREATE TABLE audit_state (
    id INTEGER PRIMARY KEY CHECK (id = 1),
    base_seq BIGINT NOT NULL,
    base_hash TEXT NOT NULL,
    base_proof TEXT NOT NULL,
    head_seq BIGINT NOT NULL,
    head_hash TEXT NOT NULL
);

CREATE TABLE nonces (
    nonce_key TEXT PRIMARY KEY,
    recorded_at TEXT NOT NULL
);

CREATE INDEX nonces_recorded_at ON nonces (recorded_at);

CREATE TABLE work_artifacts (
    plan_id TEXT NOT NULL,
    task_id TEXT NOT NULL,
    attempt INTEGER NOT NULL,
    name TEXT NOT NULL,
    sha256 TEXT NOT NULL,
    size BIGINT NOT NULL,
    kept_at TEXT NOT NULL,
    PRIMARY KEY (plan_id, task_id, attempt, name)
);

CREATE TABLE work_attempts (
    work_item_id TEXT NOT NULL,
    attempt INTEGER NOT NULL,
    runner TEXT NOT NULL,
    started_at TEXT NOT NULL,
    ended_at TEXT,
    outcome TEXT,
    detail TEXT NOT NULL DEFAULT '',
    PRIMARY KEY (work_item_id, attempt)
);

CREATE UNIQUE INDEX work_attempts_open
    ON work_attempts (work_item_id) WHERE ended_at IS NULL;

CREATE TABLE work_items (
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

CREATE INDEX work_items_follow_up_of ON work_items (follow_up_of);

CREATE INDEX work_items_parent ON work_items (parent);

CREATE INDEX work_items_status ON work_items (status);

CREATE TABLE work_ledger (
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
