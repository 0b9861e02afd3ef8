"""A sheet: the problems of a topic, with the numbers of a seed."""

from __future__ import annotations

from dataclasses import dataclass

from roofline.errors import InputError
from roofline.teach.worksheets.problem import FORMAT, Numbered
from roofline.teach.worksheets.template import by_topic, make
from roofline.version import DATA_VERSION, __version__

_TITLES = {
    "transformer": "What a transformer holds and does",
    "kv-cache": "The KV cache",
    "roofline": "The roofline",
    "batching": "Batching",
    "measured": "Measured, against the model",
    "moe": "Mixtures of experts, many devices",
    "preemption": "Preemption",
    "serving": "Serving",
}
MOST = 10**9
"""Seeds go from 0 to this."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sheet:
    """Problems in their order, and what they can be made again from."""

    topic: str
    seed: int
    title: str
    problems: tuple[Numbered, ...]

    @property
    def minutes(self) -> int:
        """What all problems together are expected to take."""
        return sum(entry.minutes for entry in self.problems)

    @property
    def provenance(self) -> str:
        """Everything that the numbers depend on."""
        return f"roofline {__version__}, data {DATA_VERSION}, worksheet format {FORMAT}, {self.topic}, seed {self.seed}"

    @property
    def command(self) -> str:
        """The line that makes it again, without the place and the format."""
        return f"roofline worksheet {self.topic} --seed {self.seed}"


def sheet(topic: str, seed: int = 0) -> Sheet:
    """The sheet of a topic with the numbers of a seed.

    Raises:
        UnknownNameError: no such topic.
        InputError: a seed that is negative, or beyond 10^9.
    """
    if isinstance(seed, bool) or not isinstance(seed, int) or not 0 <= seed <= MOST:
        raise InputError(f"a seed is a whole number from 0 to {MOST:,}, not {seed!r}")
    problems = tuple(
        Numbered(number=number, template=template.id, minutes=template.minutes, problem=make(template, seed))
        for number, template in enumerate(by_topic(topic), 1)
    )
    return Sheet(topic=topic, seed=seed, title=_TITLES[topic], problems=problems)
