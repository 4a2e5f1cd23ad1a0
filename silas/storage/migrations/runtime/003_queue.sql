-- The bus: what waits or is being worked on, what was done, and what could not be done.

-- A row lives from `enqueue` to `ack`. `body` is the message as JSON; the columns beside it are what
-- the store needs to give it out. INTEGER PRIMARY KEY: `seq` is the order of arrival.
--   state    ready    can be given out
--            waiting  an earlier message of the same lane comes first
--            leased   somebody works on it, until `due_at`
--            delayed  it failed and is tried again at `due_at`
--   lane     where order is kept: queue and scope; NULL where it does not matter
--   holder   the process that leased it: after a crash, its leases need not run out
--   attempts how often it was given out
--   failures how many of these ended badly; expiries: of those, how many simply ran out
CREATE TABLE IF NOT EXISTS queue_messages (
    seq INTEGER PRIMARY KEY,
    message_id TEXT NOT NULL UNIQUE,
    queue TEXT NOT NULL,
    lane TEXT,
    priority INTEGER NOT NULL,
    state TEXT NOT NULL,
    body TEXT NOT NULL,
    enqueued_at TEXT NOT NULL,
    ready_at TEXT NOT NULL,
    leased_at TEXT,
    due_at TEXT,
    lease_id TEXT,
    consumer TEXT,
    holder TEXT,
    attempts INTEGER NOT NULL DEFAULT 0,
    failures INTEGER NOT NULL DEFAULT 0,
    expiries INTEGER NOT NULL DEFAULT 0,
    last_error TEXT
);
-- What is given out next, what is due, and what follows in a lane: each is one step in an index,
-- however long the queue is.
CREATE INDEX IF NOT EXISTS queue_messages_ready
    ON queue_messages (queue, priority, seq) WHERE state = 'ready';
CREATE INDEX IF NOT EXISTS queue_messages_due ON queue_messages (due_at) WHERE due_at IS NOT NULL;
CREATE INDEX IF NOT EXISTS queue_messages_lane ON queue_messages (lane, seq) WHERE lane IS NOT NULL;

-- Written together with the effects of a message, so that they cannot part. Also the telemetry: how
-- long it waited, how long it was worked on, how often a lease ran out.
CREATE TABLE IF NOT EXISTS processed_messages (
    message_id TEXT NOT NULL,
    consumer TEXT NOT NULL,
    processed_at TEXT NOT NULL,
    queue TEXT,
    attempts INTEGER,
    expiries INTEGER,
    waited_seconds REAL,
    leased_seconds REAL,
    PRIMARY KEY (message_id, consumer)
);
CREATE INDEX IF NOT EXISTS processed_messages_at ON processed_messages (processed_at);

-- What was given up, with a sentence why. It stays until a person requeues or drops it.
CREATE TABLE IF NOT EXISTS dead_letters (
    message_id TEXT PRIMARY KEY,
    queue TEXT NOT NULL,
    body TEXT NOT NULL,
    reason TEXT NOT NULL,
    enqueued_at TEXT NOT NULL,
    died_at TEXT NOT NULL,
    attempts INTEGER NOT NULL,
    failures INTEGER NOT NULL,
    expiries INTEGER NOT NULL
);
CREATE INDEX IF NOT EXISTS dead_letters_at ON dead_letters (died_at);
