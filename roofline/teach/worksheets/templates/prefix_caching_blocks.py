"""How many tokens of a cached prefix a prompt reuses: whole blocks, and never its last token."""

from __future__ import annotations

from roofline.serving.simulation.kv_tiers import common_blocks
from roofline.serving.simulation.prefix_cache import ENDLESS, Content
from roofline.teach.worksheets import worked
from roofline.teach.worksheets.problem import Answer, Mistake, Problem, Rng, Template


def draw(rng: Rng) -> Problem:
    """Two prompts that begin alike, or the same prompt twice."""
    block, same = rng.choice((16, 32, 64, 128)), rng.below(3) == 0
    prompt = block * rng.integer(12, 40) + (0 if same else rng.integer(1, block - 1))
    common = prompt if same else rng.integer(block * 3 + 1, prompt - block)
    first: Content = ((1, ENDLESS),)
    second: Content = first if same else ((1, common), (2, ENDLESS))
    # the last token is computed in any case, since its output is what the next token is drawn from
    blocks = common_blocks(first, second, block, (prompt - 1) // block)
    right = blocks * block
    mistakes = (
        Mistake(
            name="tokens as they are",
            value=common,
            hint="You counted tokens. Only whole blocks are cached and compared.",
        )
        if not same
        else Mistake(
            name="the whole prompt",
            value=prompt,
            hint="The last token has to be computed: what follows it is not in the cache, which holds keys and values.",
        ),
        Mistake(
            name="one block more",
            value=right + block,
            hint="You rounded up. A block that differs in one token is another block.",
        ),
        Mistake(
            name="blocks",
            value=blocks,
            hint=f"That is the number of blocks, of {block} tokens each.",
        ),
        Mistake(
            name="one token less",
            value=common - 1,
            hint="One token has to be computed, but blocks are reused whole: what is left of the last one is computed too.",
        ),
    )
    what = (
        f"The same prompt of {prompt:,} tokens comes a second time"
        if same
        else f"A second prompt of {prompt:,} tokens has its first {common:,} tokens in common with it, and then differs"
    )
    return Problem(
        title="Blocks in common",
        text=(
            f"An engine caches prefixes in blocks of {block} tokens. A prompt of {prompt:,} tokens was served, and all of its "
            f"full blocks are cached. {what}. Of how many tokens are keys and values taken from the cache?"
        ),
        answer=Answer(value=right, kind="tokens", tolerance=0),
        mistakes=tuple(one for one in mistakes if one.value != right),
        solution=(
            "A block is reused if all its tokens, and all before them, are the same; at least the last token is computed.",
            worked.formula(
                "Whole blocks, and the tokens of each:",
                "n_blocks * b",
                {"n_blocks": (blocks, "whole blocks that are reused"), "b": (block, "tokens of a block")},
                "tokens",
            ),
        ),
        source="vLLM, automatic prefix caching",
    )


TEMPLATE = Template(id="prefix-caching-blocks", topic="prefix-caching", minutes=3, draw=draw)
