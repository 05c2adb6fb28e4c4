"""How attributes are written down, and the kinds of value that are picked from a list."""

from __future__ import annotations

from remory.training.generator.statements import Attribute, split_lines
from remory.training.generator.words import Maker, pick


def attribute(
    kind: str, makers: tuple[Maker, ...], labels: str, value: Maker, clauses: str, questions: str, commands: str = ""
) -> Attribute:
    """An attribute from texts with one template a line; the labels are divided by commas."""
    names = tuple(label.strip() for label in labels.split(","))
    return Attribute(kind, makers, names, value, split_lines(clauses), split_lines(questions), split_lines(commands))


def one_of(text: str) -> Maker:
    """A maker of one out of the phrases that commas divide."""
    phrases = tuple(" ".join(phrase.split()) for phrase in text.split(","))
    return lambda r: pick(r, phrases)


REGIONS = one_of("""
    eu-west-2, eu-north-1, us-east-3, ap-south-1, sa-east-1, eu-central-4, us-west-2, Frankfurt-2, oslo-1, ca-mid-1
""")
FORMATS = one_of("""
    CSV, JSON lines, Parquet, Avro, protobuf, MessagePack, plain XML, TSV, CBOR, YAML, SQLite, fixed width, ORC,
    PDF/A
""")
DATABASES = one_of("""
    Postgres, SQLite, MySQL, ClickHouse, Redis, DuckDB, MariaDB, Cassandra, RocksDB, LMDB, etcd, FoundationDB
""")
LANGUAGES = one_of("""
    Rust, Go, Python, Kotlin, TypeScript, Elixir, C++, Zig, Ruby, Scala, OCaml, Swift, Lua, Perl, Java
""")
LIBRARIES = one_of("""
    httpx, aiohttp, serde, tokio, pydantic, requests, lodash, zod, numpy, polars, flask, axum, click, boto3, sqlx,
    jinja2
""")
ALGORITHMS = one_of("""
    zstd, gzip, lz4, brotli, snappy, sha256, blake3, argon2, bcrypt, ed25519, round robin, least connections, LRU,
    LFU, token bucket, exponential backoff, binary search, quicksort, consistent hashing, bloom filter, xxhash,
    AES-256
""")
STATES = one_of("""
    done, blocked, in review, merged, on hold, half finished, ready for testing, waiting for hardware, rolled back,
    abandoned, released, paused, reopened, behind schedule, green, degraded, read only, out of order, decommissioned
""")
PRIORITIES = one_of("""
    P1, P2, P3, low, urgent, critical, minor, sev-2, sev-3, blocker, nice to have, must have
""")
LEVELS = one_of("""
    DEBUG, INFO, WARNING, ERROR, TRACE, verbose, quiet, notice, fatal only
""")
ENCODINGS = one_of("""
    UTF-8, Latin-1, UTF-16, ASCII, base64, hex, Windows-1252, big endian, little endian, base32
""")
MODES = one_of("""
    read only, append only, strict, lenient, dry run, single writer, active-passive, best effort, at least once,
    exactly once, eventual, lazy, eager, blue-green, rolling, canary, shadow, manual approval, opt-in, maintenance
""")
FACTORS = one_of("""
    the customer id, the country code, the day, the tenant, the first letter, the checksum, the insertion order, the
    zip code, the hour, the file name, the warehouse, the order number, the account, the creation time, the hash of
    the path
""")
CAUSES = one_of("""
    a full disk, an expired certificate, a stale lock file, a missing index, a race in the cache, a wrong time zone,
    an off-by-one in the paging, a leaked connection, a half-applied migration, a renamed column, a typo in the host
    name, a dead fan, a circular import, a dropped packet filter rule, an unescaped quote, a clock that ran ahead, a
    shadowed variable, an integer overflow, a retry loop, a broken symlink, a swapped argument, a null in the price,
    an unbounded queue, a cached redirect, a missing semicolon, a double submit, a trailing space, a firmware bug
""")
FIXES = one_of("""
    a restart, a bigger timeout, a unique index, a rollback, a smaller batch, a lock around the write, a clean
    rebuild, a new certificate, an extra null check, a cap on retries, a pinned dependency, a cache flush, a second
    replica, an idempotency key, a trimmed log, a swap of the cable, a longer lease, a guard clause, a forced
    resync, a missing await, a sorted key list, a backfill of the column, a stricter regex, a read lock
""")
