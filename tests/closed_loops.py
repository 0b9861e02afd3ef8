"""Measured serving points of closed loops, and the simulator under the load generators and servers that their sources document.

`tests/golden/test_closed_loop_ttft.py` judges by it, `docs/build_closed_loop.py` writes its tables into docs/closed-loop.md.
The points are those of AIConfigurator (columns: `roofline/measure/validate/serving.py`) and have two sources, told apart by
their lengths. What an engine adds to a step is that of a fit without any point of the same model. Nothing is chosen by
the times that are judged.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy.optimize import minimize
from shared_results import shared

from roofline.errors import RooflineError
from roofline.measure.calibrate import JudgedPoints, judged_points
from roofline.measure.validate.serving import measured_deployments
from roofline.predict.request import ResolvedRequest
from roofline.serving.simulation.run import run
from roofline.serving.simulation.server import ServerConfig, resolve_replica, resolve_server
from roofline.serving.simulation.workload import read_workload
from roofline.specs.engine import EngineSteps

FILES = ("end_to_end.csv", "moe_end_to_end.csv")
INFERENCEMAX_LENGTHS = frozenset({(1024, 1024), (1024, 8192), (8192, 1024)})
"""Prompt and output tokens of every run of InferenceMAX (README.md, "Benchmark Client Configuration"); AIConfigurator's own
have others."""
PROMPTS = 10
"""Prompts per client, in both: `--num-prompts $((CONC * 10))` and `--request-count` of ten times the concurrency. Warm-ups are
apart."""
_LONGEST = 20_000
_DEPLOYMENT = ("tp", "pp", "dp", "ep", "moe_tp", "quantization", "backend")


@dataclass(frozen=True)
class Setup:
    """What a source's script says of a run: the load generator's lengths, the scheduler, and limits of the server."""

    spread: str
    scheduler: str
    budget: int
    """New tokens per step."""
    kv_cache_dtype: str | None = None
    balanced: bool = False
    """Prompts wait until every attention-DP rank can start one."""

    def workload(self, clients: int, prompts: int = PROMPTS) -> str:
        """As `--workload` has it."""
        text = f"closed:{clients}:prompts={prompts}"
        return text if self.spread == "1-1" else f"{text}:spread={self.spread}"


@dataclass(frozen=True)
class Point:
    """A measured point; times in seconds."""

    file: str
    line: int
    engine: str
    model: str
    hardware: str
    options: tuple[tuple[str, Any], ...]
    """Of its deployment, as `roofline.compile` takes them."""
    clients: int
    """Of all data-parallel ranks."""
    ranks: int
    prompt: int
    output: int
    ttft: float
    tpot: float

    @property
    def inferencemax(self) -> bool:
        """Whether it is of InferenceMAX, rather than a run of AIConfigurator's own."""
        return (self.prompt, self.output) in INFERENCEMAX_LENGTHS

    @property
    def mean_prompt(self) -> float:
        """Tokens of a prompt on average."""
        return self.prompt * sum(map(float, self.setup.spread.split("-"))) / 2

    @property
    def setup(self) -> Setup:
        """As its source documents it."""
        return _inferencemax(self) if self.inferencemax else _aiconfigurator(self)


def _inferencemax(point: Point) -> Setup:
    """SemiAnalysis, InferenceMAX, benchmarks/*.sh: lengths are drawn from 0.8 to 1 (`RANDOM_RANGE_RATIO`).

    vLLM: `async-scheduling`, `max-num-batched-tokens: 8192` or the server's default, which is the same; Llama 3.1 70B in
    70b_fp8_h100_slurm.sh has `kv-cache-dtype: fp8`. SGLang (dsr1_fp8_h200.sh): `--chunked-prefill-size 32768`. TensorRT-LLM:
    `--max_num_tokens 20000` for gpt-oss (gptoss_fp4_h200_trt.sh); the larger of 8192 and the clients and a prompt, a cache of
    fp8 and `enable_balance` for DeepSeek-R1 (dsr1_fp8_h200_trt.sh).
    """
    if point.engine == "vllm":
        return Setup("0.8-1", "vllm-v1-async", 8192, "fp8" if point.model.startswith("llama") else None)
    if point.engine == "sglang":
        return Setup("0.8-1", "sglang", 32768)
    if point.model.startswith("gpt-oss"):
        return Setup("0.8-1", "no-evict", 20000)
    budget = max(8192, -(-(point.clients + point.prompt + 64) // 64) * 64)
    return Setup("0.8-1", "no-evict", budget, "fp8", balanced=point.ranks > 1)


def _aiconfigurator(point: Point) -> Setup:
    """AIConfigurator, src/aiconfigurator/eval/benchmarks: lengths without a deviation. The server has its engine's defaults.

    vLLM 0.12 forms no steps ahead unless it is told to. NB: rules of AIConfigurator's generator
    (src/aiconfigurator/generator/rule_plugin) limit the tokens per step and mix SGLang's prompts with decodes; which version of
    them a run had is not known (`MIXED`).
    """
    return Setup("1-1", {"vllm": "vllm-v1", "sglang": "sglang", "trtllm": "no-evict"}[point.engine], 8192)


MIXED = Setup("1-1", "vllm-v1-async", 8192)
"""SGLang with `--enable-mixed-chunk`: prompts in chunks beside decodes."""


def points(folder: Path) -> list[Point]:
    """Those of the tables of a folder whose deployment is known, in order."""
    return [point for name in FILES for point in _read(folder / name)]


def _read(path: Path) -> Iterator[Point]:
    for rows, request in measured_deployments(path, []):
        assert request.query is not None
        ranks = request.deployment.data_parallel_size
        options = tuple(sorted((name, value) for name, value in request.query["options"].items() if name in _DEPLOYMENT))
        for _, row in rows.iterrows():
            yield Point(
                path.name, int(row["line"]), str(row["backend"]), request.query["model"], request.query["hardware"],
                options, int(row["clients"]), ranks, int(row["isl"]),
                int(row["osl"]), float(row["silicon_ttft_ms"]) * 1e-3, float(row["silicon_tpot_ms"]) * 1e-3,
            )  # fmt: skip


EAGER = ("trtllm", "sglang")
"""Engines that launch the kernels of a step with prompts one by one; vLLM compiles them, in pieces."""
_EAGER_SECONDS = (0.0, 0.8e-3, 1.2e-3, 1.6e-3)
"""Of a layer with experts: values that are tried. With more, published throughputs of models with experts are further off."""


@dataclass(frozen=True)
class Waits:
    """What TTFT has beside kernels, in seconds."""

    eager: float = 0.0
    """Of `EngineSteps`, of the engines in `EAGER`."""
    front_end: float = 0.0
    """Of each request between its client and the scheduler."""
    front_end_token: float = 0.0
    """The same for each token of its prompt."""

    def of(self, steps: EngineSteps) -> EngineSteps:
        """The numbers of an engine with these."""
        return steps.model_copy(update={"eager": self.eager if steps.engine in EAGER else 0.0})

    def client(self, prompt: float) -> float:
        """Seconds by which a client's TTFT is longer than the scheduler's, with that many prompt tokens."""
        return self.front_end + self.front_end_token * prompt


@cache
def _server(deployment: tuple[Any, ...], setup: Setup, steps: EngineSteps) -> ServerConfig:
    """A server with more slots than any point has clients; its step times are tabulated once.

    `eager` is no part of the tables, which add it to each step with prompts: servers that differ in it alone share them.
    """
    if steps.eager:
        server = _server(deployment, setup, steps.model_copy(update={"eager": 0.0}))
        tables = copy(server.tables)
        tables.request = fitted(server.request, steps)
        vars(tables).pop("_eager", None)
        return replace(server, request=tables.request, tables=tables)
    model, hardware, options = deployment
    limits = {"max_num_seqs": 1024, "max_num_batched_tokens": setup.budget, "max_model_len": _LONGEST}
    request = resolve_replica(model, hardware, {**dict(options), **limits, "kv_cache_dtype": setup.kv_cache_dtype})
    return resolve_server(
        fitted(request, steps), scheduler=setup.scheduler, preemption=None, basis="estimate", replicas=None, router=None,
        stepwise=False, notes=[], attention_dp_balance=setup.balanced,
    )  # fmt: skip


def fitted(request: ResolvedRequest, steps: EngineSteps) -> ResolvedRequest:
    """A deployment with another fit of what its engine adds to a step."""
    conditions = replace(request.estimator.conditions, popularity=steps.routing_skew)
    return replace(request, steps=steps, estimator=replace(request.estimator, hidden=steps.hidden, conditions=conditions))


@cache
def simulated(
    point: Point, steps: EngineSteps, setup: Setup | None = None, prompts: int = PROMPTS, fewer: int = 0
) -> tuple[float, float]:  # fmt: skip
    """Mean TTFT and TPOT, seconds. Kept: what TTFT has beside kernels is fitted on runs that are judged too.

    Args:
        point: its deployment and load.
        steps: what the engine adds to a step.
        setup: None: that of the point's source.
        prompts: per client.
        fewer: slots fewer than clients.
    """
    setup = point.setup if setup is None else setup
    server = _server((point.model, point.hardware, point.options), setup, steps)
    config = replace(server.config, max_num_seqs=max(point.clients // point.ranks - fewer, 1))
    workload = read_workload(
        workload=setup.workload(point.clients, prompts), input_len=point.prompt, output_len=point.output, notes=[]
    )
    times = run(replace(server, config=config), workload, (0, 0), 0.0).metrics.times
    ttft, tpot = times["ttft"].mean, times["tpot"].mean
    return math.nan if ttft is None else ttft, math.nan if tpot is None else tpot


def judged(
    some: Iterable[Point], points: JudgedPoints, setup: Setup | None = None, *, waits: Mapping[str, Waits] | None = None,
    prompts: int = PROMPTS, fewer: int = 0,
) -> pd.DataFrame:  # fmt: skip
    """Points with the TTFT and TPOT of the simulator, each under the fit without its model.

    Args:
        some: the points.
        points: the fits, by the model that is left out, and their bands.
        setup: None: that of each point's source.
        waits: what TTFT has beside kernels, by the model that is left out. None: nothing.
        prompts: per client.
        fewer: slots fewer than clients.

    Returns:
        A row per point that the simulator takes and that fits see: `file`, `line`, `engine`, `model`, `hardware`,
        `source`, `clients`, `prompt`, `devices` (tensor-parallel); `ttft` and `tpot` as measured, `simulated_ttft` (a client's)
        and `simulated_tpot`, all in seconds; `low` and `high`, measured over estimated at the ends of the interval; and the
        closed form's TPOT, `closed_form`.
    """
    table = points.judged.assign(file=[Path(file).name for file in points.judged["file"]]).set_index(["file", "line"])
    rows = []
    for point in some:
        if (point.file, point.line) not in table.index:
            continue
        entry = table.loc[(point.file, point.line)]
        if not entry["usable"]:
            continue
        name = str(entry["kernel"])
        try:
            wait = (waits or {}).get(name, Waits())
            ttft, tpot = simulated(point, wait.of(points.steps(point.engine, name)), setup, prompts, fewer)
            ttft += wait.client(point.mean_prompt)
        except RooflineError:  # data-parallel ranks that share no experts: several replicas
            continue
        low, high = points.bands[name]
        rows.append({
            "file": point.file, "line": point.line, "engine": point.engine, "model": name,
            "hardware": str(entry["hardware"]), "clients": point.clients,
            "source": "InferenceMAX" if point.inferencemax else "AIConfigurator", "prompt": point.prompt,
            "devices": dict(point.options).get("tp", 1), "ttft": point.ttft, "tpot": point.tpot,
            "simulated_ttft": ttft, "simulated_tpot": tpot, "low": low, "high": high, "closed_form": float(entry["estimate_s"]),
        })  # fmt: skip
    return pd.DataFrame(rows)


def fitted_waits(some: Sequence[Point], points: JudgedPoints) -> dict[str, Waits]:
    """What TTFT has beside kernels, fitted without the points of each model in turn; of all models by "".

    Three numbers for all engines, each model on each engine with the same weight, by the mean of |log(simulated/measured)| of
    TTFT and TPOT: a step that takes longer delays the tokens of others too, a front end does not.
    What an engine adds to the steps of a point is fitted without its model. NB: that fit has seen the model that is left out
    here, where it is of another point.
    """
    tried = []
    for eager in _EAGER_SECONDS:
        these = [point for point in some if point.engine in EAGER] if eager else some
        tried.append(judged(these, points, waits={name: Waits(eager) for name in points.fits}).set_index(["file", "line"]))
    table = tried[0].sort_index()
    ttft, tpot = (
        np.stack([frame[name].combine_first(table[name]).sort_index() for frame in tried])
        for name in ("simulated_ttft", "simulated_tpot")
    )
    others = {name: (table["model"] != name).to_numpy() for name in points.fits}
    return {name: _waits(table[seen], ttft[:, seen], tpot[:, seen]) for name, seen in others.items()}


def _waits(table: pd.DataFrame, ttft: np.ndarray, tpot: np.ndarray) -> Waits:
    """The best numbers for some points.

    Args:
        table: rows of `judged`.
        ttft: simulated without a front end, in seconds, [of `_EAGER_SECONDS`, point].
        tpot: likewise.
    """
    weights = 1 / table.groupby(["model", "engine"])["ttft"].transform("size").to_numpy()
    prompt, measured = table["prompt"].to_numpy() * 1e-3, table["ttft"].to_numpy()
    results = []
    for eager, simulated_s, tpot_s in zip(_EAGER_SECONDS, ttft, tpot, strict=True):
        of_tpot = np.average(np.abs(np.log(tpot_s / table["tpot"].to_numpy())), weights=weights)

        def off(waits: np.ndarray, simulated_s: np.ndarray = simulated_s) -> float:
            fixed, each = np.abs(waits) * 1e-2
            return float(np.average(np.abs(np.log((simulated_s + fixed + each * prompt) / measured)), weights=weights))

        best = minimize(off, (3.0, 0.5), method="Nelder-Mead", options={"xatol": 1e-3, "fatol": 1e-6})
        results.append((best.fun + of_tpot, Waits(eager, *(np.abs(best.x) * (1e-2, 1e-5)).tolist())))
    return min(results, key=lambda result: result[0])[1]


@dataclass(frozen=True)
class Measured:
    """All points, and what the simulator makes of them.

    Args:
        points: in order.
        fits: of what engines add to a step, with each model left out.
        kernels: `judged` without what TTFT has beside kernels.
        waits: `fitted_waits`.
        documented: `judged` with them.
    """

    points: list[Point]
    fits: JudgedPoints
    kernels: pd.DataFrame
    waits: dict[str, Waits]
    documented: pd.DataFrame


@cache
def measured(folder: Path) -> Measured:
    """Return all points of a folder under what their sources document; minutes, which the workers of a test run share."""

    def compute() -> Measured:
        found, fits = points(folder), judged_points([folder / name for name in FILES])
        waits = fitted_waits(found, fits)
        return Measured(found, fits, judged(found, fits), waits, judged(found, fits, waits=waits))

    return shared("closed_loops", compute)


def errors(frame: pd.DataFrame, name: str) -> np.ndarray:
    """Relative errors of "ttft" or "tpot"."""
    return np.asarray(frame[f"simulated_{name}"] / frame[name] - 1)


def inside(frame: pd.DataFrame, name: str) -> float:
    """The share of the points whose "ttft" or "tpot" is within the interval of the steps."""
    ratio = frame[name] / frame[f"simulated_{name}"]
    return float(((ratio >= frame["low"]) & (ratio <= frame["high"])).mean())
