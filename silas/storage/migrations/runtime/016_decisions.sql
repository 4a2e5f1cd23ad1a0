-- Every decision of the owner's with its proof: what was signed, by which key, the passkey's
-- assertion, how strong that is, and when it was decided, for which the owner's key vouches.
-- A statement is NULL only for answers of older versions: they are in questions.answer.
CREATE TABLE IF NOT EXISTS decisions (
    question_id TEXT PRIMARY KEY,
    kind TEXT NOT NULL,
    statement TEXT,
    strength TEXT NOT NULL,
    key_id TEXT NOT NULL,
    signature TEXT NOT NULL,
    assertion TEXT,
    tokens TEXT NOT NULL,
    decided_at TEXT,
    receipt_key_id TEXT,
    receipt TEXT
);

-- What was kept in four places. The columns of review_cards and questions stay, and are read no more.
CREATE TABLE IF NOT EXISTS decision_receipts (
    card_id TEXT PRIMARY KEY,
    decided_at TEXT NOT NULL,
    key_id TEXT NOT NULL,
    signature TEXT NOT NULL
);
CREATE TABLE IF NOT EXISTS card_passkeys (
    card_id TEXT PRIMARY KEY,
    proof TEXT NOT NULL
);
INSERT INTO decisions (
    question_id, kind, statement, strength, key_id, signature, assertion, tokens, decided_at,
    receipt_key_id, receipt
)
SELECT review_cards.id, 'plan', review_cards.decision, 'tap', review_cards.key_id,
    review_cards.signature, card_passkeys.proof, '{}', decision_receipts.decided_at,
    decision_receipts.key_id, decision_receipts.signature
FROM review_cards
LEFT JOIN card_passkeys ON card_passkeys.card_id = review_cards.id
LEFT JOIN decision_receipts ON decision_receipts.card_id = review_cards.id
WHERE review_cards.decision IS NOT NULL AND review_cards.key_id IS NOT NULL
    AND review_cards.signature IS NOT NULL
ON CONFLICT (question_id) DO NOTHING;
INSERT INTO decisions (
    question_id, kind, statement, strength, key_id, signature, assertion, tokens, decided_at,
    receipt_key_id, receipt
)
SELECT questions.id, questions.kind, NULL, 'tap', questions.key_id, questions.signature, NULL, '{}',
    decision_receipts.decided_at, decision_receipts.key_id, decision_receipts.signature
FROM questions LEFT JOIN decision_receipts ON decision_receipts.card_id = questions.id
WHERE questions.answer IS NOT NULL AND questions.key_id IS NOT NULL
    AND questions.signature IS NOT NULL
ON CONFLICT (question_id) DO NOTHING;
DROP TABLE decision_receipts;
DROP TABLE card_passkeys;
