"""Floor, bound, estimate and interval of every time: in that order, whatever the model, the hardware and the deployment."""

from __future__ import annotations

import itertools
import random
from typing import Any

import numpy as np
import pytest

import roofline
from roofline.errors import RooflineError
from roofline.predict.duration import Duration
from roofline.predict.result import Analysis
from roofline.specs.library import ids

pytestmark = pytest.mark.slow

SEED = 20261122
SAMPLED = 120
WORKLOADS: list[dict[str, Any]] = [
    {"batch": 1, "input_len": 1, "output_len": 1},
    {"batch": 1, "input_len": 1024, "output_len": 200},
    {"batch": 8, "input_len": 4096, "output_len": 16},
    {"batch": 64, "input_len": 128, "context": 8192},
]
SLOW: list[dict[str, Any]] = [{}, {}, {"bandwidth": "300 GB/s"}, {"peak_flops": "20 TFLOP/s"}]
DEPLOYMENTS: list[dict[str, Any]] = [
    {}, {}, {"tp": 2}, {"tp": 8}, {"tp": 2, "pp": 2}, {"dp": 4, "ep": 4}, {"tp": 4, "sequence_parallel": True}, {"cp": 2},
    {"mask": "full"}, {"attention": "eager"}, {"quantization": "fp8"}, {"quantization": "awq"}, {"kv_cache_dtype": "fp8"},
    {"dtype": "fp16"}, {"dp": 8, "ep": 8, "dispatch_dtype": "fp8"}, {"dp": 16, "ep": 16, "num_redundant_experts": 16},
    {"tp": 8, "dcp": 2}, {"dp": 4, "ep": 4, "microbatch_overlap": True}, {"tp": 4, "dp": 4, "ep": 4, "moe_tp": 4},
]  # fmt: skip


def sampled() -> list[tuple[str, str, dict[str, Any]]]:
    """Pairs of a shipped model and shipped hardware, each with a workload and a deployment, some with slower parts."""
    chance = random.Random(SEED)  # noqa: S311
    pairs = chance.sample(list(itertools.product(ids("models"), ids("hardware"))), SAMPLED)
    choices = (WORKLOADS, SLOW, DEPLOYMENTS)
    return [(model, hardware, {k: v for each in choices for k, v in chance.choice(each).items()}) for model, hardware in pairs]


def spans(result: Analysis) -> list[tuple[str, Duration]]:
    """Every time of a result, and where it stands. What microbatches hide is a difference of times, and may be below 0."""
    found = [(name, getattr(result.request, name)) for name in ("ttft_s", "tpot_s", "e2e_s") if result.request is not None]
    for phase in result.phases:
        found += [(phase.name, phase.time), (f"{phase.name}, all stages", phase.pipeline)]
        parts = [operator for operator in phase.operators if operator.path != "microbatch_overlap"]
        found += [(f"{phase.name} {operator.path}", operator.time) for operator in parts]
    return found


def check(result: Analysis) -> int:
    """How many times were looked at: floor, bound, estimate and high are in that order.

    The interval starts at the floor or above (that of an operator at its bound), and utilisations are at most 1."""
    looked = 0
    for where, span in spans(result):
        if span.bound is None:
            continue  # there is no later token
        if span.floor is not None:
            assert 0 < span.floor <= span.bound * (1 + 1e-12) or span.bound == 0, where
        looked += 1
        if span.estimate is None:
            continue
        assert span.low is not None
        assert span.high is not None
        least = span.bound if span.floor is None else span.floor
        assert least <= span.low <= span.estimate <= span.high, where
        assert span.bound <= span.estimate, where
    for phase in result.to_dict()["phases"]:
        for entry in (phase, *phase["operators"]):
            assert all(entry[name] is None or 0 <= entry[name] <= 1 for name in ("mfu", "mbu")), entry
    return looked


def test_floor_bound_and_estimate_are_in_order() -> None:
    """Of sampled models on sampled hardware, whether they fit or not: steps, stages, operators and requests."""
    looked = 0
    for model, hardware, options in sampled():
        try:
            result = roofline.analyze(model, hardware, ignore_capacity=True, **options)
        except RooflineError:
            continue  # what the hardware does not multiply
        looked += check(result)
    assert looked > 1000


@pytest.mark.parametrize(
    ("model", "hardware", "options"),
    [
        # the engine's band and the experts' reach below the bound of a step
        ("deepseek-v3", "dgx-h200", {"tp": 8, "batch": 64, "context": 8192, "input_len": 128}),
        ("qwen3-30b-a3b", "mi300x", {"batch": 64, "context": 8192}),
        # attention of a prompt, as it is fitted, does not see the bandwidth
        ("llama-3.1-70b", "h100-sxm", {"bandwidth": "300 GB/s"}),
        ("llama-3.1-8b", "h100-sxm", {"bandwidth": "0.5 GB/s"}),
        # of the experts' kernel `activation` and `combine` had less than their bound
        ("mixtral-8x7b", "mi300x", {"batch": 8}),
        ("llama-3.1-70b", "dgx-h100", {"tp": 4, "pp": 2, "batch": 256, "output_len": 64}),
        ("deepseek-v2-lite", "dgx-h100", {"tp": 2, "cp": 2, "batch": 4, "input_len": 20_000}),
    ],
)
def test_deployments_that_were_below_their_bound(model: str, hardware: str, options: dict[str, Any]) -> None:
    """The same of deployments with parallelism, and of those on which measured kernels say little."""
    result = roofline.analyze(model, hardware, ignore_capacity=True, **options)
    assert check(result)
    for phase in result.phases:
        parts = sum(operator.time.estimate or 0.0 for operator in phase.operators)
        assert phase.time.estimate == pytest.approx(parts, rel=1e-9)


def test_an_operator_that_does_not_see_the_bandwidth_takes_its_bound() -> None:
    """Fused attention of 1024 tokens in 80 layers of Llama 3.1 70B at 1 GB/s, 37.7 ms in each.

    It moves 64 query, 64 output, 8 key and 8 value heads of 128 elements of 2 bytes a token.
    """
    result = roofline.analyze("llama-3.1-70b", "h100-sxm", bandwidth="1 GB/s", phase="prefill", ignore_capacity=True)
    assert result.prefill is not None
    core = next(operator for operator in result.prefill.operators if operator.path == "layers/attention/core")
    assert core.time.estimate == pytest.approx(80 * 1024 * (64 + 64 + 8 + 8) * 128 * 2 / 1e9, rel=1e-9)
    assert core.time.low == core.time.estimate


@pytest.mark.parametrize("phase", ["prefill", "decode"])
def test_arrays_have_the_same_intervals(phase: str) -> None:
    """`compile` and `analyze` at the same points, also where low ends are held at the floor."""
    ends = ("floor", "bound", "estimate", "low", "high")
    columns, through = {end: f"time_{end}_s" for end in ends}, {end: f"step_{end}_s" for end in ends}
    for model, hardware, options in (
        ("deepseek-v3", "dgx-h200", {"tp": 8}),
        ("qwen3-30b-a3b", "mi300x", {}),
        ("llama-3.1-70b", "h100-sxm", {"bandwidth": "100 GB/s"}),
        ("llama-3.1-70b", "dgx-h100", {"tp": 2, "pp": 4}),
        ("gemma-3-12b", "l40s", {}),
    ):
        batches, lengths = [1, 64], [128, 8192]
        asked = {"batch": np.array(batches)[:, None], ("context" if phase == "decode" else "input_len"): np.array(lengths)}
        found = roofline.compile(model, hardware, phase, **options)(**asked, columns=[*columns.values(), *through.values()])
        assert all(
            (found[low] >= found[floor]).all()
            for low, floor in (("time_low_s", "time_floor_s"), ("step_low_s", "step_floor_s"))
        )
        for (row, batch), (column, length) in itertools.product(enumerate(batches), enumerate(lengths)):
            point = {"batch": batch, ("context" if phase == "decode" else "input_len"): length}
            (step,) = roofline.analyze(model, hardware, phase=phase, ignore_capacity=True, **point, **options).phases
            for span, names in ((step.time, columns), (step.pipeline, through)):
                got = {end: found[name][row, column] for end, name in names.items()}
                assert got == pytest.approx({end: getattr(span, end) for end in names}, rel=1e-12), (model, point)


NINE = [
    "gpt2", "llama-3.1-8b", "mixtral-8x7b", "deepseek-v3", "gemma-3-12b", "qwen3-30b-a3b", "gpt-oss-20b", "deepseek-v2-lite",
    "falcon-7b",
]  # fmt: skip


@pytest.mark.parametrize("model", NINE)
def test_prompts_of_a_few_tokens_take_the_same_kernels_in_both(model: str) -> None:
    """A prompt of one token is a prompt, in an array of lengths as alone."""
    batches, lengths = [1, 64], [1, 2, 3]
    found = roofline.compile(model, "h100-sxm", "prefill")(batch=np.array(batches)[:, None], input_len=lengths, estimate=True)
    for (row, batch), (column, length) in itertools.product(enumerate(batches), enumerate(lengths)):
        (step,) = roofline.analyze(
            model, "h100-sxm", phase="prefill", batch=batch, input_len=length, ignore_capacity=True
        ).phases
        for name, value in (("estimate", step.time.estimate), ("low", step.time.low), ("high", step.time.high)):
            assert found[f"time_{name}_s"][row, column] == pytest.approx(value, rel=1e-12), (batch, length, name)


def test_one_new_token_without_a_past_is_a_prompt() -> None:
    """In segments too: the first generated token comes out of the prompt's step, so none is generated after nothing."""
    prompt = roofline.analyze("deepseek-v2-lite", "h100-sxm", phase="prefill", batch=3, input_len=1)
    segment = roofline.analyze("deepseek-v2-lite", "h100-sxm", segments="3x1@0")
    assert [phase.name for phase in segment.phases] == ["prefill"]
    assert segment.phases[0].time == prompt.phases[0].time
    mixed = roofline.analyze("deepseek-v2-lite", "h100-sxm", segments="3x1@0,4x1@100")
    assert [phase.name for phase in mixed.phases] == ["mixed"]
