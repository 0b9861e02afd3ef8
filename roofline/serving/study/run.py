"""A study carried out: each simulation by this process, by several, or by the workers of a Dask cluster."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

from roofline.documents import dump_json
from roofline.errors import InputError, RooflineError
from roofline.predict.executors import results
from roofline.predict.options import DEPLOYMENT, of_groups
from roofline.serving.simulation.simulate import simulate
from roofline.serving.simulation.step_tables import shared_tables
from roofline.serving.study.folder import RESULT, Folder
from roofline.serving.study.result import StudyResult, compare, table_csv
from roofline.serving.study.spec import Options, Point, Study
from roofline.serving.traffic.resample import resampled
from roofline.serving.traffic.trace import Trace, read_trace
from roofline.specs.prices import Prices, load_prices

_KEYS = (
    "fits", "unfit", "server", "requests", "warm_up", "duration_s", "offered_rate", "saturated", "ttft_s", "tpot_s", "itl_s",
    "e2e_s", "throughput", "goodput", "within_slo", "confidence", "classes", "fleet", "lora", "fairness",
    "utilisation", "estimate_basis",
)  # fmt: skip
"""Keys of a simulation that a run keeps: not its series and distributions, nor what all runs have in common."""


@dataclass(frozen=True, slots=True)
class Finished:
    """A run as the text of its file."""

    index: int
    text: str


def run_study(
    study: Study, path: Path | None, executor: str | None = None, progress: Callable[[int, int], None] | None = None
) -> StudyResult:
    """Carry out a study.

    Args:
        study: its simulations.
        path: folder of its runs; those that are there are not repeated. None: nothing is kept.
        executor: as of `roofline.predict.executors.results`.
        progress: called with the number of runs that are finished, and of all.

    Raises:
        InputError: a folder of something else, an executor that is not known, workers that are lost again and again.
        MissingExtraError: Dask is not installed.
    """
    report = progress or (lambda done, of: None)
    runs: dict[int, dict[str, Any]] = {}
    folder = None if path is None else Folder(path, study)
    left = list(study.points())
    if folder is not None:
        folder.prepare()
        left = []
        for point, run in folder.finished(study.points()):
            if run is None:
                left.append(point)
            else:
                runs[point.index] = run
    report(len(runs), study.num_runs)
    for one in results(partial(_work, study), left, executor, what="studies"):
        if folder is not None:
            folder.put(one.index, one.text)
        runs[one.index] = json.loads(one.text)
        report(len(runs), study.num_runs)
    result = compare(study, [runs[index] for index in range(study.num_runs)])
    if folder is not None:
        folder.tidy()
        folder.write("table.csv", table_csv(result))
        folder.write(RESULT, result.to_json() + "\n")
    return result


def _work(study: Study, point: Point) -> Finished:
    """One simulation, from the study to the text of its file."""
    options = study.options_of(point.deployment, point.policy)
    run: dict[str, Any] = {
        "study": study.digest, "index": point.index, "deployment": point.deployment, "policy": point.policy,
        "rate": point.rate, "seed": point.seed,
    }  # fmt: skip
    try:
        result = _simulated(options, point)
        devices, cost = _devices_and_cost(study, result)
    except RooflineError as error:
        run |= dict.fromkeys((*_KEYS, "hardware", "devices", "cost_per_hour")) | {"failed": str(error)}
        return Finished(point.index, dump_json(run) + "\n")
    _check_inputs(study, result["inputs"])
    run |= {"failed": None, "hardware": result["hardware"]["name"], "devices": devices, "cost_per_hour": cost}
    run |= {name: result[name] for name in _KEYS}
    return Finished(point.index, dump_json(run) + "\n")


def _devices_and_cost(study: Study, result: dict[str, Any]) -> tuple[float, float | None]:
    """Mean number of devices, and their cost per hour; None without a price."""
    hardware, replicas = result["hardware"], (result["server"] or {}).get("replicas", 1)
    if (fleet := result["fleet"]) is not None and fleet["mean_replicas"] is not None:
        replicas = fleet["mean_replicas"]
    used = [(one["hardware"]["name"], one["devices"]) for one in result.get("pools") or ()]
    used = used or [(hardware["name"], hardware["devices"] * replicas)]
    prices = [(_prices(study.price).of(name, number), number) for name, number in used]
    costs = [price.value * number for price, number in prices if price is not None]
    return sum(number for _, number in used), sum(costs) if len(costs) == len(prices) else None


def _simulated(options: Options, point: Point) -> dict[str, Any]:
    given = dict(options)
    model, hardware = given.pop("model"), given.pop("hardware")
    if (trace := given.get("trace")) is not None and given.get("workload") is None:
        given["trace"] = _trace_of(str(trace), bool(given.get("skip_bad_rows")), point.seed)
    # runs of one deployment share their tables of step times, in each process
    names = {option.name for option in of_groups(DEPLOYMENT)}
    deployment = {name: value for name, value in sorted(given.items()) if name in names}
    key = json.dumps([model, hardware, deployment], default=str)
    with shared_tables(key):
        return simulate(model, hardware, rate=point.rate, seed=point.seed, **given).to_dict()


def _check_inputs(study: Study, inputs: dict[str, Any]) -> None:
    """Make sure that a run has read the files of the study.

    Raises:
        InputError: it has not: a file was changed, or a worker has another.
    """
    known = {entry["sha256"] for entry in study.inputs.values()}
    if changed := [entry["name"] for entry in inputs.values() if entry["sha256"] not in known]:
        raise InputError(f"{changed[0]} is not the file with which the study began: it was changed, or a worker has another")


@lru_cache(maxsize=4)
def _read(path: str, skip_bad_rows: bool) -> Trace:
    return read_trace(path, skip_bad_rows)


@lru_cache(maxsize=16)
def _trace_of(path: str, skip_bad_rows: bool, seed: int) -> Trace:
    """A trace, its blocks drawn with a seed; without arrival times it is drawn from anyway."""
    trace = _read(path, skip_bad_rows)
    return resampled(trace, seed) if trace.arrived is not None else trace


@lru_cache(maxsize=4)
def _prices(price: str | None) -> Prices:
    return load_prices(price)
