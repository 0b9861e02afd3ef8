"""What a replica's KV cache retains between requests: system prompts, and conversations whose next turn is yet to come.

Blocks that no running request uses stay cached until they are taken for others, the least recently used first. A turn finds
its conversation if it comes before that, so the share of cached prompt tokens is a result: of the memory that running requests
leave, and of what wants to be in it. Per data-parallel rank, in blocks of b tokens, with C blocks, turns of class c at the
rate lambda_c, a share u_c of which are the last of their conversation, and pauses Z_c before the others:

1. **A shared prompt** of P tokens has S = floor(P/b) full blocks, which exist once: n running sequences of B blocks take
   n (B - S) + S. Of N different ones, each drawn as often as the others, n sequences use D(n) = N (1 - (1 - 1/N)^n).
2. **Eviction age.** An LRU cache behaves as if whatever was not used for a time T were gone, and T is the same for all
   contents (Che's approximation). By Little's law the conversations of a class that are idle and cached are lambda_c (1 - u_c)
   E[min(Z_c, T)]; those that have ended, which the cache cannot know, lambda_c u_c T. With B_c and B'_c blocks of their own, T
   solves

       sum_c lambda_c ((1 - u_c) E[min(Z_c, T)] B_c + u_c T B'_c) + sum_c N_c h_c S_c = C - R

   where R are the blocks that running requests have of their own, and h_c is the probability that a system prompt is cached:
   that it was used in the last T seconds, or in the D seconds of a request before, h_c = 1 - exp(-lambda_c (T + D)/N_c).
   A request without a conversation is one with u = 1: its blocks wait to be taken as those of any other.
3. **Hits.** A next turn finds its conversation with probability P(Z_c < T): then only its new tokens, and those of a block that
   is not full, are computed; else it finds the system prompt, or nothing. T fluctuates from turn to turn: in a window of T
   seconds the arrivals are Poisson, so that the blocks in it have the variance lambda E[B^2] T, and T the standard deviation of
   their root over the slope of the sum in 2. Hits are averaged over it; where few conversations fit, this counts.
4. **The loop.** Fewer hits are more prompt tokens, longer steps, more running requests, a larger R, a smaller T. From an empty
   cache, where everything is found, the loop is followed down until it stays: the fixed point with the most hits. There may be
   another, without any: replicas that serve a rate with their caches full may not with empty ones, and then do not recover.

**A given hit share** (`--prefix-hit`) is the other way round: the T at which the turns would find it, and the memory in 2.

NB: one T for all blocks of a conversation: a long one is taken from its end, so that parts of it are found. Turns have to
come back to the replica, and rank, that holds their conversation (`--router session-sticky`).

Source: Che, Tung and Wang 2002, Hierarchical web caching systems: modeling, design and experimental results, IEEE JSAC 20(7),
1305; why it is accurate: Fricker, Robert and Roberts 2012, A versatile and accurate approximation for LRU cache performance,
arXiv:1202.3974; Little 1961, A proof for the queuing formula L = lambda W, Operations Research 9(3), 383.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from roofline.serving.queueing.replica import REPRESENTATIVES, BatchServer, Mix
from roofline.serving.queueing.steady import Steady, steady
from roofline.serving.traffic.classes import RequestClass
from roofline.serving.traffic.conversations import Conversation

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[Any]

Shares = tuple[tuple[float, ...], ...]
"""By class, the share of its requests in each case of what they find."""
_TURNS, _FEWEST = 16384, 512
"""Turns that represent a class, about, and the fewest conversations."""
_CLOSE = 1e-3
"""Change of the eviction age, as a share of it, at which the loop stays."""
_ITERATIONS = 40
_AGES = (-1.5341, -0.8872, -0.4888, -0.1573, 0.1573, 0.4888, 0.8872, 1.5341)
"""Medians of eight equally likely parts of a normal distribution."""
LONGEST_AGE = 1e9
"""Seconds of an eviction age that is as good as endless."""


@dataclass(frozen=True, slots=True, eq=False)
class Turns:
    """Turns of the conversations of a class, as equally likely ones, in tokens: arrays of one length.

    Args:
        conversation: what they have in common, and the pauses.
        prompts: all that came before, the system prompt too, and the new message.
        outputs: output tokens.
        history: tokens of the turn before with its output; 0: there is none.
        last: whether the conversation ends with it.
    """

    conversation: Conversation
    prompts: Array
    outputs: Array
    history: Array
    last: Array

    @classmethod
    def of(cls, one: RequestClass) -> Turns:
        """The turns of a class: new messages and outputs in equally likely pairs, dealt to conversations in another order for
        every turn. Deterministic. A class without conversations has ones of one turn."""
        import numpy as np

        shared = one.conversation or Conversation()
        count = max(round(_TURNS / shared.mean_turns), _FEWEST)
        turns = np.ones(count, dtype=np.int64) if shared.turns is None else shared.turns.quantiles(count)
        pairs = one.sample_pairs(count)
        rng = np.random.default_rng(0)
        tokens = np.zeros(count, dtype=np.int64)
        rows = []
        for turn in range(int(turns.max())):
            going = turns > turn
            dealt = pairs[rng.permutation(count)][going]
            history = tokens[going]
            prompts = dealt[:, 0] + (history if turn else shared.system_prompt)
            rows.append(np.stack([prompts, dealt[:, 1], history, turns[going] == turn + 1]))
            tokens[going] = prompts + dealt[:, 1]
        prompts, outputs, history, last = np.concatenate(rows, axis=1)
        return cls(shared, prompts, outputs, history, last.astype(bool))

    @property
    def mean_prompt(self) -> float:
        """Mean prompt tokens of a turn."""
        return float(self.prompts.mean())

    def representatives(self) -> Array:
        """Equally likely prompts, ascending, (K,)."""
        import numpy as np

        return _means(np.sort(self.prompts)).round()


def _means(values: Array) -> Array:
    """Means of K equal parts of sorted values."""
    import numpy as np

    sums = np.concatenate([[0.0], np.cumsum(values, dtype=np.float64)])
    cuts = np.linspace(0, len(values), REPRESENTATIVES + 1)
    return np.asarray(np.diff(np.interp(cuts, np.arange(len(values) + 1), sums)) * (REPRESENTATIVES / len(values)))


class _Case:
    """What turns find, and what they then have to compute.

    Args:
        later: of turns that are not the first of their conversation.
        kind: what is cached: "session", "system" or "".
        prompts: of these turns.
        cached: tokens that are found.
    """

    __slots__ = ("cached", "kind", "later", "mean_cached", "prompts")

    def __init__(self, later: bool, kind: str, prompts: Array, cached: Array) -> None:
        self.later, self.kind, self.prompts, self.cached = later, kind, prompts, cached
        self.mean_cached = float(cached.mean())

    def mix(self, part: Mix) -> Mix:
        """The prompts of the case, ascending in what is computed of them, with the mean of what is cached beside."""
        import numpy as np

        new = self.prompts - self.cached
        order = np.argsort(new, kind="stable")
        computed = np.maximum(_means(new[order]).round(), 1.0)
        return Mix(part.share, computed + _means(self.cached[order]).round(), part.outputs, new=computed)


@dataclass(frozen=True)
class RetainedClass:
    """A class of requests in the KV cache of a replica, in blocks.

    Args:
        base: its requests.
        turns: its turns.
        block_size: tokens per block.
    """

    base: Mix
    turns: Turns
    block_size: int

    @property
    def share(self) -> float:
        """Of the arrivals."""
        return self.base.share

    @property
    def prompts(self) -> int:
        """Number of system prompts, N."""
        return self.turns.conversation.system_prompts

    @property
    def shared(self) -> int:
        """Full blocks of a system prompt, S."""
        return self.turns.conversation.system_prompt // self.block_size

    @cached_property
    def cases(self) -> tuple[_Case, ...]:
        """What turns may find."""
        import numpy as np

        turns, size = self.turns, self.block_size
        cases = []
        limit = (turns.prompts - 1) // size  # of a prompt its last token is always computed
        for later in (False, True):
            rows = turns.history > 0 if later else turns.history == 0
            if not rows.any():
                continue
            cached = {"": np.zeros(len(limit), dtype=np.int64)}
            if self.shared:
                cached["system"] = np.minimum(self.shared, limit)
            if later:
                cached["session"] = np.minimum((turns.history - 1) // size, limit)
            cases += [_Case(later, kind, turns.prompts[rows], blocks[rows] * size) for kind, blocks in cached.items()]
        return tuple(cases)

    @cached_property
    def given(self) -> float | None:
        """Share of its prompt tokens that are cached, where it is given."""
        if not self.base.cached:
            return None
        return 1 - float(self.base.computed.sum() / self.base.prompts.sum())

    @cached_property
    def mix(self) -> Mix:
        """Its requests, with a mix of each case; of a given hit share as they are."""
        return (
            self.base if self.given is not None else replace(self.base, cases=tuple(case.mix(self.base) for case in self.cases))
        )

    @cached_property
    def ended_share(self) -> float:
        """Share of the turns that are the last of their conversation, u."""
        return float(self.turns.last.mean())

    @cached_property
    def _own_blocks(self) -> Array:
        # the last token of an output is not cached
        return -(-(self.turns.prompts + self.turns.outputs - 1) // self.block_size) - self.shared

    @cached_property
    def idle_blocks(self) -> float:
        """Mean blocks of its own that a conversation has whose next turn is yet to come, B."""
        return float(self._own_blocks[~self.turns.last].mean()) if self.ended_share < 1 else 0.0

    @cached_property
    def ended_blocks(self) -> float:
        """Mean blocks of its own that a conversation has that has ended, B'."""
        return float(self._own_blocks[self.turns.last].mean())

    @cached_property
    def square(self) -> float:
        """Mean square of the blocks of its own that a turn leaves."""
        return float((self._own_blocks.astype(float) ** 2).mean())

    @cached_property
    def decode_blocks(self) -> float:
        """Mean blocks of its own of a sequence that decodes."""
        contexts, _ = self.base.met
        return float(contexts.mean()) / self.block_size + 0.5 - self.shared  # half of the last block is empty

    @cached_property
    def prompt_blocks(self) -> float:
        """Mean blocks of its own of a prompt."""
        return float((-(-self.turns.prompts // self.block_size)).mean()) - self.shared

    def system_hit(self, age: float, rate: float, residence: float) -> float:
        """Probability that a system prompt is cached, h. Rates are of the class, in turns/s."""
        return -math.expm1(-rate * (age + residence) / self.prompts) if self.shared else 0.0

    def cached_share(self, shares: tuple[float, ...]) -> float:
        """Share of its prompt tokens that are cached, by the share of the turns in each case."""
        cached = sum(share * case.mean_cached for share, case in zip(shares, self.cases, strict=True))
        return float(cached / self.turns.mean_prompt)

    def idle(self, age: float) -> float:
        """Seconds for which the conversation of a turn, not the last, is idle and cached."""
        return self.turns.conversation.think.mean_up_to(age)

    def shares(self, session: float, system: float) -> tuple[float, ...]:
        """Share of the turns in each case, by the probabilities that the conversation and the system prompt are cached."""
        first = float((self.turns.history == 0).mean())
        system = system if self.shared else 0.0
        shares = []
        for case in self.cases:
            here, own = (1 - first, session) if case.later else (first, 0.0)
            chances = {"session": own, "system": (1 - own) * system, "": (1 - own) * (1 - system)}
            shares.append(here * chances[case.kind])
        return tuple(shares)


@dataclass(frozen=True)
class CacheState:
    """The KV cache of a replica at a rate. Blocks and sessions are of one rank.

    Args:
        cache: whose state it is.
        shares: of the turns in each case, by class.
        hit_rate: share of all prompt tokens that is cached when their request starts.
        age: eviction age, s.
        running: blocks of running requests of their own.
        shared: blocks of system prompts.
        idle: blocks of conversations whose next turn is yet to come.
        ended: blocks of requests and conversations that have ended.
        idle_sessions: conversations between two turns, cached or not.
        retained_sessions: those of them that are cached.
        achievable_hit_rate: share of the prompt tokens that turns find; not the hit rate, where that is given.
        max_hit_rate: the same of a cache that never forgets.
        needed: blocks of system prompts, and of what is idle or has ended, that a given hit share needs; None: it is not given,
            or more than turns have in common.
    """

    cache: PrefixCacheModel
    shares: Shares
    hit_rate: float
    age: float
    running: float
    shared: float
    idle: float
    ended: float
    idle_sessions: float
    retained_sessions: float
    achievable_hit_rate: float
    max_hit_rate: float
    needed: float | None = None

    def use(self) -> KVCacheUse:
        """The KV cache of all ranks of the replica."""
        cache = self.cache
        size = cache.block_size * cache.ranks
        return KVCacheUse(
            capacity_tokens=cache.num_blocks * size,
            capacity_bytes=cache.num_blocks * cache.ranks * cache.block_bytes,
            bytes_per_token=cache.block_bytes / cache.block_size,
            running_tokens=self.running * size,
            shared_tokens=self.shared * size,
            idle_tokens=self.idle * size,
            ended_tokens=self.ended * size,
            hit_rate=self.hit_rate,
            given=cache.given,
            achievable_hit_rate=self.achievable_hit_rate,
            max_hit_rate=self.max_hit_rate,
            eviction_age_s=None if self.age >= LONGEST_AGE else self.age,
            idle_sessions=self.idle_sessions * cache.ranks,
            retained_sessions=self.retained_sessions * cache.ranks,
            needed_tokens=None if self.needed is None else self.needed * size,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class KVCacheUse:
    """What the KV cache of a replica holds, all its ranks together.

    Args:
        capacity_tokens: tokens that it has blocks for.
        capacity_bytes: the same in bytes, of all devices.
        bytes_per_token: bytes of a token, of all devices.
        running_tokens: of running requests, without system prompts.
        shared_tokens: of system prompts, each once per rank.
        idle_tokens: of conversations whose next turn is yet to come.
        ended_tokens: of requests and conversations that have ended.
        hit_rate: share of all prompt tokens that is cached when their request starts.
        given: whether that is given, and not computed.
        achievable_hit_rate: the share that memory is enough for.
        max_hit_rate: the share that prompts have in common.
        eviction_age_s: seconds after which what is not used is evicted; None: practically never.
        idle_sessions: conversations between two turns, cached or not.
        retained_sessions: those of them that are cached.
        needed_tokens: system prompts, idle and ended conversations that have to be retained for a hit share that is given;
            None: it is not, or prompts have less in common.
    """

    capacity_tokens: int
    capacity_bytes: float
    bytes_per_token: float
    running_tokens: float
    shared_tokens: float
    idle_tokens: float
    ended_tokens: float
    hit_rate: float
    given: bool
    achievable_hit_rate: float
    max_hit_rate: float
    eviction_age_s: float | None
    idle_sessions: float
    retained_sessions: float
    needed_tokens: float | None


@dataclass(frozen=True)
class PrefixCacheModel:
    """The KV cache of a replica under a load, by the equations of the module's docstring.

    Args:
        classes: classes of requests.
        num_blocks: blocks of a rank, C.
        block_size: tokens per block.
        block_bytes: bytes of a block over all devices of a rank.
        ranks: data-parallel ranks.
    """

    classes: tuple[RetainedClass, ...]
    num_blocks: int
    block_size: int
    block_bytes: float
    ranks: int

    @cached_property
    def mix(self) -> tuple[Mix, ...]:
        """The requests of each class, by what they find."""
        return tuple(one.mix for one in self.classes)

    @property
    def given(self) -> bool:
        """Whether the hit share of a class is given."""
        return any(one.given is not None for one in self.classes)

    @cached_property
    def all_cached(self) -> Shares:
        """Shares of the cases where everything is cached."""
        return tuple((1.0,) if one.given is not None else one.shares(1.0, 1.0) for one in self.classes)

    @cached_property
    def none_cached(self) -> Shares:
        """Shares of the cases where nothing is cached, as after a start."""
        return tuple((1.0,) if one.given is not None else one.shares(0.0, 0.0) for one in self.classes)

    def state(
        self, rate: float, server: Callable[[Shares], BatchServer], start: float = LONGEST_AGE
    ) -> tuple[CacheState, BatchServer, Steady]:
        """The cache at a rate, the server that it makes, and its steady state.

        Args:
            rate: requests/s of all ranks.
            server: makes the server of some shares of the cases.
            start: an eviction age that is not exceeded, such as that at a lower rate, s.
        """
        each = rate / self.ranks
        age, residence = min(start, self.age(each, 0.0, 0.0)), 0.0
        for _ in range(_ITERATIONS):
            shares = self.shares(age, each, residence)
            made = server(shares)
            seen = steady(made, rate)
            running, residence = self._running(each, seen)
            following = min(self.age(each, running, residence), age)
            if age - following <= _CLOSE * age:
                break
            age = following
        return self.describe(age, each, running, residence, shares), made, seen

    def describe(self, age: float, rate: float, running: float, residence: float, shares: Shares) -> CacheState:
        """The cache at an eviction age, with the rate of a rank in requests/s and the blocks of running requests."""
        idle = ended = shared = sessions = retained = 0.0
        for one in self.classes:
            turns = rate * one.share
            between = turns * (1 - one.ended_share)
            sessions += between * one.turns.conversation.think.mean
            retained += between * one.idle(age)
            idle += between * one.idle(age) * one.idle_blocks
            ended += turns * one.ended_share * age * one.ended_blocks
            shared += one.prompts * one.shared * one.system_hit(age, turns, residence)
        by_age = self._at_age(age, rate, residence)
        achieved = [one.cached_share(own) for one, own in zip(self.classes, by_age, strict=True)]
        largest = [one.cached_share(one.shares(1.0, 1.0)) for one in self.classes]
        hits = [part if one.given is None else one.given for one, part in zip(self.classes, achieved, strict=True)]
        needed = self._needed(rate, residence)
        return CacheState(
            self, shares, self._mean(hits), age, running, shared, idle, ended, sessions, retained, self._mean(achieved),
            self._mean(largest), needed,
        )  # fmt: skip

    def _mean(self, of_classes: list[float]) -> float:
        """Mean over all prompt tokens of a share of those of each class."""
        tokens = [one.share * one.turns.mean_prompt for one in self.classes]
        return sum(share * part for share, part in zip(of_classes, tokens, strict=True)) / sum(tokens)

    def _needed(self, rate: float, residence: float) -> float | None:
        """Blocks that given hit shares need: at the eviction age at which the turns of every class find as much."""
        age = 0.0
        for index, one in enumerate(self.classes):
            if one.given is None:
                continue
            low, high = 0.0, 1e-6
            while one.cached_share(self._at_age(high, rate, residence)[index]) < one.given:
                low, high = high, 2 * high
                if high > LONGEST_AGE:
                    return None
            for _ in range(24):
                middle = (low + high) / 2
                enough = one.cached_share(self._at_age(middle, rate, residence)[index]) >= one.given
                low, high = (low, middle) if enough else (middle, high)
            age = max(age, high)
        return self._retained(age, rate, residence) if age else None

    def shares(self, age: float, rate: float, residence: float) -> Shares:
        """Share of the turns of each class in each of its cases; of a given hit share there is one case."""
        by_age = self._at_age(age, rate, residence)
        return tuple((1.0,) if one.given is not None else own for one, own in zip(self.classes, by_age, strict=True))

    def _at_age(self, age: float, rate: float, residence: float) -> Shares:
        """Share of the turns of each class by what they find, at an eviction age, s, and a rate of a rank, requests/s."""
        slope = self._retained(age * 1.01, rate, residence) - self._retained(age, rate, residence)
        spread = 0.0
        if slope > 0 and age < LONGEST_AGE:
            variance = sum(rate * one.share * one.square for one in self.classes) * age
            spread = min(variance**0.5 / (slope / 0.01), 1.0)  # of ln T
        ages = [age * math.exp(spread * z - spread**2 / 2) for z in _AGES]
        return tuple(
            one.shares(
                sum(one.turns.conversation.think.within(at) for at in ages) / len(ages),
                one.system_hit(age, rate * one.share, residence),
            )
            for one in self.classes
        )

    def age(self, rate: float, running: float, residence: float) -> float:
        """Eviction age in seconds, at a rate of a rank in requests/s, beside `running` blocks of running requests."""
        free = self.num_blocks - running
        low, high = 0.0, 1e-6
        if self._retained(low, rate, residence) >= free:
            return 0.0
        while self._retained(high, rate, residence) < free:
            low, high = high, 2 * high
            if high > LONGEST_AGE:
                return LONGEST_AGE
        for _ in range(24):
            middle = (low + high) / 2
            low, high = (middle, high) if self._retained(middle, rate, residence) < free else (low, middle)
        return high

    def _retained(self, age: float, rate: float, residence: float) -> float:
        """Blocks of system prompts, and of what is idle or has ended, at an eviction age."""
        total = 0.0
        for one in self.classes:
            turns = rate * one.share
            total += turns * (1 - one.ended_share) * one.idle(age) * one.idle_blocks
            total += turns * one.ended_share * age * one.ended_blocks
            total += one.prompts * one.shared * one.system_hit(age, turns, residence)
        return total

    def _running(self, rate: float, seen: Steady) -> tuple[float, float]:
        """Blocks that running requests have of their own, per rank, and the seconds that a request runs for."""
        total = 0.0
        own = [float(seconds.mean()) for seconds in seen.own_s]
        steps = sum(one.share * one.base.met[1] for one in self.classes)
        for one, seconds in zip(self.classes, own, strict=True):
            decoding = float(seen.running[0]) * (one.share * one.base.met[1] / steps if steps else 0.0)
            total += decoding * one.decode_blocks + rate * one.share * seconds * one.prompt_blocks
        prompts = sum(one.share * seconds for one, seconds in zip(self.classes, own, strict=True))
        return min(total, float(self.num_blocks)), float(seen.running[0]) / max(rate, 1e-300) + prompts


def distinct(drawn: float, of: int) -> float:
    """Mean number of different ones among `drawn` that are each drawn from `of` equally likely ones.

    >>> distinct(7, 1), distinct(2, 2), round(distinct(1000, 10), 6)
    (1.0, 1.5, 10.0)
    """
    return of * (1 - (1 - 1 / of) ** drawn) if of > 1 else min(drawn, 1.0)


def prefix_cache_model(
    parts: Sequence[tuple[Mix, Turns]], num_blocks: int, block_size: int, block_bytes: float, ranks: int
) -> PrefixCacheModel:
    """The KV cache of a replica.

    Args:
        parts: of each class its requests and turns.
        num_blocks: blocks of a rank.
        block_size: tokens per block.
        block_bytes: bytes of a block over all devices of a rank.
        ranks: data-parallel ranks.
    """
    classes = tuple(RetainedClass(part, turns, block_size) for part, turns in parts)
    return PrefixCacheModel(classes, num_blocks, block_size, block_bytes, ranks)
