"""An inference engine at a version: the defaults that decide what fits (`engines/*.yaml`), and what it adds to the kernels of a
step (`engines/steps/<engine>.yaml`). Dated data, not code."""

from __future__ import annotations

from datetime import date
from typing import Literal

from pydantic import Field, field_validator

from roofline.dtypes import parse_dtype
from roofline.errors import RooflineError
from roofline.numeric import Expr, log2
from roofline.specs.base import Spec, Whole
from roofline.specs.fit import Factors, Value
from roofline.specs.source import Source

# What a sequence may keep: the words of `KvCacheRules.known`.
CacheKind = Literal["full", "window", "chunk", "latent", "indexer", "state", "compressed"]


class KvCacheRules(Spec):
    """How an engine lays out what sequences keep. What the words do is in `roofline.predict.allocation`."""

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

    def state_format(self, family: str) -> str | None:
        """The format of recurrent state of a family's models; None: as the activations."""
        name = self.state_dtype_of.get(family, self.state_dtype)
        return None if name == "activations" else name


class Engine(Spec):
    """Defaults of one engine version."""

    schema_version: Literal[1]
    name: str
    version: str
    read: date = Field(description="when the defaults were read")
    block_size: int = Field(ge=1, description="tokens in a block of the KV cache")
    gpu_memory_utilization: float = Field(gt=0, le=1, description="share of the device's memory that the engine uses")
    max_num_batched_tokens: int = Field(ge=1, description="most tokens in one step")
    downcasts_fp32: bool = Field(default=False, description="weights that the model's file has in fp32 are loaded in 16 bits")
    kv_cache: KvCacheRules = KvCacheRules()
    source: Source
    notes: tuple[str, ...] = ()


class ServingErrors(Spec):
    """Errors of TPOT on deployments that the figures were not fitted on."""

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
    hidden: float = Field(
        default=0.0, ge=0, le=1, description="share of the launches of kernels that is hidden behind the kernels before them"
    )
    band: Factors = Field(description="measured/estimated TPOT: 10 % and 90 % quantiles on deployments not fitted on")
    held_out: ServingErrors | None = None
    sources: tuple[Source, ...] = ()
    notes: tuple[str, ...] = ()

    def seconds(self, sequences: Expr, tensor_parallel: int) -> Expr:
        """Seconds that a step of `sequences` running sequences of a replica takes in addition to its kernels."""
        return self.step + self.sequence * sequences + self.rank * log2(tensor_parallel)
