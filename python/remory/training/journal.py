"""log.jsonl of a run: one line of JSON for every ten steps, and one for every check."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

Record = dict[str, Any]


class Journal:
    """Lines with `step` and figures, with `step` and `check`, or with `full` (the development sets read in full)."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def append(self, record: Record) -> None:
        """Add a line. Raises OSError."""
        with self.path.open("a") as stream:
            stream.write(json.dumps(record) + "\n")

    def records(self) -> list[Record]:
        """All lines that are whole; a run that was killed may have left half of one."""
        if not self.path.is_file():
            return []
        found = []
        for line in self.path.read_text(errors="replace").splitlines():
            try:
                record = json.loads(line)
            except ValueError:
                continue
            if isinstance(record, dict):
                found.append(record)
        return found

    def rewind(self, step: int | None) -> None:
        """Drop what was written of later steps: a run that goes on from `step` does them again. None: drop all.

        Raises OSError.
        """
        kept = [record for record in self.records() if step is not None and record.get("step", 0) <= step]
        scratch = self.path.with_name(f".{self.path.name}")
        with scratch.open("w") as stream:
            stream.writelines(json.dumps(record) + "\n" for record in kept)
            stream.flush()
            os.fsync(stream.fileno())
        scratch.replace(self.path)

    def checks(self) -> list[Record]:
        """The checks, oldest first: `step` and the figures of `Check.run`."""
        return [{"step": record["step"], **record["check"]} for record in self.records() if "check" in record]

    def full(self) -> Record | None:
        """The figures with the whole history in place of a memory, if they were measured."""
        return next((record["full"] for record in self.records() if "full" in record), None)

    def steps(self) -> list[Record]:
        """The lines about steps, oldest first."""
        return [record for record in self.records() if "loss" in record]
