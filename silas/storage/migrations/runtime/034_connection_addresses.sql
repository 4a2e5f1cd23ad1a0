-- The owner's own address at a service, where it is another than the name that they sign in with;
-- sealed with the connection.
CREATE TABLE IF NOT EXISTS connection_addresses (
    connection_id TEXT PRIMARY KEY,
    address TEXT NOT NULL
);
