-- The tables, as in the PostgreSQL folder. Times are microseconds since 1970. The prefix stands
-- where a schema stands there, for these tables live in the user's own file.

CREATE TABLE snaphook_install (
    one                INTEGER NOT NULL PRIMARY KEY DEFAULT 1 CHECK (one = 1),
    config_epoch       INTEGER NOT NULL DEFAULT 0,
    payload_bytes_max  INTEGER NOT NULL DEFAULT 1048576
);
INSERT INTO snaphook_install DEFAULT VALUES;

CREATE TABLE snaphook_tenants (
    id           TEXT     NOT NULL PRIMARY KEY,
    owner_email  TEXT,
    metadata     TEXT     NOT NULL DEFAULT '{}',
    limits       TEXT     NOT NULL DEFAULT '{}',
    created_at   INTEGER  NOT NULL,
    updated_at   INTEGER  NOT NULL
);

CREATE TABLE snaphook_endpoints (
    id             INTEGER  NOT NULL PRIMARY KEY,
    tenant         TEXT     NOT NULL,
    shard          INTEGER  NOT NULL CHECK (shard BETWEEN 0 AND 63),
    url            TEXT     NOT NULL,
    state          INTEGER  NOT NULL DEFAULT 0 CHECK (state BETWEEN 0 AND 2),
    state_reason   TEXT,
    state_since    INTEGER  NOT NULL,
    discarding     BOOLEAN  NOT NULL DEFAULT 0,
    settings       TEXT     NOT NULL,
    sealed         BLOB,
    health         TEXT     NOT NULL DEFAULT '{}',
    failing        BOOLEAN  NOT NULL DEFAULT 0,
    circuit        INTEGER  NOT NULL DEFAULT 0 CHECK (circuit BETWEEN 0 AND 2),
    epoch          INTEGER  NOT NULL,
    created_at     INTEGER  NOT NULL,
    updated_at     INTEGER  NOT NULL,
    deleted_at     INTEGER
);
CREATE INDEX snaphook_endpoints_tenant ON snaphook_endpoints (tenant, id) WHERE deleted_at IS NULL;
CREATE INDEX snaphook_endpoints_epoch ON snaphook_endpoints (epoch);

CREATE TABLE snaphook_subscriptions (
    tenant       TEXT     NOT NULL,
    pattern      TEXT     NOT NULL,
    endpoint_id  INTEGER  NOT NULL,
    shard        INTEGER  NOT NULL,
    queue_state  INTEGER  NOT NULL DEFAULT 0 CHECK (queue_state IN (0, 2)),
    -- 1 for `order.*`: the trigger has no way to list a type's prefixes, so it asks these apart.
    wild         INTEGER  NOT NULL GENERATED ALWAYS AS (pattern LIKE '%.*') STORED,
    PRIMARY KEY (tenant, pattern, endpoint_id)
) WITHOUT ROWID;
CREATE INDEX snaphook_subscriptions_endpoint ON snaphook_subscriptions (endpoint_id);
CREATE INDEX snaphook_subscriptions_wild ON snaphook_subscriptions (tenant, pattern) WHERE wild = 1;

CREATE TABLE snaphook_secrets (
    id           INTEGER  NOT NULL PRIMARY KEY,
    endpoint_id  INTEGER  NOT NULL,
    tenant       TEXT     NOT NULL,
    kind         INTEGER  NOT NULL CHECK (kind BETWEEN 0 AND 1),
    sealed       BLOB     NOT NULL,
    created_at   INTEGER  NOT NULL,
    expires_at   INTEGER,
    revoked_at   INTEGER
);
CREATE INDEX snaphook_secrets_endpoint ON snaphook_secrets (endpoint_id, id);

CREATE TABLE snaphook_event_types (
    name         TEXT     NOT NULL PRIMARY KEY,
    description  TEXT     NOT NULL DEFAULT '',
    example      TEXT,
    archived     BOOLEAN  NOT NULL DEFAULT 0,
    created_at   INTEGER  NOT NULL,
    updated_at   INTEGER  NOT NULL
);

CREATE TABLE snaphook_event_schemas (
    name     TEXT  NOT NULL,
    version  TEXT  NOT NULL,
    schema   TEXT  NOT NULL,
    PRIMARY KEY (name, version)
);

CREATE TABLE snaphook_api_keys (
    id          INTEGER  NOT NULL PRIMARY KEY,
    hash        BLOB     NOT NULL UNIQUE,
    name        TEXT     NOT NULL DEFAULT '',
    tenant      TEXT,
    scopes      TEXT     NOT NULL,
    created_at  INTEGER  NOT NULL,
    expires_at  INTEGER,
    revoked_at  INTEGER
);

CREATE TABLE snaphook_idempotency (
    api_key_id  INTEGER  NOT NULL,
    route       TEXT     NOT NULL,
    key         TEXT     NOT NULL,
    digest      BLOB     NOT NULL,
    status      INTEGER,
    body        BLOB,
    created_at  INTEGER  NOT NULL,
    PRIMARY KEY (api_key_id, route, key)
);
CREATE INDEX snaphook_idempotency_created ON snaphook_idempotency (created_at);

CREATE TABLE snaphook_audit (
    id      INTEGER  NOT NULL PRIMARY KEY,
    at      INTEGER  NOT NULL,
    actor   TEXT     NOT NULL,
    action  TEXT     NOT NULL,
    object  TEXT     NOT NULL,
    tenant  TEXT,
    detail  TEXT     NOT NULL DEFAULT '{}'
);

CREATE TABLE snaphook_events (
    id            INTEGER  NOT NULL PRIMARY KEY,
    tenant        TEXT     NOT NULL,
    type          TEXT     NOT NULL,
    version       TEXT,
    payload       BLOB     NOT NULL,
    content_type  TEXT,
    key           TEXT,
    occurred_at   INTEGER,
    traceparent   TEXT,
    door          INTEGER  NOT NULL,
    checked       BOOLEAN  NOT NULL DEFAULT 0,
    source_id       INTEGER,
    source_type     TEXT,
    source_headers  BLOB
);
CREATE INDEX snaphook_events_tenant ON snaphook_events (tenant, id);

CREATE TABLE snaphook_keys (
    tenant      TEXT     NOT NULL,
    key         TEXT     NOT NULL,
    event_id    INTEGER  NOT NULL,
    created_at  INTEGER  NOT NULL,
    PRIMARY KEY (tenant, key)
) WITHOUT ROWID;
CREATE INDEX snaphook_keys_created ON snaphook_keys (created_at);

CREATE TABLE snaphook_queue (
    slot         INTEGER  NOT NULL PRIMARY KEY,
    event_id     INTEGER  NOT NULL,
    endpoint_id  INTEGER  NOT NULL,
    tenant       TEXT     NOT NULL,
    shard        INTEGER  NOT NULL,
    state        INTEGER  NOT NULL DEFAULT 0,
    run          INTEGER  NOT NULL DEFAULT 0,
    attempt      INTEGER  NOT NULL DEFAULT 0,
    rung         INTEGER  NOT NULL DEFAULT 0,
    due_at       INTEGER  NOT NULL,
    claimed_at   INTEGER
);
CREATE INDEX snaphook_queue_fresh ON snaphook_queue (event_id, endpoint_id) WHERE state = 0;
CREATE INDEX snaphook_queue_lane ON snaphook_queue (shard, endpoint_id, due_at) WHERE state = 1;
CREATE INDEX snaphook_queue_lane_event ON snaphook_queue (shard, endpoint_id, event_id) WHERE state = 1;
CREATE INDEX snaphook_queue_laned_event ON snaphook_queue (event_id, endpoint_id) WHERE state <> 0;
CREATE INDEX snaphook_queue_pulled ON snaphook_queue (endpoint_id, due_at) WHERE state = 2;
CREATE INDEX snaphook_queue_pulled_event ON snaphook_queue (endpoint_id, event_id) WHERE state = 2;
CREATE INDEX snaphook_queue_claimed ON snaphook_queue (due_at) WHERE claimed_at IS NOT NULL;
CREATE UNIQUE INDEX snaphook_queue_rerun ON snaphook_queue (event_id, endpoint_id) WHERE run > 0;

CREATE TABLE snaphook_attempts (
    event_id     INTEGER  NOT NULL,
    endpoint_id  INTEGER  NOT NULL,
    n            INTEGER  NOT NULL,
    started_at   INTEGER  NOT NULL,
    run          INTEGER  NOT NULL,
    tenant       TEXT     NOT NULL,
    outcome      INTEGER  NOT NULL,
    cause        INTEGER,
    sent         BOOLEAN  NOT NULL,
    probe        BOOLEAN  NOT NULL DEFAULT 0,
    status       INTEGER,
    reason       TEXT,
    duration_us  INTEGER  NOT NULL,
    detail       TEXT     NOT NULL,
    response     BLOB,
    PRIMARY KEY (event_id, endpoint_id, n, started_at)
);
CREATE INDEX snaphook_attempts_endpoint ON snaphook_attempts (endpoint_id, event_id) WHERE outcome > 0;
CREATE INDEX snaphook_attempts_tenant ON snaphook_attempts (tenant, event_id) WHERE outcome > 0;

CREATE TABLE snaphook_dead_letters (
    event_id     INTEGER  NOT NULL,
    endpoint_id  INTEGER  NOT NULL,
    tenant       TEXT     NOT NULL,
    cause        INTEGER  NOT NULL,
    died_at      INTEGER  NOT NULL,
    PRIMARY KEY (event_id, endpoint_id)
) WITHOUT ROWID;
CREATE INDEX snaphook_dead_letters_tenant ON snaphook_dead_letters (tenant, event_id);

CREATE TABLE snaphook_shards (
    id           INTEGER  NOT NULL PRIMARY KEY,
    owner        TEXT,
    epoch        INTEGER  NOT NULL DEFAULT 0,
    lease_until  INTEGER  NOT NULL DEFAULT 0
);
INSERT INTO snaphook_shards (id)
    WITH RECURSIVE n(id) AS (SELECT 0 UNION ALL SELECT id + 1 FROM n WHERE id < 63)
    SELECT id FROM n;

CREATE TABLE snaphook_nodes (
    name     TEXT     NOT NULL PRIMARY KEY,
    seen_at  INTEGER  NOT NULL
);

CREATE TABLE snaphook_commands (
    id           INTEGER  NOT NULL PRIMARY KEY AUTOINCREMENT,
    shard        INTEGER  NOT NULL,
    kind         INTEGER  NOT NULL,
    endpoint_id  INTEGER  NOT NULL,
    event_id     INTEGER  NOT NULL
);
CREATE INDEX snaphook_commands_shard ON snaphook_commands (shard, id);
