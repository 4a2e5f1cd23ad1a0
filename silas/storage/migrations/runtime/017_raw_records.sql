-- What was said is kept once: an entry of the chronicle is the raw record of its message.

-- `words_from` is where the words themselves begin in `content` (the first character is 1); NULL if
-- the entry is no raw record. When the entry leaves the conversation, the record stays: `archived`.
CREATE TABLE IF NOT EXISTS chronicle_entries (
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
CREATE INDEX IF NOT EXISTS chronicle_entries_scope ON chronicle_entries (scope_id, number);
CREATE INDEX IF NOT EXISTS chronicle_entries_age ON chronicle_entries (created_at)
    WHERE archived = 0;

-- The records as the memory reads them. An answer is an agent's words, whatever it was made from.
CREATE VIEW IF NOT EXISTS raw_records AS
SELECT
    number,
    scope_id,
    entry_id,
    'raw_' || substr(entry_id, 6) AS memory_id,
    substr(content, words_from) AS content,
    'episode' AS memory_type,
    'low_reingestion' AS reingestion_tier,
    'working' AS trust_level,
    CASE WHEN taint = 'owner' AND source LIKE 'agent:%' THEN 'auth' ELSE taint END AS taint,
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
    CASE WHEN source LIKE 'agent:%' THEN 'agent_response_raw' ELSE 'conversation_raw' END
        AS source_kind,
    '[]' AS scrubbed
FROM chronicle_entries WHERE words_from IS NOT NULL;

-- A record that is removed leaves its entry in the conversation, as long as that has it.
CREATE TRIGGER IF NOT EXISTS raw_records_removed INSTEAD OF DELETE ON raw_records BEGIN
    DELETE FROM chronicle_entries WHERE number = old.number AND archived = 1;
    UPDATE chronicle_entries SET words_from = NULL WHERE number = old.number;
END;

CREATE VIRTUAL TABLE IF NOT EXISTS chronicle_words USING fts5(
    content,
    content = 'raw_records', content_rowid = 'number',
    tokenize = "porter unicode61 tokenchars '_-'"
);
INSERT INTO chronicle_words (chronicle_words, rank) VALUES ('secure-delete', 1);
CREATE TRIGGER IF NOT EXISTS chronicle_added AFTER INSERT ON chronicle_entries WHEN new.words_from IS NOT NULL BEGIN
    INSERT INTO chronicle_words (rowid, content)
    VALUES (new.number, substr(new.content, new.words_from));
END;
CREATE TRIGGER IF NOT EXISTS chronicle_removed AFTER DELETE ON chronicle_entries WHEN old.words_from IS NOT NULL BEGIN
    INSERT INTO chronicle_words (chronicle_words, rowid, content)
    VALUES ('delete', old.number, substr(old.content, old.words_from));
END;
CREATE TRIGGER IF NOT EXISTS chronicle_no_record AFTER UPDATE OF words_from ON chronicle_entries
WHEN old.words_from IS NOT NULL BEGIN
    INSERT INTO chronicle_words (chronicle_words, rowid, content)
    VALUES ('delete', old.number, substr(old.content, old.words_from));
END;
CREATE TRIGGER IF NOT EXISTS chronicle_new_record AFTER UPDATE OF words_from ON chronicle_entries
WHEN new.words_from IS NOT NULL BEGIN
    INSERT INTO chronicle_words (rowid, content)
    VALUES (new.number, substr(new.content, new.words_from));
END;

-- What was said before. The table is made where it is gone, so that this file can run again.
CREATE TABLE IF NOT EXISTS chronicle (
    number INTEGER PRIMARY KEY,
    scope_id TEXT NOT NULL,
    entry_id TEXT NOT NULL,
    turn_number BIGINT NOT NULL,
    kind TEXT NOT NULL,
    source TEXT NOT NULL,
    content TEXT NOT NULL,
    taint TEXT NOT NULL,
    created_at TEXT NOT NULL,
    UNIQUE (scope_id, entry_id)
);
INSERT INTO chronicle_entries
    (number, scope_id, entry_id, turn_number, kind, source, content, taint, created_at)
SELECT number, scope_id, entry_id, turn_number, kind, source, content, taint, created_at
FROM chronicle WHERE true
ON CONFLICT (scope_id, entry_id) DO NOTHING;
DROP TABLE chronicle;

-- Records of before, where the chronicle has the same words: they become one.
UPDATE chronicle_entries SET
    words_from = length(chronicle_entries.content) - length(record.content) + 1,
    session_id = record.session_id
FROM memory_items AS record JOIN memory_scopes ON memory_scopes.scope_no = record.scope_no
WHERE chronicle_entries.scope_id = memory_scopes.scope_id
    AND record.memory_id = 'raw_' || substr(chronicle_entries.entry_id, 6)
    AND chronicle_entries.entry_id LIKE 'said\_%' ESCAPE '\'
    AND record.source_kind IN ('conversation_raw', 'agent_response_raw')
    AND record.reingestion_tier = 'low_reingestion'
    AND record.trust_level = 'working'
    AND record.scrubbed = '[]'
    AND length(record.content) > 0
    AND length(record.content) <= length(chronicle_entries.content)
    AND substr(chronicle_entries.content, length(chronicle_entries.content) - length(record.content) + 1)
        = record.content;
DELETE FROM memory_items WHERE id IN (
    SELECT record.id FROM raw_records
    JOIN memory_scopes ON memory_scopes.scope_id = raw_records.scope_id
    JOIN memory_items AS record ON record.scope_no = memory_scopes.scope_no
        AND record.memory_id = raw_records.memory_id
);
