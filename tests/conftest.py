"""Small real parts for the tests: actors of the two families, a memory checkpoint that fits them, databases."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from remory.language.embedder import SentenceEncoder, load_embedder
from remory.network import Geometry, MemoryNetwork, embedded_checkpoint, load_checkpoint, save_checkpoint
from remory_service.store.database import close_store
from tests.databases import PostgresqlServer

os.environ.setdefault("HF_HUB_OFFLINE", "1")

# What `remory serve` is told by tests that start it, so that one suite runs against both engines.
SERVE_OPTIONS: list[str] = []
# An interpreter that has SGLang and Remory: a chosen one, or that of `make setup-sglang`.
SGLANG_PYTHON = Path(
    os.environ.get("REMORY_SGLANG_PYTHON") or Path(__file__).parents[1] / ".venv-sglang" / "bin" / "python"
)

WIDTH = 64
CONTEXT = 2048
BLOCK = 64
RATIO = 8
CHAT_TEMPLATE = (
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n{{ message['content'] }}"
    "{% for call in message.get('tool_calls') or [] %}\n{{ call['function'] | tojson }}{% endfor %}"
    "<|im_end|>\n{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
_TEXT = [
    "The build takes 41 seconds and 3 tests fail in the parser.",
    "We decided to keep the port 8421 and to write the receipt after the rows.",
    "user assistant tool system summary memory of the conversation so far",
    "ls -la src/ tests/ docs/ README.md Makefile; grep -n error log.txt",
]


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--backend",
        choices=("transformers", "sglang"),
        default="transformers",
        help="what runs the actor of the servers that tests start; sglang needs `make setup-sglang`",
    )


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("--backend") == "sglang":
        # Prompts of more than 64 tokens are read in pieces, as long ones are in earnest.
        SERVE_OPTIONS.extend(["--backend", "sglang", "--sglang-python", str(SGLANG_PYTHON)])
        SERVE_OPTIONS.extend(["--", "--chunked-prefill-size", "64"])


def make_tokenizer() -> Any:
    """A byte-level tokenizer of 384 tokens with the ChatML markers."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=384,
        special_tokens=["<|endoftext|>", "<|im_start|>", "<|im_end|>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(_TEXT * 8, trainer)
    fast = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, eos_token="<|im_end|>", unk_token="<|endoftext|>", model_max_length=CONTEXT
    )
    fast.chat_template = CHAT_TEMPLATE
    return fast


def make_actor(folder: Path, family: str = "llama") -> Path:
    """Write a Hugging Face folder with a random actor of 4 layers; `family` is llama or qwen3."""
    from transformers import AutoConfig, AutoModelForCausalLM

    tokenizer = make_tokenizer()
    config = AutoConfig.for_model(
        family,
        vocab_size=len(tokenizer),
        hidden_size=WIDTH,
        intermediate_size=128,
        num_hidden_layers=4,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=16,
        max_position_embeddings=CONTEXT,
        tie_word_embeddings=True,
        bos_token_id=1,
        eos_token_id=2,
        pad_token_id=2,
        initializer_range=0.2,
    )
    torch.manual_seed(7)
    model = AutoModelForCausalLM.from_config(config, dtype=torch.float32)
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def make_checkpoint(
    folder: Path,
    *,
    budget: int = 64,
    conditioned: bool = True,
    strategy: str | None = None,
    schema: str = "remory.memory.v1",
) -> Path:
    """Write a random checkpoint for `make_actor`: blocks of 64 tokens, 8 rows each."""
    geometry = Geometry(
        hidden_size=WIDTH,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=16,
        intermediate_size=96,
        num_hidden_layers=2,
        layers_captured=2,
        block_tokens=BLOCK,
        compression_ratio=RATIO,
        local_window=32,
        max_depth=4,
        summary_conditioned=conditioned,
    )
    network = MemoryNetwork(geometry, output_embedding_rms=0.2, summary_gate_init=0.5, seed=11)
    compressor = {
        "target_hidden_size": WIDTH,
        "hidden_size": WIDTH,
        "target_layer_ids": [1, 2],
        "compression_ratio": RATIO,
        "local_window": 32,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "head_dim": 16,
        "intermediate_size": 96,
        "layer_types": ["sliding", "full"],
        "output_embedding_rms": 0.2,
        "max_depth": 4,
        "base": None,
        "pointer": None,
        "trained": False,
    }
    if conditioned:
        compressor["summary_gate_init"] = 0.5
    residual: dict[str, Any] = {"block_tokens": BLOCK, "compression_ratio": RATIO, "memory_budget": budget}
    if strategy is not None:
        residual["strategy"] = strategy
    tokenizer = make_tokenizer()

    def ids(text: str) -> list[int]:
        return tokenizer.encode(text, add_special_tokens=False)

    config = {
        "schema": schema,
        "target_model": "tiny",
        "target_revision": "test",
        "compressor": compressor,
        "residual": residual,
        "summary_contract": {
            "end_token_id": 2,
            "student_summary_before_ids": ids("<|im_start|>user\nSummary:\n"),
            "student_summary_after_ids": ids("<|im_end|>\n"),
            "student_memory_before_ids": ids("<|im_start|>user\nMemory:\n"),
            "student_memory_after_ids": ids("<|im_end|>\n"),
            "prompt": "Summarise the conversation.",
            "output_schema": None,
        },
    }
    save_checkpoint(folder, network, config)
    return folder


@pytest.fixture(scope="session")
def tiny_actor(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_actor(tmp_path_factory.mktemp("actors") / "tiny-llama")


@pytest.fixture(scope="session")
def tiny_qwen(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_actor(tmp_path_factory.mktemp("actors") / "tiny-qwen3", "qwen3")


@pytest.fixture(scope="session")
def tiny_checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_checkpoint(tmp_path_factory.mktemp("checkpoints") / "tiny")


@pytest.fixture(scope="session")
def tiny_frontier(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A network that reads no summary, so that it keeps its frontier."""
    return make_checkpoint(tmp_path_factory.mktemp("checkpoints") / "tiny-frontier", conditioned=False)


@pytest.fixture(scope="session")
def tiny_keeping(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A network that reads the summary and keeps its frontier because its configuration says so."""
    return make_checkpoint(tmp_path_factory.mktemp("checkpoints") / "tiny-keeping", strategy="frontier")


@pytest.fixture(scope="session")
def embedded() -> tuple[Path, Any]:
    """The actor and the untrained checkpoint that come with the package."""
    from remory.actors import embedded_actor

    return embedded_actor(), load_checkpoint(embedded_checkpoint(trained=False))


@pytest.fixture(scope="session")
def embedder() -> SentenceEncoder:
    """The embedding model that comes with the package."""
    return load_embedder()


@pytest.fixture(scope="session")
def postgresql() -> Iterator[PostgresqlServer]:
    """One PostgreSQL server for all tests; who stops it starts it again."""
    server = PostgresqlServer()
    yield server
    server.close()


@pytest.fixture
def postgresql_url(postgresql: PostgresqlServer) -> Iterator[str]:
    """A fresh PostgreSQL database."""
    with postgresql.fresh() as url:
        yield url
        close_store()


@pytest.fixture(params=["sqlite", "postgresql"])
def database_url(request: pytest.FixtureRequest) -> str | None:
    """Runs a test on both databases: None for SQLite in the data folder, and the URL of a fresh PostgreSQL database."""
    return None if request.param == "sqlite" else request.getfixturevalue("postgresql_url")
