-- What a card says about itself is sealed; passkeys for what cannot be undone; questions that are
-- not plans; autonomy that the owner has widened; what is needed to undo work.

-- The runtime's own signature over a card's risk, taint, hashes and times, made when it was asked.
-- A card without a valid seal can be declined, and nothing else.
CREATE TABLE IF NOT EXISTS card_seals (
    card_id TEXT PRIMARY KEY,
    key_id TEXT NOT NULL,
    signature TEXT NOT NULL
);

-- The passkey's assertion that a card was decided with, as JSON; it is verified again when the
-- decision is followed.
CREATE TABLE IF NOT EXISTS card_passkeys (
    card_id TEXT PRIMARY KEY,
    proof TEXT NOT NULL
);

-- `endorsement` is the owner's own signature over the other columns up to it: a row that somebody
-- wrote into the database is nobody's passkey. `sign_count` only ever grows.
CREATE TABLE IF NOT EXISTS passkeys (
    credential_id TEXT PRIMARY KEY,
    public_key TEXT NOT NULL,
    rp_id TEXT NOT NULL,
    name TEXT NOT NULL,
    enrolled_at TEXT NOT NULL,
    owner_key_id TEXT NOT NULL,
    endorsement TEXT NOT NULL,
    sign_count BIGINT NOT NULL,
    revoked_at TEXT
);

-- Questions to the owner that are not plans: `content` is the canonical JSON that is shown and
-- signed, `seal` the runtime's signature over it. `about` keeps the same from being asked twice.
CREATE TABLE IF NOT EXISTS questions (
    id TEXT PRIMARY KEY,
    kind TEXT NOT NULL,
    scope_id TEXT NOT NULL,
    trace_id TEXT NOT NULL,
    about TEXT NOT NULL,
    content TEXT NOT NULL,
    seal_key_id TEXT NOT NULL,
    seal TEXT NOT NULL,
    created_at TEXT NOT NULL,
    expires_at TEXT NOT NULL,
    state TEXT NOT NULL,
    answer TEXT,
    key_id TEXT,
    signature TEXT,
    answered_at TEXT
);
CREATE INDEX IF NOT EXISTS questions_state ON questions (state, created_at);
CREATE INDEX IF NOT EXISTS questions_about ON questions (about, created_at);

-- Thresholds that the owner has changed. `payload` is what the token was issued for; a row whose
-- token does not hold for it changes nothing.
CREATE TABLE IF NOT EXISTS autonomy_changes (
    proposal_id TEXT PRIMARY KEY,
    payload TEXT NOT NULL,
    token TEXT NOT NULL,
    changed_at TEXT NOT NULL,
    ended_at TEXT
);

-- What files were before an attempt's changes were taken over, for as long as it can be undone.
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
