"""Which resource binds an operator?"""

from __future__ import annotations

from roofline import formatting
from roofline.operators.attention import Attention
from roofline.operators.base import Operator
from roofline.operators.gemm import Gemm
from roofline.predict.bounds import times
from roofline.teach.worksheets import facts
from roofline.teach.worksheets.problem import Answer, Mistake, Problem, Rng, Template

_CHOICES = ("the memory bus", "the matrix units")


def draw(rng: Rng) -> Problem | None:
    """A linear layer or attention, in a prompt or at decode, on an accelerator."""
    name, card, what = rng.choice(facts.DENSE), rng.choice(facts.CARDS), rng.choice(("prompt", "decode", "attention"))
    hidden, inner, attention = facts.model(name).hidden_size, facts.mlp(name).intermediate_size, facts.mixer(name)
    if what == "attention":
        batch, context = rng.choice((64, 128, 256)), 1024 * rng.choice((4, 8, 16))
        operator: Operator = Attention(
            batch=batch, new=1, cached=context - 1, n_heads=attention.num_attention_heads,
            n_kv_heads=attention.num_key_value_heads, head_dim=attention.head_dim,
        )  # fmt: skip
        words = f"Attention decodes one token for each of {batch} sequences with {context:,} cached tokens"
        why = (
            "A large batch does not help attention: every sequence brings a cache of its own, so that the intensity stays at "
            "query heads over KV heads."
        )
    else:
        tokens = rng.choice((1024, 2048, 4096, 8192)) if what == "prompt" else rng.choice((1, 4, 8, 16, 32, 64, 512, 1024))
        operator = Gemm(m=tokens, n=inner, k=hidden)
        words = (
            f"The up projection (hidden size {hidden:,} to {inner:,}) takes a prompt of {tokens:,} tokens"
            if what == "prompt"
            else f"The up projection (hidden size {hidden:,} to {inner:,}) decodes one token for each of {tokens} sequences"
        )
        why = (
            "Whether a prompt or a batch brings the tokens is the same to a linear layer: its intensity is about their number, "
            "since each weight is read once for all of them."
        )
    hardware = facts.hardware(card)
    seconds = times(operator, operator.cost(), hardware)
    if 0.7 < seconds.matrix / seconds.memory < 1.4:
        return None
    place = 1 if seconds.matrix > seconds.memory else 0
    ridge = formatting.quantity(hardware.peak("bf16") / hardware.bandwidth, "FLOP/byte")
    return Problem(
        title="Which side of the ridge?",
        text=(
            f"{words}, with {facts.title(name)} ({facts.mixer(name).num_attention_heads} query heads, "
            f"{facts.mixer(name).num_key_value_heads} KV heads) in bf16 on the {facts.card(card)}: "
            f"{facts.peak_and_bandwidth(card)}. Which takes longer?"
        ),
        answer=Answer(value=place, kind="choice", choices=_CHOICES),
        mistakes=(Mistake(name=_CHOICES[1 - place], value=1 - place, hint=f"Compare its intensity with the ridge. {why}"),),
        solution=(
            why,
            (
                f"The ridge is at {ridge}. The bus takes {formatting.quantity(seconds.memory, 's')}, the matrix units take "
                f"{formatting.quantity(seconds.matrix, 's')}: {_CHOICES[place]} binds."
            ),
        ),
    )


TEMPLATE = Template(id="roofline-which-side", topic="roofline", minutes=3, draw=draw)
