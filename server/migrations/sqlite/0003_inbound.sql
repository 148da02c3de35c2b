-- Sources, as in the PostgreSQL folder.

CREATE TABLE snaphook_sources (
    id           INTEGER  NOT NULL PRIMARY KEY,
    token        TEXT     NOT NULL UNIQUE,
    tenant       TEXT     NOT NULL,
    name         TEXT     NOT NULL,
    state        INTEGER  NOT NULL DEFAULT 0 CHECK (state BETWEEN 0 AND 1),
    state_since  INTEGER  NOT NULL,
    armed_until  INTEGER,
    settings     TEXT     NOT NULL,
    sealed       BLOB,
    from_file    BOOLEAN  NOT NULL DEFAULT 0,
    epoch        INTEGER  NOT NULL,
    created_at   INTEGER  NOT NULL,
    updated_at   INTEGER  NOT NULL,
    deleted_at   INTEGER
);
CREATE UNIQUE INDEX snaphook_sources_name ON snaphook_sources (tenant, name) WHERE deleted_at IS NULL;
CREATE INDEX snaphook_sources_tenant ON snaphook_sources (tenant, id) WHERE deleted_at IS NULL;
CREATE INDEX snaphook_sources_epoch ON snaphook_sources (epoch);

CREATE TABLE snaphook_source_secrets (
    id          INTEGER  NOT NULL PRIMARY KEY,
    source_id   INTEGER  NOT NULL,
    tenant      TEXT     NOT NULL,
    sealed      BLOB     NOT NULL,
    created_at  INTEGER  NOT NULL,
    expires_at  INTEGER,
    revoked_at  INTEGER
);
CREATE INDEX snaphook_source_secrets_source ON snaphook_source_secrets (source_id, id);

CREATE TABLE snaphook_received (
    source_id    INTEGER  NOT NULL,
    digest       BLOB     NOT NULL,
    event_id     INTEGER  NOT NULL,
    body_digest  BLOB     NOT NULL,
    at           INTEGER  NOT NULL,
    PRIMARY KEY (source_id, digest)
) WITHOUT ROWID;
CREATE INDEX snaphook_received_at ON snaphook_received (at);

CREATE TABLE snaphook_requests (
    id             INTEGER  NOT NULL PRIMARY KEY,
    source_id      INTEGER  NOT NULL,
    tenant         TEXT     NOT NULL,
    received_at    INTEGER  NOT NULL,
    state          INTEGER  NOT NULL CHECK (state BETWEEN 0 AND 3),
    step           TEXT,
    reason         TEXT,
    method         TEXT     NOT NULL,
    target         TEXT     NOT NULL,
    headers        BLOB     NOT NULL,
    body           BLOB,
    size           INTEGER  NOT NULL,
    provider_id    TEXT,
    provider_type  TEXT,
    event_id       INTEGER,
    verdict        TEXT,
    verified_at    INTEGER,
    accepted_at    INTEGER,
    accepted_by    TEXT,
    digest         BLOB
);
CREATE INDEX snaphook_requests_source ON snaphook_requests (source_id, state, id);
CREATE UNIQUE INDEX snaphook_requests_digest ON snaphook_requests (source_id, digest) WHERE digest IS NOT NULL;
CREATE INDEX snaphook_requests_received ON snaphook_requests (received_at);
