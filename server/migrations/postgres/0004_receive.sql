-- Receiving: what a source verified becomes events, many in one statement.

-- Events of a paused source: kept, and not on their way to anybody before it is resumed.
CREATE TABLE snaphook.held_events (
    source_id  bigint  NOT NULL,
    event_id   bigint  NOT NULL,
    PRIMARY KEY (source_id, event_id)
);
REVOKE ALL ON TABLE snaphook.held_events FROM PUBLIC;

-- The patterns that the type of a source's event matches, as `patterns` gives them. Most have three
-- parts: the source, and two of the provider's.
CREATE FUNCTION snaphook.patterns_of_source(type text) RETURNS text[] LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT CASE WHEN split_part(type, '.', 3) <> '' AND split_part(type, '.', 4) = ''
        THEN ARRAY[type, split_part(type, '.', 1) || '.' || split_part(type, '.', 2) || '.*',
                   split_part(type, '.', 1) || '.*', '*']
        ELSE snaphook.patterns(type) END
$$;

-- Verified requests, all or none: dedup, event, fan-out. One element a request in each array.
-- `digests` and `evidences` are hashes of the provider's id, and of the signature where that does
-- not cover the id; null for none. Findings: 0 an event now, 1 seen before, 2 the id was seen with
-- another body, 3 the signature was seen under another id, 4 an event now, and held. Nothing is
-- kept of 2 and 3: that is for the caller, and until it has, the same again gets the same finding.
--
-- Rows are taken in the order of their keys, ids before signatures, so that two calls wait for
-- each other instead of locking each other out. Plans are fixed: one that is made while a table is
-- small would read all of it later.
CREATE FUNCTION snaphook.receive_many(
    sources bigint[], tenants text[], types text[], payloads bytea[], content_types text[], keys text[],
    source_types text[], headers bytea[], digests bytea[], evidences bytea[], body_digests bytea[]
) RETURNS TABLE (id bigint, finding smallint) LANGUAGE plpgsql VOLATILE
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_hashjoin = off
SET enable_mergejoin = off SET jit = off AS $$
#variable_conflict use_column
DECLARE
    many integer := coalesce(array_length(sources, 1), 0);
    start bigint := snaphook.micros();
    x bigint;
    ids bigint[] := array_fill(0::bigint, ARRAY[many]);
    firsts bigint[];
    findings smallint[] := array_fill(0::smallint, ARRAY[many]);
    suspects bigint[];
    paused bigint[];
BEGIN
    FOR n IN 1 .. many LOOP
        x := nextval('snaphook.event_sequence');
        ids[n] := snaphook.id_at(start + n, x);
    END LOOP;
    firsts := ids;
    IF digests IS NOT NULL THEN
        INSERT INTO snaphook.received (source_id, digest, event_id, body_digest, at)
        SELECT u.source, u.digest, u.id, u.body, clock_timestamp()
        FROM unnest(sources, digests, ids, body_digests) WITH ORDINALITY u (source, digest, id, body, n)
        WHERE u.digest IS NOT NULL
        ORDER BY u.source, u.digest, u.n
        ON CONFLICT DO NOTHING;
        SELECT array_agg(coalesce(r.event_id, u.id) ORDER BY u.n),
               array_agg(CASE WHEN r.event_id IS NULL OR r.event_id = u.id THEN 0
                              WHEN r.body_digest = u.body THEN 1 ELSE 2 END::smallint ORDER BY u.n)
        INTO firsts, findings
        FROM unnest(sources, digests, ids, body_digests) WITH ORDINALITY u (source, digest, id, body, n)
        LEFT JOIN snaphook.received r ON r.source_id = u.source AND r.digest = u.digest;
    END IF;
    IF evidences IS NOT NULL THEN
        INSERT INTO snaphook.received (source_id, digest, event_id, body_digest, at)
        SELECT u.source, u.evidence, u.first, u.body, clock_timestamp()
        FROM unnest(sources, evidences, firsts, body_digests, findings) WITH ORDINALITY
            u (source, evidence, first, body, finding, n)
        WHERE u.evidence IS NOT NULL AND u.finding < 2
        ORDER BY u.source, u.evidence, u.n
        ON CONFLICT DO NOTHING;
        SELECT array_agg(u.id) INTO suspects
        FROM unnest(sources, evidences, ids, findings) u (source, evidence, id, finding)
        JOIN snaphook.received r ON r.source_id = u.source AND r.digest = u.evidence
        WHERE u.finding = 0 AND r.event_id <> u.id;
        IF suspects IS NOT NULL THEN
            -- Whoever came in this call under the id of a suspect is one as well.
            SELECT array_agg(CASE WHEN u.first = ANY (suspects) THEN 3 ELSE u.finding END::smallint ORDER BY u.n)
            INTO findings
            FROM unnest(firsts, findings) WITH ORDINALITY u (first, finding, n);
            DELETE FROM snaphook.received r
            USING unnest(sources, digests, ids) u (source, digest, id)
            WHERE r.source_id = u.source AND r.digest = u.digest AND r.event_id = u.id AND u.id = ANY (suspects);
            SELECT array_agg(CASE WHEN u.finding = 3 THEN coalesce(r.event_id, u.first) ELSE u.first END ORDER BY u.n)
            INTO firsts
            FROM unnest(sources, evidences, firsts, findings) WITH ORDINALITY
                u (source, evidence, first, finding, n)
            LEFT JOIN snaphook.received r ON r.source_id = u.source AND r.digest = u.evidence;
        END IF;
    END IF;
    INSERT INTO snaphook.events
        (id, tenant, type, payload, content_type, key, door, source_id, source_type, source_headers)
    SELECT u.id, u.tenant, u.type, u.payload, content_types[u.n], keys[u.n], 2, u.source,
           source_types[u.n], headers[u.n]
    FROM unnest(ids, findings, sources, tenants, types, payloads) WITH ORDINALITY
        u (id, finding, source, tenant, type, payload, n)
    WHERE u.finding = 0;
    SELECT array_agg(s.id) INTO paused
    FROM snaphook.sources s WHERE s.id = ANY (sources) AND s.state = 1 AND s.deleted_at IS NULL;
    IF paused IS NOT NULL THEN
        SELECT array_agg(CASE WHEN u.finding = 0 AND u.source = ANY (paused) THEN 4 ELSE u.finding END::smallint
                         ORDER BY u.n)
        INTO findings
        FROM unnest(sources, findings) WITH ORDINALITY u (source, finding, n);
        INSERT INTO snaphook.held_events (source_id, event_id)
        SELECT u.source, u.id FROM unnest(sources, ids, findings) u (source, id, finding) WHERE u.finding = 4;
    END IF;
    INSERT INTO snaphook.queue (event_id, endpoint_id, tenant, shard, state, due_at)
    SELECT u.id, s.endpoint_id, u.tenant, s.shard, s.queue_state, clock_timestamp()
    FROM (
        SELECT u.id, u.tenant, snaphook.patterns_of_source(u.type) AS patterns
        FROM unnest(ids, findings, tenants, types) u (id, finding, tenant, type)
        WHERE u.finding = 0 OFFSET 0 -- or else the patterns are made anew for each subscription
    ) u JOIN snaphook.subscriptions s ON s.tenant = u.tenant AND s.pattern = ANY (u.patterns);
    RETURN QUERY SELECT u.first, u.finding FROM unnest(firsts, findings) u (first, finding);
END $$;

-- Sends up to `most` events on their way whose source is not paused any more, the oldest of each
-- source first. They go into their endpoints' lanes, for they are too old to be found among what is
-- fresh, and the lanes' owners are told. Gives how many it were.
CREATE FUNCTION snaphook.release_held(most integer) RETURNS bigint LANGUAGE plpgsql VOLATILE
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_hashjoin = off
SET enable_mergejoin = off SET jit = off AS $$
DECLARE
    resumed bigint[];
    released bigint[];
BEGIN
    WITH RECURSIVE holding (source_id) AS ( -- from one source to the next, however much each holds
        SELECT min(h.source_id) FROM snaphook.held_events h
        UNION ALL
        SELECT (SELECT min(h.source_id) FROM snaphook.held_events h WHERE h.source_id > holding.source_id)
        FROM holding WHERE holding.source_id IS NOT NULL
    )
    SELECT array_agg(holding.source_id) INTO resumed
    FROM holding
    WHERE holding.source_id IS NOT NULL AND NOT EXISTS (
        SELECT FROM snaphook.sources s
        WHERE s.id = holding.source_id AND s.state = 1 AND s.deleted_at IS NULL);
    IF resumed IS NULL THEN
        RETURN 0;
    END IF;
    WITH gone AS (
        DELETE FROM snaphook.held_events h USING (
            SELECT o.source_id, o.event_id FROM snaphook.held_events o
            WHERE o.source_id = ANY (resumed)
            ORDER BY o.source_id, o.event_id LIMIT most
            FOR UPDATE SKIP LOCKED
        ) o WHERE h.source_id = o.source_id AND h.event_id = o.event_id
        RETURNING h.event_id
    )
    SELECT array_agg(gone.event_id ORDER BY gone.event_id) INTO released FROM gone;
    WITH sent AS (
        INSERT INTO snaphook.queue (event_id, endpoint_id, tenant, shard, state, due_at)
        SELECT e.id, s.endpoint_id, e.tenant, s.shard, greatest(1, s.queue_state), clock_timestamp()
        FROM unnest(released) u (id) JOIN snaphook.events e ON e.id = u.id
        JOIN snaphook.subscriptions s ON s.tenant = e.tenant AND s.pattern = ANY (snaphook.patterns(e.type))
        RETURNING queue.shard, queue.endpoint_id
    )
    INSERT INTO snaphook.commands (shard, kind, endpoint_id, event_id)
    SELECT DISTINCT sent.shard, 0, sent.endpoint_id, 0::bigint FROM sent;
    RETURN coalesce(array_length(released, 1), 0);
END $$;

REVOKE ALL ON FUNCTION snaphook.patterns_of_source(text) FROM PUBLIC;
REVOKE ALL ON FUNCTION snaphook.receive_many(bigint[], text[], text[], bytea[], text[], text[], text[],
    bytea[], bytea[], bytea[], bytea[]) FROM PUBLIC;
REVOKE ALL ON FUNCTION snaphook.release_held(integer) FROM PUBLIC;
