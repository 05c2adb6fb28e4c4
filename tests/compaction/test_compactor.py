from __future__ import annotations

import hashlib
import json
from dataclasses import replace

import pytest
import torch

from remory.compaction import Compactor
from remory.engines.base import GenerationRequest, SamplingParams
from remory.engines.transformers import TransformersEngine
from remory.errors import ContextOverflow, IncompatibleMemory, InvalidInput
from remory.network import load_checkpoint

from ..conftest import BLOCK, RATIO, make_checkpoint
from ..engines.conftest import finish

GREEDY = SamplingParams(max_new_tokens=12, temperature=0, ignore_eos=True)
SLOTS = BLOCK // RATIO


def tokens(length: int, seed: int = 0) -> torch.Tensor:
    return torch.randint(3, 380, (length,), generator=torch.Generator().manual_seed(seed))


PREFIX, SUMMARY = tokens(40, 1), tokens(12, 2)


def make_compactor(actor, folder) -> Compactor:
    checkpoint = load_checkpoint(folder)
    return Compactor(TransformersEngine(actor, checkpoint), checkpoint)


@pytest.fixture(scope="module")
def compactor(tiny_actor, tiny_checkpoint):
    compactor = make_compactor(tiny_actor, tiny_checkpoint)
    yield compactor
    compactor.engine.close()


@pytest.fixture(scope="module")
def frontier(tiny_actor, tiny_frontier):
    compactor = make_compactor(tiny_actor, tiny_frontier)
    yield compactor
    compactor.engine.close()


@pytest.fixture(scope="module")
def keeping(tiny_actor, tiny_keeping):
    """Reads the summary and keeps its frontier."""
    compactor = make_compactor(tiny_actor, tiny_keeping)
    yield compactor
    compactor.engine.close()


@pytest.fixture(scope="module")
def reference(tiny_actor):
    from remory.actors import load_model

    return load_model(tiny_actor, "cpu", None)


def features_of(reference, embeddings: torch.Tensor) -> torch.Tensor:
    """Layers 1 and 2 of one full pass over embeddings [T, D]."""
    states = reference.model(inputs_embeds=embeddings[None], output_hidden_states=True).hidden_states
    return torch.cat([states[2][0], states[3][0]], -1)


def embed(reference, ids: torch.Tensor) -> torch.Tensor:
    return reference.get_input_embeddings()(ids)


def close(rows: torch.Tensor, expected: torch.Tensor) -> bool:
    """Equal but for the rounding of rows to bfloat16, which goes in twice where rows are read again."""
    return bool((rows.float() - expected).norm() / expected.norm() < 8e-3)


def summary_states(reference, compactor, summary):
    before = torch.tensor(compactor.checkpoint.contract.summary_before_ids)
    return reference.model(torch.cat([PREFIX, before, summary])[None]).last_hidden_state[0, -len(summary) :]


def test_a_first_memory_is_the_networks_rows(compactor, reference):
    history = tokens(150, 3)
    memory = compactor.compact(PREFIX, history, SUMMARY)
    with torch.no_grad():
        features = features_of(reference, embed(reference, torch.cat([PREFIX, history])))[len(PREFIX) :]
        told = summary_states(reference, compactor, SUMMARY)
        network = compactor.checkpoint.network
        expected = [network(block, told, 0) for block in features.split(BLOCK)]
    assert close(memory.rows, torch.cat(expected))
    assert [(node.start, node.stop, node.depth) for node in memory.frontier] == [
        (0, 64, 1),
        (64, 128, 1),
        (128, 150, 1),
    ]


def test_a_second_memory_reads_summary_rows_and_new_history(compactor, reference):
    first = compactor.compact(PREFIX, tokens(150, 3), SUMMARY).named("rm_first")
    history, summary = tokens(100, 4), tokens(10, 5)
    memory = compactor.compact(PREFIX, history, summary, previous=first)
    contract = compactor.checkpoint.contract
    parts = [
        (contract.summary_before_ids, False),
        (SUMMARY, True),
        (contract.summary_after_ids, False),
        (contract.memory_before_ids, False),
        (None, True),
        (contract.memory_after_ids, False),
        (history, True),
    ]
    with torch.no_grad():
        pieces = [first.rows.float() if ids is None else embed(reference, torch.as_tensor(ids)) for ids, _ in parts]
        source = torch.cat([torch.full((len(piece),), used) for piece, (_, used) in zip(pieces, parts, strict=True)])
        features = features_of(reference, torch.cat([embed(reference, PREFIX), *pieces]))[len(PREFIX) :][source.bool()]
        told = summary_states(reference, compactor, summary)
        # 12 summary tokens and 24 rows of depth 1 lie in the first block of 64, so it is told depth 1.
        expected = [
            compactor.checkpoint.network(block, told, depth)
            for block, depth in zip(features.split(BLOCK), [1, 0, 0], strict=True)
        ]
    assert close(memory.rows, torch.cat(expected))
    assert [node.depth for node in memory.frontier] == [2, 1, 1]
    assert (memory.frontier[0].start, memory.source_total) == (0, 250)
    assert memory.receipt["previous"] == "rm_first"
    assert memory.receipt["source_tokens"] == 12 + 24 + 100


def test_merging_reads_the_childrens_rows_behind_the_prefix(tiny_actor, tmp_path, reference):
    """9 leaves against a budget of 2 nodes: the first 8 become one parent of depth 2."""
    compactor = make_compactor(tiny_actor, make_checkpoint(tmp_path / "small", budget=2 * SLOTS))
    wide = make_compactor(tiny_actor, make_checkpoint(tmp_path / "wide", budget=9 * SLOTS))
    history = tokens(8 * BLOCK + 30, 6)
    leaves = wide.compact(PREFIX, history, SUMMARY).rows
    memory = compactor.compact(PREFIX, history, SUMMARY)
    with torch.no_grad():
        children = leaves[: 8 * SLOTS].float()
        features = features_of(reference, torch.cat([embed(reference, PREFIX), children]))[len(PREFIX) :]
        told = summary_states(reference, compactor, SUMMARY)
        parent = compactor.checkpoint.network(features, told, 1)
    assert close(memory.rows[:SLOTS], parent)
    assert torch.equal(memory.rows[SLOTS:], leaves[8 * SLOTS :])
    assert memory.receipt["depths"] == {"2": SLOTS, "1": SLOTS}
    assert memory.receipt["frontier"][0] == {"start": 0, "stop": 8 * BLOCK, "depth": 2}
    compactor.engine.close()
    wide.engine.close()


def test_many_merges_of_one_level_equal_single_ones(tiny_actor, tmp_path, reference):
    """17 leaves give two parents in one batch; each equals the parent of its own history alone."""
    compactor = make_compactor(tiny_actor, make_checkpoint(tmp_path / "two", budget=3 * SLOTS))
    memory = compactor.compact(PREFIX, tokens(17 * BLOCK, 7), SUMMARY)
    assert memory.receipt["depths"] == {"2": 2 * SLOTS, "1": SLOTS}
    only = make_compactor(tiny_actor, make_checkpoint(tmp_path / "one", budget=2 * SLOTS))
    first = only.compact(PREFIX, tokens(17 * BLOCK, 7)[: 9 * BLOCK], SUMMARY)
    assert close(memory.rows[:SLOTS], first.rows[:SLOTS].float())
    with torch.no_grad():
        leaves = make_compactor(tiny_actor, make_checkpoint(tmp_path / "wide", budget=17 * SLOTS))
        children = leaves.compact(PREFIX, tokens(17 * BLOCK, 7), SUMMARY).rows[8 * SLOTS : 16 * SLOTS].float()
        features = features_of(reference, torch.cat([embed(reference, PREFIX), children]))[len(PREFIX) :]
        second = leaves.checkpoint.network(features, summary_states(reference, leaves, SUMMARY), 1)
        leaves.engine.close()
    assert close(memory.rows[SLOTS : 2 * SLOTS], second)
    compactor.engine.close()
    only.engine.close()


def test_the_same_history_under_another_summary_gives_other_rows(compactor):
    history = tokens(150, 3)
    one, two = (compactor.compact(PREFIX, history, tokens(12, seed)) for seed in (2, 22))
    assert one.rows_sha256 != two.rows_sha256


def test_compaction_is_deterministic(compactor):
    history = tokens(300, 3)
    first = compactor.compact(PREFIX, history, SUMMARY)
    assert compactor.compact(PREFIX, history, SUMMARY).rows_sha256 == first.rows_sha256
    compactor.engine._cache.clear()
    assert compactor.compact(PREFIX, history, SUMMARY).rows_sha256 == first.rows_sha256


def test_branches_join_in_the_order_given(compactor):
    parent, left, right = (
        compactor.compact(PREFIX if n == 0 else tokens(30, 40 + n), tokens(100, 30 + n), tokens(8, 50 + n)).named(
            f"rm_{n}"
        )
        for n in range(3)
    )
    history = tokens(80, 9)
    one = compactor.compact(PREFIX, history, SUMMARY, previous=parent, branches=[left, right])
    two = compactor.compact(PREFIX, history, SUMMARY, previous=parent, branches=[right, left])
    assert one.receipt["branches"] == ["rm_1", "rm_2"]
    assert one.receipt["source_tokens"] == 3 * (8 + 16) + 80
    assert one.source_total == 3 * 100 + 80
    assert one.rows_sha256 != two.rows_sha256
    # Each branch's 100 raw tokens stand before the new history: its first row's span begins behind parent and branches.
    context = compactor._reencode([parent, left, right], history).context
    assert torch.equal(context.ids[-80:], history)
    assert torch.equal(context.rows, torch.cat([parent.rows, left.rows, right.rows]))
    folded = compactor.compact(PREFIX, [], SUMMARY, previous=parent, branches=[left])
    assert folded.receipt["history_tokens"] == 0


def test_a_frontier_keeps_its_old_nodes(frontier):
    first = frontier.compact(PREFIX, tokens(150, 3), SUMMARY).named("rm_first")
    second = frontier.compact(PREFIX, tokens(100, 4), SUMMARY, previous=first)
    assert second.receipt["strategy"] == "frontier"
    assert torch.equal(second.rows[: len(first.rows)], first.rows)
    spans = [(node.start, node.stop) for node in second.frontier]
    assert spans == [(0, 64), (64, 128), (128, 150), (150, 214), (214, 250)]


def test_a_frontier_encodes_new_history_under_its_old_rows(frontier, reference):
    first = frontier.compact(PREFIX, tokens(150, 3), SUMMARY)
    history = tokens(60, 4)
    second = frontier.compact(PREFIX, history, SUMMARY, previous=first)
    with torch.no_grad():
        seen = torch.cat([embed(reference, PREFIX), first.rows.float(), embed(reference, history)])
        features = features_of(reference, seen)[-60:]
        assert close(second.rows[-SLOTS:], frontier.checkpoint.network(features))


def test_a_frontier_over_budget_merges_old_and_new(frontier):
    memory = frontier.compact(PREFIX, tokens(5 * BLOCK, 3), SUMMARY)
    memory = frontier.compact(PREFIX, tokens(5 * BLOCK, 4), SUMMARY, previous=memory)
    assert memory.receipt["depths"] == {"2": SLOTS, "1": 2 * SLOTS}
    assert memory.receipt["frontier"][0] == {"start": 0, "stop": 8 * BLOCK, "depth": 2}
    assert memory.receipt["timings_ms"]["merge"] > 0


def test_a_published_frontier_refuses_branches_and_an_empty_history(tiny_actor, tmp_path):
    glm = make_checkpoint(tmp_path / "glm", conditioned=False, schema="remory_glm53_local_evaluation_v1")
    published = make_compactor(tiny_actor, glm)
    memory = published.compact(PREFIX, tokens(100, 3), SUMMARY)
    for history in (tokens(100, 4), []):
        with pytest.raises(InvalidInput, match="1 branches given; a frontier checkpoint cannot fold branches"):
            published.compact(PREFIX, history, SUMMARY, branches=[memory])
    with pytest.raises(InvalidInput, match="a frontier checkpoint has nothing new to encode"):
        published.compact(PREFIX, [], SUMMARY, previous=memory)
    second = published.compact(PREFIX, tokens(100, 4), SUMMARY, previous=memory)
    assert torch.equal(second.rows[: len(memory.rows)], memory.rows)
    published.engine.close()


def spans_of(memory) -> list[tuple[int, int]]:
    return [(node.start, node.stop) for node in memory.frontier]


def branch_memories(compactor) -> list:
    """Memories of other prefixes: 100 and 70 tokens, two nodes each."""
    return [
        compactor.compact(tokens(30, 40 + n), tokens(length, 30 + n), tokens(8, 50 + n)).named(f"rm_{n}")
        for n, length in enumerate([100, 70])
    ]


def test_a_conditioned_frontier_keeps_its_rows_and_reads_the_new_summary(keeping, reference):
    first = keeping.compact(PREFIX, tokens(150, 3), SUMMARY).named("rm_first")
    history, summary = tokens(100, 4), tokens(10, 5)
    second = keeping.compact(PREFIX, history, summary, previous=first)
    assert torch.equal(second.rows[: len(first.rows)], first.rows)
    with torch.no_grad():
        seen = torch.cat([embed(reference, PREFIX), first.rows.float(), embed(reference, history)])
        features = features_of(reference, seen)[-100:].split(BLOCK)
        network = keeping.checkpoint.network
        expected, under_the_old = (
            torch.cat([network(block, summary_states(reference, keeping, told), 0) for block in features])
            for told in (summary, SUMMARY)
        )
    assert close(second.rows[len(first.rows) :], expected)
    assert not close(second.rows[len(first.rows) :], under_the_old)
    assert spans_of(second) == [(0, 64), (64, 128), (128, 150), (150, 214), (214, 250)]
    receipt = second.receipt
    assert (receipt["strategy"], receipt["previous"], receipt["branches"]) == ("frontier", "rm_first", [])
    assert (receipt["source_tokens"], receipt["history_tokens"], receipt["summary_tokens"]) == (100, 100, 10)
    assert receipt["compression_ratio"] == round(250 / 40, 3)
    assert receipt["depths"] == {"1": 5 * SLOTS}


def test_stating_the_frontier_changes_no_first_memory(keeping, compactor):
    """The same weights: what differs is what becomes of the rows afterwards."""
    history = tokens(150, 3)
    first, other = (one.compact(PREFIX, history, SUMMARY) for one in (keeping, compactor))
    assert first.rows_sha256 == other.rows_sha256
    assert first.identity != other.identity
    with pytest.raises(IncompatibleMemory):
        keeping.compact(PREFIX, history, SUMMARY, previous=other)


def test_branches_join_a_frontier_in_the_order_given(keeping, reference):
    parent = keeping.compact(PREFIX, tokens(50, 3), SUMMARY).named("rm_parent")
    left, right = branch_memories(keeping)
    history = tokens(80, 9)
    one = keeping.compact(PREFIX, history, SUMMARY, previous=parent, branches=[left, right])
    kept = torch.cat([parent.rows, left.rows, right.rows])
    assert torch.equal(one.rows[: len(kept)], kept)
    with torch.no_grad():
        seen = torch.cat([embed(reference, PREFIX), kept.float(), embed(reference, history)])
        told = summary_states(reference, keeping, SUMMARY)
        blocks = features_of(reference, seen)[-80:].split(BLOCK)
        expected = torch.cat([keeping.checkpoint.network(block, told, 0) for block in blocks])
    assert close(one.rows[len(kept) :], expected)
    assert spans_of(one) == [(0, 50), (50, 114), (114, 150), (150, 214), (214, 220), (220, 284), (284, 300)]
    receipt = one.receipt
    assert (receipt["previous"], receipt["branches"]) == ("rm_parent", ["rm_0", "rm_1"])
    assert (receipt["source_tokens"], receipt["soft_tokens"]) == (80, 7 * SLOTS)
    assert receipt["compression_ratio"] == round(300 / 56, 3)
    assert receipt["features"] == {"prefill": 80}
    two = keeping.compact(PREFIX, history, SUMMARY, previous=parent, branches=[right, left])
    assert torch.equal(two.rows[: len(kept)], torch.cat([parent.rows, right.rows, left.rows]))
    assert spans_of(two)[1:5] == [(50, 114), (114, 120), (120, 184), (184, 220)]
    again = keeping.compact(PREFIX, tokens(40, 8), SUMMARY, previous=one)
    assert torch.equal(again.rows[:-SLOTS], one.rows)
    assert spans_of(again)[-1] == (300, 340)


def test_branches_count_raw_tokens_as_when_they_are_encoded_again(keeping, compactor):
    totals = []
    for one in (keeping, compactor):
        parent, branches = one.compact(PREFIX, tokens(50, 3), SUMMARY), branch_memories(one)
        memory = one.compact(PREFIX, tokens(80, 9), SUMMARY, previous=parent, branches=branches)
        assert all(left[1] == right[0] for left, right in zip(spans_of(memory), spans_of(memory)[1:], strict=False))
        totals.append((memory.frontier[0].start, memory.source_total))
    assert totals == [(0, 300)] * 2


def test_branches_join_without_a_previous_memory(keeping, frontier, reference):
    """A network that reads no summary takes them in too, when its checkpoint is our own."""
    for one in (keeping, frontier):
        left, _ = branch_memories(one)
        memory = one.compact(PREFIX, tokens(80, 9), SUMMARY, branches=[left])
        assert torch.equal(memory.rows[: len(left.rows)], left.rows)
        assert spans_of(memory) == [(0, 64), (64, 100), (100, 164), (164, 180)]
        assert memory.receipt["previous"] is None
        assert torch.equal(memory.prefix_ids, PREFIX)


def test_branches_alone_are_put_together_as_they_are(keeping):
    left, right = branch_memories(keeping)
    parent = keeping.compact(PREFIX, tokens(150, 3), SUMMARY)
    summary = tokens(6, 5)
    memory = keeping.compact(PREFIX, [], summary, previous=parent, branches=[left, right])
    assert torch.equal(memory.rows, torch.cat([parent.rows, left.rows, right.rows]))
    assert torch.equal(memory.summary_ids, summary)
    assert memory.source_total == 320
    receipt = memory.receipt
    assert (receipt["source_tokens"], receipt["history_tokens"], receipt["features"]) == (0, 0, {})
    assert receipt["compression_ratio"] == round(320 / 56, 3)
    assert receipt["timings_ms"] == {"summary": 0.0, "leaves": 0.0, "merge": 0.0}
    assert json.loads(json.dumps(receipt)) == receipt
    restored = keeping.restore(memory, [5, 6])
    assert torch.equal(restored.rows, memory.rows)


def test_what_has_neither_history_nor_branches_is_refused(keeping, frontier):
    for one in (keeping, frontier):
        with pytest.raises(InvalidInput, match="history_ids is empty, and there is neither"):
            one.compact(PREFIX, [], SUMMARY)
        memory = one.compact(PREFIX, tokens(150, 3), SUMMARY)
        with pytest.raises(InvalidInput, match="a frontier checkpoint has nothing new to encode"):
            one.compact(PREFIX, [], tokens(2), previous=memory)


def merged(compactor, reference, children: torch.Tensor, summary: torch.Tensor, depth: int) -> torch.Tensor:
    """What the network makes of rows read behind the prefix."""
    with torch.no_grad():
        features = features_of(reference, torch.cat([embed(reference, PREFIX), children.float()]))[len(PREFIX) :]
        return compactor.checkpoint.network(features, summary_states(reference, compactor, summary), depth)


def test_a_conditioned_frontier_merges_the_first_run_of_equal_depth(keeping, reference):
    """A parent of 8 leaves, then 5 leaves and 3 of a branch: these 8 have one depth, and the parent stays."""
    old = keeping.compact(PREFIX, tokens(13 * BLOCK, 3), SUMMARY)
    assert [node.depth for node in old.frontier] == [2, 1, 1, 1, 1, 1]
    branch = keeping.compact(tokens(30, 4), tokens(3 * BLOCK, 5), tokens(8, 6))
    summary = tokens(10, 7)
    memory = keeping.compact(PREFIX, [], summary, previous=old, branches=[branch])
    assert [node.depth for node in memory.frontier] == [2, 2]
    assert spans_of(memory) == [(0, 8 * BLOCK), (8 * BLOCK, 16 * BLOCK)]
    assert torch.equal(memory.rows[:SLOTS], old.rows[:SLOTS])
    children = torch.cat([old.rows[SLOTS:], branch.rows])
    assert close(memory.rows[SLOTS:], merged(keeping, reference, children, summary, 1))
    assert not close(memory.rows[SLOTS:], merged(keeping, reference, children, SUMMARY, 1))
    assert memory.receipt["depths"] == {"2": 2 * SLOTS}
    assert memory.receipt["timings_ms"]["merge"] > 0


def test_parents_of_parents_are_told_their_childrens_depth(tiny_actor, tmp_path, reference):
    """8 branches of one parent each: the parent of these is told depth 2, and one more would be clamped to 3."""
    narrow = make_compactor(tiny_actor, make_checkpoint(tmp_path / "narrow", budget=7 * SLOTS, strategy="frontier"))
    branches = [narrow.compact(PREFIX, tokens(8 * BLOCK, seed), SUMMARY) for seed in range(8)]
    assert {node.depth for branch in branches for node in branch.frontier} == {2}
    memory = narrow.compact(PREFIX, [], SUMMARY, branches=branches)
    children = torch.cat([branch.rows for branch in branches])
    assert [(node.start, node.stop, node.depth) for node in memory.frontier] == [(0, 64 * BLOCK, 3)]
    assert close(memory.rows, merged(narrow, reference, children, SUMMARY, 2))
    top = [replace(memory, frontier=(replace(memory.frontier[0], depth=5),)) for _ in range(8)]
    highest = narrow.compact(PREFIX, [], SUMMARY, branches=top)
    assert close(highest.rows, merged(narrow, reference, torch.cat([memory.rows] * 8), SUMMARY, 3))
    assert highest.receipt["depths"] == {"6": SLOTS}
    narrow.engine.close()


def test_rows_that_are_only_joined_need_no_room_in_the_context(tiny_actor, tmp_path):
    """260 nodes are more than the actor reads at once; their parents are made of 8 each."""
    wide = make_compactor(tiny_actor, make_checkpoint(tmp_path / "wide", budget=20 * SLOTS, strategy="frontier"))
    branch = wide.compact(PREFIX, tokens(20 * BLOCK, 3), SUMMARY)
    branches = [branch] * 13
    assert len(PREFIX) + 13 * len(branch.rows) > wide.engine.actor.context_length
    with pytest.raises(ContextOverflow, match="40 tokens and 2090 to be read behind it are 2130"):
        wide.compact(PREFIX, tokens(10, 4), SUMMARY, branches=branches)
    memory = wide.compact(PREFIX, [], SUMMARY, branches=branches)
    assert memory.source_total == 13 * 20 * BLOCK
    assert len(memory.rows) <= 20 * SLOTS
    wide.engine.close()


def test_a_frontier_without_a_run_to_merge_says_the_numbers(keeping):
    """Depths 2, 1, 1, 1, 1, 1 of each: over the budget, and no 8 of one depth beside each other."""
    old = keeping.compact(PREFIX, tokens(13 * BLOCK, 3), SUMMARY)
    with pytest.raises(
        InvalidInput,
        match=r"12 nodes of 8 rows are 96 rows, the budget is 64, .* depths \[2, 1, 1, 1, 1, 1, 2, 1, 1, 1, 1, 1\]",
    ):
        keeping.compact(PREFIX, [], SUMMARY, branches=[old, old])


def test_a_frontier_that_would_not_get_smaller_is_refused(keeping):
    left, right = branch_memories(keeping)
    with pytest.raises(InvalidInput, match=r"no smaller than what it replaces: 48 rows, 120 summary tokens"):
        keeping.compact(PREFIX, tokens(80, 4), tokens(120, 4), branches=[left, right])


def test_the_receipt_says_what_was_done(compactor):
    history = tokens(150, 3)
    memory = compactor.compact(PREFIX, history, SUMMARY)
    receipt = memory.receipt
    assert json.loads(json.dumps(receipt)) == receipt
    assert receipt["history_tokens"] == receipt["source_tokens"] == 150
    assert receipt["soft_tokens"] == 3 * SLOTS
    assert receipt["compression_ratio"] == 6.25
    assert receipt["memory_bytes"] == 24 * 64 * 2
    packed = b"".join(int(token).to_bytes(4, "little") for token in history)
    assert receipt["history_sha256"] == hashlib.sha256(packed).hexdigest()
    assert receipt["rows_sha256"] == memory.rows_sha256
    assert "expanded" not in receipt
    assert set(receipt["timings_ms"]) == {"summary", "leaves", "merge"}
    assert receipt["timings_ms"]["summary"] > 0
    assert receipt["timings_ms"]["leaves"] > 0


def test_the_restored_prompt_has_its_parts_in_order(compactor):
    memory = compactor.compact(PREFIX, tokens(150, 3), SUMMARY)
    source = compactor.restore(memory, [8, 9])
    contract = compactor.checkpoint.contract
    expected = [
        *PREFIX.tolist(),
        *contract.summary_before_ids,
        *SUMMARY.tolist(),
        *contract.summary_after_ids,
        *contract.memory_before_ids,
        *[contract.end_token_id] * 24,
        *contract.memory_after_ids,
        8,
        9,
    ]
    assert source.ids.tolist() == expected
    first = expected.index(contract.end_token_id, len(PREFIX) + len(contract.memory_before_ids) + 20)
    assert source.positions.tolist() == list(range(first, first + 24))
    assert source.cuts == (len(PREFIX), len(expected) - 2)


def test_restored_answers_equal_those_of_embeddings_put_in_by_hand(compactor, reference):
    memory = compactor.compact(PREFIX, tokens(150, 3), SUMMARY)
    source = compactor.restore(memory, tokens(20, 8))
    answer = finish(compactor.engine, GenerationRequest(source, GREEDY))
    with torch.no_grad():
        embeddings = embed(reference, source.ids)
        embeddings[source.positions] = memory.rows.float()
        for token in answer.output_ids:
            best = int(reference(inputs_embeds=embeddings[None]).logits[0, -1].argmax())
            assert token == best
            embeddings = torch.cat([embeddings, embed(reference, torch.tensor([token]))])


def test_a_tiny_history_is_flagged_as_expanded(compactor):
    memory = compactor.compact(PREFIX, tokens(5, 3), SUMMARY)
    assert memory.receipt["expanded"] is True


def test_a_memory_that_would_not_be_smaller_is_refused(compactor):
    with pytest.raises(InvalidInput, match=r"no smaller than what it replaces: 32 rows, 300 summary tokens"):
        compactor.compact(PREFIX, tokens(200, 3), tokens(300, 4))


def test_compacting_twice_without_news_never_grows(compactor):
    memory = compactor.compact(PREFIX, tokens(600, 3), SUMMARY)
    sizes = [len(memory.rows)]
    with pytest.raises(InvalidInput, match="nothing new to compact"):
        for _ in range(10):
            memory = compactor.compact(PREFIX, [], SUMMARY, previous=memory)
            sizes.append(len(memory.rows))
    assert sizes == sorted(sizes, reverse=True)
    assert len(set(sizes)) == len(sizes)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"prefix_ids": []}, "prefix_ids is empty"),
        ({"summary_ids": []}, "summary_ids is empty"),
        ({"history_ids": []}, "history_ids is empty, and there is neither"),
        ({"history_ids": [1, 384]}, r"history_ids holds 384; token ids are in \[0, 384\)"),
        ({"history_ids": [-3, 1]}, "history_ids holds -3"),
        ({"prefix_ids": [[1, 2]]}, "prefix_ids has 2 dimensions"),
        ({"summary_ids": ["a"]}, "summary_ids is not a list of token ids"),
        ({"summary_ids": [1.5, 2.0]}, "summary_ids holds float32, expected integers"),
        ({"summary_ids": [True, False]}, "summary_ids holds bool, expected integers"),
    ],
)
def test_wrong_fields_are_named(compactor, fields, message):
    good = {"prefix_ids": PREFIX, "history_ids": tokens(150), "summary_ids": SUMMARY}
    with pytest.raises(InvalidInput, match=message):
        compactor.compact(**{**good, **fields})
    compactor.compact(**good)


def test_a_memory_does_not_follow_its_callers_tensors(compactor):
    prefix = PREFIX.clone()
    memory = compactor.compact(prefix, tokens(150), SUMMARY)
    prefix[0] += 1
    assert torch.equal(memory.prefix_ids, PREFIX)


def test_a_small_step_of_a_large_frontier_is_allowed(frontier):
    memory = frontier.compact(PREFIX, tokens(5 * BLOCK, 3), tokens(60, 2))
    step = frontier.compact(PREFIX, tokens(4, 4), tokens(60, 2), previous=memory)
    assert step.receipt["expanded"] is True
    assert step.receipt["compression_ratio"] == round(324 / 48, 3)


def test_another_prefix_is_refused(compactor):
    memory = compactor.compact(PREFIX, tokens(150, 3), SUMMARY)
    with pytest.raises(InvalidInput, match=r"prefix_ids \(41 tokens\) differ .* \(40 tokens\)"):
        compactor.compact(tokens(41), tokens(100), SUMMARY, previous=memory)


def test_another_identity_is_refused(compactor, frontier):
    memory = frontier.compact(PREFIX, tokens(150, 3), SUMMARY)
    with pytest.raises(IncompatibleMemory, match="needs checkpoint tiny-frontier of identity"):
        compactor.restore(memory, [5])
    with pytest.raises(IncompatibleMemory):
        compactor.compact(PREFIX, tokens(100), SUMMARY, previous=memory)


def test_a_memory_of_an_earlier_checkpoint_is_restored_in_its_own_markers(compactor, frontier):
    memory = frontier.compact(PREFIX, tokens(150, 3), SUMMARY)
    later = Compactor(compactor.engine, compactor.checkpoint, frontier.contracts)
    assert torch.equal(later.restore(memory, [5]).ids, frontier.restore(memory, [5]).ids)
    assert later.contracts.keys() == {compactor.identity, frontier.identity}
    with pytest.raises(
        IncompatibleMemory, match="needs checkpoint tiny-frontier of identity .* has checkpoint tiny of"
    ):
        later.compact(PREFIX, tokens(100), SUMMARY, branches=[memory])


def test_a_memory_of_another_actor_says_so(compactor, tiny_qwen, tiny_checkpoint):
    other = make_compactor(tiny_qwen, tiny_checkpoint)
    memory = other.compact(PREFIX, tokens(150, 3), SUMMARY)
    with pytest.raises(
        IncompatibleMemory, match="and actor tiny-qwen3 of revision .* and actor tiny-llama of revision"
    ):
        compactor.restore(memory, [5])
    unnamed = replace(memory, receipt={name: value for name, value in memory.receipt.items() if name != "made_by"})
    with pytest.raises(IncompatibleMemory, match=f"needs the checkpoint of identity {memory.identity[:12]}"):
        compactor.restore(unnamed, [5])
    other.engine.close()


def test_an_overlong_history_says_the_numbers(tiny_actor, tmp_path):
    compactor = make_compactor(tiny_actor, make_checkpoint(tmp_path / "wide", budget=4096))
    with pytest.raises(ContextOverflow, match="40 tokens and 2010 to be read behind it are 2050; .* holds 2048"):
        compactor.compact(PREFIX, tokens(2010), SUMMARY)
    compactor.engine.close()


def test_a_budget_that_cannot_be_met_says_the_numbers(tiny_actor, tmp_path):
    compactor = make_compactor(tiny_actor, make_checkpoint(tmp_path / "small", budget=SLOTS))
    with pytest.raises(InvalidInput, match="7 nodes of 8 rows are 56 rows, the budget is 8"):
        compactor.compact(PREFIX, tokens(7 * BLOCK), SUMMARY)
    compactor.engine.close()
