"""Which fit an estimate stands on, how wide its interval is, and what adds up to a step."""

from __future__ import annotations

import csv
import json
import math
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any

import pytest

import roofline
from roofline.dtypes import BF16, FORMATS, Dtypes
from roofline.errors import InputError, SpecError, UnknownNameError
from roofline.operators.attention import Attention
from roofline.operators.causal_conv import CausalConv
from roofline.operators.collectives import AllReduce, AllToAll
from roofline.operators.gemm import Gemm
from roofline.operators.host_copy import HostCopy
from roofline.operators.latent_attention import LatentAttention
from roofline.operators.norm import Norm
from roofline.predict import assumptions
from roofline.predict.bounds import Times
from roofline.predict.duration import Duration, scaled, total, weighted_sum
from roofline.predict.efficiency import estimate
from roofline.predict.efficiency.estimate import Estimator, Interval, independent, together
from roofline.predict.efficiency.fits import Fits
from roofline.predict.efficiency.form import CEILINGS, SERVING, chip
from roofline.predict.efficiency.forms.gemm import GEMM_FP8_BLOCK
from roofline.predict.efficiency.kernels import Kernel, kernels
from roofline.predict.request import prepare
from roofline.specs import yaml_file
from roofline.specs.fit import Allowance, Spread
from roofline.specs.library import load_hardware, load_prior
from roofline.specs.quantization import scheme

pytestmark = pytest.mark.every_case

SPREAD = Spread(
    schema_version=1,
    kind="spread",
    measured=date(2026, 1, 1),
    allowances={"all": Allowance(backend=0.3, formats=0.2, architecture=0.1, accelerator=0.4)},
    doubling=0.1,
)
# A launch of 2 us, half of the bandwidth; in the band 0.9 to 1.2 times the estimate.
FIT = """
schema_version: 1
kind: fit
accelerator: {accelerator}
backend: {backend}
fitted: 2026-01-01
families:
  rmsnorm:
    form: ceilings
    parameters: {{launch: {launch} us, compute: 1, memory: 0.5}}
    rows: 100
    shapes: 10
    bands: {{all: [0.9, 1.2]}}
    range: {{rows: [1, 1024], width: [1024, 8192]}}
"""


@pytest.fixture
def library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of fits of its own before the shipped ones."""
    monkeypatch.setenv("ROOFLINE_PATH", str(tmp_path))
    (tmp_path / "hardware" / "fits").mkdir(parents=True)
    return tmp_path / "hardware" / "fits"


def write(library: Path, accelerator: str, backend: str, launch: float = 2, **changes: str) -> Path:
    """A fit file."""
    path = library / accelerator / f"{backend}.yaml"
    path.parent.mkdir(exist_ok=True)
    text = FIT.format(accelerator=accelerator, backend=backend, launch=launch)
    for old, new in changes.items():
        text = text.replace(old, new)
    path.write_text(text, encoding="utf-8")
    return path


def norm(rows: int = 64, width: int = 4096) -> Kernel:
    """One norm: 2 B * 2 * rows * width moved, and the weights."""
    return Kernel("rmsnorm", {"": Norm(rows=rows, width=width)}, ("norm",), 1)


def estimator(hardware: str, backend: str | None = None) -> Estimator:
    """Estimates on shipped hardware."""
    found = Estimator(Fits(load_hardware(hardware)[0], backend))
    found.fits.__dict__["spread"] = SPREAD  # instead of the measured one
    return found


def test_an_estimate_by_hand(library: Path) -> None:
    """2 us and 1,056,768 B at half of 3350 GB/s: 2.631 us; measurements lie between 0.9 and 1.2 of it."""
    write(library, "h100-sxm", "mine")
    found = estimator("h100-sxm", "mine").interval(norm())
    seconds = 2e-6 + (2 * 64 * 4096 * 2 + 4096 * 2) / (0.5 * 3350e9)
    assert found.seconds == pytest.approx(seconds)
    assert (found.low, found.high) == pytest.approx((0.9 * seconds, 1.2 * seconds))


def test_another_backend_is_wider(library: Path) -> None:
    """Ln 0.9 = -0.105 and ln 1.2 = 0.182 add in squares to the 0.3 that backends differ by."""
    write(library, "h100-sxm", "mine")
    write(library, "h100-sxm", "yours", rmsnorm="rope")
    one = estimator("h100-sxm", "yours")
    fitted = one.fitted(norm())
    assert fitted is not None
    assert (fitted.fit.backend, fitted.origin) == ("mine", "other backend")
    found = one.interval(norm())
    assert found.low == pytest.approx(found.seconds * math.exp(-math.hypot(math.log(0.9), 0.3)))
    assert found.high == pytest.approx(found.seconds * math.exp(math.hypot(math.log(1.2), 0.3)))


def test_another_accelerator_is_transferred(library: Path) -> None:
    """No fit of the H800: the H100's, of the same architecture, with the H800's bandwidth."""
    write(library, "h100-sxm", "mine")
    write(library, "a100-sxm-80gb", "mine", launch=9)
    one = estimator("h800-sxm", "mine")
    fitted = one.fitted(norm())
    assert fitted is not None
    assert (fitted.fit.accelerator, fitted.origin, fitted.same_architecture) == ("h100-sxm", "transferred", True)
    found = one.interval(norm())
    assert found.high == pytest.approx(found.seconds * math.exp(math.hypot(math.log(1.2), 0.1)))


def test_beyond_the_range_it_is_wider() -> None:
    """4096 rows where 1024 were measured: two doublings of 0.1, in squares with the band."""
    fits = Fits(load_hardware("h100-sxm")[0])
    fitted = fits.find("gemm/bf16")
    assert fitted is not None
    family = fitted.family.model_copy(update={"bands": {"all": (0.9, 1.2)}, "range": {"m": (1, 1024)}})
    inside = {"": Gemm(m=1024, n=4096, k=4096)}
    outside = {"": Gemm(m=4096, n=4096, k=4096)}
    narrow = replace(fitted, family=family)
    assert estimate.interval_factors("gemm", narrow, inside, 1e-3, SPREAD, other_backends=False) == pytest.approx((0.9, 1.2))
    low, high = estimate.interval_factors("gemm", narrow, outside, 1e-3, SPREAD, other_backends=False)
    assert (low, high) == pytest.approx((math.exp(-math.hypot(math.log(0.9), 0.2)), math.exp(math.hypot(math.log(1.2), 0.2))))


@pytest.mark.parametrize(("world", "doublings"), [(2, 0), (3, math.log2(4 / 3)), (8, 0), (16, 1), (1, 1)])
def test_ranks_between_those_that_were_measured(world: int, doublings: float) -> None:
    """From the nearest of 2, 4 and 8, in either direction: 3 is nearer to 4 (4/3) than to 2 (3/2)."""
    fitted = Fits(load_hardware("h100-sxm")[0]).find("all_reduce")
    assert fitted is not None
    three = replace(fitted, family=fitted.family.model_copy(update={"worlds": (2, 4, 8)}))
    found = estimate.from_measured_world(three, {"": AllReduce(elements=8, world=world)})
    assert found == pytest.approx(doublings)


def test_extrapolation_is_told_as_on_a_page(library: Path) -> None:
    """1152 rows where 1024 were measured: by 1.125, of which a half is rounded up; and 1030 are too near to be told."""
    write(library, "h100-sxm", "mine")
    found = estimator("h100-sxm", "mine")
    for rows, told in ((1152, "; extrapolated: rows by a factor of 1.13 outside what was measured"), (1024 + 4, "")):
        (note,) = (note for note in assumptions.estimates(found, [norm(rows)]) if note.name == "fit.rmsnorm")
        assert note.why == f"no shape was held out{told}"


def test_errors_of_one_family_add_and_of_two_in_squares() -> None:
    """Two norms are off together: 1+1; a product beside them on its own: sqrt(2^2 + 2^2)."""
    norms = together([Interval(10, 9, 11), Interval(10, 9, 11)])
    assert norms == Interval(20, 18, 22)
    assert independent([norms, Interval(10, 8, 12)]) == Interval(30, pytest.approx(30 - 8**0.5), pytest.approx(30 + 8**0.5))


def test_hidden_launches(library: Path) -> None:
    """In a graph of kernels a launch passes behind the kernel before: half of 2 us less."""
    write(library, "h100-sxm", "mine")
    alone = estimator("h100-sxm", "mine")
    assert alone.seconds(norm()) - replace(alone, hidden=0.5).seconds(norm()) == pytest.approx(1e-6)


def test_what_a_launch_hides(library: Path) -> None:
    """At most 2 us of 9; beside routed experts all but the bound."""
    write(library, "h100-sxm", "mine", launch=9)
    alone = estimator("h100-sxm", "mine")
    hidden, half = replace(alone, hidden=1.0), replace(alone, hidden=0.5)
    assert alone.seconds(norm()) - hidden.seconds(norm()) == pytest.approx(2e-6)
    shared = replace(norm(), paths=("layers/moe/shared/norm",))
    behind = 0.5 * (alone.seconds(shared) - alone.bound(shared))
    terms = half.terms(shared)
    assert (terms["beside"], terms["launch"]) == (pytest.approx(-behind), 9e-6)
    assert terms["total"] == pytest.approx(alone.seconds(shared) - behind)


def test_given_shares() -> None:
    """Each operator takes what is longest: matrix units at 0.4, memory at 0.8, links as they are. There is no interval."""
    hardware = replace(load_hardware("dgx-h100")[0], overrides={"mfu": 0.4, "mbu": 0.8})
    found = Estimator(Fits(hardware))
    long, short = Gemm(m=8192, n=8192, k=8192), Gemm(m=1, n=8192, k=8192)
    ring = AllReduce(elements=2**20, world=8)
    seconds = [found.interval(Kernel("gemm", {"": one}, ("p",), 1)).seconds for one in (long, short, ring)]
    assert seconds[0] == pytest.approx(2 * 8192**3 / (0.4 * hardware.peak("bf16")))
    assert seconds[1] == pytest.approx(2 * (8192 * 8192 + 2 * 8192) / (0.8 * 3.35e12))
    assert seconds[2] == pytest.approx(2 * 7 / 8 * 2**21 / 450e9)
    both = found.interval(Kernel("gemm", {"a": long, "b": short}, ("a", "b"), 1))
    assert (both.low, both.seconds, both.high) == pytest.approx((seconds[0] + seconds[1],) * 3)
    assert found.basis([norm()]) == "given"


def test_a_given_bandwidth_of_reductions(library: Path) -> None:
    """The latency of the fit, and the bytes of a ring at the bandwidth; of other kernels it says nothing."""
    write(library, "dgx-h100", "mine")
    hardware = replace(load_hardware("dgx-h100")[0], overrides={"allreduce_bandwidth": 100e9})
    plain, given = Estimator(Fits(load_hardware("dgx-h100")[0])), Estimator(Fits(hardware))
    ring = Kernel("all_reduce", {"": AllReduce(elements=2**20, world=8)}, ("r",), 1)
    terms, link = given.terms(ring), 2 * 7 / 8 * 2**21 / 100e9
    assert terms["link"] == pytest.approx(link)
    assert terms["latency"] == plain.terms(ring)["latency"] > 0
    assert terms["total"] == pytest.approx(terms["latency"] + link)
    assert given.interval(ring) == Interval(terms["total"], terms["total"], terms["total"])
    assert given.interval(norm()) == plain.interval(norm())
    assert given.basis([ring]) == "measured"


def test_a_kernel_of_which_no_record_is(library: Path) -> None:
    """The launch of a norm, and the times of its resources one after another; from a third to three times as long."""
    write(library, "h100-sxm", "mine")
    found = estimator("h100-sxm", "mine")
    convolution = CausalConv(tokens=1024, sequences=1, resumed=0, channels=2048, kernel=3)
    kernel = Kernel("", {"": convolution}, ("c",), 1)
    vector, memory = (2 * 3 + 4) * 1024 * 2048 / 67e12, 2 * (3 * 2048 + 2 * 1024 * 2048 + 2 * 2048) / 3.35e12
    seconds = 2e-6 + vector + memory
    assert found.terms(kernel)["vector"] == pytest.approx(vector, rel=0.01)  # the datasheet rounds
    assert found.seconds(kernel) == pytest.approx(seconds, rel=0.01)
    interval = found.interval(kernel)
    assert (interval.low, interval.high) == pytest.approx((interval.seconds / 3, 3 * interval.seconds))


def test_what_estimates_rest_on(library: Path) -> None:
    """What says least of a tenth or more: here of kernels without a record beside measured ones."""
    write(library, "h100-sxm", "mine")
    found = estimator("h100-sxm", "mine")
    unmeasured = Kernel("", {"": Norm(rows=64, width=4096)}, ("c",), 1)
    times = found.seconds(norm()) / found.seconds(unmeasured)
    for share, basis in ((0.0, "measured"), (0.09, "measured"), (0.11, "prior")):
        others = replace(unmeasured, repeat=100 * share * times)
        assert found.basis([replace(norm(), repeat=100 * (1 - share)), others]) == basis
    assert estimator("h800-sxm", "mine").basis([norm()]) == "transferred"


@pytest.mark.parametrize(
    ("op", "m", "seconds", "regime"),
    [
        ("gemm", 64, 1.0, "m<=64"), ("gemm", 65, 1.0, "m 65-512"), ("bmm", 512, 1.0, "m 65-512"), ("gemm", 513, 1.0, "m>512"),
        ("add", 64, 14e-6, "<15 us"), ("add", 64, 15e-6, "15-100 us"), ("add", 64, 1e-4, "15-100 us"),
        ("add", 64, 1.1e-4, ">100 us"),
    ],
)  # fmt: skip
def test_each_estimate_is_in_one_regime(op: str, m: int, seconds: float, regime: str) -> None:
    """Products by their rows, other kernels by their time."""
    found = estimate.regime_shares(op, {"": Gemm(m=m, n=8, k=8)}, seconds)
    assert [name for name, inside in found.items() if inside] == [regime]


def test_allowances_add_in_squares() -> None:
    """Band, origin, backends, doublings of range and ranks, hosts and widened weights: each as a logarithm, on its side."""
    fitted = Fits(load_hardware("h100-sxm")[0]).find("all_reduce")
    assert fitted is not None
    changes: dict[str, Any] = {
        "bands": {"all": (0.9, 1.2)}, "range": {"elements": (1, 1024)}, "worlds": (2,), "per_doubling": 0.25, "rows": 9,
    }  # fmt: skip
    few = replace(fitted, family=fitted.family.model_copy(update=changes))
    ring = {"": AllReduce(elements=8 * 1024, world=8)}

    def logarithms(one: Any, operators: Any, op: str = "all_reduce", **more: Any) -> tuple[float, float]:
        low, high = estimate.interval_factors(op, one, operators, 1e-3, SPREAD, **{"other_backends": False, **more})
        return math.log(low), math.log(high)

    band, slow = -math.log(0.9), math.log(1.2)
    beyond = (3 * 0.1) ** 2 + (2 * 0.25) ** 2  # 8 times the range; 8 ranks of 2
    assert logarithms(few, ring) == pytest.approx((-math.sqrt(band**2 + beyond), math.sqrt(slow**2 + beyond)))
    wider = logarithms(few, ring, other_backends=True, hosts=math.log(5))
    more = beyond + 0.3**2
    assert wider == pytest.approx((-math.sqrt(band**2 + more), math.sqrt(slow**2 + more + math.log(5) ** 2)))
    inside = {"": AllReduce(elements=64, world=2)}
    for origin, extra in (("other formats", 0.2), ("other backend", 0.3), ("transferred", 0.4), ("fitted", 0.0)):
        one = replace(few, origin=origin, same_architecture=False)  # type: ignore[arg-type]
        assert logarithms(one, inside) == pytest.approx((-math.hypot(band, extra), math.hypot(slow, extra)))
    near = replace(few, origin="transferred", same_architecture=True)
    assert logarithms(near, inside) == pytest.approx((-math.hypot(band, 0.1), math.hypot(slow, 0.1)))
    # a band on one side of 1 keeps its place, and has the rest beside it
    above = replace(few, family=few.family.model_copy(update={"bands": {"all": (1.1, 1.2)}}), origin="other backend")
    assert logarithms(above, inside) == pytest.approx((math.log(1.1) - 0.3, math.hypot(slow, 0.3)))


def test_widened_weights_are_wider() -> None:
    """Where none were measured products are up to e^0.3 faster and e^0.4 slower, instead of what other formats differ by."""
    fitted = Fits(load_hardware("h100-sxm")[0]).find("gemm/bf16")
    assert fitted is not None
    family = fitted.family.model_copy(update={"bands": {"all": (0.9, 1.2)}, "range": {}})
    other = replace(fitted, family=family, origin="other formats")
    four_bits = Dtypes(weight=FORMATS["int4"], activation=FORMATS["bf16"], kv=FORMATS["bf16"])
    for dtypes, below, above in ((four_bits, 0.3, 0.4), (BF16, 0.2, 0.2)):
        operators = {"": Gemm(m=8, n=8, k=8, dtypes=dtypes)}
        low, high = estimate.interval_factors("gemm", other, operators, 1e-3, SPREAD, other_backends=False)
        assert math.log(low) == pytest.approx(-math.hypot(math.log(0.9), below))
        assert math.log(high) == pytest.approx(math.hypot(math.log(1.2), above))
    measured = replace(other, key="gemm/bf16/w4")
    assert estimate.weights_alone("gemm", measured, {"": Gemm(m=8, n=8, k=8, dtypes=four_bits)}) == (0.0, 0.0)


def test_one_launch_is_hidden_of_a_series() -> None:
    """The experts of a layer are six kernels: of the 25 us that their form calls a launch, 2 us pass behind the kernel before.

    With all of it hidden a step of MiniMax-M2.5 (62 layers) was 1.4 ms too short.
    """
    from roofline.graph.build import build
    from roofline.predict.efficiency.kernels import kernels
    from roofline.predict.request import prepare
    from roofline.predict.timing import stages
    from roofline.specs.workload import decode

    request = prepare("minimax-m2.5", "h200-sxm", tp=8, backend="vllm", batch=8)
    graph = build(request.model, request.deployment, request.precision, decode(8, 1024), stages(request.model, 1)[0])
    (experts,) = (kernel for kernel in kernels(graph) if kernel.op == "moe")
    shown, hidden = (replace(request.estimator, hidden=share).terms(experts) for share in (0.0, 1.0))
    assert shown["launch"] > 20e-6
    assert shown["total"] - hidden["total"] == pytest.approx(2e-6)
    assert request.model.num_expert_layers == 62
    assert request.engine_seconds(8) - replace(request, model=prepare("llama-3.1-8b", "h200-sxm").model).engine_seconds(
        8
    ) == pytest.approx(62 * (request.steps.experts if request.steps else 0))


def test_experts_are_one_kernel() -> None:
    """What an engine launches as one call is estimated as one, and every operator is in exactly one kernel."""
    from roofline.graph.build import build
    from roofline.predict.request import prepare

    request = prepare("mixtral-8x7b", "h100-sxm", tp=2)
    graph = build(request.model, request.deployment, request.precision, request.workload.steps[0][1])
    launched = kernels(graph)
    assert sorted(path for kernel in launched for path in kernel.paths) == sorted(graph)
    experts = [kernel for kernel in launched if kernel.op == "moe"]
    assert [list(kernel.operators) for kernel in experts] == [["up_proj", "activation", "down_proj", "combine"]]


@pytest.mark.parametrize(("ranks", "seen"), [(8, True), (16, False)])
def test_experts_over_nodes_do_not_see_rows_of_others(ranks: int, seen: bool) -> None:
    """Between nodes what a row of another device's expert costs (`remote`) is in no estimate; inside a node it is."""
    from roofline.graph.build import build
    from roofline.predict.request import prepare
    from roofline.predict.timing import stages
    from roofline.specs.workload import decode

    request = prepare("deepseek-v3", "dgx-h200", dp=ranks, ep=ranks, batch=ranks * 64)
    graph = build(request.model, request.deployment, request.precision, decode(ranks * 64, 1024), stages(request.model, 1)[0])
    (experts,) = (kernel for kernel in kernels(graph) if kernel.op == "moe")
    estimator, fitted = request.estimator, request.estimator.fitted(experts)
    assert fitted is not None
    with_others, without = (
        fitted.form.seconds(experts.timed, estimator.fits.chip, estimator.conditions_of(experts), values)
        for values in (fitted.values, {**fitted.values, "remote": 0.0})
    )
    assert (with_others > 1.1 * without) == seen
    assert seen or with_others == without


def test_prompts_of_mla_are_expanded() -> None:
    """SGLang's records are of latents (9.12 ms for 8 prompts of 2,048 tokens of 128 heads on an H100); engines expand prompts.

    TensorRT-LLM's kernel does, and takes 2.84 ms (AIConfigurator): SGLang's in that form is estimated within a third of it.
    """
    result = roofline.analyze(
        "deepseek-v3", "h100-sxm", backend="sglang", phase="prefill", batch=8, input_len=2048, ignore_capacity=True
    )
    (phase,) = result.phases
    (core,) = (each for each in phase.operators if each.path == "layers/moe/attention/core")
    assert core.time.estimate == pytest.approx(58 * 2.84e-3, rel=1 / 3)


@pytest.mark.parametrize(
    ("model", "hardware", "options"),
    [
        ("llama-3.1-8b", "h100-sxm", {"batch": 16, "output_len": 64}),
        ("mixtral-8x7b", "h200-sxm", {"tp": 2, "batch": 8}),
        ("deepseek-v3", "h200-sxm", {"tp": 8, "batch": 4, "ignore_capacity": True}),
        ("llama-3.1-70b", "dgx-h100", {"tp": 4, "pp": 2, "quantization": "fp8", "backend": "trtllm"}),
        ("qwen3-8b", "b200-sxm", {"batch": 3}),
        ("gemma-3-12b", "l40s", {"segments": "4x1@2k,1x700@300"}),
        ("llama-3.1-8b", "mi300x", {}),
    ],
)
def test_estimates_of_a_result_hang_together(model: str, hardware: str, options: dict[str, Any]) -> None:
    """Low <= estimate <= high; operators add up to their phase; rates and utilisations are of the estimate."""
    result = roofline.analyze(model, hardware, **options)
    for phase in result.phases:
        time = phase.time
        assert time.estimate is not None
        assert time.low is not None
        assert time.high is not None
        assert 0 < time.low <= time.estimate <= time.high
        assert time.estimate == pytest.approx(sum(op.time.estimate or 0.0 for op in phase.operators), rel=1e-9)
        assert phase.tokens_per_s.estimate == pytest.approx(phase.produced_tokens / (phase.pipeline.estimate or 0.0))
        assert phase.mfu is not None
        assert 0 < phase.mfu <= 1
    spans = [getattr(result.request, name) for name in ("ttft_s", "tpot_s", "e2e_s") if result.request is not None]
    assert all(span.low <= span.estimate <= span.high for span in spans)  # type: ignore[operator]
    names = {entry.name: entry for entry in result.assumptions}
    assert "backend" in names
    assert names["backend"].origin == ("given" if "backend" in options else "default")
    if hardware in ("b200-sxm", "mi300x"):  # another card of the vendor was measured, or none
        assert names["fit.gemm"].origin == {"b200-sxm": "transferred", "mi300x": "assumed"}[hardware]


def test_an_unknown_backend_is_refused() -> None:
    """With those that are known."""
    with pytest.raises(UnknownNameError, match=r"unknown backend 'vlm'.*vllm"):
        roofline.analyze("llama-3.1-8b", "h100-sxm", backend="vlm")


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"form: ceilings": "form: ceiling"}, "unknown form 'ceiling'"),
        ({"compute: 1, ": ""}, "'compute' of form ceilings is missing"),
        ({"compute: 1": "compute: 0"}, "compute: is 0, and the time is divided by it"),
        ({"compute: 1": "compute: 1, speed: 2"}, "unknown parameter of ceilings 'speed'"),
        ({"[0.9, 1.2]": "[1.3, 1.2]"}, "the low factor 1.3 is more than the high one 1.2"),
        ({"launch: 2 us": "launch: 2 parsecs"}, "parsecs"),
        ({"kind: fit": "kind: fut"}, "kind must be fit"),
    ],
)
def test_a_bad_file_is_told_by_its_place(library: Path, changes: dict[str, str], why: str) -> None:
    """The path of the file, and what is wrong in it."""
    path = write(library, "h100-sxm", "mine")
    text = path.read_text(encoding="utf-8")
    for old, new in changes.items():
        assert old in text
        text = text.replace(old, new)
    path.write_text(text, encoding="utf-8")
    with pytest.raises(SpecError) as error:
        estimator("h100-sxm", "mine").interval(norm())
    assert str(path) in str(error.value)
    assert why in str(error.value)


@pytest.mark.parametrize(("hardware", "best"), [("mi300x", 668.4e12), ("mi325x", 784.9e12)])
def test_no_product_is_faster_than_the_best_measured(hardware: str, best: float) -> None:
    """The best bf16 product of any size is that of ml-engineering's table (maximum achievable matmul FLOPS).

    16,384 rows through a projection from 28,672 to 8,192: 2 x 16384 x 8192 x 28672 FLOP. 68 % of the peak would be 886 TFLOP/s.
    """
    phase = roofline.analyze("llama-3.1-70b", hardware, phase="prefill", input_len=16384, tp=1, ignore_capacity=True).prefill
    assert phase is not None
    down = next(op for op in phase.operators if op.path == "layers/mlp/down_proj")
    assert down.time.estimate is not None
    assert 2 * 16384 * 8192 * 28672 / (down.time.estimate / down.repeat) < best


def test_no_estimate_of_a_processor_by_kernels_of_accelerators() -> None:
    """A hardware.yaml of a host has no fit of its own: nothing is transferred to it."""
    host = Path(__file__).resolve().parents[3] / "measurements" / "amd-epyc-x2" / "2026-11-20" / "hardware.yaml"
    result = roofline.analyze("llama-3.2-1b", host, ignore_capacity=True)
    assert all(phase.time.estimate is None and phase.time.low is None for phase in result.phases)
    assert all(phase.mfu is not None for phase in result.phases)


@pytest.mark.parametrize(
    ("model", "hardware", "quantization", "tokens_per_s"),
    [
        ("llama-3.1-8b", "rtx-3090", "none", 47.40),
        ("llama-3.1-8b", "rtx-3090", "awq", 115.42),
        ("llama-3.1-8b", "rtx-4090", "none", 54.84),
        ("llama-3.1-8b", "rtx-4090", "awq", 130.58),
        ("llama-2-7b", "rtx-a6000", "none", 43.96),
        ("llama-2-7b", "rtx-a6000", "awq", 111.44),
    ],
)
def test_one_row_on_a_card_without_records(model: str, hardware: str, quantization: str, tokens_per_s: float) -> None:
    """A product of one row streams its weights; a GeForce is not kept busy by the rows of a tile that are not there.

    Measured with llama.cpp at 512 tokens, F16, and Q4_K_M or Q4_0, which have AWQ's bytes to a tenth (4.9, 4.6 GB; 3.8, 3.7).
    Source: https://github.com/XiongjieDai/GPU-Benchmarks-on-LLM-Inference.
    """
    time = roofline.analyze(model, hardware, quantization=quantization, context=256, phase="decode").phases[0].time
    assert time.estimate == pytest.approx(1 / tokens_per_s, rel=0.25)
    assert time.low is not None
    assert time.high is not None
    assert time.low < 1 / tokens_per_s < time.high


def test_weights_alone_are_of_another_format() -> None:
    """Records have no kernels for such weights: the fit of 16 bits stands in, is marked, and its interval is wider."""
    result = roofline.analyze("gpt-oss-20b", "h100-sxm", phase="decode", batch=32)
    (note,) = (note for note in result.assumptions if note.name == "fit.moe")
    assert "of other formats: the interval is wider" in note.why
    assert "weights that are widened first are of another format" in note.why
    wide, narrow = (  # of a product: that of a step is as wide as models differ, in any format
        next(entry.time for entry in result.phases[0].operators if entry.path.endswith("down_proj"))
        for result in (
            roofline.analyze("llama-3.1-8b", "h100-sxm", quantization=name, phase="decode") for name in ("awq", "none")
        )
    )
    assert wide.high / wide.estimate > narrow.high / narrow.estimate + 0.1  # type: ignore[operator]


def test_mxfp4_experts_on_hopper(truth: Path, tmp_path: Path) -> None:
    """TPOT of gpt-oss-120b (vLLM, 8 to 64 clients, prompts an eighth of the answers) lies in the interval of the decode step.

    Of 10 points at least 8, as is promised; and none is twice as long as the estimate. Data: moe_end_to_end.csv.
    """
    if not (points := truth / "truth/serving/moe_end_to_end.csv").is_file():
        pytest.skip("the measured serving points are not there")
    config = json.loads((truth / "truth/models/configs/gpt-oss-20b.json").read_text())
    config |= {"num_hidden_layers": 36, "num_local_experts": 128, "layer_types": ["sliding_attention", "full_attention"] * 18}
    (tmp_path / "config.json").write_text(json.dumps(config))
    with points.open() as file:
        rows = [
            row for row in csv.DictReader(file)
            if row["model_path"] == "openai/gpt-oss-120b" and row["backend"] == "vllm" and row["osl"] == "8192"
            and row["system"] == "h200_sxm" and float(row["tp_size"]) <= 2 and 8 <= float(row["batch_size"]) <= 64
        ]  # fmt: skip
    inside = []
    for row in rows:
        options = {"batch": int(float(row["batch_size"])), "tp": int(float(row["tp_size"])), "context": 1024 + 8192 // 2}
        time = (
            roofline.analyze(tmp_path / "config.json", "dgx-h200", phase="decode", ignore_capacity=True, **options)
            .phases[0]
            .time
        )
        measured = float(row["silicon_tpot_ms"]) / 1e3
        assert measured < 2 * time.estimate  # type: ignore[operator]
        inside.append(time.low < measured < time.high)  # type: ignore[operator]
    assert len(rows) >= 8
    assert sum(inside) >= 0.8 * len(inside)


@pytest.mark.parametrize("model", ["llama-2-7b", "mistral-7b-v0.1", "deepseek-v2-lite"])
def test_attention_without_a_mask_takes_longer(model: str) -> None:
    """Unmasked, 16,384 queries meet 16,384 keys each and not half of them: no estimate of a core is below its own bound.

    Blocks of a causal mask meet their own keys too, and the last one takes longest: a little less than twice the time. With
    Mistral's window of 4,096 the causal pairs are 0.22 of all.
    """
    cores = {}
    for mask in ("causal", "full"):
        phase = roofline.analyze(model, "a100-sxm-80gb", input_len=16_384, phase="prefill", mask=mask).prefill
        assert phase is not None
        took = [op.time for op in phase.operators if op.path.endswith("attention/core")]
        assert all(time.estimate > 1.1 * time.bound for time in took)
        cores[mask] = sum(time.estimate for time in took)
    low, high = (3.5, 4.6) if model.startswith("mistral") else (1.7, 2.05)
    assert low < cores["full"] / cores["causal"] < high


def test_activations_are_quantised_by_the_kernel_before() -> None:
    """TensorRT-LLM fuses it with norms, activations and attention: a product of 8 bits costs less than the record of it alone.

    Llama 3.1 70B, 4096 tokens: a row of 8192 activations is read in 16 bits and written in 8, 4096 * 8192 * 3 B at 3.35 TB/s,
    30 us a layer at the least. vLLM's serving points were fitted with the launch of its own, and keep it.
    """
    kernel, alone = {}, {}
    for backend in ("trtllm", "vllm"):
        request = prepare("llama-3.1-70b", "h100-sxm", backend=backend, quantization="fp8", ignore_capacity=True)
        gemm = Gemm(m=4096, n=10240, k=8192, dtypes=request.precision.dtypes("attention"))
        one = Kernel("gemm", {"": gemm}, ("qkv_proj",), 1)
        kernel[backend] = request.estimator.seconds(one)
        alone[backend] = replace(request.estimator, conditions=SERVING).seconds(one)
    assert alone["trtllm"] - kernel["trtllm"] > 4096 * 8192 * 3 / 3350e9
    assert alone["vllm"] == kernel["vllm"]


def test_files_of_fits_are_read_once_until_they_change(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A second request for the same card reads none of them again; a file that has changed is read as it is now."""
    hardware = load_hardware("b200-sxm")[0]
    families = ("gemm/bf16", "attention_decode/bf16", "rmsnorm", "moe/bf16")
    first = [Fits(hardware).find(key) for key in families]
    read: list[Path] = []
    original = yaml_file.read_text
    monkeypatch.setattr(yaml_file, "read_text", lambda path: read.append(path) or original(path))
    assert [Fits(hardware).find(key) for key in families] == first
    assert read == []
    file = tmp_path / "vllm.yaml"
    for text in ("gemm/bf16", "gemm/bf16, moe/bf16"):
        file.write_text(text)
        assert yaml_file.cached_text(file) == yaml_file.cached_text(file) == text
    assert read == [file, file]


# formulas of the estimate, one by one


@pytest.mark.parametrize(
    ("bound", "floor", "expected"),
    [(1, 0.5, (4, 2, 9)), (3, 2.5, (4, 2.5, 9)), (5, 0.5, (5, 2, 9)), (10, 10, (10, 10, 10))],
)
def test_no_estimate_below_its_bound(bound: float, floor: float, expected: tuple[float, float, float]) -> None:
    """4 s, of 2 to 9: estimate and high end are raised to the bound, the low end to the floor."""
    assert estimate.at_least(Interval(4, 2, 9), bound, floor) == Interval(*expected)


def test_distances_of_independent_ends() -> None:
    """1 and 4 below, 5 and 2 above: roots of 17 and 29; three calls take three times as long."""
    assert independent([Interval(10, 9, 15), Interval(20, 16, 22)]) == Interval(30, 30 - 17**0.5, 30 + 29**0.5)
    assert Interval(10, 9, 15) * 3 == Interval(30, 27, 45)


def test_kernels_of_a_step(library: Path) -> None:
    """Families add up, two of them in squares; each kernel's own interval begins at its bound, for all its calls."""
    write(library, "h100-sxm", "mine")
    found = estimator("h100-sxm", "mine")
    one, two, other = norm(), replace(norm(9), paths=("n2",), repeat=5), replace(norm(), op="", paths=("c",), repeat=2)
    whole, parts = found.step([one, two, other])
    each = [found.interval(kernel) * kernel.repeat for kernel in (one, two, other)]
    assert whole == independent([together(each[:2]), each[2]])
    for kernel, interval in zip((one, two, other), each, strict=True):
        bound = found.bound(kernel) * kernel.repeat
        low, high = max(interval.low, bound), max(interval.high, bound)
        assert parts[kernel.paths] == Interval(max(interval.seconds, bound), low, high)
    assert found.bound(one) == pytest.approx((2 * 64 * 4096 * 2 + 4096 * 2) / 3350e9)
    both = Kernel("rmsnorm", {"a": Norm(rows=64, width=4096), "b": Norm(rows=9, width=4096)}, ("a", "b"), 1)
    assert found.bound(both) == pytest.approx(found.bound(one) + found.bound(two))
    for warm in (replace(SERVING, weights=1), replace(SERVING, kv=1)):  # what lies in a cache has no bound by memory
        assert replace(found, conditions=warm).bound(one) == 0


@pytest.mark.parametrize(("band", "low", "high"), [("[1.1, 1.2]", 1.0, 1.2), ("[0.7, 0.9]", 0.7, 1.0)])
def test_an_interval_holds_its_estimate(library: Path, band: str, low: float, high: float) -> None:
    """A band on one side of 1 reaches to the estimate."""
    write(library, "h100-sxm", "mine", **{"[0.9, 1.2]": band})
    found = estimator("h100-sxm", "mine").interval(norm())
    assert (found.low, found.high) == pytest.approx((low * found.seconds, high * found.seconds))


def test_without_a_backend_the_interval_is_of_all(library: Path) -> None:
    """What is fitted on the card widens by what backends differ by, 0.3; what is another backend's has that already."""
    write(library, "h100-sxm", "vllm")
    any_backend, own = estimator("h100-sxm").interval(norm()), estimator("h100-sxm", "vllm").interval(norm())
    assert own.high == pytest.approx(1.2 * own.seconds)
    assert any_backend.high == pytest.approx(own.seconds * math.exp(math.hypot(math.log(1.2), 0.3)))


@pytest.mark.parametrize(("launch", "hidden"), [(1, 1), (2, 2), (9, 2)])
def test_at_most_two_microseconds_of_a_launch_are_hidden(library: Path, launch: int, hidden: int) -> None:
    """All of a short launch."""
    write(library, "h100-sxm", "mine", launch=launch)
    alone = estimator("h100-sxm", "mine")
    assert alone.seconds(norm()) - replace(alone, hidden=1.0).seconds(norm()) == pytest.approx(hidden * 1e-6)


def test_a_prior_hides_its_whole_launch() -> None:
    """On a card without measurements, also beside routed experts; what it waits for in any case remains."""
    alone = estimator("mi300x")
    core = Attention(batch=1, new=1, cached=99, n_heads=8, n_kv_heads=8, head_dim=64)
    for path in ("layers/core", "layers/moe/shared/core"):
        kernel = Kernel("attention_decode", {"": core}, (path,), 1)
        terms = alone.terms(kernel)
        assert terms["launch"] > 2e-6
        assert terms["total"] - replace(alone, hidden=1.0).terms(kernel)["total"] == pytest.approx(terms["launch"])
    assert alone.family(kernel) == "prior"
    assert estimator("h100-sxm").family(kernel) == "attention_decode/bf16"


def test_priors_of_a_card() -> None:
    """Shares of the best product over 0.83 of the peak, not of experts; launches and waits shorter where memory is faster.

    The prior's cards have at most 4.8 TB/s, the MI300X 5.3; its best product is 668.4 of 1307.4 TFLOP/s.
    """
    fits, prior = Fits(load_hardware("mi300x")[0]), load_prior()[0].families
    for op, share in (("gemm", 668.4e12 / 1307.4e12 / 0.83), ("moe", 1)):
        found = fits.find(f"{op}/bf16")
        assert found is not None
        assert (found.origin, found.key, found.same_architecture, found.published) == ("prior", op, False, False)
        expected = dict(prior[op].parameters)
        expected |= {"launch": expected["launch"] * 4.8 / 5.3, "wait": expected["wait"] * 4.8 / 5.3}
        assert found.values == pytest.approx(expected | {"compute": expected["compute"] * share})
        assert found.source == f"no measurements: prior {op}"
    slower = Fits(replace(load_hardware("mi300x")[0], overrides={"bandwidth": 2e12})).find("moe/bf16")
    assert slower is not None
    assert slower.values == prior["moe"].parameters
    apple = Fits(replace(load_hardware("m4-max")[0], overrides={"bandwidth": 9e12})).find("gemm/bf16")
    assert apple is not None
    assert (apple.key, apple.published, apple.values) == ("gemm/apple", True, prior["gemm/apple"].parameters)
    assert apple.source == "published speeds of steps: gemm/apple"
    over = fits.find("all_reduce", over_host=True)
    assert over is not None
    assert (over.key, over.published) == ("all_reduce/pcie", False)
    assert estimator("m4-max").basis([norm()]) == "published"


def test_typical_copies_to_the_host() -> None:
    """No records: the values that the form starts from, and from a half to twice as long, of no file."""
    found = Fits(load_hardware("h100-sxm")[0]).find("copy_h2d")
    assert found is not None
    assert (found.origin, found.fit, found.family.rows, found.family.shapes) == ("assumed", None, 0, 0)
    assert (found.values, found.family.bands) == ({"call": 8e-6, "link": 0.8}, {"all": (0.5, 2.0)})
    copy = Kernel("copy_h2d", {"": HostCopy(size=2**20, calls=1)}, ("c",), 1)
    one = Estimator(Fits(load_hardware("dgx-h100")[0])).interval(copy)
    assert (one.low, one.high) == pytest.approx((one.seconds / 2, 2 * one.seconds))
    assert found.source == "typical copy_h2d"


def test_communication_over_another_host() -> None:
    """L40S over PCIe: devices have a way of their own to their peers, unless the host is that of the records.

    Another host may be five times as slow, which adds in squares on the slow side; not where the user gave the link's rate.
    """
    other, ring = estimator("l40s"), Kernel("all_reduce", {"": AllReduce(elements=2**20, world=4)}, ("r",), 1)
    own, given = replace(other, own_host=True), estimator("l40s")
    given.fits.hardware = replace(given.fits.hardware, overrides={"link_bandwidth": 32e9})
    fitted = other.fitted(ring)
    assert fitted is not None
    assert (other.over_host(ring), estimator("h100-sxm").over_host(ring), other.over_host(norm())) == (True, False, False)
    for one, values in ((other, {**fitted.values, "shared": 0.0}), (own, fitted.values)):
        expected = fitted.form.seconds(ring.timed, other.fits.chip, SERVING, values)
        assert one.seconds(ring) == pytest.approx(expected)
    slow = [math.log(one.interval(ring).high / one.interval(ring).seconds) for one in (other, own, given)]
    assert slow[0] ** 2 - slow[1] ** 2 == pytest.approx(math.log(5) ** 2)
    assert slow[2] == pytest.approx(slow[1])
    assert [one.basis([ring]) for one in (other, own)] == ["transferred", "measured"]
    assert other.another_host(norm(), fitted) is False


@pytest.mark.parametrize(
    ("hardware", "span", "sent"),
    [
        ("dgx-h100", 8, False),
        ("dgx-h100", 16, True),
        ("gb200-nvl72", 8, False),
        ("gb200-nvl72", 16, True),
        ("dgx-h100", 1, False),
    ],
)
def test_tokens_are_sent_beyond_a_server(hardware: str, span: int, sent: bool) -> None:
    """Of more than eight devices, also where more are in one domain; inside engines gather all of them."""
    exchange = AllToAll(elements=8, world=span)
    kernel = replace(norm(), dispatch=exchange)
    assert estimator(hardware).conditions_of(kernel) == replace(SERVING, sent=sent)
    assert estimator(hardware).conditions_of(norm()) is SERVING


def test_a_given_bandwidth_beside_a_prior() -> None:
    """The latency of a form without one is its launch and its wait."""
    hardware = replace(load_hardware("mi300x")[0], overrides={"allreduce_bandwidth": 100e9})
    ring = Kernel("all_reduce", {"": AllReduce(elements=2**20, world=8)}, ("r",), 1)
    plain, given = estimator("mi300x").terms(ring), Estimator(Fits(hardware)).terms(ring)
    assert given["latency"] == pytest.approx(plain["launch"] + plain["wait"])
    assert given["total"] == pytest.approx(given["latency"] + 2 * 7 / 8 * 2**21 / 100e9)
    assert plain["launch"] + plain["wait"] > 0


def test_given_shares_of_vector_work() -> None:
    """A product of few FLOP and much vector work takes the vector units' time, at their whole rate."""
    hardware = replace(load_hardware("h100-sxm")[0], overrides={"mfu": 0.4, "mbu": 0.8})
    wide = Attention(batch=1, new=4096, cached=0, n_heads=8, n_kv_heads=8, head_dim=1)
    seconds = Estimator(Fits(hardware)).seconds(Kernel("attention_prefill", {"": wide}, ("a",), 1))
    assert seconds == pytest.approx(8 * (5 * 4096 * 4097 / 2 + 4096) / hardware.vector_peak)


@pytest.mark.parametrize(
    ("ranges", "dims", "doublings"),
    [
        ({"m": (16, 64)}, {"m": 4, "n": 8, "k": 8}, {"m": 2}),
        ({"m": (16, 64), "n": (1, 4), "k": (4, 8)}, {"m": 64, "n": 32, "k": 4}, {"m": 0, "n": 3, "k": 0}),
        ({"m": (0, 0)}, {"m": 0, "n": 8, "k": 8}, {"m": 0}),  # nothing is as one
        ({"m": (0, 0)}, {"m": 4, "n": 8, "k": 8}, {"m": 2}),
        ({"m": (4, 8)}, {"m": 0, "n": 8, "k": 8}, {"m": 2}),
        ({"rows": (1, 2)}, {"m": 4, "n": 8, "k": 8}, {}),
    ],
)
def test_doublings_beyond_what_was_measured(ranges: Any, dims: dict[str, int], doublings: dict[str, float]) -> None:
    """Logarithms to base 2, below a range as above it; no less than one."""
    fitted = Fits(load_hardware("h100-sxm")[0]).find("gemm/bf16")
    assert fitted is not None
    one = replace(fitted, family=fitted.family.model_copy(update={"range": ranges}))
    assert estimate.beyond(one, {"": Gemm(**dims)}) == pytest.approx(doublings)


def test_doublings_end_at_ten() -> None:
    """Dimensions add up, to ten at most; so do ranks; an operator without ranks is not away from any."""
    fitted = Fits(load_hardware("h100-sxm")[0]).find("gemm/bf16")
    assert fitted is not None
    changes: dict[str, Any] = {"bands": {"m<=64": (1.0, 1.0)}, "range": {"m": (1, 1), "n": (1, 1)}, "per_doubling": 0.2}
    one = replace(fitted, family=fitted.family.model_copy(update={**changes, "worlds": (2,)}))
    for m, n, doublings in ((8, 16, 7), (2**8, 2**9, 10)):
        factors = estimate.interval_factors("gemm", one, {"": Gemm(m=m, n=n, k=1)}, 1.0, SPREAD, other_backends=False)
        assert factors == pytest.approx((math.exp(-0.1 * doublings), math.exp(0.1 * doublings)))
    assert estimate.from_measured_world(one, {"": Gemm(m=1, n=1, k=1)}) == 0
    ring = {"": AllReduce(elements=1, world=2**14)}
    more = replace(one, family=one.family.model_copy(update={"bands": {"all": (1.0, 1.0)}, "range": {}}))
    factors = estimate.interval_factors("all_reduce", more, ring, 1.0, SPREAD, other_backends=False)
    assert factors == pytest.approx((math.exp(-2), math.exp(2)))
    assert estimate.from_measured_world(replace(more, family=more.family.model_copy(update={"worlds": ()})), ring) == 0


def test_the_band_is_that_of_the_regime() -> None:
    """Of each regime its own, of one that a fit lacks that of all."""
    fitted = Fits(load_hardware("h100-sxm")[0]).find("gemm/bf16")
    assert fitted is not None
    bands = {"all": (0.9, 1.2), "m<=64": (0.8, 1.1), "m>512": (0.95, 1.05)}
    one = replace(fitted, family=fitted.family.model_copy(update={"bands": bands, "range": {}}))
    for m, band in ((64, (0.8, 1.1)), (65, (0.9, 1.2)), (512, (0.9, 1.2)), (513, (0.95, 1.05))):
        found = estimate.interval_factors("gemm", one, {"": Gemm(m=m, n=8, k=8)}, 1.0, SPREAD, other_backends=False)
        assert found == pytest.approx(band)


def test_chips_without_figures() -> None:
    """One unit, endless vector units, no last cache, where the file has none of them."""
    hardware = load_hardware("h100-sxm")[0]
    bare = hardware.accelerator.model_copy(update={"compute_units": None, "l2": None, "vector_flops": None})
    found, whole = chip(replace(hardware, accelerator=bare)), chip(hardware)
    assert (found.units, found.l2, found.vector) == (1, 0, math.inf)
    assert (whole.units, whole.vector) == (132, hardware.vector_peak)


@pytest.mark.parametrize(
    ("weight", "hardware", "widened"),
    [("int4", "h100-sxm", True), ("mxfp4", "h100-sxm", True), ("mxfp4", "b200-sxm", False), ("int4", "b200-sxm", True),
     ("bf16", "b200-sxm", False)],
)  # fmt: skip
def test_weights_that_are_widened(weight: str, hardware: str, widened: bool) -> None:
    """Four bits of floats are multiplied as they are where matrix units take them; those of integers nowhere."""
    gemm = Gemm(m=1, n=8, k=8, dtypes=replace(BF16, weight=FORMATS.get(weight) or scheme(weight).format))
    assert chip(load_hardware(hardware)[0]).widens(gemm) == widened


def test_forms_are_for_formats() -> None:
    """A form without formats is for all; else for a key that has one of them as a word after the op."""
    assert GEMM_FP8_BLOCK.applies_to("gemm/fp8_block")
    assert GEMM_FP8_BLOCK.applies_to("gemm/bf16/fp8_block")
    assert not GEMM_FP8_BLOCK.applies_to("gemm/fp8")
    assert CEILINGS.applies_to("gemm/fp8")
    assert CEILINGS.starts() == {"launch": 3e-6, "compute": 0.7, "memory": 0.7}


@pytest.mark.parametrize(
    ("wanted", "names", "origin"),
    [
        ("yours", ["mine", "vllm", "yours"], "yours"),  # the backend itself
        ("sglang", ["mine", "vllm", "alone"], "vllm"),  # the default before others
        ("sglang", ["mine", "alone"], "alone"),  # else in order of their names
    ],
)
def test_which_backend_stands_in(library: Path, wanted: str, names: list[str], origin: str) -> None:
    """Launches tell the files apart; of the shipped files none is in the way, as they name families of their own."""
    for number, name in enumerate(names):
        write(library, "a100-sxm-40gb", name, launch=number + 1)
    found = estimator("a100-sxm-40gb", wanted).fitted(norm())
    assert found is not None
    assert (found.fit.backend if found.fit else "") == origin
    assert found.origin == ("fitted" if origin == wanted else "other backend")


def test_the_nearest_accelerator_stands_in(library: Path) -> None:
    """Logarithms of the ratios of bandwidth and peak add up; the same architecture comes first, whatever lies nearer.

    H800: 3.35 TB/s, 989 TFLOP/s, as the H100; H200 4.8 and 989; H20 4 and 148. B200: 8 and 2250. Links over the host apart.
    """
    for name in ("h20", "h200-sxm"):
        write(library, name, "mine")
    fits = {name: Fits(load_hardware(name)[0]) for name in ("h800-sxm", "b200-sxm", "h20", "mi300x", "rtx-4090")}

    def others(name: str, key: str, *, same: bool, host: bool = False) -> list[str]:
        return fits[name]._others([key], key == "all_reduce", host, same_architecture=same)

    assert others("h800-sxm", "rmsnorm", same=True) == ["h100-sxm", "h200-sxm", "h20"]
    assert others("b200-sxm", "rmsnorm", same=False) == ["h200-sxm", "h100-sxm", "a100-sxm-80gb", "h20"]
    assert math.log(8 / 2.039) + math.log(2250 / 312) < math.log(8 / 4) + math.log(2250 / 148)
    assert others("h20", "rmsnorm", same=True) == ["h100-sxm", "h200-sxm"]
    assert (others("b200-sxm", "rmsnorm", same=True), others("mi300x", "rmsnorm", same=False)) == ([], [])
    assert others("h800-sxm", "all_reduce", same=False) == ["a100-sxm-80gb"]
    assert others("h800-sxm", "all_reduce", same=False, host=True) == ["l40s"]
    assert others("rtx-4090", "all_reduce", same=True, host=True) == ["l40s"]
    for over, ways in ((False, ("transferred", "a100-sxm-80gb")), (True, ("transferred", "l40s"))):
        found = fits["rtx-4090"].find("all_reduce", over_host=over)
        assert found is not None
        assert (found.origin, found.fit.accelerator if found.fit else "") == ways


def test_a_file_as_the_backend(library: Path, tmp_path: Path) -> None:
    """It comes before all others, is of the user, and is refused for another accelerator."""
    write(library, "h100-sxm", "mine", launch=7)
    own = write(library, "h100-sxm", "yours", launch=5)
    own = own.rename(tmp_path / "own.yaml")
    one = estimator("h100-sxm", str(own))
    fitted = one.fitted(norm())
    assert fitted is not None
    assert (fitted.values["launch"], fitted.origin, one.fits.of_user(fitted)) == (5e-6, "fitted", True)
    one.fits.check()
    named = estimator("h100-sxm", "mine")
    other = named.fitted(norm())
    assert other is not None
    assert (other.values["launch"], named.fits.of_user(other), one.fits.of_user(other)) == (7e-6, False, False)
    with pytest.raises(InputError, match="is a fit of h100-sxm"):
        Fits(load_hardware("h200-sxm")[0], str(own)).check()


def test_sums_of_durations() -> None:
    """Fields add up with their weights; one that is unknown in any part is unknown in the sum."""
    one, two = Duration(2.0, 5.0, 3.0, 2.5, 4.0, 1.0), Duration(1.0, None, 2.0, 1.5, 8.0)
    assert total(one, one) == Duration(4.0, None, 6.0, 5.0, 8.0, 2.0)
    assert weighted_sum([(3, one), (0.5, two)]) == Duration(6.5, None, 10.0, 8.25, 16.0, None)
    assert scaled(one, 4) == Duration(8.0, None, 12.0, 10.0, 16.0, 4.0)
    assert (one.best, Duration(2.0, 5.0).best) == (3.0, 2.0)
    times = Times(matrix=1.0, vector=2.0, memory=4.0, link=8.0)
    assert (times.sum, times.bound, times.bound_by) == (15.0, 8.0, "link")
    even = Times(matrix=4.0, vector=0.0, memory=4.0, link=0.0)
    assert (even.sum, even.bound, even.bound_by) == (8.0, 4.0, "memory")
    assert replace(even, vector=5.0).bound == 5.0
    assert replace(even, vector=5.0).bound_by == "compute"


def test_what_has_no_launch_hides_none() -> None:
    """A collective waits for its latency, whatever a graph of kernels hides."""
    alone, ring = estimator("dgx-h100"), Kernel("all_reduce", {"": AllReduce(elements=2**20, world=8)}, ("r",), 1)
    terms, hidden = alone.terms(ring), replace(alone, hidden=1.0).terms(ring)
    assert "launch" not in terms
    assert hidden == terms
    beside = replace(ring, paths=("layers/moe/shared/all_reduce",))
    assert replace(alone, hidden=1.0).terms(beside) == terms


def test_prompts_in_latent_form_are_of_benchmarks() -> None:
    """SGLang's records have latents absorbed: so is an estimate in a cache that is warm, and in serving it is expanded."""
    one = estimator("h100-sxm", "sglang")
    sizes = {"n_heads": 128, "r_kv": 512, "d_nope": 128, "d_rope": 64, "d_v": 128}
    kernel = Kernel("mla_prefill", {"": LatentAttention(batch=1, new=512, cached=0, **sizes)}, ("m",), 1)
    fitted = one.fitted(kernel)
    assert fitted is not None
    assert fitted.values["absorbed"] == 1
    for conditions, absorbed in ((SERVING, 0.0), (replace(SERVING, kv=1), 1.0)):
        found = replace(one, conditions=conditions).terms(kernel)
        expected = fitted.form.terms(kernel.timed, one.fits.chip, conditions, {**fitted.values, "absorbed": absorbed})
        assert found["blocks"] == expected["blocks"]
    assert found["bound"] == 0
