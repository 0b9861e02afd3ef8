"""Usual mistakes that several templates share, each with its hint. `value` is the wrong number, in the base unit."""

from __future__ import annotations

from roofline.formatting import plural
from roofline.teach.worksheets.problem import Mistake

_PREFIXES = (
    (2.0**40, 1e12, "TiB", "TB"),
    (2.0**30, 1e9, "GiB", "GB"),
    (2.0**20, 1e6, "MiB", "MB"),
    (2.0**10, 1e3, "KiB", "kB"),
)


def k_without_v(value: float) -> Mistake:
    """Return the mistake of counting one of K and V: `value` is half of the answer."""
    return Mistake(name="K without V", value=value, hint="The cache holds keys and values: two tensors per layer, not one.")


def query_heads(value: float, queries: int, kv: int) -> Mistake:
    """Return the mistake of taking the query heads for KV heads."""
    held = f"{kv} KV heads only, which are" if kv > 1 else "one KV head only, which is"
    hint = f"You used the {queries} query heads. With grouped queries the cache holds the {held} shared."
    return Mistake(name="query heads for KV heads", value=value, hint=hint)


def hidden_size(value: float, hidden: int) -> Mistake:
    """Return the mistake of taking the hidden size for the width of K and V."""
    hint = (
        f"You used the hidden size {hidden:,} as the width of K and V. Theirs is KV heads times head width, which is less "
        "where heads are shared."
    )
    return Mistake(name="hidden size for KV width", value=value, hint=hint)


def bits_for_bytes(value: float, bits: int) -> Mistake:
    """Return the mistake of taking bits per element for bytes: `value` is eight times the answer."""
    return Mistake(
        name="bits for bytes",
        value=value,
        hint=f"An element has {bits} bits: that is {plural(bits / 8, 'byte')}, not {bits} bytes.",
    )


def one_layer(value: float, layers: int) -> Mistake:
    """Return the mistake of counting one layer instead of all."""
    hint = f"That is one layer. Each of the {layers} layers has its own."
    return Mistake(name="one layer", value=value, hint=hint)


def gb_for_gib(value: float) -> Mistake:
    """Return the mistake of writing a binary number with a decimal prefix, such as 4 GB for 4 GiB; `value` is the answer.

    >>> gb_for_gib(2.0**32).value
    4000000000.0
    """
    binary, decimal, right, wrong = next((entry for entry in _PREFIXES if value >= entry[0]), _PREFIXES[-1])
    hint = (
        f"You divided by powers of 1024, which gives {right}, and wrote {wrong}: 1 {right} is {binary / decimal:.4g} {wrong}."
    )
    return Mistake(name="GB for GiB", value=value / binary * decimal, hint=hint)


def sparse_peak(value: float, peak: str) -> Mistake:
    """Return the mistake of taking the peak with structured sparsity, twice the dense one; `peak` is the dense one as text."""
    hint = f"You used the peak with 2:4 sparsity, which datasheets print first. The dense one is half of it: {peak}."
    return Mistake(name="sparse peak", value=value, hint=hint)


def multiply_accumulates(value: float) -> Mistake:
    """Return the mistake of counting a multiply and an add as one FLOP: `value` is half of the answer."""
    hint = "You counted a multiply and an add as one. Each is a FLOP, so that a product of matrices takes 2 m n k."
    return Mistake(name="multiply-accumulates", value=value, hint=hint)


def causal_forgotten(value: float) -> Mistake:
    """Return the mistake of pairing every query with every key, without the causal mask."""
    hint = "You let every query see every key. With a causal mask token i sees i keys: p (p + 1) / 2 pairs in all, about half."
    return Mistake(name="causal mask forgotten", value=value, hint=hint)


def all_experts(value: float, experts: int, used: int) -> Mistake:
    """Return the mistake of counting every expert where a token uses `used` of them."""
    hint = f"You counted all {experts} experts. A token goes through {used} of them."
    return Mistake(name="all experts read", value=value, hint=hint)
