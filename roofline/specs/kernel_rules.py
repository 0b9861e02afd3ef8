"""Files of kernel rules: what a kernel of a profile does by its name, and how an operator's input shapes are read."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, model_validator

from roofline.specs.base import Scalar, Spec
from roofline.specs.source import Source

KernelKind = Literal[
    "gemm", "grouped_gemm", "attention", "latent_attention", "norm", "activation", "rope", "kv_write", "embedding", "router",
    "permute", "sampling", "quantize", "scan", "convolution", "elementwise", "reduce", "copy", "fill", "all_reduce",
    "all_gather", "reduce_scatter", "all_to_all", "send_recv", "broadcast", "scheduling", "host",
]  # fmt: skip
"""What kernels do.

`router` scores and chooses experts, `permute` sorts tokens by expert and back, `scan` is a recurrence (Mamba, delta rule),
`scheduling` makes the small index tables of a step (positions, block tables, metadata of attention), `host` is work of the
framework itself: views, allocations, and operators that only call others.
"""
KINDS: dict[str, str] = {
    "gemm": "matrix product", "grouped_gemm": "products of experts", "attention": "attention",
    "latent_attention": "latent attention (MLA)", "norm": "norm", "activation": "activation", "rope": "rotary embedding",
    "kv_write": "KV-cache write", "embedding": "embedding or row gather", "router": "router of experts",
    "permute": "sorting tokens by expert", "sampling": "sampling", "quantize": "quantization of activations",
    "scan": "recurrence", "convolution": "convolution", "elementwise": "element-wise", "reduce": "reduction", "copy": "copy",
    "fill": "fill", "all_reduce": "all-reduce", "all_gather": "all-gather", "reduce_scatter": "reduce-scatter",
    "all_to_all": "all-to-all", "send_recv": "send and receive", "broadcast": "broadcast", "scheduling": "index tables",
    "host": "framework on the host",
}  # fmt: skip
"""Kinds in plain English."""
StepKind = Literal["prefill", "decode", "mixed", "capture", "step"]
"""What a step has: prompts, generation, both; `capture` records a graph, `step` is one of which that is not known."""
COLLECTIVES = ("all_reduce", "all_gather", "reduce_scatter", "all_to_all", "send_recv", "broadcast")


def _compiles(pattern: str) -> str:
    try:
        re.compile(pattern)
    except re.error as error:
        msg = f"is not a regular expression: {error}"
        raise ValueError(msg) from None
    return pattern


Pattern = Annotated[str, AfterValidator(_compiles)]


class KernelRule(Spec):
    """Kernels by their names."""

    match: Pattern = Field(description="regular expression that is searched in the name of a kernel, demangled or mangled")
    kind: KernelKind = Field(description="what the kernel does; of several that it does, the one that costs most")
    fuses: list[KernelKind] = Field(default_factory=list, description="what it does besides, in the order of the layer")
    generic: bool = Field(
        default=False, description="the host operator that launched it says more of what it does, where a trace has it"
    )
    part: bool = Field(
        default=False,
        description="one of several kernels of an operator (a split-K sum, a fill, a merge): its time is the operator's",
    )
    dtype: str = Field(default="", description="the format of its weights and activations, where the name implies one")
    dtypes: dict[str, str] = Field(
        default_factory=dict, description="formats by what the group `dtype` of the expression matches"
    )
    step: Literal["", "prefill", "decode"] = Field(default="", description="the only kind of step that runs it")
    examples: list[str] = Field(
        min_length=1, description="names of real kernels that it matches; ... stands for parts that were left out"
    )
    note: str = Field(default="", description="what a reader should know")


class OperatorRule(Spec):
    """Host operators by their names, and the dimensions in the shapes of their inputs.

    A dimension is a product of terms with `*` and `/`: `0[1]` is the second dimension of the first input, `0[-1]` its last
    one, `0[:-1]` the product of all but the last, `0[:]` of all; `2[*]` the number of its
    dimensions, or of tensors in a list; `v4` the value of
    scalar input 4; a plain number itself.
    """

    match: Pattern = Field(description="regular expression that the whole name of a host operator matches")
    kind: KernelKind = Field(description="what it does")
    op: str = Field(default="", description="the op of records (measurements/README.md) that it is measured as")
    columns: dict[str, Scalar] = Field(default_factory=dict, description="columns of a record, each as a dimension")
    dtype: int | None = Field(default=None, description="the input whose format is that of weights and activations")
    weight: int | str | None = Field(
        default=None, description="the input whose format is that of the weights, where it differs, or the name of the format"
    )
    kv: int | None = Field(default=None, description="the input whose format is that of the KV cache")
    where: dict[str, Scalar] = Field(
        default_factory=dict,
        description="what must hold for the shapes to be read so: a dimension by what it must equal, such as `0[*]: 4` for an "
        "input of rank 4, or a scalar by its text, such as `v4: 'True'`; of several rules with a name the first that holds",
    )
    reads: list[int] = Field(default_factory=list, description="inputs that are read whole, of operators that only move data")
    writes: list[Scalar] = Field(
        default_factory=list,
        description="what is written: `0` input 0 in place, `broadcast` the inputs broadcast together in the format of "
        "input `dtype`, or a dimension such as `0[0]*0[1]`: elements of that format",
    )
    examples: list[str] = Field(min_length=1, description="names of real operators that it matches")
    note: str = Field(default="", description="what a reader should know")

    @model_validator(mode="after")
    def _dimensions(self) -> OperatorRule:
        for text in [*self.columns.values(), *self.where, *(text for text in self.writes if text != "broadcast")]:
            Dimension.parse(text)
        for key, text in self.where.items():
            if not re.fullmatch(r"v\d+", key):
                Dimension.parse(text)
        return self


class StepRule(Spec):
    """Annotations of steps: groups of the expression are numbers of one step.

    Groups: `prefills`, `decodes` (sequences), `prefill_tokens`, `decode_tokens` (new tokens), `tokens` (all new tokens),
    `prefill_kv`, `decode_kv` (tokens attended to, summed over sequences, new ones included), `prefill_pairs`
    (sum of new x attended tokens over the prefills), `batch` (sequences of a step of one kind), `running` (sequences that
    generate, if the step has no more tokens than that), and `kind`.
    """

    match: Pattern = Field(description="regular expression that is searched in the name of an annotation")
    kind: StepKind | None = Field(
        default=None, description="the kind of all its steps; without it, and without `kinds`, by prefills and decodes"
    )
    kinds: dict[str, StepKind] = Field(default_factory=dict, description="kinds of steps by what the group `kind` matches")
    examples: list[str] = Field(min_length=1, description="names of real annotations that it matches")
    note: str = Field(default="", description="what a reader should know")


class KernelFamily(Spec):
    """A file of rules. Rules are tried in their order, files in the order of `order` and then of their names."""

    schema_version: Literal[1]
    kind: Literal["kernel rules"] = "kernel rules"
    title: str = Field(description="whose kernels these are")
    order: int = Field(default=0, description="files of a lower number come first; names that others also have: 1 or more")
    bare: bool = Field(
        default=False,
        description="whether kernels are searched for in names without template arguments and parameters, which mangled names "
        "are made readable for",
    )
    sources: list[Source] = Field(min_length=1, description="where the names were read")
    kernels: list[KernelRule] = Field(default_factory=list, description="by the names of kernels")
    operators: list[OperatorRule] = Field(default_factory=list, description="by the names of host operators")
    steps: list[StepRule] = Field(default_factory=list, description="by the names of annotations")


_TERM = re.compile(r"\s*(?:(v)(\d+)|(\d+)\[(-?\d*)(:?)(-?\d*)\]|(\d+)\[(\*)\]|(\d+))\s*")


@dataclass(frozen=True, slots=True)
class Dimension:
    """A product of terms over the shapes of inputs (`OperatorRule`)."""

    text: str
    terms: tuple[tuple[bool, re.Match[str]], ...]
    """Each with whether it divides."""

    @classmethod
    def parse(cls, text: str) -> Dimension:
        """Read a dimension.

        Raises:
            ValueError: it is none.
        """
        terms: list[tuple[bool, re.Match[str]]] = []
        at, divides = 0, False
        while True:
            term = _TERM.match(text, at)
            if term is None:
                msg = f"{text!r} is no dimension: terms such as 0[1], 0[:-1], 2[*], v4 or 16, with * or / between them"
                raise ValueError(msg)
            terms.append((divides, term))
            at = term.end()
            if at == len(text):
                return cls(text, tuple(terms))
            if text[at] not in "*/":
                msg = f"{text!r} is no dimension: * or / expected at {text[at:]!r}"
                raise ValueError(msg)
            divides = text[at] == "/"
            at += 1

    def of(self, shapes: tuple[Any, ...], values: tuple[str, ...] = ()) -> float | None:
        """Its value for the inputs of an operator; None where they have no such dimension.

        >>> Dimension.parse("0[:-1]*1[0]/2").of(((4, 8, 16), (10,)))
        160.0
        >>> Dimension.parse("0[5]").of(((4,),)) is None
        True
        """
        product = 1.0
        for divides, term in self.terms:
            value = _value(term, shapes, values)
            if value is None or (divides and not value):
                return None
            product = product / value if divides else product * value
        return product


def _value(term: re.Match[str], shapes: tuple[Any, ...], values: tuple[str, ...]) -> float | None:
    scalar, which, tensor, first, colon, last, of_list, _, plain = term.groups()
    if plain is not None:
        return float(plain)
    try:
        if scalar:
            return float(values[int(which)])
        shape = shapes[int(of_list if of_list is not None else tensor)]
        if of_list is not None:
            return float(len(shape))
        if not colon:
            return float(shape[int(first)])
        sizes = shape[int(first) if first else None : int(last) if last else None]
        return float(math.prod(sizes)) if shape else None
    except (IndexError, ValueError, TypeError):
        return None


def rules_by_example(families: Mapping[str, KernelFamily]) -> dict[str, tuple[str, int]]:
    """The family and number of the rule that gives each example of a kernel, for the check that the first match is its own."""
    return {
        example: (name, number)
        for name, family in families.items()
        for number, rule in enumerate(family.kernels)
        for example in rule.examples
    }
