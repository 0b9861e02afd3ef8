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
# # 11. Disaggregation and planning
#
# A prompt keeps the matrix units at work, an answer waits for memory, and one GPU does both in turn. **Disaggregation** gives each its
# own GPUs and sends the KV cache from one to the other. When does that pay off, how many GPUs does each side need, and how does one
# choose a whole fleet: by latency, by cost, by energy?

# %%
import roofline
from roofline import formatting
from roofline.formulas.symbolic import quantity
from roofline.predict.explain.explanation import explanation
from roofline.report.figures import figures_of
from roofline.serving.planning.candidates import watts
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

LLAMA, H100, A100 = "llama-3.1-8b", "h100-sxm", "a100-sxm-80gb"

lesson(
    11,
    "Disaggregation and planning",
    "Prompts and answers on separate GPUs, the cache between them, fleets that meet objectives, cost and energy of a token.",
    goals=[
        "say what a prompt does to the answers beside it, and count how often",
        "compute the bytes and the time of a KV transfer, and the slowest link that is worth using",
        "match the rates of a prefill and a decode pool",
        "tell from objectives, lengths and size of a fleet whether two pools pay off",
        "read a plan: what was tried, what binds, what headroom there is, what a token costs and takes in energy",
    ],
    prerequisites=[
        "lesson 2: the cache of a token; lesson 3: prefill is bound by compute, decode by memory",
        "lesson 7: TTFT, TPOT, ITL, goodput, replicas and headroom",
    ],
    plan=[
        (6, "A prompt in the way"),
        (6, "Two pools"),
        (8, "The cache crosses a link"),
        (7, "How many of each"),
        (7, "When one pool is better"),
        (6, "From objectives to a fleet"),
        (5, "Joules and dollars"),
        (5, "Play and practise"),
    ],
    exercises=[
        "disaggregation-transfer-time",
        "disaggregation-pool-sizes",
        "energy-per-token",
    ],
)


# %%
RATE, PROMPT, OUTPUT = 24, 2000, 150
TRAFFIC = {"input_len": f"lognormal:{PROMPT}:1200", "output_len": f"lognormal:{OUTPUT}:80"}


def served(**options):
    """The service of this lesson, step by step: four H100, 24 requests per second."""
    return roofline.simulate(LLAMA, H100, rate=RATE, requests=1500, seed=1, ttft="1 s", **TRAFFIC, **options)


def named(name, unit, meaning):
    """A symbol of this lesson."""
    base, _, index = name.partition("_")
    return quantity(name, f"{base}_{{{index}}}" if index else base, unit, meaning)


def derived(title, expr, values, unit, source=""):
    """A formula in symbols and with numbers."""
    return formula(explanation("lesson", expr, values, unit=unit, source=source), title=title)


# %% [markdown]
# ## A prompt in the way
#
# Lesson 7 in two sentences: a step that computes prompt tokens takes longer, and everyone who decodes in that step waits for it. Smaller
# chunks make each wait shorter, but there are more of them, and TTFT grows.
#
# The service of this lesson is Llama 3.1 8B in bf16 on four H100. Each second 24 requests come, with prompts of 2,000 and answers of 150
# tokens on average; a router deals them to four **replicas**, each of which does everything. That is called *colocated*.

# %%
colocated = served(replicas=4)
lasts, each = OUTPUT * colocated.tpot_s.mean, RATE / 4
rate, time = named("r", "1/s", "prompts that arrive at a replica"), named("t_decode", "s", "from the first token to the last")
predict(
    f"Each replica gets 6 requests per second. An answer of 150 tokens has a TPOT of {amount(colocated.tpot_s.mean, 's')}. How many "
    "prompts of others are computed on its replica meanwhile, on average?",
    kind="sequences",
    answer=round(each * lasts),
    tolerance=0.13,
    hints={
        round(RATE * lasts): "Those are the prompts of all four replicas.",
        6: "That is per second. How long does the answer take?",
        round(lasts, 1): "Those are its seconds.",
    },
    why=[
        derived("Prompts in the way of an answer", rate * time, {rate: each, time: lasts}, "prompts", "Little's law, lesson 7"),
        f"Each of them makes a gap longer. Half of the gaps are below {amount(colocated.itl_s.p50, 's')}, but one in a hundred is {amount(colocated.itl_s.p99, 's')} or longer.",
    ],
)

# %%
takeaway(
    "The answers on a replica meet rate x duration prompts of others. A longer answer meets more of them, and each one is a visible pause."
)

# %% [markdown]
# ## Two pools
#
# Now split the same four GPUs: some are the **prefill pool** and only compute prompts, the others are the **decode pool** and only
# generate. Between them goes the KV cache of each prompt, once.

# %%
draw("prefill-decode-pools", model=LLAMA, prompt=PROMPT, tp=1)

# %%
split = {
    f"{prefill} + {4 - prefill}": served(disaggregated=True, prefill_replicas=prefill, decode_replicas=4 - prefill)
    for prefill in (3, 2, 1)
}
two_pools = split["3 + 1"]
assert two_pools.itl_s.p99 < colocated.itl_s.p99 / 2
assert two_pools.ttft_s.p95 > colocated.ttft_s.p95
predict(
    "Three GPUs now prefill, and one decodes for everybody. What happens to the 99th percentile of the gaps, and to TTFT?",
    {
        "gaps and TTFT both become shorter": "Three GPUs have the prompts of four now, and the cache has to be sent before decoding.",
        "gaps become much shorter, TTFT somewhat longer": "",
        "gaps become longer, since one GPU decodes for all": "Weights are read once per step, whether 10 or 40 sequences share it.",
    },
    answer="gaps become much shorter, TTFT somewhat longer",
    why=[
        table(
            ("four H100", "TTFT, p95", "TPOT, p95", "gap, p50", "gap, p99", "longest gap"),
            [
                (
                    name,
                    *(
                        amount(value, "s")
                        for value in (one.ttft_s.p95, one.tpot_s.p95, one.itl_s.p50, one.itl_s.p99, one.itl_s.max)
                    ),
                )
                for name, one in {
                    "colocated": colocated,
                    **{f"{name} (prefill + decode)": one for name, one in split.items()},
                }.items()
            ],
            title="The same requests, the same four GPUs",
            note=f"Caches cross {two_pools.transfer['links'][0].split(',')[0]}. One GPU can hardly compute all prompts: in the last row the queue grows.",
        ),
        "On a decode GPU no step has a prompt in it, so gaps are alike. TTFT pays: fewer GPUs share the prompts, and the transfer comes on top.",
    ],
)

# %%
cdf = {"colocated": colocated, "3 + 1": two_pools}
figure(
    curves(
        "gaps",
        "Gaps between tokens: CDF",
        ("gap", "s"),
        ("share of the gaps", "%"),
        {
            name: (
                one.distributions["itl_s"]["seconds"][::4],
                one.distributions["itl_s"]["share"][::4],
            )
            for name, one in cdf.items()
        },
        roles=("mixed", "decode"),
        scales=("log", "linear"),
        low=0,
        note="Colocated: most gaps are short and some are ten times as long. In the decode pool all are nearly the same.",
    )
)

# %%
takeaway(
    "Two pools exchange one thing for another: even gaps, which do not depend on the prompts, for fewer GPUs per phase and a cache to be sent."
)

# %% [markdown]
# ## The cache crosses a link
#
# The decode GPU needs the keys and values of the whole prompt. Their size is known since lesson 2.

# %%
per_token = roofline.explain(LLAMA, "kv_bytes_per_token")
size = per_token.value * PROMPT
larger = roofline.explain("llama-3.1-70b", "kv_bytes_per_token").value * PROMPT
assert larger == size * 80 / 32
predict(
    f"2,000 tokens of Llama 3.1 8B leave {formatting.quantity(size, 'B')}: {amount(per_token.value, 'bytes')} per token. Llama 3.1 70B has 80 layers instead of 32, and the same KV heads "
    "of the same width. How many bytes does its prompt of 2,000 tokens send?",
    kind="bytes",
    answer=larger,
    tolerance=0.05,
    hints={
        size: "More layers leave more: each one has a cache of its own.",
        size * 70 / 8: "The cache does not follow the parameters. It follows layers, KV heads and their width.",
    },
    why=f"80 / 32 times as many bytes, {formatting.quantity(larger, 'B')}. It is divided among the GPUs of a replica, each of which sends its KV heads.",
)

# %%
node = roofline.load_hardware("dgx-h100")
LINKS = {
    "NVLink, in one node": node.connection(2).inside.per_direction.value,
    "PCIe 5.0 x16": node.to_host().inside.per_direction.value,
    "InfiniBand, 400 Gbit/s per GPU": node.connection(16).network.per_direction.value,
    "Ethernet, 100 Gbit/s": 100e9 / 8,
    "Ethernet, 10 Gbit/s": 10e9 / 8,
}
alone = roofline.analyze(LLAMA, H100, input_len=PROMPT, phase="prefill").prefill.pipeline
even = size / alone.estimate
tokens, k_token, link = (
    named("S_prompt", "tokens", "of the prompt"),
    named("k_token", "bytes", "cache of a token"),
    named("R", "bytes/s", "rate of the link, in one direction"),
)
network = LINKS["InfiniBand, 400 Gbit/s per GPU"]
show(
    derived(
        "KV transfer, over InfiniBand",
        tokens * k_token / link,
        {tokens: PROMPT, k_token: per_token.value, link: network},
        "s",
        "docs/simulation.md",
    ),
    table(
        ("link", "per second", "transfer", "of the prefill"),
        [
            (name, formatting.quantity(speed, "B/s"), amount(size / speed, "s"), f"{size / speed / alone.estimate:.0%}")
            for name, speed in LINKS.items()
        ],
        title=f"2,000 tokens of Llama 3.1 8B, whose prefill takes {amount(alone.estimate, 's')} on one H100",
        note="The first three are from the file of the DGX H100. Real transfers reach less than the rate of the link.",
    ),
)

# %%
lengths = [256 * 2**power for power in range(9)]
fills = [roofline.analyze(LLAMA, H100, input_len=length, phase="prefill").prefill.pipeline.estimate for length in lengths]
ratio = [length * per_token.value / network / fill for length, fill in zip(lengths, fills, strict=True)]
assert ratio[-1] < ratio[3]
predict(
    "Take a prompt of 64,000 tokens instead of 2,000. The transfer, as a share of the prefill, becomes",
    {
        "much larger": "The cache grows with the length. Does the prefill grow less than that?",
        "somewhat smaller": "",
        "32 times smaller": "Both grow with the prompt. Which one has a part that grows with its square?",
    },
    answer="somewhat smaller",
    why=f"Both are proportional to the prompt, so the share hardly depends on it; but attention makes long prefills slower than proportional. "
    f"It is {ratio[3]:.0%} at {lengths[3]:,} tokens and {ratio[-1]:.0%} at {lengths[-1]:,}. What decides is the model (bytes of cache per FLOP) and the link.",
)

# %%
show(
    figure(
        curves(
            "transfer",
            "Prefill, and the transfer after it",
            ("prompt", "tokens"),
            ("time", "s"),
            {
                "prefill on one H100": (lengths, fills),
                "transfer, 400 Gbit/s": (lengths, [length * per_token.value / network for length in lengths]),
                "transfer, 10 Gbit/s": (lengths, [length * per_token.value / (10e9 / 8) for length in lengths]),
            },
            roles=("prefill", "kv", "mixed"),
            note="Estimates of the prefill; transfers at the full rate of the link.",
        )
    ),
    say(
        f"**What hides it.** Layer 1 of the cache is ready long before layer 32. An engine that sends each layer while the next one is computed "
        f"leaves only the last layer's part visible, 1/32, as long as the link keeps up with the prefill: at {formatting.quantity(even, 'B/s')} or "
        "more. Below that the link is the bottleneck, and no overlap helps. Sent in one piece at the end, all of it is visible. Others do "
        "not feel it either way, since the decode pool goes on with its steps."
    ),
    takeaway(
        "Transfer time = prompt x cache per token / link rate: a few percent of the prefill over the links of a data centre, more than all of it over 10 Gbit/s."
    ),
)

# %% [markdown]
# ## How many of each
#
# A pipeline of two stages is as fast as the slower one. So find the rate of one GPU in each role, divide, and **round each pool up**. The
# planner gives these rates: the highest at which a GPU keeps to its objective, here TTFT within 1 s and TPOT within 12 ms for 95 % of
# requests.

# %%
planned = {}


def plans(tpot, **options):
    """The best colocated and the best split fleet of H100 in bf16, one GPU per replica."""
    key = (tpot, *options.items())
    if key not in planned:
        asked_for = {"rate": RATE, "ttft": "1 s", "tpot": f"{tpot} ms", **TRAFFIC, **options}
        result = roofline.plan(
            LLAMA, hardware=[H100], mode="any", allow_disaggregated=0, quantization="none", tensor_parallel_size=1, **asked_for
        )
        planned[key] = {one.mode: one for one in result.candidates}
    return planned[key]


tight = plans(12)
prefill, decode = tight["disaggregated"].pools
both = tight["colocated"].pools[0]
predict(
    f"One prefill GPU takes {prefill.max_rate:.1f} requests per second, one decode GPU {decode.max_rate:.1f} (each request is in both). 24 come per second. How "
    "many GPUs in all?",
    kind="devices",
    answer=prefill.replicas + decode.replicas,
    tolerance=0,
    hints={
        1: "Each request needs both pools, and one prefill GPU is too slow for 24.",
        2: f"One prefill GPU takes {prefill.max_rate:.1f} per second, and 24 come.",
    },
    why=f"24 / {prefill.max_rate:.1f} is {RATE / prefill.max_rate:.2f}, so {prefill.replicas} for prompts; 24 / {decode.max_rate:.1f} is {RATE / decode.max_rate:.2f}, "
    f"so {decode.replicas} for answers. Colocated, one GPU takes {both.max_rate:.1f} per second at these objectives, so that {both.replicas} are needed.",
)

# %%
WORK = {
    "chat: 500 in, 500 out": (500, 500),
    "here: 2,000 in, 150 out": (PROMPT, OUTPUT),
    "summaries: 8,000 in, 200 out": (8000, 200),
    "reasoning: 500 in, 4,000 out": (500, 4000),
}
LEVEL = 32
needs = {}


def of_pools(value):
    """A ratio of pools in small numbers."""
    return f"{value:.1f} to 1" if value >= 1 else f"1 to {1 / value:.0f}"


for name, (length, out) in WORK.items():
    of_prompt = roofline.analyze(LLAMA, H100, input_len=length, phase="prefill").prefill.pipeline.estimate
    of_step = roofline.analyze(LLAMA, H100, batch=LEVEL, context=length + out // 2, phase="decode").decode.pipeline.estimate
    needs[name] = (of_prompt, out * of_step / LEVEL)
show(
    table(
        ("tokens of a request", "prefill", "decode", "pools, prefill to decode"),
        [(name, amount(fill, "s"), amount(out, "s"), of_pools(fill / out)) for name, (fill, out) in needs.items()],
        title="GPU time of a request",
        note=f"One H100, estimates; a request has a {LEVEL}nd of each decode step.",
    ),
    say(
        "So the ratio of the pools belongs to the *traffic*, not to the hardware. If the lengths of your users change, the division is wrong, and one pool waits for the other."
    ),
    takeaway(
        "GPUs of a pool = rate / rate of one GPU, each pool rounded up. The ratio follows the lengths, so it has to follow the traffic."
    ),
)

# %% [markdown]
# ## When one pool is better

# %%
OBJECTIVES = (8, 10, 12, 15, 20, 30, 40)
by_objective = {tpot: plans(tpot) for tpot in OBJECTIVES}


def per_gpu(one):
    """Requests per second within the objectives per GPU, with the pools divided as their rates are."""
    return 1 / sum(1 / pool.max_rate for pool in one.pools)


split_rates = {tpot: per_gpu(pair["disaggregated"]) for tpot, pair in by_objective.items()}
one_rates = {tpot: per_gpu(pair["colocated"]) for tpot, pair in by_objective.items()}
gain = {tpot: split_rates[tpot] / one_rates[tpot] for tpot in OBJECTIVES}
assert gain[8] > 2
assert gain[40] < 1.2
predict(
    "For which TPOT objective does splitting gain the most goodput per GPU?",
    {
        "a tight one, 8 ms": "",
        "a loose one, 40 ms": "At 40 ms, steps may well have a chunk of a prompt in it.",
        "the gain is the same for all": "The objective limits how many prompts a colocated GPU may take between tokens.",
    },
    answer="a tight one, 8 ms",
    why=f"With 8 ms a colocated GPU must turn down load, so that few gaps have a prompt in them: {one_rates[8]:.1f} requests per second per GPU against "
    f"{split_rates[8]:.1f}. With 40 ms it can mix both, and nearly all the gain is gone: {one_rates[40]:.1f} against {split_rates[40]:.1f}.",
)

# %%
loose = by_objective[30]
show(
    figure(
        curves(
            "goodput",
            "Goodput per GPU by the objective",
            ("TPOT objective, p95", "s"),
            ("requests per second per GPU", ""),
            {
                "colocated": ([tpot / 1e3 for tpot in OBJECTIVES], list(one_rates.values())),
                "two pools": ([tpot / 1e3 for tpot in OBJECTIVES], list(split_rates.values())),
            },
            roles=("mixed", "decode"),
            scales=("log", "linear"),
            low=0,
            note="H100, bf16, TTFT within 1 s. The pools divided exactly as their rates are, which takes many GPUs.",
        )
    ),
    table(
        ("objective", "colocated", "two pools"),
        [
            (
                f"{tpot} ms",
                f"{pair['colocated'].devices} GPUs",
                f"{pair['disaggregated'].devices} GPUs ({' + '.join(str(pool.replicas) for pool in pair['disaggregated'].pools)})",
            )
            for tpot, pair in by_objective.items()
        ],
        title="Whole GPUs for 24 requests per second",
        note=f"At 30 ms two colocated GPUs do it and two pools need {loose['disaggregated'].devices}: rounding up twice costs more than splitting gains.",
    ),
    say(
        "One pool is better if the objective is **loose**; if prompts are **short**, so that they disturb little; if there are **few GPUs**, since each "
        "pool is rounded up; if the **link is slow**; and if lengths change by the hour. Two pools also have two things that can fail. That is why the planner "
        "asks for 10 % less cost before it proposes them."
    ),
    takeaway(
        "Disaggregation buys goodput where TPOT is tight and prompts are long. Where a step may have a prompt in it, it buys little."
    ),
)

# %% [markdown]
# ## From objectives to a fleet
#
# A **planner** does for every layout what you just did for one: it tries hardware, formats, parallelism, batch limits, chunk sizes and pools, computes the
# latency at each load by a queueing formula, and takes as many replicas as keep the objectives for 95 % of requests. Only then does it look at
# prices.

# %%
plan = roofline.plan(
    LLAMA, hardware=[A100, H100], rate=50, ttft="2 s", tpot="15 ms", mode="any", allow_disaggregated=0, top=4, **TRAFFIC
)
listed = plan.candidates
first = listed[0]
show(
    say(
        f"50 requests per second, TTFT within 2 s, TPOT within 15 ms, A100 or H100: {plan.considered['deployments']} deployments were searched, of which "
        f"{plan.considered['fit']} fit; {plan.considered['meet']} fleets meet the objectives. The first ones, and those on the front:"
    ),
    table(
        ("fleet", "format", "GPUs", "TTFT, p95", "TPOT, p95", "USD/h", "binds", "headroom"),
        [
            (
                f"{one.title.split()[1]}, {one.mode} ({at + 1})",
                one.precision,
                one.devices,
                amount(one.performance.ttft.at, "s"),
                amount(one.performance.tpot.at, "s"),
                f"{one.cost.per_hour:.2f}",
                one.binds.upper() if one.binds in ("ttft", "tpot") else one.binds,
                f"{one.headroom:.0%}",
            )
            for at, one in enumerate(listed)
        ],
        title="Fleets by cost",
        note="Binds: what stops it from serving more (throughput: 85 % of saturation). fp8 may change answers.",
    ),
)

# %%
capacity = first.breaks_at
predict(
    f"The first fleet serves up to {capacity:.0f} requests per second within the objectives. How much headroom is that over 50?",
    kind="share",
    answer=first.headroom,
    tolerance=0.05,
    hints={
        1 - 50 / capacity: "That is the part of the capacity that is left. Headroom is over the planned rate.",
        capacity / 50: "Less the load itself.",
    },
    why=f"{capacity:.1f} / 50 less one, {first.headroom:.0%}. It comes from rounding replicas up, so a larger fleet has less of it, unless you ask for more.",
)

# %%
show(
    figure(figures_of(plan).make("cost-tpot")),
    say(
        "A fleet is on the **Pareto front** if no other is at least as good in cost, TTFT and TPOT, and better in one. So a filled point may lie off the line, by its "
        "TTFT. Choose between fleets of the front; forget the others."
    ),
    takeaway(
        "A plan is a search under objectives: read what binds (it breaks first), the headroom (how soon), and the front (what else you could buy)."
    ),
)

# %% [markdown]
# ## Joules and dollars
#
# A watt is a joule per second. So energy per token is power over tokens per second; with the **board power** from the datasheet it is an upper bound,
# since a GPU that waits for memory draws less. The building adds cooling: total over machines is the **PUE**.

# %%
board = watts(roofline.load_hardware(H100))
batches = [1, 2, 4, 8, 16, 32, 64, 128]
steps = {batch: roofline.analyze(LLAMA, H100, batch=batch, context=1024, phase="decode").decode.pipeline for batch in batches}
power, step, batch = (
    named("P_board", "W", "board power"),
    named("t_step", "s", "a decode step"),
    named("B", "sequences", "of the batch"),
)
energy = {batch: board * took.estimate / batch for batch, took in steps.items()}
predict(
    f"An H100 draws {board:.0f} W at most. A decode step of Llama 3.1 8B takes {amount(steps[1].estimate, 's')} with one sequence and {amount(steps[64].estimate, 's')} with 64. "
    "How many joules does a token take at most, with 64?",
    kind="joules",
    answer=energy[64],
    tolerance=0.06,
    hints={
        energy[1]: "That is with one sequence.",
        board * steps[64].estimate: "That is the whole step, which makes 64 tokens.",
    },
    why=derived(
        "Energy of an output token, at most",
        power * step / named("n_B", "sequences", "in the batch"),
        {power: board, step: steps[64].estimate, named("n_B", "sequences", "in the batch"): 64},
        "J",
        "docs/capacity.md, Costs and energy",
    ),
)

# %%
PUE, TARIFF = 1.2, 0.10
hour_energy, hour_rent = board / 1e3 * PUE * TARIFF, first.cost.per_hour / first.devices
show(
    figure(
        curves(
            "energy",
            "Energy of an output token, at most",
            ("batch", "sequences"),
            ("energy, J", ""),
            {
                "estimated step": (batches, list(energy.values())),
                "with the step at its bound": (batches, [board * took.bound / batch for batch, took in steps.items()]),
            },
            roles=("estimate", "decode"),
            note="One H100 at its board power, 1,024 tokens of context, decode alone. Prompts and hosts come on top.",
        )
    ),
    say(
        f"Batching saves energy as it saves time: {energy[1]:.1f} J with one sequence, {energy[128]:.2g} J with 128. And money? Suppose a PUE of {PUE} and "
        f"{TARIFF:.2f} USD per kWh: an hour of an H100 takes {hour_energy:.2f} USD of electricity at most, against {hour_rent:.2f} USD of rent, {hour_energy / hour_rent:.0%}. "
        f"Who rents pays for time. The fleet above costs {first.cost.total:.3f} USD per million tokens and takes at most "
        f"{first.power.joules_per_output_token:.2f} J per output token, prompts included."
    ),
    takeaway(
        "Energy per token is at most board power x PUE / tokens per second: what makes a token cheap makes it frugal, and a larger batch does both."
    ),
)

# %% [markdown]
# ## Play and practise

# %%
play(
    "One colocated GPU (or group), whose clients are the **batch**, with two tiles about splitting: the time of a prompt's KV transfer over the network, and "
    "how many prefill devices keep one decode device at work. Energy is at most.",
    controls=("model", "batch", "input_len", "output_len", "weights", "kv", "hardware", "tp", "network_gbs", "efficiency"),
    tiles=("ttft", "tpot", "prompts_share", "kv_transfer", "prefill_per_decode", "joules"),
    formulas=("kv_bytes_per_token",),
    pictures=("service",),
    models=("llama-3.1-8b", "qwen3-8b", "llama-3.1-70b"),
    hardware=("h100-sxm", "a100-sxm-80gb", "h200-sxm"),
    batch=32,
    input_len=2000,
    output_len=150,
    network_gbs=50,
    efficiency=True,
    tries=(
        "Take the prompt from 2,000 to 200 tokens. Which share of TPOT do the prompts of others still take?",
        "Find a prompt and an output for which one prefill device suits one decode device.",
        "At which network does the transfer take as long as the prompt? Does that depend on the prompt's length?",
        "Double the **batch** twice. What happens to joules, and to TPOT?",
    ),
)

# %%
long = roofline.explain("llama-3.1-70b", "kv_bytes_per_token").value * 8000
show(
    worked(
        "over which link?",
        "Llama 3.1 70B on four GPUs per replica, prompts of 8,000 tokens. Each GPU sends its quarter of the cache over a port of 100 Gbit/s. How long?",
        say(
            f"The cache is {formatting.quantity(long, 'B')}, a quarter is {formatting.quantity(long / 4, 'B')}, and the port carries 12.5 GB/s: {amount(long / 4 / 12.5e9, 's')}. "
            "It goes into TTFT once. An objective of 1 s bears it; one of 200 ms may not, unless layers are sent one by one."
        ),
    ),
    worked(
        "should we split?",
        "A team has two H100, prompts of 300 tokens, answers of 400, TPOT within 50 ms. They read that disaggregation doubles goodput. Should they?",
        "No. The objective is loose and prompts are short, so few gaps are disturbed; and with two GPUs the only division is one to one, which fits no traffic "
        "but by chance. The doubling was found with tight objectives and many GPUs.",
    ),
)

# %%
show(
    exercise("disaggregation-transfer-time", 1),
    exercise("disaggregation-pool-sizes", 1),
    exercise("energy-per-token", 1),
)

# %% [markdown]
# **More**: Zhong et al. 2024 (DistServe, arXiv:2401.09670) and Patel et al. 2024 (Splitwise, arXiv:2311.18677) introduced separate pools; Qin et al. 2024
# (Mooncake, arXiv:2407.00079) keep the cache in a store between them. `roofline simulate --disaggregated` and `roofline plan --mode any` do this lesson for
# your traffic.
