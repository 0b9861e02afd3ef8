"""Replicas that fail: when, for how long, and how their requests are retried."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from roofline.errors import InputError, UnknownNameError
from roofline.serving.simulation.request import Request
from roofline.serving.simulation.settings import parse_delay, parse_settings
from roofline.serving.traffic.scalars import parse_seconds
from roofline.specs.library import Input
from roofline.units import parse_count

RETRIES = 5
"""Retries of a request, unless given (SGLang 0.5, sgl-router, `--retry-max-retries`; here without its backoff)."""

Resume = Literal["restart", "continue"]


@dataclass(frozen=True, kw_only=True)
class FailureConfig:
    """Settings of failures.

    Args:
        mtbf: mean seconds for which a replica serves until it fails, exponential; None: it fails at the times of `at` alone.
        at: seconds, and the number of the replica that fails then if it serves.
        repair: seconds from a failure until the replica serves again, empty.
        retries: how often a request is sent again; beyond them it has failed.
        resume: a retried request generates all its output again (`restart`), or computes the tokens that it had with its
            prompt and goes on after them (`continue`).
        source: file that they were read from.
    """

    mtbf: float | None = None
    at: tuple[tuple[float, int], ...] = ()
    repair: float = math.inf
    retries: int = RETRIES
    resume: Resume = "restart"
    source: Input | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return the settings as plain data, times in seconds."""
        return {
            "mtbf_s": self.mtbf, "at": [{"time_s": time, "replica": replica} for time, replica in self.at],
            "repair_s": None if self.repair == math.inf else self.repair, "retries": self.retries, "resume": self.resume,
        }  # fmt: skip

    def lifetimes(self, seed: Sequence[int], replica: int) -> Iterator[float]:
        """Yield the seconds for which the replica serves until it fails, again and again; empty without `mtbf`."""
        if self.mtbf is not None:
            rng = random.Random(f"failures {[*seed]} {replica}")  # noqa: S311 - no secret; the same seed fails the same
            while True:
                yield rng.expovariate(1 / self.mtbf)

    def retry(self, request: Request) -> None:
        """Make a request whose replica failed one that waits, with nothing cached."""
        if self.resume == "restart":
            request.num_output_tokens = 0
        request.num_tokens = request.num_prompt_tokens + request.num_output_tokens
        request.num_computed_tokens = request.num_prefix_tokens
        request.num_dropped_tokens = request.num_blocks = request.cache_offset = 0
        request.final_step, request.node = -1, None


def parse_failures(value: object, default_repair: Callable[[], float]) -> FailureConfig:
    """Return the settings of failures.

    Args:
        value: `mtbf=6 h,repair=5 min,retries=5,resume=restart` (a repair may be `never`), or failures at fixed times,
            `at=10 s:replica=0`, several of them too; or a YAML file.
        default_repair: returns the seconds of a repair, where they are not given.

    Raises:
        InputError: an unknown key, a wrong value, neither `mtbf` nor `at`.
    """
    given, source = parse_settings(
        value,
        {
            "mtbf": parse_seconds, "at": _at, "repair": _repair, "resume": _resume,
            "retries": lambda text: parse_count(text, "retries"),
        },
        "--failures", "failures", repeated=("at",),
    )  # fmt: skip
    if "mtbf" not in given and "at" not in given:
        raise InputError("--failures: mtbf is missing: give the mean time between failures of a replica, such as mtbf=6 h")
    repair = given["repair"] if "repair" in given else default_repair()
    return FailureConfig(
        mtbf=given.get("mtbf"), at=tuple(sorted(given.get("at", ()))), repair=repair,
        retries=given.get("retries", RETRIES), resume=given.get("resume", "restart"), source=source,
    )  # fmt: skip


def _at(value: object) -> tuple[float, int]:
    time, _, which = str(value).partition(":")
    name, equals, index = (part.strip() for part in which.partition("="))
    if name != "replica" or not equals:
        raise InputError(f"must be a time and a replica, such as 10 s:replica=0, not {str(value)[:60]!r}")
    return parse_delay(time.strip()), parse_count(index, "the number of a replica")


def _repair(value: object) -> float:
    return math.inf if value == "never" else parse_delay(value)


def _resume(value: object) -> Resume:
    if value == "restart":
        return "restart"
    if value == "continue":
        return "continue"
    raise UnknownNameError("way to resume", value, ("restart", "continue"), list_all=True)
