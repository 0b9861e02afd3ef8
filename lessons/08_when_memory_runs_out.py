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
# # 8. When memory runs out
#
# Caches grow by a token per step, and it is not known how long an output will be. So a full device is nothing unusual: sooner or later a
# sequence has to free memory for others. Its keys and values can be computed again when it comes back, or be copied to the host and back.
# This lesson says how an engine hands out memory, what either way costs, and which one is cheaper: by the link, the length, the
# block and the kind of attention. At the end we repeat a poster's experiment on preemption in vLLM.

# %%
import numpy as np

import roofline
from roofline.formulas.symbolic import quantity, symbol
from roofline.predict.allocation import Kind
from roofline.predict.explain.explanation import explanation
from roofline.serving.preemption.copies import Curve
from roofline.serving.preemption.costs import BlockGroup, SequenceCache
from roofline.serving.preemption.crossover import quadratic
from roofline.teach.lessons import (
    amount,
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
YARN, A100_40 = "yarn-llama-2-7b-64k", "a100-sxm-40gb"
model = roofline.load_model(LLAMA)

lesson(
    8,
    "When memory runs out",
    "Blocks, preemption, and what it costs to compute a cache again or to copy it out and back.",
    goals=[
        "say what paging saves, and what a block that is too large or too small costs",
        "compute what recomputing an evicted sequence costs, and what swapping it does, calls included",
        "derive the link at which both cost the same, and say how MHA, GQA, windows and MLA move it",
        "say from which length and which block on swapping is cheaper, and check published statements on it",
    ],
    prerequisites=[
        "lesson 2: the bytes of a token in the cache",
        "lesson 3: the time of a prompt and of a decode step; lesson 4: how many sequences fit",
    ],
    plan=[
        (8, "Memory in blocks"),
        (6, "A request has to go"),
        (7, "Compute it again"),
        (8, "Copy it out and back"),
        (9, "Which is cheaper"),
        (6, "The poster's experiment"),
        (6, "Play and practise"),
    ],
    exercises=[
        "preemption-blocks",
        "preemption-fragmentation",
        "preemption-first-eviction",
        "preemption-recompute-time",
        "preemption-copy-calls",
        "preemption-break-even-link",
    ],
)


# %%
def derived(title, expr, values, unit, source):
    """A formula of the toolkit's, which a function of it gave for symbols."""
    return formula(explanation("lesson", expr, values, unit=unit, source=source), title=title)


# %% [markdown]
# ## Memory in blocks
#
# Before paging, an engine kept the cache of a sequence in one piece of memory. A piece cannot grow, so it had to be as long as the
# longest sequence that is allowed. Most sequences are far shorter, and the rest of their pieces held nothing.
#
# **PagedAttention** (Kwon et al., 2023) does what operating systems do: memory is cut into **blocks** of a few tokens, a sequence gets
# one more when its last is full, and a table says where its blocks are. They may lie anywhere.

# %%
ALLOWED = 8192
rng = np.random.default_rng(0)
spread = np.sqrt(np.log1p((900 / 1366) ** 2))
lengths = np.clip(rng.lognormal(np.log(1366) - spread**2 / 2, spread, 2000), 16, ALLOWED).astype(int)
used = int(lengths.sum())
predict(
    f"An engine allows {ALLOWED:,} tokens and reserves them for every sequence. The sequences have {lengths.mean():,.0f} tokens on average. "
    "What share of the memory that is given out holds a token?",
    kind="share",
    answer=used / (len(lengths) * ALLOWED),
    hints={1 - used / (len(lengths) * ALLOWED): "That is the share that holds nothing."},
    why=f"The mean over what is reserved. In the same memory {ALLOWED / lengths.mean():.0f} times as many of these sequences would fit, if each "
    "had only what it needs. That is why memory was worth a scheme of its own.",
)

# %%
b, cached, layers = quantity("b", "b", "tokens", "tokens in a block"), symbol("S_c"), symbol("L")
blocks = Kind(b, 1.0).blocks(cached, 0)
taken = {size: int(Kind(size, 1.0).blocks(lengths, 0).sum()) * size for size in (1, 16, 64, 256)}
capacity = roofline.explain(LLAMA, "max_context", A100).value
mean_taken = {**{f"blocks of {size}": total / len(lengths) for size, total in taken.items()}, "one piece": ALLOWED}
show(
    derived("Blocks of a sequence", blocks, {cached: 1366, b: 16}, "blocks", "Kwon et al. 2023, arXiv:2309.06180, section 4"),
    table(
        ("memory in", "tokens of memory a sequence", "of which empty", "sequences that fit an A100"),
        [(name, f"{each:,.0f}", f"{1 - lengths.mean() / each:.1%}", int(capacity / each)) for name, each in mean_taken.items()],
        title=f"2,000 sequences, {lengths.mean():,.0f} tokens on average, at most {ALLOWED:,}",
        note=f"Llama 3.1 8B: beside its weights an A100 with 80 GB has memory for {capacity:,.0f} tokens, at 90 % of its memory.",
    ),
)

# %%
draw("paged-blocks", {"two sequences": {}, "with a shared prefix": {"shared": True}}, about="Blocks")

# %% [markdown]
# Only the last block of a sequence has empty places: half a block on average, if lengths fall evenly. This is **internal
# fragmentation**. Between blocks nothing is lost, as all are of one size (no *external* fragmentation). So blocks should be small.
# Why not of one token? Because a block is also what attention looks up and what is copied. Keep the second reason in mind.

# %%
takeaway(
    "Paging hands out memory when it is needed, a block at a time. Lost is half a block per sequence, not the distance to the longest "
    "one that is allowed; so several times more sequences fit."
)

# %% [markdown]
# ## A request has to go
#
# Now nothing is reserved, and that has a price. A request is let in when its *prompt* fits. Its answer grows into blocks that others
# want too. Take Yarn-Llama-2-7B-64k on an A100 with 40 GB, of which 12 % are left for caches: 614 blocks of 16 tokens.
# 32 requests come at once, each with a prompt of 1,500 tokens and an answer of 1,024.

# %%
GPU_TOKENS = 40 * 2**30 / roofline.explain(YARN, "kv_bytes_per_token").value
REQUESTS, PROMPT, ANSWER = 32, 1500, 1024
MODES = ("recompute", "swap")


def blocks_of(share, size=16):
    """Blocks in a percentage of 40 GiB."""
    return int(GPU_TOKENS * share / 100) // size


runs = {}


def simulated(mode, blocks, size=16, requests=REQUESTS, prompt=PROMPT, answer=ANSWER, **options):
    """Requests that come at once, under vLLM's V0 scheduler."""
    key = (mode, blocks, size, requests, prompt, answer, *options.items())
    if key not in runs:
        runs[key] = roofline.simulate(
            YARN, A100_40, workload=f"at-once:{requests}", input_len=prompt, output_len=answer, scheduler="vllm-v0",
            preemption=mode, block_size=size, num_gpu_blocks_override=blocks, **options,
        )  # fmt: skip
    return runs[key]


narrow = {mode: simulated(mode, blocks_of(12)) for mode in MODES}
of_prompt, of_all = (int(Kind(16, 1.0).blocks(tokens, 0)) for tokens in (PROMPT, PROMPT + ANSWER))
let_in = round(max(narrow["swap"].series["running"]))
predict(
    f"A prompt takes {of_prompt} blocks, a whole request {of_all}. Of 614 blocks 1 % has to stay free when a request is admitted. "
    f"So {let_in} requests start, and every one grows by a block in 16 steps. What happens when no block is free?",
    {
        "the server waits until one of them is done": "No request can go on without a block, so none will be done.",
        "the request that came last gives up all of its blocks": "",
        "each gives up one block": "Attention needs all earlier tokens: a sequence with a hole cannot go on.",
        "it cannot happen: requests are let in only where they fit": "Their prompts fit. How long answers get is not known.",
    },
    answer="the request that came last gives up all of its blocks",
    why=f"{let_in} whole requests would take {let_in * of_all} blocks. The one that came last is **preempted** (evicted): all of its "
    "blocks become free, and it waits until it fits again. A sequence needs all of its cache or none, so all go at once. First come, "
    "first served holds for those that stay.",
)

# %%
until = 30.0


def over_time(mode):
    """Middle of each interval, and the share of the blocks that are in use, until some time."""
    series = narrow[mode].series
    width = series["interval_s"]
    times = [width * (at + 0.5) for at in range(len(series["blocks"]))]
    many = sum(time < until for time in times)
    return times[:many], [taken / blocks_of(12) for taken in series["blocks"]][:many]


show(
    figure(
        curves(
            "blocks",
            "KV blocks in use, the first half minute",
            ("time", "s"),
            ("blocks in use", "%"),
            {"recompute": over_time("recompute"), "swap": over_time("swap")},
            roles=("compute", "memory"),
            scales=("linear", "linear"),
            low=0.6,
            note="614 blocks, averages over half a second. Use climbs until all blocks are taken and falls when a request is evicted or ends.",
        )
    ),
    table(
        ("614 blocks, 32 requests", *MODES),
        [
            ("requests that run, at most", *(f"{max(one.series['running']):.0f}" for one in narrow.values())),
            ("preemptions", *(one.requests.preemptions for one in narrow.values())),
            ("tokens dropped, computed again", *(one.preemption["recomputed_tokens"] for one in narrow.values())),
            ("tokens copied out, and in again", *(one.preemption["swapped_tokens"] for one in narrow.values())),
        ],
        title="The whole run",
    ),
    takeaway(
        "Letting requests in by what they need now fills the memory, and sometimes overfills it. Then the last one to come loses its whole "
        "cache, and it has to get it back before it goes on."
    ),
)

# %% [markdown]
# ## Compute it again
#
# The evicted tokens are known: the prompt, and the part of the answer that is there. Nothing has to be chosen again.

# %%
TOKENS = 2048
costs = roofline.preempt(LLAMA, A100, tokens=TOKENS).comparison
step = roofline.analyze(LLAMA, A100, context=TOKENS - 1, phase="decode").decode.pipeline.estimate
predict(
    f"A sequence of Llama 3.1 8B has a prompt of 1,500 tokens and 548 tokens of answer when it is evicted. On an A100 a decode step takes "
    f"{amount(step, 's')}. To compute the cache of all {TOKENS:,} tokens again takes",
    {
        "the prompt, and 548 decode steps": "That is how they were made. But now all of them are known.",
        "one prefill of 2,048 tokens": "",
        "548 decode steps": "The prompt's keys and values are gone as well.",
    },
    answer="one prefill of 2,048 tokens",
    why=f"Known tokens go through the model together: one prefill, {amount(costs.recompute.seconds, 's')} by estimate. At "
    f"their pace the 548 steps had taken {amount(548 * step, 's')}. Recomputing is much cheaper than what it brings back, and this is why it is an option.",
)

# %%
points = {point.tokens: point for point in costs.curves}
prompts = {}
for length in (64, 512, 4096, 32768, 131072):
    found = roofline.analyze(LLAMA, A100, input_len=length, phase="prefill", ignore_capacity=True).prefill
    core = next(op.cost for op in found.operators if op.path.endswith("attention/core"))
    prompts[length] = (found.cost.flops, core.flops / found.cost.flops)
table(
    ("tokens", "FLOP", "of which attention", "recompute", "a token"),
    [
        (
            f"{length:,}",
            f"{flops:.3g}",
            f"{share:.1%}",
            amount(points[length].recompute_s, "s"),
            f"{points[length].recompute_s / length * 1e6:.0f} µs",
        )
        for length, (flops, share) in prompts.items()
    ],
    title="Computing the cache of Llama 3.1 8B again, on an A100",
    note="Estimates from measured kernels; a prompt alone, in steps of at most 8,192 tokens.",
)

# %% [markdown]
# Three terms are in it. A **constant**: the weights are read once, however short the sequence, so that a token of a short one is dear.
# A **linear** term: each token is multiplied by every weight. A **quadratic** one: each token attends to all before it, so that a token
# of a long sequence is dear again.
#
# The constant disappears when the prompt rides in a step with others that decode: these read the weights anyway.

# %%
beside = {
    tokens: roofline.preempt(LLAMA, A100, tokens=tokens, batch=16, context=2048).comparison for tokens in (64, 512, TOKENS)
}
show(
    table(
        ("tokens", "alone", "added to a step of 16 others"),
        [(f"{tokens:,}", amount(one.alone.seconds, "s"), amount(one.recompute.seconds, "s")) for tokens, one in beside.items()],
        title="The same, beside 16 sequences of 2,048 tokens",
    ),
    takeaway(
        "Recomputing is one prefill: a constant for the weights, a linear term for the products, a quadratic one for attention. Beside a "
        "batch the constant is gone."
    ),
)

# %% [markdown]
# ## Copy it out and back
#
# The other way keeps the work: copy the blocks to the host's memory, and back when blocks are free. What counts is bytes over the link,
# PCIe in most servers. The bytes are those of lesson 2.

# %%
curve = Curve(*costs.swap.curve)
ideal = 2 * costs.swap.bytes / curve.rate
predict(
    f"{TOKENS:,} tokens of Llama 3.1 8B are {amount(costs.swap.bytes, 'bytes')}. Large copies over this link reach "
    f"{curve.rate / 1e9:.1f} GB/s. How long do the bytes take, out and in together?",
    kind="s",
    answer=ideal,
    hints={ideal / 2: "Out, and in again."},
    why=f"Twice the bytes over the rate. Against {amount(costs.recompute.seconds, 's')} to compute them again that would settle it. But "
    f"the toolkit says **{amount(costs.swap.seconds, 's')}**, five times as long. Something is missing.",
)

# %% [markdown]
# Blocks are small, and scattered. Each block has, in each layer, a piece of keys and a piece of values, each in a tensor of its own. If an
# engine copies piece by piece, every piece is a **call**, and a call takes some microseconds, however little it moves.

# %%
a, R = quantity("a", "a", "s", "a call"), quantity("R", "R", "bytes/s", "rate of large copies")
n, D = (
    quantity("n_calls", "n_{calls}", "calls", "copies one way"),
    quantity("D", "D", "bytes", "cache of the sequence"),
)
pieces = SequenceCache((BlockGroup(Kind(b, 1.0), layers, 1.0, 2),))
swap = costs.swap
show(
    derived("Calls, one way", pieces.calls(cached), {cached: TOKENS, b: 16, layers: 32}, "calls", "vLLM's `swap_blocks`"),
    derived(
        "A swap, out and in",
        2 * Curve(a, R).seconds(D, n),
        {a: curve.call, R: curve.rate, D: swap.bytes, n: swap.calls},
        "s",
        "the linear model of a message, Hockney 1994; docs/preemption.md",
    ),
    say(
        f"The calls alone are {2 * swap.calls * curve.call / swap.seconds:.0%} of it. {curve.call * 1e6:.0f} µs a call and "
        f"{curve.rate / 1e9:.1f} GB/s are typical values with sources, not measured on this card, so the answer is an interval: "
        f"{amount(swap.low_s, 's')} to {amount(swap.high_s, 's')}."
    ),
)

# %%
sizes = [2**power for power in range(10, 27)]
by_block = {
    size: roofline.preempt(LLAMA, A100, tokens=TOKENS, block_size=size).comparison.swap for size in (8, 16, 32, 64, 128)
}
one_call = roofline.preempt(LLAMA, A100, tokens=TOKENS, coalesced=True).comparison.swap
show(
    figure(
        curves(
            "rate",
            "What copies reach, by the bytes of a call",
            ("bytes of a call", "B"),
            ("rate", "B/s"),
            {"one call after another": (sizes, [curve.attained(size) for size in sizes])},
            roles=("memory",),
            marks=(
                ("Llama 3.1 8B, blocks of 16", "x", swap.chunk_bytes),
                ("half of the rate", "x", curve.call * curve.rate),
            ),
            note="Half of the rate is reached where a call takes as long as its bytes.",
        )
    ),
    table(
        ("tokens in a block", "bytes of a call", "calls, one way", "out and in", "rate reached"),
        [
            (size, amount(one.chunk_bytes, "bytes"), one.calls, amount(one.seconds, "s"), f"{one.attained / 1e9:.1f} GB/s")
            for size, one in by_block.items()
        ],
        title=f"Swapping {TOKENS:,} tokens of Llama 3.1 8B, by the block",
        note=f"If blocks are gathered on the device first and cross in one call each way: {amount(one_call.seconds, 's')}. What gathering reads "
        "and writes in device memory is in it.",
    ),
    takeaway(
        "A swap is calls and bytes, twice. With small blocks calls decide: enlarge the block, or gather the blocks and copy once."
    ),
)

# %% [markdown]
# ## Which is cheaper
#
# First without calls and without attention. To compute a token again takes two FLOP for each parameter of the layers, at the share of
# the peak $P$ that a prompt reaches; its cache crosses the link twice. Put both equal and solve for the link: the tokens cancel.

# %%
even = roofline.explain(LLAMA, "break_even_link", A100, input_len=TOKENS)
predict(
    "Llama 3.1 8B has 8 KV heads for 32 query heads. Were there 32 KV heads, the link over which swapping is as cheap as recomputing "
    "would have to be",
    {
        "4 times as fast, nearly": "",
        "as fast as now": "The bytes of a token are four times as many.",
        "a quarter as fast": "More bytes need a faster link, not a slower one.",
        "16 times as fast": "Bytes go with KV heads, once.",
    },
    answer="4 times as fast, nearly",
    why=[
        formula(even, title="Break-even link: over a faster one swapping is cheaper"),
        say(
            "Bytes of a token stand above, parameters below. With 32 KV heads the bytes are four times as many; the projections of keys and "
            "values grow too, which is why it is nearly. The share of the peak is that of a prompt of 2,048 tokens, attention and the engine's "
            "time included."
        ),
    ],
)

# %%
draw(
    "recompute-or-swap",
    {"512": {"tokens": 512}, "8,192": {"tokens": 8192}, "32,768": {"tokens": 32768}},
    about="Tokens in the cache",
    hardware=A100,
)

# %%
H100, LONG = "h100-sxm", 16384
attentions = {
    "MHA, 32 KV heads": {"kv_heads": 32},
    "GQA, 8 KV heads": {},
    "MQA, 1 KV head": {"kv_heads": 1},
    "GQA, window of 4,096": {"window": 4096},
    "MLA, latent of 512 + 64": {"attention": "mla"},
}
rows = []
for name, changes in attentions.items():
    variant = edited(model, changes)
    whole, by_blocks = (
        roofline.preempt(variant, H100, tokens=LONG, coalesced=gathered, ignore_capacity=True).comparison
        for gathered in (True, False)
    )
    rows.append(
        (
            name,
            amount(whole.swap.bytes, "bytes").rpartition("= ")[2].rpartition("≈ ")[2],
            amount(whole.recompute.seconds, "s"),
            amount(whole.swap.seconds, "s"),
            f"{whole.break_even_link / 1e9:.1f} GB/s",
            f"{by_blocks.swap.calls:,}",
            amount(by_blocks.swap.seconds, "s"),
        )
    )
table(
    ("attention", "bytes", "recompute", "swap, one call", "break-even link", "calls by block", "swap, by block"),
    rows,
    title=f"Llama 3.1 8B with other attentions, {LONG:,} tokens, on an H100",
    note="The break-even link is that of one call each way, to be compared with some 51 GB/s of large copies over PCIe 5.0. Blocks have 16 tokens.",
)

# %% [markdown]
# Everything that makes the cache smaller makes swapping cheaper, one call each way. It hardly changes recomputing, with two exceptions. A
# window saves attention. A latent costs some: keys and values have to be expanded, the rotated part makes keys wider, and the estimate gives
# these kernels a smaller share of the peak. Calls are another matter: GQA has as many as MHA, only smaller ones, so that block by block
# most of what it saves is lost.
#
# A lecture says that evicted caches are often recomputed *because PCIe is slow*. When is that so?

# %%
of_links = {
    (name, link): roofline.preempt(name, H100, tokens=TOKENS, host_link=link, coalesced=True).comparison
    for name in ("llama-2-7b", LLAMA)
    for link in (5e9, 25e9, 50e9)
}
show(
    table(
        ("model, copies reach", "recompute", "swap", "cheaper", "break-even link"),
        [
            (
                f"{'Llama 2 7B (MHA)' if name != LLAMA else 'Llama 3.1 8B (GQA)'}, {link / 1e9:.0f} GB/s",
                amount(one.recompute.seconds, "s"),
                amount(one.swap.seconds, "s"),
                one.cheaper,
                f"{one.break_even_link / 1e9:.1f} GB/s",
            )
            for (name, link), one in of_links.items()
        ],
        title=f"{TOKENS:,} tokens on an H100, one call each way",
        note="5 GB/s stands for a link that several devices share, 25 GB/s for PCIe 4.0, 50 GB/s for PCIe 5.0. Llama 2 7B at 50 GB/s is a tie: the two differ by less than what the estimate is sure of.",
    ),
    published(
        "F37",
        "recomputing is cheaper below the break-even link, of "
        f"{of_links['llama-2-7b', 25e9].break_even_link / 1e9:.0f} GB/s with MHA and "
        f"{of_links[LLAMA, 25e9].break_even_link / 1e9:.0f} GB/s with GQA, and swapping above it",
        agrees=all((one.cheaper == "recompute") == (link < one.break_even_link) for (_, link), one in of_links.items())
        and {one.cheaper for one in of_links.values()} == {"recompute", "swap"},
    ),
)

# %% [markdown]
# Now with attention, and calls. A prompt of N tokens takes a constant, a linear and a quadratic term; a swap is linear alone. Both are
# equal at the roots of a quadratic equation, so there are none, one or two **crossover lengths**. Yarn-Llama-2-7B, with 32 KV heads and
# blocks of 16, has two.

# %%
yarn = roofline.preempt(YARN, A100_40, tokens=4096).comparison
numbers = np.array([point.tokens for point in yarn.curves], dtype=float)
times = np.array([point.recompute_s for point in yarn.curves])
terms = np.stack([np.ones_like(numbers), numbers, numbers**2], axis=1)
c, alpha, gamma = np.linalg.lstsq(terms / times[:, None], np.ones_like(times), rcond=None)[0]
sigma = yarn.swap.seconds / 4096
roots = quadratic(c=c, alpha=alpha, gamma=gamma, tau=0.0, sigma=sigma)
assert len(roots) == len(yarn.crossover_tokens) == 2
show(
    figure(
        curves(
            "crossover",
            "An evicted sequence of Yarn-Llama-2-7B-64k, A100 with 40 GB",
            ("tokens", "tokens"),
            ("seconds per token", "s"),
            {
                "recompute": (list(numbers), list(times / numbers)),
                "swap, blocks of 16": (list(numbers), [point.swap_s / point.tokens for point in yarn.curves]),
                "swap, one call": (list(numbers), [point.coalesced_s / point.tokens for point in yarn.curves]),
                "both at once": (list(numbers), [point.partial_s / point.tokens for point in yarn.curves]),
            },
            roles=("compute", "memory", "state", "mixed"),
            marks=[(f"{length:,} tokens", "x", length) for length in yarn.crossover_tokens],
            note="Divided by the tokens, to see them apart. Both at once: some blocks come back over the link while the device computes the "
            "others.",
        )
    ),
    table(
        ("term", "of recomputing", "of swapping"),
        [
            ("constant: a pass over the weights", amount(c, "s"), "0"),
            ("a token", f"{alpha * 1e6:.1f} µs", f"{sigma * 1e6:.1f} µs"),
            ("each 1,000 tokens that a token comes after", f"{2 * gamma * 1e9:.2f} µs", "0"),
        ],
        title="The three terms, fitted to the curve",
        note="Each token is slower to copy than to compute, so recomputing wins in between; outside, the constant or attention outweighs that.",
    ),
    say(
        f"The roots of the fitted equation are {roots[0]:,.0f} and {roots[1]:,.0f} tokens; of the times themselves, with their steps, "
        f"{yarn.crossover_tokens[0]:,} and {yarn.crossover_tokens[1]:,}. With blocks of {yarn.crossover_block_size} tokens or more, a "
        "sequence of 4,096 would be cheaper to swap."
    ),
    takeaway(
        "Swapping wins over a link that is faster than bytes of a token times FLOP/s over parameters; the longer the sequence, the sooner. "
        "Fewer KV heads, a latent or a window are for it; small blocks, slow or shared links and short sequences beside a batch are against it."
    ),
)

# %% [markdown]
# ## The poster's experiment
#
# A poster measured both ways in vLLM, with the model, card and scheduler above. Its numbers are lost, its statements are not. The
# simulator serves the same requests step by step and counts **overhead**: by how much steps take longer for tokens that were there before,
# or for how long they wait for copies. First one eviction: two prompts that fit, and overflow when their answers grow.

# %%
predict(
    "Blocks of 8, 16, 32, 64 or 128 tokens; one sequence of some 4,200 tokens is evicted. Whose overhead depends on the block?",
    {
        "that of recomputing and that of swapping": "A prompt is computed by tokens, whatever the blocks are that it will lie in.",
        "that of recomputing": "A prompt is computed by tokens, whatever the blocks are that it will lie in.",
        "that of swapping": "",
        "neither": "How many calls does a swap take?",
    },
    answer="that of swapping",
    why="Larger blocks are fewer calls for the same bytes. Recomputing knows no blocks. The rows F30 and F31 below count it.",
)


# %%
def overhead(found):
    """Seconds of a run that preemption takes."""
    return found.preemption["recompute_s"] + found.preemption["swap_s"]


def evicted(found):
    """Tokens that were computed again, or moved out."""
    return found.preemption["recomputed_tokens"] + found.preemption["swapped_tokens"]


def pair(mode, tokens, size=16, **options):
    """Two prompts of `tokens` tokens; one of them is evicted, once. The same tokens with blocks of any length."""
    spare = 128 * -(-tokens // (90 * 128))
    return simulated(mode, 2 * (tokens + spare) // size, size, 2, tokens, 2 * spare, **options)


def rising(values):
    """Whether they rise."""
    return list(values) == sorted(values)


PAIRS, BLOCKS = (512, 1024, 2048, 4096, 8192, 16384, 24000), (8, 16, 32, 64, 128)
once = {mode: [pair(mode, tokens) for tokens in PAIRS] for mode in MODES}
seconds = {mode: [overhead(one) for one in found] for mode, found in once.items()}
gone = [evicted(one) for one in once["swap"]]
ratios = [again / moved for again, moved in zip(*seconds.values(), strict=True)]
assert all(one.requests.preemptions == 1 for found in once.values() for one in found)
larger = overhead(pair("recompute", 4096, 32)) / overhead(pair("swap", 4096, 32))
show(
    table(
        ("tokens evicted", "recompute", "swap", "recompute/swap"),
        [
            (f"{tokens:,.0f}", amount(again, "s"), amount(moved, "s"), f"{ratio:.2f}")
            for tokens, again, moved, ratio in zip(gone, *seconds.values(), ratios, strict=True)
        ],
        title="One overflow, blocks of 16 tokens",
    ),
    published(
        "F28",
        f"from {gone[0]:,.0f} to {gone[-1]:,.0f} tokens both rise: to {amount(seconds['recompute'][-1], 's')} and "
        f"{amount(seconds['swap'][-1], 's')}",
        agrees=all(map(rising, (gone, *seconds.values()))),
    ),
    published(
        "F29",
        f"recompute/swap rises from {ratios[2]:.2f} at {gone[2]:,.0f} tokens to {ratios[-1]:.2f} at {gone[-1]:,.0f}; with blocks of 32 it is "
        f"{larger:.2f} at {gone[3]:,.0f} already",
        agrees=rising(ratios[2:]) and ratios[-2] < 1 < ratios[-1] and larger > 1,
    ),
)

# %%
kinds = {"recompute": ("recompute", True), "swap, pinned": ("swap", True), "swap, pageable": ("swap", False)}
by_size = {name: [overhead(pair(mode, 4096, size, pinned=pinned)) for size in BLOCKS] for name, (mode, pinned) in kinds.items()}
again, pinned, pageable = by_size.values()
gains = [slow / quick for slow, quick in zip(pageable, pinned, strict=True)]
each = [overhead(found) / evicted(found) for found in (simulated("recompute", blocks_of(12, size), size) for size in BLOCKS)]
show(
    figure(
        curves(
            "by-block",
            f"One overflow of {gone[3]:,.0f} tokens, by the block",
            ("tokens in a block", "tokens"),
            ("overhead", "s"),
            {name: (list(BLOCKS), found) for name, found in by_size.items()},
            roles=("compute", "memory", "state"),
            scales=("log", "linear"),
            low=0,
        )
    ),
    published(
        "F30",
        f"at equal tokens it is the same to {max(again) / min(again) - 1:.1%}; of the 32 requests above {min(each) * 1e6:.1f} to "
        f"{max(each) * 1e6:.1f} µs a token",
        agrees=max(again) < 1.05 * min(again) and max(each) < 1.05 * min(each),
    ),
    published(
        "F31",
        f"from 8 to 128 tokens it falls to {pinned[-1] / pinned[0]:.0%}; pageable over pinned rises from {gains[0]:.1f} to {gains[-1]:.1f}",
        agrees=rising(pinned[::-1]) and rising(pageable[::-1]) and rising(gains) and pinned[-1] < pinned[0] / 2,
    ),
)

# %% [markdown]
# Why does pinned memory help large blocks more? Copies from pageable memory go through a buffer, at the pace of a core of the host, on
# top of each byte. With small blocks the calls hide that; with large blocks it is most of the time.
#
# Now many at once: 16 sequences of growing length in 60 % of the memory, and the 32 requests with less or more of it.

# %%
LENGTHS, SHARES = (4096, 8192, 16384, 32768), (10, 20, 30, 40, 50, 60)
long = {
    mode: [overhead(simulated(mode, blocks_of(60), 16, 16, length // 2, length // 2)) for length in LENGTHS] for mode in MODES
}
long_ratios = [again / moved for again, moved in zip(*long.values(), strict=True)]
by_share = {mode: [overhead(simulated(mode, blocks_of(share))) for share in SHARES] for mode in MODES}


def ranks(values):
    """Places in order, from the least."""
    return np.argsort(np.argsort(values))


falls = {mode: float(np.corrcoef(ranks(SHARES), ranks(found))[0, 1]) for mode, found in by_share.items()}
dips = all(found[2] < min(found[1], found[3]) and found[4] == min(found) and found[3] < found[0] for found in by_share.values())
show(
    table(
        ("length of 16 sequences", "recompute", "swap", "recompute/swap"),
        [
            (f"{length:,}", amount(again, "s"), amount(moved, "s"), f"{ratio:.2f}")
            for length, again, moved, ratio in zip(LENGTHS, *long.values(), long_ratios, strict=True)
        ],
        title="By length, in 60 % of the memory",
    ),
    published(
        "F32",
        f"it rises for both; recompute/swap rises from {long_ratios[0]:.2f} to {long_ratios[-1]:.2f}, past 1 between 16,384 and 32,768 tokens",
        agrees=all(map(rising, (*long.values(), long_ratios))) and long_ratios[-2] < 1 < long_ratios[-1],
    ),
    table(
        ("memory for the cache", "whole requests that fit", "recompute", "swap"),
        [
            (f"{share} %", f"{GPU_TOKENS * share / 100 / (PROMPT + ANSWER):.1f}", amount(again, "s"), amount(moved, "s"))
            for share, again, moved in zip(SHARES, *by_share.values(), strict=True)
        ],
        title="By memory, 32 requests",
    ),
    published(
        "F33",
        f"rank correlation with the memory {falls['recompute']:.2f} and {falls['swap']:.2f}; dips at 30 % and at 50 %, where it is lowest; at 40 % it is "
        "more than at 30 %, so it does not fall at every step",
        agrees=max(falls.values()) <= -0.6 and dips,
    ),
)


# %%
def series(mode):
    """Share of the blocks in use, tokens per second, those of prompts, and where a request was preempted."""
    found = narrow[mode]
    named = {name: np.array(found.series[f"{name}_per_s"]) for name in ("output_tokens", "prompt_tokens", "preemptions")}
    blocks = np.array(found.series["blocks"]) / found.server["blocks"]
    return blocks, named["output_tokens"] + named["prompt_tokens"], named["prompt_tokens"], np.flatnonzero(named["preemptions"])


def dip(mode):
    """Whether use falls after each eviction."""
    blocks, _, _, evictions = series(mode)
    return all(blocks[max(at - 2, 0) : at + 1].max() > blocks[at + 1 : at + 3].min() + 0.02 for at in evictions)


def peaks(mode):
    """Whether tokens per second leap where prompts are computed, and nowhere else."""
    _, rate, prompts, _ = series(mode)
    return bool(np.all(prompts[rate > 2 * np.median(rate)] > 0)) and float(rate.max()) > 10 * float(np.median(rate))


computed = {mode: sum(one.series["prompt_tokens_per_s"]) * one.series["interval_s"] for mode, one in narrow.items()}
first = REQUESTS * PROMPT
back = narrow["recompute"].preemption["recomputed_tokens"] + narrow["recompute"].requests.preemptions
show(
    published(
        "F34",
        f"use dips at every eviction; tokens per second leap in steps with prompts alone. Of prompts {first:,} tokens wait to be computed: swap "
        f"computes {computed['swap']:,.0f}, recompute {computed['recompute']:,.0f}, those of resumed requests with them",
        agrees=all(dip(mode) and peaks(mode) for mode in MODES)
        and round(computed["swap"]) == first
        and round(computed["recompute"]) == first + back,
    ),
    takeaway(
        "What the poster says of directions holds in a simulation, but for a fall at every step of memory. Who wins is decided by the number "
        "of calls: ask for the block and the way of copying before you quote it."
    ),
)

# %% [markdown]
# ## Play and practise

# %%
play(
    "A number of sequences are evicted at once and come back together: the **batch**, each of as many tokens as **prompt** says. With measured "
    "efficiency recomputing is the estimate, without it the bound. A call takes 5 µs.",
    controls=("model", "batch", "input_len", "attention", "kv_heads", "kv", "link_gbs", "block", "hardware", "efficiency"),
    tiles=("recompute", "swap", "needed_link", "swap_bytes", "swap_calls", "kv_bytes_per_token"),
    formulas=("kv_bytes_per_token",),
    pictures=("evicted",),
    models=("llama-3.1-8b", "llama-2-7b", "llama-3.1-70b"),
    hardware=("a100-sxm-80gb", "h100-sxm", "h200-sxm", "l40s"),
    batch=1,
    input_len=2048,
    efficiency=True,
    tries=(
        "At which block do both cost the same? What does the break-even link say below it?",
        "Set the **batch** to 8, and sequences of 64 tokens. Which of the two gets cheaper a sequence, and why?",
        "Choose 32 **KV heads**, and copies that are gathered. Which link would be needed? Then take one KV head.",
        "Set the **link** to 6 GB/s, as if four devices shared one. From which length on is swapping the cheaper, if ever?",
    ),
)

# %%
pcie = roofline.preempt("llama-2-7b", "h100-sxm", tokens=4096, coalesced=True).comparison
shared = roofline.preempt("llama-2-7b", "h100-sxm", tokens=4096, coalesced=True, gpus_per_link=2).comparison
host = 2**38  # 256 GiB
show(
    worked(
        "half a link",
        "Llama 2 7B on an H100, sequences of 4,096 tokens, blocks gathered. Swapping takes "
        f"{amount(pcie.swap.seconds, 's')}, recomputing {amount(pcie.recompute.seconds, 's')}. Now two devices share the link and copy at the "
        "same time. What is cheaper then?",
        say(
            f"Each has half the rate, so the bytes take twice as long: about {amount(2 * pcie.swap.seconds, 's')}, and recomputing is the "
            f"cheaper. The toolkit says {amount(shared.swap.seconds, 's')}: what gathering takes on the device does not double. The break-even "
            f"link, {pcie.break_even_link / 1e9:.0f} GB/s for one device, is {shared.break_even_link / 1e9:.0f} GB/s for two."
        ),
    ),
    worked(
        "space on the host",
        "A host has 256 GiB for evicted sequences of Llama 3.1 70B of 8,192 tokens, in bf16. How many does it hold, and why does no engine "
        "swap without such a limit?",
        formula("kv_bytes_per_token", "llama-3.1-70b", title="KV cache of one more token, Llama 3.1 70B", legend=False),
        say(
            f"8,192 such tokens are {amount(8192 * roofline.explain('llama-3.1-70b', 'kv_bytes_per_token').value, 'bytes')}: "
            f"**{host // (8192 * roofline.explain('llama-3.1-70b', 'kv_bytes_per_token').value)} sequences**. Page-locked memory is taken from "
            "everything else on the host. What does not fit is recomputed; an engine that swaps needs both ways."
        ),
    ),
)

# %%
show(
    exercise("preemption-blocks", 1),
    exercise("preemption-fragmentation", 1),
    exercise("preemption-first-eviction", 1),
    exercise("preemption-recompute-time", 1),
    exercise("preemption-copy-calls", 1),
    exercise("preemption-break-even-link", 2),
)

# %% [markdown]
# **More**: `roofline preempt llama-3.1-8b --hardware a100-sxm-80gb --tokens 2048` answers all of this with intervals, and says what one
# change would do; `roofline simulate ... --preemption cheaper` chooses at each eviction. vLLM's newer scheduler (V1) recomputes, and finds
# part of the old blocks again if no request has taken them. Next: what all this makes users wait.
