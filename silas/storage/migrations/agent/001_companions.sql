-- Companions: who they are, what they remember, what they show, and what wakes them.
--
-- `body` is the record whole, as JSON. The other columns are taken out of it, to be found by.
-- A record is never removed by its writers: `deleted_at` makes it a tombstone.

-- This device: its name in vector clocks, and the number of its last write.
CREATE TABLE IF NOT EXISTS agent_host (
    one INTEGER PRIMARY KEY CHECK (one = 1),
    host_id TEXT NOT NULL,
    counter BIGINT NOT NULL DEFAULT 0
);

CREATE TABLE IF NOT EXISTS agents (
    id TEXT PRIMARY KEY,
    kind TEXT NOT NULL,
    lifecycle TEXT NOT NULL,
    created_at TEXT NOT NULL,
    deleted_at TEXT,
    body TEXT NOT NULL
);
CREATE INDEX IF NOT EXISTS idx_agents_lifecycle ON agents (lifecycle, created_at);

CREATE TABLE IF NOT EXISTS agent_states (
    id TEXT PRIMARY KEY,
    agent_id TEXT NOT NULL REFERENCES agents (id),
    revision BIGINT NOT NULL,
    deleted_at TEXT,
    body TEXT NOT NULL
);
CREATE UNIQUE INDEX IF NOT EXISTS idx_agent_states_agent ON agent_states (agent_id);

-- `notification_key` is the first kind of record that the subscription names, if it names one.
CREATE TABLE IF NOT EXISTS agent_subscriptions (
    id TEXT PRIMARY KEY,
    agent_id TEXT NOT NULL REFERENCES agents (id),
    notification_key TEXT,
    active INTEGER NOT NULL,
    deleted_at TEXT,
    body TEXT NOT NULL
);
CREATE INDEX IF NOT EXISTS idx_agent_subscriptions_agent_active
    ON agent_subscriptions (agent_id, active);
CREATE INDEX IF NOT EXISTS idx_agent_subscriptions_key_active
    ON agent_subscriptions (notification_key, active);

-- What the subscriptions wait for, one row for each token. Only a subtype has a namespace.
CREATE TABLE IF NOT EXISTS agent_subscription_tokens (
    subscription_id TEXT NOT NULL REFERENCES agent_subscriptions (id),
    token_class TEXT NOT NULL,
    token_namespace TEXT,
    token_value TEXT NOT NULL,
    active INTEGER NOT NULL
);
CREATE INDEX IF NOT EXISTS idx_agent_subscription_tokens_class_namespace_value_active
    ON agent_subscription_tokens (token_class, token_namespace, token_value, active);
CREATE INDEX IF NOT EXISTS idx_agent_subscription_tokens_subscription_active
    ON agent_subscription_tokens (subscription_id, active);

CREATE TABLE IF NOT EXISTS agent_timers (
    id TEXT PRIMARY KEY,
    agent_id TEXT NOT NULL REFERENCES agents (id),
    active INTEGER NOT NULL,
    next_run_at TEXT,
    deleted_at TEXT,
    body TEXT NOT NULL
);
CREATE INDEX IF NOT EXISTS idx_agent_timers_due ON agent_timers (active, next_run_at);
CREATE INDEX IF NOT EXISTS idx_agent_timers_agent ON agent_timers (agent_id);

CREATE TABLE IF NOT EXISTS agent_sessions (
    id TEXT PRIMARY KEY,
    agent_id TEXT NOT NULL REFERENCES agents (id),
    expires_at TEXT NOT NULL,
    closed_at TEXT,
    body TEXT NOT NULL
);
CREATE INDEX IF NOT EXISTS idx_agent_sessions_open ON agent_sessions (closed_at, expires_at);
CREATE INDEX IF NOT EXISTS idx_agent_sessions_agent ON agent_sessions (agent_id, closed_at);

CREATE TABLE IF NOT EXISTS agent_message_payloads (
    id TEXT PRIMARY KEY,
    agent_id TEXT NOT NULL REFERENCES agents (id),
    created_at TEXT NOT NULL,
    deleted_at TEXT,
    body TEXT NOT NULL
);
CREATE INDEX IF NOT EXISTS idx_agent_message_payloads_agent_created
    ON agent_message_payloads (agent_id, created_at DESC);

-- The log. An entry is written once and never changed; `sequence` counts causally.
CREATE TABLE IF NOT EXISTS agent_messages (
    id TEXT PRIMARY KEY,
    agent_id TEXT NOT NULL REFERENCES agents (id),
    thread_id TEXT NOT NULL,
    kind TEXT NOT NULL,
    sequence BIGINT NOT NULL,
    summary_depth INTEGER NOT NULL,
    operation_id TEXT,
    content_entry_id TEXT REFERENCES agent_message_payloads (id),
    created_at TEXT NOT NULL,
    deleted_at TEXT,
    body TEXT NOT NULL
);
CREATE INDEX IF NOT EXISTS idx_agent_messages_agent_created
    ON agent_messages (agent_id, created_at DESC);
CREATE INDEX IF NOT EXISTS idx_agent_messages_agent_sequence ON agent_messages (agent_id, sequence);
CREATE INDEX IF NOT EXISTS idx_agent_messages_thread_depth
    ON agent_messages (agent_id, thread_id, summary_depth, sequence);
CREATE INDEX IF NOT EXISTS idx_agent_messages_depth
    ON agent_messages (agent_id, summary_depth, sequence);
CREATE INDEX IF NOT EXISTS idx_agent_messages_operation ON agent_messages (operation_id);

CREATE TABLE IF NOT EXISTS agent_links (
    id TEXT PRIMARY KEY,
    agent_id TEXT NOT NULL REFERENCES agents (id),
    type TEXT NOT NULL,
    from_id TEXT NOT NULL,
    to_id TEXT NOT NULL,
    hidden INTEGER NOT NULL,
    created_at TEXT NOT NULL,
    deleted_at TEXT,
    body TEXT NOT NULL
);
CREATE INDEX IF NOT EXISTS idx_agent_links_type_from_hidden_created
    ON agent_links (type, from_id, hidden, created_at DESC);
CREATE INDEX IF NOT EXISTS idx_agent_links_type_to_hidden_created
    ON agent_links (type, to_id, hidden, created_at DESC);

CREATE TABLE IF NOT EXISTS agent_reports (
    id TEXT PRIMARY KEY,
    agent_id TEXT NOT NULL REFERENCES agents (id),
    scope TEXT NOT NULL,
    created_at TEXT NOT NULL,
    deleted_at TEXT,
    body TEXT NOT NULL
);
CREATE INDEX IF NOT EXISTS idx_agent_reports_agent_scope_created
    ON agent_reports (agent_id, scope, created_at DESC);

CREATE TABLE IF NOT EXISTS agent_report_heads (
    id TEXT PRIMARY KEY,
    agent_id TEXT NOT NULL REFERENCES agents (id),
    scope TEXT NOT NULL,
    report_id TEXT NOT NULL REFERENCES agent_reports (id),
    deleted_at TEXT,
    body TEXT NOT NULL
);
CREATE UNIQUE INDEX IF NOT EXISTS idx_agent_report_heads_agent_scope
    ON agent_report_heads (agent_id, scope);

CREATE TABLE IF NOT EXISTS agent_source_refs (
    id TEXT PRIMARY KEY,
    agent_id TEXT NOT NULL REFERENCES agents (id),
    report_id TEXT NOT NULL REFERENCES agent_reports (id),
    source_type TEXT NOT NULL,
    source_id TEXT NOT NULL,
    deleted_at TEXT,
    body TEXT NOT NULL
);
CREATE INDEX IF NOT EXISTS idx_agent_source_refs_agent_source
    ON agent_source_refs (agent_id, source_type, source_id);
CREATE INDEX IF NOT EXISTS idx_agent_source_refs_report ON agent_source_refs (report_id);

CREATE TABLE IF NOT EXISTS agent_persona_versions (
    id TEXT PRIMARY KEY,
    agent_id TEXT NOT NULL REFERENCES agents (id),
    version INTEGER NOT NULL,
    status TEXT NOT NULL,
    deleted_at TEXT,
    body TEXT NOT NULL
);
CREATE INDEX IF NOT EXISTS idx_agent_persona_versions_agent_version
    ON agent_persona_versions (agent_id, version DESC);

CREATE TABLE IF NOT EXISTS agent_persona_heads (
    id TEXT PRIMARY KEY,
    agent_id TEXT NOT NULL REFERENCES agents (id),
    persona_version_id TEXT NOT NULL REFERENCES agent_persona_versions (id),
    deleted_at TEXT,
    body TEXT NOT NULL
);
CREATE UNIQUE INDEX IF NOT EXISTS idx_agent_persona_heads_agent ON agent_persona_heads (agent_id);

CREATE TABLE IF NOT EXISTS agent_prompt_items (
    id TEXT PRIMARY KEY,
    agent_id TEXT NOT NULL REFERENCES agents (id),
    run_key TEXT NOT NULL,
    state TEXT NOT NULL,
    required_by TEXT,
    created_at TEXT NOT NULL,
    deleted_at TEXT,
    body TEXT NOT NULL
);
CREATE INDEX IF NOT EXISTS idx_agent_prompt_items_agent_state_due
    ON agent_prompt_items (agent_id, state, required_by);

CREATE TABLE IF NOT EXISTS agent_prompt_responses (
    id TEXT PRIMARY KEY,
    agent_id TEXT NOT NULL REFERENCES agents (id),
    prompt_item_id TEXT NOT NULL REFERENCES agent_prompt_items (id),
    responded_at TEXT NOT NULL,
    deleted_at TEXT,
    body TEXT NOT NULL
);
CREATE INDEX IF NOT EXISTS idx_agent_prompt_responses_prompt_responded
    ON agent_prompt_responses (prompt_item_id, responded_at DESC);

-- Spans of the log that are to become summaries. Local to this device.
CREATE TABLE IF NOT EXISTS agent_compaction_jobs (
    id TEXT PRIMARY KEY,
    agent_id TEXT NOT NULL REFERENCES agents (id),
    thread_id TEXT NOT NULL,
    status TEXT NOT NULL,
    next_attempt_at TEXT NOT NULL,
    created_at TEXT NOT NULL,
    body TEXT NOT NULL
);
CREATE INDEX IF NOT EXISTS idx_agent_compaction_jobs_ready
    ON agent_compaction_jobs (status, next_attempt_at);
CREATE INDEX IF NOT EXISTS idx_agent_compaction_jobs_thread_status
    ON agent_compaction_jobs (agent_id, thread_id, status);

-- What was odd, for the owner to look at. Local to this device.
CREATE TABLE IF NOT EXISTS agent_diagnostics (
    id TEXT PRIMARY KEY,
    agent_id TEXT,
    kind TEXT NOT NULL,
    subject_id TEXT NOT NULL,
    created_at TEXT NOT NULL,
    body TEXT NOT NULL
);
CREATE INDEX IF NOT EXISTS idx_agent_diagnostics_kind ON agent_diagnostics (kind, created_at);
