"""The loop of a scheduler with continuous batching: who waits, what one step computes, who ends, who is preempted."""

from __future__ import annotations

from roofline.errors import InputError
from roofline.predict.request import prepare
from roofline.teach.lessons.draw.canvas import Canvas, Drawing, Hue

_DECODING = 5


def draw(model: str = "llama-3.1-8b", hardware: str = "h100-sxm", prompt: int = 12_000, engine: str = "vllm") -> Drawing:
    """Draw one step of a scheduler.

    Args:
        model: that is served.
        hardware: that serves it.
        prompt: tokens of the prompt that is computed in chunks.
        engine: whose defaults are taken.

    Raises:
        InputError: the engine has no limit of tokens per step.
    """
    request = prepare(model, hardware, engine=engine)
    budget = request.engine.max_num_batched_tokens if request.engine is not None else None
    block = request.memory.block_size
    if budget is None:
        raise InputError(f"{engine} has no limit of tokens per step")
    chunk = min(budget - _DECODING, prompt)
    blocks = -(-chunk // block)
    canvas = Canvas(height=420)
    canvas.label("waiting", 70, 16, anchor="middle", strong=True)
    for number in range(3):
        canvas.box(14, 36 + number * 40, 112, 32, f"r{_DECODING + 2 + number}", hue="grey", size=12)
    canvas.label("first come,\nfirst served", 70, 162, anchor="middle", size=11, hue="grey")
    canvas.box(188, 30, 404, 238, hue="grey", round_=8)
    canvas.label("running: one step", 390, 16, anchor="middle", strong=True)
    for number in range(_DECODING):
        canvas.box(206 + number * 62, 46, 54, 30, f"r{number + 1}", hue="orange", strong=True, size=12)
    canvas.label("decode: 1 token each", 206, 92, size=12, hue="orange")
    canvas.box(520, 46, 54, 30, f"r{_DECODING + 1}", hue="blue", strong=True, size=12)
    canvas.label("prompt", 547, 92, anchor="middle", size=12, hue="blue")
    canvas.label(f"token budget {budget:,}", 206, 120, size=12)
    for number in range(_DECODING):
        canvas.box(206 + number * 7, 132, 6, 28, hue="orange", filled=True, round_=0)
    start = 206 + _DECODING * 7 + 1
    canvas.box(
        start,
        132,
        574 - start,
        28,
        f"chunk of r{_DECODING + 1}: {chunk:,} of {prompt:,} tokens",
        hue="blue",
        filled=True,
        size=12,
        round_=0,
    )
    canvas.label("KV blocks", 206, 184, size=12)
    for number in range(23):
        taken = number < 20
        canvas.box(206 + number * 16, 196, 13, 26, hue="pink", filled=taken, empty=not taken, round_=1)
    canvas.label(f"blocks of {block} tokens; the chunk takes {blocks} of them", 206, 244, size=12, hue="pink")
    canvas.arrow((128, 52), (186, 52), hue="green", wide=2)
    canvas.label("admit", 157, 38, anchor="middle", size=12, hue="green")
    canvas.arrow((594, 90), (656, 90), wide=2)
    canvas.label("finish", 625, 76, anchor="middle", size=12)
    canvas.label("ended", 704, 16, anchor="middle", strong=True)
    canvas.box(658, 74, 92, 32, "r0", hue="grey", dashed=True, empty=True, size=12)
    canvas.label("its blocks\nare free", 704, 119, anchor="middle", size=11, hue="grey")
    canvas.line((390, 270), (390, 290), (70, 290), hue="red", wide=2, dashed=True)
    canvas.arrow((70, 290), (70, 190), hue="red", wide=2)
    canvas.label("preempt: no block is free,\nthe last admitted goes back", 400, 282, size=12, hue="red")
    rules: tuple[tuple[str, str, Hue], ...] = (
        ("1", f"Sequences that decode get one token each of the budget: {_DECODING} of {budget:,}", "orange"),
        ("2", f"Prompts that have begun get the rest, in chunks: {chunk:,} tokens of r{_DECODING + 1}", "blue"),
        ("3", "Requests that wait are admitted while budget, sequences and blocks are left", "green"),
        ("4", "A sequence without a free block for its next token: another is preempted", "red"),
        ("5", "The step is computed; ended requests free their blocks, and the loop begins again", "ink"),
    )
    for number, (digit, words, hue) in enumerate(rules):
        y = 321 + number * 22
        canvas.circle(20, y, 9, digit, hue=hue, filled=True, size=11)
        canvas.label(words, 38, y, size=12)
    return canvas.drawing(
        "scheduler-loop",
        "One step of a scheduler with continuous batching",
        f"Requests wait in a queue and are admitted to the running batch. In a step {_DECODING} sequences decode "
        "a token each, and a prompt "
        f"of {prompt:,} tokens gets a chunk of {chunk:,}, which fills the budget of {budget:,}. Ended requests "
        "free their blocks; where no "
        "block is free, the request that was admitted last is preempted and goes back to the queue.",
        f"Budget and block size are defaults of {engine}; lengths are an example.",
    )
