"""Usual mistakes: readings of a claim under which its number would be what it is.

Each computes the ceiling again under the mistaken reading. Further ones come from the entry-point group
`roofline.claim_checks`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace

from roofline.audit.claims.claim import ClaimKind
from roofline.audit.claims.resolved_claim import SLACK, Ceiling, ResolvedClaim
from roofline.audit.claims.result import LikelyMistake
from roofline.audit.claims.rules import SPARSE_FACTOR, dense_peaks, read_as, rules_of, sparse_factor
from roofline.dtypes import FORMATS
from roofline.errors import InputError
from roofline.predict.floor import Overrides
from roofline.predict.memory import largest
from roofline.predict.parameters import count_parameters
from roofline.registry import Registry
from roofline.specs.library import ids, load_hardware

_RATES: tuple[ClaimKind, ...] = ("tokens_per_s", "tpot")
_TIMED: tuple[ClaimKind, ...] = (*_RATES, "ttft")
_NEAR = 0.4
"""A mistaken figure explains a claim that is at most so far below it: a claim is rarely more modest than what it could be."""

Explain = Callable[[ResolvedClaim, Ceiling, float], LikelyMistake | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Mistake:
    """A common mistake behind a wrong number.

    Attributes:
        name: shown to the user.
        kinds: kinds of claims that it applies to.
        explain: function of the claim, its ceiling, and the ratio of claim to ceiling; returns None where the mistake would
            not give the stated number.
    """

    name: str
    kinds: tuple[ClaimKind, ...]
    explain: Explain


def find_likely_mistakes(resolved: ResolvedClaim, ceiling: Ceiling, ratio: float | None) -> tuple[LikelyMistake, ...]:
    """The mistakes that would give the stated number, the closest first; of equally close ones the more common first.

    Args:
        resolved: the claim.
        ceiling: its ceiling as the claim was read.
        ratio: how far the claim exceeds the ceiling; None counts as 0.
    """
    matches = [
        (round(abs(math.log(match.closeness)), 2), match)
        for mistake in MISTAKES.values()
        if resolved.claim.kind in mistake.kinds and (match := mistake.explain(resolved, ceiling, ratio or 0.0)) is not None
    ]
    return tuple(match for _, match in sorted(matches, key=lambda match: match[0]))


def _within(resolved: ResolvedClaim, figure: float | None, near: float = _NEAR) -> float | None:
    """The claim over the ceiling of another reading, where the claim is possible under it and not far below it."""
    if figure is None or figure <= 0:
        return None
    closeness = resolved.ratio(figure)
    return closeness if near <= closeness <= max(SLACK, 1 + resolved.claim.rounding) else None


def _under(resolved: ResolvedClaim, name: str, why: str, ceiling: Ceiling | None, near: float = _NEAR) -> LikelyMistake | None:
    """A mistake whose reading has that ceiling; `why` may name it as {figure}."""
    if ceiling is None or ceiling.value is None or (closeness := _within(resolved, ceiling.value, near)) is None:
        return None
    why = _worded(resolved, why, ceiling.value)
    return LikelyMistake(name=name, why=why, figure=ceiling.value, closeness=closeness)


def _if_possible(resolved: ResolvedClaim, name: str, why: str, ceiling: Ceiling | None) -> LikelyMistake | None:
    """A reading under which the claim is possible, however far below its ceiling."""
    if ceiling is None or ceiling.value is None or resolved.ratio(ceiling.value) > SLACK:
        return None
    why = _worded(resolved, why, ceiling.value)
    return LikelyMistake(name=name, why=why, figure=ceiling.value, closeness=resolved.ratio(ceiling.value))


def _worded(resolved: ResolvedClaim, why: str, value: float) -> str:
    """A reason with its figure; times have a floor where rates have a ceiling."""
    text = why.replace("{figure}", resolved.claim.format_value(value))
    return text.replace("ceiling", "floor") if resolved.claim.is_time else text


def _if_fits(name: str, why: str, ceiling: Ceiling | None) -> LikelyMistake | None:
    """A reading under which the model fits."""
    if ceiling is None or ceiling.need is None:
        return None
    return LikelyMistake(name=name, why=why, figure=ceiling.need.bytes, closeness=ceiling.need.bytes / ceiling.need.capacity)


def _first(results: Iterable[LikelyMistake | None]) -> LikelyMistake | None:
    return next((result for result in results if result is not None), None)


# The peak with structured sparsity, which datasheets print first, instead of the dense one.


def _sparse_peak(resolved: ResolvedClaim, ceiling: Ceiling, ratio: float) -> LikelyMistake | None:
    del ceiling, ratio
    if resolved.claim.sparse or sparse_factor(resolved) == 1:
        return None
    if resolved.claim.kind == "peak_flops":
        why = "It is the peak with 2:4 sparsity, {figure}, which is reached only if half of the weights are zero."
        near = min(0.97, 1 - resolved.claim.rounding)
        return _under(resolved, "sparse peak", why, read_as(resolved, sparse=True), near=near)
    why = "The sparse peak was taken for the dense one. The ceiling would then be {figure}."
    return _under(resolved, "sparse peak", why, read_as(resolved, overrides=Overrides(peak=SPARSE_FACTOR)))


# The rate of a whole batch, given for one user.

_MAX_USERS = 4096


def _whole_batch(resolved: ResolvedClaim, ceiling: Ceiling, ratio: float) -> LikelyMistake | None:
    del ceiling, ratio
    claim, value = resolved.claim, resolved.claim.value
    alone = claim.scope == "user" or claim.is_time or resolved.statement.batch == 1
    if not alone or claim.phase != "decode" or value is None:
        return None
    rate = 1 / value if claim.is_time else value
    whole = replace(resolved, claim=replace(claim, kind="tokens_per_s", value=rate, scope="total"))

    def short(batch: int) -> bool:
        at_batch = read_as(whole, batch=batch)
        return at_batch is not None and at_batch.value is not None and rate > at_batch.value * SLACK

    stated = resolved.statement.batch or 1
    batch = stated if stated > 1 and not short(stated) else largest(short, _MAX_USERS) + 1
    at_batch = read_as(whole, batch=batch)
    if batch == 1 or at_batch is None or at_batch.value is None or at_batch.value * SLACK < rate:
        return None

    def unlikely(batch: int) -> bool:
        of_batch = replace(whole, statement=replace(whole.statement, batch=batch))
        estimate = rules_of(whole.claim).achievable(of_batch).estimate
        return estimate is None or estimate < rate

    limit = whole.claim.format_value(at_batch.value)
    expected = largest(unlikely, _MAX_USERS, batch) + 1 if unlikely(batch) else batch
    reached = (
        f"; the estimate reaches {whole.claim.format_value(rate)} from batch {expected:,}"
        if batch <= expected < _MAX_USERS
        else ""
    )
    least = f"{batch:,} users" if stated == batch else f"{batch:,} users or more"
    possible = f"{whole.claim.format_value(rate)} is possible as the total over {least}"
    what = "TPOT was computed from the rate" if resolved.claim.is_time else "rate is that"
    why = f"The {what} of all users together. {possible} (at most {limit} at batch {batch:,}{reached})."
    figure = 1 / at_batch.value if claim.is_time else at_batch.value  # in the unit of the claim
    return LikelyMistake(name="whole batch for one user", why=why, figure=figure, closeness=rate / at_batch.value)


# Binary prefixes where decimal ones are meant: GB/s as 2^30, TFLOP/s as 2^40.


def _binary_prefixes(resolved: ResolvedClaim, ceiling: Ceiling, ratio: float) -> LikelyMistake | None:
    del ceiling, ratio
    other = read_as(resolved, overrides=Overrides(bandwidth=2**30 / 1e9, peak=2**40 / 1e12))
    why = "GB/s was read as 2^30 B/s, and TFLOP/s as 2^40 FLOP/s. The ceiling would then be {figure}."
    return _under(resolved, "GB for GiB", why, other, near=0.9)


# A narrower number format than the one that is stated, or than the model's own.

_NARROWER = ("fp8", "int8", "int4")


def _another_precision(resolved: ResolvedClaim, ceiling: Ceiling, ratio: float) -> LikelyMistake | None:
    del ratio
    if resolved.claim.kind == "peak_flops":
        return _another_peak(resolved, ceiling)
    request = ceiling.request
    if request is None:
        return None
    own = request.precision.dtypes("linear").weight.bytes

    def readings() -> Iterator[tuple[str, Ceiling | None]]:
        if request.precision.kv.bytes > 1 and resolved.cache_matters(ceiling):
            yield "an fp8 KV cache", read_as(resolved, kv_cache_dtype="fp8")
        for dtype in _NARROWER:
            if FORMATS[dtype].bytes < own:
                yield f"{dtype} weights", read_as(resolved, dtype=dtype, quantization=None)
                both = read_as(resolved, dtype=dtype, quantization=None, kv_cache_dtype="fp8")
                yield f"{dtype} weights and an fp8 KV cache", both

    name = "another precision"
    if resolved.claim.kind == "fits":
        return _first(
            _if_fits(name, f"Another precision is meant. With {what}, the model fits.", other) for what, other in readings()
        )
    why = "Another precision is meant. With {what}, the ceiling is {figure}."
    return _first(_if_possible(resolved, name, why.replace("{what}", what), other) for what, other in readings())


def _another_peak(resolved: ResolvedClaim, ceiling: Ceiling) -> LikelyMistake | None:
    for dtype, peak in dense_peaks(resolved).items():
        closeness = resolved.ratio(peak)
        if dtype != ceiling.dtype and abs(closeness - 1) < max(0.03, resolved.claim.rounding):
            why = f"It is the dense {dtype} peak, {resolved.claim.format_value(peak)}."
            return LikelyMistake(name="another precision", why=why, figure=peak, closeness=closeness)
    return None


# The active parameters of a mixture of experts instead of all: those that one token uses.


def _active_parameters(resolved: ResolvedClaim, ceiling: Ceiling, ratio: float) -> LikelyMistake | None:
    if resolved.model is None:
        return None
    name, counted = "active for total parameters", count_parameters(resolved.model)
    share = counted.active / counted.total
    if share > 0.99:
        return None
    if resolved.claim.kind == "fits" or ceiling.value is None:
        if ceiling.need is None or ceiling.need.fits or ratio * share > 1:
            return None
        active, total = f"{counted.active / 1e9:.3g} B", f"{counted.total / 1e9:.4g} B"
        why = f"Only the {active} active parameters were counted. They would fit, but all {total} must be in memory."
        return LikelyMistake(name=name, why=why, figure=ceiling.need.bytes * share, closeness=ratio * share)
    why = "The whole batch was taken to read the experts of one token alone. The ceiling would then be {figure}."
    return _under(resolved, name, why, read_as(resolved, overrides=Overrides(active_experts=True)))


# A KV cache of K alone: half of it.


def _k_without_v(resolved: ResolvedClaim, ceiling: Ceiling, ratio: float) -> LikelyMistake | None:
    del ratio
    if not resolved.cache_matters(ceiling):
        return None
    other = read_as(resolved, overrides=Overrides(cache=0.5))
    if resolved.claim.kind != "fits":
        return _under(resolved, "K without V", "Only K was counted in the KV cache. The ceiling would then be {figure}.", other)
    return _if_fits("K without V", "Only K was counted in the KV cache. The model would then fit.", other)


# Prompt tokens counted as if they were generated.


def _at_least(share: float) -> str:
    """A least number with two digits, rounded up: with 29.4 needed, 29 would not do."""
    return f"{math.ceil(share):,}" if share >= 10 else f"{math.ceil(share * 10) / 10:g}"


def _with_prompts(resolved: ResolvedClaim, prompt: int, output: int, ceiling: float) -> str:
    """The ceiling where prompt tokens count as output."""
    counted = f"Prompt tokens were counted too, {prompt:,} for each {output:,} generated"
    return f"{counted}. The ceiling would then be {resolved.claim.format_value(ceiling)}."


_MAX_PROMPT_SHARE = 64
"""Prompt tokens for each generated one: with more it would hardly be called generation."""


def _prompt_tokens_counted(resolved: ResolvedClaim, ceiling: Ceiling, ratio: float) -> LikelyMistake | None:
    """Input and output together pass at (p + o) / (p/P + o/D), with the ceilings P of prompts and D of generation."""
    name, value = "prompt tokens counted", resolved.claim.value
    if resolved.claim.phase != "decode" or value is None or ceiling.value is None or ratio <= SLACK:
        return None
    generated = value / ratio
    if resolved.whole_requests:
        prompt, output = resolved.lengths
        both = generated * (prompt + output) / output
        if value > both * SLACK:
            return None
        why = _with_prompts(resolved, prompt, output, both)
        return LikelyMistake(name=name, why=why, figure=both, closeness=value / both)
    # prompts of one user arrive one at a time, as the tokens do
    of_prompts = replace(resolved, claim=replace(resolved.claim, phase="prefill"))
    prompts = read_as(of_prompts)
    if prompts is None or prompts.value is None or resolved.ratio(prompts.value) >= 1:
        return None
    prompt_rate = prompts.value * resolved.attained_share
    statement = resolved.statement
    if statement.input_len and statement.output_len:
        share = statement.input_len / statement.output_len
        both = (1 + share) / (share / prompt_rate + 1 / generated)
        if value > both * SLACK:
            return None
        why = _with_prompts(resolved, statement.input_len, statement.output_len, both)
        return LikelyMistake(name=name, why=why, figure=both, closeness=value / both)
    share = (value / generated - 1) / (1 - value / prompt_rate)
    if share > _MAX_PROMPT_SHARE:
        return None
    why = f"Prompt tokens were counted too, at least {_at_least(share)} for each generated token. "
    why += f"Prompts are processed at up to {of_prompts.claim.format_value(prompt_rate)}."
    return LikelyMistake(name=name, why=why, figure=prompt_rate, closeness=value / prompt_rate)


# Prompts left out: the rate of decode steps alone, where lengths say that there are prompts to compute.


def _prompts_left_out(resolved: ResolvedClaim, ceiling: Ceiling, ratio: float) -> LikelyMistake | None:
    del ceiling, ratio
    if not resolved.whole_requests:
        return None
    prompt, output = resolved.lengths
    steps = read_as(resolved, input_len=None, output_len=None, context=prompt + output // 2)
    return _under(
        resolved,
        "prompts left out",
        "The time of the prompts was left out. For decode steps alone the ceiling would be {figure}.",
        steps,
    )


# The encoder left out: the prefill alone, where prompts have images.


def _encoder_left_out(resolved: ResolvedClaim, ceiling: Ceiling, ratio: float) -> LikelyMistake | None:
    del ceiling, ratio
    if not resolved.options.get("images"):
        return None
    why = "The time of the encoder of the images was left out. The ceiling would then be {figure}."
    return _under(resolved, "encoder left out", why, read_as(resolved, options={"images": 0}))


# Another card of the same name: SXM for PCIe, 80 GB for 40 GB.


def _another_card(resolved: ResolvedClaim, ceiling: Ceiling, ratio: float) -> LikelyMistake | None:
    del ceiling, ratio
    name = resolved.hardware.accelerator.name
    best: LikelyMistake | None = None
    for other in ids("hardware") if resolved.hardware.node is None else ():
        if other == name or other.partition("-")[0] != name.partition("-")[0] or name.startswith(("rtx", "tpu", "dgx")):
            continue
        hardware, _ = load_hardware(other)
        on_other = read_as(replace(resolved, hardware=hardware))
        if resolved.claim.kind == "fits":
            mistake = _if_fits("another card", f"Another card is meant. On {other}, the model fits.", on_other)
        else:
            mistake = _if_possible(
                resolved, "another card", f"Another card is meant. On {other}, the ceiling is {{figure}}.", on_other
            )
            if mistake is not None and resolved.claim.kind == "peak_flops" and mistake.closeness < 0.97:
                continue
        if mistake is not None and (best is None or mistake.closeness > best.closeness):
            best = mistake
    return best


# What several devices do together, given for one.

_DEVICE_COUNTS = (2, 4, 8, 16)


def _several_devices(resolved: ResolvedClaim, ceiling: Ceiling, ratio: float) -> LikelyMistake | None:
    del ceiling
    name = "several devices for one"
    if resolved.claim.kind == "peak_flops":
        times = round(ratio)
        if resolved.devices > 1 or times not in _DEVICE_COUNTS or abs(ratio / times - 1) > 0.01:
            return None
        why = f"It is the peak of {times} devices together."
        return LikelyMistake(name=name, why=why, figure=resolved.claim.value, closeness=1.0)

    def readings() -> Iterator[tuple[int, Ceiling | None]]:
        if resolved.devices == 1:
            for count in _DEVICE_COUNTS:
                yield count, read_as(resolved, devices=count)
        elif resolved.claim.scope == "gpu":
            yield resolved.devices, read_as(resolved, scope="total")

    if resolved.claim.kind == "fits":
        return _first(
            _if_fits(name, f"Several devices are meant. The model fits on {count}.", other) for count, other in readings()
        )
    why = "Several devices are meant. The ceiling of {count} together is {figure}."
    return _first(_if_possible(resolved, name, why.replace("{count}", str(count)), other) for count, other in readings())


# Bytes read as bits: eight times as fast, or an eighth of the memory.

_BITS = 8


def _bits_for_bytes(resolved: ResolvedClaim, ceiling: Ceiling, ratio: float) -> LikelyMistake | None:
    if resolved.claim.kind == "fits":
        # a need of 141 GB that is read as 141 Gbit: worth saying only where what is left fills a good part of memory
        closeness = ratio / _BITS
        if not 0.5 <= closeness <= 1 or ceiling.need is None:
            return None
        why = "Bytes were read as bits. An eighth of the memory would then be needed."
        return LikelyMistake(name="bits for bytes", why=why, figure=ceiling.need.bytes / _BITS, closeness=closeness)
    why = "Bits were read as bytes, which is eight times the bandwidth. The ceiling would then be {figure}."
    return _under(resolved, "bits for bytes", why, read_as(resolved, overrides=Overrides(bandwidth=_BITS)))


# Multiply-accumulates counted as one operation, where peaks count two.


def _multiply_accumulates(resolved: ResolvedClaim, ceiling: Ceiling, ratio: float) -> LikelyMistake | None:
    del ceiling, ratio
    why = "A multiply-accumulate was counted as one FLOP, where the peak counts two. The ceiling would then be {figure}."
    return _under(resolved, "MAC for FLOP", why, read_as(resolved, overrides=Overrides(peak=2)))


# A prefix or a second too few: milliseconds for seconds, microseconds for milliseconds, tokens per minute for per second.


def _unit(resolved: ResolvedClaim, ceiling: Ceiling, ratio: float) -> LikelyMistake | None:
    del ratio
    value = resolved.claim.value
    if value is None or ceiling.value is None:
        return None
    factor, what = (1000, "The unit is wrong") if resolved.claim.is_time else (1 / 60, "The rate is per minute, not per second")
    figure = ceiling.value / factor  # the ceiling that the number as written is below
    if (closeness := _within(resolved, figure, near=0.3)) is None:
        return None
    why = f"{what}. {resolved.claim.format_value(value * factor)} would be possible."
    return LikelyMistake(name="unit", why=why, figure=figure, closeness=closeness)


# No mistakes, but conditions that have to be stated: a cached prompt, drafts, a shared prefix, weights on the host.


def _prefix_cached(resolved: ResolvedClaim, ceiling: Ceiling, ratio: float) -> LikelyMistake | None:
    """The prompt was in the cache already, all but its last token."""
    del ceiling, ratio
    if not (resolved.claim.kind == "ttft" or resolved.whole_requests):
        return None
    why = "The prompt may be in the prefix cache already; the claim should say so. {figure} is then the best."
    return _if_possible(resolved, "prefix cached", why, read_as(resolved, overrides=Overrides(reuse=True)))


_MAX_ACCEPTED = 6
"""Drafts gain 2 to 5 tokens per step (EAGLE-3, arXiv:2503.01840: up to 6.5 on code)."""


def _speculative_decoding(resolved: ResolvedClaim, ceiling: Ceiling, ratio: float) -> LikelyMistake | None:
    """Several tokens per step."""
    if resolved.claim.phase != "decode" or ceiling.value is None or resolved.speculations:
        return None
    accepted = max(math.ceil(ratio / SLACK), 2)
    if accepted > _MAX_ACCEPTED or ratio <= SLACK:
        return None
    other = read_as(resolved, overrides=Overrides(tokens_per_step=accepted))
    if other is None or other.value is None or resolved.ratio(other.value) > max(SLACK, ratio / accepted):
        return None  # prompts, for which drafts do nothing
    why = f"Speculative decoding may yield {accepted} or more tokens per step; the claim should say so. "
    why += f"{'The floor' if resolved.claim.is_time else 'The ceiling'} is then {resolved.claim.format_value(other.value)}."
    closeness = resolved.ratio(other.value)
    return LikelyMistake(name="speculative decoding", why=why, figure=other.value, closeness=closeness)


def _shared_prefix(resolved: ResolvedClaim, ceiling: Ceiling, ratio: float) -> LikelyMistake | None:
    """The sequences of a batch share what is cached, which is then read once."""
    del ceiling, ratio
    cached = resolved.statement.cached
    if not cached or (resolved.statement.batch or 1) == 1 or resolved.claim.phase != "decode":
        return None
    why = "All sequences may share the cached tokens; the claim should say so. {figure} is then the best."
    return _if_possible(resolved, "shared prefix", why, read_as(resolved, options={"shared_prefix": cached}))


def _offloading(resolved: ResolvedClaim, ceiling: Ceiling, ratio: float) -> LikelyMistake | None:
    """Weights that stay on the host and are sent in every step."""
    del ratio
    if ceiling.value is not None or ceiling.need is None:
        return None
    whole = read_as(replace(resolved, ignore_memory=True), batch=resolved.statement.batch or 1)
    if whole is None or whole.value is None or whole.seconds is None or resolved.ratio(whole.value) > SLACK:
        return None
    try:
        link = resolved.hardware.to_host().inside
    except InputError:
        return None
    if link is None:
        return None
    # what is not in device memory crosses the link in every step
    sent_s = (ceiling.need.bytes - ceiling.need.capacity) / link.per_direction.value
    figure = whole.value * (max(sent_s, whole.seconds) / whole.seconds) ** (1 if resolved.claim.is_time else -1)
    if resolved.ratio(figure) > SLACK:
        return None
    why = f"What does not fit stays on the host and is sent over {link.name} in every step. "
    why += f"{resolved.claim.format_value(figure)} is then the best."
    return LikelyMistake(name="offloading", why=why, figure=figure, closeness=resolved.ratio(figure))


# The more usual first: of mistakes that explain a claim equally well the first is listed first.
MISTAKES = Registry(
    "claim check",
    [
        Mistake(name="sparse peak", kinds=("peak_flops", "ttft", "tokens_per_s"), explain=_sparse_peak),
        Mistake(name="whole batch for one user", kinds=_RATES, explain=_whole_batch),
        Mistake(name="GB for GiB", kinds=(*_TIMED, "peak_flops"), explain=_binary_prefixes),
        Mistake(name="another precision", kinds=(*_TIMED, "fits", "peak_flops"), explain=_another_precision),
        Mistake(name="active for total parameters", kinds=(*_TIMED, "fits"), explain=_active_parameters),
        Mistake(name="K without V", kinds=(*_RATES, "fits"), explain=_k_without_v),
        Mistake(name="prompt tokens counted", kinds=("tokens_per_s",), explain=_prompt_tokens_counted),
        Mistake(name="prompts left out", kinds=("tokens_per_s",), explain=_prompts_left_out),
        Mistake(name="encoder left out", kinds=("ttft", "tokens_per_s"), explain=_encoder_left_out),
        Mistake(name="another card", kinds=(*_TIMED, "fits", "peak_flops"), explain=_another_card),
        Mistake(name="several devices for one", kinds=(*_TIMED, "fits", "peak_flops"), explain=_several_devices),
        Mistake(name="bits for bytes", kinds=(*_RATES, "fits"), explain=_bits_for_bytes),
        Mistake(name="MAC for FLOP", kinds=("ttft", "tokens_per_s"), explain=_multiply_accumulates),
        Mistake(name="unit", kinds=_TIMED, explain=_unit),
        Mistake(name="prefix cached", kinds=("ttft", "tokens_per_s"), explain=_prefix_cached),
        Mistake(name="speculative decoding", kinds=_RATES, explain=_speculative_decoding),
        Mistake(name="shared prefix", kinds=_RATES, explain=_shared_prefix),
        Mistake(name="offloading", kinds=_RATES, explain=_offloading),
    ],
    group="roofline.claim_checks",
    accepts=Mistake,
)
