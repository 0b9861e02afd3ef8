"""Where a mutant differs from the source: listing the places by syntax tree, and building them all into one module.

A mutant changes one expression. All mutants of a module are compiled into it at once: `a + b` becomes
`(a - b if __mutant__("1f0c9a3e") else a + b)`, so that a forked process chooses a mutant by its name, without importing
anything anew, and a run of the tests records which of them come by. Only what runs on import (defaults, constants of modules
and classes) needs a process of its own.
"""

from __future__ import annotations

import ast
import copy
import hashlib
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = {
    "operators": ("roofline/cost.py", "roofline/operators"),
    "blocks": ("roofline/blocks",),
    "graph": ("roofline/graph",),
    "predict": ("roofline/predict",),
    "queueing": ("roofline/serving/queueing",),
    "simulation": ("roofline/serving/simulation",),
    "preemption": ("roofline/serving/preemption",),
    "planning": ("roofline/serving/planning",),
}
"""What is mutated, by the name that the command takes."""

HOOK = "__mutant__"
TOUCHED = "module "
"""Before the name of a module: what functions record by which a module's constants may be read."""

_ARITHMETIC: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult, ast.FloorDiv: ast.Div, ast.Mod: ast.Mult,
    ast.Pow: ast.Mult,
}  # fmt: skip
_COMPARISONS: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In,
}  # fmt: skip
_CALLS = {
    "max": "min", "min": "max", "maximum": "minimum", "minimum": "maximum", "ceil": "floor", "floor": "ceil", "any": "all",
    "all": "any",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Site:
    """One mutant: where it is, and what it changes.

    Attributes:
        module: its file, from the root of the repository.
        function: qualified name, or `<module>`.
        line: the source of its first line, without indentation.
        mutant: what was, an arrow, what is instead; a number after it where a line has the same change more than once.
        kind: of change.
        on_import: runs when the module is imported.
        number: of the line, to find it; not part of the identity.
    """

    module: str
    function: str
    line: str
    mutant: str
    kind: str
    on_import: bool
    number: int

    @property
    def key(self) -> tuple[str, str, str, str]:
        """What stays the same when lines move."""
        return self.module, self.function, self.line, self.mutant

    @property
    def name(self) -> str:
        """Eight digits made of the key."""
        return hashlib.sha256("\n".join(self.key).encode()).hexdigest()[:8]


def _is_text(node: ast.expr) -> bool:
    return isinstance(node, ast.JoinedStr) or (isinstance(node, ast.Constant) and isinstance(node.value, str))


def _changes(node: ast.AST) -> Iterator[tuple[str, ast.expr]]:
    """The kinds of change and the expressions that take the node's place."""
    match node:
        case ast.BinOp(left=left, right=right, op=op) if type(op) in _ARITHMETIC and not (_is_text(left) or _is_text(right)):
            yield "arithmetic", ast.BinOp(left, _ARITHMETIC[type(op)](), right)
        case ast.Compare(left=left, ops=ops, comparators=comparators):
            for i, op in enumerate(ops):
                yield "comparison", ast.Compare(left, [*ops[:i], _COMPARISONS[type(op)](), *ops[i + 1 :]], comparators)
        case ast.BoolOp(op=op, values=values):
            yield "boolean", ast.BoolOp(ast.Or() if isinstance(op, ast.And) else ast.And(), values)
        case ast.UnaryOp(op=ast.Not() | ast.USub() as op, operand=operand) if not isinstance(operand, ast.Constant):
            yield "boolean" if isinstance(op, ast.Not) else "arithmetic", operand
        case ast.Constant(value=bool(value)):
            yield "constant", ast.Constant(not value)
        case ast.Constant(value=int(value) | float(value)):
            yield "constant", ast.Constant(value + 1)
            if isinstance(value, float) and value not in (0.0, 1.0):
                yield "constant", ast.Constant(value / 2)
        case ast.Call():
            yield from _changed_calls(node)


def _changed_calls(node: ast.Call) -> Iterator[tuple[str, ast.expr]]:
    """Another function of two, one argument of several left out, a keyword left out."""
    func, args, keywords = node.func, node.args, node.keywords
    called = func.id if isinstance(func, ast.Name) else func.attr if isinstance(func, ast.Attribute) else ""
    if called in _CALLS:
        other = copy.deepcopy(func)
        if isinstance(other, ast.Name):
            other.id = _CALLS[called]
        elif isinstance(other, ast.Attribute):
            other.attr = _CALLS[called]
        yield "call", ast.Call(other, args, keywords)
    starred = any(isinstance(argument, ast.Starred) for argument in args)
    if called in ("max", "min", "maximum", "minimum") and len(args) > 1 and not starred:
        for i in range(len(args)):
            rest = [*args[:i], *args[i + 1 :]]
            yield "argument", rest[0] if len(rest) == 1 else ast.Call(func, rest, keywords)
    for i, keyword in enumerate(keywords):
        if keyword.arg not in (None, "strict") and not _is_text(keyword.value):
            yield "argument", ast.Call(func, args, [*keywords[:i], *keywords[i + 1 :]])


def _in_numeric_terms(node: ast.expr) -> bool:
    """Whether an expression has numbers and arithmetic alone: a constant of a module worth a mutant."""
    allowed = (ast.Constant, ast.BinOp, ast.UnaryOp, ast.operator, ast.unaryop, ast.Name, ast.Load)
    return all(isinstance(part, allowed) for part in ast.walk(node)) and not any(_is_text(part) for part in ast.walk(node))  # type: ignore[arg-type]


class _Builder(ast.NodeTransformer):
    """Collects the sites of a module, and builds those that are wanted into its tree."""

    def __init__(self, module: str, source: str, wanted: Callable[[Site], bool]) -> None:
        self.module = module
        self.lines = source.splitlines()
        self.wanted = wanted
        self.sites: list[Site] = []
        self.scope: list[str] = []
        self.inside = False  # a function: what does not run on import
        self.repeated: Counter[tuple[str, str, str]] = Counter()
        self.touches = False

    # Each node is changed after what it consists of, and its mutants are built from what it was: they nest without growing.
    def _site(self, node: ast.AST, was: str, becomes: str, kind: str) -> Site:
        function = ".".join(self.scope) or "<module>"
        line = self.lines[node.lineno - 1].strip()
        mutant = f"{was} -> {becomes}"
        self.repeated[function, line, mutant] += 1
        number = self.repeated[function, line, mutant]
        site = Site(
            module=self.module,
            function=function,
            line=line,
            mutant=mutant if number == 1 else f"{mutant} ({number})",
            kind=kind,
            on_import=not self.inside,
            number=node.lineno,
        )
        self.sites.append(site)
        if site.on_import and self.wanted(site):
            self.touches = True
        return site

    def _chosen(self, site: Site) -> ast.expr:
        return ast.Call(ast.Name(HOOK, ast.Load()), [ast.Constant(site.name)], [])

    def _expression(self, node: ast.expr) -> ast.expr:
        original = copy.deepcopy(node)
        result = super().generic_visit(node)
        for kind, mutant in _changes(original):
            site = self._site(original, ast.unparse(original), ast.unparse(mutant), kind)
            if self.wanted(site):
                result = ast.IfExp(self._chosen(site), copy.deepcopy(mutant), result)
        return result  # type: ignore[return-value]

    def generic_visit(self, node: ast.AST) -> ast.AST:
        return self._expression(node) if isinstance(node, ast.expr) else super().generic_visit(node)

    def _condition(self, node: ast.expr) -> ast.expr:
        """A condition that is no comparison is negated as a whole."""
        original = copy.deepcopy(node)
        result = self.visit(node)
        if isinstance(original, ast.Name | ast.Attribute | ast.Call):
            mutant = ast.UnaryOp(ast.Not(), original)
            site = self._site(original, f"if {ast.unparse(original)}", f"if {ast.unparse(mutant)}", "boolean")
            if self.wanted(site):
                result = ast.IfExp(self._chosen(site), mutant, result)
        return result

    def visit_If(self, node: ast.If) -> ast.AST:
        if "TYPE_CHECKING" in ast.unparse(node.test):
            return node
        node.test = self._condition(node.test)
        node.body = [self.visit(part) for part in node.body]
        node.orelse = [self.visit(part) for part in node.orelse]
        return node

    def visit_IfExp(self, node: ast.IfExp) -> ast.AST:
        node.test = self._condition(node.test)
        node.body = self.visit(node.body)
        node.orelse = self.visit(node.orelse)
        return node

    def visit_Return(self, node: ast.Return) -> ast.AST:
        if node.value is None or isinstance(node.value, ast.Constant):
            return self.generic_visit(node)
        original = copy.deepcopy(node.value)
        node.value = self.visit(node.value)
        site = self._site(original, f"return {ast.unparse(original)}", "return None", "return")
        if self.wanted(site):
            node.value = ast.IfExp(self._chosen(site), ast.Constant(None), node.value)
        return node

    def visit_AugAssign(self, node: ast.AugAssign) -> ast.AST:
        was = ast.unparse(node)
        changed = copy.deepcopy(node)
        node.value = self.visit(node.value)
        if type(node.op) not in _ARITHMETIC or _is_text(changed.value):
            return node
        changed.op = _ARITHMETIC[type(node.op)]()
        site = self._site(node, was, ast.unparse(changed), "arithmetic")
        return ast.If(self._chosen(site), [changed], [node]) if self.wanted(site) else node

    def _skip(self, node: ast.AST) -> ast.AST:
        return node

    # Messages, assertions, texts and patterns are not numbers that a user gets.
    visit_Raise = visit_Assert = visit_JoinedStr = visit_Match = visit_Import = visit_ImportFrom = visit_Slice = _skip  # noqa: N815

    def visit_keyword(self, node: ast.keyword) -> ast.AST:
        return node if node.arg == "strict" else super().generic_visit(node)  # it only ever raises

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AST:
        if node.value is not None and (self.inside or _in_numeric_terms(node.value)):
            node.value = self.visit(node.value)
        return node

    def visit_Assign(self, node: ast.Assign) -> ast.AST:
        if self.inside or _in_numeric_terms(node.value):
            node.value = self.visit(node.value)
        return node

    def visit_Expr(self, node: ast.Expr) -> ast.AST:
        if self.inside and not isinstance(node.value, ast.Constant):
            node.value = self.visit(node.value)
        return node

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.AST:
        self.scope.append(node.name)
        outside, self.inside = self.inside, False
        node.body = [self.visit(part) for part in node.body]
        self.inside = outside
        self.scope.pop()
        return node

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        self.scope.append(node.name)
        arguments = node.args
        arguments.defaults = [self._default(part) for part in arguments.defaults]
        arguments.kw_defaults = [None if part is None else self._default(part) for part in arguments.kw_defaults]
        outside, self.inside = self.inside, True
        node.body = [self.visit(part) for part in node.body]
        self.inside = outside
        self.scope.pop()
        return node

    def _default(self, node: ast.expr) -> ast.expr:
        return self.visit(node) if _in_numeric_terms(node) else node


class _Touch(ast.NodeTransformer):
    """Every function of a module whose constants are mutated says that it was called."""

    def __init__(self, module: str) -> None:
        self.module = module

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        self.generic_visit(node)
        call = ast.Expr(ast.Call(ast.Name(HOOK, ast.Load()), [ast.Constant(TOUCHED + self.module)], []))
        node.body.insert(1 if ast.get_docstring(node) and len(node.body) > 1 else 0, call)
        return node


def sites_of(module: str, source: str) -> list[Site]:
    """All sites of a module, in the order of its source."""
    builder = _Builder(module, source, lambda _: False)
    builder.visit(ast.parse(source))
    return builder.sites


def built(module: str, source: str, wanted: frozenset[str]) -> ast.Module:
    """The tree of a module that holds the mutants of these names."""
    builder = _Builder(module, source, lambda site: site.name in wanted)
    tree = builder.visit(ast.parse(source))
    if builder.touches:
        tree = _Touch(module).visit(tree)
    result: ast.Module = ast.fix_missing_locations(tree)
    return result


def source_of(module: str) -> str:
    """The text of a file, named from the root of the repository."""
    return (ROOT / module).read_text(encoding="utf-8")


def modules(package: str) -> list[str]:
    """The files of a package, from the root of the repository."""
    paths = (ROOT / part for part in PACKAGES[package])
    files = sorted(file for path in paths for file in (path.rglob("*.py") if path.is_dir() else [path]))
    return [file.relative_to(ROOT).as_posix() for file in files]


def sample(package: str, seed: int, size: int | None) -> list[Site]:
    """The sites of a package that a seed draws; all of them without a size.

    Every site draws a number by the seed and its name, and the smallest are taken: a change elsewhere leaves a sample as it is.
    """
    all_sites = [site for module in modules(package) for site in sites_of(module, source_of(module))]
    order = sorted(all_sites, key=lambda site: hashlib.sha256(f"{seed} {site.name}".encode()).digest())
    return order[:size]
