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
# # 4. Batching
#
# A decode step of one sequence reads all weights and uses less than 1 % of the device's arithmetic. If many sequences take the
# step together, the weights are read once for all of them. That is **batching**, and it makes serving affordable. This lesson
# says what batch size pays off, what size fits, and what it does to each user.

# %%
import roofline
from roofline.formatting import percent
from roofline.formulas.closed_forms import intensity, kv_read_bytes
from roofline.formulas.symbolic import quantity, symbol
from roofline.operators.attention import Attention
from roofline.operators.gemm import Gemm
from roofline.predict.explain.explanation import explanation
from roofline.predict.request import prepare
from roofline.predict.timing import pipeline
from roofline.specs.workload import decode
from roofline.teach.lessons import (
    amount,
    curves,
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

LLAMA, A100 = "llama-3.1-8b", "a100-sxm-80gb"
card = roofline.load_hardware(A100)
peak, bandwidth = card.peak("bf16"), card.bandwidth
ridge = peak / bandwidth

lesson(
    4,
    "Batching",
    "Why many sequences cost hardly more than one, until they do.",
    goals=[
        "say why weights are shared by a batch and caches are not, and compute the intensity of both",
        "compute the critical batch, and say when a whole step never becomes bound by compute",
        "compute how many sequences fit in memory, with units that are what they say",
        "weigh throughput against the time of a step, and find the batch that meets a promise to users",
    ],
    prerequisites=[
        "lesson 2: the KV cache of a sequence",
        "lesson 3: arithmetic intensity, the ridge point, bounds",
    ],
    plan=[
        (7, "Weights are read once"),
        (8, "The critical batch"),
        (10, "Attention does not batch"),
        (8, "How many fit"),
        (9, "Throughput against latency"),
        (8, "Play and practise"),
    ],
    exercises=[
        "batching-critical-batch",
        "batching-sequences-that-fit",
        "batching-longer-step",
        "batching-is-it-possible",
    ],
)


# %%
seen = {}


def step(batch=1, context=4095, shared_prefix=0):
    """A decode step, whether or not it fits: its bound, its operators."""
    key = batch, context, shared_prefix
    if key not in seen:
        options = {"batch": batch, "context": context, "shared_prefix": shared_prefix}
        seen[key] = roofline.analyze(LLAMA, A100, phase="decode", ignore_capacity=True, **options).decode
    return seen[key]


def core(decoded):
    """The cost of attention itself."""
    return next(op.cost for op in decoded.operators if op.path.endswith("attention/core"))


NUMBERS = {"B": 64, "S_c": 4095, "L": 32, "n_q": 32, "n_kv": 8, "d_head": 128, "d_model": 4096, "d_ff": 14336, "b_kv": 2}
B, S_c, L, n_q, n_kv, d_head, d_model, d_ff, b_kv = (symbol(name) for name in NUMBERS)


def written(expression, title, unit, source, legend=True, **others):
    """A formula in symbols, with the numbers of Llama 3.1 8B and 64 sequences unless others are given."""
    values = {symbol(name): number for name, number in {**NUMBERS, **others}.items()} | EXTRA
    return formula(explanation("batching", expression, values, unit=unit, source=source), title=title, legend=legend)


W = quantity("W_read", "W", "bytes", "weights that a decode step reads")
EXTRA = {W: step(context=0).cost.weight_bytes}

# %% [markdown]
# ## Weights are read once
#
# $B$ sequences are decoded together, each with one new token. In a linear layer that is a matrix of $B$ rows, times the
# weights: the same product as a prompt of $B$ tokens. Each weight comes in once and serves $B$ tokens.

# %%
one, sixteen = step(1, 0), step(16, 0)
predict(
    f"A decode step of Llama 3.1 8B takes at least {amount(one.time.bound, 's')} on an A100, with nothing cached. How many "
    "times as long does a step of **16** sequences take, at "
    "the least?",
    kind="ratio",
    answer=sixteen.time.bound / one.time.bound,
    tolerance=0.04,
    hints={
        16.0: "Sixteen times the FLOP, but the weights are read once. What does the step wait for?",
        2.0: "The device has time for 153 FLOP while a byte comes in. Sixteen fit easily.",
    },
    why=[
        say(
            f"**{sixteen.time.bound / one.time.bound:.3f} times**: {amount(sixteen.time.bound, 's')} instead of "
            f"{amount(one.time.bound, 's')}. The weights are the same; the 1 % are the inputs and outputs of sixteen tokens."
        ),
        written(
            intensity(Gemm(m=B, n=d_ff, k=d_model), "matrix", ["weight"]),
            "Intensity of a linear layer at decode, weight traffic alone, for 64 sequences",
            "FLOP/byte",
            "2 FLOP a weight and sequence over 2 bytes a weight",
        ),
    ],
)

# %%
batches = (1, 2, 64, 156, 1000)
linear = {batch: [op for op in step(batch, 1000).operators if op.kind == "gemm"] for batch in batches}
show(
    published(
        "F11",
        "B FLOP/byte in each linear operator, for 1, 2, 64, 156 and 1000 sequences",
        agrees=all(op.cost.matrix_flops == batch * op.cost.weight_bytes for batch, ops in linear.items() for op in ops),
    ),
    say(
        f"It goes on like that: 128 sequences take only {percent(step(128, 0).time.bound / one.time.bound - 1, 0)} longer than one. With 256 the "
        f"step is bound by compute, and takes {step(256, 0).time.bound / one.time.bound:.1f} times as long. All this with nothing cached; "
        "what contexts change comes below."
    ),
    takeaway(
        "In a linear layer a batch of B sequences has the intensity B: weights are read once and used B times. Until it "
        "computes longer than it "
        "reads, a further sequence is almost free."
    ),
)

# %% [markdown]
# ## The critical batch
#
# When does it stop? For the linear layers alone that is easily solved. $B$ sequences take 2 $B$ FLOP for each weight, at $P$.
# A weight of $b_w$ bytes comes in at $\beta$. Both take equally long at the **critical batch**.

# %%
critical = roofline.explain(LLAMA, "critical_batch", A100)
HALF = f"half as large: about {ridge / 2:.0f}"
stored = {
    "all weights in fp8": roofline.analyze(LLAMA, A100, dtype="fp8").limits.critical_batch_linear,
    "multiplied in fp8 too": roofline.analyze(LLAMA, "h100-sxm", dtype="fp8").limits.critical_batch_linear,
    "H100, bf16": roofline.analyze(LLAMA, "h100-sxm").limits.critical_batch_linear,
}
predict(
    f"The A100's ridge point is {ridge:.0f} FLOP/byte in bf16. An engine stores the weights in 1 byte each, and multiplies in bf16 as before. The critical batch is then",
    {
        f"twice as large: {2 * ridge:.0f}": "Weights come in twice as fast, so computing catches up sooner, not later.",
        f"the same: {ridge:.0f}": "The ridge point is the same, but each byte now brings a whole weight, with 2 FLOP for each sequence.",
        HALF: "",
    },
    answer=HALF,
    why=[
        "A weight is read in half the time and takes as long to multiply. The critical batch is the ridge point only where a weight has 2 bytes.",
        formula(critical, title="Critical batch of the linear layers, bf16 weights"),
        say(
            f"With all weights in fp8 it is **{stored['all weights in fp8']:.1f}**. An H100 also *multiplies* fp8, at twice the rate. There "
            f"both halves cancel: {stored['multiplied in fp8 too']:.0f} in fp8 and {stored['H100, bf16']:.0f} in bf16."
        ),
    ],
)

# %%
down = Gemm(m=156, n=4096, k=14336).cost().arithmetic_intensity
whole = roofline.analyze(LLAMA, A100, context=0).limits.critical_batch_step
prompt = {
    batch: roofline.analyze(LLAMA, A100, batch=batch, input_len=1000, phase="prefill", ignore_capacity=True).prefill
    for batch in (1, 4)
}
gain = prompt[1].time.bound * 4 / prompt[4].time.bound
show(
    published("F12", critical.value),
    say(
        f"**Later than that.** The formula counts weights alone. With inputs and outputs, 156 sequences give the down projection {down:.1f} "
        f"FLOP/byte: still below the ridge. A whole step with nothing cached is bound by compute from {whole:.0f} sequences on, and one "
        "with 4096 cached tokens never is. The next part says why."
    ),
    say(
        "At the critical batch nothing jumps. Beyond it a step grows in proportion to the batch, so tokens/s no longer grow. **Prefill** "
        "does not need a batch: a prompt of 1000 tokens has 1000 rows already. Four such prompts together gain "
        f"{percent(gain - 1, 1)} over one after the other."
    ),
    takeaway(
        f"Critical batch of the linear layers: $b_w$ / 2 times the ridge point, {critical.value:.0f} on an A100 in bf16. "
        "Below it tokens are almost free; above it they cost their FLOP."
    ),
)

# %% [markdown]
# ## Attention does not batch
#
# Now the contexts. Each sequence has keys and values of its own, and no other sequence's query may use them. Twice the
# sequences are twice the work **and** twice the bytes.

# %%
attention = Attention(batch=B, new=1, cached=S_c, n_heads=n_q, n_kv_heads=n_kv, head_dim=d_head)
predict(
    "At decode attention of Llama 3.1 8B has 4 FLOP/byte with one sequence. With 64 sequences it has",
    {
        "256: 64 times as many": "That is so for weights, which are shared. Caches are not.",
        "4, as with one": "",
        "less than 4, for the caches compete": "Work and bytes both grow by 64; their ratio stays.",
    },
    answer="4, as with one",
    why=[
        "The batch cancels: it is above and below.",
        written(
            intensity(attention, "matrix", ["kv_read"]),
            "Intensity of attention, cache traffic alone, 64 sequences of 4096 tokens",
            "FLOP/byte",
            "FLOP of all pairs over K and V",
        ),
    ],
)

# %%
alone = {batch: core(step(batch, 2047)) for batch in (1, 7, 64, 1024)}
prefixes = (0, 1024, 1920)
shared = {prefix: step(64, 2047, shared_prefix=prefix) for prefix in prefixes}
reached = {prefix: core(decoded).matrix_flops / core(decoded).kv_read_bytes for prefix, decoded in shared.items()}
most = {
    prefix: roofline.analyze(LLAMA, A100, context=2047, shared_prefix=prefix, phase="decode").memory.max_batch
    for prefix in prefixes
}
show(
    published(
        "F16",
        f"4 FLOP/byte for 1, 7, 64 and 1024 sequences; {reached[1024]:.3g} where 64 sequences share 1024 of 2048 tokens",
        agrees=all(cost.matrix_flops == 4 * cost.kv_read_bytes for cost in alone.values()) and reached[1024] > 4,
    ),
    table(
        ("shared tokens", "FLOP/byte of attention", "bound of the step", "sequences that fit"),
        [(prefix, f"{reached[prefix]:.1f}", amount(shared[prefix].time.bound, "s"), most[prefix]) for prefix in prefixes],
        title="64 sequences of 2048 tokens, some of which all of them share",
        note="The exception. A system prompt that all requests begin with has the same keys and values in all of them. They are kept once "
        "and, by a kernel that knows about it, read once.",
    ),
)

# %% [markdown]
# So a step has two parts: the weights, which it pays once, and the caches, which it pays for each sequence. As the batch grows,
# the caches win.

# %%
sizes = [2**power for power in range(11)]
with_cache, without = {size: step(size) for size in sizes}, {size: step(size, 0) for size in sizes}


def linear_part(decoded):
    """FLOP over bytes of the linear operators together."""
    costs = [op.cost for op in decoded.operators if op.kind == "gemm"]
    return sum(cost.flops for cost in costs) / sum(cost.bytes for cost in costs)


low, turns = 512, 1024  # with 512 cached tokens there is a critical batch of the whole step, with 1024 none
while turns - low > 1:
    middle = (low + turns) // 2
    if roofline.analyze(LLAMA, A100, context=middle, phase="decode").limits.critical_batch_step is None:
        turns = middle
    else:
        low = middle
reads = core(step(1)).kv_read_bytes / bandwidth
computes = sum(op.cost.matrix_flops for op in one.operators if op.kind == "gemm") / peak
show(
    figure(
        curves(
            "intensity",
            "What a batch does to the intensity, at decode",
            ("batch", "sequences"),
            ("intensity", "FLOP/byte"),
            {
                "linear layers": (sizes, [linear_part(decoded) for decoded in with_cache.values()]),
                "attention, 4096 tokens": (
                    sizes,
                    [core(decoded).matrix_flops / core(decoded).bytes for decoded in with_cache.values()],
                ),
                "whole step, 4096 tokens": (sizes, [decoded.cost.arithmetic_intensity for decoded in with_cache.values()]),
            },
            roles=("weights", "kv", "mixed"),
            marks=(("ridge of the A100", "y", ridge),),
            note="Llama 3.1 8B. Linear layers climb over the ridge. Attention stays where it is and holds the whole step back.",
        )
    ),
    say(
        "How can a step *never* become bound by compute? One more sequence of 4096 tokens adds "
        f"{amount(computes, 's')} of products and {amount(reads, 's')} of reading its cache. Both grow with the batch, so no batch changes "
        f"which is longer. Counting norms and activations too, this holds from {turns} cached tokens on."
    ),
    takeaway(
        "Batching shares weights, not caches: attention keeps $n_q$/$n_{kv}$ FLOP/byte at any batch, unless a prefix is shared. From "
        "some 700 tokens of context on, a decode step of Llama 3.1 8B on an A100 is bound by memory at any batch."
    ),
)

# %% [markdown]
# ## How many fit
#
# Every sequence has its cache in memory, beside the weights. With long contexts that limits the batch before FLOP do. An engine
# (vLLM) takes 90 % of the memory by default.
#
# One trap: this card is sold as "80 GB" and has 80 **GiB**, 85.9 GB.


# %%
def fitting(memory, utilization):
    """Sequences of 4096 tokens, the new one included, that fit."""
    return roofline.analyze(
        LLAMA, A100, context=4095, phase="decode", memory=memory, gpu_memory_utilization=utilization
    ).memory.max_batch


counts = {"80 GiB, all of it": ("80 GiB", 1), "80 GB, all of it": ("80 GB", 1), "80 GiB, 90 % of it": ("80 GiB", 0.9)}
fits = {title: fitting(*given) for title, given in counts.items()}
fitting = roofline.explain(LLAMA, "max_batch", A100, context=4095)
memory = roofline.analyze(LLAMA, A100, context=4095, phase="decode").memory
weights, cache = memory.weights_bytes, memory.kv_bytes_per_sequence["mathematical"]
predict(
    f"An A100 reports 80 GiB, of which an engine uses 90 %. The weights of Llama 3.1 8B are {weights:,.0f} bytes, the cache "
    "of 4096 tokens is 0.5 GiB. How many such "
    "sequences fit?",
    kind="sequences",
    answer=fitting.value,
    tolerance=0.0,
    hints={
        128: "(80 - 16) / 0.5: GB less GB, over GiB, and all of the memory. Count in bytes.",
        fits["80 GiB, all of it"]: "That is with all of the memory. The engine takes 90 %.",
        fits["80 GB, all of it"]: "That is with 80 GB, all of them. The card has 80 GiB, and the engine takes 90 %.",
        int(memory.budget_bytes / cache): "The weights are in the same memory.",
    },
    why=formula(fitting, title="The largest batch at 4096 tokens, the new one included"),
)

# %%
show(
    published("F19", fits["80 GiB, all of it"]),
    table(
        ("memory", "sequences of 4096 tokens"),
        [("the lecture: (80 - 16) / 0.5", 128), *((title, count) for title, count in fits.items())],
        title='Four answers to "how many fit in 80 GB?"',
        note=f"128 mixes units: 16 GB of weights are {weights / 2**30:.2f} GiB. And no engine uses all of the memory: it has buffers of its own, "
        "and the driver has its share.",
    ),
)

# %%
contexts = [2**power for power in range(10, 18)]


def by_context(**options):
    """Sequences that fit, by the tokens of each."""
    return [
        roofline.analyze(LLAMA, A100, context=length - 1, phase="decode", ignore_capacity=True, **options).memory.max_batch
        for length in contexts
    ]


show(
    figure(
        curves(
            "fits",
            "How many sequences fit on one A100, Llama 3.1 8B",
            ("tokens of each sequence", "tokens"),
            ("sequences", ""),
            {"cache in bf16": (contexts, by_context()), "cache in fp8": (contexts, by_context(kv_cache_dtype="fp8"))},
            roles=("kv", "activations"),
            marks=(("critical batch of the linear layers", "y", critical.value),),
            note=f"Twice the tokens, half the sequences. Beyond about {memory.usable_bytes / critical.value / memory.kv_bytes_per_token:,.0f} tokens, with a bf16 cache, memory ends before "
            "the critical batch is reached.",
        )
    ),
    takeaway(
        "What fits is the memory left beside the weights, over the cache of a sequence: "
        f"{fitting.value} sequences of 4096 tokens for Llama 3.1 8B on an A100 at the engine's 90 %."
    ),
)

# %% [markdown]
# ## Throughput against latency
#
# **Throughput** is tokens per second of all users together: what a service sells. The time of a step is what each user waits for
# the next token, the time per output token (**TPOT**). A larger batch helps the first and hurts the second.

# %%
half, full = step(32), step(64)
predict(
    "32 sequences of 4096 tokens are decoded together. The batch is doubled to 64. By how much do the tokens per second of all of them grow, at the bounds?",
    {
        "they double": "So it would be if the step took as long as before. The caches have doubled.",
        "by about 30 %": "",
        "hardly at all": f"Weights are still a good part of the traffic: {percent(full.cost.weight_bytes / full.cost.bytes, 0)} with 64 sequences.",
    },
    answer="by about 30 %",
    why=say(
        f"A step takes {amount(half.time.bound, 's')} with 32 and {amount(full.time.bound, 's')} with 64 sequences: "
        f"{full.time.bound / half.time.bound:.2f} times as long for twice "
        f"the tokens, so {percent(2 * half.time.bound / full.time.bound - 1, 0)} more of them: {32 / half.time.bound:,.0f} and "
        f"{64 / full.time.bound:,.0f} tokens/s."
    ),
)

# %%
lengths = {"nothing cached": 0, "1024 tokens cached": 1023, "4096 tokens cached": 4095}
lines = {}
for title, context in lengths.items():
    most_of_it = roofline.analyze(LLAMA, A100, context=context, phase="decode").memory.max_batch
    drawn = sorted({*(size for size in sizes[:10] if size <= most_of_it), min(most_of_it, sizes[9])})
    lines[title] = (drawn, [step(size, context).time.bound for size in drawn])
looks = ("bound", "activations", "kv")
show(
    figure(
        curves(
            "throughput",
            "Throughput: tokens/s of all sequences, at most",
            ("batch", "sequences"),
            ("tokens/s", ""),
            {title: (at, [size / took for size, took in zip(at, times, strict=True)]) for title, (at, times) in lines.items()},
            roles=looks,
            marks=(("critical: 153", "x", critical.value),),
            note="Lines end where memory does. The longer the contexts, the lower throughput levels off.",
        )
    ),
    figure(
        curves(
            "latency",
            "Latency: the time of a step, at least",
            ("batch", "sequences"),
            ("a step", "s"),
            lines,
            roles=looks,
            marks=(("critical: 153", "x", critical.value),),
            note='"Barely increases at small batches" is the flat part. The longer the contexts, the shorter it is.',
        )
    ),
)

# %% [markdown]
# Where is a good place to stop? A step bound by memory reads the weights once, and a cache for each sequence. So throughput creeps
# towards a limit: what the device could do if it read nothing but caches. **Half of that limit** is reached when the caches are
# as large as the weights. Each further doubling gains less.

# %%
per_sequence = kv_read_bytes([(2 * n_kv * d_head * b_kv, None, L)], 1, S_c)
halfway = EXTRA[W] / core(step(1)).kv_read_bytes
rates = {batch: batch / step(batch).time.bound for batch in (32, 64)}
limit = 1 / (core(step(1)).kv_read_bytes / bandwidth)
eight = {context: step(8, context).time.bound / step(1, context).time.bound - 1 for context in (0, 4095)}
show(
    written(
        W / per_sequence,
        "The batch whose caches are as large as the weights: half of the limit",
        "sequences",
        "both read in the same time",
    ),
    say(
        f'Now two sentences of the lecture can be judged. *"Latency barely increases at small batches"*: from 1 to 8 sequences by '
        f'{percent(eight[0], 1)} with nothing cached, but by {percent(eight[4095], 0)} with 4096 tokens each. With caches, "small" means small against '
        f"{halfway:.0f}."
    ),
    say(
        f'*"Practical batch sizes: 32 to 64"*: at 4096 tokens that is {percent(rates[32] / limit, 0)} to {percent(rates[64] / limit, 0)} of the limit of '
        f"{limit:,.0f} tokens/s, a fair place to stop. With other contexts it is another place."
    ),
    takeaway(
        "Throughput grows with the batch towards a limit that the caches set; half of it is reached when caches weigh as much as "
        "weights. Every user pays with a longer step."
    ),
)

# %% [markdown]
# ## Play and practise

# %%
play(
    "One more sequence: what does it bring, and what does it cost? The dashed line of the picture is the batch with its contexts, the dotted one without.",
    controls=("model", "batch", "context", "kv_heads", "kv", "hardware", "bandwidth_gbs", "peak_tflops"),
    tiles=("rate", "step", "max_batch", "critical_batch", "kv_share", "intensity"),
    formulas=("critical_batch", "max_batch"),
    pictures=("batches", "roofline"),
    models=("llama-3.1-8b", "llama-2-7b", "llama-3.2-1b"),
    hardware=("a100-sxm-80gb", "h100-sxm", "h200-sxm"),
    batch=32,
    tries=(
        "Move the **batch** from 1 to 256 with a context of 100 tokens, then of 16,000. When do tokens/s stop growing?",
        "Set **KV heads** to 32, as Llama 2 has. What happens to the largest batch, and to tokens/s?",
        "Store the **KV cache** in fp8. Two reasons why throughput grows: which?",
        "Move the batch until the cache weighs as much as the weights (100 %). Compare tokens/s with those of a batch four times as large.",
    ),
)

# %%
promise = 1 / 40
request = prepare(LLAMA, A100)
tried = {size: pipeline(request, decode(size, 4095)) for size in range(1, fitting.value + 1)}
assert tried[64].bound == full.time.bound
kept = {kind: max(size for size, time in tried.items() if getattr(time, kind) <= promise) for kind in ("bound", "estimate")}
chat = {
    prefix: roofline.analyze(LLAMA, A100, context=4095, batch=100, shared_prefix=prefix, phase="decode", ignore_capacity=True)
    for prefix in (0, 2048)
}
show(
    worked(
        "a promise to users",
        "A service promises 40 tokens/s to each user. Contexts are 4096 tokens; the model is Llama 3.1 8B in bf16 on one "
        "A100. How large may the batch be? And which limit is it: "
        "memory, compute or the promise?",
        say(
            f"40 tokens/s are {amount(promise, 's')} a step. The weights take {amount(EXTRA[W] / bandwidth, 's')} of it, "
            "each cache "
            f"{amount(core(step(1)).kv_read_bytes / bandwidth, 's')}. That leaves time for about "
            f"{(promise - EXTRA[W] / bandwidth) / reads:.0f} sequences; with activations the toolkit's "
            f"bound allows **{kept['bound']}**."
        ),
        say(
            f"That is a bound: on paper no more than {kept['bound']} can be served so. With the kernels that were measured "
            f"it is **{kept['estimate']}**. Memory would hold "
            f"{fitting.value}, and the critical batch is {critical.value:.0f}: the promise is what limits."
        ),
    ),
    worked(
        "a long system prompt",
        "100 users, each with 4096 tokens, of which the first 2048 are the same system prompt. What does it save to keep and read it once?",
        table(
            ("shared", "cache of all", "a step, at least", "largest batch"),
            [
                (
                    f"{prefix} tokens",
                    f"{(prefix + 100 * (4096 - prefix)) * 131072 / 2**30:.1f} GiB",
                    amount(result.decode.time.bound, "s"),
                    result.memory.max_batch,
                )
                for prefix, result in chat.items()
            ],
            title="100 sequences of 4096 tokens, Llama 3.1 8B on an A100",
        ),
        "Nearly half of the cache, in memory and on the bus. The work of attention stays as it is: every query still meets every key.",
    ),
)

# %%
show(
    exercise("batching-critical-batch", 2),
    exercise("batching-sequences-that-fit", 3),
    exercise("batching-longer-step", 3),
    exercise("batching-is-it-possible", 1),
)

# %% [markdown]
# **More**: `roofline limits llama-3.1-8b --hardware a100-sxm-80gb` for all limits at once. Batches in service are not fixed: sequences
# come and go at every step (continuous batching), and prompts are cut into chunks to share steps with decode: lesson 7. Lesson 8
# asks what happens when the caches no longer fit. Next: how far all these bounds are from what is measured.
