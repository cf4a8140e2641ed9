-- oldest: 1

-- The places of the items that a query compares: all of a small scope; null: all of a large one.
--
-- With the indexes that `PostgresMemory.index` makes, some of a large one: those nearest by vector,
-- the newest, and those that the words lead to: all words at once, or one of them. Each search is a
-- statement of its own with its values written out, because the indexes are partial and the planner
-- has to see the scope.
CREATE OR REPLACE FUNCTION @schema@.near_1(
    _digest bytea, _extension text, _words text[], _vector real[], _limit integer
) RETURNS bigint[] STABLE LANGUAGE plpgsql AS $body$
DECLARE
    _whole constant integer := 3000;  -- a scope of so many items is compared whole
    _each constant integer := 50;  -- the newest items, and those of each word
    _near constant integer := greatest(100, 2 * _limit);  -- the nearest items
    _scope @schema@.scopes;
    _found bigint[];
    _places bigint[];
    _asked text;
BEGIN
    SELECT * INTO _scope FROM @schema@.scopes WHERE digest = _digest;
    -- Named one by one, because the planner takes each of few scopes for a large part of the table.
    _places := ARRAY(SELECT place FROM @schema@.items WHERE scope = _scope.key AND live
        ORDER BY place LIMIT _whole + 1);
    IF cardinality(_places) <= _whole THEN
        RETURN _places;
    END IF;
    IF _scope.dimensions IS DISTINCT FROM cardinality(_vector) OR NOT EXISTS (
        SELECT FROM pg_index
        WHERE indexrelid = to_regclass('@schema@.items_near_' || _scope.key) AND indisvalid)
    THEN
        RETURN NULL;
    END IF;

    PERFORM set_config('hnsw.iterative_scan', 'relaxed_order', true);
    PERFORM set_config('hnsw.ef_search', least(1000, _near)::text, true);
    EXECUTE format(
        'SELECT array_agg(place) FROM (SELECT place FROM @schema@.items
            WHERE scope = %1$s AND live AND vector IS NOT NULL
            ORDER BY (vector::%3$s.halfvec(%2$s)) OPERATOR(%3$s.<#>) $1::%3$s.halfvec(%2$s)
            LIMIT %4$s) AS nearest',
        _scope.key, _scope.dimensions, _extension, _near) INTO _places USING _vector;
    IF coalesce(cardinality(_places), 0) < _near THEN
        RETURN NULL;  -- the scan was given up, or too few items have a vector
    END IF;

    -- Of very many words the longest ones count, which are rarer than short ones.
    SELECT array_agg(quote_literal(word)) INTO _words FROM (
        SELECT word FROM unnest(_words) AS word ORDER BY length(word) DESC, word LIMIT 16) AS longest;
    FOREACH _asked IN ARRAY array_cat(
        ARRAY[NULL::text], array_cat(_words, ARRAY[array_to_string(_words, ' & ')]))
    LOOP
        EXECUTE format(
            'SELECT array_agg(place) FROM (SELECT place FROM @schema@.items
                WHERE scope = %s AND live %s ORDER BY place DESC LIMIT %s) AS found',
            _scope.key, ' AND words @@ ' || quote_literal(_asked) || '::tsquery', _each)
            INTO _found;
        _places := _places || _found;
    END LOOP;
    RETURN ARRAY(SELECT DISTINCT unnest(_places));
END
$body$;
