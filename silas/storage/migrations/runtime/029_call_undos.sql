-- What takes back a call that work made in an account of the owner's: written before the call, and
-- completed with the state that the call has left. Sealed by the owner's key.
CREATE TABLE IF NOT EXISTS call_undos (
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
CREATE INDEX IF NOT EXISTS call_undos_approved_by ON call_undos (approved_by);
