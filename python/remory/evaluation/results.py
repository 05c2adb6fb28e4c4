"""What an evaluation has measured so far, kept in a file, so that an interrupted one goes on where it was."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from remory.errors import InvalidInput
from remory.evaluation.aggregates import summarise_results

SCHEMA = "remory.evaluation.v1"
FILE = "results.json"

Record = dict[str, Any]


class Results:
    """The sessions that were played under `settings`, kept in `folder`/results.json if there is a folder.

    Raises InvalidInput when the folder holds results of other settings, and names those that differ.
    """

    def __init__(self, settings: Mapping[str, Any], server: Mapping[str, Any], folder: Path | None, seed: int = 0):
        self.settings = json.loads(json.dumps(settings))
        self.server = server
        self.sessions: list[Record] = []
        self._path = None if folder is None else folder / FILE
        self._seed = seed
        if self._path is not None and self._path.exists():
            self.sessions = self._read(self._path)

    def has(self, name: str, session: str) -> bool:
        """Whether a session of a set was played."""
        return any(record["set"] == name and record["id"] == session for record in self.sessions)

    def add(self, record: Record) -> None:
        """Keep what was measured of a session."""
        self.sessions.append(record)
        self.save()

    def save(self) -> None:
        """Write the file anew, with the figures of all sessions; as a whole or not at all."""
        if self._path is None:
            return
        self._path.parent.mkdir(parents=True, exist_ok=True)
        fresh = self._path.with_suffix(".new")
        fresh.write_text(json.dumps(self.figures(), ensure_ascii=False, indent=1))
        fresh.replace(self._path)

    def figures(self) -> Record:
        """All of it as JSON-able values."""
        return {
            "schema": SCHEMA,
            "settings": self.settings,
            "seed": self._seed,
            "server": dict(self.server),
            "aggregates": summarise_results(self.sessions, self._seed),
            "sessions": self.sessions,
        }

    def _read(self, path: Path) -> list[Record]:
        try:
            earlier = json.loads(path.read_text())
            schema, settings, sessions = earlier["schema"], earlier["settings"], earlier["sessions"]
        except (ValueError, KeyError, TypeError) as error:
            raise InvalidInput(f"{path} holds no results of an evaluation: choose another folder for --out") from error
        if schema != SCHEMA:
            raise InvalidInput(f"{path} was written as {schema}, this version writes {SCHEMA}: choose another --out")
        names = sorted(self.settings.keys() | settings.keys())
        differing = [name for name in names if self.settings.get(name) != settings.get(name)]
        if differing:
            told = "; ".join(f"{name} was {settings.get(name)}, is {self.settings.get(name)}" for name in differing)
            raise InvalidInput(f"{path} holds results of other settings ({told}): choose another folder for --out")
        return sessions
