-- Accounts that the owner has connected, each sealed by the owner's key. No credential is here:
-- `ref_id` is its name in the vault.
CREATE TABLE IF NOT EXISTS connections (
    connection_id TEXT PRIMARY KEY,
    name TEXT NOT NULL,
    domain TEXT NOT NULL,
    skill_name TEXT NOT NULL,
    auth_strategy TEXT NOT NULL,
    provider TEXT NOT NULL,
    username TEXT NOT NULL,
    endpoints TEXT NOT NULL,
    credential TEXT NOT NULL CHECK (credential IN ('password', 'bearer')),
    ref_id TEXT NOT NULL,
    permissions_granted TEXT NOT NULL,
    permissions_available TEXT NOT NULL,
    permissions_once TEXT NOT NULL,
    initial_permissions TEXT NOT NULL,
    status TEXT NOT NULL
        CHECK (status IN ('proposed', 'connecting', 'active', 'paused', 'failed')),
    health_check TEXT NOT NULL,
    token_expires_at TEXT,
    refresh_token_expires_at TEXT,
    last_health_check TEXT,
    last_refresh TEXT,
    last_used_at TEXT,
    problem TEXT NOT NULL,
    question_id TEXT,
    created_at TEXT NOT NULL,
    changed_at TEXT NOT NULL,
    seal_key_id TEXT,
    seal TEXT
);

-- Which domain the accounts of a piece of work belong to: the first one that it used decides.
CREATE TABLE IF NOT EXISTS work_domains (
    work_item_id TEXT PRIMARY KEY,
    domain TEXT NOT NULL
);

-- What the card of a secret says besides: how the secret begins, and how one gets it.
CREATE TABLE IF NOT EXISTS secret_hints (
    ref_id TEXT PRIMARY KEY,
    input_hint TEXT NOT NULL,
    guidance TEXT NOT NULL
);
