-- The tables. `events` is the cause, `queue` is the present, `attempts` are the past: a row is in
-- `queue` only while there is something to do. docs/decisions/0003 has the reasons.

CREATE SCHEMA IF NOT EXISTS snaphook;
REVOKE ALL ON SCHEMA snaphook FROM PUBLIC;

-- One row: what this installation knows of itself.
CREATE TABLE snaphook.install (
    one                boolean  NOT NULL PRIMARY KEY DEFAULT true CHECK (one),
    -- Counts up with every change of configuration; nodes compare it to know what to read again.
    config_epoch       bigint   NOT NULL DEFAULT 0,
    payload_bytes_max  integer  NOT NULL DEFAULT 1048576
);
INSERT INTO snaphook.install DEFAULT VALUES;

CREATE TABLE snaphook.tenants (
    id           text         NOT NULL PRIMARY KEY,
    owner_email  text,
    metadata     text         NOT NULL DEFAULT '{}',
    limits       text         NOT NULL DEFAULT '{}',
    created_at   timestamptz  NOT NULL,
    updated_at   timestamptz  NOT NULL
);

CREATE TABLE snaphook.endpoints (
    id             bigint       NOT NULL PRIMARY KEY,
    tenant         text         NOT NULL,
    shard          smallint     NOT NULL CHECK (shard BETWEEN 0 AND 63),
    url            text         NOT NULL,
    -- 0 active, 1 paused, 2 disabled
    state          smallint     NOT NULL DEFAULT 0 CHECK (state BETWEEN 0 AND 2),
    state_reason   text,
    state_since    timestamptz  NOT NULL,
    -- Whether what it held is being discarded; then it becomes active.
    discarding     boolean      NOT NULL DEFAULT false,
    settings       text         NOT NULL,
    -- Header values and private keys, sealed.
    sealed         bytea,
    -- Health and circuit, written by the owner of the shard on transitions only.
    health         text         NOT NULL DEFAULT '{}',
    -- What statements ask of it: whether it fails, and its circuit (0 closed, 1 open, 2 half-open).
    failing        boolean      NOT NULL DEFAULT false,
    circuit        smallint     NOT NULL DEFAULT 0 CHECK (circuit BETWEEN 0 AND 2),
    -- `install.config_epoch` as of its last change.
    epoch          bigint       NOT NULL,
    created_at     timestamptz  NOT NULL,
    updated_at     timestamptz  NOT NULL,
    deleted_at     timestamptz
);
CREATE INDEX endpoints_tenant ON snaphook.endpoints (tenant, id) WHERE deleted_at IS NULL;
CREATE INDEX endpoints_epoch ON snaphook.endpoints (epoch);

-- One row a pattern of an active or paused endpoint, but for patterns within another of the same
-- endpoint; a disabled endpoint has none.
CREATE TABLE snaphook.subscriptions (
    tenant       text      NOT NULL,
    pattern      text      NOT NULL,
    endpoint_id  bigint    NOT NULL,
    shard        smallint  NOT NULL,
    -- How its rows in the queue begin: fresh, or to be pulled.
    queue_state  smallint  NOT NULL DEFAULT 0 CHECK (queue_state IN (0, 2)),
    PRIMARY KEY (tenant, pattern, endpoint_id) INCLUDE (shard, queue_state)
);
CREATE INDEX subscriptions_endpoint ON snaphook.subscriptions (endpoint_id);

CREATE TABLE snaphook.secrets (
    id           bigint       NOT NULL PRIMARY KEY,
    endpoint_id  bigint       NOT NULL,
    tenant       text         NOT NULL,
    -- 0 HMAC, 1 Ed25519
    kind         smallint     NOT NULL CHECK (kind BETWEEN 0 AND 1),
    sealed       bytea        NOT NULL,
    created_at   timestamptz  NOT NULL,
    -- Signs until then; never ends when null.
    expires_at   timestamptz,
    revoked_at   timestamptz
);
CREATE INDEX secrets_endpoint ON snaphook.secrets (endpoint_id, id);

CREATE TABLE snaphook.event_types (
    name         text         NOT NULL PRIMARY KEY,
    description  text         NOT NULL DEFAULT '',
    example      text,
    archived     boolean      NOT NULL DEFAULT false,
    created_at   timestamptz  NOT NULL,
    updated_at   timestamptz  NOT NULL
);

-- A JSON Schema by version; the empty version is for events that name none.
CREATE TABLE snaphook.event_schemas (
    name     text  NOT NULL REFERENCES snaphook.event_types (name) ON DELETE CASCADE,
    version  text  NOT NULL,
    schema   text  NOT NULL,
    PRIMARY KEY (name, version)
);

CREATE TABLE snaphook.api_keys (
    id          bigint       NOT NULL PRIMARY KEY,
    -- SHA-256 of the key's text: 256 random bits need no slow hash.
    hash        bytea        NOT NULL UNIQUE,
    name        text         NOT NULL DEFAULT '',
    -- Null: an operator's key.
    tenant      text,
    scopes      text         NOT NULL,
    created_at  timestamptz  NOT NULL,
    expires_at  timestamptz,
    revoked_at  timestamptz
);

CREATE TABLE snaphook.idempotency (
    api_key_id  bigint       NOT NULL,
    route       text         NOT NULL,
    key         text         NOT NULL,
    digest      bytea        NOT NULL,
    -- Null while the first request is still at work.
    status      smallint,
    body        bytea,
    created_at  timestamptz  NOT NULL,
    PRIMARY KEY (api_key_id, route, key)
);
CREATE INDEX idempotency_created ON snaphook.idempotency (created_at);

CREATE TABLE snaphook.audit (
    id      bigint       NOT NULL PRIMARY KEY,
    at      timestamptz  NOT NULL,
    actor   text         NOT NULL,
    action  text         NOT NULL,
    object  text         NOT NULL,
    tenant  text,
    detail  text         NOT NULL DEFAULT '{}'
);

-- Partitioned by day of the id, for retention drops whole days. The default partition takes what
-- comes when nobody made a day in time: an emit must not fail because our upkeep stood still.
CREATE TABLE snaphook.events (
    id            bigint       NOT NULL PRIMARY KEY,
    tenant        text         NOT NULL,
    type          text         NOT NULL,
    version       text,
    payload       bytea        NOT NULL,
    -- Null: what its bytes are, as a rule application/json.
    content_type  text,
    key           text,
    occurred_at   timestamptz,
    traceparent   text,
    -- 0 SQL, 1 HTTP, 2 source, 3 notice
    door          smallint     NOT NULL,
    -- Whether its schema was already checked at the door.
    checked       boolean      NOT NULL DEFAULT false,
    -- Of events that a source took: which one, the type in the provider's spelling, and the
    -- headers that are passed on. `key` is then the provider's id of the event.
    source_id       bigint,
    source_type     text,
    source_headers  bytea,
    -- For the feed: what committed late must not appear behind a reader's back.
    tx            xid8         NOT NULL DEFAULT pg_current_xact_id()
) PARTITION BY RANGE (id);
CREATE INDEX events_tenant ON snaphook.events (tenant, id);
CREATE INDEX events_tx ON snaphook.events (tx, id);
CREATE TABLE snaphook.events_default PARTITION OF snaphook.events DEFAULT;
-- Payloads are mostly compressed JSON already or small; pglz at emit costs more than it saves.
ALTER TABLE snaphook.events_default ALTER COLUMN payload SET STORAGE EXTERNAL;
ALTER TABLE snaphook.events ALTER COLUMN payload SET STORAGE EXTERNAL;

-- Apart from `events`, for a unique constraint there must hold the partition's key.
CREATE TABLE snaphook.keys (
    tenant      text         NOT NULL,
    key         text         NOT NULL,
    event_id    bigint       NOT NULL,
    created_at  timestamptz  NOT NULL,
    PRIMARY KEY (tenant, key)
);
CREATE INDEX keys_created ON snaphook.keys (created_at);

CREATE TABLE snaphook.queue (
    event_id     bigint       NOT NULL,
    endpoint_id  bigint       NOT NULL,
    tenant       text         NOT NULL,
    shard        smallint     NOT NULL,
    -- 0 fresh, 1 in its endpoint's lane (retry, over its cap, held), 2 to be pulled
    state        smallint     NOT NULL DEFAULT 0,
    -- 0 for the first; counted up by every redelivery.
    run          integer      NOT NULL DEFAULT 0,
    -- Attempts that are on record: the fence of the completing statement.
    attempt      integer      NOT NULL DEFAULT 0,
    -- Attempts of this run that its ladder has counted.
    rung         integer      NOT NULL DEFAULT 0,
    -- When it may be attempted or pulled; of one that a consumer has, when its lease ends.
    due_at       timestamptz  NOT NULL,
    -- Since when a consumer has it, if one does.
    claimed_at   timestamptz
) WITH (
    -- Rows live for milliseconds: vacuum often and by number, or dead rows pile up.
    autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000,
    autovacuum_vacuum_cost_delay = 0, vacuum_truncate = off
);
CREATE INDEX queue_fresh ON snaphook.queue (shard, event_id, endpoint_id) WHERE state = 0;
CREATE INDEX queue_lane ON snaphook.queue (shard, endpoint_id, due_at) WHERE state = 1;
-- The oldest of a lane: the next of an ordered endpoint, and what an open circuit probes with.
CREATE INDEX queue_lane_event ON snaphook.queue (shard, endpoint_id, event_id) WHERE state = 1;
CREATE INDEX queue_laned_event ON snaphook.queue (event_id, endpoint_id) WHERE state <> 0;
-- What can be pulled from an endpoint, the soonest first, or the oldest of an ordered one; and what
-- consumers have, by when their leases end.
CREATE INDEX queue_pulled ON snaphook.queue (endpoint_id, due_at) WHERE state = 2;
CREATE INDEX queue_pulled_event ON snaphook.queue (endpoint_id, event_id) WHERE state = 2;
CREATE INDEX queue_claimed ON snaphook.queue (due_at) WHERE claimed_at IS NOT NULL;
CREATE UNIQUE INDEX queue_rerun ON snaphook.queue (event_id, endpoint_id) WHERE run > 0;

CREATE TABLE snaphook.attempts (
    event_id     bigint       NOT NULL,
    endpoint_id  bigint       NOT NULL,
    n            integer      NOT NULL,
    started_at   timestamptz  NOT NULL,
    run          integer      NOT NULL,
    tenant       text         NOT NULL,
    -- 0 to be retried, 1 delivered, 2 dead, 3 canceled, 4 filtered, 5 late
    outcome      smallint     NOT NULL,
    cause        smallint,
    -- Whether a request left; an ending without one does not count as an attempt.
    sent         boolean      NOT NULL,
    -- A probe of an open circuit ahead of its time: its ladder does not count it.
    probe        boolean      NOT NULL DEFAULT false,
    status       smallint,
    reason       text,
    duration_us  bigint       NOT NULL,
    detail       text         NOT NULL,
    response     bytea,
    PRIMARY KEY (event_id, endpoint_id, n, started_at)
) PARTITION BY RANGE (event_id);
-- Those of a tenant are found by its events: one index less for each delivery to pay.
CREATE INDEX attempts_endpoint ON snaphook.attempts (endpoint_id, event_id) WHERE outcome > 0;
CREATE TABLE snaphook.attempts_default PARTITION OF snaphook.attempts DEFAULT;

-- What is dead now; redelivery takes the row away.
CREATE TABLE snaphook.dead_letters (
    event_id     bigint       NOT NULL,
    endpoint_id  bigint       NOT NULL,
    tenant       text         NOT NULL,
    cause        smallint     NOT NULL,
    died_at      timestamptz  NOT NULL,
    PRIMARY KEY (event_id, endpoint_id)
);
CREATE INDEX dead_letters_tenant ON snaphook.dead_letters (tenant, event_id);

CREATE TABLE snaphook.shards (
    id           smallint     NOT NULL PRIMARY KEY,
    owner        text,
    epoch        bigint       NOT NULL DEFAULT 0,
    lease_until  timestamptz  NOT NULL DEFAULT '-infinity'
);
INSERT INTO snaphook.shards (id) SELECT generate_series(0, 63);

CREATE TABLE snaphook.nodes (
    name     text         NOT NULL PRIMARY KEY,
    seen_at  timestamptz  NOT NULL
);

-- What the owner of a shard is told to look at again; it deletes what it has seen to.
CREATE TABLE snaphook.commands (
    id           bigint    NOT NULL PRIMARY KEY GENERATED ALWAYS AS IDENTITY,
    shard        smallint  NOT NULL,
    -- 0 look at the lane again, 1 let go of one delivery
    kind         smallint  NOT NULL,
    endpoint_id  bigint    NOT NULL,
    event_id     bigint    NOT NULL
);
CREATE INDEX commands_shard ON snaphook.commands (shard, id);
