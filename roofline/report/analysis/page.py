"""Pages of `roofline report`: the first state, the controls, the translated program and its data."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from roofline.blocks.model_files import load_model
from roofline.errors import InputError
from roofline.formulas.javascript import Program, translated
from roofline.predict.analyze import answer
from roofline.predict.duration import Duration
from roofline.predict.engine_command import shell_line
from roofline.predict.options import OPTIONS, PREFIX, SPECULATION, of_groups, read_quantity
from roofline.predict.options import flags as flags_of
from roofline.predict.request import OVERRIDES, SHORT, ResolvedRequest, prepare, sized
from roofline.predict.result import Analysis
from roofline.predict.slo import Slo
from roofline.report import answer as text_of
from roofline.report import summary
from roofline.report.analysis import view as live
from roofline.report.analysis.batch_figures import batch_limits, explorer, heatmap, largest_batch, ttft_by_prompt
from roofline.report.analysis.comparison import sensitivity
from roofline.report.analysis.step_figures import memory_budget, roofline_figure, schematic, time_budget
from roofline.report.analysis.view import OVERRIDE_CONTROLS, WEIGHTS, Values, flags, view
from roofline.report.cells import about_time, best, seconds, table, text_cell, text_table
from roofline.report.controls import (
    FIRST_STATE,
    Control,
    PageState,
    choice_control,
    number_control,
    optional_control,
    values_of,
    with_state,
)
from roofline.report.figure import Cell, Command, Section, Table, Tile, View
from roofline.report.page import live_page, static_page
from roofline.report.page_program import page_script, spec_classes, spec_data, view_program
from roofline.specs.library import ids, load_hardware
from roofline.text import Table as TextTable

_OBJECTIVE_NAMES = ("ttft", "tpot")
NO_OBJECTIVES: Mapping[str, float] = dict.fromkeys(_OBJECTIVE_NAMES, 0.0)
"""Of a page before one is set."""
_OUTPUT_LEN = 256
_CALCULATOR = ("llama-3.1-8b", "h100-sxm")
_CONTROLLED = {*SHORT.values(), *PREFIX, "batch", "input_len", "images", "context", "output_len", "kv_cache_dtype", "backend"}
_CONTROLLED |= {figure.option for figure in OVERRIDE_CONTROLS}
_UNCONTROLLED = ("phase", "segments", *(entry.name for entry in of_groups((SPECULATION,))))
"""Options of which a page is still: what they change no control sets."""
Formulas = Callable[[ResolvedRequest], str]
"""What makes the formulas of a request, as HTML; they need SymPy, which a page needs nowhere else."""


def report(
    model: str,
    hardware: Sequence[str],
    options: Mapping[str, Any],
    formulas: Formulas | None = None,
    opened: PageState = FIRST_STATE,
) -> str:
    """The page of one model on one hardware, or on several side by side, as a complete HTML document.

    It has no controls if it is of one phase, of a step given segment by segment, of speculative decoding, or of a fit by path.

    Args:
        model: id, path, or name on Hugging Face.
        hardware: ids or paths; the first is what the controls start with.
        options: those of `analyze`, and the objectives `ttft` and `tpot`.
        formulas: writes the section of formulas; none without.
        opened: what the controls are set to, where they have another state than that of the options.

    Raises:
        RooflineError: what `analyze` refuses.
        ValueError: a control cannot be set so.
    """
    saved_options, (options, objectives) = options, _without_objectives(options)
    stated = [part for name, seconds in objectives.items() if seconds for part in (f"--{name}", f"{seconds * 1e3:.10g} ms")]
    if _is_still(options):
        named = [part for name in dict.fromkeys(hardware) for part in ("--hardware", name)]
        reproduce = shell_line(("roofline", "report", model, *named, *flags_of(options), *stated, "--output", "report.html"))
        return static_page(still_view(model, list(dict.fromkeys(hardware)), options, **objectives), reproduce)
    saved = {
        "kind": "report",
        "model": model,
        "hardware": list(hardware),
        "options": {name: value if isinstance(value, bool) else str(value) for name, value in saved_options.items()},
        "inputs": report_inputs(model, hardware, options),
    }
    requests = _requests(model, hardware, options)
    hardware, options = _sized(list(dict.fromkeys(hardware)), options)
    values = _values(requests[0], model, hardware, options, objectives)
    devices = [(name, load_hardware(name)[0].title) for name in dict.fromkeys([*hardware, *ids("hardware")])]

    def line(values: Values) -> str:
        names = dict.fromkeys((values["hardware"], *hardware))
        words = [part for name in names for part in ("--hardware", name)]
        return shell_line(("roofline", "report", model, *words, *flags(values), *stated, "--output", "report.html"))

    written = formulas(requests[0]) if formulas else ""
    return _page(values, [(model, requests[0].model.title)], devices, line, written, opened, saved)


def report_inputs(model: str, hardware: Sequence[str], options: Mapping[str, Any]) -> dict[str, Any]:
    """Name, path and SHA-256 digest of the files that a report reads, by role; arguments and errors are those of `report`."""
    files = [entry for request in _requests(model, hardware, _without_objectives(options)[0]) for entry in request.inputs]
    several = len(dict.fromkeys(hardware)) > 1
    return {
        f"{entry.role} {entry.name}" if several and entry.role == "hardware" else entry.role: {
            "name": entry.name,
            "path": entry.path,
            "sha256": entry.sha256,
        }
        for entry in files
    }


def _requests(model: str, hardware: Sequence[str], options: Mapping[str, Any]) -> list[ResolvedRequest]:
    """What a report is of, hardware by hardware."""
    names, options = _sized(list(dict.fromkeys(hardware)), options)
    query = {**options, "output_len": options.get("output_len") or _OUTPUT_LEN}
    return [prepare(model, name, **query) for name in names]


def report_view(model: str, hardware: Sequence[str], options: Mapping[str, Any]) -> View:
    """What the page of `report` shows before a control is moved; arguments and errors are those of `report`."""
    options, objectives = _without_objectives(options)
    if _is_still(options):
        return still_view(model, list(dict.fromkeys(hardware)), options, **objectives)
    names, options = _sized(list(dict.fromkeys(hardware)), options)
    return view(_values(_requests(model, names[:1], options)[0], model, names, options, objectives))


def _without_objectives(options: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, float]]:
    """The options of `analyze`, and the objectives `ttft` and `tpot` in seconds, 0 without one.

    Raises:
        InputError: an objective that is no time.
    """
    rest = {name: value for name, value in options.items() if name not in _OBJECTIVE_NAMES}
    given = {name: options.get(name) for name in _OBJECTIVE_NAMES}
    return rest, {name: 0.0 if value is None else read_quantity(name, value, "s") for name, value in given.items()}


def _is_still(options: Mapping[str, Any]) -> bool:
    """Whether a page of these options has no controls: they are of what no control sets, or of a fit by path."""
    by_path = str(options.get("backend") or "").endswith((".yaml", ".yml"))
    return by_path or any(options.get(name) not in (None, "both") for name in _UNCONTROLLED)


def result_page(result: Analysis, formulas: Formulas | None = None) -> str:
    """The page of an analysis: that of `report` for the same model, hardware and options.

    Where these were given as objects, whose files are not known, it has tables alone. `formulas` is as in `report`.
    """
    if (query := result.query) is not None:
        return report(query["model"], [query["hardware"]], query["options"], formulas)
    drawn = (
        *(summary.phase_table(result, phase) for phase in result.steps),
        *([] if result.speculative is None else [summary.speculative_table(result.speculative)]),
        summary.limits_table(result),
    )
    rows = tuple((name, summary.gib(size), remark) for name, size, remark in summary.memory_rows(result))
    memory = TextTable("Memory", summary.memory_note(result), ("part", "GiB", "details"), (False, True, False), rows)
    tables = [text_table(f"table-{index}", entry) for index, entry in enumerate((memory, *drawn))]
    listed = View(
        title=summary.headline(result),
        subtitle=text_of.settings(result),
        answer=(*summary.sentences(result), summary.BOUND_AND_FLOOR, summary.subtitle(result)),
        fits=result.memory.fits,
        error="",
        tiles=(),
        commands=(),
        sections=tuple(Section(key=one.key, title=one.title, note="", figure=None, tables=(one,)) for one in tables),
        assumptions=live.assumptions(result),
        not_modelled=live.NOT_MODELLED,
        verdict=live.verdict(result),
    )
    return static_page(listed, "")


def _sized(hardware: Sequence[str], options: Mapping[str, Any]) -> tuple[list[str], dict[str, Any]]:
    """Hardware without a number of devices, and the options with the tensor-parallel size that uses them."""
    pairs = [sized(name, dict(options)) for name in hardware]
    if any(sizes != pairs[0][1] for _, sizes in pairs):
        raise InputError(f"a page has one parallel size for all hardware: {', '.join(hardware)} have several")
    return [name for name, _ in pairs], pairs[0][1]


def first_view(model: str, hardware: str) -> View:
    """What a page of a model on one hardware shows before a control is moved."""
    return view(_values(prepare(model, hardware, output_len=_OUTPUT_LEN), model, [hardware], {}))


def calculator(opened: PageState = FIRST_STATE) -> str:
    """The page on which any shipped model and hardware can be chosen, as a complete HTML document.

    Args:
        opened: what the controls are set to, where they have another state than the first.

    Raises:
        ValueError: a control cannot be set so.
    """
    model, hardware = _CALCULATOR
    request = prepare(model, hardware, output_len=_OUTPUT_LEN)
    values = _values(request, model, [hardware], {})
    models = [(name, load_model(name)[0].title) for name in ids("models")]
    devices = [(name, load_hardware(name)[0].title) for name in ids("hardware")]
    line = shell_line(("roofline", "report", "--calculator", "--output", "calculator.html"))
    return _page(values, models, devices, lambda values: line, "", opened, {"kind": "calculator", "name": ""})


def _program() -> Program:
    """The program of every page: with all kinds of specs, whatever a page holds, so that all pages have the same."""
    return view_program(view, spec_classes(), parts=(live.solved, live.head, live.words, live.section_keys, live.section_of))


def _page(
    values: Values,
    models: Sequence[tuple[str, str]],
    hardware: Sequence[tuple[str, str]],
    line: Callable[[Values], str],
    formulas: str,
    opened: PageState,
    saved: Mapping[str, Any],
) -> str:
    assume, engine = values["fixed"].get("assume"), values["fixed"].get("engine")
    script, data = translated(
        _program, lambda into: spec_data(into, [name for name, _ in models], [name for name, _ in hardware], assume, engine)
    )
    loaded = [load_model(name, assume if len(models) == 1 else None)[0] for name, _ in models]
    longest = max(model.max_position_embeddings for model in loaded)
    pictured = len(loaded) == 1 and loaded[0].vision is not None
    controls = with_state(settings(values, longest, models, hardware, pictured=pictured), opened.state)
    if opened.state:
        values = {**values, **values_of(controls)}
    return live_page(
        view(values), controls, page_script(script), {"specs": data, "values": values}, line(values), formulas,
        saved=saved, pinned=opened.pinned,
    )  # fmt: skip


def _values(
    request: ResolvedRequest,
    model: str,
    hardware: list[str],
    options: Mapping[str, Any],
    objectives: Mapping[str, float] = NO_OBJECTIVES,
) -> Values:
    """The first state, from options as a user wrote them, and objectives in seconds."""
    workload, deployment = request.workload, request.deployment
    full = {SHORT.get(name, name): value for name, value in options.items() if value is not None}
    full = {name: value for name, value in full.items() if value is not False or OPTIONS[name].undecided}
    weights = next((key for key, (name, value) in WEIGHTS.items() if getattr(deployment, name) == value), "")
    kv = deployment.kv_cache_dtype if deployment.kv_cache_dtype in ("bf16", "fp8") else ""
    typed = {name: read_quantity(name, full[name], unit) for name, unit in OVERRIDES.items() if name in full and unit}
    controlled = {*_CONTROLLED, *([WEIGHTS[weights][0]] if weights else [])} - ({"kv_cache_dtype"} if not kv else set())
    return {
        "model": model,
        "hardware": hardware[0],
        "others": hardware[1:],
        "batch": workload.batch,
        "input_len": workload.input_len - workload.image_tokens,
        "images": workload.images,
        "cached_prefix": workload.cached_prefix,
        "context": workload.context,
        "output_len": workload.output_len or _OUTPUT_LEN,
        "tp": str(deployment.tensor_parallel_size),
        "pp": str(deployment.pipeline_parallel_size),
        "dp": str(deployment.data_parallel_size),
        "ep": str(deployment.expert_parallel_size),
        "weights": weights,
        "kv": kv,
        "backend": deployment.backend or "",
        "efficiency": True,
        **{figure.key: typed.get(figure.option, 0) / figure.scale for figure in OVERRIDE_CONTROLS},
        "ttft_ms": objectives["ttft"] * 1e3,
        "tpot_ms": objectives["tpot"] * 1e3,
        "fixed": {name: _settled(request, name, value) for name, value in full.items() if name not in controlled},
    }


def _settled(request: ResolvedRequest, name: str, value: Any) -> Any:
    """An option that no control changes, as the request has read it: a number where it is one."""
    if name == "engine":
        return value  # with its version
    for owner in (request.deployment, request.deployment.conventions):
        if hasattr(owner, name):
            return getattr(owner, name)
    return request.hardware.overrides.get(name, value)


# Controls, and what they are set to at first

_WORKLOAD, _DEPLOYMENT, _HARDWARE, _OBJECTIVES = "Workload", "Deployment", "Hardware", "Objectives"
_SIZES = (1, 2, 4, 8, 16, 32, 64)
_WEIGHTS = (("", "as published"), ("bf16", "bf16"), ("fp8", "fp8"), ("awq", "int4 (AWQ)"), ("nvfp4", "nvfp4"))
_KV = (("", "as activations"), ("bf16", "bf16"), ("fp8", "fp8"))
_BACKENDS = (("", "vLLM's, band of all"), ("vllm", "vLLM"), ("sglang", "SGLang"), ("trtllm", "TensorRT-LLM"))
_MOST_BATCH, _MOST_TOKENS, _MOST_IMAGES = 65_536.0, 4_194_304.0, 64.0


def settings(
    values: Values,
    longest: int,
    models: Sequence[tuple[str, str]],
    hardware: Sequence[tuple[str, str]],
    *,
    pictured: bool = False,
) -> tuple[Control, ...]:
    """The controls of the page; models and hardware are lists of id and title, a single model has no control.

    Args:
        values: what they are set to.
        longest: the longest context of the models in tokens, the upper end of lengths.
        models: ids and titles.
        hardware: likewise.
        pictured: whether the work on images is known, so that their number has a control.
    """
    sheets = [load_hardware(name)[0] for name, _ in hardware]
    tokens = max(float(longest), *(float(values[key]) for key in ("input_len", "context", "output_len")))
    most = min(max(tokens, 2.0), _MOST_TOKENS)
    controls = [choice_control("model", "Model", models, values, "")] if len(models) > 1 else []
    controls += [
        number_control(
            "batch", "Batch", values, 1, max(_MOST_BATCH, values["batch"]), "sequences", _WORKLOAD, "in the whole deployment"
        ),
        number_control(
            "input_len",
            "Prompt",
            values,
            1,
            most,
            "tokens",
            _WORKLOAD,
            "text of each sequence, without images" if pictured else "of each sequence",
        ),
        *([_images(values)] if pictured else []),
        number_control(
            "cached_prefix", "Cached prefix", values, 0, most, "tokens", _WORKLOAD, "of each prompt, in the prefix cache"
        ),
        number_control(
            "context", "Context", values, min(values["context"], 1), most, "tokens", _WORKLOAD, "cached before a decode step"
        ),
        number_control("output_len", "Output", values, 1, most, "tokens", _WORKLOAD, "generated for each sequence"),
        choice_control("hardware", "Hardware", hardware, values, _HARDWARE),
        _own("peak_tflops", "Peak", values, [max(sheet.peaks.values()) / 1e12 for sheet in sheets], "TFLOP/s"),
        _own("bandwidth_gbs", "Bandwidth", values, [sheet.bandwidth / 1e9 for sheet in sheets], "GB/s"),
        _own("memory_gb", "Memory", values, [sheet.memory_bytes / 1e9 for sheet in sheets], "GB"),
        Control(
            key="efficiency",
            label="Measured efficiency",
            kind="switch",
            value=bool(values["efficiency"]),
            help="off: the bound alone, from the datasheet",
            group=_HARDWARE,
        ),
        choice_control("weights", "Weights", _WEIGHTS, values, _DEPLOYMENT),
        choice_control("kv", "KV cache", _KV, values, _DEPLOYMENT),
        *(_parallel(key, label, values) for key, label in _PARALLEL),
        choice_control("backend", "Kernels", _backends(str(values["backend"])), values, _DEPLOYMENT),
        _objective("ttft_ms", "TTFT", values, (10.0, 1e5)),
        _objective("tpot_ms", "TPOT", values, (1.0, 1e3)),
    ]
    return tuple(controls)


def _images(values: Values) -> Control:
    most = max(_MOST_IMAGES, values["images"])
    return number_control(
        "images", "Images", values, 0, most, "images", _WORKLOAD, "in each prompt; they add their tokens to it"
    )


_PARALLEL = (("tp", "Tensor parallel"), ("pp", "Pipeline parallel"), ("dp", "Data parallel"), ("ep", "Expert parallel"))


def _own(key: str, label: str, values: Values, published: Sequence[float], unit: str) -> Control:
    """A figure of the datasheet: from a tenth of the least of the hardware to ten times the greatest, or the datasheet's."""
    return optional_control(key, label, values, (min(published) / 10, 10 * max(published)), unit, "datasheet", _HARDWARE)


def _objective(key: str, label: str, values: Values, ends: tuple[float, float]) -> Control:
    given = values[key] or ends[0]
    return optional_control(key, label, values, (min(ends[0], given), max(ends[1], given)), "ms", "none", _OBJECTIVES)


def _backends(chosen: str) -> tuple[tuple[str, str], ...]:
    """The engines' kernels, and the chosen one."""
    return _BACKENDS if chosen in dict(_BACKENDS) else (*_BACKENDS, (chosen, chosen))


def _parallel(key: str, label: str, values: Values) -> Control:
    """A number of devices. Sizes that do not work are refused with those that do."""
    sizes = sorted({*_SIZES, int(values[key])})
    return choice_control(key, label, [(str(size), str(size)) for size in sizes], values, _DEPLOYMENT)


def still_view(model: str, hardware: Sequence[str], options: Mapping[str, Any], ttft: float, tpot: float) -> View:
    """What the page shows.

    Args:
        model: id or path.
        hardware: ids or paths; the first has the figures, the others stand beside it.
        options: of `analyze`.
        ttft: objective that figures draw, in seconds.
        tpot: likewise.
    """
    answers = [answer(model, name, **options) for name in hardware]
    request, result = answers[0]
    longest = 1 + max(segment.cached + segment.new for _, step in request.memory_steps() for segment in step)
    spoken = [] if result.speculative is None else [summary.speculative_sentence(result.speculative)]
    words = ("roofline", "analyze", model, "--hardware", hardware[0], *flags_of(options))
    return View(
        title=summary.headline(result),
        subtitle=live.settings_line(request, result) + live.other_hardware([entry for _, entry in answers]),
        answer=(*summary.sentences(result), *spoken, summary.BOUND_AND_FLOOR, summary.subtitle(result)),
        fits=result.memory.fits,
        error="",
        tiles=_tiles(request, result),
        commands=(
            *live.start_commands(request, longest, largest_batch(result)),
            Command(label="Reproduce in a terminal", text=shell_line(words)),
        ),
        sections=tuple(_sections(answers, ttft, tpot)),
        assumptions=live.assumptions(result),
        not_modelled=live.NOT_MODELLED,
        verdict=live.verdict(result),
    )


def _tiles(request: ResolvedRequest, result: Analysis) -> tuple[Tile, ...]:
    tiles = live.tiles(request, result)
    rounds = result.speculative
    if rounds is None or rounds.tpot.floor is None:
        return tiles
    note = f"with a draft; at least {seconds(rounds.tpot.floor).text}"
    drafted = Tile(label="TPOT", cell=seconds(best(rounds.tpot)), note=note)
    return (drafted, *(replace(tile, label="TPOT, no draft") if tile.label == "TPOT" else tile for tile in tiles))


def _sections(answers: Sequence[tuple[ResolvedRequest, Analysis]], ttft: float, tpot: float) -> list[Section]:
    request, result = answers[0]
    plain = not request.workload.segmented and result.speculative is None  # figures of other batches are of plain steps
    sections = [live.figure_section(roofline_figure(request, result, answers[1:]))]
    if plain and result.decode is not None:
        sections.append(live.figure_section(explorer(request, result, tpot)))
    if len(answers) > 1:
        sections.append(live.section("compare", "Side by side", "", [_times_by_hardware([one for _, one in answers])]))
    if result.speculative is not None:
        drawn = summary.speculative_table(result.speculative)
        rows: list[tuple[Cell, ...]] = [tuple(map(text_cell, row)) for row in drawn.rows]
        rounds = table("speculative-rows", "Rounds", "", drawn.columns, rows)
        sections.append(live.section("speculative", drawn.title, drawn.note, [rounds]))
    sections += [live.figure_section(time_budget(phase)) for phase in result.steps if phase.time.bound is not None]
    if any(phase.time.bound is not None for phase in result.phases):
        keys = live.device_keys([one for _, one in answers])
        sections += [live.figure_section(schematic(*entry, key)) for entry, key in zip(answers, keys, strict=True)]
    sections.append(live.figure_section(memory_budget([one for _, one in answers])))
    if plain and result.decode is not None:
        sections.append(live.figure_section(batch_limits(request, result, Slo(ttft or None, tpot or None))))
        if result.memory.fits or request.ignore_capacity:
            sections.append(live.figure_section(sensitivity(request)))
    if plain and result.prefill is not None:
        sections.append(live.figure_section(ttft_by_prompt([one for one, _ in answers], ttft)))
    if plain and result.decode is not None:
        sections.append(live.figure_section(heatmap(request, result)))
    return [*sections, *[live.last_section(request, result, key) for key in live.LAST_SECTIONS]]


def _times_by_hardware(results: Sequence[Analysis]) -> Table:
    """The times of each hardware."""
    rows: list[tuple[Cell, ...]] = []
    for result in results:
        spans: list[tuple[str, Duration]] = [(phase.name, phase.pipeline) for phase in result.steps]
        if result.speculative is not None:
            spans.append(("TPOT with a draft", result.speculative.tpot))
        for name, span in spans:
            times = (*map(seconds, (span.floor, span.bound)), *map(about_time, (span.estimate, span.low, span.high)))
            rows.append((text_cell(result.hardware["title"]), text_cell(name), *times))
    return table(
        "compare-rows", "Times", summary.BOUND_AND_FLOOR, ("hardware", "step", "floor", "bound", "estimate", "from", "to"), rows
    )
