-- The schema that the migrations add up to. Generated; the migrations are the source.

-- agent

CREATE TABLE agent_action_plans (
    run_key TEXT PRIMARY KEY,
    agent_id TEXT NOT NULL REFERENCES agents (id),
    created_at TEXT NOT NULL,
    body TEXT NOT NULL
);

CREATE TABLE agent_budget_reservations (
    id TEXT PRIMARY KEY,
    agent_id TEXT NOT NULL,
    window_start_local_date TEXT NOT NULL,
    created_at TEXT NOT NULL,
    body TEXT NOT NULL
);

CREATE INDEX idx_agent_budget_reservations_agent
    ON agent_budget_reservations (agent_id, window_start_local_date);

CREATE TABLE agent_budget_windows (
    id TEXT PRIMARY KEY,
    agent_id TEXT NOT NULL REFERENCES agents (id),
    window_start_local_date TEXT NOT NULL,
    deleted_at TEXT,
    body TEXT NOT NULL
);

CREATE UNIQUE INDEX idx_agent_budget_windows_agent_date
    ON agent_budget_windows (agent_id, window_start_local_date);

CREATE TABLE agent_compaction_jobs (
    id TEXT PRIMARY KEY,
    agent_id TEXT NOT NULL REFERENCES agents (id),
    thread_id TEXT NOT NULL,
    status TEXT NOT NULL,
    next_attempt_at TEXT NOT NULL,
    created_at TEXT NOT NULL,
    body TEXT NOT NULL
);

CREATE INDEX idx_agent_compaction_jobs_ready
    ON agent_compaction_jobs (status, next_attempt_at);

CREATE INDEX idx_agent_compaction_jobs_thread_status
    ON agent_compaction_jobs (agent_id, thread_id, status);

CREATE TABLE agent_definitions (
    agent_id TEXT PRIMARY KEY REFERENCES agents (id),
    definition_hash TEXT NOT NULL,
    updated_at TEXT NOT NULL,
    body TEXT NOT NULL
);

CREATE TABLE agent_diagnostics (
    id TEXT PRIMARY KEY,
    agent_id TEXT,
    kind TEXT NOT NULL,
    subject_id TEXT NOT NULL,
    created_at TEXT NOT NULL,
    body TEXT NOT NULL
);

CREATE INDEX idx_agent_diagnostics_kind ON agent_diagnostics (kind, created_at);

CREATE TABLE agent_earlier_definitions (
    id TEXT PRIMARY KEY,
    agent_id TEXT NOT NULL REFERENCES agents (id),
    replaced_at TEXT NOT NULL,
    body TEXT NOT NULL
);

CREATE INDEX idx_agent_earlier_definitions_agent
    ON agent_earlier_definitions (agent_id, replaced_at DESC);

CREATE TABLE agent_erasures (
    id TEXT PRIMARY KEY,
    created_at TEXT NOT NULL,
    body TEXT NOT NULL
);

CREATE INDEX idx_agent_erasures_created ON agent_erasures (created_at DESC);

CREATE TABLE agent_host (
    one INTEGER PRIMARY KEY CHECK (one = 1),
    host_id TEXT NOT NULL,
    counter BIGINT NOT NULL DEFAULT 0
);

CREATE TABLE agent_links (
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

CREATE INDEX idx_agent_links_type_from_hidden_created
    ON agent_links (type, from_id, hidden, created_at DESC);

CREATE INDEX idx_agent_links_type_to_hidden_created
    ON agent_links (type, to_id, hidden, created_at DESC);

CREATE TABLE agent_message_payloads (
    id TEXT PRIMARY KEY,
    agent_id TEXT NOT NULL REFERENCES agents (id),
    created_at TEXT NOT NULL,
    deleted_at TEXT,
    body TEXT NOT NULL
);

CREATE INDEX idx_agent_message_payloads_agent_created
    ON agent_message_payloads (agent_id, created_at DESC);

CREATE TABLE agent_messages (
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

CREATE INDEX idx_agent_messages_agent_created
    ON agent_messages (agent_id, created_at DESC);

CREATE INDEX idx_agent_messages_agent_sequence ON agent_messages (agent_id, sequence);

CREATE INDEX idx_agent_messages_depth
    ON agent_messages (agent_id, summary_depth, sequence);

CREATE INDEX idx_agent_messages_operation ON agent_messages (operation_id);

CREATE INDEX idx_agent_messages_thread_depth
    ON agent_messages (agent_id, thread_id, summary_depth, sequence);

CREATE TABLE agent_operations (
    operation_id TEXT PRIMARY KEY,
    run_key TEXT NOT NULL,
    agent_id TEXT NOT NULL,
    phase TEXT NOT NULL,
    status TEXT NOT NULL,
    last_error TEXT,
    created_at TEXT NOT NULL,
    updated_at TEXT NOT NULL,
    body TEXT NOT NULL
);

CREATE INDEX idx_agent_operations_agent ON agent_operations (agent_id, status);

CREATE INDEX idx_agent_operations_run ON agent_operations (run_key);

CREATE INDEX idx_agent_operations_status ON agent_operations (status, created_at);

CREATE TABLE agent_persona_heads (
    id TEXT PRIMARY KEY,
    agent_id TEXT NOT NULL REFERENCES agents (id),
    persona_version_id TEXT NOT NULL REFERENCES agent_persona_versions (id),
    deleted_at TEXT,
    body TEXT NOT NULL
);

CREATE UNIQUE INDEX idx_agent_persona_heads_agent ON agent_persona_heads (agent_id);

CREATE TABLE agent_persona_versions (
    id TEXT PRIMARY KEY,
    agent_id TEXT NOT NULL REFERENCES agents (id),
    version INTEGER NOT NULL,
    status TEXT NOT NULL,
    deleted_at TEXT,
    body TEXT NOT NULL
);

CREATE INDEX idx_agent_persona_versions_agent_version
    ON agent_persona_versions (agent_id, version DESC);

CREATE TABLE agent_prompt_items (
    id TEXT PRIMARY KEY,
    agent_id TEXT NOT NULL REFERENCES agents (id),
    run_key TEXT NOT NULL,
    state TEXT NOT NULL,
    required_by TEXT,
    created_at TEXT NOT NULL,
    deleted_at TEXT,
    body TEXT NOT NULL
);

CREATE INDEX idx_agent_prompt_items_agent_state_due
    ON agent_prompt_items (agent_id, state, required_by);

CREATE TABLE agent_prompt_responses (
    id TEXT PRIMARY KEY,
    agent_id TEXT NOT NULL REFERENCES agents (id),
    prompt_item_id TEXT NOT NULL REFERENCES agent_prompt_items (id),
    responded_at TEXT NOT NULL,
    deleted_at TEXT,
    body TEXT NOT NULL
);

CREATE INDEX idx_agent_prompt_responses_prompt_responded
    ON agent_prompt_responses (prompt_item_id, responded_at DESC);

CREATE TABLE agent_report_heads (
    id TEXT PRIMARY KEY,
    agent_id TEXT NOT NULL REFERENCES agents (id),
    scope TEXT NOT NULL,
    report_id TEXT NOT NULL REFERENCES agent_reports (id),
    deleted_at TEXT,
    body TEXT NOT NULL
);

CREATE UNIQUE INDEX idx_agent_report_heads_agent_scope
    ON agent_report_heads (agent_id, scope);

CREATE TABLE agent_reports (
    id TEXT PRIMARY KEY,
    agent_id TEXT NOT NULL REFERENCES agents (id),
    scope TEXT NOT NULL,
    created_at TEXT NOT NULL,
    deleted_at TEXT,
    body TEXT NOT NULL
);

CREATE INDEX idx_agent_reports_agent_scope_created
    ON agent_reports (agent_id, scope, created_at DESC);

CREATE TABLE agent_run_traces (
    run_key TEXT PRIMARY KEY,
    agent_id TEXT NOT NULL,
    started_at TEXT NOT NULL,
    body TEXT NOT NULL
);

CREATE INDEX idx_agent_run_traces_agent_started
    ON agent_run_traces (agent_id, started_at DESC);

CREATE TABLE agent_sessions (
    id TEXT PRIMARY KEY,
    agent_id TEXT NOT NULL REFERENCES agents (id),
    expires_at TEXT NOT NULL,
    closed_at TEXT,
    body TEXT NOT NULL
);

CREATE INDEX idx_agent_sessions_agent ON agent_sessions (agent_id, closed_at);

CREATE INDEX idx_agent_sessions_open ON agent_sessions (closed_at, expires_at);

CREATE TABLE agent_source_refs (
    id TEXT PRIMARY KEY,
    agent_id TEXT NOT NULL REFERENCES agents (id),
    report_id TEXT NOT NULL REFERENCES agent_reports (id),
    source_type TEXT NOT NULL,
    source_id TEXT NOT NULL,
    deleted_at TEXT,
    body TEXT NOT NULL
);

CREATE INDEX idx_agent_source_refs_agent_source
    ON agent_source_refs (agent_id, source_type, source_id);

CREATE INDEX idx_agent_source_refs_report ON agent_source_refs (report_id);

CREATE TABLE agent_states (
    id TEXT PRIMARY KEY,
    agent_id TEXT NOT NULL REFERENCES agents (id),
    revision BIGINT NOT NULL,
    deleted_at TEXT,
    body TEXT NOT NULL
);

CREATE UNIQUE INDEX idx_agent_states_agent ON agent_states (agent_id);

CREATE TABLE agent_subscription_tokens (
    subscription_id TEXT NOT NULL REFERENCES agent_subscriptions (id),
    token_class TEXT NOT NULL,
    token_namespace TEXT,
    token_value TEXT NOT NULL,
    active INTEGER NOT NULL
);

CREATE INDEX idx_agent_subscription_tokens_class_namespace_value_active
    ON agent_subscription_tokens (token_class, token_namespace, token_value, active);

CREATE INDEX idx_agent_subscription_tokens_subscription_active
    ON agent_subscription_tokens (subscription_id, active);

CREATE TABLE agent_subscriptions (
    id TEXT PRIMARY KEY,
    agent_id TEXT NOT NULL REFERENCES agents (id),
    notification_key TEXT,
    active INTEGER NOT NULL,
    deleted_at TEXT,
    body TEXT NOT NULL
);

CREATE INDEX idx_agent_subscriptions_agent_active
    ON agent_subscriptions (agent_id, active);

CREATE INDEX idx_agent_subscriptions_key_active
    ON agent_subscriptions (notification_key, active);

CREATE TABLE agent_timers (
    id TEXT PRIMARY KEY,
    agent_id TEXT NOT NULL REFERENCES agents (id),
    active INTEGER NOT NULL,
    next_run_at TEXT,
    deleted_at TEXT,
    body TEXT NOT NULL
);

CREATE INDEX idx_agent_timers_agent ON agent_timers (agent_id);

CREATE INDEX idx_agent_timers_due ON agent_timers (active, next_run_at);

CREATE TABLE agents (
    id TEXT PRIMARY KEY,
    kind TEXT NOT NULL,
    lifecycle TEXT NOT NULL,
    created_at TEXT NOT NULL,
    deleted_at TEXT,
    body TEXT NOT NULL
);

CREATE INDEX idx_agents_lifecycle ON agents (lifecycle, created_at);

CREATE TABLE model_grants (
    id TEXT PRIMARY KEY,
    agent_id TEXT NOT NULL,
    provider TEXT NOT NULL,
    model TEXT NOT NULL,
    policy_version TEXT NOT NULL,
    confirmed_at TEXT NOT NULL,
    body TEXT NOT NULL
);

CREATE INDEX idx_model_grants_agent ON model_grants (agent_id);

CREATE TABLE model_rules (
    id TEXT PRIMARY KEY,
    scope TEXT NOT NULL,
    target TEXT NOT NULL,
    body TEXT NOT NULL
);

CREATE TABLE notification_provenance (
    logical_change_key TEXT PRIMARY KEY,
    position BIGINT NOT NULL,
    received_at TEXT NOT NULL,
    body TEXT NOT NULL
);

CREATE INDEX idx_notification_provenance_position
    ON notification_provenance (position);

CREATE TABLE projection_policies (
    id TEXT PRIMARY KEY,
    boundary_type TEXT NOT NULL,
    operation_key TEXT NOT NULL,
    deleted_at TEXT,
    body TEXT NOT NULL
);

CREATE INDEX idx_projection_policies_operation
    ON projection_policies (boundary_type, operation_key);

CREATE TABLE provider_privacy_policies (
    id TEXT PRIMARY KEY,
    provider TEXT NOT NULL,
    model TEXT NOT NULL,
    policy_version TEXT NOT NULL,
    deleted_at TEXT,
    body TEXT NOT NULL
);

CREATE INDEX idx_provider_privacy_policies_model
    ON provider_privacy_policies (provider, model);

CREATE TABLE stop_switches (
    id TEXT PRIMARY KEY,
    scope TEXT NOT NULL,
    target TEXT,
    engaged INTEGER NOT NULL,
    body TEXT NOT NULL
);

CREATE TABLE wake_cursor (
    one INTEGER PRIMARY KEY CHECK (one = 1),
    position BIGINT NOT NULL
);

CREATE TABLE wake_run_log (
    run_key TEXT PRIMARY KEY,
    agent_id TEXT NOT NULL,
    status TEXT NOT NULL,
    queued_at TEXT NOT NULL,
    body TEXT NOT NULL
);

CREATE INDEX idx_wake_run_log_agent_queued ON wake_run_log (agent_id, queued_at DESC);

CREATE INDEX idx_wake_run_log_agent_status
    ON wake_run_log (agent_id, status, queued_at);

CREATE INDEX idx_wake_run_log_status ON wake_run_log (status, queued_at);


-- embeddings

CREATE TABLE vectors (
    item INTEGER PRIMARY KEY,
    model TEXT NOT NULL,
    content_hash BLOB NOT NULL,
    vector BLOB NOT NULL,
    written BIGINT NOT NULL
);

CREATE INDEX vectors_written ON vectors (written);


-- journal

CREATE TABLE batches (
    cursor INTEGER PRIMARY KEY AUTOINCREMENT,
    local_batch_id TEXT NOT NULL UNIQUE,
    logical_change_key TEXT NOT NULL,
    change_units TEXT NOT NULL,
    typed_tokens TEXT NOT NULL,
    actor TEXT NOT NULL,
    operation_id TEXT,
    at TEXT NOT NULL
);

CREATE INDEX batches_at ON batches (at);

CREATE INDEX batches_key ON batches (logical_change_key);

CREATE TABLE history (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    record_id TEXT NOT NULL,
    batch BIGINT NOT NULL REFERENCES batches (cursor),
    origin TEXT NOT NULL,
    host_id TEXT NOT NULL,
    counter BIGINT NOT NULL,
    before TEXT,
    after TEXT NOT NULL
);

CREATE INDEX history_batch ON history (batch);

CREATE INDEX history_record ON history (record_id, number);

CREATE TABLE journal_host (
    one INTEGER PRIMARY KEY CHECK (one = 1),
    host_id TEXT NOT NULL,
    counter BIGINT NOT NULL DEFAULT 0
);

CREATE TABLE operations (
    operation_id TEXT PRIMARY KEY,
    fingerprint TEXT NOT NULL,
    result TEXT NOT NULL,
    actor TEXT NOT NULL,
    at TEXT NOT NULL
) WITHOUT ROWID;

CREATE VIRTUAL TABLE record_words USING fts5(
    words, content='', contentless_delete=1, tokenize='unicode61 remove_diacritics 2', prefix='2 3'
);

CREATE TABLE records (
    number INTEGER PRIMARY KEY,
    id TEXT NOT NULL UNIQUE,
    kind TEXT NOT NULL,
    parent_id TEXT,
    category_id TEXT,
    status TEXT,
    at TEXT,
    until TEXT,
    deleted INTEGER NOT NULL,
    content TEXT NOT NULL
);

CREATE INDEX records_category ON records (category_id, kind, deleted);

CREATE INDEX records_kind ON records (kind, deleted, status, at);

CREATE INDEX records_parent ON records (parent_id, kind, deleted);

CREATE INDEX records_reminders ON records (kind)
    WHERE kind = 'task' AND deleted = 0 AND status NOT IN ('done', 'rejected')
        AND content ->> '$.remind_at' IS NOT NULL;

CREATE INDEX records_running ON records (kind)
    WHERE kind = 'time_entry' AND until IS NULL AND deleted = 0;

CREATE INDEX records_time ON records (kind, deleted, at);

CREATE INDEX records_until ON records (kind, deleted, until);

CREATE TABLE sqlite_sequence(name,seq);

CREATE TABLE write_fence (
    one INTEGER PRIMARY KEY CHECK (one = 1),
    generation BIGINT NOT NULL
);


-- runtime

CREATE TABLE action_outcomes (
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

CREATE INDEX action_outcomes_at ON action_outcomes (at);

CREATE TABLE approval_completions (
    token_id TEXT NOT NULL,
    content_hash TEXT NOT NULL,
    completed_at TEXT NOT NULL,
    PRIMARY KEY (token_id, content_hash)
);

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

CREATE TABLE approval_use_seals (
    token_id TEXT NOT NULL,
    content_hash TEXT NOT NULL,
    used_at TEXT NOT NULL,
    key_id TEXT NOT NULL,
    signature TEXT NOT NULL,
    PRIMARY KEY (token_id, content_hash)
);

CREATE TABLE asked_secrets (
    ref_id TEXT PRIMARY KEY,
    label TEXT NOT NULL,
    -- What the owner called it in a conversation; empty if it was not told there.
    told TEXT NOT NULL,
    asked_at TEXT NOT NULL
);

CREATE TABLE attachments (
    sha256 TEXT PRIMARY KEY,
    kind TEXT NOT NULL,
    size INTEGER NOT NULL,
    kept_at TEXT NOT NULL
);

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

CREATE TABLE autonomy_changes (
    proposal_id TEXT PRIMARY KEY,
    payload TEXT NOT NULL,
    token TEXT NOT NULL,
    changed_at TEXT NOT NULL,
    ended_at TEXT
);

CREATE TABLE call_undos (
    work_item_id TEXT NOT NULL,
    attempt INTEGER NOT NULL,
    seq INTEGER NOT NULL,
    title TEXT NOT NULL,
    tool TEXT NOT NULL,
    args TEXT NOT NULL,
    account TEXT NOT NULL,
    inverse TEXT,
    undo_args TEXT,
    permissions TEXT NOT NULL,
    approved_by TEXT NOT NULL,
    state TEXT NOT NULL CHECK (state IN (
        'begun', 'done', 'nothing', 'unknown', 'undoing', 'undone', 'left')),
    told TEXT NOT NULL,
    begun_at TEXT NOT NULL,
    until TEXT,
    token TEXT,
    seal_key_id TEXT,
    seal TEXT,
    PRIMARY KEY (work_item_id, attempt, seq)
);

CREATE INDEX call_undos_approved_by ON call_undos (approved_by);

CREATE TABLE card_seals (
    card_id TEXT PRIMARY KEY,
    key_id TEXT NOT NULL,
    signature TEXT NOT NULL
);

CREATE TABLE card_sources (
    card_id TEXT PRIMARY KEY,
    sources TEXT NOT NULL
);

CREATE TRIGGER chronicle_added AFTER INSERT ON chronicle_entries WHEN new.words_from IS NOT NULL BEGIN
    INSERT INTO chronicle_words (rowid, content)
    VALUES (new.number, substr(new.content, new.words_from));
END;

CREATE TRIGGER chronicle_new_record AFTER UPDATE OF words_from ON chronicle_entries
WHEN new.words_from IS NOT NULL BEGIN
    INSERT INTO chronicle_words (rowid, content)
    VALUES (new.number, substr(new.content, new.words_from));
END;

CREATE TRIGGER chronicle_no_record AFTER UPDATE OF words_from ON chronicle_entries
WHEN old.words_from IS NOT NULL BEGIN
    INSERT INTO chronicle_words (chronicle_words, rowid, content)
    VALUES ('delete', old.number, substr(old.content, old.words_from));
END;

CREATE TRIGGER chronicle_removed AFTER DELETE ON chronicle_entries WHEN old.words_from IS NOT NULL BEGIN
    INSERT INTO chronicle_words (chronicle_words, rowid, content)
    VALUES ('delete', old.number, substr(old.content, old.words_from));
END;

CREATE TABLE chronicle_entries (
    number INTEGER PRIMARY KEY,
    scope_id TEXT NOT NULL,
    entry_id TEXT NOT NULL,
    turn_number BIGINT NOT NULL,
    kind TEXT NOT NULL,
    source TEXT NOT NULL,
    content TEXT NOT NULL,
    taint TEXT NOT NULL,
    created_at TEXT NOT NULL,
    words_from BIGINT,
    session_id TEXT,
    archived BIGINT NOT NULL DEFAULT 0,
    -- The strangers' texts behind it, as a list in JSON.
    sources TEXT NOT NULL DEFAULT '[]',
    UNIQUE (scope_id, entry_id)
);

CREATE INDEX chronicle_entries_age ON chronicle_entries (created_at)
    WHERE archived = 0;

CREATE INDEX chronicle_entries_person
    ON chronicle_entries (substr(scope_id, 1, instr(scope_id || '#', '#') - 1), entry_id);

CREATE INDEX chronicle_entries_scope ON chronicle_entries (scope_id, number);

CREATE VIRTUAL TABLE chronicle_words USING fts5(
    content,
    content = 'raw_records', content_rowid = 'number',
    tokenize = "porter unicode61 tokenchars '_-'"
);

CREATE TABLE clients (
    client_id TEXT PRIMARY KEY,
    name TEXT NOT NULL,
    token_hash TEXT NOT NULL,
    created_at TEXT NOT NULL,
    removed_at TEXT,
    seal_key_id TEXT NOT NULL,
    seal TEXT NOT NULL
);

CREATE TABLE connection_addresses (
    connection_id TEXT PRIMARY KEY,
    address TEXT NOT NULL
);

CREATE TABLE connection_sign_ins (
    connection_id TEXT PRIMARY KEY,
    oauth TEXT NOT NULL
);

CREATE TABLE connections (
    connection_id TEXT PRIMARY KEY,
    name TEXT NOT NULL,
    domain TEXT NOT NULL,
    skill_name TEXT NOT NULL,
    auth_strategy TEXT NOT NULL,
    provider TEXT NOT NULL,
    username TEXT NOT NULL,
    endpoints TEXT NOT NULL,
    credential TEXT NOT NULL CHECK (credential IN ('password', 'bearer')),
    ref_id TEXT NOT NULL,
    permissions_granted TEXT NOT NULL,
    permissions_available TEXT NOT NULL,
    permissions_once TEXT NOT NULL,
    initial_permissions TEXT NOT NULL,
    status TEXT NOT NULL
        CHECK (status IN ('proposed', 'connecting', 'active', 'paused', 'failed')),
    health_check TEXT NOT NULL,
    token_expires_at TEXT,
    refresh_token_expires_at TEXT,
    last_health_check TEXT,
    last_refresh TEXT,
    last_used_at TEXT,
    problem TEXT NOT NULL,
    question_id TEXT,
    created_at TEXT NOT NULL,
    changed_at TEXT NOT NULL,
    seal_key_id TEXT,
    seal TEXT
);

CREATE TABLE conversation_origins (
    trace_id TEXT PRIMARY KEY,
    scope_id TEXT NOT NULL,
    connection_id TEXT NOT NULL,
    channel TEXT NOT NULL,
    sender_id TEXT NOT NULL,
    message_id TEXT NOT NULL,
    taint TEXT,
    created_at TEXT NOT NULL
);

CREATE INDEX conversation_origins_age ON conversation_origins (created_at);

CREATE TABLE conversation_scopes (
    scope_id TEXT PRIMARY KEY,
    turns BIGINT NOT NULL
);

CREATE TABLE conversation_work (
    work_item_id TEXT PRIMARY KEY,
    trace_id TEXT NOT NULL,
    scope_id TEXT NOT NULL,
    taint TEXT NOT NULL,
    depth INTEGER NOT NULL,
    replaces TEXT,
    created_at TEXT NOT NULL
);

CREATE INDEX conversation_work_scope ON conversation_work (scope_id);

CREATE INDEX conversation_work_trace ON conversation_work (trace_id);

CREATE TABLE conversations (
    scope_id TEXT PRIMARY KEY,
    person TEXT NOT NULL,
    title TEXT NOT NULL,
    first_words TEXT NOT NULL,
    created_at TEXT NOT NULL,
    used_at TEXT NOT NULL,
    archived_at TEXT,
    deleted_at TEXT
);

CREATE INDEX conversations_used ON conversations (person, used_at);

CREATE TABLE dead_letters (
    message_id TEXT PRIMARY KEY,
    queue TEXT NOT NULL,
    body TEXT NOT NULL,
    reason TEXT NOT NULL,
    enqueued_at TEXT NOT NULL,
    died_at TEXT NOT NULL,
    attempts INTEGER NOT NULL,
    failures INTEGER NOT NULL,
    expiries INTEGER NOT NULL
);

CREATE INDEX dead_letters_at ON dead_letters (died_at);

CREATE TABLE decisions (
    question_id TEXT PRIMARY KEY,
    kind TEXT NOT NULL,
    statement TEXT,
    strength TEXT NOT NULL,
    key_id TEXT NOT NULL,
    signature TEXT NOT NULL,
    assertion TEXT,
    tokens TEXT NOT NULL,
    decided_at TEXT,
    receipt_key_id TEXT,
    receipt TEXT
);

CREATE TABLE deliveries (
    number INTEGER PRIMARY KEY,
    message_id TEXT NOT NULL UNIQUE,
    connection_id TEXT NOT NULL,
    scope_id TEXT NOT NULL,
    message TEXT NOT NULL,
    created_at TEXT NOT NULL
);

CREATE INDEX deliveries_connection ON deliveries (connection_id, number);

CREATE INDEX deliveries_scope ON deliveries (scope_id, number);

CREATE TABLE devices (
    device_id TEXT PRIMARY KEY,
    public_key TEXT NOT NULL,
    name TEXT NOT NULL,
    enrolled_at TEXT NOT NULL,
    owner_key_id TEXT NOT NULL,
    endorsement TEXT NOT NULL,
    revoked_at TEXT
);

CREATE TABLE domain_crossings (
    crossing_id TEXT NOT NULL,
    source TEXT NOT NULL,
    target TEXT NOT NULL,
    signed_at TEXT NOT NULL,
    seal_key_id TEXT,
    seal TEXT,
    PRIMARY KEY (source, target)
);

CREATE TABLE file_changes (
    work_item_id TEXT NOT NULL,
    attempt BIGINT NOT NULL,
    path TEXT NOT NULL,
    directory TEXT NOT NULL,
    before TEXT,
    after TEXT,
    executable INTEGER NOT NULL,
    was_executable INTEGER NOT NULL,
    taken INTEGER NOT NULL,
    content TEXT,
    created_at TEXT NOT NULL,
    PRIMARY KEY (work_item_id, attempt, path)
);

CREATE INDEX file_changes_age ON file_changes (created_at);

CREATE INDEX file_changes_before ON file_changes (before);

CREATE TABLE file_origins (
    path TEXT NOT NULL,
    digest TEXT NOT NULL,
    taint TEXT NOT NULL,
    sources TEXT NOT NULL,
    work_item_id TEXT NOT NULL,
    written_at TEXT NOT NULL,
    PRIMARY KEY (path, digest)
);

CREATE INDEX file_origins_by_taint ON file_origins (taint, digest);

CREATE TABLE goal_times (
    goal_id TEXT PRIMARY KEY,
    looked_until TEXT NOT NULL
);

CREATE TABLE grant_uses (
    use_id INTEGER PRIMARY KEY,
    grant_id TEXT NOT NULL,
    work_item_id TEXT NOT NULL,
    tool TEXT NOT NULL,
    args TEXT NOT NULL,
    at TEXT NOT NULL
);

CREATE INDEX grant_uses_of ON grant_uses (grant_id, at);

CREATE TABLE memory_causes (
    cause TEXT NOT NULL,
    item BIGINT NOT NULL,
    PRIMARY KEY (cause, item)
) WITHOUT ROWID;

CREATE INDEX memory_causes_item ON memory_causes (item);

CREATE TABLE memory_changes (
    change_id TEXT PRIMARY KEY,
    scope_id TEXT NOT NULL,
    memory_id TEXT NOT NULL,
    op TEXT NOT NULL,
    before TEXT,
    after TEXT,
    made_at TEXT NOT NULL,
    undone_at TEXT
);

CREATE INDEX memory_changes_made ON memory_changes (scope_id, made_at);

CREATE TABLE memory_entities (
    entity TEXT NOT NULL,
    item BIGINT NOT NULL,
    PRIMARY KEY (entity, item)
) WITHOUT ROWID;

CREATE INDEX memory_entities_item ON memory_entities (item);

CREATE TRIGGER memory_items_added AFTER INSERT ON memory_items BEGIN
    INSERT INTO memory_words (rowid, content, semantic_tags)
    VALUES (new.id, new.content, new.semantic_tags);
END;

CREATE TRIGGER memory_items_linked
AFTER UPDATE OF id, entity_refs, causal_refs ON memory_items BEGIN
    DELETE FROM memory_entities WHERE item = old.id;
    DELETE FROM memory_causes WHERE item = old.id;
    INSERT OR IGNORE INTO memory_entities (entity, item)
    SELECT value, new.id FROM json_each(new.entity_refs);
    INSERT OR IGNORE INTO memory_causes (cause, item)
    SELECT value, new.id FROM json_each(new.causal_refs);
END;

CREATE TRIGGER memory_items_removed AFTER DELETE ON memory_items BEGIN
    INSERT INTO memory_words (memory_words, rowid, content, semantic_tags)
    VALUES ('delete', old.id, old.content, old.semantic_tags);
    DELETE FROM memory_entities WHERE item = old.id;
    DELETE FROM memory_causes WHERE item = old.id;
END;

CREATE TRIGGER memory_items_reworded
AFTER UPDATE OF id, content, semantic_tags ON memory_items BEGIN
    INSERT INTO memory_words (memory_words, rowid, content, semantic_tags)
    VALUES ('delete', old.id, old.content, old.semantic_tags);
    INSERT INTO memory_words (rowid, content, semantic_tags)
    VALUES (new.id, new.content, new.semantic_tags);
END;

CREATE TRIGGER memory_items_with_causes
AFTER INSERT ON memory_items WHEN new.causal_refs <> '[]' BEGIN
    INSERT OR IGNORE INTO memory_causes (cause, item)
    SELECT value, new.id FROM json_each(new.causal_refs);
END;

CREATE TRIGGER memory_items_with_entities
AFTER INSERT ON memory_items WHEN new.entity_refs <> '[]' BEGIN
    INSERT OR IGNORE INTO memory_entities (entity, item)
    SELECT value, new.id FROM json_each(new.entity_refs);
END;

CREATE TABLE memory_items (
    id INTEGER PRIMARY KEY,
    scope_no BIGINT NOT NULL,
    memory_id TEXT NOT NULL,
    content TEXT NOT NULL,
    content_hash BLOB NOT NULL,
    memory_type TEXT NOT NULL,
    reingestion_tier TEXT NOT NULL,
    trust_level TEXT NOT NULL,
    taint TEXT NOT NULL,
    created_at TEXT NOT NULL,
    updated_at TEXT NOT NULL,
    valid_from TEXT,
    valid_until TEXT,
    access_count BIGINT NOT NULL DEFAULT 0,
    last_accessed TEXT,
    semantic_tags TEXT NOT NULL,
    entity_refs TEXT NOT NULL,
    causal_refs TEXT NOT NULL,
    temporal_next TEXT,
    temporal_prev TEXT,
    session_id TEXT,
    source_kind TEXT NOT NULL,
    scrubbed TEXT NOT NULL,
    UNIQUE (scope_no, memory_id),
    -- The last line of defence, below every program: nothing from outside is trusted.
    CHECK (trust_level = 'working' OR (trust_level = 'verified' AND taint <> 'external')
           OR (trust_level = 'constitutional' AND taint = 'owner')),
    CHECK (taint <> 'external' OR memory_type NOT IN ('preference', 'profile'))
);

CREATE INDEX memory_items_created ON memory_items (scope_no, created_at);

CREATE INDEX memory_items_kind
    ON memory_items (scope_no, memory_type) WHERE memory_type IN ('preference', 'profile');

CREATE INDEX memory_items_session ON memory_items (scope_no, session_id, id);

CREATE INDEX memory_items_trusted
    ON memory_items (scope_no, trust_level) WHERE trust_level <> 'working';

CREATE TABLE memory_scopes (
    scope_no INTEGER PRIMARY KEY,
    scope_id TEXT NOT NULL UNIQUE,
    next_active BIGINT NOT NULL DEFAULT 1,
    next_raw BIGINT NOT NULL DEFAULT 1
);

CREATE VIRTUAL TABLE memory_words USING fts5(
    content, semantic_tags,
    content = 'memory_items', content_rowid = 'id',
    tokenize = "porter unicode61 tokenchars '_-'"
);

CREATE TABLE message_attachments (
    message_id TEXT NOT NULL,
    position INTEGER NOT NULL,
    sha256 TEXT NOT NULL,
    name TEXT NOT NULL,
    said_at TEXT NOT NULL,
    PRIMARY KEY (message_id, position)
);

CREATE INDEX message_attachments_by_file ON message_attachments (sha256);

CREATE TABLE model_usage (
    id TEXT PRIMARY KEY,
    day TEXT NOT NULL,
    role TEXT NOT NULL,
    model TEXT NOT NULL,
    input_tokens INTEGER NOT NULL,
    output_tokens INTEGER NOT NULL,
    cost_usd REAL
);

CREATE INDEX model_usage_by_day ON model_usage (day);

CREATE TABLE nonces (
    nonce_key TEXT PRIMARY KEY,
    recorded_at TEXT NOT NULL
);

CREATE INDEX nonces_recorded_at ON nonces (recorded_at);

CREATE TABLE opened_places (
    question_id TEXT PRIMARY KEY,
    opened_at TEXT NOT NULL,
    closed_at TEXT
);

CREATE TABLE passkeys (
    credential_id TEXT PRIMARY KEY,
    public_key TEXT NOT NULL,
    rp_id TEXT NOT NULL,
    name TEXT NOT NULL,
    enrolled_at TEXT NOT NULL,
    owner_key_id TEXT NOT NULL,
    endorsement TEXT NOT NULL,
    sign_count BIGINT NOT NULL,
    revoked_at TEXT
);

CREATE TABLE paused_calls (
    id TEXT PRIMARY KEY,
    run_id TEXT NOT NULL,
    position INTEGER NOT NULL,
    call_id TEXT NOT NULL,
    call TEXT NOT NULL,
    verdict TEXT,
    token TEXT,
    decided_at TEXT
);

CREATE INDEX paused_calls_run ON paused_calls (run_id);

CREATE TABLE paused_runs (
    id TEXT PRIMARY KEY,
    work_item_id TEXT NOT NULL,
    attempt INTEGER NOT NULL,
    state TEXT NOT NULL,
    run TEXT NOT NULL,
    scene TEXT NOT NULL,
    paused_at TEXT NOT NULL,
    expires_at TEXT NOT NULL
);

CREATE UNIQUE INDEX paused_runs_waiting
    ON paused_runs (work_item_id) WHERE state = 'waiting';

CREATE TABLE paused_seals (
    run_id TEXT PRIMARY KEY,
    key_id TEXT NOT NULL,
    signature TEXT NOT NULL
);

CREATE TRIGGER persona_events_are_kept BEFORE UPDATE ON persona_events
BEGIN SELECT RAISE(ABORT, 'persona_events are never changed'); END;

CREATE TABLE persona_events (
    event_id TEXT PRIMARY KEY,
    scope_id TEXT NOT NULL,
    event_type TEXT NOT NULL,
    trusted INTEGER NOT NULL,
    delta_axes_json TEXT NOT NULL,
    delta_mood_json TEXT NOT NULL,
    source TEXT NOT NULL,
    created_at TEXT NOT NULL
);

CREATE INDEX persona_events_by_scope ON persona_events (scope_id, created_at DESC);

CREATE INDEX persona_events_by_type ON persona_events (event_type, created_at DESC);

CREATE TABLE persona_state (
    scope_id TEXT PRIMARY KEY,
    baseline_axes_json TEXT NOT NULL,
    mood_json TEXT NOT NULL,
    voice_json TEXT NOT NULL,
    active_preset TEXT NOT NULL,
    last_context TEXT NOT NULL,
    updated_at TEXT NOT NULL
);

CREATE TABLE planner_consults (
    consult_id TEXT PRIMARY KEY,
    work_item_id TEXT NOT NULL,
    status TEXT NOT NULL,
    deadline TEXT NOT NULL,
    advice TEXT NOT NULL DEFAULT '',
    tokens BIGINT NOT NULL DEFAULT 0,
    cost_usd REAL NOT NULL DEFAULT 0
);

CREATE TABLE planner_requests (
    request_id TEXT PRIMARY KEY,
    scope_id TEXT NOT NULL,
    status TEXT NOT NULL,
    state TEXT NOT NULL,
    next_deadline TEXT,
    version BIGINT NOT NULL
);

CREATE INDEX planner_requests_deadline ON planner_requests (next_deadline);

CREATE TABLE processed_messages (
    message_id TEXT NOT NULL,
    consumer TEXT NOT NULL,
    processed_at TEXT NOT NULL,
    queue TEXT,
    attempts INTEGER,
    expiries INTEGER,
    waited_seconds REAL,
    leased_seconds REAL,
    PRIMARY KEY (message_id, consumer)
);

CREATE INDEX processed_messages_at ON processed_messages (processed_at);

CREATE TABLE proposals (
    proposal_id TEXT PRIMARY KEY,
    client_id TEXT NOT NULL REFERENCES clients (client_id),
    request_hash TEXT NOT NULL,
    created_at TEXT NOT NULL,
    redeemed_at TEXT
);

CREATE INDEX proposals_by_client ON proposals (client_id, created_at);

CREATE TABLE questions (
    id TEXT PRIMARY KEY,
    kind TEXT NOT NULL,
    scope_id TEXT NOT NULL,
    trace_id TEXT NOT NULL,
    about TEXT NOT NULL,
    content TEXT NOT NULL,
    seal_key_id TEXT NOT NULL,
    seal TEXT NOT NULL,
    created_at TEXT NOT NULL,
    expires_at TEXT NOT NULL,
    state TEXT NOT NULL,
    answer TEXT,
    key_id TEXT,
    signature TEXT,
    answered_at TEXT
);

CREATE INDEX questions_about ON questions (about, created_at);

CREATE INDEX questions_state ON questions (state, created_at);

CREATE TABLE queue_messages (
    seq INTEGER PRIMARY KEY,
    message_id TEXT NOT NULL UNIQUE,
    queue TEXT NOT NULL,
    lane TEXT,
    priority INTEGER NOT NULL,
    state TEXT NOT NULL,
    body TEXT NOT NULL,
    enqueued_at TEXT NOT NULL,
    ready_at TEXT NOT NULL,
    leased_at TEXT,
    due_at TEXT,
    lease_id TEXT,
    consumer TEXT,
    holder TEXT,
    attempts INTEGER NOT NULL DEFAULT 0,
    failures INTEGER NOT NULL DEFAULT 0,
    expiries INTEGER NOT NULL DEFAULT 0,
    last_error TEXT
);

CREATE INDEX queue_messages_due ON queue_messages (due_at) WHERE due_at IS NOT NULL;

CREATE INDEX queue_messages_lane ON queue_messages (lane, seq) WHERE lane IS NOT NULL;

CREATE INDEX queue_messages_ready
    ON queue_messages (queue, priority, seq) WHERE state = 'ready';

CREATE VIEW raw_records AS
SELECT
    number,
    substr(scope_id, 1, instr(scope_id || '#', '#') - 1) AS scope_id,
    entry_id,
    'raw_' || substr(entry_id, 6) AS memory_id,
    substr(content, words_from) AS content,
    'episode' AS memory_type,
    'low_reingestion' AS reingestion_tier,
    'working' AS trust_level,
    CASE WHEN taint = 'owner' AND source NOT LIKE 'channel:%' THEN 'auth' ELSE taint END AS taint,
    created_at,
    created_at AS updated_at,
    NULL AS valid_from,
    NULL AS valid_until,
    0 AS access_count,
    NULL AS last_accessed,
    '[]' AS semantic_tags,
    '[]' AS entity_refs,
    '[]' AS causal_refs,
    NULL AS temporal_next,
    NULL AS temporal_prev,
    session_id,
    CASE
        WHEN source LIKE 'agent:%' THEN 'agent_response_raw'
        WHEN source LIKE 'tool:%' THEN 'tool_output_raw'
        WHEN source LIKE 'research:%' THEN 'research_query_raw'
        ELSE 'conversation_raw'
    END AS source_kind,
    '[]' AS scrubbed
FROM chronicle_entries WHERE words_from IS NOT NULL;

CREATE TRIGGER raw_records_removed INSTEAD OF DELETE ON raw_records BEGIN
    DELETE FROM chronicle_entries WHERE number = old.number AND archived = 1;
    UPDATE chronicle_entries SET words_from = NULL WHERE number = old.number;
END;

CREATE TABLE request_folders (
    trace_id TEXT PRIMARY KEY,
    folders TEXT NOT NULL,
    created_at TEXT NOT NULL
);

CREATE TABLE review_cards (
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

CREATE INDEX review_cards_scope ON review_cards (scope_id, state);

CREATE INDEX review_cards_state ON review_cards (state, created_at);

CREATE INDEX review_cards_trace ON review_cards (trace_id);

CREATE TABLE said (
    number INTEGER PRIMARY KEY,
    message_id TEXT NOT NULL UNIQUE,
    connection_id TEXT NOT NULL,
    text TEXT NOT NULL,
    created_at TEXT NOT NULL
);

CREATE INDEX said_connection ON said (connection_id, number);

CREATE TABLE said_scopes (
    message_id TEXT PRIMARY KEY,
    scope_id TEXT NOT NULL
);

CREATE INDEX said_scopes_scope ON said_scopes (scope_id);

CREATE TABLE secret_hints (
    ref_id TEXT PRIMARY KEY,
    input_hint TEXT NOT NULL,
    guidance TEXT NOT NULL
);

CREATE TABLE sessions (
    scope_id TEXT NOT NULL,
    session_id TEXT NOT NULL,
    session_type TEXT NOT NULL,
    title TEXT NOT NULL,
    created_at TEXT NOT NULL,
    last_active TEXT NOT NULL,
    turn_count BIGINT NOT NULL,
    active INTEGER NOT NULL,
    pinned_ctx_ids TEXT NOT NULL,
    PRIMARY KEY (scope_id, session_id)
);

CREATE UNIQUE INDEX sessions_one_stream ON sessions (scope_id)
    WHERE session_type = 'stream';

CREATE TABLE skill_versions (
    name TEXT NOT NULL,
    digest TEXT NOT NULL,
    state TEXT NOT NULL
        CHECK (state IN ('proposed', 'installed', 'declined', 'blocked', 'lapsed')),
    source TEXT NOT NULL,
    origin TEXT,
    question_id TEXT,
    report TEXT,
    trial TEXT,
    reason TEXT NOT NULL DEFAULT '',
    created_at TEXT NOT NULL,
    PRIMARY KEY (name, digest)
);

CREATE INDEX skill_versions_by_digest ON skill_versions (digest);

CREATE TABLE skills (
    name TEXT PRIMARY KEY,
    state TEXT NOT NULL CHECK (state IN ('installed', 'disabled', 'removed')),
    digest TEXT,
    previous TEXT,
    bundled INTEGER NOT NULL DEFAULT 0,
    description TEXT NOT NULL DEFAULT '',
    activation TEXT NOT NULL DEFAULT 'auto',
    tools TEXT NOT NULL DEFAULT '[]',
    seal_key_id TEXT,
    seal TEXT,
    installed_at TEXT NOT NULL,
    changed_at TEXT NOT NULL,
    last_used_at TEXT
);

CREATE TABLE standing_grants (
    grant_id TEXT PRIMARY KEY,
    content TEXT NOT NULL,
    token TEXT NOT NULL,
    granted_at TEXT NOT NULL,
    ended_at TEXT
);

CREATE TABLE stopped_answers (
    trace_id TEXT PRIMARY KEY,
    stopped_at TEXT NOT NULL
);

CREATE TABLE unasked_cards (
    question_id TEXT PRIMARY KEY,
    at TEXT NOT NULL,
    shown INTEGER NOT NULL
);

CREATE INDEX unasked_cards_at ON unasked_cards (at);

CREATE TABLE visitor_cases (
    id TEXT PRIMARY KEY,
    connection_id TEXT NOT NULL REFERENCES visitor_connections (id),
    queue TEXT,
    gate TEXT NOT NULL,
    reason TEXT NOT NULL,
    question_id TEXT NOT NULL,
    opened_at TEXT NOT NULL,
    closed_at TEXT
);

CREATE INDEX visitor_cases_by_connection ON visitor_cases (connection_id, closed_at);

CREATE TABLE visitor_connections (
    id TEXT PRIMARY KEY,
    link_id TEXT NOT NULL REFERENCES visitor_links (id),
    secret_sha256 TEXT NOT NULL UNIQUE,
    created_at TEXT NOT NULL,
    seen_at TEXT NOT NULL
);

CREATE INDEX visitor_connections_by_link ON visitor_connections (link_id, seen_at);

CREATE TABLE visitor_links (
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

CREATE TABLE visitor_usage (
    link_id TEXT NOT NULL REFERENCES visitor_links (id),
    day TEXT NOT NULL,
    messages INTEGER NOT NULL DEFAULT 0,
    tokens INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (link_id, day)
);

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

CREATE TABLE work_origins (
    work_item_id TEXT PRIMARY KEY,
    taint TEXT NOT NULL,
    sources TEXT NOT NULL,
    noted_at TEXT NOT NULL
);

CREATE TABLE work_read_domains (
    work_item_id TEXT NOT NULL,
    domain TEXT NOT NULL,
    PRIMARY KEY (work_item_id, domain)
);
