"""Lets schemathesis make up requests for everything below /api from the OpenAPI document, and watches the server.

Half of the time the server has no keys, half of it keys of every role. Fails (exit code 1) for an answer that the
document does not allow, a 5xx, a traceback in the server's log, a file descriptor that stays open, or a server that
does not answer afterwards.

    python -m tests.fuzz [--minutes 20] [--seed N] [--store URL] [--workers N]
"""

from __future__ import annotations

import argparse
import os
import random
import re
import subprocess
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx
import psutil

from tests.conftest import make_actor, make_checkpoint
from tests.fuzz.hooks import SETTING, Setting

CHECKS = (
    "not_a_server_error",
    "status_code_conformance",
    "content_type_conformance",
    "response_headers_conformance",
    "response_schema_conformance",
    "negative_data_rejection",
)
ROLES = ("invoke", "worker", "admin", "agent")
_ROOT = Path(__file__).resolve().parents[2]
_READY = re.compile(r"Remory is ready at (http://\S+)\n")
_ANSWERED = re.compile(
    r'^remory_http_requests_total{method="(\w+)",route="(/api/[^"]+)",status="(\d+)"} (\S+)$', re.MULTILINE
)
_IDLE_SECONDS = 5
_WRONG = re.compile(r"^Traceback|\b(ERROR|CRITICAL)\b", re.MULTILINE)


@dataclass(frozen=True)
class Running:
    """A server, its data folder and its log. `worker` serves the requests."""

    url: str
    data: Path
    log: Path
    worker: psutil.Process


def main() -> int:
    options = _parser().parse_args()
    print(f"seed {options.seed}", flush=True)
    seconds = max(1, int(options.minutes * 60 / 2))
    with tempfile.TemporaryDirectory(prefix="remory-fuzz-") as folder, _server(Path(folder), options.store) as server:
        complaints = _fuzz(server, "without keys", {}, seconds, options)
        keys = {role: _make_key(server, role) for role in ROLES}
        complaints += _fuzz(server, "with keys", keys, seconds, options)
    for complaint in complaints:
        print(f"fuzz: {complaint}", file=sys.stderr)
    print("fuzz: nothing found" if not complaints else f"fuzz: {len(complaints)} complaints, seed {options.seed}")
    return 1 if complaints else 0


def _fuzz(server: Running, words: str, keys: dict[str, str], seconds: int, options: argparse.Namespace) -> list[str]:
    """One run of schemathesis, and how it left the server."""
    setting = Setting(server.url, keys, words)
    _require_answers(setting)
    time.sleep(_IDLE_SECONDS)
    before, logged = _descriptors(server), server.log.stat().st_size
    command = [str(Path(sys.executable).with_name("schemathesis")), "run", f"{server.url}/openapi.json"]
    command += ["--include-path-regex", "^/api/", "--checks", ",".join(CHECKS), "--max-time", str(seconds)]
    command += ["--seed", str(options.seed), "--workers", str(options.workers), "--continue-on-failure", "--no-color"]
    # Keys and tokens are made for this run alone, and a finding without its key cannot be sent again.
    command += ["--generation-database", "none", "--suppress-health-check", "all", "--output-sanitize", "false"]
    paths = os.pathsep.join([str(_ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
    environment = {**os.environ, SETTING: setting.as_text(), "SCHEMATHESIS_HOOKS": "tests.fuzz.hooks"}
    print(f"{words}: {seconds} s", flush=True)
    # Elsewhere, because it leaves a folder where it runs.
    ended = subprocess.run(command, env=environment | {"PYTHONPATH": paths}, cwd=server.data.parent, check=False)
    complaints = [] if ended.returncode == 0 else [f"schemathesis ended with {ended.returncode}"]
    try:
        _require_answers(setting)
    except (httpx.HTTPError, AssertionError) as error:
        complaints.append(f"the server does not answer any more: {error!r}")
    print(f"{words}, answers of the server since its start:\n{_answers(setting)}", flush=True)
    time.sleep(_IDLE_SECONDS)
    complaints += _leaks(before, _descriptors(server))
    complaints += [f"the server's log: {line}" for line in _wrong_lines(server.log, logged)]
    return [f"{words}: {complaint}" for complaint in complaints]


@contextmanager
def _server(folder: Path, store: str | None) -> Iterator[Running]:
    """A server with a tiny actor, whose memories of chats are extractive."""
    actor, checkpoint = make_actor(folder / "actor"), make_checkpoint(folder / "checkpoint")
    command = [sys.executable, "-m", "remory.cli", "serve", "--port", "0", "--data", str(folder / "data")]
    command += ["--model", str(actor), "--checkpoint", str(checkpoint), *(["--store", store] if store else [])]
    log = folder / "server.log"
    with log.open("w") as file:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=file, text=True)
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        found = _READY.fullmatch(line)
        if found is None:
            raise SystemExit(f"fuzz: the server said {line!r}; its log: {log.read_text()}")
        (worker,) = psutil.Process(process.pid).children()
        yield Running(found[1], folder / "data", log, worker)
    finally:
        process.terminate()
        process.wait(30)


def _make_key(server: Running, role: str) -> str:
    command = [sys.executable, "-m", "remory.cli", "keys", "add", "--data", str(server.data)]
    # The worker acts under the invoking user's leases; the others see how that user's scopes answer strangers.
    command += ["--user", f"user-{role}", "--role", role]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


def _require_answers(setting: Setting) -> None:
    """Raises when a value that was just written is not read."""
    place = {**setting.ids, "scope": "session", "key": "still there"}
    mark = random.random()
    with httpx.Client(base_url=setting.url, headers=setting.headers("invoke"), timeout=30) as client:
        client.post("/api/v2/memory/write", json={**place, "value": mark}).raise_for_status()
        answer = client.post("/api/v2/memory/read", json=place).raise_for_status().json()
    assert answer["value"] == mark, answer


def _answers(setting: Setting) -> str:
    """How often each route has answered with which status."""
    text = httpx.get(f"{setting.url}/metrics", headers=setting.headers("invoke"), timeout=30).text
    by_route: dict[str, list[str]] = defaultdict(list)
    for method, route, status, count in _ANSWERED.findall(text):
        by_route[f"{method} {route}"].append(f"{int(float(count))} × {status}")
    return "\n".join(f"  {route}: {', '.join(sorted(counts))}" for route, counts in sorted(by_route.items()))


def _descriptors(server: Running) -> Counter[str]:
    """What the worker has open, by what it is: the store's connections are kept, so their number is bounded by the
    server's threads and says nothing.
    """
    found: Counter[str] = Counter()
    for link in Path(f"/proc/{server.worker.pid}/fd").iterdir():
        target = str(link.readlink())
        if "remory.sqlite3" not in target:
            found[target.split(":")[0]] += 1
    return found


def _leaks(before: Counter[str], after: Counter[str]) -> list[str]:
    return [f"{count} more of {target} are open than before" for target, count in (after - before).items()]


def _wrong_lines(log: Path, start: int) -> list[str]:
    """Lines of a log, from byte `start` on, that no answered request leaves there."""
    return [line for line in log.read_bytes()[start:].decode().splitlines() if _WRONG.search(line)]


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m tests.fuzz", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--minutes", type=float, default=20, help="both halves together (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=random.randrange(2**32), help="of a run to repeat")
    parser.add_argument("--store", metavar="URL", help="postgresql://… instead of SQLite")
    parser.add_argument("--workers", type=int, default=2, help="requests at once (default: %(default)s)")
    return parser


if __name__ == "__main__":
    sys.exit(main())
