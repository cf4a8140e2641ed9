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
