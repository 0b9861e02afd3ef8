"""Measured against predicted: bounds by hand, groups, what was faster than possible, and what the command says."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from roofline.errors import InputError
from roofline.measure.validate import to_dict, validate

COLUMNS = (
    *(
        "gpu",
        "op",
        "dtype",
        "kv_dtype",
        "inter",
        "experts",
        "topk",
        "moe_tp",
        "m",
        "n",
        "k",
        "batch",
        "q_len",
        "kv_len",
        "n_heads",
        "n_kv_heads",
        "head_dim",
        "window",
        "tokens",
    ),
    *("hidden", "bytes", "world", "latency_us", "backend", "kernel", "cache", "chunk_bytes"),
    *("counters_dram_bytes", "counters_flops"),
)
# 1 TFLOP/s, 100 GB/s, a cache of 1 MiB: figures to reckon with in the head.
SIMPLE = """
schema_version: 1
kind: accelerator
name: simple
title: Simple
vendor: test
architecture: test
peak_flops:
  bf16: {value: 1 TFLOP/s, source: us}
  fp32: {value: 1 TFLOP/s, source: us}
memory:
  type: test
  label: {value: 1 GB, source: us}
  bandwidth: {value: 100 GB/s, source: us}
l2: {value: 1 MiB, source: us}
links: [{name: NVLink of a test, per_direction: {value: 10 GB/s, source: us}}]
host_link: {name: bus, per_direction: {value: 20 GB/s, source: us}}
sources: {us: {title: this test}}
"""


def record(**cells: object) -> str:
    """A line of a table."""
    row = {"gpu": "simple", "dtype": "bf16", "backend": "torch", **cells}
    return ",".join(str(row.get(name, "")) for name in COLUMNS)


def folder_of(folder: Path, *lines: str) -> Path:
    """Records with their hardware.yaml beside them."""
    folder.mkdir(exist_ok=True)
    (folder / "records.csv").write_text("\n".join([",".join(COLUMNS), *lines]) + "\n", encoding="utf-8")
    (folder / "hardware.yaml").write_text(SIMPLE, encoding="utf-8")
    return folder


def bounds(folder: Path, *lines: str) -> list[float]:
    """Predicted microseconds of each row."""
    found = validate([folder_of(folder, *lines)])
    assert found.refused == 0
    return [round(seconds * 1e6, 6) for seconds in found.frame["bound_s"]]


GEMM = {"op": "gemm", "m": 1000, "n": 1000, "k": 1000}


def test_bounds_by_hand(tmp_path: Path) -> None:
    """Each by one division.

    2e9 FLOP at 1 TFLOP/s; 16,000 B over 100 GB/s; twice 1e6 B, or once; 2*(3/4)*1e6 B at 10 GB/s; 1e6 B at 20 GB/s.
    """
    assert bounds(
        tmp_path,
        record(**GEMM, latency_us=3000),
        record(op="add", tokens=2, hidden=1333, latency_us=1, dtype="fp32"),
        record(op="copy_d2d", bytes=1_000_000, latency_us=100, dtype="fp32", kernel="copy"),
        record(op="copy_d2d", bytes=1_000_000, latency_us=100, dtype="fp32", kernel="read"),
        record(op="all_reduce", bytes=1_000_000, world=4, latency_us=1000),
        record(op="copy_h2d", bytes=1_000_000, chunk_bytes=1000, latency_us=100, dtype="fp32"),
    ) == [2000.0, 2 * 1333 * 3 * 4 / 1e5, 20.0, 10.0, 150.0, 50.0]


def test_order_and_structure_of_rows_do_not_matter(tmp_path: Path) -> None:
    """Windowed and whole decode, mixed: each row gets its own bound, in the order of the file.

    K and V of 8 heads of 100 in 2 B: 3,200 B a token, of 1,000 or of the last 10; queries and outputs 2 x 1,600 B."""
    heads = {"batch": 1, "q_len": 1, "n_heads": 8, "n_kv_heads": 8, "head_dim": 100, "latency_us": 100}
    lines = [record(op="attention_decode", kv_len=1000, window=window, **heads) for window in (0, 10, 0, 10)]
    whole, windowed = (1000 * 3200 + 3200) / 1e5, (10 * 3200 + 3200) / 1e5
    assert bounds(tmp_path, *lines) == [whole, windowed, whole, windowed]


def test_errors_are_of_predicted_against_measured(tmp_path: Path) -> None:
    """2 ms predicted; 4, 5 and 8 ms measured: -50 %, -60 %, -75 %.

    The accelerator's vendor, "test", has no fits, and fits of other vendors are not transferred: the estimate is the prior's.
    """
    lines = [record(**GEMM, latency_us=latency) for latency in (4000, 5000, 8000)]
    found = to_dict(validate([folder_of(tmp_path, *lines)]))
    (group,) = found["groups"]
    assert group["bound"] == pytest.approx({"median_ape": 0.6, "mape": (0.5 + 0.6 + 0.75) / 3, "bias": -0.6})
    assert (group["n"], group["ratio"], group["regime"]) == (3, 2.5, "m>512")
    assert group["estimate"]["bias"] > group["bound"]["bias"]  # the prior reaches a share of the peak
    assert found["worst"][0]["stands_on"] == "no measurements: prior gemm (prior)"
    assert found["worst"][0]["measured_s"] == pytest.approx(0.008)


def test_regimes(tmp_path: Path) -> None:
    """Products by their rows, everything else by its time."""
    lines = [record(op="gemm", m=m, n=1000, k=1000, latency_us=5000) for m in (64, 65, 512, 513)]
    lines += [record(op="add", tokens=1, hidden=8, latency_us=latency) for latency in (14.9, 15, 100, 100.1)]
    found = validate([folder_of(tmp_path, *lines)]).frame["regime"].tolist()
    assert found == ["m<=64", "m 65-512", "m 65-512", "m>512", "<15 us", "15-100 us", "15-100 us", ">100 us"]


COPY = {"op": "copy_d2d", "dtype": "fp32", "bytes": 500_000, "latency_us": 5}


@pytest.mark.parametrize(
    ("row", "why"),
    [
        ({**GEMM, "latency_us": 2000}, ""),
        ({**GEMM, "latency_us": 1950}, "within 5 %: noise of clocks and timing"),
        ({**GEMM, "latency_us": 1000}, "unexplained"),
        ({**GEMM, "latency_us": 3}, "over 100 times too fast: latency_us or a dimension in another unit"),
        (COPY, "all bytes of the record fit in the L2 cache, which was not flushed"),
        (
            {**COPY, "bytes": 2_000_000, "latency_us": 30},
            "a part of the record's bytes fits in the L2 cache, which was not flushed",
        ),
        ({**COPY, "cache": "cold"}, "unexplained"),
        (
            {"op": "all_reduce", "bytes": 1_000_000, "world": 4, "latency_us": 110},
            "a switch that sums what passes it sends less than a ring",
        ),
        ({"op": "all_reduce", "bytes": 1_000_000, "world": 4, "latency_us": 90}, "unexplained"),
        ({"op": "all_reduce", "bytes": 1_000_000, "world": 2, "latency_us": 90}, "unexplained"),
    ],
)
def test_faster_than_possible(row: dict[str, Any], why: str, tmp_path: Path) -> None:
    """The likeliest reason; what is cold cannot blame the cache."""
    assert validate([folder_of(tmp_path, record(**row))]).frame["why"].tolist() == [why]


def test_activations_between_operators(tmp_path: Path) -> None:
    """A layer that takes as long as its weights and cache alone kept the rest on the chip."""
    row = {"op": "layer", "kernel": "llama-3.1-8b", "batch": 64, "q_len": 1, "kv_len": 64, "cache": "cold"}
    whole = validate([folder_of(tmp_path, record(**row, latency_us=1e6))]).frame.iloc[0]
    assert whole["floor_s"] < whole["bound_s"]
    between = (whole["floor_s"] + whole["bound_s"]) / 2 * 1e6
    found = validate([folder_of(tmp_path, record(**row, latency_us=between))]).frame["why"].tolist()
    assert found == ["activations stayed in a cache from one operator to the next"]


def test_counters_against_predictions(tmp_path: Path) -> None:
    """6 MB predicted and 9 MB counted; FLOP as predicted."""
    counted = {"counters_dram_bytes": 9_000_000, "counters_flops": 2_000_000_000}
    lines = [record(**GEMM, latency_us=5000, **counted), record(**GEMM, latency_us=6000)]
    (found,) = to_dict(validate([folder_of(tmp_path, *lines)]))["counters"]
    assert (found["op"], found["n"], found["bytes_ratio"], found["flops_ratio"]) == ("gemm", 1, 1.5, 1.0)


def test_hardware_of_a_record(tmp_path: Path) -> None:
    """A shipped id, the file beside the records, or neither, which is refused by line."""
    lines = [record(**GEMM, latency_us=5000), record(**{**GEMM, "gpu": "h100-sxm"}, latency_us=5000)]
    lines += [record(**{**GEMM, "gpu": "h100"}, latency_us=5000), record(**{**GEMM, "gpu": "nonsuch"}, latency_us=5000)]
    found = validate([folder_of(tmp_path, *lines)])
    assert found.frame["hardware"].tolist() == ["simple", "h100-sxm"]
    assert [refusal.line for refusal in found.refusals] == [4, 5]
    assert "ambiguous" in found.refusals[0].why
    assert "unknown hardware 'nonsuch'" in found.refusals[1].why


def test_only_the_hardware_that_was_named(tmp_path: Path) -> None:
    """Other rows are left out and counted, not refused."""
    lines = [record(**GEMM, latency_us=5000), record(**{**GEMM, "gpu": "h100-sxm"}, latency_us=5000)]
    found = validate([folder_of(tmp_path, *lines)], ("h100-sxm",))
    assert (found.frame["hardware"].tolist(), found.other_hardware, found.refused) == (["h100-sxm"], {"simple": 1}, 0)
    with pytest.raises(
        InputError, match=r"2 rows are of other hardware \(h100-sxm, simple\)|2 rows are of other hardware \(simple, h100-sxm\)"
    ):
        validate([folder_of(tmp_path, *lines)], ("a100-sxm-80gb",))


def test_a_dtype_that_the_hardware_does_not_multiply(tmp_path: Path) -> None:
    """Refused by name; fp8 weights are multiplied in the dtype of the activations instead, which has a peak."""
    lines = [record(**{**GEMM, "dtype": "fp16"}, latency_us=5000), record(**{**GEMM, "dtype": "fp8"}, latency_us=5000)]
    found = validate([folder_of(tmp_path, *lines)])
    assert len(found.frame) == 1
    assert "'fp16'" in found.refusals[0].why


def test_only_one_backend(tmp_path: Path) -> None:
    """By its name."""
    lines = [record(**GEMM, latency_us=5000), record(**{**GEMM, "backend": "vllm"}, latency_us=5000)]
    found = validate([folder_of(tmp_path, *lines)], backend="vllm")
    assert (len(found.frame), found.other_backend) == (1, {"torch": 1})


def test_nothing_left(tmp_path: Path) -> None:
    """Where every row is refused, the reasons are the error."""
    with pytest.raises(InputError, match=r"records\.csv:2: latency_us: -1"):
        validate([folder_of(tmp_path, record(**GEMM, latency_us=-1))])


def test_json_is_finite(tmp_path: Path) -> None:
    """Everything in the answer is JSON, and says where each row stands."""
    found = to_dict(validate([folder_of(tmp_path, record(**GEMM, latency_us=1000), record(**GEMM, latency_us=9000))]))
    json.dumps(found, allow_nan=False)
    (row,) = found["beneath_bound"]
    assert (row["line"], row["dims"], row["ratio"]) == (2, {"m": 1000, "n": 1000, "k": 1000}, pytest.approx(0.5))


def test_rows_with_and_without_a_count_do_not_mix(tmp_path: Path) -> None:
    """A row whose experts are divided over four devices keeps its four, whatever its neighbours leave empty."""
    numbers = {"op": "moe", "tokens": 64, "hidden": 512, "inter": 1024, "experts": 8, "topk": 2, "latency_us": 1e5}
    divided, whole = record(**numbers, moe_tp=4), record(**numbers)
    alone = bounds(tmp_path, divided)
    assert bounds(tmp_path, divided, whole, divided) == [alone[0], bounds(tmp_path, whole)[0], alone[0]]


def test_names_of_drivers_and_rows_without_a_name(tmp_path: Path) -> None:
    """The driver's name is an id too; hardware that the user named stands for rows that name none."""
    named = validate([folder_of(tmp_path, record(**{**GEMM, "gpu": "NVIDIA H100 80GB HBM3"}, latency_us=5000))])
    assert named.frame["hardware"].tolist() == ["h100-sxm"]
    nameless = folder_of(tmp_path, record(**{**GEMM, "gpu": ""}, latency_us=5000))
    assert validate([nameless], ("h100-sxm",)).frame["hardware"].tolist() == ["h100-sxm"]
    with pytest.raises(InputError, match="gpu is empty: name the hardware there, or with --hardware"):
        validate([nameless])


def test_a_broken_hardware_file_beside_records(tmp_path: Path) -> None:
    """It matters to those that need it alone."""
    folder = folder_of(tmp_path, record(**GEMM, latency_us=5000), record(**{**GEMM, "gpu": "h100-sxm"}, latency_us=5000))
    (folder / "hardware.yaml").write_text("kind: accelerator\n")
    found = validate([folder])
    assert found.frame["hardware"].tolist() == ["h100-sxm"]
    assert "hardware.yaml" in found.refusals[0].why
    (folder / "hardware.yaml").unlink()
    assert "--suite ceilings" in validate([folder]).refusals[0].why


def test_dtypes_of_the_cache(tmp_path: Path) -> None:
    """An fp8 cache halves what is read, and a group says which caches are in it."""
    heads = {"op": "attention_decode", "batch": 1, "q_len": 1, "kv_len": 1000, "n_heads": 8, "n_kv_heads": 8, "head_dim": 100}
    lines = [record(**heads, latency_us=100), record(**heads, kv_dtype="fp8", latency_us=100)]
    found = validate([folder_of(tmp_path, *lines)])
    first, second = found.frame["bound_s"] * 1e6
    assert (round(first, 6), round(second, 6)) == (32.032, 16.032)  # 3.2 or 1.6 MB of keys and values, 3.2 kB beside them
    assert to_dict(found)["groups"][0]["kv_dtypes"] == ["fp8"]
