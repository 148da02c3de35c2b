-- Sources: where signed requests of providers come in. What a source takes is an event as any
-- other; what it does not take stands apart, in `requests`, and goes nowhere by itself.

CREATE TABLE snaphook.sources (
    id           bigint       NOT NULL PRIMARY KEY,
    -- The part of its URL that cannot be guessed, and its id for people: `src_…`.
    token        text         NOT NULL UNIQUE,
    tenant       text         NOT NULL,
    -- The first part of the types of its events.
    name         text         NOT NULL,
    -- 0 active, 1 paused
    state        smallint     NOT NULL DEFAULT 0 CHECK (state BETWEEN 0 AND 1),
    state_since  timestamptz  NOT NULL,
    -- Until then a handshake may set its secret anew.
    armed_until  timestamptz,
    settings     text         NOT NULL,
    -- What a provider's handshake asks for, sealed.
    sealed       bytea,
    -- Whether a table of the settings file made it.
    from_file    boolean      NOT NULL DEFAULT false,
    -- `install.config_epoch` as of its last change.
    epoch        bigint       NOT NULL,
    created_at   timestamptz  NOT NULL,
    updated_at   timestamptz  NOT NULL,
    deleted_at   timestamptz
);
CREATE UNIQUE INDEX sources_name ON snaphook.sources (tenant, name) WHERE deleted_at IS NULL;
CREATE INDEX sources_tenant ON snaphook.sources (tenant, id) WHERE deleted_at IS NULL;
CREATE INDEX sources_epoch ON snaphook.sources (epoch);

CREATE TABLE snaphook.source_secrets (
    id          bigint       NOT NULL PRIMARY KEY,
    source_id   bigint       NOT NULL,
    tenant      text         NOT NULL,
    sealed      bytea        NOT NULL,
    created_at  timestamptz  NOT NULL,
    -- Verifies until then; never ends when null.
    expires_at  timestamptz,
    revoked_at  timestamptz
);
CREATE INDEX source_secrets_source ON snaphook.source_secrets (source_id, id);

-- What a source has seen, by SHA-256: the provider's id of an event, and where that id is not
-- signed also the signature. Kept for `retention.dedup`.
CREATE TABLE snaphook.received (
    source_id    bigint       NOT NULL,
    digest       bytea        NOT NULL,
    event_id     bigint       NOT NULL,
    -- SHA-256 of the body, for the same id with another body is not the same event.
    body_digest  bytea        NOT NULL,
    at           timestamptz  NOT NULL,
    PRIMARY KEY (source_id, digest)
);
CREATE INDEX received_at ON snaphook.received (at);

-- Requests that became no event, or not at once: refused ones, and genuine ones that a person
-- should look at first.
CREATE TABLE snaphook.requests (
    id           bigint       NOT NULL PRIMARY KEY,
    source_id    bigint       NOT NULL,
    tenant       text         NOT NULL,
    received_at  timestamptz  NOT NULL,
    -- 0 rejected, 1 conflict, 2 replay suspected, 3 accepted
    state        smallint     NOT NULL CHECK (state BETWEEN 0 AND 3),
    -- At which step it was refused, and why.
    step         text,
    reason       text,
    method       text         NOT NULL,
    -- Path and query as they came.
    target       text         NOT NULL,
    headers      bytea        NOT NULL,
    -- Null where it was too large to be kept.
    body         bytea,
    -- Of head and body together, for the bound of a source.
    size         bigint       NOT NULL,
    -- What a genuine one says of itself.
    provider_id    text,
    provider_type  text,
    -- The event that was there before; of an accepted one, the event that it became.
    event_id     bigint,
    -- What the last look at it came to.
    verdict      text,
    verified_at  timestamptz,
    accepted_at  timestamptz,
    accepted_by  text,
    -- Of a genuine one: what makes the same request again the same one, which is kept once.
    digest       bytea
);
CREATE INDEX requests_source ON snaphook.requests (source_id, state, id);
CREATE UNIQUE INDEX requests_digest ON snaphook.requests (source_id, digest) WHERE digest IS NOT NULL;
CREATE INDEX requests_received ON snaphook.requests (received_at);
-- Bodies come from anywhere; packing them is no work for the hot path.
ALTER TABLE snaphook.requests ALTER COLUMN body SET STORAGE EXTERNAL;

REVOKE ALL ON ALL TABLES IN SCHEMA snaphook FROM PUBLIC;
