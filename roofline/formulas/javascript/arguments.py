"""Arguments of calls, in the order in which the called function takes them."""

from __future__ import annotations

import ast
import json
from collections.abc import Sequence

from roofline.formulas.javascript.builtins import METHODS, OTHERS
from roofline.formulas.javascript.expressions import Expressions
from roofline.formulas.javascript.parameters import parameters, rest, without_first


class Arguments(Expressions):
    """Writes the inside of a call's brackets."""

    def positional(self, node: ast.Call) -> str:
        """Arguments by position alone."""
        if node.keywords:
            raise self.refused(node)
        return ", ".join(map(self.item, node.args))

    def pairs(self, node: ast.Call) -> str:
        """Keyword arguments as the pairs of a dict."""
        return ", ".join(
            f"...{self.expression(word.value)}.pairs()"
            if word.arg is None
            else f"[{json.dumps(word.arg)}, {self.expression(word.value)}]"
            for word in node.keywords
        )

    def ordered(self, node: ast.Call, order: Sequence[str]) -> str:
        """Arguments in the order of parameters; `undefined` stands for those in between that are not given."""
        uncounted = any(isinstance(part, ast.Starred) for part in node.args)
        if (uncounted and node.keywords) or not (uncounted or _takes(order, node)):
            raise self.refused(node)
        given = list(map(self.item, node.args))
        words = {str(word.arg): self.expression(word.value) for word in node.keywords}
        last = max((order.index(name) for name in words), default=-1)
        return ", ".join([*given, *(words.get(name, "undefined") for name in order[len(given) : last + 1])])

    def bound(self, node: ast.Call, arguments: ast.arguments) -> str:
        """Arguments in the order of a function's parameters."""
        if rest(arguments) is not None:
            return self.positional(node)
        if _collects(arguments):
            return self._collected(node, arguments)
        return self.ordered(node, [entry.arg for entry in parameters(arguments)])

    def by_method(self, node: ast.Call, name: str) -> str:
        """Arguments of a method whose class is not known: of all methods of that name that take them, which have to agree."""
        known = [entry for entry in map(without_first, self.program.methods(name)) if _takes_all(entry, node)]
        own = METHODS.get(name)
        taken = own is not None and _takes(own, node)
        if not known and not taken and (own is not None or name in OTHERS):
            self.program.missing.append(self.refused(node, "it is not what JavaScript has"))
        if not node.keywords and not any(map(_collects, known)):
            return self.positional(node)
        found = {self.bound(node, entry) for entry in known} | ({self.ordered(node, own)} if own and taken else set())
        if len(found) > 1:
            raise self.refused(node, "methods of this name differ")
        # what has no such method yet may have it in the next round; what has none in the end is never there
        return found.pop() if found else "undefined"

    def _collected(self, node: ast.Call, arguments: ast.arguments) -> str:
        """Arguments with a list of the rest, a dict of the rest, or both."""
        plain = len(arguments.posonlyargs) + len(arguments.args)
        given = list(map(self.item, node.args))
        values = given[:plain]
        if arguments.vararg is not None:
            values += ["undefined"] * (plain - len(values))
            values.append(f"[{', '.join(given[plain:])}]")
        words = {word.arg: self.expression(word.value) for word in node.keywords if word.arg is not None}
        order = [entry.arg for entry in parameters(arguments) if entry is not arguments.kwarg]
        values += [words.pop(name, "undefined") for name in order[len(values) :]]
        if arguments.kwarg is not None:
            others = [  # in the order in which they are given
                f"...{self.expression(word.value)}.pairs()"
                if word.arg is None
                else f"[{json.dumps(word.arg)}, {words[word.arg]}]"
                for word in node.keywords
                if word.arg is None or word.arg in words
            ]
            values.append(f"$.dict([{', '.join(others)}])")
        return ", ".join(values)


def _takes(order: Sequence[str], node: ast.Call) -> bool:
    """Whether parameters are as many as the arguments of a call, and have the names of its keywords."""
    return len(node.args) <= len(order) and {word.arg for word in node.keywords} <= set(order)


def _takes_all(arguments: ast.arguments, node: ast.Call) -> bool:
    if arguments.vararg is not None or arguments.kwarg is not None:
        return True
    return _takes([entry.arg for entry in parameters(arguments)], node)


def _collects(arguments: ast.arguments) -> bool:
    """Whether a function takes the rest of its arguments in a list or a dict that calls have to make."""
    return rest(arguments) is None and (arguments.vararg is not None or arguments.kwarg is not None)
