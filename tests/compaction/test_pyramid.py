from __future__ import annotations

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from remory.compaction import Node, plan_pyramid
from remory.compaction.pyramid import merge_to_budget


def test_a_history_within_budget_is_its_leaves():
    plan = plan_pyramid(2500, budget=256, block=1024, ratio=16)
    assert plan.frontier == [Node(0, 1024, 1), Node(1024, 2048, 1), Node(2048, 2500, 1)]
    assert plan.merges == []


def test_the_first_run_of_equal_depth_is_merged():
    plan = plan_pyramid(5 * 64, budget=4 * 16, block=64, ratio=4)
    assert plan.frontier == [Node(0, 256, 2), Node(256, 320, 1)]
    assert [merge.first for merge in plan.merges] == [0]
    assert plan.merges[0].children == tuple(Node(start, start + 64, 1) for start in range(0, 256, 64))


def test_depths_of_leaves_decide_what_may_merge():
    plan = plan_pyramid(5 * 64, budget=4 * 16, block=64, ratio=4, leaf_depths=[2, 1, 1, 1, 1])
    assert plan.frontier == [Node(0, 64, 2), Node(64, 320, 2)]


def test_merges_go_up_level_by_level():
    plan = plan_pyramid(16 * 8, budget=4, block=8, ratio=2)
    assert plan.frontier == [Node(0, 128, 5)]
    assert len(plan.merges) == 15


def test_an_impossible_budget_says_the_numbers():
    with pytest.raises(ValueError, match=r"3 nodes of 16 rows are 48 rows, the budget is 32, and no 4 adjacent"):
        plan_pyramid(3 * 64, budget=32, block=64, ratio=4)


def test_a_ratio_of_one_never_loops():
    with pytest.raises(ValueError, match="budget is 8"):
        plan_pyramid(64, budget=8, block=16, ratio=1)


@pytest.mark.parametrize("name", ["source_tokens", "budget", "block", "ratio"])
@pytest.mark.parametrize("value", [0, -5])
def test_sizes_must_be_positive(name, value):
    sizes = {"source_tokens": 100, "budget": 64, "block": 32, "ratio": 4, name: value}
    with pytest.raises(ValueError, match=f"{name} is {value}"):
        plan_pyramid(sizes.pop("source_tokens"), **sizes)


@pytest.mark.parametrize(("depths", "message"), [([1], "1 leaf depths for 2 leaves"), ([1, 0], "begin at 1, got 0")])
def test_leaf_depths_must_fit(depths, message):
    with pytest.raises(ValueError, match=message):
        plan_pyramid(100, budget=64, block=64, ratio=4, leaf_depths=depths)


@st.composite
def plans(draw):
    ratio = draw(st.integers(2, 5))
    block = ratio * draw(st.integers(1, 8))
    leaves = draw(st.integers(1, 60))
    source = draw(st.integers((leaves - 1) * block + 1, leaves * block))
    depths = draw(st.one_of(st.none(), st.lists(st.integers(1, 3), min_size=leaves, max_size=leaves)))
    budget = draw(st.integers(1, (leaves + 1) * block // ratio))
    return source, budget, block, ratio, depths


@given(plans())
def test_every_plan_covers_all_in_order_and_keeps_the_rules(plan):
    source, budget, block, ratio, depths = plan
    rows = block // ratio
    try:
        pyramid = plan_pyramid(source, budget=budget, block=block, ratio=ratio, leaf_depths=depths)
    except ValueError:
        assume(False)
    frontier = pyramid.frontier
    assert len(frontier) * rows <= budget
    assert frontier[0].start == 0
    assert frontier[-1].stop == source
    assert all(left.stop == right.start for left, right in zip(frontier, frontier[1:], strict=False))
    for merge in pyramid.merges:
        assert len(merge.children) == ratio
        assert {child.depth for child in merge.children} == {merge.parent.depth - 1}
        assert (merge.children[0].start, merge.children[-1].stop) == (merge.parent.start, merge.parent.stop)
    assert _replayed(source, block, depths, pyramid) == frontier


@given(plans())
def test_a_refusal_means_that_no_run_is_left(plan):
    source, budget, block, ratio, depths = plan
    try:
        plan_pyramid(source, budget=budget, block=block, ratio=ratio, leaf_depths=depths)
    except ValueError as error:
        left = [int(depth) for depth in str(error).split("depths [")[1].rstrip("]").split(", ")]
        assert len(left) * (block // ratio) > budget
        assert all(len(set(left[i : i + ratio])) > 1 for i in range(len(left) - ratio + 1))
    else:
        assume(False)


def test_a_frontier_goes_on_from_older_nodes():
    old = [Node(0, 256, 2), Node(256, 320, 1)]
    new = [Node(320, 384, 1), Node(384, 400, 1), Node(400, 464, 1)]
    pyramid = merge_to_budget([*old, *new], budget=2 * 16, rows_per_node=16, ratio=4)
    assert pyramid.frontier == [Node(0, 256, 2), Node(256, 464, 2)]
    assert pyramid.merges[0].first == 1


def _replayed(source, block, depths, pyramid):
    nodes = [
        Node(start, min(start + block, source), depths[index] if depths else 1)
        for index, start in enumerate(range(0, source, block))
    ]
    for merge in pyramid.merges:
        assert tuple(nodes[merge.first : merge.first + len(merge.children)]) == merge.children
        nodes[merge.first : merge.first + len(merge.children)] = [merge.parent]
    return nodes
