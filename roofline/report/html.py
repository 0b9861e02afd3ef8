"""A result as a page, as the HTML fragment that notebooks show, and as text."""

from __future__ import annotations

import re
from dataclasses import replace
from hashlib import sha256
from html import escape as escape_html
from typing import Any

from roofline.errors import RooflineError
from roofline.predict.result import Analysis
from roofline.report.summary import BOUND_AND_FLOOR
from roofline.text import Answer, Labelled, Table, answer_text, clean


def escape(text: str) -> str:
    """The text with HTML's special characters escaped, without control characters."""
    return escape_html(clean(text))


def page(result: Analysis) -> str:
    """The page of an analysis: that of `roofline report`."""
    from roofline.report.analysis.page import result_page
    from roofline.report.formulas import formulas

    return result_page(result, formulas)


def _rows(content: Table) -> str:
    """The head and the rows of a table."""

    def row(cells: tuple[str, ...], tag: str) -> str:
        parts = (
            f"<{tag}{' class=right' if right else ''}{' scope=col' if tag == 'th' else ''}>{escape(cell)}</{tag}>"
            for cell, right in zip(cells, content.right, strict=True)
        )
        return f"<tr>{''.join(parts)}</tr>\n"

    rows = "".join(row(cells, "td") for cells in content.rows)
    return f"<table>\n<thead>{row(content.columns, 'th')}</thead>\n<tbody>\n{rows}</tbody>\n</table>\n"


# Notebooks and print

_NOTEBOOK = """
.roofline-result { max-width: 62rem; line-height: 1.45; }
.roofline-result p { margin: .3rem 0; } .roofline-result .note { opacity: .75; }
.roofline-result table { border-collapse: collapse; margin: .5rem 0; font-variant-numeric: tabular-nums; }
.roofline-result th, .roofline-result td { padding: .1rem .7rem .1rem 0; text-align: left; vertical-align: top; }
.roofline-result th { white-space: nowrap; }
.roofline-result tr > .right { text-align: right; }
.roofline-result .wide { overflow-x: auto; }
.roofline-result .figure-svg { max-width: 46rem; background: var(--f-ground); font-family: system-ui, sans-serif; }
.roofline-result h4 { margin: .8rem 0 .2rem; } .roofline-result summary { cursor: pointer; }
[data-jp-theme-light="true"] .roofline-result .figure-svg, .vscode-light .roofline-result .figure-svg { color-scheme: light; }
[data-jp-theme-light="false"] .roofline-result .figure-svg, .vscode-dark .roofline-result .figure-svg { color-scheme: dark; }
"""


def answer_of(result: Any) -> Answer:
    """The answer of a result, as the command that gives such a result prints it."""
    from roofline.predict.limits import BatchLimits
    from roofline.predict.op import OpResult
    from roofline.serving.planning.result import Plan
    from roofline.serving.preemption.preempt import Preempted
    from roofline.serving.simulation.result import Simulation
    from roofline.serving.study.result import StudyResult

    if isinstance(result, Analysis):
        from roofline.report import answer as text
    elif isinstance(result, OpResult):
        from roofline.report import operator_page as text  # type: ignore[no-redef]
    elif isinstance(result, BatchLimits):
        from roofline.report import limits as text  # type: ignore[no-redef]
    elif isinstance(result, Simulation):
        from roofline.report.simulation import summary as text  # type: ignore[no-redef]
    elif isinstance(result, StudyResult):
        from roofline.report.study import summary as text  # type: ignore[no-redef]
    elif isinstance(result, Preempted):
        from roofline.report import preemption_summary as text  # type: ignore[no-redef]
    elif isinstance(result, Plan):
        from roofline.report.plan import summary as text  # type: ignore[no-redef]
    else:
        raise TypeError(f"no answer is made of {type(result).__name__}")
    made: Answer = text.answer(result)
    notes = tuple((label, re.sub(r"all ([\d,]+): -vv$", r"all \1 in .assumptions", words)) for label, words in made.notes)
    return replace(made, notes=notes)


def text(result: Any) -> str:
    """The answer as lines of text: title, settings, verdict, times, what the estimate rests on."""
    return answer_text(answer_of(result))


def notebook(result: Any) -> str:
    """The answer with a figure as an HTML fragment, in light and dark; tables and assumptions are folded."""
    made = answer_of(result)
    head = f"<p><b>{escape(made.title)}</b><br><span class=note>{escape(made.settings)}</span></p>\n"
    verdict = f"<p>{escape(made.verdict)}</p>\n" if made.verdict else ""
    visible = "".join(map(_part, (*made.parts, *made.brief, made.notes)))
    folded = "".join(map(_part, (*made.details, *([made.assumptions] if made.assumptions is not None else []))))
    more = f"<details><summary>Details and assumptions</summary>\n{folded}</details>\n" if folded else ""
    style, drawn = _drawn(result)
    return f"<div class=roofline-result>\n<style>{style}</style>\n{head}{verdict}{visible}{drawn}{more}</div>\n"


def _drawn(result: Any) -> tuple[str, str]:
    """The style, and the first figure; none where the result has none, such as of specs that no file has."""
    from roofline.report.figures import figures_of
    from roofline.report.page import style_sheets
    from roofline.report.svg import svg

    try:
        figure = figures_of(result).make()
    except RooflineError:
        return _NOTEBOOK, ""
    # NB: ids of several outputs on one page may not be the same: clips are found by id
    own = sha256(svg(figure).encode()).hexdigest()[:8]
    drawn = svg(replace(figure, key=f"{figure.key}-{own}"))
    return style_sheets(("figures",)) + _NOTEBOOK, f"<h4>{escape(figure.title)}</h4>\n{drawn}\n"


def _part(part: Table | Labelled | str) -> str:
    if isinstance(part, str):
        return f"<pre>{escape_html(clean(part, keep_lines=True))}</pre>\n" if part else ""
    if isinstance(part, Table):
        title = f"<h4>{escape(part.title)}</h4>\n" if part.title else ""
        note = f"<p class=note>{escape(part.note)}</p>\n" if part.note else ""
        both = {"bound", "floor"} <= {*part.columns}
        caption = f"<p class=note>{escape(BOUND_AND_FLOOR)}</p>\n" if both else ""
        return f"{title}{note}<div class=wide>{_rows(part)}</div>\n{caption}" if part.rows else ""
    rows = "".join(f"<tr><th>{escape(label)}</th><td>{escape(words)}</td></tr>\n" for label, words in part)
    return f"<table><tbody>\n{rows}</tbody></table>\n" if rows else ""
