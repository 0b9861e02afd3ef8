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
# # 7. From steps to service
#
# We can say how long a step takes. Users do not see steps. They see how long the first word takes, how evenly the others follow, and
# whether that stays so under load. This lesson goes from one to the other.

# %%
import numpy as np

import roofline
from roofline import formatting
from roofline.formulas.symbolic import quantity
from roofline.predict.explain.explanation import explanation
from roofline.predict.request import prepare
from roofline.predict.timing import pipeline
from roofline.serving.queueing.steady import PromptWork, cycles
from roofline.specs.workload import Segment
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
    say,
    show,
    table,
    takeaway,
    worked,
)

LLAMA, A100 = "llama-3.1-8b", "a100-sxm-80gb"

lesson(
    7,
    "From steps to service",
    "Continuous batching, prompts beside answers, Little's law, saturation, objectives and cost.",
    goals=[
        "define TTFT, TPOT, ITL and E2E, and say why a mean is not enough",
        "explain what continuous batching and chunked prefill do to each of them",
        "use Little's law to go between rate, latency and requests in flight",
        "tell an open from a closed loop, and say what either shows of a saturated server",
        "go from objectives to goodput, replicas and the cost per million tokens",
    ],
    prerequisites=["lesson 3: what bounds prefill and decode; lesson 4: the time of a step by its batch"],
    plan=[
        (7, "What users see"),
        (7, "Batches that change at each step"),
        (8, "Prompts in the way"),
        (6, "Little's law"),
        (8, "Too much load"),
        (5, "Clients in step"),
        (4, "What it costs"),
        (5, "Play and practise"),
    ],
    exercises=["serving-prompts-share", "serving-in-flight", "serving-goodput", "serving-cost"],
)


# %%
runs = {}


def served(**options):
    """A server with one A100; by default prompts have 1,155 tokens and answers 211 on average, both widely spread."""
    chosen = {"input_len": "lognormal:1155:900", "output_len": "lognormal:211:160", "seed": 1} | options
    key = repr(sorted(chosen.items()))
    if key not in runs:
        runs[key] = roofline.simulate(LLAMA, A100, **chosen)
    return runs[key]


def ms(seconds):
    """Milliseconds without decimals."""
    return f"{seconds * 1e3:,.0f} ms"


def named(name, unit, meaning):
    """A symbol of this lesson."""
    base, _, index = name.partition("_")
    return quantity(name, f"{base}_{{{index}}}" if index else base, unit, meaning)


def derived(title, expr, values, unit, source=""):
    """A formula in symbols and with numbers."""
    return formula(explanation("lesson", expr, values, unit=unit, source=source), title=title)


def running(run):
    """Requests that run, on average over the run."""
    return float(np.mean(run.series["running"]))


def in_system(run):
    """Requests that have come and not gone, counted at the end of each interval of the run."""
    came, went = (np.cumsum(run.series[f"{name}_per_s"]) * run.series["interval_s"] for name in ("arrived", "ended"))
    return float(np.mean(came - went))


# %% [markdown]
# ## What users see
#
# | name | is |
# |---|---|
# | **TTFT**, time to first token | from the arrival of a request to its first token |
# | **ITL**, inter-token latency | the gap between one token and the next |
# | **TPOT**, time per output token | the mean gap of one request |
# | **E2E** | from the arrival to the last token |

# %%
e2e, ttft, n = (
    named("t_E2E", "s", "from arrival to the last token"),
    named("t_TTFT", "s", "to the first token"),
    named("n", "tokens", "of the answer"),
)
predict(
    "The first token of an answer comes after 0.4 s, the 101st and last after 2.4 s. What is TPOT, as benchmarks report it?",
    kind="s",
    answer=0.02,
    tolerance=0.005,
    hints={
        2.4 / 101: "That is E2E over all tokens: the wait for the first one is not a gap.",
        2.0 / 101: "101 tokens have 100 gaps.",
    },
    why=derived("Time per output token", (e2e - ttft) / (n - 1), {e2e: 2.4, ttft: 0.4, n: 101}, "s", "vLLM's `bench serve`"),
)

# %%
draw("request-timeline", model=LLAMA, hardware=A100)

# %% [markdown]
# Now some traffic for Llama 3.1 8B on one A100: 6 requests per second at random times (Poisson), prompts of 1,155 tokens and answers of 211 on
# average, both widely spread. The simulator computes every step, with step times from measured kernels.

# %%
base = served(rate=6, requests=2000, max_num_batched_tokens=2048)
latencies = {"TTFT": base.ttft_s, "TPOT": base.tpot_s, "ITL": base.itl_s, "E2E": base.e2e_s}
assert base.itl_s.p99 > 0.1
predict(
    f"TPOT is {ms(base.tpot_s.mean)} on average. One gap between tokens in a hundred is longer than",
    {
        "about 30 ms": "Most gaps are near or below the mean. Some steps have a prompt in them.",
        "about 50 ms": "A step with many prompt tokens takes longer than that.",
        "more than 100 ms": "",
    },
    answer="more than 100 ms",
    why=f"The median gap is {ms(base.itl_s.p50)}, the 99th percentile {ms(base.itl_s.p99)}. There are two kinds of gaps, and the "
    "mean is neither.",
)

# %%
gaps = base.distributions["itl_s"]
some = [*range(0, len(gaps["share"]), 6), len(gaps["share"]) - 1]
show(
    table(
        ("latency", "mean", "p50", "p95", "p99"),
        [(name, *(amount(value, "s") for value in (one.mean, one.p50, one.p95, one.p99))) for name, one in latencies.items()],
        title="6 requests per second",
        note="p95: 95 % take at most this long.",
    ),
    figure(
        curves(
            "gaps",
            "Gaps between tokens: CDF",
            ("gap", "s"),
            ("share of the gaps", "%"),
            {"ITL": ([gaps["seconds"][at] for at in some], [gaps["share"][at] for at in some])},
            roles=("decode",),
            scales=("log", "linear"),
            low=0,
            note="The steep part is steps that only decode; steps of the tail have prompts in them.",
        )
    ),
    takeaway(
        "Each latency has a distribution: say which latency, and the mean or which percentile. A mean gap hides the pauses that users notice."
    ),
)

# %% [markdown]
# ## Batches that change at each step
#
# Batches pay off (lesson 4). But requests come at any time, and answers have different lengths. **Static batching** forms a batch and serves
# it until its *longest* answer is done. **Continuous batching** (Orca, 2022) forms the batch anew at each step: finished requests leave,
# waiting ones get the slot.

# %%
SLOTS = 16
both = {name: served(workload="at-once:160", scheduler=name, max_num_seqs=SLOTS) for name in ("static", "orca")}
static, orca = both.values()
assert 1.7 < static.duration_s / orca.duration_s < 2.3
predict(
    f"160 requests wait, and a batch has {SLOTS} slots. Answers have 211 tokens on average and vary widely. How long does static batching take?",
    {
        "as long as continuous batching": "In a static batch, what do the slots of short answers do until the longest is done?",
        "about twice as long": "",
        f"about {SLOTS} times as long": "The slots still work in parallel, until their answers are done.",
    },
    answer="about twice as long",
    why=f"{amount(static.duration_s, 's')} against {amount(orca.duration_s, 's')}. The longest of {SLOTS} answers is much longer than the mean, "
    "and until it is done the other slots empty one by one.",
)

# %%
draw("continuous-batching", {"static": {"policy": "static"}, "continuous": {"policy": "continuous"}}, about="Batching")

# %% [markdown]
# The engine's **scheduler** does this before every step. (KV blocks, and what happens when none is free, are the subject of lesson 8.)

# %%
draw("scheduler-loop")

# %%
lines = {}
for name, one in both.items():
    per_second = round(1 / one.series["interval_s"])
    slots = np.array(one.series["running"])[: 45 * per_second]
    slots = slots[: len(slots) // per_second * per_second].reshape(-1, per_second).mean(axis=1)
    lines[name] = ([at + 0.5 for at in range(len(slots))], slots.tolist())
show(
    figure(
        curves(
            "slots",
            "Slots in use, the first 45 s",
            ("time", "s"),
            ("running requests", ""),
            {"static": lines["static"], "continuous": lines["orca"]},
            roles=("prefill", "decode"),
            scales=("linear", "linear"),
            low=0,
            note=f"On average {running(static):.1f} and {running(orca):.1f} of {SLOTS}. Output tokens per second: "
            f"{static.throughput['output_tokens_per_s']:.0f} and {orca.throughput['output_tokens_per_s']:.0f}.",
        )
    ),
    takeaway(
        "Static batches wait for their longest answer. Forming the batch at every step keeps slots full: the same device serves more."
    ),
)

# %% [markdown]
# ## Prompts in the way
#
# In a continuous batch prompts and answers share steps. A decode step is short; a prompt computes for long. All sequences of a step get their
# token when the step ends, so **decoding waits for others' prompts**.

# %%
request = prepare(LLAMA, A100)


def seconds(*step):
    """Estimate of a step of such segments."""
    return pipeline(request, step).estimate


decodes = Segment(32, 1, 1260, decode=True)
alone = seconds(decodes)
mixed = {tokens: seconds(decodes, Segment(1, tokens, 0)) for tokens in (16, 1155)}
added = mixed[1155] - alone
share = 6 * added
stretched = ms(alone / (1 - share))
predict(
    f"32 sequences decode in steps of {ms(alone)}. A prompt of 1,155 tokens makes a step {ms(added)} longer, and 6 prompts come per "
    f"second: prompts take {formatting.percent(share, 0)} of the time. How long is the time between tokens on average?",
    {
        ms(alone): "That is without prompts.",
        ms(alone * (1 + share)): "Nearly. But a longer step meets more prompts, which make it longer still.",
        stretched: "",
        ms(alone + added): "Then every step would have a prompt in it.",
    },
    answer=stretched,
    why=f"Only {formatting.percent(1 - share, 0)} of the time is left for decoding, so steps take one over that as long.",
)

# %%
rate, prompt, step = (
    named("r", "1/s", "requests per second"),
    named("t_prompt", "s", "what a prompt adds"),
    named("t_step", "s", "step without prompts"),
)
with_prompts = cycles(PromptWork(rate, prompt, prompt**2, prompt**3, 1, rate * prompt), step, 0, 1).mean
show(
    derived(
        "A step with its prompts, on average",
        with_prompts,
        {rate: 6, prompt: added, step: alone},
        "s",
        "gated service: Takagi 1991; docs/capacity.md, the queueing model",
    ),
    say(
        f"The simulation above has a mean gap of {ms(base.itl_s.mean)}, with {running(base):.0f} running requests. Where the "
        "prompts' share gets near to 1, no time is left to decode: the server saturates."
    ),
)

# %% [markdown]
# The work of a prompt can be spread over steps. **Chunked prefill** (Sarathi-Serve, 2024) gives each step a budget of tokens: first one for
# each running sequence, then as much of the waiting prompts as is left.

# %%
draw("chunked-prefill", model=LLAMA, hardware=A100)

# %%
chunked = {budget: served(rate=6, requests=2000, max_num_batched_tokens=budget) for budget in (256, 512, 2048, 8192)}
show(
    table(
        ("tokens per step", "TTFT, mean", "TPOT, mean", "ITL, p99", "ITL, longest"),
        [
            (f"{budget:,}", *(ms(value) for value in (one.ttft_s.mean, one.tpot_s.mean, one.itl_s.p99, one.itl_s.max)))
            for budget, one in chunked.items()
        ],
        title="The same 6 requests per second, by budget",
    ),
    say(
        "A small budget bounds the longest gap, and prompts wait longer for their turn. It even shortens the mean gap: a chunk shares a step with "
        f"decodes, which read the weights anyway. 16 prompt tokens make that step only {formatting.percent(mixed[16] / alone - 1, 0)} longer."
    ),
    takeaway(
        "Prompts stretch the time between tokens: by one over the share of time that they leave. Chunks bound the longest gap, for a longer TTFT."
    ),
)

# %% [markdown]
# ## Little's law
#
# How many requests are there at once? Count in two ways. Each request is there for its E2E; at each moment some number is there. Over a run
# in which all that come also leave, both add up to the same area. So the mean number in the system is **rate times mean time**, whatever
# arrivals, lengths and scheduler are.

# %%
four = served(rate=4, requests=2000)
predict(
    f"4 requests come per second, and each takes {four.e2e_s.mean:.1f} s on average. How many are in the system?",
    kind="sequences",
    answer=round(4 * four.e2e_s.mean),
    tolerance=0.08,
    hints={4: "That is how many come per second.", round(four.e2e_s.mean): "That is how long one stays."},
    why=derived(
        "In the system, by Little's law",
        rate * named("t_mean", "s", "mean E2E"),
        {rate: 4, named("t_mean", "s", "mean E2E"): four.e2e_s.mean},
        "requests",
        "Little 1961, Operations Research 9(3)",
    ),
)

# %%
draw("littles-law")

# %%
RATES = (1, 2, 4, 6, 7, 8, 9, 10, 12)
by_rate = {offered: served(rate=offered, requests=2000, ttft="1 s", tpot="50 ms") for offered in RATES}
law = {
    offered: (one.requests.completed / one.duration_s, one.e2e_s.mean, in_system(one))
    for offered, one in by_rate.items()
    if offered in (2, 4, 8)
}
assert all(abs(completed * mean / counted - 1) < 0.05 for completed, mean, counted in law.values())
show(
    table(
        ("completed per second", "mean E2E", "rate x time", "counted"),
        [
            (f"{completed:.2f}", amount(mean, "s"), f"{completed * mean:.1f}", f"{counted:.1f}")
            for completed, mean, counted in law.values()
        ],
        title="Little's law, and requests counted in the simulation",
    ),
    say(
        f"At 8 requests per second {law[8][2]:.0f} are there at once. Their caches take {formatting.percent(by_rate[8].utilisation['kv'], 0)} of "
        "the memory for caches, so memory is not what ends it here. (Lesson 8: when it is.)"
    ),
    takeaway(
        "Requests in flight = rate x latency. Two of the three give the third: slots from a rate and a latency, latency from a batch and a rate."
    ),
)

# %% [markdown]
# ## Too much load
#
# So far requests came at a given rate: an **open loop**. What if they come faster than the server can serve?

# %%
over = {count: served(rate=12, requests=count) for count in (1000, 4000)}
top = by_rate[12].throughput["requests_per_s"]
assert over[4000].ttft_s.p95 > 3 * over[1000].ttft_s.p95
predict(
    f"This server completes at most {top:.1f} requests per second. 12 come per second. What happens to TTFT?",
    {
        "it settles at a few seconds": "Each second more come than leave. What makes the queue stop growing?",
        "it grows as long as the load lasts": "",
        "it stays, but requests are completed more slowly": "A request in the queue has no first token yet.",
    },
    answer="it grows as long as the load lasts",
    why=f"The queue grows without end. After 1,000 requests p95 of TTFT is {over[1000].ttft_s.p95:.0f} s, after 4,000 it is "
    f"{over[4000].ttft_s.p95:.0f} s. It says how long the benchmark ran, and nothing else.",
)

# %%
show(
    figure(
        curves(
            "load",
            "Latency by load",
            ("requests offered per second", ""),
            ("time", "s"),
            {
                "TTFT, p95": (list(RATES), [one.ttft_s.p95 for one in by_rate.values()]),
                "TPOT, p95": (list(RATES), [one.tpot_s.p95 for one in by_rate.values()]),
                "E2E, mean": (list(RATES), [one.e2e_s.mean for one in by_rate.values()]),
            },
            roles=("prefill", "decode", "mixed"),
            scales=("linear", "log"),
            marks=(("most completed", "x", top),),
            note="2,000 requests at each rate. Beyond saturation times are those of this length of run.",
        )
    ),
)

# %%
best = max(by_rate, key=lambda offered: by_rate[offered].goodput)
safe = max(offered for offered, one in by_rate.items() if one.within_slo >= 0.95)
show(
    say(
        "**Goodput** counts only requests that meet *all* objectives (service level objectives, SLO): here TTFT within 1 s and TPOT within 50 ms."
    ),
    figure(
        curves(
            "goodput",
            "Throughput and goodput",
            ("requests offered per second", ""),
            ("requests per second", ""),
            {
                "completed": (list(RATES), [one.throughput["requests_per_s"] for one in by_rate.values()]),
                "goodput": (list(RATES), [one.goodput for one in by_rate.values()]),
            },
            roles=("bound", "estimate"),
            scales=("linear", "linear"),
            low=0,
            note=f"Up to {safe} per second at least 95 % meet both objectives: {formatting.percent(safe / top, 0)} of what saturates the server.",
        )
    ),
    say(
        f"Throughput rises until the server is saturated, and stays there. Goodput is highest at {best} offered requests per second, and falls to almost nothing."
    ),
    takeaway(
        "In an open loop a saturated server has no latency, only a growing queue. Load a server to where its objectives hold, and report goodput."
    ),
)

# %% [markdown]
# ## Clients in step
#
# Most benchmarks are **closed loops**: a fixed number of clients, each of which sends its next prompt when it has its answer. The queue
# cannot grow beyond the clients. Little's law gives the rate: clients over mean E2E.

# %%
loops = {
    "all 922 tokens": ("closed:32:prompts=10", 922),
    "the same, clients begin over 10 s": ("closed:32:prompts=10:ramp=10 s", 922),
    "819 to 1,024 tokens": ("closed:32:prompts=10:spread=0.8-1", 1024),
    "the same, first wave not counted": ("closed:32:prompts=10:spread=0.8-1:warm-up=1", 1024),
}
looped = {name: served(workload=workload, input_len=length, output_len=length) for name, (workload, length) in loops.items()}
equal, _, drawn, later = looped.values()
predict(
    "32 clients. In one run prompts and answers all have exactly 922 tokens, in the other 819 to 1,024, 922 on average. Mean TTFT of the first "
    "run is",
    {
        "the same, within a tenth": "Answers of equal length end together. When do their clients send the next prompts?",
        "more than twice as long": "",
        "less than half as long": "Answers of equal length end together. When do their clients send the next prompts?",
    },
    answer="more than twice as long",
    why="Prompts computed in one step end together if their answers are equally long. So their clients send the next ones together, into one step "
    "again: a **convoy**. Different lengths dissolve it.",
)

# %%
assert equal.ttft_s.mean > 2 * drawn.ttft_s.mean
show(
    table(
        ("load generator", "TTFT, mean", "TPOT, mean"),
        [(name, ms(one.ttft_s.mean), f"{one.tpot_s.mean * 1e3:.1f} ms") for name, one in looped.items()],
        title="32 clients, ten prompts each",
    ),
    takeaway(
        "TPOT of a closed loop is the server's; TTFT is the load generator's. Report clients, lengths and their spread with it."
    ),
)

# %% [markdown]
# ## What it costs
#
# From here it is arithmetic. A **replica** meets the objectives up to some rate. The number of replicas is the total rate over that,
# rounded up; their devices and the price give the cost.

# %%
plan = roofline.plan(
    LLAMA, hardware=[A100, "h100-sxm"], rate=50, input_len="lognormal:1155:900", output_len=211, ttft="2 s", tpot="50 ms", top=4,
)  # fmt: skip
assert all(len(one.pools) == 1 for one in plan.candidates[:3])
first = next(one for one in plan.candidates if len(one.pools) == 1 and one.precision == "bf16" and one.pools[0].devices == 1)
pool = first.pools[0]
predict(
    f"50 requests come per second. One {first.title}, in bf16, meets the objectives up to {pool.max_rate:.1f} per second. How many does it take?",
    kind="devices",
    answer=pool.replicas,
    tolerance=0,
    hints={2: "Rounded to the nearest. Two would have more to do than they can."},
    why="50 over that, rounded **up**.",
)

# %%
price, devices, tokens, million, hour = (
    named("p", "USD/h", "price of a device"),
    named("n_devices", "devices", "of all replicas"),
    named("r_tokens", "1/s", "tokens per second, prompts and answers"),
    named("n_million", "tokens", "a million of them"),
    named("t_hour", "s/h", "seconds of an hour"),
)
each = first.cost.per_hour / (pool.replicas * pool.devices)
per_second = first.input_tokens_per_s + first.output_tokens_per_s
cost = derived(
    "USD per million tokens, prompts and answers",
    million * price * devices / (hour * tokens),
    {price: each, devices: pool.replicas * pool.devices, tokens: per_second, million: 10**6, hour: 3600},
    "USD",
    "docs/capacity.md, Costs and energy",
)
assert abs(cost.explanation.value / first.cost.total - 1) < 1e-9
show(
    cost,
    table(
        ("deployment", "replicas", "USD/h", "USD per million tokens", "headroom"),
        [
            (
                f"{one.title}, {one.precision}"
                + (f", {one.pools[0].devices} devices per replica" if one.pools[0].devices > 1 else ""),
                one.pools[0].replicas,
                f"{one.cost.per_hour:.2f}",
                f"{one.cost.total:.3f}",
                formatting.percent(one.headroom, 0),
            )
            for one in plan.candidates[:3]
        ],
        title="50 requests per second: TTFT within 2 s and TPOT within 50 ms for 95 %",
        note=f"Price: {first.cost.price}. fp8 may change answers.",
    ),
    takeaway(
        "Replicas are rounded up and stay below saturation, so a deployment has **headroom** for the next peak. Compare costs at the same objectives "
        "and the same headroom."
    ),
)

# %% [markdown]
# ## Play and practise

# %%
play(
    "A closed loop: the **batch** is the number of clients. Times are means, and no request waits for a slot. The curve is the throughput of all "
    "against the TPOT of each.",
    controls=("model", "batch", "input_len", "output_len", "weights", "kv", "hardware", "tp", "price", "efficiency"),
    tiles=("ttft", "tpot", "prompts_share", "requests_per_s", "output_rate", "cost_per_million", "slots"),
    formulas=("decode_floor",),
    pictures=("service",),
    models=("llama-3.1-8b", "qwen3-8b", "llama-3.1-70b"),
    hardware=("a100-sxm-80gb", "h100-sxm", "h200-sxm"),
    batch=32,
    input_len=1024,
    output_len=256,
    efficiency=True,
    tries=(
        "Double the **batch** until the curve turns up. What do the last doublings buy, and who pays?",
        "Take the answer from 256 to 32 tokens. Which share of the time do prompts take?",
        "What is the cheapest million tokens with a TPOT of at most 30 ms? Try another card, and fp8.",
    ),
)

# %%
chat = served(rate=2, requests=2000)
show(
    worked(
        "how many slots",
        f"A chat gets 2 requests per second. On average TTFT is {ms(chat.ttft_s.mean)}, TPOT {amount(chat.tpot_s.mean, 's')}, and answers have 211 "
        "tokens. How many sequences decode at a time, and would a limit of 8 do?",
        say(
            f"A request decodes for 210 gaps of {amount(chat.tpot_s.mean, 's')}, {210 * chat.tpot_s.mean:.2f} s. By Little's law "
            f"{2 * 210 * chat.tpot_s.mean:.1f} decode at a time *on average*; counted, with prompts that are computed or wait: {law[2][2]:.1f}. A limit of 8 is too tight: arrivals are random, and "
            f"{max(chat.series['running']):.0f} ran at some time."
        ),
    ),
    worked(
        "whose latency is it?",
        f"A report says: 32 clients, mean TTFT {amount(equal.ttft_s.mean, 's')}, TPOT {amount(equal.tpot_s.mean, 's')}. Another, of the same engine and card: TTFT "
        f"{amount(later.ttft_s.mean, 's')}, TPOT {amount(later.tpot_s.mean, 's')}. Has the engine become {equal.ttft_s.mean / later.ttft_s.mean:.0f} times faster?",
        "TPOT is the same, so steps are. What differs is the load generator: equal lengths and all waves counted in the first, drawn lengths and the first wave left out in "
        "the second. Neither is wrong; they answer different questions, and must not be compared.",
    ),
)

# %%
show(
    exercise("serving-prompts-share", 1),
    exercise("serving-in-flight", 1),
    exercise("serving-goodput", 1),
    exercise("serving-cost", 1),
)

# %% [markdown]
# **More**: `roofline simulate llama-3.1-8b --hardware a100-sxm-80gb --rate 6 -o page.html` draws all of this for your traffic;
# `roofline plan` searches deployments for it. Next: what an engine does when the caches no longer fit.
