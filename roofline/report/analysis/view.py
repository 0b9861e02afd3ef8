"""The page of an analysis: its state, which the controls set, and the view of it. Translated to JavaScript."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from roofline import formatting
from roofline.graph.build import build
from roofline.predict.analyze import of_steps, with_request_times
from roofline.predict.duration import Duration
from roofline.predict.efficiency.fits import Fitted
from roofline.predict.efficiency.kernels import kernels
from roofline.predict.engine_command import engine_start, shell_line
from roofline.predict.memory import UNLIMITED
from roofline.predict.request import ResolvedRequest, prepare
from roofline.predict.result import Analysis
from roofline.predict.slo import Slo
from roofline.predict.timing import pipeline
from roofline.report import answer, summary
from roofline.report.analysis.batch_figures import batch_limits, explorer, heatmap, largest_batch, ttft_by_prompt
from roofline.report.analysis.comparison import comparison, sensitivity
from roofline.report.analysis.step_figures import PARTS, memory_budget, operators_table, roofline_figure, schematic, time_budget
from roofline.report.cells import about_count, about_time, best, gibibytes, number_cell, seconds, share, table, text_cell, whole
from roofline.report.figure import Cell, Command, Default, Figure, Gauge, Part, Section, Table, Tile, View
from roofline.specs.hardware import Hardware
from roofline.specs.workload import decode

NOT_MODELLED = (
    "Queues: requests wait for each other under load. These are times of single steps, and of requests that start together.",
    "The host: tokenisation, network, scheduling beyond what was measured of the engine as a whole.",
    "Speculative decoding, adapters, audio towers, and images of which no number is given.",
    "Clocks that fall with heat or power beyond what the measured kernels saw.",
)


@dataclass(frozen=True, slots=True)
class Solved:
    """A state and the analyses of its hardware (of steps alone), of which the parts of its view are made."""

    values: Values
    requests: list[ResolvedRequest]
    results: list[Analysis]


def view(values: Values) -> View:
    """Everything that the page shows of a state."""
    state = solved(values)
    sections = tuple([section_of(state, key) for key in section_keys(state)])
    return replace(head(state), answer=words(state), sections=sections)


def solved(values: Values) -> Solved:
    """The analyses of a state: of its hardware, then of what stands beside it."""
    names = [values["hardware"], *(name for name in values["others"] if name != values["hardware"])]
    requests = [_resolved(values, name) for name in names]
    return Solved(values, requests, [of_steps(request) for request in requests])


def head(state: Solved) -> View:
    """The view of a state without its sections and the sentences of its answer: what takes no further analyses."""
    request, result = state.requests[0], state.results[0]
    # the last token that is drawn needs no place in the cache, but counts in the engine's limit
    longest = 1 + max(segment.cached + segment.new for _, step in request.memory_steps() for segment in step)
    return View(
        title=summary.headline(result),
        subtitle=settings_line(request, result) + other_hardware(state.results),
        answer=(),
        fits=result.memory.fits,
        error="",
        tiles=tiles(request, result),
        commands=(
            *start_commands(request, longest, largest_batch(result)),
            Command(label="Reproduce in a terminal", text=_in_terminal(state.values), repeats=True),
        ),
        sections=(),
        assumptions=assumptions(result),
        not_modelled=NOT_MODELLED,
        verdict=verdict(result),
        defaults=published(request.hardware),
    )


def other_hardware(results: list[Analysis]) -> str:
    """The end of a subtitle: other hardware, whose figures stand beside those of the first."""
    names = [str(result.hardware["title"]) for result in results[1:]]
    return f" · beside {' and '.join(names)}" if len(names) > 0 else ""


def words(state: Solved) -> tuple[str, ...]:
    """The answer in sentences, with the times of a whole request. A page shows them folded, and makes them last."""
    result = with_request_times(state.requests[0], state.results[0])
    return (*summary.sentences(result), summary.BOUND_AND_FLOOR, summary.subtitle(result))


def published(hardware: Hardware) -> tuple[Default, ...]:
    """The datasheet's figures, which controls show until another is given: of the peaks that of 16-bit formats."""
    accelerator = hardware.accelerator
    memory, rates = accelerator.memory, accelerator.peak_flops
    halves = [rates[dtype].value for dtype in ("bf16", "fp16") if dtype in rates]
    figures = (
        halves[0] if len(halves) > 0 else max([rate.value for rate in rates.values()]),
        memory.bandwidth.value,
        (memory.reported or memory.label).value,
    )
    return tuple(
        [
            Default(key=control.key, value=float(f"{figure / control.scale:.4g}"))
            for control, figure in zip(OVERRIDE_CONTROLS, figures, strict=True)
        ]
    )


def settings_line(request: ResolvedRequest, result: Analysis) -> str:
    """Formats, engine and workload, and the figures of the hardware that were given instead of its datasheet's."""
    hardware = request.hardware
    given = [
        ("bandwidth", f"{formatting.quantity(hardware.bandwidth, 'B/s', 3)} given"),
        ("memory_bytes", f"{formatting.binary(hardware.memory_bytes)} given"),
        ("peak_flops", f"peak {formatting.quantity(max(hardware.peaks.values()), 'FLOP/s', 3)} given"),
    ]
    return " · ".join([answer.settings(result), *[text for key, text in given if key in hardware.overrides]])


def start_commands(request: ResolvedRequest, longest: int, most: int) -> tuple[Command, ...]:
    """The commands that start the engine: for the batch of a request, and for service; none where it has no options for it.

    Args:
        request: the deployment.
        longest: tokens of the longest sequence.
        most: the largest batch that fits, for service; it has no command if the request limits the batch, or has this one.
    """
    line = engine_start(request, longest)
    if not line:
        return ()
    measure = Command(label="Start the engine, to measure these numbers", text=line)
    deployment = request.deployment
    if deployment.max_num_seqs is not None or not request.workload.batch < most < UNLIMITED:
        return (measure,)
    serving = deployment.model_copy(update={"max_num_seqs": most // deployment.data_parallel_size})
    service = engine_start(replace(request, deployment=serving), longest)
    return (measure, Command(label=f"Start the engine, for service of up to {most:,} sequences", text=service))


def _in_terminal(values: Values) -> str:
    start = ("roofline", "analyze", str(values["model"]), "--hardware", str(values["hardware"]))
    return shell_line((*start, *flags(values)))


def tiles(request: ResolvedRequest, result: Analysis) -> tuple[Tile, ...]:
    """The numbers at the head of the page: TPOT, TTFT, throughput, memory, the largest batch."""
    made = [
        time_tile(label, meaning, role, span)
        for label, meaning, role, span in (
            ("TPOT", "time per output token", "tpot", None if result.decode is None else result.decode.pipeline),
            ("TTFT", "time to first token", "ttft", result.first_token),
        )
        if span is not None
    ]
    memory, decode, most = result.memory, result.decode, largest_batch(result)
    if decode is not None:
        rate = decode.tokens_per_s.best
        full = full_rate(request, result)
        note = f"at batch {decode.batch:,}"
        if full is not None and most > decode.batch:
            note += f"; {formatting.about_number(full)} at {most:,}, where memory is full"
        made.append(Tile(label="tok/s", meaning="throughput", cell=about_count(rate), note=note))
    parts = [(name, size) for name, size, _ in summary.memory_rows(result) if name not in ("free", "missing") and size > 0]
    used = memory.budget_bytes - memory.free_bytes
    whole_bar = max(used, memory.budget_bytes)
    bar: list[Part] = []
    start = 0.0
    for name, size in parts:
        bar.append(Part(name=name, role=PARTS.get(name, name), start=start, length=size / whole_bar))
        start += size / whole_bar
    device = result.hardware["devices"] > 1
    note = f"of {_short_gib(memory.budget_bytes)} GiB: "
    note += " · ".join([f"{'KV' if name == 'KV cache' else name} {_short_gib(size)}" for name, size in parts])
    cell = Cell(text=f"{_short_gib(used)} GiB", value=used)
    made.append(Tile(label="Memory", meaning="per device" if device else "in use", cell=cell, note=note, parts=tuple(bar)))
    linear = result.limits.critical_batch_linear
    note = "at these lengths"
    if linear is not None:
        step = result.limits.critical_batch_step
        as_whole = "the whole step never" if step is None else f"the whole step from {step:,}"
        note += f"; linear layers are compute-bound from {linear:,.0f}, {as_whole}"
    made.append(Tile(label="Max batch", meaning="sequences", cell=whole(most), note=note))
    return tuple(made)


_SPACE = 1.12
"""How far the axis of a gauge goes on beyond the end of the interval."""


def time_tile(label: str, meaning: str, role: str, span: Duration) -> Tile:
    """The tile of a time: its estimate between the ends of the interval, and its bound."""
    if span.bound is None:
        return Tile(label=label, meaning=meaning, cell=seconds(None), note="does not fit")
    bound = f"bound {formatting.fixed(span.bound, 's', 2)}"
    if span.estimate is None or span.low is None or span.high is None:
        return Tile(label=label, meaning=meaning, cell=seconds(span.bound), note="roofline bound")
    end = _SPACE * max(span.high, span.bound)
    gauge = Gauge(role=role, low=span.low / end, high=span.high / end, value=span.estimate / end, bound=span.bound / end)
    note = f"80 % interval {formatting.about_range(span.low, span.high)}; {bound}"
    return Tile(label=label, meaning=meaning, cell=about_time(span.estimate), note=note, gauge=gauge)


def _short_gib(size: float) -> str:
    """GiB with three digits at the most, two below one."""
    value = size / summary.GIB
    return f"{value:,.0f}" if value >= 99.5 else f"{value:.1f}" if value >= 0.95 else f"{value:.2g}"


def full_rate(request: ResolvedRequest, result: Analysis) -> float | None:
    """Tokens/s of a decode step of the largest batch that fits: the estimate, else the bound; None without such a batch."""
    most = largest_batch(result)
    if most >= UNLIMITED or most < 1 or result.decode is None:
        return None
    time = best(pipeline(request, decode(most, request.workload.context)))
    return most / time if time else None


def verdict(result: Analysis) -> str:
    """Whether it fits, and what limits the longest phase, in one or two sentences."""
    first = summary.verdict(result)
    phase = result.decode if result.decode is not None else result.phases[0]
    if not result.memory.fits or phase.tokens_per_s.bound is None:
        return first
    what = {"prefill": "Prefill", "decode": "Decode", "mixed": "The step"}[phase.name]
    return f"Fits. {what} is {phase.bound_by}-bound: {summary.limited_because(phase, result)}."


def section_keys(state: Solved) -> list[str]:
    """The sections of a state's view, in their order."""
    request, result = state.requests[0], state.results[0]
    keys = ["roofline", "explorer"]
    if len(state.results) > 1:
        keys.append("compare")
    if any(phase.time.bound is not None for phase in result.phases):
        keys += [*[f"time-{phase.name}" for phase in result.steps], *device_keys(state.results)]
    keys += ["memory", "batch-limits", "ttft"]
    if result.memory.fits or request.ignore_capacity:
        keys.append("sensitivity")
    return [*keys, "heatmap", *LAST_SECTIONS]


def device_keys(results: list[Analysis]) -> list[str]:
    """The sections of the parts of a device, one per hardware."""
    return ["device", *[f"device-{index + 2}" for index, _ in enumerate(results[1:])]]


def section_of(state: Solved, key: str) -> Section:
    """One of the sections of `section_keys`. A page makes those in view first."""
    if key in LAST_SECTIONS:
        return last_section(state.requests[0], state.results[0], key)
    if key == "compare":
        return section("compare", "Side by side", "", [comparison(state.requests, state.results)])
    return figure_section(_figure(state, key))


def _figure(state: Solved, key: str) -> Figure:
    request, result = state.requests[0], state.results[0]
    ttft, tpot = state.values["ttft_ms"] / 1e3, state.values["tpot_ms"] / 1e3
    if key == "roofline":
        others = list(zip(state.requests[1:], state.results[1:], strict=True))
        return roofline_figure(request, result, others)
    if key == "explorer":
        return explorer(request, result, tpot)
    for index, name in enumerate(device_keys(state.results)):
        if key == name:
            return schematic(state.requests[index], state.results[index], name)
    if key == "memory":
        return memory_budget(state.results)
    if key == "batch-limits":
        return batch_limits(request, result, Slo(ttft or None, tpot or None))
    if key == "ttft":
        return ttft_by_prompt(state.requests, ttft)
    if key == "sensitivity":
        return sensitivity(request)
    if key == "heatmap":
        return heatmap(request, result)
    return next(time_budget(phase) for phase in result.steps if key == f"time-{phase.name}")


LAST_SECTIONS = ("operators", "limits", "checked", "inputs")
"""What a page ends with, folded: tables of operators and largest batches, what was measured, inputs with their sources."""


def last_section(request: ResolvedRequest, result: Analysis, key: str) -> Section:
    """One of the sections that a page ends with."""
    if key == "operators":
        return folded(key, "Operators", "", [operators_table(result, phase) for phase in result.steps])
    if key == "limits":
        return folded(key, "Largest batch by context", "", [limits(result)])
    if key == "checked":
        return folded(key, "Model against measurement", CHECKED, [checked(request)])
    return folded(key, "Inputs and their sources", INPUTS, [inputs(request)])


CHECKED = (
    "Kernels that the estimates use, and how far off they were on shapes that the fit had not seen. "
    "Transferred: of another accelerator, with this one's datasheet figures."
)
INPUTS = "What the numbers are made of, and where it was read."


def figure_section(drawn: Figure, *, half: bool = True) -> Section:
    """A section with a figure alone; half as wide as the page where the window is wide, unless told otherwise."""
    return Section(key=drawn.key, title=drawn.title, note="", figure=drawn, tables=(), half=half)


def section(key: str, title: str, note: str, tables: list[Table]) -> Section:
    """A section of tables."""
    return Section(key=key, title=title, note=note, figure=None, tables=tuple(tables))


def folded(key: str, title: str, note: str, tables: list[Table]) -> Section:
    """A section of tables of which the title alone is seen at first."""
    return Section(key=key, title=title, note=note, figure=None, tables=tuple(tables), folded=True)


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
_COUNTS = ("batch", "input_len", "cached_prefix", "context", "output_len", *_SIZES)


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
    if values["images"]:
        chosen["images"] = int(values["images"])
    if values["weights"] in WEIGHTS:
        name, value = WEIGHTS[values["weights"]]
        chosen = {other: given for other, given in chosen.items() if other != "bits_per_weight"}
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
        elif value is False:
            line.append(f"--no-{name.replace('_', '-')}")
        elif name in _SIZES or name == "cached_prefix":
            line += [flag, str(value)] if value > (1 if name in _SIZES else 0) else []
        else:
            line += [flag, str(value)]
    return tuple(line)
