"""Remembered text: passages by collection, their embeddings by model, and an index of their words."""

STATEMENTS = (
    """
    CREATE TABLE collection (
        id {identity},
        kind TEXT NOT NULL,
        owner {ordered_text} NOT NULL,
        UNIQUE (kind, owner)
    )
    """,
    """
    CREATE TABLE passage (
        id {identity},
        collection_id BIGINT NOT NULL REFERENCES collection (id),
        name {ordered_text} NOT NULL,
        text {bytes} NOT NULL,
        metadata {bytes} NOT NULL,
        created_at BIGINT NOT NULL,
        updated_at BIGINT NOT NULL,
        UNIQUE (collection_id, name)
    )
    """,
    "CREATE INDEX passage_order ON passage (collection_id, id)",
    """
    CREATE TABLE embedding_model (
        id {identity},
        name TEXT NOT NULL UNIQUE,
        dimension INTEGER NOT NULL
    )
    """,
    # The row of a passage that is gone stays, without content: those who follow by sequence must learn of it.
    """
    CREATE TABLE embedding (
        id {identity},
        collection_id BIGINT NOT NULL REFERENCES collection (id),
        passage_id BIGINT NOT NULL,
        model_id BIGINT NOT NULL REFERENCES embedding_model (id),
        sequence BIGINT NOT NULL,
        content {bytes},
        UNIQUE (passage_id, model_id)
    )
    """,
    "CREATE INDEX embedding_sequence ON embedding (collection_id, model_id, sequence)",
    "CREATE TABLE embedding_feed (id INTEGER NOT NULL PRIMARY KEY, last_sequence BIGINT NOT NULL)",
    "INSERT INTO embedding_feed (id, last_sequence) VALUES (1, 0)",
)

# A passage's words, each together with its collection as one term: see store/words.py.
SQLITE = (
    # The row's number is the passage's.
    "CREATE VIRTUAL TABLE passage_words USING fts5 (words, tokenize = 'ascii', detail = 'none')",
)

POSTGRESQL = (
    """
    CREATE TABLE passage_words (
        passage_id BIGINT NOT NULL PRIMARY KEY,
        words TSVECTOR NOT NULL
    )
    """,
    "CREATE INDEX passage_words_words ON passage_words USING gin (words)",
)
