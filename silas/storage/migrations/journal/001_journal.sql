-- The owner's own records: tasks, checklists, time, days, ratings, notes.

-- This device: its name in vector clocks, and the number of its last write.
CREATE TABLE IF NOT EXISTS journal_host (
    one INTEGER PRIMARY KEY CHECK (one = 1),
    host_id TEXT NOT NULL,
    counter BIGINT NOT NULL DEFAULT 0
);

-- `content` is the record whole, as JSON. The other columns are taken out of it, to be found by:
-- `parent_id` is what it belongs to (the task of a time entry, the list of an item), `at` the moment
-- that it is listed by (due, begin).
CREATE TABLE IF NOT EXISTS records (
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
CREATE INDEX IF NOT EXISTS records_kind ON records (kind, deleted, status, at);
CREATE INDEX IF NOT EXISTS records_time ON records (kind, deleted, at);
CREATE INDEX IF NOT EXISTS records_parent ON records (parent_id, kind, deleted);
CREATE INDEX IF NOT EXISTS records_category ON records (category_id, kind, deleted);
-- The timer that runs, found at once.
CREATE INDEX IF NOT EXISTS records_running ON records (kind)
    WHERE kind = 'time_entry' AND until IS NULL AND deleted = 0;

-- What can be searched, under the number of its record.
CREATE VIRTUAL TABLE IF NOT EXISTS record_words USING fts5(
    words, content='', contentless_delete=1, tokenize='unicode61 remove_diacritics 2', prefix='2 3'
);

-- Every commit: what it told, so that whoever was not there can catch up.
CREATE TABLE IF NOT EXISTS batches (
    cursor INTEGER PRIMARY KEY AUTOINCREMENT,
    local_batch_id TEXT NOT NULL UNIQUE,
    logical_change_key TEXT NOT NULL,
    change_units TEXT NOT NULL,
    typed_tokens TEXT NOT NULL,
    actor TEXT NOT NULL,
    operation_id TEXT,
    at TEXT NOT NULL
);
CREATE INDEX IF NOT EXISTS batches_key ON batches (logical_change_key);

-- Every write of a record, whole before and after.
CREATE TABLE IF NOT EXISTS history (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    record_id TEXT NOT NULL,
    batch BIGINT NOT NULL REFERENCES batches (cursor),
    origin TEXT NOT NULL,
    host_id TEXT NOT NULL,
    counter BIGINT NOT NULL,
    before TEXT,
    after TEXT NOT NULL
);
CREATE INDEX IF NOT EXISTS history_record ON history (record_id, number);
CREATE INDEX IF NOT EXISTS history_batch ON history (batch);

-- What was done under which id, and what came of it: a second time changes nothing.
CREATE TABLE IF NOT EXISTS operations (
    operation_id TEXT PRIMARY KEY,
    fingerprint TEXT NOT NULL,
    result TEXT NOT NULL,
    actor TEXT NOT NULL,
    at TEXT NOT NULL
) WITHOUT ROWID;
