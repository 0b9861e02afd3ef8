"""An inference engine at a version: the defaults that decide what fits. Dated data, not code: `engines/*.yaml`."""

from __future__ import annotations

from datetime import date
from typing import Literal

from pydantic import Field

from roofline.specs.base import Spec
from roofline.specs.source import Source


class Engine(Spec):
    """Defaults of one engine version."""

    schema_version: Literal[1]
    name: str
    version: str
    read: date = Field(description="when the defaults were read")
    block_size: int = Field(ge=1, description="tokens in a block of the KV cache")
    gpu_memory_utilization: float = Field(gt=0, le=1, description="share of the device's memory that the engine uses")
    max_num_batched_tokens: int = Field(ge=1, description="most tokens in one step")
    source: Source
    notes: tuple[str, ...] = ()
