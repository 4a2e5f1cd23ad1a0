-- The tasks with a reminder, found at once: they are looked for every few seconds.
CREATE INDEX IF NOT EXISTS records_reminders ON records (kind)
    WHERE kind = 'task' AND deleted = 0 AND status NOT IN ('done', 'rejected')
        AND content ->> '$.remind_at' IS NOT NULL;
