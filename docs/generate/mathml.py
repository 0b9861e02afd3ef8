"""LaTeX as MathML: browsers draw it themselves, without a script or a font from elsewhere."""

from __future__ import annotations

import re
from html import escape
from typing import TYPE_CHECKING

from docutils.nodes import SkipNode
from latex2mathml.converter import convert

if TYPE_CHECKING:
    from docutils import nodes
    from sphinx.writers.html5 import HTML5Translator


def mathml(latex: str, *, block: bool = False) -> str:
    """A formula, with its LaTeX beside it for whoever copies it.

    >>> mathml("x")
    '<math xmlns="http://www.w3.org/1998/Math/MathML" display="inline"><semantics><mrow><mi>x</mi></mrow><annotation \
encoding="application/x-tex">x</annotation></semantics></math>'
    """
    made = convert(latex.strip(), display="block" if block else "inline")
    note = f'<annotation encoding="application/x-tex">{escape(latex.strip())}</annotation>'
    return re.sub(r"(<math[^>]*>)(.*)(</math>)", rf"\1<semantics>\2{_safe(note)}</semantics>\3", made, flags=re.DOTALL)


def _safe(text: str) -> str:
    return text.replace("\\", r"\\")


def inline(self: HTML5Translator, node: nodes.math) -> None:
    """A formula in a sentence."""
    self.body.append(mathml(node.astext()))
    raise SkipNode


def block(self: HTML5Translator, node: nodes.math_block) -> None:
    """A formula on a line of its own, which scrolls where it is wider than the page."""
    made = mathml(node.astext(), block=True)
    self.body.append(f'<div class="formula" tabindex="0" role="group" aria-label="formula">{made}</div>\n')
    raise SkipNode
