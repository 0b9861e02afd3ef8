"""Right files of what was measured, at random: traces of profilers, records, logs and benchmarks of engines, runs."""

from __future__ import annotations

import csv
import io
import json
import re
import shlex
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

from fuzz.choices import Alternatives, Choices, Data, command, within, written
from fuzz.kinds import ROOT, Case
from fuzz.specs import accelerators, fact
from unit.measure.profile import test_kineto as kineto
from unit.measure.profile import test_nsight_compute as compute
from unit.measure.profile import test_nsight_systems as systems

from roofline.audit.engine_logs import bench_result, engine_log
from roofline.measure.records.columns import COLUMNS

# Profiles


@cache
def _kernel_names() -> list[str]:
    text = (ROOT / "tests" / "unit" / "measure" / "profile" / "kernel_names.tsv").read_text(encoding="utf-8")
    return [line.split("\t")[2] for line in text.splitlines()[1:]]


_OPERATORS = {
    "aten::mm": [[8, 64], [64, 32]], "aten::addmm": [[32], [8, 64], [64, 32]], "aten::embedding": [[1000, 64], [8]],
    "aten::linear": [[8, 64], [32, 64], []], "aten::bmm": [[4, 8, 64], [4, 64, 8]], "aten::add": [[8, 64], [8, 64], []],
    "aten::copy_": [[8, 64], [8, 64], []], "aten::softmax": [[8, 64], [], []], "vllm::unified_attention": [[8, 64]],
}  # fmt: skip
_ANNOTATIONS = (
    "execute_context_1(512)_generation_3(3)", "execute_context_0(0)_generation_8(8)", "ProfilerStep#3", "ProfilerStep#4",
    "step[DECODE bs=4]", "gpu_model_runner: forward", "vllm::forward", "a range",
)  # fmt: skip


def torch_traces(choices: Choices) -> bytes:
    """Steps of kernels, each with its operator and launch, as PyTorch's profiler writes them."""
    events: list[Any] = [{"ph": "M", "name": "process_name", "pid": 9, "args": {"name": "python"}}]
    clock, number = choices.one(0.0, 100.0, 1.7e15), 1
    names = choices.listed(_kernel_names(), 6)
    for annotation in choices.listed(_ANNOTATIONS, 3):
        began = clock
        for name in names:
            took = choices.one(0.5, 1.0, 10.0, 123.456)
            operator = choices.one(*_OPERATORS)
            events += [
                kineto.operator(operator, clock, 5.0, number, choices.one(_OPERATORS[operator], None)),
                kineto.launch(clock + 1, number, choices.one("cudaLaunchKernel", "cudaGraphLaunch", "hipLaunchKernel")),
                kineto.kernel(name, clock + 6, took, correlation=number, **choices.one({"External id": number}, {})),
            ]
            clock, number = clock + 6 + took + choices.one(0.0, 0.25, 50.0), number + 1
        events.append(kineto.annotation(annotation, began, clock - began))
    document: Data = {
        "schemaVersion": 1,
        "deviceProperties": [{"id": 0, "name": choices.one("NVIDIA H100 80GB HBM3", "NVIDIA A100-SXM4-80GB")}],
        "traceEvents": choices.sometimes_bent(events),
    }  # fmt: skip
    return written(document)


def system_tables(choices: Choices) -> bytes:
    """A timeline or a summary of Nsight Systems, in CSV."""
    card = "NVIDIA A100-SXM4-80GB (0)"
    if choices.one(False, True):
        lines = ["Time (%),Total Time (ns),Instances,Avg (ns),Med (ns),Min (ns),Max (ns),StdDev (ns),Name"]
        for name in choices.several(_kernel_names(), 5, 1):
            count, mean = 1 + choices.upto(49), 100 + choices.upto(99900)
            lines.append(f'1.0,{count * mean},{count},{mean}.0,1,1,1,1,"{name}"')
    else:
        lines = [systems.TIMELINE.rstrip()]
        clock = 1000
        for number, name in enumerate(choices.listed(_kernel_names(), 8)):
            took = 1 + choices.upto(99999)
            lines.append(f'{clock},{took},{number},1,1,1,32,1,1,24,0.000,0.000,,,,,{card},1,{choices.one(7, 8)},"{name}"')
            clock += took + choices.upto(1000)
    return _maybe_cut(choices, "\n".join(lines) + "\n")


def system_databases(choices: Choices) -> bytes:
    """An export of Nsight Systems: kernels, the calls that launched them, and ranges around these; some values are others."""
    thread, clock = systems.PROCESS + 1, choices.one(1000, 0, 10**12)
    strings = {**systems.STRINGS, 1: choices.of(_kernel_names()), 3: choices.of(_kernel_names())}
    kernels, calls, ranges = [], [], []
    for number in range(1, 2 + choices.upto(5)):
        begins, took = clock + 100, 1 + choices.upto(100_000)
        calls.append(systems.call(clock, number, thread, choices.one(4, 7)))
        node = choices.either(4, number, None)
        kernels.append(systems.kernel(begins, begins + took, number, choices.one(1, 3), stream=choices.one(7, 8), node=node))
        if choices.one(False, True):
            text = choices.one(*_ANNOTATIONS, "aten::mm, op_id = 9, sizes = [[512, 64], [64, 8]]", None)
            ranges.append(systems.nvtx(clock - 1, clock + 200, text, thread, text_id=None if text else 6))
        clock = begins + took
    if choices.rarely(6):
        listed = choices.one(kernels, calls)
        row, at = choices.upto(len(listed) - 1), choices.upto(6)
        listed[row] = (*listed[row][:at], choices.one(None, -1, "many", 2**62, 0.5), *listed[row][at + 1 :])
    tables = {
        "CUPTI_ACTIVITY_KIND_KERNEL": (systems.KERNEL, kernels), "CUPTI_ACTIVITY_KIND_RUNTIME": (systems.RUNTIME, calls),
        "NVTX_EVENTS": (systems.NVTX, ranges), "TARGET_INFO_GPU": (systems.GPU, [(0, 0, "NVIDIA H100 80GB HBM3", "", 132, 0)]),
    }  # fmt: skip
    wanted = ["CUPTI_ACTIVITY_KIND_KERNEL", *choices.several(list(tables)[1:], 3)]
    with tempfile.TemporaryDirectory() as folder:
        path = systems.export(Path(folder) / "report.sqlite", {name: tables[name] for name in wanted}, strings)
        return path.read_bytes()


def _maybe_cut(choices: Choices, text: str) -> bytes:
    """One in ten cut off."""
    return text[: choices.upto(len(text))].encode() if choices.rarely(10) else text.encode()


def compute_pages(choices: Choices) -> bytes:
    """A raw page of Nsight Compute."""
    units = {compute.DURATION: choices.one("usecond", "nsecond", "ms"), compute.READ: "Mbyte", compute.WRITE: "Kbyte"}
    units |= choices.some({compute.BF16: ("",), compute.FFMA: ("inst",), "lts__t_bytes.sum": ("Mbyte",)})
    kernels = []
    for name in choices.listed(_kernel_names(), 5):
        cells = {key: choices.one(f"{choices.upto(10**7):,}", f"{choices.upto(10**5) / 100}") for key in units} | {
            compute.DURATION: str((1 + choices.upto(10**5)) / 10)
        }
        kernels.append((name, cells))
    return _maybe_cut(
        choices, choices.one("", compute.CONNECTED) + compute.raw(units, *kernels, cc=choices.one("9.0", "8.0", "10.0"))
    )


def of_profiles(choices: Choices) -> Case:
    """A trace of one of the three profilers, alone or beside a model."""
    name, draw = choices.one(
        ("trace_json", torch_traces), ("stats_csv", system_tables), ("report_csv", compute_pages),
        ("report_sqlite", system_databases),
    )  # fmt: skip
    data = draw(choices)
    line = f"profile {name.replace('_', '.')} --hardware {choices.one('h100-sxm', 'a100-sxm-80gb')}"
    return command(line + (" --model gpt2" if choices.rarely(8) else ""), **{name: data})


# Measured: records, engine logs, benchmarks, runs

_OPS: dict[str, dict[str, Alternatives]] = {
    "gemm": {"m": within(1, 4096), "n": within(1, 4096), "k": within(1, 4096)},
    "copy_d2d": {"bytes": lambda choices: choices.whole(1, 30) * 2**20},
    "add": {"tokens": within(1, 4096), "hidden": within(1, 4096)},
    "rmsnorm": {"tokens": within(1, 4096), "hidden": within(1, 4096)},
    "silu_mul": {"tokens": within(1, 4096), "inter": within(1, 4096)},
    "embedding": {"tokens": within(1, 4096), "hidden": within(1, 4096), "n": within(1, 4096)},
    "rope": {"tokens": within(1, 4096), "n_heads": (8, 16), "n_kv_heads": (1, 8), "head_dim": (64, 128)},
    "attention_decode": {
        "batch": within(1, 64), "q_len": (1,), "kv_len": within(1, 4096), "n_heads": (8, 16), "n_kv_heads": (1, 8),
        "head_dim": (64, 128),
    },
    "moe": {
        "tokens": within(1, 4096), "hidden": (64, 256), "inter": (64, 256), "experts": (8, 16), "topk": (1, 2),
        "distribution": ("balanced", "uniform", ""),
    },
    "all_reduce": {"bytes": lambda choices: choices.whole(1, 30) * 2**20, "world": (2,)},
}  # fmt: skip


def records(choices: Choices) -> tuple[bytes, bytes]:
    """Rows of a few ops, and the hardware that they were measured on."""
    rows = []
    for _ in range(1 + choices.upto(7)):
        op = choices.one(*_OPS)
        row = {"source": "drawn", "gpu": "drawn", "op": op, "dtype": choices.one("bf16", "fp32", "fp16"), "backend": "torch"}
        row |= {name: choices.of(values) for name, values in _OPS[op].items()}
        median = choices.whole(1, 10**6) / 10
        row |= {"latency_us": median, **choices.some({"latency_p10_us": (median * 0.9,), "latency_p90_us": (median * 1.2,)})}
        rows.append(row | choices.some({"cache": ("cold", "warm"), "version": ("2.9",), "notes": ("a note",)}, 1))
    if choices.rarely(6):
        rows = [row for row in choices.bent(rows) if isinstance(row, dict)]
    out = io.StringIO()
    used = [name for name in COLUMNS if any(name in row for row in rows)] or list(COLUMNS)
    table = csv.DictWriter(out, used, extrasaction="ignore", lineterminator="\n")
    table.writeheader()
    table.writerows(rows)
    card = accelerators(choices)
    card["peak_flops"] |= {name: fact(choices, 1, 100, "TFLOP/s") for name in ("fp32", "fp16")}
    card["links"] = [{"name": "between", "per_direction": fact(choices, 1, 100, "GB/s")}]
    return out.getvalue().encode(), written(choices.sometimes_bent(card) if choices.one(False, True) else card)


def of_records(choices: Choices) -> Case:
    """Validated; one in thirty fitted."""
    rows, card = records(choices)
    fitted = "calibrate here/records.csv --hardware here/hardware.yaml --backend torch -o fit.yaml"
    line = fitted if choices.rarely(30) else "validate here"
    return command(line, here__records_csv=rows, here__hardware_yaml=card)


_NUMBER = re.compile(r"(?<![\w.:-])\d[\d,]*(?:\.\d+)?(?= ?(?:GiB|GB|MiB|tokens|x\b|[,)]|$))", re.MULTILINE)


def engine_logs(choices: Choices) -> tuple[str, bytes]:
    """A log of an engine with other sizes of memory and caches, or without a line that is no other's; its name, and it."""
    path = choices.one(*sorted((ROOT / "tests" / "samples" / "engine_logs").glob("*.log")))
    text = path.read_text(encoding="utf-8")
    for match in sorted(choices.several(_NUMBER.finditer(text), 3), key=lambda one: -one.start()):
        value = float(match[0].replace(",", "")) * choices.one(1, 2, 0.5, 1.1, 0.9)
        new = f"{value:.2f}" if "." in match[0] else f"{value:,.0f}" if "," in match[0] else f"{value:.0f}"
        text = text[: match.start()] + new + text[match.end() :]
    lines = text.splitlines(keepends=True)
    if choices.rarely(5):
        del lines[choices.upto(len(lines) - 1)]
    if choices.rarely(5):
        lines.insert(choices.upto(len(lines)), "INFO another line: 5 of 7 requests\n")
    return path.name, "".join(lines).encode()


def benches(choices: Choices) -> tuple[str, bytes]:
    """A benchmark's result with other numbers; the ending of its name, and it."""
    folder = ROOT / "tests" / "samples" / "engine_logs"
    path = choices.one(*sorted(folder.glob("*.json*")))
    rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    row = choices.one(*rows)
    numbers = [key for key, value in row.items() if isinstance(value, int | float) and not isinstance(value, bool)]
    for key in choices.several(numbers, 3):
        row[key] = type(row[key])(choices.one(1, 2, 0.5, 1.1) * row[key]) if row[key] < 1e300 else row[key]
    return path.suffix, json.dumps(choices.sometimes_bent(row)).encode() + b"\n"


def of_comparisons(choices: Choices) -> Case:
    """A log or a benchmark beside a prediction."""
    model = "compare llama-3.1-8b"
    if choices.upto(2):
        name, data = engine_logs(choices)
        return command(
            f"{model if name.startswith('trtllm') else 'compare'} --engine-log e.log --hardware h100-sxm", e_log=data
        )
    suffix, data = benches(choices)
    line = f"{model if suffix == '.jsonl' else 'compare'} --bench bench{suffix} --hardware h100-sxm"
    return Case(tuple(shlex.split(line)), {f"bench{suffix}": data})


def read_comparison(case: Case) -> None:
    """What the command reads of its files."""
    (name,) = case.files
    (engine_log if name == "e.log" else bench_result).read(name)


def of_runs(choices: Choices) -> Case:
    """A measured run, looked at or served again."""
    clock, rows = choices.one(0.0, 5000.0, 1.7e9), []
    for _ in range(1 + choices.upto(7)):
        clock += choices.one(0.0, 0.25, 1.0)
        first = clock + choices.one(0.01, 0.5, 2.0)
        answer = choices.whole(1, 60)
        rows.append({
            "input_toks": choices.whole(1, 900), "output_toks": answer, "queued_ts": clock, "first_token_ts": first,
            "last_token_ts": first + (answer > 1) * choices.one(0.1, 1.5),
        })  # fmt: skip
    meta: Data = {
        "model": choices.one("meta-llama/Llama-3.2-1B", "openai-community/gpt2"),
        "vllm_version": choices.one("0.19.0", "0.10.2"),
        "engine_kwargs": {"max_num_seqs": choices.one(64, 8), "dtype": "torch.bfloat16", "max_num_batched_tokens": 2048},
        "hardware": {"device_name": "NVIDIA GeForce RTX 4090", "device_total_memory_bytes": 25250627584},
        **choices.some({"kv_cache": ({"num_gpu_blocks": 2588, "block_size": 16}, {"enable_prefix_caching": True})}, 1),
    }  # fmt: skip
    if choices.rarely(6):
        rows = [row for row in choices.bent(rows) if isinstance(row, dict)]
    files = {"run__requests_jsonl": "".join(json.dumps(row) + "\n" for row in rows).encode()}
    line = choices.either(15, "replay run --basis bound", "trace run")
    return command(line, **files, run__meta_json=written(choices.sometimes_bent(meta)))
