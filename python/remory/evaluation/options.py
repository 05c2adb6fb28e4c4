"""The options of `remory eval`, and what its help says. Imports nothing heavy: `remory --help` passes here."""

from __future__ import annotations

import argparse
from pathlib import Path

from remory.evaluation.arms import ARMS, LABELS, SUMMARY
from remory.evaluation.sets import held_out_sets, shipped_sets

DEFAULT_STAGES = (1, 2, 4)

_DESCRIPTION = """\
Show whether a memory carries what the removed history said.

Recorded sessions are played on a server as a product plays them: the system message and the task stay, each part of
the session is removed by a compaction, the actor writes a summary, the memory network makes rows of the history, and
each compaction goes on from the one before. Then questions are asked whose answers stand in the removed parts, the
same ones in every arm:

{arms}

The texts have as many tokens as the memory has rows, and stand in their place. «another's memory» has the own summary
and the rows of another session: what it answers, no memory of this session was needed for.

Measured are right answers (the expected words stand in the greedy answer of at most 24 tokens), the loss of the
expected answer (nats a token; it tells arms apart where a small actor says nothing right yet), refusals of questions
whose answer was never told, the loss of the session's own next tokens, and harm: how much worse a foreign text is
predicted than with the summary alone. All with 95 % intervals from drawing sessions, and by age, kind and type.
"""

_EXAMPLES = """\
examples:
  remory eval --quick                              two sessions, a few questions: does it all work? (minutes)
  remory eval --checkpoint FOLDER --device cuda --out results
                                                   all held-out sessions; stop it and start it again at will
  remory eval --set development --stages 1,2 --arms full,memory,last-text
  remory eval --url http://127.0.0.1:8421 --set my-sessions.json --out mine

A set of your own is a JSON file; docs/memory-quality.md says what it holds, and how all of this is measured.
"""


def add(parser: argparse.ArgumentParser) -> None:
    """Add all but those of the model. Each arm, stage and count is checked while the command line is read."""
    parser.description = _DESCRIPTION.format(arms="\n".join(f"  {arm:18} {LABELS[arm]}" for arm in ARMS))
    parser.epilog = _EXAMPLES
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    _add_server(parser.add_argument_group("where"))
    _add_play(parser.add_argument_group("what is played"))
    results = parser.add_argument_group("results")
    results.add_argument(
        "--out",
        type=Path,
        metavar="FOLDER",
        help="write results.json (every answer and every figure), table.md and, with matplotlib, pictures; with the "
        "same settings an interrupted evaluation goes on from there, a session at a time",
    )
    results.add_argument("--seed", type=int, default=0, help="of the draws for intervals (default: %(default)s)")


def _add_server(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--url", help="use a running server (the memories made there are deleted again); default: one of its own"
    )
    group.add_argument("--key", help="API key of that server")


def _add_play(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--set",
        action="append",
        metavar="NAME_OR_FILE",
        help=f"a set of sessions; may be repeated. There are {', '.join(shipped_sets()) or 'none'} "
        f"(default: {', '.join(held_out_sets()) or 'none'})",
    )
    group.add_argument("--sessions", type=_count, metavar="N", help="only the first N of each set")
    group.add_argument(
        "--stages",
        type=_stages,
        default=DEFAULT_STAGES,
        metavar="LIST",
        help="after which compactions questions are asked (default: 1,2,4)",
    )
    group.add_argument(
        "--arms",
        type=_arms,
        default=ARMS,
        metavar="LIST",
        help=f"of those above, with commas between them; {SUMMARY} is always among them (default: all)",
    )
    group.add_argument(
        "--quick",
        action="store_true",
        help="two sessions of each set unless --sessions says otherwise, and two questions of each part",
    )


def _arms(text: str) -> tuple[str, ...]:
    named = _listed(text)
    unknown = [name for name in named if name not in ARMS]
    if unknown or not named:
        raise argparse.ArgumentTypeError(f"{', '.join(unknown) or 'nothing'} is no arm; there are {', '.join(ARMS)}")
    # Harm is told beside it.
    return tuple(arm for arm in ARMS if arm in named or arm == SUMMARY)


def _stages(text: str) -> tuple[int, ...]:
    named = _listed(text)
    if not named or not all(name.isdecimal() and int(name) > 0 for name in named):
        raise argparse.ArgumentTypeError(f"{text!r} is no list of numbers of compactions, such as 1,2,4")
    return tuple(sorted({int(name) for name in named}))


def _count(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is no whole number from 1")
    return int(text)


def _listed(text: str) -> list[str]:
    return [name.strip() for name in text.split(",") if name.strip()]
