"""The floor of a step: bytes and FLOP that no kernel can leave out, resource by resource."""

from __future__ import annotations

from dataclasses import replace

import pytest

from roofline.dtypes import BF16, FORMATS
from roofline.operators.base import Operator
from roofline.operators.collectives import AllGather, AllReduce
from roofline.operators.embedding import Embedding
from roofline.operators.gemm import Gemm
from roofline.operators.grouped_gemm import GroupedGemm
from roofline.operators.host_copy import HostCopy
from roofline.predict.floor import (
    PARTS,
    Floor,
    Overrides,
    floor_parts,
    floors,
    graph_floor,
    interval,
    latency,
    stage_floor,
    step_floor,
    together,
)
from roofline.predict.request import prepare
from roofline.predict.timing import stages
from roofline.specs.hardware import Hardware
from roofline.specs.library import load_hardware
from roofline.specs.workload import Segment, decode

pytestmark = pytest.mark.every_case

H100 = load_hardware("h100-sxm")[0]
STEP = (Segment(3, 1, 99, decode=True), Segment(2, 40, 10))


def parts(**given: float) -> dict[str, float]:
    """What operators ask for together, nothing where it is not given."""
    return dict.fromkeys(PARTS, 0.0) | given


@pytest.mark.parametrize(
    ("written", "read", "earlier"),
    [
        (100.0, 150.0, 50.0),  # what is read less what the step writes
        (10.0, 600.0, 600 * 317 / 400),  # the share of earlier tokens: 3 * 99 + 2 * 10 of 3 * 100 + 2 * 50
        (700.0, 600.0, 0.0),
    ],
)
def test_keys_of_earlier_steps(written: float, read: float, earlier: float) -> None:
    """The smaller of two counts; what the step itself writes need not come back, and is written all the same."""
    found = step_floor(parts(kv_write=written, kv_read=read, weights=7.0, state=5.0), STEP, H100)
    assert found.cache_bytes == pytest.approx(written + earlier)
    assert (found.weight_bytes, found.state_bytes) == (7, 5)
    half = step_floor(parts(kv_write=written, kv_read=read), STEP, H100, Overrides(cache=0.5))
    assert half.cache_bytes == pytest.approx((written + earlier) / 2)


@pytest.mark.parametrize("times", [0.4, 1.0, 100.0, 199.0, 201.0])
def test_a_cache_may_hold_weights(times: float) -> None:
    """As much as it has, 50 MiB of the H100; nothing where that is not half of a per cent of what a step moves."""
    size = 50 * 2**20
    found = step_floor(parts(weights=times * size), STEP, H100)
    kept = min(size, times * size) if times < 200 else 0
    assert found.retained_bytes == pytest.approx(kept)
    assert found.memory_s == pytest.approx((times * size - kept) / 3350e9)
    bare = Hardware(H100.accelerator.model_copy(update={"l2": None}), None, {})
    assert step_floor(parts(weights=times * size), STEP, bare).retained_bytes == 0


def test_the_busiest_resource_decides() -> None:
    """Memory, matrix units or the slower link, each at the rate of another reading where one is given."""
    asked = parts(weights=3350e9, state=3350e9, matrix=3.0, node=1.0, network=2.5, host=0.5)
    found = step_floor(asked, STEP, H100, Overrides(bandwidth=2, peak=4))
    assert (found.memory_s, found.compute_s, dict(found.link_s)) == (1.0, 0.75, {"node": 1.0, "network": 2.5, "host": 0.5})
    assert (found.seconds, found.bound_by) == (2.5, "link")
    usual = step_floor(asked, STEP, H100)
    assert (usual.memory_s, usual.seconds, usual.bound_by) == (2.0, 3.0, "compute")
    assert replace(usual, compute_s=1.0, link_s={"node": 0.0}).bound_by == "memory"


def test_floors_of_several_steps() -> None:
    """Everything is multiplied by the number of times and added up: the busiest resource of all of them decides."""
    one = Floor(
        weight_bytes=8.0, cache_bytes=4.0, state_bytes=2.0, retained_bytes=1.0, bandwidth=1.0, compute_s=20.0,
        link_s={"node": 1.0, "network": 2.0, "host": 3.0}, products={"bf16": (60.0, 3.0)},
    )  # fmt: skip
    other = replace(one, weight_bytes=100.0, compute_s=0.0, products={"bf16": (3.0, 3.0), "fp8": (5.0, 6.0)})
    both = together([(2, one), (3, other)])
    assert (both.weight_bytes, both.cache_bytes, both.state_bytes, both.retained_bytes) == (316, 20, 10, 5)
    assert (both.compute_s, dict(both.link_s)) == (40, {"node": 5, "network": 10, "host": 15})
    assert both.products == {"bf16": (2 * 60 + 3 * 3, 3.0), "fp8": (15.0, 6.0)}
    assert both.seconds == 316 + 20 + 10 - 5
    assert (latency([one, other]), interval([one, other])) == (20 + 105, 105)


@pytest.mark.parametrize(
    ("operator", "hardware", "expected"),
    [
        (Gemm(m=4, n=8, k=16), "h100-sxm", {"weights": 2 * 8 * 16, "matrix": 2 * 4 * 8 * 16 / 989.4e12}),
        (Embedding(tokens=4, width=8, entries=100), "h100-sxm", {"weights": 2 * 4 * 8}),
        (Embedding(tokens=400, width=8, entries=100), "h100-sxm", {"weights": 2 * 100 * 8}),  # no row is read twice
        # switches add: a tensor is sent once; over two nodes an eighth of it leaves the node
        (AllReduce(elements=1000, world=8), "dgx-h100", {"weights": 0, "node": 2000 / 450e9, "network": 0}),
        (AllReduce(elements=1000, world=16), "dgx-h100", {"weights": 0, "node": 2000 * 7 / 8 / 450e9, "network": 250 / 50e9}),
        (AllGather(elements=1000, world=8), "dgx-h100", {"weights": 0, "node": 2000 * 7 / 8 / 450e9, "network": 0}),
        (AllReduce(elements=1000, world=1), "dgx-h100", {"weights": 0}),
        (HostCopy(size=32_000, calls=2), "dgx-h100", {"weights": 0, "host": 32_000 / 64e9}),
    ],
)
def test_what_an_operator_asks_of_each_resource(operator: Operator, hardware: str, expected: dict[str, float]) -> None:
    """Weights once, products at the peak, bytes over each link; activations may stay on the chip."""
    assert floor_parts(operator, load_hardware(hardware)[0]) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("weight", "hardware", "peak"),
    [("bf16", "h100-sxm", 989.4e12), ("fp8", "h100-sxm", 1978.9e12), ("int4", "h100-sxm", 1978.9e12),
     ("int4", "a100-sxm-80gb", 624e12), ("int4", "v100-sxm-32gb", 125e12)],
)  # fmt: skip
def test_four_bits_may_be_widened_to_eight(weight: str, hardware: str, peak: float) -> None:
    """Products run at the best peak of eight bits that the chip has; W4A16 asks for sixteen (`multiply`)."""
    activation = FORMATS["fp16"] if hardware.startswith("v100") else BF16.activation
    narrow = FORMATS[weight]
    chip = load_hardware(hardware)[0]
    for weights, rate in ((narrow, peak), (replace(narrow, multiply=activation.name), chip.peak(activation.name))):
        if weight == "fp8" and weights is not narrow:
            continue
        gemm = Gemm(m=1000, n=1000, k=1000, dtypes=replace(BF16, weight=weights, activation=activation))
        assert floor_parts(gemm, chip)["matrix"] == pytest.approx(2e9 / rate, rel=1e-3)


def test_a_graph_adds_up_its_calls() -> None:
    """Weights, FLOP and products of all repeats; experts are read as in another graph where that is asked for."""
    gemm, experts = Gemm(m=4, n=8, k=16), GroupedGemm(tokens=64, n=8, k=16, experts=8, top_k=2)
    graph = {"a": (gemm, 3), "b": (gemm, 2), "e": (experts, 5)}
    found = graph_floor(graph, STEP, H100, Overrides(peak=2))
    flops = 5 * 2 * 4 * 8 * 16 + 5 * 2 * 128 * 8 * 16
    met = 8 * (1 - 0.75**64)
    assert found.weight_bytes == pytest.approx(2 * 8 * 16 * (5 + 5 * met))
    assert found.products == {"bf16": (pytest.approx(flops), 2 * H100.peak("bf16"))}
    assert found.compute_s == pytest.approx(flops / (2 * H100.peak("bf16")))
    alone = graph_floor(graph, STEP, H100, experts_of={"e": (replace(experts, tokens=1), 5)})
    assert alone.weight_bytes == pytest.approx(2 * 8 * 16 * (5 + 5 * 2))


def test_floors_of_pipeline_stages() -> None:
    """One for each stage; experts of a single token of the same context, where a claim leaves the batch out."""
    request = prepare("qwen3-30b-a3b", "dgx-h100", pp=2, batch=64)
    step = decode(64, 500)
    found = floors(request, step)
    assert [one.weight_bytes for one in found] == [
        stage_floor(request, step, stage).weight_bytes for stage in stages(request.model, 2)
    ]
    lone, single = floors(request, decode(1, 500)), floors(request, step, Overrides(active_experts=True))
    shared = [few.weight_bytes - one.weight_bytes for few, one in zip(single, lone, strict=True)]
    assert shared == pytest.approx([63 * 2048 * 2, 0], abs=1)  # embeddings of the other tokens
    assert single[0].cache_bytes == pytest.approx(64 * lone[0].cache_bytes)
