"""Quantisation schemes: which weights are stored how. Names are those of the engines' `--quantization`."""

from __future__ import annotations

from dataclasses import dataclass

from pydantic import Field, field_validator

from roofline.dtypes import Format
from roofline.errors import UnknownNameError
from roofline.specs.base import Spec

LINEAR = ("linear", "experts")


@dataclass(frozen=True, slots=True)
class Scheme:
    """A storage format with its scales, the roles of the weights that it covers, and where that is said.

    `bytes` counts scales and zero points. Roles: `linear` are the projections of attention and feed-forward blocks
    (shared experts among them), `experts` the routed experts. Embedding, LM head, norms and routers stay as they are.
    """

    format: Format
    roles: tuple[str, ...]
    source: str


SCHEMES = {
    scheme.format.name: scheme
    for scheme in (
        Scheme(Format("fp8", 1, "fp8"), LINEAR, "one scale a tensor or channel, not counted; arXiv:2209.05433"),
        # a block of 128 x 128 weights has one fp32 scale: 4/16384 bytes a weight
        Scheme(Format("fp8_block", 1 + 4 / 128**2, "fp8"), LINEAR, "DeepSeek-V3, arXiv:2412.19437, section 3.3.2"),
        Scheme(Format("int8", 1, "int8"), LINEAR, "W8A8, one scale a channel, not counted; arXiv:2211.10438"),
        # a group of 128 weights has an fp16 scale and a 4-bit zero point: 4 + 20/128 bits a weight
        Scheme(Format("awq", (4 + 20 / 128) / 8), LINEAR, "group size 128; arXiv:2306.00978"),
        Scheme(Format("gptq", (4 + 20 / 128) / 8), LINEAR, "4 bits, group size 128; arXiv:2210.17323"),
        # a block of 32 weights has an 8-bit scale: 4.25 bits a weight
        Scheme(Format("mxfp4", 4.25 / 8), LINEAR, "OCP Microscaling Formats v1.0, section 5; arXiv:2310.10537"),
        # a block of 16 weights has an fp8 scale: 4.5 bits a weight. Activations are brought to fp4 as well.
        Scheme(Format("nvfp4", 4.5 / 8, "fp4"), LINEAR, "NVFP4, two-level scaling; arXiv:2509.25149, section 2"),
    )
}


def scheme(name: str) -> Scheme:
    """The scheme of that name.

    >>> scheme("mxfp4").format.bytes
    0.53125
    """
    key = name.strip().lower()
    if key not in SCHEMES:
        raise UnknownNameError("quantization", name, SCHEMES, list_all=True)
    return SCHEMES[key]


class ModelQuantization(Spec):
    """How the published weights of a model are quantised."""

    name: str = Field(description="a scheme: " + ", ".join(SCHEMES))
    roles: tuple[str, ...] = Field(default=LINEAR, description="which weights it covers: linear, experts")

    @field_validator("name")
    @classmethod
    def _known(cls, name: str) -> str:
        try:
            return scheme(name).format.name
        except UnknownNameError as error:
            raise ValueError(str(error)) from None

    @field_validator("roles")
    @classmethod
    def _roles(cls, roles: tuple[str, ...]) -> tuple[str, ...]:
        if unknown := set(roles) - set(LINEAR):
            msg = f"unknown role {min(unknown)!r}; allowed: {', '.join(LINEAR)}"
            raise ValueError(msg)
        return roles
