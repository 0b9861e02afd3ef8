"""Measured serving points against the closed loop: TPOT at a given concurrency.

A table (CSV or Parquet) with one row per point. The columns are those of AIConfigurator's measurements: `backend`,
`model_path`, `system`, `batch_size` (the clients of one attention-DP rank), `isl`, `osl`, `tp_size`, `silicon_tpot_ms`; and,
where they are there, `backend_version`, `gemm_quant_mode`, `pp_size`, `attention_dp_size`, `moe_tp_size`, `moe_ep_size`. Where
attention-DP is not given, experts on more devices than attention say what it is. Two things of a layout are read against the
label: devices that a table counts twice (`_counted_once`), and experts that no engine can divide (`_cuts_blocks`).
"""

from __future__ import annotations

import io
import math
import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from roofline import files
from roofline.blocks.model import Model
from roofline.blocks.model_files import load_model
from roofline.blocks.moe import MixtureOfExperts
from roofline.errors import InputError, RooflineError, UnknownNameError
from roofline.measure.records.read import Refusal, merged
from roofline.measure.validate import Validation
from roofline.predict.request import ResolvedRequest
from roofline.serving.queueing.closed_loop import ClosedLoop
from roofline.specs.library import Input, find, ids
from roofline.specs.quantization.floats import Fp8Block

if TYPE_CHECKING:
    import pandas as pd

_MOST_BYTES = 2**28
_NEEDED = ("backend", "model_path", "system", "batch_size", "isl", "osl", "tp_size", "silicon_tpot_ms")
_OPTIONAL = ("backend_version", "gemm_quant_mode", "pp_size", "attention_dp_size", "moe_tp_size", "moe_ep_size")
_COUNTS = ("batch_size", "isl", "osl", "tp_size", "silicon_tpot_ms")
_SIZES = ("pp_size", "attention_dp_size", "moe_tp_size", "moe_ep_size")
# The devices that a row is of, read from the columns of sizes: tensor-parallel and data-parallel ones of attention, those that
# share an expert, and those over which experts are spread.
_LAYOUT = ("tp", "dp", "moe_tp", "ep")
_MEASURED = ("backend", "model_path", "system", "gemm_quant_mode")
_LOAD = ("clients", "isl", "osl")
_FEWEST_LOADS = 3
_SAME = 0.02
"""How far times of the same devices may differ."""
# What is one deployment: the rows of one are one call on arrays.
_DEPLOYMENT = (*_MEASURED, "backend_version", "pp_size", *_LAYOUT)
# Models that share the dimensions of a shipped one.
_SAME_DIMENSIONS = {"deepseek-r1": "deepseek-v3", "llama-3.3-70b": "llama-3.1-70b"}
# What the tables call the formats of checkpoints whose files say them better: 4-bit experts are mxfp4 where the file has those.
_PUBLISHED = {"fp8": ("fp8", "fp8_block", "mxfp4"), "fp8_block": ("fp8_block",), "nvfp4": ("nvfp4", "mxfp4")}
_NOT_IN_A_NAME = re.compile(r"(-(instruct|it|chat|hf|fp8|fp8-dynamic|base))+$")


def validate_serving(
    paths: Iterable[str | Path],
    hardware: tuple[str, ...] = (),
    backend: str | None = None,
    routing_skew: float | None = None,
) -> Validation:
    """Join measured serving points with the TPOT of the closed loop (`roofline.serving.queueing.closed_loop`).

    Args:
        paths: tables (CSV or Parquet) with one row per point, with the columns that the module describes;
            `silicon_tpot_ms` in milliseconds.
        hardware: values of the column `system` to use. Empty: all.
        backend: the value of the column `backend` to use. None: all.
        routing_skew: Zipf exponent of the popularity of experts in the estimates. None: the engine's.

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
                    loop = _loop(first, routing_skew)
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
    is_parquet = path.suffix.lower() == ".parquet"
    try:
        raw: pd.DataFrame = files.read_parquet(table, path).to_pandas() if is_parquet else pd.read_csv(table)
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
    for _, rows in _counted_once(_sized(frame)).groupby(list(_DEPLOYMENT), dropna=False, sort=False):
        yield rows


def _sized(frame: pd.DataFrame) -> pd.DataFrame:
    """The rows with their layout as whole numbers, and the clients of all devices together (`clients`)."""
    sizes = ("tp_size", "pp_size", "attention_dp_size", "moe_tp_size", "moe_ep_size")
    tp, pp, dp, shared, ep = (frame[name].fillna(1).clip(lower=1).astype(int) for name in sizes)
    experts = shared * ep
    more = frame["attention_dp_size"].isna() & (experts > tp) & (experts % tp == 0)
    dp = dp.mask(more, experts // tp)
    label = [f"tp{t} dp{d} moe_tp{s} ep{e}" for t, d, s, e in zip(tp, dp, shared, ep, strict=True)]
    return frame.assign(tp=tp, pp_size=pp, dp=dp, moe_tp=shared, ep=ep, clients=frame["batch_size"] * dp, label=label)


def _counted_once(frame: pd.DataFrame) -> pd.DataFrame:
    """The rows, those whose devices the table counts twice with the devices that were there.

    Runs on n devices that share tokens as well as experts are listed with n x n in AIConfigurator's tables: the one size
    times the other. It shows in the table itself: on n devices the same engine has the same TPOT at the same loads, to 2 % in
    the median of three or more, and n times as many devices cannot have that.
    """
    frame = frame.copy()
    kinds = frame.groupby([*_MEASURED, "pp_size"], dropna=False, sort=False)
    for _, kind in kinds:
        # fewest devices first: what 16 are compared with is 4 that were no more than 2
        listed = kind.assign(devices=kind["tp"] * kind["dp"]).groupby(["devices", *_LAYOUT, "backend_version"], dropna=False)
        for _, rows in listed:
            real = _on_fewer(*(int(size) for size in rows.iloc[0][list(_LAYOUT)]))
            if real is not None and _same_times(rows, frame.loc[kind.index], real):
                frame.loc[rows.index, list(_LAYOUT)] = real
    return frame


def _on_fewer(tp: int, dp: int, shared: int, ep: int) -> tuple[int, ...] | None:
    """The layout on n devices that a layout of n x n devices may stand for; None: it is not made of the same size twice.

    >>> _on_fewer(64, 1, 8, 8), _on_fewer(1, 64, 8, 8), _on_fewer(4, 4, 1, 16), _on_fewer(8, 1, 1, 8)
    ((8, 1, 1, 8), (1, 8, 1, 8), (4, 1, 1, 4), None)
    """
    n = math.isqrt(tp * dp)
    if n == 1 or n * n != tp * dp or shared * ep != tp * dp:
        return None
    if shared == ep == n and 1 in (tp, dp):
        return (n, 1, 1, n) if dp == 1 else (1, n, 1, n)
    return (n, 1, 1, n) if tp == dp == n and shared == 1 else None


def _same_times(listed: pd.DataFrame, rows: pd.DataFrame, real: tuple[int, ...]) -> bool:
    """Whether rows have the TPOT of rows on fewer devices: of the same layout, else of the same version, else of any."""
    fewer = rows[rows["tp"] * rows["dp"] == real[0] * real[1]]
    layout = (fewer[list(_LAYOUT)].to_numpy() == real).all(axis=1)
    version = fewer["backend_version"].fillna("") == listed["backend_version"].fillna("").iloc[0]
    for others in (fewer[layout], fewer[version], fewer):
        joined = listed.merge(others, on=list(_LOAD), suffixes=("", "_fewer"))
        if len(joined.groupby(list(_LOAD))) >= _FEWEST_LOADS:
            off = joined["silicon_tpot_ms_fewer"] / joined["silicon_tpot_ms"] - 1
            return bool(off.abs().median() <= _SAME)
    return False


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


def _loop(row: pd.Series[Any], routing_skew: float | None = None) -> ClosedLoop:
    model = model_id(str(row["model_path"]))
    find("models", model)  # raises before the long way
    quantized: str | None = str(row["gemm_quant_mode"])
    if _empty(row["gemm_quant_mode"]) or quantized in ("bf16", "fp16", "float16", "bfloat16"):
        quantized = None
    elif any(scheme.name in _PUBLISHED.get(str(quantized), ()) for scheme in load_model(model)[0].quantization):
        quantized = None  # the model's file says it, and of which weights
    tp, dp, shared, ep = (int(row[name]) for name in _LAYOUT)
    if _cuts_blocks(load_model(model)[0], shared):
        shared, ep = 1, shared * ep
    further = {"moe_tp": shared} if dp > 1 and shared * ep == tp * dp else {}
    loop = ClosedLoop.of(
        model, str(row["system"]), tp=tp, pp=int(row["pp_size"]), dp=dp, ep=ep, quantization=quantized,
        backend=str(row["backend"]), **further,
    )  # fmt: skip
    if routing_skew is None:
        return loop
    request = loop.steps.request
    conditions = replace(request.estimator.conditions, popularity=routing_skew)
    return ClosedLoop(
        replace(loop.steps, request=replace(request, estimator=replace(request.estimator, conditions=conditions)))
    )


def _cuts_blocks(model: Model, devices: int) -> bool:
    """Whether experts that this many devices share would be cut within the blocks that have a scale.

    Engines refuse that, so that such a deployment spreads whole experts, whatever a table says.
    """
    sizes = {
        scheme.weight_block_size[0]
        for scheme in model.quantization
        if isinstance(scheme, Fp8Block) and "experts" in scheme.roles
    }
    widths = {mlp.moe_intermediate_size for mlp in model.blocks if isinstance(mlp, MixtureOfExperts)}
    return any(width % (devices * size) for width in widths for size in sizes)


def _empty(value: Any) -> bool:
    return value is None or value == "" or (isinstance(value, float) and math.isnan(value))


def _predicted(path: Path, rows: pd.DataFrame, loop: ClosedLoop) -> pd.DataFrame:
    import numpy as np
    import pandas as pd

    request: ResolvedRequest = loop.steps.request
    clients = rows["clients"].to_numpy(dtype=float)
    tpot = loop.tpot(clients, rows["isl"].to_numpy(), rows["osl"].to_numpy())
    measured = rows["silicon_tpot_ms"].to_numpy() * 1e-3
    count = len(rows)
    return pd.DataFrame(
        {
            "file": str(path), "line": rows["line"].to_numpy(), "hardware": request.hardware.name, "op": "tpot",
            "dtype": request.precision.dtypes("linear").weight.name, "kv_dtype": "", "kernel": request.model.name,
            "backend": rows["backend"].astype(str).to_numpy(), "cache": "", "regime": _regimes(pd.Series(clients)),
            "batch": clients, "q_len": rows["isl"].to_numpy(dtype=float),
            "tokens": rows["osl"].to_numpy(dtype=float), "world": rows["tp"].to_numpy(dtype=float),
            "layout": rows["label"].to_numpy(),
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
