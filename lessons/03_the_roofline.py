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
# # 3. The roofline
#
# A device does two things at once: it computes, and it moves data between its memory and its arithmetic units. Every operator
# needs both, and one of the two takes longer. This lesson tells which one, from two numbers: what an operator computes for each
# byte that it moves, and what the device can compute in the time in which it moves a byte. Then it says what such an argument
# is worth, and what it leaves out.

# %%
import numpy as np

import roofline
from roofline.formulas.closed_forms import intensity, limit_context, limit_tokens
from roofline.formulas.symbolic import symbol
from roofline.operators.attention import Attention
from roofline.operators.gemm import Gemm
from roofline.operators.norm import Norm
from roofline.predict.explain.explanation import explanation
from roofline.report.analysis.step_figures import roofline_figure
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
from roofline.teach.lessons.live.run import evaluate

LLAMA, A100 = "llama-3.1-8b", "a100-sxm-80gb"
card = roofline.load_hardware(A100)
peak, bandwidth, vector_peak = card.peak("bf16"), card.bandwidth, card.vector_peak
ridge = peak / bandwidth

lesson(
    3,
    "The roofline",
    "What an operator computes for each byte that it moves, and what follows for its time.",
    goals=[
        "compute the arithmetic intensity of linear layers, attention and norms, in prefill and in decode",
        "compute a device's ridge point from its datasheet, and avoid the sparse peak",
        "say of an operator whether it is bound by compute or by memory, and give a lower bound of its time",
        "say what a bound assumes, and why a measured time is longer",
    ],
    prerequisites=[
        "lesson 1: FLOP and bytes of a step; prefill and decode",
        "lesson 2: the KV cache, query heads and KV heads",
    ],
    plan=[
        (8, "Two clocks"),
        (10, "Linear layers"),
        (11, "Attention"),
        (5, "Norms"),
        (9, "What a bound is worth"),
        (7, "Play and practise"),
    ],
    exercises=[
        "roofline-ridge-point",
        "roofline-gemm-intensity",
        "roofline-which-side",
        "roofline-layer-time",
        "roofline-is-it-possible",
    ],
)

# %%
# What the formulas below are put together from: the toolkit's operators with symbols instead of numbers.
NUMBERS = {"T": 1000, "B": 1, "S_q": 1000, "S_c": 4095, "d_model": 4096, "d_ff": 14336, "n_q": 32, "n_kv": 8, "d_head": 128}
T, B, S_q, S_c, d_model, d_ff, n_q, n_kv, d_head = (symbol(name) for name in NUMBERS)


def shown(expression, title, source, legend=True, **numbers):
    """An intensity in symbols, with the numbers of Llama 3.1 8B unless others are given."""
    values = {symbol(name): number for name, number in {**NUMBERS, **numbers}.items()}
    found = explanation("intensity", expression, values, unit="FLOP/byte", source=source)
    return formula(found, title=title, legend=legend)


# %% [markdown]
# ## Two clocks
#
# An operator does F FLOP and moves D bytes. The device computes at most $P$ FLOP/s, its **peak**, and its memory delivers at
# most $\beta$ bytes/s, its **bandwidth**. Computing takes at least F over $P$, moving at least D over $\beta$. If the two
# overlap perfectly, the operator takes as long as the longer one.
#
# Which one is longer? Divide what is done by what is moved: the **arithmetic intensity** $I$ of the operator, in FLOP/byte. And
# divide the two rates: the **ridge point** of the device, in FLOP/byte too. An operator above the ridge point is *bound by
# compute*, one below it
# *bound by memory*.

# %%
predict(
    "An A100 multiplies bf16 matrices at 312 TFLOP/s at most, and its memory delivers 2039 GB/s. How many FLOP for each byte "
    "must an operator do "
    "before computing takes longer than moving?",
    kind="flop/byte",
    answer=ridge,
    tolerance=0.03,
    hints={
        2
        * ridge: "The datasheet's 624 TFLOP/s are with 2:4 sparsity: half of the weights are zero and skipped. Ours are dense.",
        1 / ridge: "That is bytes for each FLOP. Turn it over.",
        vector_peak
        / bandwidth: "19.5 TFLOP/s is the peak outside the matrix units. Products of matrices run on the matrix units.",
        peak / 2**40 / 2.039: "Rates are decimal: 1 GB/s is 10^9 bytes per second.",
    },
    why=formula("ridge_point", LLAMA, A100, title="The ridge point of an A100 with 80 GB, in bf16"),
)

# %%
show(
    published("F08", ridge),
    say(
        "**156 or 153?** The lecture rounds the bandwidth to 2 TB/s before it divides. The datasheet says 2039 GB/s. The "
        "difference is 2 %, and "
        "no conclusion below depends on it; but write down which bandwidth you took."
    ),
)

# %%
draw(
    "gpu-memory",
    {"A100": {"hardware": A100}, "H100": {"hardware": "h100-sxm"}, "L40S": {"hardware": "l40s"}},
    about="Accelerator",
)

# %%
known = {
    "A100 SXM 80GB, bf16": (A100, "bf16"),
    "H100 SXM, bf16": ("h100-sxm", "bf16"),
    "H100 SXM, fp8": ("h100-sxm", "fp8"),
    "H200 SXM, bf16": ("h200-sxm", "bf16"),
    "H20, bf16": ("h20", "bf16"),
    "MI300X, bf16": ("mi300x", "bf16"),
    "L40S, bf16": ("l40s", "bf16"),
}
rates = {
    title: (roofline.load_hardware(name).peak(dtype), roofline.load_hardware(name).bandwidth)
    for title, (name, dtype) in known.items()
}
table(
    ("device and format", "dense peak", "bandwidth", "ridge, FLOP/byte"),
    [(title, amount(p, "FLOP/s"), amount(b, "bytes/s"), f"{p / b:.0f}") for title, (p, b) in rates.items()],
    title="Ridge points, from datasheets",
    note="A ridge point belongs to a device *and* a format. The H200 is an H100 with a faster memory, so its ridge is lower.",
)

# %%
grid = [2.0**power for power in range(-2, 13)]
spots = sorted({*grid, ridge})
show(
    figure(
        curves(
            "roof",
            "The roof of an A100: what an operator can reach",
            ("arithmetic intensity", "FLOP/byte"),
            ("rate, at most", "FLOP/s"),
            {"bf16, dense": (spots, [min(peak, bandwidth * spot) for spot in spots])},
            roles=("roof",),
            marks=(("ridge point: 153", "x", ridge),),
            note="Left of the ridge point the rate is bandwidth times intensity; right of it, the peak. Both axes are logarithmic. The shape "
            "gives the method its name (Williams, Waterman and Patterson, 2009).",
        )
    ),
    takeaway(
        "Intensity, FLOP per byte, is a property of the operator; the ridge point, peak over bandwidth, one of the device "
        "and the "
        "format. Below the ridge an operator waits for memory; above it, for arithmetic."
    ),
)

# %% [markdown]
# ## Linear layers
#
# A projection, an MLP matrix, the LM head: $T$ tokens, each a vector, are multiplied by one matrix of weights. In prefill of
# one prompt $T$ is the length of the prompt, in decode of one sequence it is 1. Each weight is 2 bytes (bf16) and does 2 FLOP,
# a multiplication and an addition, for each token.

# %%
up = Gemm(m=T, n=d_ff, k=d_model)
weights_alone = intensity(up, "matrix", ["weight"])
predict(
    "A prompt of 1000 tokens passes a matrix of 4096 x 14,336 bf16 weights. Count the traffic of the weights alone. What is the intensity?",
    kind="flop/byte",
    answer=1000.0,
    tolerance=0.01,
    hints={
        2000.0: "2 FLOP a weight and token, but also 2 bytes a weight.",
        1.0: "That is with one token. The weights are read once for all 1000.",
        500.0: "A multiplication with its addition is 2 FLOP.",
    },
    why=[
        say(
            "Each weight of 2 bytes does 2 FLOP for each of 1000 tokens: **1000 FLOP/byte**. The shape of the matrix "
            "cancels, and so do the "
            "two twos. With other formats they do not: with 1 byte a weight it would be 2000."
        ),
        shown(weights_alone, "Intensity of a linear layer, weight traffic alone, at 2 bytes a weight", "2 m n k over 2 n k"),
    ],
)


# %%
def linear(phase, **options):
    """The linear operators of a step: their costs and times."""
    found = roofline.analyze(LLAMA, A100, phase=phase, ignore_capacity=True, **options)
    return [op for op in getattr(found, phase).operators if op.kind == "gemm"]


lengths = (1, 100, 1000, 4096)
prompts = {length: linear("prefill", input_len=length, logits="all") for length in lengths}
one = linear("decode", context=1000)
by_weights = [op.cost.matrix_flops / op.cost.weight_bytes for op in one]
assert len(set(by_weights)) == 1
show(
    published(
        "F09",
        "p FLOP/byte of weights in each linear operator, for prompts of 1, 100, 1000 and 4096 tokens",
        agrees=all(op.cost.matrix_flops == length * op.cost.weight_bytes for length, ops in prompts.items() for op in ops),
    ),
    published("F10", by_weights[0]),
)

# %% [markdown]
# That is the lecture's table, and it leaves something out: the inputs are read and the outputs written as well. For one token
# they are nothing beside the matrix. For a long prompt they are as large as the matrix, and more.

# %%
whole = intensity(up)
ceiling = limit_tokens(whole)
show(
    shown(whole, "Intensity with inputs and outputs counted, 1000 tokens", "the same FLOP over weights, inputs and outputs"),
    shown(ceiling, "What it tends to for more and more tokens", "limit of the formula above", legend=False),
)

# %%
tokens = [2**power for power in range(14)]
shapes = {
    "4096 x 14,336 (MLP, up)": (14336, 4096),
    "4096 x 1024 (keys)": (1024, 4096),
}
show(
    figure(
        curves(
            "linear",
            "Intensity of a linear layer",
            ("tokens in the step", "tokens"),
            ("intensity", "FLOP/byte"),
            {
                "weights alone": (tokens, tokens),
                **{
                    name: (tokens, [Gemm(m=m, n=n, k=k).cost().arithmetic_intensity for m in tokens])
                    for name, (n, k) in shapes.items()
                },
            },
            roles=("bound", "activations", "decode"),
            marks=(("ridge of the A100", "y", ridge),),
            note="Up to some hundred tokens the lines are one. Then inputs and outputs weigh, the sooner the narrower the matrix.",
        )
    ),
    say(
        'So "about p" is good while p is small beside the widths of the matrix. For p = 1000 and the matrix above it is '
        f"{Gemm(m=1000, n=14336, k=4096).cost().arithmetic_intensity:.0f}. The conclusion stands: it is far beyond the "
        "ridge, so prefill of a "
        "prompt of 1000 tokens is bound by compute in its linear layers. It takes some hundred tokens to get there: "
        "a short prompt is bound by memory, just like decode."
    ),
)

# %%
used = sum(op.times.matrix for op in one) / sum(op.time.bound for op in one)
show(
    predict(
        "At decode with one sequence a linear layer has an intensity of 1. Which share of its 312 TFLOP/s can the A100 reach in it, at most?",
        {
            "all of it: the matrix units do nothing else": "They wait. In the time of 1 byte the device could do 153 FLOP, and it has 1 to do.",
            "about 10 %": "",
            "below 1 %": "",
        },
        answer="below 1 %",
        why=[
            "The bandwidth times 1 FLOP/byte is 2.04 TFLOP/s of 312: one over the ridge point.",
            published("F18", used),
        ],
    ),
    takeaway(
        "A linear layer in bf16 has an intensity of about its number of tokens, while that is small beside the matrix. One "
        "token: bound by memory, "
        "below 1 % of the peak. A prompt of 1000: bound by compute."
    ),
)

# %% [markdown]
# ## Attention
#
# Attention has no weights. What it moves are queries in, outputs out, and the keys and values. What it computes is, for each
# pair of a query and a key that it may see, a score and a weighted value, in each of $n_q$ query heads. The keys and values of
# a head are read once for all query heads that share it.
#
# We assume a kernel like FlashAttention, which never writes the scores to memory.

# %%
core = Attention(batch=B, new=1, cached=S_c, n_heads=n_q, n_kv_heads=n_kv, head_dim=d_head)
decode_attention = intensity(core, "matrix", ["kv_read"])
predict(
    "Decode: one new token attends to 4096 cached ones. Llama 3.1 8B has 32 query heads and 8 KV heads, everything in bf16. "
    "Count the cache alone. What "
    "is the intensity of attention?",
    kind="flop/byte",
    answer=4.0,
    tolerance=0.01,
    hints={
        1.0: "That would be with as many KV heads as query heads. Here 4 query heads share what is read once.",
        4096.0: "More tokens are more work, and as many more bytes.",
        2.0: "A multiplication with its addition is 2 FLOP.",
        8.0: "An element is 2 bytes.",
        0.25: "Four query heads use what is read for one KV head: the other way round.",
    },
    why=[
        "Each element of K and V, 2 bytes, does 2 FLOP in each of the 4 query heads that share it.",
        shown(decode_attention, "Intensity of attention at decode, cache traffic alone", "FLOP of all pairs over K and V"),
    ],
)


# %%
def attention(model, phase, **options):
    """The cost of attention itself, all layers."""
    found = roofline.analyze(model, A100, phase=phase, ignore_capacity=True, **options)
    return next(op.cost for op in getattr(found, phase).operators if op.path.endswith("attention/core"))


gqa, mha = (attention(name, "decode", context=4095) for name in (LLAMA, "llama-2-7b"))
show(
    published("F14", gqa.matrix_flops / gqa.kv_read_bytes),
    published("F15", mha.matrix_flops / mha.kv_read_bytes),
    say(
        f"With queries and outputs counted it is {gqa.matrix_flops / gqa.bytes:.3f} after 4095 tokens, and tends to 4. The "
        "FLOP of the softmax, "
        f"which run outside the matrix units, would add 1 %: {gqa.arithmetic_intensity:.3f}. Neither the context nor the "
        "batch is in the limit: "
        "each sequence brings its own cache. Lesson 4 comes back to that."
    ),
    shown(limit_context(intensity(core, "matrix")), "The limit of a long context, all traffic counted", "limit", legend=False),
)

# %% [markdown]
# In **prefill** all tokens of the prompt are queries. Their keys are read once and used by every token after them, so here attention
# has something to share. Two counts are in use, and they differ by a factor of two: all pairs of tokens, or those pairs that
# the **causal mask** lets through, each token with itself and those before it. Let us count.


# %% tags=["open"]
def count(p: int, n_q: int, n_kv: int, d_head: int, causal: bool) -> tuple[int, int]:
    """FLOP and bytes of attention over a prompt of p tokens; bf16, scores stay on chip."""
    allowed = np.tri(p, dtype=bool) if causal else np.ones((p, p), dtype=bool)
    flops = 0
    for query in range(p):
        keys = int(allowed[query].sum())
        flops += n_q * keys * 2 * d_head  # scores
        flops += n_q * keys * 2 * d_head  # weighted values
    elements = p * n_q * d_head  # queries in
    elements += p * n_q * d_head  # outputs out
    elements += 2 * p * n_kv * d_head  # keys and values
    return flops, 2 * elements


# %%
full, causal = (
    intensity(Attention(batch=1, new=S_q, cached=0, n_heads=n_q, n_kv_heads=n_kv, head_dim=d_head, mask=mask), "matrix")
    for mask in ("full", "causal")
)
of_prompt = {mask: attention(LLAMA, "prefill", input_len=1000, mask=mask) for mask in ("full", "causal")}
counted = {mask: count(1000, 32, 8, 128, mask == "causal") for mask in of_prompt}
for mask, cost in of_prompt.items():
    assert (cost.matrix_flops, cost.bytes) == tuple(32 * number for number in counted[mask])
ratios = {mask: cost.matrix_flops / cost.bytes for mask, cost in of_prompt.items()}
show(
    say(
        f"For 1000 tokens and one layer of Llama 3.1 8B this counts {counted['full'][0]:,} FLOP with all pairs and "
        f"{counted['causal'][0]:,} with "
        f"a causal mask, over the same {counted['full'][1]:,} bytes. The toolkit says the same of 32 layers."
    ),
    shown(full, "All pairs", "FLOP of the products over Q, O, K and V"),
    shown(causal, "Pairs that a causal mask lets through", "the same bytes, p(p + 1)/2 pairs", legend=False),
    published(
        "F13",
        f"{ratios['full']:.4g} FLOP/byte for 1000 tokens and all pairs; {ratios['causal']:.4g} with a causal mask",
        agrees=all(
            10 * cost.matrix_flops == share * cost.bytes
            for cost, share in zip(of_prompt.values(), (8 * 1000, 4 * 1001), strict=True)
        ),
    ),
    say(
        "**0.8 p or 0.4 p?** Both are right, of different things. The lecture's 0.8 p counts pairs that the mask forbids. "
        "Good kernels skip nearly all of these, so what "
        "a device really does is 0.4 p, and the toolkit counts that unless you ask for `--mask full`. When you compare "
        "FLOP/s of "
        "attention kernels, ask first which of the two was counted. Either way attention over a prompt of 1000 tokens is "
        "beyond the ridge."
    ),
)

# %%
draw("flash-attention", model=LLAMA)

# %%
crossing = {mask: ridge / ratio * 1000 for mask, ratio in ratios.items()}
prompt_lengths = [2**power for power in range(14)]
at_length = {mask: [attention(LLAMA, "prefill", input_len=p, mask=mask) for p in prompt_lengths] for mask in ("full", "causal")}
show(
    figure(
        curves(
            "attention",
            "Intensity of attention, Llama 3.1 8B",
            ("tokens: of the prompt, or cached", "tokens"),
            ("intensity", "FLOP/byte"),
            {
                "prefill, all pairs": (prompt_lengths, [cost.matrix_flops / cost.bytes for cost in at_length["full"]]),
                "prefill, causal": (prompt_lengths, [cost.matrix_flops / cost.bytes for cost in at_length["causal"]]),
                "decode, one token": (
                    prompt_lengths,
                    [
                        cost.matrix_flops / cost.bytes
                        for cost in (attention(LLAMA, "decode", context=p) for p in prompt_lengths)
                    ],
                ),
            },
            roles=("bound", "prefill", "decode"),
            marks=(("ridge of the A100", "y", ridge),),
            note=f"With a causal mask attention is bound by compute from prompts of about {crossing['causal']:.0f} tokens on. At decode it never is: "
            "the line stays below $n_q$/$n_{kv}$ = 4.",
        )
    ),
    takeaway(
        "Attention at decode: $n_q$/$n_{kv}$ FLOP/byte, whatever the context. Over a prompt of p tokens: 0.8 p with all "
        "pairs, 0.4 p with a causal mask "
        "(Llama 3.1 8B). Say which pairs you count."
    ),
)

# %% [markdown]
# ## Norms
#
# What remains are the small operators: norms, rotations, the activation of the MLP, additions. They do a few FLOP for each
# element, with no matrix in them, so they run on the vector units. RMSNorm takes four: square, add up, scale, multiply by the
# weight. How many bytes?

# %%
alone, fused = Norm(rows=T, width=d_model), Norm(rows=T, width=d_model, adds=1)
norm_limit = float(limit_tokens(intensity(alone)))
predict(
    "RMSNorm does 4 FLOP for each element. Elements are bf16. What is its intensity?",
    {
        "4 FLOP/byte": "That is 4 FLOP over one byte. An element has 2, and it is read *and* written.",
        "2 FLOP/byte": "The element is read, 2 bytes. The result has to be written too.",
        "1 FLOP/byte": "",
        "it grows with the number of tokens": "FLOP and bytes both grow with the tokens. There is no matrix to share.",
    },
    answer="1 FLOP/byte",
    why=[
        "An element comes in and goes out, 2 bytes each: 4 FLOP over 4 bytes. Its weight is shared by all tokens and hardly counts.",
        shown(intensity(alone), "RMSNorm, 1000 tokens", "4 FLOP an element; input, output and weight at 2 bytes"),
        shown(
            intensity(fused),
            "With the addition of the residual stream in the same kernel",
            "5 FLOP an element; two in, two out",
            legend=False,
        ),
    ],
)

# %%
show(
    published("F17", norm_limit),
    table(
        ("what is counted", "FLOP an element", "bytes an element", "FLOP/byte"),
        [
            ("the lecture's figure: 4, as if an element moved one byte", 4, 1, 4 / 1),
            ("input read, output written, bf16", 4, 4, 4 / 4),
            ("the same in fp32", 4, 8, 4 / 8),
            ("with the residual addition, bf16: two in, two out", 5, 8, 5 / 8),
        ],
        title="One norm, four intensities",
        note="FLOP of elementwise operators are a convention: whether a square root or an exponential counts as one is anybody's choice. So such an "
        "intensity is good to a factor of two, and should not be quoted without its convention.",
    ),
    say(
        f"The conclusion does not depend on it. The vector units of the A100 do {amount(vector_peak, 'FLOP/s')}, so their "
        "own ridge point is "
        f"{vector_peak / bandwidth:.1f} FLOP/byte. A norm at 1, or at 4, is below: it is bound by memory in prefill and in "
        "decode."
    ),
    takeaway(
        "Norms do about 1 FLOP/byte in bf16 whatever the number of tokens, and are always bound by memory. Fusing them with "
        "their neighbours helps, "
        "because it saves bytes."
    ),
)

# %% [markdown]
# ## What a bound is worth
#
# Take one operator. It computes for some time, and moves for some time. If the two overlap perfectly, it takes the **longer**
# one: nothing can be faster, as long as FLOP and bytes were counted as what *must* be done. If they do not overlap at all, it
# takes the **sum**, which is at most twice as long. (The toolkit keeps four clocks, one each for matrix units, vector units,
# memory and links. It does not matter here: of vector units and links our operators need little or nothing.)

# %%
down = Gemm(m=128, n=4096, k=14336).cost()
compute_s, memory_s = down.matrix_flops / peak, down.bytes / bandwidth
predict(
    f"The down projection takes 128 tokens. The matrix units need {amount(compute_s, 's')} for it, the bus "
    f"{amount(memory_s, 's')}. How long does it "
    "take at the least?",
    kind="s",
    answer=max(compute_s, memory_s),
    tolerance=0.02,
    hints={
        compute_s + memory_s: "That is if nothing overlaps. At the least both go on at the same time.",
        min(compute_s, memory_s): "The other one is not finished by then.",
    },
    why=[
        say(
            f"The longer of the two: {amount(max(compute_s, memory_s), 's')}. Without any overlap it would be "
            f"{amount(compute_s + memory_s, 's')}. Near "
            "the ridge point, as here, the two differ most."
        ),
        formula(
            "layers/mlp/down_proj",
            LLAMA,
            A100,
            part="time_bound",
            batch=128,
            context=1000,
            title="The same for all 32 layers, as the toolkit says it",
        ),
    ],
)

# %%
draw("roofline-anatomy", {"1 sequence": {}, "64 sequences": {"batch": 64}}, about="Batch", model=LLAMA, hardware=A100)

# %% [markdown]
# A step is one operator after the other, so its bound is the sum of theirs. Here are all operators of Llama 3.1 8B, a prompt of
# 1000 tokens and then a decode step after 4095, each at its bound: on the roof.

# %%
at_bound = evaluate({"model": LLAMA, "hardware": A100, "batch": 1, "input_len": 1000, "context": 4095})
figure(roofline_figure(at_bound.request, at_bound.result))

# %%
real = roofline.analyze(LLAMA, A100, input_len=1000, context=4095)
steps = {"prefill of 1000 tokens": real.prefill, "decode after 4095 tokens": real.decode}
totals = {name: max(step.cost.matrix_flops / peak, step.cost.bytes / bandwidth) for name, step in steps.items()}
show(
    figure(
        bars(
            "worth",
            "Bounds, and what measured kernels do",
            ("ms", ""),
            {
                "bound: perfect overlap in each operator": {name: step.time.bound * 1e3 for name, step in steps.items()},
                "sum: no overlap": {name: step.time.sum * 1e3 for name, step in steps.items()},
                "estimate, of measured kernels": {name: step.time.estimate * 1e3 for name, step in steps.items()},
            },
            roles=("bound", "sum", "estimate"),
            note="One sequence on one A100. Estimates come from kernels that were measured on this device, 8 of 10 within "
            + " and ".join(
                f"{step.time.low * 1e3:.3g} to {step.time.high * 1e3:.3g} ms ({name})" for name, step in steps.items()
            )
            + ".",
        )
    ),
    say(
        "**The sum is no upper limit of what you will measure.** It says what an ideal device takes that overlaps nothing. A "
        "real one takes longer still: "
        f"the decode step is estimated at {real.decode.time.estimate / real.decode.time.bound:.1f} times its bound and "
        f"{real.decode.time.estimate / real.decode.time.sum:.1f} times its sum. Nothing on paper limits how slow a kernel "
        "may be. The bound holds in one direction: **no measurement may lie below it**. If one does, the measurement is wrong, "
        "or the count: perhaps what was counted as moved was still on chip."
    ),
)

# %%
norm = next(op for op in real.decode.operators if op.path == "layers/mlp/norm")
gate_up = next(op for op in real.prefill.operators if op.path == "layers/mlp/gate_up_proj")
reached = real.decode.cost.bytes / real.decode.time.estimate / bandwidth
show(
    table(
        ("what the bound leaves out", "an example"),
        [
            (
                "launches: each kernel takes some microseconds to begin",
                f"the 32 norms of a decode step: bound {amount(norm.time.bound, 's')}, estimate {amount(norm.time.estimate, 's')}",
            ),
            (
                "peaks that no kernel reaches: clocks, tiles that do not fill the device",
                f"gate and up projections of the prompt: bound {amount(gate_up.time.bound, 's')}, estimate {amount(gate_up.time.estimate, 's')}",
            ),
            (
                "bandwidth that is not reached, by small reads least of all",
                f"the decode step: {reached:.0%} of the datasheet's rate",
            ),
            ("what is read twice, where it does not fit on chip", "inputs of a long prompt"),
            ("what the engine does between steps", "scheduling, sampling, sending the answer: lesson 5"),
        ],
        title="Why a measured time is longer than a bound",
    ),
    say(
        "One thing goes the other way. The bound of a step takes its operators one after the other. If a device could "
        "overlap *different* operators, say "
        "read the next layer's weights while it computes this one, only the totals would bind: "
        f"{amount(totals['prefill of 1000 tokens'], 's')} for this prompt instead of "
        f"{amount(steps['prefill of 1000 tokens'].time.bound, 's')}. "
        "Most engines do not, and where one does, the totals are the bound to take."
    ),
    takeaway(
        "Bound: the longer clock, for each operator; nothing is faster. Sum: both clocks, an ideal device without overlap. "
        "Real kernels take longer "
        "than the bound, and small ones much longer than the sum."
    ),
)

# %% [markdown]
# ## Play and practise

# %%
play(
    "One device, one model. Points left of the ridge wait for memory. Move the load and see which points travel along the roof.",
    controls=("model", "batch", "context", "input_len", "kv_heads", "hardware", "peak_tflops", "bandwidth_gbs"),
    tiles=("ridge_point", "linear_intensity", "attention_intensity", "prefill_intensity", "prefill", "step"),
    formulas=("ridge_point", "layers/mlp/gate_up_proj:arithmetic_intensity", "layers/attention/core:arithmetic_intensity"),
    pictures=("roofline",),
    models=("llama-3.1-8b", "llama-2-7b", "qwen2.5-7b", "llama-3.2-1b"),
    hardware=("a100-sxm-80gb", "h100-sxm", "h20", "l40s"),
    tries=(
        "Move the **prompt** from 1000 tokens down. Where do the linear layers cross the ridge, and where attention?",
        "Move the **batch** up. Which points of the decode step travel to the right, and which stay?",
        "Set **KV heads** to 32, then to 1. What happens to the point of attention at decode?",
        "Set the **peak** to 624 TFLOP/s, the sparse one. Which times change, and which do not?",
    ),
)

# %%
v2 = roofline.analyze("deepseek-v2", A100, context=4096, phase="decode", ignore_capacity=True).decode
latent = next(op for op in v2.operators if op.path.endswith("attention/core"))
moved = latent.cost.matrix_flops / latent.cost.kv_read_bytes
short = next(p for p in range(1, 1000) if Gemm(m=p, n=14336, k=4096).cost().arithmetic_intensity > ridge)
show(
    worked(
        "how short is a short prompt",
        "From how many tokens on is the up projection of Llama 3.1 8B (4096 x 14,336, bf16) bound by compute on an A100? "
        "First with weights alone, then "
        "with inputs and outputs.",
        say(
            f"Weights alone: the intensity is the number of tokens, so from the ridge point on: {ridge:.0f}, that is "
            f"{int(ridge) + 1} tokens. With inputs and "
            f"outputs it takes {short}: the formula of *Linear layers* is set equal to the ridge point and solved for $T$."
        ),
        shown(whole, f"At {short} tokens", "see above", legend=False, T=short),
    ),
    worked(
        "is everything memory-bound at decode?",
        'The lecture\'s summary says: "At decode: everything is memory-bound." DeepSeek-V2 keeps one latent of 512 and one rotated key of 64 elements a token, '
        "shared by all 128 heads. At decode each head attends to the latents themselves: 576 products for a score, 512 for a "
        "value. Is its attention bound by "
        "memory on an A100?",
        "A latent is 1152 bytes and does 2 x (576 + 512) FLOP in each of 128 heads.",
        say(
            f"That is **{moved:.1f} FLOP/byte**, beyond the ridge of {ridge:.0f}: bound by **{latent.bound_by}**, at any "
            "batch. What 128 heads "
            "share is read once, as with 128 query heads to one KV head. The sentence holds for Llama 3.1 8B and small "
            "batches; as a law it does not."
        ),
    ),
)

# %%
show(
    exercise("roofline-ridge-point", 2),
    exercise("roofline-gemm-intensity", 1),
    exercise("roofline-which-side", 3),
    exercise("roofline-layer-time", 1),
    exercise("roofline-is-it-possible", 3),
)

# %% [markdown]
# **More**: `roofline explain llama-3.1-8b layers/mlp/gate_up_proj --hardware a100-sxm-80gb`, and `roofline claim` for sentences with a number in them.
# Next: how decode gets away from 1 FLOP/byte.
