-- How Silas sounds to each scope, and every event that moved it.

CREATE TABLE IF NOT EXISTS persona_state (
    scope_id TEXT PRIMARY KEY,
    baseline_axes_json TEXT NOT NULL,
    mood_json TEXT NOT NULL,
    voice_json TEXT NOT NULL,
    active_preset TEXT NOT NULL,
    last_context TEXT NOT NULL,
    updated_at TEXT NOT NULL
);

CREATE TABLE IF NOT EXISTS persona_events (
    event_id TEXT PRIMARY KEY,
    scope_id TEXT NOT NULL,
    event_type TEXT NOT NULL,
    trusted INTEGER NOT NULL,
    delta_axes_json TEXT NOT NULL,
    delta_mood_json TEXT NOT NULL,
    source TEXT NOT NULL,
    created_at TEXT NOT NULL
);

CREATE INDEX IF NOT EXISTS persona_events_by_scope ON persona_events (scope_id, created_at DESC);
CREATE INDEX IF NOT EXISTS persona_events_by_type ON persona_events (event_type, created_at DESC);

-- Append-only: what moved the manner stays visible.
CREATE TRIGGER IF NOT EXISTS persona_events_are_kept BEFORE UPDATE ON persona_events
BEGIN SELECT RAISE(ABORT, 'persona_events are never changed'); END;
