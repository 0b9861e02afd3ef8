"""Operators that stream rows through the chip: norms, rotations, activations, additions, look-ups, samplers, copies.

A block of threads takes a row and walks along it, one round trip to memory (`step`) a pass, and one more to start and to
drain. An SM holds a number of blocks; rows beyond them wait for another wave. The bytes have to pass as well, at a fraction of
the memory's bandwidth, faster where a previous kernel left them in L2. Latency and bandwidth share the same loads, so that a
kernel in which both are as long takes less than their sum: the root of their squares.

Source of the grids: `csrc/layernorm_kernels.cu`, `pos_encoding_kernels.cu` and `activation_kernels.cu` of vLLM (a block a row,
at most 1024 threads, 512 for rotations); `aten/src/ATen/native/cuda/Indexing.cu` of PyTorch (look-ups).
"""

from __future__ import annotations

from roofline.numeric import Expr, ceil_div, floor_div, maximum, minimum
from roofline.operators.activation import Activation
from roofline.operators.base import Operator
from roofline.operators.embedding import Embedding
from roofline.operators.norm import Norm
from roofline.operators.rope import Rope
from roofline.operators.sampling import Sampling
from roofline.predict.efficiency.form import Chip, Conditions, KernelForm, Operators, Parameter, Values

# Threads that an SM holds (every data-centre chip of NVIDIA since Volta).
HELD = 2048
# Elements that a block takes in one pass: 1024 threads one each, of a rotation 512 threads a pair each.
PASS = 1024
# Look-ups of that few rows have every block walk through all of them (`indexSelectSmallIndex`).
FEW = 16
# An L2 of two halves that keeps in both what both read holds half of what it says.
HALVES = 0.5


def _rows(operator: Operator) -> tuple[Expr, Expr, int] | None:
    """Rows, their width, and elements of a thread in a pass, where a block takes a row; None where it takes any elements."""
    if isinstance(operator, (Norm, Activation)):
        return operator.rows, operator.width, 1
    if isinstance(operator, Rope):
        return operator.tokens, operator.heads * operator.rotary_dim, 2
    if isinstance(operator, Sampling):
        return operator.rows, operator.choices, 1
    return None


def _steps(operator: Operator, chip: Chip) -> Expr:
    """Round trips to memory that have to wait for each other."""
    if isinstance(operator, Embedding):
        few = operator.tokens * (operator.tokens <= FEW)
        return maximum(few, operator.tokens * operator.width / (PASS * chip.units))
    row_shape = _rows(operator)
    if row_shape is None:
        return 1
    rows, width, each = row_shape
    threads = minimum(PASS // each, ceil_div(width, each))
    waves = ceil_div(rows, floor_div(HELD, threads) * chip.units)
    return waves * (ceil_div(width, PASS) + 1)


def _terms(operators: Operators, chip: Chip, conditions: Conditions, values: Values) -> dict[str, Expr]:
    (operator,) = operators.values()
    size = operator.cost().bytes
    # What a kernel reads and writes over and over stays in L2 up to its capacity, and is driven out altogether at twice that.
    capacity = HALVES * chip.l2 / conditions.weights
    resident = maximum(0, minimum(size, 2 * capacity - size))
    latency = values["step"] * _steps(operator, chip)
    memory = (size - resident + resident / values["cache"]) / (values["memory"] * chip.bandwidth)
    return {
        "launch": values["launch"],
        "latency": latency,
        "memory": memory,
        "total": values["launch"] + (latency**2 + memory**2) ** 0.5,
    }


def _transfer(values: Values, fitted: Chip, other: Chip) -> dict[str, float]:
    """As many bytes have to be in flight as bandwidth and latency ask for (Little): where an SM has a larger share of the
    bandwidth, kernels load more at once, and a pass takes that much less."""
    share = (other.units / other.bandwidth) / (fitted.units / fitted.bandwidth)
    return {**values, "step": values["step"] * min(1.0, share)}


STREAMING = KernelForm(
    name="streaming",
    ops=("rmsnorm", "rope", "silu_mul", "add", "embedding", "sampling", "copy_d2d"),
    about="one kernel over rows or elements: a launch, and round trips to memory that wait for each other, together with bytes",
    parameters=(
        Parameter("launch", "s", "time of an empty call", 1e-6, 1e-7, 1e-4),
        Parameter("step", "s", "round trip of a block to memory", 6e-7, 1e-8, 1e-5, neutral=0),
        Parameter("memory", "1", "fraction of the memory bandwidth", 0.6, 0.05, 1.0),
        Parameter("cache", "1", "speed of bytes in L2, memory being 1", 1.2, 1.0, 5.0, neutral=1),
    ),
    terms=_terms,
    overlapping=("latency", "memory"),
    transfer=_transfer,
)
