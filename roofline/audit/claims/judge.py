"""From a statement to its judgement."""

from __future__ import annotations

import math
from dataclasses import replace

from roofline.audit.claims import kinds
from roofline.audit.claims.case import SLACK, Case
from roofline.audit.claims.claim import Claim, Statement
from roofline.audit.claims.kinds.steps import memory_lines
from roofline.audit.claims.mistakes import likely
from roofline.audit.claims.names import resolve
from roofline.audit.claims.result import Judged, Judgement, LikelyMistake, Verdict
from roofline.audit.claims.roof import Reach, Roof
from roofline.blocks.model import Model
from roofline.blocks.model_files import load_model
from roofline.errors import InputError
from roofline.formatting import percent
from roofline.predict.memory import largest
from roofline.specs.assumption import Assumption
from roofline.specs.hardware import Hardware
from roofline.specs.library import Input, load_hardware


def judge_statement(statement: Statement) -> Judgement:
    """Judge every claim of a statement.

    Raises:
        roofline.errors.RooflineError: a name that is unknown or ambiguous, a value that cannot be, something missing.
    """
    for claim in statement.claims:
        if claim.value is not None and not 0 < claim.value < math.inf:
            raise InputError(f"a claim of {claim.value:g} {claim.unit} is no figure: it must be above 0, and finite")
    inputs: list[Input] = []
    notes = list(statement.notes)
    hardware, model = statement.hardware, statement.model
    if hardware is None:
        raise InputError("a claim needs hardware: name it, such as h100-sxm, or give --hardware")
    if not isinstance(hardware, Hardware):
        hardware, files = load_hardware(resolve("hardware", hardware, notes))
        inputs += files
    if model is not None and not isinstance(model, Model):
        model, read = load_model(resolve("models", model, notes))
        inputs.append(read)
    published = model.quantization if isinstance(model, Model) else ()
    if statement.quantization is not None and any(scheme.name == statement.quantization for scheme in published):
        # what the model is published with covers the roles that its file says, and no others
        statement = replace(statement, quantization=None)
    said = replace(statement, model=model, hardware=hardware, notes=tuple(notes))
    cases = (
        Case(claim=claim, statement=said, model=model, hardware=hardware, options=dict(said.deployment))
        for claim in said.claims
    )
    judged = tuple(map(_judge, cases))
    used = {entry.role: {"name": entry.name, "path": entry.path, "sha256": entry.sha256} for entry in inputs}
    return Judgement(inputs=used, claims=judged)


def _judge(case: Case) -> Judged:
    shape, claim = kinds.of(case.claim), case.claim
    roof = case.roof()
    fits = None if roof.need is None else roof.need.fits
    claimed = claim.value if roof.need is None or claim.kind != "fits" else roof.need.bytes
    derivation: list[str] = []
    by_engine, alone = False, _one_user(case)
    ceiling, ratio, reach = roof.value, None, Reach()
    if ceiling is None and roof.need is not None:
        # memory alone refutes it; say so, and whether time would as well
        derivation += memory_lines(roof.need, case.devices)
        ratio = roof.need.bytes / roof.need.capacity
        unbounded = replace(case, ignore_memory=True).roof()
        if unbounded.value is not None and case.ratio(unbounded.value) > SLACK:
            ceiling, ratio = unbounded.value, case.ratio(unbounded.value)
            derivation += ["and if it did fit:", *shape.derive(case, unbounded)]
        verdict: Verdict = "impossible"
    else:
        assert ceiling is not None  # noqa: S101 - narrows the type: only memory leaves none
        derivation += shape.derive(case, roof)
        ratio = case.ratio(ceiling, claimed)
        verdict = "impossible" if ratio > SLACK or fits is False else "possible"
        if alone is not None:
            derivation.append(f"for one user at a time at most {claim.written(alone)}")
        if verdict == "possible":
            reach = _within(case, case.reach(), ceiling)
            by_engine = not roof.engine_fits and _stated(case)
            if by_engine or _beyond(case, reach):
                verdict = "implausible"
    judged = Judged(
        claim=claim,
        verdict=verdict,
        headline="",
        claimed=claimed,
        ceiling=ceiling,
        ratio=ratio,
        bound=reach.bound,
        estimate=reach.estimate,
        best=reach.best,
        fits=fits,
        derivation=tuple(derivation),
        likely_mistakes=_mistakes(replace(case, by_engine=by_engine), roof, ratio, reach) if verdict != "possible" else (),
        assumptions=(*case.statement.notes, *shape.assume(case, roof), *_estimates(case, reach, verdict)),
    )
    return replace(judged, headline=_headline(case, judged, roof, alone))


def _mistakes(case: Case, roof: Roof, ratio: float, reach: Reach) -> tuple[LikelyMistake, ...]:
    """What would give the number; of a claim below its ceiling, what would bring the expected figure up to it."""
    figure = reach.best if reach.best is not None else reach.bound
    if figure is None or roof.value is None or ratio > SLACK or case.ratio(figure) <= SLACK:
        return likely(case, roof, ratio)
    return likely(replace(case, reached=ratio / case.ratio(figure)), roof, case.ratio(figure))


def _stated(case: Case) -> bool:
    """Whether what has to fit was stated: the engine's rules are no argument against a batch that nobody named."""
    return case.claim.kind == "fits" or case.statement.batch is not None or case.claim.scope == "user" or case.claim.is_time


def _beyond(case: Case, reach: Reach) -> bool:
    """Whether a claim is better than what is known to be reached."""
    figure = reach.best if reach.best is not None else reach.bound
    return figure is not None and case.ratio(figure) > SLACK


def _estimates(case: Case, reach: Reach, verdict: Verdict) -> list[Assumption]:
    if verdict == "impossible" or case.claim.kind in ("fits", "peak_flops"):
        return []
    if reach.best is not None:
        return [
            Assumption(
                "estimate",
                case.claim.written(reach.best),
                "default",
                "the better end of the estimate's interval (measured with vLLM, SGLang, TensorRT-LLM): beyond it, implausible",
            )
        ]
    if reach.bound is not None:
        why = "no kernels were measured: beyond the bound of operators one after another, implausible"
        return [Assumption("estimate", None, "default", why)]
    return [Assumption("estimate", None, "default", "no estimate applies: a claim is possible or impossible")]


def _within(case: Case, reach: Reach, ceiling: float) -> Reach:
    """What is known to be reached, never better than the ceiling: an interval may be wide."""
    figures = (reach.bound, reach.estimate, reach.best)
    return Reach(*(ceiling if figure is not None and case.bolder(figure, ceiling) else figure for figure in figures))


def _one_user(case: Case) -> float | None:
    """The ceiling of one user alone, of a rate of which it is not said whose it is; None of other claims."""
    claim = case.claim
    if claim.kind != "tokens_per_s" or claim.phase != "decode" or claim.scope != "total" or case.statement.batch is not None:
        return None
    found = case.read_as(scope="user", batch=1)
    return None if found is None else found.value


def _users(case: Case) -> int:
    """The least batch at which a total is possible."""

    def short(batch: int) -> bool:
        found = case.read_as(batch=batch)
        return found is not None and found.value is not None and case.ratio(found.value) > SLACK

    return largest(short) + 1


def _headline(case: Case, judged: Judged, roof: Roof, alone: float | None) -> str:
    """The verdict in one line."""
    claim, where = case.claim, _where(case)
    if claim.kind == "fits" or judged.ceiling is None:
        return _of_memory(case, judged, roof, where)
    limit, at, ratio = claim.written(judged.ceiling), _at(case, roof), judged.ratio or 0.0
    if claim.kind == "peak_flops":
        peak = f"the {'sparse' if claim.sparse else 'dense'} {roof.dtype} peak of {where}, {limit}"
        return f"{claim.title} is {f'{_times(ratio)} ' if judged.verdict == 'impossible' else 'within '}{peak}"
    if judged.verdict == "impossible":
        beyond = f"{_times(ratio)} faster than" if claim.is_time else _times(ratio)
        least = "at least" if claim.is_time else "at most"
        unfit = "; nor does it fit" if judged.fits is False else ""
        return f"{claim.title} is {beyond} what {where} can do{at}, {least} {limit}{unfit}"
    if judged.verdict == "possible":
        if claim.is_time:
            least = "the least possible" if ratio >= 1 / SLACK else f"{_times(1 / ratio)} as long as the least possible"
            return f"{claim.title} is {least}{',' if ratio >= 1 / SLACK else ''} {limit}{at}, of {where}"
        share = f"{percent(ratio, 0)}" if ratio >= 0.01 else f"{ratio:.2g}"
        if alone is not None and case.ratio(alone) > SLACK:
            several = f"only for several users at once (from batch {_users(case):,}); for one at most {claim.written(alone)}"
            return f"{claim.title} is possible {several}. It is {share} of what {where} can do at most{at}: {limit}"
        return f"{claim.title} is {share} of what {where} can do at most{at}: {limit}"
    side = "above the least," if claim.is_time else "below the ceiling of"
    below = f"{claim.title} is {side} {limit}, but"
    if claim.kind == "ttft" and (batch := case.statement.batch or 1) > 1:
        below = f"{claim.title} is {side} {limit}, for one prompt alone, but"
        at = f" for {batch:,} prompts of {roof.length:,} tokens at once"
    if judged.best is not None and case.ratio(judged.best) > SLACK:
        return f"{below} better than the {claim.written(judged.best)} that {where} is expected to reach at best{at}"
    if judged.best is None and judged.bound is not None and case.ratio(judged.bound) > SLACK:
        return f"{below} better than {claim.written(judged.bound)}, the bound of {where} with operators one after another{at}"
    return f"{below} {where} fits{at} only in more of memory than the engine uses"


def _of_memory(case: Case, judged: Judged, roof: Roof, where: str) -> str:
    held = roof.need
    assert held is not None  # noqa: S101 - narrows the type
    each = " on each device" if case.devices > 1 else ""
    needs = f"it needs {case_bytes(held.bytes)} of {case_bytes(held.capacity)}{each}"
    if judged.verdict == "impossible":
        return f"{where} does not fit: {needs}"
    if judged.verdict == "implausible":
        return f"{where} fits in memory as a whole, but not in what the engine uses of it: {needs}"
    return f"{where} fits: {needs}"


def case_bytes(value: float) -> str:
    """Bytes as a person reads them."""
    return Claim(kind="fits").written(value)


def _where(case: Case) -> str:
    many = f"{case.devices} x " if case.devices > 1 else "one " if case.hardware.node is None or case.devices == 1 else ""
    hardware = f"{many}{case.hardware.accelerator.title}"
    return hardware if case.model is None or case.claim.kind == "peak_flops" else f"{case.model.title} on {hardware}"


def _at(case: Case, roof: Roof) -> str:
    if case.claim.kind == "ttft":
        return f" for {roof.length:,} tokens"
    if case.statement.batch is None and not case.claim.is_time and case.claim.scope != "user":
        return " at any batch"
    return f" at batch {roof.batch:,}" if case.claim.phase == "decode" else ""


def _times(ratio: float) -> str:
    return f"{ratio:,.0f} times" if ratio >= 100 else f"{ratio:.3g} times"
