"""The points of a part, as a table."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, cast

from roofline.errors import InputError, RooflineError
from roofline.predict.compiled import Compiled, Phase, compile
from roofline.predict.grid import RESOURCES
from roofline.predict.options import PREFIX
from roofline.predict.request import cached_prefix, sized
from roofline.predict.sweeps.axes import COUNTS, WORKLOAD
from roofline.predict.sweeps.spec import Box, Part, Sweep

if TYPE_CHECKING:
    import pandas as pd

FORMATS = ("weight_dtype", "activation_dtype", "kv_dtype")
_NOT_SERVED = ("time_", "step_", "tokens_per_s")
"""Beginnings of the columns that have no meaning where a step does not fit."""


@dataclass(frozen=True, slots=True)
class Refused:
    """Points that cannot be, and why."""

    points: int
    configuration: dict[str, Any]
    why: str


@dataclass(frozen=True, slots=True)
class Evaluated:
    """The points of a part, or their reduction, and what was refused."""

    frame: pd.DataFrame
    points: int
    refused: tuple[Refused, ...]


def evaluate(sweep: Sweep, part: Part) -> Evaluated:
    """Return every point of a part, and what was refused; of a sweep with a reduction only what it keeps."""
    import pandas as pd

    frames, refused = [], []
    for box in part.boxes:
        names = sweep.outer_axes
        configuration = dict(zip(names, box.configuration, strict=True))
        compiled = _compiled(sweep.digest, _Hidden(sweep), box.configuration)
        if isinstance(compiled, str):
            refused.append(Refused(box.points, configuration, compiled))
            continue
        batches, lengths, more = _allowed(sweep, box, compiled, configuration)
        if box.points > len(batches) * len(lengths):
            refused.append(Refused(box.points - len(batches) * len(lengths), configuration, more))
        if batches and lengths:
            frames.append(_frame(sweep, configuration, compiled, batches, lengths))
    frame = _joined(frames) if frames else pd.DataFrame()
    points = len(frame)
    if sweep.reduction is not None and points:
        frame = sweep.reduction.of_points(frame)
    return Evaluated(frame, points, tuple(refused))


class _Hidden:
    """A value that takes no part in what a cache goes by."""

    def __init__(self, value: Sweep) -> None:
        self.value = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Hidden)

    def __hash__(self) -> int:
        return 0


@lru_cache(maxsize=64)
def _compiled(digest: str, hidden: _Hidden, configuration: tuple[Any, ...]) -> Compiled | str:
    """A configuration compiled; or why it cannot be."""
    sweep = hidden.value
    given = dict(zip(sweep.outer_axes, configuration, strict=True))
    model, name = sweep.models[given.pop("model")], given.pop("hardware")
    hardware = sweep.hardware[name]
    phase = cast("Phase", given.pop("phase"))
    for option in PREFIX:
        given.pop(option, None)
    try:
        _, deployment = sized(name, {option: _plain(option, value) for option, value in given.items()})
        return compile(model, hardware, phase, **deployment)
    except RooflineError as error:
        return str(error)


def _plain(name: str, value: Any) -> Any:
    """An option as a command would be given it."""
    return value if value is None or name in COUNTS else str(value)


def _allowed(sweep: Sweep, box: Box, compiled: Compiled, configuration: Mapping[str, Any]) -> tuple[list[int], list[int], str]:
    """Batches and lengths of a box that the engine takes, and why others are left out."""
    deployment, why = compiled.request.deployment, []
    batches = list(sweep.axes.get("batch", (1,))[slice(*box.batches)])
    lengths = list(sweep.lengths(compiled.phase)[slice(*box.lengths)])
    if (most := deployment.max_num_seqs) is not None and max(batches) > most * deployment.data_parallel_size:
        batches = [batch for batch in batches if batch <= most * deployment.data_parallel_size]
        why.append(f"max_num_seqs is {most:,} a replica")
    new = 1 if compiled.phase == "decode" else 0
    if (longest := deployment.max_model_len) is not None and max(lengths) + new > longest:
        lengths = [length for length in lengths if length + new <= longest]
        why.append(f"max_model_len is {longest:,}")
    shared = deployment.conventions.shared_prefix
    if compiled.phase == "decode" and shared and lengths and min(lengths) < shared:
        lengths = [length for length in lengths if length >= shared]
        why.append(f"a prefix of {shared:,} tokens is shared")
    prefix = configuration.get("cached_prefix") or 0
    if compiled.phase == "prefill" and lengths and min(lengths) <= prefix:
        lengths = [length for length in lengths if length > prefix]
        why.append(f"{prefix:,} tokens of the prompt are cached")
    if compiled.phase == "prefill" and shared and lengths:
        past = {length: cached_prefix(length, **{name: configuration.get(name) for name in PREFIX}) for length in lengths}
        if any(0 < cached < shared for cached in past.values()):
            lengths = [length for length in lengths if not 0 < past[length] < shared]
            why.append(f"a prefix of {shared:,} tokens is shared, and less of the prompt is cached")
    return batches, lengths, ", ".join(why)


def _frame(
    sweep: Sweep, configuration: dict[str, Any], compiled: Compiled, batches: list[int], lengths: list[int]
) -> pd.DataFrame:
    """The points of a box: axes, formats, answers."""
    import numpy as np
    import pandas as pd

    count = len(batches) * len(lengths)
    data: dict[str, Any] = {}
    for name, value in configuration.items():
        data[name] = _constant(value, sweep.axes[name], count)
    request = compiled.request
    precision = request.precision
    for name, its in zip(
        FORMATS, (precision.dtypes("linear").weight.name, precision.activation.name, precision.kv.name), strict=True
    ):
        data[name] = _coded(np.zeros(count, np.int8), [its])
    data["devices"] = np.full(count, request.deployment.devices, np.int64)
    data["batch"] = np.repeat(np.array(batches, np.int64), len(lengths))
    tokens = np.tile(np.array(lengths, np.int64), len(batches))
    phases = sweep.axes["phase"]
    for name, phase in (("input_len", "prefill"), ("context", "decode")):
        if phase in phases:
            data[name] = tokens if len(phases) == 1 else pd.arrays.IntegerArray(tokens, np.full(count, phase != compiled.phase))
    wanted = sweep.columns if "fits" in sweep.columns else (*sweep.columns, "fits")
    across = np.array(lengths)[None, :]
    new, cached = (across, None) if compiled.phase == "prefill" else (1, across)
    prefix = {name: configuration.get(name) for name in PREFIX}
    if compiled.phase == "prefill" and any(value is not None for value in prefix.values()):
        cached = np.array([cached_prefix(length, **prefix) for length in lengths])[None, :]
        new = across - cached
    answers = compiled.points(batch=np.array(batches)[:, None], input_len=new, context=cached, columns=wanted)
    fits = answers["fits"]
    for name in sweep.columns:
        values = answers[name]
        if not sweep.ignore_capacity and name.startswith(_NOT_SERVED):
            values[~fits] = np.nan  # no rate of what does not fit
        data[name] = _coded(values.ravel(), RESOURCES) if name == "bound_by" else values.ravel()
    return pd.DataFrame(data)


def _constant(value: Any, values: tuple[Any, ...], count: int) -> Any:
    """A column of one value; texts know the others of their axis."""
    import numpy as np

    if all(isinstance(one, int) for one in values):
        return np.full(count, value, np.int64)
    known = [str(one) for one in values if one is not None]
    code = -1 if value is None else known.index(str(value))
    return _coded(np.full(count, code, np.int16), known)


def _coded(codes: Any, known: Sequence[str]) -> Any:
    """A column of texts by their places in a list; -1 is none of them."""
    import pandas as pd

    categorical: Any = pd.Categorical
    return categorical.from_codes(codes, list(known))


def together(sweep: Sweep, frames: list[pd.DataFrame]) -> pd.DataFrame:
    """Return the frames of parts as one; of a sweep with a reduction only what it keeps."""
    import pandas as pd

    some = [frame for frame in frames if len(frame)]
    if not some:
        return pd.DataFrame(columns=[*sweep.outer_axes, *WORKLOAD, *sweep.columns])
    return _joined(some) if sweep.reduction is None else sweep.reduction.merge([_joined(some)])


def _joined(frames: list[pd.DataFrame]) -> pd.DataFrame:
    """Frames one after another. Which formats there are is known only once all are there."""
    import pandas as pd

    if len(frames) == 1:
        return frames[0]
    for name in FORMATS:
        if name in frames[0].columns:
            known = list(dict.fromkeys(format for frame in frames for format in frame[name].cat.categories))
            frames = [frame.assign(**{name: frame[name].cat.set_categories(known)}) for frame in frames]
    return pd.concat(frames, ignore_index=True)


MOST_ROWS = 20_000_000
"""Rows that are held in memory at once."""


def refusals(refused: Iterable[Refused]) -> list[dict[str, object]]:
    """Return the configurations that cannot be, each once, with the number of its points and the reason."""
    listed: dict[tuple[object, ...], dict[str, object]] = {}
    for entry in refused:
        key = (*entry.configuration.values(), entry.why)
        one = listed.setdefault(key, {"configuration": entry.configuration, "points": 0, "why": entry.why})
        one["points"] = int(str(one["points"])) + entry.points
    return list(listed.values())


def check_any(sweep: Sweep, listed: list[dict[str, object]]) -> None:
    """Check that some point of a sweep can be.

    Raises:
        InputError: all points were refused; it says why.
    """
    if sum(int(str(entry["points"])) for entry in listed) >= sweep.points:
        reasons = list(dict.fromkeys(str(entry["why"]) for entry in listed))
        more = f" (and {len(reasons) - 1} more reasons)" if len(reasons) > 1 else ""
        raise InputError(f"no point of the grid can be: {reasons[0]}{more}")
