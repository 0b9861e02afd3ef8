"""Traffic of one class, from options."""

from __future__ import annotations

from typing import Any

from roofline.errors import InputError
from roofline.serving.traffic.build import Builder
from roofline.serving.traffic.classes import Traffic
from roofline.serving.traffic.profile import parse_profile
from roofline.serving.traffic.scalars import parse_peak_factor


def single(
    *,
    rate: Any = None,
    concurrency: Any = None,
    input_len: Any = None,
    output_len: Any = None,
    trace: Any = None,
    ttft: Any = None,
    tpot: Any = None,
    percentile: Any = None,
    prefix_hit: Any = None,
    burstiness: Any = None,
    peak_factor: Any = None,
    profile: Any = None,
    name: str = "requests",
    skip_bad_rows: bool = False,
) -> Traffic:
    """Traffic of one class. Values are texts as on the command line, or what they stand for; None: not given.

    Args:
        rate: requests/s (`8`, `300/min`); or
        concurrency: clients, each of which sends its next request when it has its answer. Of a trace with arrivals neither is
            needed: its own rate is taken.
        input_len: tokens of a prompt, a distribution such as `lognormal:1155:900`.
        output_len: the same of an answer.
        trace: a trace, or its file, in the place of the two.
        ttft: seconds, or a text with a unit, to the first token.
        tpot: the same for each token after the first.
        percentile: the share of requests that have to keep to them: `95`, `p95` or `0.95`, which is the default.
        prefix_hit: share of a prompt's tokens that are in the prefix cache.
        burstiness: standard deviation of the times between arrivals over their mean; default: the trace's, else 1.
        peak_factor: highest load over the mean one; or
        profile: weights of the parts of a day, or a file of them.
        name: of the class.
        skip_bad_rows: leave broken rows of the trace out.

    Raises:
        InputError: what is wrong, by flag, and what is allowed.
    """
    given = {
        "name": name, "rate": rate, "concurrency": concurrency, "input_len": input_len, "output_len": output_len,
        "trace": trace, "ttft": ttft, "tpot": tpot, "percentile": percentile, "prefix_hit": prefix_hit,
        "burstiness": burstiness,
    }  # fmt: skip
    builder = Builder(given, _fail, skip_bad_rows=skip_bad_rows)
    built = builder.build()
    if profile is not None and peak_factor is not None:
        raise _fail("peak_factor", "a profile is given too, which has its own peak: give one of them")
    try:
        day = None if profile is None else parse_profile(profile)
    except InputError as error:
        raise _fail("profile", str(error)) from None
    try:
        peak = None if peak_factor is None else parse_peak_factor(peak_factor)
    except InputError as error:
        raise _fail("peak_factor", str(error)) from None
    return Traffic(classes=(built,), profile=day, peak=peak, assumptions=tuple(builder.assumptions))


def _fail(key: str, problem: str) -> InputError:
    apart = " " if problem.startswith("is missing") else ": "
    return InputError(f"--{key.replace('_', '-')}{apart}{problem}")
