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


class Migration(Record):
    """One migration that this file has been through."""

    number = peewee.IntegerField(primary_key=True)
    applied_at = peewee.BigIntegerField()

    class Meta:
        table_name = "migration"
