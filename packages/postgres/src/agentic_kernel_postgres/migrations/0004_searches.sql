-- oldest: 1

-- What listings go by besides. A process of version 0.1 leaves both null in what it inserts, and so
-- are they in all that was there before: a store of this version fills them in, see `listing`.
ALTER TABLE @schema@.tasks ADD COLUMN IF NOT EXISTS created timestamptz;
ALTER TABLE @schema@.tasks ADD COLUMN IF NOT EXISTS facets bigint[];
COMMENT ON COLUMN @schema@.tasks.created IS
    'When the Task was made; null until it is listed, -infinity if its input cannot be read.';
COMMENT ON COLUMN @schema@.tasks.facets IS
    'Digests of its kind, Agent, realm and labels: each is 64 bits of the name and the value.';
CREATE INDEX IF NOT EXISTS tasks_newest ON @schema@.tasks (status, created, id)
    WHERE created IS NOT NULL;
CREATE INDEX IF NOT EXISTS tasks_unlisted ON @schema@.tasks (key) WHERE created IS NULL;

-- A parent's id and a child's together may be too long for an entry. The second one is for
-- processes of version 0.1, which ask for the parent alone.
DROP INDEX IF EXISTS @schema@.tasks_parent;
CREATE INDEX IF NOT EXISTS tasks_child ON @schema@.tasks (hashtextextended(parent, 0), id)
    WHERE parent IS NOT NULL;
CREATE INDEX IF NOT EXISTS tasks_children ON @schema@.tasks USING hash (parent)
    WHERE parent IS NOT NULL;

CREATE TABLE IF NOT EXISTS @schema@.facets (
    facet bigint NOT NULL,
    id text COLLATE "C" NOT NULL,
    created timestamptz NOT NULL,
    PRIMARY KEY (facet, id)
);
CREATE INDEX IF NOT EXISTS facets_newest ON @schema@.facets (facet, created, id);
COMMENT ON TABLE @schema@.facets IS
    'The Tasks of each facet in both orders. Written when a Task comes, and never changed.';

-- Whether a record was written that version 0.1 cannot read.
CREATE OR REPLACE FUNCTION @schema@.raised_2() RETURNS boolean LANGUAGE sql AS
$body$ SELECT coalesce(max(oldest), 0) >= 4 FROM @schema@.versions $body$;

-- Refuses a process of version 0.1 once that is so. It waits for the write that raises the schema.
CREATE OR REPLACE FUNCTION @schema@.refuse_1() RETURNS void LANGUAGE plpgsql AS $body$
BEGIN
    PERFORM pg_advisory_xact_lock_shared(hashtextextended('agentic-kernel @schema@ form', 0));
    IF @schema@.raised_2() THEN
        RAISE EXCEPTION 'a newer version has written to schema @schema@, and this one cannot write '
            'to it any more; upgrade agentic-kernel-postgres' USING ERRCODE = 'AK002';
    END IF;
END
$body$;

CREATE OR REPLACE FUNCTION @schema@.before_delete_2() RETURNS trigger LANGUAGE plpgsql AS $body$
BEGIN
    IF current_setting('agentic_kernel.form', true) IS DISTINCT FROM '2' THEN
        PERFORM @schema@.refuse_1();
    END IF;
    RETURN NULL;
END
$body$;

CREATE OR REPLACE FUNCTION @schema@.after_delete_2() RETURNS trigger LANGUAGE plpgsql AS $body$
BEGIN
    DELETE FROM @schema@.facets WHERE facet = ANY (OLD.facets) AND id = OLD.id;
    RETURN NULL;
END
$body$;

CREATE OR REPLACE TRIGGER before_delete_2 BEFORE DELETE ON @schema@.tasks
    FOR EACH STATEMENT EXECUTE FUNCTION @schema@.before_delete_2();
CREATE OR REPLACE TRIGGER after_delete_2 AFTER DELETE ON @schema@.tasks
    FOR EACH ROW EXECUTE FUNCTION @schema@.after_delete_2();

-- Several writes, each of another Task, each landing whole or not at all, in one transaction.
-- Returns null if all of them landed, else the outcome of each: see the module `writes`.
--
-- A session that was given up writes nothing more, however late its last words arrive: it is then
-- gone from `hosts`, and whoever gave it up has waited for the lock that is taken here.
--
-- The first write of a record of form 2 raises the schema: from then on a process of version 0.1
-- writes nothing more, and what its hosts own is claimable.
CREATE OR REPLACE FUNCTION @schema@.write_2(
    _session bigint, _hosts text[], _items json, _texts json, _bytes bytea,
    _claims boolean, _moves boolean, _supplements boolean, _news text, _raises boolean
) RETURNS integer[] LANGUAGE plpgsql AS $body$
DECLARE
    _gone text[];
    _living text[] := '{}';
    _keys bigint[];
    _done integer[];
    _more record;
    _id text;
BEGIN
    IF _raises AND NOT @schema@.raised_2() THEN
        -- Waits for the writes of older processes that are under way, and keeps new ones out.
        PERFORM pg_advisory_xact_lock(hashtextextended('agentic-kernel @schema@ form', 0));
    END IF;
    PERFORM pg_advisory_xact_lock_shared(_session);
    _gone := ARRAY(
        SELECT name FROM @schema@.hosts
        WHERE name = ANY (_hosts) AND (gone OR until <= clock_timestamp()));
    IF 'session ' || _session = ANY (_gone) THEN
        RAISE EXCEPTION 'session % was given up', _session USING ERRCODE = 'AK001';
    END IF;

    IF _claims THEN
        -- A renewal that is under way is waited for here, and counts.
        UPDATE @schema@.hosts SET gone = true
        FROM json_to_recordset(_items) AS b (former text)
        WHERE name = b.former AND NOT gone AND until <= clock_timestamp();
        _living := ARRAY(
            SELECT name FROM @schema@.hosts JOIN json_to_recordset(_items) AS b (former text)
            ON name = b.former WHERE NOT gone);
    END IF;

    WITH landed AS (
        UPDATE @schema@.heads AS h
        SET version = b.before + 1, status = b.status, owner = b.owner,
            attempts = coalesce(b.attempts, 0), supplements = coalesce(b.supplements, 0),
            head = substr(_bytes, b.head, b.size)
        FROM json_to_recordset(_items) AS b (
            n integer, id text, before integer, held text, status text, owner text,
            attempts integer, supplements integer, head integer, size integer,
            acting text, former text)
        WHERE h.id = b.id AND h.version = b.before AND h.owner IS NOT DISTINCT FROM b.held
            AND h.status IN ('running', 'paused')
            AND (b.acting IS NULL OR b.acting <> ALL (_gone))
            AND (b.former IS NULL OR b.former <> ALL (_living))
        RETURNING h.key, b.n
    ) SELECT array_agg(key), array_agg(n) INTO _keys, _done FROM landed;

    IF _moves THEN
        WITH born AS (
            INSERT INTO @schema@.tasks
                (id, kind, parent, status, holder, due, ended, input, created, facets)
            SELECT b.id, b.kind, b.parent, b.status, b.holder, b.due, b.ended,
                substr(_bytes, b.input, b.length), b.created, b.facets
            FROM json_to_recordset(_items) AS b (
                id text, before integer, kind text, parent text, status text, holder text,
                due timestamptz, ended timestamptz, input integer, length integer, acting text,
                created timestamptz, facets bigint[])
            WHERE b.before = 0 AND (b.acting IS NULL OR b.acting <> ALL (_gone))
            ON CONFLICT DO NOTHING RETURNING tasks.key, tasks.id
        ), headed AS (
            INSERT INTO @schema@.heads
                (id, key, version, status, owner, attempts, supplements, head)
            SELECT b.id, born.key, 1, b.status, b.owner, coalesce(b.attempts, 0),
                coalesce(b.supplements, 0), substr(_bytes, b.head, b.size)
            FROM born JOIN json_to_recordset(_items) AS b (
                id text, status text, owner text, attempts integer, supplements integer,
                head integer, size integer) USING (id)
        ), listed AS (
            INSERT INTO @schema@.facets (facet, id, created)
            SELECT f.facet, b.id, b.created
            FROM born JOIN json_to_recordset(_items) AS b (
                id text, created timestamptz, listed bigint[]) USING (id),
                unnest(b.listed) AS f (facet)
            ON CONFLICT DO NOTHING
        )
        SELECT array_agg(born.key) AS keys, array_agg(b.n) AS done INTO _more
        FROM born JOIN json_to_recordset(_items) AS b (n integer, id text) USING (id);
        _keys := _keys || _more.keys;
        _done := _done || _more.done;

        UPDATE @schema@.tasks AS t
        SET status = b.status, holder = b.holder, due = b.due, ended = b.ended
        FROM json_to_recordset(_items) AS b (
            n integer, id text, moves boolean, status text, holder text,
            due timestamptz, ended timestamptz)
        WHERE t.id = b.id AND b.moves AND b.n = ANY (_done);
    END IF;

    IF _raises AND EXISTS (
        SELECT FROM json_to_recordset(_items) AS b (n integer, raises boolean)
        WHERE b.raises AND b.n = ANY (_done))
    THEN
        UPDATE @schema@.versions SET oldest = 4 WHERE version = 4 AND oldest < 4;
        UPDATE @schema@.hosts SET gone = true WHERE form < 2 AND NOT gone;
    END IF;

    INSERT INTO @schema@.events (task, version, place, text)
    SELECT _keys[array_position(_done, x.n)], x.version, x.place, substr(_bytes, x.text, x.size)
    FROM json_to_recordset(_texts) AS x (
        n integer, version integer, place integer, text integer, size integer)
    WHERE x.n = ANY (_done);

    IF _supplements THEN
        INSERT INTO @schema@.supplements (task, place, text)
        SELECT _keys[array_position(_done, b.n)], b.supplements - json_array_length(b.said) + s.n - 1,
            s.text
        FROM json_to_recordset(_items) AS b (n integer, supplements integer, said json),
            json_array_elements_text(b.said) WITH ORDINALITY AS s (text, n)
        WHERE b.n = ANY (_done);
    END IF;

    IF _news IS NOT NULL THEN
        FOR _id IN SELECT b.id FROM json_to_recordset(_items) AS b (n integer, id text, news boolean)
            WHERE b.news AND b.n = ANY (_done)
        LOOP
            PERFORM pg_notify(_news, _id);
        END LOOP;
    END IF;

    IF cardinality(_done) = json_array_length(_items) THEN
        RETURN NULL;
    END IF;
    RETURN ARRAY(
        SELECT CASE
            WHEN b.n = ANY (_done) THEN 0
            WHEN b.before = 0 AND h.id IS NOT NULL THEN 1
            WHEN b.before > 0 AND h.id IS NULL THEN 2
            WHEN h.version <> b.before OR h.owner IS DISTINCT FROM b.held
                OR h.status NOT IN ('running', 'paused') THEN 3
            WHEN b.former = ANY (_living) THEN 5
            WHEN b.acting = ANY (_gone) THEN 4
            ELSE 3 END
        FROM json_to_recordset(_items) AS b (
            n integer, id text, before integer, held text, acting text, former text)
        LEFT JOIN @schema@.heads AS h ON h.id = b.id
        ORDER BY b.n);
END
$body$;

-- One owner's step on its running Task, which is most of what is ever written: `write_2` of one
-- write that does not move its Task, at half the cost. Returns whether it landed.
CREATE OR REPLACE FUNCTION @schema@.step_2(
    _session bigint, _host text, _id text, _before integer, _held text, _attempts integer,
    _head bytea, _texts bytea, _sizes integer[]
) RETURNS boolean LANGUAGE plpgsql AS $body$
DECLARE
    _key bigint;
    _at integer := 1;
BEGIN
    PERFORM pg_advisory_xact_lock_shared(_session);
    UPDATE @schema@.heads SET version = _before + 1, attempts = _attempts, head = _head
    WHERE id = _id AND version = _before AND owner = _held AND status = 'running'
        AND NOT EXISTS (
            SELECT FROM @schema@.hosts
            WHERE name IN (_host, 'session ' || _session) AND (gone OR until <= clock_timestamp()))
    RETURNING key INTO _key;
    IF _key IS NULL THEN
        RETURN false;
    END IF;
    IF cardinality(_sizes) = 1 THEN
        INSERT INTO @schema@.events (task, version, place, text)
        VALUES (_key, _before + 1, 0, _texts);
        RETURN true;
    END IF;
    FOR _place IN 1 .. cardinality(_sizes) LOOP
        INSERT INTO @schema@.events (task, version, place, text)
        VALUES (_key, _before + 1, _place - 1, substr(_texts, _at, _sizes[_place]));
        _at := _at + _sizes[_place];
    END LOOP;
    RETURN true;
END
$body$;

-- What processes of version 0.1 call.
CREATE OR REPLACE FUNCTION @schema@.write_1(
    _session bigint, _hosts text[], _items json, _texts json, _bytes bytea,
    _claims boolean, _moves boolean, _supplements boolean, _news text
) RETURNS integer[] LANGUAGE plpgsql AS $body$
BEGIN
    PERFORM @schema@.refuse_1();
    RETURN @schema@.write_2(
        _session, _hosts, _items, _texts, _bytes, _claims, _moves, _supplements, _news, false);
END
$body$;

CREATE OR REPLACE FUNCTION @schema@.step_1(
    _session bigint, _host text, _id text, _before integer, _held text, _attempts integer,
    _head bytea, _texts bytea, _sizes integer[]
) RETURNS boolean LANGUAGE plpgsql AS $body$
BEGIN
    PERFORM @schema@.refuse_1();
    RETURN @schema@.step_2(
        _session, _host, _id, _before, _held, _attempts, _head, _texts, _sizes);
END
$body$;

-- Lists Tasks that are not listed yet; doing it twice does no harm.
CREATE OR REPLACE FUNCTION @schema@.list_2(_items json) RETURNS void LANGUAGE plpgsql AS $body$
BEGIN
    WITH listed AS (
        UPDATE @schema@.tasks AS t SET created = b.created, facets = b.facets
        FROM json_to_recordset(_items) AS b (key bigint, created timestamptz, facets bigint[])
        WHERE t.key = b.key AND t.created IS NULL
        RETURNING t.key, t.id, t.created
    ) INSERT INTO @schema@.facets (facet, id, created)
    SELECT f.facet, listed.id, listed.created
    FROM listed JOIN json_to_recordset(_items) AS b (key bigint, listed bigint[]) USING (key),
        unnest(b.listed) AS f (facet)
    ON CONFLICT DO NOTHING;
END
$body$;

-- Puts a record in the place of one that cannot be read; made again, it knows its own work.
-- Returns the outcome: see the module `writes`.
CREATE OR REPLACE FUNCTION @schema@.bury_2(
    _id text, _version integer, _next integer, _holder text, _kind text,
    _moment timestamptz, _facets bigint[], _listed bigint[], _input bytea, _head bytea,
    _texts bytea, _sizes integer[], _news text
) RETURNS integer LANGUAGE plpgsql AS $body$
DECLARE
    _there @schema@.heads;
    _task @schema@.tasks;
    _at integer := 1;
BEGIN
    SELECT * INTO _there FROM @schema@.heads WHERE id = _id FOR UPDATE;
    IF _there.id IS NULL THEN
        RETURN 2;
    ELSIF _there.version = _next AND _there.head = _head THEN
        RETURN 0;
    ELSIF _there.version <> _version THEN
        RETURN 3;
    END IF;
    UPDATE @schema@.hosts SET gone = true
    WHERE name = _holder AND NOT gone AND until <= clock_timestamp();
    IF EXISTS (SELECT FROM @schema@.hosts WHERE name = _holder AND NOT gone) THEN
        RETURN 5;
    END IF;
    UPDATE @schema@.heads SET version = _next, status = 'cancelled', owner = NULL, attempts = 0,
        supplements = 0, head = _head
    WHERE id = _id;
    SELECT * INTO _task FROM @schema@.tasks WHERE id = _id FOR UPDATE;
    DELETE FROM @schema@.facets WHERE facet = ANY (_task.facets) AND id = _id;
    UPDATE @schema@.tasks SET kind = _kind, parent = NULL, status = 'cancelled', holder = NULL,
        due = NULL, ended = _moment, created = _moment, facets = _facets, input = _input
    WHERE id = _id;
    INSERT INTO @schema@.facets (facet, id, created)
    SELECT f.facet, _id, _moment FROM unnest(_listed) AS f (facet) ON CONFLICT DO NOTHING;
    DELETE FROM @schema@.supplements WHERE task = _there.key;
    FOR _place IN 1 .. cardinality(_sizes) LOOP
        INSERT INTO @schema@.events (task, version, place, text)
        VALUES (_there.key, _next, _place - 1, substr(_texts, _at, _sizes[_place]));
        _at := _at + _sizes[_place];
    END LOOP;
    PERFORM pg_notify(_news, _id);
    RETURN 0;
END
$body$;

-- Removes ended Tasks, but not those that somebody holds. Returns how many.
CREATE OR REPLACE FUNCTION @schema@.prune_2(_keys bigint[]) RETURNS bigint
LANGUAGE plpgsql AS $body$
DECLARE
    _removed bigint;
BEGIN
    PERFORM set_config('agentic_kernel.form', '2', true);
    WITH old AS (
        SELECT key, id FROM @schema@.tasks WHERE key = ANY (_keys) FOR UPDATE SKIP LOCKED
    ), e AS (DELETE FROM @schema@.events USING old WHERE task = old.key
    ), s AS (DELETE FROM @schema@.supplements USING old WHERE task = old.key
    ), h AS (DELETE FROM @schema@.heads AS h USING old WHERE h.id = old.id
    ), t AS (DELETE FROM @schema@.tasks AS t USING old WHERE t.key = old.key RETURNING t.key
    ) SELECT count(*) INTO _removed FROM t;
    RETURN _removed;
END
$body$;
