"""Scoped memory: scopes and their owners, entries, the change feed, leases."""

STATEMENTS = (
    """
    CREATE TABLE scope (
        id {identity},
        kind TEXT NOT NULL,
        name {ordered_text} NOT NULL,
        owner TEXT,
        UNIQUE (kind, name)
    )
    """,
    """
    CREATE TABLE entry (
        id {identity},
        scope_id BIGINT NOT NULL REFERENCES scope (id),
        kind TEXT NOT NULL,
        key {ordered_text} NOT NULL,
        revision BIGINT NOT NULL,
        sequence BIGINT NOT NULL,
        updated_at BIGINT NOT NULL,
        expires_at BIGINT,
        dimension INTEGER,
        metadata {bytes},
        content {bytes},
        UNIQUE (scope_id, kind, key)
    )
    """,
    "CREATE INDEX entry_sequence ON entry (scope_id, kind, sequence)",
    "CREATE INDEX entry_expiry ON entry (expires_at) WHERE expires_at IS NOT NULL AND content IS NOT NULL",
    """
    CREATE TABLE change (
        sequence BIGINT NOT NULL PRIMARY KEY,
        scope_id BIGINT NOT NULL REFERENCES scope (id),
        kind TEXT NOT NULL,
        key {ordered_text} NOT NULL,
        action TEXT NOT NULL,
        revision BIGINT NOT NULL,
        principal TEXT NOT NULL,
        created_at BIGINT NOT NULL,
        value {bytes}
    )
    """,
    "CREATE INDEX change_scope ON change (scope_id, sequence)",
    "CREATE TABLE feed (id INTEGER NOT NULL PRIMARY KEY, last_sequence BIGINT NOT NULL)",
    "INSERT INTO feed (id, last_sequence) VALUES (1, 0)",
    """
    CREATE TABLE lease (
        id {identity},
        sha256 TEXT NOT NULL UNIQUE,
        task_id TEXT NOT NULL,
        step_id TEXT NOT NULL,
        root_id TEXT NOT NULL,
        session_id TEXT NOT NULL,
        actor_id TEXT,
        grantor TEXT NOT NULL,
        by_admin BOOLEAN NOT NULL,
        created_at BIGINT NOT NULL,
        expires_at BIGINT NOT NULL
    )
    """,
    "CREATE INDEX lease_expiry ON lease (expires_at)",
)
