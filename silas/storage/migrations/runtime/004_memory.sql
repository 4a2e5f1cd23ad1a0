-- What Silas remembers, scope by scope.

-- A scope's number is the upper part of the ids of its memories: `number << 41`, then one bit for the
-- lane (0 active, 1 raw), then 40 bits that count up and are never used again. So the memories of one
-- lane of one scope are one range of ids, and every index, the full-text one included, can be read
-- for that range alone.
CREATE TABLE IF NOT EXISTS memory_scopes (
    scope_no INTEGER PRIMARY KEY,
    scope_id TEXT NOT NULL UNIQUE,
    next_active BIGINT NOT NULL DEFAULT 1,
    next_raw BIGINT NOT NULL DEFAULT 1
);

-- Lists are JSON arrays. `content_hash` is the first half of the content's SHA-256: it finds
-- duplicates, and says whether a vector is still the one of this text.
CREATE TABLE IF NOT EXISTS memory_items (
    id INTEGER PRIMARY KEY,
    scope_no BIGINT NOT NULL,
    memory_id TEXT NOT NULL,
    content TEXT NOT NULL,
    content_hash BLOB NOT NULL,
    memory_type TEXT NOT NULL,
    reingestion_tier TEXT NOT NULL,
    trust_level TEXT NOT NULL,
    taint TEXT NOT NULL,
    created_at TEXT NOT NULL,
    updated_at TEXT NOT NULL,
    valid_from TEXT,
    valid_until TEXT,
    access_count BIGINT NOT NULL DEFAULT 0,
    last_accessed TEXT,
    semantic_tags TEXT NOT NULL,
    entity_refs TEXT NOT NULL,
    causal_refs TEXT NOT NULL,
    temporal_next TEXT,
    temporal_prev TEXT,
    session_id TEXT,
    source_kind TEXT NOT NULL,
    scrubbed TEXT NOT NULL,
    UNIQUE (scope_no, memory_id),
    -- The last line of defence, below every program: nothing from outside is trusted.
    CHECK (trust_level = 'working' OR (trust_level = 'verified' AND taint <> 'external')
           OR (trust_level = 'constitutional' AND taint = 'owner')),
    CHECK (taint <> 'external' OR memory_type NOT IN ('preference', 'profile'))
);
CREATE INDEX IF NOT EXISTS memory_items_session ON memory_items (scope_no, session_id, id);
CREATE INDEX IF NOT EXISTS memory_items_created ON memory_items (scope_no, created_at);
CREATE INDEX IF NOT EXISTS memory_items_trusted
    ON memory_items (scope_no, trust_level) WHERE trust_level <> 'working';
CREATE INDEX IF NOT EXISTS memory_items_kind
    ON memory_items (scope_no, memory_type) WHERE memory_type IN ('preference', 'profile');

-- Who or what a memory is about, and what it follows from; taken out of the lists above.
CREATE TABLE IF NOT EXISTS memory_entities (
    entity TEXT NOT NULL,
    item BIGINT NOT NULL,
    PRIMARY KEY (entity, item)
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS memory_entities_item ON memory_entities (item);
CREATE TABLE IF NOT EXISTS memory_causes (
    cause TEXT NOT NULL,
    item BIGINT NOT NULL,
    PRIMARY KEY (cause, item)
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS memory_causes_item ON memory_causes (item);

CREATE VIRTUAL TABLE IF NOT EXISTS memory_words USING fts5(
    content, semantic_tags,
    content = 'memory_items', content_rowid = 'id',
    tokenize = "porter unicode61 tokenchars '_-'"
);
-- What is forgotten leaves the index at once, not when it is merged the next time.
INSERT INTO memory_words (memory_words, rank) VALUES ('secure-delete', 1);

-- The indexes follow the rows by themselves, so that no way of writing can leave one behind. Most
-- memories name no entity and no cause: those conditions save a third of the time.
CREATE TRIGGER IF NOT EXISTS memory_items_added AFTER INSERT ON memory_items BEGIN
    INSERT INTO memory_words (rowid, content, semantic_tags)
    VALUES (new.id, new.content, new.semantic_tags);
END;
CREATE TRIGGER IF NOT EXISTS memory_items_removed AFTER DELETE ON memory_items BEGIN
    INSERT INTO memory_words (memory_words, rowid, content, semantic_tags)
    VALUES ('delete', old.id, old.content, old.semantic_tags);
    DELETE FROM memory_entities WHERE item = old.id;
    DELETE FROM memory_causes WHERE item = old.id;
END;
CREATE TRIGGER IF NOT EXISTS memory_items_reworded
AFTER UPDATE OF id, content, semantic_tags ON memory_items BEGIN
    INSERT INTO memory_words (memory_words, rowid, content, semantic_tags)
    VALUES ('delete', old.id, old.content, old.semantic_tags);
    INSERT INTO memory_words (rowid, content, semantic_tags)
    VALUES (new.id, new.content, new.semantic_tags);
END;
CREATE TRIGGER IF NOT EXISTS memory_items_with_entities
AFTER INSERT ON memory_items WHEN new.entity_refs <> '[]' BEGIN
    INSERT OR IGNORE INTO memory_entities (entity, item)
    SELECT value, new.id FROM json_each(new.entity_refs);
END;
CREATE TRIGGER IF NOT EXISTS memory_items_with_causes
AFTER INSERT ON memory_items WHEN new.causal_refs <> '[]' BEGIN
    INSERT OR IGNORE INTO memory_causes (cause, item)
    SELECT value, new.id FROM json_each(new.causal_refs);
END;
CREATE TRIGGER IF NOT EXISTS memory_items_linked
AFTER UPDATE OF id, entity_refs, causal_refs ON memory_items BEGIN
    DELETE FROM memory_entities WHERE item = old.id;
    DELETE FROM memory_causes WHERE item = old.id;
    INSERT OR IGNORE INTO memory_entities (entity, item)
    SELECT value, new.id FROM json_each(new.entity_refs);
    INSERT OR IGNORE INTO memory_causes (cause, item)
    SELECT value, new.id FROM json_each(new.causal_refs);
END;
