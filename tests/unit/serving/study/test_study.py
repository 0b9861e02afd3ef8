"""Studies: runs are those of `simulate`, folders have the same bytes however they were made, and mistakes have their place."""

from __future__ import annotations

import csv
import hashlib
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import roofline
from roofline.errors import InputError, SpecError
from roofline.serving.simulation.simulate import simulate
from roofline.serving.study import study
from roofline.serving.study.folder import Folder, is_study_folder, load_result
from roofline.serving.study.result import StudyResult
from roofline.serving.study.run import run_study
from roofline.serving.study.spec import Study, load_study, read_study
from roofline.serving.traffic.resample import BLOCKS, resampled
from roofline.serving.traffic.trace import read_trace

CONTENT: dict[str, Any] = {
    "options": {"model": "llama-3.1-8b", "input-len": 200, "output_len": 20, "requests": 60, "ttft": "50 ms"},
    "policies": {"plain": {"scheduler": "vllm-v1"}, "two": {"scheduler": "sarathi", "replicas": 2}},
    "deployments": {"A100": {"hardware": "a100-sxm-80gb"}, "H100": {"hardware": "h100-sxm"}},
    "rates": [5, "600/min"],
    "seeds": [0, 7],
}
FILE = """\
schema_version: 1
kind: study
options:
  model: llama-3.1-8b
  hardware: a100-sxm-80gb
  input_len: 200
  output_len: 20
  requests: 30
policies:
  first: {scheduler: vllm-v1}
  second: {scheduler: sarathi}
rates: [5]
seeds: 2
"""


@pytest.fixture(scope="module")
def content() -> Study:
    """Two policies on two deployments at two rates with two seeds."""
    return read_study(CONTENT)


@pytest.fixture(scope="module")
def result(content: Study) -> StudyResult:
    """Its result, in memory."""
    return run_study(content, None)


def bytes_of(path: Path) -> dict[str, str]:
    """Every file, by a hash of what is in it."""
    return {
        str(file.relative_to(path)): hashlib.sha256(file.read_bytes()).hexdigest()
        for file in sorted(path.rglob("*"))
        if file.is_file()
    }


@pytest.mark.slow
def test_runs_are_those_of_simulate(result: StudyResult) -> None:
    """In the order of the grid, the last axis first; figures of one of them to the last digit."""
    assert result.runs == len(result.table) == 2 * 2 * 2 * 2
    points = [(row["deployment"], row["policy"], row["rate"], row["seed"]) for row in result.table]
    assert points[:3] == [("A100", "plain", 5, 0), ("A100", "plain", 5, 7), ("A100", "plain", 10, 0)]
    assert points[-1] == ("H100", "two", 10, 7)
    one = simulate(
        "llama-3.1-8b", "h100-sxm", rate=10, seed=7, input_len=200, output_len=20, requests=60, ttft="50 ms",
        scheduler="sarathi", replicas=2,
    )  # fmt: skip
    row = result.table[-1]
    assert row["ttft_s"] == one.to_dict()["ttft_s"]
    assert (row["goodput"], row["within_slo"], row["devices"]) == (one.goodput, one.within_slo, 2)
    assert row["cost_per_million_tokens"] == pytest.approx(
        row["cost_per_hour"] / one.throughput["output_tokens_per_s"] / 3600 * 1e6
    )


def test_the_comparison_is_of_all_seeds(result: StudyResult) -> None:
    """The mean of two seeds, and an interval around it: t(0.975, 1) = 12.706 (any table) times half their difference."""
    first, second = result.table[0], result.table[1]
    row = result.comparison[0]
    low, high = sorted(one["e2e_s"]["mean"] for one in (first, second))
    assert row["e2e_s.mean"]["mean"] == pytest.approx((low + high) / 2)
    assert row["e2e_s.mean"]["high"] == pytest.approx((low + high) / 2 + 12.706 * (high - low) / 2, rel=1e-4)
    assert row["e2e_s.mean"]["low"] >= 0
    assert len(result.comparison) == 8
    highest = max(result.best, key=lambda one: one["mean"])
    assert highest["difference"] is None
    assert all(one["difference"] is not None for one in result.best if one is not highest)
    assert StudyResult.from_dict(json.loads(result.to_json())).to_json() == result.to_json()
    assert len(result.to_frame()) == 16
    assert "Highest goodput" in str(result)


@pytest.mark.slow
def test_a_folder_goes_on_where_it_was(content: Study, result: StudyResult, tmp_path: Path) -> None:
    """Some runs gone, one damaged, one half written: only those are run again, and all bytes are as before."""
    path = tmp_path / "study"
    whole = run_study(content, path)
    assert whole.to_json() == result.to_json()
    before = bytes_of(path)
    assert load_result(path) == json.loads(result.to_json())
    folder = Folder(path, content)
    for index in (3, 11):
        folder.place(index).unlink()
    folder.place(5).write_text("{")
    (path / "study.json").unlink()
    (path / "runs" / ".000004.json.0badc0de").write_text("half")
    with pytest.raises(InputError, match="is not finished: run the command that began it again"):
        load_result(path)
    done: list[int] = []
    run_study(content, path, progress=lambda finished, of: done.append(finished))
    assert done == [13, 14, 15, 16]
    assert bytes_of(path) == before
    with (path / "table.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [float(row["ttft_s.p90"]) for row in rows] == [row["ttft_s"]["p90"] for row in result.table]


@pytest.mark.slow
@pytest.mark.parametrize("executor", ["processes:2", "dask"])
def test_the_same_bytes_in_any_order(executor: str, content: Study, tmp_path: Path) -> None:
    """By two processes and by a cluster."""
    if executor == "dask":
        pytest.importorskip("distributed", reason="the extra 'cluster' is not installed")
    run_study(content, tmp_path / "one")
    run_study(content, tmp_path / "other", executor)
    assert bytes_of(tmp_path / "one") == bytes_of(tmp_path / "other")


@pytest.mark.slow
def test_another_study_is_refused(tmp_path: Path) -> None:
    """With the first thing that has changed; a folder of something else too."""
    path = tmp_path / "study"
    small = {**CONTENT, "rates": [5], "seeds": 1, "deployments": {"A100": {"hardware": "a100-sxm-80gb"}}}
    run_study(read_study(small), path)
    changes: list[tuple[dict[str, Any], str]] = [
        ({"policies": {**CONTENT["policies"], "two": {"scheduler": "orca"}}}, "policies.two.scheduler|policies.two.replicas"),
        ({"rates": [5, 6]}, r"of other rates \(rates: \[5"),
        ({"options": {**CONTENT["options"], "output_len": 30}}, "options.output_len: 20 there, 30 here"),
    ]
    for change, message in changes:
        with pytest.raises(InputError, match=message):
            run_study(read_study({**small, **change}), path)
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "notes.txt").write_text("mine")
    with pytest.raises(InputError, match=r"is not empty and has no _manifest\.json"):
        run_study(read_study(small), tmp_path / "other")
    assert is_study_folder(path)
    assert not is_study_folder(tmp_path / "other")


@pytest.mark.parametrize(
    ("old", "new", "place", "message"),
    [
        (
            "{scheduler: sarathi}",
            "{sheduler: sarathi}",
            "11:12",
            "unknown option of `simulate` 'sheduler'. Did you mean scheduler",
        ),
        ("{scheduler: sarathi}", "{scheduler: sarati}", "11:12", "Did you mean sarathi"),
        ("output_len: 20", "output_len: many", "7:3", "--output-len"),
        ("requests: 30", "requests: -1", "8:3", "--requests must be at least 1, not -1"),
        ("requests: 30", "until: -5 s", "8:3", "--until: "),
        ("requests: 30", "warm_up: 2", "8:3", "--warm-up: "),
        ("requests: 30", "rate: 30", "8:3", "a study has `rates`"),
        ("requests: 30", "seed: 3", "8:3", "a study has `seeds`"),
        ("rates: [5]", "rates: [5, -1]", "12:12", "rates.1"),
        ("rates: [5]", "rates: [5, 5.0]", "12:12", "is there twice"),
        ("seeds: 2", "seeds: 123456789012", "13:1", "are more than the 100,000 runs of a study"),
        ("seeds: 2", "seeds: [1, 1]", "13:1", "different whole numbers"),
        ("  hardware: a100-sxm-80gb\n", "", "3:1", "hardware is missing"),
        ("kind: study", "kind: sweep", "1:1", "has no `kind: study`"),
        ("seeds: 2", "sedes: 2", "13:1", "Did you mean seeds"),
        ("policies:\n", "policies: 3\npolicy:\n", "10:1", "Did you mean policies"),
    ],
    ids=str,
)
def test_mistakes_have_their_place(tmp_path: Path, old: str, new: str, place: str, message: str) -> None:
    """Line and column of the key, and what is meant."""
    path = tmp_path / "study.yaml"
    assert old in FILE
    path.write_text(FILE.replace(old, new))
    with pytest.raises(SpecError) as caught:
        load_study(path)
    assert message in str(caught.value)
    assert f"{path}:{place}" in str(caught.value)


def test_a_policy_that_does_not_run_is_a_row(tmp_path: Path) -> None:
    """Too little memory on one of two deployments: why, and the others are compared."""
    made = study({
        **CONTENT, "seeds": 1, "rates": [5], "policies": ["vllm-v1"],
        "deployments": {"A100": {"hardware": "a100-sxm-80gb"}, "small": {"hardware": "a100-sxm-80gb", "memory": "12 GiB"}},
    }, output=tmp_path / "study")  # fmt: skip
    assert made.table[0]["failed"] is None
    assert "the weights alone do not fit" in made.table[1]["failed"]
    assert made.comparison[1]["goodput"] is None
    assert "1 run failed, such as vllm-v1 on small" in " ".join(str(made).split())


def test_a_trace_is_drawn_in_blocks(tmp_path: Path) -> None:
    """Seed 0 has the trace itself; others its blocks: consecutive requests stay together, with the times between them."""
    rows = "".join(f"{0.1 * number**1.1:.6f},{100 + number},{1 + number % 7}\n" for number in range(200))
    path = tmp_path / "trace.csv"
    path.write_text(f"arrived_at,num_prefill_tokens,num_decode_tokens\n{rows}")
    trace = read_trace(path)
    assert resampled(trace, 0) is trace
    other = resampled(trace, 1)
    assert len(other) == 200
    order = other.prompts - 100
    length = 200 // BLOCKS
    steps = np.diff(order.reshape(BLOCKS, length), axis=1) % 200
    assert (steps == 1).all()
    assert trace.arrived is not None
    assert other.arrived is not None
    inner = [index for index in range(1, 200) if index % length and order[index]]
    gaps, original = np.diff(other.arrived), np.diff(trace.arrived)
    assert gaps[[index - 1 for index in inner]] == pytest.approx([original[order[index] - 1] for index in inner])
    assert (resampled(trace, 1).prompts == other.prompts).all()
    assert (resampled(trace, 2).prompts != other.prompts).any()
    content = {"options": {"model": "llama-3.1-8b", "hardware": "a100-sxm-80gb", "trace": str(path)}, "policies": ["vllm-v1"]}
    made = roofline.study({**content, "rates": [8], "seeds": 3})
    means = [row["ttft_s"]["mean"] for row in made.table]
    assert means[0] == simulate("llama-3.1-8b", "a100-sxm-80gb", trace=path, rate=8).ttft_s.mean
    assert len(set(means)) == 3
    assert made.comparison[0]["goodput"] is None


def test_a_changed_file_ends_a_study(tmp_path: Path) -> None:
    """A trace that is another one than at the beginning."""
    trace = tmp_path / "trace.csv"
    trace.write_text("arrived_at,num_prefill_tokens,num_decode_tokens\n0,10,5\n1,20,5\n")
    (tmp_path / "study.yaml").write_text(FILE.replace("  input_len: 200\n  output_len: 20\n", "  trace: trace.csv\n"))
    wanted = load_study(tmp_path / "study.yaml")
    assert wanted.options["trace"] == str(trace)
    trace.write_text("arrived_at,num_prefill_tokens,num_decode_tokens\n0,10,5\n1,30,5\n")
    with pytest.raises(InputError, match=r"trace\.csv is not the file with which the study began"):
        run_study(wanted, tmp_path / "out")


def test_fairness_is_of_the_classes(tmp_path: Path) -> None:
    """Short requests get their first token in time, long prompts never do: half of the classes get everything."""
    (tmp_path / "traffic.yaml").write_text(
        "classes:\n"
        "- {name: short, rate: 2, input_len: 50, output_len: 10, ttft: 10 s}\n"
        "- {name: long, rate: 2, input_len: 4000, output_len: 10, ttft: 1 ms}\n"
    )
    made = study({
        "options": {
            "model": "llama-3.1-8b", "hardware": "a100-sxm-80gb", "workload": str(tmp_path / "traffic.yaml"), "requests": 100,
        },
        "policies": ["vllm-v1"],
    })  # fmt: skip
    assert made.table[0]["fairness"] == pytest.approx(0.5)
    assert [one["within_slo"] for one in made.table[0]["classes"]] == [1.0, 0.0]
