"""Measured serving points against the closed loop: TPOT at a given concurrency.

A table (CSV or Parquet) with one row per point. The columns are those of AIConfigurator's measurements: `backend`,
`model_path`, `system`, `batch_size` (the clients of one attention-DP rank), `isl`, `osl`, `tp_size`, `silicon_tpot_ms`; and,
where they are there, `backend_version`, `gemm_quant_mode`, `pp_size`, `attention_dp_size`, `moe_tp_size`, `moe_ep_size`. Where
attention-DP is not given, experts on more devices than attention say what it is.
"""

from __future__ import annotations

import io
import math
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from roofline import files
from roofline.blocks.model_files import load_model
from roofline.errors import InputError, MissingExtraError, RooflineError, UnknownNameError
from roofline.measure.records.read import Refusal, merged
from roofline.measure.validate import Validation
from roofline.predict.request import ResolvedRequest
from roofline.serving.queueing.closed_loop import ClosedLoop
from roofline.specs.library import Input, find, ids

if TYPE_CHECKING:
    import pandas as pd

_MOST_BYTES = 2**30
_NEEDED = ("backend", "model_path", "system", "batch_size", "isl", "osl", "tp_size", "silicon_tpot_ms")
_OPTIONAL = ("backend_version", "gemm_quant_mode", "pp_size", "attention_dp_size", "moe_tp_size", "moe_ep_size")
_COUNTS = ("batch_size", "isl", "osl", "tp_size", "silicon_tpot_ms")
_SIZES = ("pp_size", "attention_dp_size", "moe_tp_size", "moe_ep_size")
# What is one deployment: the rows of one are one call on arrays.
_DEPLOYMENT = (
    "backend",
    "backend_version",
    "model_path",
    "system",
    "gemm_quant_mode",
    "tp_size",
    "pp_size",
    "attention_dp_size",
    "moe_tp_size",
    "moe_ep_size",
)
# Models that share the dimensions of a shipped one.
_SAME_DIMENSIONS = {"deepseek-r1": "deepseek-v3", "llama-3.3-70b": "llama-3.1-70b"}
# What the tables call the formats of checkpoints whose files say them better: 4-bit experts are mxfp4 where the file has those.
_PUBLISHED = {"fp8": ("fp8", "fp8_block", "mxfp4"), "fp8_block": ("fp8_block",), "nvfp4": ("nvfp4", "mxfp4")}
_NOT_IN_A_NAME = re.compile(r"(-(instruct|it|chat|hf|fp8|fp8-dynamic|base))+$")


def validate_serving(paths: Iterable[str | Path], hardware: tuple[str, ...] = (), backend: str | None = None) -> Validation:
    """Join measured serving points with the TPOT of the closed loop (`roofline.serving.queueing.closed_loop`).

    Args:
        paths: tables (CSV or Parquet) with one row per point, with the columns that the module describes;
            `silicon_tpot_ms` in milliseconds.
        hardware: values of the column `system` to use. Empty: all.
        backend: the value of the column `backend` to use. None: all.

    Returns:
        `frame` has one row per point: those columns of `Validation.frame` that apply, and the parts `decode_s`,
        `prefill_s`, `engine_s` and `launches_s` of the predicted TPOT in seconds per output token.

    Raises:
        InputError: if a file cannot be read, lacks a column, or no point is left.
        MissingExtraError: if reading Parquet needs a package that is not installed.
    """
    import pandas as pd

    tables = [Path(path) for path in paths]
    frames: list[pd.DataFrame] = []
    refusals: list[Refusal] = []
    inputs: dict[tuple[str, str], Input] = {}
    left_out: dict[str, dict[str, int]] = {"hardware": {}, "backend": {}}
    for path in tables:
        for rows in _deployments(_good(path, _read(path), refusals)):
            first = rows.iloc[0]
            for column, wanted in (
                ("system", [name.replace("-", "_") for name in hardware]),
                ("backend", [backend] if backend else []),
            ):
                if wanted and str(first[column]).replace("-", "_") not in wanted:
                    kind = "hardware" if column == "system" else column
                    left_out[kind][str(first[column])] = left_out[kind].get(str(first[column]), 0) + len(rows)
                    break
            else:
                try:
                    loop = _loop(first)
                    frames.append(_predicted(path, rows, loop))
                    inputs |= {(entry.role, entry.name): entry for entry in loop.steps.request.inputs}
                except RooflineError as error:
                    refusals.append(Refusal(path, int(first["line"]), str(error), str(error), len(rows)))
    if not frames:
        raise InputError("\n  ".join(["no serving point is left to compare", *map(str, merged(refusals)[:10])]))
    frame = pd.concat(frames, ignore_index=True)
    return Validation(
        frame, merged(refusals), list(inputs.values()), tables, [], [], left_out["hardware"], left_out["backend"]
    )  # fmt: skip


def measured_deployments(path: Path, refusals: list[Refusal]) -> Iterator[tuple[pd.DataFrame, ResolvedRequest]]:
    """Yield the rows of a table of serving points by deployment, each with the deployment.

    Args:
        path: a table with the columns that the module describes.
        refusals: gets the rows that are refused.

    Raises:
        InputError: if the file cannot be read, or lacks a column.
    """
    for rows in _deployments(_good(path, _read(path), refusals)):
        first = rows.iloc[0]
        try:
            yield rows, _loop(first).steps.request
        except RooflineError as error:
            refusals.append(Refusal(path, int(first["line"]), str(error), str(error), len(rows)))


def _read(path: Path) -> pd.DataFrame:
    import pandas as pd

    table = io.BytesIO(files.read_bytes(path, _MOST_BYTES, "a table of serving points"))
    try:
        raw = pd.read_parquet(table) if path.suffix.lower() == ".parquet" else pd.read_csv(table)
    except ImportError:
        raise MissingExtraError("reading Parquet", "parquet") from None
    except (ValueError, OSError) as error:
        raise InputError(f"{path}: cannot be read as a table: {error}") from None
    if missing := [name for name in _NEEDED if name not in raw]:
        text = "; ".join(str(UnknownNameError("column", name, raw.columns)) for name in missing[:3])
        raise InputError(f"{path}:1: serving points need the columns {', '.join(_NEEDED)}: {text}")
    for name in _OPTIONAL:
        if name not in raw:
            raw[name] = math.nan
    return raw.assign(line=range(2, len(raw) + 2))


def _good(path: Path, raw: pd.DataFrame, refusals: list[Refusal]) -> pd.DataFrame:
    """Rows whose numbers are numbers; the others are refused by line."""
    import pandas as pd

    frame, keep = raw.copy(), pd.Series(True, raw.index)
    for name in (*_COUNTS, *_SIZES):
        number = pd.to_numeric(raw[name], errors="coerce")
        time = name == "silicon_tpot_ms"
        fine = (number > 0) & (time | (number.mod(1) == 0))
        if name in _SIZES:
            fine |= raw[name].map(_empty) | (number == 0)  # 0: none
        for line, value in raw.loc[keep & ~fine, ["line", name]].itertuples(index=False):
            text = f"{name} must be {'a number more than 0' if time else 'a whole number, at least 1'}, not {value!r}"
            refusals.append(Refusal(path, int(line), text, text, 1))
        frame[name], keep = number, keep & fine
    return frame[keep]


def _deployments(frame: pd.DataFrame) -> Iterator[pd.DataFrame]:
    for _, rows in frame.groupby(list(_DEPLOYMENT), dropna=False, sort=False):
        yield rows


def model_id(path: str) -> str:
    """The id of the shipped model with the dimensions of a name on Hugging Face; the name itself if there is none.

    >>> model_id("nvidia/Llama-3.1-8B-Instruct-FP8"), model_id("Qwen/Qwen3-32B-FP8")
    ('llama-3.1-8b', 'qwen3-32b')
    >>> model_id("deepseek-ai/DeepSeek-R1")
    'deepseek-v3'
    """
    name = _NOT_IN_A_NAME.sub("", path.rpartition("/")[2].lower()).removeprefix("meta-")
    name = _SAME_DIMENSIONS.get(name, name)
    return name if name in ids("models") else path


def _loop(row: pd.Series[Any]) -> ClosedLoop:
    def size(name: str) -> int:
        return 1 if _empty(row[name]) else max(int(row[name]), 1)

    model = model_id(str(row["model_path"]))
    find("models", model)  # raises before the long way
    quantized: str | None = str(row["gemm_quant_mode"])
    if _empty(row["gemm_quant_mode"]) or quantized in ("bf16", "fp16", "float16", "bfloat16"):
        quantized = None
    elif any(scheme.name in _PUBLISHED.get(str(quantized), ()) for scheme in load_model(model)[0].quantization):
        quantized = None  # the model's file says it, and of which weights
    tp, dp, ep = size("tp_size"), size("attention_dp_size"), size("moe_ep_size")
    experts = size("moe_tp_size") * ep
    if _empty(row["attention_dp_size"]) and experts > tp and experts % tp == 0:
        dp = experts // tp
    shared = {"moe_tp": size("moe_tp_size")} if dp > 1 and experts == tp * dp else {}
    return ClosedLoop.of(
        model, str(row["system"]), tp=tp, pp=size("pp_size"), dp=dp, ep=ep, quantization=quantized, backend=str(row["backend"]),
        **shared,
    )  # fmt: skip


def _empty(value: Any) -> bool:
    return value is None or value == "" or (isinstance(value, float) and math.isnan(value))


def _predicted(path: Path, rows: pd.DataFrame, loop: ClosedLoop) -> pd.DataFrame:
    import numpy as np
    import pandas as pd

    request: ResolvedRequest = loop.steps.request
    clients = rows["batch_size"].to_numpy(dtype=float) * request.deployment.data_parallel_size
    tpot = loop.tpot(clients, rows["isl"].to_numpy(), rows["osl"].to_numpy())
    measured = rows["silicon_tpot_ms"].to_numpy() * 1e-3
    count = len(rows)
    return pd.DataFrame(
        {
            "file": str(path), "line": rows["line"].to_numpy(), "hardware": request.hardware.name, "op": "tpot",
            "dtype": request.precision.dtypes("linear").weight.name, "kv_dtype": "", "kernel": request.model.name,
            "backend": rows["backend"].astype(str).to_numpy(), "cache": "", "regime": _regimes(pd.Series(clients)),
            "batch": clients, "q_len": rows["isl"].to_numpy(dtype=float),
            "tokens": rows["osl"].to_numpy(dtype=float), "world": rows["tp_size"].to_numpy(dtype=float),
            "expert_layers": float(request.model.num_expert_layers),
            "replica": tpot["running"],
            "version": "" if _empty(rows["backend_version"].iloc[0]) else str(rows["backend_version"].iloc[0]),
            "bound_s": tpot["bound"], "floor_s": tpot["bound"], "shared_bound_s": tpot["shared_bound"],
            "estimate_s": tpot["estimate"], "low_s": tpot["low"],
            "high_s": tpot["high"], "decode_s": tpot["decode"], "prefill_s": tpot["prefill"], "engine_s": tpot["engine"],
            "launches_s": tpot["launches"],
            "measured_s": measured, "latency_us": measured * 1e6, "flops": 0.0, "bytes_moved": 0.0,
            "stands_on": "", "why": np.where(measured < tpot["bound"], "fewer clients at work than it says", ""),
            **dict.fromkeys(("counters_dram_bytes", "counters_flops"), np.full(count, np.nan)),
        }
    )  # fmt: skip


def _regimes(concurrency: pd.Series[Any]) -> Any:
    """By concurrency: at a few sequences weights and overheads take the time, at many caches and prompts."""
    import numpy as np

    return np.select([concurrency <= 8, concurrency <= 64], ["<=8 clients", "9-64 clients"], ">64 clients")
