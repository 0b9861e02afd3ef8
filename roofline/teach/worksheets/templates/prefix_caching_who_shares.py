"""Find the mistake: which request can reuse what is cached."""

from __future__ import annotations

from roofline.serving.simulation.kv_tiers import common_blocks
from roofline.serving.simulation.prefix_cache import ENDLESS, Content
from roofline.teach.worksheets.problem import Answer, Mistake, Problem, Rng, Template

_BLOCK = 16


def draw(rng: Rng) -> Problem | None:
    """A cached prompt, and four requests that look alike to a different degree."""
    system, prompt = rng.integer(400, 1500), rng.integer(1800, 3000)
    few, early = rng.integer(3, 15), rng.integer(40, 200)
    cached: Content = ((1, ENDLESS),)
    # text of its own first, then the same: no block has the same beginning
    requests: dict[str, tuple[str, Content, str]] = {
        "system": (
            f"one with the same first {system:,} tokens, the system prompt, and then another question",
            ((1, system), (2, ENDLESS)),
            "Its system prompt is the same from the first token on: how many whole blocks is that?",
        ),
        "time": (
            f"one with the time of day in its first {few} tokens, and then the same {prompt - few:,} tokens",
            ((3, few), (4, ENDLESS)),
            "Keys and values depend on all tokens before. Another beginning makes every block another one.",
        ),
        "user": (
            f"one with the same first {early} tokens, then the name of another user, and then the same tokens again",
            ((1, early), (5, ENDLESS)),
            "What comes after the name is not shared, however much of it is the same.",
        ),
        "short": (
            f"one with the same first {few} tokens, and then another text",
            ((1, few), (6, ENDLESS)),
            f"That is less than a block of {_BLOCK} tokens: nothing is shared.",
        ),
    }
    blocks = {key: common_blocks(cached, content, _BLOCK, (prompt - 1) // _BLOCK) for key, (_, content, _) in requests.items()}
    ranked = sorted(requests, key=lambda key: -blocks[key])
    if blocks[ranked[0]] == blocks[ranked[1]] or blocks[ranked[1]] == blocks[ranked[2]]:
        return None
    rank = rng.choice(("most", "part"))
    right = ranked[0] if rank == "most" else ranked[1]
    order = rng.shuffled(list(requests))
    which = "the most blocks" if rank == "most" else "the second-most blocks"
    listed = "; ".join(f"{requests[key][0].partition(', ')[0]}: {blocks[key]}" for key in ranked)
    return Problem(
        title="Who can share?",
        text=(
            f"A prompt of {prompt:,} tokens is cached in blocks of {_BLOCK}. A colleague says that all of these requests, each "
            "as long, reuse most of it, since nearly all of their tokens are the same or at least many of the first ones. "
            f"Which one reuses {which} of the cached prompt?"
        ),
        answer=Answer(value=order.index(right), kind="choice", choices=tuple(requests[key][0] for key in order)),
        mistakes=tuple(
            Mistake(name=key, value=order.index(key), hint=_hint(key, requests[key][2], rank)) for key in order if key != right
        ),
        solution=(
            "A block can be shared only if all tokens up to its end are the same. After the first that differs nothing is.",
            f"Blocks of {_BLOCK} tokens that are shared, of {listed}.",
        ),
        source="vLLM, automatic prefix caching",
    )


def _hint(key: str, hint: str, rank: str) -> str:
    return f"{hint} There is one that shares more." if rank == "most" or key != "system" else "That one shares the most of all."


TEMPLATE = Template(id="prefix-caching-who-shares", topic="prefix-caching", minutes=3, draw=draw)
