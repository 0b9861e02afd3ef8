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
# The bound of an operator says what no kernel of it can beat. Real kernels take longer, sometimes by a tenth, sometimes by a factor of a hundred. This lesson
# asks where that time goes, how a time is measured so that it can be trusted, what it means when a measurement is *faster* than the
# bound, and what a claim means that says "median error 5 %".

# %%
import time

import numpy as np
import pandas as pd

import roofline
from roofline import formatting
from roofline.graph.build import build
from roofline.measure.records.columns import dtypes
from roofline.measure.validate import errors, reasons
from roofline.numeric import ceil_div
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
        "keep a bound, an estimate and a measurement apart, and say what each of them claims",
        "explain the gap between bound and measurement by tiles, waves, launches, caches and clocks, each with its size",
        "measure a kernel so that another person gets the same number",
        "find the likeliest explanation of a time that is below its bound",
        "say what a median error and an interval of 80 % promise, and what they do not",
    ],
    prerequisites=[
        "lesson 3: ceilings, ridge point, memory-bound and compute-bound",
        "what a kernel and a streaming multiprocessor (SM) are: a program of the device, and one of the units that run it",
    ],
    plan=[
        (8, "Three numbers"),
        (13, "Where the time goes"),
        (10, "A time that can be trusted"),
        (6, "Faster than possible"),
        (7, "How far off, and how often"),
        (6, "Play and practise"),
    ],
    exercises=[
        "measured-over-the-bound",
        "measured-mbu",
        "measured-waves",
        "measured-launches",
        "measured-below-the-bound",
        "measured-cache-in-l2",
        "measured-median-error",
    ],
)

# %% [markdown]
# ## Three numbers
#
# Of every step there are three times, and most quarrels about performance mix two of them.
#
# * The **bound** follows from counts and the datasheet: the longer of computing at peak and moving every byte once at full bandwidth.
#   Nothing is faster.
# * The **estimate** says what kernels *like this one* were measured to take on this accelerator. It comes with an interval.
# * The **measurement** is one machine on one day, with its clocks, its caches and its libraries.
#
# Take one decode step of Llama 3.1 8B on an A100, after 4095 tokens. Its bound is the sum of the bounds of its operators, one after another.

# %%
found = roofline.analyze(LLAMA, A100, context=4095, phase="decode", backend="vllm").decode
took = found.time
ratio = took.estimate / took.bound
assert 1.5 < ratio < 1.8
predict(
    f"The bound is {amount(took.bound, 's')}. Kernels of vLLM, as they were measured on an A100, take how long?",
    {
        "as long, within 5 %": "That would need every kernel at full bandwidth, and no time between them.",
        f"{ratio:.1f} times as long": "",
        "4 times as long": "So bad they are not: long reads of weights come near the memory's rate.",
        "16 times as long": "Some kernels of the step are much worse than that. But they are short.",
    },
    answer=f"{ratio:.1f} times as long",
    why=f"Estimated are **{amount(took.estimate, 's')}**, with an 80 % interval from {amount(took.low, 's')} to "
    f"{amount(took.high, 's')}. Memory is used at {found.cost.bytes / took.estimate / roofline.load_hardware(A100).bandwidth:.0%} of its rate. The rest of this lesson "
    "is about the difference.",
)


# %%
def kind(op):
    """What sort of kernel an operator is."""
    if op.path.endswith("attention/core"):
        return "attention itself"
    return "products with weights" if op.cost.matrix_flops else "everything else"


sorts = {name: [op for op in found.operators if kind(op) == name] for name in sorted({kind(op) for op in found.operators})}
sums = {
    name: (sum(op.repeat for op in ops), sum(op.time.bound for op in ops), sum(op.time.estimate for op in ops))
    for name, ops in sorts.items()
}
show(
    table(
        ("kernels", "calls", "bound", "estimate", "estimate over bound", "share of the gap"),
        [
            (
                name,
                calls,
                amount(bound, "s"),
                amount(estimate, "s"),
                f"{estimate / bound:,.3g}x",
                f"{(estimate - bound) / (took.estimate - took.bound):.0%}",
            )
            for name, (calls, bound, estimate) in sums.items()
        ],
        title="One decode step, Llama 3.1 8B on an A100",
        note="Everything else: norms, rotations, activations, the write into the cache, the embedding, sampling. They move next to nothing, "
        "so their bound is next to nothing.",
    ),
    figure(
        bars(
            "gap",
            "Bound and estimate, kernel by kernel",
            ("time of all layers, ms", ""),
            {
                label: {
                    op.path.removeprefix("layers/"): getattr(op.time, label) * 1e3
                    for op in found.operators
                    if op.time.estimate > 5e-5
                }
                for label in ("bound", "estimate")
            },
            roles=("bound", "estimate"),
            note="Kernels that take more than 50 µs in all layers together.",
        )
    ),
)

# %%
takeaway(
    "A bound is what is possible, an estimate is what is usual, a measurement is what was. Say which one you quote. Most of the gap of "
    "this step are long products that miss part of the bandwidth; the worst *ratios* are tiny kernels, and they cost little."
)

# %% [markdown]
# ## Where the time goes
#
# **Tiles and waves.** A product with a weight matrix cuts its outputs into tiles, say of 128 x 128, and deals them to the SMs. An A100
# has 108 SMs. Tiles number 1 to 108 run side by side: that is a *wave*. Tile number 109 waits for the next one.

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
    "A product with a 4096 x 4096 matrix on an A100 has 384 tokens. Then one more comes: 385. Its time, estimated from measured "
    "kernels, rises by",
    {
        "0.3 %, as the work does": "The work does. How many rows of tiles of 128 are 384 tokens, and how many 385?",
        "a tenth": "More than that: count tiles, and SMs.",
        "two thirds": "",
        "three times": "Two waves instead of one could double it at the most.",
    },
    answer="two thirds",
    why=f"From {amount(before.seconds, 's')} to **{amount(after.seconds, 's')}**. 384 tokens are 3 rows of 32 tiles: 96 tiles, one wave. "
    f"The 385th begins a fourth row: 128 tiles, two waves, and in the second one {2 * 108 - 128} SMs of 108 have nothing to do.",
)

# %%
draw("tiles-and-waves", {"384 tokens": {"tokens": 384}, "385 tokens": {"tokens": 385}}, about="Tokens", hardware=A100)


# %% tags=["open"]
def waves(m, n=4096, rows=128, columns=128, sms=108):
    """Tiles, waves, and the share of what all SMs could have computed that was wanted."""
    tiles = ceil_div(m, rows) * ceil_div(n, columns)
    passes = ceil_div(tiles, sms)
    return tiles, passes, m * n / (passes * sms * rows * columns)


# %%
grid = sorted({edge + more for edge in range(64, 1025, 64) for more in (0, 1)} | {1, 16, 32})
lines = {m: product(m) for m in grid}
h100_step = product(385, H100)[1].seconds / product(384, H100)[1].seconds
show(
    table(
        ("tokens", "tiles", "waves", "wanted of what was computed", "bound", "estimate"),
        [
            (m, *waves(m)[:2], f"{waves(m)[2]:.0%}", amount(product(m)[0], "s"), amount(product(m)[1].seconds, "s"))
            for m in (128, 256, 384, 385, 512, 1024, 4096)
        ],
        title="A 4096 x 4096 product on the 108 SMs of an A100",
        note="Tiles of 128 x 128. Real libraries choose among several tiles and may split long sums, so that a second wave costs less than "
        "a whole first one; the estimate knows both.",
    ),
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
        f"On an H100, with 132 SMs, the step from 384 to 385 tokens is {h100_step - 1:.0%}: 128 tiles are still one wave there. Stairs "
        "are of one shape on one chip."
    ),
)

# %% [markdown]
# **Memory below its datasheet.** The rate on the datasheet is that of the pins. Rows have to be opened and cells refreshed, and a kernel
# needs some time until enough reads are under way. **Clocks.** The peak assumes a boost clock. A product that keeps all tensor cores busy
# for milliseconds draws so much power that the clock falls. Both are numbers that a fit to measured products tells:

# %%
fits = {
    card: prepare(LLAMA, card, backend="vllm").estimator.fitted(Kernel("gemm", {"": Gemm(m=1, n=1, k=1)}, ("",), 1))
    for card in (A100, H100, "h200-sxm", L40S)
}
assert fits[H100].family.parameters["throttle"] > 0.05
table(
    (
        "accelerator",
        "bandwidth reached",
        "peak reached in a tile",
        "longer by lower clocks",
        "launch",
        "start and end of a tile",
    ),
    [
        (
            roofline.load_hardware(card).title,
            f"{fit.family.parameters['memory']:.0%} of the datasheet's",
            f"{fit.family.parameters['compute']:.0%}",
            f"up to {fit.family.parameters['throttle']:.1%}" if "throttle" not in fit.family.undetermined else "not to be told",
            amount(fit.family.parameters["launch"], "s"),
            amount(fit.family.parameters["tile"], "s"),
        )
        for card, fit in fits.items()
    ],
    title="What measured products in bf16 say of four accelerators (vLLM's kernels)",
    note="Fitted to the public records of AIConfigurator. A tile's peak is not the product's: loads, edges and waves come on top. Values "
    "above 100 % are artefacts of the fit: what one parameter misses, another takes over.",
)

# %% [markdown]
# **Launches.** A kernel has to be started. The device needs a microsecond or so for it, the host several. The host runs ahead, so that
# its work is hidden as long as the device is busier than the host. In a decode step of a small model it is not: kernels are short and
# there are many. A **CUDA graph** records the kernels of a step once and starts them all in one call.


# %%
def calls(name):
    """Kernels of one decode step."""
    request = prepare(name, H100)
    return sum(
        int(kernel.repeat)
        for kernel in kernels(build(request.model, request.deployment, request.precision, decode_step(1, 512)))
    )


HOST = 10e-6
rows = []
for name in ("llama-3.2-1b", LLAMA, "qwen3-32b"):
    estimate = roofline.analyze(name, H100, context=512, phase="decode", backend="vllm").decode.time.estimate
    rows.append((name, calls(name), estimate, calls(name) * HOST))
one_b = rows[0]
show(
    predict(
        f"Llama 3.2 1B has {one_b[1]} kernels a decode step, which take {amount(one_b[2], 's')} on an H100. The host needs 10 µs to start "
        "each of them. Without a graph, who waits for whom?",
        {
            "the host for the device": "Multiply: kernels times 10 µs.",
            "the device for the host": "",
            "neither, they work at the same time": "They do, and so the longer of the two decides.",
        },
        answer="the device for the host",
        why=table(
            ("model", "kernels", "device, estimated", "host, 10 µs each", "longer"),
            [
                (
                    f"`{name}`",
                    count,
                    amount(device, "s"),
                    amount(host, "s"),
                    "host" if host > device else "device",
                )
                for name, count, device, host in rows
            ],
            title="One sequence on an H100",
            note="10 µs are an assumption, usual for a host that runs PyTorch. The longer of the two is the step. The larger the model or the batch, the less launches matter.",
        ),
    ),
    takeaway(
        "Between bound and kernel stand edges of tiles, waves that are not full, three quarters to nine tenths of the bandwidth, falling clocks, and a few "
        "microseconds for each launch. Long, even kernels lose little; short ones lose everything."
    ),
)

# %%
draw("launch-gaps", model="llama-3.2-1b", hardware=H100, launch=HOST)

# %% [markdown]
# ## A time that can be trusted
#
# Here are some rows of the records of this project, as they are on the disk (`measurements/`, a host with two cores of an AMD EPYC).
# A processor, not a GPU: the machine is slower, the traps are the same. `latency_us` is the median of the samples; a tenth of them were
# faster than `latency_p10_us`, a tenth slower than `latency_p90_us`.

# %% tags=["open"]
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
        f"This machine has no datasheet, so its ceilings are the best that was seen: **{amount(bandwidth, 'bytes/s')}** by the fastest copy "
        f"from cold memory, **{amount(peak, 'FLOP/s')}** by the fastest product in fp32."
    ),
    predict(
        f"A copy of 4 MiB was run 50 times in a row: {float(warm4['latency_us']):.1f} µs in the median. It reads and writes 4 MiB each, so "
        f"that is {amount(seen, 'bytes/s')}, more than twice what this memory can do. What was measured?",
        {
            "the last cache of the processor": "",
            "nothing real: some timer is broken": "The timer of this host ticks every 60 ns, and the samples agree within 2 %.",
            "a copy that the compiler left out": "Then 4 KiB and 4 MiB would take as long. They do not.",
        },
        answer="the last cache of the processor",
        why=f"8 MiB fit into its 32 MiB, and from the second run on they are there. With inputs that take turns until they are over four times "
        f"the cache, the same copy takes **{float(cold4['latency_us']):.0f} µs**, "
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
            note="On the left launches: 4 KiB take as long as adding two numbers. In the middle the cache. On the right memory, cold or warm.",
        )
    ),
    say(
        "One point stands out: the cold copy of 64 MiB is nearly twice as fast a byte as its neighbours. We do not know why. It makes the "
        "ceiling of this machine, since a ceiling has to be the best that was seen; a second machine or a second day would tell whether "
        "it was luck."
    ),
    say(
        "What does an engine meet? Weights are larger than any cache and are read once a step: **cold**. Activations were written by the "
        "kernel before: often warm. A benchmark has to say which one it measures, and a comparison has to compare like with like."
    ),
)

# %% [markdown]
# The rest of the recipe, with its reasons:
#
# * **Warm up.** The first runs compile, allocate, choose algorithms, raise clocks. Do not count them.
# * **Time on the device.** A CUDA launch returns before the kernel has run: a host's timer around it measures the launch. Record **CUDA events**
#   before and after, in the stream of the kernel, and wait for the second one.
# * **Many calls for a short kernel.** Between two events put enough calls to take a millisecond, inside a CUDA graph if launches
#   shall not count.
# * **Random inputs.** Multiplying zeros flips no bits, draws less power, keeps clocks up: it is faster than real work.
# * **Median, with the spread.** Something always interrupts. A time has a floor and no ceiling, so outliers pull the mean one way.
# * **Write down** clocks, temperature, driver, library, shapes, whether caches were cold. A number without these cannot be repeated.


# %% tags=["open"]
def on_device(torch, graph, calls=100):
    """Seconds of a call, of a CUDA graph that holds several."""
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    start.record()
    graph.replay()
    end.record()
    end.synchronize()  # wait for the device
    return start.elapsed_time(end) / 1000 / calls  # from milliseconds


# %% [markdown]
# The same for a host. In the notebook, run it with a set of one array (warm) and of many (cold).


# %% tags=["open"]
def timed(call, inputs, samples=50):
    """Seconds of a call: 10th percentile, median, 90th. Inputs take turns: many of them keep caches cold."""
    for one in inputs:
        call(one)  # warm up
    took = []
    for at in range(samples):
        one = inputs[at % len(inputs)]
        start = time.perf_counter()
        call(one)
        took.append(time.perf_counter() - start)
    return np.quantile(took, [0.1, 0.5, 0.9])


rng = np.random.default_rng(0)
warm_set = [rng.random(2**17)]  # one array of 1 MiB, random
low, middle, high = timed(np.copy, warm_set)
assert 0 < low <= middle <= high

# %%
noisy = next(row for row in records if row["dtype"] == "int8")
show(
    say(
        f"A look at the spread: of 50 runs of an int8 product of 512 x 512 x 512, half were faster than {float(noisy['latency_us']):.0f} µs, and "
        f"one in ten slower than **{float(noisy['latency_p90_us']):.0f} µs**. The 10th percentile is {float(noisy['latency_p10_us']):.0f} µs. The "
        "slow tenth is something else on that host. The median does not see it, the mean would."
    ),
    takeaway(
        "Cold or warm, stated. Warmed up, on the device's own clock, random data, the median of many with its spread. Then, and only then, "
        "compare."
    ),
)

# %% [markdown]
# ## Faster than possible
#
# A measurement below its bound is the most useful one: *something is wrong*, and it can be found. Not with the laws of physics, but with
# a count, a figure, or with what was measured.

# %%
floor = roofline.explain(LLAMA, "decode_floor", A100)
weights = roofline.analyze(LLAMA, A100, phase="decode", context=1).memory.weights_bytes
naive = weights / roofline.load_hardware(A100).bandwidth
between = (floor.value + naive) / 2
predict(
    f"Llama 3.1 8B has 16.06 GB of weights; an A100 reads 2039 GB/s: {amount(naive, 's')}. A user reports a decode step of "
    f"{amount(between, 's')}. What do you suspect first?",
    {
        "the weights came from the L2 cache": "It holds 40 MiB. The weights are nearly 400 times as large.",
        "the report is wrong": "Perhaps. But is the bound right?",
        "the bound is none": "",
        "the memory was overclocked": "By 4 %? Before hardware does wonders, look at the count.",
    },
    answer="the bound is none",
    why=[
        "Not every weight is read: of the embedding table a step reads one row (lesson 1). What must be read takes",
        formula(floor, title="The shortest decode step of one sequence on this A100", legend=False),
        say(
            f"So the report beats a number that was no bound. (It would still use {floor.value / between:.0%} of the bandwidth, which no "
            "engine reaches: the next question goes to the report.)"
        ),
    ],
)

# %%
frame = pd.DataFrame(
    [
        {
            "op": row["op"],
            "what": f"copy of {formatting.binary(int(row['bytes']))}, {row['cache']}",
            "measured_s": float(row["latency_us"]) / 1e6,
            "bound_s": moved[row["bytes"]] / bandwidth,
            "floor_s": moved[row["bytes"]] / bandwidth,
            "bytes_moved": moved[row["bytes"]],
            "l2_bytes": LAST_CACHE,
            "binds": "memory",
            "cache": row["cache"],
            "world": 1,
            "sums_in_switch": False,
        }
        for row in copies
    ]
)
frame["why"] = reasons(frame)
beaten = frame[frame["why"] != ""]
assert not (beaten["cache"] == "cold").any()
show(
    table(
        ("copy", "bound", "measured", "measured over bound", "likeliest reason, as `roofline validate` gives it"),
        [
            (
                row.what,
                amount(row.bound_s, "s"),
                amount(row.measured_s, "s"),
                f"{row.measured_s / row.bound_s:.2f}",
                row.why or "–",
            )
            for row in frame.itertuples()
        ],
        title="Our copies against the fastest from memory",
        note=f"{len(beaten)} of {len(frame)} are faster than their bound, and not one of them was cold.",
    ),
    table(
        ("explanation", "how to tell", "how much"),
        [
            ("caches were warm", "do its bytes fit, and were they there? run it cold", "2 to 5 times"),
            ("another unit", "ms taken for µs, bits for bytes", "1000; 8"),
            (
                "more was counted than must be",
                "all experts, the whole embedding table, a mask that hides half",
                "4 % to 10 times",
            ),
            ("another shape was run", "padded, tensor-parallel, fewer layers", "a small whole number"),
            ("another peak", "fp8 for bf16, or sparsity on the datasheet", "2, and up"),
            ("the host did not wait for the kernel", "the time does not grow with the work", "anything"),
            ("a switch that adds", "all-reduce over NVLink SHARP sends less than a ring", "up to 2"),
            ("clocks and timers", "repeat it", "some percent, no more"),
        ],
        title="Below the bound: the usual explanations",
    ),
    say(
        "`docs/validation.md` holds the toolkit's bound against 720,847 kernels that other laboratories measured. 0.9 % are faster, nearly all "
        "of them because their bytes fit, all or in part, in an L2 cache that was not flushed. Among products and attention that move more than four times "
        "the L2: none."
    ),
    takeaway(
        "Nothing beats a bound. What seems to is a warm cache, a unit, a shape, or a number that was never a bound. Look for it before you "
        "believe the speed-up."
    ),
)

# %% [markdown]
# ## How far off, and how often
#
# The error of a prediction is predicted over measured, less one: the measured one is the reference and stands below the line. Of many
# errors have to become one number.

# %%
a100_error = fits[A100].family.held_out
predict(
    f"Estimates of products on an A100 have a median error of {a100_error.median_ape:.1%}, on shapes that the fit had never seen. What does "
    "that say?",
    {
        "no such product is more than 5 % off": "That would be the largest error, not the median.",
        "half of these products are more than 5 % off": "",
        "the estimates are 5 % too short": "That would be a bias. The median error has no sign.",
        "products of any other chip are 5 % off too": "It says nothing of what was not measured.",
    },
    answer="half of these products are more than 5 % off",
    why=f"The median is the one in the middle: half are nearer, half are farther off. The mean is {a100_error.mape:.1%}, because a few "
    f"are far off; the bias {a100_error.bias:+.1%}, because they lie on both sides.",
)

# %% [markdown]
# The same figures of a *bound*: take the six cold products of our records against what the two ceilings of this machine give.

# %%
products = [row for row in records if row["op"] == "gemm" and row["n"] == "16384"]
judged = []
for row in products:
    cost = Gemm(m=int(row["m"]), n=int(row["n"]), k=int(row["k"]), dtypes=dtypes("fp32")).cost()
    judged.append(
        {
            "m": int(row["m"]),
            "bound_s": max(cost.matrix_flops / peak, cost.bytes / bandwidth),
            "measured_s": float(row["latency_us"]) / 1e6,
        }
    )
judged = pd.DataFrame(judged)
judged["error"] = judged["bound_s"] / judged["measured_s"] - 1
of_bound = errors(judged)
worst = dict(zip(judged["m"], judged["measured_s"] / judged["bound_s"], strict=True))
show(
    table(
        ("tokens", "bound", "measured", "error of the bound"),
        [
            (int(row.m), amount(row.bound_s, "s"), amount(row.measured_s, "s"), f"{row.error:+.0%}")
            for row in judged.itertuples()
        ],
        title="A product with a 16384 x 2048 matrix in fp32, on two cores",
        note=f"Median of the absolute errors {of_bound['median_ape']:.0%}, mean {of_bound['mape']:.0%}; median with signs (bias) "
        f"{of_bound['bias']:+.0%}. A bound is always too low: its bias is its error.",
    ),
    figure(
        curves(
            "products",
            "Six products, measured and bounded",
            ("tokens", "tokens"),
            ("time", "s"),
            {
                "bound": (list(judged["m"]), list(judged["bound_s"])),
                "measured": (list(judged["m"]), list(judged["measured_s"])),
            },
            roles=("bound", "measured"),
            note=f"With 1024 tokens the library takes {worst[1024]:.2f} times the bound. With four it takes {worst[4]:.0f} times: it was made for "
            "large products.",
        )
    ),
)

# %%
listed = {
    "products, bf16": "gemm",
    "attention, decode": "attention_decode",
    "attention, prefill": "attention_prefill",
    "experts": "moe",
}
with_fit = {}
for card in (A100, H100):
    fits_of = prepare(LLAMA, card, backend="vllm").estimator.fits
    for title, op in listed.items():
        entry = fits_of.find(f"{op}/bf16")
        if entry is not None and entry.origin == "fitted":
            with_fit[card, title] = entry.family
show(
    table(
        ("kernels", "on", "shapes held out", "median error", "mean", "bias", "inside the 80 % interval"),
        [
            (
                title,
                roofline.load_hardware(card).title,
                family.held_out.shapes,
                f"{family.held_out.median_ape:.1%}",
                f"{family.held_out.mape:.1%}",
                f"{family.held_out.bias:+.1%}",
                f"{family.held_out.coverage:.0%}",
            )
            for (card, title), family in with_fit.items()
        ],
        title="What the shipped fits say of themselves (vLLM's kernels)",
        note="Two thirds of the shapes were fitted, one third judged. Each fit states this in its file; all of them are in `docs/accuracy.md`.",
    ),
    say(
        "An interval of 80 % promises that 8 of 10 measurements *of such kernels* lie inside. One in ten is above it, one in ten below. "
        "The last column tests the promise on shapes that were held out: where it says 60 %, as of experts, the interval was too narrow for "
        "the models that came as new, and you know it."
    ),
    say(
        f"A whole step adds its kernels up. Kernels of one kind are wrong together, so their intervals add; kinds are wrong independently, so "
        f"the distances add in squares. That is how the step of the first part came to {amount(took.low, 's')} to {amount(took.high, 's')}."
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
show(
    worked(
        "a report",
        f"An engine reports {amount(reported, 's')} for a decode step of Llama 3.1 8B on an H100, 32 sequences of 4096 tokens. Its developers ask "
        "whether it pays to look for more. What do you tell them?",
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
            + ("above that interval" if reported > waiting.time.high else "inside that interval")
            + ", so something beside the kernels takes time: launches without a graph, sampling on the host, other requests' prompts. One "
            "experiment that tells them apart: a profile of one step. If the gaps between kernels add up to the difference, it is the host."
        ),
    ),
    worked(
        "two libraries",
        "Library A is 4 % faster than library B on a product of 33 MB of weights; both were timed in a loop over the same matrix, on an L40S "
        "with 96 MB of L2. Which one do you take?",
        "You do not know yet. 33 MB stay in that cache, so both were fed from L2. In serving the other layers' weights come between, and each "
        "read goes to memory. Time both with inputs that take turns until they are over four times the cache, with random values, and look "
        "whether 4 % is more than the distance from the 10th to the 90th percentile.",
    ),
)

# %%
show(
    exercise("measured-over-the-bound", 1),
    exercise("measured-mbu", 1),
    exercise("measured-waves", 2),
    exercise("measured-launches", 1),
    exercise("measured-below-the-bound", 3),
    exercise("measured-cache-in-l2", 1),
    exercise("measured-median-error", 1),
)

# %% [markdown]
# **More**: `roofline analyze llama-3.1-8b -H a100-sxm-80gb --context 4095 --explain` gives the terms of every kernel's estimate,
# `roofline validate FOLDER` holds records of your own against the bound, `roofline bench run` makes them. Next: models of which a token
# uses a part, and more devices than one.
