"""Formulas of what a batch gives and costs: tokens and requests per second, money per million tokens."""

from __future__ import annotations

import sympy

from roofline.errors import InputError
from roofline.formulas.symbolic import Values, quantity, symbol
from roofline.numeric import Expr
from roofline.predict.explain.explanation import Explanation, explanation
from roofline.predict.explain.symbolic_request import SymbolicRequest
from roofline.predict.explain.time_formulas import time

_MILLION = sympy.Integer(10) ** 6
_OUTPUT = quantity("n_out", r"n_{\mathrm{out}}", "tokens", "generated tokens of a sequence")
_INPUT = quantity("n_in", r"n_{\mathrm{in}}", "tokens", "prompt tokens of a sequence")
_DEVICES = quantity("N", "N", "devices", "devices of the deployment")
_HOUR = quantity("h", "h", "s", "an hour")


def _timed(symbolic: SymbolicRequest, name: str, word: str) -> tuple[sympy.Symbol, Explanation]:
    """A time, and the symbol for it."""
    explained = time(symbolic, name, word)
    one = quantity(f"t_{name}", rf"t_{{\mathrm{{{name}}}}}", "s", f"{name.upper()}: {explained.about}")
    return one, explained


def _rate(symbolic: SymbolicRequest, subject: str, name: str, unit: str, word: str) -> Explanation:
    """The batch over a time."""
    workload = symbolic.request.workload
    seconds, explained = _timed(symbolic, name, word)
    batch = symbol("B")
    values: Values = {batch: workload.batch, seconds: explained.value}
    each = explanation(
        f"{subject} per device", batch / (_DEVICES * seconds), {**values, _DEVICES: symbolic.request.deployment.devices},
        unit=unit, source="derived",
    )  # fmt: skip
    several = symbolic.request.deployment.devices > 1
    return explanation(
        subject,
        batch / seconds,
        values,
        unit=unit,
        source="derived: a batch in the time of one",
        parts=(each,) if several else (),
    )


def tokens_per_s(symbolic: SymbolicRequest, phase: str, word: str = "") -> Explanation:
    """Explain the output tokens per second of a batch in decode: one of each sequence in the time of a step."""
    del phase
    return _rate(symbolic, "tokens_per_s", "tpot", "tokens/s", word)


def requests_per_s(symbolic: SymbolicRequest, phase: str, word: str = "") -> Explanation:
    """Explain the requests per second (QPS) of batches one after another: a batch in its time from prompt to last token."""
    del phase
    return _rate(symbolic, "requests_per_s", "e2e", "requests/s", word)


def _cost(symbolic: SymbolicRequest, subject: str, name: str, tokens: Expr, values: Values, word: str) -> Explanation:
    """What the devices cost in a time, over the tokens of the batch in it."""
    from roofline.specs.prices import load_prices

    request = symbolic.request
    prices = load_prices(symbolic.price)
    price = prices.of(request.hardware, request.deployment.devices)
    if price is None:
        example = f"`{request.hardware.accelerator.name}: 2.5 {prices.currency}/h`"
        raise InputError(
            f"no price of {request.hardware.accelerator.name} is known: give --price FILE with a line such as {example}"
        )
    seconds, explained = _timed(symbolic, name, word)
    rent = quantity("c", "c", f"{price.currency}/h", "price of a device")
    known: Values = {
        **values, rent: price.per_hour(), _DEVICES: request.deployment.devices, _HOUR: 3600, seconds: explained.value,
        symbol("B"): request.workload.batch,
    }  # fmt: skip
    expr = _MILLION * rent * _DEVICES * seconds / (_HOUR * symbol("B") * tokens)
    return explanation(subject, expr, known, unit=price.currency, source=f"price: {price.describe()}")


def input_cost(symbolic: SymbolicRequest, phase: str, word: str = "") -> Explanation:
    """Explain the cost of a million input tokens: the devices for the time of the prompts."""
    del phase
    values = {_INPUT: symbolic.request.workload.input_len}
    return _cost(symbolic, "cost_per_million_input_tokens", "ttft", _INPUT, values, word)


def output_cost(symbolic: SymbolicRequest, phase: str, word: str = "") -> Explanation:
    """Explain the cost of a million output tokens: the devices for the time between tokens."""
    del phase
    return _cost(symbolic, "cost_per_million_output_tokens", "tpot", sympy.Integer(1), {}, word)


def total_cost(symbolic: SymbolicRequest, phase: str, word: str = "") -> Explanation:
    """Explain the cost of a million tokens, of input and output together: the devices from the prompts to the last tokens."""
    del phase
    workload = symbolic.request.workload
    values = {_INPUT: workload.input_len, _OUTPUT: workload.output_len or 0}
    return _cost(symbolic, "cost_per_million_tokens", "e2e", _INPUT + _OUTPUT, values, word)
