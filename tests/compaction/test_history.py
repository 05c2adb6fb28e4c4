"""Removed histories, cut into chunks that can be found and read again."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from remory.actors import embedded_actor, load_tokenizer
from remory.compaction.history import cut_history
from tests.conftest import make_tokenizer

TOKENIZER = make_tokenizer()
END = TOKENIZER.eos_token_id


def render(messages, tokenizer=TOKENIZER):
    return tokenizer.encode(tokenizer.apply_chat_template(messages, tokenize=False), add_special_tokens=False)


def said(role, content):
    return {"role": role, "content": content}


def cut(messages, limit=160, tokenizer=TOKENIZER):
    return cut_history(render(messages, tokenizer), tokenizer, {END}, limit)


def test_short_messages_share_a_chunk_and_keep_their_roles():
    chunks = cut([said("user", "Which port?"), said("assistant", "Port 8421."), said("user", "Thanks.")])
    assert [chunk.text for chunk in chunks] == ["user: Which port?\nassistant: Port 8421.\nuser: Thanks."]


def test_chunks_end_where_messages_end():
    messages = [said("user" if number % 2 else "assistant", f"line {number} of many words") for number in range(20)]
    ids = render(messages)
    chunks = cut_history(ids, TOKENIZER, {END}, 60)
    assert [token for chunk in chunks for token in chunk.ids] == ids
    assert all(END in chunk.ids[-2:] and len(chunk.ids) <= 60 for chunk in chunks)
    assert len(chunks) > 5


def test_a_tool_result_stays_with_its_call():
    messages = [
        said("assistant", "I count the lines of it now. " * 2),
        said("assistant", "run: wc -l Makefile"),
        said("tool", "88 Makefile"),
        said("tool", "and another result"),
        said("assistant", "It has 88 lines."),
    ]
    for limit in (60, 80, 100, 400):
        for chunk in cut(messages, limit):
            assert ("wc -l" in chunk.text) == ("88 Makefile" in chunk.text) == ("another result" in chunk.text)


def test_results_are_known_by_the_forms_of_other_templates_too():
    result = said("user", "<tool_response>\n12:40\n</tool_response>")
    messages = [said("user", "What is the time?"), said("assistant", "call the clock"), result]
    for chunk in cut(messages, 80):
        assert ("call the clock" in chunk.text) == ("12:40" in chunk.text)


def test_a_long_tool_result_is_cut_at_lines_each_part_with_its_call():
    lines = [f"file_{number}.txt is {number * 37} bytes long" for number in range(40)]
    chunks = cut([said("assistant", "run: ls -l"), said("tool", "\n".join(lines))], 120)
    results = [chunk for chunk in chunks if "tool:" in chunk.text]
    assert len(results) > 3
    assert all(chunk.text.startswith("assistant: run: ls -l\ntool: ") for chunk in results)
    shown = [line for chunk in results for line in chunk.text.split("tool: ")[1].split("\n")]
    assert shown == lines


def test_a_long_call_is_shortened_before_its_results():
    call = "run: " + " ".join(f"word{number}" for number in range(100))
    results = [chunk for chunk in cut([said("assistant", call), said("tool", "x" * 400)], 120) if "tool:" in chunk.text]
    assert results and all("…\ntool: " in chunk.text and "word99" not in chunk.text for chunk in results)


def test_a_line_longer_than_a_chunk_is_cut_somewhere():
    ids = render([said("user", "a" * 2000)])
    chunks = cut_history(ids, TOKENIZER, {END}, 100)
    assert [token for chunk in chunks for token in chunk.ids] == ids
    assert "".join(chunk.text.removeprefix("user: ") for chunk in chunks) == "a" * 2000


def test_ids_without_an_end_and_nothing_at_all():
    assert cut_history([], TOKENIZER, {END}) == []
    (chunk,) = cut_history(TOKENIZER.encode("just some text"), TOKENIZER, {END})
    assert chunk.text == "just some text"
    assert cut_history([END] * 300, TOKENIZER, {END}) == []


def test_many_small_results_of_one_call_share_chunks():
    messages = [said("assistant", "run: check all"), *(said("tool", f"ok {number}") for number in range(300))]
    chunks = cut(messages, 120)
    ids = render(messages)
    assert [token for chunk in chunks for token in chunk.ids] == ids
    assert len(chunks) < 3 * len(ids) / 120
    assert all(chunk.text.startswith("assistant: run: check all\ntool: ok") for chunk in chunks)
    shown = [line for chunk in chunks for line in chunk.text.split("\n")[1:]]
    assert shown == [f"tool: ok {number}" for number in range(300)]


def test_a_call_with_a_short_result_is_said_in_full_before_it():
    call = "run: " + " ".join(f"--flag{number}" for number in range(12)) + " --target=amber"
    messages = [said("assistant", call), said("tool", "deployed " * 8)]
    (chunk,) = cut(messages, len(render(messages)) * 3 // 4)
    assert chunk.text == f"assistant: {call}\ntool: {'deployed ' * 8}".strip()


def test_results_that_a_special_token_marks_stay_with_their_call():
    tokenizer = make_tokenizer()
    tokenizer.add_special_tokens({"additional_special_tokens": ["[TOOL_RESULTS]", "[/TOOL_RESULTS]"]})
    text = (
        "[INST] the time? [/INST] call the clock, please now<|im_end|>[TOOL_RESULTS] 12:40 [/TOOL_RESULTS] It is 12:40."
    )
    chunks = cut_history(tokenizer.encode(text, add_special_tokens=False), tokenizer, {END}, 50)
    assert any("call the clock" in chunk.text and "12:40" in chunk.text for chunk in chunks)
    assert all("call the clock" in chunk.text for chunk in chunks if "12:40" in chunk.text)


def test_lines_that_name_a_role_are_kept():
    lines = [("model" if number % 2 else "tool") for number in range(200)]
    chunks = cut([said("assistant", "run: ls"), said("tool", "\n".join(lines))], 80)
    shown = [
        line for chunk in chunks if "tool: " in chunk.text for line in chunk.text.split("tool: ", 1)[1].split("\n")
    ]
    assert shown == lines


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(st.sampled_from(["user", "assistant", "tool"]), st.text(max_size=120)), min_size=1, max_size=12),
    st.integers(20, 200),
)
def test_nothing_said_is_lost(said_by, limit):
    messages = [said(role, text) for role, text in said_by]
    chunks = cut(messages, limit)
    whole = "".join(chunk.text for chunk in chunks)
    if any(text.strip() for _, text in said_by):
        assert [token for chunk in chunks for token in chunk.ids] == render(messages)
    for _, text in said_by:
        for word in text.split():
            if word.isascii() and word.isalnum() and len(word) < 8:
                assert word in whole


def test_the_embedded_actors_own_template():
    tokenizer = load_tokenizer(embedded_actor())
    messages = [
        said("user", "Where is the log?"),
        said("assistant", "run: ls"),
        said("tool", "app.log\nREADME.md"),
        said("assistant", "In app.log."),
    ]
    ids = tokenizer.apply_chat_template(messages, return_dict=False)
    (chunk,) = cut_history(ids, tokenizer, {tokenizer.eos_token_id})
    assert chunk.text.endswith(
        "user: Where is the log?\nassistant: run: ls\ntool: app.log\nREADME.md\nassistant: In app.log."
    )
