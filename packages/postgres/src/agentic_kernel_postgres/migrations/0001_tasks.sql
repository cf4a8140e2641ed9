-- oldest: 1

CREATE TABLE IF NOT EXISTS @schema@.hosts (
    name text COLLATE "C" PRIMARY KEY,
    until timestamptz NOT NULL,
    gone boolean NOT NULL DEFAULT false
);
COMMENT ON TABLE @schema@.hosts IS
    'Who is alive, until when; and, from the first, who was given up. Gone is gone for ever.';

CREATE TABLE IF NOT EXISTS @schema@.tasks (
    key bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    id text COLLATE "C" NOT NULL UNIQUE,
    kind text NOT NULL,
    parent text,
    status text NOT NULL,
    holder text COLLATE "C",
    due timestamptz,
    ended timestamptz,
    input bytea NOT NULL
);
COMMENT ON TABLE @schema@.tasks IS
    'The input of each Task, and what listings go by. Written when a Task comes and when it moves.';
COMMENT ON COLUMN @schema@.tasks.holder IS
    'The host that owns it; empty while it runs and nobody does; null at rest.';
CREATE INDEX IF NOT EXISTS tasks_status ON @schema@.tasks (status, id);
CREATE INDEX IF NOT EXISTS tasks_holder ON @schema@.tasks (holder, id) WHERE holder IS NOT NULL;
CREATE INDEX IF NOT EXISTS tasks_parent ON @schema@.tasks (parent, id) WHERE parent IS NOT NULL;
CREATE INDEX IF NOT EXISTS tasks_due ON @schema@.tasks (due) WHERE due IS NOT NULL;
CREATE INDEX IF NOT EXISTS tasks_ended ON @schema@.tasks (ended) WHERE ended IS NOT NULL;

CREATE TABLE IF NOT EXISTS @schema@.heads (
    id text COLLATE "C" PRIMARY KEY,
    key bigint NOT NULL,
    version integer NOT NULL,
    status text NOT NULL,
    owner text,
    attempts integer NOT NULL,
    supplements integer NOT NULL,
    head bytea NOT NULL
) WITH (fillfactor = 50);
COMMENT ON TABLE @schema@.heads IS
    'What every commit replaces. Narrow, with one index, and room on each page for the successor.';

CREATE TABLE IF NOT EXISTS @schema@.events (
    task bigint NOT NULL,
    version integer NOT NULL,
    place integer NOT NULL,
    text bytea NOT NULL,
    PRIMARY KEY (task, version, place)
);

CREATE TABLE IF NOT EXISTS @schema@.supplements (
    task bigint NOT NULL,
    place integer NOT NULL,
    text text NOT NULL,
    PRIMARY KEY (task, place)
);

-- Several writes, each of another Task, each landing whole or not at all, in one transaction.
-- Returns null if all of them landed, else the outcome of each: see the module `writes`.
--
-- A session that was given up writes nothing more, however late its last words arrive: it is then
-- gone from `hosts`, and whoever gave it up has waited for the lock that is taken here.
CREATE OR REPLACE FUNCTION @schema@.write_1(
    _session bigint, _hosts text[], _items json, _texts json, _bytes bytea,
    _claims boolean, _moves boolean, _supplements boolean, _news text
) RETURNS integer[] LANGUAGE plpgsql AS $body$
DECLARE
    _gone text[];
    _living text[] := '{}';
    _keys bigint[];
    _done integer[];
    _more record;
    _id text;
BEGIN
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
            INSERT INTO @schema@.tasks (id, kind, parent, status, holder, due, ended, input)
            SELECT b.id, b.kind, b.parent, b.status, b.holder, b.due, b.ended,
                substr(_bytes, b.input, b.length)
            FROM json_to_recordset(_items) AS b (
                id text, before integer, kind text, parent text, status text, holder text,
                due timestamptz, ended timestamptz, input integer, length integer, acting text)
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

-- One owner's step on its running Task, which is most of what is ever written: `write_1` of one
-- write that does not move its Task, at half the cost. Returns whether it landed.
CREATE OR REPLACE FUNCTION @schema@.step_1(
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
