"""The options of `remory train`, and what its help says. Imports nothing heavy: `remory --help` passes here."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path

_DESCRIPTION = """\
Train a memory network for an actor, whose weights stay as they are: the network learns to choose the tokens of a
removed history that rows start from, and to make rows that the actor can answer from. The sessions are generated, and
with --from they come from your own texts and transcripts too.

A run lives in the folder --out: its state, log.jsonl, curves.png (with matplotlib), and at the end checkpoint/, which
`remory serve --checkpoint` takes. Ctrl-C or a kill loses the step in progress, or what came after the last save; the
same command goes on from there, and ends with the same weights as if nothing had happened (on the same kind of device).
"""

_EXAMPLES = """\
examples:
  remory train --preset embedded --out run             train for the embedded model
  remory train --preset embedded --out run --minutes 8 --device cuda
                                                       for eight minutes; the same command goes on
  remory train --config settings.json --model FOLDER --out run
                                                       for a Hugging Face folder of the Llama or Qwen type
  remory train --config settings.json --from notes/ --from sessions.jsonl --share 0.3 --start CHECKPOINT --out tuned
                                                       go on from a checkpoint, with your own data

docs/training.md says what the settings are, what own data looks like, and how to read the figures.
"""


def add(parser: argparse.ArgumentParser, size: Callable[[str], int]) -> None:
    """Add all options; `size` reads a number of bytes."""
    parser.description, parser.epilog = _DESCRIPTION, _EXAMPLES
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    _add_run(parser.add_argument_group("what is trained"))
    _add_own(parser.add_argument_group("own data"), size)
    _add_folder(parser.add_argument_group("the run"))


def _add_run(group: argparse._ArgumentGroup) -> None:
    chosen = group.add_mutually_exclusive_group(required=True)
    chosen.add_argument("--preset", metavar="NAME", help="settings that ship: embedded, for the embedded model")
    chosen.add_argument("--config", type=Path, metavar="FILE", help="settings from a JSON file")
    group.add_argument(
        "--model",
        metavar="NAME_OR_FOLDER",
        help="a Hugging Face folder of a Llama- or Qwen-type model (default: the embedded SmolLM2-135M-Instruct)",
    )
    group.add_argument("--device", default="cpu", help="cpu, cuda or cuda:N (default: %(default)s)")
    group.add_argument(
        "--dtype", choices=("float32", "bfloat16"), help="what the actor runs in (default: the model's own)"
    )
    group.add_argument("--seed", type=int, help="of weights and samples (default: the settings')")
    group.add_argument(
        "--start", type=Path, metavar="CHECKPOINT", help="begin with the weights of a checkpoint of the same sizes"
    )


def _add_own(group: argparse._ArgumentGroup, size: Callable[[str], int]) -> None:
    group.add_argument(
        "--from",
        dest="sources",
        type=Path,
        action="append",
        default=[],
        metavar="FILE",
        help="a .txt or .md text, a .jsonl file of transcripts, or a folder of such; may be repeated",
    )
    group.add_argument(
        "--share", type=_share, metavar="0..1", help="how many of the samples come from --from (default: 0.5)"
    )
    group.add_argument(
        "--cache", type=Path, metavar="FOLDER", help="what the actor makes of own data (default: cache/ in --out)"
    )
    group.add_argument(
        "--cache-bytes",
        type=size,
        default=8 << 30,
        metavar="SIZE",
        help="most bytes of that, such as 512M (default: 8G); what does not fit is computed again each time",
    )


def _add_folder(group: argparse._ArgumentGroup) -> None:
    group.add_argument("--out", type=Path, required=True, metavar="FOLDER", help="where the run lives")
    group.add_argument("--restart", action="store_true", help="delete a run that is there, and begin again")
    group.add_argument(
        "--minutes",
        type=_positive,
        metavar="N",
        help="stop in time for this, loading and the last check included; the learning rate does not hurry",
    )
    group.add_argument(
        "--save-every",
        type=_positive,
        default=300.0,
        metavar="SECONDS",
        help="how often the state is saved (default: %(default).0f)",
    )
    group.add_argument(
        "--check-every",
        type=_steps,
        default=100,
        metavar="STEPS",
        help="how often the questions of the development sets are asked (default: %(default)s); 0: never",
    )


def _share(text: str) -> float:
    value = _number(text)
    if not 0 <= value <= 1:
        raise argparse.ArgumentTypeError(f"a share lies within 0 to 1, got {text}")
    return value


def _positive(text: str) -> float:
    value = _number(text)
    if not 0 < value < float("inf"):
        raise argparse.ArgumentTypeError(f"must be more than 0, got {text}")
    return value


def _steps(text: str) -> int:
    if not text.isdigit():
        raise argparse.ArgumentTypeError(f"{text!r} is no number of steps")
    return int(text)


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"{text!r} is no number") from error
