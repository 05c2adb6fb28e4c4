"""One frozen actor under Transformers: embeddings with rows in place, chunks of reading, captured layers, logits."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from remory import actors, ops
from remory.engines.base import ActorInfo, Source
from remory.engines.kv import KVState
from remory.errors import InvalidInput

_ATTENTION_LAYERS = {"full_attention", "sliding_attention"}
# What other families do between decoder and logits; this engine calls the output layer alone.
_LOGIT_CHANGES = ("logits_scaling", "logit_scale", "final_logit_softcapping")


class ActorModel:
    """A Llama- or Qwen-type decoder. Only one thread may call it at a time."""

    def __init__(self, folder: Path, device: str, dtype: torch.dtype | None, max_context: int | None) -> None:
        model = actors.load_model(folder, device, dtype)
        _check_architecture(model, folder)
        self._decoder = model.model
        self._embed = model.get_input_embeddings()
        self._head = model.get_output_embeddings()
        self.device = self._embed.weight.device
        self.dtype = self._embed.weight.dtype
        self.end_ids = _end_ids(model.generation_config, model.config)
        vocabulary, width = self._embed.weight.shape
        context = model.config.max_position_embeddings
        self.info = ActorInfo(
            name=actors.actor_name(folder),
            revision=actors.actor_revision(folder),
            width=width,
            vocabulary=vocabulary,
            context_length=min(context, max_context) if max_context else context,
            dtype=str(self.dtype).removeprefix("torch."),
            device=str(self.device),
            layers=len(self._decoder.layers),
        )

    def new_state(self, capacity: int) -> KVState:
        """An empty attention state with room for `capacity` tokens."""
        return KVState(self.info.layers, capacity)

    def embed_ids(self, ids: Tensor) -> Tensor:
        """Input embeddings [1, T, D] of token ids [T]."""
        return self._embed(ids.to(self.device))[None]

    def embed(self, source: Source, start: int, stop: int) -> Tensor:
        """Input embeddings [1, stop - start, D] of a span of the source, its rows in place."""
        embeddings = self.embed_ids(source.ids[start:stop])
        if source.rows is not None:
            first, last = torch.searchsorted(source.positions, torch.tensor([start, stop])).tolist()
            if last > first:
                rows = source.rows[first:last].to(self.device)
                ops.inject(embeddings[0], rows, (source.positions[first:last] - start).to(self.device))
        return embeddings

    def read(self, state: KVState, embeddings: Tensor) -> Tensor:
        """Read T more positions of B sequences, embeddings [B, T, D]; final normalised states [B, T, D]."""
        return self._decoder(
            inputs_embeds=embeddings.to(self.dtype), past_key_values=state, use_cache=True
        ).last_hidden_state

    @contextmanager
    def capturing(self, layer_ids: Sequence[int], rows: Tensor, outs: Sequence[Tensor]) -> Iterator[None]:
        """While reading, write the residual stream behind these L layers at `rows` [N] into outs[b] [N, L·D]."""
        rows = rows.to(self.device)
        # Hooked in for this one reading: requests of networks with other layers run by turns with it.
        hooks = [
            self._decoder.layers[layer].register_forward_hook(_writer(column, rows, outs))
            for column, layer in enumerate(layer_ids)
        ]
        try:
            yield
        finally:
            for hook in hooks:
                hook.remove()

    def logits(self, states: Tensor) -> Tensor:
        """Float32 logits [N, V] of final states [N, D]."""
        return self._head(states).float()


def _writer(column: int, rows: Tensor, outs: Sequence[Tensor]) -> Any:
    def write(_module: Any, _inputs: Any, output: Any) -> None:
        hidden = output[0] if isinstance(output, tuple) else output
        for states, out in zip(hidden, outs, strict=True):
            ops.capture(states, None, rows, out, column)

    return write


def _check_architecture(model: Any, folder: Path) -> None:
    config = model.config
    kinds = set(getattr(config, "layer_types", None) or _ATTENTION_LAYERS)
    decoder = getattr(model, "model", None)
    plain_logits = all(getattr(config, name, None) in (None, 1, 1.0) for name in _LOGIT_CHANGES)
    is_decoder = hasattr(decoder, "layers") and hasattr(decoder, "norm")
    if not (is_decoder and plain_logits and kinds <= _ATTENTION_LAYERS):
        raise InvalidInput(
            f"the actor at {folder} is a {config.model_type!r} model; this engine runs Llama- and Qwen-type decoders "
            f"whose layers all are attention and whose logits come straight from the output layer"
        )


def _end_ids(*configs: Any) -> frozenset[int]:
    """The tokens that end an answer, as the actor's own configuration names them."""
    found: set[int] = set()
    for config in configs:
        stated = getattr(config, "eos_token_id", None)
        found.update(stated if isinstance(stated, list | tuple) else [] if stated is None else [stated])
    return frozenset(found)
