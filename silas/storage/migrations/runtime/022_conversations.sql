-- The owner's conversations. The scope of the first one is the owner's own id; the others add theirs
-- to it (`owner#conv_…`). A row comes with the first message, and `used_at` is when the last one
-- came. Of one that was deleted only the row is left, without a word of it: nobody can go on with
-- it, and nothing that was on its way makes it come back.
CREATE TABLE IF NOT EXISTS conversations (
    scope_id TEXT PRIMARY KEY,
    person TEXT NOT NULL,
    title TEXT NOT NULL,
    first_words TEXT NOT NULL,
    created_at TEXT NOT NULL,
    used_at TEXT NOT NULL,
    archived_at TEXT,
    deleted_at TEXT
);
CREATE INDEX IF NOT EXISTS conversations_used ON conversations (person, used_at);

-- In which conversation a message of the owner's was said; those of the first one are not here.
CREATE TABLE IF NOT EXISTS said_scopes (
    message_id TEXT PRIMARY KEY,
    scope_id TEXT NOT NULL
);
CREATE INDEX IF NOT EXISTS said_scopes_scope ON said_scopes (scope_id);
CREATE INDEX IF NOT EXISTS deliveries_scope ON deliveries (scope_id, number);

-- A raw record is its person's, in whichever conversation it was said: memory is one for all.
CREATE INDEX IF NOT EXISTS chronicle_entries_person
    ON chronicle_entries (substr(scope_id, 1, instr(scope_id || '#', '#') - 1), entry_id);
DROP VIEW IF EXISTS raw_records;
CREATE VIEW IF NOT EXISTS raw_records AS
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

-- The trigger of a view goes with the view.
CREATE TRIGGER IF NOT EXISTS raw_records_removed INSTEAD OF DELETE ON raw_records BEGIN
    DELETE FROM chronicle_entries WHERE number = old.number AND archived = 1;
    UPDATE chronicle_entries SET words_from = NULL WHERE number = old.number;
END;
