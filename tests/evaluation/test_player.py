"""A small set played on a real server with a tiny actor."""

from __future__ import annotations

from argparse import Namespace

import pytest
import torch
from rich.console import Console
from transformers import AutoModelForCausalLM

from remory.client import Client
from remory.evaluation import arms
from remory.evaluation.arms import Contract
from remory.evaluation.player import ANSWER_BEGUN, ASKED_BRIEFLY, Plan, Player
from remory.evaluation.sets import load_set
from remory.evaluation.transcripts import Grafts, Lineage, Transcript
from remory.local_server import serving

SAMPLING = {"temperature": 0.0, "max_new_tokens": 40}


@pytest.fixture(scope="module")
def url(tiny_actor, tiny_checkpoint):
    options = Namespace(
        url=None,
        model=str(tiny_actor),
        checkpoint=str(tiny_checkpoint),
        device="cpu",
        dtype="float32",
        backend="transformers",
        sglang_python=None,
        key=None,
    )
    with serving(options, Console(quiet=True), "test") as where:
        yield where


@pytest.fixture
def client(url, request):
    with Client(url, session=request.node.name) as made:
        yield made


@pytest.fixture
def small(small_file):
    return load_set(str(small_file))


def lineages(client, small):
    contract = Contract.from_info(client.info()["summary_contract"])
    transcripts = [Transcript(client, session) for session in small.sessions[:2]]
    return transcripts, [Lineage(client, transcript, contract, SAMPLING) for transcript in transcripts]


def history_of(client, handle):
    page = client.call("GET", f"/v1/memories/{handle}/history?limit=100")
    return [token for chunk in page["chunks"] for token in chunk["ids"]]


def test_a_compaction_removes_a_whole_part(client, small):
    (transcript, _), (lineage, _) = lineages(client, small)
    memory = lineage.reach(2)
    parts = [message for part in small.sessions[0].parts for message in part]
    whole = client.tokenize(messages=[*small.sessions[0].prefix, *parts], add_generation_prompt=False)
    assert [*transcript.prefix_ids, *transcript.removed_ids(2)] == whole
    assert history_of(client, memory.handle) == transcript.removed_ids(2)
    assert len(lineage.memories) == len(lineage.summaries) == 2


def test_a_graft_has_own_prefix_and_summary_and_nothing_else_of_the_session(client, small):
    (own_transcript, other_transcript), (own, other) = lineages(client, small)
    graft = Grafts(client, own, own_transcript, other, other_transcript)
    first, second = graft.reach(1), graft.reach(2)
    for stage, memory in ((1, first), (2, second)):
        stored = client.memory(memory.handle)
        assert stored["summary_ids"] == own.reach(stage).summary_ids
        assert history_of(client, memory.handle) == other_transcript.removed_ids(stage)
        asked = client.generate(input_ids=[5], handle=memory.handle, sampling_params={"max_new_tokens": 1})
        assert asked["meta_info"]["prompt_tokens"] == memory.tokens + 1
    # What the second was made from carries the other's first summary, not the own one.
    between = graft._handles[0]
    assert client.memory(between)["summary_ids"] == other.reach(1).summary_ids != own.reach(1).summary_ids


def test_ages_count_from_the_end_of_the_message(client, small):
    transcript = Transcript(client, small.sessions[0])
    behind = small.sessions[0].parts[0][2]
    rendered = client.tokenize(messages=[*small.sessions[0].prefix, behind], add_generation_prompt=False)
    tokens = len(rendered) - len(transcript.prefix_ids)
    assert transcript.age(0, 1, 1) == tokens
    assert transcript.age(0, 1, 2) == tokens + len(transcript.history_ids(1))
    assert transcript.age(1, 1, 2) == 0


def test_everything_of_a_session_is_played(client, small, tiny_actor):
    ticks = []
    plan = Plan(stages=(1, 2))
    player = Player(client, client.info(), small, plan, lambda: ticks.append(1))
    record = player.play(0)
    assert len(ticks) == plan.requests(small, 0)
    first, second = record["stages"]
    assert [question["number"] for question in first["questions"]] == [0, 1, 3]
    assert [question["number"] for question in second["questions"]] == [0, 2, 3]
    assert [first["questions"][0][name] for name in ("compactions_ago", "type")] == [0, "plain"]
    assert second["questions"][0]["compactions_ago"] == 1
    for stage in (first, second):
        assert set(stage["arms"]) == set(arms.ARMS)
        assert all(("following_loss" in scores) == (stage is first) for scores in stage["arms"].values())
        for question in stage["questions"]:
            assert set(question["arms"]) == set(arms.ARMS)
            told = {name for answer in question["arms"].values() for name in answer}
            assert ("loss" in told and "right" in told) == (question["type"] != "absent")
            sizes = {arm: answer["context_tokens"] for arm, answer in question["arms"].items()}
            assert sizes["full"] > sizes["memory"] == sizes["last-text"] > sizes["summary"]
    check_losses(client, small, first, tiny_actor)
    # Only what the next session needs is kept; its first lineage was played for the graft.
    next_summaries = {memory["handle"] for memory in client.memories()}
    assert next_summaries == {memory.handle for memory in player._lineages["s-2"].memories}


def check_losses(client, small, stage, actor):
    """The losses of the full history, computed by another library from the text itself."""
    model = AutoModelForCausalLM.from_pretrained(actor, dtype=torch.float32)
    session = small.sessions[0]

    def loss(context, ids, counted):
        logits = model(torch.tensor([[*context, *ids]])).logits[0].detach()
        taken = logits.log_softmax(-1)[len(context) - 1 : -1].gather(1, torch.tensor(ids)[:, None])
        return -float(taken[-counted:].mean())

    messages = [*session.prefix, *session.parts[0]]
    question = {"role": "user", "content": session.questions[0].question + ASKED_BRIEFLY}
    asking = client.tokenize(messages=[*messages, question], add_generation_prompt=True)
    asking += client.tokenize(ANSWER_BEGUN, add_special_tokens=False)
    expected = client.tokenize(f" {session.questions[0].answer}", add_special_tokens=False)
    told = stage["questions"][0]["arms"]["full"]["loss"]
    assert told == pytest.approx(loss(asking, expected, len(expected)), abs=1e-3)

    head = client.tokenize(messages=messages, add_generation_prompt=False)
    following = Transcript(client, session).history_ids(1)[:96]
    assert stage["arms"]["full"]["following_loss"] == pytest.approx(loss(head, following, 64), abs=1e-3)
    foreign = Transcript(client, small.stranger_of(0)).history_ids(0)[:128]
    assert stage["arms"]["full"]["foreign_loss"] == pytest.approx(loss(head, foreign, 128), abs=1e-3)


def test_a_set_of_one_session_has_no_other(client, small):
    alone = type(small)("alone", "", small.sessions[:1], "", small.path)
    record = Player(client, client.info(), alone, Plan(stages=(1,))).play(0)
    (stage,) = record["stages"]
    assert "another-memory" not in stage["arms"] and "foreign_loss" not in stage["arms"]["memory"]
    assert client.memories() == []
