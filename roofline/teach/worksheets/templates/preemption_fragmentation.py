"""What of an engine's blocks holds nothing."""

from __future__ import annotations

from roofline.predict.allocation import Kind
from roofline.teach.worksheets import worked
from roofline.teach.worksheets.problem import Answer, Mistake, Problem, Rng, Template


def draw(rng: Rng) -> Problem | None:
    """A block, the longest sequence that is allowed, and a few sequences."""
    block, longest = rng.choice((16, 32, 64, 128)), rng.choice((1024, 2048, 4096))
    lengths = [rng.integer(10, 6 * block) for _ in range(rng.choice((3, 4, 5)))]
    blocks = [int(Kind(block, 1.0).blocks(length, 0)) for length in lengths]
    used, taken = sum(lengths), sum(blocks) * block
    right = 1 - used / taken
    if right < 0.03 or max(lengths) >= longest:
        return None
    mistakes = (
        Mistake(
            name="over what is used",
            value=(taken - used) / used,
            hint="You divided by the tokens that are there. The answer is the share of the memory that was given out.",
        ),
        Mistake(
            name="half a block",
            value=block / 2 * len(lengths) / taken,
            hint="Half a block per sequence is what to expect of many of them. Here the lengths are known.",
        ),
        Mistake(
            name="used share",
            value=used / taken,
            hint="That is the share that holds something. The answer is the rest.",
        ),
        Mistake(
            name="longest sequence reserved",
            value=1 - used / (len(lengths) * longest),
            hint=(
                "That is without paging: memory for the longest sequence from the start. Blocks are allocated as they are "
                "needed."
            ),
        ),
        Mistake(
            name="of the last blocks",
            value=(taken - used) / (len(lengths) * block),
            hint="That is the empty share of the last blocks alone. The others are full, and count too.",
        ),
    )
    listed = ", ".join(map(str, lengths[:-1]))
    return Problem(
        title="Empty places",
        text=(
            f"An engine allows sequences of up to {longest:,} tokens and gives them memory in blocks of {block} tokens, as "
            f"they grow. {len(lengths)} sequences have {listed} and {lengths[-1]} tokens in the cache. What share of the "
            f"memory "
            "that was given to them holds nothing (internal fragmentation)?"
        ),
        answer=Answer(value=right, kind="share"),
        mistakes=mistakes,
        solution=(
            (
                "Rounded up, "
                + ", ".join(f"{length}/{block} is {count}" for length, count in zip(lengths, blocks, strict=True))
                + f": {sum(blocks)} blocks that hold {taken:,} tokens, and there are {used:,}."
            ),
            worked.formula(
                "The rest is empty:",
                "(n_blocks * b - n) / (n_blocks * b)",
                {
                    "n_blocks": (sum(blocks), "blocks"),
                    "b": (block, "tokens of a block"),
                    "n": (used, "tokens"),
                },
                "1",
            ),
        ),
        source="Kwon et al. 2023, arXiv:2309.06180, section 4",
    )


TEMPLATE = Template(id="preemption-fragmentation", topic="preemption", minutes=4, draw=draw)
