"""MXFP8: 8-bit floats, 32 of which share a power of two."""

from __future__ import annotations

from typing import ClassVar, Literal

from roofline.dtypes import Beside, Format
from roofline.specs.quantization.base import Scheme


class Mxfp8(Scheme):
    """A byte an element, and an 8-bit exponent for each 32 inputs of an output: 8.25 bits a weight. Activations are quantised
    on the way."""

    source: ClassVar[str] = "OCP Microscaling Formats v1.0, section 5; arXiv:2310.10537"
    name: Literal["mxfp8"]

    @property
    def format(self) -> Format:
        """`weight` [n, k] fp8 and `weight_scale` [n, k/32] uint8."""
        return Format("mxfp8", 1, "fp8", (Beside("weight_scale", 1, 1, 32),))
