"""Own data: what is read and refused, the samples it gives, and the cache of what the actor made of it."""

from __future__ import annotations

import json
import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from remory.actors import actor_revision, load_tokenizer
from remory.errors import InvalidInput
from remory.training.actor import Strand, Teacher, TrainingActor
from remory.training.cache import TensorCache
from remory.training.documents import Documents, read_documents
from remory.training.phrasing import Phrasing
from remory.training.sources import Own, Sources
from remory.training.spans import SpanChooser
from remory.training.trainer import Trainer
from tests.training.conftest import STAGE, make_settings, read_state, same

ROUTINE = "The pump in the cellar runs at night, and the valve beside it is checked by the morning shift. "
RARE = "Its serial is QX-4471-Zebra, bought in Valparaiso. "
MESSAGES = [
    {"role": "system", "content": "You keep the plant running."},
    {"role": "user", "content": "Look after the pump."},
    {"role": "assistant", "content": "I shall."},
    {"role": "tool", "content": ROUTINE},
    {"role": "assistant", "content": None, "tool_calls": [{"function": {"name": "open", "arguments": "{}"}}]},
]


@pytest.fixture(scope="module")
def actor(tiny_actor: Path) -> TrainingActor:
    return TrainingActor(tiny_actor, [1, 2], "cpu")


@pytest.fixture(scope="module")
def phrasing(tiny_actor: Path) -> Phrasing:
    return Phrasing(load_tokenizer(tiny_actor))


@pytest.fixture
def texts(tmp_path: Path) -> Path:
    folder = tmp_path / "texts"
    (folder / "deeper").mkdir(parents=True)
    (folder / "pump.txt").write_text(ROUTINE * 2 + RARE + ROUTINE)
    (folder / "deeper" / "bees.md").write_text(
        "# Bees\n\n" + "Bees fly from the hive to the clover and back again. " * 6
    )
    (folder / "image.png").write_bytes(b"\x89PNG")
    return folder


def read(paths: list[Path], phrasing: Phrasing, revision: str = "here") -> Documents:
    return read_documents(paths, phrasing, 384, revision)


def write_lines(path: Path, *records: Any) -> Path:
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    return path


def make_sources(texts: Path, phrasing: Phrasing, actor: TrainingActor, cache: Path, limit: int = 1 << 20) -> Sources:
    documents = read([texts], phrasing)
    return Sources(documents, phrasing, actor, TensorCache(cache, "tiny", limit), torch.rand(384), 4)


def test_folders_are_read_in_order(texts: Path, phrasing: Phrasing) -> None:
    documents = read([texts], phrasing)
    assert len(documents.documents) == 2 and all(document.bare for document in documents.documents)
    bees, pump = documents.documents
    assert phrasing.tokenizer.decode(bees.ids.tolist()).startswith("# Bees")
    assert phrasing.tokenizer.decode(pump.ids.tolist()) == (ROUTINE * 2 + RARE + ROUTINE).strip()
    assert documents.digest == read([texts / "deeper", texts / "pump.txt"], phrasing).digest
    (texts / "pump.txt").write_text("Something else altogether.")
    assert documents.digest != read([texts], phrasing).digest


def test_transcripts_as_messages_and_as_ids(tmp_path: Path, phrasing: Phrasing) -> None:
    ids = {"prefix_ids": [5, 6], "history_ids": [7, 8], "continuation_ids": [9], "actor_revision": "here"}
    path = write_lines(tmp_path / "t.jsonl", {"messages": MESSAGES}, ids, {"history_ids": [4] * 30})
    said, told, bare = read([path], phrasing).documents
    rendered = phrasing.tokenizer.apply_chat_template(MESSAGES[:4], tokenize=False)
    assert phrasing.tokenizer.decode([*said.prefix, *said.ids]).startswith(rendered)
    assert '{"name": "open", "arguments": "{}"}' in phrasing.tokenizer.decode(said.ids.tolist())
    assert (told.prefix, told.ids.tolist()) == ((5, 6), [7, 8, 9])
    assert bare.prefix and bare.prefix != (5, 6)


@pytest.mark.parametrize(
    ("record", "message"),
    [
        ({"history_ids": [4], "actor_revision": "there"}, "revision there, the actor here is here"),
        ({"history_ids": [4, 384]}, "within 0 to 383.*got 4 to 384"),
        ({"history_ids": [4, "5"]}, "list of integers"),
        ({"messages": []}, "at least one message"),
        ({"messages": [{"role": "narrator", "content": "x"}]}, "role of assistant, system, tool, user"),
        ({"messages": [{"role": "user", "content": 5}]}, "content must be text, got 5"),
        ({"text": "x"}, "needs messages or history_ids, got text"),
        (["x"], "must hold an object, got a list"),
    ],
)
def test_lines_that_are_refused(tmp_path: Path, phrasing: Phrasing, record: Any, message: str) -> None:
    path = write_lines(tmp_path / "t.jsonl", {"messages": MESSAGES}, record)
    with pytest.raises(InvalidInput, match=f"t.jsonl, line 2: .*{message}"):
        read([path], phrasing)


def test_files_that_are_refused(tmp_path: Path, phrasing: Phrasing) -> None:
    (tmp_path / "a.csv").touch()
    (tmp_path / "b.txt").write_bytes(b"\xff\xfe\xfa")
    (tmp_path / "empty").mkdir()
    for name, message in [
        ("a.csv", "ends in none"),
        ("b.txt", "not UTF-8"),
        ("empty", "holds no file"),
        ("c", "no file"),
    ]:
        with pytest.raises(InvalidInput, match=message):
            read([tmp_path / name], phrasing)


def test_spans_are_rare_whole_words_behind_their_cue(phrasing: Phrasing) -> None:
    ids = phrasing.encode(ROUTINE + RARE + ROUTINE)
    idf = torch.rand(384, generator=torch.Generator().manual_seed(1))
    spans = SpanChooser(phrasing, idf).choose(random.Random(2), ids, 6)
    assert spans and len(SpanChooser(phrasing, idf).choose(random.Random(2), ids, 1)) == 1
    text = phrasing.tokenizer.decode(ids)
    taken: set[int] = set()
    for span in spans:
        assert 3 <= span.stop - span.start <= 8 and 6 <= span.start - span.cue <= 12
        assert span.quote + " " + span.answer in text or span.quote + span.answer in text
        cue = ids[span.cue : span.start]
        assert sum(ids[place : place + len(cue)] == cue for place in range(len(ids))) == 1
        assert set(range(span.start, span.stop)) <= span.marked <= set(range(span.cue, span.stop))
        assert not taken & set(range(span.start, span.stop))
        taken |= set(range(span.start, span.stop))
    rarest = idf[[ids[place] for place in taken]].mean()
    assert rarest > idf[ids].mean() + 0.05


def test_spans_do_not_cross_messages(phrasing: Phrasing) -> None:
    end = phrasing.end_ids[0]
    ids = [token for _ in range(8) for token in [*phrasing.encode("The port is 8421 now and it stays so"), end]]
    ids += phrasing.encode(RARE + ROUTINE)
    for seed in range(5):
        for span in SpanChooser(phrasing, torch.rand(384)).choose(random.Random(seed), ids, 4):
            assert end not in ids[span.cue : span.stop]


def test_samples_are_the_same_by_seed(texts: Path, phrasing: Phrasing, actor: TrainingActor, tmp_path: Path) -> None:
    sources = make_sources(texts, phrasing, actor, tmp_path / "cache")
    stage = replace_stage(tokens=128, questions=3)
    drawn = [sources.draw(f"seed {number}", stage, (stage.tokens,)) for number in range(6)]
    assert drawn == [sources.draw(f"seed {number}", stage, (stage.tokens,)) for number in range(6)]
    assert len({sample.parts[0].ids for sample in drawn}) > 1
    for sample in drawn:
        (part,) = sample.parts
        assert len(part.ids) <= 128 and part.features is not None and part.features.shape == (1, len(part.ids), 128)
        for question in sample.questions:
            strand = question.strand
            answer = phrasing.tokenizer.decode(strand.ids[strand.scored : -1])
            assert answer in phrasing.tokenizer.decode(part.ids) and strand.ids[-1] == phrasing.end_ids[0]
            assert phrasing.tokenizer.decode([part.ids[place] for place in question.places]).strip() == answer
            assert all(part.marked[place] for place in question.places)
        assert sample.unrelated and sample.unrelated[0].teacher is None
    assert any(sample.questions for sample in drawn) and any(sample.following for sample in drawn)


def test_what_follows_is_taught_by_who_read_it_all(
    texts: Path, phrasing: Phrasing, actor: TrainingActor, tmp_path: Path
) -> None:
    sources = make_sources(texts, phrasing, actor, tmp_path / "cache")
    sample = next(s for n in range(20) if (s := sources.draw(str(n), replace_stage(tokens=64), (64,))).following)
    (strand,) = sample.following
    assert strand.teacher is not None and strand.teacher.logs.shape == (len(strand.ids) - strand.scored, 32)
    head = actor.embedding(torch.tensor([*sample.prefix, *sample.parts[0].ids]))
    plain = replace(strand, teacher=None)
    ((taught, told),), _ = actor.losses([head], [[strand, plain]])
    # Behind the whole text the actor agrees with itself: of the loss only the part for the next token is left.
    assert torch.allclose(taught, 0.2 * told, atol=1e-4)
    wrong = Teacher(strand.teacher.ids, strand.teacher.logs.roll(1, 1))
    ((worse,),), _ = actor.losses([head], [[Strand(strand.ids, strand.scored, wrong)]])
    assert worse.mean() > taught.mean()


def test_two_parts_follow_each_other(texts: Path, phrasing: Phrasing, actor: TrainingActor, tmp_path: Path) -> None:
    (texts / "long.txt").write_text((ROUTINE + RARE) * 12)
    sources = make_sources(texts / "long.txt", phrasing, actor, tmp_path / "cache")
    first, second = sources.draw("a", replace_stage(tokens=256), (256, 144)).parts
    assert len(first.ids) <= 256 and len(second.ids) <= 144
    before, after = (len(phrasing.encode(text)) for text in phrasing.around("user"))
    text = phrasing.tokenizer.decode([*first.ids[before:-after], *second.ids[before:-after]])
    assert text in (ROUTINE + RARE) * 12


def test_too_little_text_is_refused(phrasing: Phrasing, actor: TrainingActor, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("Hello.")
    with pytest.raises(InvalidInput, match="at least 24 tokens; the longest has"):
        make_sources(tmp_path / "a.txt", phrasing, actor, tmp_path / "cache")


def test_a_cache_gives_back_the_same_bits(tmp_path: Path) -> None:
    made = {"a": torch.randn(3, 5).bfloat16(), "b": torch.arange(4)}
    calls = []

    def compute() -> dict[str, torch.Tensor]:
        calls.append(1)
        return made

    cache = TensorCache(tmp_path, "x", 1 << 20)
    for opened in (cache, cache, TensorCache(tmp_path, "x", 1 << 20)):
        assert same(opened.get("kind", [[1, 2]], compute), made)
    assert len(calls) == 1
    for other in (
        TensorCache(tmp_path, "y", 1 << 20).get("kind", [[1, 2]], compute),
        cache.get("k", [[1, 2]], compute),
    ):
        assert same(other, made)
    cache.get("kind", [[1], [2]], compute)
    assert len(calls) == 4


@pytest.mark.parametrize("cut", [True, False])
def test_a_damaged_file_is_computed_again(tmp_path: Path, cut: bool) -> None:
    made = {"a": torch.ones(64)}
    cache = TensorCache(tmp_path, "x", 1 << 20)
    cache.get("kind", [[1]], lambda: made)
    (file,) = tmp_path.iterdir()
    content = file.read_bytes()
    file.write_bytes(content[:-9] if cut else content[:-1] + b"\x01")
    assert same(cache.get("kind", [[1]], lambda: made), made)
    assert file.read_bytes() == content


def test_a_full_cache_takes_no_more(tmp_path: Path) -> None:
    cache = TensorCache(tmp_path / "cache", "x", 2000)
    for number in range(9):
        assert cache.get("kind", [[number]], lambda: {"a": torch.ones(100)})["a"].sum() == 100
    assert sum(file.stat().st_size for file in (tmp_path / "cache").iterdir()) <= 2000 + 400
    assert 1 <= len(list((tmp_path / "cache").iterdir())) <= 4
    assert TensorCache(tmp_path / "none", "x", 0).get("kind", [[1]], lambda: {"a": torch.ones(1)})["a"] == 1
    assert not (tmp_path / "none").exists()


def test_cached_and_fresh_give_the_same_step(texts: Path, tiny_actor: Path, tmp_path: Path) -> None:
    """Without a cache, with an empty one and with a full one."""
    settings = make_settings(stage={"batch": 2})
    for name, limit in (("never", 0), ("fresh", 1 << 20), ("cached", 1 << 20)):
        own = Own((texts,), 1.0, tmp_path / "cache", limit)
        before = len(list(own.cache.iterdir())) if own.cache.exists() else 0
        trainer = Trainer(tmp_path / name, tiny_actor, settings, own=own)
        figures = [progress.figures for progress in trainer.run()]
        assert any("following" in one for one in figures) and any("answer" in one for one in figures)
        trainer.save_state()
        after = len(list(own.cache.iterdir())) if own.cache.exists() else 0
        assert (before, after > 0) == {"never": (0, False), "fresh": (0, True), "cached": (after, True)}[name]
    assert same(read_state(tmp_path / "never"), read_state(tmp_path / "fresh"))
    assert same(read_state(tmp_path / "never"), read_state(tmp_path / "cached"))


def test_revisions_are_the_actors_own(tiny_actor: Path, tmp_path: Path) -> None:
    revision = actor_revision(tiny_actor)
    fitting = write_lines(tmp_path / "a.jsonl", {"history_ids": [9, 8, 7] * 20, "actor_revision": revision})
    trainer = Trainer(tmp_path / "run", tiny_actor, make_settings(), own=Own((fitting,), 1.0, tmp_path / "c", 0))
    assert next(trainer.run()).figures["loss"] > 0
    foreign = write_lines(tmp_path / "b.jsonl", {"history_ids": [9], "actor_revision": "0" * 64})
    with pytest.raises(InvalidInput, match=f"revision {'0' * 64}, the actor here is {revision}"):
        Trainer(tmp_path / "other", tiny_actor, make_settings(), own=Own((foreign,), 1.0, tmp_path / "c", 0))


def replace_stage(**changes: Any) -> Any:
    return make_settings(stages=[STAGE | changes]).stages[0]
