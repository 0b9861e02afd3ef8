"""Controls of a lesson, with numbers, formulas and figures that follow them on the page.

Formulas are MathML templates with a place for each symbol, which the page's script fills with numbers.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict
from functools import cache
from itertools import product
from typing import Any

from roofline.blocks.model_files import load_model
from roofline.errors import InputError, UnknownNameError
from roofline.formulas.javascript import Program
from roofline.formulas.mathml import symbol_mathml
from roofline.formulas.symbolic import symbol
from roofline.predict.explain import QUANTITIES, Explanation, explain
from roofline.predict.explain.explanation import explanation
from roofline.predict.explain.symbolic_request import SymbolicRequest
from roofline.report import page_program
from roofline.report.controls import LONGEST_TEXT, Choice, Control
from roofline.report.page import environment
from roofline.report.page_program import spec_data
from roofline.specs.library import load_hardware
from roofline.teach.lessons.formula import equation, title_of
from roofline.teach.lessons.items import Item
from roofline.teach.lessons.live.run import LINK, NETWORK, Run, cache_bytes, evaluate, shape
from roofline.teach.lessons.live.view import filled, live_view
from roofline.teach.markdown import Ids, checked, html_of, inline_of
from roofline.teach.worksheets.feedback import AnswerKey, KnownMistake, KnownQuantity, judge

Values = dict[str, Any]
# Controls that change the form of a formula, with values that stand for all of their forms.
_FORMS: dict[str, tuple[str, ...]] = {
    "attention": ("", "mla"),
    "window": ("0", "-1", "1024"),
    "tp": ("1", "2", "4", "8"),
}


class Play(Item):
    """Controls, and the tiles, formulas and figures that follow them. Made by `play`."""

    def __init__(
        self,
        intro: str,
        tries: Sequence[str],
        controls: tuple[Control, ...],
        values: Values,
        block: dict[str, Any],
        models: Sequence[str],
        hardware: Sequence[str],
        drafts: Sequence[str] = (),
    ) -> None:
        for text in (intro, *tries):
            checked(text)
        self.intro, self.tries, self.controls, self.values, self.block = intro, tuple(tries), controls, values, block
        self.models, self.hardware, self.drafts = tuple(models), tuple(hardware), tuple(drafts)
        self.first = live_view(values, block)
        self.forms, self.of_shape = self._forms()

    def _forms(self) -> tuple[list[dict[str, str]], dict[str, dict[str, int]]]:
        """Every form of every formula once, and the index of the form by the shape of a state and the formula."""
        listed: list[dict[str, str]] = []
        of_shape: dict[str, dict[str, int]] = {}
        for run in self._runs():
            form_of = of_shape.setdefault(shape(run), {})
            for key in self.block["formulas"]:
                if key not in form_of:
                    symbols, numbers = checked_template(key, run)
                    form = {"symbols": equation(symbols), "numbers": equation(numbers)}
                    if form not in listed:
                        listed.append(form)
                    form_of[key] = listed.index(form)
        return listed, of_shape

    def _runs(self) -> Iterator[Run]:
        keys = {control.key for control in self.controls}
        forms = [_FORMS[key] if key in keys else (None,) for key in _FORMS]
        seen: set[str] = set()
        for model, chosen in product(self.models, product(*forms)):
            changed = {key: value for key, value in zip(_FORMS, chosen, strict=True) if value is not None}
            run = evaluate({**self.values, "model": model, **changed})
            if shape(run) not in seen:
                seen.add(shape(run))
                yield run

    @property
    def data(self) -> Values:
        """The data of the page's script: specs, first state, first view, the forms of the formulas."""
        made = _program()
        return {
            "specs": spec_data(made, tuple(dict.fromkeys((*self.models, *self.drafts))), self.hardware),
            "values": self.values,
            "block": self.block,
            "forms": self.forms,
            "of_shape": self.of_shape,
            "first": asdict(self.first),
        }

    def html(self, ids: Ids) -> str:
        """The first view, which is all that readers without scripts get."""
        del ids
        page = environment().get_template("play.html.j2")
        filled = [
            {
                "key": one.key,
                "title": inline_of(title_of(*one.key.split(":"))),
                **self._filled(one.key, dict(one.symbols)),
                "text": one.text,
                "value": one.value,
            }
            for one in self.first.formulas
        ]
        return page.render(
            intro=html_of(self.intro),
            tries=[inline_of(text) for text in self.tries],
            controls=self.controls,
            values={control.key: control.value for control in self.controls},
            longest_text=LONGEST_TEXT,
            view=self.first,
            formulas=filled,
        )

    def _filled(self, key: str, symbols: dict[str, str]) -> dict[str, str]:
        form = self.forms[self.of_shape[self.first.shape][key]]
        return {"symbols": form["symbols"], "numbers": _fill(form["numbers"], symbols)}

    def markdown(self) -> str:
        """The first view as a table; the controls are on the page of the lesson."""
        rows = "\n".join(f"| {tile.label} | {tile.cell.text} |" for tile in self.first.tiles)
        tries = "\n".join(f"* {text}" for text in self.tries)
        head = "The page of this lesson has controls for these.\n\n| quantity | value |\n|---|---:|"
        return f"{self.intro}\n\n{tries}\n\n{head}\n{rows}"


def play(
    intro: str,
    *,
    controls: Sequence[str],
    tiles: Sequence[str],
    formulas: Sequence[str],
    pictures: Sequence[str] = ("roofline",),
    models: Sequence[str] = ("llama-3.1-8b",),
    hardware: Sequence[str] = ("a100-sxm-80gb",),
    drafts: Sequence[str] = (),
    tries: Sequence[str] = (),
    **values: Any,
) -> Play:
    """Return controls with what follows from them, at most once in a lesson.

    Args:
        intro: a text above the controls.
        controls: keys of `_FIXED`, such as "batch" or "kv_heads".
        tiles: keys of `quantities.KNOWN`.
        formulas: keys of `quantities.KNOWN`, or `path:part` of an operator of the decode step.
        pictures: of `view.NAMES`.
        models: to choose from; the first one comes first.
        hardware: the same.
        drafts: draft models to choose from, besides drafts that cost nothing; the first one comes first.
        tries: what to try.
        **values: first values of controls, by their keys, in the units that the controls show.

    Raises:
        UnknownNameError: a name that does not exist.
        InputError: no model or no hardware is named, the values contradict each other, or formula and page do not agree on
            a number.
    """
    if not (models and hardware):
        raise InputError("play: name a model and hardware")
    keys = list(dict.fromkeys(("model", *controls) if len(models) > 1 else controls))
    keys = list(dict.fromkeys((*keys, "hardware"))) if len(hardware) > 1 else keys
    keys += ["draft"] if drafts else []
    first = {"model": models[0], "hardware": hardware[0], "draft": [*drafts, ""][0], **first_values(keys, values)}
    listed = make_controls(keys, first, models, hardware, drafts)
    block = {"tiles": list(tiles), "formulas": list(formulas), "pictures": list(pictures)}
    return Play(intro, tries, listed, first, block, models, hardware, drafts)


_OWN = ("0", "the model's own")
_MOST_BATCH, _MOST_TOKENS = 4096.0, 131072.0
_LOAD, _SHAPE, _MACHINE = "Load", "Model", "Hardware"


def make_controls(
    keys: Sequence[str], values: Values, models: Sequence[str], hardware: Sequence[str], drafts: Sequence[str] = ()
) -> tuple[Control, ...]:
    """Return controls in the order of `keys`.

    Args:
        keys: keys of `_FIXED`, "model", "hardware" and "draft".
        values: the value of each control by key.
        models: ids of models to choose from.
        hardware: ids of hardware to choose from.
        drafts: ids of draft models to choose from.

    Raises:
        UnknownNameError: there is no such control.
    """
    made: dict[str, Callable[[Any], Control]] = {
        "model": lambda value: _choice("model", "Model", value, [(name, load_model(name)[0].title) for name in models], _SHAPE),
        "hardware": lambda value: _choice(
            "hardware", "Hardware", value, [(name, load_hardware(name)[0].title) for name in hardware], _MACHINE
        ),
        "draft": lambda value: _choice(
            "draft",
            "Draft",
            value,
            [*((name, load_model(name)[0].title) for name in drafts), ("", "n-grams: no cost")],
            _SHAPE,
        ),
        **_FIXED,
    }
    for key in keys:
        if key not in made:
            raise UnknownNameError("control", key, made, list_all=True)
    return tuple(made[key](values[key]) for key in keys)


def first_values(keys: Sequence[str], values: Values) -> Values:
    """Return the first value of each control of `keys`: that of `values`, else one that does not change the model."""
    return {**{key: _FIRST[key] for key in keys if key in _FIRST}, **values}


def _choice(key: str, label: str, value: str, listed: Sequence[tuple[str, str]], group: str, help: str = "") -> Control:
    choices = tuple(Choice(value=name, text=text) for name, text in listed)
    return Control(key=key, label=label, kind="choice", value=str(value), choices=choices, group=group, help=help)


def _count(key: str, label: str, unit: str, high: float, help: str, low: float = 1) -> Callable[[float], Control]:
    return lambda value: Control(
        key=key,
        label=label,
        kind="number",
        value=value,
        low=low,
        high=high,
        step=1,
        log=low > 0,
        unit=unit,
        help=help,
        group=_LOAD,
    )


def _rate_control(key: str, label: str, high: float, unit: str) -> Callable[[float], Control]:
    return lambda value: Control(
        key=key, label=label, kind="number", value=value, low=0, high=high, unit=unit, zero="datasheet",
        help="0 = use the datasheet's", group=_MACHINE,
    )  # fmt: skip


def _powers(*counts: int) -> list[tuple[str, str]]:
    return [_OWN, *((str(count), f"{count:,}") for count in counts)]


_FIXED: dict[str, Callable[[Any], Control]] = {
    "batch": _count("batch", "Batch", "sequences", _MOST_BATCH, "sequences in one step"),
    "context": _count("context", "Context", "tokens", _MOST_TOKENS, "cached before a decode step"),
    "input_len": _count("input_len", "Prompt", "tokens", _MOST_TOKENS, "of each sequence"),
    "output_len": _count("output_len", "Output", "tokens", 16384, "of each request", low=2),
    "cached_prefix": _count("cached_prefix", "Cached prefix", "tokens", 8192, "of each prompt", low=0),
    "drafted": _count("drafted", "Drafted", "tokens", 16, "per round, for each sequence", low=0),
    "acceptance": lambda value: Control(
        key="acceptance", label="Acceptance", kind="number", value=value, low=0, high=1, step=0.01,
        help="probability that a drafted token is accepted", group=_LOAD,
    ),
    "price": lambda value: Control(
        key="price", label="Price", kind="number", value=value, low=0, high=100, unit="USD/h", help="of a device",
        group=_MACHINE,
    ),
    "attention": lambda value: _choice(
        "attention", "Attention", value, [("", _OWN[1]), ("mla", "latent (MLA)")], _SHAPE,
        "latent: instead of heads of K and V",
    ),
    "kv_heads": lambda value: _choice(
        "kv_heads", "KV heads", value, _powers(1, 2, 4, 8, 16, 32, 64), _SHAPE, "must divide query heads"
    ),
    "heads": lambda value: _choice("heads", "Query heads", value, _powers(8, 16, 32, 64, 128), _SHAPE),
    "window": lambda value: _choice(
        "window", "Sliding window", value, [_OWN, ("-1", "none"), *_powers(512, 1024, 2048, 4096, 8192)[1:]], _SHAPE,
        "tokens; has no effect on latent attention",
    ),
    "latent": lambda value: _choice(
        "latent", "Latent size", value, _powers(128, 256, 512, 1024, 2048), _SHAPE,
        "elements per token and layer, of latent attention",
    ),
    "layers": lambda value: _choice("layers", "Layers", value, _powers(1, 2, 4, 8, 16, 32, 64, 128), _SHAPE),
    "d_model": lambda value: _choice("d_model", "Hidden size", value, _powers(1024, 2048, 4096, 8192, 16384), _SHAPE),
    "d_ff": lambda value: _choice("d_ff", "Width of the MLP", value, _powers(3584, 7168, 11008, 14336, 28672, 57344), _SHAPE),
    "experts": lambda value: _choice("experts", "Experts", value, _powers(4, 8, 16, 32, 64, 128, 256), _SHAPE, "of a layer"),
    "top_k": lambda value: _choice("top_k", "Experts of a token", value, _powers(1, 2, 4, 8, 16), _SHAPE),
    "vocab": lambda value: _choice("vocab", "Vocabulary", value, _powers(32000, 64128, 128256, 256000), _SHAPE),
    "bandwidth_gbs": _rate_control("bandwidth_gbs", "Bandwidth", 20_000, "GB/s"),
    "peak_tflops": _rate_control("peak_tflops", "Peak", 20_000, "TFLOP/s"),
    "memory_gb": _rate_control("memory_gb", "Memory", 2_000, "GB"),
    "weights": lambda value: _choice(
        "weights", "Weights", value, [("", "as published"), ("fp8", "fp8"), ("awq", "int4 (AWQ)")], _SHAPE
    ),
    "kv": lambda value: _choice("kv", "KV cache", value, [("", "as activations"), ("fp8", "fp8")], _SHAPE),
    "tp": lambda value: _choice("tp", "Tensor parallel", value, [(str(n), str(n)) for n in (1, 2, 4, 8)], _MACHINE, "devices"),
    "link_gbs": lambda value: Control(
        key="link_gbs", label="Link to the host", kind="number", value=value, low=1, high=500, log=True, unit="GB/s",
        help="bandwidth of large copies, in one direction", group=_MACHINE,
    ),
    "network_gbs": lambda value: Control(
        key="network_gbs", label="Network", kind="number", value=value, low=0.1, high=1000, log=True, unit="GB/s",
        help="of a device, in one direction", group=_MACHINE,
    ),
    "block": lambda value: _choice(
        "block", "Copies", value,
        [*((str(count), f"by blocks of {count} tokens") for count in (8, 16, 32, 64, 128)), ("0", "in one call per direction")],
        _MACHINE,
    ),
    "efficiency": lambda value: Control(
        key="efficiency", label="Measured efficiency", kind="switch", value=value, group=_MACHINE,
        help="off: the bound alone, from the datasheet",
    ),
}  # fmt: skip
_FIRST: Values = {
    "batch": 1, "context": 4095, "input_len": 1000, "attention": "", "kv_heads": "0", "heads": "0", "window": "0",
    "latent": "0", "layers": "0", "d_model": "0", "d_ff": "0", "vocab": "0",
    "experts": "0", "top_k": "0", "bandwidth_gbs": 0, "peak_tflops": 0,
    "memory_gb": 0, "weights": "", "kv": "", "tp": "1", "efficiency": False,
    "link_gbs": LINK, "network_gbs": NETWORK, "block": "16", "output_len": 256, "price": 2.0,
    "drafted": 4, "acceptance": 0.7, "cached_prefix": 0,
}  # fmt: skip


_TIMES, _DOT = "<mo>\u2062</mo>", "<mo>⋅</mo>"
_PLACE = re.compile(r'<mn data-symbol="([^"]+)"></mn>')


def _explained(key: str, run: Run) -> Explanation:
    """Return the explanation of a quantity, or of a part of an operator, for a run.

    Raises:
        UnknownNameError: no such quantity or operator.
        InputError: no such part.
    """
    if key == "kv_bytes_per_sequence":
        return _kv_bytes_per_sequence(SymbolicRequest(run.request))
    path, _, part = key.partition(":")
    request = run.request
    if not part and path in QUANTITIES:
        return QUANTITIES[path].explain(SymbolicRequest(request), "decode")
    options: dict[str, Any] = {
        "batch": request.workload.batch,
        "context": request.workload.context,
        "input_len": request.workload.input_len,
        "tp": request.deployment.tensor_parallel_size,
    }
    operator = explain(request.model, path, request.hardware, **options)
    named = [entry for entry in operator.parts if entry.subject == part]
    if not named:
        raise InputError(
            f"{path} has no {part or 'such quantity'}: write path:part, of {', '.join(e.subject for e in operator.parts)}"
        )
    return named[0]


def _kv_bytes_per_sequence(symbolic: SymbolicRequest) -> Explanation:
    """The tokens that each layer retains after a decode step, times their bytes."""
    total = cache_bytes(symbolic.caches(), symbolic.precision.kv.bytes, symbol("S_c") + 1)
    source = "derived: what each layer retains"
    return explanation("kv_bytes_per_sequence", total, symbolic.values, unit="bytes", source=source)


def _template_of(formula: Explanation) -> str:
    """Return a formula with an empty number instead of each symbol, named after it.

    >>> from roofline import explain
    >>> _template_of(explain("llama-3.1-8b", "kv_bytes_per_token"))[:80]
    '<math><mn>2</mn><mo>⋅</mo><mn data-symbol="L"></mn><mo>⋅</mo><mn data-symbol="n_'
    """
    named = {symbol_mathml(name).removeprefix("<math>").removesuffix("</math>"): name for name, _, _ in formula.legend}
    # longest first: the letter of an index is a symbol too
    either = re.compile("|".join(re.escape(text) for text in sorted(named, key=len, reverse=True)) or r"(?!)")
    return either.sub(lambda match: f'<mn data-symbol="{named[match[0]]}"></mn>', formula.mathml).replace(_TIMES, _DOT)


def _fill(template: str, symbols: Mapping[str, str]) -> str:
    """Return the formula with the texts of numbers in its places."""
    return _PLACE.sub(lambda match: f'<mn data-symbol="{match[1]}">{symbols[match[1]]}</mn>', template)


def checked_template(key: str, run: Run) -> tuple[str, str]:
    """Return a formula in symbols and its template, after a check that the filled template equals the formula with numbers.

    Args:
        key: of `quantities.KNOWN`, or `path:part` of an operator of the decode step.
        run: gives the numbers.

    Returns:
        Both as MathML; the template has an empty number with its name instead of each symbol.

    Raises:
        UnknownNameError: there is no such quantity or operator.
        InputError: the page has another number for a symbol, or for the value.
    """
    formula, on_page = _explained(key, run), filled(key, run)
    template, known = _template_of(formula), dict(on_page.symbols)
    missing = [name for name in _PLACE.findall(template) if name not in known]
    if missing:
        raise InputError(f"{key}: the page knows no number for {', '.join(missing)}")
    again = re.sub(r' data-symbol="[^"]+"', "", _fill(template, known))
    if again != formula.substituted_mathml:
        raise InputError(f"{key}: filled in it is {again}, explained it is {formula.substituted_mathml}")
    if formula.value != on_page.value and (
        formula.value is None or abs(formula.value - (on_page.value or 0)) > 1e-9 * abs(formula.value)
    ):
        raise InputError(f"{key}: the page finds {on_page.value}, the formula {formula.value}")
    return formula.mathml, template


_PARTS = ("library.js", "plain.js", "drawing.js", "lesson.js")


@cache
def _program() -> Program:
    """Return the translated program, the same for all pages."""
    made = page_program.new_program()
    made.export("live_view", live_view)
    made.export("judge", judge)
    for cls in (AnswerKey, KnownMistake, KnownQuantity):
        made.refer(cls)
    for spec in page_program.spec_classes():
        made.refer(spec)
    return made


def script() -> str:
    """Return the text of the translated program, with the functions that the page's own script calls."""
    return page_program.page_script(_program().source(), _PARTS)
