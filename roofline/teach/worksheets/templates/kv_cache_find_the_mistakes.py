"""Find the mistakes: a thread's 1.53 MiB per token, where 56 KiB is right."""

from __future__ import annotations

from roofline import formatting
from roofline.teach.worksheets import facts, pitfalls, worked
from roofline.teach.worksheets.problem import Answer, Mistake, Problem, Rng, Template

_THREAD = "qwen2.5-7b"
# The hidden size is not four times the KV width, as 8 bytes are four times 2: each mistake has a factor of its own.
_OTHERS = ("mistral-nemo-12b", "qwen3-32b", "llama-3.1-70b")


def draw(rng: Rng) -> Problem:
    """The model of the thread, or another with the same two mistakes made."""
    name = rng.choice((_THREAD, facts.of_other_depth(rng, rng.choice(_OTHERS))))
    attention, model = facts.mixer(name), facts.model(name)
    hidden, layers, kv = model.hidden_size, model.num_hidden_layers, attention.num_key_value_heads
    size = facts.kv_bytes_per_token(name)
    wide, eight = hidden / (kv * attention.head_dim), 8 / facts.element_bytes("bf16")
    stated = size * wide * eight
    mistakes = (
        Mistake(
            name="both mistakes",
            value=stated,
            hint=(
                "That is the number of the post. Look at what it takes for the width of a key, and for the size of an element."
            ),
        ),
        Mistake(
            name="bits for bytes",
            value=size * eight,
            hint="The width is right now. The size of an element is not: 16 bits are how many bytes?",
        ),
        Mistake(
            name="hidden size for KV width",
            value=size * wide,
            hint="The size of an element is right now. The width is not: keys have KV heads times head width elements.",
        ),
        pitfalls.k_without_v(size / 2),
        pitfalls.query_heads(size * attention.num_attention_heads / kv, attention.num_attention_heads, kv),
        pitfalls.gb_for_gib(size),
    )
    line = f"2 x {layers} layers x {hidden} x 8 bytes = {formatting.binary(stated, 3)}"
    lead = (
        "In a thread on an inference engine someone works out the KV cache of one token"
        if name == _THREAD
        else "A post works out the KV cache of one token as a well-known thread once did, with its two mistakes"
    )
    return Problem(
        title="Find the mistakes",
        text=(
            f"{lead}, for {facts.title(name)} with a cache in bf16 (16 bits):\n\n> {line}\n\n"
            f"The model has {facts.shape(name, 'layers', 'hidden', 'queries', 'kv', 'head')}. Find both mistakes. How "
            f"much does a "
            "token really take?"
        ),
        answer=Answer(value=size, kind="bytes"),
        mistakes=mistakes,
        solution=(
            (
                f"The post uses the hidden size, {hidden:,}, where a key is {kv} x {attention.head_dim} = "
                f"{kv * attention.head_dim:,} wide, and takes 8 bytes for an element of 2 bytes: it is {wide * eight:g} "
                f"times too much."
            ),
            worked.explained("Put right:", name, "kv_bytes_per_token"),
        ),
        source="the numbers of vllm-project/vllm issue 22291" if name == _THREAD else "after vllm-project/vllm issue 22291",
    )


TEMPLATE = Template(id="kv-cache-find-the-mistakes", topic="kv-cache", minutes=5, draw=draw)
