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


class Migration(Record):
    """One migration that this file has been through."""

    number = peewee.IntegerField(primary_key=True)
    applied_at = peewee.BigIntegerField()

    class Meta:
        table_name = "migration"
