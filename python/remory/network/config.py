"""config.json of a checkpoint: what it holds, what it must satisfy, and how it gives the network's geometry."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from remory.errors import CheckpointError, InvalidInput
from remory.network.geometry import Geometry

SCHEMA = "remory.memory.v1"
GLM_SCHEMA = "remory_glm53_local_evaluation_v1"

Strategy = Literal["reencode", "frontier"]
Size = Annotated[int, Field(gt=0)]
TokenId = Annotated[int, Field(ge=0)]
_Number = Annotated[float, Field(gt=0, allow_inf_nan=False)]


class _Section(BaseModel):
    """Strict about what it knows (a string is no number); passes over keys it does not know."""

    model_config = ConfigDict(strict=True, frozen=True, extra="ignore", populate_by_name=True)


class PointerSection(_Section):
    """The copy path; `vocabulary` is the length of its table of inverse document frequencies."""

    heads: Size
    head_dim: Size
    vocabulary: Size


class SalienceSection(_Section):
    """What chooses the tokens that rows start from; `reach`: neighbours on each side that a token's score sees."""

    channels: Size
    reach: Size


class CompressorSection(_Section):
    target_hidden_size: Size
    hidden_size: Size
    target_layer_ids: tuple[Annotated[int, Field(ge=0)], ...] = Field(min_length=1)
    compression_ratio: Size
    local_window: Size
    num_hidden_layers: Size
    num_attention_heads: Size
    num_key_value_heads: Size
    head_dim: Size
    intermediate_size: Size
    layer_types: tuple[str, ...]
    output_embedding_rms: _Number
    max_depth: Size = 1
    summary_gate_init: float | None = Field(default=None, allow_inf_nan=False)
    rms_norm_eps: _Number = 1e-6
    rope_theta: _Number = 1e7
    base: str | None = None
    salience: SalienceSection | None = None
    pointer: PointerSection | None = None
    trained: bool | None = None

    @model_validator(mode="after")
    def _check(self) -> CompressorSection:
        if self.hidden_size != self.target_hidden_size:
            raise ValueError(
                f"hidden_size {self.hidden_size} differs from target_hidden_size {self.target_hidden_size}"
            )
        if list(self.target_layer_ids) != sorted(set(self.target_layer_ids)):
            raise ValueError(f"target_layer_ids must ascend, got {list(self.target_layer_ids)}")
        if len(self.layer_types) != self.num_hidden_layers:
            raise ValueError(f"layer_types names {len(self.layer_types)} layers of {self.num_hidden_layers}")
        kinds = [kind.removesuffix("_attention") for kind in self.layer_types]
        if kinds != ["sliding"] * (len(kinds) - 1) + ["full"]:
            raise ValueError(
                f"layer_types must be sliding but for the last, which is full; got {list(self.layer_types)}"
            )
        return self


class ResidualSection(_Section):
    """`strategy`: what becomes of older memory at the next compaction, for our own schema to state."""

    block_tokens: Size
    compression_ratio: Size
    memory_budget: Size
    strategy: Strategy | None = None

    @model_validator(mode="after")
    def _check(self) -> ResidualSection:
        # A parent's source is the rows of `ratio` children: they must fill a block and no more.
        if self.block_tokens % self.compression_ratio:
            raise ValueError(
                f"block_tokens {self.block_tokens} is not a multiple of compression_ratio {self.compression_ratio}"
            )
        rows = self.block_tokens // self.compression_ratio
        if self.memory_budget < rows:
            raise ValueError(f"memory_budget {self.memory_budget} is less than the {rows} rows of one block")
        return self


class SummaryContract(_Section):
    """How a summary is asked for and how memory is written into the restored prompt, in the actor's token ids.

    end_token_id is the placeholder that rows replace, and stops the summary's generation. output_schema None: the
    summary is plain text.
    """

    end_token_id: TokenId
    summary_before_ids: tuple[TokenId, ...] = Field(alias="student_summary_before_ids")
    summary_after_ids: tuple[TokenId, ...] = Field(alias="student_summary_after_ids")
    memory_before_ids: tuple[TokenId, ...] = Field(alias="student_memory_before_ids")
    memory_after_ids: tuple[TokenId, ...] = Field(alias="student_memory_after_ids")
    prompt: str = Field(min_length=1)
    output_schema: dict[str, Any] | None = None

    @property
    def markers(self) -> int:
        """How many tokens the markers around summary and memory take."""
        return sum(
            map(
                len,
                (self.summary_before_ids, self.summary_after_ids, self.memory_before_ids, self.memory_after_ids),
            )
        )

    @property
    def largest_token_id(self) -> int:
        markers = (self.summary_before_ids, self.summary_after_ids, self.memory_before_ids, self.memory_after_ids)
        return max(self.end_token_id, *(token for ids in markers for token in ids))


class CheckpointConfig(_Section):
    """The whole of config.json. Without `schema` it is the published Qwen form, conditioned on a summary."""

    schema_name: Literal["remory.memory.v1", "remory_glm53_local_evaluation_v1"] | None = Field(
        default=None, alias="schema"
    )
    target_model: str = Field(min_length=1)
    target_revision: str = Field(min_length=1)
    compressor: CompressorSection
    residual: ResidualSection
    summary_contract: SummaryContract
    feature_view: Literal["decoder_block_attn_hc_collapsed_input"] | None = None

    @model_validator(mode="after")
    def _check(self) -> CheckpointConfig:
        ratios = self.compressor.compression_ratio, self.residual.compression_ratio
        if ratios[0] != ratios[1]:
            raise ValueError(f"compression_ratio is {ratios[0]} in compressor and {ratios[1]} in residual")
        if self.schema_name == SCHEMA and self.compressor.trained is None:
            raise ValueError("compressor.trained must be stated")
        if self.schema_name != GLM_SCHEMA and self.feature_view is not None:
            raise ValueError(f"feature_view belongs to the schema {GLM_SCHEMA}")
        self._check_strategy()
        return self

    def _check_strategy(self) -> None:
        stated = self.residual.strategy
        if stated is not None and self.schema_name != SCHEMA:
            raise ValueError(f"residual.strategy belongs to the schema {SCHEMA}; the published ones imply theirs")
        if stated == "reencode" and not self.summary_conditioned:
            raise ValueError(
                "residual.strategy is 'reencode', but only a network that reads the summary can fold old memory into "
                "new, and compressor.summary_gate_init is absent"
            )

    @property
    def summary_conditioned(self) -> bool:
        """The published Qwen form is, the GLM form is not, ours is when it states an initial summary gate."""
        if self.schema_name == SCHEMA:
            return self.compressor.summary_gate_init is not None
        return self.schema_name is None

    @property
    def strategy(self) -> Strategy:
        """As stated. Else a network that reads the summary folds old memory into new; the other keeps its frontier."""
        return self.residual.strategy or ("reencode" if self.summary_conditioned else "frontier")

    @property
    def keeps_branches(self) -> bool:
        """Whether a frontier takes in the nodes of finished sub-agents: the published contract refuses them."""
        return self.schema_name == SCHEMA

    @property
    def trained(self) -> bool:
        """Published checkpoints are trained and do not say so."""
        return self.compressor.trained is not False

    def geometry(self) -> Geometry:
        """The network's flat geometry. Raises InvalidInput when the sizes do not fit each other."""
        compressor = self.compressor
        pointer, salience = compressor.pointer, compressor.salience
        return Geometry(
            hidden_size=compressor.hidden_size,
            num_attention_heads=compressor.num_attention_heads,
            num_key_value_heads=compressor.num_key_value_heads,
            head_dim=compressor.head_dim,
            intermediate_size=compressor.intermediate_size,
            num_hidden_layers=compressor.num_hidden_layers,
            layers_captured=len(compressor.target_layer_ids),
            block_tokens=self.residual.block_tokens,
            compression_ratio=compressor.compression_ratio,
            local_window=compressor.local_window,
            max_depth=compressor.max_depth,
            summary_conditioned=self.summary_conditioned,
            rms_norm_eps=compressor.rms_norm_eps,
            rope_theta=compressor.rope_theta,
            base=compressor.base,
            pointer_heads=pointer.heads if pointer else 0,
            pointer_head_dim=pointer.head_dim if pointer else 0,
            vocabulary=pointer.vocabulary if pointer else 0,
            salience_channels=salience.channels if salience else 0,
            salience_reach=salience.reach if salience else 0,
        )


def read_config(text: str) -> tuple[CheckpointConfig, Geometry]:
    """Parse and check the text of a config.json. Raises CheckpointError that names the key and the numbers."""
    try:
        config = CheckpointConfig.model_validate_json(text)
        return config, config.geometry()
    except ValidationError as error:
        raise CheckpointError(f"config.json: {_describe(error)}") from error
    except InvalidInput as error:
        raise CheckpointError(f"config.json: {error}") from error


def _describe(error: ValidationError) -> str:
    faults = error.errors(include_url=False, include_context=False)
    return "; ".join(": ".join(filter(None, [".".join(map(str, fault["loc"])), fault["msg"]])) for fault in faults)
