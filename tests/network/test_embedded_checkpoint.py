from __future__ import annotations

from pathlib import Path

import pytest
import torch
from safetensors import safe_open

from remory.actors import actor_revision, embedded_actor, load_tokenizer
from remory.checkpoints.smollm2_tail import make_checkpoint
from remory.network import Checkpoint, embedded_checkpoint, load_checkpoint


@pytest.fixture(scope="module")
def actor() -> Path:
    return embedded_actor()


@pytest.fixture(scope="module")
def checkpoint() -> Checkpoint:
    return load_checkpoint(embedded_checkpoint(trained=False))


@pytest.fixture(scope="module")
def embeddings(actor: Path) -> torch.Tensor:
    with safe_open(actor / "model.safetensors", framework="pt") as stored:
        return stored.get_tensor("model.embed_tokens.weight")


def test_it_says_what_it_is(checkpoint: Checkpoint) -> None:
    assert checkpoint.name == "smollm2-135m-tail"
    assert not checkpoint.trained
    assert checkpoint.config["compressor"]["trained"] is False
    assert checkpoint.geometry.base == "tail"
    assert checkpoint.geometry.pointer_heads == 0
    assert checkpoint.network.dtype == torch.bfloat16
    assert "has not been trained" in (embedded_checkpoint(trained=False) / "README.md").read_text()


def test_it_fits_the_embedded_actor(checkpoint: Checkpoint, actor: Path, embeddings: torch.Tensor) -> None:
    checkpoint.check_actor(width=embeddings.shape[1], layers=30, vocabulary=embeddings.shape[0])
    assert checkpoint.config["target_revision"] == actor_revision(actor)
    rms = embeddings.float().square().mean(dim=1).sqrt().mean().item()
    assert checkpoint.config["compressor"]["output_embedding_rms"] == pytest.approx(rms, rel=1e-4)
    assert checkpoint.network.get_buffer("output_embedding_rms").item() == pytest.approx(rms, rel=4e-3)


def test_its_markers_are_the_actors_own_chat_form(checkpoint: Checkpoint, actor: Path) -> None:
    tokenizer, contract = load_tokenizer(actor), checkpoint.contract
    assert tokenizer.decode([contract.end_token_id]) == "<|im_end|>"
    before, after = contract.summary_before_ids, contract.summary_after_ids
    rendered = tokenizer.apply_chat_template(
        [{"role": "system", "content": "-"}, {"role": "user", "content": "Summary of the conversation so far:\n"}],
        tokenize=False,
    )
    assert rendered.endswith(tokenizer.decode([*before, *after]))
    rendered = rendered.replace("Summary of", "From")
    assert rendered.endswith(tokenizer.decode([*contract.memory_before_ids, *contract.memory_after_ids]))


@pytest.mark.parametrize("length", [1024, 640, 64, 10, 1])
def test_its_rows_are_the_last_tokens_embeddings(checkpoint: Checkpoint, embeddings: torch.Tensor, length: int) -> None:
    generator = torch.Generator().manual_seed(length)
    tokens = torch.randint(len(embeddings), (length,), generator=generator)
    features = torch.randn(length, 3 * 576, generator=generator)
    summary = torch.randn(12, 576, generator=generator)
    with torch.no_grad():
        rows = checkpoint.network(features, summary, 0, embeddings[tokens])
    last = tokens[(torch.arange(64) - 64 + length).clamp(min=0)]
    kept = embeddings[last].float()
    expected = (
        kept / kept.square().mean(-1, keepdim=True).sqrt() * checkpoint.network.get_buffer("output_embedding_rms")
    )
    assert rows.shape == (64, 576)
    torch.testing.assert_close(rows.float(), expected, rtol=1e-2, atol=1e-3)


def test_it_can_be_made_again_to_the_byte(tmp_path: Path) -> None:
    make_checkpoint(tmp_path / "again")
    packaged = {path.name: path.read_bytes() for path in embedded_checkpoint(trained=False).iterdir()}
    assert {path.name: path.read_bytes() for path in (tmp_path / "again").iterdir()} == packaged
