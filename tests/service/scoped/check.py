"""A long run of the linearizability check: `python -m tests.service.scoped.check --operations 100000`.

It starts servers with a tiny actor on a fresh store, lets clients work on a few entries, and checks every answer and
the change feed. The exit code is 1 when something is wrong.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from tests.service.scoped.clients import FeedReader, Load, Record, Run
from tests.service.scoped.linearizability import check, check_feed

_SHOWN = 20


def main() -> int:
    """Run the check as the command line says; the exit code."""
    arguments = _arguments()
    with _urls(arguments.store, arguments.servers) as urls:
        load = Load(urls, "shared", arguments.operations, arguments.clients, arguments.seed)
        with Run(load) as run:
            record = run.result(lambda done: _say_progress(done, arguments.operations))
        changes = FeedReader(urls).read_on()
    print(f"\n{_figures(record, arguments)}; the feed has {len(changes)} changes", flush=True)
    begin = time.monotonic()
    found = record.unexpected + [str(violation) for violation in check(record.operations)]
    found += [str(violation) for violation in check_feed(record.operations, changes)]
    print(f"{len(found)} violations, looked for in {time.monotonic() - begin:.1f} s")
    for one in found[:_SHOWN]:
        print(one)
    return 1 if found else 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--operations", type=int, default=100_000, help="of all clients together (default 100000)")
    parser.add_argument("--clients", type=int, default=8, help="client processes (default 8)")
    parser.add_argument("--servers", type=int, default=2, help="servers on the one store (default 2)")
    parser.add_argument("--store", choices=("sqlite", "postgresql"), default="sqlite", help="default sqlite")
    parser.add_argument("--seed", type=int, default=0, help="of what the clients choose to do (default 0)")
    return parser.parse_args()


@contextmanager
def _urls(store: str, count: int) -> Iterator[tuple[str, ...]]:
    """Servers on a fresh store, as long as the block lasts; their URLs."""
    # Not at the top: every client process imports this module, and has no use for the libraries that make an actor.
    from tests.conftest import make_actor, make_checkpoint
    from tests.databases import PostgresqlServer
    from tests.service.conftest import launch

    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="remory-check-")))
        actor, checkpoint = make_actor(folder / "actor"), make_checkpoint(folder / "checkpoint")
        options: list[str] = []
        if store == "postgresql":
            postgresql = PostgresqlServer()
            stack.callback(postgresql.close)
            options = ["--store", stack.enter_context(postgresql.fresh())]
        servers = []
        for _ in range(count):
            servers.append(launch(folder, folder / "data", actor, checkpoint, *options))
            stack.callback(servers[-1].kill)
        yield tuple(server.url for server in servers)


def _say_progress(done: int, operations: int) -> None:
    print(f"\r{done} of {operations} operations", end="", flush=True)


def _figures(record: Record, arguments: argparse.Namespace) -> str:
    outcomes = Counter(f"{one.action} {one.outcome}" for one in record.operations)
    parts = ", ".join(f"{number} {name}" for name, number in outcomes.most_common())
    count, seconds = arguments.operations, record.seconds
    return f"{arguments.store}: {count} operations in {seconds:.0f} s, {count / seconds:.0f} a second ({parts})"


if __name__ == "__main__":
    sys.exit(main())
