"""The answer of an analysis on one screen: title, times, memory, the largest operators, and what the estimate rests on."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from roofline import formatting
from roofline.formatting import about, about_number, about_range, percent, plural
from roofline.predict.assumptions import MODEL, PARTS
from roofline.predict.duration import Duration
from roofline.predict.efficiency.estimate import BASIS_TEXTS
from roofline.predict.result import Analysis, OperatorResult, Phase
from roofline.report import summary
from roofline.report.summary import GIB, Described, headline, sizes_of_parallelism, written
from roofline.specs.source import Assumption
from roofline.text import NO_BREAK, Answer, Table

_LISTED = 4
"""Operators that are listed; the others are one row."""


def answer(result: Analysis) -> Answer:
    """Return the answer of `roofline analyze`, without the formulas and the roofline in characters."""
    times, rounds = times_table(result), result.speculative
    drafted = "" if rounds is None else summary.speculative_sentence(rounds)
    tables = [summary.phase_table(result, phase) for phase in result.steps]
    return Answer(
        title=title(result),
        settings=settings(result),
        verdict=" ".join(filter(None, (summary.verdict(result), drafted))),
        passed=result.memory.fits,
        parts=(*([times] if times.rows else []), tuple(memory_lines(result))),
        brief=(largest_operators(result),),
        details=(*tables, *([] if rounds is None else [summary.speculative_table(rounds)]), summary.limits_table(result)),
        notes=tuple(basis_lines(result)),
        assumptions=summary.assumptions_table(result),
    )


def title(result: Analysis) -> str:
    """Return the title line: model on N x accelerator."""
    return headline(result)


def settings(result: Analysis) -> str:
    """Return formats, sizes of parallelism, engine, batch and lengths in one line."""
    return settings_line(result, *_workload(result))


def settings_line(result: Described, *workload: str) -> str:
    """Return formats, sizes of parallelism, engine, and the parts of the workload in one line."""
    deployment = result.deployment
    weights, cached = deployment["weight_dtype"], deployment["kv_dtype"]
    formats = weights if weights == cached else f"{weights} weights, {cached} KV cache"
    return " · ".join([formats, *sizes_of_parallelism(result), deployment["engine"].replace("@", " "), *workload])


def _workload(result: Analysis) -> list[str]:
    phases = {phase.name: phase for phase in result.phases}
    if "mixed" in phases:
        mixed = phases["mixed"]
        return [f"one step of {plural(mixed.batch, 'sequence')}, {plural(mixed.new_tokens, 'new token')}"]
    parts = [f"batch {result.phases[0].batch:,}"]
    if (prompt := phases.get("prefill")) is not None:
        cached = prompt.cached_tokens // prompt.batch
        seen = "" if result.encoder is None else f" with {plural(result.encoder.images, 'image')}"
        parts.append(
            f"prompt {prompt.new_tokens // prompt.batch + cached:,}" + (f" ({cached:,} cached)" if cached else "") + seen
        )
    output = ((result.query or {}).get("options") or {}).get("output_len")
    if output is not None:
        parts.append(f"output {output}")
    elif (step := phases.get("decode")) is not None:
        parts.append(f"context {step.cached_tokens // step.batch:,}")
    return parts


def times_table(result: Analysis) -> Table:
    """Return the table of times: estimate, 80 % interval, bound, floor, what limits it, and rate."""
    rows = [_row(*entry) for entry in _times(result) if entry[1].bound is not None]
    estimated = any(row[1] != formatting.ABSENT for row in rows)
    columns = ["", "estimate", "80 % interval", "bound", "floor", "limited by", "rate"]
    places = [at for at, name in enumerate(columns) if estimated or name not in ("estimate", "80 % interval")]
    cut = tuple(tuple(row[at] for at in places) for row in rows)
    right = tuple(columns[at] not in ("", "limited by", "rate") for at in places)
    return Table("", "", tuple(columns[at] for at in places), right, cut)


def _times(result: Analysis) -> Iterable[tuple[str, Duration, Phase | None]]:
    """Label, time, and the phase whose limit and rate are shown. The times of a request stand instead of those of its steps."""
    phases = {phase.name: phase for phase in result.phases}
    encoder = result.encoder
    if encoder is not None:
        yield f"Encoder, {plural(encoder.images, 'image')} per prompt", encoder.time, None
    for name, phase in phases.items():
        if name == "prefill" and (result.request is None or phase.batch > 1):
            first = "TTFT" if phase.batch == 1 else f"TTFT, {phase.batch:,} prompts"
            if encoder is None or (ttft := result.first_token) is None:
                yield first, phase.pipeline, phase
            else:
                yield "Prefill", phase.pipeline, phase
                yield first, ttft, None
        elif name == "decode" and result.request is None:
            yield "TPOT" if result.speculative is None else "Decode step", phase.pipeline, phase
        elif name == "mixed":
            yield "Mixed step", phase.pipeline, phase
    if result.request is not None:
        prompt = phases.get("prefill")
        if prompt is None or prompt.batch == 1:
            yield "TTFT", result.request.ttft_s, prompt if encoder is None else None
        yield "TPOT", result.request.tpot_s, phases.get("decode")
        yield "E2E", result.request.e2e_s, None
    elif result.speculative is not None:
        yield "TPOT, drafted", result.speculative.tpot, None


def _row(label: str, span: Duration, phase: Phase | None) -> tuple[str, ...]:
    likely = formatting.ABSENT if span.estimate is None else about(span.estimate)
    between = "" if span.low is None or span.high is None else about_range(span.low, span.high)
    rate = ""
    if phase is not None and (per_second := phase.tokens_per_s.best) is not None:
        what = "prompt tok/s" if phase.name == "prefill" else "tok/s"
        rate = f"{about_number(per_second)} {what}"
        if phase.name == "decode" and phase.batch > 1:
            rate += f", {about_number(per_second / phase.batch)} per user"
    bound = formatting.fixed(span.bound or 0.0, "s", 3)
    floor = formatting.ABSENT if span.floor is None else formatting.fixed(span.floor, "s", 3)
    return (label, likely, between, bound, floor, "" if phase is None else str(phase.bound_by), rate)


def memory_lines(result: Analysis) -> list[tuple[str, str]]:
    """Return labels and texts: memory per device, the size of the KV cache in the words of engines, critical batch."""
    memory, limits = result.memory, result.limits
    used = memory.budget_bytes - memory.free_bytes
    parts = [f"weights {_gib(memory.weights_bytes)}"]
    if memory.tower_bytes:
        parts.append(f"{summary.tower_name(result)} {_gib(memory.tower_bytes)}")
    if result.speculative is not None and result.speculative.draft_weights_bytes:
        parts.append(f"draft {_gib(result.speculative.draft_weights_bytes)}")
    state = memory.sequences * memory.state_bytes_per_sequence["allocated"]
    if memory.kv_bytes_per_token:
        parts.append(f"KV cache {_gib(memory.needed_bytes - state)}")
    if state:
        parts.append(f"state {_gib(state)}")
    parts.append(f"activations {_gib(memory.activation_bytes)}")
    if memory.reserved_bytes:
        parts.append(f"reserve {_gib(memory.reserved_bytes)}")
    device = " per device" if result.hardware["devices"] > 1 else ""
    of = f"{_gib(used)} of {_gib(memory.budget_bytes)} GiB{device}"
    if not memory.fits:
        of = f"needs {_gib(used)} GiB{device}, of {_gib(memory.budget_bytes)} GiB that the engine may use"
    lines = [("Memory", f"{of}: {', '.join(parts)}")]
    if memory.kv_capacity_tokens and memory.kv_bytes_per_token:
        size = f"{memory.kv_capacity_tokens:,} tokens ({formatting.binary(memory.kv_bytes_per_token)} each)"
        longest = result.model["context_length"]
        if (batches := dict(limits.max_batch_by_context)) and longest in batches:
            concurrency = memory.kv_capacity_tokens / longest
            size += f"; maximum concurrency for {longest:,} tokens per request: {concurrency:.1f}x"
        lines.append(("KV cache size", size))
    if (critical := _critical(result)) is not None:
        lines.append(("Critical batch", critical))
    return lines


def _critical(result: Analysis) -> str | None:
    limits = result.limits
    linear = limits.critical_batch_linear
    text = "linear layers are never compute-bound"
    if linear is not None:
        text = f"linear layers become compute-bound at batch {linear:,.0f}"
    if limits.critical_batch_step is not None:
        return f"{text}, the whole decode step at {limits.critical_batch_step:,}"
    if result.decode is None:
        return text
    return f"{text}; the whole decode step is memory-bound at every batch size"


def largest_operators(result: Analysis) -> Table:
    """Return the table of the operators that take longest: time and share of each phase; the others in one row."""
    times = {
        phase.name: {op.path: seconds for op in phase.operators if (seconds := _seconds(op)) is not None}
        for phase in result.phases
    }
    times = {name: of for name, of in times.items() if of}
    totals = {name: sum(of.values()) for name, of in times.items()}
    shares: dict[str, float] = {}
    for name, of in times.items():
        for path, value in of.items():
            shares[path] = max(shares.get(path, 0.0), value / totals[name])
    chosen = sorted(shares, key=lambda path: -shares[path])[: _LISTED if len(shares) > _LISTED + 1 else len(shares)]
    rows = [(_short(path), *(_time(of.get(path), totals[name]) for name, of in times.items())) for path in chosen]
    rest = [path for path in shares if path not in chosen]
    if rest:
        left = (_time(sum(of.get(path, 0.0) for path in rest), totals[name]) for name, of in times.items())
        rows.append((f"{len(rest)} others", *left))
    return Table("", "", ("Largest operators", *times), (False, *[True] * len(times)), tuple(rows))


def _seconds(op: OperatorResult) -> float | None:
    return op.time.best


def _short(path: str) -> str:
    """A path without the kind of layer where it says nothing: all layers are alike, or the block has the same name."""
    first, *rest = path.split("/")
    named = "/".join(rest) if rest and first in ("layers", rest[0]) else path
    return "engine overhead" if named == "engine" else named


def _time(seconds: float | None, total: float) -> str:
    if not seconds or not total:
        return formatting.ABSENT
    return f"{about(seconds)}  {percent(seconds / total, 0):>5}"


def basis_lines(result: Analysis) -> list[tuple[str, str]]:
    """Return labels and texts: what the estimate rests on with its error, and what was taken where nothing was given."""
    bases = [phase.estimate_basis for phase in result.phases if phase.pipeline.estimate is not None]
    return provenance(result, (bases[0] or "measured") if bases else None)


def provenance(result: Described, basis: str | None) -> list[tuple[str, str]]:
    """Return labels and texts: what an estimate rests on with its error, and what was taken where nothing was given.

    Args:
        result: of any command that prices a step.
        basis: "measured", "transferred", "published", "prior" or "given"; None where there is no estimate.
    """
    weights, cached = result.deployment["weight_dtype"], result.deployment["kv_dtype"]
    formats = f"{weights} weights and KV cache" if weights == cached else f"{weights} weights, {cached} KV cache"
    return provenance_of(result.assumptions, basis, formats)


def provenance_of(
    notes: Sequence[Assumption], basis: str | None, formats: str = "", where: str = "this accelerator"
) -> list[tuple[str, str]]:
    """Return the lines of `provenance` from assumptions alone; `formats` is named where formats are defaults."""
    lines = [] if basis is None else [("Estimate", _basis(notes, basis, where))]
    defaults = {note.name: note.value for note in notes if note.origin == "default"}
    taken = [formats] if formats and "dtype" in defaults and "kv_cache_dtype" in defaults else []
    taken += [f"{text} {defaults[name]}" for name, text in _DEFAULTS.items() if name in defaults]
    taken += [
        f"{note.name.removeprefix(MODEL)} {written(note.name, note.value)} ({note.why})"
        for note in notes
        if note.name.startswith(MODEL) and note.name != PARTS
    ]
    doubtful = [note for note in notes if note.origin == "assumed" and not note.name.startswith(("fit", MODEL))]
    taken += [f"{_named(note.name)} {written(note.name, note.value)}" for note in doubtful[:_ASSUMED]]
    taken += [f"{len(doubtful) - _ASSUMED} others"] if len(doubtful) > _ASSUMED else []
    text = ", ".join(taken)
    lines += [("Not counted", note.why.removeprefix("not counted: ")) for note in notes if note.name == PARTS]
    lines.append(("Assumed", f"{text}; {all_assumptions(len(notes))}" if text else all_assumptions(len(notes))))
    return lines


def all_assumptions(number: int) -> str:
    """Return how many assumptions there are, and how to see them, as text."""
    return f"all {number:,}: -vv"


def _named(name: str) -> str:
    """An assumption in words; options keep the name that they are set by."""
    return _WORDS.get(name, name.removeprefix("price."))


_WORDS = {
    "recalled": "not checked against a source:",
    "context_length": "context beyond the model's maximum:", "host_copy.rate": "rate of host copies",
    "host_memory": "host memory", "host_copy.call": "time per host copy", "host_copy.link": "efficiency of the host link",
}  # fmt: skip
_ASSUMED = 4
"""Assumptions in doubt that are shown; the others are counted."""
_DEFAULTS = {
    "gpu_memory_utilization": "memory utilization",
    "block_size": "block size",
}
"""Defaults that move the answer, in words."""


def _basis(notes: Sequence[Assumption], basis: str, where: str) -> str:
    fits = [note for note in notes if note.name.startswith("fit.")]
    measured = [note.median_error for note in fits if note.median_error is not None]
    if basis == "measured" and fits and all(note.origin == "transferred" for note in fits):
        basis = "transferred"
    if basis in ("given", "prior", "published") or not measured:
        return BASIS_TEXTS.get(basis, f"from kernels measured on {where}")
    backend = [str(note.value) for note in notes if note.name == "backend"][:1]
    others = sum(note.origin == "transferred" for note in fits)
    details = "; ".join([*backend, *([f"{plural(others, 'kernel type')} from other accelerators"] if others else [])])
    text = f"from kernels measured on {where}{f' ({details})' if details else ''}. "
    text += f"Median validation error: {_range(measured)} per kernel type"
    served = [note.median_error for note in notes if note.name == "engine_steps" and note.median_error]
    text += f", {percent(served[0], 0)} for TPOT over all serving measurements" if served else ""
    return text.replace(" %", f"{NO_BREAK}%")


def _range(shares: list[float]) -> str:
    low, high = percent(min(shares), 0), percent(max(shares), 0)
    return high if low == high else f"{low.removesuffix(' %')} to {high}"


def _gib(size: float) -> str:
    value = size / GIB
    return f"{value:.1f}" if value >= 0.95 else f"{value:.2f}" if value >= 0.005 else "0"
