-- What companions do has one record, from the plan to the end: what was kept in two tables (what
-- waits for the owner; how far a write to both databases has come) is one row for each operation.
CREATE TABLE IF NOT EXISTS agent_operations (
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
CREATE INDEX IF NOT EXISTS idx_agent_operations_status ON agent_operations (status, created_at);
CREATE INDEX IF NOT EXISTS idx_agent_operations_agent ON agent_operations (agent_id, status);
CREATE INDEX IF NOT EXISTS idx_agent_operations_run ON agent_operations (run_key);

-- A file can be run twice: the second time there is nothing left to move.
CREATE TABLE IF NOT EXISTS agent_waiting_actions (
    operation_id TEXT PRIMARY KEY,
    run_key TEXT NOT NULL,
    agent_id TEXT NOT NULL,
    status TEXT NOT NULL,
    created_at TEXT NOT NULL,
    body TEXT NOT NULL
);
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

-- What has waited. Where it had been approved, the write is made again under the same id, once.
INSERT INTO agent_operations
SELECT
    w.operation_id,
    w.run_key,
    w.agent_id,
    CASE
        WHEN w.status IN ('blocked', 'waiting', 'approved') THEN w.status
        WHEN w.status = 'applied' THEN 'agent_committed'
        ELSE 'waiting'
    END,
    CASE
        WHEN w.status IN ('blocked', 'waiting', 'approved') THEN 'pending'
        WHEN w.status = 'applied' THEN 'done'
        ELSE w.status
    END,
    json_extract(w.body, '$.last_error'),
    w.created_at,
    json_extract(w.body, '$.updated_at'),
    json_set(
        w.body,
        '$.phase',
        CASE
            WHEN w.status IN ('blocked', 'waiting', 'approved') THEN w.status
            WHEN w.status = 'applied' THEN 'agent_committed'
            ELSE 'waiting'
        END,
        '$.status',
        CASE
            WHEN w.status IN ('blocked', 'waiting', 'approved') THEN 'pending'
            WHEN w.status = 'applied' THEN 'done'
            ELSE w.status
        END
    )
FROM agent_waiting_actions AS w;

-- What nobody was asked about.
INSERT INTO agent_operations
SELECT
    s.operation_id,
    s.run_key,
    s.agent_id,
    s.phase,
    s.status,
    s.last_error,
    json_extract(s.body, '$.created_at'),
    s.updated_at,
    json_set(
        json_remove(s.body, '$.tool_name'),
        '$.thread_id',
        coalesce(json_extract(s.body, '$.call.thread_id'), s.run_key)
    )
FROM agent_saga_log AS s
WHERE s.operation_id NOT IN (SELECT operation_id FROM agent_waiting_actions);

DROP TABLE IF EXISTS agent_waiting_actions;
DROP TABLE IF EXISTS agent_saga_log;
