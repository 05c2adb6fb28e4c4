"""Chats, their messages, and the memories made of them.

What is large stands last in a row: SQLite reads a row from its begin, and what is small should cost little.
"""

STATEMENTS = (
    """
    CREATE TABLE chat (
        id {identity},
        uuid TEXT NOT NULL UNIQUE,
        user_name TEXT NOT NULL,
        created_at BIGINT NOT NULL,
        updated_at BIGINT NOT NULL,
        title {bytes}
    )
    """,
    "CREATE INDEX chat_user ON chat (user_name, updated_at, uuid)",
    """
    CREATE TABLE chat_memory (
        id {identity},
        uuid TEXT NOT NULL UNIQUE,
        chat_id BIGINT NOT NULL REFERENCES chat (id),
        passage_id BIGINT NOT NULL UNIQUE REFERENCES passage (id),
        reason TEXT NOT NULL,
        created_at BIGINT NOT NULL,
        updated_at BIGINT NOT NULL,
        summary {bytes} NOT NULL
    )
    """,
    "CREATE INDEX chat_memory_chat ON chat_memory (chat_id, created_at, id)",
    """
    CREATE TABLE message (
        id {identity},
        uuid TEXT NOT NULL UNIQUE,
        chat_id BIGINT NOT NULL REFERENCES chat (id),
        memory_id BIGINT REFERENCES chat_memory (id),
        role TEXT NOT NULL,
        said BIGINT NOT NULL,
        released INTEGER NOT NULL DEFAULT 0,
        created_at BIGINT NOT NULL,
        updated_at BIGINT NOT NULL,
        parts {bytes} NOT NULL,
        metadata {bytes} NOT NULL,
        files {bytes} NOT NULL
    )
    """,
    "CREATE INDEX message_chat ON message (chat_id, id)",
    "CREATE INDEX message_memory ON message (memory_id, id)",
    # Wide enough that what waits in a chat is summed up without its messages' rows.
    "CREATE INDEX message_waiting ON message (chat_id, id, role, said, released) WHERE memory_id IS NULL",
)
