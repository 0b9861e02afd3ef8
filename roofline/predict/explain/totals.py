"""What is explained of an operator, and the symbols by which one of these formulas refers to another."""

from __future__ import annotations

from collections.abc import Collection, Iterable

import sympy

from roofline.cost import FIELDS
from roofline.formulas.symbolic import described, quantity, symbol
from roofline.numeric import Expr

# Field of the cost -> how its total is written: name, LaTeX, unit, meaning.
_OF_COST = {
    "matrix_flops": ("F_matrix", r"F_{\mathrm{matrix}}", "FLOP", "FLOP of matrix products"),
    "vector_flops": ("F_vector", r"F_{\mathrm{vector}}", "FLOP", "FLOP of everything else"),
    "weight_bytes": ("D_weights", r"D_{\mathrm{weights}}", "bytes", "weights read"),
    "activation_bytes": ("D_activations", r"D_{\mathrm{activations}}", "bytes", "activations read and written"),
    "kv_read_bytes": ("D_kv_read", r"D_{\mathrm{kv,read}}", "bytes", "KV cache read"),
    "kv_write_bytes": ("D_kv_write", r"D_{\mathrm{kv,write}}", "bytes", "KV cache written"),
    "state_read_bytes": ("D_state_read", r"D_{\mathrm{state,read}}", "bytes", "recurrent state read"),
    "state_write_bytes": ("D_state_write", r"D_{\mathrm{state,write}}", "bytes", "recurrent state written"),
    "link_bytes": ("D_link", r"D_{\mathrm{link}}", "bytes", "sent over the link"),
    "messages": ("messages", r"N_{\mathrm{messages}}", "messages", "steps of communication, one after another"),
}
_FROM_THESE = {
    "bytes": ("D", "D", "bytes", "traffic of device memory"),
    "time_bound": ("t_bound", r"t_{\mathrm{bound}}", "s", "shortest time"),
}
DERIVED = ("bytes", "arithmetic_intensity", "time_bound")
WORK = ("matrix_flops", "vector_flops")
MEMORY_TRAFFIC = tuple(name for name in FIELDS if name.endswith("_bytes") and name != "link_bytes")


def total(subject: str) -> sympy.Symbol:
    """The symbol of a field of the cost, or of what follows from these, by the subject of its explanation.

    >>> total("weight_bytes"), total("arithmetic_intensity")
    (D_weights, I)
    """
    if subject == "arithmetic_intensity":
        return symbol("I")
    return quantity(*{**_OF_COST, **_FROM_THESE}[subject])


def meaning(subject: str) -> str:
    """What it is, in words.

    >>> meaning("weight_bytes"), meaning("arithmetic_intensity")
    ('weights read', 'arithmetic intensity')
    """
    return described(total(subject)).meaning


def traffic(moved: Iterable[str]) -> Expr:
    """All that crosses the bus of device memory, of these kinds."""
    return sum(map(total, moved))


def intensity(worked: Iterable[str], moved: str) -> Expr:
    """What is done for each byte that is moved."""
    return sum(map(total, worked)) / total(moved)


def peak(subject: str) -> sympy.Symbol:
    """The symbol of the peak at which a total is worked off: compute by unit, everything else is traffic."""
    if subject == "vector_flops":
        return quantity("P_v", "P_v", "FLOP/s", "fp32 peak outside the matrix units")
    return symbol("P" if subject == "matrix_flops" else "beta")


def bound(subjects: Iterable[str]) -> Expr:
    """The longest of the times that each resource is busy: a total over the rate at which it is worked off."""
    busy = [total(name) / peak(name) for name in subjects]
    # NB: unevaluated: of symbols that know nothing of each other none can be left out, which SymPy takes long to find
    return sympy.Max(*busy, evaluate=False) if len(busy) > 1 else busy[0]


def derived(fields: Collection[str]) -> dict[str, Expr]:
    """What follows from the totals, in symbols, of a step whose operators have these fields of the cost.

    >>> derived(["matrix_flops", "weight_bytes", "activation_bytes"])["arithmetic_intensity"]
    F_matrix/D
    """
    moved, worked = ([name for name in names if name in fields] for names in (MEMORY_TRAFFIC, WORK))
    return {
        "bytes": traffic(moved),
        "arithmetic_intensity": intensity(worked, "bytes"),
        "time_bound": bound([*worked, "bytes"]),
    }


def unit(field: str) -> str:
    """The unit of a field of the cost."""
    return _OF_COST[field][2]
