"""The share of prompt tokens that a shared system prompt saves."""

from __future__ import annotations

from roofline.serving.simulation.kv_tiers import common_blocks
from roofline.serving.simulation.prefix_cache import ENDLESS
from roofline.teach.worksheets import worked
from roofline.teach.worksheets.problem import Answer, Mistake, Problem, Rng, Template


def draw(rng: Rng) -> Problem:
    """A system prompt, a few requests with own parts."""
    block, requests = rng.choice((64, 128, 256)), rng.integer(4, 12)
    system, own = rng.integer(5 * block + 1, 30 * block), rng.integer(200, 3000, 50)
    prompt = system + own
    blocks = common_blocks(((1, system), (2, ENDLESS)), ((1, system), (3, ENDLESS)), block, (prompt - 1) // block)
    right = (requests - 1) * blocks * block / (requests * prompt)
    mistakes = (
        Mistake(
            name="first one too",
            value=blocks * block / prompt,
            hint="The first request finds nothing: it computes the system prompt for the others.",
        ),
        Mistake(
            name="of the later ones' own",
            value=(requests - 1) * blocks * block / (requests * own),
            hint="You divided by the tokens of the requests' own. Of all prompt tokens, which share is cached?",
        ),
        Mistake(
            name="computed",
            value=1 - right,
            hint="That is the share that is computed.",
        ),
        Mistake(
            name="once",
            value=blocks * block / (requests * prompt),
            hint=f"You counted the system prompt once. {requests - 1} requests take it from the cache.",
        ),
    )
    return Problem(
        title="What is cached",
        text=(
            f"{requests} requests come one after the other. All have the same system prompt of {system:,} tokens, and then "
            f"{own:,} tokens of their own. Prefixes are cached in blocks of {block} tokens, memory is ample, and at first "
            "nothing is cached. Which share of all prompt tokens is taken from the cache?"
        ),
        answer=Answer(value=right, kind="share"),
        mistakes=mistakes,
        solution=(
            f"Of the system prompt {blocks} whole blocks of {block} tokens can be shared. The first request computes them.",
            worked.formula(
                "What the others take, over all prompt tokens:",
                "(R - 1) * n_blocks * b / (R * (S + O))",
                {
                    "R": (requests, "requests"),
                    "n_blocks": (blocks, "whole blocks of the system prompt"),
                    "b": (block, "tokens of a block"),
                    "S": (system, "tokens of the system prompt"),
                    "O": (own, "tokens of a request's own"),
                },
                "1",
            ),
        ),
    )


TEMPLATE = Template(id="prefix-caching-cached-share", topic="prefix-caching", minutes=4, draw=draw)
