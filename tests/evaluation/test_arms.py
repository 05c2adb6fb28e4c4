"""What each arm shows the actor, token for token."""

from __future__ import annotations

import pytest

from remory.errors import InvalidInput
from remory.evaluation.arms import ARMS, Contexts, Contract, Memory

CONTRACT = Contract([101], [102], [103], [104])
OWN = Memory("own", [1, 2], [50, 51], rows=3, markers=4)
GRAFT = Memory("graft", [1, 2], [50, 51], rows=2, markers=4)


def contexts(another=GRAFT):
    def retrieve(query, tokens):
        return [len(query), tokens]

    def recall(ids):
        return [7, *ids, 8]

    return Contexts(CONTRACT, [10, 11, 12, 13, 14], OWN, another, retrieve, recall)


@pytest.mark.parametrize(
    ("arm", "handle", "ids", "context"),
    [
        ("full", None, [1, 2, 10, 11, 12, 13, 14, 90], 8),
        ("summary", None, [1, 2, 101, 50, 51, 102, 90], 7),
        ("last-text", None, [1, 2, 101, 50, 51, 102, 103, 12, 13, 14, 104, 90], 12),
        ("retrieved-text", None, [1, 2, 101, 50, 51, 102, 103, 4, 3, 104, 90], 11),
        ("memory", "own", [90], 12),
        ("memory-retrieved", "own", [7, 4, 3, 8, 90], 16),
        ("another-memory", "graft", [90], 11),
    ],
)
def test_the_prompt_of_an_arm(arm, handle, ids, context):
    prompt = contexts().prompt(arm, [90], "what")
    assert (prompt.handle, prompt.ids, prompt.context) == (handle, ids, context)


def test_text_takes_the_room_of_the_rows():
    sizes = {arm: contexts().prompt(arm, [90], "w").context for arm in ARMS}
    assert sizes["last-text"] == sizes["memory"]


def test_without_another_session_there_is_no_such_arm():
    alone = contexts(another=None)
    assert [arm for arm in ARMS if not alone.has(arm)] == ["another-memory"]
    with pytest.raises(InvalidInput):
        alone.prompt("another-memory", [90], "what")
