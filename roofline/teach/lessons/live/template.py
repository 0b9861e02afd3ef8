"""Formulas whose numbers are put in on the page: MathML with a place for each symbol."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from roofline.errors import InputError
from roofline.formulas.mathml import symbol_mathml
from roofline.formulas.symbolic import symbol
from roofline.predict.explain import QUANTITIES, Explanation, explain
from roofline.predict.explain.in_symbols import InSymbols
from roofline.predict.explain.value import explanation
from roofline.teach.lessons.live.run import Run, kept_bytes
from roofline.teach.lessons.live.shown import filled

_TIMES, _DOT = "<mo>\u2062</mo>", "<mo>⋅</mo>"
_PLACE = re.compile(r'<mn data-symbol="([^"]+)"></mn>')


def explained(key: str, run: Run) -> Explanation:
    """The formula of a key for a run: what `explain` says of it, or of the cache of a sequence.

    Raises:
        UnknownNameError: it knows no such quantity, operator or part.
    """
    if key == "kv_bytes_per_sequence":
        return _kv_bytes_per_sequence(InSymbols(run.request))
    path, _, part = key.partition(":")
    request = run.request
    if not part and path in QUANTITIES:
        return QUANTITIES[path](InSymbols(request), "decode")
    options: dict[str, Any] = {
        "batch": request.workload.batch,
        "context": request.workload.context,
        "input_len": request.workload.input_len,
        "tp": request.deployment.tensor_parallel_size,
    }
    found = explain(request.model, path, request.hardware, **options)
    named = [entry for entry in found.parts if entry.subject == part]
    if not named:
        raise InputError(
            f"{path} has no {part or 'such quantity'}: write path:part, of {', '.join(e.subject for e in found.parts)}"
        )
    return named[0]


def _kv_bytes_per_sequence(ask: InSymbols) -> Explanation:
    """The tokens that each layer keeps after a decode step, times their bytes."""
    total = kept_bytes(ask.caches(), ask.precision.kv.bytes, symbol("S_c") + 1)
    return explanation("kv_bytes_per_sequence", total, ask.values, unit="bytes", source="derived: what each layer keeps")


def places(found: Explanation) -> str:
    """The formula with an empty number in the place of each symbol, named after it.

    >>> from roofline import explain
    >>> places(explain("llama-3.1-8b", "kv_bytes_per_token"))[:80]
    '<math><mn>2</mn><mo>⋅</mo><mn data-symbol="L"></mn><mo>⋅</mo><mn data-symbol="n_'
    """
    named = {symbol_mathml(name).removeprefix("<math>").removesuffix("</math>"): name for name, _, _ in found.legend}
    # longest first: the letter of an index is a symbol too
    either = re.compile("|".join(re.escape(text) for text in sorted(named, key=len, reverse=True)) or r"(?!)")
    return either.sub(lambda match: f'<mn data-symbol="{named[match[0]]}"></mn>', found.mathml).replace(_TIMES, _DOT)


def fill(template: str, symbols: Mapping[str, str]) -> str:
    """The formula with texts of numbers put in."""
    return _PLACE.sub(lambda match: f'<mn data-symbol="{match[1]}">{symbols[match[1]]}</mn>', template)


def checked(key: str, run: Run) -> tuple[str, str]:
    """The formula in symbols and the one with places, after a look that filling these gives what the formula itself says.

    Raises:
        InputError: it does not: the page has another number for a symbol, or for the whole.
    """
    found, on_page = explained(key, run), filled(key, run)
    template, known = places(found), dict(on_page.symbols)
    missing = [name for name in _PLACE.findall(template) if name not in known]
    if missing:
        raise InputError(f"{key}: the page knows no number for {', '.join(missing)}")
    again = re.sub(r' data-symbol="[^"]+"', "", fill(template, known))
    if again != found.substituted_mathml:
        raise InputError(f"{key}: filled in it is {again}, explained it is {found.substituted_mathml}")
    if found.value != on_page.value and (
        found.value is None or abs(found.value - (on_page.value or 0)) > 1e-9 * abs(found.value)
    ):
        raise InputError(f"{key}: the page finds {on_page.value}, the formula {found.value}")
    return found.mathml, template
