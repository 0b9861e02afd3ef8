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
# # 5. Measured against predicted
#
# The bound of an operator says what no kernel can beat. Real kernels take longer: some by a tenth, some by a factor of a hundred.
# Where does that time go? How is a time measured so that it can be trusted? And what does "median error 5 %" claim?

# %%
import time

import numpy as np

import roofline
from roofline.formatting import percent
from roofline.graph.build import build
from roofline.measure.records.columns import dtypes
from roofline.operators.gemm import Gemm
from roofline.predict.efficiency.kernels import Kernel, kernels
from roofline.predict.request import prepare
from roofline.specs.workload import decode as decode_step
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
from roofline.teach.worksheets.worked import formula as written

LLAMA, A100, H100, L40S = "llama-3.1-8b", "a100-sxm-80gb", "h100-sxm", "l40s"

lesson(
    5,
    "Measured against predicted",
    "Where real kernels lie and why, how they are measured well, and what an error of 5 % says.",
    goals=[
        "keep a bound, an estimate and a measurement apart",
        "explain the gap between bound and measurement by tiles, waves, launches, caches and clocks",
        "measure a kernel so that another person gets the same number",
        "find the likeliest explanation of a time below its bound",
        "say what a median error and an 80 % interval promise",
    ],
    prerequisites=[
        "lesson 3: ridge point, memory-bound and compute-bound",
        "lesson 3, the picture of an accelerator: streaming multiprocessors (SMs), L2 cache, memory",
    ],
    plan=[
        (8, "Three numbers"),
        (14, "Where the time goes"),
        (9, "A time that can be trusted"),
        (6, "Faster than possible"),
        (6, "How far off, and how often"),
        (7, "Play and practise"),
    ],
    exercises=["measured-mbu", "measured-waves", "measured-below-the-bound", "measured-median-error"],
)

# %% [markdown]
# ## Three numbers
#
# Every step has three times. Most quarrels about performance mix two of them.
#
# * The **bound** follows from counts and the datasheet. Nothing is faster.
# * The **estimate** says what kernels *like this one* were measured to take on this accelerator. It comes with an interval.
# * The **measurement** is one machine on one day, with its clocks, caches and libraries.
#
# Take one decode step of Llama 3.1 8B on an A100, after 4095 tokens.

# %%
one_step = roofline.analyze(LLAMA, A100, context=4095, phase="decode", backend="vllm").decode
took = one_step.time
ratio = took.estimate / took.bound
assert 1.5 < ratio < 1.8
predict(
    f"The bound is {amount(took.bound, 's')}. How long do vLLM's kernels take, judging by measurements on an A100?",
    {
        "as long, within 5 %": "That would need every kernel at full bandwidth, and no time between them.",
        f"{ratio:.1f} times as long": "",
        "4 times as long": "So bad they are not: long reads of weights come near the memory's rate.",
        "16 times as long": "Some kernels of the step are much worse than that. But they are short.",
    },
    answer=f"{ratio:.1f} times as long",
    why=f"The estimate is **{amount(took.estimate, 's')}**, with an 80 % interval from {amount(took.low, 's')} to "
    f"{amount(took.high, 's')}. The rest of this lesson is about the difference.",
)


# %%
products = [op for op in one_step.operators if op.cost.matrix_flops and not op.path.endswith("attention/core")]
small = [op for op in one_step.operators if not op.cost.matrix_flops]


def gap(operators):
    """The share of the step's gap between bound and estimate, and estimate over bound."""
    bound, estimate = (sum(getattr(op.time, name) for op in operators) for name in ("bound", "estimate"))
    return (estimate - bound) / (took.estimate - took.bound), estimate / bound


show(
    figure(
        bars(
            "gap",
            "Bound and estimate, kernel by kernel",
            ("time of all layers, ms", ""),
            {
                label: {
                    op.path.removeprefix("layers/"): getattr(op.time, label) * 1e3
                    for op in one_step.operators
                    if op.time.estimate > 5e-5
                }
                for label in ("bound", "estimate")
            },
            roles=("bound", "estimate"),
            note="Kernels that take more than 50 µs in all layers together.",
        )
    ),
    say(
        f"Products with weights take {gap(products)[1]:.2g} times their bound, and make up {percent(gap(products)[0], 0)} of the gap. "
        f"Norms, rotations and the other small kernels take {gap(small)[1]:.0f} times theirs: they move next to nothing, so their bound "
        f"is next to nothing. They are {percent(gap(small)[0], 0)} of the gap."
    ),
    takeaway(
        "A bound is what is possible, an estimate what is usual, a measurement what was. Say which one you quote. The worst *ratios* "
        "are those of tiny kernels; most of the *time* is lost in long ones."
    ),
)

# %% [markdown]
# ## Where the time goes
#
# **Tiles and waves.** A product with a weight matrix cuts its outputs into tiles, say of 128 x 128, and deals them to the SMs. An A100
# has 108 SMs. Tiles 1 to 108 run side by side: that is a *wave*. Tile 109 waits for the next one.

# %%
estimators = {card: prepare(LLAMA, card, backend="vllm").estimator for card in (A100, H100)}


def product(tokens, card=A100, n=4096, k=4096):
    """A product of `tokens` tokens with an n x k matrix in bf16: its bound, and what kernels like it take."""
    gemm, hardware = Gemm(m=tokens, n=n, k=k), roofline.load_hardware(card)
    cost = gemm.cost()
    bound = max(cost.matrix_flops / hardware.peak("bf16"), cost.bytes / hardware.bandwidth)
    return bound, estimators[card].interval(Kernel("gemm", {"": gemm}, ("",), 1))


(before_bound, before), (after_bound, after) = product(384), product(385)
step_up = after.seconds / before.seconds
assert 1.55 < step_up < 1.8
predict(
    "A product with a 4096 x 4096 matrix on an A100 has 384 tokens. Then one more comes: 385. Its time rises by",
    {
        "0.3 %, as the work does": "The work does. How many rows of tiles of 128 are 384 tokens, and how many 385?",
        "a tenth": "More than that: count tiles, and SMs.",
        "two thirds": "",
        "three times": "Two waves instead of one could double it at the most.",
    },
    answer="two thirds",
    why=f"Estimated are {amount(before.seconds, 's')}, then **{amount(after.seconds, 's')}**. 384 tokens are 3 rows of 32 tiles: 96 "
    f"tiles, one wave. The 385th begins a fourth row: 128 tiles, two waves. In the second one {2 * 108 - 128} of 108 SMs are idle.",
)

# %%
draw("tiles-and-waves", {"384 tokens": {"tokens": 384}, "385 tokens": {"tokens": 385}}, about="Tokens", hardware=A100)

# %%
grid = sorted({edge + more for edge in range(64, 1025, 64) for more in (0, 1)} | {1, 16, 32})
lines = {m: product(m) for m in grid}
h100_step = product(385, H100)[1].seconds / product(384, H100)[1].seconds
show(
    figure(
        curves(
            "stairs",
            "The same product, token by token",
            ("tokens", "tokens"),
            ("time", "s"),
            {
                "bound": (grid, [lines[m][0] for m in grid]),
                "estimate": (grid, [lines[m][1].seconds for m in grid]),
                "low": (grid, [lines[m][1].low for m in grid]),
                "high": (grid, [lines[m][1].high for m in grid]),
            },
            roles=("bound", "estimate", "roof-achievable", "roof-achievable"),
            scales=("linear", "linear"),
            low=0,
            note="The bound bends once, at the ridge. Kernels climb stairs. Low and high: 8 of 10 measurements lay between them.",
        )
    ),
    say(
        f"An H100 has 132 SMs: 128 tiles are still one wave, and the step from 384 to 385 tokens costs {percent(h100_step - 1, 0)}. Each chip has "
        "stairs of its own."
    ),
)

# %% [markdown]
# **Memory below its datasheet.** The datasheet gives the rate of the pins. But rows of memory have to be opened and refreshed, and a
# kernel needs time until enough reads are under way.
#
# **Clocks.** The peak assumes a boost clock. A product that keeps all tensor cores at work draws so much power that the clock falls.
#
# Both can be fitted to measured products:

# %%
fits = {
    card: prepare(LLAMA, card, backend="vllm").estimator.fitted(Kernel("gemm", {"": Gemm(m=1, n=1, k=1)}, ("",), 1))
    for card in (A100, H100, L40S)
}
assert fits[H100].family.parameters["throttle"] > 0.05
table(
    ("accelerator", "bandwidth reached", "longer by lower clocks", "launch"),
    [
        (
            roofline.load_hardware(card).title,
            f"{percent(fit.family.parameters['memory'], 0)} of the datasheet's",
            f"up to {percent(fit.family.parameters['throttle'], 1)}"
            if "throttle" not in fit.family.undetermined
            else "unknown",
            amount(fit.family.parameters["launch"], "s"),
        )
        for card, fit in fits.items()
    ],
    title="What measured bf16 products say of three accelerators",
    note="vLLM's kernels, fitted to the public records of AIConfigurator.",
)

# %% [markdown]
# **Launches.** A kernel has to be started. That takes the device a microsecond or so, and the host several. The host runs ahead, so its
# work is hidden while kernels are long. A decode step of a small model has many short ones.


# %%
def calls(name):
    """Kernels of one decode step."""
    request = prepare(name, H100)
    return sum(
        int(kernel.repeat)
        for kernel in kernels(build(request.model, request.deployment, request.precision, decode_step(1, 512)))
    )


HOST = 10e-6
device = {
    name: roofline.analyze(name, H100, context=512, phase="decode", backend="vllm").decode.time.estimate
    for name in ("llama-3.2-1b", "qwen3-32b")
}
host = {name: calls(name) * HOST for name in device}
assert host["llama-3.2-1b"] > device["llama-3.2-1b"]
assert host["qwen3-32b"] < device["qwen3-32b"]
predict(
    f"Llama 3.2 1B has {calls('llama-3.2-1b')} kernels per decode step, which take {amount(device['llama-3.2-1b'], 's')} on an H100. The "
    "host needs 10 µs to start each of them. Who waits for whom?",
    {
        "the host for the device": "Multiply: kernels times 10 µs.",
        "the device for the host": "",
        "neither, they work at the same time": "They do, and so the longer of the two decides.",
    },
    answer="the device for the host",
    why=f"The host needs **{amount(host['llama-3.2-1b'], 's')}**, and the longer of the two is the step. For Qwen3 32B it is the other way "
    f"round: {amount(host['qwen3-32b'], 's')} on the host, {amount(device['qwen3-32b'], 's')} on the device. (10 µs are an assumption, "
    "usual for PyTorch.) A **CUDA graph** records the kernels of a step once and starts them all in one call.",
)

# %%
draw("launch-gaps", model="llama-3.2-1b", hardware=H100, launch=HOST)

# %%
takeaway(
    "Between bound and kernel lie tiles at the edge, waves that are not full, missing bandwidth, falling clocks, and some microseconds "
    "per launch. Long kernels lose a part of the time to these; short ones are little else."
)

# %% [markdown]
# ## A time that can be trusted
#
# This project has measured kernels on a processor: a host with two cores of an AMD EPYC (`measurements/`). It is slower than a GPU, but
# the traps are the same.

# %%
RECORDS = """\
op,dtype,m,n,k,bytes,cache,latency_us,latency_p10_us,latency_p90_us
copy_d2d,fp32,,,,4096,warm,1.2505,1.2440,1.2621
copy_d2d,fp32,,,,65536,warm,2.4231,2.4123,2.4414
copy_d2d,fp32,,,,1048576,warm,14.2049,14.1645,16.1076
copy_d2d,fp32,,,,4194304,warm,47.7395,47.5678,48.4747
copy_d2d,fp32,,,,16777216,warm,234.8180,210.5079,274.6035
copy_d2d,fp32,,,,67108864,warm,1616.8230,1572.6825,1674.4775
copy_d2d,fp32,,,,268435456,warm,12092.8550,11974.6800,12253.1530
copy_d2d,fp32,,,,1048576,cold,74.1117,67.0997,88.3182
copy_d2d,fp32,,,,4194304,cold,227.9830,224.2300,236.9731
copy_d2d,fp32,,,,16777216,cold,885.2980,821.9490,936.9403
copy_d2d,fp32,,,,67108864,cold,1899.5225,1791.6779,2045.4691
copy_d2d,fp32,,,,268435456,cold,12903.8030,12703.9893,13318.9423
gemm,fp32,1,16384,2048,,cold,7160.9810,6936.4408,7403.8384
gemm,fp32,4,16384,2048,,cold,19111.7850,18876.9012,19442.5542
gemm,fp32,16,16384,2048,,cold,20868.7565,20736.3040,20992.8909
gemm,fp32,64,16384,2048,,cold,38590.3550,38436.2908,39438.0260
gemm,fp32,256,16384,2048,,cold,116554.0560,115812.3608,118727.7648
gemm,fp32,1024,16384,2048,,cold,385213.1770,379835.4472,400243.4212
gemm,fp32,2048,2048,2048,,warm,85722.7000,85060.5972,87541.7628
gemm,int8,512,512,512,,warm,347.8960,343.2680,605.5094
add,fp32,,,,,warm,1.5051,1.4929,1.6168
"""
LAST_CACHE = 33_554_432  # bytes: 32 MiB

# %%
head, *lines_of_records = RECORDS.splitlines()
records = [dict(zip(head.split(","), line.split(","), strict=True)) for line in lines_of_records]
copies = [row for row in records if row["op"] == "copy_d2d"]
moved = {row["bytes"]: 2 * int(row["bytes"]) for row in copies}  # read and written
bandwidth = max(moved[row["bytes"]] / float(row["latency_p10_us"]) * 1e6 for row in copies if row["cache"] == "cold")
square = next(row for row in records if row["op"] == "gemm" and row["m"] == "2048")
peak = Gemm(m=2048, n=2048, k=2048).cost().matrix_flops / float(square["latency_p10_us"]) * 1e6
warm4 = next(row for row in copies if (row["bytes"], row["cache"]) == ("4194304", "warm"))
cold4 = next(row for row in copies if (row["bytes"], row["cache"]) == ("4194304", "cold"))
seen = moved["4194304"] / float(warm4["latency_us"]) * 1e6
show(
    say(
        f"It has no datasheet, so its ceilings are the best that was seen: **{amount(bandwidth, 'bytes/s')}** by the fastest copy "
        f"from cold memory, **{amount(peak, 'FLOP/s')}** by the fastest product in fp32."
    ),
    predict(
        f"A copy of 4 MiB, run 50 times in a row, took {float(warm4['latency_us']):.1f} µs in the median. It reads 4 MiB and writes 4 MiB: "
        f"{amount(seen, 'bytes/s')}, more than twice what this memory can do. What was measured?",
        {
            "the last cache of the processor": "",
            "nothing real: some timer is broken": "The timer of this host ticks every 60 ns, and the samples agree within 2 %.",
            "a copy that the compiler left out": "Then 4 KiB and 4 MiB would take as long. They do not.",
        },
        answer="the last cache of the processor",
        why="8 MiB fit into its 32 MiB, and from the second run on they are there. Let inputs take turns until they are over four times "
        f"the cache, and the same copy takes **{float(cold4['latency_us']):.0f} µs**, "
        f"{float(cold4['latency_us']) / float(warm4['latency_us']):.1f} times as long.",
    ),
)

# %%
rate = {
    cache: (
        [moved[row["bytes"]] for row in copies if row["cache"] == cache],
        [moved[row["bytes"]] / float(row["latency_us"]) * 1e6 for row in copies if row["cache"] == cache],
    )
    for cache in ("warm", "cold")
}
show(
    figure(
        curves(
            "copies",
            "One copy, measured warm and cold",
            ("bytes read and written", "B"),
            ("bandwidth", "B/s"),
            {f"{cache} caches": values for cache, values in rate.items()},
            roles=("measured", "kv"),
            marks=(("the last cache, 32 MiB", "x", LAST_CACHE), ("fastest from memory", "y", bandwidth)),
            note="On the left launches, in the middle the cache, on the right memory. The cold copy of 64 MiB is nearly twice as fast per byte "
            "as its neighbours. We do not know why; a second machine or day would tell whether it was luck.",
        )
    ),
    say(
        "What does an engine meet? Weights are larger than any cache and are read once a step: **cold**. Activations were just written by "
        "the kernel before: often warm. A benchmark has to say which one it measures."
    ),
)

# %% [markdown]
# The rest of the recipe:
#
# * **Warm up.** The first runs compile, allocate, and raise clocks. Do not count them.
# * **Time on the device.** A CUDA launch returns before the kernel has run. Record **CUDA events** before and after it, and wait for
#   the second.
# * **Repeat a short kernel** between the two events until it takes a millisecond.
# * **Random inputs.** Zeros flip no bits, draw less power and keep clocks up: too fast.
# * **Median, with the spread.** Something always interrupts, and outliers pull the mean one way.
# * **Write down** clocks, driver, library, shapes, and whether caches were cold.


# %% tags=["open"]
def timed(call, inputs, samples=50):
    """Seconds of a call on a host: 10th percentile, median, 90th. Many inputs that take turns keep caches cold."""
    for one in inputs:
        call(one)  # warm up
    took = []
    for at in range(samples):
        one = inputs[at % len(inputs)]
        start = time.perf_counter()
        call(one)
        took.append(time.perf_counter() - start)
    return np.quantile(took, [0.1, 0.5, 0.9])


# %%
rng = np.random.default_rng(0)
low, middle, high = timed(np.copy, [rng.random(2**17)])  # one array of 1 MiB, random: warm
assert 0 < low <= middle <= high
takeaway(
    "Cold or warm, stated. Warmed up, on the device's own clock, random data, the median of many with its spread. Only then compare."
)

# %% [markdown]
# ## Faster than possible
#
# A measurement below its bound is the most useful one: *something is wrong*, and it can be found. It is the count, the unit, or what was
# measured; it is never the laws of physics.

# %%
floor = roofline.explain(LLAMA, "decode_floor", A100)
weights = roofline.analyze(LLAMA, A100, phase="decode", context=1).memory.weights_bytes
naive = weights / roofline.load_hardware(A100).bandwidth
between = (floor.value + naive) / 2
predict(
    f"Llama 3.1 8B has {weights / 1e9:.2f} GB of weights; an A100 reads 2039 GB/s: {amount(naive, 's')}. A user reports a decode step of "
    f"{amount(between, 's')}. What do you suspect first?",
    {
        "the weights came from the L2 cache": "It holds 40 MiB. The weights are nearly 400 times as large.",
        "the report is wrong": "Perhaps. But is the bound right?",
        "the first number is no bound": "",
        "the memory was overclocked": "By 4 %? Before hardware does wonders, look at the count.",
    },
    answer="the first number is no bound",
    why=f"Not every weight is read: of the embedding table a step reads one row (lesson 1). What must be read takes "
    f"**{amount(floor.value, 's')}**. So the report beats a number that was no bound. (It would still use {percent(floor.value / between, 0)} of "
    "the bandwidth, which no engine reaches: the next question goes to the report.)",
)

# %%
faster = [row for row in copies if float(row["latency_us"]) / 1e6 < moved[row["bytes"]] / bandwidth]
assert faster
assert all(row["cache"] == "warm" for row in faster)
show(
    table(
        ("explanation", "how to tell", "how much"),
        [
            ("caches were warm", "do its bytes fit? run it cold", "2 to 5 times"),
            ("another unit", "ms for µs, bits for bytes", "1000; 8"),
            ("more was counted than must be", "all experts, the embedding table, masked pairs", "4 % to 10 times"),
            ("another shape was run", "padded, tensor-parallel, fewer layers", "a small whole number"),
            ("another peak", "fp8 for bf16, or the sparse one", "2, and up"),
            ("the host did not wait", "the time does not grow with the work", "anything"),
        ],
        title="Below the bound: the usual explanations",
    ),
    say(
        f"Of our {len(copies)} copies {len(faster)} are faster than the fastest from memory, and all of these were warm. Of 720,847 kernels "
        "that other laboratories measured, 0.9 % are below the toolkit's bound (`docs/validation.md`), nearly all because their bytes fit in an L2 "
        "cache that was not flushed."
    ),
    takeaway(
        "Nothing beats a bound. What seems to is a warm cache, a unit, a shape, or a number that was never a bound. Look for it before you "
        "believe the speed-up."
    ),
)

# %% [markdown]
# ## How far off, and how often
#
# The error of a prediction is predicted over measured, less one. The measured time is the reference, so it stands below the line. The
# errors of many kernels then have to become one number.

# %%
a100_error = fits[A100].family.held_out
predict(
    f"Estimates of products on an A100 have a median error of {percent(a100_error.median_ape, 1)}, on shapes that the fit had never seen. What does "
    "that say?",
    {
        "no such product is more than 5 % off": "That would be the largest error, not the median.",
        "half of these products are more than 5 % off": "",
        "the estimates are 5 % too short": "That would be a bias. The median error has no sign.",
        "products of any other chip are 5 % off too": "It says nothing of what was not measured.",
    },
    answer="half of these products are more than 5 % off",
    why=f"Half are nearer, half are farther off. The mean is {percent(a100_error.mape, 1)}, because a few "
    f"are far off. The bias is {percent(a100_error.bias, 1, sign=True)}, because they lie on both sides.",
)

# %% [markdown]
# A *bound* is another matter: it is always too low, so its bias is its error. Here are the cold products of our records:

# %%
judged = {}
for row in (row for row in records if row["op"] == "gemm" and row["n"] == "16384"):
    cost = Gemm(m=int(row["m"]), n=int(row["n"]), k=int(row["k"]), dtypes=dtypes("fp32")).cost()
    judged[int(row["m"])] = max(cost.matrix_flops / peak, cost.bytes / bandwidth), float(row["latency_us"]) / 1e6
over = {m: measured / bound for m, (bound, measured) in judged.items()}
figure(
    curves(
        "products",
        "A product with a 16384 x 2048 matrix in fp32, on two cores",
        ("tokens", "tokens"),
        ("time", "s"),
        {
            "bound": (list(judged), [bound for bound, _ in judged.values()]),
            "measured": (list(judged), [measured for _, measured in judged.values()]),
        },
        roles=("bound", "measured"),
        note=f"With 1024 tokens the library takes {over[1024]:.2f} times the bound. With four it takes {over[4]:.0f} times: it was made for "
        "large products.",
    )
)

# %%
listed = {
    "products": "gemm",
    "attention, decode": "attention_decode",
    "attention, prefill": "attention_prefill",
    "experts": "moe",
}
families = {
    title: prepare(LLAMA, A100, backend="vllm").estimator.fits.find(f"{op}/bf16").family.held_out
    for title, op in listed.items()
}
show(
    table(
        ("kernels", "median error", "mean", "bias", "inside the 80 % interval"),
        [
            (
                title,
                f"{percent(held.median_ape, 1)}",
                f"{percent(held.mape, 1)}",
                f"{percent(held.bias, 1, sign=True)}",
                f"{percent(held.coverage, 0)}",
            )
            for title, held in families.items()
        ],
        title="What the fits of an A100 say of themselves (bf16, vLLM's kernels)",
        note="Fitted on two thirds of the shapes, judged on the others. All fits: `docs/accuracy.md`.",
    ),
    say(
        "An 80 % interval promises that 8 of 10 measurements *of such kernels* lie inside. The last column tests the promise. For experts "
        f"it is broken: only {percent(families['experts'].coverage, 0)} lie inside, so that interval is too narrow for a new model. Now you know."
    ),
    takeaway(
        "An error needs four words: of what, against what, which average, on what was not fitted. A prediction without an interval is half "
        "a prediction."
    ),
)

# %% [markdown]
# ## Play and practise

# %%
play(
    "The same step as a bound and as an estimate. A mark on a bar is the operator's bound; beyond it are launches, waves, and "
    "what kernels miss.",
    controls=("model", "hardware", "batch", "context", "bandwidth_gbs", "peak_tflops", "efficiency"),
    tiles=("bound", "estimate", "low", "high", "over_bound", "mbu", "mfu"),
    formulas=("decode_floor", "layers/mlp/gate_up_proj:bytes"),
    pictures=("time", "roofline"),
    models=(LLAMA, "llama-3.2-1b", "qwen3-32b"),
    hardware=(A100, H100, L40S),
    context=4095,
    efficiency=True,
    tries=(
        "Batch 1, Llama 3.2 1B: how much of the step is no resource's? Then batch 256.",
        "Move the batch until the MBU is highest. Why does it fall on both sides?",
        "Raise the **bandwidth** five times. The bound follows. Does the estimate?",
        "Switch **measured efficiency** off: what remains is the bound.",
    ),
)

# %%
waiting = roofline.analyze(LLAMA, H100, context=4095, batch=32, phase="decode", backend="vllm").decode
reported = float(f"{waiting.time.bound * 1.9:.2g}")
could = reported * roofline.load_hardware(H100).bandwidth
assert reported > waiting.time.high
show(
    worked(
        "a report",
        f"An engine reports {amount(reported, 's')} for a decode step of Llama 3.1 8B on an H100, 32 sequences of 4096 tokens. Does it pay "
        "to look for more?",
        say(
            f"First the bound: {amount(waiting.time.bound, 's')}. The step takes {reported / waiting.time.bound:.1f} times that. How much of the "
            "bandwidth is it?"
        ),
        formula(
            written(
                "",
                "D / (t * beta)",
                {"D": (waiting.cost.bytes, "moved [bytes]"), "t": (reported, "step [s]"), "beta": (could / reported, "")},
                "",
            ).make(),
            title="Share of the bandwidth (MBU)",
        ),
        say(
            f"Then what is usual: kernels like these take {amount(waiting.time.low, 's')} to {amount(waiting.time.high, 's')}. The report is "
            "above that interval, so something beside the kernels takes time: launches without a graph, sampling on the host, other "
            "requests' prompts. Take a profile of one step. If the gaps between kernels add up to the difference, it is the host."
        ),
    ),
    worked(
        "two libraries",
        "Library A is 4 % faster than library B on a product of 33 MB of weights. Both were timed in a loop over the same matrix, on an L40S "
        "with 96 MB of L2. Which one do you take?",
        "You do not know yet. 33 MB stay in that cache, so both were fed from L2. In serving the other layers' weights come between, and each "
        "read goes to memory. Time both with inputs that take turns until they are over four times the cache. Then see "
        "whether 4 % is more than the spread of the samples.",
    ),
)

# %%
show(
    exercise("measured-mbu", 1),
    exercise("measured-waves", 2),
    exercise("measured-below-the-bound", 3),
    exercise("measured-median-error", 1),
)

# %% [markdown]
# **More**: `roofline analyze llama-3.1-8b -H a100-sxm-80gb --context 4095 --explain` gives the terms of every kernel's estimate, and
# `roofline validate FOLDER` holds records of your own against the bound. Next: models of which a token uses a part, and more devices
# than one.
