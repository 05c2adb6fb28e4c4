"""The model card of a trained checkpoint: what it is for, what it was trained on and how, and what it can do."""

from __future__ import annotations

import json

from remory.training.journal import Record
from remory.training.trainer import Trainer

_OWN = "{share:.0%} of the samples come from own data (SHA-256 of the files `{digest}`), the others come with Remory."
_GENERATED = "The sessions come with Remory: generated (`remory.training.generator`)"
_WRITTEN = " and written one by one (`written.py`)"
_START = "It began with the weights of another checkpoint (SHA-256 of its tensors `{start}`)."


def write_card(trainer: Trainer, check: Record | None, full: Record | None) -> str:
    """The text of README.md. `check`, `full`: figures of the last check and of the whole history, if there are any."""
    compressor, residual = trainer.config["compressor"], trainer.config["residual"]
    data = trainer.data
    told = [_OWN.format(share=data["share"], digest=data["own data"]) if data["share"] else _name_sessions(trainer)]
    if data["start"]:
        told.append(_START.format(start=data["start"]))
    if trainer.step < trainer.settings.steps:
        told.append(f"The run was stopped after {trainer.step:,} of {trainer.settings.steps:,} steps.")
    layers = ", ".join(map(str, compressor["target_layer_ids"]))
    parameters = sum(parameter.numel() for parameter in trainer.network.parameters())
    return _CARD.format(
        actor=trainer.config["target_model"],
        revision=trainer.config["target_revision"],
        told=" ".join(told),
        steps=trainer.step,
        samples=trainer.samples,
        seconds=trainer.seconds,
        dtype=data["dtype"],
        figures=_write_figures(check, full),
        block=residual["block_tokens"],
        rows=residual["block_tokens"] // residual["compression_ratio"],
        budget=residual["memory_budget"],
        layers=layers,
        depth=compressor["num_hidden_layers"],
        width=compressor["hidden_size"],
        millions=parameters / 1e6,
        settings=json.dumps(trainer.settings.model_dump(), indent=2),
    )


def _name_sessions(trainer: Trainer) -> str:
    written = any(stage.written for stage in trainer.settings.stages)
    return f"{_GENERATED}{_WRITTEN if written else ''}."


def _write_figures(check: Record | None, full: Record | None) -> str:
    if check is None:
        return "The development sets were not asked."
    rows = [
        ("own memory", check["exact"], check["loss"]),
        ("another session's memory", check["exact_other"], check["loss_other"]),
    ]
    if full is not None:
        rows.append(("the whole history", full["exact"], full["loss"]))
    lines = [f"| {name} | {exact:.1%} | {loss:.2f} |" for name, exact, loss in rows]
    return "\n".join(
        [
            f"After step {check['step']:,}, each token of an answer judged behind the right ones before it:",
            "",
            "| read before the question | answers exactly right | loss, nats a token |",
            "| --- | --- | --- |",
            *lines,
            "",
            f"Another session's text behind the own memory costs {check['harm']:+.3f} nats a token beside none. What",
            "another session's memory gets right needed no memory. `remory eval` measures properly.",
        ]
    )


_CARD = """\
# A memory checkpoint for {actor}

A trained network that turns removed history into {rows} rows for each {block:,} tokens, for this actor alone
(revision `{revision}`). Use: `remory serve --checkpoint FOLDER`, with `--model` for another than the embedded actor.

## Data

{told} What these sessions tell is invented; the marks in them say which words a telegram of their facts would keep.

## Recipe

The actor is frozen and runs in {dtype}. Rows start from the tokens that the network scores highest; the losses are the
actor's cross-entropy on the answers to questions behind the memory, the choice of the marked tokens, and how far what
it says of following text is from what it says with the whole history, and of unrelated text from what it says without
a memory. AdamW, linear warm-up and a cosine: {steps:,} steps, {samples:,} samples, {seconds:,.0f} seconds.

## Figures on the development sets

{figures}

## The network

| | |
| --- | --- |
| layers, width | {depth} (sliding, the last one full), {width} |
| parameters | {millions:.1f} M, saved in bfloat16 |
| features | outputs of the actor's layers {layers} (from 0) |
| block, rows, budget | {block:,} tokens, {rows} rows, {budget} rows |

## Settings

```json
{settings}
```
"""
