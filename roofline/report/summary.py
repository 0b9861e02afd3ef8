"""A result as sentences and text tables: for terminals, pipes, Markdown and pages."""

from __future__ import annotations

from typing import Any, Protocol

from roofline import formatting
from roofline.formatting import percent, plural
from roofline.predict.duration import Duration
from roofline.predict.efficiency.estimate import BASIS_TEXTS
from roofline.predict.result import Analysis, Phase, Speculative
from roofline.specs.source import Assumption
from roofline.text import Table

GIB = 2.0**30


class HasAssumptions(Protocol):
    """A result with its assumptions."""

    @property
    def assumptions(self) -> tuple[Assumption, ...]:
        """Every choice that was made, with its origin."""


class Described(HasAssumptions, Protocol):
    """What the functions below need of any result: its facts (`roofline.predict.analyze.facts`) and its assumptions."""

    @property
    def model(self) -> dict[str, Any]:
        """Name, title, parameter counts, number of layers, context length in tokens."""

    @property
    def hardware(self) -> dict[str, Any]:
        """Names, titles and figures in base units."""

    @property
    def deployment(self) -> dict[str, Any]:
        """Formats and sizes of parallelism."""


def headline(result: Described) -> str:
    """Title line as text: model on N x accelerator."""
    hardware = result.hardware
    several = f"{hardware['devices']} x " if hardware["devices"] > 1 else ""
    inside = ""
    if hardware["name"] != hardware["accelerator"]:
        nodes = -(-hardware["devices"] // (hardware.get("devices_per_node") or hardware["devices"]))
        inside = f" ({f'{nodes} x ' if nodes > 1 else ''}{hardware['title']})"
    return f"{result.model['title']} on {several}{hardware['accelerator_title']}{inside}"


BOUND_AND_FLOOR = (
    "Bound: each operator as fast as the datasheet's rates allow, one after another. "
    "Floor: everything overlaps; no time is below it."
)
"""What the two least times are, under a table that has both."""


def subtitle(result: Described) -> str:
    """One line of text: parameters, layers, context, formats, sizes of parallelism, engine."""
    deployment, counted = result.deployment, result.model["parameters"]
    active = f" ({format_count(counted['active'])} active)" if counted["active"] != counted["total"] else ""
    weights = deployment["weight_dtype"]
    if deployment["quantization"] and "linear" not in deployment["quantization"]:
        weights += " (" + ", ".join(f"{role} {name}" for role, name in deployment["quantization"].items()) + ")"
    sizes = sizes_of_parallelism(result)
    parts = [
        f"{format_count(counted['total'])} parameters{active}",
        f"{result.model['layers']} layers",
        f"context {result.model['context_length']:,}",
        f"{weights} weights, {deployment['activation_dtype']} activations, {deployment['kv_dtype']} KV",
        *sizes,
        deployment["engine"],
    ]
    return " · ".join(parts)


def sizes_of_parallelism(result: Described) -> list[str]:
    """Sizes of parallelism above 1 in short, such as "TP8 EP8", as a list of one text; empty without any."""
    deployment = result.deployment
    sizes = [
        f"{short}{deployment[name]}"
        for short, name in (
            ("TP", "tensor_parallel"),
            ("PP", "pipeline_parallel"),
            ("DP", "data_parallel"),
            ("CP", "context_parallel"),
            ("DCP", "decode_context_parallel"),
            ("EP", "expert_parallel"),
        )
        if deployment.get(name, 1) > 1
    ]
    if deployment["sequence_parallel"]:
        sizes.append("SP")
    return [" ".join(sizes)] if sizes else []


def format_count(value: float, digits: int = 4) -> str:
    """A number of parameters as text, with the suffix T, B or M.

    >>> format_count(8030261248), format_count(124439808), format_count(999885952, 3), format_count(1026408209408, 3)
    ('8.03 B', '124.4 M', '1 B', '1.03 T')
    """
    for scale, suffix in ((1e12, "T"), (1e9, "B")):
        if float(text := f"{value / scale:.{digits}g}") >= 1:
            return f"{text} {suffix}"
    return f"{value / 1e6:.{digits}g} M"


def verdict(result: Analysis) -> str:
    """Whether the deployment fits in memory, in a sentence; if not, what is short and which flags would make it fit."""
    memory = result.memory
    batch = max(phase.batch for phase in result.phases)
    if memory.fits:
        more = memory.max_batch_of_steps
        return (
            "Fits." if more is None else f"Fits. Maximum batch size at {_tokens_each(result):,} tokens per sequence: {more:,}."
        )
    if memory.usable_bytes <= 0:
        whole, allowed = (memory.budget_bytes - memory.free_bytes) / GIB, memory.budget_bytes / GIB
        text = f"Does not fit: needs {whole:.1f} GiB per device; {allowed:.1f} GiB is available."
    else:
        needed, left = formatting.binary(memory.needed_bytes), formatting.binary(memory.usable_bytes)
        what = "the recurrent state" if not memory.kv_bytes_per_token else "the KV cache"
        if memory.kv_bytes_per_token and memory.state_bytes_per_sequence["allocated"]:
            what += " and recurrent state"
        text = f"Does not fit: {what} of {plural(batch, 'sequence')} needs {needed} per device; {left} is available for it."
    if memory.would_fit:
        one_of = "Any one of these makes" if len(memory.would_fit) > 1 else "This makes"
        return f"{text} {one_of} it fit: {'; '.join(memory.would_fit)}."
    tried = "a smaller batch, a shorter context, an fp8 cache, fp8 and 4-bit weights, or up to 16 times the tensor parallelism"
    return f"{text} None of these makes it fit: {tried}."


def _tokens_each(result: Analysis) -> int:
    """Tokens of a sequence at the end of the longest step."""
    lengths = [(phase.new_tokens + phase.cached_tokens) // phase.batch for phase in result.phases]
    return max(result.memory.tokens_per_sequence, *lengths)


def sentences(result: Analysis) -> list[str]:
    """The answer in sentences: whether it fits; time, rate and limiting resource of each phase; TTFT, TPOT and E2E."""
    answers = [verdict(result)]
    for phase in result.steps:
        if phase.pipeline_s is None or phase.tokens_per_s.bound is None:
            continue
        prompts = "Prefill" if phase.batch == 1 else f"Prefill of {phase.batch:,} prompts in one step"
        pictured = f"Encoder of {plural(phase.batch, 'image')}"
        what = {"encoder": pictured, "prefill": prompts, "decode": "Decode step", "mixed": "Mixed step"}[phase.name]
        bound = f"roofline bound {formatting.seconds(phase.pipeline_s)} ({_rate(phase, phase.tokens_per_s.bound)})"
        if phase.pipeline.floor is not None:
            bound += f", floor {formatting.seconds(phase.pipeline.floor)}"
        reason = f"{str(phase.bound_by).capitalize()}-bound: {limited_because(phase, result)}"
        about = phase.pipeline
        if about.estimate is None or about.low is None or about.high is None or phase.tokens_per_s.estimate is None:
            answers.append(f"{what}: {bound}. {reason}.")
            continue
        likely = f"~{formatting.seconds(about.estimate)} ({_rate(phase, phase.tokens_per_s.estimate)})"
        between = f"80 % interval {formatting.seconds(about.low)} to {formatting.seconds(about.high)}"
        interval = "" if phase.estimate_basis == "given" else f", {between}"
        answers.append(f"{what}: {likely}{interval}{_basis(phase)}; {bound}. {reason}.")
    if result.request is not None and result.request.e2e_s.bound is not None:
        texts = [
            f"{label} {_span(span)}"
            for label, name in (("TTFT", "ttft_s"), ("TPOT", "tpot_s"), ("E2E", "e2e_s"))
            if (span := getattr(result.request, name)).bound
        ]
        answers.append(f"Request: {'; '.join(texts)}.")
    return answers


def _basis(phase: Phase) -> str:
    """What an estimate rests on, where it is not this card's measurements, for the sentence of the estimate."""
    text = BASIS_TEXTS.get(phase.estimate_basis or "")
    return f" ({text})" if text else ""


def _rate(phase: Phase, tokens_per_s: float) -> str:
    """Tokens/s of a phase, and of each sequence in a batch."""
    rate = formatting.number(tokens_per_s, 3)
    each = (
        f", {formatting.number(tokens_per_s / phase.batch, 3)} per sequence"
        if phase.name == "decode" and phase.batch > 1
        else ""
    )
    return f"{rate} tok/s{each}"


def _span(span: Duration) -> str:
    """An estimate with its interval and the bound; the bound alone where there is no estimate."""
    bound = f"bound {formatting.seconds(span.bound or 0.0)}"
    if span.floor is not None:
        bound += f"; floor {formatting.seconds(span.floor)}"
    if span.estimate is None or span.low is None or span.high is None:
        return bound
    between = f"{formatting.seconds(span.low)} to {formatting.seconds(span.high)}"
    return f"~{formatting.seconds(span.estimate)} (80 % interval {between}; {bound})"


def _ridge(phase: Phase, result: Analysis) -> float:
    """The ridge point of the dtype that most of a phase's products are in."""
    work: dict[str, float] = {}
    for op in phase.operators:
        work[op.dtype] = work.get(op.dtype, 0.0) + op.cost.matrix_flops
    peaks = result.hardware["peak_flops"]
    return float(peaks[max(work, key=lambda dtype: work[dtype])] / result.hardware["bandwidth"])


def limited_because(phase: Phase, result: Analysis) -> str:
    """What limits a phase, in numbers: the work, or what crosses the memory bus or the link, against the ridge point."""
    cost, ridge = phase.cost, _ridge(phase, result)
    intensity = cost.matrix_flops / cost.bytes
    if phase.bound_by == "compute":
        work = f"{formatting.quantity(cost.matrix_flops, 'FLOP')} of matrix products"
        return f"{work}, {intensity:,.4g} FLOP/byte against a ridge of {ridge:,.4g}"
    if phase.bound_by == "link":
        return f"{formatting.quantity(cost.link_bytes, 'B')} cross the link of each device"
    moved = {
        "weights": cost.weight_bytes,
        "KV cache": cost.kv_read_bytes + cost.kv_write_bytes,
        "activations": cost.activation_bytes,
    }
    largest = sorted((name for name in moved if moved[name] > 0.05 * cost.bytes), key=lambda name: -moved[name])
    parts = " and ".join(f"{formatting.quantity(moved[name], 'B')} of {name}" for name in largest)
    return f"{parts} cross the memory bus, {intensity:,.3g} FLOP/byte against a ridge of {ridge:,.4g}"


TOWERS = "towers"


def tower_name(result: Analysis) -> str:
    """What the towers in the memory of a multimodal model are called: "vision tower", "audio tower", or "towers" of both."""
    apart = list(result.model["parameters"]["apart"])
    heard = any(name.startswith("audio") for name in apart)
    seen = any(name.startswith("vision") or name.startswith("image") for name in apart)  # noqa: PIE810
    return TOWERS if heard and seen else "audio tower" if heard else "vision tower"


def memory_rows(result: Analysis) -> list[tuple[str, float, str]]:
    """Name, bytes and remark of each part of a device's memory budget; "missing" instead of "free" if it does not fit."""
    memory = result.memory
    free = memory.free_bytes
    token, drafted = f"{formatting.binary(memory.kv_bytes_per_token)} per token", result.speculative
    rows = [("weights", memory.weights_bytes, "")]
    if memory.tower_bytes:
        towers = tower_name(result)
        rows.append((towers, memory.tower_bytes, f"with {'their projectors' if towers == TOWERS else 'its projector'}"))
    if drafted is not None and drafted.draft_weights_bytes:
        rows.append(("draft", drafted.draft_weights_bytes, f"weights of {drafted.draft}"))
        token += f", {formatting.binary(drafted.draft_kv_bytes_per_token)} of the draft"
    limit = "" if memory.step != "mixed" else "up to "
    held = f"{token}; {plural(memory.sequences, 'sequence')} of {limit}{plural(memory.tokens_per_sequence, 'token')}"
    state = memory.state_bytes_per_sequence["allocated"]
    rows.append(("KV cache", memory.needed_bytes - memory.sequences * state, held))
    if state:
        each = f"{formatting.binary(state)} per sequence; {plural(memory.sequences, 'sequence')}"
        rows.append(("state", memory.sequences * state, each))
    rows.append(("activations", memory.activation_bytes, "largest working set of a step"))
    if memory.reserved_bytes:
        rows.append(("reserve", memory.reserved_bytes, ""))
    rows.append(("free", free, "") if free >= 0 else ("missing", -free, ""))
    return rows


def gib(size: float) -> str:
    """Bytes as a number of GiB, without the unit; small amounts with two significant digits.

    >>> gib(2.0**30), gib(3e6), gib(0)
    ('1.00', '0.0028', '0.00')
    """
    value = size / GIB
    return f"{value:.2g}" if 0 < abs(value) < 0.01 else f"{value:,.2f}"


def memory_note(result: Analysis) -> str:
    """The memory budget as text, in GiB per device."""
    memory = result.memory
    share = memory.budget_bytes / memory.capacity_bytes
    budget = f"{memory.budget_bytes / GIB:.2f} GiB per device = {memory.capacity_bytes / GIB:.2f} GiB x {share:.2f}"
    return f"{budget}, in the {memory.step} step"


def phase_title(phase: Phase) -> str:
    """Title of a phase as text: number of sequences, new tokens and cached tokens; of the encoder images and their tokens."""
    if phase.name == "encoder":
        return f"Encoder: {plural(phase.batch, 'image')}, {plural(phase.new_tokens, 'token')}"
    tokens = plural(phase.new_tokens, "new token")
    cached = (
        "nothing cached" if phase.cached_tokens == 0 else f"{phase.cached_tokens // phase.batch:,} cached tokens per sequence"
    )
    if phase.name == "mixed":
        cached = f"{phase.cached_tokens:,} cached tokens in all"
    return f"{phase.name.capitalize()}: {plural(phase.batch, 'sequence')}, {tokens}, {cached}"


def phase_table(result: Analysis, phase: Phase) -> Table:
    """Text table of a phase's operators on one device; with columns for links, bounds and estimates where there are any.

    FLOP/B is of matrix FLOP, which the ridge is of, and of vector FLOP where an operator has no others.
    """
    cost, stages = phase.cost, result.deployment["pipeline_parallel"]
    intensity = f"{cost.matrix_flops / cost.bytes:,.4g} matrix FLOP/byte (ridge {_ridge(phase, result):,.4g})"
    note = f"{formatting.quantity(cost.flops, 'FLOP')}, {formatting.quantity(cost.bytes, 'B')}, {intensity}"
    if phase.time.bound is not None and phase.time.sum is not None:
        bound, total = formatting.seconds(phase.time.bound, 4), formatting.seconds(phase.time.sum, 4)
        note += f"; {bound} with perfect overlap within each operator, {total} with none"
    if phase.time.estimate is not None:
        note += f", about {formatting.quantity(phase.time.estimate, 's')} estimated"
    if result.hardware["devices"] > 1:
        note += f"; one device of {result.hardware['devices']}"
    if stages > 1:
        note += f", in the fullest of {stages} pipeline stages"
    total = sum(op.times.bound for op in phase.operators)
    timed, linked, estimated = phase.time.bound is not None, bool(cost.link_bytes), phase.time.estimate is not None
    rows = []
    for op in phase.operators:
        row = [
            op.path,
            str(op.repeat),
            formatting.quantity(op.cost.flops, "", 3).strip(),
            formatting.quantity(op.cost.bytes, "B", 3),
        ]
        if linked:
            row.append(formatting.quantity(op.cost.link_bytes, "B", 3) if op.cost.link_bytes else "")
        row.append(formatting.number((op.cost.matrix_flops or op.cost.flops) / op.cost.bytes, 3) if op.cost.bytes else "-")
        if timed:
            row += [formatting.seconds(op.time.bound or 0.0), f"{percent((op.time.bound or 0.0) / total, 1)}"]
        if estimated:
            row += ["" if op.time.estimate is None else formatting.seconds(op.time.estimate)]
        rows.append((*row, op.bound_by))
    columns = (
        "operator", "x", "FLOP", "bytes", *(("link",) if linked else ()),
        "FLOP/B", *(("bound", "share") if timed else ()), *(("estimate",) if estimated else ()), "binds",
    )  # fmt: skip
    return Table(phase_title(phase), note, columns, (False, *([True] * (len(columns) - 2)), False), tuple(rows))


def limits_table(result: Analysis) -> Table:
    """Text table of the largest batch by context, with the critical batch sizes in its note."""
    limits = result.limits
    linear = "none" if limits.critical_batch_linear is None else f"{limits.critical_batch_linear:,.4g}"
    step = "none" if limits.critical_batch_step is None else f"{limits.critical_batch_step:,}"
    longest = "any context" if result.memory.max_context is None else f"{result.memory.max_context:,} cached tokens"
    note = f"critical batch: {linear} for the linear operators, {step} for the whole decode step"
    if limits.critical_batch_step is None and limits.critical_batch_why:
        note += f" ({limits.critical_batch_why})"
    note += f"; memory holds {longest} at this batch"
    if (result.memory.max_context or 0) > result.model["context_length"]:
        note += f" (the model was made for {result.model['context_length']:,})"
    rows = tuple((f"{context:,}", f"{batch:,}") for context, batch in limits.max_batch_by_context)
    if not any(batch for _, batch in limits.max_batch_by_context):
        note, rows = "none fits at any context", ()
    return Table("Largest batch by context", note, ("cached tokens", "sequences"), (True, True), rows)


def assumptions_table(result: HasAssumptions) -> Table:
    """Text table of every choice and its origin, those that need attention first."""
    order = {"assumed": 0, "transferred": 1, "given": 2, "default": 3}
    listed = sorted(result.assumptions, key=lambda item: order[item.origin])
    rows = tuple((a.name, written(a.name, a.value), a.origin, a.why) for a in listed)
    return Table("Assumptions", "", ("name", "value", "origin", "why"), (False, False, False, False), rows)


def written(name: str, value: object) -> str:
    """Return the value of an assumption as people write it: bytes with a unit, whole numbers without a fraction.

    >>> written("host_memory", None), written("reserve", 0.0), written("gpu_memory_utilization", 0.9), written("engine", "vllm")
    ('unknown', '0 B', '0.9', 'vllm')
    >>> written("memory", 16e9), written("max_num_batched_tokens", 8192), written("microbatch_overlap", True)
    ('14.9 GiB', '8,192', 'yes')
    """
    if value is None:
        return _NO_VALUE.get(name, "none")
    if isinstance(value, bool):
        return "yes" if value else "no"
    if not isinstance(value, int | float):
        return str(value)
    if name in _BYTES:
        return formatting.binary(value, 3)
    return f"{int(value):,}" if value == int(value) else f"{value:g}"


_BYTES = ("memory", "host_memory", "reserve")
"""Assumptions whose values are bytes."""
_NO_VALUE = {"host_memory": "unknown", "vector_flops": "unknown", "network": "unknown"}
"""What is said where there is no value."""


# Speculative decoding


def speculative_sentence(result: Speculative) -> str:
    """The tokens that a round of speculative decoding yields, the TPOT that follows, and whether it pays, in a sentence."""
    drafts = f"{result.draft} drafts {plural(result.num_speculative_tokens, 'token')} per round"
    if result.method == "ngram":
        drafts = f"{plural(result.num_speculative_tokens, 'token')} per round are looked up in the text"
    text = (
        f"With speculative decoding {drafts}, each accepted with probability {result.acceptance:g}: a round gives "
        f"{result.tokens_per_round:.3g} tokens per sequence"
    )
    speedup = result.speedup(result.basis)
    if result.tpot.bound is None or speedup is None:
        return f"{text}."
    took = f"TPOT has a roofline bound of {formatting.seconds(result.tpot.bound)}"
    if result.tpot.estimate is not None:
        took = f"TPOT is ~{formatting.about(result.tpot.estimate)}"
    pays = f"{speedup:.3g} times as fast as without" if speedup >= 1 else f"{1 / speedup:.3g} times as slow as without"
    return f"{text}, and {took}, {pays}; {_even(result)}."


def _even(result: Speculative) -> str:
    if result.num_speculative_tokens == 0:
        return "nothing is drafted"
    if result.break_even_acceptance is None:
        return "at this batch it would not pay if every token were accepted"
    return f"at this batch it pays from an acceptance of {result.break_even_acceptance:.2f} on"


def speculative_table(result: Speculative) -> Table:
    """Text table of the times of the parts of a round, and of TPOT with and without a draft."""
    drafted = f"draft, {plural(result.num_speculative_tokens, 'step')}" if result.method != "ngram" else "draft"
    rows = (
        (drafted, *_cells(result.drafting)),
        (f"verification of {plural(result.num_speculative_tokens + 1, 'token')}", *_cells(result.verifying)),
        ("round", *_cells(result.round)),
        (f"TPOT: round / {result.tokens_per_round:.4g}", *_cells(result.tpot)),
        ("TPOT without a draft", *_cells(result.plain)),
    )
    note = f"{plural(result.batch, 'sequence')}, {result.context:,} cached tokens per sequence"
    if result.accepted_share is not None:
        note += f"; of the drafted tokens {percent(result.accepted_share, 1)} are accepted, which is the rate that engines log"
    return Table("Speculative decoding", note, ("", "floor", "bound", "estimate", "from", "to"), (False, *[True] * 5), rows)


def _cells(span: Duration) -> tuple[str, ...]:
    values = (span.floor, span.bound, span.estimate, span.low, span.high)
    return tuple("-" if value is None else formatting.seconds(value) for value in values)
