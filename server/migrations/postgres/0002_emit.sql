-- The doors in SQL. Everything outside `accept` and its kin is a thin, fenced entrance: SECURITY
-- DEFINER with a fixed search_path, executable by `snaphook_emitter` alone.
--
-- An emit is paid by somebody else's transaction, so these functions are short of everything that
-- PL/pgSQL does anew in each transaction: calls of one another, statements, long expressions. What
-- writes or loops is plpgsql; what is one expression is sql, without STRICT, for only that becomes
-- part of its caller's expression. A function in sql that has to be called is planned each time.

-- Eleven bits of it make ids of the same microsecond differ. All of it tells a node at one glance
-- whether anything was emitted since it last looked.
CREATE SEQUENCE snaphook.event_sequence MINVALUE 0;

-- An id as people see it: 64 bits in Crockford's base32. Each five bits become one byte, first the
-- upper eight of the thirteen, then the lower five; then each byte becomes its letter. '0' is added
-- to all, as everything from there on for 32 characters is printable.
CREATE FUNCTION snaphook.text_of(prefix text, id bigint) RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT prefix || translate(encode(
        int8send((
        ((id >>  4) & x'1f00000000000000'::bigint) |
        ((id >>  7) & x'001f000000000000'::bigint) |
        ((id >> 10) & x'00001f0000000000'::bigint) |
        ((id >> 13) & x'0000001f00000000'::bigint) |
        ((id >> 16) & x'000000001f000000'::bigint) |
        ((id >> 19) & x'00000000001f0000'::bigint) |
        ((id >> 22) & x'0000000000001f00'::bigint) |
        ((id >> 25) & x'000000000000001f'::bigint)
        ) + x'3030303030303030'::bigint) ||
        substr(int8send((
        ((id << 12) & x'0000001f00000000'::bigint) |
        ((id <<  9) & x'000000001f000000'::bigint) |
        ((id <<  6) & x'00000000001f0000'::bigint) |
        ((id <<  3) & x'0000000000001f00'::bigint) |
        (id & 31)
        ) + x'3030303030303030'::bigint), 4),
        'escape'), '0123456789:;<=>?@ABCDEFGHIJKLMNO', '0123456789abcdefghjkmnpqrstvwxyz')
$$;

-- Microseconds since 2025 above, eleven scrambled bits of a sequence below. The constants of the
-- scramble are drawn once an installation, so that ids do not tell how many there are.
DO $$
BEGIN
    EXECUTE format($f$
        CREATE FUNCTION snaphook.id_at(micros bigint, n bigint) RETURNS bigint
        LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $b$
            SELECT (micros << 11)
                | (((((n * %1$s + %2$s) & 2047) # (((n * %1$s + %2$s) & 2047) >> 5)) * %3$s) & 2047)
        $b$
    $f$, (random() * 1023)::integer * 2 + 1, (random() * 2047)::integer, (random() * 1023)::integer * 2 + 1);
END $$;

-- Microseconds from 2025-01-01 to now, by the database's clock. A double holds them exactly.
CREATE FUNCTION snaphook.micros() RETURNS bigint LANGUAGE sql VOLATILE AS $$
    SELECT (date_part('epoch', clock_timestamp()) * 1000000)::bigint - 1735689600000000
$$;

-- The patterns that a type of any number of parts matches: itself, `a.b.*`, `a.*`, `*`.
CREATE FUNCTION snaphook.patterns_of_any(type text) RETURNS text[]
LANGUAGE plpgsql IMMUTABLE STRICT PARALLEL SAFE AS $$
DECLARE
    found text[] := ARRAY[type, '*'];
    head text := type;
BEGIN
    WHILE position('.' IN head) > 0 LOOP
        head := left(head, length(head) - position('.' IN reverse(head)));
        found := found || (head || '.*');
    END LOOP;
    RETURN found;
END $$;

-- The same. Most types have two parts; theirs are written down, for a call costs more.
CREATE FUNCTION snaphook.patterns(type text) RETURNS text[] LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT CASE WHEN strpos(type, '.') > 0 AND split_part(type, '.', 3) = ''
        THEN ARRAY[type, split_part(type, '.', 1) || '.*', '*']
        ELSE snaphook.patterns_of_any(type) END
$$;

-- Whether an event is good at one glance, as nearly every one is: small, and with nothing that is
-- left out by most. No installation's limit is below 1 KiB. Of all others `check_event` decides.
CREATE FUNCTION snaphook.is_plain(
    tenant text, type text, payload bytea, key text, version text, occurred_at timestamptz, traceparent text
) RETURNS boolean LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT ((tenant || '/' || type) ~ '^[A-Za-z0-9_-]+/[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*$'
        AND octet_length(tenant) <= 128 AND octet_length(type) <= 256 AND octet_length(payload) <= 1024
        AND coalesce(key, version, traceparent) IS NULL AND occurred_at IS NULL) IS TRUE
$$;

-- Refuses what no door takes. 22023 is invalid_parameter_value.
CREATE FUNCTION snaphook.check_event(
    tenant text, type text, payload bytea, key text, version text, occurred_at timestamptz, traceparent text,
    bytes_max integer
) RETURNS void LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
    IF tenant IS NULL OR length(tenant) > 128 OR tenant !~ '^[A-Za-z0-9_-]+$' THEN
        RAISE EXCEPTION 'tenant %: not a tenant''s name', coalesce(quote_literal(left(tenant, 200)), 'null')
            USING ERRCODE = '22023', HINT = 'use 1 to 128 letters, digits, _ or -';
    END IF;
    IF type IS NULL OR length(type) > 256 OR type !~ '^[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*$' THEN
        RAISE EXCEPTION 'type %: not an event type', coalesce(quote_literal(left(type, 300)), 'null')
            USING ERRCODE = '22023',
                  HINT = 'use parts of letters, digits, _ or -, joined by dots, 256 characters at most, such as order.paid';
    END IF;
    IF payload IS NULL THEN
        RAISE EXCEPTION 'data null: an event needs data'
            USING ERRCODE = '22023', HINT = 'pass JSON, for example ''{}''';
    END IF;
    IF octet_length(payload) > bytes_max THEN
        RAISE EXCEPTION 'data of % bytes: over the limit of % bytes', octet_length(payload), bytes_max
            USING ERRCODE = '22023', HINT = 'send a smaller payload with a link to the rest, or raise limits.payload';
    END IF;
    IF key IS NOT NULL AND (key = '' OR octet_length(key) > 256 OR key ~ '[\u0001-\u001f\u007f-\u009f]') THEN
        RAISE EXCEPTION 'key % of % bytes: not a dedup key', quote_literal(left(key, 60)), octet_length(key)
            USING ERRCODE = '22023', HINT = 'use 1 to 256 bytes without control characters, or null for none';
    END IF;
    IF version IS NOT NULL
        AND (version = '' OR octet_length(version) > 64 OR version ~ '[\u0001-\u001f\u007f-\u009f]')
    THEN
        RAISE EXCEPTION 'version % of % bytes: not a version', quote_literal(left(version, 60)), octet_length(version)
            USING ERRCODE = '22023', HINT = 'use 1 to 64 bytes without control characters, or null for none';
    END IF;
    -- The infinities and years of five digits have no form in RFC 3339.
    IF occurred_at < '0001-01-01 00:00:00+00' OR occurred_at >= '10000-01-01 00:00:00+00' THEN
        RAISE EXCEPTION 'occurred_at %: outside of the years 1 to 9999', occurred_at
            USING ERRCODE = '22023',
                  HINT = 'pass a time from 0001-01-01T00:00:00Z to 9999-12-31T23:59:59.999999Z, or null for now';
    END IF;
    IF traceparent IS NOT NULL AND traceparent !~ '^[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}$' THEN
        RAISE EXCEPTION 'traceparent %: not in the form of W3C Trace Context', quote_literal(left(traceparent, 100))
            USING ERRCODE = '22023', HINT = 'pass 00-<32 hex>-<16 hex>-<2 hex>, or null for none';
    END IF;
END $$;

-- Wakes an idle node. A node sleeps only while it holds this lock, so as long as any is idle the
-- shared lock fails and we notify; while all are busy nobody pays for a notification, which takes
-- a lock over the whole database at commit.
CREATE FUNCTION snaphook.ring() RETURNS void LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    IF NOT pg_try_advisory_xact_lock_shared(1936617832, 1) THEN
        PERFORM pg_notify('snaphook', '');
    END IF;
END $$;

-- The one way in: dedup, event, fan-out. Of the caller's transaction, so it commits with it.
-- `dedup` is what makes two calls the same event; it is `key` unless a door has its own. Gives
-- `made`, or the id that the first event of the same dedup key has.
CREATE FUNCTION snaphook.put(
    made bigint, tenant text, type text, payload bytea, key text, dedup text, version text,
    occurred_at timestamptz, traceparent text, content_type text, door smallint, checked boolean
) RETURNS bigint LANGUAGE plpgsql VOLATILE AS $$
#variable_conflict use_column
DECLARE bytes_max integer;
BEGIN
    IF NOT snaphook.is_plain(
        put.tenant, put.type, put.payload, put.key, put.version, put.occurred_at, put.traceparent)
    THEN
        SELECT i.payload_bytes_max INTO bytes_max FROM snaphook.install i;
        PERFORM snaphook.check_event(
            put.tenant, put.type, put.payload, put.key, put.version, put.occurred_at, put.traceparent, bytes_max);
    END IF;
    IF put.dedup IS NOT NULL THEN
        INSERT INTO snaphook.keys (tenant, key, event_id, created_at)
        VALUES (put.tenant, put.dedup, put.made, clock_timestamp())
        ON CONFLICT DO NOTHING;
        IF NOT FOUND THEN
            RETURN (SELECT k.event_id FROM snaphook.keys k WHERE k.tenant = put.tenant AND k.key = put.dedup);
        END IF;
    END IF;
    INSERT INTO snaphook.events
        (id, tenant, type, version, payload, content_type, key, occurred_at, traceparent, door, checked)
    VALUES
        (put.made, put.tenant, put.type, put.version, put.payload, put.content_type, put.key,
         put.occurred_at, put.traceparent, put.door, put.checked);
    -- No two patterns of one endpoint match the same type; its subscriptions see to that.
    INSERT INTO snaphook.queue (event_id, endpoint_id, tenant, shard, state, due_at)
    SELECT put.made, s.endpoint_id, put.tenant, s.shard, s.queue_state, clock_timestamp()
    FROM snaphook.subscriptions s
    WHERE s.tenant = put.tenant AND s.pattern = ANY (snaphook.patterns(put.type));
    RETURN put.made;
END $$;

-- The same for a door that must know whether the event was there already, and with what in it.
CREATE FUNCTION snaphook.accept(
    tenant text, type text, payload bytea, key text, dedup text, version text,
    occurred_at timestamptz, traceparent text, content_type text, door smallint, checked boolean,
    OUT id bigint, OUT duplicate boolean, OUT differs boolean
) LANGUAGE plpgsql VOLATILE AS $$
#variable_conflict use_column
DECLARE
    n bigint := nextval('snaphook.event_sequence');
    made bigint := snaphook.id_at(snaphook.micros(), n);
BEGIN
    accept.id := snaphook.put(
        made, tenant, type, payload, key, dedup, version, occurred_at, traceparent, content_type, door, checked);
    accept.duplicate := accept.id <> made;
    accept.differs := false;
    IF accept.duplicate THEN
        SELECT e.payload <> accept.payload OR e.type <> accept.type INTO accept.differs
        FROM snaphook.events e WHERE e.id = accept.id;
        accept.differs := coalesce(accept.differs, false);
    END IF;
END $$;

-- In a transaction of the caller's own. Plain literals, json and jsonb all find their overload.
CREATE FUNCTION snaphook.emit(
    tenant text, type text, data text, key text DEFAULT NULL, version text DEFAULT NULL,
    occurred_at timestamptz DEFAULT NULL, traceparent text DEFAULT NULL
) RETURNS text LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    n bigint := nextval('snaphook.event_sequence');
    made bigint := snaphook.put(snaphook.id_at(snaphook.micros(), n), tenant, type, convert_to(data, 'UTF8'),
        key, key, version, occurred_at, traceparent, NULL, 0::smallint, false);
BEGIN
    IF NOT pg_try_advisory_xact_lock_shared(1936617832, 1) THEN -- as in `ring`
        PERFORM pg_notify('snaphook', '');
    END IF;
    RETURN snaphook.text_of('evt_', made);
END $$;

CREATE FUNCTION snaphook.emit(
    tenant text, type text, data json, key text DEFAULT NULL, version text DEFAULT NULL,
    occurred_at timestamptz DEFAULT NULL, traceparent text DEFAULT NULL
) RETURNS text LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    n bigint := nextval('snaphook.event_sequence');
    made bigint := snaphook.put(snaphook.id_at(snaphook.micros(), n), tenant, type, convert_to(data::text, 'UTF8'),
        key, key, version, occurred_at, traceparent, NULL, 0::smallint, false);
BEGIN
    IF NOT pg_try_advisory_xact_lock_shared(1936617832, 1) THEN -- as in `ring`
        PERFORM pg_notify('snaphook', '');
    END IF;
    RETURN snaphook.text_of('evt_', made);
END $$;

CREATE FUNCTION snaphook.emit(
    tenant text, type text, data jsonb, key text DEFAULT NULL, version text DEFAULT NULL,
    occurred_at timestamptz DEFAULT NULL, traceparent text DEFAULT NULL
) RETURNS text LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    n bigint := nextval('snaphook.event_sequence');
    made bigint := snaphook.put(snaphook.id_at(snaphook.micros(), n), tenant, type, convert_to(data::text, 'UTF8'),
        key, key, version, occurred_at, traceparent, NULL, 0::smallint, false);
BEGIN
    IF NOT pg_try_advisory_xact_lock_shared(1936617832, 1) THEN -- as in `ring`
        PERFORM pg_notify('snaphook', '');
    END IF;
    RETURN snaphook.text_of('evt_', made);
END $$;

-- Wakes nobody: a transaction that is PREPAREd must not have notified.
CREATE FUNCTION snaphook.emit_quiet(
    tenant text, type text, data text, key text DEFAULT NULL, version text DEFAULT NULL,
    occurred_at timestamptz DEFAULT NULL, traceparent text DEFAULT NULL
) RETURNS text LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    n bigint := nextval('snaphook.event_sequence');
    made bigint := snaphook.put(snaphook.id_at(snaphook.micros(), n), tenant, type, convert_to(data, 'UTF8'),
        key, key, version, occurred_at, traceparent, NULL, 0::smallint, false);
BEGIN
    RETURN snaphook.text_of('evt_', made);
END $$;

CREATE FUNCTION snaphook.emit_quiet(
    tenant text, type text, data json, key text DEFAULT NULL, version text DEFAULT NULL,
    occurred_at timestamptz DEFAULT NULL, traceparent text DEFAULT NULL
) RETURNS text LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    n bigint := nextval('snaphook.event_sequence');
    made bigint := snaphook.put(snaphook.id_at(snaphook.micros(), n), tenant, type, convert_to(data::text, 'UTF8'),
        key, key, version, occurred_at, traceparent, NULL, 0::smallint, false);
BEGIN
    RETURN snaphook.text_of('evt_', made);
END $$;

CREATE FUNCTION snaphook.emit_quiet(
    tenant text, type text, data jsonb, key text DEFAULT NULL, version text DEFAULT NULL,
    occurred_at timestamptz DEFAULT NULL, traceparent text DEFAULT NULL
) RETURNS text LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    n bigint := nextval('snaphook.event_sequence');
    made bigint := snaphook.put(snaphook.id_at(snaphook.micros(), n), tenant, type, convert_to(data::text, 'UTF8'),
        key, key, version, occurred_at, traceparent, NULL, 0::smallint, false);
BEGIN
    RETURN snaphook.text_of('evt_', made);
END $$;

-- Many at once, set by set. Rows are taken in the order of their keys, so that two calls with the
-- same keys wait for each other instead of locking each other out. Ids come in the order given.
CREATE FUNCTION snaphook.accept_many(
    tenants text[], types text[], payloads bytea[], keys text[], dedups text[], versions text[],
    occurred timestamptz[], traceparents text[], content_types text[], door smallint, checked boolean
) RETURNS TABLE (id bigint, duplicate boolean, differs boolean) LANGUAGE plpgsql VOLATILE AS $$
#variable_conflict use_column
DECLARE
    many integer := coalesce(array_length(tenants, 1), 0);
    bytes_max integer;
    start bigint := snaphook.micros();
    x bigint;
    ids bigint[] := array_fill(0::bigint, ARRAY[many]);
    firsts bigint[];
BEGIN
    IF coalesce(array_length(types, 1), 0) <> many OR coalesce(array_length(payloads, 1), 0) <> many
        OR coalesce(array_length(keys, 1), many) <> many OR coalesce(array_length(dedups, 1), many) <> many
        OR coalesce(array_length(versions, 1), many) <> many OR coalesce(array_length(occurred, 1), many) <> many
        OR coalesce(array_length(traceparents, 1), many) <> many OR coalesce(array_length(content_types, 1), many) <> many
    THEN
        RAISE EXCEPTION 'arrays of different lengths'
            USING ERRCODE = '22023', HINT = 'pass one element an event in each array, or null for none';
    END IF;
    IF EXISTS (
        SELECT FROM unnest(tenants, types, payloads, keys, versions, occurred, traceparents)
            u (tenant, type, payload, key, version, occurred_at, traceparent)
        WHERE NOT snaphook.is_plain(u.tenant, u.type, u.payload, u.key, u.version, u.occurred_at, u.traceparent))
    THEN
        SELECT i.payload_bytes_max INTO bytes_max FROM snaphook.install i;
        PERFORM snaphook.check_event(
            tenants[n], types[n], payloads[n], keys[n], versions[n], occurred[n], traceparents[n], bytes_max)
        FROM generate_series(1, many) n;
    END IF;
    FOR n IN 1 .. many LOOP
        x := nextval('snaphook.event_sequence');
        ids[n] := snaphook.id_at(start + n, x);
    END LOOP;
    firsts := ids;
    IF dedups IS NOT NULL THEN
        INSERT INTO snaphook.keys (tenant, key, event_id, created_at)
        SELECT u.tenant, u.key, u.id, clock_timestamp()
        FROM unnest(tenants, dedups, ids) WITH ORDINALITY u (tenant, key, id, n)
        WHERE u.key IS NOT NULL
        ORDER BY u.tenant, u.key, u.n
        ON CONFLICT DO NOTHING;
        SELECT array_agg(coalesce(k.event_id, u.id) ORDER BY u.n) INTO firsts
        FROM unnest(tenants, dedups, ids) WITH ORDINALITY u (tenant, key, id, n)
        LEFT JOIN snaphook.keys k ON k.tenant = u.tenant AND k.key = u.key;
    END IF;
    INSERT INTO snaphook.events
        (id, tenant, type, version, payload, content_type, key, occurred_at, traceparent, door, checked)
    SELECT u.id, u.tenant, u.type, versions[u.n], u.payload, content_types[u.n], keys[u.n],
           occurred[u.n], traceparents[u.n], accept_many.door, accept_many.checked
    FROM unnest(ids, firsts, tenants, types, payloads) WITH ORDINALITY u (id, first, tenant, type, payload, n)
    WHERE u.id = u.first;
    INSERT INTO snaphook.queue (event_id, endpoint_id, tenant, shard, state, due_at)
    SELECT u.id, s.endpoint_id, u.tenant, s.shard, s.queue_state, clock_timestamp()
    FROM (
        SELECT u.id, u.tenant, snaphook.patterns(u.type) AS patterns
        FROM unnest(ids, firsts, tenants, types) u (id, first, tenant, type)
        WHERE u.id = u.first OFFSET 0 -- or else the patterns are made anew for each subscription
    ) u JOIN snaphook.subscriptions s ON s.tenant = u.tenant AND s.pattern = ANY (u.patterns);
    IF dedups IS NULL THEN
        RETURN QUERY SELECT u.id, false, false FROM unnest(ids) u (id);
        RETURN;
    END IF;
    RETURN QUERY
        SELECT u.first, u.id <> u.first,
               u.id <> u.first AND coalesce((
                   SELECT e.payload <> u.payload OR e.type <> u.type FROM snaphook.events e WHERE e.id = u.first), false)
        FROM unnest(ids, firsts, types, payloads) WITH ORDINALITY u (id, first, type, payload, n)
        ORDER BY u.n;
END $$;

CREATE FUNCTION snaphook.emit_many(
    tenants text[], types text[], data text[], keys text[] DEFAULT NULL, versions text[] DEFAULT NULL,
    occurred_at timestamptz[] DEFAULT NULL, traceparents text[] DEFAULT NULL
) RETURNS text[] LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    payloads bytea[];
    made text[];
BEGIN
    SELECT array_agg(convert_to(d.data::text, 'UTF8') ORDER BY d.n) INTO payloads
    FROM unnest(data) WITH ORDINALITY d (data, n);
    SELECT array_agg(snaphook.text_of('evt_', a.id)) INTO made FROM snaphook.accept_many(
        tenants, types, payloads, keys, keys, versions, occurred_at, traceparents, NULL, 0::smallint, false) a;
    PERFORM snaphook.ring();
    RETURN coalesce(made, '{}');
END $$;

CREATE FUNCTION snaphook.emit_many(
    tenants text[], types text[], data json[], keys text[] DEFAULT NULL, versions text[] DEFAULT NULL,
    occurred_at timestamptz[] DEFAULT NULL, traceparents text[] DEFAULT NULL
) RETURNS text[] LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    payloads bytea[];
    made text[];
BEGIN
    SELECT array_agg(convert_to(d.data::text, 'UTF8') ORDER BY d.n) INTO payloads
    FROM unnest(data) WITH ORDINALITY d (data, n);
    SELECT array_agg(snaphook.text_of('evt_', a.id)) INTO made FROM snaphook.accept_many(
        tenants, types, payloads, keys, keys, versions, occurred_at, traceparents, NULL, 0::smallint, false) a;
    PERFORM snaphook.ring();
    RETURN coalesce(made, '{}');
END $$;

CREATE FUNCTION snaphook.emit_many(
    tenants text[], types text[], data jsonb[], keys text[] DEFAULT NULL, versions text[] DEFAULT NULL,
    occurred_at timestamptz[] DEFAULT NULL, traceparents text[] DEFAULT NULL
) RETURNS text[] LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    payloads bytea[];
    made text[];
BEGIN
    SELECT array_agg(convert_to(d.data::text, 'UTF8') ORDER BY d.n) INTO payloads
    FROM unnest(data) WITH ORDINALITY d (data, n);
    SELECT array_agg(snaphook.text_of('evt_', a.id)) INTO made FROM snaphook.accept_many(
        tenants, types, payloads, keys, keys, versions, occurred_at, traceparents, NULL, 0::smallint, false) a;
    PERFORM snaphook.ring();
    RETURN coalesce(made, '{}');
END $$;

-- For tools that only insert. `INSERT … RETURNING id` gives the event's id.
CREATE VIEW snaphook.outbox AS
SELECT NULL::text AS id, NULL::text AS tenant, NULL::text AS type, NULL::text AS data, NULL::text AS key,
       NULL::text AS version, NULL::timestamptz AS occurred_at, NULL::text AS traceparent
WHERE false;

CREATE FUNCTION snaphook.outbox_insert() RETURNS trigger
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    NEW.id := snaphook.emit(NEW.tenant, NEW.type, NEW.data, NEW.key, NEW.version, NEW.occurred_at, NEW.traceparent);
    RETURN NEW;
END $$;

CREATE TRIGGER outbox_insert INSTEAD OF INSERT ON snaphook.outbox
FOR EACH ROW EXECUTE FUNCTION snaphook.outbox_insert();

-- Days of partitions from today on; what is there already is left alone. A day for which the
-- default partition holds rows already stays there.
CREATE FUNCTION snaphook.add_days(days integer) RETURNS integer LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    day date;
    low bigint;
    high bigint;
    parent text;
    made integer := 0;
BEGIN
    FOR n IN 0 .. days LOOP
        day := (clock_timestamp() AT TIME ZONE 'UTC')::date + n;
        low := ((extract(epoch FROM day::timestamp) * 1000000)::bigint - 1735689600000000) << 11;
        high := ((extract(epoch FROM (day + 1)::timestamp) * 1000000)::bigint - 1735689600000000) << 11;
        FOREACH parent IN ARRAY ARRAY['events', 'attempts'] LOOP
            CONTINUE WHEN to_regclass(format('snaphook.%I', parent || '_' || to_char(day, 'YYYYMMDD'))) IS NOT NULL;
            BEGIN
                EXECUTE format('CREATE TABLE snaphook.%I PARTITION OF snaphook.%I FOR VALUES FROM (%s) TO (%s)',
                    parent || '_' || to_char(day, 'YYYYMMDD'), parent, low, high);
                made := made + 1;
            EXCEPTION WHEN check_violation OR duplicate_table THEN
                NULL; -- the default partition has rows of that day, or another node was faster
            END;
        END LOOP;
    END LOOP;
    RETURN made;
END $$;
SELECT snaphook.add_days(7);

-- Nobody may call anything here but by a grant.
REVOKE ALL ON ALL FUNCTIONS IN SCHEMA snaphook FROM PUBLIC;
REVOKE ALL ON ALL TABLES IN SCHEMA snaphook FROM PUBLIC;
REVOKE ALL ON ALL SEQUENCES IN SCHEMA snaphook FROM PUBLIC;

-- The role of those who emit. Where it cannot be created, `snaphook migrate` prints the script.
DO $$
BEGIN
    IF NOT EXISTS (SELECT FROM pg_catalog.pg_roles WHERE rolname = 'snaphook_emitter') THEN
        CREATE ROLE snaphook_emitter NOLOGIN;
    END IF;
EXCEPTION
    WHEN duplicate_object OR unique_violation THEN NULL; -- another migration was faster
    WHEN insufficient_privilege THEN NULL;
END $$;

CREATE FUNCTION snaphook.grant_emitter() RETURNS boolean LANGUAGE plpgsql VOLATILE AS $$
DECLARE f regprocedure;
BEGIN
    IF NOT EXISTS (SELECT FROM pg_catalog.pg_roles WHERE rolname = 'snaphook_emitter') THEN
        RETURN false;
    END IF;
    GRANT USAGE ON SCHEMA snaphook TO snaphook_emitter;
    GRANT INSERT ON snaphook.outbox TO snaphook_emitter;
    GRANT SELECT (id) ON snaphook.outbox TO snaphook_emitter; -- for RETURNING id
    FOR f IN
        SELECT p.oid::regprocedure FROM pg_catalog.pg_proc p
        WHERE p.pronamespace = 'snaphook'::regnamespace AND p.proname IN ('emit', 'emit_quiet', 'emit_many')
    LOOP
        EXECUTE format('GRANT EXECUTE ON FUNCTION %s TO snaphook_emitter', f);
    END LOOP;
    RETURN true;
END $$;
REVOKE ALL ON FUNCTION snaphook.grant_emitter() FROM PUBLIC;
SELECT snaphook.grant_emitter();
