-- Receiving, as in the PostgreSQL folder: each verified request is a row put into a view. These
-- triggers are for snaphook's own connection alone.

CREATE TABLE snaphook_held_events (
    source_id  INTEGER  NOT NULL,
    event_id   INTEGER  NOT NULL,
    PRIMARY KEY (source_id, event_id)
) WITHOUT ROWID;

CREATE VIEW snaphook_receive AS
SELECT NULL AS n, NULL AS source_id, NULL AS tenant, NULL AS type, NULL AS payload, NULL AS content_type,
       NULL AS key, NULL AS source_type, NULL AS headers, NULL AS digest, NULL AS evidence, NULL AS body_digest
WHERE 0;

CREATE TRIGGER snaphook_receive_insert INSTEAD OF INSERT ON snaphook_receive WHEN NEW.n IS NOT NULL BEGIN
    INSERT INTO snaphook_findings (n, event_id, finding)
    SELECT NEW.n, r.event_id,
        CASE WHEN r.event_id IS NULL THEN 0 WHEN r.body_digest = NEW.body_digest THEN 1 ELSE 2 END
    FROM (SELECT 1) LEFT JOIN snaphook_received r ON r.source_id = NEW.source_id AND r.digest = NEW.digest;
    UPDATE snaphook_findings SET finding = 3, event_id = (
        SELECT r.event_id FROM snaphook_received r WHERE r.source_id = NEW.source_id AND r.digest = NEW.evidence)
    WHERE n = NEW.n AND finding = 0 AND EXISTS (
        SELECT 1 FROM snaphook_received r WHERE r.source_id = NEW.source_id AND r.digest = NEW.evidence);

    -- An id as `snaphook_accept_insert` makes it.
    UPDATE snaphook_sequence SET
        micros = max(micros + 1, (CAST(strftime('%s', 'now') AS INTEGER) - 1735689600) * 1000000
            + CAST(substr(strftime('%f', 'now'), 4) AS INTEGER) * 1000),
        n = (n + 1) & 2047
    WHERE (SELECT finding FROM snaphook_findings WHERE n = NEW.n) = 0;
    UPDATE snaphook_findings SET event_id = (
        SELECT ((((x | (x >> 5)) - (x & (x >> 5))) * c) & 2047) | (micros << 11)
        FROM (SELECT (q.n * q.a + q.b) & 2047 AS x, q.c, q.micros FROM snaphook_sequence q))
    WHERE n = NEW.n AND finding = 0;

    INSERT INTO snaphook_received (source_id, digest, event_id, body_digest, at)
    SELECT NEW.source_id, NEW.digest, v.event_id, NEW.body_digest, q.micros + 1735689600000000
    FROM snaphook_findings v, snaphook_sequence q
    WHERE v.n = NEW.n AND v.finding = 0 AND NEW.digest IS NOT NULL;
    INSERT INTO snaphook_received (source_id, digest, event_id, body_digest, at)
    SELECT NEW.source_id, NEW.evidence, v.event_id, NEW.body_digest, q.micros + 1735689600000000
    FROM snaphook_findings v, snaphook_sequence q
    WHERE v.n = NEW.n AND v.finding < 2 AND NEW.evidence IS NOT NULL AND NOT EXISTS (
        SELECT 1 FROM snaphook_received r WHERE r.source_id = NEW.source_id AND r.digest = NEW.evidence);
    INSERT INTO snaphook_events
        (id, tenant, type, payload, content_type, key, door, source_id, source_type, source_headers)
    SELECT v.event_id, NEW.tenant, NEW.type, NEW.payload, NEW.content_type, NEW.key, 2, NEW.source_id,
        NEW.source_type, NEW.headers
    FROM snaphook_findings v WHERE v.n = NEW.n AND v.finding = 0;

    UPDATE snaphook_findings SET finding = 4
    WHERE n = NEW.n AND finding = 0 AND EXISTS (
        SELECT 1 FROM snaphook_sources s WHERE s.id = NEW.source_id AND s.state = 1 AND s.deleted_at IS NULL);
    INSERT INTO snaphook_held_events (source_id, event_id)
    SELECT NEW.source_id, v.event_id FROM snaphook_findings v WHERE v.n = NEW.n AND v.finding = 4;
    INSERT INTO snaphook_queue (event_id, endpoint_id, tenant, shard, state, due_at)
    SELECT v.event_id, w.endpoint_id, NEW.tenant, w.shard, w.queue_state,
        CAST(strftime('%s', 'now') AS INTEGER) * 1000000 + CAST(substr(strftime('%f', 'now'), 4) AS INTEGER) * 1000
    FROM snaphook_findings v JOIN (
        SELECT s.endpoint_id, s.shard, s.queue_state FROM snaphook_subscriptions s
        WHERE s.tenant = NEW.tenant AND s.pattern IN (NEW.type, '*')
        UNION ALL
        SELECT s.endpoint_id, s.shard, s.queue_state FROM snaphook_subscriptions s
        WHERE s.tenant = NEW.tenant AND s.wild = 1
            AND substr(NEW.type, 1, length(s.pattern) - 1) = substr(s.pattern, 1, length(s.pattern) - 1)
    ) w
    WHERE v.n = NEW.n AND v.finding = 0;
END;

-- An event that was held goes on its way: into its endpoints' lanes, whose owner is told.
CREATE TRIGGER snaphook_held_events_delete AFTER DELETE ON snaphook_held_events BEGIN
    INSERT INTO snaphook_queue (event_id, endpoint_id, tenant, shard, state, due_at)
    SELECT e.id, s.endpoint_id, e.tenant, s.shard, max(1, s.queue_state),
        CAST(strftime('%s', 'now') AS INTEGER) * 1000000 + CAST(substr(strftime('%f', 'now'), 4) AS INTEGER) * 1000
    FROM snaphook_events e JOIN snaphook_subscriptions s ON s.tenant = e.tenant
    WHERE e.id = OLD.event_id AND (s.pattern IN (e.type, '*') OR (s.wild = 1
        AND substr(e.type, 1, length(s.pattern) - 1) = substr(s.pattern, 1, length(s.pattern) - 1)));
    INSERT INTO snaphook_commands (shard, kind, endpoint_id, event_id)
    SELECT q.shard, 0, q.endpoint_id, 0 FROM snaphook_queue q
    WHERE q.event_id = OLD.event_id AND q.state = 1 AND NOT EXISTS (
        SELECT 1 FROM snaphook_commands c
        WHERE c.shard = q.shard AND c.kind = 0 AND c.endpoint_id = q.endpoint_id AND c.event_id = 0);
END;
