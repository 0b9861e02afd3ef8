"""MXFP4: 4-bit floats, 32 of which share a power of two."""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import Field

from roofline.dtypes import Beside, Format
from roofline.specs.quantization.base import Scheme


class Mxfp4(Scheme):
    """Two elements in a byte, and an 8-bit exponent for each 32 inputs of an output: 4.25 bits a weight. Activations stay as
    they are (gpt-oss), or are quantised on the way."""

    source: ClassVar[str] = "OCP Microscaling Formats v1.0, section 5; arXiv:2310.10537"
    name: Literal["mxfp4"]
    activations: Literal["none", "fp8", "fp4"] = Field(default="none", description="what activations are quantised to")

    @property
    def format(self) -> Format:
        """`blocks` [n, k/32, 16] and `scales` [n, k/32], both uint8."""
        return Format("mxfp4", 0.5, None if self.activations == "none" else self.activations, (Beside("scales", 1, 1, 32),))
