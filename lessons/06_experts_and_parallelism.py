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
# # 6. Mixtures of experts, parallelism
#
# A mixture of experts has many feed-forward blocks per layer; a token uses only a few of them. So a large model can be quick for one
# token. What does a *batch* cost? And what if the model is spread over several devices?

# %%
import roofline
from roofline import formatting
from roofline.operators.grouped_gemm import expected_distinct
from roofline.predict.request import prepare
from roofline.predict.timing import Pipeline, pipelined_step
from roofline.specs.workload import decode as decode_step
from roofline.specs.workload import prefill as prompts
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
from roofline.teach.worksheets.worked import formula as written

MIXTRAL, DEEPSEEK, LLAMA70, NODE = "mixtral-8x7b", "deepseek-v2", "llama-3.1-70b", "dgx-h100"
model = roofline.load_model(MIXTRAL)
experts = model.layer_types["decoder"].mlp

lesson(
    6,
    "Mixtures of experts, parallelism",
    "Total and active parameters, what a batch reads of them, and what devices send each other.",
    goals=[
        "compute total and active parameters from a config",
        "compute how many experts a batch reads, and say why a mixture needs a larger batch",
        "compute what all-reduce and all-to-all send",
        "choose between tensor, pipeline, expert and data parallelism",
    ],
    prerequisites=[
        "lesson 1: gated feed-forward blocks; lessons 3 and 4: ridge point, critical batch; lesson 5: bound and estimate",
    ],
    plan=[
        (9, "Total and active"),
        (10, "What a batch reads"),
        (9, "Experts on many devices"),
        (10, "Tensor parallelism"),
        (7, "Pipelines, and which one when"),
        (5, "Play and practise"),
    ],
    exercises=["moe-active-parameters", "moe-distinct-experts", "moe-replicated-cache", "moe-pipeline-bubble"],
)

# %% [markdown]
# ## Total and active
#
# Instead of one feed-forward block, a layer has $E$ of them, the **experts**. A small matrix, the **router**, scores them for each
# token, and the $k$ best ones work on it. Everything else is as before, and every token uses it.

# %%
MIXTURES = {MIXTRAL: "decoder", DEEPSEEK: "moe", "qwen3-30b-a3b": "decoder"}
blocks = {name: roofline.load_model(name).layer_types[layer].mlp for name, layer in MIXTURES.items()}
table(
    ("model", "experts, $E$", "used by a token, $k$", "inner width, $d_e$"),
    [
        (
            roofline.load_model(name).title,
            blocks[name].num_experts,
            blocks[name].num_experts_per_tok,
            blocks[name].moe_intermediate_size,
        )
        for name in MIXTURES
    ],
    title="Three mixtures, from their configs",
    note=f"Every token of DeepSeek-V2 also uses **shared experts**, {blocks[DEEPSEEK].shared_intermediate_size:,} wide together.",
)

# %%
show(
    draw("moe-routing", view="token"),
    say(
        "The router's scores, as shares, decide twice: which experts work on a token, and with which weights their outputs are added up."
    ),
)

# %%
counts = {
    name: roofline.analyze(name, "h100-sxm", phase="decode", ignore_capacity=True).model["parameters"] for name in MIXTURES
}
mixtral = counts[MIXTRAL]
all_experts = 32 * experts.num_experts * 3 * model.hidden_size * experts.moe_intermediate_size
predict(
    "Mixtral is called 8x7B: it has the dimensions of Mistral 7B, but 8 experts per layer, of which a token uses 2. How many parameters does "
    "Mixtral have?",
    {
        "56 billion": "Eight times all of Mistral 7B. Are there eight of everything?",
        "47 billion": "",
        "14 billion": "Two times 7: near what a token *uses*. But all experts are there.",
        "7 billion": "One expert per layer. There are eight.",
    },
    answer="47 billion",
    why=f"The experts have {all_experts / 1e9:.1f} billion: 32 layers of 8, three matrices each. Attention, norms, embedding and LM head are there "
    "once.",
)

# %% [markdown]
# What does *one token* use? Everything except the experts it is not sent to. These are the **active** parameters.

# %%
active = written(
    "",
    "N - L * (E - k) * 3 * d_model * d_e",
    {
        "N": (mixtral["total"], "all parameters"),
        "L": (32, ""),
        "E": (experts.num_experts, ""),
        "k": (experts.num_experts_per_tok, ""),
        "d_model": (model.hidden_size, ""),
        "d_e": (experts.moe_intermediate_size, ""),
    },
    "parameters",
).make()
assert active.value == mixtral["active"]
deepseek = counts[DEEPSEEK]
show(
    formula(active, title="Active parameters of Mixtral"),
    published("F21", mixtral["active"]),
    figure(
        bars(
            "active",
            "Total and active parameters",
            ("billions", ""),
            {
                label: {roofline.load_model(name).title: counts[name][label] / 1e9 for name in MIXTURES}
                for label in ("total", "active")
            },
            roles=("bound", "estimate"),
            note="Total decides what memory has to hold. Active decides the FLOP of a token.",
        )
    ),
    published("F20", mixtral["total"]),
    published("F22", deepseek["total"]),
    published("F23", deepseek["active"]),
)

# %%
takeaway(
    "Total parameters decide the memory, active ones the FLOP of a token. All experts stay in memory, because the next token may want any of "
    "them."
)

# %% [markdown]
# ## What a batch reads
#
# A decode step reads, once, each weight that some token of the batch uses. With one sequence these are the active parameters. With more
# sequences, other tokens go to other experts. How many *different* experts is that?

# %%
met = {batch: expected_distinct(experts.num_experts, experts.num_experts_per_tok, batch) for batch in (1, 2, 4, 8, 16, 32)}
predict(
    "Mixtral decodes 8 sequences. Every token picks 2 of 8 experts, all equally likely and independently of the others. How many experts does a "
    "layer read, on average? (How likely is it that all 8 tokens miss a given expert?)",
    kind="ratio",
    answer=met[8],
    tolerance=0.01,
    hints={
        2.0: "That is one token's. The others go elsewhere, too.",
        16.0: "There are only 8. Where tokens agree, an expert is read once.",
        8.0: "Nearly. What is the chance that all 8 tokens miss a given expert?",
        4.0: "Count the chance that an expert is missed by all, and subtract it from one.",
    },
    why="A token misses a given expert with probability 1 - 2/8 = 0.75; all eight miss it with 0.75 to the eighth power, 10 %. So 90 % of the "
    "experts are read.",
)

# %%
draw("moe-routing", view="batch")

# %%
formula(
    "layers/moe/experts/up_proj",
    MIXTRAL,
    "a100-sxm-80gb",
    part="weight_bytes",
    batch=8,
    title="Bytes that 8 tokens read of gate and up, two of the three matrices of an expert, in all layers",
)

# %%
grid = [2**power for power in range(11)]
DENSE, BATCHES = "llama-3.1-70b", (1, 4, 16, 64, 256, 1024)
steps = {
    (name, batch): roofline.analyze(name, NODE, tp=2, context=1024, batch=batch, phase="decode", ignore_capacity=True)
    for name in (MIXTRAL, DENSE)
    for batch in BATCHES
}


def read(batch):
    """Share of Mixtral's weights that a step reads."""
    return steps[MIXTRAL, batch].decode.cost.weight_bytes / steps[MIXTRAL, batch].memory.weights_bytes


critical = {name: steps[name, 1].limits.critical_batch_linear for name in (MIXTRAL, DENSE)}
show(
    figure(
        curves(
            "met",
            "Experts that a batch reads",
            ("tokens in the step", "tokens"),
            ("share of the experts read, %", ""),
            {
                f"{roofline.load_model(name).title}: {block.num_experts_per_tok} of {block.num_experts}": (
                    grid,
                    [
                        100 * expected_distinct(block.num_experts, block.num_experts_per_tok, batch) / block.num_experts
                        for batch in grid
                    ],
                )
                for name, block in blocks.items()
            },
            roles=("prefill", "decode", "mixed"),
            scales=("log", "linear"),
            low=0,
            note="From a few times E/k tokens on, every step reads the whole model.",
        )
    ),
    figure(
        curves(
            "steps",
            "One decode step: a mixture and a dense model",
            ("sequences", "sequences"),
            ("bound of the step", "s"),
            {
                roofline.load_model(name).title: (BATCHES, [steps[name, batch].decode.time.bound for batch in BATCHES])
                for name in (DENSE, MIXTRAL)
            },
            roles=("prefill", "decode"),
            note="On two H100, 1,024 tokens cached, whether or not the caches fit. Llama 3.1 70B is dense: every token uses all of it.",
        )
    ),
    say(
        f"With **one sequence** a step reads {formatting.percent(read(1), 0)} of Mixtral's weights: it is as quick as a dense model of 13 billion parameters. With **16** it reads "
        f"{formatting.percent(read(16), 0)}, and takes as long as a dense model of 47 billion would: two thirds of the time of the 70 billion of Llama."
    ),
    say(
        "Beyond that, a mixture still saves work. Each expert gets k/E of the tokens, so it takes a larger batch before computing takes longer than reading: "
        f"**{critical[DENSE]:,.0f}** tokens in the dense model, **{critical[MIXTRAL]:,.0f}** in Mixtral. (Not quite E/k = 4 times: attention and the LM head are dense "
        "there, too.)"
    ),
    takeaway(
        "A few times E/k tokens read all experts. A mixture saves bytes only at small batches; at large ones it saves FLOP, and needs a batch some "
        "E/k times as large."
    ),
)

# %% [markdown]
# ## Experts on many devices
#
# What follows runs on several GPUs, *devices*. Eight of them in one machine, a *node*, are joined by fast links (NVLink; a DGX H100 is such a node);
# between nodes the network is slower. Devices exchange data by **collectives**, in which all take part at once:
#
# * **all-reduce**: each has a tensor of the same shape; afterwards each has the sum of all;
# * **all-to-all**: each has another piece for each of the others, and sends it there;
# * **all-gather**: each has a part; afterwards each has all parts. **Reduce-scatter**: each ends up with a part of the sum.
#
# **Expert parallelism** (EP) puts whole experts on different devices. A token's vector travels to the devices of its experts, and their
# outputs travel back: two **all-to-alls** per layer. Everything that is not an expert is copied to each device, which works on its own sequences: for
# attention this is **data parallelism** (DP).

# %%
GROUP = {"dp": 8, "ep": 8, "deepep_mode": "normal"}
predict(
    "Each of 8 devices has one of Mixtral's 8 experts and 8 of 64 tokens. A token chooses 2 experts and goes to each as a vector of 4,096 elements in "
    "bf16. How many bytes does a device send to experts elsewhere in a layer, on average, before anything comes back?",
    kind="bytes",
    answer=8 * 2 * 4096 * 2 * 7 / 8,
    tolerance=0.02,
    hints={
        8 * 2 * 4096 * 2: "One of eight experts is at home: what goes to it is not sent.",
        8 * 4096 * 2 * 7 / 8: "Each token goes to two experts.",
        64 * 2 * 4096 * 2 * 7 / 8: "That is what all devices send together.",
        2 * 8 * 2 * 4096 * 2 * 7 / 8: "That is there and back. The question is about the way there.",
    },
    why=[
        "8 tokens, each to 2 experts, as 4,096 elements of 2 bytes, of which 7/8 are elsewhere: 8 x 2 x 8,192 B x 7/8.",
        formula(
            "layers/moe/dispatch",
            MIXTRAL,
            NODE,
            part="link_bytes",
            batch=64,
            **GROUP,
            title="In all 32 layers, 32 times as many: sent by a device to experts elsewhere",
        ),
    ],
)

# %%
draw("expert-parallel")

# %%
reduced = roofline.explain(MIXTRAL, "layers/moe/all_reduce", NODE, tp=8, batch=64)
sent = {part.subject: part for part in reduced.parts}["link_bytes"].value
away = {part.subject: part for part in roofline.explain(MIXTRAL, "layers/moe/dispatch", NODE, batch=64, **GROUP).parts}[
    "link_bytes"
].value
step_of = {
    (phase, imbalance): getattr(
        roofline.analyze(
            MIXTRAL,
            NODE,
            batch=256,
            context=2048,
            input_len=2048,
            phase=phase,
            expert_imbalance=imbalance,
            ignore_capacity=True,
            **GROUP,
        ),
        phase,
    ).time.bound
    for phase in ("decode", "prefill")
    for imbalance in (1, 2)
}
show(
    say(
        f"With 64 tokens on 8 devices, as in the question, that is {formatting.quantity(2 * away, 'B')} in all layers, there and back. Cutting every expert into eight "
        f"pieces (tensor parallelism, next section) means summing the outputs of all 64 tokens: {formatting.quantity(sent, 'B')}, {sent / (2 * away):.0f} times as much. "
        "Some engines send as much for expert parallelism inside a node, too: they all-gather the tokens and reduce-scatter the outputs, which is simple, and fast over NVLink."
    ),
    predict(
        "Routing is never even. Suppose one of 8 devices gets twice the mean number of tokens, and the others wait for it. 256 sequences decode, with 2,048 "
        "tokens cached each. How much longer does a step take?",
        {
            "twice as long": "Twice the tokens, twice the FLOP. But what does this step wait for?",
            "1.5 times as long": "What takes longer: reading an expert's weights, or multiplying by them?",
            "hardly longer": "",
        },
        answer="hardly longer",
        why=[
            say(
                f"The bound grows from {amount(step_of['decode', 1], 's')} to {amount(step_of['decode', 2], 's')}: the busiest device computes twice as much, "
                "but reads one expert, as the others do."
            ),
            say(
                f"With 256 *prompts* of 2,048 tokens it grows from {amount(step_of['prefill', 1], 's')} to {amount(step_of['prefill', 2], 's')}: "
                "they are bound by compute."
            ),
        ],
    ),
    takeaway(
        "Expert parallelism divides experts and nothing else; each layer costs two all-to-alls. An uneven load costs much in prefill, little in "
        "decode."
    ),
)

# %% [markdown]
# ## Tensor parallelism
#
# **Tensor parallelism** (TP) cuts every matrix. The first matrices of a block are cut by columns: each device computes some elements of the hidden vector,
# from the whole input. The last is cut by rows: each device multiplies the elements that it has, and gets a *partial sum* of the output. An
# **all-reduce** adds these up, and nothing has to be sent in between: two all-reduces per layer, one after attention, one after the MLP.

# %%
draw(
    "tensor-parallel",
    {"feed-forward, 2 devices": {}, "4 devices": {"devices": 4}, "attention, 2 devices": {"part": "attention"}},
    about="Shown",
)

# %% [markdown]
# A ring does an all-reduce in two passes. First, each device ends up with the sum of one piece; then the sums go round.

# %%
draw("ring-all-reduce", {str(step): {"step": step} for step in range(7)}, about="Step")

# %%
sent = written(
    "",
    "2 * (n - 1) / n * L * B * d_model * b_a",
    {
        "n": (8, "devices"),
        "L": (80, "layers, each with one all-reduce after attention"),
        "B": (64, "tokens of the step, one per sequence"),
        "d_model": (8192, ""),
        "b_a": (2, "bytes of an activation in bf16"),
    },
    "bytes",
).make()
reduced = roofline.explain(LLAMA70, "layers/attention/all_reduce", NODE, tp=8, batch=64)
assert sent.value == next(entry.value for entry in reduced.parts if entry.subject == "link_bytes")
show(
    formula(sent, title="Sent by each of n devices, all-reduces after attention"),
    say(
        "The factor (2n - 2) / n is 1 for two devices, and nearly 2 for many: each sends its whole tensor once, or nearly twice."
    ),
)

# %%
SIZES = (1, 2, 4, 8, 16)


def sent_by(phase, what="bound"):
    """Seconds of the collectives of a phase."""
    return sum(getattr(op.time, what) for op in phase.operators if op.cost.link_bytes)


shared = {size: roofline.analyze(LLAMA70, NODE, tp=size, context=1024, input_len=2048, ignore_capacity=True) for size in SIZES}
faster = shared[1].decode.time.estimate / shared[8].decode.time.estimate
bounded = shared[1].decode.time.bound / shared[8].decode.time.bound
assert 4 < faster < 6
assert bounded > 7.5
predict(
    f"Llama 3.1 70B decodes one sequence on eight H100 instead of one (if it fitted): {amount(shared[1].decode.time.estimate, 's')} on one, of which reading takes "
    f"{amount(shared[1].decode.time.bound, 's')}. Each of eight reads an eighth. The 160 all-reduces take {amount(sent_by(shared[8].decode, 'estimate'), 's')} in all, and some "
    "thousand short kernels as long as before. How much faster is a step, by estimate?",
    {
        "8 times": "That is the bound, nearly. Do short kernels get eight times faster, too?",
        "about 5 times": "",
        "hardly faster": "Eight memories read at once, and reading is most of a decode step.",
    },
    answer="about 5 times",
    why=f"The bound falls by {bounded:.1f}, the estimate by **{faster:.1f}**, to {amount(shared[8].decode.time.estimate, 's')}: reading takes an eighth, "
    f"{amount(shared[1].decode.time.bound / 8, 's')}; all-reduces come on top; short kernels stay as they were, and smaller matrices reach less of the bandwidth.",
)

# %%
on_8 = shared[8]
show(
    figure(
        curves(
            "devices",
            "One decode step, by devices",
            ("tensor-parallel devices", "devices"),
            ("time", "s"),
            {
                "bound": (SIZES, [found.decode.time.bound for found in shared.values()]),
                "estimate": (SIZES, [found.decode.time.estimate for found in shared.values()]),
            },
            roles=("bound", "estimate"),
            note="One sequence, 1,024 tokens cached. 16 devices are two nodes, with a slower network between them.",
        )
    ),
    say(
        f"Messages of a decode step are a few kB, so what counts is the *latency* of each all-reduce, the time of an empty one: bytes take "
        f"{formatting.percent(sent_by(on_8.decode) / sent_by(on_8.decode, 'estimate'), 0)} of the {amount(sent_by(on_8.decode, 'estimate'), 's')}. In prefill messages are "
        f"large, and their *bytes* count. A prompt of 2,048 tokens takes {amount(on_8.prefill.time.estimate, 's')} on 8 devices; "
        f"{amount(sent_by(on_8.prefill, 'estimate'), 's')} of that are all-reduces."
    ),
)

# %%
cache = {size: shared[size].memory.kv_bytes_per_token for size in SIZES}
assert cache[8] == cache[16] == cache[4] / 2
show(
    say(
        f"**What does not divide.** A KV head is not cut. Llama 3.1 70B has 8: a token's cache takes {formatting.quantity(cache[4], 'B')} on each of 4 "
        f"devices, {formatting.quantity(cache[8], 'B')} on each of 8, and as much on each of 16, where two devices hold the same head."
    ),
    takeaway(
        "TP divides reading and computing, and pays two all-reduces per layer. It makes a single step faster, as long as links are quick: inside "
        "a node."
    ),
)

# %% [markdown]
# ## Pipelines, and which one when
#
# **Pipeline parallelism** (PP) gives each device some of the layers. A token passes all stages one after another, so a single sequence
# is no faster. Devices work at the same time only if several **microbatches** are under way.

# %%
STAGES, MICRO = 4, 12
pipeline = Pipeline((1.0,) * STAGES)
predict(
    f"A batch of prompts is cut into {MICRO} microbatches and passes {STAGES} equal stages. For what share of the time is a stage idle?",
    kind="share",
    answer=pipeline.bubble(MICRO),
    tolerance=0.02,
    hints={
        (STAGES - 1) / MICRO: "That is the idle time over the working time. The answer is its share of all the time.",
        STAGES / (MICRO + STAGES): "A stage waits for the others, not for itself.",
        0.75: "That is with one microbatch.",
    },
    why="The last microbatch enters after 11 others and then passes 4 stages: 15 columns of the drawing below. A stage works in 12 of them, and is idle in 3.",
)

# %%
draw(
    "pipeline-parallel",
    {"12": {"microbatches": 12}, "4": {"microbatches": 4}, "1": {"microbatches": 1}},
    about="Microbatches",
)

# %%
draw(
    "parallel-layouts",
    {
        "tensor": {"layout": "tp"},
        "pipeline": {"layout": "pp"},
        "both": {"layout": "tp-pp"},
        "experts, attention tensor-parallel": {"layout": "tp-ep"},
        "experts, attention data-parallel": {"layout": "dp-ep"},
        "data": {"layout": "dp"},
    },
    about="Layout",
)

# %%
staged = prepare(LLAMA70, NODE, pp=8, ignore_capacity=True)
MICROBATCHES = (1, 4, 8, 16)
decoding = {m: pipelined_step(staged, decode_step(64, 2048), m).bound for m in MICROBATCHES}
filling = {m: pipelined_step(staged, prompts(16, 2048), m).bound for m in MICROBATCHES}
tensor = roofline.analyze(LLAMA70, NODE, tp=8, batch=64, context=2048, phase="decode").decode.time.bound
show(
    table(
        ("microbatches", "64 sequences decode a token, after 2,048", "16 prompts of 2,048 tokens"),
        [(m, amount(decoding[m], "s"), amount(filling[m], "s")) for m in MICROBATCHES],
        title="Llama 3.1 70B in 8 stages on H100 (bounds)",
    ),
    say(
        "Prompts are bound by compute, so microbatches cost them nothing and fill the pipeline. In decode **every microbatch reads the weights again**: "
        f"four of them make it {decoding[1] / decoding[4]:.2f} times as fast, eight {decoding[1] / decoding[8]:.2f} times, and sixteen slow it down. With TP on the same 8 devices, "
        f"which all read at once, the 64 sequences take {amount(tensor, 's')}."
    ),
    table(
        ("parallelism", "a device sends", "helps", "does not help"),
        [
            ("tensor", "two all-reduces per layer", "latency; memory", "beyond a node or the KV heads"),
            ("pipeline", "a vector per token and stage", "memory; throughput over slow links", "latency; few requests"),
            ("expert", "two all-to-alls per layer", "memory; large batches", "what is not an expert"),
            ("data: copies that work on other requests", "nothing", "throughput", "memory; latency"),
        ],
        title="Which one when",
    ),
    takeaway(
        "First make it fit, then fast enough, then cheap. TP shortens a step, PP and EP free memory, DP multiplies what works already."
    ),
)

# %% [markdown]
# ## Play and practise

# %%
play(
    "A mixture on tensor-parallel devices; numbers are of one device. The dimensions of the router are yours to change.",
    controls=("model", "experts", "top_k", "batch", "context", "hardware", "tp", "efficiency"),
    tiles=(
        "parameters",
        "active_parameters",
        "experts_met",
        "expert_bytes",
        "step",
        "link_share",
        "weights",
        "kv_bytes_per_token",
    ),
    formulas=("layers/moe/experts/up_proj:weight_bytes",),
    pictures=("time", "roofline"),
    models=(MIXTRAL, "qwen3-30b-a3b"),
    hardware=(NODE, "dgx-a100"),
    context=1023,
    tp="2",
    tries=(
        "Batch 1, then 2, 4, 8, 16: watch the experts that a step reads, and its time. When does each grow, and why?",
        "Go from 1 to 8 devices with **measured efficiency** on. Which share do the links get, at batch 1 and at batch 1024?",
        "Qwen3 30B A3B on 8 devices: does the cache of a token still shrink from 4 to 8?",
    ),
)

# %%
wide = blocks[DEEPSEEK]
each = (
    3 * roofline.load_model(DEEPSEEK).hidden_size * wide.moe_intermediate_size * 59
)  # one expert, in all layers that have some
read_of = {}
for batch in (1, 8, 128):
    found = expected_distinct(wide.num_experts, wide.num_experts_per_tok, batch)
    read_of[batch] = (found, deepseek["total"] - deepseek["embedding"] - (wide.num_experts - found) * each)
attention = roofline.explain(MIXTRAL, "parameters").parts
copied = next(part.value for part in attention if part.subject == "layers/attention") / mixtral["total"]
held = roofline.analyze(MIXTRAL, NODE, phase="decode", context=2048, batch=64, tp=2)
spread_out = roofline.analyze(MIXTRAL, NODE, phase="decode", context=2048, batch=64, dp=2, ep=2)
show(
    worked(
        "a claim",
        '"DeepSeek-V2 has 21 billion active parameters, so it decodes like a dense model of 21 billion." For which batch is that true?',
        say(f"With one sequence, a step reads at most the active ones, {2 * deepseek['active'] / 1e9:.0f} GB in bf16."),
        table(
            ("tokens in the step", "experts met, of 160", "parameters read, billions"),
            [(batch, f"{found:.1f}", f"{read / 1e9:.0f}") for batch, (found, read) in read_of.items()],
            title="What DeepSeek-V2 reads in a decode step",
        ),
        say(
            "So it is true of FLOP at any batch, of bytes at batch 1. At batch 128 a step reads as much as that of a dense model of "
            f"{read_of[128][1] / 1e9:.0f} billion."
        ),
    ),
    worked(
        "two devices for Mixtral",
        "Mixtral's weights do not fit on one H100. Two are there. Tensor parallelism, or experts on two devices with data-parallel attention? 64 "
        "sequences of 2048 tokens.",
        table(
            (
                "Mixtral",
                "weights",
                "cache per token",
                "decode, bound",
                "estimate",
                "sequences that fit",
            ),
            [
                (
                    name,
                    formatting.quantity(found.memory.weights_bytes, "B"),
                    amount(found.memory.kv_bytes_per_token, "bytes"),
                    amount(found.decode.time.bound, "s"),
                    amount(found.decode.time.estimate, "s"),
                    found.memory.max_batch,
                )
                for name, found in {"TP 2": held, "EP 2, DP 2": spread_out}.items()
            ],
            title="Each of two H100, after 2048 tokens",
        ),
        say(
            f"Attention is {copied:.0%} of Mixtral, so a copy of it costs little memory. Each device has the caches of half the sequences, or half of "
            "the heads of all: as many bytes. What decides is the load: for one sequence tensor parallelism (TP) divides what is read, and data-parallel "
            "attention (DP) leaves one device's attention idle."
        ),
    ),
)

# %%
show(
    exercise("moe-active-parameters", 1),
    exercise("moe-distinct-experts", 2),
    exercise("moe-replicated-cache", 1),
    exercise("moe-pipeline-bubble", 1),
)

# %% [markdown]
# **More**: `roofline explain mixtral-8x7b layers/moe/experts/up_proj -H a100-sxm-80gb --batch 8`. Next: from the time of a step to what users see.
