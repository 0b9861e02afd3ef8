"""Number formats: how many bytes elements and matrices of them take, and which matrix peak multiplies them.

A storage format may be smaller than what is multiplied: int4 weights are read at half a byte an element and multiplied
in the dtype of the activations. Quantised formats have scales beside the elements, one for each block of a matrix.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cache

from roofline.errors import UnknownNameError
from roofline.numeric import Expr, ceil_div

Shape = tuple[Expr, Expr]
"""A weight matrix as it is stored: outputs and inputs, (n, k)."""


@dataclass(frozen=True, slots=True)
class Metadata:
    """A tensor that is stored with the elements of a weight matrix: scales, zero points, indices.

    Args:
        name: of the tensor.
        bytes: size of one entry of it.
        rows: outputs that share an entry; None: all.
        columns: inputs that share an entry; None: all.
        elements: instead of rows and columns: consecutive elements that share an entry, whatever the shape.

    >>> Metadata("scales", 2, columns=128).size((4096, 1000))  # 4096 rows, and ceil(1000/128) = 8 groups in each
    65536
    >>> Metadata("absmax", 1, elements=64).size((10, 100))  # ceil(1000/64)
    16
    """

    name: str
    bytes: int
    rows: int | None = 1
    columns: int | None = 1
    elements: int | None = None

    def size(self, *matrices: Shape) -> Expr:
        """Return its bytes for the matrices of one product.

        Args:
            matrices: shapes (n, k), in elements: n outputs, k inputs. At least one.
        """
        if self.elements is not None:
            return self.bytes * sum(ceil_div(n * k, self.elements) for n, k in matrices)
        _, first = matrices[0]
        if all(k is first for _, k in matrices):  # parts of one product: a shorter formula
            return self.bytes * sum(_blocks(n, self.rows) for n, _ in matrices) * _blocks(first, self.columns)
        return self.bytes * sum(_blocks(n, self.rows) * _blocks(k, self.columns) for n, k in matrices)


def _blocks(length: Expr, block: int | None) -> Expr:
    return 1 if block is None else length if block == 1 else ceil_div(length, block)


@dataclass(frozen=True, slots=True)
class Format:
    """How elements lie in memory.

    `bytes` is the size of one element. `multiply` names the matrix peak at which weights in the format are multiplied, with
    activations converted to it; None: weights are converted to the activations' dtype. Where the activations' own dtype is
    named, it was stated: weights are multiplied in it and in no narrower one. `metadata` is stored with the elements.
    """

    name: str
    bytes: Expr
    multiply: str | None = None
    metadata: tuple[Metadata, ...] = ()

    def metadata_bytes(self, matrices: Iterable[Shape], count: Expr = 1) -> Expr:
        """Return the bytes of metadata of `count` copies of these matrices.

        Args:
            matrices: shapes (n, k), in elements.
            count: how often all of them are stored.
        """
        return count * sum(tensor.size(*matrices) for tensor in self.metadata) if self.metadata else 0


FP32 = Format("fp32", 4)


@dataclass(frozen=True, slots=True, kw_only=True)
class Dtypes:
    """The formats of the tensors that one operator reads and writes."""

    weight: Format
    activation: Format
    kv: Format
    bias: Format | None = None
    """Of the biases beside weights: they are not quantised. None: as the weights."""
    state: Format = FP32
    """Recurrent state."""

    @property
    def matrix(self) -> str:
        """Return the name of the dtype in which the operator multiplies, where the hardware has a peak for it."""
        return self.weight.multiply or self.activation.name

    @property
    def weight_only(self) -> bool:
        """Return whether weights alone are quantised: they are widened to the activations' dtype for the product."""
        return self.weight.bytes < self.activation.bytes and self.weight.multiply in (None, self.activation.name)

    def elements_bytes(self, n: Expr, k: Expr, *, bias: bool = False) -> Expr:
        """Return the bytes of a weight matrix without its metadata.

        Args:
            n: outputs.
            k: inputs.
            bias: whether n bias elements are stored with it.

        >>> BF16.elements_bytes(4, 5, bias=True)  # 2 B*(4*5 + 4)
        48
        >>> replace(BF16, weight=FORMATS["int4"], bias=FORMATS["bf16"]).elements_bytes(4, 5, bias=True)  # 4*5/2 + 2*4
        18.0
        """
        if not bias:
            return n * k * self.weight.bytes
        if self.bias is None or self.bias.bytes == self.weight.bytes:
            return (n * k + n) * self.weight.bytes
        return n * k * self.weight.bytes + n * self.bias.bytes


# Roles of weights, and where the format of one that has none of its own is looked for: `attention/o_proj` is part of
# attention, and attention is one of the linear layers.
_LINEAR = ("attention", "mixer", "mlp", "shared_experts")
ROLES = ("linear", *_LINEAR, "experts", "router", "lm_head", "embedding")


@cache
def within(role: str) -> tuple[str, ...]:
    """Return a role of weights and the wider roles that contain it, narrowest first.

    >>> within("attention/o_proj"), within("experts")
    (('attention/o_proj', 'attention', 'linear'), ('experts',))
    """
    parts = role.split("/")
    roles = tuple("/".join(parts[:n]) for n in range(len(parts), 0, -1))
    return (*roles, "linear") if parts[0] in _LINEAR else roles


@dataclass(frozen=True, slots=True, kw_only=True)
class Precision:
    """The formats of a whole model: of activations, of the KV cache, of recurrent state, and of weights by their role."""

    weight: Format
    activation: Format
    kv: Format
    state: Format = FP32
    roles: tuple[tuple[str, Format], ...] = ()
    """Roles (see `ROLES`) whose weights are not in `weight`."""
    layers: tuple[tuple[str, tuple[tuple[str, Format], ...]], ...] = ()
    """Roles whose weights are in another format in layers of one type, by layer type."""

    def dtypes(self, role: str) -> Dtypes:
        """Return the formats of an operator.

        Args:
            role: of its weights: one of `ROLES`, or a part of one, such as "attention/o_proj".
        """
        weight = self.weight
        if self.roles:
            known = dict(self.roles)
            # NB: a block that says `linear` and no more has the format of attention or of feed-forward blocks.
            names = (*within(role), "attention", "mlp") if role == "linear" else within(role)
            weight = next((known[name] for name in names if name in known), weight)
        return Dtypes(weight=weight, activation=self.activation, kv=self.kv, state=self.state, bias=self.weight)

    def of_layer(self, layer_type: str) -> Precision:
        """Return the formats in layers of one type, where some roles have others than elsewhere."""
        own = dict(self.layers).get(layer_type, ()) if self.layers else ()
        if not own:
            return self
        replaced = {role for role, _ in own}
        others = tuple((role, format) for role, format in self.roles if not set(within(role)) & replaced)
        return replace(self, roles=(*own, *others), layers=())


FORMATS = {
    format.name: format
    for format in (
        FP32,
        Format("bf16", 2),
        Format("fp16", 2),
        Format("fp8", 1, "fp8"),
        Format("int8", 1, "int8"),
        # NB: 4-bit formats without a scheme have no scales; `--quantization` names a scheme that does.
        Format("int4", 0.5),
        Format("fp4", 0.5, "fp4"),
        # Blocks of 32 with an fp16 scale each, of GGML: formats of llama.cpp's KV cache.
        Format("q8_0", 34 / 32),
        Format("q4_0", 18 / 32),
    )
}

_ALIASES = {
    "float32": "fp32", "float": "fp32", "bfloat16": "bf16", "float16": "fp16", "half": "fp16",
    "fp8_e4m3": "fp8", "fp8_e5m2": "fp8", "float8_e4m3fn": "fp8", "e4m3": "fp8", "float8": "fp8",
}  # fmt: skip


def parse_dtype(name: str, what: str = "dtype") -> Format:
    """Return the format of a name, also in the spellings of PyTorch and of the engines.

    Args:
        name: such as "bf16", "torch.bfloat16" or "fp8_e4m3".
        what: what it is the dtype of, for the message.

    Raises:
        UnknownNameError: no format has that name.

    >>> parse_dtype("bfloat16").bytes
    2
    """
    key = name.strip().lower().removeprefix("torch.")
    key = _ALIASES.get(key, key)
    if key not in FORMATS:
        raise UnknownNameError(what, name, FORMATS, list_all=True)
    return FORMATS[key]


BF16 = Dtypes(weight=FORMATS["bf16"], activation=FORMATS["bf16"], kv=FORMATS["bf16"])
