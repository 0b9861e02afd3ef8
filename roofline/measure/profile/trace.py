"""A recorded run as every reader gives it: kernels with times, the host operators that launched them, and annotations."""

from __future__ import annotations

from array import array
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Generic, Literal, NamedTuple, TypeVar

if TYPE_CHECKING:
    import numpy as np

T = TypeVar("T", bound=Hashable)

Activity = Literal["kernel", "memcpy", "memset", "cpu"]
ACTIVITIES: tuple[Activity, ...] = ("kernel", "memcpy", "memset", "cpu")
"""What a row of `Kernels` is: code on the device, a copy, a fill, or an operator of a run on the CPU."""

Shape = tuple[int | float | str | None, ...]
"""The shape of one input, () of a scalar; of a list of tensors a tuple of shapes."""


class HostOperator(NamedTuple):
    """An operator as the framework called it on the host.

    Attributes:
        name: such as "aten::addmm" or "vllm::unified_attention_with_output".
        shapes: of each input; empty if the trace has no shapes.
        dtypes: of each input, as the framework spells them ("c10::BFloat16"), "" of one that is no tensor.
        values: of scalar inputs as text, "" of others; empty if the trace has none.
    """

    name: str
    shapes: tuple[Shape, ...] = ()
    dtypes: tuple[str, ...] = ()
    values: tuple[str, ...] = ()


class Annotation(NamedTuple):
    """A named range, such as "execute_context_1(512)_generation_3(3)" or an NVTX range; seconds since the trace's start."""

    name: str
    start_s: float
    duration_s: float
    on_device: bool = False

    @property
    def end_s(self) -> float:
        """Its end, seconds."""
        return self.start_s + self.duration_s


@dataclass(slots=True)
class Kernels:
    """Kernels of a trace in the order of their start, as columns of one length. Times are seconds since the trace's start.

    Attributes:
        names: distinct names. `name` indexes it.
        operators: distinct host operators. `operator` indexes it; -1 where it is not known.
        activity: indexes `ACTIVITIES`.
        start_s, duration_s: on the device; of a run on the CPU the operator's own time, without the operators inside it.
        device, stream: where it ran.
        launch_s: when the host called for it; NaN where that is not known.
        in_graph: 1 if a CUDA or HIP graph launched it.
        bytes: of a copy or fill; of a collective its message, where the trace says; else NaN.
        world: ranks of a collective's group; 0 where that is not known.
        call: the call of the host operator: kernels of one call have the same number; -1 where it is not known.
        counters: hardware counters by name ("dram_bytes", "dram_read_bytes", "dram_write_bytes", "l2_bytes", "flops"),
            columns with NaN where they were not measured.
    """

    names: list[str] = field(default_factory=list)
    operators: list[HostOperator] = field(default_factory=list)
    name: array[int] = field(default_factory=lambda: array("i"))
    operator: array[int] = field(default_factory=lambda: array("i"))
    activity: array[int] = field(default_factory=lambda: array("b"))
    start_s: array[float] = field(default_factory=lambda: array("d"))
    duration_s: array[float] = field(default_factory=lambda: array("d"))
    device: array[int] = field(default_factory=lambda: array("i"))
    stream: array[int] = field(default_factory=lambda: array("q"))
    launch_s: array[float] = field(default_factory=lambda: array("d"))
    in_graph: array[int] = field(default_factory=lambda: array("b"))
    bytes: array[float] = field(default_factory=lambda: array("d"))
    world: array[int] = field(default_factory=lambda: array("i"))
    call: array[int] = field(default_factory=lambda: array("q"))
    counters: dict[str, np.ndarray] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.name)

    def append(
        self,
        name: int,
        start_s: float,
        duration_s: float,
        *,
        operator: int = -1,
        activity: int = 0,
        device: int = 0,
        stream: int = 0,
        launch_s: float = float("nan"),
        in_graph: bool = False,
        bytes: float = float("nan"),
        world: int = 0,
        call: int = -1,
    ) -> None:
        """Add one kernel; names and operators by their index."""
        self.name.append(name)
        self.start_s.append(start_s)
        self.duration_s.append(duration_s)
        self.operator.append(operator)
        self.activity.append(activity)
        self.device.append(device)
        self.stream.append(stream)
        self.launch_s.append(launch_s)
        self.in_graph.append(in_graph)
        self.bytes.append(bytes)
        self.world.append(world)
        self.call.append(call)

    def order(self) -> None:
        """Sort all columns by start; kernels of one start by the order in which they were added."""
        import numpy as np

        by_start = np.argsort(np.frombuffer(self.start_s), kind="stable") if len(self) else np.zeros(0, dtype=int)
        for column in _COLUMNS:
            values: array[float] = getattr(self, column)
            if len(values):
                typed = np.frombuffer(values, dtype=values.typecode)[by_start]
                setattr(self, column, array(values.typecode, typed.tobytes()))
        self.counters = {name: values[by_start] for name, values in self.counters.items()}

    def column(self, name: str) -> np.ndarray:
        """A column as an array of shape [kernels]."""
        import numpy as np

        values: array[float] = getattr(self, name)
        return np.frombuffer(values, dtype=values.typecode) if len(values) else np.zeros(0, dtype=values.typecode)


_COLUMNS = (
    "name", "operator", "activity", "start_s", "duration_s", "device", "stream", "launch_s", "in_graph", "bytes", "world",
    "call",
)  # fmt: skip


@dataclass(slots=True)
class Trace:
    """What a reader found in one file.

    Attributes:
        path: the file.
        source: what wrote it: "PyTorch profiler", "Nsight Systems", "Nsight Compute".
        device_names: names of the devices by the driver, in the order of their numbers; empty where the file has none.
        kernels: everything that ran.
        annotations: named ranges, of the host and of the device, in the order of their start.
        syncs: start and duration of the host's waits for the device, seconds, by start.
        serialized: whether kernels ran one at a time under the profiler (Nsight Compute), so that gaps mean nothing.
        rank, world: of a distributed run; 0 of 1 otherwise.
        notes: what could not be read, and why.
    """

    path: Path
    source: str
    device_names: list[str] = field(default_factory=list)
    kernels: Kernels = field(default_factory=Kernels)
    annotations: list[Annotation] = field(default_factory=list)
    syncs: list[tuple[float, float]] = field(default_factory=list)
    serialized: bool = False
    rank: int = 0
    world: int = 1
    notes: list[str] = field(default_factory=list)


class Index(Generic[T]):
    """Numbers for distinct values in the order in which they come."""

    __slots__ = ("_numbers", "values")

    def __init__(self) -> None:
        self.values: list[T] = []
        self._numbers: dict[T, int] = {}

    def __call__(self, value: T) -> int:
        """The number of a value, a new one if it has none."""
        number = self._numbers.get(value)
        if number is None:
            number = self._numbers[value] = len(self.values)
            self.values.append(value)
        return number


def as_shape(value: object) -> Shape:
    """A shape out of a trace, lists as tuples.

    >>> as_shape([[1, 2], [3]])
    ((1, 2), (3,))
    """
    if isinstance(value, Sequence) and not isinstance(value, str):
        return tuple(as_shape(part) if isinstance(part, list) else part for part in value)  # type: ignore[misc]
    return ()
