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
# needs both, and one of the two takes longer. This lesson tells which one.

# %%
import roofline
from roofline.formulas.closed_forms import intensity, limit_tokens
from roofline.formulas.symbolic import symbol
from roofline.operators.attention import Attention
from roofline.operators.gemm import Gemm
from roofline.operators.norm import Norm
from roofline.predict.explain.explanation import explanation
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
    takeaway,
    worked,
)

LLAMA, A100 = "llama-3.1-8b", "a100-sxm-80gb"
card = roofline.load_hardware(A100)
peak, bandwidth, vector_peak = card.peak("bf16"), card.bandwidth, card.vector_peak
ridge = peak / bandwidth

lesson(
    3,
    "The roofline",
    "What an operator computes for each byte that it moves, and what follows for its time.",
    goals=[
        "compute the arithmetic intensity of linear layers, attention and norms",
        "compute a device's ridge point from its datasheet, and avoid the sparse peak",
        "say whether an operator is bound by compute or by memory, and at least how long it takes",
        "say what FlashAttention saves, and what a bound assumes",
    ],
    prerequisites=[
        "lesson 1: FLOP and bytes of a step; prefill and decode",
        "lesson 2: the KV cache, query heads and KV heads",
    ],
    plan=[
        (9, "Two clocks"),
        (10, "Linear layers"),
        (11, "Attention"),
        (4, "Norms"),
        (8, "What a bound is worth"),
        (8, "Play and practise"),
    ],
    exercises=[
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


def written(expression, title, source, legend=True, **numbers):
    """An intensity in symbols, with the numbers of Llama 3.1 8B unless others are given."""
    values = {symbol(name): number for name, number in {**NUMBERS, **numbers}.items()}
    return formula(explanation("intensity", expression, values, unit="FLOP/byte", source=source), title=title, legend=legend)


# %% [markdown]
# ## Two clocks
#
# An operator does F FLOP and moves D bytes. The device computes at most $P$ FLOP/s, its **peak**, and its memory delivers at
# most $\beta$ bytes/s, its **bandwidth**. Computing takes at least F over $P$, moving at least D over $\beta$. If the two
# overlap perfectly, the operator takes as long as the longer one. Take the *dense* peak: datasheets like to print twice as much, for *sparse*
# matrices, half of which are zeros.
#
# Which one is longer? Divide what is done by what is moved: that is the **arithmetic intensity** $I$ of the operator, in
# FLOP/byte. Divide the two rates: that is the **ridge point** of the device, in FLOP/byte too. An operator above the ridge
# point is *bound by compute*, one below it *bound by memory*.

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
published("F08", ridge)

# %% [markdown]
# **Which memory?** A device has several. Each streaming multiprocessor (SM; the drawing says compute unit) has its own registers and *shared memory*: fast,
# and small. All of them share an L2 cache. Behind it lies the large device memory (HBM), which holds the weights and the KV
# cache. In this course *bytes moved* are bytes of that memory, unless we say otherwise.

# %%
draw(
    "gpu-memory",
    {"A100": {"hardware": A100}, "H100": {"hardware": "h100-sxm"}, "L40S": {"hardware": "l40s"}},
    about="Accelerator",
)

# %%
h100, h200 = (roofline.load_hardware(name) for name in ("h100-sxm", "h200-sxm"))
say(
    "A ridge point belongs to a device *and* a format. An H100 multiplies fp8 twice as fast as bf16, so it has two: "
    f"{h100.peak('bf16') / h100.bandwidth:.0f} in bf16, {h100.peak('fp8') / h100.bandwidth:.0f} in fp8. The H200 is an H100 with a "
    f"faster memory, so its ridge is lower: {h200.peak('bf16') / h200.bandwidth:.0f} in bf16."
)

# %% [markdown]
# The two rates draw the roofline (Williams, Waterman and Patterson, 2009). Left of the ridge point an operator reaches the bandwidth times its
# intensity; right of it, the peak. Here is one operator in prefill and in decode. The next part says why the two lie so far apart. Both scales are logarithmic; *estimates* are lesson 5's.

# %%
show(
    draw("roofline-anatomy", {"1 sequence": {}, "64 sequences": {"batch": 64}}, about="Batch", model=LLAMA, hardware=A100),
    takeaway(
        "Intensity belongs to the operator, the ridge point to the device and the format. Below the ridge an operator waits for "
        "memory; above it, for arithmetic."
    ),
)

# %% [markdown]
# ## Linear layers
#
# A projection, an MLP matrix, the LM head: $T$ tokens, each a vector, are multiplied by one matrix of weights. In prefill $T$
# is the length of the prompt; in decode of one sequence it is 1.

# %%
up = Gemm(m=T, n=d_ff, k=d_model)
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
            "cancels. With 1 byte per weight it would be 2000."
        ),
    ],
)


# %%
def linear(phase, **options):
    """The linear operators of a step: their costs and times."""
    result = roofline.analyze(LLAMA, A100, phase=phase, ignore_capacity=True, **options)
    return [op for op in getattr(result, phase).operators if op.kind == "gemm"]


lengths = (1, 100, 1000, 4096)
prompts = {length: linear("prefill", input_len=length, logits="all") for length in lengths}
one = linear("decode", context=1000)
by_weights = [op.cost.matrix_flops / op.cost.weight_bytes for op in one]
assert len(set(by_weights)) == 1
show(
    published(
        "F09",
        "p FLOP/byte in each linear operator, for 1, 100, 1000 and 4096 tokens",
        agrees=all(op.cost.matrix_flops == length * op.cost.weight_bytes for length, ops in prompts.items() for op in ops),
    ),
    published("F10", by_weights[0]),
)

# %% [markdown]
# The lecture's table leaves something out: inputs are read and outputs written as well. For one token they are nothing beside
# the matrix. For a long prompt they are as large as the matrix, and more.

# %%
whole = intensity(up)
written(whole, "Intensity with inputs and outputs counted, 1000 tokens", "the same FLOP over weights, inputs and outputs")

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
            note="Up to about a hundred tokens the lines are one. Then inputs and outputs weigh, the sooner the narrower the matrix.",
        )
    ),
    say(
        f"For 1000 tokens and the wider matrix it is {Gemm(m=1000, n=14336, k=4096).cost().arithmetic_intensity:.0f}: less than "
        "1000, yet far beyond the ridge. So prefill of such a prompt is bound by compute in its linear layers. A prompt of "
        "100 tokens is bound by memory, just like decode."
    ),
)

# %%
used = sum(op.times.matrix for op in one) / sum(op.time.bound for op in one)
show(
    predict(
        "At decode with one sequence a linear layer has an intensity of 1. Which share of its 312 TFLOP/s can the A100 reach in it, at most?",
        {
            "all of it: the matrix units do nothing else": "They wait. In the time of 1 byte the device could do 153 FLOP, and it has 1 to do.",
            "about 10 %": "Compare an intensity of 1 with the ridge point.",
            "below 1 %": "",
        },
        answer="below 1 %",
        why=[
            "In the time of 1 byte the device could do 153 FLOP, and it has 1 to do: one over the ridge point.",
            published("F18", used),
        ],
    ),
    takeaway(
        "A linear layer in bf16 has an intensity of about its number of tokens. One token: bound by memory, below 1 % of the "
        "peak. A prompt of 1000: bound by compute."
    ),
)

# %% [markdown]
# ## Attention
#
# Its projections are linear layers. What lies between them, attention itself, has no weights. It reads queries, keys and values, and writes outputs. For
# each pair of a query and a key it computes a score and a weighted value, 4 $d_{head}$ FLOP, in each of $n_q$ query heads. The keys and values of a
# head are read once for all query heads that share it.

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
        written(decode_attention, "Intensity of attention at decode, cache traffic alone", "FLOP of all pairs over K and V"),
    ],
)


# %%
def attention(model, phase, **options):
    """The cost of attention itself, all layers."""
    result = roofline.analyze(model, A100, phase=phase, ignore_capacity=True, **options)
    return next(op.cost for op in getattr(result, phase).operators if op.path.endswith("attention/core"))


gqa, mha = (attention(name, "decode", context=4095) for name in (LLAMA, "llama-2-7b"))
show(
    published("F14", gqa.matrix_flops / gqa.kv_read_bytes),
    published("F15", mha.matrix_flops / mha.kv_read_bytes),
    say(
        "Neither context nor batch is in the formula: each sequence brings its own cache (lesson 4). With its query and output counted, a token after few others "
        "has less."
    ),
)

# %% [markdown]
# In **prefill** all tokens of the prompt are queries. A key is read once and used by every token after it, so here attention
# has something to share. But what happens to the scores? There is one for each pair of tokens, more than all inputs together.
#
# A simple *kernel*, a program on the device, writes them to device memory and reads them back for the softmax. **FlashAttention** (Dao et al., 2022) works
# on tiles that fit into shared memory. It adds up values as they come, and keeps for each query the sum of its exponentials and the largest score so far, to
# which earlier sums are rescaled: no second pass. The scores never leave the chip. The FLOP stay; the bytes fall.

# %%
draw("flash-attention", model=LLAMA)

# %% [markdown]
# From here on we assume such a kernel. Which pairs does it compute? Two counts are in use: all pairs of tokens, or those that
# the **causal mask** lets through, each token with itself and those before it.

# %%
full = intensity(Attention(batch=1, new=S_q, cached=0, n_heads=n_q, n_kv_heads=n_kv, head_dim=d_head, mask="full"), "matrix")
of_prompt = {mask: attention(LLAMA, "prefill", input_len=1000, mask=mask) for mask in ("full", "causal")}
ratios = {mask: cost.matrix_flops / cost.bytes for mask, cost in of_prompt.items()}
show(
    say(
        "F is 4 S S n_q d_head FLOP; D is 2 bytes for each element of queries and outputs, 2 S n_q d_head, and of keys and values, 2 S n_kv d_head."
    ),
    written(full, "All pairs of S tokens: F over D", "FLOP of the products over Q, O, K and V"),
    published(
        "F13",
        f"{ratios['full']:.4g} FLOP/byte for 1000 tokens and all pairs; {ratios['causal']:.4g} with a causal mask",
        agrees=all(
            10 * cost.matrix_flops == share * cost.bytes
            for cost, share in zip(of_prompt.values(), (8 * 1000, 4 * 1001), strict=True)
        ),
    ),
    say(
        "**0.8 p or 0.4 p?** Both are right, of different things. Good kernels skip nearly all pairs that the mask forbids, so a "
        "device really does 0.4 p. The toolkit counts that, unless `--mask full` is set. When you compare FLOP/s of attention "
        "kernels, ask first which pairs were counted."
    ),
)

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
            note=f"With a causal mask attention is bound by compute from prompts of about {crossing['causal']:.0f} tokens on. At decode it never is.",
        )
    ),
    takeaway(
        "Attention at decode: $n_q$/$n_{kv}$ FLOP/byte, whatever the context. Over a prompt of p tokens (Llama 3.1 8B): 0.8 p "
        "with all pairs, 0.4 p with a causal mask."
    ),
)

# %% [markdown]
# ## Norms
#
# What remains are the small operators: norms, rotations, activations, additions. They do a few FLOP for each element, on the
# vector units. RMSNorm does four: square, add up, scale, multiply by the weight. How many bytes?

# %%
alone = Norm(rows=T, width=d_model)
norm_limit = float(limit_tokens(intensity(alone)))
predict(
    "RMSNorm does 4 FLOP for each element. Elements are bf16. What is its intensity?",
    {
        "4 FLOP/byte": "That is 4 FLOP over one byte. An element has 2, and it is read and also written.",
        "2 FLOP/byte": "The element is read, 2 bytes. The result has to be written too.",
        "1 FLOP/byte": "",
        "it grows with the number of tokens": "FLOP and bytes both grow with the tokens. There is no matrix to share.",
    },
    answer="1 FLOP/byte",
    why="An element comes in and goes out, 2 bytes each: 4 FLOP over 4 bytes. Its weight is shared by all tokens of the step; with one token it counts, too: 4 FLOP over 6 bytes.",
)

# %%
show(
    published("F17", norm_limit),
    say(
        f"Either way nothing changes. The vector units of the A100 do {amount(vector_peak, 'FLOP/s')}, so their own ridge point is "
        f"{vector_peak / bandwidth:.1f} FLOP/byte. A norm at 1, or at 4, is below it."
    ),
    takeaway(
        "Norms do at most 1 FLOP/byte in bf16, whatever the number of tokens: always bound by memory. Computing them in one kernel with their "
        "neighbours helps, because it saves bytes."
    ),
)

# %% [markdown]
# ## What a bound is worth
#
# An operator computes for some time, and moves for some time. On an ideal device the two overlap perfectly, and it takes the **longer** one: nothing can be
# faster, if nothing was counted that can be left out. Without any overlap it takes the **sum**, at most twice as long.

# %%
down = Gemm(m=128, n=4096, k=14336).cost()
compute_s, memory_s = down.matrix_flops / peak, down.bytes / bandwidth
predict(
    f"The down projection takes 128 tokens. The matrix units need {amount(compute_s, 's')} for it, the memory "
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
            f"{amount(compute_s + memory_s, 's')}. Near the ridge point, as here, the two differ most."
        ),
    ],
)

# %% [markdown]
# A step is one operator after the other, so its bound is the sum of theirs. How far from it are real kernels?

# %%
real = roofline.analyze(LLAMA, A100, input_len=1000, context=4095)
steps = {"prefill of 1000 tokens": real.prefill, "decode after 4095 tokens": real.decode}
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
            note="One sequence on one A100.",
        )
    ),
    say(
        "**The sum is no upper limit.** It says what an ideal device takes that overlaps nothing. The decode step is estimated at "
        f"{real.decode.time.estimate / real.decode.time.sum:.1f} times its sum: kernels have to be started, and reach neither the full "
        "peak nor the full bandwidth (lesson 5). But **no measurement may lie below the bound**. If one does, the measurement is wrong, or "
        "the count. (One exception: an engine that computes in one operator while it moves for another. Then the bound is the longer of the two totals.)"
    ),
    takeaway(
        "Bound: the longer clock of each operator; nothing is faster. Sum: both clocks, without overlap. Real kernels take longer than "
        "the bound, and small ones much longer than the sum."
    ),
)

# %% [markdown]
# ## Play and practise

# %%
play(
    "One device, one model. Points left of the ridge wait for memory; what takes little time is not drawn, and tiles have its numbers.",
    controls=("model", "batch", "context", "input_len", "kv_heads", "hardware", "peak_tflops", "bandwidth_gbs"),
    tiles=("ridge_point", "linear_intensity", "attention_intensity", "prefill_intensity", "prefill", "step"),
    formulas=("ridge_point", "layers/mlp/gate_up_proj:arithmetic_intensity", "layers/attention/core:arithmetic_intensity"),
    pictures=("roofline",),
    models=("llama-3.1-8b", "llama-2-7b", "qwen2.5-7b", "llama-3.2-1b"),
    hardware=("a100-sxm-80gb", "h100-sxm", "h20", "l40s"),
    tries=(
        "Move the **prompt** from 1000 tokens down. Where do the linear layers of prefill cross the ridge?",
        "Move the **batch** up. Which points of the decode step travel to the right, and which stay?",
        "Set **KV heads** to 32, then to 4. What happens to the intensity of attention at decode?",
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
        "First with weights alone, then with inputs and outputs.",
        say(
            f"Weights alone: the intensity is the number of tokens, so from the ridge point on: {ridge:.0f}, that is "
            f"{int(ridge) + 1} tokens. With inputs and "
            f"outputs it takes {short}: the formula of *Linear layers* is set equal to the ridge point and solved for $T$."
        ),
        written(whole, f"At {short} tokens", "see above", legend=False, T=short),
    ),
    worked(
        "is everything memory-bound at decode?",
        'The lecture says: "At decode: everything is memory-bound." DeepSeek-V2 keeps one latent of 512 and one rotated key of '
        "64 elements per token, shared by all 128 heads. Each head does 576 products for a score and 512 for a value. Is its "
        "attention bound by memory on an A100?",
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
    exercise("roofline-gemm-intensity", 1),
    exercise("roofline-which-side", 3),
    exercise("roofline-layer-time", 1),
    exercise("roofline-is-it-possible", 3),
)

# %% [markdown]
# **More**: `roofline explain llama-3.1-8b layers/mlp/gate_up_proj --hardware a100-sxm-80gb`, and `roofline claim` for sentences with a number in them.
# Next: how decode gets away from 1 FLOP/byte.
