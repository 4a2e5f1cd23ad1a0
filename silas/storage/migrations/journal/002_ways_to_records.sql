-- What ended after a moment, and what was changed on a day, without reading everything before it.
CREATE INDEX IF NOT EXISTS records_until ON records (kind, deleted, until);
CREATE INDEX IF NOT EXISTS batches_at ON batches (at);
