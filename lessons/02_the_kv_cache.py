# ---
# jupyter:
#   jupytext:
#     text_representation:
#       extension: .py
#       format_name: percent
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# # 2. The KV cache
#
# A decode step runs one token through the model, not the whole sequence again. That works because attention keeps the keys and values
# of all earlier tokens: the **KV cache**. It saves work and costs memory, which soon becomes scarce. This lesson counts the cache, and
# then makes it smaller: fewer heads, a window, a latent, and fewer bytes per element.

# %%
import numpy as np

import roofline
from roofline.teach.lessons import (
    amount,
    bars,
    curves,
    draw,
    exercise,
    figure,
    formula,
    lesson,
    play,
    predict,
    published,
    say,
    show,
    table,
    takeaway,
    worked,
)
from roofline.teach.lessons.live.run import edited

LLAMA, A100 = "llama-3.1-8b", "a100-sxm-80gb"
model = roofline.load_model(LLAMA)

lesson(
    2,
    "The KV cache",
    "What attention remembers, what it weighs, and how MQA, GQA, windows and MLA make it smaller.",
    goals=[
        "say which work the cache saves, and why it may be kept at all",
        "compute the cache of a token and of a sequence from a config, in the right units",
        "compare multi-head, grouped-query and multi-query attention, sliding windows and latent attention by their caches",
        "find the mistake in a wrong cache size",
    ],
    prerequisites=[
        "lesson 1: the dimensions of a transformer, prefill and decode",
        "what attention does with queries, keys and values",
    ],
    plan=[
        (9, "Work done twice"),
        (10, "What a token leaves behind"),
        (8, "Fewer heads"),
        (6, "A window"),
        (9, "A latent"),
        (8, "Play and practise"),
    ],
    exercises=["kv-cache-per-token", "kv-cache-window", "kv-cache-latent", "kv-cache-find-the-mistakes"],
)


# %%
def analysed(what=LLAMA, tokens=4096, **options):
    """A decode step that leaves `tokens` tokens in the cache of each sequence; it may be more than fits."""
    return roofline.analyze(what, A100, context=tokens - 1, phase="decode", ignore_capacity=True, **options)


def cached(what=LLAMA, tokens=4096, **options):
    """Bytes of the cache of one sequence of a number of tokens."""
    return analysed(what, tokens, **options).memory.kv_bytes_per_sequence["mathematical"]


# %% [markdown]
# ## Work done twice
#
# Suppose that 1000 tokens are there and we want number 1001. Run the model over all of them, take the scores of the last, choose. For
# number 1002, run it over 1001 tokens. All but one of these have been through the model before. A token never sees a later one, so
# **every vector computed for them is the same as last time**.

# %%
again = roofline.analyze(LLAMA, A100, input_len=1001, phase="prefill").prefill
with_cache = analysed(tokens=1001).decode
predict(
    "Running all 1001 tokens through Llama 3.1 8B again, instead of the one new token: how many times the FLOP is that, roughly?",
    kind="ratio",
    answer=again.cost.flops / with_cache.cost.flops,
    tolerance=0.2,
    hints={
        2.0: "Each token takes a pass over the weights of its own.",
        1001.0**2: "Attention is quadratic, but it is a small part here.",
    },
    why=[
        "Each token does 2 FLOP for every weight that is multiplied, whether it is new or not:",
        table(
            ("token number 1002", "FLOP", "bytes moved"),
            [
                ("all 1001 tokens again", again.cost.flops, amount(again.cost.bytes, "bytes")),
                ("the new token, with a cache", with_cache.cost.flops, amount(with_cache.cost.bytes, "bytes")),
                (
                    "ratio",
                    f"{again.cost.flops / with_cache.cost.flops:.0f}x",
                    f"{again.cost.bytes / with_cache.cost.bytes:.2f}x",
                ),
            ],
            title="With and without a cache",
            note="Less than 1001 times, since only the last row of the LM head is computed. The weights have to be read either way: the cache "
            "saves FLOP, hardly bytes.",
        ),
    ],
)

# %% [markdown]
# What has to be kept of the earlier tokens? Attention compares the new token's **query** with the **keys** of all tokens, then sums
# their **values** by these weights. Queries of earlier tokens are never wanted again. So keys and values are kept, and nothing
# else. Here is one head, with and without a cache.

# %% tags=["open"]
rng = np.random.default_rng(0)
width, d_head = 64, 16
w_q, w_k, w_v = (rng.normal(size=(width, d_head)) for _ in range(3))


def attend(q: np.ndarray, k: np.ndarray, v: np.ndarray) -> np.ndarray:
    """The newest token's query against all keys; the values, weighted."""
    scores = q @ k.T / np.sqrt(d_head)
    share = np.exp(scores - scores.max())
    return share / share.sum() @ v


tokens = rng.normal(size=(20, width))
keys, values = np.empty((0, d_head)), np.empty((0, d_head))
for n, token in enumerate(tokens, 1):
    keys = np.vstack([keys, token @ w_k])  # one row more
    values = np.vstack([values, token @ w_v])
    with_a_cache = attend(token @ w_q, keys, values)
    from_scratch = attend(token @ w_q, tokens[:n] @ w_k, tokens[:n] @ w_v)  # n rows again
    assert np.allclose(with_a_cache, from_scratch)

# %%
say(
    f"Both give the same vector for each of the 20 tokens. The cache projected **{len(tokens)}** rows in all, the other way "
    f"**{sum(range(1, len(tokens) + 1))}**: linear against quadratic."
)

# %%
draw("cache-growth")

# %%
takeaway(
    "The cache holds the keys and values of every token, in every layer. It makes the work of a token independent of how many came "
    "before, but for attention itself."
)

# %% [markdown]
# ## What a token leaves behind
#
# In each of $L$ layers every token leaves one key and one value for each of $n_{kv}$ heads, of $d_{head}$ elements, at $b_{kv}$ bytes each.

# %%
token = roofline.explain(LLAMA, "kv_bytes_per_token", kv_cache_dtype="fp16")
predict(
    "Llama 3.1 8B has 32 layers, 32 query heads, 8 KV heads of 128 elements, hidden size 4096. How much cache does one token take in "
    "fp16? Write it with a unit.",
    kind="bytes",
    answer=token.value,
    tolerance=0.01,
    hints={
        token.value / 2: "Keys **and** values are kept.",
        token.value * 4: "That is with the 32 query heads. Keys and values have 8 heads.",
        token.value / 32: "That is one layer.",
        token.value * 2: "fp16 is 2 bytes an element.",
    },
    why=formula(token, title="KV cache of one more token, Llama 3.1 8B in fp16"),
)

# %%
published("F02", token.value)

# %% [markdown]
# **128 KB or 131 kB?** 131,072 bytes are 128 **KiB** in units of 1024 bytes, and 131 **kB** in units of 1000. The lecture prints "128 KB" and
# means KiB. The difference grows: at giga it is 7 %. This course writes KiB, MiB, GiB for powers of 1024 and kB, MB, GB for powers
# of 1000.

# %%
lengths = {"F03": 4096, "F04": 8192, "F05": 32768, "F06": 131072}
sizes = {id: cached(tokens=length, kv_cache_dtype="fp16") for id, length in lengths.items()}
weights = analysed().memory.weights_bytes
show(*(published(id, size) for id, size in sizes.items()))

# %%
predict(
    f'The lecture says: "At 128K context, KV cache equals model weight size!" The weights are {weights / 1e9:.2f} GB. What holds exactly?',
    {
        "the cache is 7 % larger": "",
        "they are equal": "16 GiB is not 16 GB.",
        "the cache is 7 % smaller": "A GiB is more than a GB.",
    },
    answer="the cache is 7 % larger",
    why=[
        f"The cache has {sizes['F06']:,} bytes, the weights {weights:,.0f}.",
        published("F07", sizes["F06"] / weights),
        "The sentence is right about what matters: one sequence can weigh as much as the model.",
    ],
)

# %%
takeaway(
    f"Cache of a token = 2 x layers x KV heads x head width x bytes: {token.value // 1024} KiB for Llama 3.1 8B. A long sequence weighs as "
    "much as the model."
)

# %% [markdown]
# ## Fewer heads
#
# In **multi-head attention** (MHA) each query head has keys and values of its own. **Multi-query attention** (MQA; Shazeer, 2019) has
# one key and value head for all. **Grouped-query attention** (GQA; Ainslie et al., 2023) lies between: $n_q$ query heads share $n_{kv}$
# heads of keys and values. Only $n_{kv}$ is in the formula of the cache.

# %%
predict(
    "Llama 3.1 8B has 32 query heads. With one KV head instead of 8, its cache would be",
    {
        "1/32 of what it is now": "It has 8 KV heads now, not 32: some of the saving is made already.",
        "1/8 of what it is now": "",
        "the same": "Keys and values are kept for KV heads, not for query heads.",
    },
    answer="1/8 of what it is now",
    why="The cache is proportional to $n_{kv}$: from 8 heads to one is a factor of 8. Against multi-head attention, 32 heads, it is 32.",
)

# %%
draw(
    "attention-heads",
    {
        "multi-head": {"kind": "mha"},
        "grouped-query": {"kind": "gqa"},
        "multi-query": {"kind": "mqa"},
        "latent": {"kind": "mla"},
    },
    about="Attention",
)

# %%
variants = {name: edited(model, {"kv_heads": heads}) for name, heads in {"MHA": 32, "GQA": 8, "MQA": 1}.items()}
of_variant = {name: analysed(one) for name, one in variants.items()}
per_token = {name: result.memory.kv_bytes_per_token for name, result in of_variant.items()}
relative = {name: size / per_token["MHA"] for name, size in per_token.items()}
cores = {
    name: next(op.cost for op in result.decode.operators if op.path.endswith("attention/core"))
    for name, result in of_variant.items()
}
show(
    table(
        ("attention", "KV heads", "cache per token", "of MHA", "FLOP of attention", "FLOP/byte of attention"),
        [
            (
                name,
                one.layer_types["decoder"].mixer.num_key_value_heads,
                amount(per_token[name], "bytes"),
                f"1/{1 / relative[name]:.0f}",
                cores[name].matrix_flops,
                f"{cores[name].matrix_flops / cores[name].bytes:.1f}",
            )
            for name, one in variants.items()
        ],
        title="Llama 3.1 8B with other numbers of KV heads",
        note="One decode step after 4095 tokens. The FLOP stay: every query head still works. Lesson 3 says what fewer bytes are worth.",
    ),
    published("F24", "1, 1/4, 1/32", agrees=list(relative.values()) == [1, 1 / 4, 1 / 32]),
)

# %%
takeaway("The cache is proportional to the KV heads; the work is not. GQA with 8 of 32 heads keeps a quarter of the bytes.")

# %% [markdown]
# ## A window
#
# A layer with a **sliding window** attends to the last $w$ tokens, itself included. What lies further back is never read again, so it need
# not be kept. Information still travels further than $w$ tokens, a window a layer.

# %%
MISTRAL = "mistral-7b-v0.1"
predict(
    "Mistral 7B v0.1 has a window of 4096 tokens in every layer and the same KV heads as Llama 3.1 8B. A sequence grows from 4096 to "
    "32,768 tokens. Its cache grows by a factor of",
    {"8": "That is without a window.", "2": "Nothing before the window is read again.", "1": ""},
    answer="1",
    why="min(32,768, 4096) = 4096 tokens are kept in either case.",
)

# %%
draw("sliding-window", model=MISTRAL)

# %%
grid = [2**power for power in range(10, 18)]
windowed = {length: cached(MISTRAL, length, kv_cache_dtype="fp16") for length in (4096, 4097, *grid)}
show(
    figure(
        curves(
            "window",
            "The cache of one sequence",
            ("tokens", "tokens"),
            ("cache", "B"),
            {
                "Llama 3.1 8B as multi-head": (grid, [cached(variants["MHA"], length) for length in grid]),
                "Llama 3.1 8B": (grid, [cached(tokens=length) for length in grid]),
                "Mistral 7B v0.1, window of 4096": (grid, [windowed[length] for length in grid]),
            },
            roles=("estimate", "kv", "mixed"),
            marks=(("the window", "x", 4096), ("weights of Llama 3.1 8B", "y", weights)),
            note="Mistral and Llama have the same layers, KV heads and head width, so they part at the window.",
        )
    ),
    published(
        "F25",
        f"{amount(windowed[4096], 'bytes')} for 4096, for 4097 and for 32,768 tokens",
        agrees=windowed[4096] == windowed[4097] == windowed[32768] == 4096 * per_token["GQA"],
    ),
    takeaway(
        "A window puts an upper bound on the cache of a sequence: w tokens, however long it gets. Below the window it saves nothing."
    ),
)

# %% [markdown]
# ## A latent
#
# **Multi-head latent attention** (MLA; DeepSeek-V2, 2024) keeps neither keys nor values. It projects each token to one short vector, the
# *latent* of $r_{kv}$ elements, and keeps that. Keys and values of all heads are linear maps of the latent. They can be expanded from
# it when they are needed, or the maps can be absorbed into the queries and the output.
#
# One part cannot be absorbed: the rotated part of the key, which carries the position. It has $d_{rope}$ elements, shared by all heads,
# and is kept beside the latent.

# %%
DEEPSEEK = "deepseek-v2"
latent = roofline.explain(DEEPSEEK, "kv_bytes_per_token")
formula(latent, title="KV cache of one more token, DeepSeek-V2 in bf16")

# %% [markdown]
# The lecture says: MLA keeps $r_{kv}$ elements, "about 5 times less". Two things are loose. The 64 rotated elements are missing. And
# less *than what*?

# %%
mixer = roofline.load_model(DEEPSEEK).layer_types["dense"].mixer
mine = mixer.kv_lora_rank + mixer.qk_rope_head_dim
predict(
    "DeepSeek-V2 has 128 heads; its values have 128 elements a head and so has the unrotated part of its keys. Against multi-head "
    "attention with these 128 heads of 128, how many times smaller is a cache of 512 + 64 elements a layer?",
    kind="ratio",
    answer=2 * 128 * 128 / mine,
    tolerance=0.02,
    hints={
        128 * 128 / mine: "Keys **and** values.",
        2 * 128 * 128 / 512: "The 64 rotated elements are kept too.",
        5.0: "That is what the lecture says, of another baseline. Which would it have to be?",
    },
    why=[
        f"2 x 128 x 128 = {2 * 128 * 128:,} elements against {mine}: **{2 * 128 * 128 / mine:.1f} times** less.",
        table(
            ("against", "elements a token and layer", "times less"),
            [
                ("multi-head, 128 heads of 128", 2 * 128 * 128, f"{2 * 128 * 128 / mine:.1f}x"),
                ("grouped-query, 8 heads of 128, as Llama 3.1", 2 * 8 * 128, f"{2 * 8 * 128 / mine:.1f}x"),
                ("multi-query, 1 head of 128", 2 * 128, f"{2 * 128 / mine:.2f}x"),
            ],
            title="DeepSeek-V2's 576 elements, against what",
            note='"About 5" needs a baseline of some 11 KV heads. A factor without its baseline is no figure.',
        ),
    ],
)

# %%
draw(
    "mla-absorb",
    {"decode: absorbed": {"form": "absorbed"}, "prefill: expanded": {"form": "expanded"}},
    about="Form",
    model=DEEPSEEK,
)

# %%
published("F26", latent.value)

# %%
several = {
    "Llama 2 7B, MHA": "llama-2-7b",
    "Llama 3.1 70B, GQA": "llama-3.1-70b",
    "Llama 3.1 8B, GQA": LLAMA,
    "Qwen2.5 7B, GQA": "qwen2.5-7b",
    "DeepSeek-V2, MLA": DEEPSEEK,
}
figure(
    bars(
        "models",
        "KV cache of one token, at 2 bytes an element",
        ("KiB", ""),
        {"cache": {title: roofline.explain(name, "kv_bytes_per_token").value / 1024 for title, name in several.items()}},
        roles=("kv",),
        note="DeepSeek-V2 has 236 billion parameters and keeps less of a token than Llama 3.1 8B does.",
    )
)

# %%
takeaway(
    f"MLA keeps one latent and one rotated key a token and layer, for all heads: {2 * mine:,} bytes per layer in DeepSeek-V2. Say "
    f"against what a saving is measured: {2 * 128 * 128 / mine:.0f} times against its own multi-head attention."
)

# %% [markdown]
# ## Play and practise
#
# The fourth way is fewer bytes an element: an fp8 cache halves $b_{kv}$, whatever the attention is. Try all four on one model.

# %%
play(
    "The same model under other attentions. The solid line is multi-head attention without a window, of the same model and load.",
    controls=("model", "attention", "kv_heads", "window", "latent", "kv", "batch", "context", "bandwidth_gbs"),
    tiles=("kv_bytes_per_token", "kv_bytes_per_sequence", "kv_bytes", "kv_share", "attention_intensity", "step"),
    formulas=("kv_bytes_per_token", "kv_bytes_per_sequence"),
    pictures=("cache", "roofline"),
    models=("llama-3.1-8b", "llama-2-7b", "mistral-7b-v0.1", "qwen2.5-7b", "llama-3.1-70b"),
    context=8191,
    tries=(
        "Set **KV heads** to 32, then to 1. Which tiles move, and which point of the roofline?",
        "Set a **window** of 1024 and move the context across it. What happens to the formula?",
        "Choose **latent** attention. Which latent size keeps as much as GQA with 8 heads of 128?",
        "With a batch of 64: at which context do the caches weigh as much as the weights?",
    ),
)

# %%
qwen = roofline.explain("qwen2.5-7b", "kv_bytes_per_token")
capacity = roofline.explain(LLAMA, "max_context", A100)
show(
    worked(
        "find the mistakes",
        "In an issue of an inference engine a user computes the cache of a token of Qwen2.5 7B (28 layers, 28 query heads, 4 KV heads of "
        "128, hidden size 3584, bf16) as 2 x 28 x 3584 x 8 = 1.53 MiB. The engine reports far less. What is wrong?",
        "Two things. The 3584 is the hidden size, 28 heads of 128: the *query* heads. Keys and values have 4 heads of 128, so 512. And 8 "
        "stands for the bits of an 8-bit cache, or for nothing: bf16 has 2 *bytes*.",
        formula(qwen, title="KV cache of one more token, Qwen2.5 7B in bf16", legend=False),
        say(f"The two mistakes are factors of 7 and 4: **{2 * 28 * 3584 * 8 / qwen.value:.0f} times** too much."),
    ),
    worked(
        "how long a chat fits",
        "An A100 with 80 GB runs Llama 3.1 8B, and its engine uses 90 % of the memory. How many tokens can all chats together have?",
        formula(capacity, title="The most tokens that one sequence may have, if memory alone decides"),
        say(
            f"The model was made for 131,072 tokens per sequence: {capacity.value // 131072} of that length fit, or "
            f"{analysed().memory.max_batch} of 4096 tokens. Lesson 4 asks what that does to the batch."
        ),
    ),
)

# %%
show(
    exercise("kv-cache-per-token", 1),
    exercise("kv-cache-window", 1),
    exercise("kv-cache-latent", 2),
    exercise("kv-cache-find-the-mistakes", 1),
)

# %% [markdown]
# **More**: `roofline explain deepseek-v2 kv_bytes_per_token`, and `roofline limits llama-3.1-8b --hardware a100-sxm-80gb` for what fits.
# Next: why fewer bytes for the same FLOP makes attention faster.
