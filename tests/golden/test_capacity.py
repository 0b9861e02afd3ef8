"""Plans for the models and hardware that people ask about: quick enough to believe, monotone, never what does not fit."""

from __future__ import annotations

import csv
import math
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import roofline
from roofline.blocks.model_files import load_model
from roofline.measure.validate.serving import model_id
from roofline.serving.planning.result import Candidate, Plan

GPUS = "a100-sxm-80gb,h100-sxm,h200-sxm,l40s"
MODELS = {"llama-3.1-8b": (GPUS, 2.0), "llama-3.1-70b": (GPUS, 2.0), "deepseek-v3": ("h200-sxm,dgx-h200", 5.0)}
RATES = (1, 50, 1000)


FEWER = {"llama-3.1-8b": "h100-sxm", "llama-3.1-70b": "h100-sxm", "deepseek-v3": "h200-sxm"}


@cache
def planned(
    model: str, rate: float, ttft: float | None = None, tpot: float | None = 0.05, percentile: float = 0.95, every: bool = False
) -> Plan:
    """Chat: 1,155 prompt and 211 answer tokens on average; all candidates of some hardware, or the best of `every` one."""
    hardware, usual = MODELS[model]
    hardware = hardware if every else FEWER[model]
    return roofline.plan(
        model, hardware=hardware, rate=rate, input_len="lognormal:1155:900", output_len="lognormal:211:160",
        ttft=usual if ttft is None else ttft, tpot=tpot, percentile=percentile, top=5 if every else 100,
    )  # fmt: skip


def by_deployment(plan: Plan) -> dict[tuple[Any, ...], Candidate]:
    """Candidates of one hardware and deployment, which a plan has once at most."""
    found = {}
    for one in plan.candidates:
        if one.mode == "colocated":
            sizes = {name: size for name, size in one.pools[0].deployment.items() if name.endswith("_parallel")}
            found[one.hardware, one.precision, tuple(sizes.values())] = one
    return found


@pytest.mark.parametrize("rate", RATES)
@pytest.mark.parametrize("model", MODELS)
def test_every_load_has_an_answer_that_meets_it(model: str, rate: float) -> None:
    plan = planned(model, rate, every=True)
    assert plan.best is not None
    assert plan.infeasible is None
    for one in plan.candidates:
        assert one.performance.ttft.at is not None
        assert one.performance.tpot.at is not None
        assert one.performance.ttft.at <= MODELS[model][1] * 1.005
        assert one.performance.tpot.at <= 0.05 * 1.005
        assert one.breaks_at is not None
        assert one.breaks_at >= rate * (1 - 1e-6)
        assert 0 < one.performance.utilisation < 1
        assert one.cost.per_hour is None or one.cost.per_hour > 0
    costs = [one.cost.per_hour or math.inf for one in plan.candidates]
    assert costs == sorted(costs)


@pytest.mark.parametrize("model", MODELS)
def test_what_is_recommended_fits_as_analyze_says(model: str) -> None:
    """With all seats taken by requests of mean length, from the prompt to the last token."""
    for one in planned(model, 50, every=True).candidates[:6]:
        for pool in one.pools:
            ours = pool.deployment
            served, quantization = load_model(model)[0], ours["quantization"]
            if published := [each for each in served.checkpoints if each.hf_id == ours["checkpoint"]]:
                served, quantization = served.as_checkpoint(published[0]), None
            analysis = roofline.analyze(
                served, one.hardware, batch=ours["max_num_seqs"] * ours["data_parallel"], input_len=1155, output_len=211,
                tp=ours["tensor_parallel"], pp=ours["pipeline_parallel"], dp=ours["data_parallel"],
                ep=ours["expert_parallel"], quantization=quantization, max_num_seqs=ours["max_num_seqs"],
                max_num_batched_tokens=ours["max_num_batched_tokens"], max_model_len=ours["max_model_len"],
            )  # fmt: skip
            assert analysis.memory.fits
            assert analysis.memory.max_context >= 1


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.night
def test_a_tighter_objective_is_never_cheaper(model: str) -> None:
    """TTFT, TPOT and the percentile tightened in turn; from no TPOT on with one of the models, which are searched alike."""
    usual = MODELS[model][1]
    ways = [
        [
            (usual * 4, 0.2, 0.95),
            (usual, 0.05, 0.95),
            (usual / 2, 0.05, 0.95),
            (usual / 2, 0.03, 0.95),
            (usual / 2, 0.03, 0.99),
        ],
        [(usual, None, 0.5), (usual, 0.1, 0.5), (usual, 0.1, 0.9), (usual, 0.04, 0.9)],
    ]
    for way in ways if model == "llama-3.1-8b" else ways[:1]:
        costs, devices = [], []
        for ttft, tpot, percentile in way:
            plan = planned(model, 50, ttft, tpot, percentile)
            costs.append(math.inf if plan.best is None else plan.best.cost.per_hour or math.inf)
            devices.append({key: one.devices for key, one in by_deployment(plan).items()})
        assert costs == sorted(costs)
        for loose, tight in pairwise(devices):
            assert all(many >= loose[key] for key, many in tight.items())


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.night
def test_a_higher_rate_is_never_cheaper_and_never_takes_fewer_devices(model: str) -> None:
    plans = [planned(model, rate) for rate in (*RATES[:2], 70, RATES[2])]
    costs = [plan.best.cost.per_hour if plan.best else math.inf for plan in plans]
    assert costs == sorted(costs)
    for less, more in pairwise(plans):
        before = by_deployment(less)
        for key, one in by_deployment(more).items():
            assert one.devices >= before[key].devices


def test_the_front_is_what_nothing_beats() -> None:
    plan = planned("llama-3.1-8b", 50)
    measures = [(one.cost.per_hour, one.performance.ttft.mean, one.performance.tpot.mean) for one in plan.candidates]
    for index in plan.pareto:
        assert not any(all(a < b * 0.97 for a, b in zip(other, measures[index], strict=True)) for other in measures)


@pytest.mark.night
def test_closed_loops_have_the_measured_time_per_token(truth: Path) -> None:
    """Of every ninth measured point, but for the 21 that beat their own prefill (docs/accuracy.md)."""
    path = truth / "truth" / "serving" / "end_to_end.csv"
    if not path.is_file():
        pytest.skip("the serving points are not there")
    rows = [
        row for row in csv.DictReader(path.read_text().splitlines()) if (row["system"], row["backend"]) != ("h200_sxm", "vllm")
    ]
    errors = []
    for row in rows[::9]:
        devices = int(float(row["tp_size"]))
        mode = row["gemm_quant_mode"]
        plan = roofline.plan(
            model_id(row["model_path"]), hardware=row["system"], concurrency=int(float(row["batch_size"])),
            input_len=row["isl"], output_len=row["osl"], tp=devices, max_gpus=devices, backend=row["backend"],
            quantization=mode if mode not in ("", "bf16", "float16") else "none",
        )  # fmt: skip
        assert plan.best is not None
        assert plan.best.replicas == 1
        errors.append(plan.best.performance.tpot.mean / (float(row["silicon_tpot_ms"]) * 1e-3) - 1)  # type: ignore[operator]
    assert np.median(np.abs(errors)) <= 0.08
    assert np.mean(np.abs(errors)) <= 0.12
