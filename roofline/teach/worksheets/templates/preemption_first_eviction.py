"""How far sequences grow until the first is evicted."""

from __future__ import annotations

from roofline.predict.allocation import Kind
from roofline.predict.memory import largest
from roofline.teach.worksheets import worked
from roofline.teach.worksheets.problem import Answer, Mistake, Problem, Rng, Template


def draw(rng: Rng) -> Problem | None:
    """Blocks, and sequences that were let in at the same time with prompts of one length."""
    block, running, prompt = rng.choice((16, 32, 64)), rng.integer(6, 40), rng.integer(100, 1500, 20)
    # enough blocks for each sequence to grow by a few
    need = -(-prompt // block)
    total = running * (need + rng.integer(2, 20)) + rng.below(running)
    kind = Kind(block, 1.0)
    right = largest(lambda more: running * kind.blocks(prompt + more, 0) <= total)
    share = total // running
    if total % running == 0 or share * block - prompt != right:
        return None
    mistakes = (
        Mistake(
            name="part of a block",
            value=total * block // running - prompt,
            hint=(
                "You dealt out tokens. Sequences get whole blocks: what is left when all have the same number helps only some."
            ),
        ),
        Mistake(
            name="prompt forgotten",
            value=share * block,
            hint="That is how long each sequence can be. Its prompt is in the cache already.",
        ),
        Mistake(
            name="one sequence",
            value=(total - need * running) * block,
            hint="You let one sequence have all the free blocks. All of them grow by a token in each step.",
        ),
        Mistake(
            name="free blocks alone",
            value=(share - need) * block,
            hint="The last block of each prompt is not full: it has places for more tokens before a new one is needed.",
        ),
        Mistake(
            name="one too many",
            value=right + 1,
            hint="With that token all want a new block at once, and there are not enough of them.",
        ),
    )
    return Problem(
        title="Until the first eviction",
        text=(
            f"An engine has {total:,} KV blocks of {block} tokens. {running} requests with prompts of {prompt:,} tokens are "
            "admitted together; no request arrives or ends, and prompts share nothing. From then on each has one token more "
            "in the cache after every step. How many tokens can each of them add before, for want of a block, the first "
            "request is evicted?"
        ),
        answer=Answer(value=right, kind="tokens", tolerance=0),
        # where prompts fill their blocks there are no places left in them
        mistakes=tuple(one for one in mistakes if one.name != "free blocks alone" or prompt % block),
        solution=(
            f"Each can have {total:,} / {running}, rounded down {share} blocks: with one more for each, there are too few.",
            worked.formula(
                "That number of tokens fits in the blocks, and the prompt has taken its own:",
                "n_blocks * b - p",
                {
                    "n_blocks": (share, "blocks of a sequence"),
                    "b": (block, "tokens of a block"),
                    "p": (prompt, "tokens of the prompt"),
                },
                "tokens",
            ),
        ),
        source="Kwon et al. 2023, arXiv:2309.06180, section 4.5",
    )


TEMPLATE = Template(id="preemption-first-eviction", topic="preemption", minutes=4, draw=draw)
