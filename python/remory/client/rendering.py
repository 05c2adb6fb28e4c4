"""Cuts a conversation into prefix, history and continuation, as token ids of the actor's own chat template.

Everything here is pure: the template comes in as `render(messages, tools, add_generation_prompt) -> ids`, so the
service (which has a tokenizer) and `Harness` (which asks the service) share it. `render` raises `InvalidInput` for
messages that its template refuses.

Nothing is assumed about a template; what is needed of it is checked on every call:

* the prefix renders to the same ids alone and at the head of the conversation, because a memory is bound to them;
* the retained messages render to the same ids after the removed history and without it, because later renders no
  longer have that history.

Some templates refuse two user messages in a row, which is what remains when the history between them is gone. They get
a *bridge*: an assistant message rendered in the history's place, whose ids are cut off again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from remory.errors import InvalidInput

Message = Mapping[str, Any]
Tools = Sequence[Mapping[str, Any]]
Render = Callable[[Sequence[Message], Tools | None, bool], list[int]]
Bridge = tuple[Message, ...]

_INSTRUCTIONS = ("system", "developer")
_BRIDGES: tuple[Bridge, ...] = ((), ({"role": "assistant", "content": "…"},))


class RenderingMismatch(InvalidInput):
    """The chat template renders a part of the conversation differently when it stands elsewhere.

    `position`: index, in the ids of the whole conversation, of the first token that differs (for the prefix) or of
    the token after the last one that differs (for the retained messages).
    """

    def __init__(self, message: str, position: int):
        super().__init__(message)
        self.position = position


@dataclass(frozen=True)
class Split:
    """A conversation in three parts: `prefix` stays in front, `history` is to be removed, `retained` stays verbatim."""

    prefix: tuple[Message, ...]
    history: tuple[Message, ...]
    retained: tuple[Message, ...]


@dataclass(frozen=True)
class Rendered:
    """A `Split` as token ids. `continuation_ids` are the retained messages and the generation prompt.

    `bridge` is what later renders must put where the history was (`continuation_ids(…, bridge=…)`).
    """

    prefix_ids: list[int]
    history_ids: list[int]
    continuation_ids: list[int]
    bridge: Bridge


def split(messages: Sequence[Message], keep_last: int, prefix_length: int | None = None) -> Split:
    """Split a conversation, keeping every tool call and its results on one side.

    `prefix_length` messages form the prefix; by default the leading system messages and the user message that follows
    them, if one does. The last `keep_last` messages are retained, and as many before them as complete their tool
    calls; a call still waiting for a result counts as retained. Raises InvalidInput when the roles make no
    conversation or `keep_last` is negative.
    """
    _check_messages(messages)
    if keep_last < 0:
        raise InvalidInput(f"keep_last must not be negative, got {keep_last}")
    start = _prefix_length(messages) if prefix_length is None else prefix_length
    if not 0 < start <= len(messages):
        raise InvalidInput(
            "a conversation must begin with a system or a user message, "
            f"got {messages[0]['role']!r} as the first of {len(messages)}"
        )
    cut = max(start, _widened(messages, max(start, len(messages) - keep_last)))
    return Split(tuple(messages[:start]), tuple(messages[start:cut]), tuple(messages[cut:]))


def render_split(render: Render, parts: Split, tools: Tools | None = None, bridge: Bridge = ()) -> Rendered:
    """Render a `Split`. `bridge` is the one an earlier compaction of this conversation returned, if there was one.

    Without a bridge `prefix_ids + history_ids + continuation_ids` are exactly the ids of the whole conversation with
    its generation prompt. Raises RenderingMismatch when the template does not allow the cut.
    """
    prefix_ids = render(parts.prefix, tools, False)
    head_ids = _head_ids(render, parts.prefix, tools, bridge, prefix_ids)
    whole = render((*parts.prefix, *bridge, *parts.history, *parts.retained), tools, True)
    _check_head(head_ids, whole)
    nearest = 0
    refusal: InvalidInput | None = None
    for candidate in _BRIDGES:
        try:
            tail = continuation_ids(render, parts.prefix, parts.retained, tools, candidate)
        except InvalidInput as error:
            refusal = error
            continue
        stop = len(whole) - len(tail)
        if stop >= len(head_ids) and whole[stop:] == tail:
            return Rendered(prefix_ids, whole[len(head_ids) : stop], tail, candidate)
        nearest = max(nearest, _common_length(whole[::-1], tail[::-1]))
    position = len(whole) - nearest
    raise RenderingMismatch(
        "the chat template renders the retained messages differently without the history before them: "
        f"only the last {nearest} of {len(whole)} tokens agree, up to position {position}",
        position,
    ) from refusal


def continuation_ids(
    render: Render,
    prefix: Sequence[Message],
    messages: Sequence[Message],
    tools: Tools | None = None,
    bridge: Bridge = (),
) -> list[int]:
    """Ids of `messages` and the generation prompt, as they follow a memory that stands for what lay before them.

    `bridge` is `Rendered.bridge` of the compaction that made the memory.
    """
    head_ids = _head_ids(render, prefix, tools, bridge)
    whole = render((*prefix, *bridge, *messages), tools, True)
    _check_head(head_ids, whole)
    return whole[len(head_ids) :]


def summary_request_ids(
    render: Render,
    parts: Split,
    prompt: str,
    tools: Tools | None = None,
    bridge: Bridge = (),
    *,
    restored: bool = False,
) -> list[int]:
    """Ids that ask the actor to summarise prefix and history: both, `prompt` as a user message, generation prompt.

    `restored`: only what follows the prefix, for a request whose handle already brings the prefix and what an earlier
    compaction removed; `bridge` is that compaction's.
    """
    head_ids = _head_ids(render, parts.prefix, tools, bridge)
    request = {"role": "user", "content": prompt}
    for gap in _BRIDGES:
        try:
            whole = render((*parts.prefix, *bridge, *parts.history, *gap, request), tools, True)
            break
        except InvalidInput:
            if gap == _BRIDGES[-1]:
                raise
    _check_head(head_ids, whole)
    return whole[len(head_ids) :] if restored else whole


def _check_messages(messages: Sequence[Message]) -> None:
    if not messages:
        raise InvalidInput("a conversation needs at least one message, got none")
    for index, message in enumerate(messages):
        if not isinstance(message, Mapping) or not isinstance(message.get("role"), str):
            raise InvalidInput(f"message {index} must be an object with a text 'role', got {type(message).__name__}")
        calls = message.get("tool_calls")
        if calls is not None and not (
            isinstance(calls, list | tuple) and all(isinstance(call, Mapping) for call in calls)
        ):
            raise InvalidInput(f"the tool_calls of message {index} must be a list of objects")


def _prefix_length(messages: Sequence[Message]) -> int:
    length = 0
    while length < len(messages) and messages[length]["role"] in _INSTRUCTIONS:
        length += 1
    if length < len(messages) and messages[length]["role"] == "user":
        length += 1
    return length


def _widened(messages: Sequence[Message], cut: int) -> int:
    """Move a cut towards the start until it separates no tool call from a result of it."""
    pairs = _tool_pairs(messages)
    while crossing := [call for call, result in pairs if call < cut <= result]:
        cut = min(crossing)
    return cut


def _tool_pairs(messages: Sequence[Message]) -> list[tuple[int, int]]:
    """(index of the call, index of a result of it); the index past the end for a result that is still to come.

    A result without a known `tool_call_id` belongs to the nearest message before it that is not a result. A call that
    got no result before somebody else spoke waits for none.
    """
    pairs: list[tuple[int, int]] = []
    caller_of: dict[str, int] = {}
    speaker = waiting = 0
    for index, message in enumerate(messages):
        if message["role"] == "tool":
            pairs.append((caller_of.get(str(message.get("tool_call_id")), speaker), index))
            waiting -= 1
            continue
        calls = message.get("tool_calls") or ()
        speaker, waiting = index, len(calls)
        caller_of |= {str(call["id"]): index for call in calls if "id" in call}
    if waiting > 0:
        pairs.append((speaker, len(messages)))
    return pairs


def _head_ids(
    render: Render,
    prefix: Sequence[Message],
    tools: Tools | None,
    bridge: Bridge,
    prefix_ids: list[int] | None = None,
) -> list[int]:
    if prefix_ids is None:
        prefix_ids = render(prefix, tools, False)
    if not bridge:
        return prefix_ids
    head_ids = render((*prefix, *bridge), tools, False)
    _check_head(prefix_ids, head_ids)
    return head_ids


def _check_head(head: list[int], whole: list[int]) -> None:
    position = _common_length(head, whole)
    if position < len(head):
        raise RenderingMismatch(
            "the chat template renders the prefix differently inside the conversation: "
            f"token {position} of its {len(head)} tokens is the first that differs",
            position,
        )


def _common_length(left: Sequence[int], right: Sequence[int]) -> int:
    for index, (a, b) in enumerate(zip(left, right, strict=False)):
        if a != b:
            return index
    return min(len(left), len(right))
