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
# # 9. Quantization
#
# A decode step waits for bytes. So store the weights, or the cache, in fewer bytes: **quantization**. This lesson counts what that buys: the bits that a
# weight really takes, which steps get shorter and which do not, where the batch stops paying off, and which bytes remain. What quantization costs in
# answers is another question, which must be measured on tasks: read Kurtic et al. 2024, arXiv:2411.02355 (*Give Me BF16 or Give Me Death?*).

# %%
import numpy as np

import roofline
from roofline.blocks.model import Model
from roofline.formulas.symbolic import quantity
from roofline.predict.explain.explanation import explanation
from roofline.predict.request import prepare
from roofline.predict.timing import pipeline
from roofline.specs.quantization import SCHEMES
from roofline.specs.workload import decode, prefill
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
    say,
    show,
    table,
    takeaway,
    worked,
)

LLAMA, H100 = "llama-3.1-8b", "h100-sxm"

lesson(
    9,
    "Quantization",
    "Bits of a weight counted honestly, and what fewer bytes do to prefill, decode, batch and cache.",
    goals=[
        "count the bits of a quantized weight, scales included, and the bytes of a whole model",
        "say which steps get shorter with quantized weights, and which only if the products are in fewer bits too",
        "find where the critical batch moves",
        "count what a cache in fp8 buys",
        "bound the speed-up by the bytes that remain, and read an estimate beside it",
    ],
    prerequisites=[
        "lesson 2: the KV cache; lesson 3: the ridge point",
        "lesson 4: the critical batch; lesson 5: bounds and estimates",
    ],
    plan=[
        (8, "Fewer bytes per weight"),
        (11, "Bits, counted honestly"),
        (9, "What is multiplied"),
        (6, "The cache in fp8"),
        (6, "What stays"),
        (4, "Bound and estimate"),
        (6, "Play and practise"),
    ],
    exercises=[
        "quantization-effective-bits",
        "quantization-decode-floor",
        "quantization-critical-batch",
        "quantization-kv-cache",
    ],
)

# %%
SCHEME = {"bf16": "none", "W8A16": "w8a16", "W4A16": "w4a16", "fp8": "fp8"}
requests = {name: prepare(LLAMA, H100, quantization=scheme) for name, scheme in SCHEME.items()}


def step(name, phase, basis="bound"):
    """Seconds of a step of Llama 3.1 8B in a format."""
    return getattr(pipeline(requests[name], phase), basis)


def analysed(scheme="none", model=LLAMA, hardware=H100, **options):
    """A decode step, which may be more than fits."""
    return roofline.analyze(model, hardware, phase="decode", quantization=scheme, ignore_capacity=True, **options)


def derived(title, expr, values, unit, source="counted", legend=True):
    """A formula in symbols and with numbers."""
    return formula(explanation("lesson", expr, values, unit=unit, source=source), title=title, legend=legend)


layers = float(roofline.explain(LLAMA, "parameters").value) - 2 * 128256 * 4096
head = 128256 * 4096
one, long_prompt = decode(1, 0), prefill(1, 2048)

# %% [markdown]
# ## Fewer bytes per weight
#
# Formats have short names: **W4A16** has weights of 4 bits and activations of 16. The kernel reads 4 bits of each weight, widens them to bf16 on the chip, and
# multiplies in bf16: *weight-only* quantization. Linear layers are quantized; the LM head stays in bf16.

# %%
speed_up = step("bf16", one) / step("W8A16", one)
predict(
    f"Llama 3.1 8B has {layers / 1e9:.2f} billion weights in its layers and {head / 1e9:.3f} billion in its LM head. In bf16 all are 2 bytes. In W8A16 those "
    "of the layers are 1 byte. How many times shorter can a decode step of one sequence get, with nothing cached?",
    kind="ratio",
    answer=speed_up,
    tolerance=0.02,
    hints={
        2.0: "The LM head is read in bf16 in both cases.",
        1 / speed_up: "That is the time after over the time before.",
    },
    why=[
        (
            f"A decode step of one sequence waits for its weights, so times are as bytes: 2 x ({layers / 1e9:.2f} + {head / 1e9:.3f}) over "
            f"{layers / 1e9:.2f} + 2 x {head / 1e9:.3f}."
        ),
        formula("decode_floor", LLAMA, H100, quantization="w8a16", title="Shortest decode step in W8A16, by the toolkit"),
    ],
)

# %%
predict(
    "The same weights, and a prompt of 2,048 tokens. How many times shorter can its prefill get in W8A16?",
    {
        "twice": "The weights are read once for 2,048 tokens. Is it their bytes that prefill waits for?",
        "a little": "The bytes of the weights are hidden behind the products. Which format are those in?",
        "not at all": "",
    },
    answer="not at all",
    why="Prefill is bound by compute. The products are as many as before, and as they are in bf16, at the same peak. Widening the weights comes on top.",
)

# %%
show(
    table(
        ("format", "decode, 1 sequence", "shorter", "prefill, 2,048 tokens", "shorter"),
        [
            (
                name,
                amount(step(name, one), "s"),
                f"{step('bf16', one) / step(name, one):.2f}x",
                amount(step(name, long_prompt), "s"),
                f"{step('bf16', long_prompt) / step(name, long_prompt):.2f}x",
            )
            for name in ("bf16", "W8A16", "W4A16")
        ],
        title="Llama 3.1 8B on an H100, bounds",
        note="The weights are read in fewer bits, and multiplied in bf16.",
    ),
    takeaway(
        "Weight-only quantization shortens what waits for weights: decode at small batch. Prefill computes as much as before, in the same format."
    ),
)

# %% [markdown]
# ## Bits, counted honestly
#
# Four bits give 16 levels. Which numbers do they stand for? A group of weights shares a **scale**: a weight is its level times the scale. One large weight
# would make the levels of its group coarse, so groups are small; and each scale has to be stored and read. Here it is, for one group.

# %% tags=["open"]
rng = np.random.default_rng(0)
weights = rng.normal(0, 0.02, 128).astype(np.float32)  # a group of 128
scale = np.abs(weights).max() / 7  # the largest becomes 7
levels = np.clip(np.round(weights / scale), -8, 7).astype(np.int8)  # what is stored, in 4 bits
again = levels * scale  # what the kernel multiplies by
assert np.abs(again - weights).max() <= scale / 2 * 1.0001

# %%
say(
    f"The first weights, {', '.join(f'{value:.4f}' for value in weights[:4])}, become the levels {', '.join(map(str, levels[:4]))}, and come back as "
    f"{', '.join(f'{value:.4f}' for value in again[:4])}: off by half a scale at most. If zero is not in the middle of a group, a **zero point** is stored too."
)

# %%
draw(
    "quantized-group",
    {"AWQ": {"scheme": "awq"}, "MXFP4": {"scheme": "mxfp4"}, "fp8 blocks": {"scheme": "fp8_block"}},
    about="Format",
)

# %%
bits, scale_bits, group = (
    quantity("b", "b", "bits", "of a weight"),
    quantity("b_scale", r"b_{\mathrm{scale}}", "bits", "of the scale of a group"),
    quantity("g", "g", "weights", "of a group"),
)
per_weight = bits + scale_bits / group
predict(
    "W4A16: a weight has 4 bits, and 128 of them share a scale of 16 bits. How many bits does a weight take, everything counted?",
    kind="ratio",
    answer=4 + 16 / 128,
    tolerance=0.005,
    hints={
        4.0: "The scale is stored and read, too.",
        20.0: "128 weights share one scale.",
        4.03125: "The group has 128 weights.",
    },
    why=[
        derived("Effective bits of a weight", per_weight, {bits: 4, scale_bits: 16, group: 128}, "bits"),
        "Groups of 32 would take 4.5 bits: finer scales cost as much as half a bit.",
    ],
)

# %%
FORMATS = {
    "fp8, a scale per matrix": "fp8",
    "fp8, blocks of 128 x 128": "fp8_block",
    "int8, a scale per output": "w8a8",
    "MXFP8, blocks of 32": "mxfp8",
    "W4A16, groups of 128": "w4a16",
    "AWQ, groups of 128": "awq",
    "GPTQ, groups of 128": "gptq",
    "MXFP4, blocks of 32": "mxfp4",
    "NVFP4, blocks of 16": "nvfp4",
}
SIDE = 4096


def effective_bits(scheme):
    """Bits per weight of a matrix of 4096 x 4096, with all that is stored beside the elements."""
    layout = SCHEMES[scheme](name=scheme).format
    stored = SIDE * SIDE * float(layout.bytes) + float(layout.metadata_bytes([(SIDE, SIDE)]))
    return stored * 8 / SIDE**2


BESIDE = {
    "weight_scale": "scale",
    "weight_scale_inv": "scale",
    "scales": "scale",
    "qzeros": "zero point",
    "g_idx": "group of each input",
}
BESIDE |= {"weight_scale_2": "scale of the scales"}
show(
    table(
        ("format", "bits per weight", "stored beside the elements", "multiplied in"),
        [
            (
                title,
                f"{effective_bits(scheme):.3f}",
                ", ".join(BESIDE[entry.name] for entry in SCHEMES[scheme](name=scheme).format.metadata if entry.name in BESIDE),
                SCHEMES[scheme](name=scheme).format.multiply or "bf16, as activations",
            )
            for title, scheme in FORMATS.items()
        ],
        title="Effective bits, of a matrix of 4096 x 4096",
        note="AWQ has a zero point of 4 bits per group beside the scale of 16. An H100 multiplies fp8 and int8, not fp4.",
    ),
)

# %% [markdown]
# These are bits of a weight *in a linear layer*. And the model?

# %%
small = analysed("w4a16", context=0).memory.weights_bytes
total = analysed(context=0).model["parameters"]["total"]
predict(
    f'Llama 3.1 8B has {total / 1e9:.2f} billion parameters. "Four bits, so {total / 2e9:.1f} GB." What do its weights take in W4A16?',
    {
        "4.0 GB": "Scales are stored, too, and not every matrix is quantized.",
        "4.1 GB": "That is with the scales, if all matrices were quantized. Which two are not?",
        "5.7 GB": "",
    },
    answer="5.7 GB",
    why=f"{small / 1e9:.2f} GB, {small * 8 / total:.2f} bits per parameter. Embedding and LM head, {2 * head / 1e9:.2f} billion parameters, stay in bf16 and take "
    f"{4 * head / 1e9:.1f} GB of it. Of a larger model they are a smaller part.",
)


# %%
def published_bytes(name, at=None):
    """Parameters and bytes of a model as its file describes it, or of one of its other checkpoints."""
    model = roofline.load_model(name)
    if at is not None:
        model = Model.model_validate(
            {**model.model_dump(), "quantization": [one.model_dump() for one in model.checkpoints[at].quantization]}
        )
    memory = roofline.analyze(model, "h200-sxm", phase="decode", context=0, ignore_capacity=True)
    return memory.model["parameters"]["total"], memory.memory.weights_bytes


CHECKPOINTS = {
    "openai/gpt-oss-20b, MXFP4 experts": ("gpt-oss-20b", None),
    "openai/gpt-oss-120b, MXFP4 experts": ("gpt-oss-120b", None),
    "deepseek-ai/DeepSeek-V3, fp8 blocks": ("deepseek-v3", None),
    **{
        f"{roofline.load_model(name).checkpoints[at].hf_id}": (name, at)
        for name, at in (("llama-3.1-8b", 0), ("qwen3-32b", 0), ("llama-3.3-70b", 1))
    },
}
sizes = {title: published_bytes(*where) for title, where in CHECKPOINTS.items()}
show(
    table(
        ("checkpoint", "parameters", "bytes of weights", "bits per parameter"),
        [
            (title, f"{count / 1e9:.1f} billion", f"{size:,.0f}", f"{size * 8 / count:.2f}")
            for title, (count, size) in sizes.items()
        ],
        title="Published checkpoints",
        note="As the toolkit counts them. Its tests compare such sizes with the files: they are equal to the byte.",
    ),
    takeaway(
        "Count scales, zero points and whatever stays in 16 bits. A weight of W4A16 takes 4.125 bits, a parameter of a small model in W4A16 nearer to 6."
    ),
)

# %% [markdown]
# ## What is multiplied
#
# A device may also *multiply* in fewer bits. For that activations are quantized as well, on the way, by a scale for each token or tensor: **W8A8**. In fp8 the
# matrix units of an H100 do twice as many FLOP/s as in bf16.
#
# The **critical batch** of lesson 4 is where linear layers turn from waiting for memory to computing. Their intensity is twice the batch over the bytes per
# weight; the critical batch is where that equals the ridge point, $P$ over $\beta$.

# %%
card = roofline.load_hardware(H100)
ridges = {name: card.peak(name) / card.bandwidth for name in ("bf16", "fp8")}
critical = {
    name: float(roofline.explain(LLAMA, "critical_batch", H100, quantization=scheme).value) for name, scheme in SCHEME.items()
}
predict(
    f"In bf16 the critical batch of an H100 is {critical['bf16']:.0f}. In fp8 a weight is one byte instead of two, and the peak is twice as high. The critical batch",
    {
        "halves": "Half the bytes alone would halve it. But the products are faster, too.",
        "stays": "",
        "doubles": "A higher peak alone would double it. But there are fewer bytes, too.",
    },
    answer="stays",
    why=f"Half the bytes raise the intensity twofold, and twice the peak raises the ridge point twofold, from {ridges['bf16']:.0f} to {ridges['fp8']:.0f} FLOP/byte. "
    "(The LM head has both as before.)",
)

# %%
predict(
    f"And in W4A16? Take the layers alone, with 4.125 bits per weight, multiplied in bf16, and {critical['bf16']:.1f} in bf16. Their critical batch is",
    kind="sequences",
    answer=critical["bf16"] * 4.125 / 16,
    tolerance=0.04,
    hints={
        critical["bf16"]: "Fewer bytes, and the same products: it moves.",
        critical["bf16"]
        * 16
        / 4.125: "Turned round: with fewer bytes to wait for, compute is the bound from a smaller batch on.",
    },
    why=[
        f"4.125 of 16 bits: about a quarter. With the LM head in bf16 it is {critical['W4A16']:.0f}.",
        formula(
            "critical_batch",
            LLAMA,
            H100,
            quantization="w4a16",
            title="Critical batch in W4A16: all weights, over the time of one sequence",
        ),
        formula("critical_batch", LLAMA, H100, title="In bf16", legend=False),
    ],
)

# %%
batches = [2**power for power in range(11)]
by_batch = {name: [step(name, decode(batch, 256)) for batch in batches] for name in ("bf16", "W4A16", "fp8")}
low, even = 1, 1024  # fp8 is slower at the first and faster at the last
while even - low > 1:
    middle = (low + even) // 2
    wins = step("fp8", decode(middle, 256)) <= step("W4A16", decode(middle, 256))
    low, even = (low, middle) if wins else (middle, even)
show(
    figure(
        curves(
            "by-batch",
            "Decode step by batch, 256 tokens cached",
            ("batch", "sequences"),
            ("step, at least", "s"),
            {name: (batches, times) for name, times in by_batch.items()},
            roles=("bound", "decode", "compute"),
            marks=((f"fp8 = W4A16: {even}", "x", even),),
            note="Bounds on an H100. W4A16 meets bf16 where both compute; fp8 keeps its lead there.",
        )
    ),
    say(
        f"Four bits win at small batch, fp8 from {even} sequences on. At 1,024 sequences W4A16 gains "
        f"{by_batch['bf16'][-1] / by_batch['W4A16'][-1]:.2f}x over bf16 and fp8 {by_batch['bf16'][-1] / by_batch['fp8'][-1]:.2f}x. Prefill of 2,048 tokens gains "
        f"{step('bf16', long_prompt) / step('fp8', long_prompt):.2f}x in fp8: products of attention and the LM head stay in bf16."
    ),
    takeaway(
        "Weight-only formats divide the critical batch; W8A8 keeps it, and speeds up prefill as well. Few sequences: fewest bits. Many, or long prompts: fp8."
    ),
)

# %% [markdown]
# ## The cache in fp8
#
# Keys and values may be stored in 8 bits, whatever the weights are: $b_{kv}$ goes from 2 to 1. The cache of a token is half; memory holds twice as many
# tokens; and attention reads half.

# %%
LONG = 4096
halved = {kv: analysed(batch=64, context=LONG, kv_cache_dtype=kv) for kv in ("bf16", "fp8")}
token = halved["bf16"].memory.kv_bytes_per_token
cache_read = 64 * LONG * token
saved_weights = 2 * layers - layers * 4.125 / 8
predict(
    f"64 sequences with {LONG:,} cached tokens each, of {token:,.0f} bytes. The weights of the layers are {2 * layers / 1e9:.1f} GB in bf16. Which one shortens the step more?",
    {
        "weights in 4 bits": f"That saves {saved_weights / 1e9:.1f} GB. How large is the cache of 64 sequences?",
        "the cache in 8 bits": "",
        "both the same": "Multiply: sequences, tokens, bytes. Half of that is saved.",
    },
    answer="the cache in 8 bits",
    why=f"The caches are {cache_read / 1e9:.1f} GB, and half of that, {cache_read / 2e9:.1f} GB, is saved. Four bits instead of 16 save {saved_weights / 1e9:.1f} GB of the weights.",
)

# %%
PAIRS = {
    "bf16, cache bf16": ("none", "bf16"),
    "W4A16, cache bf16": ("w4a16", "bf16"),
    "bf16, cache fp8": ("none", "fp8"),
    "fp8, cache fp8": ("fp8", "fp8"),
    "W4A16, cache fp8": ("w4a16", "fp8"),
}
pairs = {name: analysed(scheme, batch=64, context=LONG, kv_cache_dtype=kv) for name, (scheme, kv) in PAIRS.items()}
full = {
    name: analysed(scheme, batch=pairs[name].memory.max_batch, context=LONG, kv_cache_dtype=kv)
    for name, (scheme, kv) in PAIRS.items()
}
show(
    table(
        ("weights and cache", "weights", "step, 64 sequences", "sequences that fit", "tokens/s of those, at most"),
        [
            (
                name,
                f"{one.memory.weights_bytes / 1e9:.1f} GB",
                amount(one.decode.pipeline.bound, "s"),
                one.memory.max_batch,
                f"{one.memory.max_batch / full[name].decode.pipeline.bound:,.0f}",
            )
            for name, one in pairs.items()
        ],
        title=f"Llama 3.1 8B on an H100, {LONG:,} tokens cached, bounds",
        note="90 % of the memory is used. Scales of the cache, one or two per layer, are not counted.",
    ),
    takeaway(
        "A cache in fp8 doubles what memory holds and halves what attention reads. With many long sequences it is worth more than any format of weights."
    ),
)

# %% [markdown]
# ## What stays
#
# Whatever is not quantized is read as before: the LM head, norms, scales, activations, the cache (and the embedding stays in memory). As with Amdahl's
# law, what stays limits the whole.

# %%
weight_bytes, context_bytes = (
    quantity("W", "W", "bytes", "weights read in a step"),
    quantity("D_cache", r"D_{\mathrm{cache}}", "bytes", "cache read in a step"),
)
read = 2 * (layers + head)
beside = 32 * 8192 * token
predict(
    f"32 sequences with 8,192 tokens each: {beside / 1e9:.1f} GB of cache, beside {read / 1e9:.1f} GB of weights. With a quarter of the bits, or with none at all: "
    "how many times shorter can the step get **at the most** by quantizing weights alone?",
    kind="ratio",
    answer=(read + beside) / beside,
    tolerance=0.03,
    hints={
        4.0: "A quarter of the weights. The cache stays.",
        read / beside: "The cache is in the time before, too.",
        (read + beside) / (read / 4 + beside): "That is a quarter of the bits. With no bits at all?",
    },
    why=derived(
        "Speed-up with weights of no bytes at all",
        (weight_bytes + context_bytes) / context_bytes,
        {weight_bytes: read, context_bytes: beside},
        "",
    ),
)

# %%
contexts = [2**power for power in range(8, 18)]
gains = {
    f"{batch} sequence{'s' if batch > 1 else ''}": [
        step("bf16", decode(batch, context)) / step("W4A16", decode(batch, context)) for context in contexts
    ]
    for batch in (1, 8, 32)
}
parts = {
    name: {
        "linear layers": sum(op.cost.weight_bytes for op in one.decode.operators if op.kind == "gemm" and op.path != "lm_head"),
        "LM head": next(op.cost.weight_bytes for op in one.decode.operators if op.path == "lm_head"),
        "KV cache": one.decode.cost.kv_read_bytes + one.decode.cost.kv_write_bytes,
        "activations": one.decode.cost.activation_bytes,
    }
    for name, one in {
        "bf16": analysed(batch=16, context=LONG),
        "W4A16, cache fp8": analysed("w4a16", batch=16, context=LONG, kv_cache_dtype="fp8"),
    }.items()
}
show(
    figure(
        bars(
            "bytes",
            "What a step reads and writes: 16 sequences, 4,096 tokens each",
            ("GB", "GB"),
            {name: {part: size / 1e9 for part, size in sizes.items()} for name, sizes in parts.items()},
            roles=("bound", "kv"),
        )
    ),
    figure(
        curves(
            "gains",
            "W4A16 against bf16: times shorter",
            ("tokens cached, per sequence", "tokens"),
            ("bf16 over W4A16", ""),
            {name: (contexts, values) for name, values in gains.items()},
            roles=("decode", "mixed", "kv"),
            scales=("log", "linear"),
            low=1,
            note="Bounds on an H100. The more cache is read, the less weights matter.",
        )
    ),
    takeaway("What is not quantized sets the limit. Ask first what a step reads; quantize the largest part."),
)

# %% [markdown]
# ## Bound and estimate
#
# Bounds count bytes and FLOP. Kernels also have launches, and work on the way: weights are widened, activations quantized. Lesson 5's estimates
# have that in them, from measurements.

# %%
here = {name: pipeline(requests[name], decode(1, 1024)) for name in ("bf16", "fp8", "W4A16")}
predict(
    f"In fp8 a decode step of one sequence could be {here['bf16'].bound / here['fp8'].bound:.1f} times shorter than in bf16, by the bound. vLLM's fp8 kernels on an "
    "H100 were measured, with the quantization of activations in them. By the estimate it is shorter by a factor of",
    {
        "1.8 or more": "Each of the many products is preceded by a quantization of its input, which takes time and moves few bytes.",
        "about 1.4": "",
        "less than 1": "The bytes do count: the estimate is of kernels that read half of them.",
    },
    answer="about 1.4",
    why=f"{here['bf16'].estimate / here['fp8'].estimate:.2f}: at one sequence each product is short, and what is done for each product does not shrink with the bytes.",
)

# %%
prompts = {name: pipeline(requests[name], long_prompt) for name in here}
show(
    table(
        ("format", "bound", "estimate", "8 of 10 between", "shorter, by bound", "by estimate", "prefill shorter, by estimate"),
        [
            (
                name,
                amount(one.bound, "s"),
                amount(one.estimate, "s"),
                f"{amount(one.low, 's')} and {amount(one.high, 's')}",
                f"{here['bf16'].bound / one.bound:.2f}x",
                f"{here['bf16'].estimate / one.estimate:.2f}x",
                f"{prompts['bf16'].estimate / prompts[name].estimate:.2f}x",
            )
            for name, one in here.items()
        ],
        title="One sequence, 1,024 tokens cached, on an H100 with vLLM's kernels",
        note="What they rest on: bf16 and fp8 products were measured on this card. No weight-only kernel is in the records: the fit of bf16 kernels stands in "
        "for W4A16, with fewer bytes and a wider interval.",
    ),
    takeaway("The bytes give the limit, kernels say how near one gets. Ask of an estimate which kernels were measured."),
)

# %% [markdown]
# ## Play and practise

# %%
play(
    "Formats of weights and of the cache, on one device. Times are bounds.",
    controls=("model", "weights", "kv", "batch", "context", "input_len", "hardware"),
    tiles=("weights", "kv_bytes", "step", "prefill", "critical_batch", "max_batch", "rate"),
    formulas=("decode_floor", "kv_bytes_per_token"),
    pictures=("batches", "roofline"),
    models=("llama-3.1-8b", "llama-3.1-70b", "qwen3-8b"),
    hardware=("h100-sxm", "a100-sxm-80gb", "h200-sxm"),
    context=1023,
    input_len=2048,
    tries=(
        "Go from bf16 to **int4**, then to **fp8**. Which tiles move in both, which in one only?",
        "Set a **batch** of 256. Which format has the shortest step now, and why?",
        "Take the **A100**, which has no fp8 units. What does fp8 still buy, and what not?",
        "Llama 3.1 **70B**: in which formats does it fit on one H100, and with how many sequences?",
    ),
)

# %%
BIG, MANY = "llama-3.1-70b", 4095
fits = {
    name: roofline.analyze(BIG, H100, phase="decode", context=MANY, quantization=SCHEME[name], ignore_capacity=True)
    for name in ("bf16", "fp8", "W4A16")
}
fits["W4A16, cache fp8"] = roofline.analyze(
    BIG, H100, phase="decode", context=MANY, quantization="w4a16", kv_cache_dtype="fp8", ignore_capacity=True
)
claim = {name: step(name, decode(128, 1024)) for name in ("bf16", "W4A16")}
show(
    worked(
        "find the mistake",
        'A post: "We quantized our 8B model to 4 bits. Weights are read four times as fast, so our H100, which serves 128 chats of 1,024 tokens at a time, '
        'now gives four times the tokens."',
        f"A step of 128 chats reads {128 * 1024 * token / 1e9:.1f} GB of cache, which stays, beside {read / 1e9:.1f} GB of weights, and from "
        f"{critical['W4A16']:.0f} sequences on the linear layers compute. By the bounds the step goes from {amount(claim['bf16'], 's')} to "
        f"{amount(claim['W4A16'], 's')}: **{claim['bf16'] / claim['W4A16']:.2f} times** the tokens, not four.",
    ),
    worked(
        "a 70B model on one card",
        "Llama 3.1 70B on one H100 with 80 GB, of which the engine uses 90 %. In which formats does it fit, and how many sequences of 4,096 tokens beside it?",
        table(
            ("format", "weights", "sequences of 4,096 tokens", "decode step of one, at least"),
            [
                (
                    name,
                    f"{one.memory.weights_bytes / 1e9:.1f} GB",
                    one.memory.max_batch,
                    amount(one.decode.pipeline.bound, "s") if one.memory.max_batch else "–",
                )
                for name, one in fits.items()
            ],
            title="Llama 3.1 70B, one H100",
            note="0: the weights alone are more than the memory.",
        ),
        "In fp8 it runs, with hardly any memory left for caches. Four bits make it a server, and a cache in fp8 one for twice as many.",
    ),
)

# %%
show(
    exercise("quantization-effective-bits", 1),
    exercise("quantization-decode-floor", 1),
    exercise("quantization-critical-batch", 1),
    exercise("quantization-kv-cache", 1),
)

# %% [markdown]
# **More**: `roofline analyze llama-3.1-8b --hardware h100-sxm --quantization w4a16 --kv-cache-dtype fp8`, and the page on conventions
# of the documentation for the layout of each scheme. Next: reading the weights once for several tokens of one sequence.
