-- oldest: 1

-- A step of its own: one that locked `hosts` and `tasks` could meet a writer crosswise.
ALTER TABLE @schema@.hosts ADD COLUMN IF NOT EXISTS form integer NOT NULL DEFAULT 1;
COMMENT ON COLUMN @schema@.hosts.form IS
    'The newest form of a record that the host writes. Those of form 1 are gone when a record of
    form 2 is written, because they can write no more.';
