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
# # 12. Capstone: size a service
#
# One paragraph comes in, and out go a number of GPUs, the flags of the engine, a price, and a list of what would break it. Nothing here is
# new: each step uses one earlier lesson, you predict first, and the toolkit answers. At the end you can do the same for a service of your
# own, which is the project of this course.

# %%
import re
from pathlib import Path

import roofline
import roofline.teach.term
from roofline import formatting
from roofline.formulas.symbolic import quantity
from roofline.predict.explain.explanation import explanation
from roofline.report.figures import figures_of
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

QWEN, H100, H200, A100, L40S = "qwen3-32b", "h100-sxm", "h200-sxm", "a100-sxm-80gb", "l40s"

lesson(
    12,
    "Capstone: size a service",
    "From one paragraph to GPUs, flags, a price, a check, and what would break it.",
    goals=[
        "turn a paragraph into a rate, lengths and objectives",
        "rule out models, formats and cards by memory and by bounds, before any estimate",
        "take a fleet from a plan, say what binds it, and check it by simulation",
        "say what to measure first, which result to expect, and what another result would mean",
        "name what would break the service, and what the cure costs",
    ],
    prerequisites=[
        "lessons 1 to 4: memory, bounds, batches",
        "lessons 7, 9, 10 and 11: serving, formats, prefix caching, plans",
    ],
    plan=[
        (5, "From a paragraph to numbers"),
        (6, "What fits"),
        (7, "Bounds first"),
        (9, "The fleet"),
        (6, "Flags, and a check"),
        (6, "What to measure first"),
        (6, "What would break it"),
        (5, "Play, practise, go on"),
    ],
    exercises=["kv-cache-tokens-that-fit", "serving-goodput", "energy-million-tokens"],
)


# %%
RATE, SYSTEM, CASE, OUTPUT = 12, 2000, 1000, 300
TTFT, TPOT, QUESTIONS = 1.0, 0.040, 1500
PROMPT, DTYPES = SYSTEM + CASE, {"bf16": {}, "fp8": {"quantization": "fp8_block"}}
OBJECTIVES = {"ttft": f"{TTFT} s", "tpot": f"{TPOT} s"}


def named(name, unit, meaning):
    """A symbol of this lesson."""
    base, _, index = name.partition("_")
    return quantity(name, f"{base}_{{{index}}}" if index else base, unit, meaning)


def derived(title, expr, values, unit, source=""):
    """A formula in symbols and with numbers."""
    return formula(explanation("lesson", expr, values, unit=unit, source=source), title=title)


# %% [markdown]
# ## From a paragraph to numbers
#
# > A company wants an assistant for its support staff. At the busiest time 12 questions per second come. Each begins with the same 2,000
# > tokens of instructions and product facts; then comes the case, 1,000 tokens on average, some much longer. Answers have 300 tokens. The
# > first word should be there within a second, and text should then come faster than one reads, 25 tokens per second. This should hold for
# > 95 of 100 questions. Tests say that Qwen3 32B is good enough. GPUs are rented. What do we need?

# %%
rate, first_token, gaps, gap = (
    named("r", "1/s", "questions per second"),
    named("t_TTFT", "s", "objective for the first token"),
    named("n_gaps", "", "gaps between the tokens of an answer"),
    named("t_TPOT", "s", "objective for each gap"),
)
longest = TTFT + (OUTPUT - 1) * TPOT
predict(
    "25 tokens per second are a TPOT of 40 ms. If every answer just meets both objectives, how many questions are in the system at the same time?",
    kind="sequences",
    answer=round(RATE * longest),
    tolerance=0.05,
    hints={
        12: "Those come in one second. How long does each one stay?",
        round(RATE * OUTPUT * TPOT): "Count the first second, too.",
    },
    why=derived(
        "In the system, by Little's law (lesson 7)",
        rate * (first_token + gaps * gap),
        {rate: RATE, first_token: TTFT, gaps: OUTPUT - 1, gap: TPOT},
        "questions",
        "Little 1961, Operations Research 9(3)",
    ),
)

# %%
show(
    table(
        ("the brief", "in numbers"),
        [
            ("busiest time", f"rate {RATE} per second, at random times"),
            ("instructions, the same for all", f"shared prefix of {SYSTEM:,} tokens"),
            ("the case, some much longer", f"prompt of {CASE:,} more tokens on average, lognormal"),
            ("answers", f"{OUTPUT} tokens on average, lognormal"),
            ("first word within a second", f"TTFT of at most {amount(TTFT, 's')}, p95"),
            ("25 tokens per second", f"TPOT of at most {amount(TPOT, 's')}, p95"),
        ],
        title="What the paragraph says",
        note="What it does not say, ask: how fast does the load change, may answers change a little, what if a GPU fails?",
    ),
    takeaway(
        f"A brief is a rate, two lengths with their spread, what prompts have in common, and objectives with a percentile. Little's law gives the size: at most some {RATE * longest:.0f} at a time."
    ),
)

# %% [markdown]
# ## What fits

# %%
params = roofline.explain(QWEN, "parameters").value


def capacity(hardware, tp, dtype):
    """Weights per device in bytes, and how many sequences of mean length fit beside them (0: not even the weights)."""
    memory = roofline.analyze(
        QWEN,
        hardware,
        context=PROMPT + OUTPUT - 1,
        phase="decode",
        tensor_parallel_size=tp,
        ignore_capacity=True,
        **DTYPES[dtype],
    ).memory
    return memory.weights_bytes, max(int(memory.max_batch or 0), 0)


LAYOUTS = [(card, tp, dtype) for card in (L40S, A100, H100, H200) for dtype in DTYPES for tp in (1, 2)]
LAYOUTS = [entry for entry in LAYOUTS if entry[:1] != (A100,) or entry[2] == "bf16"]
capacities = {entry: capacity(*entry) for entry in LAYOUTS}
alone = capacities[H100, 1, "bf16"]
assert 0 < alone[1] < 20
predict(
    f"Qwen3 32B has {params / 1e9:.1f} billion parameters. Which holds, in bf16 on one H100 of 80 GB?",
    {
        "the weights do not fit": "Two bytes for each parameter. That is less than 80 GB.",
        "they fit, with a dozen sequences": "",
        "they fit, with a hundred sequences": "How much is left of 90 % of the memory, and how much does a sequence of 3,300 tokens take?",
    },
    answer="they fit, with a dozen sequences",
    why=f"The weights are {formatting.quantity(alone[0], 'B')}, and engines use 0.9 of the memory. Beside them there is space for {alone[1]} sequences of "
    f"{PROMPT + OUTPUT:,} tokens. We expect some {RATE * longest:.0f} at a time in all.",
)

# %%
TITLES = {L40S: "L40S", A100: "A100 80 GB", H100: "H100", H200: "H200"}
show(
    table(
        ("card", "format", "weights per GPU, TP 1", "sequences, TP 1", "sequences, TP 2", "per GPU"),
        [
            (
                TITLES[card],
                dtype,
                formatting.quantity(capacities[card, 1, dtype][0], "B"),
                capacities[card, 1, dtype][1],
                capacities[card, 2, dtype][1],
                f"{capacities[card, 2, dtype][1] / 2:.0f}",
            )
            for card, one, dtype in LAYOUTS
            if one == 1
        ],
        title=f"Sequences of {PROMPT + OUTPUT:,} tokens that fit beside the weights",
        note="Cache in bf16, each sequence with its own copy of the prefix. The A100 cannot multiply in fp8.",
    ),
    takeaway(
        "Memory first: it rules out one L40S, and says that a format of half the size, or a second GPU for the same weights, gives the cache its place."
    ),
)

# %% [markdown]
# ## Bounds first
#
# A bound costs nothing and cannot be argued with. Two of them: a decode step has to read the weights, and prompts have to be multiplied.

# %%
floor = roofline.explain(QWEN, "decode_floor", H100)
fill = roofline.analyze(QWEN, H100, input_len=PROMPT, phase="prefill", ignore_capacity=True).prefill.cost.matrix_flops
cached_fill = fill * CASE / PROMPT
peak = roofline.load_hardware(H100).peak("bf16")
work, most = named("F_prompt", "FLOP", "of a prompt"), named("P", "FLOP/s", "peak in bf16")
gpus = RATE * fill / peak
predict(
    f"A prompt of 3,000 tokens is {formatting.quantity(fill, 'FLOP')}; an H100 does at most {formatting.quantity(peak, 'FLOP/s')} in bf16. 12 prompts come per "
    "second. How many H100 are at work for prompts alone, at the peak that no kernel reaches?",
    kind="ratio",
    answer=gpus,
    tolerance=0.05,
    hints={fill / peak: "That is the time of one prompt, and 12 come per second.", gpus / 12: "12 come per second."},
    why=[
        derived(
            "H100 at work for prompts, at least",
            rate * work / most,
            {rate: RATE, work: fill, most: peak},
            "devices",
            "lesson 3",
        ),
        f"Kernels reach a half to two thirds of the peak, so it is nearly twice as many. But {SYSTEM:,} of the {PROMPT:,} tokens are the same in all prompts: with their cache kept (lesson 10), roughly {RATE * cached_fill / peak:.1f} are left.",
    ],
)

# %%
floors = {
    (card, dtype): roofline.explain(QWEN, "decode_floor", card, **DTYPES[dtype]).value for card, tp, dtype in LAYOUTS if tp == 1
}
show(
    figure(
        bars(
            "floors",
            "The shortest decode step, one GPU",
            ("time", "s"),
            {dtype: {TITLES[card]: value for (card, one), value in floors.items() if one == dtype} for dtype in DTYPES},
            roles=("weights", "decode"),
            note="All weights read once at the full bandwidth: a bound on TPOT for any engine and batch, without speculation.",
        )
    ),
    say(
        f"The objective is {amount(TPOT, 's')}. One L40S needs {amount(floors[L40S, 'bf16'], 's')} in bf16, so no engine can do it token by token; in fp8 it needs "
        f"{amount(floors[L40S, 'fp8'], 's')}, nearly all of the objective. An H100 leaves half of it for the cache, for prompts and for what kernels lose."
    ),
    takeaway(
        "Bounds rule out, they do not promise: a card that fails one is out for good; a card that passes both is worth an estimate."
    ),
)

# %% [markdown]
# ## The fleet
#
# Now the planner (lesson 11), with all that the brief says. First without prefix caching, then with 2,000 tokens of each prompt in the
# cache.

# %%
LENGTHS = {"input_len": f"lognormal:{PROMPT}:800", "output_len": f"lognormal:{OUTPUT}:150"}


def planned(cards, **options):
    """The plan for the brief, on replicas that do both phases."""
    return roofline.plan(QWEN, hardware=cards, rate=RATE, mode="colocated", **LENGTHS, **OBJECTIVES, **options)


without = planned([H100], top=1)
plan = planned([H100, H200], top=4, cached_prefix=SYSTEM)
best, dear = plan.candidates[0], without.candidates[0]
pool = best.pools[0]
saved = 1 - best.cost.per_hour / dear.cost.per_hour
assert 0.3 < saved < 0.6
predict(
    "Two thirds of each prompt need not be computed again. How much less does the fleet cost per hour?",
    {
        "nothing: it is sized by its decode steps": "Prompts take much of each second, as their bound has shown.",
        "about two thirds less": "Answers have to be decoded as before.",
        "something between": "",
    },
    answer="something between",
    why=f"{dear.devices} GPUs become {best.devices}: {dear.cost.per_hour:.2f} against {best.cost.per_hour:.2f} USD per hour, {saved:.0%} less. Decode steps stay, and replicas are whole.",
)

# %%
show(
    table(
        ("fleet", "format", "replicas x GPUs", "TTFT, p95", "TPOT, p95", "USD/h", "binds", "headroom"),
        [
            (
                f"{one.title.split()[1]} ({at + 1})",
                one.precision,
                f"{one.pools[0].replicas} x {one.pools[0].devices}",
                amount(one.performance.ttft.at, "s"),
                amount(one.performance.tpot.at, "s"),
                f"{one.cost.per_hour:.2f}",
                one.binds.upper() if one.binds in ("ttft", "tpot") else one.binds,
                f"{one.headroom:.0%}",
            )
            for at, one in enumerate(plan.candidates)
        ],
        title="Fleets that serve the brief, with prefix caching",
        note="fp8_block is the checkpoint of the model's authors. Binds: memory is counted with a copy of the prefix per sequence, which is cautious; throughput is 85 % of saturation.",
    ),
    figure(figures_of(plan).make("cost-tpot")),
    say(
        f"Three fleets cost the same: one replica of four GPUs, two of two, four of one. We take the first, **{pool.replicas} replicas of {pool.devices} H100 in fp8**: it is the quickest of "
        f"them, has {best.headroom:.0%} headroom, and if one replica fails, there is another."
    ),
)

# %%
tokens = RATE * (PROMPT + OUTPUT)
price, served_rate, million, hour = (
    named("p_fleet", "USD/h", "price of the fleet"),
    named("r_tokens", "1/s", "tokens per second, prompts and answers"),
    named("n_million", "tokens", "a million of them"),
    named("t_hour", "s/h", "seconds of an hour"),
)
total = best.cost.per_hour / 3600 / tokens * 1e6
assert abs(total / best.cost.total - 1) < 0.02
predict(
    f"The fleet costs {best.cost.per_hour:.2f} USD per hour and serves 12 questions of 3,000 and 300 tokens per second. What do a million tokens cost (prompts and answers), at this load?",
    kind="usd",
    answer=total,
    tolerance=0.05,
    hints={
        best.cost.per_hour / 3600 / (RATE * OUTPUT) * 1e6: "That is per million tokens of output. Prompts count, too.",
        total * 3600: "The price is per hour, the rate per second.",
    },
    why=[
        derived(
            "USD per million tokens",
            million * price / (hour * served_rate),
            {million: 10**6, price: best.cost.per_hour, hour: 3600, served_rate: tokens},
            "USD",
            "docs/capacity.md, Costs and energy",
        ),
        f"That is at the busiest time. If the mean load is a third of it and the fleet stays, it is three times as much. Energy: at most {best.power.joules_per_output_token:.2f} J per output token (lesson 11).",
    ],
)

# %%
takeaway(
    "From a plan take four things: the fleet, what binds it, its headroom, and the next fleet on the front. Price per token is for the load that it serves."
)

# %% [markdown]
# ## Flags, and a check

# %%
draw("tensor-parallel", model=QWEN, tokens=32)

# %%
flags = pool.deployment
WHY = {
    "checkpoint": "half the bytes per step, space for the cache (lesson 9)",
    "tensor_parallel": "two GPUs read the weights together (lesson 6)",
    "max_num_seqs": "what memory holds; more would be preempted (lesson 8)",
    "max_num_batched_tokens": "prompt tokens beside decodes in a step (lesson 7)",
    "max_model_len": "the longest request that is expected",
}
NAMES = {
    "checkpoint": "model",
    "tensor_parallel": "--tensor-parallel-size",
    "max_num_seqs": "--max-num-seqs",
    "max_num_batched_tokens": "--max-num-batched-tokens",
    "max_model_len": "--max-model-len",
}


def served(**options):
    """The fleet, step by step."""
    asked_for = {
        "rate": RATE, "replicas": pool.replicas, "system_prompt": SYSTEM, "input_len": f"lognormal:{CASE}:800",
        "output_len": LENGTHS["output_len"], "quantization": flags["quantization"],
        "tensor_parallel_size": flags["tensor_parallel"], "max_num_seqs": flags["max_num_seqs"],
        "max_num_batched_tokens": flags["max_num_batched_tokens"], "requests": QUESTIONS, "seed": 1, **OBJECTIVES,
    } | options  # fmt: skip
    return roofline.simulate(QWEN, H100, **{name: value for name, value in asked_for.items() if value is not None})


base = served()
ratio = base.tpot_s.p95 / best.performance.tpot.at
assert 0.75 < ratio < 1.25
predict(
    f"The plan is a formula: TPOT of {amount(best.performance.tpot.at, 's')} at p95. A simulator runs 1,500 questions through a scheduler, step by step, with the same step times. Its TPOT is",
    {
        "about the same, within a quarter": "",
        "twice as long: formulas ignore queues": "The plan has a queueing model in it (lesson 11).",
        "half as long: plans are cautious": "Caution is in the percentile and in the headroom, not in the latency.",
    },
    answer="about the same, within a quarter",
    why=[
        table(
            ("p95", "objective", "plan", "simulation"),
            [
                ("TTFT", amount(TTFT, "s"), amount(best.performance.ttft.at, "s"), amount(base.ttft_s.p95, "s")),
                ("TPOT", amount(TPOT, "s"), amount(best.performance.tpot.at, "s"), amount(base.tpot_s.p95, "s")),
            ],
            title="Two ways to the same number",
            note=f"Simulated: {base.within_slo:.0%} of the questions are within both, {base.prefix_hit_rate:.0%} of the prompt tokens were in the cache.",
        ),
        "Two methods that agree can still share a wrong step time. Only a measurement finds that.",
    ],
)

# %%
show(
    table(
        ("flag of vLLM", "value", "why"),
        [(NAMES[key], str(flags[key]), why) for key, why in WHY.items()],
        title="How to start a replica",
        note="Prefix caching is on by default. `roofline plan` prints the line, and those of SGLang and TensorRT-LLM.",
    ),
    takeaway("Every flag follows from a lesson. Check a formula by a simulation, and both by a measurement."),
)

# %% [markdown]
# ## What to measure first
#
# Rent **one** replica for an hour before you rent the fleet, and write down what you expect before you look.

# %%
step = base.steps["decode"]
took = step["time_s"]
wrong = float(f"{0.8 * took['bound']:.1g}")
predict(
    f"A decode step with {step['batch']} sequences: bound {amount(took['bound'], 's')}, estimate {amount(took['estimate'], 's')}, 80 % interval from {amount(took['low'], 's')} to "
    f"{amount(took['high'], 's')}. Your first measurement says {amount(wrong, 's')}. What now?",
    {
        "good news: rent fewer GPUs": "It is less than the bound, which holds for every engine.",
        "the measurement is wrong, or measures something else": "",
        "an outlier, as one of ten is": "One of ten may be below the low end of the interval. None may be below the bound.",
    },
    answer="the measurement is wrong, or measures something else",
    why="No engine reads the weights and the cache faster than memory gives them. Fewer sequences than you think, shorter contexts, a timer that did not wait for the GPU: look there.",
)

# %%
show(
    figure(
        bars(
            "expected",
            f"A decode step with {step['batch']} sequences: what to expect",
            ("time", "s"),
            {
                "step": {
                    "bound": took["bound"],
                    "low end of the interval": took["low"],
                    "estimate": took["estimate"],
                    "high end": took["high"],
                    "TPOT objective": TPOT,
                }
            },
            roles=("decode",),
            note="The objective has to hold the prompts of others besides.",
        )
    ),
    table(
        ("you measure", "it means", "then"),
        [
            (f"less than {amount(took['bound'], 's')}", "below the bound", "look for the error in the measurement"),
            (f"up to {amount(took['high'], 's')}", "as expected", "measure the next quantity"),
            (
                f"up to {amount(TPOT, 's')}",
                "slower than nine of ten such kernels",
                "look at kernels and gaps (lesson 5), plan again with this time",
            ),
            (f"more than {amount(TPOT, 's')}", "no load meets the objective", "another format, layout or card"),
        ],
        title="Before you measure: what each result will mean",
    ),
    say(
        "In this order, cheapest first: the decode step at the planned batch (`roofline bench serve`); a prompt of 1,000 new tokens behind 2,000 cached ones; then 6 "
        "requests per second, half of the load, to one replica (`vllm bench serve`), whose TPOT should be that of the plan."
    ),
    takeaway(
        "Measure what the plan hangs on most, with an expectation that can fail. A result outside of the interval is where you learn something."
    ),
)

# %% [markdown]
# ## What would break it

# %%
failed = served(failures="at=60 s:replica=0")
cases = {
    "as planned": base,
    "a quarter more questions": served(rate=RATE * 1.25),
    "cases of 3,000 tokens, not 1,000": served(input_len="lognormal:3000:2400"),
    "another product: no shared prefix": served(system_prompt=None, input_len=LENGTHS["input_len"]),
    "bursts of four times the rate": served(rate=None, workload=f"bursty:{RATE}:4"),
    "a replica fails after 60 s": failed,
    "it fails, and there is a third one": served(replicas=pool.replicas + 1, failures="at=60 s:replica=0"),
}
spare = cases["it fails, and there is a third one"]
assert failed.within_slo < 0.8 < spare.within_slo
predict(
    f"One of the two replicas fails and stays away. The other one keeps the objectives up to {pool.max_rate:.1f} questions per second, and 12 come. What do its users see?",
    {
        "all wait twice as long": "That would be so if the queue found an end. Does it?",
        "a queue that grows until it is back": "",
        "hardly anything: there was headroom": f"Headroom is {best.headroom:.0%} of the load. A replica is half of the fleet.",
    },
    answer="a queue that grows until it is back",
    why="12 come and fewer are served (lesson 7, too much load): TTFT says only how long the failure lasts. In a fleet of two a replica is half; in one of eight it would be an eighth.",
)

# %%
show(
    figure(
        curves(
            "queue",
            "Questions that wait",
            ("time", "s"),
            ("waiting", ""),
            {
                name: (
                    [at * one.series["interval_s"] for at in range(0, len(one.series["waiting"]), 4)],
                    list(one.series["waiting"][::4]),
                )
                for name, one in (("a replica of two fails", failed), ("one of three fails", spare))
            },
            roles=("mixed", "decode"),
            scales=("linear", "linear"),
            low=0,
            note=f"The replica is gone from the 60th second on, and its questions are sent again: the first peak. After {QUESTIONS / RATE:.0f} s no more come, and the queue drains.",
        )
    ),
    table(
        ("what happens", "TTFT, p95", "TPOT, p95", "within both"),
        [
            (name, amount(one.ttft_s.p95, "s"), amount(one.tpot_s.p95, "s"), f"{one.within_slo:.0%}")
            for name, one in cases.items()
        ],
        title="The fleet, under what was not in the brief",
        note=f"{QUESTIONS:,} questions each.",
    ),
    say(
        f"The cure for the failure is a third replica: {best.cost.per_hour / 2:.2f} USD per hour more, half of the price again. For longer cases plan again; for bursts "
        "limit admission, or keep replicas in reserve. Tell the company which of these it has paid for."
    ),
    takeaway(
        "A fleet is sized for a brief. Say what breaks it, how soon, and what each cure costs: that is the part of the answer that will be read twice."
    ),
)

# %% [markdown]
# ## Play, practise, go on

# %%
play(
    "One replica of the service: the **batch** is the number of its users, each of whom sends the next question when the answer is there. Of each prompt the cached prefix is not computed.",
    controls=(
        "model",
        "batch",
        "input_len",
        "cached_prefix",
        "output_len",
        "weights",
        "kv",
        "hardware",
        "tp",
        "price",
        "efficiency",
    ),
    tiles=("ttft", "tpot", "prompts_share", "requests_per_s", "slots", "cost_per_million", "joules"),
    formulas=("decode_floor",),
    pictures=("service",),
    models=("qwen3-32b", "llama-3.1-70b", "qwen3-8b"),
    hardware=("h100-sxm", "h200-sxm", "a100-sxm-80gb"),
    batch=40,
    input_len=PROMPT,
    cached_prefix=SYSTEM,
    output_len=OUTPUT,
    weights="fp8",
    tp="2",
    price=2.95,
    efficiency=True,
    tries=(
        "How many users until TPOT is 40 ms? How many requests per second are that?",
        "Set the cached prefix to 0. What happens to that number?",
        "bf16 instead of fp8: is it memory or time that you lose?",
        "Find the cheapest million tokens within 40 ms. What did you have to give up?",
    ),
)

# %%
show(
    worked(
        "half the objective",
        "The company asks for TPOT within 20 ms instead of 40 ms. Without a new plan: what could you say at once?",
        say(
            f"One H100 in bf16 is out: its bound is {amount(floors[H100, 'bf16'], 's')}. In fp8 one GPU's bound is {amount(floors[H100, 'fp8'], 's')}, so that half of the objective is left; with two GPUs it is half of that. The planned fleet has "
            f"{amount(best.performance.tpot.at, 's')} at p95 and would miss it: fewer questions per replica, so more replicas, or more GPUs per replica."
        ),
    ),
)

# %%
show(
    exercise("kv-cache-tokens-that-fit", 2),
    exercise("serving-goodput", 2),
    exercise("energy-million-tokens", 1),
)

# %%
project = (Path(roofline.teach.term.__file__).parent / "project.md").read_text(encoding="utf-8")
rubric = re.findall(r"^\| (\d+) \| ([^|]+) \|", project.partition("## Rubric")[2], re.MULTILINE)
assert sum(int(points) for points, _ in rubric) == 100
show(
    say(
        "**The project.** Choose one claim about the speed, memory or cost of a model on hardware, predict its numbers, then measure or look them up, and account for the difference. A wrong "
        "prediction costs nothing; one without an interval, or changed afterwards, does."
    ),
    table(("points", "for"), [(points, text.strip()) for points, text in rubric], title="Rubric: 100 points"),
    say(
        "**Where to go on.** Plan a service of your own with `roofline plan`, and vary it with `roofline simulate` and `roofline sweep`. Put a published number to the test with `roofline claim`. Profile an "
        "engine with `roofline profile`. Add the GPU or the model that is missing. You can now say of a number what is exact, what is a bound, what is an estimate, and what would prove it wrong."
    ),
)
