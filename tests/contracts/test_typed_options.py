"""Keyword arguments have types: an editor completes them, and a type checker refuses a wrong name or type in a user's file."""

from __future__ import annotations

import inspect
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any, get_type_hints

import pytest

import roofline
from roofline.predict.op import KernelOptions, OpOptions
from roofline.predict.operator_query import Dimensions, operator_names, operator_query
from roofline.predict.options import ALIASES, OPTIONS, AnalyzeOptions, SweepAxes
from roofline.predict.sweeps.axes import AXES
from roofline.serving.options import PLAN
from roofline.serving.planning.load import MODES, RANKS

ROOT = Path(__file__).resolve().parents[2]
USER = """
import roofline

result = roofline.analyze("llama-3.1-8b", "h100-sxm", batch=8, context="8k", tp=2, mask="full", memory="40 GiB")
roofline.analyze("llama-3.1-8b", "h100-sxm", batch=None)
roofline.analyze("llama-3.1-8b", "h100-sxm", bacth=8)  # wrong: name
roofline.analyze("llama-3.1-8b", "h100-sxm", batch=[1, 8])  # wrong: type
roofline.analyze("llama-3.1-8b", "h100-sxm", mask="fool")  # wrong: choice
roofline.limits("llama-3.1-8b", "h100-sxm", context="1k,4k", tpot="50 ms", kv_cache_dtype="fp8", num_speculative_tokens=3)
roofline.limits("llama-3.1-8b", "h100-sxm", batch=8)  # wrong: name
roofline.plan("llama-3.1-8b", rate=2, input_len=1024, output_len=128, ttft="2 s", tpot=0.05, rank="gpus", max_model_len="8k")
roofline.plan("llama-3.1-8b", rate=2, inputlen=1024, output_len=128)  # wrong: name
roofline.plan("llama-3.1-8b", rate=2, input_len=1024, output_len=128, rank="price")  # wrong: choice
roofline.simulate("llama-3.1-8b", "h100-sxm", workload="poisson:8", input_len="uniform:1:9", output_len=8, max_num_seqs=64)
roofline.simulate("llama-3.1-8b", "h100-sxm", workload="poisson:8", context=1024)  # wrong: name
roofline.simulate("llama-3.1-8b", "h100-sxm", workload="poisson:8", preemption="both")  # wrong: choice
roofline.preempt("llama-3.1-8b", "h100-sxm", tokens="8k", host_link="25 GB/s", block_size=32, ignore_capacity=True)
roofline.preempt("llama-3.1-8b", "h100-sxm", tokens="8k", hostlink="25 GB/s")  # wrong: name
roofline.explain("llama-3.1-8b", "max_batch", "h100-sxm", context=4096, kv_cache_dtype="fp8")
roofline.explain("llama-3.1-8b", "max_batch", "h100-sxm", kv_dtype="fp8")  # wrong: name
roofline.op("gemm", 512, 8192, 28672, hardware="h100-sxm", dtype="bf16", mfu=0.6)
roofline.op("attention", batch=32, kv_len="8k", heads=32, kv_heads=8, head_dim=128, hardware="h100-sxm")
roofline.op("gemm", m=512, n=8192, kk=28672, hardware="h100-sxm")  # wrong: name
roofline.op("gemm", 512, 8192, 28672, hardware="h100-sxm", max_model_len=5)  # wrong: name
step = roofline.compile("llama-3.1-8b", "h100-sxm", "decode", tp=2)
step(batch=[1, 8], context=1024)["time_bound_s"]
step(batch=8, contxt=1024)  # wrong: name
roofline.compile("llama-3.1-8b", "h100-sxm", "decoding")  # wrong: choice
frame = roofline.sweep(model="llama-3.1-8b", hardware=["l4", "h100-sxm"], batch="1:512:x2", tp=[1, 2], columns=["fits"])
roofline.sweep({"model": "llama-3.1-8b", "hardware": "l4"}, context=[1024])
roofline.sweep(model="llama-3.1-8b", hardware="l4", contex=[1024])  # wrong: name
"""


@pytest.mark.slow
def test_a_type_checker_refuses_wrong_names_and_types(tmp_path: Path) -> None:
    """In a user's file, exactly the lines that are wrong, by `mypy --strict`."""
    pytest.importorskip("mypy")
    path = tmp_path / "user.py"
    path.write_text(USER, encoding="utf-8")
    command = [sys.executable, "-m", "mypy", "--strict", "--config-file=", "--follow-imports=silent", "--no-error-summary"]
    done = subprocess.run(
        [*command, f"--cache-dir={tmp_path / 'cache'}", str(path)],
        capture_output=True, text=True, check=False, cwd=ROOT, env={**os.environ, "MYPYPATH": str(ROOT)}, timeout=600,
    )  # fmt: skip
    refused = {int(number) for number in re.findall(r"user\.py:(\d+): error", done.stdout)}
    wrong = {number for number, line in enumerate(USER.splitlines(), 1) if "# wrong" in line}
    assert refused == wrong, done.stdout + done.stderr


def test_every_axis_has_a_type() -> None:
    """Those of a sweep, under all their names."""
    others = {
        name for name, stands_for in ALIASES.items() if stands_for in AXES or stands_for in {ALIASES.get(x) for x in AXES}
    }
    long = {ALIASES.get(name, name) for name in AXES} - {"model", "hardware"}
    assert set(SweepAxes.__annotations__) == long | others


def test_every_dimension_has_a_type() -> None:
    """Those of all operators, under all their names; and none is called like an option."""
    entries = [entry for name in operator_names() for entry in operator_query(name).dimensions]
    names = {name for entry in entries for name in (entry.name, entry.field, *entry.aliases) if name}
    assert names == set(Dimensions.__annotations__)
    types = {"count": int, "bytes": int, "flag": bool, "choice": str, "number": float}
    hints = get_type_hints(OpOptions)
    for entry in entries:
        assert types[entry.kind] in hints[entry.name].__args__, entry


def test_types_are_those_of_the_schema() -> None:
    """Where a keyword is typed once more."""
    hints, schema = get_type_hints(KernelOptions), get_type_hints(AnalyzeOptions)
    assert hints == {name: schema[name] for name in hints}
    plan = inspect.signature(roofline.plan, eval_str=False).parameters
    for name, values in (("rank", RANKS), ("mode", MODES)):
        assert re.findall(r"'([^']+)'", plan[name].annotation.replace('"', "'")) == list(values)


@pytest.mark.parametrize(
    ("function", "named"),
    [
        (roofline.analyze, OPTIONS),
        (roofline.limits, ("kv_cache_dtype", "acceptance", "mfu")),
        (roofline.plan, ("rate", "percentile", "kv_cache_dtype")),
        (roofline.preempt, ("block_size", "ignore_capacity")),
        (roofline.simulate, ("max_num_seqs",)),
        (roofline.compile, ("tensor_parallel_size",)),
        (roofline.op, ("dtype", "mla")),
    ],
)
def test_docstrings_list_options(function: Any, named: Any) -> None:
    """With their help texts, as the command line has them."""
    for name in named:
        assert f"    {name}" in (function.__doc__ or ""), name
        assert (OPTIONS.get(name) or PLAN[name]).help in (function.__doc__ or ""), name
    assert (function.__doc__ or "").index("Options (") < (function.__doc__ or "").index("Returns:")
