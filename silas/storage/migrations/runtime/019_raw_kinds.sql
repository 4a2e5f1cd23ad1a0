-- What tools and research gave is kept raw too: each in the entry of the conversation that shows it.
DROP VIEW IF EXISTS raw_records;
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
