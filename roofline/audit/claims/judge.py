"""The judgement of a statement: verdict, ceiling, derivation, likely mistakes, and the verdict in a line."""

from __future__ import annotations

import math
from dataclasses import replace

from roofline import formatting
from roofline.audit.claims.claim import Statement
from roofline.audit.claims.mistakes import find_likely_mistakes
from roofline.audit.claims.names import resolve_name
from roofline.audit.claims.resolved_claim import SLACK, Achievable, Ceiling, ResolvedClaim
from roofline.audit.claims.result import ClaimJudgement, Judgement, LikelyMistake, Verdict
from roofline.audit.claims.rules import ceiling_of, read_as, rules_of
from roofline.audit.claims.step_rules import memory_lines
from roofline.blocks.model import Model
from roofline.blocks.model_files import load_model
from roofline.errors import InputError
from roofline.formatting import percent
from roofline.predict.memory import largest
from roofline.predict.request import IMAGES_OR_CACHED, vision
from roofline.specs.hardware import Hardware
from roofline.specs.library import Input, load_hardware
from roofline.specs.source import Assumption


def judge_statement(statement: Statement) -> Judgement:
    """Judge every claim of a statement.

    Raises:
        InputError: no hardware, a claimed value that is not positive and finite, a model or length that the claim needs and
            does not have, or devices that the model cannot be divided over.
        UnknownNameError, AmbiguousNameError: no model or hardware, or several, have a name.
        SpecError: a file of a model or of hardware that is wrong.
    """
    for claim in statement.claims:
        if claim.value is not None and not 0 < claim.value < math.inf:
            raise InputError(f"a claim of {claim.value:g} {claim.unit} is no figure: it must be above 0, and finite")
    inputs: list[Input] = []
    notes = list(statement.notes)
    hardware, model, options = statement.hardware, statement.model, dict(statement.deployment)
    if hardware is None:
        raise InputError("a claim needs hardware: name it, such as h100-sxm, or give --hardware")
    if not isinstance(hardware, Hardware):
        hardware, files = load_hardware(resolve_name("hardware", hardware, notes))
        inputs += files
    if model is not None and not isinstance(model, Model):
        model, read = load_model(resolve_name("models", model, notes), options.pop("assume", None))
        inputs.append(read)
    if options.get("images"):
        statement = _with_images(statement, model if isinstance(model, Model) else None)
    published = model.quantization if isinstance(model, Model) else ()
    if statement.quantization is not None and any(scheme.name == statement.quantization for scheme in published):
        # what the model is published with covers the roles that its file says, and no others
        statement = replace(statement, quantization=None)
    statement = replace(statement, model=model, hardware=hardware, notes=tuple(notes))
    judged = tuple(
        _judge(
            ResolvedClaim(
                claim=claim,
                statement=statement,
                model=model,
                hardware=hardware,
                options=options,
                ignore_memory=bool(options.get("ignore_capacity")),
            )
        )
        for claim in statement.claims
    )
    used = {entry.role: {"name": entry.name, "path": entry.path, "sha256": entry.sha256} for entry in inputs}
    return Judgement(inputs=used, claims=judged)


def _with_images(statement: Statement, model: Model | None) -> Statement:
    """The statement with the tokens of the images of a prompt in its length.

    Raises:
        InputError: no model, or one of which the work on an image is not known; no length, or a cached prefix.
    """
    if model is None:
        raise InputError("--images are of a model's prompts: name the model")
    tower = vision(model)
    if statement.input_len is None:
        raise InputError("--images adds the images' tokens to those of the text: state these with --input-len")
    if statement.prefix_hit or statement.cached_prefix:
        raise InputError(IMAGES_OR_CACHED)
    return replace(statement, input_len=statement.input_len + int(statement.deployment["images"]) * tower.tokens)


def _judge(resolved: ResolvedClaim) -> ClaimJudgement:
    rules, claim = rules_of(resolved.claim), resolved.claim
    ceiling = ceiling_of(resolved)
    need = ceiling.need
    fits = None if need is None else need.fits
    claimed = claim.value if need is None or claim.kind != "fits" else need.bytes
    derivation: list[str] = []
    by_engine, alone = False, _one_user(resolved)
    limit, achievable = ceiling.value, Achievable()
    verdict: Verdict
    if limit is None and need is not None:
        # memory alone refutes it; say so, and whether time would as well
        verdict = "impossible"
        derivation += memory_lines(need, resolved.devices)
        ratio = need.bytes / need.capacity
        unbounded = ceiling_of(replace(resolved, ignore_memory=True))
        if unbounded.value is not None and resolved.ratio(unbounded.value) > SLACK:
            limit, ratio = unbounded.value, resolved.ratio(unbounded.value)
            derivation += ["and if it did fit:", *rules.derive(resolved, unbounded)]
    else:
        assert limit is not None  # noqa: S101 - narrows the type: only memory leaves none
        derivation += rules.derive(resolved, ceiling)
        ratio = resolved.ratio(limit, claimed)
        unfit = fits is False and (claim.kind == "fits" or not resolved.ignore_memory)
        verdict = "impossible" if ratio > SLACK or unfit else "possible"
        if alone is not None:
            derivation.append(f"for one user at a time, at most {claim.format_value(alone)}")
        if verdict == "possible":
            achievable = _within(resolved, rules.achievable(resolved), limit)
            by_engine = not ceiling.engine_fits and _stated(resolved) and not resolved.ignore_memory
            if by_engine or _beyond(resolved, achievable):
                verdict = "implausible"
    mistakes: tuple[LikelyMistake, ...] = ()
    if verdict != "possible":
        mistakes = _mistakes(replace(resolved, by_engine=by_engine), ceiling, ratio, achievable)
    assumptions = (*resolved.statement.notes, *rules.assume(resolved, ceiling), *_estimates(resolved, achievable, verdict))
    judged = ClaimJudgement(
        claim=claim,
        about=_where(resolved),
        verdict=verdict,
        headline="",
        claimed=claimed,
        ceiling=limit,
        ratio=ratio,
        bound=achievable.bound,
        estimate=achievable.estimate,
        best=achievable.best,
        fits=fits,
        derivation=tuple(derivation),
        likely_mistakes=mistakes,
        assumptions=assumptions,
    )
    return replace(judged, headline=_headline(resolved, judged, ceiling, alone))


def _mistakes(resolved: ResolvedClaim, ceiling: Ceiling, ratio: float, achievable: Achievable) -> tuple[LikelyMistake, ...]:
    """What would give the number; of a claim below its ceiling, what would bring the expected figure up to it."""
    figure = achievable.best if achievable.best is not None else achievable.bound
    if figure is None or ceiling.value is None or ratio > SLACK or resolved.ratio(figure) <= SLACK:
        return find_likely_mistakes(resolved, ceiling, ratio)
    beyond = resolved.ratio(figure)
    return find_likely_mistakes(replace(resolved, attained_share=ratio / beyond), ceiling, beyond)


def _stated(resolved: ResolvedClaim) -> bool:
    """Whether what has to fit was stated: the engine's rules are no argument against a batch that was left open."""
    return (
        resolved.claim.kind == "fits"
        or resolved.statement.batch is not None
        or resolved.claim.scope == "user"
        or resolved.claim.is_time
    )


def _beyond(resolved: ResolvedClaim, achievable: Achievable) -> bool:
    """Whether a claim is better than what is known to be reached."""
    figure = achievable.best if achievable.best is not None else achievable.bound
    return figure is not None and resolved.ratio(figure) > SLACK


def _estimates(resolved: ResolvedClaim, achievable: Achievable, verdict: Verdict) -> list[Assumption]:
    if verdict == "impossible" or resolved.claim.kind in ("fits", "peak_flops"):
        return []
    if achievable.best is not None:
        return [
            Assumption(
                "estimate",
                resolved.claim.format_value(achievable.best),
                "default",
                "three standard deviations from the estimate, with the fastest kernels measured: beyond it, implausible",
            )
        ]
    if achievable.bound is not None:
        why = "no kernels were measured: beyond the bound of operators one after another, implausible"
        return [Assumption("estimate", None, "default", why)]
    return [Assumption("estimate", None, "default", "no estimate applies: a claim is possible or impossible")]


def _within(resolved: ResolvedClaim, achievable: Achievable, limit: float) -> Achievable:
    """What is known to be reached, never better than the ceiling: an interval may be wide."""
    figures = (achievable.bound, achievable.estimate, achievable.best)
    return Achievable(*(limit if figure is not None and resolved.better(figure, limit) else figure for figure in figures))


def _one_user(resolved: ResolvedClaim) -> float | None:
    """The ceiling of one user alone, for a rate with neither user nor batch; None for other claims."""
    claim = resolved.claim
    if (
        claim.kind != "tokens_per_s"
        or claim.phase != "decode"
        or claim.scope != "total"
        or resolved.statement.batch is not None
    ):
        return None
    ceiling = read_as(resolved, batch=1) if resolved.whole_requests else read_as(resolved, scope="user", batch=1)
    return None if ceiling is None else ceiling.value


def _users(resolved: ResolvedClaim) -> int:
    """The least batch at which a total is possible."""

    def short(batch: int) -> bool:
        ceiling = read_as(resolved, batch=batch)
        return ceiling is not None and ceiling.value is not None and resolved.ratio(ceiling.value) > SLACK

    return largest(short) + 1


def _headline(resolved: ResolvedClaim, judged: ClaimJudgement, ceiling: Ceiling, alone: float | None) -> str:
    """The verdict in one line."""
    claim, where = resolved.claim, _where(resolved)
    if claim.kind == "fits" or judged.ceiling is None:
        return _of_memory(resolved, judged, ceiling, where)
    limit, at, ratio = claim.format_value(judged.ceiling), _at(resolved, ceiling), judged.ratio or 0.0
    if claim.kind == "peak_flops":
        peak = f"the {'sparse' if claim.sparse else 'dense'} {ceiling.dtype} peak of {where}, {limit}"
        return f"{claim.title} is {f'{_times(ratio)} ' if judged.verdict == 'impossible' else 'within '}{peak}"
    if judged.verdict == "impossible":
        reach = f"needs at least {limit}{at}" if claim.is_time else f"can reach at most {limit}{at}"
        beyond = "as fast" if claim.is_time else "that"
        unfit = "; nor does it fit" * (judged.fits is False)
        return f"{where} {reach}; {claim.title} is {_times(ratio)} {beyond}{unfit}"
    if judged.verdict == "possible":
        if claim.is_time:
            times = "as short as" if ratio >= 1 / SLACK else f"{_times(1 / ratio)} as long as"
            return f"{claim.title} is {times} {limit}, the shortest time that {where} can reach{at}"
        share = f"{percent(ratio, 0)}" if ratio >= 0.01 else f"{ratio:.2g}"
        if alone is not None and resolved.ratio(alone) > SLACK:
            several = f"{claim.title} is possible only as the total of at least {_users(resolved):,} concurrent users"
            one = f"one user gets at most {claim.format_value(alone)}"
            return f"{several}; {one}. The claimed rate is {share} of {limit}, the most that {where} can reach{at}"
        return f"{claim.title} is {share} of {limit}, the most that {where} can reach{at}"
    side = "above the floor of" if claim.is_time else "below the ceiling of"
    below = f"{claim.title} is {side} {limit}, but"
    if claim.kind == "ttft" and (batch := resolved.statement.batch or 1) > 1:
        below = f"{claim.title} is {side} {limit}, for one prompt alone, but"
        at = f" for {batch:,} prompts of {ceiling.length:,} tokens at once"
    if judged.best is not None and resolved.ratio(judged.best) > SLACK:
        return f"{below} better than the {claim.format_value(judged.best)} that {where} is expected to reach at best{at}"
    if judged.best is None and judged.bound is not None and resolved.ratio(judged.bound) > SLACK:
        bound = claim.format_value(judged.bound)
        return f"{below} better than {bound}, the bound of {where} with operators run in sequence{at}"
    return f"{below} {where} needs more memory{at} than the engine uses"


def _of_memory(resolved: ResolvedClaim, judged: ClaimJudgement, ceiling: Ceiling, where: str) -> str:
    need = ceiling.need
    assert need is not None  # noqa: S101 - narrows the type
    each = " on each device" if resolved.devices > 1 else ""
    needs = f"{formatting.binary(need.bytes)} of {formatting.binary(need.capacity)}{each}"
    if judged.verdict == "impossible":
        return f"{where} does not fit; it needs {needs}"
    if judged.verdict == "implausible":
        return f"{where} fits in memory as a whole ({needs}), but not in what the engine uses of it"
    return f"{where} fits; it needs {needs}"


def _where(resolved: ResolvedClaim) -> str:
    count = f"{resolved.devices} x " if resolved.devices > 1 else "one "
    hardware = f"{count}{resolved.hardware.accelerator.title}"
    return (
        hardware if resolved.model is None or resolved.claim.kind == "peak_flops" else f"{resolved.model.title} on {hardware}"
    )


def _at(resolved: ResolvedClaim, ceiling: Ceiling) -> str:
    if resolved.claim.kind == "ttft":
        return f" for {ceiling.length:,} tokens"
    if resolved.statement.batch is None and not resolved.claim.is_time and resolved.claim.scope != "user":
        return " at any batch"
    return f" at batch {ceiling.batch:,}" if resolved.claim.phase == "decode" else ""


def _times(ratio: float) -> str:
    return f"{ratio:,.0f} times" if ratio >= 100 else f"{ratio:.3g} times"
