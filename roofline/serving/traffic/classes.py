"""Classes of requests: their load, their lengths, and their objectives."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from roofline.errors import InputError
from roofline.serving.traffic.conversations import Conversation
from roofline.serving.traffic.lengths import Lengths
from roofline.serving.traffic.pairs import Pairs, independent
from roofline.serving.traffic.profile import Profile
from roofline.specs.library import Input
from roofline.specs.source import Assumption
from roofline.specs.workload import cached_tokens

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Array = NDArray[Any]

_REPRESENTATIVES = 256
"""Lengths that stand for a distribution."""
PERCENTILE = 0.95
"""Default share of requests that have to meet each objective."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestClass:
    """Requests of one kind: an open loop, which arrives at a rate, or a closed loop of clients, each of which sends its next
    request when it has the response.

    Args:
        name: of the class.
        input_len: prompt tokens.
        output_len: output tokens.
        rate: requests/s, mean over the day; None in a closed loop.
        concurrency: number of clients; None in an open loop.
        prompts: prompts per client, on average; None: endless. A steady state ignores this and the next two.
        ramp: seconds over which clients start, evenly; 0: all at once.
        warm_up: the first prompts of each client, which are not counted.
        ttft: objective for the time to first token, s; None: no objective.
        tpot: objective for the time per output token after the first, s; None: no objective.
        percentile: share of requests that have to meet each objective.
        prefix_hit: share of a prompt's tokens that are in the prefix cache; or
        cached_prefix: the first tokens of each prompt, which are; at least one token is computed.
        burstiness: standard deviation of the times between arrivals over their mean; 1: Poisson.
        pairs: observed requests, whose prompt and output lengths correlate; None: independent lengths.
        conversation: what prompts have in common: then `input_len` has the new tokens of each turn, and requests of all turns
            arrive at the rate; None: nothing.
        weight: share of the service that it is due under the scheduler `fair`, relative to other classes; nothing else has it.
        adapter: name of the LoRA adapter of all its requests; None: the base model, or one that is drawn.

    Raises:
        InputError: neither or both of a rate and a concurrency; a rate that is not above 0 and finite; a concurrency below 1.
    """

    name: str
    input_len: Lengths
    output_len: Lengths
    rate: float | None = None
    concurrency: int | None = None
    prompts: int | None = None
    ramp: float = 0.0
    warm_up: int = 0
    ttft: float | None = None
    tpot: float | None = None
    percentile: float = PERCENTILE
    prefix_hit: float = 0.0
    cached_prefix: int = 0
    burstiness: float = 1.0
    pairs: Pairs | None = None
    conversation: Conversation | None = None
    weight: float = 1.0
    adapter: str | None = None

    def __post_init__(self) -> None:
        if (self.rate is None) == (self.concurrency is None):
            raise InputError(f"class {self.name}: either a rate or a concurrency is needed, and not both")
        if self.rate is not None and not 0 < self.rate < math.inf:
            raise InputError(f"class {self.name}: a rate must be more than 0 requests/s and finite, not {self.rate}")
        if self.concurrency is not None and self.concurrency < 1:
            raise InputError(f"class {self.name}: a concurrency must be at least 1, not {self.concurrency}")

    @property
    def inputs(self) -> tuple[Input, ...]:
        """Files that the lengths were read from."""
        return (self.pairs.source,) if self.pairs else (*self.input_len.inputs, *self.output_len.inputs)

    def cached_tokens(self, prompt: int) -> int:
        """Tokens of a prompt of `prompt` tokens that are in the prefix cache."""
        if self.cached_prefix:
            return min(self.cached_prefix, prompt - 1)
        return cached_tokens(prompt, self.prefix_hit) if self.prefix_hit else 0

    @property
    def mean_hit(self) -> float:
        """Share of all prompt tokens that is in the prefix cache."""
        if not self.cached_prefix:
            return self.prefix_hit
        prompts = self.input_len.quantiles(_REPRESENTATIVES).tolist()
        return float(sum(map(self.cached_tokens, prompts)) / sum(prompts))

    def sample_pairs(self, n: int) -> Array:
        """Represent the class by `n` equally likely pairs of prompt and output tokens: int64, shape (n, 2). Deterministic.

        Raises:
            InputError: `n` is below 1.
        """
        return self.pairs.sample_pairs(n) if self.pairs else independent(self.input_len, self.output_len, n)

    def sample(self, rng: np.random.Generator, size: int) -> Array:
        """Draw `size` random pairs of prompt and output tokens: int64, shape (size, 2)."""
        import numpy as np

        if self.pairs:
            return self.pairs.sample(rng, size)
        return np.stack([self.input_len.sample(rng, size), self.output_len.sample(rng, size)], axis=1)

    def scaled(self, factor: float) -> RequestClass:
        """The class at `factor` times its load: of its rate in requests/s, or of its number of clients, rounded up."""
        if self.rate is not None:
            return replace(self, rate=self.rate * factor)
        assert self.concurrency is not None  # noqa: S101 - narrows the type
        # NB: 10 clients at a factor of 1.1 are 11, though 10 * 1.1 is a little more
        return replace(self, concurrency=math.ceil(self.concurrency * factor - 1e-9))


@dataclass(frozen=True, slots=True, kw_only=True)
class Traffic:
    """All classes of a server, and the daily profile of their load, which is the same for all.

    Args:
        classes: at least one, with distinct names.
        profile: load over a day.
        peak: peak load over mean load, if there is no profile.
        source: the file that it was read from.
        assumptions: what was assumed.

    Raises:
        InputError: no class, two classes of one name, both a profile and a peak factor.
    """

    classes: tuple[RequestClass, ...]
    profile: Profile | None = None
    peak: float | None = None
    source: Input | None = None
    assumptions: tuple[Assumption, ...] = ()

    def __post_init__(self) -> None:
        if not self.classes:
            raise InputError("traffic without a class: at least one is needed")
        names = [each.name for each in self.classes]
        if doubled := sorted({name for name in names if names.count(name) > 1}):
            raise InputError(f"two classes are called {doubled[0]!r}: give each a name of its own")
        if self.profile is not None and self.peak is not None:
            raise InputError("a profile has its own peak: give the profile or the peak factor, not both")

    @property
    def peak_factor(self) -> float:
        """Peak load over mean load, from the profile or as given; 1 if neither is."""
        if self.profile is not None:
            return self.profile.peak_factor
        return 1.0 if self.peak is None else self.peak

    @property
    def at_peak(self) -> tuple[RequestClass, ...]:
        """The classes at `peak_factor` times their load."""
        return tuple(each.scaled(self.peak_factor) for each in self.classes)

    @property
    def closed(self) -> bool:
        """Whether the load is a closed loop of clients; else requests arrive at rates.

        Raises:
            InputError: some classes have clients and some have rates, for which there is no model.
        """
        clients = [each.name for each in self.classes if each.concurrency is not None]
        rated = [each.name for each in self.classes if each.rate is not None]
        if clients and rated:
            where = "" if self.source is None else f"{self.source.path}: "
            raise InputError(
                f"{where}class {clients[0]!r} has a concurrency and class {rated[0]!r} a rate: give all classes the key rate "
                "or all the key concurrency, or put the two kinds into files of their own"
            )
        return bool(clients)

    @property
    def rate(self) -> float | None:
        """Mean requests/s of all classes together over the day; None if one is a closed loop."""
        rates = [each.rate for each in self.classes if each.rate is not None]
        return sum(rates) if len(rates) == len(self.classes) else None

    @property
    def inputs(self) -> tuple[Input, ...]:
        """Files that it was read from, each once."""
        files = [self.source, *(file for each in self.classes for file in each.inputs)]
        if self.profile is not None:
            files.append(self.profile.source)
        return tuple(dict.fromkeys(file for file in files if file is not None))
