"""What kernels, host operators and annotations of a trace mean, by the files of rules in `kernels/`."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache, cached_property
from typing import Any

from roofline.dtypes import FORMATS
from roofline.measure.profile.trace import HostOperator
from roofline.specs.kernel_rules import Dimension, KernelFamily, KernelKind, KernelRule, OperatorRule, StepKind, StepRule
from roofline.specs.library import ids, read_spec

TENSOR_DTYPES = {
    "c10::BFloat16": "bf16", "c10::Half": "fp16", "float": "fp32", "double": "fp64",
    "c10::Float8_e4m3fn": "fp8", "c10::Float8_e4m3fnuz": "fp8", "c10::Float8_e5m2": "fp8", "c10::Float8_e5m2fnuz": "fp8",
    "c10::Float4_e2m1fn_x2": "fp4", "signed char": "int8",
}  # fmt: skip
"""Formats by the names that frameworks give to types of tensors; what weights and activations do not have is not in it."""
_BYTES = {
    "unsigned char": 1, "bool": 1, "short int": 2, "int": 4, "long int": 8, "long": 8, "double": 8, "c10::Float8_e8m0fnu": 1,
    "c10::Float4_e2m1fn_x2": 1, "unsigned short": 2, "unsigned int": 4, "unsigned long": 8, "c10::complex<float>": 8,
}  # fmt: skip
"""Bytes of an element of tensors of other types, and of two 4-bit elements that are one to the framework."""


_GRAPH = re.compile(r"^graph_\d+_(?=cpp_|triton_)")
"""What torch.compile puts before a name where its profile names the graph as well."""


@dataclass(frozen=True, slots=True)
class Identity:
    """What a kernel does.

    Attributes:
        kind: what it does, and what its time counts as.
        fuses: what it does besides.
        family: id of the file that says so.
        dtype: the format of its weights and activations, where its name implies one; else empty.
        part: whether it is one of several kernels of an operator, so that it is no call of its own.
        step: the only kind of step that runs it; empty if any may.
        rule: that says so, of a kernel or, where only its operator is known, of an operator.
    """

    kind: KernelKind
    fuses: tuple[KernelKind, ...]
    family: str
    dtype: str
    part: bool
    step: str
    rule: KernelRule | OperatorRule


@dataclass(frozen=True, slots=True)
class StepMatch:
    """What an annotation says of one step; None where it does not.

    Attributes:
        kind: of the step: "capture" of a graph, "step" where it does not say what was in it.
        prefills, decodes: sequences.
        running: sequences that generate or are still at their prompts.
        prefill_tokens, decode_tokens: their new tokens.
        prefill_kv, decode_kv: tokens attended to, summed over sequences, new ones included.
        prefill_pairs: sum of new x attended tokens over the prefills.
        tokens: all new tokens.
    """

    kind: StepKind
    prefills: int | None = None
    decodes: int | None = None
    running: int | None = None
    prefill_tokens: int | None = None
    decode_tokens: int | None = None
    prefill_kv: int | None = None
    decode_kv: int | None = None
    prefill_pairs: int | None = None
    tokens: int | None = None


_ANONYMOUS = re.compile(r"\(anonymous namespace\)::|<unnamed>::|\{anonymous\}::")
_PART = re.compile(r"\d+")


def bare_name(name: str) -> str:
    """The name of a kernel without what it returns, template arguments and parameters; of a mangled one the readable name.

    >>> bare_name("std::enable_if<(((8)>(0))), void>::type vllm::fused_add_rms_norm_kernel<c10::BFloat16, 8>(int)")
    'vllm::fused_add_rms_norm_kernel'
    >>> bare_name("_ZN5aiter24add_rmsnorm_quant_kernelIDF16bDB8_Li256EEEvPT0_.kd")
    'aiter::add_rmsnorm_quant_kernel'
    """
    if name.startswith("_Z"):
        return _unmangled(name)
    depth, outside = 0, list[str]()
    for character in _ANONYMOUS.sub("", name):
        if character == "(" and not depth:
            break  # parameters, after which comes nothing of the name
        if character in "<(":
            depth += 1
        elif character in ">)":
            depth = max(depth - 1, 0)
        elif not depth:
            outside.append(character)
    return "".join(outside).strip().rsplit(" ", 1)[-1]


def _unmangled(name: str) -> str:
    """The names of a mangled one, up to its template arguments."""
    at = 2 + len(name[2:]) - len(name[2:].lstrip("NL"))
    parts: list[str] = []
    while (length := _PART.match(name, at)) is not None:
        end = length.end() + int(length[0])
        parts.append(name[length.end() : end])
        at = end
        if not name.startswith("_ZN"):  # a single name: what follows are its types
            break
    return "::".join(part for part in parts if not part.startswith("_GLOBAL__N")) or name


@dataclass(slots=True)
class _Tried:
    """A rule of a family, with its expression once it was needed."""

    family: str
    rule: Any
    whole: bool = False
    bare: bool = False
    _regex: re.Pattern[str] | None = None

    def match(self, name: str) -> re.Match[str] | None:
        if self._regex is None:
            self._regex = re.compile(self.rule.match)
        return self._regex.fullmatch(name) if self.whole else self._regex.search(name)


@dataclass
class Rules:
    """Rules of all families: the first that matches decides, families in the order of `order` and then of their ids."""

    families: dict[str, KernelFamily]
    _identities: dict[tuple[str, str], Identity | None] = field(default_factory=dict, repr=False)
    _operators: dict[str, tuple[str, OperatorRule] | None] = field(default_factory=dict, repr=False)
    _records: dict[str, list[OperatorRule]] = field(default_factory=dict, repr=False)
    _steps: dict[str, StepMatch | None] = field(default_factory=dict, repr=False)

    @classmethod
    def load(cls) -> Rules:
        """Read all files, of `ROOFLINE_PATH` too.

        Raises:
            InputError: a wrong entry of `ROOFLINE_PATH`.
            SpecError: a file that is not valid; the message has line and column.
        """
        families = {name: read_spec(path, KernelFamily)[0] for name, path in ids("kernels").items()}
        return cls(dict(sorted(families.items(), key=lambda item: (item[1].order, item[0]))))

    @cached_property
    def _kernel_rules(self) -> list[_Tried]:
        return [_Tried(name, rule, bare=family.bare) for name, family in self.families.items() for rule in family.kernels]

    @cached_property
    def _operator_rules(self) -> list[_Tried]:
        return [_Tried(name, rule, whole=True) for name, family in self.families.items() for rule in family.operators]

    @cached_property
    def _step_rules(self) -> list[_Tried]:
        return [_Tried(name, rule) for name, family in self.families.items() for rule in family.steps]

    def identify(self, kernel_name: str, host_operator: HostOperator | None = None) -> Identity | None:
        """What a kernel does, by its name and the operator that launched it; None where neither is known.

        The kernel's rule decides, unless it is `generic`, or `part`, and the operator is known too. A kernel that only its
        operator is known of does what the operator does.
        """
        key = (kernel_name, host_operator.name if host_operator is not None else "")
        if key not in self._identities:
            self._identities[key] = self._identify(*key)
        return self._identities[key]

    def _identify(self, kernel_name: str, operator_name: str) -> Identity | None:
        operator = self._operator(operator_name) if operator_name else None
        name = _GRAPH.sub("", kernel_name)
        bare = bare_name(name)
        for tried in self._kernel_rules:
            if match := tried.match(bare if tried.bare else name):
                break
        else:
            if operator is None:
                return None
            return Identity(operator[1].kind, (), operator[0], "", False, "", operator[1])
        rule: KernelRule = tried.rule
        kind = operator[1].kind if operator is not None and (rule.generic or rule.part) else rule.kind
        group = match.groupdict().get("dtype")
        dtype = rule.dtypes.get(group, rule.dtype) if group is not None else rule.dtype
        return Identity(kind, tuple(rule.fuses), tried.family, dtype, rule.part, rule.step, rule)

    def operator_rule(self, name: str) -> OperatorRule | None:
        """The rule of a host operator; None where there is none."""
        matched = self._operator(name)
        return None if matched is None else matched[1]

    def _operator(self, name: str) -> tuple[str, OperatorRule] | None:
        if name not in self._operators:
            matched = next((tried for tried in self._operator_rules if tried.match(name)), None)
            self._operators[name] = None if matched is None else (matched.family, matched.rule)
        return self._operators[name]

    def record(self, host_operator: HostOperator) -> dict[str, Any] | None:
        """What one call of an operator is, by the shapes of its inputs.

        Returns:
            Columns of a record (`op`, `dtype`, `kv_dtype` and counts; not those that the shapes do not hold), or of an
            operator that only moves data `dtype`, `read_bytes` and `write_bytes`. None where the operator or its shapes
            are not known.
        """
        if not host_operator.shapes:
            return None
        name = host_operator.name
        if name not in self._records:
            self._records[name] = [tried.rule for tried in self._operator_rules if tried.match(name)]
        rule = next((rule for rule in self._records[name] if _holds(rule, host_operator)), None)
        if rule is None:
            return None
        if rule.op:
            return _columns(rule, host_operator)
        return _moved(rule, host_operator) if rule.reads or rule.writes else None

    def step(self, annotation_name: str) -> StepMatch | None:
        """What an annotation says of one step; None if it is not one of a step."""
        if annotation_name not in self._steps:
            matched = ((tried.rule, match) for tried in self._step_rules if (match := tried.match(annotation_name)))
            self._steps[annotation_name] = next((_step(rule, match) for rule, match in matched), None)
        return self._steps[annotation_name]


@cache
def _dimension(text: str) -> Dimension:
    return Dimension.parse(text)


def _holds(rule: OperatorRule, operator: HostOperator) -> bool:
    """Whether what a rule asks of the inputs holds."""
    for key, text in rule.where.items():
        if key.startswith("v"):
            which = int(key[1:])
            if which >= len(operator.values) or operator.values[which] != text:
                return False
        else:
            value = _dimension(key).of(operator.shapes, operator.values)
            if value is None or value != _dimension(text).of(operator.shapes, operator.values):
                return False
    return True


def _columns(rule: OperatorRule, operator: HostOperator) -> dict[str, Any] | None:
    row: dict[str, Any] = {"op": rule.op}
    weight = rule.weight if rule.weight is not None else rule.dtype
    if isinstance(weight, str):
        row["dtype"] = weight
    elif weight is not None and (dtype := TENSOR_DTYPES.get(_at(operator.dtypes, weight), "")) in FORMATS:
        row["dtype"] = dtype
    if rule.kv is not None and (dtype := TENSOR_DTYPES.get(_at(operator.dtypes, rule.kv), "")) in FORMATS:
        row["kv_dtype"] = dtype
    for column, text in rule.columns.items():
        value = _dimension(text).of(operator.shapes, operator.values)
        if value is not None and value > 0 and value == int(value):
            row[column] = int(value)
    return row if len(row) > 1 else None


def _at(dtypes: tuple[str, ...], which: int) -> str:
    return dtypes[which] if which < len(dtypes) else ""


def _moved(rule: OperatorRule, operator: HostOperator) -> dict[str, Any] | None:
    """The bytes that an operator reads and writes; None where a shape or a type that counts is not known."""
    sizes = [_size(operator, which) for which in rule.reads]
    format_of = rule.dtype if rule.dtype is not None else 0
    element = _element_bytes(_at(operator.dtypes, format_of))
    for text in rule.writes:
        if text.isdigit():
            sizes.append(_size(operator, int(text)))
            continue
        whole = text == "broadcast"
        count = _broadcast(operator.shapes) if whole else _dimension(text).of(operator.shapes, operator.values)
        sizes.append(None if count is None or element is None else count * element)
    if any(size is None for size in sizes):
        return None
    read, written = sizes[: len(rule.reads)], sizes[len(rule.reads) :]
    moved = {"read_bytes": sum(size or 0 for size in read), "write_bytes": sum(size or 0 for size in written)}
    dtype = TENSOR_DTYPES.get(_at(operator.dtypes, format_of), "")
    return {"dtype": dtype, **moved} if dtype in FORMATS else {**moved}


def _element_bytes(dtype: str) -> float | None:
    known = _BYTES.get(dtype)
    if known is not None:
        return known
    matched = FORMATS.get(TENSOR_DTYPES.get(dtype, ""))
    return None if matched is None else float(matched.bytes)


def _size(operator: HostOperator, which: int) -> float | None:
    """Bytes of an input; 0 of one that is not there or a number, as `out` may be; None of tensors of unknown types."""
    shape = operator.shapes[which] if which < len(operator.shapes) else ()
    count = _elements(shape)
    if not count:
        return 0.0
    # NB: the tensors of a list have no type in traces: that of an input of its own, where there is one
    element = _element_bytes(_at(operator.dtypes, which))
    return None if element is None else count * element


def _elements(shape: tuple[Any, ...]) -> float:
    if shape and isinstance(shape[0], tuple):
        return sum(_elements(part) for part in shape if isinstance(part, tuple))
    return float(math.prod(int(size or 0) for size in shape)) if shape else 0.0


def _broadcast(shapes: tuple[Any, ...]) -> float | None:
    """Elements of the shape that the inputs have together; None if they have none."""
    tensors = [[int(size or 0) for size in shape] for shape in shapes if shape and not isinstance(shape[0], tuple)]
    if not tensors:
        return None
    rank = max(map(len, tensors))
    padded = [[1] * (rank - len(shape)) + shape for shape in tensors]
    return float(math.prod(max(sizes) for sizes in zip(*padded, strict=True)))


def tokens_of_parts(numbers: Mapping[str, float]) -> int | None:
    """The new tokens of prefills and decodes together; None where a part has sequences whose tokens are not known."""
    known = [numbers[name] for name in ("prefill_tokens", "decode_tokens") if name in numbers]
    missing = any(numbers.get(f"{part}s") and f"{part}_tokens" not in numbers for part in ("prefill", "decode"))
    return int(sum(known)) if known and not missing else None


def _step(rule: StepRule, match: re.Match[str]) -> StepMatch:
    groups = match.groupdict()
    numbers = {name: int(float(text)) for name, text in groups.items() if text is not None and name != "kind"}
    batch = numbers.pop("batch", None)
    kind: StepKind | None = rule.kinds.get(groups.get("kind") or "") or rule.kind
    if batch is not None and kind in ("prefill", "decode"):
        numbers.setdefault(f"{kind}s", batch)
    if kind is None:
        prefills, decodes = numbers.get("prefills"), numbers.get("decodes") or numbers.get("running")
        kind = "mixed" if prefills and decodes else "prefill" if prefills else "decode" if decodes else "step"
    if kind in ("prefill", "decode") and "tokens" in numbers:
        numbers.setdefault(f"{kind}_tokens", numbers["tokens"])
    if (tokens := tokens_of_parts(numbers)) is not None:
        numbers.setdefault("tokens", tokens)
    return StepMatch(kind, **numbers)
