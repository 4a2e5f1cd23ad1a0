-- What models were asked, and what each answer used. `day` is the owner's, by the clock on the wall.
-- Without a `cost_usd` nobody knows the price.
CREATE TABLE IF NOT EXISTS model_usage (
    id TEXT PRIMARY KEY,
    day TEXT NOT NULL,
    role TEXT NOT NULL,
    model TEXT NOT NULL,
    input_tokens INTEGER NOT NULL,
    output_tokens INTEGER NOT NULL,
    cost_usd REAL
);
CREATE INDEX IF NOT EXISTS model_usage_by_day ON model_usage (day);
