"""How memory and summary are written into an actor's prompt, in its own markup."""

from __future__ import annotations

from typing import Any

from remory.training.phrasing import Phrasing

_SUMMARY = "Summary of the conversation so far:\n"
_MEMORY = "Notes of the conversation so far, in short:\n"
_PROMPT = (
    "Summarize our conversation so far for someone who will continue the work without seeing it. Write down the goal, "
    "the decisions, all names and numbers that matter, and what is still to do. Be brief."
)


def write_contract(phrasing: Phrasing) -> dict[str, Any]:
    """The `summary_contract` of config.json: user messages around summary and rows, the end of a message between."""
    before, after = phrasing.around("user")
    return {
        "end_token_id": phrasing.end_ids[-1],
        "student_summary_before_ids": phrasing.encode(before + _SUMMARY),
        "student_summary_after_ids": phrasing.encode(after),
        "student_memory_before_ids": phrasing.encode(before + _MEMORY),
        "student_memory_after_ids": phrasing.encode(after),
        "prompt": _PROMPT,
        "output_schema": None,
    }
