"""The page of an analysis: its state, which the controls set, and the view of it. Translated to JavaScript."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from roofline import formatting
from roofline.formatting import plural
from roofline.graph.build import build
from roofline.predict.analyze import run
from roofline.predict.efficiency.fits import Fitted
from roofline.predict.efficiency.kernels import kernels
from roofline.predict.engine_command import engine_start, shell_line
from roofline.predict.request import ResolvedRequest, prepare
from roofline.predict.result import Analysis
from roofline.predict.slo import Slo
from roofline.report import summary
from roofline.report.analysis.batch_figures import batch_limits, explorer, heatmap, ttft_by_prompt
from roofline.report.analysis.comparison import comparison, sensitivity
from roofline.report.analysis.step_figures import memory_budget, operators_table, roofline_figure, time_budget
from roofline.report.cells import best, gibibytes, number_cell, seconds, share, table, text_cell, whole
from roofline.report.figure import Cell, Command, Figure, Section, Table, Tile, View

NOT_MODELLED = (
    "Queues: requests wait for each other under load. These are times of single steps, and of requests that start together.",
    "The host: tokenisation, network, scheduling beyond what was measured of the engine as a whole.",
    "Speculative decoding, prefix caches that hit, adapters, and vision or audio towers.",
    "Clocks that fall with heat or power beyond what the measured kernels saw.",
)


def view(values: Values) -> View:
    """Everything that the page shows of a state."""
    names = [values["hardware"], *(name for name in values["others"] if name != values["hardware"])]
    requests = [_resolved(values, name) for name in names]
    results = [run(request) for request in requests]
    request, result = requests[0], results[0]
    # the last token that is drawn needs no place in the cache, but counts in the engine's limit
    longest = 1 + max(segment.cached + segment.new for _, step in request.memory_steps() for segment in step)
    return View(
        title=summary.headline(result),
        subtitle=summary.subtitle(result),
        answer=tuple(summary.sentences(result)),
        fits=result.memory.fits,
        error="",
        tiles=tiles(result),
        commands=(
            *start_commands(request, longest),
            Command(label="The numbers in a terminal", text=_in_terminal(values)),
        ),
        sections=tuple(_sections(values, requests, results)),
        assumptions=assumptions(result),
        not_modelled=NOT_MODELLED,
    )


def start_commands(request: ResolvedRequest, longest: int) -> tuple[Command, ...]:
    """The command that starts the engine of a request; none where it has no options for the deployment.

    Args:
        request: the deployment.
        longest: tokens of the longest sequence.
    """
    line = engine_start(request, longest)
    return (Command(label="Start the engine", text=line),) if line else ()


def _in_terminal(values: Values) -> str:
    start = ("roofline", "analyze", str(values["model"]), "--hardware", str(values["hardware"]))
    return shell_line((*start, *flags(values)))


def tiles(result: Analysis) -> tuple[Tile, ...]:
    """The numbers at the head of the page."""
    tiles = []
    for label, phase in (("TPOT", result.decode), ("TTFT", result.prefill)):
        if phase is None:
            continue
        span = phase.pipeline
        note = "does not fit" if span.bound is None else f"at least {seconds(span.floor).text}"
        if span.low is not None and span.high is not None:
            note = f"{seconds(span.low).text} to {seconds(span.high).text}; at least {seconds(span.floor).text}"
        tiles.append(Tile(label=label, cell=seconds(best(span)), note=note))
    decode = result.decode
    rate = (
        None
        if decode is None
        else decode.tokens_per_s
        if decode.tokens_per_s_estimate is None
        else decode.tokens_per_s_estimate
    )
    if decode is not None:
        tiles.append(Tile(label="tokens/s", cell=number_cell(rate), note=f"of all {plural(decode.batch, 'sequence')}"))
    memory = result.memory
    share_of = (memory.budget_bytes - memory.free_bytes) / memory.budget_bytes
    tiles.append(
        Tile(label="memory in use", cell=share(share_of), note=f"of {summary.gib(memory.budget_bytes)} GiB per device")
    )
    tiles.append(Tile(label="max batch", cell=whole(memory.max_batch), note="at this context"))
    critical = result.limits.critical_batch_step
    tiles.append(
        Tile(
            label="critical batch",
            cell=whole(critical),
            note="compute-bound from there on" if critical else "memory-bound at every batch size",
        )
    )
    return tuple(tiles)


def _sections(values: Values, requests: list[ResolvedRequest], results: list[Analysis]) -> list[Section]:
    request, result = requests[0], results[0]
    ttft, tpot = values["ttft_ms"] / 1e3, values["tpot_ms"] / 1e3
    sections: list[Section] = [section("inputs", "Inputs", INPUTS, None, [inputs(request)])]
    if len(results) > 1:
        sections.append(section("compare", "Side by side", "", None, [comparison(requests, results)]))
    sections.append(
        figure_section(roofline_figure(request, result), [operators_table(result, phase) for phase in result.phases])
    )
    if any(phase.time.bound is not None for phase in result.phases):
        sections += [figure_section(time_budget(phase), []) for phase in result.phases]
    sections.append(figure_section(memory_budget(results), [limits(result)]))
    sections.append(figure_section(batch_limits(request, result, Slo(ttft or None, tpot or None)), []))
    sections.append(figure_section(explorer(request, result, tpot), []))
    sections.append(figure_section(ttft_by_prompt(requests, ttft), []))
    sections.append(figure_section(heatmap(request, result), []))
    if result.memory.fits or request.ignore_capacity:
        sections.append(figure_section(sensitivity(request), []))
    sections.append(section("checked", "Model against measurement", CHECKED, None, [checked(request)]))
    return sections


CHECKED = (
    "Kernels that the estimates use, and how far off they were on shapes that the fit had not seen. "
    "Transferred: of another accelerator, with this one's datasheet figures."
)
INPUTS = "What the numbers are made of, and where it was read."


def figure_section(drawn: Figure, tables: list[Table]) -> Section:
    """A figure, and tables below it."""
    return section(drawn.key, drawn.title, "", drawn, tables)


def section(key: str, title: str, note: str, drawn: Figure | None, tables: list[Table]) -> Section:
    """A section of the page."""
    return Section(key=key, title=title, note=note, figure=drawn, tables=tuple(tables))


def limits(result: Analysis) -> Table:
    """The largest batch by context."""
    rows: list[tuple[Cell, ...]] = [(whole(context), whole(batch)) for context, batch in result.limits.max_batch_by_context]
    note = summary.limits_table(result).note
    return table("limits", "Largest batch by context", note, ("cached tokens", "sequences"), rows)


def checked(request: ResolvedRequest) -> Table:
    """The fits of the kernels of the steps."""
    stands: dict[str, Fitted] = {}
    if request.estimator.applies:
        for _, step in request.workload.steps:
            for kernel in kernels(build(request.model, request.deployment, request.precision, step, request.memory.stage)):
                if (fitted := request.estimator.fitted(kernel)) is not None:
                    stands[kernel.op] = fitted
    rows: list[tuple[Cell, ...]] = []
    for op, fitted in sorted(stands.items()):
        held = fitted.family.held_out
        row = (text_cell(op), text_cell(fitted.source), text_cell(fitted.origin), whole(fitted.family.rows))
        rows.append(
            (
                *row,
                share(None if held is None else held.median_ape),
                share(None if held is None else held.bias, sign=True),
                share(None if held is None else held.coverage),
            )
        )
    names = ("kernel", "fit", "origin", "records", "median error", "bias", "in the interval")
    return table("checked-rows", "Fits", "errors are of shapes that the fit had not seen", names, rows)


def inputs(request: ResolvedRequest) -> Table:
    """The figures of model and hardware, with their sources."""
    hardware, accelerator = request.hardware, request.hardware.accelerator
    read = ", ".join(source.url or source.title for source in request.model.sources.values())
    sheets = ", ".join(source.url or source.title for source in accelerator.sources.values())
    rows: list[tuple[Cell, ...]] = [
        (text_cell("model"), text_cell(request.model.title), text_cell(read)),
        (text_cell("hardware"), text_cell(hardware.title), text_cell(sheets)),
    ]
    memory = accelerator.memory
    held = memory.reported or memory.label
    rows += [
        (
            text_cell("memory, GiB"),
            gibibytes(hardware.memory_bytes),
            text_cell(_origin(request, "memory_bytes", formatting.binary(held.value), held.source)),
        ),
        (
            text_cell("bandwidth, TB/s"),
            number_cell(hardware.bandwidth / 1e12),
            text_cell(
                _origin(request, "bandwidth", formatting.quantity(memory.bandwidth.value, "B/s"), memory.bandwidth.source)
            ),
        ),
    ]
    for dtype, rate in accelerator.peak_flops.items():
        rows.append(
            (
                text_cell(f"{dtype} peak, TFLOP/s"),
                number_cell(hardware.peaks[dtype] / 1e12),
                text_cell(_origin(request, "peak_flops", formatting.quantity(rate.value, "FLOP/s"), rate.source)),
            )
        )
    engine = f"{request.engine.name}@{request.engine.version}"
    rows.append((text_cell("engine"), text_cell(engine), text_cell("its defaults, and its blocks for the KV cache")))
    return table("inputs-rows", "Figures", "", ("what", "value", "source"), rows)


def _origin(request: ResolvedRequest, override: str, published: str, key: str) -> str:
    """Where a figure of the hardware comes from: its source, or the user, and then what it replaces.

    Args:
        request: gives the hardware, with what was given for it.
        override: the figure's key in `Hardware.overrides`.
        published: the file's own figure, as text.
        key: the source of that.
    """
    title = str(request.hardware.accelerator.sources[key].title)
    return f"given, instead of {published} ({title})" if override in request.hardware.overrides else title


def assumptions(result: Analysis) -> Table:
    """What is assumed."""
    listed = summary.assumptions_table(result)
    rows: list[tuple[Cell, ...]] = [tuple(text_cell(cell) for cell in row) for row in listed.rows]
    return table("assumptions", "What is assumed", "", listed.columns, rows)


# The state: values of the controls, and the request that they make

Values = dict[str, Any]
"""What the controls hold, by key, and beside them `model`, `others` (hardware to compare with) and `fixed` (options that no
control changes)."""

# What a choice of weights means as options of `analyze`.
WEIGHTS: dict[str, tuple[str, str]] = {
    "bf16": ("dtype", "bf16"),
    "fp8": ("quantization", "fp8"),
    "awq": ("quantization", "awq"),
    "nvfp4": ("quantization", "nvfp4"),
}
_SIZES = ("tp", "pp", "dp", "ep")
_COUNTS = ("batch", "input_len", "context", "output_len", *_SIZES)


@dataclass(frozen=True, slots=True)
class OverrideControl:
    """A control that overrides a figure of the datasheet: its key, the option that it sets, and the unit it is typed in."""

    key: str
    option: str
    unit: str
    scale: float
    """The unit, in base units."""


OVERRIDE_CONTROLS = (
    OverrideControl("peak_tflops", "peak_flops", "TFLOP/s", 1e12),
    OverrideControl("bandwidth_gbs", "bandwidth", "GB/s", 1e9),
    OverrideControl("memory_gb", "memory", "GB", 1e9),
)


def options(values: Values) -> Values:
    """The keyword options of `analyze` that a state stands for, in base units."""
    chosen: Values = {name: int(values[name]) for name in _COUNTS} | dict(values["fixed"])
    if values["weights"] in WEIGHTS:
        name, value = WEIGHTS[values["weights"]]
        chosen[name] = value
    if values["kv"]:
        chosen["kv_cache_dtype"] = values["kv"]
    if values["backend"]:
        chosen["backend"] = values["backend"]
    for figure in OVERRIDE_CONTROLS:
        if values[figure.key]:
            chosen[figure.option] = values[figure.key] * figure.scale
    return chosen


def _resolved(values: Values, hardware: str) -> ResolvedRequest:
    """The request for one hardware. Overrides of the datasheet apply only to the one that the controls name."""
    wanted = options(values)
    if hardware != values["hardware"]:
        wanted = {name: value for name, value in wanted.items() if name not in [figure.option for figure in OVERRIDE_CONTROLS]}
    request = prepare(values["model"], hardware, **wanted)
    if values["efficiency"]:
        return request
    return replace(request, estimator=replace(request.estimator, wanted=False), steps=None)


def flags(values: Values) -> tuple[str, ...]:
    """The options of a state as flags of `roofline analyze` and `roofline report`."""
    line: list[str] = []
    units = {figure.option: figure for figure in OVERRIDE_CONTROLS}
    for name, value in options(values).items():
        flag = f"--{name.replace('_', '-')}"
        if name in units:
            line += [flag, f"{value / units[name].scale:.10g} {units[name].unit}"]
        elif name in ("link_bandwidth", "allreduce_bandwidth"):
            line += [flag, f"{value / 1e9:.10g} GB/s"]
        elif name == "reserve":
            line += [flag, f"{value:.0f} B"]
        elif value is True:
            line.append(flag)
        elif name not in _SIZES or value != 1:
            line += [flag, str(value)]
    return tuple(line)
