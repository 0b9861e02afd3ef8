"""Figures of results: those of the pages, as plain data for files, and as plotly objects for notebooks."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from roofline.errors import InputError, UnknownNameError
from roofline.report.figure import Figure, View
from roofline.report.figure_files import FONT, about_lines
from roofline.report.plotly_figure import plot
from roofline.report.plotly_traces import plain
from roofline.report.styles import DARK, LIGHT

if TYPE_CHECKING:
    import plotly.graph_objects as go

    from roofline.predict.result import Analysis
    from roofline.report.sweep.data import SweepData

_Makers = Mapping[str, Callable[[], Figure]]


@dataclass(frozen=True, slots=True)
class Figures:
    """The figures of a result, in the order of its page.

    Args:
        about: what the result is of, as its title and its settings say.
        makers: functions that make the figures, by name: some look at hundreds of steps.
    """

    about: str
    makers: _Makers

    def make(self, name: str | None = None) -> Figure:
        """Return the figure of this name; of None the first.

        Raises:
            InputError: there are no figures.
            UnknownNameError: there is none of that name; the message lists those there are.
        """
        if not self.makers:
            raise InputError("this result has no figures")
        chosen = next(iter(self.makers)) if name is None else name
        if chosen not in self.makers:
            raise UnknownNameError("figure", chosen, self.makers, list_all=True)
        return self.makers[chosen]()


def figure(result: Any, name: str | None = None, *, dark: bool = False) -> go.Figure:
    """A figure of a result, as a plotly object: `show()` it, or write it with `write_html` or `write_image`.

    Args:
        result: what `analyze`, `op`, `limits`, `simulate`, `plan` or `preempt` returns, or the frame that `sweep` returns.
        name: one of `figure_names(result)`: the names of the sections of the page of such a result; None: the first.
        dark: for a dark background. The background itself is transparent.

    Returns:
        The same traces, axes and texts as the figure on the page, with its title. Hover texts have the exact numbers.

    Raises:
        UnknownNameError: the result has no figure of that name; the message lists those it has.
        InputError: no figures are made of such a result.

    >>> import roofline
    >>> drawn = roofline.analyze("llama-3.1-8b", "h100-sxm", batch=8).figure("roofline")
    >>> drawn.layout.title.text, [trace.name for trace in drawn.data][-2:]
    ('Roofline', ['prefill', 'decode'])
    """
    import plotly.graph_objects as go

    figures = figures_of(result)
    described, lines = figures.make(name), about_lines(figures.about)
    drawn, hues = plot(described, dark), DARK if dark else LIGHT
    layout = {**drawn["layout"], "title": _title(described.title, lines, hues)}
    layout["font"] = {**layout["font"], "family": FONT}
    layout["hoverlabel"] = {**layout["hoverlabel"], "font": {**layout["hoverlabel"]["font"], "family": FONT}}
    head = 46 + 16 * len(lines)
    layout["margin"] = {**layout["margin"], "t": layout["margin"]["t"] + head}
    layout["height"] += head
    return go.Figure(data=drawn["data"], layout=layout)


def _title(title: str, lines: Sequence[str], hues: Mapping[str, str]) -> dict[str, Any]:
    """Title and subtitle where a figure's file has them."""
    subtitle = {"text": "<br>".join(map(plain, lines)), "font": {"size": 12, "color": hues["grey"]}}
    font = {"size": 16, "color": hues["ink"]}
    place = {
        "x": 0,
        "xref": "container",
        "xanchor": "left",
        "y": 1,
        "yref": "container",
        "yanchor": "top",
        "pad": {"l": 12, "t": 12},
    }
    return {"text": plain(title), "font": font, "subtitle": subtitle, **place}


def figure_names(result: Any) -> list[str]:
    """Names of the figures of a result, in the order of its page.

    Raises:
        InputError: no figures are made of such a result.

    >>> import roofline
    >>> figure_names(roofline.analyze("llama-3.1-8b", "h100-sxm", phase="decode"))
    ['roofline', 'explorer', 'time-decode', 'device', 'memory', 'batch-limits', 'ttft', 'sensitivity', 'heatmap']
    """
    return list(figures_of(result).makers)


def figures_of(result: Any) -> Figures:
    """Return the figures of a result of the Python API, of a frame that `sweep` returns, or of a page.

    Raises:
        InputError: no figures are made of such a result.
    """
    from roofline.report.sweep.data import SweepData

    if isinstance(result, View):
        return _of_view(result)
    if isinstance(result, SweepData):
        return _of_sweep(result)
    if type(result).__name__ == "DataFrame" and "phase" in result:
        return _of_sweep(SweepData(name="sweep", frame=result, refused=tuple(result.attrs.get("refused", ()))))
    from roofline.report.html import answer_of

    makers = _makers(result)
    answer = answer_of(result)
    return Figures(_line(answer.title, answer.settings), makers)


def _of_view(view: View) -> Figures:
    figures = [section.figure for section in view.sections if section.figure is not None]
    return Figures(_line(view.title, view.subtitle), {entry.key: partial(_same, entry) for entry in figures})


def _of_sweep(sweep: SweepData) -> Figures:
    from roofline.report.sweep.page import view

    return _of_view(view(sweep))


def _line(title: str, settings: str) -> str:
    return " · ".join(filter(None, (title, settings)))


def _makers(result: Any) -> _Makers:
    from roofline.predict.limits import BatchLimits
    from roofline.predict.op import OpResult
    from roofline.predict.result import Analysis
    from roofline.serving.planning.result import Plan
    from roofline.serving.preemption.preempt import Preempted
    from roofline.serving.simulation.result import Simulation
    from roofline.serving.study.result import StudyResult

    if isinstance(result, Analysis):
        return _of_analysis(result)
    if isinstance(result, OpResult):
        from roofline.report.operator_page import figures

        return figures(result)
    if isinstance(result, BatchLimits):
        from roofline.report.limits import view as limits_view

        return _of_view(limits_view(result, "")).makers
    if isinstance(result, Simulation):
        from roofline.report.simulation.page import first_view

        return _of_view(first_view(result)).makers
    if isinstance(result, StudyResult):
        from roofline.report.study.page import view as study_view

        return _of_view(study_view(result)).makers
    if isinstance(result, Plan):
        from roofline.report.plan.page import first_view as plan_view

        return _of_view(plan_view(result)).makers
    if isinstance(result, Preempted):
        from roofline.report.preemption_page import view as preemption_view

        return _of_view(preemption_view(result, "")).makers
    what = "results of analyze, op, limits, simulate, study, plan and preempt, and frames of sweep"
    raise InputError(f"figures are made of {what}, not of {type(result).__name__}")


def _same(figure: Figure) -> Figure:
    return figure


def _of_analysis(result: Analysis) -> _Makers:
    from roofline.predict.drafts import read_options
    from roofline.predict.request import prepare
    from roofline.predict.slo import Slo
    from roofline.report.analysis import batch_figures, comparison, step_figures

    query = result.query
    if query is None:
        raise InputError("figures are made of analyses whose model and hardware were given by name or path")
    _, options = read_options(query["options"])  # figures are of steps without a draft
    request = prepare(query["model"], query["hardware"], **options)
    figures: dict[str, Callable[[], Figure]] = {"roofline": partial(step_figures.roofline_figure, request, result)}
    mixed = any(phase.name == "mixed" for phase in result.phases)  # batches and lengths of its segments are not one number
    if not mixed:
        figures["explorer"] = partial(batch_figures.explorer, request, result, 0.0)
    for phase in result.steps:
        if phase.time.bound is not None:
            figures[f"time-{phase.name}"] = partial(step_figures.time_budget, phase)
    if any(phase.time.bound is not None for phase in result.steps):
        figures["device"] = partial(step_figures.schematic, request, result)
    figures["memory"] = partial(step_figures.memory_budget, [result])
    if mixed:
        return figures
    figures["batch-limits"] = partial(batch_figures.batch_limits, request, result, Slo())
    figures["ttft"] = partial(batch_figures.ttft_by_prompt, [request], 0.0)
    if result.memory.fits or request.ignore_capacity:
        figures["sensitivity"] = partial(comparison.sensitivity, request)
    figures["heatmap"] = partial(batch_figures.heatmap, request, result)
    return figures
