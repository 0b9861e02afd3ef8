"""The logic of timing on a CUDA device, on a stand-in for torch.cuda: what is captured, what is launched, what is said.

What no stand-in can show (that a kernel runs, how long it takes) needs a device: see tests/gpu.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any, ClassVar

import pytest

torch = pytest.importorskip("torch", reason="the bench runs through torch")

from roofline.measure.bench.devices import DeviceLostError, SamplingBudget
from roofline.measure.bench.devices.cuda import Cuda
from roofline.measure.bench.kernels.base import NotRunnableError
from roofline.measure.bench.machine import gpu_id, shipped_id


class Clock:
    """Moves when something here takes time, and never else: how busy the machine is changes nothing."""

    now: ClassVar[float] = 0.0

    @classmethod
    def take(cls, seconds: float) -> None:
        """That much later."""
        cls.now += seconds


class Event:
    """Knows the time of the clock."""

    def __init__(self, *, enable_timing: bool) -> None:
        assert enable_timing

    def record(self) -> None:
        """Now."""
        self.at = Clock.now

    def elapsed_time(self, other: Event) -> float:
        """Milliseconds between the two."""
        return (other.at - self.at) * 1e3


class Graph:
    """Takes so long to replay, whatever was captured."""

    captured: ClassVar[list[Graph]] = []
    seconds: ClassVar[float] = 1e-3

    pool: object = None

    def __init__(self) -> None:
        self.replays = 0
        Graph.captured.append(self)

    def replay(self) -> None:
        """Take that long."""
        self.replays += 1
        Clock.take(Graph.seconds)


@pytest.fixture
def cuda(monkeypatch: pytest.MonkeyPatch) -> Cuda:
    """A device with 50 MB of L2 that the driver calls an H200."""
    properties = SimpleNamespace(
        name="NVIDIA H200", multi_processor_count=132, L2_cache_size=50 * 2**20, total_memory=140 * 2**30, major=9, minor=0
    )

    @contextlib.contextmanager
    def capture(graph: Graph, pool: object = None) -> Iterator[None]:
        graph.pool = pool
        yield

    stream = SimpleNamespace(wait_stream=lambda _: None)
    for name, value in {
        "get_device_properties": lambda _: properties,
        "Event": Event,
        "CUDAGraph": Graph,
        "graph": capture,
        "graph_pool_handle": object,
        "Stream": lambda: stream,
        "set_stream": lambda _: None,
        "default_stream": lambda: stream,
        "stream": lambda _: contextlib.nullcontext(),
        "current_stream": lambda: stream,
        "synchronize": lambda: None,
        "mem_get_info": lambda: (100 * 2**30, 140 * 2**30),
        "memory_reserved": lambda: 3 * 2**30,
        "memory_allocated": lambda: 2**30,
        "device_count": lambda: 1,
    }.items():
        monkeypatch.setattr(torch.cuda, name, value)
    Graph.captured.clear()
    monkeypatch.setattr(Graph, "seconds", 1e-3)
    return Cuda()


def test_short_kernels_are_replayed_in_whole_turns(cuda: Cuda) -> None:
    """With seven sets of inputs a graph holds a multiple of seven calls, each set as often as any other."""
    turns: list[int] = []
    found = cuda.measure(lambda turn: turns.append(turn % 7), 7, SamplingBudget(0.01), launches=False, composed=False)
    (graph,) = Graph.captured
    captured = turns[3:]  # three calls warmed it up
    assert found.calls == len(captured)
    assert found.calls % 7 == 0
    assert {captured.count(place) for place in range(7)} == {found.calls // 7}
    assert found.how == "CUDA graph"
    assert found.p10 <= found.median <= found.p90
    assert found.median >= Graph.seconds / found.calls  # a replay's time is shared by all its calls
    # replays before sampling: one, three to see how long it takes, and 20 ms for the clocks to rise
    assert graph.replays - found.samples >= 4 + 0.02 / (3 * Graph.seconds)


def test_a_graph_that_is_over_too_soon_is_made_longer(cuda: Cuda, monkeypatch: pytest.MonkeyPatch) -> None:
    """Launching a call takes longer than running it: one replay shows that, and the next graph has a millisecond of calls."""
    monkeypatch.setattr(Graph, "seconds", 1e-4)
    turns: list[int] = []

    def slow_to_launch(turn: int) -> None:
        turns.append(turn)
        Clock.take(1e-4)

    found = cuda.measure(slow_to_launch, 4, SamplingBudget(0.005), launches=False, composed=False)
    first, second = Graph.captured
    assert first.replays == 4
    assert found.calls % 4 == 0
    assert len(turns) - 3 > found.calls > len(turns) - 3 - found.calls  # the second graph is the longer one
    assert second.replays > found.samples


def test_long_kernels_are_launched(cuda: Cuda) -> None:
    """From half a millisecond on, the gap between launches no longer matters."""
    found = cuda.measure(lambda _: Clock.take(1e-3), 2, SamplingBudget(0.01), launches=False, composed=False)
    assert Graph.captured == []
    assert (found.how, found.calls) == ("launched one by one", 1)
    assert found.samples >= 7
    assert 1e-3 <= found.median < 2e-3


def test_launches_are_never_hidden_in_a_graph(cuda: Cuda) -> None:
    """What a launch costs is measured by launching."""
    found = cuda.measure(lambda _: None, 1, SamplingBudget(0.001), launches=True, composed=False)
    assert Graph.captured == []
    assert found.how == "launched one by one"


def test_a_composed_call_is_captured_however_long_it_takes(cuda: Cuda) -> None:
    """A step of many kernels is a graph, with each set of inputs once at least."""
    found = cuda.measure(lambda _: Clock.take(1e-3), 2, SamplingBudget(0.001), launches=False, composed=True)
    assert (found.how, found.calls) == ("CUDA graph", 2)


def test_what_cannot_be_captured_is_launched(cuda: Cuda, monkeypatch: pytest.MonkeyPatch) -> None:
    """And the record says so."""

    @contextlib.contextmanager
    def refuse(_: Graph) -> Iterator[None]:
        raise RuntimeError("operation not permitted when stream is capturing")
        yield

    monkeypatch.setattr(torch.cuda, "graph", refuse)
    how = cuda.measure(lambda _: None, 1, SamplingBudget(0.001), launches=False, composed=False).how
    assert how.startswith("launched one by one, for a graph cannot hold it (operation not permitted")


def test_laps_are_between_events(cuda: Cuda) -> None:
    """Each call has what passes from the end of the one before to its own."""
    laps = cuda.laps([lambda: Clock.take(2e-3), lambda: Clock.take(5e-3), lambda: Clock.take(1e-3)])
    assert laps == pytest.approx([2e-3, 5e-3, 1e-3])


def test_calls_are_captured_in_their_order(cuda: Cuda) -> None:
    """All are run once before the first is captured; each has a graph of its own, and all share memory."""
    order: list[str] = []
    replays = cuda.captured([lambda: order.append("a"), lambda: order.append("b")])
    assert order == ["a", "b", "a", "b"]
    assert len(replays) == len(Graph.captured) == 2
    assert Graph.captured[0].pool is Graph.captured[1].pool is not None
    assert cuda.laps(replays) == pytest.approx([Graph.seconds] * 2)
    assert [graph.replays for graph in Graph.captured] == [1, 1]
    assert order == ["a", "b", "a", "b"]  # a replay runs nothing on the host


def test_a_loop_that_no_graph_can_hold(cuda: Cuda, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is refused with the reason, and the stream of the capture is left."""
    left: list[object] = []
    monkeypatch.setattr(torch.cuda, "set_stream", left.append)

    @contextlib.contextmanager
    def refuse(_: Graph, pool: object) -> Iterator[None]:
        raise RuntimeError("operation not permitted when stream is capturing")
        yield

    monkeypatch.setattr(torch.cuda, "graph", refuse)
    with pytest.raises(NotRunnableError, match="a CUDA graph cannot hold it: operation not permitted"):
        cuda.captured([lambda: None])
    assert len(left) == 1


def test_a_device_that_is_lost(cuda: Cuda, monkeypatch: pytest.MonkeyPatch) -> None:
    """After an illegal access nothing answers: that ends the run, and its state is told as far as it goes."""

    def fail() -> None:
        raise RuntimeError("CUDA error: an illegal memory access was encountered\nmore")

    for name in ("synchronize", "mem_get_info"):
        monkeypatch.setattr(torch.cuda, name, fail)
    with pytest.raises(DeviceLostError, match=r"illegal memory access was encountered$"):
        cuda.finish()
    assert cuda.state()["free_bytes"] is None


def test_without_the_drivers_library(cuda: Cuda) -> None:
    """Clocks and power are null, and measuring goes on."""
    state, facts = cuda.state(), cuda.facts()
    assert state["free_bytes"] == 102 * 2**30  # what the driver has, and two that torch holds and does not use
    assert state.get("nvml") is None
    assert (facts["name"], facts["compute_units"], facts["capability"]) == ("NVIDIA H200", 132, "9.0")


def test_the_card_is_known_by_its_name(cuda: Cuda, monkeypatch: pytest.MonkeyPatch) -> None:
    """Records of a shipped card carry its id; a slice of one is another device."""
    assert gpu_id(cuda) == "h200-sxm"
    cuda.name = "NVIDIA H200 MIG 1g.18gb"
    assert shipped_id(cuda) is None
    assert gpu_id(cuda) == "nvidia-h200-mig-1g-18gb-measured"


def test_throttle_reasons_have_names(cuda: Cuda) -> None:
    """Bits become the names of the driver's constants."""
    nvml: Any = cuda._nvml
    nvml._library = SimpleNamespace(
        nvmlClocksThrottleReasonSwPowerCap=4, nvmlClocksThrottleReasonHwSlowdown=8, nvmlClocksThrottleReasonAll=12
    )
    assert nvml._words(12) == ["HwSlowdown", "SwPowerCap"]
    assert nvml._words(0) == []
