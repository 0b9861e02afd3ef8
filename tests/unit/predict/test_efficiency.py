"""Which fit an estimate stands on, how wide its interval is, and what adds up to a step."""

from __future__ import annotations

import math
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any

import pytest

import roofline
from roofline.errors import SpecError, UnknownNameError
from roofline.operators.gemm import Gemm
from roofline.operators.norm import Norm
from roofline.predict.efficiency import estimate
from roofline.predict.efficiency.estimate import Estimator, Interval, independent, together
from roofline.predict.efficiency.fits import Fits
from roofline.predict.efficiency.kernels import Kernel, kernels
from roofline.specs.fit import Allowance, Spread
from roofline.specs.library import load_hardware

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
    found.fits.__dict__["spread"] = SPREAD  # in the place of the measured one
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
        assert phase.tokens_per_s_estimate == pytest.approx(phase.produced_tokens / (phase.pipeline.estimate or 0.0))
        assert phase.mfu is not None
        assert 0 < phase.mfu <= 1
    spans = (result.request or {}).values()
    assert all(span.low <= span.estimate <= span.high for span in spans)  # type: ignore[operator]
    names = {entry.name: entry for entry in result.assumptions}
    assert "backend" in names
    assert names["backend"].origin == ("given" if "backend" in options else "default")
    if hardware in ("b200-sxm", "mi300x"):
        assert names["fit.gemm"].origin == "transferred"


def test_an_unknown_backend_is_refused() -> None:
    """With those that are known."""
    with pytest.raises(UnknownNameError, match=r"unknown backend 'vlm'.*vllm"):
        roofline.analyze("llama-3.1-8b", "h100-sxm", backend="vlm")


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"form: ceilings": "form: ceiling"}, "unknown form 'ceiling'"),
        ({"compute: 1, ": ""}, "'compute' of form ceilings is missing"),
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


def test_no_estimate_of_a_processor_by_kernels_of_accelerators() -> None:
    """A hardware.yaml of a host has no fit of its own: nothing is transferred to it."""
    host = Path(__file__).resolve().parents[3] / "measurements" / "amd-epyc-x2" / "2026-11-20" / "hardware.yaml"
    result = roofline.analyze("llama-3.2-1b", host, ignore_capacity=True)
    assert all(phase.time.estimate is None and phase.time.low is None for phase in result.phases)
    assert all(phase.mfu is not None for phase in result.phases)
