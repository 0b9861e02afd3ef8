"""Both costs over tokens, and over tokens and blocks."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from roofline.serving.preemption import crossover
from roofline.serving.preemption.partial import Partial, best
from roofline.serving.preemption.preemption import Preemption

BLOCKS = (1, 8, 16, 32, 64, 128, 256, 512, 1024)
_FIRST, _ROWS, _FINE = 64, 14, 400


@dataclass(frozen=True, slots=True)
class Point:
    """Seconds by the number of evicted tokens: recomputed, swapped as asked, in one call each way, and split between both."""

    tokens: int
    recompute_s: float
    swap_s: float
    coalesced_s: float
    partial_s: float


@dataclass(frozen=True, slots=True)
class Heat:
    """Recompute over swap, rows by tokens, columns by the size of a block: above 1 swapping is the cheaper."""

    tokens: tuple[int, ...]
    blocks: tuple[int, ...]
    ratios: tuple[tuple[float, ...], ...]


def longest(costs: Preemption, tokens: int) -> int:
    """Evicted tokens of the longest sequence of the deployment, or as many as are asked about."""
    deployment = costs.request.deployment
    most = costs.request.model.max_position_embeddings
    if deployment.max_model_len is not None:
        most = min(most, deployment.max_model_len)
    return max(most - costs.prefix, tokens)


def lengths(costs: Preemption, tokens: int) -> list[int]:
    """Powers of two and what is half way between them, to the longest, with the number that is asked about."""
    last, found, number = longest(costs, tokens), {tokens}, _FIRST
    while number <= last:
        found |= {number, number * 3 // 2}
        number *= 2
    return sorted(number for number in {*found, last} if number <= last)


def points(costs: Preemption, tokens: Iterable[int], *, hidden: bool) -> list[Point]:
    """A point for each number of tokens; `hidden` as in `split`."""
    gathered = replace(costs.swap, coalesced=True)
    return [
        Point(
            number,
            costs.recompute_seconds(number),
            sum(costs.swap_seconds(number)),
            float(gathered.both(number, costs.prefix)),
            split(costs, number, hidden=hidden)[0].seconds,
        )
        for number in tokens
    ]


def heat(costs: Preemption, tokens: int) -> Heat:
    """The map; block sizes are those of the list, and the one in use."""
    blocks = tuple(sorted({*BLOCKS, costs.request.memory.block_size}))
    rows = [number for number in lengths(costs, tokens) if number == tokens or number & (number - 1) == 0][:_ROWS]
    swaps = [costs.with_block(block) for block in blocks]
    ratios = tuple(
        tuple(costs.recompute_seconds(number) / float(swap.both(number, costs.prefix)) for swap in swaps) for number in rows
    )
    return Heat(tuple(rows), blocks, ratios)


def crossover_tokens(costs: Preemption, tokens: int) -> list[int]:
    """Numbers of tokens from which on the other way is the cheaper, to the longest sequence: none, one or two.

    Whole blocks are looked at, so that a half empty one counts for neither.
    """
    last, block = longest(costs, tokens), costs.request.memory.block_tokens
    grown = {max(round(_whole(last) ** (index / _FINE) / block), 1) * block for index in range(_FINE + 1)}
    numbers = sorted(number for number in grown if number <= last) or [last]
    recomputed = [costs.recompute_seconds(number) for number in numbers]
    swapped = [sum(costs.swap_seconds(number)) for number in numbers]
    return crossover.crossings(numbers, recomputed, swapped)


def _whole(last: int) -> float:
    return float(max(last, 2))


def crossover_block(costs: Preemption, tokens: int, recompute: float) -> int | None:
    """The smallest block with which swapping is the cheaper; None where the size does not decide."""
    if costs.swap.coalesced:
        return None
    return crossover.smallest_block(lambda block: float(costs.with_block(block).both(tokens, costs.prefix)), recompute, tokens)


def split(costs: Preemption, tokens: int, *, hidden: bool) -> tuple[Partial, ...]:
    """The best split in each order that there is, the better one first. `hidden`: copies out are made beside other work.

    What comes after a swapped prefix attends to it. Layers with a window, and recurrent ones, keep no more of it than the end
    of the sequence needs, so that there it has to be the prefix that is recomputed.
    """
    swap, prefix, block = costs.swap, costs.prefix, costs.request.memory.block_tokens

    def part(number: int, before: int) -> tuple[float, float]:
        out, back = swap.seconds(number, prefix + before) if number > 0 else (0.0, 0.0)
        return float(out), float(back)

    def after(recomputed: int) -> float:
        """Of the last tokens, which attend to those before them; a prompt of that length alone takes no longer."""
        alone = costs.recompute_seconds(recomputed)
        return max(costs.recompute_seconds(tokens) - costs.recompute_seconds(tokens - recomputed), alone)

    found = [
        best(
            "recompute the first", tokens, block, costs.recompute_seconds,
            lambda y: part(tokens - y, y)[0], lambda y: part(tokens - y, y)[1], hidden=hidden,
        )
    ]  # fmt: skip
    if all(stage.whole for stage in swap.stages):
        found.append(
            best(
                "swap the first", tokens, block, after,
                lambda y: part(tokens - y, 0)[0], lambda y: part(tokens - y, 0)[1], hidden=hidden,
            )
        )  # fmt: skip
    return tuple(sorted(found, key=lambda one: one.seconds))
