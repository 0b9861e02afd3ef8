"""A result as one plain HTML page without scripts, and as the fragment that notebooks show."""

from __future__ import annotations

from html import escape as escape_html

from roofline.predict.result import Analysis
from roofline.report import summary
from roofline.report.summary import gib
from roofline.text import Table, clean

_STYLE = """
:root { color-scheme: light dark; font: 15px/1.5 system-ui, sans-serif; }
body { max-width: 72rem; margin: 2rem auto; padding: 0 1rem; }
h1 { line-height: 1.2; margin-bottom: .2rem; } h2 { margin-top: 2.2rem; margin-bottom: .2rem; }
.note { opacity: .8; margin-top: 0; }
table { border-collapse: collapse; display: block; overflow-x: auto; font-variant-numeric: tabular-nums; }
th, td { padding: .2rem .8rem; text-align: left; border-bottom: 1px solid #8884; white-space: nowrap; }
td:last-child { white-space: normal; min-width: 6rem; }
.right { text-align: right; }
"""


def escape(text: str) -> str:
    """The text with HTML's special characters escaped, without control characters."""
    return escape_html(clean(text))


def page(result: Analysis) -> str:
    """The result as a complete HTML document."""
    return document(summary.headline(result), body(result))


def document(title: str, content: str, script: str = "") -> str:
    """A complete HTML document that loads nothing, as its content security policy says.

    Args:
        title: plain text; it is escaped here.
        content: HTML fragment.
        script: JavaScript for the head, if the content needs one; the policy then allows inline scripts.
    """
    policy = "default-src 'none'; style-src 'unsafe-inline'"
    if script:
        policy += "; script-src 'unsafe-inline'; img-src data: blob:"
    return (
        f'<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n<title>{escape(title)}</title>\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
        f"<style>{_STYLE}</style>\n{f'<script>{script}</script>' if script else ''}</head>\n"
        f"<body>\n<main>\n{content}</main>\n</body>\n</html>\n"
    )


def body(result: Analysis) -> str:
    """The result as an HTML fragment, as notebooks show it."""
    memory = Table(
        "Memory",
        summary.memory_note(result),
        ("part", "GiB", ""),
        (False, True, False),
        tuple((name, f"{gib(size)}", remark) for name, size, remark in summary.memory_rows(result)),
    )
    tables = [
        memory,
        *(summary.phase_table(result, phase) for phase in result.phases),
        *([] if result.speculative is None else [summary.speculative_table(result.speculative)]),
        summary.limits_table(result),
        summary.assumptions_table(result),
    ]
    texts = summary.sentences(result)
    if result.speculative is not None:
        texts.append(summary.speculative_sentence(result.speculative))
    answer = "".join(f"<p>{escape(sentence)}</p>\n" for sentence in texts)
    return (
        f'<h1>{escape(summary.headline(result))}</h1>\n<p class="note">{escape(summary.subtitle(result))}</p>\n{answer}'
        + "".join(table(entry) for entry in tables)
    )


def table(content: Table) -> str:
    """A text table as an HTML fragment: heading, note, rows. All texts are escaped."""

    def row(cells: tuple[str, ...], tag: str) -> str:
        parts = (
            f"<{tag}{' class=right' if right else ''}{' scope=col' if tag == 'th' else ''}>{escape(cell)}</{tag}>"
            for cell, right in zip(cells, content.right, strict=True)
        )
        return f"<tr>{''.join(parts)}</tr>\n"

    note = f'<p class="note">{escape(content.note)}</p>\n' if content.note else ""
    rows = "".join(row(cells, "td") for cells in content.rows)
    head = f"<thead>{row(content.columns, 'th')}</thead>"
    return f"<h2>{escape(content.title)}</h2>\n{note}<table>\n{head}\n<tbody>\n{rows}</tbody>\n</table>\n"
