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
# # 1. How a transformer generates
#
# A language model answers one token at a time, and every token takes a pass over the whole model. This lesson counts that pass: its
# parameters, its floating-point operations (FLOP), and the bytes that have to move. The example is Llama 3.1 8B on one GPU, an A100 with
# 80 GB, as in the lecture *LLM Inference System Characteristics*, whose figures we check as we meet them. What is counted here is counted by
# `roofline`, the toolkit of this course.

# %%
import numpy as np

import roofline
from roofline.formatting import percent, quantity
from roofline.teach.lessons import (
    amount,
    bars,
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
from roofline.teach.lessons.live.run import edited

LLAMA, A100 = "llama-3.1-8b", "a100-sxm-80gb"
model = roofline.load_model(LLAMA)

lesson(
    1,
    "How a transformer generates",
    "Parameters, FLOP and bytes of one token, from a config to operators.",
    goals=[
        "say what prefill and decode are, and why tokens come one after another",
        "compute the parameters of a decoder-only transformer from its config",
        "compute the FLOP and the bytes of one token",
        "say which operators depend on the context, and which on the tokens of a step",
    ],
    prerequisites=[
        "matrix products: shapes, and how many multiplications they take",
        "what a token is; a function of vectors such as softmax",
    ],
    plan=[
        (6, "One token at a time"),
        (12, "From a config to parameters"),
        (10, "What a token computes"),
        (9, "What a token moves"),
        (6, "Two kinds of operators"),
        (7, "Play and practise"),
    ],
    exercises=["transformer-mlp-weights", "transformer-total-parameters", "transformer-flops-per-token"],
)

# %% [markdown]
# ## One token at a time
#
# The model takes a sequence of tokens and gives scores for the next one. To write an answer we call it, choose a token, append
# it, and call it again. Each call has four parts:
#
# 1. **embedding**: each token becomes a vector of $d_{model}$ elements, one row of a table;
# 2. **layers**, $L$ of them, each with *attention*, which mixes tokens, and a *feed-forward block* (MLP), which works on each token alone;
# 3. **LM head**: a token's vector becomes $V$ scores, one for each entry of the vocabulary, for the token that follows it. Only those after the
#    last token are needed;
# 4. **sampling**: one token is chosen.
#
# Token n + 1 needs token n, so calls cannot run side by side. The first call takes the whole prompt and is called
# **prefill**. Each of the others takes one new token and is called **decode**: what attention needs of earlier tokens, their keys and
# values, was computed when they came, and is kept in the **KV cache** (lesson 2).

# %%
predict(
    "A model answers a prompt of 1000 tokens with 200 tokens. How many times does it run?",
    {
        "1": "One run scores one next token; 200 are wanted, one after the other.",
        "200": "",
        "1000": "The prompt's tokens are all known, so one run takes them together.",
        "1200": "The prompt's tokens are all known, so one run takes them together.",
    },
    answer="200",
    why="Prefill takes all 1000 tokens of the prompt in one run and gives the first token of the answer. The other 199 take one run "
    "each: in all **200**, of which one is prefill and 199 are decode.",
)

# %%
takeaway(
    "Generation is sequential: one prefill, then one decode step for each further token. Most steps of an answer are decode."
)

# %% [markdown]
# ## From a config to parameters
#
# A model's `config.json` names a handful of dimensions. The shapes of all matrices follow from these. Here is what matters of
# Llama 3.1 8B, with the symbols that all lessons use.

# %%
layer = model.layer_types["decoder"]
table(
    ("dimension", "symbol", "key in config.json", "value"),
    [
        ("layers", "$L$", "`num_hidden_layers`", model.layers[0].repeat),
        ("width of the residual stream", "$d_{model}$", "`hidden_size`", model.hidden_size),
        ("query heads", "$n_q$", "`num_attention_heads`", layer.mixer.num_attention_heads),
        ("key and value heads", "$n_{kv}$", "`num_key_value_heads`", layer.mixer.num_key_value_heads),
        ("width of a head", "$d_{head}$", "`head_dim`", layer.mixer.head_dim),
        ("inner width of the MLP", "$d_{ff}$", "`intermediate_size`", layer.mlp.intermediate_size),
        ("vocabulary", "$V$", "`vocab_size`", model.vocab_size),
    ],
    title="Llama 3.1 8B, as its config has it",
)

# %% [markdown]
# **Attention** lets a token look at those before it. Each token's vector is multiplied by three matrices, which gives a *query*, a *key* and a
# *value* of $d_{head}$ elements. The query is compared with the key of every earlier token, and its own, by a dot product: a *score*. The softmax
# of the scores gives shares that add up to one, and the output is the sum of the values, each times its share. That is one *head*. A layer
# has $n_q$ of them side by side; here four query heads share one key and value head. A fourth matrix projects the outputs of all heads back to
# $d_{model}$ elements.
#
# **The MLP** is gated (SwiGLU): two matrices, *gate* and *up*, go from $d_{model}$ to $d_{ff}$; their outputs are multiplied, element by element;
# and *down* comes back. Each block adds its output to the token's vector, which is called the *residual stream*, and begins with a *norm*, which
# scales the vector and has one weight per element. Positions enter as rotations of queries and keys (*rope*), without weights.

# %%
parts = {part.subject: part.value for part in roofline.explain(LLAMA, "parameters").parts}
total = sum(parts.values())
tables = parts["embedding"] + parts["lm_head"]
predict(
    "Where are most of the 8 billion parameters?",
    {
        "in the attention of all layers": "It has four matrices, and two of them are narrow: keys and values have 8 heads, not 32.",
        "in the feed-forward blocks of all layers": "",
        "in the embedding table and the LM head": f"Two tables of {model.vocab_size:,} rows are {tables / 1e9:.2f} billion: a lot, but {percent(tables / total, 0)}.",
    },
    answer="in the feed-forward blocks of all layers",
    why=f"Three matrices of {model.hidden_size} x {layer.mlp.intermediate_size} a layer are **{parts['layers/mlp'] / 1e9:.1f} of the "
    f"{total / 1e9:.1f} billion**. We count all blocks next.",
)

# %%
draw("transformer-block", model=LLAMA)

# %%
show(
    formula(
        "parameters",
        LLAMA,
        part="layers/attention",
        title="Attention, all layers: queries, keys and values; back; and the norm before it",
    ),
    formula("parameters", LLAMA, part="layers/mlp", title="Feed-forward blocks, all layers", legend=False),
    say(
        f"The embedding table has $V$ rows of $d_{{model}}$ elements, {parts['embedding']:,} in all; the LM head has as many again. "
        f"With the last norm, all parameters are **{total:,}**."
    ),
)

# %%
figure(
    bars(
        "parameters",
        "Where the parameters of Llama 3.1 8B are",
        ("parameters, billions", ""),
        {"parameters": {name.removeprefix("layers/"): count / 1e9 for name, count in parts.items() if count > 1e6}},
        roles=("weights",),
        note="The norms, 65 of 4096 weights, are too few to be seen.",
    )
)

# %%
show(
    published("F01", total),
    say(
        "Boxes like this one compare a figure that others printed with ours. The verdict says how: *exact*, or *derived* from other numbers, say."
    ),
    say(
        "Such a check costs a minute and catches the usual mistakes: K and V counted with 32 heads, two matrices in the MLP instead of "
        "three, or an LM head that shares the embedding's weights (that of Llama 3.1 8B does not)."
    ),
)

# %%
takeaway(
    f"Parameters are shapes multiplied out. In a model of this size about {percent(parts['layers/mlp'] / total, 0)} are in the "
    f"feed-forward blocks, {percent(parts['layers/attention'] / total, 0)} in attention, and {percent(tables / total, 0)} in the two tables of the "
    "vocabulary."
)

# %% [markdown]
# ## What a token computes
#
# One multiplication with its addition is **2 FLOP**. A product of an m x k by a k x n matrix is therefore 2mnk FLOP. A token is one
# row, so each weight of a matrix does 2 FLOP for each token that passes it.
#
# Do not take the toolkit's word for it. Here is a whole decoder in NumPy. Its matrix products count themselves. (It compares all pairs of tokens,
# and computes scores after each of them.)


# %% tags=["open"]
class Counted:
    """Matrix products that count their FLOP: 2 m n k each."""

    flops = 0

    def __call__(self, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        self.flops += 2 * a.size * b.shape[-1]
        return a @ b


def heads(x: np.ndarray, n: int) -> np.ndarray:
    """[tokens, n * d] as [n, tokens, d]."""
    return x.reshape(len(x), n, -1).swapaxes(0, 1)


def forward(tokens: list, w: dict, n_q: int, n_kv: int, mm: Counted) -> np.ndarray:
    """Scores after every token; without norms and rotations, which are no products."""
    x = w["embedding"][tokens]
    unseen = ~np.tri(len(tokens), dtype=bool)  # no token sees a later one
    for layer in w["layers"]:
        q = heads(mm(x, layer["q"]), n_q)  # [n_q, tokens, d_head]
        k, v = (heads(mm(x, layer[name]), n_kv) for name in ("k", "v"))
        k, v = (np.repeat(one, n_q // n_kv, axis=0) for one in (k, v))  # shared by query heads
        scores = mm(q, k.swapaxes(1, 2)) / np.sqrt(q.shape[-1])  # [n_q, tokens, tokens]
        share = np.exp(np.where(unseen, -np.inf, scores))  # with the next line: softmax
        mixed = mm(share / share.sum(-1, keepdims=True), v)
        x = x + mm(mixed.swapaxes(0, 1).reshape(len(tokens), -1), layer["o"])
        gate, up = mm(x, layer["gate"]), mm(x, layer["up"])
        x = x + mm(gate / (1 + np.exp(-gate)) * up, layer["down"])
    return mm(x, w["head"])


# %%
TINY = {"layers": 2, "d_model": 32, "heads": 8, "kv_heads": 2, "d_ff": 96, "vocab": 50}
tiny = edited(model, TINY)
rng = np.random.default_rng(0)
d_head = tiny.layer_types["decoder"].mixer.head_dim
shapes = {
    "q": (32, 8 * d_head), "k": (32, 2 * d_head), "v": (32, 2 * d_head), "o": (8 * d_head, 32),
    "gate": (32, 96), "up": (32, 96), "down": (96, 32),
}  # fmt: skip
weights = {
    "embedding": rng.normal(size=(50, 32)) / 6,
    "head": rng.normal(size=(32, 50)) / 6,
    "layers": [{name: rng.normal(size=shape) / 20 for name, shape in shapes.items()} for _ in range(2)],
}
counted = Counted()
forward(list(range(12)), weights, 8, 2, counted)
step = roofline.analyze(tiny, A100, input_len=12, phase="prefill", mask="full", logits="all", ignore_capacity=True).prefill
assert counted.flops == step.cost.matrix_flops
say(
    f"With tiny dimensions ($L$ = 2, $d_{{model}}$ = 32, $n_q$ = 8, $n_{{kv}}$ = 2, $d_{{head}}$ = {d_head}, $d_{{ff}}$ = 96, $V$ = 50), 12 tokens take "
    f"{counted.flops:,} FLOP of products in this model. The toolkit, told to count all pairs and all scores, computes the same number."
)

# %% [markdown]
# Now the real model: one decode step, one new token, with 4095 tokens before it.

# %%
decode = roofline.analyze(LLAMA, A100, context=4095, phase="decode").decode
ops = {op.path.removeprefix("layers/"): op for op in decode.operators}
show(
    formula("layers/mlp/gate_up_proj", LLAMA, part="matrix_flops", title="FLOP of the MLP's first two matrices, one token"),
    formula(
        "layers/attention/core",
        LLAMA,
        part="matrix_flops",
        context=4095,
        title="FLOP of attention itself: scores, and values weighted",
    ),
    say(
        "Scores and weighted values are two products of 2 FLOP each: that is the 4. The new token sees the cached ones and itself: that is the 1."
    ),
)

# %%
norms = (2 * 32 + 1) * 4096  # two a layer, and the last one
multiplied = total - parts["embedding"] - norms
rule = 2 * total
attention = ops["attention/core"].cost.matrix_flops
assert 2 * multiplied + attention == decode.cost.matrix_flops
show(
    predict(
        "A rule of thumb says: a token takes 2 FLOP for every parameter, here "
        f"{rule / 1e9:.2f} GFLOP. That step does {decode.cost.matrix_flops / 1e9:.2f} GFLOP of products. "
        "What explains the difference?",
        {
            "the rule forgets attention over the context": f"True, but that is {attention / 1e9:.2f} GFLOP, more than the difference. Something makes up for it.",
            "the rule counts the embedding table, which is not multiplied": "True, but that makes the rule too large, not too small.",
            "both: it forgets attention over the context, and counts the embedding table": "",
        },
        answer="both: it forgets attention over the context, and counts the embedding table",
        why=table(
            ("part", "FLOP"),
            [
                ("rule: 2 x all parameters", rule),
                ("less the embedding table, of which one row is looked up", -2 * parts["embedding"]),
                ("less the norms, which are no products", -2 * norms),
                ("plus attention over 4096 tokens", attention),
                ("products of the step", decode.cost.matrix_flops),
            ],
            title="From the rule to the count",
        ),
    ),
)

# %%
prompt = roofline.analyze(LLAMA, A100, input_len=1000, phase="prefill").prefill
core = next(op.cost for op in prompt.operators if op.path.endswith("attention/core"))
show(
    say(
        f"Prefill passes all tokens of the prompt at once: {quantity(prompt.cost.matrix_flops, 'FLOP')} for 1000 tokens, of "
        f"which attention is {percent(core.matrix_flops / prompt.cost.matrix_flops, 1)}. That is a little less than 1000 decode steps: only the last token "
        "needs the LM head, and token i sees i tokens, not all 1000."
    ),
    takeaway(
        "A token does 2 FLOP for every weight that is multiplied, plus attention, which grows with the context. The embedding table is "
        "looked up, not multiplied."
    ),
)

# %% [markdown]
# ## What a token moves
#
# Before a weight can be multiplied it has to be read from the memory of the device. In a decode step with one sequence each weight that is
# multiplied is read once, multiplied once, and not needed again until the next token. So count bytes, too: an A100 does 153 FLOP in the time in which
# it reads one byte. Weights are usually in **bf16**, 2 bytes each. (1 GB is 10^9 bytes; 1 GiB is 2^30, 7 % more.)

# %%
predict(
    f"All weights of Llama 3.1 8B are {2 * total / 1e9:.2f} GB at 2 bytes each. How many bytes of weights does one decode step of one sequence read?",
    kind="bytes",
    answer=decode.cost.weight_bytes,
    tolerance=0.02,
    hints={
        2 * total: "That is every weight. Is there a matrix of which a token needs one row?",
        2
        * (total - 2 * parts["embedding"]): "The LM head is multiplied, so it is read; only the embedding table is looked up.",
    },
    why=formula(
        "decode_floor",
        LLAMA,
        A100,
        part="streamed weights",
        title="Weights that one decode step reads (last: the final norm, and one row of the table)",
    ),
)


# %%
def gigabytes(*kinds: str) -> dict:
    """GB of each operator that moves more than 10 MB, of these kinds of traffic."""
    return {
        path.removeprefix("attention/").removeprefix("mlp/"): sum(getattr(op.cost, kind) for kind in kinds) / 1e9
        for path, op in ops.items()
        if op.cost.bytes > 1e7
    }


figure(
    bars(
        "bytes",
        "What one decode step moves, after 4095 tokens",
        ("GB", ""),
        {
            "weights": gigabytes("weight_bytes"),
            "KV cache": gigabytes("kv_read_bytes", "kv_write_bytes"),
        },
        roles=("weights", "kv"),
        note="Operators that move more than 10 MB, all layers together. Activations of one token are too few to be seen.",
    )
)

# %%
show(
    say(
        "Reading takes time, and so does computing. Below, one matrix is multiplied with many rows, as in prefill, and with one, as in decode. The A100 "
        "computes at most 312 TFLOP/s in bf16 and reads at most 2039 GB/s; the longer bar is what the operator waits for (lesson 3)."
    ),
    draw("prefill-and-decode", model=LLAMA, hardware=A100),
)

# %% [markdown]
# Now a whole step. No decode step can be shorter than its weights take to come in, however fast the device computes.

# %%
floor = roofline.explain(LLAMA, "decode_floor", A100)
naive = 2 * total / 2.039e12
took = {
    batch: roofline.analyze(LLAMA, A100, context=4095, batch=batch, phase="decode").decode.pipeline.bound for batch in (1, 64)
}
show(
    formula(floor, title="The shortest decode step of one sequence on this A100"),
    published("F27", floor.value),
    say(
        f"Dividing all {2 * total / 1e9:.2f} GB by the bandwidth would give {amount(naive, 's')}. That is longer than what is possible, so "
        "it is **no lower bound**. A bound counts what *must* be read, and no more."
    ),
    published(
        "F36",
        f"{amount(took[1], 's')} at least for one sequence after 4095 tokens, whose cache is 0.54 GB more to read; {amount(took[64], 's')} for 64 "
        "sequences, each with its own cache",
        agrees=all(1e-3 < seconds < 30e-3 for seconds in took.values()),
    ),
    takeaway(
        f"A decode step reads every weight that is multiplied: {floor.parts[0].value / 1e9:.1f} GB, so at least "
        f"{amount(floor.value, 's')} on an A100, for a single token."
    ),
)

# %% [markdown]
# ## Two kinds of operators
#
# A poster on simulating inference (Vidur, 2024) sorts operators into two kinds: those whose time depends on the **tokens of this step**,
# and those whose time depends on the **context of all requests**. We can test that: change one of the two, and see what changes.

# %%
predict(
    "Ten times more tokens are cached, the step still has one new token. Which operators of a decode step cost more?",
    {
        "all of them": "A projection multiplies the new token by its weights. It does not know how many tokens came before.",
        "attention itself, and the projections of keys and values": "The keys and values of earlier tokens were projected when these came.",
        "attention itself, alone": "",
        "the MLP": "It works on each new token alone.",
    },
    answer="attention itself, alone",
    why="Attention compares the new token with every cached one. All other operators see the new token only. The figure below counts it.",
)


# %%
def costs(batch: int, context: int) -> dict:
    """Cost of each operator of a decode step."""
    result = roofline.analyze(LLAMA, A100, batch=batch, context=context, phase="decode", ignore_capacity=True).decode
    return {op.path.removeprefix("layers/"): op.cost for op in result.operators}


one, more_tokens, more_context = costs(1, 409), costs(10, 409), costs(1, 4099)
kinds = {}
for path, cost in one.items():
    grows_with_tokens = more_tokens[path] != cost
    grows_with_context = more_context[path] != cost
    kinds[path] = "context" if grows_with_context else "tokens" if grows_with_tokens else "neither"
GROUPS = {
    "projections of attention": ("attention/qkv_proj", "attention/o_proj"),
    "attention itself": ("attention/core",),
    "MLP": ("mlp/gate_up_proj", "mlp/down_proj"),
    "LM head": ("lm_head",),
}


def grown(after: dict, group: str) -> float:
    """The FLOP of a group of operators, as a multiple of those of one token."""
    return sum(after[path].flops for path in GROUPS[group]) / sum(one[path].flops for path in GROUPS[group])


figure(
    bars(
        "ten-times",
        "Ten times the tokens, ten times the context",
        ("FLOP, as a multiple of those of one token", ""),
        {
            "ten sequences, one new token each": {group: grown(more_tokens, group) for group in GROUPS},
            "ten times the context": {group: grown(more_context, group) for group in GROUPS},
        },
        roles=("decode", "kv"),
        note="One token after 409 cached ones at first. With ten sequences attention has ten caches, so it grows with the context of *all* "
        "requests.",
    )
)

# %%
only_attention = [path for path, kind in kinds.items() if kind == "context"] == ["attention/core"]
show(
    published(
        "F35",
        "of 14 operators one depends on the context, `attention/core`; the other 13 on the tokens of the step",
        agrees=only_attention and len(kinds) == 14 and "neither" not in kinds.values(),
    ),
    takeaway("Attention is the only operator in which tokens meet, and the only one whose cost grows with the context."),
)

# %% [markdown]
# ## Play and practise

# %%
play(
    "Change the model and the load. The formulas are those above, with your numbers put in. *Decode step* is with the cache, *shortest decode step* "
    "without.",
    controls=("model", "batch", "context", "layers", "d_model", "d_ff", "hardware", "bandwidth_gbs"),
    tiles=("parameters", "weights", "flops", "bytes", "step", "rate"),
    formulas=("parameters", "decode_floor", "layers/attention/core:matrix_flops"),
    pictures=("time",),
    models=("llama-3.1-8b", "llama-3.2-1b", "llama-2-7b", "mistral-7b-v0.1", "llama-3.1-70b"),
    hardware=("a100-sxm-80gb", "h100-sxm", "l40s"),
    tries=(
        "Move the **context** and watch which tiles stay. Then move the **batch**.",
        "Halve the width of the MLP, $d_{ff}$, to 7,168. By how much does the shortest decode step change?",
        "Choose the H100. Which of FLOP, bytes and time change, and why only these?",
    ),
)

# %%
show(
    worked(
        "the LM head of a small model",
        "Llama 3.2 1B has 128,256 tokens of vocabulary and 2048 elements of $d_{model}$, and its LM head shares the weights of the "
        "embedding table. Which share of its parameters is that table, and which share of the weights that a decode step reads?",
        formula("parameters", "llama-3.2-1b", title="All parameters", legend=False),
        say(
            f"The table has {2048 * 128256:,} of them, **{percent(2048 * 128256 / roofline.explain('llama-3.2-1b', 'parameters').value, 1)}**. A decode step looks "
            "one row up *and* multiplies the whole table as LM head, so all of it is read: the model has no weights that a step does not "
            "read. Small models spend a large part of each step on choosing the word."
        ),
    ),
    worked(
        "when attention overtakes",
        "At which context does attention itself do as many FLOP as everything else in a decode step of Llama 3.1 8B?",
        "Everything else is 2 FLOP for each multiplied weight and does not depend on the context; attention grows by the same amount "
        "with every token that is cached.",
        say(
            f"Weights: {amount(2 * multiplied, 'FLOP')}. Attention: 4 FLOP a query head, element and token, which is "
            f"{4 * 32 * 32 * 128:,} FLOP per token over all layers. They are equal at {2 * multiplied / (4 * 32 * 32 * 128):,.0f} tokens. "
            f"At 2,000 tokens attention is {percent(2000 * 4 * 32 * 32 * 128 / (2 * multiplied + 2000 * 4 * 32 * 32 * 128), 0)} of the work. Its *bytes* are another matter: lesson 2."
        ),
    ),
)

# %%
show(
    exercise("transformer-mlp-weights", 1),
    exercise("transformer-total-parameters", 2),
    exercise("transformer-flops-per-token", 1),
)

# %% [markdown]
# **More**: `roofline explain llama-3.1-8b parameters` prints the derivation of this lesson in a terminal, and
# `roofline analyze llama-3.1-8b --hardware a100-sxm-80gb --context 4095` all operators. Next: what attention has to remember, and what
# that costs.
