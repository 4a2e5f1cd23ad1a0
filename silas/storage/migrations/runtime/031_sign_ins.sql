-- Where the owner signs in to an account, as which client and for what; sealed with the connection.
-- No token is here: they are in the vault, below the connection's `ref_id`.
CREATE TABLE IF NOT EXISTS connection_sign_ins (
    connection_id TEXT PRIMARY KEY,
    oauth TEXT NOT NULL
);
