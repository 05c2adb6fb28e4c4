"""`remory transcripts export`: what sessions agreed to have kept, as lines of JSON."""

from __future__ import annotations

import json
import os
import sys
import tempfile
from dataclasses import asdict
from pathlib import Path

from remory_service.store import transcripts
from remory_service.store.database import StoreUnusable, close_store, open_store, store_path


def export(data: Path, store: str | None, out: Path) -> int:
    """Write one line for everything that was said behind a memory to `out`, which appears whole or not at all.

    The file is for its owner alone to read. Raises StoreUnusable, StoreTooNew or OSError.
    """
    if store is None and not store_path(data).exists():
        raise StoreUnusable(f"there is no store at {store_path(data)}: name its folder with --data")
    open_store(data, store)
    try:
        written = _write(out)
        compactions, silent = transcripts.counts()
    finally:
        close_store()
    print(f"{written:,} line{'' if written == 1 else 's'} in {out}")
    if silent:
        print(f"nothing was kept behind {silent:,} of {compactions:,} compactions: no lines of these", file=sys.stderr)
    return 0


def _write(out: Path) -> int:
    count = 0
    handle, scratch = tempfile.mkstemp(prefix=f".{out.name}-", dir=out.parent)
    try:
        with os.fdopen(handle, "w") as stream:
            for line in transcripts.lines():
                stream.write(json.dumps(asdict(line)) + "\n")
                count += 1
        Path(scratch).replace(out)
    except BaseException:
        Path(scratch).unlink(missing_ok=True)
        raise
    return count
