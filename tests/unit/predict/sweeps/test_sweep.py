"""Rows of a sweep against `analyze`, one by one; parts; what is refused."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import roofline
from roofline.errors import InputError, SpecError, UnknownNameError
from roofline.predict.sweeps import sweep
from roofline.predict.sweeps.spec import Sweep, is_sweep_file, load_sweep_file

GRID: dict[str, Any] = {
    "model": ["llama-3.1-8b", "mixtral-8x7b"],
    "hardware": ["l4", "dgx-h100"],
    "phase": "both",
    "tp": [1, 2, 3],
    "kv_cache_dtype": [None, "fp8"],
    "batch": "1:64:x8",
    "input_len": "100,3000",
    "context": "0,1000,30000",
}


@pytest.fixture(scope="module")
def frame() -> pd.DataFrame:
    return sweep(GRID)


@pytest.mark.slow
def test_rows_are_those_of_analyze(frame: pd.DataFrame) -> None:
    """Twenty at random, every number."""
    chance = random.Random(7)  # noqa: S311 - seeded on purpose
    for index in chance.sample(range(len(frame)), 20):
        row = frame.iloc[index]
        lengths = {"context": int(row["context"])} if row["phase"] == "decode" else {"input_len": int(row["input_len"])}
        given = {
            "tp": int(row["tp"]),
            "batch": int(row["batch"]),
            "kv_cache_dtype": None if pd.isna(row["kv_cache_dtype"]) else row["kv_cache_dtype"],
        }
        found = roofline.analyze(row["model"], row["hardware"], phase=row["phase"], **lengths, **given)
        (step,) = found.phases
        assert bool(row["fits"]) == found.memory.fits
        assert row["kv_dtype"] == found.deployment["kv_dtype"]
        assert row["weight_dtype"] == found.deployment["weight_dtype"]
        assert row["devices"] == found.hardware["devices"]
        assert row["arithmetic_intensity"] == pytest.approx(step.cost.arithmetic_intensity, rel=1e-12)
        wanted = {f"time_{end}_s": getattr(step.time, end) for end in ("bound", "estimate", "low", "high")}
        wanted |= {"tokens_per_s": step.tokens_per_s.bound, "tokens_per_s_estimate": step.tokens_per_s.estimate}
        for name, value in wanted.items():
            if value is None:
                assert pd.isna(row[name]), name
            else:
                assert row[name] == pytest.approx(value, rel=1e-12), name
        if found.memory.fits:
            assert row["bound_by"] == step.bound_by


def test_every_point_has_a_row_or_a_reason(frame: pd.DataFrame) -> None:
    """2 models x 2 devices x 2 formats x 3 batches x (2 prompts + 3 contexts), for each size that works; 3 does not."""
    assert len(frame) == 2 * 2 * 2 * (3 * 2 + 3 * 3) * 2
    refused = frame.attrs["refused"]
    assert sum(entry["points"] for entry in refused) == 2 * 2 * 2 * 15
    assert {entry["configuration"]["tp"] for entry in refused} == {3}
    assert "Sizes that work: 1, 2, 4, 8, 16, 32" in refused[0]["why"]


def test_a_prompt_has_no_context_and_a_decode_step_no_prompt(frame: pd.DataFrame) -> None:
    assert frame.loc[frame["phase"] == "prefill", "context"].isna().all()
    assert frame.loc[frame["phase"] == "decode", "input_len"].isna().all()
    assert "input_len" not in sweep({"model": "gpt2", "hardware": "l4", "context": 5}).columns


def test_what_does_not_fit_has_no_times(frame: pd.DataFrame) -> None:
    """Unless they are asked for."""
    unfit = frame[~frame["fits"]]
    assert len(unfit) > 10
    assert unfit[["time_bound_s", "time_estimate_s", "tokens_per_s"]].isna().all(axis=None)
    assert unfit["memory_bytes"].notna().all()
    everywhere = sweep({**GRID, "tp": 1}, ignore_capacity=True, columns=["time_bound_s", "fits"])
    assert everywhere["time_bound_s"].notna().all()
    assert not everywhere["fits"].all()


def test_stages_have_times_through_all_of_them() -> None:
    found = sweep({"model": "llama-3.1-70b", "hardware": "dgx-h100", "tp": 2, "pp": [1, 2, 4], "batch": 8, "context": "1k"})
    for _, row in found.iterrows():
        step = roofline.analyze(
            "llama-3.1-70b", "dgx-h100", tp=2, pp=int(row["pp"]), batch=8, context="1k", phase="decode"
        ).decode
        for end in ("bound", "estimate", "low", "high"):
            value = getattr(step.pipeline, end)
            assert pd.isna(row[f"step_{end}_s"]) if value is None else row[f"step_{end}_s"] == pytest.approx(value, rel=1e-12)


@pytest.mark.parametrize("most", [1, 2, 5, 7, 100])
def test_parts_cover_the_grid_in_its_order(most: int) -> None:
    """Each point once, however many a part has; and the rows are the same."""
    grid = {
        "model": "gpt2",
        "hardware": ["l4", "t4"],
        "batch": "1:5",
        "context": "0:300:100",
        "phase": "both",
        "input_len": "10,20,30",
    }
    asked = Sweep.of(grid, part_rows=most, columns=["flops"])
    found = [part.points for part in asked.parts()]
    assert sum(found) == asked.points == 2 * 5 * (4 + 3)
    assert max(found) <= most
    assert [part.index for part in asked.parts()] == list(range(len(found)))
    assert max(box.points for box in asked.boxes()) <= most
    from roofline.predict.sweeps.run import collect

    pd.testing.assert_frame_equal(collect(asked), sweep(grid, columns=["flops"]))


def test_engine_limits_leave_rows_out() -> None:
    """A batch that the engine does not take, a sequence that is too long, a context shorter than the shared prefix."""
    grid = {
        "model": "gpt2", "hardware": "l4", "max_num_seqs": 4, "max_model_len": 512, "shared_prefix": 100, "batch": [4, 5],
        "context": [50, 100, 511, 512],
    }  # fmt: skip
    found = sweep(grid)
    assert list(zip(found["batch"], found["context"], strict=True)) == [(4, 100), (4, 511)]
    (refused,) = found.attrs["refused"]
    assert refused["points"] == 6
    assert refused["why"] == "max_num_seqs is 4 a replica, max_model_len is 512, a prefix of 100 tokens is shared"


def test_loaded_specs_are_as_good_as_names() -> None:
    model, hardware = roofline.load_model("gpt2"), roofline.load_hardware("l4")
    by_name = sweep({"model": "gpt2", "hardware": "l4", "batch": [1, 2]})
    pd.testing.assert_frame_equal(sweep({"model": model, "hardware": [hardware], "batch": [1, 2]}), by_name)


@pytest.mark.parametrize(
    ("grid", "message"),
    [
        ({"model": "gpt2", "hardware": "l4", "tp": [5, 7]}, "no point of the grid can be: tensor-parallel size 5"),
        ({"model": "gpt2,gpt2", "hardware": "l4"}, "twice"),
        ({"model": "gpt2", "hardware": ["h100-sxm", "h100_sxm"]}, "has already"),
        ({"model": "gtp2", "hardware": "l4"}, "gpt2"),
        ({"model": "gpt2", "hardware": "l4", "batch": "1:1M:100", "context": "0:1M:100"}, "do not fit into one table"),
    ],
)
def test_grids_of_which_nothing_can_be(grid: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        sweep(grid)


def test_values_that_no_configuration_could_have() -> None:
    """They are refused at once, also beside others of their axis; what one configuration cannot have leaves out its rows."""
    refused = {
        "quantization": (["fp8", "fp9"], "axis 'quantization': .*unknown .*fp9"),
        "bandwidth": (["1 TB/s", "1 TFLOP/s"], "axis 'bandwidth': --bandwidth: .*GB/s"),
        "gpu_memory_utilization": ([0.9, 1.5], "axis 'gpu_memory_utilization': --gpu-memory-utilization must be .*1.5"),
    }
    for name, (values, message) in refused.items():
        with pytest.raises(InputError, match=message):
            sweep({"model": "gpt2", "hardware": "l4", name: values})
    assert set(sweep({"model": "gpt2", "hardware": "l4", "tp": [1, 5]}, columns=["flops"])["tp"]) == {1}


def test_columns_are_checked() -> None:
    with pytest.raises(UnknownNameError, match="fits"):
        sweep({"model": "gpt2", "hardware": "l4"}, columns=["fit"])


@pytest.mark.every_case
@pytest.mark.parametrize(
    ("options", "axis", "phase", "values", "left"),
    [
        ({"max_num_seqs": 4}, "batch", "decode", [4, 5], [4]),
        ({"max_num_seqs": 4, "dp": 2}, "batch", "decode", [7, 8, 9], [7, 8]),
        ({"max_model_len": 100}, "context", "decode", [98, 99, 100], [98, 99]),  # and the new token
        ({"max_model_len": 100}, "input_len", "prefill", [99, 100, 101], [99, 100]),
        ({"shared_prefix": 50}, "context", "decode", [49, 50, 60], [50, 60]),
        ({"cached_prefix": 50}, "input_len", "prefill", [49, 50, 51], [51]),
        ({"shared_prefix": 50, "prefix_hit": 0.5}, "input_len", "prefill", [99, 100, 1], [100, 1]),  # 49 of 99 are cached
    ],
)
def test_limits_leave_points_out(options: dict[str, Any], axis: str, phase: str, values: list[int], left: list[int]) -> None:
    """Those at the limit are there, and every point that is not is refused with a reason."""
    grid = {"model": "llama-3.2-1b", "hardware": "dgx-h100", "phase": phase, "batch": [2], **options, axis: values}
    found = sweep(grid, columns=["time_bound_s"])
    assert found[axis].tolist() == left
    refused = found.attrs["refused"]
    assert sum(entry["points"] for entry in refused) == len(values) - len(left)
    for value, seconds in zip(left, found["time_bound_s"], strict=True):
        lengths = {"context": 1024} if phase == "decode" else {"input_len": 1024}
        step = roofline.analyze("llama-3.2-1b", "dgx-h100", phase=phase, **{**lengths, "batch": 2, **options, axis: value})
        assert seconds == pytest.approx(step.phases[0].time.bound, rel=1e-12)


def test_a_wrong_axis_in_a_file_has_its_place(tmp_path: Path) -> None:
    """The line and the column of the axis; a file without one is read as it is."""
    path = tmp_path / "sweep.yaml"
    text = "schema_version: 1\nkind: sweep\ngrid:\n  model: gpt2\n  hardware: l4\n  batch: {}\n"
    path.write_text(text.format("1:8:x2"), encoding="utf-8")
    assert is_sweep_file(path)
    assert load_sweep_file(path).grid["batch"] == "1:8:x2"
    path.write_text(text.format("8:1"), encoding="utf-8")
    with pytest.raises(SpecError, match="is no range") as error:
        load_sweep_file(path)
    assert (error.value.line, error.value.column) == (6, 3)
    path.write_text("kind: other", encoding="utf-8")
    assert not is_sweep_file(path)
    assert not is_sweep_file(tmp_path / "none.yaml")
    assert not is_sweep_file(tmp_path / "sweep.json")
