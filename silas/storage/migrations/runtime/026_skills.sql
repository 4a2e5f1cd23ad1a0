-- The skills that are in force, each sealed by the owner's key, and the versions of each. The origin
-- of a version is the repository and the commit that it was fetched as, as JSON; NULL: it was not.
CREATE TABLE IF NOT EXISTS skills (
    name TEXT PRIMARY KEY,
    state TEXT NOT NULL CHECK (state IN ('installed', 'disabled', 'removed')),
    digest TEXT,
    previous TEXT,
    bundled INTEGER NOT NULL DEFAULT 0,
    description TEXT NOT NULL DEFAULT '',
    activation TEXT NOT NULL DEFAULT 'auto',
    tools TEXT NOT NULL DEFAULT '[]',
    seal_key_id TEXT,
    seal TEXT,
    installed_at TEXT NOT NULL,
    changed_at TEXT NOT NULL,
    last_used_at TEXT
);

CREATE TABLE IF NOT EXISTS skill_versions (
    name TEXT NOT NULL,
    digest TEXT NOT NULL,
    state TEXT NOT NULL
        CHECK (state IN ('proposed', 'installed', 'declined', 'blocked', 'lapsed')),
    source TEXT NOT NULL,
    origin TEXT,
    question_id TEXT,
    report TEXT,
    trial TEXT,
    reason TEXT NOT NULL DEFAULT '',
    created_at TEXT NOT NULL,
    PRIMARY KEY (name, digest)
);

CREATE INDEX IF NOT EXISTS skill_versions_by_digest ON skill_versions (digest);
