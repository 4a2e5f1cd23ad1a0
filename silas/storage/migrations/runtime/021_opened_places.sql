-- Folders and files that the owner has opened to reading. What each is, and who may see its text,
-- stands in the question that the owner has answered with a signature: without that, a row opens
-- nothing. A place that was closed keeps its row.
CREATE TABLE IF NOT EXISTS opened_places (
    question_id TEXT PRIMARY KEY,
    opened_at TEXT NOT NULL,
    closed_at TEXT
);
