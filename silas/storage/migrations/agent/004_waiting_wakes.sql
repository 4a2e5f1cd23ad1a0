-- The wakes of one companion that wait, found at once, however many have ended.
CREATE INDEX IF NOT EXISTS idx_wake_run_log_agent_status
    ON wake_run_log (agent_id, status, queued_at);
