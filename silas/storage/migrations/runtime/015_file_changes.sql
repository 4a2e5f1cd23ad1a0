-- Every file that work has added, changed or removed, and those that it would have (`taken` = 0).
-- What a taken file held before is kept in a private file that is named by its hash (`before`).
CREATE TABLE IF NOT EXISTS file_changes (
    work_item_id TEXT NOT NULL,
    attempt BIGINT NOT NULL,
    path TEXT NOT NULL,
    directory TEXT NOT NULL,
    before TEXT,
    after TEXT,
    executable INTEGER NOT NULL,
    was_executable INTEGER NOT NULL,
    taken INTEGER NOT NULL,
    content TEXT,
    created_at TEXT NOT NULL,
    PRIMARY KEY (work_item_id, attempt, path)
);
CREATE INDEX IF NOT EXISTS file_changes_before ON file_changes (before);
CREATE INDEX IF NOT EXISTS file_changes_age ON file_changes (created_at);

-- What was kept earlier is text, in the row itself (`content`), of files that were not executable;
-- nobody has written down in which directory.
CREATE TABLE IF NOT EXISTS before_images (
    work_item_id TEXT NOT NULL,
    attempt BIGINT NOT NULL,
    path TEXT NOT NULL,
    before TEXT,
    after TEXT,
    content TEXT,
    created_at TEXT NOT NULL,
    PRIMARY KEY (work_item_id, attempt, path)
);
INSERT INTO file_changes (
    work_item_id, attempt, path, directory, before, after, executable, was_executable, taken,
    content, created_at
)
SELECT work_item_id, attempt, path, '', before, after, 0, 0, 1, content, created_at
FROM before_images WHERE true
ON CONFLICT (work_item_id, attempt, path) DO NOTHING;
DROP TABLE before_images;
