"""The memory network as a trainable module."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from remory import ops
from remory.errors import InvalidInput
from remory.network.geometry import SALIENT, TAIL, Geometry
from remory.ops.encode_plain import encode_plain, score_salience

# Facts about the actor and the training text, not learned: they are saved but get no gradient.
_STATISTICS = frozenset({"output_embedding_rms", "pointer.mean", "pointer.idf"})
_KERNEL_DTYPES = (torch.float32, torch.bfloat16)
_INITIAL_DEVIATION = 0.02
_INITIAL_COPY = 0.35
_INITIAL_IDF_SCALE = 0.3
_INITIAL_GROUP_BONUS = 2.0


class MemoryNetwork(nn.Module):
    """Turns blocks of source tokens into rows in the actor's input-embedding space.

    `geometry`: a `Geometry` or a mapping of its fields. Parameters carry the names of a published checkpoint
    (`layers.0.self_attn.q_proj.weight`, …). They are held by plain containers, because one op computes the whole
    network from their list; wrapping a single projection (an adapter, a hook) therefore has no effect.

    Initialisation is seeded and the same on every device: matrices normal with deviation 0.02, norm weights 1,
    summary gates `summary_gate_init`, the base gate 0, the pointer's values 0.35 of the identity, its idf scale 0.3
    and group bonus 2, its statistics 0, the taps of a token's own place 1 more than drawn. On the meta device nothing
    is initialised.
    """

    def __init__(
        self,
        geometry: Geometry | Mapping[str, Any],
        *,
        output_embedding_rms: float = 1.0,
        summary_gate_init: float = 0.0,
        seed: int = 0,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        self.geometry = geometry if isinstance(geometry, Geometry) else Geometry.from_mapping(geometry)
        for name, shape in self.geometry.tensor_shapes().items():
            self._hold(name, torch.empty(shape, device=device, dtype=dtype))
        if self.device.type != "meta":
            self._initialise(output_embedding_rms, summary_gate_init, seed)

    @property
    def device(self) -> torch.device:
        return self._tensors()["fc.weight"].device

    @property
    def dtype(self) -> torch.dtype:
        return self._tensors()["fc.weight"].dtype

    def forward(
        self,
        features: Tensor,
        summary: Tensor | None = None,
        input_depth: int = 0,
        embeddings: Tensor | None = None,
        token_ids: Tensor | None = None,
    ) -> Tensor:
        """Rows [n, D] of one block; see `encode`. features [T, L*D], embeddings [T, D], token_ids [T] int64."""
        return self.encode(
            features[None],
            torch.tensor([features.shape[0]], device=features.device),
            summary,
            torch.tensor([input_depth], device=features.device),
            None if embeddings is None else embeddings[None],
            None if token_ids is None else token_ids[None],
        )[0]

    def encode(
        self,
        features: Tensor,
        lengths: Tensor,
        summary: Tensor | None,
        input_depths: Tensor,
        embeddings: Tensor | None = None,
        token_ids: Tensor | None = None,
        kept: Tensor | None = None,
        summary_lengths: Tensor | None = None,
    ) -> Tensor:
        """Rows [B, n, D] of B blocks, in the network's dtype.

        features [B, T, L*D], T at most block_tokens; block b uses its first `lengths[b]` tokens, 1 to T. lengths and
        input_depths [B] int64. summary, the actor's final normalised states of the summary, given exactly when the
        network is conditioned on one: [S, D] for all blocks alike, or [B, S, D] with summary_lengths [B] int64, of
        which block b sees its own first `summary_lengths[b]` rows, 1 to S. embeddings [B, T, D], the source tokens'
        input embeddings (for a merge the children's rows), needed with a base or a pointer. token_ids [B, T] int64,
        needed with a pointer; -1 stands for a row, whose inverse document frequency counts as 0. kept [B, n] int64,
        ascending and below each block's length: the tokens that rows start from in place of those that a network with
        base "salient" would choose; in plain torch only. The choice itself gives `salience` no gradient: see
        `score_salience`.

        Runs in the compiled op where there is one for the device and dtype, but in plain torch when gradients are
        enabled and there is anything to differentiate. Raises InvalidInput when a shape or a number does not fit, and,
        unless it is differentiating, when a row is not finite.
        """
        self._check_blocks(features, lengths, input_depths)
        self._check_summary(summary, summary_lengths, len(features))
        self._check_embeddings(features, embeddings, token_ids)
        if kept is not None:
            self._check_kept(kept, lengths)
        tensors = list(self._tensors().values())
        idf = self._document_frequencies(token_ids)
        inputs = [x for x in (features, summary, embeddings, *tensors) if x is not None]
        differentiable = torch.is_grad_enabled() and any(x.requires_grad for x in inputs)
        # The op itself turns to the plain definition for gradients and for devices without a kernel.
        run: Callable[..., Tensor] = ops.encode if self.dtype in _KERNEL_DTYPES else encode_plain
        if kept is not None:
            run = partial(encode_plain, kept=kept)
        rows = run(
            features.to(self.dtype),
            lengths,
            None if summary is None else summary.to(self.dtype),
            tensors,
            input_depths,
            **self._op_arguments(),
            embeddings=None if embeddings is None else embeddings.to(self.dtype),
            idf=idf,
            summary_lengths=summary_lengths,
        )
        if not differentiable:
            _check_finite(rows)
        return rows

    def score_salience(self, features: Tensor, lengths: Tensor, embeddings: Tensor) -> Tensor:
        """[B, T] float32: how much each source token asks to be kept, -inf beyond a block's length; differentiable.

        Arguments as in `encode`. Raises InvalidInput for a network whose base is not "salient", and when a shape or a
        number does not fit.
        """
        if self.geometry.base != SALIENT:
            raise InvalidInput(f"a network with base {self.geometry.base!r} scores no tokens")
        self._check_blocks(features, lengths, torch.zeros_like(lengths))
        self._check_width(features, embeddings)
        tensors = list(self._tensors().values())
        dtype = self.dtype
        return score_salience(features.to(dtype), lengths, embeddings.to(dtype), tensors, **self._op_arguments())

    def _hold(self, name: str, tensor: Tensor) -> None:
        """Register a tensor under its dotted name, making the containers on the way."""
        *path, leaf = name.split(".")
        module: nn.Module = self
        for part in path:
            if part not in module._modules:
                module.add_module(part, nn.Module())
            module = module.get_submodule(part)
        if name in _STATISTICS:
            module.register_buffer(leaf, tensor)
        else:
            module.register_parameter(leaf, nn.Parameter(tensor))

    def _tensors(self) -> dict[str, Tensor]:
        """All tensors by name, in the order of `Geometry.tensor_shapes()`."""
        held: dict[str, Tensor] = {**dict(self.named_parameters()), **dict(self.named_buffers())}
        return {name: held[name] for name in self.geometry.tensor_shapes()}

    def _op_arguments(self) -> dict[str, Any]:
        geometry = self.geometry
        return {
            "heads": geometry.num_attention_heads,
            "kv_heads": geometry.num_key_value_heads,
            "head_dim": geometry.head_dim,
            "layers": geometry.num_hidden_layers,
            "block": geometry.block_tokens,
            "ratio": geometry.compression_ratio,
            "window": geometry.local_window,
            "eps": geometry.rms_norm_eps,
            "theta": geometry.rope_theta,
            "summary_conditioned": geometry.summary_conditioned,
            "tail": geometry.base == TAIL,
            "salient": geometry.base == SALIENT,
            "pointer_heads": geometry.pointer_heads,
            "pointer_head_dim": geometry.pointer_head_dim,
        }

    @torch.no_grad()
    def _initialise(self, output_embedding_rms: float, summary_gate_init: float, seed: int) -> None:
        # Drawn on the CPU in float32, so that a seed means the same weights on every device and in every dtype.
        generator = torch.Generator().manual_seed(seed)
        constants = {
            "output_embedding_rms": output_embedding_rms,
            "base_gate": 0.0,
            "pointer.idf_scale": _INITIAL_IDF_SCALE,
            "pointer.group_bonus": _INITIAL_GROUP_BONUS,
            "pointer.mean": 0.0,
            "pointer.idf": 0.0,
        }
        for name, tensor in self._tensors().items():
            if name in constants:
                tensor.fill_(constants[name])
            elif name == "pointer.value":
                tensor.copy_(_INITIAL_COPY * torch.eye(tensor.shape[-1]))
            elif name == "salience.taps":
                tensor.copy_(_INITIAL_DEVIATION * torch.randn(tensor.shape, generator=generator))
                tensor[self.geometry.salience_reach] += 1.0
            elif name.endswith("norm.weight"):
                tensor.fill_(1.0)
            elif name.endswith(".gate"):
                tensor.fill_(summary_gate_init)
            else:
                tensor.copy_(_INITIAL_DEVIATION * torch.randn(tensor.shape, generator=generator))

    def _document_frequencies(self, token_ids: Tensor | None) -> Tensor | None:
        """[B, T] the inverse document frequency of each source token, 0 for rows; None without a pointer."""
        if not self.geometry.pointer_heads or token_ids is None:
            return None
        table = self._tensors()["pointer.idf"]
        return torch.where(token_ids >= 0, table[token_ids.clamp(min=0)], 0)

    def _check_blocks(self, features: Tensor, lengths: Tensor, input_depths: Tensor) -> None:
        geometry = self.geometry
        if features.dim() != 3 or features.shape[2] != geometry.feature_size:
            raise InvalidInput(
                f"features must be [B, T, {geometry.feature_size}] ({geometry.layers_captured} layers of "
                f"{geometry.hidden_size}), got {list(features.shape)}"
            )
        blocks, tokens = features.shape[:2]
        if not 1 <= tokens <= geometry.block_tokens:
            raise InvalidInput(f"a block holds 1 to {geometry.block_tokens} source tokens, got {tokens}")
        _check_vector("lengths", lengths, blocks)
        _check_vector("input_depths", input_depths, blocks)
        if blocks == 0:
            raise InvalidInput("features hold no block")
        _check_range("lengths", lengths, 1, tokens)
        # Without a depth table the network is not told the depth.
        _check_range("input_depths", input_depths, 0, geometry.max_depth - 1 if geometry.summary_conditioned else None)

    def _check_summary(self, summary: Tensor | None, summary_lengths: Tensor | None, blocks: int) -> None:
        width = self.geometry.hidden_size
        if summary is None and self.geometry.summary_conditioned:
            raise InvalidInput("this network is conditioned on a summary, but none was given")
        if summary is not None and not self.geometry.summary_conditioned:
            raise InvalidInput("this network is not conditioned on a summary, but one was given")
        if summary is not None and summary.dim() == 3:
            self._check_own_summaries(summary, summary_lengths, blocks)
            return
        if summary_lengths is not None:
            got = "none" if summary is None else list(summary.shape)
            raise InvalidInput(f"summary_lengths belong to a summary [{blocks}, S, {width}], got {got}")
        if summary is not None and (summary.dim() != 2 or summary.shape[0] < 1 or summary.shape[1] != width):
            raise InvalidInput(f"summary must be [S, {width}] with S at least 1, got {list(summary.shape)}")

    def _check_own_summaries(self, summary: Tensor, summary_lengths: Tensor | None, blocks: int) -> None:
        rows, width = summary.shape[1], self.geometry.hidden_size
        if rows < 1 or summary.shape != (blocks, rows, width):
            expected = f"[S, {width}] or [{blocks}, S, {width}]"
            raise InvalidInput(f"summary must be {expected} with S at least 1, got {list(summary.shape)}")
        if summary_lengths is None:
            raise InvalidInput(f"summary {list(summary.shape)} needs summary_lengths [{blocks}] int64, got none")
        _check_vector("summary_lengths", summary_lengths, blocks)
        _check_range("summary_lengths", summary_lengths, 1, rows)

    def _check_embeddings(self, features: Tensor, embeddings: Tensor | None, token_ids: Tensor | None) -> None:
        if not self.geometry.reads_embeddings:
            return
        self._check_width(features, embeddings)
        if not self.geometry.pointer_heads:
            return
        expected = features.shape[:2]
        if token_ids is None or token_ids.dtype != torch.int64 or token_ids.shape != expected:
            got = "none" if token_ids is None else f"{list(token_ids.shape)} {token_ids.dtype}"
            raise InvalidInput(f"token_ids must be {list(expected)} int64, got {got}")
        _check_range("token_ids", token_ids, -1, self.geometry.vocabulary - 1)

    def _check_width(self, features: Tensor, embeddings: Tensor | None) -> None:
        expected = (*features.shape[:2], self.geometry.hidden_size)
        if embeddings is None or embeddings.shape != expected:
            got = "none" if embeddings is None else list(embeddings.shape)
            raise InvalidInput(f"embeddings must be {list(expected)}, got {got}")

    def _check_kept(self, kept: Tensor, lengths: Tensor) -> None:
        if self.geometry.base != SALIENT:
            raise InvalidInput(f"a network with base {self.geometry.base!r} keeps no tokens, but some are given")
        expected = (len(lengths), self.geometry.slots)
        if kept.dtype != torch.int64 or kept.shape != expected:
            raise InvalidInput(f"kept must be {list(expected)} int64, got {list(kept.shape)} {kept.dtype}")
        _check_range("kept", kept, 0, None)
        outside = (kept >= lengths[:, None]).any(dim=1) | (kept.diff(dim=1) < 0).any(dim=1)
        if outside.any():
            blocks = outside.nonzero().flatten().tolist()
            raise InvalidInput(f"kept must ascend, below each block's length; it does not in blocks {blocks}")


def _check_vector(name: str, values: Tensor, blocks: int) -> None:
    if values.dtype != torch.int64 or values.shape != (blocks,):
        raise InvalidInput(f"{name} must be [{blocks}] int64, got {list(values.shape)} {values.dtype}")


def _check_range(name: str, values: Tensor, lowest: int, highest: int | None) -> None:
    smallest, largest = (int(bound) for bound in values.aminmax())
    if smallest < lowest or (highest is not None and largest > highest):
        limit = f"at least {lowest}" if highest is None else f"within {lowest} to {highest}"
        raise InvalidInput(f"{name} must be {limit}, got {smallest} to {largest}")


def _check_finite(rows: Tensor) -> None:
    finite = rows.isfinite().flatten(1).all(dim=1)
    if not finite.all():
        blocks = (~finite).nonzero().flatten().tolist()
        raise InvalidInput(f"the rows of blocks {blocks} are not finite; features, summary or embeddings are not")
