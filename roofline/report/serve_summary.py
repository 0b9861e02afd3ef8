"""A measured decode loop, as an answer on one screen: a step, its kernels, what is between them, and the prediction."""

from __future__ import annotations

from roofline import formatting
from roofline.formatting import about, about_range, number, percent, plural
from roofline.measure.bench.devices import Timing
from roofline.measure.bench.serve import GRAPHS, KernelKind, Served
from roofline.predict.duration import Duration
from roofline.predict.efficiency.estimate import BASIS_TEXTS
from roofline.specs.kernel_rules import KINDS
from roofline.text import Answer, Labelled, Table, clean

_ROWS = 8
"""Kinds of kernels on one screen."""


def answer(result: Served) -> Answer:
    """Return the answer of `roofline bench serve`."""
    return Answer(
        title=f"{result.model.title} on {clean(result.device)}: decode loop",
        settings=" · ".join(_settings(result)),
        verdict=" ".join(_sentences(result)),
        brief=(_kinds(result, _ROWS),),
        details=(_kinds(result, None),),
        notes=_notes(result),
        hint="" if len(result.kinds) <= _ROWS else "Every kind of kernel: -v",
    )


def _settings(result: Served) -> list[str]:
    sizes = result.sizes
    graphs = ["with CUDA graphs"] if result.launching[0].how == GRAPHS else []
    return [
        result.dtype, f"batch {sizes.batch:,}", f"prompt {sizes.prompt:,}", plural(sizes.steps, "step"), *graphs,
        "1 pass" if result.passes == 1 else f"{result.passes} passes",
    ]  # fmt: skip


def _sentences(result: Served) -> list[str]:
    """The step, its kernels and what is between them; the prediction; without graphs."""
    first, predicted = result.launching[0], result.predicted_step
    on_host = not result.on_device
    what, why = ("operators", "Python") if on_host else ("kernels", "launches, gaps")
    took = f"A step takes {formatting.seconds(first.step.median)} (p10 to p90: {_ends(first.step)})"
    parts = f"its {what} {formatting.seconds(first.kernels_s)}; between them "
    parts += f"{formatting.seconds(first.between_s)} ({why})" if first.between_s > 0 else "nothing that can be measured"
    sentences = [f"{took}; {parts}.", f"{_predicted(predicted)}."]
    if result.launch_s is not None:
        other = result.launching[1]
        launched = f"Without CUDA graphs a step takes {formatting.seconds(other.step.median)}"
        one_by_one = f"launching its {plural(round(other.kernels), 'kernel')} one by one costs"
        costs = f"{one_by_one} {formatting.seconds(result.launch_s)}" if result.launch_s > 0 else f"{one_by_one} nothing"
        sentences.append(f"{launched}: {costs}.")
    return sentences


def _ends(value: Timing) -> str:
    return about_range(value.p10, value.p90)


def _predicted(value: Duration) -> str:
    """The bound, and the estimate with its interval where there is one."""
    assert value.bound is not None  # noqa: S101 - capacity is ignored, so that it has times
    text = f"The bound is {formatting.seconds(value.bound)}"
    if value.estimate is None or value.low is None or value.high is None:
        return f"{text}; there is no estimate"
    return f"{text}, the estimate {about(value.estimate)} (80 % interval {about_range(value.low, value.high)})"


def _kinds(result: Served, most: int | None) -> Table:
    rows = result.kinds[:most]
    estimated = any(entry.estimate_s is not None for entry in result.kinds)
    cells = [_cells(KINDS.get(entry.kind, entry.kind), entry, result, estimated=estimated) for entry in rows]
    if rest := result.kinds[len(rows) :]:
        cells.append(_cells(plural(len(rest), "more kind"), _sum(rest), result, estimated=estimated))
    against = "the estimate" if estimated else "the bound"
    columns = ("kernels", "n", "measured", "share", "bound", *(["estimate"] if estimated else []), "difference")
    note = f"largest difference from {against} first"
    return Table("A step by kind", note, columns, (False, *(True,) * (len(columns) - 1)), tuple(cells))


def _sum(entries: list[KernelKind]) -> KernelKind:
    bounds = [entry.bound_s for entry in entries if entry.bound_s is not None]
    estimates = [entry.estimate_s for entry in entries if entry.estimate_s is not None]
    return KernelKind(
        "",
        sum(entry.calls for entry in entries),
        sum(entry.kernels for entry in entries),
        sum(entry.measured_s for entry in entries),
        sum(bounds) if bounds else None,
        sum(estimates) if estimates else None,
    )


def _cells(name: str, entry: KernelKind, result: Served, *, estimated: bool) -> tuple[str, ...]:
    over = entry.over_s
    return (
        name,
        number(entry.kernels if result.on_device else entry.calls, 3),
        formatting.seconds(entry.measured_s),
        percent(entry.measured_s / result.launching[0].kernels_s, 1),
        "" if entry.bound_s is None else formatting.seconds(entry.bound_s),
        *([] if not estimated else ["" if entry.estimate_s is None else about(entry.estimate_s)]),
        f"{'-' if over < 0 else '+'}{about(abs(over))}",
    )


def _notes(result: Served) -> Labelled:
    sizes = result.sizes
    prompts = plural(sizes.batch, "prompt")
    contexts = f"{sizes.prompt:,} to {sizes.tokens - 1:,} tokens" if sizes.steps > 1 else plural(sizes.prompt, "token")
    lines = [
        ("Prefill", f"{prompts} in {formatting.seconds(result.prefill.median)}. {_predicted(result.predicted_prefill)}"),
        ("Contexts", f"{contexts} in the cache; times are of all steps, predictions their mean"),
        ("Rate", f"{number(result.tokens_per_s, 3)} output tokens/s"),
        ("Hardware", f"{result.hardware.title}: {_figures(result)}"),
        *([("Estimates", BASIS_TEXTS[result.basis])] if result.basis in BASIS_TEXTS else []),
    ]
    if not result.on_device:
        slower = f"steps took {number(result.traced_ratio, 3)} times as long under the profiler; times of operators are divided"
        lines.append(("Profiler", f"{slower} by that"))
    if result.folder is not None:
        lines.append(("Records", f"{plural(result.records or 0, 'record')} in {clean(result.folder)}{_unknown(result)}"))
    return tuple(lines)


def _figures(result: Served) -> str:
    hardware = result.hardware
    peak = formatting.quantity(hardware.peak(result.dtype), "FLOP/s", 3)
    return f"{peak} in {result.dtype}, {formatting.quantity(hardware.bandwidth, 'B/s', 3)}"


def _unknown(result: Served) -> str:
    """What is missing for `validate` and `calibrate` to know the machine."""
    return "" if result.machine_known else ", without its hardware.yaml, which `roofline bench run --suite ceilings` writes"
