"""What is measured of one answer: whether it is right, how unlikely the right one was, whether it says not to know."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from remory.errors import EngineFailed

AGE_BINS = (256, 512, 1024, 2048)

# What a model says that does not know. A pattern knows only the wordings that stand here: other ways to decline count
# as answers, and an answer that says one of them in passing counts as declined.
_REFUSAL = re.compile(
    r"\b(?:(?:is|was|are|were|has|have|had|does|do|did|can|could|would|am)(?: not|n't)"
    r"(?: \w+){0,2} (?:mention|specif|stat|giv|provid|say|said|know|discuss|decid|told|find|found|record|includ|aware"
    r"|determin|contain|tell|answer|recall|remember)\w*"
    r"|not (?:mentioned|specified|stated|given|provided|known|said|discussed|decided|recorded|included|available|sure"
    r"|certain|clear|applicable)"
    r"|cannot (?:\w+ )?(?:say|know|tell|find|determine|answer|provide|recall|remember)"
    r"|no (?:\w+ )?(?:information|mention|record|details?|data|indication|answer|context)"
    r"|(?:is|was|are|were) (?:unknown|unclear|unspecified|undecided|never)|never (?:mentioned|said|stated|specified)"
    r"|don't have (?:\w+ )?(?:information|access|details)|unknown\b|i(?:'m| am) (?:sorry|unsure)|apologi[sz]e)",
    re.IGNORECASE,
)


def is_right(answer: str, expected: Sequence[str]) -> bool:
    """Whether one of the `expected` forms stands in the answer as whole words, in any case of letters."""
    text = _plain(answer)
    return any(_words(_plain(form)).search(text) for form in expected if form.strip())


def is_refusal(answer: str) -> bool:
    """Whether the answer says that the thing is not known or was not said, in one of the wordings that we know."""
    return _REFUSAL.search(_plain(answer).replace("’", "'")) is not None


def age_bin(tokens: int) -> str:
    """The bin of an age in tokens, such as "256-511"; the last is open, such as "2048+"."""
    low = 0
    for high in AGE_BINS:
        if tokens < high:
            return f"{low}-{high - 1}"
        low = high
    return f"{low}+"


def mean_loss(answer: dict[str, Any], ids: Sequence[int]) -> float:
    """Mean negative log-likelihood, nats a token, of `ids`, which end a prompt that `/generate` scored.

    Raises EngineFailed when other tokens were scored, or one of them has no likelihood.
    """
    scored = answer["meta_info"].get("input_token_logprobs") or []
    last = scored[max(len(scored) - len(ids), 0) :]
    if not ids or [entry[1] for entry in last] != list(ids) or any(entry[0] is None for entry in last):
        raise EngineFailed(
            f"the server did not score the {len(ids)} tokens that end a prompt, but {len(scored)} tokens"
        )
    return -sum(entry[0] for entry in last) / len(ids)


def _words(form: str) -> re.Pattern[str]:
    # A number does not stand in a longer one: neither 5 nor 12 in 12.5.
    before = r"(?<!\w)" + (r"(?<!\d[.,:])" if form[0].isdigit() else "")
    after = r"(?!\w)" + (r"(?![.,:]\d)" if form[-1].isdigit() else "")
    return re.compile(before + re.escape(form) + after, re.IGNORECASE)


def _plain(text: str) -> str:
    return " ".join(text.split())
