"""The bench on a CUDA device: every op runs, by one backend at least, and its time is one that physics allows.

`pytest -m gpu` where there is a device; elsewhere these are skipped.
"""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="the bench runs through torch")

from roofline.measure.bench.devices import SamplingBudget
from roofline.measure.bench.kernels import make
from roofline.measure.bench.kernels.base import NotRunnableError, TensorFactory
from roofline.measure.bench.measure import SeenRates, measure
from roofline.measure.bench.point import PER_ROW, Point
from roofline.measure.bench.suites import Scope, plan

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA device"),
]


@pytest.fixture(scope="module")
def device() -> Any:
    from roofline.measure.bench.devices.cuda import Cuda

    return Cuda()


@pytest.fixture(scope="module")
def points(device: Any) -> list[Point]:
    return plan(("ceilings", "operators", "transfers"), Scope("cuda", device.cache_bytes, ("bf16",)))


def first(points: list[Point], op: str) -> dict[str, Point]:
    """The first point of each backend of an op."""
    found: dict[str, Point] = {}
    for point in points:
        if point.op == op:
            found.setdefault(f"{point.dtype} {point.backend}", point)
    return found


def test_every_op_runs(device: Any, points: list[Point]) -> None:
    """By one backend at least; the clock's own time is far below what is measured."""
    failed = {}
    for op in sorted({point.op for point in points}):
        why = {}
        for name, point in first(points, op).items():
            try:
                timing = measure(point, device, TensorFactory("cuda"), SamplingBudget(0.02), SeenRates(30.0))
            except NotRunnableError as error:
                why[name] = str(error)
            else:
                assert 0 < timing.p10 <= timing.median <= timing.p90
        if len(why) == len(first(points, op)):
            failed[op] = why
    assert failed == {}


def test_packed_and_scaled_products(device: Any) -> None:
    """Weight-only int4 and int8, fp8 with scales per row and per block: as with plain arithmetic, where the device has them.

    The identity for x shows each weight of int4; fp8 rounds sums to bf16, of which 1 in 128 is the distance of two neighbours.
    """
    factory = TensorFactory("cuda")
    shape = {"m": 256, "n": 128, "k": 256}
    kernel = make(Point("operators", "gemm", "int4_wo_g64", shape), factory)
    numbers = factory.nibbles(128, 256)
    factory.nibbles = lambda *_: numbers  # type: ignore[method-assign]
    _, packed, scales = kernel.inputs()
    scale, zero = (scales[..., place].float().repeat_interleave(64, 0) for place in (0, 1))
    result = kernel.run(torch.eye(256, dtype=torch.bfloat16, device="cuda"), packed, scales)
    torch.testing.assert_close(result.float(), (numbers.t() - 8) * scale + zero, rtol=0.01, atol=0.02)
    for dtype, kernel_name in (("int8_wo", ""), ("fp8", PER_ROW), ("fp8_block", "")):
        kernel = make(Point("operators", "gemm", dtype, shape, {"kernel": kernel_name}), factory)
        x, w, *scales = kernel.inputs()
        try:
            result = kernel.run(x, w, *scales)
        except (NotRunnableError, NotImplementedError):
            continue  # not every device and version has each
        of_x, of_w = scales if len(scales) == 2 else (torch.ones(256, 1, device="cuda"), scales[0].float().unsqueeze(0))
        if dtype == "fp8_block":
            of_x, of_w = of_x.repeat_interleave(128, 1), of_w.repeat_interleave(128, 0).repeat_interleave(128, 1)
        left = (x.to(torch.float8_e4m3fn) if dtype != "int8_wo" else x).double() * of_x
        exact = left @ (w.double().t() * of_w)
        assert (result.double() - exact).norm() < 0.01 * exact.norm(), dtype


def test_a_copy_is_not_faster_than_the_memory(device: Any) -> None:
    """2 GiB read and written: between a third of the datasheet's bandwidth and all of it, where the card is a shipped one."""
    from roofline.measure.bench.machine import shipped_id
    from roofline.specs.library import load_hardware

    name = shipped_id(device)
    if name is None:
        pytest.skip(f"{device.name} is no shipped accelerator")
    point = Point("ceilings", "copy_d2d", "fp32", {"bytes": 2**31}, {"kernel": "copy"})
    rate = 2**32 / measure(point, device, TensorFactory("cuda"), SamplingBudget(0.1), SeenRates(30.0)).median
    bandwidth = load_hardware(name)[0].bandwidth
    assert bandwidth / 3 < rate <= bandwidth


def test_replaying_and_launching_agree_on_a_long_kernel(device: Any) -> None:
    """A product of some milliseconds takes as long in a graph as launched alone, within a tenth."""
    x = torch.randn(8192, 8192, device="cuda", dtype=torch.bfloat16)

    def run(_: int) -> None:
        torch.mm(x, x)

    launched = device.measure(run, 1, SamplingBudget(0.2), launches=True, composed=False)
    replayed = device.measure(run, 1, SamplingBudget(0.2), launches=False, composed=True)
    assert (launched.how, replayed.how) == ("launched one by one", "CUDA graph")
    assert replayed.median == pytest.approx(launched.median, rel=0.1)


def test_cold_is_slower_than_warm(device: Any) -> None:
    """A pass over a quarter of the L2: from the cache it is faster than from memory."""
    size = device.cache_bytes // 8 // 4096 * 4096
    times = {}
    for cache in ("cold", "warm"):
        point = Point("ceilings", "copy_d2d", "fp32", {"bytes": size}, {"kernel": "copy"}, cache=cache)  # type: ignore[arg-type]
        times[cache] = measure(point, device, TensorFactory("cuda"), SamplingBudget(0.05), SeenRates(30.0)).median
    assert times["warm"] < times["cold"]


def test_a_captured_decode_loop_computes_what_a_full_pass_does(device: Any) -> None:
    """Replays draw tokens and fill the cache: the keys are those of all tokens at once, to the precision of bf16."""
    from roofline.blocks.model_files import load_model
    from roofline.measure.bench.decode_loop import DecodeLoop, LoopSizes

    sizes = LoopSizes(4, 64, 8)
    model, _ = load_model("qwen2.5-0.5b")
    loop = DecodeLoop(model, TensorFactory("cuda"), "bf16", sizes, attention="sdpa-flash", expert_backend="grouped")
    loop.prefill()
    replays = device.captured(loop.steps)
    loop.prefill()
    tokens = [loop.prompts]
    for replay in replays:
        tokens.append(loop.ids.clone())
        replay()
    torch.cuda.synchronize()
    grown = [cache["k"].clone() for cache in loop.caches]
    with torch.no_grad():
        loop.logits(torch.cat(tokens, dim=1), 0)
    for before, cache in zip(grown, loop.caches, strict=True):
        scale = cache["k"].abs().max().item()
        torch.testing.assert_close(before, cache["k"], rtol=0, atol=0.05 * scale)


def test_a_decode_loop_with_and_without_graphs(device: Any) -> None:
    """Kernels are a part of a step; graphs save launches; nothing is faster than the bound where the card is a shipped one."""
    from roofline.measure.bench.decode_loop import LoopSizes
    from roofline.measure.bench.machine import shipped_id
    from roofline.measure.bench.serve import EAGER, GRAPHS, Request, serve

    if shipped_id(device) is None:
        pytest.skip(f"{device.name} is no shipped accelerator")
    result = serve(Request("llama-3.2-1b", "cuda", "bf16", LoopSizes(1, 512, 16), 60.0), lambda _: None)
    assert [way.how for way in result.launching] == [GRAPHS, EAGER]
    for way in result.launching:
        assert 0 < way.kernels_s <= 1.02 * way.step.median
    assert result.launch_s is not None
    assert result.launch_s > 0
    bound = result.predicted_step.bound
    assert bound is not None
    assert bound <= result.launching[0].step.median
