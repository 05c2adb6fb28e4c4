"""Token transcripts of sessions that agreed: what a memory's compaction removed, and what was said behind the memory.

A transcript's prefix and summary are its memory's. `transcript_total` has one row, so that no write adds up all sizes.
"""

STATEMENTS = (
    """
    CREATE TABLE transcript (
        memory_id BIGINT NOT NULL PRIMARY KEY REFERENCES stored_memory (id),
        created_at BIGINT NOT NULL,
        size BIGINT NOT NULL,
        actor_revision TEXT NOT NULL,
        parents TEXT NOT NULL,
        history_ids {bytes} NOT NULL
    )
    """,
    """
    CREATE TABLE transcript_continuation (
        id {identity},
        memory_id BIGINT NOT NULL REFERENCES transcript (memory_id),
        created_at BIGINT NOT NULL,
        size BIGINT NOT NULL,
        ids {bytes} NOT NULL
    )
    """,
    "CREATE INDEX transcript_continuation_memory ON transcript_continuation (memory_id, id)",
    "CREATE TABLE transcript_total (id INTEGER PRIMARY KEY, size BIGINT NOT NULL)",
    "INSERT INTO transcript_total VALUES (1, 0)",
)
