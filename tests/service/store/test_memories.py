from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from remory_service.errors import StoreDamaged
from remory_service.store import memories
from remory_service.store.database import check_store, connection, open_store, transaction
from remory_service.store.memories import Owner
from remory_service.store.schema import StoredMemory, StoredRows
from tests.service.conftest import make_memory

OWNER = Owner("user", "session")
OTHERS = [Owner("user", "other"), Owner("other", "session"), Owner("session", "user")]


def test_what_is_saved_is_loaded(store: Path) -> None:
    memory = make_memory()
    saved = memories.save(OWNER, memory)
    loaded = memories.load(OWNER, saved.handle)
    assert loaded is not None
    assert torch.equal(loaded.rows.view(torch.int16), memory.rows.view(torch.int16))
    assert loaded.prefix_ids.tolist() == memory.prefix_ids.tolist()
    assert loaded.summary_ids.tolist() == memory.summary_ids.tolist()
    assert loaded.frontier == memory.frontier
    assert (loaded.identity, loaded.handle, loaded.receipt) == ("identity", saved.handle, saved.receipt)


def test_the_receipt_says_how_long_storing_took(store: Path) -> None:
    saved = memories.save(OWNER, make_memory())
    assert saved.receipt["timings_ms"]["store"] > 0
    assert saved.receipt["timings_ms"]["leaves"] == 1.0


def test_every_save_gives_a_handle_of_its_own(store: Path) -> None:
    handles = {memories.save(OWNER, make_memory()).handle for _ in range(20)}
    assert len(handles) == 20
    assert all(handle.startswith("rm_") and len(handle) == 35 for handle in handles)


@pytest.mark.parametrize("other", OTHERS)
def test_nothing_but_user_session_and_handle_finds_a_memory(store: Path, other: Owner) -> None:
    handle = memories.save(OWNER, make_memory()).handle
    assert memories.load(other, handle) is None
    assert memories.find(other, handle) is None
    assert memories.list_session(other) == []
    assert not memories.delete(other, handle)
    assert memories.load(OWNER, handle) is not None


@pytest.mark.parametrize("handle", ["", "rm_", "rm_" + "0" * 32, "x' OR '1'='1", "rm_%", "\0", "🙂"])
def test_a_handle_that_is_none_finds_nothing(store: Path, handle: str) -> None:
    memories.save(OWNER, make_memory())
    assert memories.load(OWNER, handle) is None
    assert memories.find(OWNER, handle) is None
    assert not memories.delete(OWNER, handle)


def test_a_session_lists_its_newest_memory_first(store: Path) -> None:
    handles = [memories.save(OWNER, make_memory(seed)).handle for seed in range(3)]
    assert [info.handle for info in memories.list_session(OWNER)] == handles[::-1]


def test_equal_rows_are_stored_once_and_deleted_with_their_last_handle(store: Path) -> None:
    first, second = memories.save(OWNER, make_memory(1)), memories.save(OTHERS[0], make_memory(1))
    kept = memories.save(OWNER, make_memory(2))
    assert memories.totals() == (3, 2 * 16 * 16 * 2)
    assert memories.delete(OWNER, first.handle)
    assert memories.load(OTHERS[0], second.handle) is not None
    assert memories.delete(OTHERS[0], second.handle)
    assert [rows.sha256 for rows in StoredRows.select()] == [kept.rows_sha256]
    assert not memories.delete(OWNER, first.handle)


@pytest.mark.parametrize("damaged", [b"", b"\0" * 512, b"\0" * 511])
def test_damaged_rows_are_never_handed_out(store: Path, damaged: bytes) -> None:
    saved = memories.save(OWNER, make_memory())
    StoredRows.update(data=damaged).execute()
    with pytest.raises(StoreDamaged, match=saved.handle):
        memories.load(OWNER, saved.handle)
    assert memories.delete(OWNER, saved.handle)
    assert memories.totals() == (0, 0)


def test_a_save_that_fails_leaves_nothing(store: Path) -> None:
    memory = make_memory()
    memory.receipt["timings_ms"]["leaves"] = object()  # no JSON
    with pytest.raises(TypeError):
        memories.save(OWNER, memory)
    assert memories.totals() == (0, 0)


def test_orphans_are_removed_and_nothing_else(store: Path) -> None:
    saved = memories.save(OWNER, make_memory())
    StoredRows.insert(sha256="0" * 64, size=2, data=b"ab").execute()
    assert memories.remove_orphans() == 1
    assert memories.remove_orphans() == 0
    assert memories.load(OWNER, saved.handle) is not None


_DIE_IN_TRANSACTION = """
import os, signal, sys
from pathlib import Path
from remory_service.store import memories
from remory_service.store.database import connection, open_store, transaction
from remory_service.store.schema import StoredRows
open_store(Path(sys.argv[1]), sys.argv[2] or None)
with connection(), transaction():
    StoredRows.insert(sha256="1" * 64, size=4_000_000, data=os.urandom(4_000_000)).execute()
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_process_that_dies_while_it_writes_leaves_nothing(tmp_path: Path, database_url: str | None) -> None:
    died = subprocess.run([sys.executable, "-c", _DIE_IN_TRANSACTION, tmp_path / "data", database_url or ""])
    assert died.returncode == -signal.SIGKILL
    open_store(tmp_path / "data", database_url)
    with connection():
        assert check_store() == []
        assert memories.totals() == (0, 0)
        assert memories.remove_orphans() == 0


_WRITE_MANY = """
import sys
from pathlib import Path
from remory_service.store import memories
from remory_service.store.database import connection, open_store
from remory_service.store.memories import Owner
from tests.service.conftest import make_memory
open_store(Path(sys.argv[1]), sys.argv[2] or None)
for seed in range(60):
    with connection():
        saved = memories.save(Owner("user", sys.argv[3]), make_memory(seed))
        assert memories.load(Owner("user", sys.argv[3]), saved.handle) is not None
        if seed % 3 == 0:
            assert memories.delete(Owner("user", sys.argv[3]), saved.handle)
"""


def test_two_processes_write_and_read_one_store(tmp_path: Path, database_url: str | None) -> None:
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    writers = [
        subprocess.Popen(
            [sys.executable, "-c", _WRITE_MANY, tmp_path / "data", database_url or "", name], env=environment
        )
        for name in ("first", "second")
    ]
    assert [writer.wait(120) for writer in writers] == [0, 0]
    open_store(tmp_path / "data", database_url)
    with connection():
        assert StoredMemory.select().count() == 80
        assert StoredRows.select().count() == 40
        assert memories.remove_orphans() == 0


_READ_ONE = """
import sys
from pathlib import Path
from remory_service.store import memories
from remory_service.store.database import open_store
open_store(Path(sys.argv[1]), sys.argv[2] or None)
print(memories.find(memories.Owner("user", "session"), sys.argv[3]).handle)
"""


def test_a_reader_is_not_held_up_by_a_writer(store: Path, database_url: str | None) -> None:
    saved = memories.save(OWNER, make_memory())
    with transaction():
        StoredRows.insert(sha256="0" * 64, size=2, data=b"ab").execute()
        read = subprocess.run(
            [sys.executable, "-c", _READ_ONE, store, database_url or "", saved.handle],
            capture_output=True,
            text=True,
            timeout=25,
        )
    assert read.stdout.strip() == saved.handle, read.stderr
