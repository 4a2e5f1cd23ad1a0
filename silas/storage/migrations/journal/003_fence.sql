-- How often it was changed who may write. A write that was allowed before the last change is not
-- made any more: whoever asked for it has to ask whether it still may.
CREATE TABLE IF NOT EXISTS write_fence (
    one INTEGER PRIMARY KEY CHECK (one = 1),
    generation BIGINT NOT NULL
);
