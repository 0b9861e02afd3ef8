"""An inference engine at a version: the defaults that decide what fits (`engines/*.yaml`), and what it adds to the kernels of a
step (`engines/steps/<engine>.yaml`). Dated data, not code."""

from __future__ import annotations

from datetime import date
from math import inf
from typing import Literal

from pydantic import Field, field_validator

from roofline.dtypes import parse_dtype
from roofline.errors import RooflineError
from roofline.numeric import Expr, log2
from roofline.specs.base import Spec, Whole
from roofline.specs.deployment import ExpertExchange
from roofline.specs.fit import Factors, Value
from roofline.specs.source import Source

# What a sequence may keep: the words of `KvCacheRules.known`.
CacheKind = Literal["full", "window", "chunk", "latent", "indexer", "state", "compressed"]


class KvCacheRules(Spec):
    """How an engine allocates KV cache and recurrent state. `roofline.predict.allocation` applies these rules."""

    known: tuple[CacheKind, ...] = Field(
        default=("full", "window", "chunk", "latent", "indexer", "state"),
        description="what these rules were read for; of anything else the result says that the rules are not known",
    )
    window: Literal["in_sight", "all"] = Field(
        default="in_sight", description="blocks that layers with a sliding window hold: those still in sight, or all"
    )
    chunk: Literal["in_sight", "all"] = Field(
        default="in_sight", description="likewise layers that attend in chunks; all: and every other layer of such a model too"
    )
    reserves: Literal["used", "context"] = Field(
        default="used",
        description="tokens that a sequence has memory for: those in it, in blocks; or from the start as many as it may have "
        "(max_model_len), for each of max_num_seqs sequences, and in layers with a window that and one step's tokens",
    )
    shared_pages: bool = Field(
        default=True, description="kinds of layers take pages of one size from one pool, in equal groups"
    )
    widen_below: float = Field(
        default=1.5,
        ge=1,
        description="groups are as long as the largest kind has layers, where that is less than this times the smallest",
    )
    indexer_element_bytes: float | None = Field(
        default=None, gt=0, description="bytes an element of an indexer's key, scales included; default: as the cache"
    )
    sparse_latent_fp8_bytes: float | None = Field(
        default=None,
        gt=0,
        description="bytes per token of a layer's latents beside an indexer in an fp8 cache; default: one per element",
    )
    state_dtype: str = Field(
        default="fp32", description="format of recurrent state where the model's file names none: activations, or a dtype"
    )
    state_dtype_of: dict[str, str] = Field(default_factory=dict, description="the same for some families")
    state_blocks: int = Field(default=1, ge=1, description="copies of the recurrent state of a sequence")
    cached_state_blocks: int | None = Field(
        default=None, ge=1, description="the same with prefix caching; default: prefix caching does not change it"
    )
    caches_states: bool = Field(
        default=False, description="prefixes of models with recurrent state are cached unless that is switched off"
    )
    pads_pages: bool = Field(
        default=False, description="a block that does not divide the largest one is padded to it; default: it is refused"
    )
    steps_in_flight: int = Field(default=1, ge=1, description="steps whose tokens layers with a window hold at a time")
    state_block_step: int = Field(default=16, ge=1, description="multiple to which blocks are enlarged so that a state fits")
    latent_block_step: int = Field(default=64, ge=1, description="the same, where the blocks hold latents (MLA)")

    @field_validator("state_dtype", "state_dtype_of")
    @classmethod
    def _formats_known(cls, given: str | dict[str, str]) -> str | dict[str, str]:
        for name in given.values() if isinstance(given, dict) else (given,):
            if name != "activations":
                try:
                    parse_dtype(name)
                except RooflineError as error:
                    raise ValueError(str(error)) from None
        return given

    def with_prefix_caching(self, given: bool | None) -> KvCacheRules:
        """The rules with the copies of recurrent state that prefix caching needs, where it is on.

        Args:
            given: whether it was switched on or off; None: as the engine does by itself.
        """
        on = self.caches_states if given is None else given
        if not on or self.cached_state_blocks is None:
            return self
        return self.model_copy(update={"state_blocks": self.cached_state_blocks})

    def state_format(self, family: str) -> str | None:
        """The dtype of recurrent state for models of a family (`Model.family`); None: that of the activations."""
        name = self.state_dtype_of.get(family, self.state_dtype)
        return None if name == "activations" else name


MemoryShare = Literal["all", "static", "free"]
"""What an engine's share of memory is a share of: all memory, for everything (`all`) or for weights and cache alone (`static`);
or what weights and activations leave, for the cache (`free`)."""
MEMORY_OPTIONS: dict[MemoryShare, str] = {
    "all": "gpu_memory_utilization",
    "static": "mem_fraction_static",
    "free": "kv_cache_free_gpu_memory_fraction",
}
"""The option of each share, as the engine that has it calls it."""
_GIB = 2**30


class ReservedMemory(Spec):
    """Memory that an engine keeps out of its share on cards of a size."""

    below_gib: float | None = Field(default=None, gt=0, description="of cards with less memory than this; none: of all others")
    gib: float = Field(ge=0, description="kept free on each device")
    gib_per_device: float = Field(default=0, ge=0, description="more for each tensor- or pipeline-parallel device")
    chunk: int | None = Field(default=None, ge=1, description="prompt tokens of a step on these cards, unless they are given")
    mib_per_token: float = Field(default=0, ge=0, description="more for each token of a chunk, of 2048 at least")
    graphs: tuple[int, int] | None = Field(
        default=None, description="sequences of the largest CUDA graph on fewer than 4 tensor-parallel devices, and on more"
    )
    mib_per_sequence: float = Field(default=0, ge=0, description="more for each of those sequences")
    gib_latent: float = Field(default=0, ge=0, description="more for models that keep latents (MLA)")
    at_least_gib: float = Field(default=0, ge=0, description="kept free in all, at least")

    def mib(self, devices: int, tensor: int, chunk: int | None, ranks: int, *, latent: bool) -> float:
        """Return the MiB that are kept free on each device; the arguments are those of `Engine.share`."""
        reserved = 1024 * (self.gib + self.gib_per_device * devices + (self.gib_latent if latent else 0))
        if self.chunk is not None:
            reserved += self.mib_per_token * max(chunk or self.chunk, 2048)
        if self.graphs is not None:
            graph = self.graphs[tensor >= 4]
            reserved += graph * (self.mib_per_sequence + ranks * (4.5 if graph > 300 else 3))
        return max(reserved, 1024 * self.at_least_gib)


class Engine(Spec):
    """Defaults of one engine version."""

    schema_version: Literal[1]
    name: str
    version: str = Field(description="newest release for which this holds")
    since: str | None = Field(default=None, description="oldest release for which this holds; default: all before are alike")
    read: date = Field(description="when the defaults were read")
    block_size: int = Field(ge=1, description="tokens in a block of the KV cache")
    gpu_memory_utilization: float = Field(gt=0, le=1, description="share of the device's memory that the engine uses")
    memory_share: MemoryShare = Field(default="all", description="what that is a share of")
    reserved_memory: tuple[ReservedMemory, ...] = Field(
        default=(), description="cards by memory, smallest first: their share is what this leaves, not gpu_memory_utilization"
    )
    scheduler: str | None = Field(default=None, description="scheduler of `simulate` that is most like the engine's default")
    max_num_batched_tokens: int = Field(ge=1, description="most tokens in one step")
    expert_exchange: ExpertExchange = Field(
        default="all_to_all", description="how data-parallel ranks of a server send tokens to each other's experts, by default"
    )
    downcasts_fp32: bool = Field(default=False, description="weights that the model's file has in fp32 are loaded in 16 bits")
    kv_cache: KvCacheRules = KvCacheRules()
    source: Source
    notes: tuple[str, ...] = ()

    def card(self, capacity: float) -> ReservedMemory | None:
        """Return what the engine keeps free on cards of `capacity` bytes; None: its share does not depend on the card."""
        return next((card for card in self.reserved_memory if capacity < (card.below_gib or inf) * _GIB), None)

    def share(
        self, capacity: float, devices: int, tensor: int = 1, chunk: int | None = None, ranks: int = 0, *, latent: bool = False
    ) -> float:
        """The engine's default share of memory.

        Args:
            capacity: bytes of the device, as the driver reports them.
            devices: tensor x pipeline-parallel devices.
            tensor: tensor-parallel devices.
            chunk: prompt tokens of a step; None: as the engine has it on such a card.
            ranks: data-parallel ranks of attention; 0: none.
            latent: whether the model keeps latents (MLA).
        """
        if (card := self.card(capacity)) is None:
            return self.gpu_memory_utilization
        return round(1 - card.mib(devices, tensor, chunk, ranks, latent=latent) * 2**20 / capacity, 3)


class ServingErrors(Spec):
    """Errors of estimated TPOT, predicted/measured - 1, on models that the fit has not seen."""

    rows: Whole = Field(ge=1)
    median_ape: float = Field(ge=0)
    mape: float = Field(ge=0)
    bias: float
    coverage: float = Field(ge=0, le=1)


class EngineSteps(Spec):
    """Time of a step that kernels do not hide: scheduling, input preparation, sampling on the host, detokenisation."""

    schema_version: Literal[1]
    kind: Literal["steps"]
    engine: str
    versions: tuple[str, ...] = ()
    fitted: date
    rows: Whole = Field(ge=1, description="measured serving points that the fit has seen")
    step: Value = Field(description="seconds per step, whatever is in it")
    sequence: Value = Field(description="seconds per step for each running sequence of a replica")
    rank: Value = Field(default=0.0, description="seconds per step for each doubling of the tensor-parallel devices")
    stage: Value = Field(default=0.0, description="seconds per step and pipeline stage for each sequence of a microbatch")
    experts: Value = Field(default=0.0, description="seconds per step for each layer with routed experts")
    eager: Value = Field(
        default=0.0,
        description="least seconds of a step with prompts for each layer with routed experts: the host launches them",
    )
    hidden: float = Field(
        default=0.0,
        ge=0,
        le=1,
        description="share of a kernel's launch, of at most 2 us of it, that is hidden behind the kernel before it",
    )
    routing_skew: float = Field(
        default=0.0,
        ge=0,
        le=2,
        description="Zipf exponent of the popularity of experts, in estimates; bounds are of even ones",
    )
    fused_quantization: bool = Field(
        default=False, description="whether kernels before a product of 8 bits quantise its activations, at no cost of its own"
    )
    band: Factors = Field(description="measured/estimated TPOT: 10 % and 90 % quantiles on models not fitted on")
    held_out: ServingErrors | None = None
    sources: tuple[Source, ...] = ()
    notes: tuple[str, ...] = ()

    def seconds(self, sequences: Expr, tensor_parallel: int, expert_layers: int) -> Expr:
        """Seconds that an engine adds to the kernels of a step.

        Args:
            sequences: running sequences of one replica: a number, an array or a symbol.
            tensor_parallel: number of tensor-parallel devices.
            expert_layers: layers of the model with routed experts.
        """
        return self.step + self.sequence * sequences + self.rank * log2(tensor_parallel) + self.experts * expert_layers
