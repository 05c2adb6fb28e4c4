"""The cut of a conversation, on the embedded actor's own chat template and on templates that behave otherwise."""

from __future__ import annotations

import jinja2
import pytest
from hypothesis import given
from hypothesis import strategies as st

from remory.actors import embedded_actor, load_tokenizer
from remory.client.rendering import (
    RenderingMismatch,
    continuation_ids,
    render_split,
    split,
    summary_request_ids,
)
from remory.errors import InvalidInput

ALTERNATING = """{% set ns = namespace(turn='user') %}
{%- for m in messages %}{% if m.role != 'system' -%}
{% if m.role != ns.turn %}{{ raise_exception('roles must alternate') }}{% endif -%}
{% set ns.turn = 'assistant' if m.role == 'user' else 'user' %}{% endif -%}
<|im_start|>{{ m.role }}
{{ m.content }}<|im_end|>
{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant
{% endif %}"""

# Thoughts of the assistant are shown only after the last user message.
THINKING = """{% set ns = namespace(last=0) %}
{%- for m in messages %}{% if m.role == 'user' %}{% set ns.last = loop.index0 %}{% endif %}{% endfor -%}
{%- for m in messages %}<|im_start|>{{ m.role }}
{% if loop.index0 > ns.last or '</think>' not in m.content %}{{ m.content }}
{%- else %}{{ m.content.split('</think>')[-1] }}{% endif %}<|im_end|>
{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant
{% endif %}"""

# The definitions of the tools stand in the last user message.
LATE_TOOLS = """{% set ns = namespace(last=0) %}
{%- for m in messages %}{% if m.role == 'user' %}{% set ns.last = loop.index0 %}{% endif %}{% endfor -%}
{%- for m in messages %}<|im_start|>{{ m.role }}
{% if tools and loop.index0 == ns.last %}{{ tools | tojson }}{% endif %}{{ m.content }}<|im_end|>
{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant
{% endif %}"""

# Every message says how many there are.
COUNTING = """{% for m in messages %}<|im_start|>{{ m.role }} {{ loop.index }}/{{ messages | length }}
{{ m.content }}<|im_end|>
{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant
{% endif %}"""

TOOLS = [{"type": "function", "function": {"name": "run", "parameters": {"type": "object"}}}]


@pytest.fixture(scope="module")
def tokenizer():
    return load_tokenizer(embedded_actor())


@pytest.fixture
def render_with(tokenizer):
    def make(template=None):
        def render(messages, tools, add_generation_prompt):
            try:
                return tokenizer.apply_chat_template(
                    [dict(message) for message in messages],
                    tools=tools,
                    chat_template=template,
                    add_generation_prompt=add_generation_prompt,
                    return_dict=False,
                )
            except jinja2.TemplateError as error:
                raise InvalidInput(str(error)) from error

        return render

    return make


def says(role, content, **more):
    return {"role": role, "content": content, **more}


def called(*names):
    calls = [{"id": name, "type": "function", "function": {"name": "run", "arguments": "{}"}} for name in names]
    return says("assistant", "calling", tool_calls=calls)


CHAT = [
    says("system", "You are terse."),
    says("user", "Count the files in 4 folders."),
    says("assistant", "Which folders?"),
    says("user", "All of them."),
    says("assistant", "There are 1,204 files."),
    says("user", "And lines?"),
    says("assistant", "88,310."),
]


def test_the_prefix_is_the_instructions_and_the_task():
    parts = split(CHAT, keep_last=2)
    assert parts.prefix == tuple(CHAT[:2])
    assert parts.history == tuple(CHAT[2:5])
    assert parts.retained == tuple(CHAT[5:])


@pytest.mark.parametrize(
    ("messages", "length"),
    [
        ([says("user", "a"), says("assistant", "b")], 1),
        ([says("system", "a"), says("assistant", "b"), says("user", "c")], 1),
        ([says("system", "a"), says("developer", "b"), says("user", "c"), says("user", "d")], 3),
    ],
)
def test_prefix_length(messages, length):
    assert len(split(messages, keep_last=0).prefix) == length


def test_a_given_prefix_length_holds_when_another_user_message_moves_up():
    rest = [says("system", "a"), says("user", "after the memory"), says("assistant", "b")]
    assert split(rest, keep_last=1, prefix_length=1).history == (rest[1],)


def test_a_result_is_kept_with_its_call():
    messages = [
        says("user", "go"),
        says("assistant", "ls"),
        says("tool", "a b"),
        says("tool", "c"),
        says("user", "so?"),
    ]
    for keep_last in (2, 3, 4):
        assert split(messages, keep_last).retained == tuple(messages[1:])
    assert split(messages, 1).history == tuple(messages[1:4])


def test_results_are_matched_by_id_across_other_messages():
    messages = [
        says("user", "go"),
        called("one", "two"),
        says("tool", "1", tool_call_id="one"),
        says("assistant", "meanwhile"),
        says("tool", "2", tool_call_id="two"),
        says("user", "so?"),
    ]
    assert split(messages, keep_last=3).retained == tuple(messages[1:])
    assert split(messages, keep_last=2).retained == tuple(messages[1:])


def test_a_call_that_waits_for_its_result_is_retained():
    messages = [
        says("user", "go"),
        says("assistant", "yes"),
        called("one", "two"),
        says("tool", "1", tool_call_id="one"),
    ]
    assert split(messages, keep_last=0).retained == tuple(messages[2:])


def test_an_abandoned_call_does_not_hold_the_history():
    messages = [says("user", "go"), called("one"), says("user", "stop that"), says("assistant", "stopped")]
    assert split(messages, keep_last=1).history == tuple(messages[1:3])


@given(
    roles=st.lists(st.sampled_from(["user", "assistant", "tool"]), max_size=12),
    keep_last=st.integers(min_value=0, max_value=14),
)
def test_no_split_separates_a_result_from_what_it_answers(roles, keep_last):
    messages = [says("system", "s"), says("user", "u"), *(says(role, str(i)) for i, role in enumerate(roles))]
    parts = split(messages, keep_last)
    assert (*parts.prefix, *parts.history, *parts.retained) == tuple(messages)
    assert len(parts.retained) >= min(keep_last, len(roles))
    if parts.history:
        assert not parts.retained or parts.retained[0]["role"] != "tool"


@pytest.mark.parametrize(
    ("messages", "keep_last", "words"),
    [
        ([], 2, "at least one message"),
        ([says("assistant", "hello")], 2, "begin with a system or a user message"),
        ([says("user", "hello"), "text"], 2, "message 1"),
        ([says("user", "hello"), {"content": "no role"}], 2, "message 1"),
        ([says("user", "hello")], -1, "-1"),
        ([says("user", "hello"), says("assistant", "", tool_calls=[3])], 2, "tool_calls of message 1"),
        ([says("user", "hello"), says("assistant", "", tool_calls="run")], 2, "tool_calls of message 1"),
    ],
)
def test_what_is_no_conversation_is_refused(messages, keep_last, words):
    with pytest.raises(InvalidInput, match=words):
        split(messages, keep_last)


@pytest.mark.parametrize("keep_last", [0, 1, 2, 3, 4])
def test_the_three_parts_are_the_whole_rendering(render_with, keep_last):
    render = render_with()
    rendered = render_split(render, split(CHAT, keep_last))
    whole = rendered.prefix_ids + rendered.history_ids + rendered.continuation_ids
    assert whole == render(CHAT, None, True)
    assert rendered.bridge == ()


def test_a_conversation_without_instructions_gets_the_default_ones_once(render_with, tokenizer):
    rendered = render_split(render_with(), split(CHAT[1:], keep_last=2))
    assert "named SmolLM" in tokenizer.decode(rendered.prefix_ids)
    assert "named SmolLM" not in tokenizer.decode(rendered.continuation_ids)


@pytest.mark.parametrize("template", [None, ALTERNATING, THINKING], ids=["embedded", "alternating", "thinking"])
def test_a_conversation_goes_on_and_is_compacted_again(render_with, tokenizer, template):
    render = render_with(template)
    messages = [m | {"content": "<think>hm</think>" + m["content"]} if m["role"] == "assistant" else m for m in CHAT]
    first_parts = split(messages, keep_last=2)
    first = render_split(render, first_parts)
    assert first.prefix_ids + first.history_ids + first.continuation_ids == render(messages, None, True)

    held = [*first_parts.retained, says("user", "And bytes?"), says("assistant", "9 MB."), says("user", "Thanks.")]
    ids = continuation_ids(render, first_parts.prefix, held, None, first.bridge)
    text = tokenizer.decode(ids)
    assert text.startswith("<|im_start|>user\nAnd lines?") and text.endswith(
        "Thanks.<|im_end|>\n<|im_start|>assistant\n"
    )

    second_parts = split([*first_parts.prefix, *held], keep_last=1, prefix_length=len(first_parts.prefix))
    second = render_split(render, second_parts, None, first.bridge)
    assert second.prefix_ids == first.prefix_ids
    assert second.history_ids + second.continuation_ids == ids


def test_a_bridge_stands_in_where_two_user_messages_would_meet(render_with):
    render = render_with(ALTERNATING)
    parts = split(CHAT, keep_last=2)
    with pytest.raises(InvalidInput, match="alternate"):
        render((*parts.prefix, *parts.retained), None, True)
    rendered = render_split(render, parts)
    assert [message["role"] for message in rendered.bridge] == ["assistant"]
    whole = rendered.prefix_ids + rendered.history_ids + rendered.continuation_ids
    assert whole == render(CHAT, None, True)


def test_a_prefix_that_renders_otherwise_inside_is_refused_with_the_position(render_with):
    render = render_with(LATE_TOOLS)
    parts = split(CHAT, keep_last=2)
    with pytest.raises(RenderingMismatch) as caught:
        render_split(render, parts, TOOLS)
    alone, inside = render(parts.prefix, TOOLS, False), render(CHAT, TOOLS, True)
    position = caught.value.position
    assert alone[:position] == inside[:position] and alone[position] != inside[position]
    assert str(position) in str(caught.value)
    assert render_split(render, parts).history_ids


def test_retained_messages_that_render_otherwise_alone_are_refused(render_with):
    parts = split(CHAT, keep_last=2)
    with pytest.raises(RenderingMismatch):
        render_split(render_with(COUNTING), parts)


@pytest.mark.parametrize("template", [None, ALTERNATING], ids=["embedded", "alternating"])
@pytest.mark.parametrize("keep_last", [1, 2])
def test_the_summary_request_shows_all_that_goes_and_nothing_that_stays(render_with, tokenizer, template, keep_last):
    render = render_with(template)
    parts = split(CHAT, keep_last)
    rendered = render_split(render, parts)
    whole = summary_request_ids(render, parts, "Summarise.")
    removed = rendered.prefix_ids + rendered.history_ids
    assert whole[: len(removed)] == removed
    assert tokenizer.decode(whole).endswith("user\nSummarise.<|im_end|>\n<|im_start|>assistant\n")
    assert "88,310" not in tokenizer.decode(whole)
    restored = summary_request_ids(render, parts, "Summarise.", restored=True)
    assert rendered.prefix_ids + restored == whole


def test_tool_results_are_part_of_the_history(render_with, tokenizer):
    messages = [
        says("user", "go"),
        *(message for i in range(3) for message in (called(f"c{i}"), says("tool", f"out {i}", tool_call_id=f"c{i}"))),
        says("user", "so?"),
    ]
    rendered = render_split(render_with(), split(messages, keep_last=2), TOOLS)
    history, rest = tokenizer.decode(rendered.history_ids), tokenizer.decode(rendered.continuation_ids)
    assert "out 0" in history and "out 1" in history and "out 2" not in history
    assert rest.startswith("<|im_start|>assistant\ncalling") and "out 2" in rest
