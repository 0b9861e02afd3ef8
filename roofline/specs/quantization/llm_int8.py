"""8-bit weights of bitsandbytes: LLM.int8()."""

from __future__ import annotations

from typing import ClassVar, Literal

from roofline.dtypes import Format
from roofline.specs.quantization.base import Scheme, a_tensor, scales


class LlmInt8(Scheme):
    """A byte an element and an fp32 scale an output. Activations are quantised on the way, but for the few columns with
    outliers. NB: those columns' products in 16 bits are not modelled."""

    source: ClassVar[str] = "arXiv:2208.07339, section 3; layout: https://github.com/bitsandbytes-foundation/bitsandbytes"
    name: Literal["llm_int8"]

    @property
    def format(self) -> Format:
        """`weight` [n, k] int8, `SCB` [n] fp32, and a byte that names the layout."""
        return Format("llm_int8", 1, "int8", (scales("SCB", "fp32"), a_tensor("weight_format", 1)))
