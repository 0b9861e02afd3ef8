"""Comprehensions and generator expressions as loops inside a function."""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import Self

from roofline.formulas.javascript.assignments import Assignments
from roofline.formulas.javascript.scope import targets


class Comprehensions(Assignments):
    """Writes `[... for ...]`, `{... for ...}`, `{...: ... for ...}` and `(... for ...)`."""

    def _listcomp(self, node: ast.ListComp) -> str:
        return self._array(node.generators, lambda inner: inner.expression(node.elt))

    def _setcomp(self, node: ast.SetComp) -> str:
        return f"$.set({self._array(node.generators, lambda inner: inner.expression(node.elt))})"

    def _dictcomp(self, node: ast.DictComp) -> str:
        def pair(inner: Self) -> str:
            return f"[{inner.expression(node.key)}, {inner.expression(node.value)}]"

        return f"$.dict({self._array(node.generators, pair)})"

    def _generatorexp(self, node: ast.GeneratorExp) -> str:
        inside = self.loops(node.generators, lambda inner: f"yield {inner.expression(node.elt)};")
        return f"(function* () {{ {inside} }})()"

    def _array(self, generators: list[ast.comprehension], made: Callable[[Self], str]) -> str:
        return f"(() => {{ const $r = []; {self.loops(generators, lambda inner: f'$r.push({made(inner)});')} return $r; }})()"

    def loops(self, generators: list[ast.comprehension], made: Callable[[Self], str]) -> str:
        """Loops and conditions of a comprehension, round what is made in the innermost."""
        first, *rest = generators
        if first.is_async:
            raise self.refused(first.iter)
        values = self.expression(first.iter)
        inner = self.within(targets(first.target))
        conditions = "".join(f"if ({inner.test(condition)}) " for condition in first.ifs)
        text = inner.loops(rest, made) if rest else made(inner)
        # the values have a name of their own: a target may be called like what it is taken from
        return f"const $s = $.iter({values}); for (const {self.target(first.target)} of $s) {conditions}{{ {text} }}"
