"""A deployment: how a model is put on hardware. Field names are the engines' flags; what is None has a default that
depends on the model, the hardware or the engine, and is reported when it is filled in."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, field_validator

from roofline.dtypes import parse_dtype
from roofline.errors import RooflineError
from roofline.specs.base import Spec
from roofline.specs.quantization import canonical
from roofline.units import parse_quantity

# Each token to its experts' devices alone, or every token to all of them.
ExpertExchange = Literal["all_to_all", "all_gather"]


class Conventions(Spec):
    """Counting conventions, where the field has several. Each is a flag, and is part of the result."""

    mask: Literal["causal", "full"] = Field(default="causal", description="pairs that attention computes")
    attention: Literal["fused", "eager"] = Field(default="fused", description="eager materialises the scores")
    mla: Literal["auto", "expand", "absorb"] = Field(default="auto", description="auto: prefill expands, decode absorbs")
    logits: Literal["last", "all"] = Field(default="last", description="positions that the LM head computes")
    routing_skew: float = Field(default=0.0, ge=0, le=10, description="Zipf exponent of expert popularity; 0: uniform")
    expert_imbalance: float = Field(
        default=1.0, ge=1, allow_inf_nan=False, description="tokens of the busiest expert-parallel device over the mean"
    )
    shared_prefix: int = Field(default=0, ge=0, description="cached tokens common to the batch, read once a step")


class Deployment(Spec):
    """How a model is put on hardware: number formats, parallelism and the limits of the engine."""

    dtype: str | None = Field(default=None, description="of all weights")
    activation_dtype: str | None = None
    kv_cache_dtype: str | None = None
    mamba_ssm_cache_dtype: str | None = Field(default=None, description="of recurrent state")
    dispatch_dtype: str | None = Field(default=None, description="of tokens on the way to their experts; default: activations'")
    combine_dtype: str | None = Field(default=None, description="of experts' outputs on the way back; default: activations'")
    quantization: str | None = Field(default=None, description="scheme of the linear layers' weights, or none")
    bits_per_weight: float | None = Field(default=None, ge=1, le=32, description="mean of all weights, scales included")
    tensor_parallel_size: int = Field(default=1, ge=1)
    pipeline_parallel_size: int = Field(default=1, ge=1)
    data_parallel_size: int = Field(default=1, ge=1)
    expert_parallel_size: int = Field(default=1, ge=1)
    moe_tp: int | None = Field(default=None, ge=1, description="devices that share each expert; default: tp/ep, at least 1")
    deepep_mode: Literal["auto", "normal", "low_latency"] = Field(
        default="auto", description="kernels that send tokens to experts over nodes; auto: low latency in decode"
    )
    expert_exchange: ExpertExchange = Field(
        default="all_to_all", description="how tokens reach the experts of other replicas; the engine's default"
    )
    num_redundant_experts: int = Field(default=0, ge=0, description="slots for copies of experts, in each layer")
    context_parallel_size: int = Field(default=1, ge=1, description="devices that divide the tokens of a sequence")
    decode_context_parallel_size: int = Field(
        default=1, ge=1, description="tensor-parallel devices with the same KV heads that divide the cached tokens"
    )
    sequence_parallel: bool = Field(
        default=False, description="tensor-parallel devices divide the tokens of what stands between the blocks"
    )
    microbatch_overlap: bool = Field(
        default=False, description="two microbatches in turn: collectives of one while the other computes"
    )
    max_model_len: int | None = Field(default=None, ge=1)
    max_num_seqs: int | None = Field(default=None, ge=1)
    max_num_batched_tokens: int | None = Field(default=None, ge=1)
    gpu_memory_utilization: float | None = Field(default=None, gt=0, le=1)
    mem_fraction_static: float | None = Field(default=None, gt=0, le=1, description="SGLang's share, for weights and cache")
    kv_cache_free_gpu_memory_fraction: float | None = Field(
        default=None, gt=0, le=1, description="TensorRT-LLM's share of what weights and activations leave, for the cache"
    )
    reserve: float = Field(default=0, ge=0, allow_inf_nan=False, description="bytes kept free beside what is counted")
    block_size: int | None = Field(default=None, ge=1, description="tokens in a block of the paged KV cache")
    engine: str | None = Field(default=None, description="NAME or NAME@VERSION")
    backend: str | None = Field(default=None, description="whose kernels the estimate is for")
    conventions: Conventions = Conventions()

    @property
    def expert_tensor_size(self) -> int:
        """Number of devices that share each expert."""
        return self.moe_tp or max(self.tensor_parallel_size // self.expert_parallel_size, 1)

    @property
    def expert_devices(self) -> int:
        """Number of devices that share all experts of a layer; beyond a replica they exchange tokens."""
        return self.expert_parallel_size * self.expert_tensor_size

    @property
    def devices(self) -> int:
        """Number of devices of the whole deployment: tp x cp x pp x dp. Expert parallelism uses the same devices."""
        in_a_stage = self.tensor_parallel_size * self.context_parallel_size
        return in_a_stage * self.pipeline_parallel_size * self.data_parallel_size

    @field_validator("dtype", "activation_dtype", "kv_cache_dtype", "mamba_ssm_cache_dtype", "dispatch_dtype", "combine_dtype")
    @classmethod
    def _dtype(cls, name: str | None) -> str | None:
        try:
            return None if name is None or name == "auto" else parse_dtype(name).name
        except RooflineError as error:
            raise ValueError(str(error)) from None

    @field_validator("quantization")
    @classmethod
    def _scheme(cls, name: str | None) -> str | None:
        try:
            return name if name in (None, "none") else canonical(name)
        except RooflineError as error:
            raise ValueError(str(error)) from None

    @field_validator("reserve", mode="before")
    @classmethod
    def _bytes(cls, value: object) -> object:
        try:
            return 0 if value in (0, "0") else parse_quantity(value, "byte") if isinstance(value, str) else value
        except RooflineError as error:
            raise ValueError(str(error)) from None
