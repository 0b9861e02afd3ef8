"""Figures of results as plotly objects: those of the pages, for notebooks and image files."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from roofline.errors import InputError, UnknownNameError
from roofline.report.figure import Figure, View
from roofline.report.plotly_figure import plot

if TYPE_CHECKING:
    import plotly.graph_objects as go

    from roofline.predict.result import Analysis

_Figures = Mapping[str, Callable[[], Figure]]
TTFT_S, TPOT_S = 1.0, 0.05
"""Objectives that figures of an analysis have as lines, as those of a page have at first."""


def figure(result: Any, name: str, *, dark: bool = False) -> go.Figure:
    """A figure of a result, as a plotly object: `show()` it, or write it with `write_html` or `write_image`.

    Args:
        result: what `analyze`, `simulate`, `plan` or `preempt` returns, or the frame that `sweep` returns.
        name: one of `figure_names(result)`: the names of the sections of the page of such a result.
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

    figures = _figures(result)
    if name not in figures:
        raise UnknownNameError("figure", name, figures, list_all=True)
    described = figures[name]()
    drawn = plot(described, dark)
    layout = {**drawn["layout"], "title": {"text": described.title}, "font": {"color": drawn["layout"]["font"]["color"]}}
    layout["margin"] = {**layout["margin"], "t": layout["margin"]["t"] + 40}
    layout["height"] += 40
    return go.Figure(data=drawn["data"], layout=layout)


def figure_names(result: Any) -> list[str]:
    """Names of the figures of a result, in the order of its page.

    Raises:
        InputError: no figures are made of such a result.

    >>> import roofline
    >>> figure_names(roofline.analyze("llama-3.1-8b", "h100-sxm", phase="decode"))
    ['roofline', 'time-decode', 'memory', 'batch-limits', 'explorer', 'ttft', 'heatmap', 'sensitivity']
    """
    return list(_figures(result))


def _figures(result: Any) -> _Figures:
    from roofline.predict.result import Analysis
    from roofline.serving.planning.result import Plan
    from roofline.serving.preemption.preempt import Preempted
    from roofline.serving.simulation.result import Simulation

    if isinstance(result, Analysis):
        return _of_analysis(result)
    if isinstance(result, Simulation):
        from roofline.report.simulation.page import first_view

        return _of_view(first_view(result))
    if isinstance(result, Plan):
        from roofline.report.plan.page import first_view as plan_view

        return _of_view(plan_view(result))
    if isinstance(result, Preempted):
        from roofline.report.preemption_page import view as preemption_view

        return _of_view(preemption_view(result, ""))
    if type(result).__name__ == "DataFrame" and "phase" in result:
        from roofline.report.sweep.data import SweepData
        from roofline.report.sweep.page import view as sweep_view

        return _of_view(sweep_view(SweepData(name="sweep", frame=result, refused=tuple(result.attrs.get("refused", ())))))
    what = "results of analyze, simulate, plan and preempt, and frames of sweep"
    raise InputError(f"figures are made of {what}, not of {type(result).__name__}")


def _of_view(view: View) -> _Figures:
    figures = [section.figure for section in view.sections if section.figure is not None]
    return {figure.key: partial(_same, figure) for figure in figures}


def _same(figure: Figure) -> Figure:
    return figure


def _of_analysis(result: Analysis) -> _Figures:
    """Functions that make the figures: some look at hundreds of steps."""
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
    for phase in result.phases:
        if phase.time.bound is not None:
            figures[f"time-{phase.name}"] = partial(step_figures.time_budget, phase)
    figures["memory"] = partial(step_figures.memory_budget, [result])
    if any(phase.name == "mixed" for phase in result.phases):
        return figures  # batches and lengths of its segments are not one number
    figures["batch-limits"] = partial(batch_figures.batch_limits, request, result, Slo(TTFT_S, TPOT_S))
    figures["explorer"] = partial(batch_figures.explorer, request, result, TPOT_S)
    figures["ttft"] = partial(batch_figures.ttft_by_prompt, [request], TTFT_S)
    figures["heatmap"] = partial(batch_figures.heatmap, request, result)
    if result.memory.fits or request.ignore_capacity:
        figures["sensitivity"] = partial(comparison.sensitivity, request)
    return figures
