"""Folders that only this user and this process use, and that outlive a kill -9 at most until the next start."""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from contextlib import suppress
from pathlib import Path

_TMPFS = Path("/dev/shm")
# The most that both sides of an exchange keep there (see `Exchange`). Containers often have a tmpfs of 64 MB.
_TMPFS_FREE = 1 << 30


class PrivateFolder:
    """A new folder in `base` with mode 0700, locked as long as this process lives and does not close it.

    Those of processes of this user that died are removed first.
    """

    def __init__(self, base: Path) -> None:
        prefix = f"remory-sglang-{os.getuid()}-"
        for left in base.glob(f"{prefix}*"):
            _remove_if_left(left)
        while True:
            self.path = Path(tempfile.mkdtemp(prefix=prefix, dir=base))
            # Before it is locked another process may take it for one that was left.
            with suppress(FileNotFoundError):
                self._lock = os.open(self.path, os.O_RDONLY)
                if _locked(self._lock) and self.path.exists():
                    return
                os.close(self._lock)

    def close(self) -> None:
        """Remove the folder with all that is in it."""
        if self._lock >= 0:
            shutil.rmtree(self.path, ignore_errors=True)
            os.close(self._lock)
            self._lock = -1


def temporary_folder() -> PrivateFolder:
    """A private folder among the temporary files."""
    return PrivateFolder(Path(tempfile.gettempdir()))


def exchange_folder() -> PrivateFolder:
    """A private folder for rows: in memory where there is a tmpfs with 1 GiB to spare, else as `temporary_folder`."""
    if os.access(_TMPFS, os.W_OK) and shutil.disk_usage(_TMPFS).free >= _TMPFS_FREE:
        return PrivateFolder(_TMPFS)
    return temporary_folder()


def _remove_if_left(folder: Path) -> None:
    try:
        handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    except OSError:
        # Another user's, or another process was quicker.
        return
    try:
        if os.fstat(handle).st_uid == os.getuid() and _locked(handle):
            shutil.rmtree(folder, ignore_errors=True)
    finally:
        os.close(handle)


def _locked(handle: int) -> bool:
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
