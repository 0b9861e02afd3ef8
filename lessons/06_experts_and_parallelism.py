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
# A mixture of experts has many feed-forward blocks per layer, and a token uses a few of them. So a model can be large and quick at once,
# as long as one asks for one token. This lesson counts what a *batch* costs, and then what it takes to spread a model over several
# devices: what is divided, what is not, and what the devices have to tell each other.

# %%
import numpy as np

import roofline
from roofline import formatting
from roofline.errors import InputError
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
        "compute total and active parameters from a config, and say what each of them decides",
        "compute how many experts a batch meets, and why a mixture needs a larger batch than a dense model",
        "say what an uneven load of experts costs, and when it costs nothing",
        "compute what all-reduce and all-to-all send, and name what tensor parallelism does not divide",
        "choose between tensor, pipeline, expert and data parallelism for a given aim",
    ],
    prerequisites=[
        "lesson 1: parameters of a gated feed-forward block, FLOP and bytes of a token",
        "lessons 3 and 4: ridge point, critical batch; lesson 5: bound and estimate",
    ],
    plan=[
        (9, "Total and active"),
        (10, "What a batch reads"),
        (9, "Experts on many devices"),
        (10, "Tensor parallelism"),
        (7, "Pipelines, and when which"),
        (5, "Play and practise"),
    ],
    exercises=[
        "moe-active-parameters",
        "moe-distinct-experts",
        "moe-step-bytes",
        "moe-expert-intensity",
        "moe-all-to-all",
        "moe-all-reduce-time",
        "moe-replicated-cache",
        "moe-pipeline-bubble",
    ],
)

# %% [markdown]
# ## Total and active
#
# Instead of one feed-forward block, a layer has $E$ of them, the **experts**, each with an inner width of $d_e$. A small matrix, the
# **router**, scores them for each token. The $k$ best ones work on it, and their outputs are summed with weights from the scores.
# Attention, norms and the two tables are as before, and every token uses them.

# %%
MIXTURES = {MIXTRAL: "decoder", DEEPSEEK: "moe", "qwen3-30b-a3b": "decoder"}
blocks = {name: roofline.load_model(name).layer_types[layer].mlp for name, layer in MIXTURES.items()}
table(
    (
        "model",
        "layers with experts",
        "experts, $E$",
        "used by a token, $k$",
        "inner width, $d_e$",
        "shared experts, used by all",
    ),
    [
        (
            roofline.load_model(name).title,
            sum(group.repeat for group in roofline.load_model(name).layers if layer in group.pattern),
            blocks[name].num_experts,
            blocks[name].num_experts_per_tok,
            blocks[name].moe_intermediate_size,
            f"{blocks[name].shared_intermediate_size:,} wide together" if blocks[name].shared_intermediate_size else "none",
        )
        for name, layer in MIXTURES.items()
    ],
    title="Three mixtures, as their configs have them",
    note="DeepSeek-V2's first layer has a dense block.",
)

# %%
draw("moe-routing", {"one token": {"view": "token"}, "eight tokens": {"view": "batch"}}, about="What is routed")

# %%
counts = {
    name: roofline.analyze(name, "h100-sxm", phase="decode", ignore_capacity=True).model["parameters"] for name in MIXTURES
}
mixtral = counts[MIXTRAL]
predict(
    "Mixtral is called 8x7B. It has 8 experts a layer, of which a token uses 2, and Mistral 7B has one such block per layer. How many "
    "parameters has Mixtral?",
    {
        "56 billion": "Eight times all of Mistral 7B. Are there eight of everything?",
        "47 billion": "",
        "14 billion": "Two times 7: that would be near what a token *uses*. All experts are there.",
        "7 billion": "One expert a layer. There are eight.",
    },
    answer="47 billion",
    why="Experts are feed-forward blocks. Attention, norms, embedding and LM head are there once.",
)

# %%
show(
    formula("parameters", MIXTRAL, part="layers/moe", title="Experts, router and norm, all layers"),
    formula("parameters", MIXTRAL, title="All parameters", legend=False),
    published("F20", mixtral["total"]),
)

# %% [markdown]
# What does *one token* use? All of that, less the experts that it is not sent to. This number is called the **active** parameters.

# %%
one_expert = 3 * model.hidden_size * experts.moe_intermediate_size
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
mistral = roofline.explain("mistral-7b-v0.1", "parameters").value
deepseek = counts[DEEPSEEK]
show(
    formula(active, title="Active parameters of Mixtral: without the experts that a token is not sent to"),
    published("F21", mixtral["active"]),
    published("F22", deepseek["total"]),
    published("F23", deepseek["active"]),
    say(
        f"DeepSeek-V2's shared experts are always used, so they are active. With its embedding table {deepseek['active'] / 1e9:.2f} billion "
        f"are active, without it {(deepseek['active'] - deepseek['embedding']) / 1e9:.2f}: a token looks up one row of that table and "
        "multiplies none (lesson 1). Papers count either way, so say which."
    ),
    say(
        f'The lecture says "8x parameters, 2x compute" of top-2 of 8. That holds of the feed-forward blocks alone. Of the whole model it is '
        f"{mixtral['total'] / mistral:.1f} times the parameters of Mistral 7B, whose dimensions Mixtral has, and "
        f"{mixtral['active'] / mistral:.1f} times the active ones."
    ),
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
)

# %%
takeaway(
    "Total parameters decide the memory, active ones the FLOP of a token. All experts have to be in memory: it is not known before the "
    "router which ones the next token wants."
)

# %% [markdown]
# ## What a batch reads
#
# A decode step reads each weight that some token of the batch uses, once. With one sequence that is the active parameters. With more,
# each token brings experts of its own. How many *different* experts do they meet?

# %%
met = {batch: expected_distinct(experts.num_experts, experts.num_experts_per_tok, batch) for batch in (1, 2, 4, 8, 16, 32)}
predict(
    "Mixtral, 8 sequences, one token each; every token picks 2 of 8 experts, all equally likely and independent of each other. How many of "
    "the 8 experts does a layer read, on average?",
    kind="ratio",
    answer=met[8],
    tolerance=0.03,
    hints={
        2.0: "That is one token's. The others go elsewhere, too.",
        16.0: "There are only 8. Where tokens agree, an expert is read once.",
        8.0: "Nearly. What is the chance that all 8 tokens miss a given expert?",
        4.0: "Count the chance that an expert is missed by all, and take it from one.",
    },
    why="A token misses a given expert with probability 1 - 2/8, all eight tokens with the eighth power of that: 10 %. So 90 % of the "
    "experts are met. Expectations add up, whether or not experts are independent of each other.",
)

# %%
formula(
    "layers/moe/experts/up_proj",
    MIXTRAL,
    "a100-sxm-80gb",
    part="weight_bytes",
    batch=8,
    title="Weights that 8 tokens read, gate and up projections of all layers",
)

# %% [markdown]
# No need to believe it: send tokens to experts at random and count.


# %% tags=["open"]
def experts_met(experts, k, tokens, trials=4000):
    """Different experts that tokens meet, each of which picks k: mean over trials."""
    rng = np.random.default_rng(0)
    # k different ones for each token
    picks = rng.random((trials, tokens, experts)).argsort(axis=-1)[..., :k]
    chosen = np.zeros((trials, experts), dtype=bool)
    np.put_along_axis(chosen, picks.reshape(trials, -1), True, axis=1)
    return chosen.sum(axis=1).mean()


for tokens, expected in met.items():
    assert abs(experts_met(8, 2, tokens) / expected - 1) < 0.01

# %%
grid = [2**power for power in range(11)]
DENSE = "llama-3.1-70b"
steps = {
    (name, batch): roofline.analyze(name, NODE, tp=2, context=1024, batch=batch, phase="decode", ignore_capacity=True)
    for name in (MIXTRAL, DENSE)
    for batch in (1, 4, 16, 64, 256, 1024)
}


def routed(analysis):
    """Cost of the routed experts of a decode step."""
    costs = [op.cost for op in analysis.decode.operators if op.path.endswith(("up_proj", "down_proj")) and "experts" in op.path]
    return sum(costs[1:], costs[0])


critical = {name: steps[name, 1].limits.critical_batch_linear for name in (MIXTRAL, DENSE)}
show(
    figure(
        curves(
            "met",
            "Experts that a batch meets",
            ("tokens in the step", "tokens"),
            ("share of the experts that is read, %", ""),
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
    table(
        (
            "sequences",
            "weights read on a device",
            "of all weights",
            "FLOP/byte of the experts",
            "bound of the step",
            "dense 70B",
        ),
        [
            (
                batch,
                formatting.quantity(found.decode.cost.weight_bytes, "B"),
                f"{found.decode.cost.weight_bytes / found.memory.weights_bytes:.0%}",
                f"{routed(found).matrix_flops / routed(found).bytes:.1f}",
                amount(found.decode.time.bound, "s"),
                amount(steps[DENSE, batch].decode.time.bound, "s"),
            )
            for batch in (1, 4, 16, 64, 256, 1024)
            for found in [steps[MIXTRAL, batch]]
        ],
        title="Mixtral decodes on two H100, 1024 tokens cached",
        note="Beside it Llama 3.1 70B, a dense model of which every token uses all.",
    ),
    say(
        "Two regimes. One sequence reads the active parameters: the mixture is as quick as a small dense model. A few dozen sequences read "
        "everything: a step takes as long as that of a dense model of the *total* size, and gives as many tokens. What remains is the work: each "
        f"expert gets k/E of the tokens, so the batch has to be E/k times as large before it computes. Linear layers turn at "
        f"**{critical[DENSE]:,.0f}** tokens in the dense model, at **{critical[MIXTRAL]:,.0f}** in Mixtral; not quite four times, because attention's "
        "products are dense in both."
    ),
    takeaway(
        "A few times E/k tokens read all experts. A mixture saves bytes at small batches only; at large ones it saves FLOP, and needs a batch "
        "E/k times as large to make use of that."
    ),
)

# %% [markdown]
# ## Experts on many devices
#
# A large mixture does not fit on one device. **Expert parallelism** (EP) puts whole experts on different devices. A token's vector travels
# to the devices of its experts, and their outputs travel back: two **all-to-all** exchanges a layer. Attention is often data-parallel
# then: each device has the caches of its own sequences, and a copy of everything that is not an expert.

# %%
GROUP = {"dp": 8, "ep": 8}
predict(
    "Mixtral's 8 experts are spread over 8 devices, one each. 64 tokens, 8 on each device, choose 2 experts each. In a layer, a device "
    "sends vectors of 4096 elements in bf16 to the experts of its tokens. How many bytes, on average?",
    kind="bytes",
    answer=8 * 2 * 4096 * 2 * 7 / 8,
    tolerance=0.02,
    hints={
        8 * 2 * 4096 * 2: "One of eight experts is at home: what goes to it is not sent.",
        8 * 4096 * 2 * 7 / 8: "Each token goes to two experts.",
        64 * 2 * 4096 * 2 * 7 / 8: "That is what all devices send together.",
    },
    why=formula(
        "layers/moe/dispatch",
        MIXTRAL,
        NODE,
        part="link_bytes",
        batch=64,
        **GROUP,
        title="32 times that in all layers: sent by a device to experts elsewhere",
    ),
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
    for imbalance in (1, 1.5, 2, 4)
}
show(
    say(
        f"There and back that is {amount(2 * away, 'bytes')}. The alternative is to cut every expert into eight pieces (tensor parallelism, next "
        f"part) and to sum the outputs of 64 tokens over all devices: {amount(sent, 'bytes')}, {sent / (2 * away):.0f} times as much. With more "
        "experts a token the all-to-all grows as $k$ does, the sum does not. (Counted is a copy for each expert of a token. Where several of them "
        "are on one device, an engine can send one.)"
    ),
    predict(
        "Routing is never even. Say one of 8 devices gets twice the mean number of tokens, and all others wait for it. What does that do to a "
        "decode step of 256 sequences?",
        {
            "it takes twice as long": "Twice the tokens, twice the FLOP. But what does this step wait for?",
            "it takes 1.5 times as long": "What takes longer: reading an expert's weights, or multiplying by them?",
            "hardly anything": "",
        },
        answer="hardly anything",
        why=[
            table(
                ("busiest device over the mean", "decode, 256 tokens", "prefill, 256 prompts of 2048"),
                [
                    (
                        f"{imbalance:g}x",
                        *(
                            f"{amount(step_of[phase, imbalance], 's')} ({step_of[phase, imbalance] / step_of[phase, 1]:.2f}x)"
                            for phase in ("decode", "prefill")
                        ),
                    )
                    for imbalance in (1, 1.5, 2, 4)
                ],
                title="Mixtral on 8 H100, experts spread over them: the bound by imbalance",
                note="4 is the most: a device with one of 8 experts can get one of the 2 picks of every token, and the mean is a quarter of that.",
            ),
            say(
                "In decode the busiest device still reads one expert, as the others do: its weights take the time, not its tokens. In prefill "
                "experts compute, and everybody waits for the busiest device. (With many experts a device and few tokens, the busiest one also "
                "*reads* more of its experts. Then decode suffers too.)"
            ),
        ],
    ),
    say(
        "Two more things about even loads. *Uneven popularity* makes a batch meet **fewer** different experts than the formula above says: even "
        "routing is the most reading. And with 256 experts on 32 devices chance alone is uneven: small groups of tokens never spread evenly."
    ),
    takeaway(
        "Expert parallelism divides experts and nothing else; a layer costs two all-to-alls. Imbalance costs what the busiest device computes "
        "more: a lot in prefill, little where weights are what takes time."
    ),
)

# %% [markdown]
# ## Tensor parallelism
#
# **Tensor parallelism** (TP) cuts every matrix. Of a feed-forward block each device has a share of the inner width; of attention a
# share of the heads. Each gets a partial sum of the block's output, and an **all-reduce** adds these up: two a layer.
# A ring does it in two passes. In the first each device ends up with the sum of one piece of the tensor, in the second the sums go round.

# %%
draw(
    "tensor-parallel",
    {"feed-forward, 2 devices": {}, "4 devices": {"devices": 4}, "attention, 2 devices": {"part": "attention"}},
    about="Shown",
)

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
        "Of the tensor of all tokens' vectors, a device sends (n - 1)/n in each of the two passes. So the bytes hardly depend on the number of "
        "devices: with two it is the tensor once, with very many twice."
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
predict(
    "Llama 3.1 70B decodes one sequence, on one H100 (if it fitted) and on eight. Each of the eight reads an eighth of the weights. By what "
    "factor is a step faster, estimated from measured kernels?",
    kind="ratio",
    answer=faster,
    tolerance=0.15,
    hints={
        8.0: "That is the bound, nearly. Collectives and short kernels do not get eight times faster.",
        1.0: "Memory of eight devices reads at once.",
    },
    why=f"The bound falls by {bounded:.2f}. The estimate falls by **{faster:.1f}**: small kernels stay as long as they were, and two "
    "all-reduces of a few kB in each of 80 layers are all latency.",
)

# %%
show(
    table(
        (
            "devices",
            "decode, bound",
            "estimate",
            "of it collectives",
            "their bytes alone",
            "prefill of 2048, bound",
            "estimate",
            "of it collectives",
        ),
        [
            (
                size,
                amount(found.decode.time.bound, "s"),
                amount(found.decode.time.estimate, "s"),
                amount(sent_by(found.decode, "estimate"), "s"),
                amount(sent_by(found.decode), "s"),
                amount(found.prefill.time.bound, "s"),
                amount(found.prefill.time.estimate, "s"),
                amount(sent_by(found.prefill, "estimate"), "s"),
            )
            for size, found in shared.items()
        ],
        title="Llama 3.1 70B on H100, one sequence, 1024 tokens cached",
        note="16 devices are two nodes, with the network between them. The model does not fit on one H100; its times are counted all the same.",
    ),
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
            note="Latency falls, devices times seconds rise: TP buys time with money.",
        )
    ),
    say(
        f"In decode the message is small and the *latency* of each all-reduce counts; the bytes would take {sent_by(shared[8].decode) / sent_by(shared[8].decode, 'estimate'):.0%} of that time on 8 devices. In prefill the "
        "message is large and its *bytes* count. A bound from bytes alone says little about the first and much about the second."
    ),
)


# %% [markdown]
# **What does not divide.** Query heads have to divide evenly. A KV head is not cut: with more devices than KV heads, several devices hold
# the same head, and the cache of a token stops shrinking. Norms and routers are on every device.


# %%
def refused(name, size):
    """What the toolkit says to a size that does not work."""
    try:
        roofline.analyze(name, NODE, tp=size, phase="decode")
    except InputError as error:
        return str(error)
    raise AssertionError(f"{name} works on {size} devices")


says = refused("qwen2.5-7b", 8)
kept = {size: shared[size].memory.kv_bytes_per_token for size in SIZES}
assert kept[8] == kept[16]
show(
    table(
        ("devices", "weights on each", "cache of a token on each", "in all"),
        [
            (
                size,
                formatting.quantity(shared[size].memory.weights_bytes, "B"),
                amount(kept[size], "bytes"),
                amount(size * kept[size], "bytes"),
            )
            for size in SIZES
        ],
        title="What a device holds of Llama 3.1 70B, which has 8 KV heads",
    ),
    say(f"And of a model with 28 query heads on 8 devices the toolkit says: *{says}*"),
    takeaway(
        "TP divides reading and computing, and pays two all-reduces a layer. It is the one that makes a single step faster, as long as links "
        "are quick and messages not too many: inside a node."
    ),
)

# %% [markdown]
# ## Pipelines, and when which
#
# **Pipeline parallelism** (PP) gives each device some of the layers. It sends next to nothing: the vector of each token, once a stage. But a
# token has to pass all stages, one after another, so a single sequence is no faster. Devices work at the same time only if several
# **microbatches** are under way.

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
    why=[
        "The last microbatch enters after 11 others, and then passes 4 stages: 15 times what one takes in a stage. A stage works 12 of them.",
        formula(
            written(
                "",
                "(p - 1) / (m + p - 1)",
                {"p": (STAGES, "stages"), "m": (MICRO, "microbatches")},
                "",
            ).make(),
            title="The bubble",
        ),
    ],
)

# %%
draw(
    "pipeline-parallel",
    {"1": {"microbatches": 1}, "4": {"microbatches": 4}, "12": {"microbatches": 12}},
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
stages = {size: prepare(LLAMA70, NODE, pp=size, ignore_capacity=True) for size in (1, 2, 4, 8)}
one_token = {size: pipelined_step(stages[size], decode_step(1, 2048), 1).bound for size in stages}
waiting = {
    (size, many): pipelined_step(stages[size], decode_step(64, 2048), many).bound for size in stages for many in (1, 4, 8)
}
filling = {(size, many): pipelined_step(stages[size], prompts(16, 2048), many).bound for size in stages for many in (1, 4, 16)}
tensor = roofline.analyze(LLAMA70, NODE, tp=8, batch=64, context=2048, phase="decode").decode.time.bound
show(
    table(
        ("stages", "one sequence", "64 sequences at once", "in 4 microbatches", "in 8 microbatches"),
        [(size, amount(one_token[size], "s"), *(amount(waiting[size, many], "s") for many in (1, 4, 8))) for size in stages],
        title="Llama 3.1 70B in a pipeline of H100, decode: from one token of every sequence to the next (bounds)",
        note="2048 tokens cached. A microbatch reads all weights of a stage again, so more microbatches than stages only cost.",
    ),
    table(
        ("stages", "all at once", "in 4 microbatches", "in 16 microbatches"),
        [(size, *(amount(filling[size, many], "s") for many in (1, 4, 16))) for size in stages],
        title="16 prompts of 2048 tokens (bounds)",
        note="Prompts compute, so that many microbatches cost nothing and fill the pipeline.",
    ),
    say(
        f"Look at decode on eight stages: eight microbatches make 64 sequences {waiting[8, 1] / waiting[8, 8]:.2f} times as fast, no more, because "
        "each of them reads the weights again. Tensor parallelism on the same eight devices takes "
        f"{amount(tensor, 's')}. A pipeline wants a full batch in *every* microbatch: many requests, and memory for their caches."
    ),
    table(
        ("parallelism", "divides", "a device sends", "helps", "does not help"),
        [
            (
                "tensor",
                "matrices, heads, cache",
                "two all-reduces a layer",
                "latency of a step; memory",
                "beyond a node; beyond the KV heads",
            ),
            (
                "pipeline",
                "layers with their caches",
                "one vector a token and stage",
                "memory; throughput over slow links",
                "latency; few requests",
            ),
            (
                "expert",
                "experts",
                "two all-to-alls a layer with experts",
                "memory; throughput of large batches",
                "what is not an expert; uneven prefill",
            ),
            ("data", "sequences", "nothing", "throughput", "memory; latency"),
        ],
        title="When which",
        note="They combine: tensor parallelism inside a node and pipelines between nodes; or data-parallel attention with expert parallelism, as "
        "DeepSeek's models are served, because one latent cannot be cut by heads.",
    ),
    takeaway(
        "First make it fit, then make it fast enough, then make it cheap. TP shortens a step, PP and EP free memory, DP multiplies what "
        "works already."
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
        "Batch 1, then 2, 4, 8: the tile of experts met, and the step. When does the step stop growing?",
        "Set **experts** to 64 with 2 a token. Which tiles change, and which do not?",
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
for batch in (1, 2, 8, 32, 128):
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
        say(
            f"For one sequence, if memory is what counts: it reads its active parameters, {2 * deepseek['active'] / 1e9:.0f} GB in bf16 with the "
            "embedding table, which is not read whole. A token in the step more brings up to 6 other experts a layer."
        ),
        table(
            ("tokens in the step", "experts met, of 160", "parameters read, billions"),
            [(batch, f"{found:.1f}", f"{read / 1e9:.0f}") for batch, (found, read) in read_of.items()],
            title="What DeepSeek-V2 reads in a decode step",
        ),
        say(
            "So the sentence holds of FLOP at any batch, and of bytes at batch 1. With 128 sequences it reads like a dense model of "
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
                "weights on a device",
                "cache of a token on a device",
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
                for name, found in {"tensor parallel, 2": held, "experts on 2, data parallel": spread_out}.items()
            ],
            title="Mixtral on two H100, 64 sequences after 2048 tokens",
        ),
        say(
            f"Attention is {copied:.0%} of Mixtral, so a copy of it costs little memory. Each device has the caches of half the sequences, or half of "
            "the heads of all: as many bytes. The two are close; what decides is the load. With few requests tensor parallelism divides also "
            "what one sequence reads; with data-parallel attention a single sequence leaves one device's attention idle."
        ),
    ),
)

# %%
show(
    exercise("moe-active-parameters", 1),
    exercise("moe-distinct-experts", 2),
    exercise("moe-step-bytes", 2),
    exercise("moe-expert-intensity", 1),
    exercise("moe-all-to-all", 1),
    exercise("moe-all-reduce-time", 2),
    exercise("moe-replicated-cache", 1),
    exercise("moe-pipeline-bubble", 1),
)

# %% [markdown]
# **More**: `roofline explain mixtral-8x7b layers/moe/experts/up_proj -H a100-sxm-80gb --batch 8`, and `roofline analyze deepseek-v2 -H dgx-h100 --dp 8
# --ep 8`. Next: what an engine does when the caches no longer fit.
