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
# We can say how long a step takes. Users do not see steps: they see how long the first word takes, how evenly the others follow, and
# whether that stays so when many come. This lesson goes from one to the other: batches that change at each step, prompts that get in the
# way of answers, Little's law, saturation, two kinds of load, objectives, and what a million tokens cost.

# %%
import numpy as np

import roofline
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
        "go from objectives to goodput, replicas and the cost of a million tokens",
    ],
    prerequisites=[
        "lesson 3: prefill is bound by compute, decode by memory; lesson 4: the time of a step by its batch",
        "means and percentiles",
    ],
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
    exercises=[
        "serving-tpot",
        "serving-percentile",
        "serving-prompts-share",
        "serving-in-flight",
        "serving-goodput",
        "serving-replicas",
        "serving-cost",
    ],
)


# %%
runs = {}


def served(**options):
    """A server with one A100: prompts of 1,155 tokens and answers of 211 on average, both widely spread, unless said."""
    asked = {"input_len": "lognormal:1155:900", "output_len": "lognormal:211:160", "seed": 1} | options
    key = repr(sorted(asked.items()))
    if key not in runs:
        runs[key] = roofline.simulate(LLAMA, A100, **asked)
    return runs[key]


def named(name, unit, meaning):
    """A symbol of this lesson."""
    base, _, index = name.partition("_")
    return quantity(name, f"{base}_{{{index}}}" if index else base, unit, meaning)


def derived(title, expr, values, unit, source=""):
    """A formula in symbols and with numbers."""
    return formula(explanation("lesson", expr, values, unit=unit, source=source), title=title)


def running(found):
    """Requests that run, on average over the run."""
    return float(np.mean(found.series["running"]))


def in_system(found):
    """Requests that have come and not gone, counted at the end of each interval of the run."""
    came, went = (np.cumsum(found.series[f"{name}_per_s"]) * found.series["interval_s"] for name in ("arrived", "ended"))
    return float(np.mean(came - went))


# %% [markdown]
# ## What users see
#
# | name | is |
# |---|---|
# | **TTFT**, time to first token | from the arrival of a request to its first token: the wait, and the prompt |
# | **ITL**, inter-token latency | the gap between one token and the next; an answer of n tokens has n - 1 |
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
# Let us serve some traffic: Llama 3.1 8B on one A100, 6 requests per second at random times (Poisson), prompts of 1,155 tokens and answers of 211 on
# average, both widely spread. The simulator goes step by step, with step times from measured kernels.

# %%
base = served(rate=6, requests=2000, max_num_batched_tokens=2048)
latencies = {"TTFT": base.ttft_s, "TPOT": base.tpot_s, "ITL": base.itl_s, "E2E": base.e2e_s}
assert base.itl_s.p99 > 0.1
predict(
    f"TPOT is {amount(base.tpot_s.mean, 's')} on average over requests. One gap between tokens in a hundred is longer than",
    {
        "about 30 ms": "Most gaps are near or below the mean. Some steps have a prompt in them.",
        "about 50 ms": "A step with a whole budget of prompt tokens takes longer than that.",
        "more than 100 ms": "",
    },
    answer="more than 100 ms",
    why=f"The median gap is {amount(base.itl_s.p50, 's')}, the 99th percentile {amount(base.itl_s.p99, 's')}. Gaps are of two kinds, and the "
    "mean is neither.",
)

# %%
gaps = base.distributions["itl_s"]
some = [*range(0, len(gaps["share"]), 6), len(gaps["share"]) - 1]
show(
    table(
        ("latency", "mean", "p50", "p95", "p99", "longest"),
        [
            (name, *(amount(value, "s") for value in (one.mean, one.p50, one.p95, one.p99, one.max)))
            for name, one in latencies.items()
        ],
        title="6 requests per second",
        note="ITL over all gaps, the others over requests. p95: 95 % take at most this long.",
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
            note="The steep part is steps that decode alone; the tail has prompts in it, up to a budget of 2,048 tokens per step.",
        )
    ),
    takeaway(
        "Four latencies, each with a distribution. Say which one, and the mean or which percentile; an average gap tells little of the "
        "pauses that users notice."
    ),
)

# %% [markdown]
# ## Batches that change at each step
#
# Lesson 4 found that batches are worth while. But requests come at any time, and answers have different lengths. With **static batching**
# a batch is formed, served until its *longest* answer is done, and only then the next one begins. **Continuous batching** (Orca, 2022) forms the batch
# anew at each step: finished requests leave, waiting ones get the slot.

# %%
SLOTS = 16
both = {name: served(workload="at-once:160", scheduler=name, max_num_seqs=SLOTS) for name in ("static", "orca")}
static, orca = both.values()
predict(
    f"160 requests are there, a batch has {SLOTS} slots, answers have 211 tokens on average and vary widely. How many times as long does static "
    "batching take?",
    kind="ratio",
    answer=static.duration_s / orca.duration_s,
    tolerance=0.25,
    hints={1.0: "In a static batch, what do the slots of short answers do until the longest is done?"},
    why=f"{amount(static.duration_s, 's')} against {amount(orca.duration_s, 's')}. The longest of {SLOTS} answers is much longer than the mean, "
    "and until it is done the other slots empty one by one.",
)

# %%
draw("continuous-batching", {"static": {"policy": "static"}, "continuous": {"policy": "continuous"}}, about="Batching")

# %%
draw("scheduler-loop")

# %%
shown = {name: [] for name in both}
for name, one in both.items():
    a_second = round(1 / one.series["interval_s"])
    taken = np.array(one.series["running"])[: 45 * a_second]
    taken = taken[: len(taken) // a_second * a_second].reshape(-1, a_second).mean(axis=1)
    shown[name] = ([at + 0.5 for at in range(len(taken))], taken.tolist())
show(
    figure(
        curves(
            "slots",
            "Slots that are taken, the first 45 s",
            ("time", "s"),
            ("requests that run", ""),
            {"static": shown["static"], "continuous": shown["orca"]},
            roles=("prefill", "decode"),
            scales=("linear", "linear"),
            low=0,
        )
    ),
    table(
        ("160 requests, 16 slots", "static", "continuous"),
        [
            ("time for all", *(amount(one.duration_s, "s") for one in both.values())),
            ("output tokens per second", *(f"{one.throughput['output_tokens_per_s']:.0f}" for one in both.values())),
            ("requests that run, on average", *(f"{np.mean(one.series['running']):.1f}" for one in both.values())),
            ("mean TTFT", *(amount(one.ttft_s.mean, "s") for one in both.values())),
            ("mean TPOT", *(amount(one.tpot_s.mean, "s") for one in both.values())),
        ],
        title="The same requests, twice",
        note="TPOT is a little shorter in static batches: they empty, and no prompt comes between. That is the next part.",
    ),
    takeaway(
        "Static batches wait for their longest answer. Forming the batch at every step keeps slots full: the same device serves more, and no request waits "
        "for strangers."
    ),
)

# %% [markdown]
# ## Prompts in the way
#
# In a continuous batch prompts and answers share steps. A decode step is short, as it reads weights and caches; a prompt computes for long.
# All sequences of a step get their token when the step ends, so **who decodes waits for others' prompts**.

# %%
request = prepare(LLAMA, A100)


def seconds(*step):
    """Estimate of a step of such segments."""
    return pipeline(request, step).estimate


decodes = Segment(32, 1, 1260, decode=True)
alone = seconds(decodes)
mixed = {tokens: seconds(decodes, Segment(1, tokens, 0)) for tokens in (16, 128, 256, 512, 1155, 2048, 8192)}
added = mixed[1155] - alone
share = 6 * added
predict(
    f"32 sequences decode in steps of {amount(alone, 's')}. A prompt of 1,155 tokens makes a step {amount(added, 's')} longer, and 6 prompts come a "
    "second. How long is the time between tokens on average?",
    kind="s",
    answer=alone / (1 - share),
    hints={
        alone: "That is without prompts.",
        alone + added: "Then every step would have a prompt in it.",
        alone * (1 + share): "Nearly. But a longer step meets more prompts, which make it longer still.",
    },
    why=f"Prompts take a share of {share:.0%} of the time; the rest is left for decoding. The formula is below.",
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
        f"The simulation above has a mean gap of {amount(base.itl_s.mean, 's')}, with {running(base):.0f} requests that run. Where the "
        "share of prompts gets near to 1, there is no time left to decode: the server saturates."
    ),
    table(
        ("prompt tokens in the step", "step", "longer than without"),
        [(f"{tokens:,}", amount(took, "s"), f"{took / alone:.1f}x") for tokens, took in mixed.items()],
        title="One step: 32 sequences decode, and a prompt is computed",
        note=f"Without a prompt it takes {amount(alone, 's')}. 16 prompt tokens add {mixed[16] / alone - 1:.0%}, as the weights are read anyway; from about a hundred on their own work counts.",
    ),
)

# %% [markdown]
# Prompts have to be computed. But their work can be spread. **Chunked prefill** (Sarathi-Serve, 2024) gives each step
# a budget of tokens: first a token for each running sequence, then as much of the waiting prompts as is left. (Another way is to compute prompts
# on devices of their own and to send their caches: DistServe, 2024.)

# %%
draw("chunked-prefill", model=LLAMA, hardware=A100)

# %%
policies = {
    "budget of 256": {"max_num_batched_tokens": 256},
    "budget of 512": {"max_num_batched_tokens": 512},
    "budget of 2,048": {"max_num_batched_tokens": 2048},
    "budget of 8,192": {"max_num_batched_tokens": 8192},
    "prompts first, in steps of their own": {"max_num_batched_tokens": 8192, "scheduler": "vllm-v0"},
}
part = 256 - 32
small = seconds(decodes, Segment(1, part, 577)) - alone  # in the middle of the prompt
chunked = {name: served(rate=6, requests=2000, **options) for name, options in policies.items()}
show(
    table(
        ("tokens per step", "TTFT, mean", "TTFT, p95", "TPOT, mean", "ITL, p99", "ITL, longest"),
        [
            (
                name,
                *(
                    amount(value, "s")
                    for value in (one.ttft_s.mean, one.ttft_s.p95, one.tpot_s.mean, one.itl_s.p99, one.itl_s.max)
                ),
            )
            for name, one in chunked.items()
        ],
        title="The same 6 requests per second, by budget",
    ),
    say(
        f"A small budget bounds the longest gap, and the prompts wait longer for their turn. It even shortens the mean gap: {1155 / part:.1f} chunks of "
        f"{part} tokens, each in a step of 32 that decode, add {amount(1155 / part * small, 's')} in all, by estimate, and the whole prompt in one step "
        f"{amount(added, 's')}. Each of these steps reads the weights for its decodes anyway, and what the chunk computes meanwhile is partly free."
    ),
    takeaway(
        "Prompts stretch the time between tokens: by one over the share of the time that they leave. Chunks bound the longest gap, for a longer TTFT."
    ),
)

# %% [markdown]
# ## Little's law
#
# Requests come at some rate and stay for some time. How many are there at once? Count in two ways: each request is there for its E2E, and
# at each moment this number is there. Summed over a run in which all who come also leave, both are the same area. So the mean number
# in the system is **rate times mean time**, whatever arrivals, lengths and scheduler are.

# %%
four = served(rate=4, requests=2000)
predict(
    f"4 requests come a second and are served, and each takes {amount(four.e2e_s.mean, 's')} on average. How many are in the system?",
    kind="sequences",
    answer=round(4 * four.e2e_s.mean),
    tolerance=0.08,
    hints={4: "That is how many come in a second.", round(four.e2e_s.mean): "That is how long one stays."},
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
    if offered in (1, 2, 4, 6, 8)
}
moments = len(by_rate[4].series["running"])
assert all(abs(completed * mean / counted - 1) < 0.05 for completed, mean, counted in law.values())
capacity = roofline.explain(LLAMA, "max_context", A100).value
show(
    table(
        ("offered, a second", "served, a second", "mean E2E", "rate x time", "counted"),
        [
            (offered, f"{served_rate:.2f}", amount(mean, "s"), f"{served_rate * mean:.1f}", f"{counted:.1f}")
            for offered, (served_rate, mean, counted) in law.items()
        ],
        title="Little's law, and requests that were counted",
        note=f"Counted at some {moments} moments, evenly spaced over the run: who has come, less who has gone.",
    ),
    say(
        f"What it is good for: at 8 requests per second {law[8][2]:.0f} are there at once. Their caches took {by_rate[8].utilisation['kv']:.0%} of the memory "
        f"on average, {by_rate[8].utilisation['kv'] * capacity / law[8][2]:,.0f} tokens each. So it is not memory that will end it here. (It is more than 1,155 tokens "
        "of a prompt and half of 211: long answers stay longer, so that one meets more of them.)"
    ),
    takeaway(
        "Requests in flight = rate x latency. Two of the three give the third: slots from a rate and a target, latency from a batch and a rate."
    ),
)

# %% [markdown]
# ## Too much load
#
# So far people came at a rate that is given: an **open loop**. What if they come faster than the server can serve?

# %%
over = {many: served(rate=12, requests=many) for many in (1000, 2000, 4000)}
top = by_rate[12].throughput["requests_per_s"]
predict(
    f"This server completes {top:.1f} requests per second at the most. 12 come each second. What happens to TTFT?",
    {
        "it settles at a few seconds": "Each second some more come than leave. What makes the queue stop growing?",
        "it grows as long as the load lasts": "",
        "it stays, but requests are completed more slowly": "Who waits in the queue has no first token yet.",
    },
    answer="it grows as long as the load lasts",
    why=[
        "The queue grows without end, so a percentile of TTFT says how long the benchmark ran, and nothing else:",
        table(
            ("requests sent", "load lasts", "TTFT, p95", "longest queue", "completed a second"),
            [
                (
                    many,
                    f"{many / 12:.0f} s",
                    amount(one.ttft_s.p95, "s"),
                    f"{max(one.series['waiting']):.0f}",
                    f"{one.throughput['requests_per_s']:.1f}",
                )
                for many, one in over.items()
            ],
            title="12 requests per second",
        ),
    ],
)

# %%
show(
    figure(
        curves(
            "load",
            "Latency by load",
            ("requests offered a second", ""),
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
    table(
        (
            "offered, a second",
            "completed a second",
            "output tokens per second",
            "TTFT, p95",
            "TPOT, p95",
            "within both",
            "goodput, a second",
        ),
        [
            (
                offered,
                f"{one.throughput['requests_per_s']:.2f}",
                f"{one.throughput['output_tokens_per_s']:,.0f}",
                amount(one.ttft_s.p95, "s"),
                amount(one.tpot_s.p95, "s"),
                f"{one.within_slo:.1%}",
                f"{one.goodput:.2f}",
            )
            for offered, one in by_rate.items()
        ],
        title="Objectives: TTFT of at most 1 s and TPOT of at most 50 ms",
    ),
)

# %%
best = max(by_rate, key=lambda offered: by_rate[offered].goodput)
kept = max(offered for offered, one in by_rate.items() if one.within_slo >= 0.95)
show(
    say(
        "**Goodput** counts the requests that keep to *both* objectives (the service level objectives, SLO). Throughput rises until the server is "
        f"saturated and stays there; goodput is highest at {best} offered requests per second, {by_rate[best].goodput:.1f} of which are good, and falls to almost "
        f"nothing. If 95 % are to be within both, {kept} a second is the most of the rates of this table: {kept / top:.0%} of what saturates it."
    ),
    takeaway(
        "In an open loop a saturated server has no latency, only a queue that grows. Load a server to where its objectives are kept, which is well "
        "below its throughput, and report goodput."
    ),
)

# %% [markdown]
# ## Clients in step
#
# Most benchmarks are **closed loops**: a fixed number of clients, each of which sends its next prompt when it has its answer. The queue cannot grow beyond
# the clients, so a closed loop never shows what the last part did. Little's law gives its rate: clients over mean E2E (and the time to think, if any).

# %%
loops = {
    "equal lengths, 922 tokens": ("closed:32:prompts=10", 922),
    "the same, clients begin over 10 s": ("closed:32:prompts=10:ramp=10 s", 922),
    "lengths from 0.8 to 1 of 1,024": ("closed:32:prompts=10:spread=0.8-1", 1024),
    "the same, first wave not counted": ("closed:32:prompts=10:spread=0.8-1:warm-up=1", 1024),
}
looped = {name: served(workload=workload, input_len=length, output_len=length) for name, (workload, length) in loops.items()}
equal, _, drawn, later = looped.values()
predict(
    "32 clients, prompts and answers of 922 tokens. In one run all have exactly 922, in the other from 819 to 1,024, 922 on average. Mean TTFT of the "
    "first run is",
    {
        "the same, within a tenth": "Answers of equal length end together. When do their clients send the next prompts?",
        "more than twice as long": "",
        "less than half as long": "Answers of equal length end together. When do their clients send the next prompts?",
    },
    answer="more than twice as long",
    why=f"{amount(equal.ttft_s.mean, 's')} against {amount(drawn.ttft_s.mean, 's')}. Prompts that were computed in one step end together if their answers "
    "are equally long; so their clients send the next ones together, into one step again: a **convoy**. Different lengths dissolve it.",
)

# %%
assert equal.ttft_s.mean > 2 * drawn.ttft_s.mean
show(
    table(
        (
            "load generator",
            "TTFT, mean",
            "TTFT, p95",
            "TPOT, mean",
            "output tokens per second",
            "clients / E2E",
            "requests per second",
        ),
        [
            (
                name,
                amount(one.ttft_s.mean, "s"),
                amount(one.ttft_s.p95, "s"),
                amount(one.tpot_s.mean, "s"),
                f"{one.throughput['output_tokens_per_s']:,.0f}",
                f"{32 / one.e2e_s.mean:.2f}",
                f"{one.throughput['requests_per_s']:.2f}",
            )
            for name, one in looped.items()
        ],
        title="32 clients, ten prompts each",
        note="At the end of a run some clients are done and others are not, so that the rate is a little below clients over E2E.",
    ),
    takeaway(
        "TPOT of a closed loop is the server's; TTFT is the load generator's. Report clients, lengths and their spread, and the first wave with it."
    ),
)

# %% [markdown]
# ## What it costs
#
# From here it is arithmetic. A **replica** keeps to the objectives up to some rate. Replicas are the rate that comes over that, rounded up;
# dollars an hour are their devices times the price; dollars a million tokens are that over the tokens of an hour.

# %%
plan = roofline.plan(
    LLAMA, hardware=[A100, "h100-sxm"], rate=50, input_len="lognormal:1155:900", output_len=211, ttft="2 s", tpot="50 ms", top=7,
)  # fmt: skip
first = next(one for one in plan.candidates if len(one.pools) == 1 and one.precision == "bf16" and one.pools[0].devices == 1)
pool = first.pools[0]
predict(
    f"50 requests come a second. One {first.title}, in bf16, keeps to the objectives up to {pool.max_rate:.1f} a second. How many does it take?",
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
    "USD a million tokens, prompts and answers",
    million * price * devices / (hour * tokens),
    {price: each, devices: pool.replicas * pool.devices, tokens: per_second, million: 10**6, hour: 3600},
    "USD",
    "docs/capacity.md, Costs and energy",
)
assert abs(cost.explanation.value / first.cost.total - 1) < 1e-9
show(
    cost,
    table(
        ("deployment", "replicas", "TTFT, p95", "TPOT, p95", "USD/h", "USD a million tokens", "more load before it breaks"),
        [
            (
                f"{one.title}, {one.precision}"
                + (f", {one.pools[0].devices} devices a replica" if one.pools[0].devices > 1 else ""),
                one.pools[0].replicas,
                amount(one.performance.ttft.at, "s"),
                amount(one.performance.tpot.at, "s"),
                f"{one.cost.per_hour:.2f}",
                f"{one.cost.total:.3f}",
                f"{one.headroom:.0%}",
            )
            for one in plan.candidates
            if len(one.pools) == 1
        ],
        title="50 requests per second: TTFT within 2 s and TPOT within 50 ms for 95 %",
        note=f"Price: {first.cost.price}. No replica is planned beyond 0.85 of what saturates it. fp8 may change answers.",
    ),
    takeaway(
        "Replicas are rounded up and kept below saturation, so a deployment has headroom. It is paid for, and it takes the next "
        "peak: compare costs at the same objectives and the same headroom."
    ),
)

# %% [markdown]
# ## Play and practise

# %%
play(
    "A closed loop: the **batch** is the number of clients, whose next prompts come when they have their answers. Times are means, where no request waits for a "
    "slot; the curve is the throughput of all against the TPOT of each.",
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
        "How far above the shortest decode step is TPOT of one client, and where does the rest come from?",
    ),
)

# %%
chat = served(rate=2, requests=2000)
show(
    worked(
        "how many slots",
        f"A chat gets 2 requests per second; TTFT is {amount(chat.ttft_s.mean, 's')} and TPOT {amount(chat.tpot_s.mean, 's')} on average, answers have 211 tokens. "
        "How many sequences decode at a time, and would a limit of 8 do?",
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
    exercise("serving-tpot", 1),
    exercise("serving-percentile", 1),
    exercise("serving-prompts-share", 1),
    exercise("serving-in-flight", 1),
    exercise("serving-goodput", 1),
    exercise("serving-replicas", 1),
    exercise("serving-cost", 1),
)

# %% [markdown]
# **More**: `roofline simulate llama-3.1-8b --hardware a100-sxm-80gb --rate 6 -o page.html` draws all of this for your traffic, and
# `roofline plan` searches deployments for it. Simulations are based on estimates of steps; how far these are off is in the accuracy page of the documentation. This was the last lesson: you can now go from a
# `config.json` and a datasheet to what users see and what it costs, and say at each step what is exact, what is a bound, and what is an estimate.
