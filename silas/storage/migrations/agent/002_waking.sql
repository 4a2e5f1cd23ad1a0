-- Wakes, runs, and what companions may use. All of it is local to this device, unless said.

-- Every wake, from the moment it is wanted until it has ended. A run key follows from its cause, so
-- the same cause is the same row. `queued` and `running` are the only states that are not the last.
CREATE TABLE IF NOT EXISTS wake_run_log (
    run_key TEXT PRIMARY KEY,
    agent_id TEXT NOT NULL,
    status TEXT NOT NULL,
    queued_at TEXT NOT NULL,
    body TEXT NOT NULL
);
CREATE INDEX IF NOT EXISTS idx_wake_run_log_status ON wake_run_log (status, queued_at);
CREATE INDEX IF NOT EXISTS idx_wake_run_log_agent_queued ON wake_run_log (agent_id, queued_at DESC);

-- Which changes woke somebody, and what their keys were derived from.
CREATE TABLE IF NOT EXISTS notification_provenance (
    logical_change_key TEXT PRIMARY KEY,
    position BIGINT NOT NULL,
    received_at TEXT NOT NULL,
    body TEXT NOT NULL
);
CREATE INDEX IF NOT EXISTS idx_notification_provenance_position
    ON notification_provenance (position);

-- How far the journal's batches were read. Moves in the transaction that writes their wakes.
CREATE TABLE IF NOT EXISTS wake_cursor (
    one INTEGER PRIMARY KEY CHECK (one = 1),
    position BIGINT NOT NULL
);

-- The actions of a run, fixed before the first of them is carried out.
CREATE TABLE IF NOT EXISTS agent_action_plans (
    run_key TEXT PRIMARY KEY,
    agent_id TEXT NOT NULL REFERENCES agents (id),
    created_at TEXT NOT NULL,
    body TEXT NOT NULL
);

-- Writes to the journal and to this database that belong together.
CREATE TABLE IF NOT EXISTS agent_saga_log (
    operation_id TEXT PRIMARY KEY,
    run_key TEXT NOT NULL,
    agent_id TEXT NOT NULL,
    phase TEXT NOT NULL,
    status TEXT NOT NULL,
    last_error TEXT,
    updated_at TEXT NOT NULL,
    body TEXT NOT NULL
);
CREATE INDEX IF NOT EXISTS idx_agent_saga_log_status ON agent_saga_log (status, updated_at);
CREATE INDEX IF NOT EXISTS idx_agent_saga_log_run ON agent_saga_log (run_key);

-- All that explains a run. It never leaves this device.
CREATE TABLE IF NOT EXISTS agent_run_traces (
    run_key TEXT PRIMARY KEY,
    agent_id TEXT NOT NULL,
    started_at TEXT NOT NULL,
    body TEXT NOT NULL
);
CREATE INDEX IF NOT EXISTS idx_agent_run_traces_agent_started
    ON agent_run_traces (agent_id, started_at DESC);

-- What was used on a local day; each host counts its own. Made for other devices to see.
CREATE TABLE IF NOT EXISTS agent_budget_windows (
    id TEXT PRIMARY KEY,
    agent_id TEXT NOT NULL REFERENCES agents (id),
    window_start_local_date TEXT NOT NULL,
    deleted_at TEXT,
    body TEXT NOT NULL
);
CREATE UNIQUE INDEX IF NOT EXISTS idx_agent_budget_windows_agent_date
    ON agent_budget_windows (agent_id, window_start_local_date);

-- Which model of which provider may be used by whom in which category. Made for other devices.
CREATE TABLE IF NOT EXISTS provider_access_policies (
    id TEXT PRIMARY KEY,
    agent_kind TEXT,
    agent_id TEXT,
    category_id TEXT NOT NULL,
    provider TEXT NOT NULL,
    model TEXT NOT NULL,
    deleted_at TEXT,
    body TEXT NOT NULL
);
CREATE INDEX IF NOT EXISTS idx_provider_access_policies_category
    ON provider_access_policies (category_id, provider, model);

-- What providers say that they do with data, and what the owner has agreed to.
CREATE TABLE IF NOT EXISTS provider_privacy_policies (
    id TEXT PRIMARY KEY,
    provider TEXT NOT NULL,
    model TEXT NOT NULL,
    policy_version TEXT NOT NULL,
    deleted_at TEXT,
    body TEXT NOT NULL
);
CREATE INDEX IF NOT EXISTS idx_provider_privacy_policies_model
    ON provider_privacy_policies (provider, model);

CREATE TABLE IF NOT EXISTS consent_receipts (
    id TEXT PRIMARY KEY,
    provider TEXT NOT NULL,
    model TEXT NOT NULL,
    policy_version TEXT NOT NULL,
    confirmed_at TEXT NOT NULL,
    body TEXT NOT NULL
);
CREATE INDEX IF NOT EXISTS idx_consent_receipts_model ON consent_receipts (provider, model);

-- Names of secrets in the vault; never a secret.
CREATE TABLE IF NOT EXISTS provider_credential_refs (
    id TEXT PRIMARY KEY,
    provider TEXT NOT NULL,
    account TEXT NOT NULL,
    secret_ref_id TEXT NOT NULL,
    body TEXT NOT NULL
);

CREATE TABLE IF NOT EXISTS projection_policies (
    id TEXT PRIMARY KEY,
    boundary_type TEXT NOT NULL,
    operation_key TEXT NOT NULL,
    deleted_at TEXT,
    body TEXT NOT NULL
);
CREATE INDEX IF NOT EXISTS idx_projection_policies_operation
    ON projection_policies (boundary_type, operation_key);

CREATE TABLE IF NOT EXISTS stop_switches (
    id TEXT PRIMARY KEY,
    scope TEXT NOT NULL,
    target TEXT,
    engaged INTEGER NOT NULL,
    body TEXT NOT NULL
);
