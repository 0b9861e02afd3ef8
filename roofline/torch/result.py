"""What `roofline.torch.count` returns: operators, totals and bounds, as objects, plain data, a frame and text."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from roofline.cost import ZERO, Cost
from roofline.documents import dump_json, envelope
from roofline.errors import InputError
from roofline.formatting import ABSENT, number, plural, quantity
from roofline.predict.bounds import Times
from roofline.predict.duration import Duration
from roofline.predict.result import Costed, bytes_by_content
from roofline.specs.hardware import Hardware
from roofline.text import WIDTH, Table, plain, wrapped

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, slots=True)
class TensorSpec:
    """A tensor that an operator takes: its shape, and its dtype ("bf16"; PyTorch's name where there is no other)."""

    shape: tuple[int, ...]
    dtype: str

    def __str__(self) -> str:
        return f"{self.dtype}[{', '.join(map(str, self.shape))}]"


@dataclass(frozen=True, slots=True, kw_only=True)
class CountedOperator(Costed):
    """One operator of one module with inputs of one kind, all its calls together."""

    path: str
    """Of the innermost module that called it, such as `layers.0.self_attn`; "" for the module itself."""
    operator: str
    """As PyTorch names it: `aten.mm`."""
    inputs: tuple[TensorSpec, ...]
    dtype: str | None
    """In which products run; None of an operator without products."""
    repeat: int
    """Calls."""
    cost: Cost
    counted: bool
    """Whether its FLOP are known: by a formula, or because it has no products."""
    times: Times | None = None
    """Seconds for which each resource is busy; None without hardware."""

    @property
    def time(self) -> Duration:
        """Return the bound, and the sum without overlap; None without hardware."""
        return Duration(None, None) if self.times is None else Duration(self.times.bound, self.times.sum)

    @property
    def time_s(self) -> Duration:
        """Return the time in seconds."""
        return self.time

    @property
    def bound_by(self) -> str | None:
        """Return the resource that is busy longest, "compute" or "memory"; None without hardware."""
        return None if self.times is None else self.times.bound_by

    def to_dict(self) -> dict[str, Any]:
        """Return plain data in base units."""
        return {
            "path": self.path,
            "operator": self.operator,
            "inputs": [{"shape": [*tensor.shape], "dtype": tensor.dtype} for tensor in self.inputs],
            "dtype": self.dtype,
            "repeat": self.repeat,
            "counted": self.counted,
            **_figures(self.cost),
            "bound_by": self.bound_by,
            "time_s": {"bound": self.time.bound, "sum": self.time.sum},
        }

    def row(self) -> dict[str, Any]:
        """Return one flat row: times end in `_s`."""
        return {
            "path": self.path,
            "operator": self.operator,
            "inputs": ", ".join(map(str, self.inputs)),
            "dtype": self.dtype,
            "repeat": self.repeat,
            "counted": self.counted,
            "matrix_flops": self.cost.matrix_flops,
            "weight_bytes": self.cost.weight_bytes,
            "activation_bytes": self.cost.activation_bytes,
            "bytes": self.cost.bytes,
            "arithmetic_intensity": self.arithmetic_intensity,
            "bound_by": self.bound_by,
            "time_bound_s": self.time.bound,
            "time_sum_s": self.time.sum,
        }


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class CountResult(Costed):
    """What a module or function does when it is called once."""

    module: str
    """The name of its class, or of the function."""
    operators: tuple[CountedOperator, ...]
    """In the order of their first calls; views, which move nothing, are not among them."""
    cost: Cost
    external_bytes: int
    """Bytes that one kernel of the whole would move: weights, inputs and state once each, and outputs; nothing in between. Rows
    that are looked up count once for each look-up, and at most as their table."""
    hardware: dict[str, Any] | None
    """Name, title, bandwidth (byte/s) and the peaks used (FLOP/s); None for counts alone."""
    time: Duration
    """`bound`: operators one after another, each as long as its busiest resource. `floor`: matrix units against
    `external_bytes`, perfectly overlapped; nothing is faster, however operators are fused. `sum`: no overlap at all."""
    bound_by: str | None
    """The resource with the largest share of the operators' bounds, "compute" or "memory"; None without hardware."""
    notes: tuple[str, ...] = ()
    """What was assumed of peaks."""

    @property
    def time_s(self) -> Duration:
        """Return the time in seconds."""
        return self.time

    @property
    def not_counted(self) -> tuple[CountedOperator, ...]:
        """Return the operators that PyTorch has no FLOP formula of and that may have products: their FLOP are missing."""
        return tuple(operator for operator in self.operators if not operator.counted)

    @property
    def modules(self) -> dict[str, Cost]:
        """Return the cost of each module with all modules inside it, by path; "" is the whole."""
        totals: dict[str, Cost] = {"": ZERO}
        for operator in self.operators:
            parts = operator.path.split(".") if operator.path else []
            for depth in range(len(parts) + 1):
                path = ".".join(parts[:depth])
                totals[path] = totals.get(path, ZERO) + operator.cost
        return totals

    def to_dict(self) -> dict[str, Any]:
        """Return plain data in base units (FLOP, bytes, seconds)."""
        return {
            **envelope({}),
            "module": self.module,
            **_figures(self.cost),
            "external_bytes": self.external_bytes,
            "hardware": self.hardware,
            "bound_by": self.bound_by,
            "time_s": {name: getattr(self.time, name) for name in ("floor", "bound", "sum")},
            "operators": [operator.to_dict() for operator in self.operators],
            "modules": {path: _figures(cost) for path, cost in self.modules.items()},
            "not_counted": dict(_calls(self.not_counted)),
            "notes": [*self.notes],
        }

    def to_json(self, indent: int | None = 2) -> str:
        """Return the result as JSON text."""
        return dump_json(self.to_dict(), indent)

    def rows(self) -> list[dict[str, Any]]:
        """Return flat rows, one for each operator."""
        return [operator.row() for operator in self.operators]

    def to_frame(self) -> pd.DataFrame:
        """Return the rows as a pandas frame."""
        import pandas as pd

        return pd.DataFrame(self.rows())

    def __str__(self) -> str:
        return "\n".join([*self._head(), "", plain(self._table()), *self._tail()])

    __repr__ = __str__

    def _head(self) -> list[str]:
        cost = self.cost
        title = self.module if self.hardware is None else f"{self.module} on {self.hardware['title']}"
        intensity = self.arithmetic_intensity
        parts = f"weights {quantity(cost.weight_bytes, 'B')}, activations {quantity(cost.activation_bytes, 'B')}"
        figures = [
            f"{quantity(cost.matrix_flops, 'FLOP')} in products",
            f"{quantity(cost.bytes, 'B')} moved ({parts})",
            *([] if intensity is None else [f"{number(intensity, 3)} FLOP/byte"]),
        ]
        times = []
        if self.time.bound is not None and self.time.floor is not None:
            bound, floor = quantity(self.time.bound, "s", 3), quantity(self.time.floor, "s", 3)
            times = [f"bound {bound}, {self.bound_by}-bound; floor {floor}"]
        return [title, "; ".join(figures), *times]

    def _table(self) -> Table:
        """The operators that take most, those of equal layers together."""
        merged: dict[tuple[str, str, tuple[TensorSpec, ...], str | None], tuple[int, Cost, float]] = {}
        for operator in self.operators:
            key = (_NUMBER.sub("*", operator.path), operator.operator, operator.inputs, operator.bound_by)
            repeat, cost, seconds = merged.get(key, (0, ZERO, 0.0))
            merged[key] = repeat + operator.repeat, cost + operator.cost, seconds + (operator.time.bound or 0.0)
        timed = self.hardware is not None
        largest = sorted(merged.items(), key=lambda item: (-item[1][2], -item[1][1].bytes, -item[1][1].matrix_flops))
        rows = []
        for (path, name, inputs, by), (repeat, cost, seconds) in largest[:_ROWS]:
            shapes = " ".join(str([*tensor.shape]).replace(" ", "") for tensor in inputs[:2])
            rows.append(
                (
                    path or "(itself)", name.removeprefix("aten."), shapes, f"{repeat:,}",
                    quantity(cost.matrix_flops, "FLOP", 3) if cost.matrix_flops else ABSENT, quantity(cost.bytes, "B", 3),
                    *((quantity(seconds, "s", 3), by or "") if timed else ()),
                )
            )  # fmt: skip
        left = len(merged) - len(rows)
        columns = ("module", "operator", "inputs", "calls", "FLOP", "bytes", *(("bound", "bound by") if timed else ()))
        right = (False, False, False, True, True, True, *((True, False) if timed else ()))
        if left:
            rows.append((f"{plural(left, 'more row')}: to_frame()", *("" for _ in columns[1:])))
        return Table("", "", columns, right, tuple(rows))

    def _tail(self) -> list[str]:
        missing = ", ".join(f"{name} ({plural(calls, 'call')})" for name, calls in _calls(self.not_counted))
        texts = [f"Not counted, for PyTorch has no FLOP formula: {missing}."] if missing else []
        return [line for text in (*texts, *self.notes) for line in ("", *wrapped(text, WIDTH))]


_ROWS = 16
"""Of the table."""
_NUMBER = re.compile(r"(?<=\.)\d+(?=\.|$)|^\d+(?=\.|$)")


def _calls(operators: Iterable[CountedOperator]) -> list[tuple[str, int]]:
    calls: Counter[str] = Counter()
    for operator in operators:
        calls[operator.operator] += operator.repeat
    return calls.most_common()


def _figures(cost: Cost) -> dict[str, Any]:
    return {
        "flops": {"matrix": cost.matrix_flops, "vector": cost.vector_flops, "total": cost.flops},
        "bytes": bytes_by_content(cost),
        "arithmetic_intensity": cost.flops / cost.bytes if cost.bytes else None,
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """What one call of a module did, before any hardware is known."""

    module: str
    operators: tuple[CountedOperator, ...]
    external_bytes: int
    tf32: bool
    """Whether PyTorch was allowed to multiply fp32 matrices in tf32."""


def counted_result(run: Run, hardware: Hardware | None) -> CountResult:
    """Put the counts of a run on hardware.

    Args:
        run: the counts.
        hardware: one device of it; None: no times.

    Raises:
        InputError: the hardware has no peak for the dtype of a product, nor any other that is no slower.
    """
    cost = sum((operator.cost for operator in run.operators), ZERO)
    totals: dict[str, Any] = {"module": run.module, "cost": cost, "external_bytes": run.external_bytes}
    if hardware is None:
        return CountResult(**totals, operators=run.operators, hardware=None, time=Duration(None, None), bound_by=None)
    peaks: dict[str, float] = {}
    notes: list[str] = []
    for dtype in dict.fromkeys(operator.dtype for operator in run.operators if operator.cost.matrix_flops):
        assert dtype is not None, "an operator with products has their dtype"  # noqa: S101
        peaks[dtype], note = _peak(dtype, hardware, tf32=run.tf32)
        notes += [note] if note else []
    operators = tuple(_timed(operator, peaks, hardware.bandwidth) for operator in run.operators)
    times = [operator.times for operator in operators if operator.times is not None]
    matrix = float(sum(time.matrix for time in times))
    share = Counter[str]()
    for time in times:
        share[time.bound_by] += time.bound
    return CountResult(
        **totals,
        operators=operators,
        hardware={
            "name": hardware.name, "accelerator": hardware.accelerator.name, "title": hardware.accelerator.title,
            "bandwidth": hardware.bandwidth, "peak_flops": peaks,
        },
        time=Duration(
            bound=float(sum(time.bound for time in times)),
            sum=float(sum(time.sum for time in times)),
            floor=max(matrix, run.external_bytes / hardware.bandwidth),
        ),
        bound_by=max(share, key=lambda kind: share[kind]) if share else "memory",
        notes=tuple(notes),
    )  # fmt: skip


def _peak(dtype: str, hardware: Hardware, *, tf32: bool) -> tuple[float, str]:
    """The peak at which products of a dtype run, in FLOP/s, and what was assumed."""
    peaks = hardware.accelerator.peak_flops
    if dtype == "fp32" and tf32 and "tf32" in peaks:
        return hardware.peak("tf32"), "Products in fp32 run in tf32, as torch.set_float32_matmul_precision allows."
    if dtype in peaks:
        return hardware.peak(dtype), ""
    # NB: vector units are no slower in fp32 than in wider dtypes, so that the bound stays one.
    if dtype not in _NARROW and hardware.vector_peak:
        return (
            hardware.vector_peak,
            f"Products in {dtype}, which the matrix units have no peak for, run at the fp32 vector peak.",
        )
    known = ", ".join(peaks)
    raise InputError(f"{hardware.accelerator.title} has no peak for products in {dtype}: its file has {known}")


_NARROW = frozenset({"bf16", "fp16", "fp8", "int8", "fp4"})


def _timed(operator: CountedOperator, peaks: dict[str, float], bandwidth: float) -> CountedOperator:
    cost = operator.cost
    matrix = cost.matrix_flops / peaks[operator.dtype] if cost.matrix_flops and operator.dtype else 0.0
    return replace(operator, times=Times(matrix=matrix, vector=0.0, memory=cost.bytes / bandwidth, link=0.0))
