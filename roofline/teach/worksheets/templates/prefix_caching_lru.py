"""Hits of a cache that evicts what was used least recently."""

from __future__ import annotations

from functools import cache

from roofline.serving.simulation.kv_cache import EngineConfig, KVCacheManager
from roofline.serving.simulation.prefix_cache import ENDLESS
from roofline.serving.simulation.request import Request
from roofline.teach.worksheets.problem import Answer, Mistake, Problem, Rng, Template

_BLOCK, _BLOCKS = 16, 8  # of a system prompt; its size does not matter here
_LETTERS = "ABCDE"


@cache
def hits(order: str, held: int) -> tuple[int, ...]:
    """Return which requests find their system prompt: one after the other, memory for `held` of them, by the simulator."""
    config = EngineConfig(held * _BLOCKS, _BLOCK, 1, 1 << 20, enable_prefix_caching=True)
    manager, reused = KVCacheManager(config), []
    for index, letter in enumerate(order):
        tokens = _BLOCK * _BLOCKS
        request = Request(index, 0.0, tokens + 1, 1, content=((_LETTERS.index(letter) + 1, ENDLESS),))
        manager.find_cached(request)
        reused.append(request.num_computed_tokens)
        manager.admit(request, _BLOCKS, tokens - request.num_computed_tokens)
        manager.free(request, _BLOCKS, tokens, ended=True)
    return tuple(index for index, cached in enumerate(reused) if cached == _BLOCK * _BLOCKS)


def _first_in_first_out(order: str, held: int) -> int:
    """Hits if the oldest entry is evicted, used or not."""
    entries: list[str] = []
    count = 0
    for letter in order:
        if letter in entries:
            count += 1
        else:
            entries = [*entries[-(held - 1) :], letter] if held > 1 else [letter]
    return count


def draw(rng: Rng) -> Problem | None:
    """A row of requests with one of a few system prompts each."""
    held, length = rng.choice((2, 3)), rng.integer(9, 12)
    order = "".join(rng.choice(_LETTERS[: held + 2]) for _ in range(length))
    right = len(hits(order, held))
    if right < 2:
        return None
    mistakes = (
        Mistake(
            name="never evicted",
            value=(length - len(set(order))) / length,
            hint=f"You kept all of them. Memory is enough for {held}: a miss evicts what was used least recently.",
        ),
        Mistake(
            name="oldest evicted",
            value=_first_in_first_out(order, held) / length,
            hint="You evicted what came first. A hit makes an entry the most recent one.",
        ),
        Mistake(name="misses", value=1 - right / length, hint="That is the share of the misses."),
        Mistake(name="one more", value=(right + 1) / length, hint="One hit too many: go through the row once more."),
        Mistake(name="one fewer", value=(right - 1) / length, hint="One hit too few: go through the row once more."),
    )
    places = ", ".join(str(index + 1) for index in hits(order, held))
    return Problem(
        title="Least recently used",
        text=(
            f"Requests come one after the other, with these system prompts: {', '.join(order)}. All are equally long, and the "
            f"memory that is left for prefixes holds {held} of them. What was used least recently is evicted; at first nothing "
            "is cached. What share of the requests finds its system prompt in the cache?"
        ),
        answer=Answer(value=right / length, kind="share"),
        mistakes=tuple(one for one in mistakes if round(one.value * length) != right),
        solution=(
            f"After each request the {held} that were used last are in memory: the next one is a hit if it is among them.",
            f"Hits are the requests {places}: {right} of {length}.",
            f"That is a share of {right} / {length} = {_percent(right / length)}.",
        ),
    )


def _percent(share: float) -> str:
    from roofline.teach.quantities import format_answer

    return format_answer(share, "share")


TEMPLATE = Template(id="prefix-caching-lru", topic="prefix-caching", minutes=4, draw=draw)
