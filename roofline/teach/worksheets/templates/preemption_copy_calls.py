"""Swapping block by block: the calls, and the bytes."""

from __future__ import annotations

from functools import cache

from roofline import formatting
from roofline.serving.preemption.copies import Curve
from roofline.serving.preemption.costs import SequenceCache, sequence_cache
from roofline.teach.worksheets import facts, worked
from roofline.teach.worksheets.problem import Answer, Mistake, Problem, Rng, Template

_CARDS = ("a100-sxm-80gb", "h100-sxm", "l40s")
_SHARE = 0.8
"""Of the link's rate that large copies reach."""


@cache
def _sequence_memory(name: str, block: int) -> SequenceCache:
    """What a device holds of a sequence, in blocks of `block` tokens."""
    return sequence_cache(facts.request(name, "h200-sxm", block_size=block, gpu_memory_utilization=0.95).memory.fullest_stage)


def draw(rng: Rng) -> Problem:
    """A sequence of whole blocks, a link, and the time of a call."""
    name, card, block = rng.choice(facts.DENSE), rng.choice(_CARDS), rng.choice((8, 16, 32))
    tokens, call = 1024 * rng.choice((1, 2, 4, 8)), rng.choice((2, 3, 5, 7)) * 1e-6
    held, layers = _sequence_memory(name, block), facts.model(name).num_hidden_layers
    rate = _SHARE / float(facts.hardware(card).to_host().seconds(1.0, 0, 2))
    calls, size, curve = float(held.calls(tokens)), float(held.bytes(tokens)), Curve(call, rate)
    right = 2 * float(curve.seconds(size, calls))
    blocks = tokens // block
    mistakes = (
        Mistake(
            name="bytes alone",
            value=2 * size / rate,
            hint="You counted the bytes. Each copy is a call, which takes a while however little it moves.",
        ),
        Mistake(
            name="calls alone",
            value=2 * calls * call,
            hint="You counted the calls. The bytes take their time as well.",
        ),
        Mistake(name="one way", value=right / 2, hint="That is one way. What was copied out has to come back in."),
        Mistake(
            name="keys and values in one call",
            value=2 * float(curve.seconds(size, calls / 2)),
            hint="Keys and values are in tensors of their own: of each block and layer there are two pieces.",
        ),
        Mistake(
            name="one layer's calls",
            value=2 * float(curve.seconds(size, calls / layers)),
            hint="You counted a call for keys and one for values of a block. Every layer has its own.",
        ),
    )
    return Problem(
        title="Block by block",
        text=(
            f"An engine evicts a sequence of {tokens:,} tokens of {facts.title(name)} "
            f"({facts.shape(name, 'layers', 'kv', 'head')}, cache in bf16), in {blocks} blocks of {block} tokens. For "
            f"each block every layer has a piece of keys and a piece of values, and each piece is copied by a call of its own, "
            f"one "
            f"after the other: {formatting.quantity(call, 's')} a call, and the bytes at "
            f"{formatting.quantity(rate, 'B/s')}. How long do swapping "
            "out and swapping in take together?"
        ),
        answer=Answer(value=right, kind="s"),
        mistakes=mistakes,
        solution=(
            worked.formula(
                "Calls in one direction, for keys and values in every layer:",
                "2 * L * n_blocks",
                {"L": (layers, ""), "n_blocks": (blocks, "blocks")},
                "calls",
            ),
            worked.explained("A token of the cache takes:", name, "kv_bytes_per_token"),
            worked.formula(
                "Calls and bytes, out and in:",
                "2 * (n_calls * a + S_c * k_token / R)",
                {
                    "n_calls": (calls, "calls"),
                    "a": (call, "a call [s]"),
                    "S_c": (tokens, ""),
                    "k_token": (facts.kv_bytes_per_token(name), "cache of a token [bytes]"),
                    "R": (rate, "rate of large copies [bytes/s]"),
                },
                "s",
            ),
        ),
        source="docs/preemption.md",
    )


TEMPLATE = Template(id="preemption-copy-calls", topic="preemption", minutes=5, draw=draw)
