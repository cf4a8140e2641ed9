-- A schema that version 0.1.0 (commit 21c6eb3) made and wrote to, with its text taken from there.

CREATE SCHEMA @schema@;
-- Migration 1, as version 0.1.0 had it.
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

-- Migration 2, as version 0.1.0 had it.
-- oldest: 1

CREATE TABLE IF NOT EXISTS @schema@.scopes (
    key bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    digest bytea NOT NULL UNIQUE,
    tenant text NOT NULL,
    principal text NOT NULL,
    session text NOT NULL,
    dimensions integer
);
COMMENT ON TABLE @schema@.scopes IS
    'Who remembers. The digest is of the three parts, which together are too long for an index.';
COMMENT ON COLUMN @schema@.scopes.dimensions IS
    'How long every vector of the scope is; null as long as there was none.';

-- A query compares every vector of a scope: they are read twice as fast beside the rest of the row.
CREATE TABLE IF NOT EXISTS @schema@.items (
    scope bigint NOT NULL,
    place bigint GENERATED ALWAYS AS IDENTITY,
    id text COLLATE "C" NOT NULL,
    text text NOT NULL,
    key text NOT NULL,
    task text NOT NULL,
    step bigint NOT NULL,
    predecessor text NOT NULL,
    successor text NOT NULL,
    forgotten text NOT NULL,
    live boolean NOT NULL GENERATED ALWAYS AS (successor = '' AND forgotten = '') STORED,
    proposed bigint NOT NULL,
    tombstoned bigint,
    words tsvector,
    vector real[],
    PRIMARY KEY (scope, id)
) WITH (toast_tuple_target = 8160);
COMMENT ON TABLE @schema@.items IS
    'All that was ever remembered. What is not live any more has neither words nor a vector.';
COMMENT ON COLUMN @schema@.items.proposed IS
    'The number of the call that brought it, so that one made again knows its own work.';
COMMENT ON COLUMN @schema@.items.tombstoned IS 'The number of the call that forgot it.';
COMMENT ON COLUMN @schema@.items.vector IS
    'An array, which needs no extension to be kept; compared as a vector of pgvector.';
CREATE INDEX IF NOT EXISTS items_place ON @schema@.items (scope, place);
CREATE INDEX IF NOT EXISTS items_live ON @schema@.items (scope, place) WHERE live;

-- Takes items into a scope, in their order, one of them in the place of another if that is named.
-- What is known stays; what came with it can only end it. Returns how many are new by this call,
-- however often it is made, or why it changed nothing: -1, there is no such predecessor; -2, it is
-- not live any more, with its successor.
--
-- The writers of a scope come one after the other, so that items are seen in the order of their
-- places, and none appears behind one that was seen before it.
CREATE OR REPLACE FUNCTION @schema@.remember_1(
    _digest bytea, _tenant text, _principal text, _session text,
    _call bigint, _items json, _dimensions integer, _predecessor text,
    OUT outcome integer, OUT heir text
) LANGUAGE plpgsql AS $body$
DECLARE
    _scope @schema@.scopes;
    _former @schema@.items;
BEGIN
    SELECT * INTO _scope FROM @schema@.scopes WHERE digest = _digest FOR UPDATE;
    IF _scope.key IS NULL THEN
        IF _predecessor IS NOT NULL THEN
            outcome := -1;
            RETURN;
        END IF;
        INSERT INTO @schema@.scopes (digest, tenant, principal, session)
        VALUES (_digest, _tenant, _principal, _session) ON CONFLICT DO NOTHING;
        SELECT * INTO _scope FROM @schema@.scopes WHERE digest = _digest FOR UPDATE;
    END IF;

    IF _predecessor IS NOT NULL AND NOT EXISTS (
        SELECT FROM @schema@.items AS i JOIN json_to_recordset(_items) AS b (id text)
        ON i.scope = _scope.key AND i.id = b.id)
    THEN
        SELECT * INTO _former FROM @schema@.items AS i
        WHERE i.scope = _scope.key AND i.id = _predecessor;
        IF _former.id IS NULL THEN
            outcome := -1;
            RETURN;
        ELSIF NOT _former.live THEN
            outcome := -2;
            heir := _former.successor;
            RETURN;
        END IF;
        UPDATE @schema@.items AS i SET successor = b.id, words = NULL, vector = NULL
        FROM json_to_recordset(_items) AS b (id text)
        WHERE i.scope = _scope.key AND i.id = _predecessor;
    END IF;

    IF _dimensions <> _scope.dimensions THEN
        RAISE EXCEPTION 'a vector has % numbers, and those of this scope have %',
            _dimensions, _scope.dimensions USING ERRCODE = 'data_exception';
    ELSIF _scope.dimensions IS NULL AND _dimensions IS NOT NULL THEN
        UPDATE @schema@.scopes SET dimensions = _dimensions WHERE key = _scope.key;
    END IF;

    UPDATE @schema@.items AS i
    SET successor = CASE WHEN i.successor = '' THEN b.successor ELSE i.successor END,
        forgotten = CASE WHEN i.forgotten = '' THEN b.forgotten ELSE i.forgotten END,
        text = CASE WHEN b.forgotten = '' THEN i.text ELSE '' END,
        words = NULL, vector = NULL
    FROM json_to_recordset(_items) AS b (id text, successor text, forgotten text)
    WHERE i.scope = _scope.key AND i.id = b.id
        AND ((i.successor = '' AND b.successor <> '') OR (i.forgotten = '' AND b.forgotten <> ''));

    INSERT INTO @schema@.items (scope, id, text, key, task, step, predecessor, successor,
        forgotten, proposed, words, vector)
    SELECT _scope.key, b.id, b.text, b.key, b.task, b.step, b.predecessor, b.successor,
        b.forgotten, _call, array_to_tsvector(b.words), b.vector
    FROM json_to_recordset(_items) AS b (
        n integer, id text, text text, key text, task text, step bigint, predecessor text,
        successor text, forgotten text, words text[], vector real[])
    ORDER BY b.n ON CONFLICT DO NOTHING;

    SELECT count(*) INTO outcome
    FROM @schema@.items AS i JOIN json_to_recordset(_items) AS b (id text) USING (id)
    WHERE i.scope = _scope.key AND i.proposed = _call;
END
$body$;

-- Forgets an item. Returns whether it had not been forgotten before this call, however often it is
-- made; null if there is no such item.
CREATE OR REPLACE FUNCTION @schema@.forget_1(
    _digest bytea, _id text, _reason text, _call bigint
) RETURNS boolean LANGUAGE plpgsql AS $body$
DECLARE
    _scope bigint;
    _by bigint;
BEGIN
    SELECT key INTO _scope FROM @schema@.scopes WHERE digest = _digest FOR UPDATE;
    UPDATE @schema@.items
    SET text = '', forgotten = _reason, tombstoned = _call, words = NULL, vector = NULL
    WHERE scope = _scope AND id = _id AND forgotten = '';
    SELECT coalesce(tombstoned, 0) INTO _by FROM @schema@.items WHERE scope = _scope AND id = _id;
    RETURN _by = _call;
END
$body$;

CREATE TABLE @schema@.versions (version integer PRIMARY KEY, oldest integer NOT NULL, made timestamptz NOT NULL DEFAULT now());
INSERT INTO @schema@.versions (version, oldest, made) VALUES ('1', '1', '2026-11-23 07:46:40.131413+00');
INSERT INTO @schema@.versions (version, oldest, made) VALUES ('2', '1', '2026-11-23 07:46:40.176408+00');
INSERT INTO @schema@.hosts (name, until, gone) VALUES ('host', '2026-12-04 21:33:20.253748+00', 'false');
INSERT INTO @schema@.tasks (key, id, kind, parent, status, holder, due, ended, input) OVERRIDING SYSTEM VALUE VALUES ('1', 'running', 'loop', NULL, 'running', 'host', NULL, NULL, E'\\x7b2276223a312c2269223a7b22736368656d61223a312c226964223a2272756e6e696e67222c2273756d6d617279223a2273222c22696e737472756374696f6e73223a2269222c2272756e74696d655f6b696e64223a226c6f6f70222c226167656e745f6e616d65223a2261636d652f616e6e222c226d65746164617461223a7b226c6162656c2f7465616d223a22726564222c226c6162656c2f74696572223a357d2c22637265617465645f6174223a22323032362d30312d30325430333a30393a30352e3637383930312b30303a3030227d2c227374223a226e6f745f73746172746564222c226f776e6572223a6e756c6c2c2273746570223a302c227472696573223a302c22647565223a6e756c6c2c226e6f746573223a7b7d2c22737570223a5b5d7d');
INSERT INTO @schema@.tasks (key, id, kind, parent, status, holder, due, ended, input) OVERRIDING SYSTEM VALUE VALUES ('2', 'orphan', 'other', NULL, 'running', 'gone', NULL, NULL, E'\\x7b2276223a312c2269223a7b22736368656d61223a312c226964223a226f727068616e222c2273756d6d617279223a2273222c22696e737472756374696f6e73223a2269222c2272756e74696d655f6b696e64223a226f74686572222c226167656e745f6e616d65223a6e756c6c2c226d65746164617461223a7b226c6162656c2f7465616d223a22726564227d2c22637265617465645f6174223a22323032362d30312d30325430333a30383a30352e3637383930312b30303a3030227d2c227374223a226e6f745f73746172746564222c226f776e6572223a6e756c6c2c2273746570223a302c227472696573223a302c22647565223a6e756c6c2c226e6f746573223a7b7d2c22737570223a5b5d7d');
INSERT INTO @schema@.tasks (key, id, kind, parent, status, holder, due, ended, input) OVERRIDING SYSTEM VALUE VALUES ('3', 'paused', 'loop', NULL, 'paused', NULL, '2026-01-03 03:04:05.678901+00', NULL, E'\\x7b2276223a312c2269223a7b22736368656d61223a312c226964223a22706175736564222c2273756d6d617279223a2273222c22696e737472756374696f6e73223a2269222c2272756e74696d655f6b696e64223a226c6f6f70222c226167656e745f6e616d65223a6e756c6c2c226d65746164617461223a7b7d2c22637265617465645f6174223a22323032362d30312d30325430333a30373a30352e3637383930312b30303a3030227d2c227374223a226e6f745f73746172746564222c226f776e6572223a6e756c6c2c2273746570223a302c227472696573223a302c22647565223a6e756c6c2c226e6f746573223a7b7d2c22737570223a5b5d7d');
INSERT INTO @schema@.tasks (key, id, kind, parent, status, holder, due, ended, input) OVERRIDING SYSTEM VALUE VALUES ('4', 'edge', 'loop', NULL, 'paused', NULL, '10000-01-01 13:59:59+00', NULL, E'\\x7b2276223a312c2269223a7b22736368656d61223a312c226964223a2265646765222c2273756d6d617279223a2273222c22696e737472756374696f6e73223a2269222c2272756e74696d655f6b696e64223a226c6f6f70222c226167656e745f6e616d65223a2261636d652f616e6e222c226d65746164617461223a7b7d2c22637265617465645f6174223a22323032362d30312d30325430333a30363a30352e3637383930312b30303a3030227d2c227374223a226e6f745f73746172746564222c226f776e6572223a6e756c6c2c2273746570223a302c227472696573223a302c22647565223a6e756c6c2c226e6f746573223a7b7d2c22737570223a5b5d7d');
INSERT INTO @schema@.tasks (key, id, kind, parent, status, holder, due, ended, input) OVERRIDING SYSTEM VALUE VALUES ('5', 'resumed', 'loop', NULL, 'running', '', NULL, NULL, E'\\x7b2276223a312c2269223a7b22736368656d61223a312c226964223a22726573756d6564222c2273756d6d617279223a2273222c22696e737472756374696f6e73223a2269222c2272756e74696d655f6b696e64223a226c6f6f70222c226167656e745f6e616d65223a6e756c6c2c226d65746164617461223a7b7d2c22637265617465645f6174223a22323032362d30312d30325430333a30353a30352e3637383930312b30303a3030227d2c227374223a226e6f745f73746172746564222c226f776e6572223a6e756c6c2c2273746570223a302c227472696573223a302c22647565223a6e756c6c2c226e6f746573223a7b7d2c22737570223a5b5d7d');
INSERT INTO @schema@.tasks (key, id, kind, parent, status, holder, due, ended, input) OVERRIDING SYSTEM VALUE VALUES ('6', 'ended', 'loop', NULL, 'success', NULL, NULL, '2026-01-02 07:04:05.678901+00', E'\\x7b2276223a312c2269223a7b22736368656d61223a312c226964223a22656e646564222c2273756d6d617279223a2273222c22696e737472756374696f6e73223a2269222c2272756e74696d655f6b696e64223a226c6f6f70222c226167656e745f6e616d65223a6e756c6c2c226d65746164617461223a7b226c6162656c2f7465616d223a22626c7565227d2c22637265617465645f6174223a22323032362d30312d30325430333a30343a30352e3637383930312b30303a3030227d2c227374223a226e6f745f73746172746564222c226f776e6572223a6e756c6c2c2273746570223a302c227472696573223a302c22647565223a6e756c6c2c226e6f746573223a7b7d2c22737570223a5b5d7d');
INSERT INTO @schema@.tasks (key, id, kind, parent, status, holder, due, ended, input) OVERRIDING SYSTEM VALUE VALUES ('7', 'child', 'loop', 'running', 'running', '', NULL, NULL, E'\\x7b2276223a312c2269223a7b22736368656d61223a312c226964223a226368696c64222c2273756d6d617279223a2273222c22696e737472756374696f6e73223a2269222c2272756e74696d655f6b696e64223a226c6f6f70222c226167656e745f6e616d65223a6e756c6c2c226d65746164617461223a7b7d2c22637265617465645f6174223a22323032362d30312d30325430333a31303a30352e3637383930312b30303a3030227d2c227374223a226e6f745f73746172746564222c226f776e6572223a6e756c6c2c2273746570223a302c227472696573223a302c22647565223a6e756c6c2c22706172656e74223a2272756e6e696e67222c226e6f746573223a7b7d2c22737570223a5b5d7d');
INSERT INTO @schema@.heads (id, key, version, status, owner, attempts, supplements, head) VALUES ('child', '7', '2', 'running', NULL, '0', '0', E'\\x7b2276223a322c227374223a2272756e6e696e67222c227374617465223a7b22637572736f72223a5b312c305d7d2c2273746570223a312c226e6f746573223a7b226b2f78223a747275657d2c227374617274223a22323032362d30312d30325430343a30343a30352e3637383930312b30303a3030227d');
INSERT INTO @schema@.heads (id, key, version, status, owner, attempts, supplements, head) VALUES ('edge', '4', '2', 'paused', NULL, '0', '0', E'\\x7b2276223a322c227374223a22706175736564222c22647565223a22393939392d31322d33315432333a35393a35392d31343a3030222c226e6f746573223a7b226b2f78223a317d2c227374617274223a22323032362d30312d30325430343a30343a30352e3637383930312b30303a3030227d');
INSERT INTO @schema@.heads (id, key, version, status, owner, attempts, supplements, head) VALUES ('ended', '6', '2', 'success', NULL, '0', '0', E'\\x7b2276223a322c227374223a2273756363657373222c226e6f746573223a7b226b2f78223a747275657d2c22726573223a7b226973223a312e307d2c227374617274223a22323032362d30312d30325430343a30343a30352e3637383930312b30303a3030222c22656e64223a22323032362d30312d30325430373a30343a30352e3637383930312b30303a3030227d');
INSERT INTO @schema@.heads (id, key, version, status, owner, attempts, supplements, head) VALUES ('orphan', '2', '2', 'running', 'gone:1', '0', '0', E'\\x7b2276223a322c227374223a2272756e6e696e67222c227374617465223a7b22637572736f72223a5b312c305d7d2c2273746570223a312c226e6f746573223a7b226b2f78223a747275657d2c227374617274223a22323032362d30312d30325430343a30343a30352e3637383930312b30303a3030227d');
INSERT INTO @schema@.heads (id, key, version, status, owner, attempts, supplements, head) VALUES ('paused', '3', '2', 'paused', NULL, '0', '0', E'\\x7b2276223a322c227374223a22706175736564222c22647565223a22323032362d30312d30335430333a30343a30352e3637383930312b30303a3030222c226e6f746573223a7b226b2f78223a317d2c227374617274223a22323032362d30312d30325430343a30343a30352e3637383930312b30303a3030227d');
INSERT INTO @schema@.heads (id, key, version, status, owner, attempts, supplements, head) VALUES ('resumed', '5', '3', 'running', NULL, '0', '1', E'\\x7b2276223a322c227374223a2272756e6e696e67222c226e6f746573223a7b226b2f78223a317d2c227374617274223a22323032362d30312d30325430343a30343a30352e3637383930312b30303a3030227d');
INSERT INTO @schema@.heads (id, key, version, status, owner, attempts, supplements, head) VALUES ('running', '1', '3', 'running', 'host:1', '0', '0', E'\\x7b2276223a322c227374223a2272756e6e696e67222c227374617465223a7b22637572736f72223a5b312c305d7d2c2273746570223a322c226e6f746573223a7b226b2f78223a747275657d2c227374617274223a22323032362d30312d30325430343a30343a30352e3637383930312b30303a3030227d');
INSERT INTO @schema@.events (task, version, place, text) VALUES ('1', '1', '0', E'\\x7b226e223a317d');
INSERT INTO @schema@.events (task, version, place, text) VALUES ('1', '2', '0', E'\\x7b226e223a327d');
INSERT INTO @schema@.events (task, version, place, text) VALUES ('1', '3', '0', E'\\x7b226e223a337d');
INSERT INTO @schema@.events (task, version, place, text) VALUES ('2', '1', '0', E'\\x7b226e223a317d');
INSERT INTO @schema@.events (task, version, place, text) VALUES ('2', '2', '0', E'\\x7b226e223a327d');
INSERT INTO @schema@.events (task, version, place, text) VALUES ('3', '1', '0', E'\\x7b226e223a317d');
INSERT INTO @schema@.events (task, version, place, text) VALUES ('3', '2', '0', E'\\x7b226e223a327d');
INSERT INTO @schema@.events (task, version, place, text) VALUES ('4', '1', '0', E'\\x7b226e223a317d');
INSERT INTO @schema@.events (task, version, place, text) VALUES ('4', '2', '0', E'\\x7b226e223a327d');
INSERT INTO @schema@.events (task, version, place, text) VALUES ('5', '1', '0', E'\\x7b226e223a317d');
INSERT INTO @schema@.events (task, version, place, text) VALUES ('5', '2', '0', E'\\x7b226e223a327d');
INSERT INTO @schema@.events (task, version, place, text) VALUES ('5', '3', '0', E'\\x7b226e223a337d');
INSERT INTO @schema@.events (task, version, place, text) VALUES ('6', '1', '0', E'\\x7b226e223a317d');
INSERT INTO @schema@.events (task, version, place, text) VALUES ('6', '2', '0', E'\\x7b226e223a327d');
INSERT INTO @schema@.events (task, version, place, text) VALUES ('7', '1', '0', E'\\x7b226e223a317d');
INSERT INTO @schema@.events (task, version, place, text) VALUES ('7', '2', '0', E'\\x7b226e223a327d');
INSERT INTO @schema@.supplements (task, place, text) VALUES ('5', '0', 'go on');
SELECT setval(pg_get_serial_sequence('@schema@.tasks', 'key'), (SELECT max(key) FROM @schema@.tasks));
