"""The shape of a memory network: its sizes, the names and shapes of its tensors."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from remory.errors import InvalidInput

TAIL, SALIENT = "tail", "salient"
# Far beyond any actor; a damaged configuration must not make the reader list millions of tensors or positions.
_LARGEST_SIZE = 1 << 24
_MOST_LAYERS = 1 << 10


@dataclass(frozen=True)
class Geometry:
    """Sizes of a memory network.

    hidden_size: width D of the actor and of the network. layers_captured: L, actor layers whose states make up a
    feature. block_tokens: source tokens to a block. compression_ratio: source tokens to a slot. local_window: tokens;
    a slot reads what lies strictly nearer to its anchor than half of it. max_depth: rows of the depth table.
    base: None, "tail" to start each row from one of the block's last embeddings, or "salient" to start it from one of
    those that the network scores highest: then salience_channels and salience_reach (neighbours on each side that a
    token's score sees) are given, else 0. pointer_heads, pointer_head_dim and vocabulary (entries of its table of
    inverse document frequencies) are all 0 without a pointer.

    Raises InvalidInput when the sizes do not fit each other.
    """

    hidden_size: int
    num_attention_heads: int
    num_key_value_heads: int
    head_dim: int
    intermediate_size: int
    num_hidden_layers: int
    layers_captured: int
    block_tokens: int
    compression_ratio: int
    local_window: int
    max_depth: int
    summary_conditioned: bool
    rms_norm_eps: float = 1e-6
    rope_theta: float = 1e7
    base: str | None = None
    pointer_heads: int = 0
    pointer_head_dim: int = 0
    vocabulary: int = 0
    salience_channels: int = 0
    salience_reach: int = 0

    def __post_init__(self) -> None:
        self._check_types()
        self._check_sizes()
        self._check_pointer()
        self._check_salience()

    @classmethod
    def from_mapping(cls, values: Mapping[str, Any]) -> Geometry:
        """From a flat configuration. `input_depth` belongs to a call, not to the network, and is passed over."""
        given = {name: value for name, value in values.items() if name != "input_depth"}
        known = {field.name: field for field in fields(cls)}
        unknown = sorted(given.keys() - known.keys())
        if unknown:
            raise InvalidInput(f"geometry has unknown fields {', '.join(unknown)}")
        try:
            return cls(**given)
        except TypeError as error:
            raise InvalidInput(f"geometry is incomplete: {error}") from error

    @property
    def slots(self) -> int:
        """n, the rows of a block, whatever the number of its tokens."""
        return -(-self.block_tokens // self.compression_ratio)

    @property
    def feature_size(self) -> int:
        """L*D, the width of a feature."""
        return self.layers_captured * self.hidden_size

    @property
    def reads_embeddings(self) -> bool:
        """Whether encoding needs the source tokens' input embeddings."""
        return self.base is not None or self.pointer_heads > 0

    def tensor_shapes(self) -> dict[str, tuple[int, ...]]:
        """Name and shape of every tensor of a checkpoint, in the order in which `remory.ops.encode` takes them."""
        width = self.hidden_size
        shapes: dict[str, tuple[int, ...]] = {
            "fc.weight": (width, self.feature_size),
            "hidden_norm.weight": (width,),
            "mask_embedding": (1, 1, width),
        }
        if self.summary_conditioned:
            shapes["depth_embedding.weight"] = (self.max_depth, width)
        shapes |= {"norm.weight": (width,), "output_embedding_rms": ()}
        for layer in range(self.num_hidden_layers):
            shapes |= self._layer_shapes(f"layers.{layer}")
        if self.summary_conditioned:
            for layer in range(self.num_hidden_layers - 1):
                shapes |= self._summary_attention_shapes(f"summary_attention.{layer}")
        if self.base is not None:
            shapes["base_gate"] = (1,)
        if self.base == SALIENT:
            shapes |= self._salience_shapes()
        if self.pointer_heads:
            shapes |= self._pointer_shapes()
        return shapes

    def _layer_shapes(self, layer: str) -> dict[str, tuple[int, ...]]:
        width, inner = self.hidden_size, self.intermediate_size
        return {
            f"{layer}.input_layernorm.weight": (width,),
            f"{layer}.post_attention_layernorm.weight": (width,),
            **self._projection_shapes(f"{layer}.self_attn"),
            f"{layer}.self_attn.q_norm.weight": (self.head_dim,),
            f"{layer}.self_attn.k_norm.weight": (self.head_dim,),
            f"{layer}.mlp.gate_proj.weight": (inner, width),
            f"{layer}.mlp.up_proj.weight": (inner, width),
            f"{layer}.mlp.down_proj.weight": (width, inner),
        }

    def _summary_attention_shapes(self, attention: str) -> dict[str, tuple[int, ...]]:
        return {
            f"{attention}.query_norm.weight": (self.hidden_size,),
            f"{attention}.summary_norm.weight": (self.hidden_size,),
            f"{attention}.q_norm.weight": (self.head_dim,),
            f"{attention}.k_norm.weight": (self.head_dim,),
            **self._projection_shapes(attention),
            f"{attention}.gate": (1,),
        }

    def _projection_shapes(self, attention: str) -> dict[str, tuple[int, ...]]:
        width = self.hidden_size
        queries, keys = self.num_attention_heads * self.head_dim, self.num_key_value_heads * self.head_dim
        return {
            f"{attention}.q_proj.weight": (queries, width),
            f"{attention}.k_proj.weight": (keys, width),
            f"{attention}.v_proj.weight": (keys, width),
            f"{attention}.o_proj.weight": (width, queries),
        }

    def _salience_shapes(self) -> dict[str, tuple[int, ...]]:
        width, channels = self.hidden_size, self.salience_channels
        return {
            "salience.source.weight": (channels, width),
            "salience.lexical.weight": (channels, width),
            "salience.taps": (2 * self.salience_reach + 1, channels),
            "salience.mix.weight": (channels, channels),
            "salience.score": (channels,),
        }

    def _pointer_shapes(self) -> dict[str, tuple[int, ...]]:
        width, heads = self.hidden_size, self.pointer_heads
        return {
            "pointer.q_proj.weight": (heads * self.pointer_head_dim, width),
            "pointer.k_proj.weight": (heads * self.pointer_head_dim, width),
            "pointer.value": (heads, width, width),
            "pointer.idf_scale": (heads,),
            "pointer.group_bonus": (heads,),
            "pointer.mean": (width,),
            "pointer.idf": (self.vocabulary,),
        }

    def _check_types(self) -> None:
        """The field annotations decide; a bool is not an int here."""
        expected: dict[str, tuple[tuple[type, ...], str]] = {
            "int": ((int,), "an integer"),
            "float": ((int, float), "a number"),
            "bool": ((bool,), "true or false"),
            "str | None": ((str, type(None)), "a name or null"),
        }
        for field in fields(self):
            value = getattr(self, field.name)
            types, words = expected[str(field.type)]
            if not isinstance(value, types) or (isinstance(value, bool) and bool not in types):
                raise InvalidInput(f"{field.name} must be {words}, got {value!r}")

    def _check_sizes(self) -> None:
        optional = {"pointer_heads", "pointer_head_dim", "vocabulary", "salience_channels", "salience_reach"}
        for field in fields(self):
            value = getattr(self, field.name)
            if field.type in ("int", "float") and field.name not in optional and not 0 < value < float("inf"):
                raise InvalidInput(f"{field.name} must be positive, got {value}")
            if field.type == "int" and value > _LARGEST_SIZE:
                raise InvalidInput(f"{field.name} must be at most {_LARGEST_SIZE}, got {value}")
        # The last layer reads no source: with it alone the rows would not depend on the tokens.
        if not 2 <= self.num_hidden_layers <= _MOST_LAYERS:
            raise InvalidInput(f"num_hidden_layers must be within 2 to {_MOST_LAYERS}, got {self.num_hidden_layers}")
        if self.num_attention_heads % self.num_key_value_heads:
            raise InvalidInput(
                f"num_attention_heads {self.num_attention_heads} is not a multiple of "
                f"num_key_value_heads {self.num_key_value_heads}"
            )
        if self.head_dim % 2:
            raise InvalidInput(f"head_dim must be even to be rotated, got {self.head_dim}")
        if self.compression_ratio > self.block_tokens:
            raise InvalidInput(f"compression_ratio {self.compression_ratio} exceeds block_tokens {self.block_tokens}")
        if self.base not in (None, TAIL, SALIENT):
            raise InvalidInput(f"base must be null, {TAIL!r} or {SALIENT!r}, got {self.base!r}")

    def _check_pointer(self) -> None:
        sizes = (self.pointer_heads, self.pointer_head_dim, self.vocabulary)
        if any(sizes) and min(sizes) < 1:
            raise InvalidInput(
                f"a pointer needs pointer_heads, pointer_head_dim and vocabulary of at least 1, got {sizes}"
            )

    def _check_salience(self) -> None:
        sizes = (self.salience_channels, self.salience_reach)
        if self.base != SALIENT:
            if any(sizes):
                raise InvalidInput(f"salience_channels and salience_reach belong to base {SALIENT!r}, got {sizes}")
            return
        if min(sizes) < 1:
            raise InvalidInput(
                f"base {SALIENT!r} needs salience_channels and salience_reach of at least 1, got {sizes}"
            )
        # Slots sit where the kept tokens are, so a window around an even grid of anchors has no meaning.
        if self.local_window < 2 * self.block_tokens:
            raise InvalidInput(
                f"base {SALIENT!r} needs a local_window of at least {2 * self.block_tokens} (twice block_tokens), "
                f"got {self.local_window}"
            )
