-- Runs that wait for the owner's decision about calls. The attempt stays open meanwhile, with the
-- runner `waiting`, so that nobody starts another one. Of one item only one run can wait.
CREATE TABLE IF NOT EXISTS paused_runs (
    id TEXT PRIMARY KEY,
    work_item_id TEXT NOT NULL,
    attempt INTEGER NOT NULL,
    state TEXT NOT NULL,
    run TEXT NOT NULL,
    scene TEXT NOT NULL,
    paused_at TEXT NOT NULL,
    expires_at TEXT NOT NULL
);
CREATE UNIQUE INDEX IF NOT EXISTS paused_runs_waiting
    ON paused_runs (work_item_id) WHERE state = 'waiting';

-- The calls of such a run, each exactly as it is shown and signed. A call is decided once.
CREATE TABLE IF NOT EXISTS paused_calls (
    id TEXT PRIMARY KEY,
    run_id TEXT NOT NULL,
    position INTEGER NOT NULL,
    call_id TEXT NOT NULL,
    call TEXT NOT NULL,
    verdict TEXT,
    token TEXT,
    decided_at TEXT
);
CREATE INDEX IF NOT EXISTS paused_calls_run ON paused_calls (run_id);
