"""TTFT with a transfer in it."""

from __future__ import annotations

from roofline import formatting
from roofline.teach.worksheets import facts, pitfalls, worked
from roofline.teach.worksheets.problem import Answer, Mistake, Problem, Rng, Template

_CARDS = ("a100-sxm-80gb", "h100-sxm", "h200-sxm")
_BATCH = 32


def draw(rng: Rng) -> Problem | None:
    """A prompt with its wait, its transfer, and the first step on the decode GPU."""
    name, card, tokens = rng.choice(facts.DENSE), rng.choice(_CARDS), 1024 * rng.choice((4, 8, 12, 16))
    rate, wait = 1e9 * rng.choice((6.25, 12.5, 25)), rng.integer(20, 400, 20) / 1000
    if facts.max_batch(name, card, tokens) < _BATCH:
        return None
    prefill = float(f"{facts.floor(name, card, 1, tokens, 0).seconds / 0.55:.3g}")
    step = float(f"{facts.floor(name, card, _BATCH, 1, tokens).seconds / 0.7:.3g}")
    size, attention = facts.kv_bytes(name, tokens), facts.mixer(name)
    sent = size / rate
    right = wait + prefill + sent + step
    if min(step, sent) < 0.03 * right:
        return None
    queries, kv = attention.num_attention_heads, attention.num_key_value_heads
    mistakes = (
        Mistake(
            name="transfer forgotten",
            value=right - sent,
            hint="The decode GPU cannot begin before the cache is there: the transfer is part of TTFT here.",
        ),
        Mistake(
            name="step forgotten",
            value=right - step,
            hint="Here the decode GPU gives the first token, in its first step. That is not there yet.",
        ),
        Mistake(
            name="prefill alone",
            value=prefill,
            hint="That is the prompt alone. What happens before and after it, until the user sees a token?",
        ),
        Mistake(
            name="wait forgotten",
            value=right - wait,
            hint="The request waited before its prompt was computed. Its user waited too.",
        ),
        pitfalls.query_heads(right - sent + sent * queries / kv, queries, kv),
        pitfalls.k_without_v(right - sent / 2),
    )
    return Problem(
        title="The first token, from two pools",
        text=(
            f"A request for {facts.title(name)} ({facts.shape(name, 'layers', 'queries', 'kv', 'head')}, cache in bf16) waits "
            f"{formatting.quantity(wait, 's')} in the prefill pool. Its prompt of {tokens:,} tokens then takes "
            f"{formatting.quantity(prefill, 's')} there. The cache is sent when the prompt is done, at "
            f"{formatting.quantity(rate, 'B/s')}. As in vLLM the decode GPU gives the first token, in a step of "
            f"{formatting.quantity(step, 's')} that begins when the cache has arrived. What is the TTFT?"
        ),
        answer=Answer(value=right, kind="s"),
        mistakes=mistakes,
        solution=(
            worked.explained("A token of the cache takes:", name, "kv_bytes_per_token"),
            worked.formula(
                f"Sending {tokens:,} of them ($S_c$):",
                "S_c * k_token / R",
                {
                    "S_c": (tokens, ""),
                    "k_token": (facts.kv_bytes_per_token(name), "cache of a token [bytes]"),
                    "R": (rate, "rate of the link [bytes/s]"),
                },
                "s",
            ),
            worked.formula(
                "One after the other:",
                "t_wait + t_prefill + t_transfer + t_step",
                {
                    "t_wait": (wait, "wait [s]"),
                    "t_prefill": (prefill, "prefill [s]"),
                    "t_transfer": (sent, "transfer [s]"),
                    "t_step": (step, "decode step [s]"),
                },
                "s",
            ),
        ),
        source="docs/simulation.md",
    )


TEMPLATE = Template(id="disaggregation-first-token", topic="disaggregation", minutes=5, draw=draw)
