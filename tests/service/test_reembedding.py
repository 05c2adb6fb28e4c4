"""Another embedding model for a store, by the command and below it, on both databases."""

from __future__ import annotations

import json
import os
import pty
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest

from remory.errors import EmbedderFailed
from remory.language.embedder import EMBEDDED_MODEL, SentenceEncoder, load_embedder
from remory_service import notes
from remory_service.config import Config, Endpoint
from remory_service.reembedding import Progress, Reembedding, StillLacking, StoredVectors, prune, stored_vectors
from remory_service.reembedding_command import run
from remory_service.runtime import Runtime
from remory_service.search import Searcher
from remory_service.store import passages
from remory_service.store.database import close_store, connection, open_store, transaction
from remory_service.texts import Texts
from tests.language.test_embedder import make_encoder
from tests.service.conftest import StartServer, store_options

SCOPE = notes.notes_of("a")
WIDTH = 32
TEXTS = [f"The backup of archive {number} runs at {number % 24} o'clock." for number in range(300)]


class Watched:
    """A real embedding model that calls `during` with the texts before it works on them."""

    def __init__(self, inner: SentenceEncoder, during: Callable[[Sequence[str]], None]):
        self.model, self.dimension = inner.model, inner.dimension
        self._inner, self._during = inner, during

    def embed(self, texts: Sequence[str]) -> np.ndarray:
        self._during(texts)
        return self._inner.embed(texts)


@pytest.fixture(scope="session")
def other_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A random BERT of 2 layers with 32 numbers a vector."""
    return make_encoder(tmp_path_factory.mktemp("encoders") / "other")


@pytest.fixture(scope="session")
def other(other_folder: Path) -> SentenceEncoder:
    return load_embedder(other_folder)


@pytest.fixture
def opened(tmp_path: Path, database_url: str | None) -> Iterator[Path]:
    """A fresh store; each use of it takes connections of its own."""
    open_store(tmp_path / "data", database_url)
    yield tmp_path / "data"
    close_store()


def texts_of(embedder: Any) -> Texts:
    return Texts(Runtime(Config(), embedder=embedder), Searcher(1 << 30))


def fill(embedder: SentenceEncoder, count: int = len(TEXTS)) -> list[str]:
    """Notes with vectors of a model; their ids."""
    vectors = texts_of(embedder).embed(TEXTS[:count])
    names = [f"{number:08}-0000-4000-8000-000000000000" for number in range(count)]
    with connection(), transaction():
        collection = passages.make_collection(SCOPE)
        for name, text, vector in zip(names, TEXTS, vectors, strict=False):
            passages.put(collection, passages.Text(name, text, b"{}", vector.by_model()), 0)
    return names


def recalled(embedder: Any, query: str, k: int = 3) -> list[tuple[str, float]]:
    found = notes.recall(texts_of(embedder), SCOPE, query, k, [], "cosine")
    return [(one.passage.text, one.score) for one in found]


def save(embedder: Any, name: str, text: str) -> None:
    notes.save(texts_of(embedder), SCOPE, name, text, b"{}", 0)


def counts() -> dict[str, int]:
    return {stored.model: stored.passages for stored in stored_vectors()}


def test_every_passage_gets_a_vector_and_the_old_ones_stay(
    opened: Path, embedder: SentenceEncoder, other: SentenceEncoder
) -> None:
    fill(embedder)
    before = recalled(embedder, TEXTS[7])
    assert recalled(other, TEXTS[7]) == []
    seen: list[tuple[int, int]] = []
    work = Reembedding(other)
    work.run(lambda progress: seen.append((progress.done, progress.left)))
    assert seen[0] == (0, 300)
    assert (300, 0) in seen
    assert all(done + left == 300 for done, left in seen)
    assert len(seen) >= 4
    assert stored_vectors() == [StoredVectors(EMBEDDED_MODEL, 384, 300), StoredVectors(other.model, WIDTH, 300)]
    assert recalled(embedder, TEXTS[7]) == before
    (text, score), *_ = recalled(other, TEXTS[7])
    assert (text, score) == (TEXTS[7], pytest.approx(1, abs=1e-6))
    again = Reembedding(other)
    again.run()
    assert again.progress == Progress()


def test_a_store_without_texts(opened: Path, other: SentenceEncoder) -> None:
    work = Reembedding(other)
    work.run()
    assert work.progress == Progress()
    assert prune(other.model) == 0
    assert stored_vectors() == [StoredVectors(other.model, WIDTH, 0)]


def test_it_goes_on_where_it_was_stopped(opened: Path, embedder: SentenceEncoder, other: SentenceEncoder) -> None:
    fill(embedder)
    asked: list[str] = []

    def stop(texts: Sequence[str]) -> None:
        if asked:
            raise KeyboardInterrupt
        asked.extend(texts)

    work = Reembedding(Watched(other, stop))
    with pytest.raises(KeyboardInterrupt):
        work.run()
    assert 0 < work.progress.done == counts()[other.model] == len(asked) < 300
    assert recalled(embedder, TEXTS[0])[0] == (TEXTS[0], 1.0)
    rest: list[str] = []
    Reembedding(Watched(other, rest.extend)).run()
    assert sorted(asked + rest) == sorted(TEXTS)
    assert counts()[other.model] == 300


def test_what_changes_meanwhile_gets_the_vector_of_its_new_text(
    opened: Path, embedder: SentenceEncoder, other: SentenceEncoder
) -> None:
    names = fill(embedder)
    turns = iter([True])

    def change(texts: Sequence[str]) -> None:
        if next(turns, False):
            # By another thread, as a server would: within the transaction of this one it would wait for ever.
            with ThreadPoolExecutor(1) as pool:
                pool.submit(save, embedder, names[3], "A text that is new.").result(timeout=30)
                pool.submit(notes.delete, SCOPE, names[4]).result(timeout=30)
                pool.submit(save, embedder, "9" * 8 + names[0][8:], "A note that came later.").result(timeout=30)

    Reembedding(Watched(other, change)).run()
    assert counts() == {EMBEDDED_MODEL: 300, other.model: 300}
    for model in (embedder, other):
        for text in ("A text that is new.", "A note that came later.", TEXTS[5]):
            assert recalled(model, text, 1)[0] == (text, pytest.approx(1, abs=1e-6))
        assert {text for text, _ in recalled(model, TEXTS[3], 100)}.isdisjoint({TEXTS[3], TEXTS[4]})


def test_texts_that_the_model_refuses_are_left_out(
    opened: Path, embedder: SentenceEncoder, other: SentenceEncoder
) -> None:
    fill(embedder)
    bad = {TEXTS[3], TEXTS[200]}

    def refuse(texts: Sequence[str]) -> None:
        if refused := bad & set(texts):
            raise EmbedderFailed(f"the model refuses {len(refused)} texts")

    work = Reembedding(Watched(other, refuse))
    work.run()
    assert work.progress == Progress(298, 0, 2, "the model refuses 1 texts")
    with pytest.raises(StillLacking, match="2 passages have no vector of other-"):
        prune(other.model)
    assert counts() == {EMBEDDED_MODEL: 300, other.model: 298}


def test_a_model_that_refuses_everything_ends_it(
    opened: Path, embedder: SentenceEncoder, other: SentenceEncoder
) -> None:
    fill(embedder)
    asked: list[Sequence[str]] = []

    def refuse(texts: Sequence[str]) -> None:
        asked.append(texts)
        raise EmbedderFailed("the model is not there")

    with pytest.raises(EmbedderFailed, match="is not there"):
        Reembedding(Watched(other, refuse)).run()
    assert len(asked) == 9
    assert counts() == {EMBEDDED_MODEL: 300, other.model: 0}


def test_a_known_name_with_another_dimension_is_refused(
    opened: Path, embedder: SentenceEncoder, other: SentenceEncoder
) -> None:
    fill(embedder, 3)
    imposter = Watched(other, lambda texts: None)
    imposter.model = embedder.model
    with pytest.raises(EmbedderFailed, match="all-MiniLM-L6-v2 gives vectors of 32 elements and the store has it with"):
        Reembedding(imposter).run()
    assert stored_vectors() == [StoredVectors(EMBEDDED_MODEL, 384, 3)]


def test_pruning(opened: Path, embedder: SentenceEncoder, other: SentenceEncoder) -> None:
    fill(embedder, 30)
    with pytest.raises(StillLacking, match="nothing is removed: 30 passages have no vector of other-"):
        prune(other.model)
    Reembedding(other).run()
    assert prune(other.model) == 30
    assert stored_vectors() == [StoredVectors(other.model, WIDTH, 30)]
    assert recalled(embedder, TEXTS[2]) == []
    assert recalled(other, TEXTS[2], 1)[0][0] == TEXTS[2]
    # And back again.
    Reembedding(embedder).run()
    assert recalled(embedder, TEXTS[2], 1)[0] == (TEXTS[2], 1.0)


# The command


def command(data: Path, store: str | None, *options: str | Path) -> list[str]:
    place = ["--data", str(data), *store_options(store)]
    return [sys.executable, "-m", "remory.cli", "reembed", *place, *map(str, options)]


def test_with_a_server_that_goes_on_with_the_old_model(
    start_server: StartServer, database_url: str | None, other_folder: Path, other: SentenceEncoder
) -> None:
    def call(method: str, **params: Any) -> Any:
        body = {"method": f"MemoryRpc.{method}", "params": {"scope": "user", **params}}
        answer = httpx.post(f"{server.url}/api/rpc", json=body, timeout=60)
        assert answer.status_code == 200, answer.text
        return answer.json()["data"]

    def closest(text: str) -> tuple[str, float]:
        (found,) = call("recallMemories", queryText=text, topK=1)["memories"]
        return found["content"], found["score"]

    server = start_server(*store_options(database_url))
    for text in TEXTS[:40]:
        call("saveMemory", memory={"content": text})
    work = subprocess.Popen(command(server.data, database_url, "--embedder", other_folder), stdout=subprocess.PIPE)
    while work.poll() is None:
        assert closest(TEXTS[11]) == (TEXTS[11], 1.0)
        call("saveMemory", memory={"content": TEXTS[len(call("listMemories", limit=100)["memories"]) % 300]})
    assert work.returncode == 0
    assert closest(TEXTS[12]) == (TEXTS[12], 1.0)
    server.process.send_signal(signal.SIGTERM)
    server.process.wait(60)
    # What was saved since.
    last = subprocess.run(
        command(server.data, database_url, "--embedder", other_folder, "--prune"), capture_output=True, text=True
    )
    assert last.returncode == 0, last.stderr
    assert f"passages got a vector of {other.model}" in last.stdout
    assert "vectors of other models were removed" in last.stdout
    assert "384" not in last.stdout
    server = start_server(*store_options(database_url), "--embedder", str(other_folder))
    assert closest(TEXTS[12])[0] == TEXTS[12]


def test_the_command_says_what_the_store_has(
    opened: Path, embedder: SentenceEncoder, database_url: str | None, other_folder: Path, capfd: Any
) -> None:
    fill(embedder, 20)
    assert run(opened, database_url, str(other_folder), "cpu", False) == 0
    shown = capfd.readouterr().out
    assert "20 passages got a vector of other-" in shown
    rows = [line.split() for line in shown.splitlines()]
    assert ["│", EMBEDDED_MODEL, "│", "384", "│", "20", "│"] in rows
    assert any(row[1:2] and row[1].startswith("other-") and row[3:] == ["32", "│", "20", "│"] for row in rows)


def test_an_endpoint_that_is_not_there(opened: Path, embedder: SentenceEncoder, database_url: str | None) -> None:
    fill(embedder, 3)
    with pytest.raises(EmbedderFailed):
        run(opened, database_url, Endpoint("http://127.0.0.1:9/v1", "somewhere"), "cpu", False)
    open_store(opened, database_url)
    assert counts() == {EMBEDDED_MODEL: 3}


def test_a_mistyped_folder_gets_no_store(tmp_path: Path) -> None:
    ended = subprocess.run(command(tmp_path / "typo", None), capture_output=True, text=True)
    assert (ended.returncode, ended.stdout) == (1, "")
    assert ended.stderr.startswith("remory: there is no store at") and ended.stderr.count("\n") == 1
    assert not (tmp_path / "typo").exists()


def test_a_folder_that_is_none_is_one_line(tmp_path: Path) -> None:
    for options in (["--embedder", tmp_path], ["--embedder", tmp_path, "--embedder-url", "u", "--embedder-model", "m"]):
        ended = subprocess.run(command(tmp_path / "data", None, *options), capture_output=True, text=True)
        assert ended.returncode == 1
        assert ended.stdout == ""
        assert ended.stderr.startswith("remory: ")
        assert ended.stderr.count("\n") == 1


def test_ctrl_c_leaves_what_is_done_and_the_bar_is_on_a_terminal(
    opened: Path, embedder: SentenceEncoder, other: SentenceEncoder, database_url: str | None, other_folder: Path
) -> None:
    fill(embedder)
    # Many texts of some length, so that it takes a while.
    with connection(), transaction():
        collection = passages.make_collection(SCOPE)
        for number in range(400):
            text = passages.Text(f"long {number}", f"{number} {TEXTS[0]} " * 120, b"{}", {})
            passages.put(collection, text, 0)
    ours, theirs = pty.openpty()
    work = subprocess.Popen(
        command(opened, database_url, "--embedder", other_folder), stderr=theirs, stdout=subprocess.PIPE
    )
    os.close(theirs)
    deadline = time.monotonic() + 120
    while counts().get(other.model, 0) == 0 and time.monotonic() < deadline:
        time.sleep(0.05)
    work.send_signal(signal.SIGINT)
    shown = b""
    try:
        while some := os.read(ours, 65536):
            shown += some
    except OSError:
        # What reading a terminal says when nobody is at its other end any more.
        pass
    os.close(ours)
    assert work.wait(60) == 130
    assert b"passages" in shown
    assert b"stopped with" in shown
    done = counts()[other.model]
    assert 0 < done < 700
    ended = subprocess.run(command(opened, database_url, "--embedder", other_folder), capture_output=True, text=True)
    assert ended.returncode == 0
    assert f"{700 - done:,} passages got a vector" in ended.stdout
    assert counts()[other.model] == 700
    assert json.dumps(ended.stderr).count("\\u001b") == 0
