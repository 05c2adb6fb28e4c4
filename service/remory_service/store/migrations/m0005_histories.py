"""Removed histories: the token ids of their chunks, and which memories stand for them."""

STATEMENTS = (
    """
    CREATE TABLE history_chunk (
        passage_id BIGINT NOT NULL PRIMARY KEY REFERENCES passage (id) ON DELETE CASCADE,
        ids {bytes} NOT NULL
    )
    """,
    """
    CREATE TABLE memory_history (
        memory_id BIGINT NOT NULL REFERENCES stored_memory (id) ON DELETE CASCADE,
        collection_id BIGINT NOT NULL REFERENCES collection (id),
        place INTEGER NOT NULL,
        PRIMARY KEY (memory_id, collection_id)
    )
    """,
    "CREATE INDEX memory_history_collection ON memory_history (collection_id)",
)
