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
# Caches grow with every token, and the length of an answer is not known in advance. So sooner or later the memory is full, and a sequence has
# to free its blocks. Later its keys and values are computed again (**recompute**), or copied back from the host (**swap**). What does each
# cost, and which is cheaper?

# %%
import numpy as np

import roofline
from roofline import formatting
from roofline.formulas.symbolic import quantity, symbol
from roofline.predict.allocation import Kind
from roofline.predict.explain.explanation import explanation
from roofline.serving.preemption.copies import Curve
from roofline.serving.preemption.costs import BlockGroup, SequenceCache
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
        "compute what it costs to recompute a preempted sequence, and to swap it",
        "derive the link at which both cost the same, and say how the kind of attention moves it",
        "check published statements on preemption",
    ],
    prerequisites=[
        "lesson 2: the cache per token; lesson 3: the time of a prompt; lesson 7: the scheduler",
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
    exercises=["preemption-fragmentation", "preemption-first-eviction", "preemption-swap-time", "preemption-break-even-link"],
)


# %%
def derived(title, expr, values, unit, source):
    """A formula of the toolkit's, which a function of it gave for symbols."""
    return formula(explanation("lesson", expr, values, unit=unit, source=source), title=title)


# %% [markdown]
# ## Memory in blocks
#
# Before paging, an engine gave each sequence one piece of memory, as long as the longest sequence allowed. Most sequences are far shorter, and
# the rest of their pieces held nothing.
#
# **PagedAttention** (Kwon et al., 2023) works as operating systems do. Memory is cut into **blocks** of a few tokens. A sequence gets one more when
# its last is full, and a table says where its blocks are.

# %%
ALLOWED = 8192
rng = np.random.default_rng(0)
spread = np.sqrt(np.log1p((900 / 1366) ** 2))
lengths = np.clip(rng.lognormal(np.log(1366) - spread**2 / 2, spread, 2000), 16, ALLOWED).astype(int)
used = int(lengths.sum())
predict(
    f"An engine reserves {ALLOWED:,} tokens for every sequence. The sequences have {lengths.mean():,.0f} tokens on average. What share of the "
    "reserved memory holds a token?",
    kind="share",
    answer=used / (len(lengths) * ALLOWED),
    hints={1 - used / (len(lengths) * ALLOWED): "That is the share that holds nothing."},
    why=f"The mean over what is reserved. {ALLOWED / lengths.mean():.0f} times as many sequences would fit if each had only what it needs.",
)

# %%
b, cached, layers = quantity("b", "b", "tokens", "tokens in a block"), symbol("S_c"), symbol("L")
SIZE = 16
paged = int(Kind(SIZE, 1.0).blocks(lengths, 0).sum()) * SIZE / len(lengths)
capacity = roofline.explain(LLAMA, "max_context", A100).value

# %%
draw("paged-blocks", {"two sequences": {}, "with a shared prefix": {"shared": True}}, about="Blocks")

# %% [markdown]
# Only a sequence's last block has empty places, half a block on average: **internal fragmentation**.

# %%
show(
    say(
        f"Beside the weights of Llama 3.1 8B an A100 with 80 GB has memory for {int(capacity / ALLOWED)} pieces of {ALLOWED:,} tokens, or for "
        f"**{int(capacity / paged)}** of these sequences in blocks of {SIZE}. Why not blocks of one token? Because a block is also what is copied."
    ),
    takeaway(
        "Paging hands out memory a block at a time, when it is needed. Lost is half a block per sequence, so several times more sequences fit."
    ),
)

# %% [markdown]
# ## A request has to go
#
# The scheduler admits a request when its *prompt* fits. Then its answer grows. Take
# Yarn-Llama-2-7B-64k on an A100 with 40 GB, 12 % of it for caches: 614 blocks of 16 tokens. 32 requests come at once, each with a prompt of
# 1,500 tokens and an answer of 1,024.

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
    f"A prompt takes {of_prompt} blocks, a whole request {of_all}. So {let_in} requests start (1 % of the blocks stay free), and each needs a new "
    "block every 16 steps. What happens when no block is free?",
    {
        "the server waits until one of them is done": "No request can go on without a block, so none will be done.",
        "the request that came last gives up all of its blocks": "",
        "each gives up one block": "Attention needs all earlier tokens: a sequence with a hole cannot go on.",
    },
    answer="the request that came last gives up all of its blocks",
    why=f"{let_in} whole requests would take {let_in * of_all} blocks. The one that came last is **preempted** (evicted): its "
    "blocks become free, and it waits until it fits again. A sequence needs all of its cache or none, so all blocks go at once.",
)

# %%
until = 30.0


def over_time(mode):
    """Middle of each interval, and the share of the blocks that are in use, until some time."""
    series = narrow[mode].series
    width = series["interval_s"]
    times = [width * (at + 0.5) for at in range(len(series["blocks"]))]
    count = sum(time < until for time in times)
    return times[:count], [taken / blocks_of(12) for taken in series["blocks"]][:count]


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
            note="Use climbs until all 614 blocks are taken, and falls when a request is evicted or ends.",
        )
    ),
    takeaway(
        "Admitting requests by their prompts fills the memory, and sometimes overfills it. Then the last one loses its whole cache."
    ),
)

# %% [markdown]
# ## Compute it again

# %%
TOKENS = 2048
costs = roofline.preempt(LLAMA, A100, tokens=TOKENS).comparison
step = roofline.analyze(LLAMA, A100, context=TOKENS - 1, phase="decode").decode.pipeline.estimate
predict(
    f"A sequence of Llama 3.1 8B on an A100 is evicted with a prompt of 1,500 tokens and 548 tokens of answer. To compute the cache of all {TOKENS:,} "
    "tokens again takes",
    {
        "the prompt, and 548 decode steps": "That is how they were made. But now all of them are known.",
        "one prefill of 2,048 tokens": "",
        "548 decode steps": "The prompt's keys and values are gone as well.",
    },
    answer="one prefill of 2,048 tokens",
    why=f"Known tokens go through the model together: {costs.recompute.seconds * 1e3:.0f} ms by estimate. The 548 steps had taken {548 * step:.1f} s.",
)

# %% [markdown]
# Three terms are in the time of a prefill. A **constant**: the weights are read once, however short the sequence. A **linear** term: each
# token is multiplied by every weight. A **quadratic** one: each token attends to all before it.

# %%
SHORT = 64
shared_step = roofline.preempt(LLAMA, A100, tokens=SHORT, batch=16, context=2048).comparison
show(
    say(
        f"The constant disappears when the prompt shares a step with sequences that decode (chunked prefill, lesson 7): they read the weights anyway. "
        f"{SHORT} tokens take {shared_step.alone.seconds * 1e3:.0f} ms alone, and add {shared_step.recompute.seconds * 1e3:.1f} ms to a step of 16 others."
    ),
    takeaway("Recomputing is one prefill, and can share a step with sequences that decode."),
)

# %% [markdown]
# ## Copy it out and back
#
# The other way keeps the work: copy the blocks to the host's memory, and back when blocks are free. What counts is bytes over the link, PCIe in
# most servers.

# %%
curve = Curve(*costs.swap.curve)
ideal = 2 * costs.swap.bytes / curve.rate
predict(
    f"{TOKENS:,} tokens of Llama 3.1 8B are {amount(costs.swap.bytes, 'bytes')}. Large copies over this link reach "
    f"{curve.rate / 1e9:.1f} GB/s. How long do the bytes take, out and in together?",
    kind="s",
    answer=ideal,
    hints={ideal / 2: "Out, and in again."},
    why=f"Twice the bytes over the rate. But the toolkit says **{costs.swap.seconds * 1e3:.0f} ms**, five times as long. Something is missing.",
)

# %% [markdown]
# Blocks are small, and scattered. Each has, in each layer, a piece of keys and a piece of values. If an engine copies piece by piece, every piece is a
# **call**, and a call takes some microseconds, however little it moves.

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
        f"The calls alone are {formatting.percent(2 * swap.calls * curve.call / swap.seconds, 0)} of it. (Time per call and rate are typical values, not "
        f"measured on this card: {swap.low_s * 1e3:.0f} to {swap.high_s * 1e3:.0f} ms.)"
    ),
)

# %%
sizes = [2**power for power in range(10, 27)]
wide = roofline.preempt(LLAMA, A100, tokens=TOKENS, block_size=128).comparison.swap
one_call = roofline.preempt(LLAMA, A100, tokens=TOKENS, coalesced=True).comparison.swap
show(
    figure(
        curves(
            "rate",
            "Rate of copies, by bytes per call",
            ("bytes per call", "B"),
            ("rate", "B/s"),
            {"one call after another": (sizes, [curve.attained(size) for size in sizes])},
            roles=("memory",),
            marks=(
                ("Llama 3.1 8B, blocks of 16", "x", swap.chunk_bytes),
                ("call as long as its bytes: half the rate", "x", curve.call * curve.rate),
            ),
        )
    ),
    say(
        f"In blocks of 128 the swap takes {wide.seconds * 1e3:.0f} ms. If blocks are gathered on the device first and cross in **one call** each way, it "
        f"takes {one_call.seconds * 1e3:.0f} ms, gathering included."
    ),
    takeaway(
        "A swap is calls and bytes, twice. With small blocks calls decide: enlarge the block, or gather the blocks and copy once."
    ),
)

# %% [markdown]
# ## Which is cheaper
#
# First without calls and without attention. To compute a token again takes two FLOP for each parameter of the layers, at the share of the peak $P$
# that a prompt reaches. To swap it, its cache crosses the link twice. Put both equal and solve for the link: the tokens cancel.

# %%
even = roofline.explain(LLAMA, "break_even_link", A100, input_len=TOKENS)
predict(
    "Llama 3.1 8B has 8 KV heads for 32 query heads. With 32 KV heads, the link from which on swapping is cheaper would have to be",
    {
        "4 times as fast, nearly": "",
        "as fast as now": "The bytes per token are four times as many.",
        "a quarter as fast": "More bytes need a faster link, not a slower one.",
        "16 times as fast": "Bytes go with KV heads, once.",
    },
    answer="4 times as fast, nearly",
    why=[
        formula(even, title="Break-even link: over a faster one swapping is cheaper"),
        "The bytes per token stand above, parameters below. Nearly, because the projections of keys and values grow too.",
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
            amount(by_blocks.swap.seconds, "s"),
        )
    )
table(
    ("attention", "bytes", "recompute", "swap, one call", "break-even link", "swap, blocks of 16"),
    rows,
    title=f"Llama 3.1 8B with other attentions, {LONG:,} tokens, on an H100",
    note="Large copies over PCIe 5.0 reach some 51 GB/s, more than the break-even link of one call.",
)

# %% [markdown]
# A smaller cache makes swapping cheaper and hardly changes recomputing. But GQA has as many *calls* as MHA, only smaller ones: block by block, most of
# what it saves is lost.
#
# A lecture says that evicted caches are often recomputed *because PCIe is slow*. When is that so?

# %%
of_links = {
    (name, link): roofline.preempt(name, H100, tokens=TOKENS, host_link=link, coalesced=True).comparison
    for name in ("llama-2-7b", LLAMA)
    for link in (5e9, 25e9, 50e9)
}
published(
    "F37",
    f"cheaper below the break-even link: {of_links['llama-2-7b', 25e9].break_even_link / 1e9:.0f} GB/s for Llama 2 7B (MHA), "
    f"{of_links[LLAMA, 25e9].break_even_link / 1e9:.0f} GB/s for Llama 3.1 8B (GQA), {TOKENS:,} tokens on an H100, one call",
    agrees=all((one.cheaper == "recompute") == (link < one.break_even_link) for (_, link), one in of_links.items())
    and {one.cheaper for one in of_links.values()} == {"recompute", "swap"},
)

# %% [markdown]
# Now with attention, and calls. Recomputing has a constant, a linear and a quadratic term; a swap is linear. So there are none, one or two
# **crossover lengths**. Yarn-Llama-2-7B, with 32 KV heads and blocks of 16, has two.

# %%
yarn = roofline.preempt(YARN, A100_40, tokens=4096).comparison
numbers = np.array([point.tokens for point in yarn.curves], dtype=float)
times = np.array([point.recompute_s for point in yarn.curves])
assert len(yarn.crossover_tokens) == 2
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
            note="Both at once: some blocks come back over the link while the device computes the others.",
        )
    ),
    say(
        f"Against blocks of 16 recomputing wins from {yarn.crossover_tokens[0]:,} to {yarn.crossover_tokens[1]:,} tokens: computing a token is faster "
        "than copying it. For shorter sequences the constant outweighs that, for longer ones attention."
    ),
    takeaway(
        "Swapping wins over a link faster than bytes per token times FLOP/s over parameters. Long sequences and small caches are for it; small "
        "blocks and slow or shared links are against it."
    ),
)

# %% [markdown]
# ## The poster's experiment
#
# A poster measured both ways in vLLM, with the model, card and scheduler above. Its numbers are lost, its statements are not. The simulator
# serves the same requests and counts **overhead**: longer steps and waits because of evicted tokens.

# %%
predict(
    "One sequence of some 4,200 tokens is evicted, with blocks of 8 up to 128 tokens. Whose overhead depends on the block?",
    {
        "that of recomputing and that of swapping": "A prompt is computed by tokens, whatever blocks it will lie in.",
        "that of recomputing": "A prompt is computed by tokens, whatever blocks it will lie in.",
        "that of swapping": "",
        "neither": "How many calls does a swap take?",
    },
    answer="that of swapping",
    why="Larger blocks are fewer calls for the same bytes. Recomputing knows no blocks.",
)


# %%
def overhead(run):
    """Seconds of a run that preemption takes."""
    return run.preemption["recompute_s"] + run.preemption["swap_s"]


def evicted(run):
    """Tokens that were computed again, or moved out."""
    return run.preemption["recomputed_tokens"] + run.preemption["swapped_tokens"]


def pair(mode, tokens, size=16, **options):
    """Two prompts of `tokens` tokens; one of them is evicted, once. The same tokens with blocks of any length."""
    spare = 128 * -(-tokens // (90 * 128))
    return simulated(mode, 2 * (tokens + spare) // size, size, 2, tokens, 2 * spare, **options)


def rising(values):
    """Whether they rise."""
    return list(values) == sorted(values)


PAIRS, BLOCKS = (512, 1024, 2048, 4096, 8192, 16384, 24000), (8, 16, 32, 64, 128)
once = {mode: [pair(mode, tokens) for tokens in PAIRS] for mode in MODES}
seconds = {mode: [overhead(one) for one in listed] for mode, listed in once.items()}
gone = [evicted(one) for one in once["swap"]]
ratios = [again / moved for again, moved in zip(*seconds.values(), strict=True)]
assert all(one.requests.preemptions == 1 for listed in once.values() for one in listed)
larger = overhead(pair("recompute", 4096, 32)) / overhead(pair("swap", 4096, 32))
show(
    published(
        "F28",
        f"up to {gone[-1]:,.0f} tokens both rise, to {seconds['recompute'][-1]:.1f} s and {seconds['swap'][-1]:.1f} s",
        agrees=all(map(rising, (gone, *seconds.values()))),
    ),
    published(
        "F29",
        f"recompute/swap rises from {ratios[2]:.2f} at {gone[2]:,.0f} tokens to {ratios[-1]:.2f} at {gone[-1]:,.0f}",
        agrees=rising(ratios[2:]) and ratios[-2] < 1 < ratios[-1] and larger > 1,
    ),
)

# %%
kinds = {"recompute": ("recompute", True), "swap, pinned": ("swap", True), "swap, pageable": ("swap", False)}
by_size = {name: [overhead(pair(mode, 4096, size, pinned=pinned)) for size in BLOCKS] for name, (mode, pinned) in kinds.items()}
again, pinned, pageable = by_size.values()
gains = [slow / quick for slow, quick in zip(pageable, pinned, strict=True)]
each = [overhead(run) / evicted(run) for run in (simulated("recompute", blocks_of(12, size), size) for size in BLOCKS)]
show(
    figure(
        curves(
            "by-block",
            f"One overflow of {gone[3]:,.0f} tokens, by the block",
            ("tokens in a block", "tokens"),
            ("overhead", "s"),
            {name: (list(BLOCKS), taken) for name, taken in by_size.items()},
            roles=("compute", "memory", "state"),
            scales=("log", "linear"),
            low=0,
        )
    ),
    published(
        "F30",
        f"the same to {formatting.percent(max(again) / min(again) - 1, 1)} at equal tokens",
        agrees=max(again) < 1.05 * min(again) and max(each) < 1.05 * min(each),
    ),
    published(
        "F31",
        f"from 8 to 128 tokens it falls to {formatting.percent(pinned[-1] / pinned[0], 0)}; pageable over pinned rises from {gains[0]:.1f} to {gains[-1]:.1f}",
        agrees=rising(pinned[::-1]) and rising(pageable[::-1]) and rising(gains) and pinned[-1] < pinned[0] / 2,
    ),
)

# %% [markdown]
# Pinned memory helps large blocks more: copies from pageable memory cost extra per byte. With small blocks the calls hide that.
#
# Now more requests: 16 sequences of growing length, and the 32 requests with less or more memory.

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


falls = {mode: float(np.corrcoef(ranks(SHARES), ranks(taken))[0, 1]) for mode, taken in by_share.items()}
dips = all(taken[2] < min(taken[1], taken[3]) and taken[4] == min(taken) and taken[3] < taken[0] for taken in by_share.values())
show(
    published(
        "F32",
        f"both rise; recompute/swap rises from {long_ratios[0]:.2f} at {LENGTHS[0]:,} tokens to {long_ratios[-1]:.2f} at {LENGTHS[-1]:,}",
        agrees=all(map(rising, (*long.values(), long_ratios))) and long_ratios[-2] < 1 < long_ratios[-1],
    ),
    figure(
        curves(
            "by-memory",
            "Overhead by memory, 32 requests",
            ("memory for caches, %", ""),
            ("overhead", "s"),
            {mode: (list(SHARES), taken) for mode, taken in by_share.items()},
            roles=("compute", "memory"),
            scales=("linear", "linear"),
            low=0,
        )
    ),
    published(
        "F33",
        "it falls, but not at every step; dips at 30 % and at 50 %, where it is lowest",
        agrees=max(falls.values()) <= -0.6 and dips,
    ),
)


# %%
def series(mode):
    """Share of the blocks in use, tokens per second, those of prompts, and where a request was preempted."""
    run = narrow[mode]
    rates = {name: np.array(run.series[f"{name}_per_s"]) for name in ("output_tokens", "prompt_tokens", "preemptions")}
    blocks = np.array(run.series["blocks"]) / run.server["blocks"]
    return blocks, rates["output_tokens"] + rates["prompt_tokens"], rates["prompt_tokens"], np.flatnonzero(rates["preemptions"])


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
        f"use dips at every eviction, rates leap where prompts are computed: {computed['swap']:,.0f} tokens of them with swap, "
        f"{computed['recompute']:,.0f} with recompute",
        agrees=all(dip(mode) and peaks(mode) for mode in MODES)
        and round(computed["swap"]) == first
        and round(computed["recompute"]) == first + back,
    ),
    takeaway(
        "The poster's directions hold in a simulation. The number of calls decides who wins: ask for the block and the way of copying "
        "before you quote it."
    ),
)

# %% [markdown]
# ## Play and practise

# %%
play(
    "The **batch** is evicted at once and comes back together, each sequence as long as **prompt** says. A call takes 5 µs.",
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
        "At which block do both cost the same?",
        "Choose 32 **KV heads**, and copies that are gathered. Which link would be needed? Then take one KV head.",
    ),
)

# %%
pcie = roofline.preempt("llama-2-7b", "h100-sxm", tokens=4096, coalesced=True).comparison
shared = roofline.preempt("llama-2-7b", "h100-sxm", tokens=4096, coalesced=True, host_link=pcie.swap.link / 2).comparison
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
            f"link, {pcie.break_even_link / 1e9:.0f} GB/s for one device, is {2 * pcie.break_even_link / 1e9:.0f} GB/s for two."
        ),
    ),
    worked(
        "space on the host",
        "A host has 256 GiB for evicted sequences of Llama 3.1 70B of 8,192 tokens, in bf16. How many does it hold?",
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
    exercise("preemption-fragmentation", 1),
    exercise("preemption-first-eviction", 1),
    exercise("preemption-swap-time", 1),
    exercise("preemption-break-even-link", 2),
)

# %% [markdown]
# **More**: `roofline preempt llama-3.1-8b --hardware a100-sxm-80gb --tokens 2048` answers all of this with intervals. vLLM's newer scheduler (V1) always recomputes. Next: fewer bits per
# weight and per cache element.
