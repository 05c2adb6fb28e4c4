"""The trainer: exact to resume, the same by seed, refusing what does not fit, for actors of both families."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from remory.actors import load_tokenizer
from remory.errors import CheckpointError, InvalidInput
from remory.network import load_checkpoint
from remory.training.check import Check
from remory.training.phrasing import Phrasing
from remory.training.samples import Part, draw_sample
from remory.training.trainer import Trainer
from tests.conftest import make_actor
from tests.training.conftest import SIZES, make_settings, read_state, same

WITHOUT_TOOLS = (
    "{{ bos_token }}{% for m in messages %}{% if m.role == 'system' %}[SYS]{{ m.content }}[/SYS]"
    "{% elif m.role == 'user' %}[INST]{{ m.content }}[/INST]"
    "{% elif m.role == 'assistant' %}{% if loop.last %}<think></think>{% endif %}{{ m.content }}{{ eos_token }}"
    "{% else %}{{ raise_exception('no role ' + m.role) }}{% endif %}{% endfor %}"
)


def train(folder: Path, actor: Path, stop: int | None = None, **changes) -> Trainer:
    trainer = Trainer(folder, actor, make_settings(**changes))
    for progress in trainer.run():
        if progress.step == stop:
            break
    trainer.save_state()
    return trainer


@pytest.fixture(scope="module")
def whole(tiny_actor: Path, tmp_path_factory: pytest.TempPathFactory) -> Trainer:
    """A run that nothing interrupted."""
    return train(tmp_path_factory.mktemp("runs") / "whole", tiny_actor)


def test_a_resumed_run_ends_with_the_same_bits(whole: Trainer, tiny_actor: Path, tmp_path: Path) -> None:
    first = train(tmp_path, tiny_actor, stop=1)
    assert first.step == 1 and not same(read_state(tmp_path), read_state(whole.folder))
    second = Trainer(tmp_path, tiny_actor, make_settings())
    assert second.step == 1 and second.samples == 1 and second.seconds > 0
    assert [progress.step for progress in second.run()] == [2]
    second.save_state()
    assert same(read_state(tmp_path), read_state(whole.folder))


def test_a_seed_gives_the_same_weights_twice(whole: Trainer, tiny_actor: Path, tmp_path: Path) -> None:
    again, other = train(tmp_path / "again", tiny_actor), train(tmp_path / "other", tiny_actor, seed=4)
    assert same(read_state(again.folder), read_state(whole.folder))
    assert not same(read_state(other.folder), read_state(whole.folder))


def test_a_step_that_is_dropped_changes_nothing(whole: Trainer, tiny_actor: Path, tmp_path: Path) -> None:
    drops = iter([True, False, False])

    @contextmanager
    def droppable() -> Iterator[None]:
        yield
        if next(drops):
            raise KeyboardInterrupt

    trainer = Trainer(tmp_path, tiny_actor, make_settings(), droppable=droppable)
    with pytest.raises(KeyboardInterrupt):
        next(trainer.run())
    assert trainer.step == 0
    assert [progress.step for progress in trainer.run()] == [1, 2]
    trainer.save_state()
    assert same(read_state(tmp_path), read_state(whole.folder))


def test_weights_change_but_the_actor_does_not(tiny_actor: Path, tmp_path: Path) -> None:
    # Long enough for facts to be told, in this actor's short tokens.
    settings = make_settings(stage={"tokens": 512, "batch": 2})
    trainer, fresh = (Trainer(tmp_path, tiny_actor, settings) for _ in range(2))
    assert any("answer" in progress.figures for progress in trainer.run())
    changed = {n for n, p in fresh.network.named_parameters() if not p.equal(trainer.network.get_parameter(n))}
    assert {"fc.weight", "salience.score", "pointer.value", "layers.0.self_attn.q_proj.weight"} <= changed
    assert fresh.actor.embedding.weight.equal(trainer.actor.embedding.weight)
    assert trainer.actor.embedding.weight.grad is None


@pytest.mark.parametrize("strategy", ["frontier", "reencode"])
def test_two_compactions_and_stages_without_questions(tiny_actor: Path, tmp_path: Path, strategy: str) -> None:
    stages = [
        {"steps": 1, "batch": 2, "tokens": 64, "questions": 0, "pool": 2},
        {"steps": 1, "batch": 1, "tokens": 256, "questions": 3, "second_compactions": 1.0, "continuations": 1.0},
    ]
    trainer = Trainer(
        tmp_path, tiny_actor, make_settings(stages=stages, network=SIZES | {"ratio": 8, "strategy": strategy})
    )
    first, second = trainer.run()
    assert "answer" not in first.figures and first.figures["salience"] > 0
    assert second.figures["loss"] > 0 and second.samples == 3


@pytest.mark.parametrize(
    ("changes", "named"),
    [({"learning_rate": 1e-5}, "learning_rate"), ({"network": SIZES | {"intermediate": 32}}, "network")],
)
def test_a_state_of_other_settings_is_refused(whole: Trainer, tiny_actor: Path, changes, named: str) -> None:
    with pytest.raises(CheckpointError, match=f"other {named}: .*--restart"):
        Trainer(whole.folder, tiny_actor, make_settings(**changes))


def test_a_state_of_another_actor_or_start_is_refused(whole: Trainer, tiny_actor: Path, tmp_path: Path) -> None:
    whole.save_checkpoint(tmp_path / "checkpoint")
    with pytest.raises(CheckpointError, match="other start"):
        Trainer(whole.folder, tiny_actor, make_settings(), start=tmp_path / "checkpoint")
    torch.manual_seed(5)
    other = make_actor(tmp_path / "other", "qwen2")
    with pytest.raises(CheckpointError, match="other actor"):
        Trainer(whole.folder, other, make_settings())


def test_a_damaged_state_is_refused(whole: Trainer, tiny_actor: Path, tmp_path: Path) -> None:
    content = (whole.folder / Trainer.STATE).read_bytes()
    (tmp_path / Trainer.STATE).write_bytes(content[: len(content) // 2])
    with pytest.raises(CheckpointError, match="damaged.*--restart"):
        Trainer(tmp_path, tiny_actor, make_settings())


def test_the_checkpoint_fits_its_actor(whole: Trainer, tmp_path: Path) -> None:
    (tmp_path / "checkpoint").mkdir()
    (tmp_path / "checkpoint" / "old").touch()
    whole.save_checkpoint(tmp_path / "checkpoint", "a card")
    found = load_checkpoint(tmp_path / "checkpoint")
    assert found.trained and found.layer_ids == (1, 2) and found.ratio == 4 and found.block_tokens == 512
    found.check_actor(width=64, layers=4, vocabulary=whole.actor.vocabulary)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["checkpoint"]
    assert (tmp_path / "checkpoint" / "README.md").read_text() == "a card"
    assert not (tmp_path / "checkpoint" / "old").exists()
    weight = whole.network.get_parameter("fc.weight").detach()
    assert found.network.get_parameter("fc.weight").float().allclose(weight, rtol=1e-2)


def test_a_frontier_keeps_the_rows_before_and_reads_on_under_them(tiny_actor: Path, tmp_path: Path) -> None:
    trainer = Trainer(tmp_path, tiny_actor, make_settings(stage={"tokens": 256}))
    trainer.network.geometry = replace(trainer.network.geometry, block_tokens=256)
    sample = draw_sample("a", "b", trainer.settings.stages[0], (256, 256), trainer.phrasing)
    first, second = sample.parts

    def rows(*parts: Part) -> torch.Tensor:
        encoded = trainer.objective.encode(trainer.network, replace(sample, parts=parts), 0.0, random.Random(1))
        return encoded.rows.detach()

    both, alone = rows(first, second), rows(first)
    assert both.shape == (128, 64)
    assert both[:64].equal(alone)
    # The same new history is other states behind other rows.
    assert not both[64:].equal(rows(second)) and not both[64:].equal(rows(second, second)[64:])
    encoded = trainer.objective.encode(trainer.network, sample, 0.0, random.Random(1))
    assert {origin[0] for origin in encoded.origins if origin} == {0, 1}


def test_the_head_without_a_memory_is_the_beginning_of_the_one_with_it(tiny_actor: Path, tmp_path: Path) -> None:
    trainer = Trainer(tmp_path, tiny_actor, make_settings())
    sample = draw_sample("a", "b", trainer.settings.stages[0], (64,), trainer.phrasing)
    bare = trainer.objective.bare_head(sample)
    head = trainer.objective.head(sample, torch.zeros(16, 64))
    assert len(bare) < len(head) - 16 and head[: len(bare)].equal(bare)


def test_a_checkpoint_has_the_copy_path_at_its_strength(tiny_actor: Path, tmp_path: Path) -> None:
    trainer = Trainer(tmp_path / "run", tiny_actor, make_settings(strength=0.5))
    trained = trainer.network.get_parameter("pointer.value").detach().clone()
    trainer.save_checkpoint(tmp_path / "checkpoint")
    saved = load_checkpoint(tmp_path / "checkpoint").network.get_parameter("pointer.value").float()
    assert saved.allclose(trained / 2, rtol=1e-2) and saved.count_nonzero()
    assert trainer.network.get_parameter("pointer.value").equal(trained)
    # A run that starts there begins with what it was given.
    again = Trainer(tmp_path / "again", tiny_actor, make_settings(strength=0.5), start=tmp_path / "checkpoint")
    again.save_checkpoint(tmp_path / "copy")
    assert load_checkpoint(tmp_path / "copy").network.get_parameter("pointer.value").float().equal(saved)


def test_a_stage_has_a_share_of_the_learning_rate(tiny_actor: Path, tmp_path: Path) -> None:
    rates = []
    for share in (1.0, 0.25):
        settings = make_settings(stage={"steps": 1, "tokens": 64, "questions": 0, "rate": share})
        (step,) = Trainer(tmp_path / str(share), tiny_actor, settings).run()
        rates.append(step.figures["rate"])
    assert rates[1] == pytest.approx(rates[0] / 4)


def test_merged_blocks_have_as_many_rows(tiny_actor: Path, tmp_path: Path) -> None:
    stage = {"steps": 1, "tokens": 512, "merges": 1.0}
    trainer = Trainer(tmp_path, tiny_actor, make_settings(stage=stage, network=SIZES | {"ratio": 16}))
    (step,) = trainer.run()
    assert step.figures["unrelated"] > 0
    geometry = trainer.network.geometry
    assert (geometry.block_tokens, geometry.compression_ratio, geometry.slots) == (128, 4, 32)
    sample = draw_sample("a", "b", trainer.settings.stages[0], (512,), trainer.phrasing)
    encoded = trainer.objective.encode_merged(trainer.network, sample, 0.0, random.Random(1))
    assert encoded.rows.shape == (32, 64)
    # Rows of a parent start from rows, and those from tokens all over the part.
    places = {place for origin in encoded.origins if origin for place in origin[1:]}
    assert places <= set(range(len(sample.parts[0].ids))) and max(places) - min(places) > 256


def test_merges_without_questions_train_the_choice(tiny_actor: Path, tmp_path: Path) -> None:
    stage = {"steps": 1, "tokens": 512, "merges": 1.0, "questions": 0}
    (step,) = Trainer(tmp_path, tiny_actor, make_settings(stage=stage, network=SIZES | {"ratio": 16})).run()
    assert step.figures["salience"] > 0 and "answer" not in step.figures


def test_a_run_starts_with_the_weights_of_a_checkpoint(whole: Trainer, tiny_actor: Path, tmp_path: Path) -> None:
    start = tmp_path / "checkpoint"
    whole.save_checkpoint(start)
    trainer = Trainer(tmp_path / "run", tiny_actor, make_settings(seed=9), start=start)
    stated = load_checkpoint(start, dtype=torch.float32).network
    assert all(value.equal(trainer.network.get_parameter(name)) for name, value in stated.named_parameters())
    assert trainer.network.get_buffer("pointer.idf").equal(stated.get_buffer("pointer.idf"))
    with pytest.raises(CheckpointError, match="intermediate_size 64 instead of 32"):
        Trainer(tmp_path / "run", tiny_actor, make_settings(network=SIZES | {"intermediate": 32}), start=start)
    with pytest.raises(CheckpointError, match=r"layers \[1, 2\], the settings say \[0, 2\]"):
        Trainer(tmp_path / "run", tiny_actor, make_settings(network=SIZES | {"layers": [0, 2]}), start=start)


@pytest.mark.parametrize("family", ["qwen2", "qwen3", "llama"])
def test_actors_of_both_families(family: str, tmp_path: Path) -> None:
    actor = make_actor(tmp_path / family, family)
    if family != "llama":
        tokenizer = load_tokenizer(actor)
        tokenizer.chat_template = WITHOUT_TOOLS
        tokenizer.save_pretrained(actor)
    trainer = Trainer(tmp_path / "run", actor, make_settings(stage={"steps": 1}), dtype=torch.bfloat16)
    (step,) = trainer.run()
    assert 0 < step.figures["loss"] < 50 and step.figures["gradient"] > 0


def test_a_template_without_a_tool_role(tiny_actor: Path) -> None:
    tokenizer = load_tokenizer(tiny_actor)
    tokenizer.chat_template = WITHOUT_TOOLS
    phrasing = Phrasing(tokenizer)
    assert phrasing.around("tool") == phrasing.around("user") == ("[INST]", "[/INST]")
    # As it stands in the middle of a conversation, not at its end.
    assert phrasing.around("assistant") == ("", "<|im_end|>")
    assert phrasing.end_ids == tokenizer.convert_tokens_to_ids(["<|im_end|>"])


def test_actors_and_settings_that_do_not_fit(tiny_actor: Path, tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match=r"layer 4 is to be read; the actor has 4 \(from 0\)"):
        Trainer(tmp_path, tiny_actor, make_settings(network=SIZES | {"layers": [1, 4]}))
    with pytest.raises(InvalidInput, match="float16.*--dtype"):
        Trainer(tmp_path, tiny_actor, make_settings(), dtype=torch.float16)
    long = make_settings(network=SIZES | {"block_tokens": 2048, "memory_budget": 4096}, stage={"tokens": 2048})
    with pytest.raises(InvalidInput, match="sessions of 2048 tokens and 512 around them.*context has 2048"):
        Trainer(tmp_path, tiny_actor, long)


def test_the_check_takes_the_messages_that_fit(whole: Trainer) -> None:
    check = Check(whole.phrasing, 512)
    assert check.samples and all(len(sample.parts[0].ids) <= 512 for sample in check.samples)
    figures = whole.check(check)
    assert set(figures) == {"loss", "exact", "loss_other", "exact_other", "harm"}
    assert figures["loss"] > 0 and 0 <= figures["exact"] <= 1
    assert whole.network.geometry.block_tokens == 512
    assert not Check(whole.phrasing, 16).samples
