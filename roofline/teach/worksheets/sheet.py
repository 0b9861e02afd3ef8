"""A sheet: the problems of a topic, with the numbers of a seed; and sets of sheets for a class."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from roofline.documents import DATA_VERSION, __version__
from roofline.errors import InputError, UnknownNameError
from roofline.teach.worksheets.parsing import BASE
from roofline.teach.worksheets.problem import FORMAT, TOPICS, Numbered, Template, make
from roofline.teach.worksheets.templates import TEMPLATES

TITLES = {
    "transformer": "What a transformer holds and does",
    "kv-cache": "The KV cache",
    "roofline": "The roofline",
    "batching": "Batching",
    "measured": "Measured, against the model",
    "memory-hierarchy": "The memory hierarchy",
    "moe": "Mixtures of experts, many devices",
    "preemption": "Preemption",
    "serving": "Serving",
    "quantization": "Quantization",
    "speculation": "Speculative decoding",
    "prefix-caching": "Prefix caching",
    "disaggregation": "Prefill and decode in pools of their own",
    "energy": "Energy",
    "scaling-book": "Problems of How to Scale Your Model",
}
"""What stands over the sheet of a topic."""
_MAX_SEED = 10**9
_MAX_SHEETS = 2000


@dataclass(frozen=True, slots=True, kw_only=True)
class Sheet:
    """Problems in their order, and everything they depend on."""

    topic: str
    seed: int
    title: str
    problems: tuple[Numbered, ...]

    @property
    def minutes(self) -> int:
        """Minutes that all problems together are expected to take."""
        return sum(entry.minutes for entry in self.problems)

    @property
    def provenance(self) -> str:
        """Everything that the numbers depend on."""
        return f"roofline {__version__}, data {DATA_VERSION}, worksheet format {FORMAT}, {self.topic}, seed {self.seed}"

    @property
    def command(self) -> str:
        """The command that makes it again, without output file and format."""
        return f"roofline worksheet {self.topic} --seed {self.seed}"


def by_topic(topic: str) -> list[Template]:
    """Return the templates of a topic in the order of a sheet.

    Raises:
        UnknownNameError: no such topic.
    """
    if topic not in TOPICS:
        raise UnknownNameError("topic", topic, TOPICS, list_all=True)
    return [template for template in TEMPLATES.values() if template.topic == topic]


def sheet(topic: str, seed: int = 0) -> Sheet:
    """Make the sheet of a topic with the numbers of a seed: the same on every run and machine.

    Args:
        topic: one of `TOPICS`.
        seed: from 0 to 10^9.

    Raises:
        UnknownNameError: no such topic.
        InputError: a seed that is negative, or beyond 10^9.
    """
    if isinstance(seed, bool) or not isinstance(seed, int) or not 0 <= seed <= _MAX_SEED:
        raise InputError(f"a seed is a whole number from 0 to {_MAX_SEED:,}, not {seed!r}")
    problems = tuple(
        Numbered(number=number, template=template.id, minutes=template.minutes, problem=make(template, seed))
        for number, template in enumerate(by_topic(topic), 1)
    )
    return Sheet(topic=topic, seed=seed, title=TITLES[topic], problems=problems)


def parse_seeds(text: str) -> list[int]:
    """Parse seeds written as ranges and single numbers, separated by commas.

    Raises:
        InputError: anything else, an end before the start, too many seeds, or one twice.

    >>> parse_seeds("1..4"), parse_seeds("7,9,11..12")
    ([1, 2, 3, 4], [7, 9, 11, 12])
    """
    seeds: list[int] = []
    for part in text.split(","):
        first, dots, last = part.strip().partition("..")
        if not first.isdecimal() or (dots and not last.isdecimal()) or len(part) > 40:
            raise InputError(f"cannot read seeds {text[:60]!r}: write a range such as 1..120, or a list such as 3,5,9..20")
        start, end = int(first), int(last or first)
        if end < start or end > _MAX_SEED:
            raise InputError(f"seeds {part.strip()[:40]!r}: the first is at most the last, and both are at most {_MAX_SEED:,}")
        if len(seeds) + end - start >= _MAX_SHEETS:
            raise InputError(f"seeds {text[:60]!r} are more than {_MAX_SHEETS:,}: write several sets")
        seeds += range(start, end + 1)
    if len(set(seeds)) < len(seeds):
        raise InputError(f"seeds {text[:60]!r} name one twice")
    return seeds


def answer_rows(sheets: Iterable[Sheet]) -> list[dict[str, Any]]:
    """Return the answer key of several sheets, one row per problem.

    Returns:
        Dictionaries with `seed`, `problem` (its number), `template`, `answer` (in `unit`, or the text of the right choice),
        `tolerance` (a fraction of the answer), `shown` (the answer as it is printed) and `minutes`.
    """
    return [
        {
            "seed": sheet.seed,
            "problem": entry.number,
            "template": entry.template,
            "answer": entry.problem.right_answer if entry.problem.answer.choices else entry.problem.answer.value,
            "unit": BASE.get(entry.problem.answer.kind, "choice") or "1",
            "tolerance": entry.problem.answer.tolerance,
            "shown": entry.problem.right_answer,
            "minutes": entry.minutes,
        }
        for sheet in sheets
        for entry in sheet.problems
    ]
