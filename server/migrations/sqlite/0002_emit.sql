-- The doors in SQL. The triggers run inside the other program's SQLite: nothing newer than 3.35,
-- no WITH (triggers may not), and no conflict clause that matters, for the caller's own
-- `INSERT OR REPLACE` would overrule it: what is there already is asked for instead.

-- One row: the last id, and what the last accept came to, for the caller to read in the same
-- transaction. `a`, `b`, `c` scramble the low bits of ids, drawn once an installation.
CREATE TABLE snaphook_sequence (
    one        INTEGER NOT NULL PRIMARY KEY DEFAULT 1 CHECK (one = 1),
    micros     INTEGER NOT NULL DEFAULT 0,
    n          INTEGER NOT NULL DEFAULT 0,
    a          INTEGER NOT NULL,
    b          INTEGER NOT NULL,
    c          INTEGER NOT NULL,
    event_id   INTEGER NOT NULL DEFAULT 0,
    duplicate  BOOLEAN NOT NULL DEFAULT 0,
    differs    BOOLEAN NOT NULL DEFAULT 0
);
INSERT INTO snaphook_sequence (a, b, c)
VALUES (abs(random() % 1024) * 2 + 1, abs(random() % 2048), abs(random() % 1024) * 2 + 1);

-- What the rows of the last statement came to, for snaphook to read, and to empty, in the same
-- transaction. `event_id` is the event, or the one that was there before.
CREATE TABLE snaphook_findings (
    n         INTEGER  NOT NULL PRIMARY KEY,
    event_id  INTEGER,
    finding   INTEGER  NOT NULL
);

-- Every door's way in. `dedup` is what makes two calls the same event; what became of a row that has
-- a number is found under it: 0 for a new event, 1 for one that was there, 2 if it differs.
CREATE VIEW snaphook_accept AS
SELECT NULL AS n, NULL AS tenant, NULL AS type, NULL AS payload, NULL AS key, NULL AS dedup, NULL AS version,
       NULL AS occurred_at, NULL AS traceparent, NULL AS content_type, NULL AS door, NULL AS checked
WHERE 0;

CREATE TRIGGER snaphook_accept_insert INSTEAD OF INSERT ON snaphook_accept WHEN NEW.door IS NOT NULL BEGIN
    -- A blob, or a text with a zero byte in it, would pass the rules below and break every reader.
    SELECT RAISE(ABORT, 'tenant: pass text, not a number or a blob, without a zero byte')
    WHERE typeof(NEW.tenant) NOT IN ('text', 'null') OR length(CAST(NEW.tenant AS BLOB)) <> length(NEW.tenant);
    SELECT RAISE(ABORT, 'type: pass text, not a number or a blob, without a zero byte')
    WHERE typeof(NEW.type) NOT IN ('text', 'null') OR length(CAST(NEW.type AS BLOB)) <> length(NEW.type);
    SELECT RAISE(ABORT, 'key: pass text, not a number or a blob, without control characters')
    WHERE typeof(NEW.key) NOT IN ('text', 'null') OR instr(CAST(NEW.key AS BLOB), x'00')
        OR NEW.key GLOB '*[' || char(1) || '-' || char(31) || char(127) || ']*';
    SELECT RAISE(ABORT, 'version: pass text, not a number or a blob, without control characters')
    WHERE typeof(NEW.version) NOT IN ('text', 'null') OR instr(CAST(NEW.version AS BLOB), x'00')
        OR NEW.version GLOB '*[' || char(1) || '-' || char(31) || char(127) || ']*';
    SELECT RAISE(ABORT, 'traceparent: pass text, not a number or a blob')
    WHERE typeof(NEW.traceparent) NOT IN ('text', 'null');
    SELECT RAISE(ABORT, 'tenant: use 1 to 128 letters, digits, _ or -')
    WHERE NEW.tenant IS NULL OR length(NEW.tenant) NOT BETWEEN 1 AND 128
        OR NEW.tenant GLOB '*[^A-Za-z0-9_-]*';
    SELECT RAISE(ABORT, 'type: use parts of letters, digits, _ or -, joined by dots, 256 characters at most, such as order.paid')
    WHERE NEW.type IS NULL OR length(NEW.type) NOT BETWEEN 1 AND 256
        OR NEW.type GLOB '*[^A-Za-z0-9_.-]*' OR NEW.type GLOB '.*' OR NEW.type GLOB '*.' OR NEW.type GLOB '*..*';
    SELECT RAISE(ABORT, 'data: an event needs data; pass JSON, for example {}')
    WHERE NEW.payload IS NULL;
    SELECT RAISE(ABORT, 'data: over limits.payload; send a smaller payload with a link to the rest, or raise the limit')
    WHERE length(CAST(NEW.payload AS BLOB)) > (SELECT payload_bytes_max FROM snaphook_install);
    SELECT RAISE(ABORT, 'key: use 1 to 256 bytes, or null for none')
    WHERE NEW.key IS NOT NULL AND length(CAST(NEW.key AS BLOB)) NOT BETWEEN 1 AND 256;
    SELECT RAISE(ABORT, 'version: use 1 to 64 bytes, or null for none')
    WHERE NEW.version IS NOT NULL AND length(CAST(NEW.version AS BLOB)) NOT BETWEEN 1 AND 64;
    SELECT RAISE(ABORT, 'traceparent: pass 00-<32 hex>-<16 hex>-<2 hex>, or null for none')
    WHERE NEW.traceparent IS NOT NULL AND (length(NEW.traceparent) <> 55
        OR NEW.traceparent GLOB '*[^0-9a-f-]*' OR substr(NEW.traceparent, 3, 1) || substr(NEW.traceparent, 36, 1)
        || substr(NEW.traceparent, 53, 1) <> '---' OR length(replace(NEW.traceparent, '-', '')) <> 52);

    -- Seen before: say so, and let every further statement find nothing to do.
    UPDATE snaphook_sequence SET
        duplicate = EXISTS (SELECT 1 FROM snaphook_keys k WHERE k.tenant = NEW.tenant AND k.key = NEW.dedup),
        differs = EXISTS (
            SELECT 1 FROM snaphook_keys k JOIN snaphook_events e ON e.id = k.event_id
            WHERE k.tenant = NEW.tenant AND k.key = NEW.dedup
                AND (e.payload <> CAST(NEW.payload AS BLOB) OR e.type <> NEW.type));
    UPDATE snaphook_sequence SET event_id = (
        SELECT k.event_id FROM snaphook_keys k WHERE k.tenant = NEW.tenant AND k.key = NEW.dedup)
    WHERE duplicate;

    -- The clock has milliseconds here; a microsecond is added where two events share one, so that
    -- ids only ever rise, in the order of commits.
    UPDATE snaphook_sequence SET
        micros = max(micros + 1, (CAST(strftime('%s', 'now') AS INTEGER) - 1735689600) * 1000000
            + CAST(substr(strftime('%f', 'now'), 4) AS INTEGER) * 1000),
        n = (n + 1) & 2047
    WHERE NOT duplicate;
    UPDATE snaphook_sequence SET event_id = (
        SELECT ((((x | (x >> 5)) - (x & (x >> 5))) * c) & 2047) | (micros << 11)
        FROM (SELECT (n * a + b) & 2047 AS x))
    WHERE NOT duplicate;

    INSERT INTO snaphook_events
        (id, tenant, type, version, payload, content_type, key, occurred_at, traceparent, door, checked)
    SELECT event_id, NEW.tenant, NEW.type, NEW.version, CAST(NEW.payload AS BLOB), NEW.content_type,
        NEW.key, NEW.occurred_at, NEW.traceparent, NEW.door, NEW.checked
    FROM snaphook_sequence WHERE NOT duplicate;
    INSERT INTO snaphook_queue (event_id, endpoint_id, tenant, shard, state, due_at)
    SELECT q.event_id, w.endpoint_id, NEW.tenant, w.shard, w.queue_state,
        -- By the clock, not by the id, which is ahead of a clock that was set back.
        CAST(strftime('%s', 'now') AS INTEGER) * 1000000 + CAST(substr(strftime('%f', 'now'), 4) AS INTEGER) * 1000
    FROM snaphook_sequence q JOIN (
        SELECT s.endpoint_id, s.shard, s.queue_state FROM snaphook_subscriptions s
        WHERE s.tenant = NEW.tenant AND s.pattern IN (NEW.type, '*')
        UNION ALL -- no two patterns of one endpoint match the same type
        SELECT s.endpoint_id, s.shard, s.queue_state FROM snaphook_subscriptions s
        WHERE s.tenant = NEW.tenant AND s.wild = 1
            AND substr(NEW.type, 1, length(s.pattern) - 1) = substr(s.pattern, 1, length(s.pattern) - 1)
    ) w
    WHERE NOT q.duplicate;
    INSERT INTO snaphook_keys (tenant, key, event_id, created_at)
    SELECT NEW.tenant, NEW.dedup, event_id, (micros) + 1735689600000000
    FROM snaphook_sequence WHERE NOT duplicate AND NEW.dedup IS NOT NULL;
    INSERT INTO snaphook_findings (n, event_id, finding)
    SELECT NEW.n, event_id, duplicate + differs FROM snaphook_sequence WHERE NEW.n IS NOT NULL;
END;

-- For programs that share the file. `data` is kept as written: text as its UTF-8 bytes.
CREATE VIEW snaphook_outbox AS
SELECT NULL AS tenant, NULL AS type, NULL AS data, NULL AS key, NULL AS version, NULL AS occurred_at,
       NULL AS traceparent
WHERE 0;

CREATE TRIGGER snaphook_outbox_insert INSTEAD OF INSERT ON snaphook_outbox BEGIN
    -- Other programs may put bytes into a text that are no UTF-8; there is no way here to tell
    -- them from letters, so letters stay within ASCII.
    SELECT RAISE(ABORT, 'key: use printable ASCII characters here; over HTTP others are taken too')
    WHERE NEW.key GLOB '*[^ -~]*';
    SELECT RAISE(ABORT, 'version: use printable ASCII characters here; over HTTP others are taken too')
    WHERE NEW.version GLOB '*[^ -~]*';
    SELECT RAISE(ABORT, 'occurred_at: pass a time that SQLite reads, such as 2026-11-30T12:34:56Z, or null for none')
    WHERE NEW.occurred_at IS NOT NULL AND strftime('%s', NEW.occurred_at) IS NULL;
    SELECT RAISE(ABORT, 'occurred_at: pass a time from 0001-01-01T00:00:00Z to 9999-12-31T23:59:59.999Z, or null for now')
    WHERE CAST(strftime('%s', NEW.occurred_at) AS INTEGER) NOT BETWEEN -62135596800 AND 253402300799;
    INSERT INTO snaphook_accept
        (tenant, type, payload, key, dedup, version, occurred_at, traceparent, content_type, door, checked)
    VALUES
        (NEW.tenant, NEW.type, NEW.data, NEW.key, NEW.key, NEW.version,
         CAST(strftime('%s', NEW.occurred_at) AS INTEGER) * 1000000
             + CAST(substr(strftime('%f', NEW.occurred_at), 4) AS INTEGER) * 1000,
         NEW.traceparent, NULL, 0, 0);
END;

-- What was delivered and is to be said no more of: its attempt becomes history, and its row goes. A
-- row that somebody else has moved on is found under its number, and nothing is written of it.
CREATE VIEW snaphook_deliver AS
SELECT NULL AS n, NULL AS slot, NULL AS event_id, NULL AS endpoint_id, NULL AS run, NULL AS attempt,
       NULL AS started_at, NULL AS status, NULL AS duration_us, NULL AS detail, NULL AS response
WHERE 0;

CREATE TRIGGER snaphook_deliver_insert INSTEAD OF INSERT ON snaphook_deliver WHEN NEW.n IS NOT NULL BEGIN
    INSERT INTO snaphook_findings (n, event_id, finding)
    SELECT NEW.n, NEW.event_id, 0
    WHERE NOT EXISTS (
        SELECT 1 FROM snaphook_queue q
        WHERE q.slot = NEW.slot AND q.event_id = NEW.event_id AND q.endpoint_id = NEW.endpoint_id
            AND q.run = NEW.run AND q.attempt = NEW.attempt);
    INSERT INTO snaphook_attempts (event_id, endpoint_id, n, started_at, run, tenant, outcome, sent, status,
        duration_us, detail, response)
    SELECT NEW.event_id, NEW.endpoint_id, NEW.attempt + 1, NEW.started_at, NEW.run, q.tenant, 1, 1, NEW.status,
        NEW.duration_us, NEW.detail, NEW.response
    FROM snaphook_queue q
    WHERE q.slot = NEW.slot AND NOT EXISTS (SELECT 1 FROM snaphook_findings f WHERE f.n = NEW.n);
    DELETE FROM snaphook_queue
    WHERE slot = NEW.slot AND NOT EXISTS (SELECT 1 FROM snaphook_findings f WHERE f.n = NEW.n);
END;
