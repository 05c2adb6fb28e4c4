"""Memories, their rows, and keys."""

STATEMENTS = (
    """
    CREATE TABLE stored_rows (
        sha256 TEXT NOT NULL PRIMARY KEY,
        size BIGINT NOT NULL,
        data {bytes} NOT NULL
    )
    """,
    """
    CREATE TABLE stored_memory (
        id {identity},
        handle TEXT NOT NULL UNIQUE,
        user_name TEXT NOT NULL,
        session_name TEXT NOT NULL,
        rows_sha256 TEXT NOT NULL REFERENCES stored_rows (sha256) ON DELETE RESTRICT,
        width INTEGER NOT NULL,
        prefix_ids {bytes} NOT NULL,
        summary_ids {bytes} NOT NULL,
        identity TEXT NOT NULL,
        receipt TEXT NOT NULL,
        created_at BIGINT NOT NULL
    )
    """,
    "CREATE INDEX stored_memory_owner ON stored_memory (user_name, session_name, id)",
    "CREATE INDEX stored_memory_rows ON stored_memory (rows_sha256)",
    """
    CREATE TABLE stored_key (
        id {identity},
        sha256 TEXT NOT NULL UNIQUE,
        hint TEXT NOT NULL,
        user_name TEXT NOT NULL,
        roles TEXT NOT NULL,
        created_at BIGINT NOT NULL,
        revoked_at BIGINT
    )
    """,
)
