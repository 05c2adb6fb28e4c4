"""The tables. They are made by the migrations; a change here needs a new one there."""

from __future__ import annotations

import peewee

database = peewee.DatabaseProxy()


class Record(peewee.Model):
    class Meta:
        database = database
        legacy_table_names = False


class StoredRows(Record):
    """Memory rows, once per content: `sha256` (hex) names `data`, bfloat16 little endian, row-major."""

    sha256 = peewee.TextField(primary_key=True)
    size = peewee.BigIntegerField()
    data = peewee.BlobField()

    class Meta:
        table_name = "stored_rows"


class StoredMemory(Record):
    """One handle. `width`: values of a row. `prefix_ids` and `summary_ids`: int32 little endian. `receipt`: JSON, with
    the frontier in it. `created_at`: epoch ms.
    """

    id = peewee.BigAutoField()
    handle = peewee.TextField(unique=True)
    user = peewee.TextField(column_name="user_name")
    session = peewee.TextField(column_name="session_name")
    rows = peewee.ForeignKeyField(StoredRows, column_name="rows_sha256", on_delete="RESTRICT")
    width = peewee.IntegerField()
    prefix_ids = peewee.BlobField()
    summary_ids = peewee.BlobField()
    identity = peewee.TextField()
    receipt = peewee.TextField()
    created_at = peewee.BigIntegerField()

    class Meta:
        table_name = "stored_memory"


class StoredKey(Record):
    """One API key, as the SHA-256 (hex) of its text. `roles`: names with commas between. Times: epoch ms."""

    id = peewee.BigAutoField()
    sha256 = peewee.TextField(unique=True)
    hint = peewee.TextField()
    user = peewee.TextField(column_name="user_name")
    roles = peewee.TextField()
    created_at = peewee.BigIntegerField()
    revoked_at = peewee.BigIntegerField(null=True)

    class Meta:
        table_name = "stored_key"


class StoredScope(Record):
    """A scope that was written to. `kind`: session, actor, workflow or global. `owner`: the user who wrote first; None
    for global.
    """

    id = peewee.BigAutoField()
    kind = peewee.TextField()
    name = peewee.TextField()
    owner = peewee.TextField(null=True)

    class Meta:
        table_name = "scope"


class StoredEntry(Record):
    """A value or vector under a key. `content` None: deleted, the row stays for its revision. `content` of a value is
    JSON, of a vector what `remory.search.pack_vector` makes; `metadata` (vectors) is a JSON object. `sequence`: the
    change that made it so. Times: epoch ms.
    """

    id = peewee.BigAutoField()
    scope = peewee.ForeignKeyField(StoredScope, column_name="scope_id")
    kind = peewee.TextField()
    key = peewee.TextField()
    revision = peewee.BigIntegerField()
    sequence = peewee.BigIntegerField()
    updated_at = peewee.BigIntegerField()
    expires_at = peewee.BigIntegerField(null=True)
    dimension = peewee.IntegerField(null=True)
    metadata = peewee.BlobField(null=True)
    content = peewee.BlobField(null=True)

    class Meta:
        table_name = "entry"


class StoredChange(Record):
    """One line of the change feed. `action`: set or delete. `value`: a value that was set, unless it is too long."""

    sequence = peewee.BigIntegerField(primary_key=True)
    scope = peewee.ForeignKeyField(StoredScope, column_name="scope_id")
    kind = peewee.TextField()
    key = peewee.TextField()
    action = peewee.TextField()
    revision = peewee.BigIntegerField()
    principal = peewee.TextField()
    created_at = peewee.BigIntegerField()
    value = peewee.BlobField(null=True)

    class Meta:
        table_name = "change"


class Feed(Record):
    """One row: the sequence number given last. It outlives the changes, which are pruned."""

    id = peewee.IntegerField(primary_key=True)
    last_sequence = peewee.BigIntegerField()

    class Meta:
        table_name = "feed"


class StoredLease(Record):
    """What a worker may act under, as the SHA-256 (hex) of its token. `grantor`: the user whose authority it lends."""

    id = peewee.BigAutoField()
    sha256 = peewee.TextField(unique=True)
    task_id = peewee.TextField()
    step_id = peewee.TextField()
    root_id = peewee.TextField()
    session_id = peewee.TextField()
    actor_id = peewee.TextField(null=True)
    grantor = peewee.TextField()
    by_admin = peewee.BooleanField()
    created_at = peewee.BigIntegerField()
    expires_at = peewee.BigIntegerField()

    class Meta:
        table_name = "lease"


class StoredCollection(Record):
    """A set of passages that are searched together. `kind`: notes, chat or history; `owner`: whose, in that kind's own
    terms. What a collection's vectors were made by is recorded with each: see StoredEmbedding.
    """

    id = peewee.BigAutoField()
    kind = peewee.TextField()
    owner = peewee.TextField()

    class Meta:
        table_name = "collection"


class StoredPassage(Record):
    """A text that can be found by meaning and by words. `name` is unique in its collection. `text`: UTF-8 as bytes, for
    texts may hold NUL; `metadata`: a JSON object. Times: epoch ms.
    """

    id = peewee.BigAutoField()
    collection = peewee.ForeignKeyField(StoredCollection, column_name="collection_id")
    name = peewee.TextField()
    text = peewee.BlobField()
    metadata = peewee.BlobField()
    created_at = peewee.BigIntegerField()
    updated_at = peewee.BigIntegerField()

    class Meta:
        table_name = "passage"


class StoredModel(Record):
    """A model that made vectors, and how many elements they have."""

    id = peewee.BigAutoField()
    name = peewee.TextField(unique=True)
    dimension = peewee.IntegerField()

    class Meta:
        table_name = "embedding_model"


class StoredEmbedding(Record):
    """One model's vector of a passage, as `remory.search.pack_vector` makes it; None: taken back, or the passage is
    gone. `sequence`: the write that made it so.
    """

    id = peewee.BigAutoField()
    collection = peewee.ForeignKeyField(StoredCollection, column_name="collection_id")
    passage_id = peewee.BigIntegerField()
    model = peewee.ForeignKeyField(StoredModel, column_name="model_id")
    sequence = peewee.BigIntegerField()
    content = peewee.BlobField(null=True)

    class Meta:
        table_name = "embedding"


class StoredChat(Record):
    """A chat of one user; `uuid` is what clients call it. `title`: UTF-8 as bytes, for it may hold NUL. Times: epoch
    ms.
    """

    id = peewee.BigAutoField()
    uuid = peewee.TextField(unique=True)
    user = peewee.TextField(column_name="user_name")
    created_at = peewee.BigIntegerField()
    updated_at = peewee.BigIntegerField()
    title = peewee.BlobField(null=True)

    class Meta:
        table_name = "chat"


class StoredChatMemory(Record):
    """What is remembered of a part of a chat. `summary`: a JSON object, with what the passage says for searches."""

    id = peewee.BigAutoField()
    uuid = peewee.TextField(unique=True)
    chat = peewee.ForeignKeyField(StoredChat, column_name="chat_id")
    passage = peewee.ForeignKeyField(StoredPassage, column_name="passage_id", unique=True)
    reason = peewee.TextField()
    created_at = peewee.BigIntegerField()
    updated_at = peewee.BigIntegerField()
    summary = peewee.BlobField()

    class Meta:
        table_name = "chat_memory"


class StoredMessage(Record):
    """A message of a chat, in the order of the ids. `memory` None: no memory was made of it; `released`: or it was
    deleted. `said`: bytes of what a model reads of it. `parts`, `metadata` and `files`: JSON. `updated_at` (epoch ms)
    differs after every change.
    """

    id = peewee.BigAutoField()
    uuid = peewee.TextField(unique=True)
    chat = peewee.ForeignKeyField(StoredChat, column_name="chat_id")
    memory = peewee.ForeignKeyField(StoredChatMemory, column_name="memory_id", null=True)
    role = peewee.TextField()
    said = peewee.BigIntegerField()
    released = peewee.IntegerField(default=0)
    created_at = peewee.BigIntegerField()
    updated_at = peewee.BigIntegerField()
    parts = peewee.BlobField()
    metadata = peewee.BlobField()
    files = peewee.BlobField()

    class Meta:
        table_name = "message"


class StoredChunk(Record):
    """The token ids of a removed history's chunk, int32 little endian, beside its passage."""

    passage_id = peewee.BigIntegerField(primary_key=True)
    ids = peewee.BlobField()

    class Meta:
        table_name = "history_chunk"


class StoredTranscript(Record):
    """What a memory's compaction removed, of a session that agreed: int32 little endian. `parents`: a JSON list of the
    memories that it went on from, by their ids. `size`: bytes of the ids. `created_at`: epoch ms.
    """

    memory = peewee.ForeignKeyField(StoredMemory, column_name="memory_id", primary_key=True)
    created_at = peewee.BigIntegerField()
    size = peewee.BigIntegerField()
    actor_revision = peewee.TextField()
    parents = peewee.TextField()
    history_ids = peewee.BlobField()

    class Meta:
        table_name = "transcript"


class StoredContinuation(Record):
    """What was said behind a memory that has a transcript: what was sent and what the actor answered, as there."""

    id = peewee.BigAutoField()
    transcript = peewee.ForeignKeyField(StoredTranscript, column_name="memory_id")
    created_at = peewee.BigIntegerField()
    size = peewee.BigIntegerField()
    ids = peewee.BlobField()

    class Meta:
        table_name = "transcript_continuation"


class Migration(Record):
    """One migration that this file has been through."""

    number = peewee.IntegerField(primary_key=True)
    applied_at = peewee.BigIntegerField()

    class Meta:
        table_name = "migration"
