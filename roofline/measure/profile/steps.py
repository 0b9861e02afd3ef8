"""The steps of a trace: which kernels belong to each, its kind, and its sequences and tokens as far as they can be told."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from roofline.measure.profile.rules import tokens_of_parts
from roofline.measure.profile.trace import Annotation, Trace
from roofline.specs.workload import Segment, merged
from roofline.specs.workload import Step as Segments

if TYPE_CHECKING:
    import numpy as np

    from roofline.measure.profile.rules import Rules

EMBEDDING_ROWS = 1024
"""A table that is gathered from has at least as many rows if it is a vocabulary's embedding and not a table of positions."""


@dataclass(slots=True)
class Step:
    """One step of a trace.

    Attributes:
        name: the annotation; "" if the step was found by its kernels.
        kernels: indices of its kernels, in the order of their start.
        start_s, duration_s: from the start of its first kernel to the end of its last one, on the device.
        kind: "prefill", "decode", "mixed", "capture" (of a graph), or "" where it cannot be told.
        numbers: what the annotation says, by the groups of `roofline.specs.kernel_rules.StepRule`; or shapes say.
        inferred: whether the numbers come from shapes of operators.
    """

    name: str
    kernels: np.ndarray
    start_s: float
    duration_s: float
    kind: str = ""
    numbers: dict[str, float] = field(default_factory=dict)
    inferred: bool = False

    @property
    def batch(self) -> int | None:
        """Sequences; None if not known."""
        known = [self.numbers[name] for name in ("prefills", "decodes", "running") if name in self.numbers]
        return int(sum(known)) if known else None

    @property
    def new_tokens(self) -> int | None:
        """Tokens that are computed, of all sequences; None if not known."""
        if (tokens := tokens_of_parts(self.numbers)) is not None:
            return tokens
        return int(self.numbers["tokens"]) if "tokens" in self.numbers else None

    @property
    def cached_tokens(self) -> int | None:
        """Tokens in the cache before the step, of all sequences; None if not known."""
        known = [
            self.numbers[f"{part}_kv"] - self.numbers[f"{part}_tokens"]
            for part in ("prefill", "decode")
            if self.numbers.get(f"{part}s")
            if f"{part}_kv" in self.numbers
        ]
        missing = any(self.numbers.get(f"{part}s") and f"{part}_kv" not in self.numbers for part in ("prefill", "decode"))
        return None if missing or not known else int(sum(known))

    def segments(self, part: str = "") -> Segments:
        """The sequences of the step, or of one part ("prefill", "decode") of it; () where lengths are not known.

        Only sums over sequences are known, so that they are taken to be of equal length.
        """
        if not part:
            return merged(self.segments("prefill") + self.segments("decode"))
        count = int(self.numbers.get(f"{part}s", 0))
        attended = self.numbers.get(f"{part}_kv")
        if not count or attended is None:
            return ()
        total = int(self.numbers.get(f"{part}_tokens", count))
        cached = round((attended - total) / count)
        low, longer = divmod(total, count)
        parts = [(count - longer, low), (longer, low + 1)]
        return tuple(Segment(n, new, cached, decode=part == "decode") for n, new in parts if n and new)


NUMBERS = (
    "prefills", "decodes", "running", "prefill_tokens", "decode_tokens", "prefill_kv", "decode_kv", "prefill_pairs", "tokens",
)  # fmt: skip
"""What an annotation may say of a step (`roofline.measure.profile.rules.StepMatch`)."""


def find_steps(trace: Trace, rules: Rules, records: list[dict[str, Any] | None]) -> list[Step]:
    """Divide a trace into steps.

    Annotations that a rule knows make steps; without one, a step begins with each lookup in the vocabulary's embedding.
    Kernels belong to the annotation within which the host launched them; where the launch is not known, to the one of the
    device that they ran in.

    Args:
        trace: as read.
        rules: of annotations.
        records: of each of `trace.kernels.operators`, the columns that its shapes give, or None.

    Returns:
        Steps by start, those with kernels only. Kernels outside all of them, such as the end of a step that began before the
        trace, are in none.
    """
    import numpy as np

    if not len(trace.kernels):
        return []
    chosen = _annotated(trace, rules)
    member = _members(trace, [annotation for annotation, _, _ in chosen]) if chosen else _by_embedding(trace, records)
    steps = []
    for number in range(int(member.max()) + 1 if len(member) else 0):
        kernels = np.flatnonzero(member == number)
        if not len(kernels):
            continue
        start, duration = trace.kernels.column("start_s")[kernels], trace.kernels.column("duration_s")[kernels]
        step = Step("", kernels, float(start.min()), float((start + duration).max() - start.min()))
        if chosen:
            annotation, kind, numbers = chosen[number]
            step.name, step.kind, step.numbers = annotation.name, "" if kind == "step" else kind, dict(numbers)
            if "running" in step.numbers:
                _divide_running(step, trace, records)
        if step.batch is None or step.new_tokens is None:
            _infer(step, trace, records)
        elif step.cached_tokens is None:
            _infer_lengths(step, trace, records)
        if not step.kind:
            step.kind = _kind(step.numbers)
        steps.append(step)
    return sorted(steps, key=lambda step: step.start_s)


def _kind(numbers: dict[str, float]) -> str:
    prompts, generated = numbers.get("prefills", 0) > 0, numbers.get("decodes", 0) > 0
    return "mixed" if prompts and generated else "prefill" if prompts else "decode" if generated else ""


def _annotated(trace: Trace, rules: Rules) -> list[tuple[Annotation, str, dict[str, float]]]:
    """Annotations of steps: where several overlap those that say most, with their kinds and numbers, by start."""
    matched = [
        (annotation, match.kind, {name: value for name in NUMBERS if (value := getattr(match, name)) is not None})
        for annotation in trace.annotations
        if (match := rules.step(annotation.name)) is not None
    ]
    # those of the device are of a trace without a host's, and otherwise times of the same steps
    known = [entry for entry in matched if not entry[0].on_device] or matched
    # the one that says most first; of those that say as much, the longer, which encloses its parts
    known.sort(key=lambda entry: (-len(entry[2]), entry[1] in ("", "step"), -entry[0].duration_s))
    taken: list[tuple[Annotation, str, dict[str, float]]] = []
    for entry in known:
        start, end = entry[0].start_s, entry[0].end_s
        if all(end <= other.start_s or start >= other.end_s for other, _, _ in taken):
            taken.append(entry)
    return sorted(taken, key=lambda entry: entry[0].start_s)


def _members(trace: Trace, annotations: list[Annotation]) -> np.ndarray:
    """The number of the annotation of each kernel, -1 of those outside."""
    import numpy as np

    kernels = trace.kernels
    on_device: dict[str, list[Annotation]] = {}  # by name, those of one name in their order
    for entry in trace.annotations:
        if entry.on_device:
            on_device.setdefault(entry.name, []).append(entry)
    launched, started = kernels.column("launch_s"), kernels.column("start_s")
    when = np.where(np.isnan(launched), started, launched)
    starts, ends = (np.array([getattr(entry, name) for entry in annotations]) for name in ("start_s", "end_s"))
    at = np.searchsorted(starts, when, side="right") - 1
    member = np.where((at >= 0) & (when < ends[np.maximum(at, 0)]), at, -1)
    host_only = bool((kernels.column("activity") == 3).all())  # then the start is the launch
    if not host_only:
        # without a launch the host's ranges say nothing, the device's do where there are any
        member = np.where(np.isnan(launched), -1, member)
        for number, entry in enumerate(annotations):
            ranges = on_device.get(entry.name)
            device = entry if entry.on_device else ranges.pop(0) if ranges else None
            if device is not None:
                inside = (started >= device.start_s) & (started < device.end_s) & np.isnan(launched)
                member = np.where(inside, number, member)
    return member


def _by_embedding(trace: Trace, records: list[dict[str, Any] | None]) -> np.ndarray:
    """Steps that begin with a lookup in the embedding; all kernels are one step where there is none."""
    import numpy as np

    looks_up = np.array(
        [record is not None and _looks_up(record) for record in records],
        dtype=bool,
    )
    operator = trace.kernels.column("operator")
    begins = np.zeros(len(operator), dtype=bool)
    if len(looks_up):
        begins = (operator >= 0) & looks_up[np.maximum(operator, 0)]
    if not begins.any():
        return np.zeros(len(operator), dtype=int)
    starts = np.cumsum(begins)
    return np.asarray(starts - 1)


def _seen(step: Step, trace: Trace, records: list[dict[str, Any] | None]) -> list[dict[str, Any]]:
    """The records of the operators of a step, each once."""
    operators = trace.kernels.column("operator")[step.kernels]
    return [record for number in dict.fromkeys(operators[operators >= 0].tolist()) if (record := records[number]) is not None]


def _attention(seen: list[dict[str, Any]]) -> dict[str, float]:
    """The numbers of a step by the shapes of its largest attention; none without such shapes."""
    attention = [record for record in seen if {"batch", "q_len", "kv_len", "head_dim"} <= record.keys()]
    if not attention:
        return {}
    largest = max(attention, key=lambda record: record["batch"] * record["kv_len"])
    batch, new, attended = largest["batch"], largest["q_len"], largest["kv_len"]
    part = "decode" if new == 1 and attended > 1 else "prefill"
    return {f"{part}s": batch, f"{part}_tokens": batch * new, f"{part}_kv": batch * attended}


def _divide_running(step: Step, trace: Trace, records: list[dict[str, Any] | None]) -> None:
    """Count running sequences as decodes, unless shapes say that the step has more tokens than one of each.

    Then some are still at their prompts, or all verify drafts: the kind is not known. Nor is it beside new sequences, where
    all are counted as decodes.
    """
    running = int(step.numbers["running"])
    tokens = [record["tokens"] for record in _seen(step, trace, records) if _looks_up(record)]
    alone = not step.numbers.get("prefills") and bool(tokens)
    if alone and max(tokens) > _padded(running):
        step.kind, step.numbers["tokens"] = "", max(tokens)
        return
    step.numbers["decodes"] = step.numbers.pop("running")
    if alone:
        step.numbers["decode_tokens"] = running


def _padded(sequences: int) -> int:
    """The size of the graph that vLLM runs for a batch: 1, 2, 4, then multiples of 8, of 16 from 256 on."""
    if sequences <= 4:
        return 1 << max(sequences - 1, 0).bit_length()
    grain = 8 if sequences < 256 else 16
    return -(-sequences // grain) * grain


def _looks_up(record: dict[str, Any]) -> bool:
    """Whether a record is of a lookup in the vocabulary's embedding."""
    return record.get("op") == "embedding" and (record.get("n") or 0) >= EMBEDDING_ROWS


def _infer_lengths(step: Step, trace: Trace, records: list[dict[str, Any] | None]) -> None:
    """The lengths of contexts by the shapes of attention, where they agree with what the annotation says."""
    numbers = _attention(_seen(step, trace, records))
    given = {name: value for name, value in step.numbers.items() if value and not name.endswith("tokens")}
    if numbers and all(numbers.get(name) == value for name, value in given.items()):
        step.numbers |= numbers


def _infer(step: Step, trace: Trace, records: list[dict[str, Any] | None]) -> None:
    """Sequences and tokens of a step from the shapes of its attention, else of its products and its embedding."""
    seen = _seen(step, trace, records)
    if numbers := _attention(seen):
        step.numbers |= numbers
        step.inferred = True
        return
    tokens = [record["tokens"] for record in seen if _looks_up(record)]
    products = [record for record in seen if record.get("op") == "gemm" and {"m", "n"} <= record.keys()]
    if not tokens and products:
        tokens = [max(record["m"] for record in products)]
    if not tokens:
        return
    step.inferred = True
    head = max(products, key=lambda record: record["n"], default=None)
    rows = head["m"] if head is not None and len(products) > 1 else math.inf
    if step.kind == "" and rows < tokens[0]:
        step.numbers |= {"prefills": rows, "prefill_tokens": tokens[0]}
    elif step.kind == "decode":
        step.numbers = {"decodes": tokens[0], "decode_tokens": tokens[0]} | step.numbers
    elif step.new_tokens is None:
        step.numbers["tokens"] = tokens[0]
