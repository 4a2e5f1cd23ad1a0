-- Which models alone may be asked about a category, or by a kind. Local to this device.
CREATE TABLE IF NOT EXISTS model_rules (
    id TEXT PRIMARY KEY,
    scope TEXT NOT NULL,
    target TEXT NOT NULL,
    body TEXT NOT NULL
);
