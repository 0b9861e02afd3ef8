"""What has to be served: classes of requests with their objectives, as the server's formulas want them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from roofline.serving.queueing.replica import REPRESENTATIVES, Mix

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from roofline.serving.traffic.classes import Class, Traffic

    Array = NDArray[Any]

TTFT, TPOT = "ttft", "tpot"
_LONGEST = 0.999
"""The share of the requests that `--max-model-len` has to hold where lengths have no end."""
_ROUND = 1024
BURSTIEST = 3.0
"""The highest coefficient of variation of times between arrivals that waits are computed with: beyond it the formulas say
nothing, and what a trace has of it comes from silences as much as from bursts."""


@dataclass(frozen=True, slots=True, eq=False)
class Service:
    """One class: its requests, and the seconds within which a share (`percentile`) of them has to be served."""

    name: str
    mix: Mix
    ttft: float | None
    tpot: float | None
    percentile: float

    @property
    def objectives(self) -> dict[str, float]:
        """Those that were given."""
        return {name: value for name, value in ((TTFT, self.ttft), (TPOT, self.tpot)) if value is not None}


@dataclass(frozen=True, slots=True, eq=False)
class Load:
    """All classes together. `rate`: requests a second that are planned for, those of the peak; `mean_rate`: over a day. In a
    closed loop `concurrency` clients take their place, each with one request under way."""

    services: tuple[Service, ...]
    rate: float | None
    mean_rate: float | None
    concurrency: int | None
    cv: float
    """Of the times between arrivals, as waits are computed with; `burstiness`: as it is, of the class with most."""
    burstiness: float
    mean_input: float
    mean_output: float
    longest: int
    """Tokens of the longest request that is provided for."""
    beyond: int | None
    """Tokens of the longest request that can come, where that is known; None: there is no end."""

    @property
    def mix(self) -> tuple[Mix, ...]:
        """The requests of the classes."""
        return tuple(service.mix for service in self.services)

    @classmethod
    def of(cls, traffic: Traffic) -> Load:
        """The load of a traffic: shares of the arrivals (of the clients, in a closed loop), weighted means, the peak."""
        closed = traffic.closed
        parts = [float(one.concurrency if closed else one.rate) for one in traffic.classes]  # type: ignore[arg-type]
        shares = [part / sum(parts) for part in parts]
        services = tuple(_service(one, share) for one, share in zip(traffic.classes, shares, strict=True))
        classes = list(zip(traffic.classes, shares, strict=True))
        ends = [_end(one) for one in traffic.classes]
        return cls(
            services=services,
            rate=None if closed else sum(parts) * traffic.peak_factor,
            mean_rate=None if closed else sum(parts),
            concurrency=round(sum(parts) * traffic.peak_factor) if closed else None,
            cv=min(sum(share * one.burstiness**2 for one, share in classes) ** 0.5, BURSTIEST),
            burstiness=max(one.burstiness for one in traffic.classes),
            mean_input=sum(share * one.input_len.mean for one, share in classes),
            mean_output=sum(share * one.output_len.mean for one, share in classes),
            longest=max(_longest(one) for one in traffic.classes),
            beyond=None if None in ends else max(end for end in ends if end is not None),
        )


def _service(one: Class, share: float) -> Service:
    import numpy as np

    prompts = np.sort(one.input_len.quantiles(REPRESENTATIVES)).astype(np.float64)
    answers = np.sort(one.output_len.quantiles(REPRESENTATIVES)).astype(np.float64)
    return Service(one.name, Mix(share, prompts, answers, one.prefix_hit), one.ttft, one.tpot, one.percentile)


def _end(one: Class) -> int | None:
    """The most tokens that a request of a class can have."""
    prompt, answer = one.input_len.maximum, one.output_len.maximum
    return None if prompt is None or answer is None else prompt + answer


def _longest(one: Class) -> int:
    """Tokens that all but one in a thousand of the requests of a class have at most."""
    end = _end(one)
    far = one.input_len.quantile(_LONGEST) + one.output_len.quantile(_LONGEST)
    return end if end is not None and end <= 2 * far else -(-far // _ROUND) * _ROUND
