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
# # 10. Speculation and prefix caching
#
# Two ways to compute tokens for less. A decode step reads all weights for one token of a sequence: **speculative decoding** reads them once for several. A prompt is
# computed although most of it has been computed before, for another request or an earlier turn: **prefix caching** keeps its keys and values. Both leave the
# output as it is. This lesson computes what each saves, and when it saves nothing.

# %%
from dataclasses import replace

import roofline
from roofline import formatting
from roofline.formulas.symbolic import quantity
from roofline.predict.drafts import resolve
from roofline.predict.explain.explanation import explanation
from roofline.predict.speculation import break_even, tokens_per_round
from roofline.predict.timing import pipeline
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

BIG, DRAFT, LLAMA, H100 = "llama-3.1-70b", "llama-3.2-1b", "llama-3.1-8b", "h100-sxm"

lesson(
    10,
    "Speculation and prefix caching",
    "Several tokens for one reading of the weights, and prompts that are computed once.",
    goals=[
        "compute the tokens of a round from the acceptance, and the time per token from the parts of a round",
        "choose the number of drafted tokens, and say at which batch drafts stop paying off",
        "say which part of a prompt can be taken from the cache, and what that does to TTFT",
        "count the prompt tokens of a chat with and without prefix caching",
        "say how much memory hits take, and where they do not help",
    ],
    prerequisites=[
        "lesson 4: the critical batch; lesson 5: estimates, launches; lesson 6: tensor parallelism",
        "lesson 7: TTFT, TPOT, Little's law; lesson 8: blocks of the cache",
    ],
    plan=[
        (10, "Several tokens for one reading"),
        (8, "What a round costs"),
        (8, "Many sequences"),
        (9, "What prompts share"),
        (6, "A chat"),
        (5, "Memory decides"),
        (4, "Play and practise"),
    ],
    exercises=[
        "speculation-tokens-per-round",
        "speculation-speed-up",
        "prefix-caching-who-shares",
        "prefix-caching-chat",
    ],
)

# %%
CONTEXT = 1024
ROUND = {
    "tp": 4,
    "context": CONTEXT,
    "num_speculative_tokens": 4,
    "acceptance": 0.7,
    "speculative_model": DRAFT,
    "ignore_capacity": True,
}
_, drafting = resolve(BIG, H100, **ROUND)


def drafted(tokens=4, acceptance=0.7):
    """Rounds of Llama 3.1 70B over four H100 with a draft of Llama 3.2 1B."""
    return replace(drafting, options=replace(drafting.options, tokens=tokens, acceptance=acceptance))


def derived(title, expr, values, unit, source="counted", legend=True):
    """A formula in symbols and with numbers."""
    return formula(explanation("lesson", expr, values, unit=unit, source=source), title=title, legend=legend)


# %% [markdown]
# ## Several tokens for one reading
#
# At small batch a decode step waits for the weights, and the matrix units idle. They could compute several tokens of a sequence in the same step, if
# these were known. So guess them: a **draft** proposes K tokens. The model passes them all in one step, together with the last known token: K + 1. A pass gives scores
# after *each* of its tokens, and no token sees a later one, so these are the scores that K + 1 single steps would have given. This **verification** compares
# them with the draft and accepts it up to the first token that the model would not have chosen; there it takes the model's own. If all are accepted, the scores
# after the last give one more. A **round** is a draft and its verification.

# %%
widths = {new: pipeline(drafting.verifier, (Segment(1, new, CONTEXT, decode=True),)) for new in (1, 2, 5, 9, 17, 65, 257)}
predict(
    f"Llama 3.1 70B, over four H100: a decode step of one sequence takes at least {amount(widths[1].bound, 's')}. How long does a step over 5 tokens of the "
    "sequence take, at least?",
    {
        "hardly longer": "",
        "twice as long": "What does the step wait for? Is it read more than once?",
        "five times as long": "Five times the FLOP. Does the step wait for those?",
    },
    answer="hardly longer",
    why=[
        table(
            ("tokens in the step", "at least", "estimate", "estimate over that of 1"),
            [
                (new, amount(took.bound, "s"), amount(took.estimate, "s"), f"{took.estimate / widths[1].estimate:.2f}x")
                for new, took in widths.items()
            ],
            title="A step over several tokens of one sequence, 1,024 cached",
            note="The weights are read once, however many tokens they multiply. Each token adds activations, all-reduces and, in the end, computing.",
        ),
    ],
)

# %%
draw("speculation-tree", {"a chain of tokens": {"kind": "chain"}, "a tree": {"kind": "tree"}}, about="Draft")

# %% [markdown]
# A **tree** drafts two candidates for each place and verifies all of them; one path is accepted. Is the output the same? Yes. If the model takes the most likely token, that is
# compared. If it samples, a token to which the model gives probability p and the draft q is accepted with p/q, at most 1; a rejected one is drawn anew in proportion to what the
# draft gave too little, max(0, p - q). The outcome has exactly the model's distribution (Leviathan et al., 2023). A bad draft costs time, never quality.
#
# Let each drafted token be accepted with probability a, the **acceptance**, whatever came before it.

# %%
predict(
    "The draft proposes 2 tokens, and the acceptance is 0.5. How many tokens does a round give on average, with the model's own?",
    kind="ratio",
    answer=tokens_per_round(0.5, 2),
    tolerance=0.01,
    hints={
        2.0: "The second counts only if the first was accepted as well.",
        0.75: "One more token is the model's own, in every round.",
        1.5: "Count the second drafted token, too.",
        3.0: "That is if all are accepted.",
    },
    why=[
        (
            "One of the model's own; the first drafted one in half of the rounds; the second in half of those: 1 + 0.5 + 0.25, a geometric series. With 4 drafted and an "
            "acceptance of 0.7:"
        ),
        formula(
            "tokens_per_round",
            BIG,
            title="Expected tokens per round",
            num_speculative_tokens=4,
            acceptance=0.7,
            speculative_model=DRAFT,
        ),
    ],
)

# %%
lengths = list(range(13))
show(
    figure(
        curves(
            "tokens",
            "Expected tokens per round",
            ("drafted tokens", "tokens"),
            ("tokens per round", "tokens"),
            {f"acceptance {a:g}": (lengths, [tokens_per_round(a, length) for length in lengths]) for a in (0.5, 0.7, 0.8, 0.9)},
            roles=("bound", "decode", "mixed", "kv"),
            scales=("linear", "linear"),
            low=0,
            note="With an acceptance of 0.5 there are less than two, however many are drafted.",
        )
    ),
    say(
        f"Engines log another number, the share of drafted tokens that is accepted: {(tokens_per_round(0.7, 4) - 1) / 4:.2f} at an acceptance of 0.7, for tokens after the "
        "first rejection are lost. The acceptance depends on model, draft and text: measure it."
    ),
    takeaway(
        "A round reads the weights once. It gives one token of the model's own and the drafted ones before the first rejection, so the first drafted bring most."
    ),
)

# %% [markdown]
# ## What a round costs
#
# The draft takes time: K small steps, one after the other. Where does it come from? A *small model* of the same vocabulary. Or layers for
# *multi-token prediction* (MTP) that were trained with the model, as in DeepSeek-V3: one further layer, run on the last vectors of the model. Or *n-grams*: copy
# what followed the last words earlier in the text; that costs nothing, and works where the output repeats the prompt, such as in edits of code.

# %%
four = drafted()
spans = {"draft": four.drafting(1, CONTEXT), "verify": four.verifying(1, CONTEXT), "plain": four.plain(1, CONTEXT)}
tpot = four.tpot(1, CONTEXT).estimate
predict(
    f"By estimate, 4 steps of Llama 3.2 1B take {amount(spans['draft'].estimate, 's')}, the verification {amount(spans['verify'].estimate, 's')}, and a round gives "
    f"{four.tokens:.2f} tokens. A plain decode step takes {amount(spans['plain'].estimate, 's')}. What is the time per token with the draft?",
    kind="s",
    answer=tpot,
    tolerance=0.02,
    hints={
        spans["verify"].estimate / four.tokens: "The draft takes time, too.",
        spans["draft"].estimate + spans["verify"].estimate: "That is the round. It gives several tokens.",
        (spans["draft"].estimate + spans["verify"].estimate)
        / 4: "Not all drafted tokens are accepted, and one is the model's own.",
        (spans["draft"].estimate + spans["verify"].estimate) / 5: "That is if all were accepted.",
    },
    why=[
        formula("speculative_tpot", BIG, H100, title="Time per token, estimate", **dict(ROUND.items())),
        (
            f"**{spans['plain'].estimate / tpot:.2f} times** faster than without. (Bounds would say {spans['plain'].bound / four.tpot(1, CONTEXT).bound:.2f}: in small "
            "models launches weigh more than bytes.)"
        ),
    ],
)

# %%
counts = list(range(17))
by_count = {
    acceptance: [drafted(count, acceptance).tpot(1, CONTEXT).estimate for count in counts] for acceptance in (0.5, 0.7, 0.9)
}
best = {acceptance: min(counts, key=times.__getitem__) for acceptance, times in by_count.items()}
plain_analysis = roofline.analyze(BIG, H100, tp=4, context=CONTEXT, phase="decode")
with_draft = roofline.analyze(BIG, H100, phase="decode", **ROUND)
own = drafting.draft
show(
    figure(
        curves(
            "best-k",
            "TPOT by drafted tokens, one sequence",
            ("drafted tokens", "tokens"),
            ("TPOT, estimate", "s"),
            {f"acceptance {acceptance:g}": (counts, times) for acceptance, times in by_count.items()},
            roles=("bound", "decode", "kv"),
            scales=("linear", "linear"),
            low=0,
            note=f"0: no draft. Shortest: {', '.join(f'{count} at {acceptance:g}' for acceptance, count in best.items())}.",
        )
    ),
    say(
        f"One more drafted token costs a step of the draft and counts only if all before it were accepted: a to the power of its place. So there is a best number. "
        f"And the draft takes memory: {own.weights_bytes / 1e9:.2f} GB of weights on each of the four devices, and there "
        f"{with_draft.speculative.draft_kv_bytes_per_token:,.0f} bytes of cache per token beside the model's {plain_analysis.memory.kv_bytes_per_token:,.0f}. With "
        f"{CONTEXT:,} tokens each, {with_draft.memory.max_batch} sequences fit instead of {plain_analysis.memory.max_batch}."
    ),
    takeaway(
        "TPOT is the round over its tokens. Draft few tokens where acceptance is low; a fast draft may be worth more than a good one."
    ),
)

# %% [markdown]
# ## Many sequences
#
# Verification is nearly free as long as the step waits for weights. With a batch, every sequence has its K + 1 tokens in the step, and what is computed grows
# with all of them.

# %%
critical = float(roofline.explain(BIG, "critical_batch", H100, tp=4).value)
edge = critical / 5
predict(
    f"The critical batch of these devices is {critical:.0f} tokens in a step. 4 tokens are drafted for each sequence. From how many sequences on does verification compute "
    "for longer than it waits for the weights?",
    kind="sequences",
    answer=edge,
    tolerance=0.03,
    hints={critical: "Each sequence has 5 tokens in the step.", critical / 4: "One more token is verified than is drafted."},
    why="5 tokens of each sequence are in the step: the critical batch over 5. Beyond that, each drafted token costs its full share of FLOP, "
    "accepted or not. Rounds still pay off for a while, since each gives several tokens; the figure shows how long.",
)

# %%
batches = [1, 2, 4, 8, 16, 32, 64, 96, 128, 192, 256, 384, 512]
gain = {
    basis: [getattr(four.plain(batch, CONTEXT), basis) / getattr(four.tpot(batch, CONTEXT), basis) for batch in batches]
    for basis in ("bound", "estimate")
}


def crossing(rounds, basis="estimate"):
    """The smallest batch at which a round is slower than as many plain steps, by halving; "none" up to 4,096."""
    low, high = 1, 4096
    if getattr(rounds.tpot(high, CONTEXT), basis) <= getattr(rounds.plain(high, CONTEXT), basis):
        return "none"
    while low < high:
        middle = (low + high) // 2
        loses = getattr(rounds.tpot(middle, CONTEXT), basis) > getattr(rounds.plain(middle, CONTEXT), basis)
        low, high = (low, middle) if loses else (middle + 1, high)
    return low


even = crossing(four)
ends = {a: crossing(drafted(4, a)) for a in (0.5, 0.7, 0.9)}
needed = {
    batch: break_even(four.round(batch, CONTEXT).estimate / four.plain(batch, CONTEXT).estimate, 4)
    for batch in (1, 32, 128, 256)
}
show(
    figure(
        curves(
            "many",
            "Speed-up by batch: 4 tokens drafted, acceptance 0.7",
            ("batch", "sequences"),
            ("times faster than without", ""),
            {"bound": (batches, gain["bound"]), "estimate": (batches, gain["estimate"])},
            roles=("bound", "estimate"),
            scales=("log", "linear"),
            marks=((f"no gain from {even} on", "x", even), ("as fast", "y", 1)),
            low=0,
            note="Below 1 the draft costs time.",
        )
    ),
    table(
        ("batch", "plain step", "draft", "verification", "times faster", "acceptance that breaks even"),
        [
            (
                batch,
                amount(four.plain(batch, CONTEXT).estimate, "s"),
                amount(four.drafting(batch, CONTEXT).estimate, "s"),
                amount(four.verifying(batch, CONTEXT).estimate, "s"),
                f"{four.plain(batch, CONTEXT).estimate / four.tpot(batch, CONTEXT).estimate:.2f}",
                "none" if needed[batch] is None else f"{needed[batch]:.2f}",
            )
            for batch in needed
        ],
        title="A round by batch, estimates",
        note=f"Smallest batch at which drafts cost time, by acceptance: {', '.join(f'{batch} at {a:g}' for a, batch in ends.items())}. A round reads each cache once "
        "for all its tokens, too: with a high acceptance that is worth more than the tokens that are thrown away.",
    ),
    takeaway(
        "Speculation spends FLOP that would idle. It cuts the latency of few sequences; at large batch no FLOP idle, and rejected tokens are work thrown away."
    ),
)

# %% [markdown]
# ## What prompts share
#
# Keys and values of a token depend on the token and **all tokens before it**, and on nothing after. So two prompts that begin alike have the same cache up
# to the first token that differs. Engines keep the cache in blocks (of 16 tokens, in vLLM), look each block up by a hash of its tokens and of all
# before it, and compute only what is not there.

# %%
predict(
    "All requests begin with the same system prompt of 2,048 tokens. A developer adds the time of day, in its very first line. Of the next request, what is found in the cache?",
    {
        "nothing": "",
        "all but the first line": "Do the keys of all tokens after it depend on the first line?",
        "the whole system prompt": "It differs from its first line on.",
    },
    answer="nothing",
    why="All tokens after the time have seen it. Put what changes at the end: system prompt, then documents, then the question.",
)

# %%
show(
    draw("prefix-tree", {"what is found": {"view": "reuse"}, "what is evicted": {"view": "evict"}}, about="View"),
    draw("paged-blocks", shared=True),
)

# %%
PROMPT, SHARED = 2304, 2048
whole, rest = (
    roofline.analyze(LLAMA, H100, phase="prefill", input_len=PROMPT, **options).prefill
    for options in ({}, {"cached_prefix": SHARED})
)
predict(
    f"Of a prompt of {PROMPT:,} tokens {SHARED:,} are cached. How many times less does prefill compute, about?",
    kind="ratio",
    answer=PROMPT / (PROMPT - SHARED),
    tolerance=0.06,
    hints={
        PROMPT / SHARED: "The cached tokens are those that need not be computed.",
        SHARED / (PROMPT - SHARED): "Put the whole prompt over what is left of it.",
        SHARED / PROMPT: "That is the share that is cached.",
    },
    why=[
        (
            f"{PROMPT - SHARED} of {PROMPT:,} tokens are left: {PROMPT / (PROMPT - SHARED):.0f} times less in the linear layers, "
            f"{whole.cost.flops / rest.cost.flops:.2f} times in all, since attention of the new tokens still reads the cached ones."
        ),
        table(
            ("Llama 3.1 8B on an H100", "FLOP", "TTFT, at least", "estimate"),
            [
                (
                    name,
                    formatting.quantity(one.cost.flops, "FLOP"),
                    amount(one.pipeline.bound, "s"),
                    amount(one.pipeline.estimate, "s"),
                )
                for name, one in (("all computed", whole), (f"{SHARED:,} tokens cached", rest))
            ],
            title=f"A prompt of {PROMPT:,} tokens, alone",
        ),
    ],
)

# %%
shares = [0, 256, 512, 768, 1024, 1280, 1536, 1792, 2048, 2240]
first_token = {
    basis: [
        getattr(
            roofline.analyze(
                LLAMA, H100, phase="prefill", input_len=PROMPT, **({"cached_prefix": cut} if cut else {})
            ).prefill.pipeline,
            basis,
        )
        for cut in shares
    ]
    for basis in ("bound", "estimate")
}
token = roofline.explain(LLAMA, "kv_bytes_per_token").value
show(
    figure(
        curves(
            "ttft",
            f"TTFT of a prompt of {PROMPT:,} tokens, by what is cached",
            ("tokens cached", "tokens"),
            ("TTFT", "s"),
            {basis: (shares, times) for basis, times in first_token.items()},
            roles=("bound", "estimate"),
            scales=("linear", "linear"),
            low=0,
            note="Llama 3.1 8B on an H100. TTFT falls nearly in proportion, down to the time of reading the weights once.",
        )
    ),
    say(
        f"Memory is shared, too: the system prompt of 32 running requests is stored once, {SHARED * token / 2**20:.0f} MiB instead of {32 * SHARED * token / 2**30:.0f} GiB. "
        "What it does not help: decode with usual kernels, which read the cache of every sequence as before (lesson 4 has the exception); prompts that come once; what is alike only at "
        "the end, or for less than a block."
    ),
    takeaway(
        "What is shared is the common beginning, in whole blocks. Hits shorten TTFT by the tokens that need not be computed, and hardly change decode."
    ),
)

# %% [markdown]
# ## A chat
#
# The prompt of a turn is all that was said before, and the new message. Replies have their keys and values, too: decode put them there.

# %%
turns, message_tokens, reply_tokens = (
    quantity("n", "n", "turns", "of the chat"),
    quantity("q", "q", "tokens", "of a message"),
    quantity("r", "r", "tokens", "of a reply"),
)
MESSAGE, REPLY = 200, 300
everything = turns * message_tokens + turns * (turns - 1) / 2 * (message_tokens + reply_tokens)


def computed(count, cached):
    """Prompt tokens computed in a chat of a number of turns."""
    return count * MESSAGE if cached else count * MESSAGE + count * (count - 1) // 2 * (MESSAGE + REPLY)


predict(
    f"A chat of 10 turns: each message has {MESSAGE} tokens, each reply {REPLY}. How many times as many prompt tokens are computed without prefix caching as with it?",
    kind="ratio",
    answer=computed(10, False) / computed(10, True),
    tolerance=0.02,
    hints={
        10.0: "Prompts grow from turn to turn: the first is one message.",
        (9 * (MESSAGE + REPLY) + MESSAGE) / MESSAGE: "That is the last turn. The earlier ones are shorter.",
        sum(turn * MESSAGE for turn in range(1, 11)) / (10 * MESSAGE): "Replies are part of the later prompts.",
    },
    why=[
        derived(
            "Prompt tokens of all turns, nothing cached",
            everything,
            {turns: 10, message_tokens: MESSAGE, reply_tokens: REPLY},
            "tokens",
        ),
        f"With it, the messages alone: 10 x {MESSAGE} = {computed(10, True):,}.",
    ],
)

# %%
counted = [1, 2, 4, 6, 8, 10, 15, 20, 25, 30]
show(
    figure(
        curves(
            "chat",
            "Prompt tokens computed in a chat",
            ("turns", ""),
            ("tokens", "tokens"),
            {
                "nothing cached": (counted, [computed(count, False) for count in counted]),
                "with prefix caching": (counted, [computed(count, True) for count in counted]),
            },
            roles=("prefill", "decode"),
            scales=("linear", "linear"),
            low=0,
            note="Agents, whose turns are calls of tools, have many more turns.",
        )
    ),
    takeaway("Without prefix caching the prompt tokens of a chat grow with the square of its turns; with it, linearly."),
)

# %% [markdown]
# ## Memory decides
#
# Blocks that no running request uses stay in memory until others need it; then those go that were used least recently. A turn finds its chat if it comes back in time.

# %%
RATE, PAUSE, TURNS = 8, 20, 6
waiting = RATE * PAUSE * (TURNS - 1) / TURNS
history = (MESSAGE + REPLY) * TURNS / 2  # mean of 1 to 5 turns
ended = RATE / TURNS * PAUSE * (MESSAGE + REPLY) * TURNS  # tokens of the chats that ended in the last 20 s, whole
budget = roofline.analyze(LLAMA, H100, phase="decode", context=0).memory
traffic = {
    "rate": RATE,
    "turns": TURNS,
    "think": f"{PAUSE} s",
    "input_len": MESSAGE,
    "output_len": REPLY,
    "requests": 1200,
    "seed": 1,
}
used = (0.35, 0.45, 0.6, 0.9)
runs = {share: roofline.simulate(LLAMA, H100, gpu_memory_utilization=share, **traffic) for share in used}
off = roofline.simulate(LLAMA, H100, enable_prefix_caching=False, **traffic)
predict(
    f"Chats have {TURNS} turns; {RATE} turns come per second, and after all but the last of a chat its user pauses for {PAUSE} s. Chats that wait have {history:,.0f} tokens on "
    f"average, of {token:,} bytes. How much memory do all of them take?",
    kind="bytes",
    answer=waiting * history * token,
    tolerance=0.03,
    hints={
        RATE * PAUSE * history * token: "One turn of six is the last of its chat, which does not come back.",
        waiting / PAUSE * history * token: f"Those are the chats of one second. Each waits for {PAUSE} s.",
        history * token: "That is one chat.",
    },
    why=f"By Little's law {RATE} x 5/6 x {PAUSE} = {waiting:.0f} chats wait at a time. And the cache cannot know which chats have ended: the "
    f"{RATE / TURNS * PAUSE:.0f} of the last {PAUSE} s, of {(MESSAGE + REPLY) * TURNS:,} tokens each (messages of {MESSAGE}, replies of {REPLY}), are another {ended * token / 1e9:.0f} GB. "
    "Running requests need memory, too. If it holds all that, nearly every turn finds its chat; if not, the chat whose turn comes next is the one that has just gone.",
)

# %%
show(
    table(
        ("memory the engine may use", "left beside weights", "prompt tokens found", "mean TTFT", "TTFT, p95"),
        [
            (
                f"{share:.0%}".replace("%", " %"),
                f"{(share * budget.capacity_bytes - budget.weights_bytes) / 1e9:.0f} GB",
                f"{100 * one.prefix_hit_rate:.0f} %",
                amount(one.ttft_s.mean, "s"),
                amount(one.ttft_s.p95, "s"),
            )
            for share, one in runs.items()
        ]
        + [
            (
                "90 %, no prefix caching",
                f"{(0.9 * budget.capacity_bytes - budget.weights_bytes) / 1e9:.0f} GB",
                "0 %",
                amount(off.ttft_s.mean, "s"),
                amount(off.ttft_s.p95, "s"),
            )
        ],
        title="Chats of 6 turns on one H100, simulated",
        note="The first message of a chat is never found, nor are the tokens of blocks that are not full. With little memory requests wait for it, so that fewer "
        "prompts share a step: with equal hits that may even shorten TTFT.",
    ),
    takeaway(
        "Hits take memory: of all chats that may come back, rate times pause times tokens times bytes. Running requests have it first; what they leave decides the hits."
    ),
)

# %% [markdown]
# ## Play and practise

# %%
play(
    "Rounds with a draft, and prompts of which a part is cached. Times are estimates, or bounds with measured efficiency off; prefill is of all prompts of the batch.",
    controls=(
        "model",
        "drafted",
        "acceptance",
        "batch",
        "context",
        "input_len",
        "cached_prefix",
        "weights",
        "tp",
        "hardware",
        "efficiency",
    ),
    tiles=("tokens_per_round", "step", "verifying", "round", "speculative_tpot", "speculative_gain", "prefill"),
    formulas=("decode_floor",),
    pictures=("rounds",),
    models=(BIG, LLAMA),
    hardware=(H100, "h200-sxm", "a100-sxm-80gb"),
    drafts=(DRAFT,),
    tp="4",
    context=CONTEXT,
    input_len=PROMPT,
    efficiency=True,
    tries=(
        "Which number of **drafted** tokens is best at an acceptance of 0.5, and at 0.9? And of drafts that cost nothing?",
        "Raise the **batch** with 4 drafted tokens, then with 1. Which gains more at 1, and at 128 sequences?",
        "Take Llama 3.1 **8B** with the same draft, on one device. Why does it gain less?",
        "Raise the **cached prefix** of the prompt to 2,048. How long is prefill then, and what does it wait for?",
    ),
)

# %%
edit = tokens_per_round(0.9, 8)
calls, fixed = 20, 3000
show(
    worked(
        "which draft?",
        "A code editor, one sequence: while edits copy, n-grams of 8 tokens are accepted with 0.9, tokens of the 1B draft with 0.8. Which one?",
        say(
            f"n-grams: {edit:.2f} tokens per round of {amount(drafted(8).verifying(1, CONTEXT).estimate, 's')}, "
            f"{amount(drafted(8).verifying(1, CONTEXT).estimate / edit, 's')} per token. The 1B draft, with its best "
            f"{min(counts, key=lambda count: drafted(count, 0.8).tpot(1, CONTEXT).estimate)} tokens: "
            f"{amount(min(drafted(count, 0.8).tpot(1, CONTEXT).estimate for count in counts), 's')}. So n-grams, for this text; where nothing "
            "is copied they are hardly ever accepted."
        ),
    ),
    worked(
        "an agent's bill",
        f"An agent has instructions of {fixed:,} tokens and makes {calls} calls of tools; each call and its result add 500 tokens. Which share of its prompt tokens can be "
        "taken from the cache, in blocks of 16?",
        say(
            f"The prompts are {fixed:,}, {fixed + 500:,}, ... tokens: {sum(fixed + 500 * call for call in range(calls)):,} in all. Each turn finds all whole blocks of the one "
            f"before: {sum((fixed + 500 * (call - 1)) // 16 * 16 for call in range(1, calls)):,} tokens, "
            f"**{100 * sum((fixed + 500 * (call - 1)) // 16 * 16 for call in range(1, calls)) / sum(fixed + 500 * call for call in range(calls)):.0f} %**. If "
            "a cached token costs a tenth of another, as some providers have it, the cached ones are still half of what prompts cost."
        ),
    ),
)

# %%
show(
    exercise("speculation-tokens-per-round", 1),
    exercise("speculation-speed-up", 1),
    exercise("prefix-caching-who-shares", 1),
    exercise("prefix-caching-chat", 1),
)

# %% [markdown]
# **More**: `roofline analyze llama-3.1-70b --hardware h100-sxm --tp 4 --speculative-model llama-3.2-1b --num-speculative-tokens 4 --acceptance 0.7`, and
# `roofline simulate llama-3.1-8b --hardware h100-sxm --rate 8 --turns 6 --think "20 s"` for chats. Next: prompts and decodes on devices of their own.
