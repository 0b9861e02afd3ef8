"""The base class of quantization schemes, and helpers for the scales that they store."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import AfterValidator, Field, Strict, field_validator

from roofline.dtypes import ROLES, Format, Metadata, parse_dtype
from roofline.errors import RooflineError, UnknownNameError
from roofline.specs.base import Spec

ScaleDtype = Literal["fp32", "bf16", "fp16", "e8m0"]
ActivationScheme = Literal["dynamic", "static", "none"]
_BYTES = {"fp32": 4, "bf16": 2, "fp16": 2, "e8m0": 1}


def _group_size(size: int) -> int:
    if size != -1 and size < 1:
        msg = "must be at least 1, or -1 for all inputs of an output"
        raise ValueError(msg)
    return size


GroupSize = Annotated[int, Strict(), AfterValidator(_group_size)]
"""Inputs of an output that share a scale; -1: all."""


class Scheme(Spec):
    """A way to store weights, the roles of the weights that it covers, and where the layout is said.

    Roles: `linear` are the projections of attention, state-space and feed-forward blocks (shared experts among them),
    `experts` the routed experts. Embedding, LM head and routers are covered where they are named; norms and biases never.
    """

    source: ClassVar[str]
    """Where the layout is said."""
    activation_bits: ClassVar[int | None] = None
    """Width of activations in products, where the scheme's name states it: `--activation-dtype` then does not decide it."""
    name: str
    roles: tuple[str, ...] = Field(default=("linear", "experts"), description="which weights: " + ", ".join(ROLES))
    kv_cache_dtype: str | None = Field(default=None, description="of the KV cache, where the checkpoint says how it is scaled")

    @property
    def format(self) -> Format:
        """The format of the weights: bytes per element, the dtype that is multiplied, and metadata such as scales."""
        raise NotImplementedError

    @property
    def described(self) -> str:
        """The format in words: bits per element, and the size of the metadata."""
        metadata = "; ".join(f"{tensor.name}: {tensor.bytes} B {_of(tensor)}" for tensor in self.format.metadata)
        return f"{self.format.bytes * 8:g} bits an element; {metadata}"

    @field_validator("roles")
    @classmethod
    def _roles(cls, roles: tuple[str, ...]) -> tuple[str, ...]:
        return known_roles(roles)

    @field_validator("kv_cache_dtype")
    @classmethod
    def _dtype(cls, name: str | None) -> str | None:
        try:
            return None if name is None else parse_dtype(name).name
        except RooflineError as error:
            raise ValueError(str(error)) from None


def known_roles(roles: tuple[str, ...]) -> tuple[str, ...]:
    """Return the roles unchanged, if all are known; a part such as `attention/o_proj` is known if `attention` is.

    Raises:
        ValueError: an unknown role, with the list of all; pydantic turns it into a message with its place in the file.
    """
    for role in roles:
        if role.split("/")[0] not in ROLES:
            raise ValueError(str(UnknownNameError("role", role, ROLES, list_all=True)))
    return roles


def scales(name: str, dtype: ScaleDtype, rows: int | None = 1, columns: int | None = None) -> Metadata:
    """Metadata of one scale per block of `rows` outputs x `columns` inputs of a matrix; None: all of them."""
    return Metadata(name, _BYTES[dtype], rows, columns)


def per_matrix(name: str, size: int) -> Metadata:
    """Metadata of `size` bytes that each matrix has once."""
    return Metadata(name, size, None, None)


def scale_columns(size: int) -> int | None:
    """The number of inputs that share a scale, from the key `group_size`: -1 becomes None, all of them."""
    return None if size == -1 else size


def _of(tensor: Metadata) -> str:
    if tensor.elements is not None:
        return f"for {tensor.elements} elements"
    if tensor.rows is None and tensor.columns is None:
        return "a matrix"
    rows, columns = (("all" if size is None else str(size)) for size in (tensor.rows, tensor.columns))
    return f"for {rows} x {columns}"
