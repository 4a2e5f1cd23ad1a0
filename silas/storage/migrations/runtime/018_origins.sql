-- What a stranger's text has reached. Of files that Silas has delivered: their digest, and what the
-- run that wrote them had read. Of work: what its plan was made from and its runs have read.
CREATE TABLE IF NOT EXISTS file_origins (
    path TEXT NOT NULL,
    digest TEXT NOT NULL,
    taint TEXT NOT NULL,
    sources TEXT NOT NULL,
    work_item_id TEXT NOT NULL,
    written_at TEXT NOT NULL,
    PRIMARY KEY (path, digest)
);
CREATE INDEX IF NOT EXISTS file_origins_by_taint ON file_origins (taint, digest);
CREATE TABLE IF NOT EXISTS work_origins (
    work_item_id TEXT PRIMARY KEY,
    taint TEXT NOT NULL,
    sources TEXT NOT NULL,
    noted_at TEXT NOT NULL
);
-- The folders that the owner's request was about: what a revised plan's research may read, too.
CREATE TABLE IF NOT EXISTS request_folders (
    trace_id TEXT PRIMARY KEY,
    folders TEXT NOT NULL,
    created_at TEXT NOT NULL
);
-- The strangers' texts behind a card, as a list in JSON; of most cards there are none.
CREATE TABLE IF NOT EXISTS card_sources (
    card_id TEXT PRIMARY KEY,
    sources TEXT NOT NULL
);
