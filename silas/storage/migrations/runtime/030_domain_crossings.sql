-- Policies that the owner signed: what was read of one domain may be used in another.
CREATE TABLE IF NOT EXISTS domain_crossings (
    crossing_id TEXT NOT NULL,
    source TEXT NOT NULL,
    target TEXT NOT NULL,
    signed_at TEXT NOT NULL,
    seal_key_id TEXT,
    seal TEXT,
    PRIMARY KEY (source, target)
);

-- Which domains a piece of work has read of. It takes the place of work_domains, which holds one.
CREATE TABLE IF NOT EXISTS work_read_domains (
    work_item_id TEXT NOT NULL,
    domain TEXT NOT NULL,
    PRIMARY KEY (work_item_id, domain)
);
-- Nothing is in it the second time, should this file run twice.
CREATE TABLE IF NOT EXISTS work_domains (
    work_item_id TEXT PRIMARY KEY,
    domain TEXT NOT NULL
);
INSERT INTO work_read_domains (work_item_id, domain)
SELECT work_item_id, domain FROM work_domains;
DROP TABLE work_domains;
