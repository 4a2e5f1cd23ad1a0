-- The repository and the commit that a version of a skill was fetched as, as JSON; NULL: it was not.
ALTER TABLE skill_versions ADD COLUMN origin TEXT;
