"""Rows of one structure: many records as one call on arrays, and the conditions under which they were measured."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from roofline.measure.records.columns import COLUMNS, dtypes
from roofline.measure.records.ops import RECORD_OPS, Call, Operators
from roofline.predict.efficiency.form import COLD, Conditions

if TYPE_CHECKING:
    import pandas as pd

# What is structure in a formula: the same for all rows of a call.
_STRUCTURE = ["file", "source", "backend", "cache", "gpu", "op", "dtype", "kv_dtype", "distribution", "kernel", "world"]
_COUNTS = tuple(name for name, column in COLUMNS.items() if column.kind == "count")
# Optional columns of ops: rows with and without one are calls of their own.
_OPTIONAL = sorted({name for op in RECORD_OPS.values() for name in op.optional})


def group_rows(frame: pd.DataFrame) -> Iterator[pd.DataFrame]:
    """Split records into groups of one structure, which one call on arrays can predict.

    Args:
        frame: records with the columns of `roofline.measure.records.read`.

    Yields:
        The rows of each group with their index, groups in the order of their first rows.
    """
    keys: list[Any] = [frame[name] for name in _STRUCTURE] + [(frame["window"] > 0).rename("windowed")]
    keys.append((frame["q_len"] == 1).rename("one_token"))  # decode, which engines have other kernels for
    keys += [ungated(frame).rename("ungated"), gathered(frame).rename("gathered")]
    keys += [frame[name].notna().rename(f"has_{name}") for name in _OPTIONAL]
    for _, rows in frame.groupby(keys, dropna=False, sort=False, observed=True):
        yield rows


def call(rows: pd.DataFrame) -> Call:
    """Rows of one structure as one `Call`: arrays of shape [rows] of the columns that are filled in all of them.

    Raises:
        UnknownNameError: if their dtype is not known.
    """
    first = rows.iloc[0]
    filled = [name for name in _COUNTS if rows[name].notna().all()]
    numbers: dict[str, Any] = {name: rows[name].to_numpy() for name in filled}
    if "world" in numbers:
        numbers["world"] = int(first["world"])
    if first["q_len"] == 1:
        numbers["q_len"] = 1
    if not first["window"] > 0:
        numbers.pop("window", None)
    texts = {name: str(first[name]) for name in ("distribution", "kernel")}
    texts["ungated"] = "yes" if first["op"] == "moe" and ungated(rows.iloc[:1]).all() else ""
    return Call(dtypes(first["dtype"], first["kv_dtype"]), numbers, texts)


def operators_of(rows: pd.DataFrame) -> Operators:
    """The operators of rows of one structure by name, on arrays of shape [rows], each with the times that it runs.

    Raises:
        RooflineError: if the op cannot be made of the columns, such as a `layer` of an unknown model.
    """
    return RECORD_OPS[str(rows["op"].iloc[0])].operators(call(rows))


_POWER_LAW = re.compile(r"power_law_([\d.]+)")
# Rows that say nothing of the cache are outside tables: AIConfigurator replays each kernel without a flush, matrices from
# six copies in turn, everything else from one; profilers of engines (Vidur) run a layer again and again.
_COPIES = {"aiconfigurator": 6.0}


def _conditions(source: str, cache: str, distribution: str, *, gathered: bool = False) -> Conditions:
    """The conditions of rows of one source.

    >>> _conditions("aiconfigurator", "", "power_law_1.2")
    Conditions(weights=6.0, kv=1.0, routing=1.2, gathered=False, sent=False, fused=False, popularity=0.0)
    >>> _conditions("ours", "cold", "")
    Conditions(weights=inf, kv=inf, routing=None, gathered=False, sent=False, fused=False, popularity=0.0)
    """
    exponent = _POWER_LAW.fullmatch(distribution)
    routing = 0.0 if distribution == "balanced" else float(exponent[1]) if exponent else None
    if cache == "cold":
        return Conditions(COLD, COLD, routing, gathered)
    return Conditions(1.0 if cache == "warm" else _COPIES.get(source, 1.0), 1.0, routing, gathered)


def conditions(rows: pd.DataFrame) -> Conditions:
    """The conditions under which rows of one structure were measured: caches, routing of experts."""
    first = rows.iloc[0]
    texts = (str(first[name]) for name in ("source", "cache", "distribution"))
    return _conditions(*texts, gathered=first["op"] == "moe" and bool(gathered(rows.iloc[:1]).all()))


# What is known of outside tables beside their columns: how their kernels were run. AIConfigurator's collector of
# SGLang's fused experts (`collector/sglang/collect_moe.py`) makes the work of one expert-parallel rank in two ways. Where
# SGLang's own layer runs, a pick of another rank's expert costs nothing. Where the fused function is called by itself (all of
# them up to SGLang 0.5.10, with 0.5.14 two plain softmax routers), tokens without a pick here are dropped, and every other
# pick of the rest is given to the first expert, with weight zero: it multiplies them all. Serving never does so, and a fit
# that did not know would believe that it does. Nemotron's experts have no gate. TensorRT-LLM's kernel says so in its name;
# SGLang has a kernel of its own for them (FlashInfer's CUTLASS); of vLLM's newer rows it is seen in times, which with a gate
# would need 1.5 times the memory bandwidth that there is. The older rows (vLLM 0.14, SGLang 0.5.10) were made with a gate.
# https://github.com/ai-dynamo/aiconfigurator

_SOURCE = "aiconfigurator"
_EXPERTS = ["hidden", "inter", "experts", "topk"]
_NEMOTRON = ((2688, 1856, 128, 6), (2048, 5120, 512, 22))
_WITHOUT_GATE = "nongated|flashinfer_cutlass"
_ALONE = ((2816, 704, 128, 8), (4096, 14336, 8, 2))


def ungated(frame: pd.DataFrame) -> pd.Series[bool]:
    """Whether the experts of each row have no gate projection: a boolean series with the index of `frame`."""
    named = _kernel_has(frame, _WITHOUT_GATE)
    newer = _made_by(frame, "vllm", "unquantizedfusedmoe")
    return named | (newer & _of(frame, _NEMOTRON))


def own_kernel(frame: pd.DataFrame) -> pd.Series[bool]:
    """Whether ungated experts of each row have a kernel of their own, with times unlike the backend's other kernels.

    Returns:
        A boolean series with the index of `frame`.
    """
    return ungated(frame) & _made_by(frame, "sglang", "flashinfer_cutlass")


def gathered(frame: pd.DataFrame) -> pd.Series[bool]:
    """Whether the kernel of each row also multiplied the tokens of other ranks' experts, by its first expert.

    Returns:
        A boolean series with the index of `frame`.
    """
    alone = _made_by(frame, "sglang", "fused_moe_triton") & (frame["moe_ep"].fillna(1) > 1)
    older = frame["version"].astype(str).isin(("0.5.9", "0.5.10"))
    return alone & (older | _of(frame, _ALONE))


def _made_by(frame: pd.DataFrame, backend: str, kernel: str) -> pd.Series[bool]:
    of_table = (frame["source"] == _SOURCE) & (frame["op"] == "moe") & (frame["backend"] == backend)
    return of_table & _kernel_has(frame, kernel)


def _kernel_has(frame: pd.DataFrame, pattern: str) -> pd.Series[bool]:
    """Whether the name of each row's kernel has a match of the pattern: looked up once for each of the few names."""
    import pandas as pd

    codes, names = pd.factorize(frame["kernel"])
    matches = [re.search(pattern, str(name)) is not None for name in names]
    return pd.Series([*matches, False], dtype=bool).iloc[codes].set_axis(frame.index)  # -1, of no name, is the last


def _of(frame: pd.DataFrame, configurations: tuple[tuple[int, ...], ...]) -> pd.Series[bool]:
    """Whether the experts are of one of these sizes."""
    import pandas as pd

    values = frame[_EXPERTS].to_numpy()
    return pd.Series(sum((values == sizes).all(axis=1) for sizes in configurations) > 0, index=frame.index)
