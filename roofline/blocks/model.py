"""A model: a sequence of layers of one or several types, between an embedding and an LM head."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Literal

from pydantic import Field, Strict, field_validator, model_validator

from roofline.blocks import any_kind
from roofline.blocks.base import Block, FeedForwardBlock, MixerBlock
from roofline.blocks.vision import VisionTower
from roofline.dtypes import parse_dtype, within
from roofline.errors import RooflineError, UnknownNameError
from roofline.specs.base import Spec, Whole
from roofline.specs.quantization import ModelQuantization
from roofline.specs.quantization.base import Scheme, known_roles
from roofline.specs.source import Source

Mixer = Annotated[MixerBlock, any_kind("mixer")]
FeedForward = Annotated[FeedForwardBlock, any_kind("mlp")]


class NormSpec(Spec):
    """The norms of the residual stream."""

    function: Literal["rmsnorm", "layernorm"] = "rmsnorm"
    bias: bool = Field(default=False, description="a bias beside the weight (LayerNorm has one, usually)")
    weight: bool = Field(default=True, description="one weight per element; false: the norm has no parameters")

    @model_validator(mode="after")
    def _bias_needs_weight(self) -> NormSpec:
        if self.bias and not self.weight:
            msg = "a norm with a bias has a weight: give weight: true, or bias: false"
            raise ValueError(msg)
        return self


def _disjoint(schemes: tuple[Scheme, ...], covered: dict[str, str]) -> dict[str, str]:
    """The names of schemes by role.

    Args:
        schemes: each with its roles.
        covered: names by the roles that no scheme may have.

    Raises:
        ValueError: two schemes are of one role; pydantic turns it into a message with its place in the file.
    """
    for scheme in schemes:
        for role in scheme.roles:
            if clash := next((other for other in covered if role in within(other) or other in within(role)), None):
                msg = f"quantization: {role} is quantised as {scheme.name}, but {clash} as {covered[clash]}"
                raise ValueError(msg)
        covered = covered | dict.fromkeys(scheme.roles, scheme.name)
    return covered


class LayerType(Spec):
    """One type of layer: what mixes tokens, what works on each of them, and where the norms stand."""

    mixer: Mixer | None = Field(default=None, description="attention; none: the layer has no token mixer")
    mlp: FeedForward | None = Field(default=None, description="feed-forward block; none: the layer has none")
    norms: Literal["pre", "post", "both", "pre_and_after_mlp", "interpolated"] = Field(
        default="pre",
        description="before each block (or after its sum with the stream), after it alone, both, or both of the mlp alone; "
        "interpolated: none before; stream and output are normed, and so is what lies between them by a learned share",
    )
    parallel: bool = Field(default=False, description="mixer and mlp read the same input; their outputs are added at once")
    parallel_norms: Literal[1, 2] = Field(default=1, description="norms of a parallel layer: one shared, or one for each block")
    shared_weights: bool = Field(
        default=False, description="the layer runs with the weights of an earlier one: they are read again, and held once"
    )
    loop_input: Literal["none", "add", "norm"] = Field(
        default="none",
        description="what starts a pass of a stack that is run several times: nothing, another stream is added, or normed too",
    )
    loop_norm: bool = Field(default=False, description="a norm of the stream behind the layer, which ends such a pass")
    unquantized: tuple[str, ...] = Field(default=(), description="roles of weights that these layers do not quantise")
    quantization: ModelQuantization = Field(
        default=(), description="of roles that these layers store otherwise than the model's `quantization` says"
    )

    @field_validator("unquantized")
    @classmethod
    def _roles(cls, roles: tuple[str, ...]) -> tuple[str, ...]:
        return known_roles(roles)

    @model_validator(mode="after")
    def _something(self) -> LayerType:
        if self.mixer is None and self.mlp is None:
            msg = "a layer needs a mixer, an mlp, or both"
            raise ValueError(msg)
        if self.parallel and (self.mixer is None or self.mlp is None or self.norms != "pre"):
            msg = "parallel needs a mixer and an mlp, with norms: pre"
            raise ValueError(msg)
        return self

    @model_validator(mode="after")
    def _shares_what_can_be_shared(self) -> LayerType:
        blocks = [block for block in (self.mixer, self.mlp) if block is not None]
        if self.shared_weights and (kind := next((block.kind for block in blocks if not block.shareable), None)):
            msg = f"shared_weights is not known for a block of kind {kind} with these keys"
            raise ValueError(msg)
        return self

    @model_validator(mode="after")
    def _formats_are_disjoint(self) -> LayerType:
        _disjoint(self.quantization, dict.fromkeys(self.unquantized, "none"))
        return self


class LayerGroup(Spec):
    """A pattern of layer types, repeated."""

    pattern: tuple[str, ...] = Field(min_length=1, description="keys of layer_types, in order")
    repeat: Whole = Field(default=1, ge=1, le=10_000, description="how often the pattern is repeated")


_SENSES = ("vision", "audio", "speech", "image")
"""What the parts of a model that are not its language model are called in `Model.apart`."""


class Choice(Spec):
    """Something that the source of a model's numbers leaves open, and what was taken."""

    name: str
    value: Annotated[int, Strict()] | Annotated[bool, Strict()] | float | str | None
    origin: Literal["default", "assumed"] = "default"
    why: str


class Checkpoint(Spec):
    """A published checkpoint of a model in other formats than those of its `hf_id`."""

    hf_id: str = Field(min_length=1, description="org/name on Hugging Face")
    quantization: ModelQuantization = Field(description="of its weights: a scheme, or several")


class Model(Spec):
    """A decoder-only language model, to the last parameter."""

    schema_version: Literal[1]
    name: str
    title: str
    hf_id: str = Field(default="", description="org/name on Hugging Face")
    hidden_size: Whole = Field(ge=1)
    vocab_size: Whole = Field(ge=1)
    max_position_embeddings: Whole = Field(ge=1, description="the longest context that the model was made for")
    learned_positions: Whole = Field(default=0, ge=0, description="rows of a learned position table; 0: none")
    word_embed_proj_dim: Whole | None = Field(
        default=None, ge=1, description="width of the embedding table and the LM head, projected; default: hidden_size"
    )
    embedding_norm: bool = Field(default=False, description="a norm of the embeddings, as `norm` says")
    embedding_norm_weight: bool = Field(default=True, description="false: the norm of the embeddings has no weight")
    hidden_size_per_layer_input: Whole = Field(
        default=0, ge=0, description="width of an embedding of each layer's own; 0: none"
    )
    vocab_size_per_layer_input: Whole | None = Field(
        default=None, ge=1, description="rows of the table of those embeddings; default: vocab_size"
    )
    ngram_embedders: Whole = Field(
        default=0,
        ge=0,
        description="tables of embeddings of the last tokens together, hashed; each is hidden_size over them wide",
    )
    ngram_rows: Whole = Field(default=0, ge=0, description="rows of all those tables together")
    initial_state: bool = Field(
        default=False, description="a learned vector, with which a stack that is run several times starts"
    )
    tie_word_embeddings: bool = Field(description="the LM head's weights are the embedding table")
    lm_head_bias: bool = False
    lm_head_scale: bool = Field(default=False, description="a learned scale of each logit")
    norm: NormSpec = NormSpec()
    final_norm: bool = True
    dtype: str = Field(default="bf16", description="dtype of the published weights, and of activations")
    activation_dtype: str | None = Field(default=None, description="of activations, where it is not `dtype`")
    state_dtype: str | None = Field(
        default=None, description="dtype of recurrent state (state-space and linear-attention mixers) that the model asks for"
    )
    quantization: ModelQuantization = Field(default=(), description="of the published weights: a scheme, or several")
    checkpoints: tuple[Checkpoint, ...] = Field(default=(), description="published checkpoints in other formats, for `plan`")
    hc_mult: Whole | None = Field(
        default=None, ge=1, description="residual streams that hyper-connections mix; default: one plain residual stream"
    )
    hc_sinkhorn_iters: Whole = Field(default=20, ge=0, description="rounds in which their mixing is made doubly stochastic")
    hc_mixing: bool = Field(
        default=True,
        description="hyper-connections mix the streams among themselves; false: each takes a share of outputs alone",
    )
    hc_head: Literal["learned", "mean"] = Field(
        default="learned", description="what the final norm reads of the streams: a sum with learned weights, or their mean"
    )
    altup_num_inputs: Whole | None = Field(
        default=None, ge=2, description="copies of the residual stream that AltUp predicts and corrects; default: one stream"
    )
    laurel_rank: Whole | None = Field(
        default=None, ge=1, description="rank of a second path around each mixer (LAuReL); default: none"
    )
    layer_types: dict[str, LayerType] = Field(min_length=1)
    layers: tuple[LayerGroup, ...] = Field(min_length=1)
    apart: dict[str, Annotated[Whole, Field(ge=0)]] = Field(
        default_factory=dict, description="parameters that `total` does not count, by name: vision tower, MTP layers, buffers"
    )
    format: Literal["", "gguf"] = Field(
        default="", description="of the file that holds the weights: gguf is of llama.cpp, which is then the default engine"
    )
    vision: VisionTower | None = Field(
        default=None, description="the work of its vision tower on one image; default: the config does not say what it is"
    )
    family: str = Field(default="", description="model_type of the config.json that the model was read from")
    assumptions: tuple[Choice, ...] = Field(default=(), description="what config.json leaves open, and what was taken")
    notes: tuple[str, ...] = ()
    sources: dict[str, Source] = Field(default_factory=dict)

    @property
    def towers(self) -> dict[str, int]:
        """Return the parameters of vision and audio towers and of their projectors, by name: entries of `apart`."""
        return {name: size for name, size in self.apart.items() if name.startswith(_SENSES)}

    def as_checkpoint(self, checkpoint: Checkpoint) -> Model:
        """Return the model with the formats and the repository of one of its checkpoints."""
        return self.model_copy(update={"hf_id": checkpoint.hf_id, "quantization": checkpoint.quantization, "checkpoints": ()})

    @field_validator("dtype", "activation_dtype", "state_dtype")
    @classmethod
    def _dtype_known(cls, name: str | None) -> str | None:
        try:
            return None if name is None else parse_dtype(name).name
        except RooflineError as error:
            raise ValueError(str(error)) from None

    @model_validator(mode="after")
    def _types_exist(self) -> Model:
        for index, group in enumerate(self.layers):
            for name in group.pattern:
                if name not in self.layer_types:
                    msg = f"layers[{index}]: {UnknownNameError('layer type', name, self.layer_types)}"
                    raise ValueError(msg)
        if self.hc_mult and (
            odd := [name for name, layer in self.layer_types.items() if layer.parallel or layer.norms != "pre"]
        ):
            msg = f"layer_types.{odd[0]}: hyper-connections (hc_mult) need norms: pre and blocks that follow one another"
            raise ValueError(msg)
        self._altup_fits()
        used = set(self.layer_sequence)
        if unused := [name for name in self.layer_types if name not in used]:
            msg = f"layer_types: {', '.join(unused)} not used in layers"
            raise ValueError(msg)
        return self

    def _altup_fits(self) -> None:
        """AltUp and LAuReL stand around layers of one shape alone.

        Raises:
            ValueError: a layer is of another shape; pydantic turns it into a message with its place in the file.
        """
        for key, value in (("altup_num_inputs", self.altup_num_inputs), ("laurel_rank", self.laurel_rank)):
            if value is None:
                continue
            if self.hc_mult:
                msg = f"{key} and hc_mult exclude each other: give one"
                raise ValueError(msg)
            for name, layer in self.layer_types.items():
                if layer.norms != "both" or layer.mixer is None or layer.mlp is None:
                    msg = f"layer_types.{name}: {key} needs a mixer, an mlp and norms: both"
                    raise ValueError(msg)

    @model_validator(mode="after")
    def _caches_exist(self) -> Model:
        """A layer that reads an earlier layer's cache has one of its shape before it."""
        shapes = set()
        for name in self.layer_sequence:
            mixer = self.layer_types[name].mixer
            if mixer is None or mixer.kv_shape is None:
                continue
            if not mixer.reads_earlier_cache:
                shapes.add(mixer.kv_shape)
            elif mixer.kv_shape not in shapes:
                msg = f"layer_types.{name}: kv_shared, but no layer before it has a cache of as many heads of its widths"
                raise ValueError(msg)
        return self

    @model_validator(mode="after")
    def _weights_exist(self) -> Model:
        """A layer with the weights of an earlier one has one before it that holds them."""
        if not any(layer.shared_weights for layer in self.layer_types.values()):
            return self
        held: list[set[tuple[str, tuple[int, ...]]]] = []
        for name in self.layer_sequence:
            layer = self.layer_types[name]
            blocks = [block for block in (layer.mixer, layer.mlp) if block is not None]
            weights = self._weights_of(blocks)
            if layer.shared_weights:
                own = {key for block in blocks for key in block.unshared.values()}
                wanted = {weight for weight in weights if weight[0] not in own}
                if self.hc_mult or not any(wanted <= one for one in held):
                    msg = f"layer_types.{name}: shared_weights, but no layer before it has weights of those shapes"
                    raise ValueError(msg)
            held.append(weights)
        return self

    def _weights_of(self, blocks: Sequence[Block]) -> set[tuple[str, tuple[int, ...]]]:
        """Keys and shapes of the weights of blocks."""
        return {(one.key, one.shape) for block in blocks for one in block.checkpoint_weights(self.hidden_size)}

    @model_validator(mode="after")
    def _one_vector_of_logits(self) -> Model:
        if self.lm_head_bias and self.lm_head_scale:
            msg = "lm_head_scale and lm_head_bias exclude each other: give one"
            raise ValueError(msg)
        return self

    @model_validator(mode="after")
    def _roles_are_disjoint(self) -> Model:
        covered = _disjoint(self.quantization, {})
        if (bare := [name for name, layer in self.layer_types.items() if layer.unquantized]) and not covered:
            msg = f"layer_types.{bare[0]}.unquantized: the model is not quantised"
            raise ValueError(msg)
        return self

    @model_validator(mode="after")
    def _rows_have_a_width(self) -> Model:
        if not self.embedding_norm_weight and (not self.embedding_norm or self.norm.bias):
            msg = "embedding_norm_weight: false wants embedding_norm: true, and norms without biases"
            raise ValueError(msg)
        if bool(self.ngram_embedders) != bool(self.ngram_rows):
            msg = "ngram_embedders and ngram_rows make n-gram embeddings together: give both, or neither"
            raise ValueError(msg)
        if self.ngram_embedders and self.hidden_size % self.ngram_embedders:
            msg = f"ngram_embedders ({self.ngram_embedders}) must divide hidden_size ({self.hidden_size})"
            raise ValueError(msg)
        if self.vocab_size_per_layer_input is not None and not self.hidden_size_per_layer_input:
            msg = "vocab_size_per_layer_input wants hidden_size_per_layer_input, the width of its rows"
            raise ValueError(msg)
        return self

    @property
    def blocks(self) -> tuple[Block, ...]:
        """The blocks of each layer type, mixer before mlp, in the order of the file."""
        return tuple(block for layer in self.layer_types.values() for block in (layer.mixer, layer.mlp) if block is not None)

    @property
    def mixers(self) -> tuple[MixerBlock, ...]:
        """The token mixer of each layer type that has one, in the order of the file."""
        return tuple(layer.mixer for layer in self.layer_types.values() if layer.mixer is not None)

    @property
    def embedding_width(self) -> int:
        """Elements of a row of the embedding table."""
        return self.hidden_size if self.word_embed_proj_dim is None else self.word_embed_proj_dim

    @property
    def per_layer_embedding(self) -> tuple[int, int]:
        """Rows and width (elements) of the table with an embedding for every layer; a width of 0: there is none."""
        rows = self.vocab_size if self.vocab_size_per_layer_input is None else self.vocab_size_per_layer_input
        return rows, self.num_hidden_layers * self.hidden_size_per_layer_input

    @property
    def ngram_width(self) -> int:
        """Elements of a row of an n-gram table; 0 without them."""
        return self.hidden_size // self.ngram_embedders if self.ngram_embedders else 0

    @property
    def stream_width(self) -> int:
        """Elements per token that are sent from one pipeline stage to the next: residual streams, and per-layer inputs."""
        return self.residual_width + self.per_layer_embedding[1]

    @property
    def layer_sequence(self) -> tuple[str, ...]:
        """The type of every layer, first to last."""
        return tuple(name for group in self.layers for _ in range(group.repeat) for name in group.pattern)

    @property
    def residual_width(self) -> int:
        """Elements per token in all residual streams together."""
        return self.hidden_size * (self.hc_mult or self.altup_num_inputs or 1)

    @property
    def num_hidden_layers(self) -> int:
        """The number of layers."""
        return sum(group.repeat * len(group.pattern) for group in self.layers)

    @property
    def num_expert_layers(self) -> int:
        """The number of layers with routed experts."""
        count = 0
        for group in self.layers:
            for name in group.pattern:
                mlp = self.layer_types[name].mlp
                if mlp is not None and mlp.experts is not None:
                    count += group.repeat
        return count
