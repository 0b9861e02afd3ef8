"""A deployment: how a model is put on hardware. Field names are the engines' flags; what is None has a default that
depends on the model, the hardware or the engine, and is reported when it is filled in."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, field_validator

from roofline.dtypes import parse_dtype
from roofline.errors import RooflineError
from roofline.specs.base import Spec
from roofline.specs.quantization import scheme
from roofline.units import parse_quantity


class Conventions(Spec):
    """What is counted, where there is a choice. Each is a flag, and is echoed in the result."""

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
    """Formats, parallelism and the engine's limits."""

    dtype: str | None = Field(default=None, description="of all weights")
    activation_dtype: str | None = None
    kv_cache_dtype: str | None = None
    mamba_ssm_cache_dtype: str | None = Field(default=None, description="of recurrent state")
    quantization: str | None = Field(default=None, description="scheme of the linear layers' weights, or none")
    tensor_parallel_size: int = Field(default=1, ge=1)
    pipeline_parallel_size: int = Field(default=1, ge=1)
    data_parallel_size: int = Field(default=1, ge=1)
    expert_parallel_size: int = Field(default=1, ge=1)
    context_parallel_size: int = Field(default=1, ge=1, description="devices that divide the tokens of a sequence")
    sequence_parallel: bool = Field(
        default=False, description="tensor-parallel devices divide the tokens of what stands between the blocks"
    )
    max_model_len: int | None = Field(default=None, ge=1)
    max_num_seqs: int | None = Field(default=None, ge=1)
    max_num_batched_tokens: int | None = Field(default=None, ge=1)
    gpu_memory_utilization: float | None = Field(default=None, gt=0, le=1)
    reserve: float = Field(default=0, ge=0, allow_inf_nan=False, description="bytes kept free beside what is counted")
    block_size: int | None = Field(default=None, ge=1, description="tokens in a block of the paged KV cache")
    engine: str | None = Field(default=None, description="NAME or NAME@VERSION")
    backend: str | None = Field(default=None, description="whose kernels the estimate is for")
    conventions: Conventions = Conventions()

    @property
    def devices(self) -> int:
        """Devices of the whole deployment."""
        in_a_stage = self.tensor_parallel_size * self.context_parallel_size
        return in_a_stage * self.pipeline_parallel_size * self.data_parallel_size

    @field_validator("dtype", "activation_dtype", "kv_cache_dtype", "mamba_ssm_cache_dtype")
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
            return name if name in (None, "none") else scheme(name).name
        except RooflineError as error:
            raise ValueError(str(error)) from None

    @field_validator("reserve", mode="before")
    @classmethod
    def _bytes(cls, value: object) -> object:
        try:
            return 0 if value in (0, "0") else parse_quantity(value, "byte") if isinstance(value, str) else value
        except RooflineError as error:
            raise ValueError(str(error)) from None
