"""The calculator of preemption: an evicted sequence, recomputed or swapped. Translated to JavaScript.

Times of the chosen length are those of `roofline preempt`. Splits, block sizes and the host's memory are left to the command.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from roofline import formatting
from roofline.errors import InputError
from roofline.formatting import about_range, plural
from roofline.predict.duration import Duration
from roofline.predict.engine_command import shell_line
from roofline.predict.request import ResolvedRequest, prepare
from roofline.predict.timing import pipeline
from roofline.report import summary
from roofline.report.analysis.view import figure_section
from roofline.report.calculators.plan import Noted
from roofline.report.cells import about_time, amount, seconds, table, text_cell, text_table, whole
from roofline.report.figure import Axis, Cell, Command, Figure, Mark, Section, Series, Table, Tile, View
from roofline.serving.preemption.costs import Choice, Swap
from roofline.serving.preemption.crossover import exact_link
from roofline.serving.preemption.recompute import Recomputed
from roofline.specs.workload import Segment

Values = dict[str, Any]
"""What the controls hold, by key: model, hardware, tokens, the batch that runs meanwhile, formats, copies."""

LINK_GB = 1e9
_NOT_MODELLED = (
    "Queues: when a sequence is evicted, and how long it waits for KV blocks, is a matter of the whole traffic.",
    "The host's memory, splits between both methods, other block sizes: `roofline preempt` has them.",
    "Batched calls (cuMemcpyBatchAsync), which take less a block than one call each.",
)


@dataclass(frozen=True, slots=True)
class Evicted:
    """An evicted sequence of a deployment, and what runs meanwhile: `batch` sequences of `context` cached tokens."""

    request: ResolvedRequest
    swap: Swap
    batch: int
    context: int
    chunks: dict[tuple[int, int], Duration]
    """Times of chunks, by new and cached tokens, as far as they are known."""

    @property
    def budget(self) -> int:
        """Tokens of the sequence per step.

        Raises:
            InputError: the running batch leaves none.
        """
        most = self.request.memory.max_num_batched_tokens
        left = most - self.batch
        if left < 1:
            raise InputError(f"a batch of {self.batch:,} leaves none of the {most:,} tokens of a step to a prompt")
        return left

    def chunk(self, new: int, cached: int) -> Duration:
        """Time of one step with a chunk, the running batch included."""
        if (new, cached) not in self.chunks:
            prompt = Segment(1, new, cached)
            running = (Segment(self.batch, 1, self.context, decode=True),) if self.batch else ()
            self.chunks[new, cached] = pipeline(self.request, (*running, prompt))
        return self.chunks[new, cached]

    def recompute(self, tokens: int) -> Recomputed:
        """Seconds to recompute the cache of `tokens` tokens, as `roofline.serving.preemption.recompute` defines them."""
        steps = [(min(self.budget, tokens - start), start) for start in range(0, tokens, self.budget)]
        spans = [self.chunk(new, cached) for new, cached in steps]
        without = None
        if self.batch:
            without = pipeline(self.request, (Segment(self.batch, 1, self.context, decode=True),))
        bound = sum([_known(span.bound) for span in spans])
        if without is not None:
            bound = bound - len(spans) * _known(without.bound)
        if not self.request.estimator.applies:
            return Recomputed(bound, bound, None, None, len(steps))
        took = sum([_known(span.estimate) for span in spans])
        if without is not None:
            took = took - len(spans) * _known(without.estimate)
        took = max(took, bound)
        # the interval of the first and the last chunk, relative to their time
        ends = [spans[-1], *(spans[:1] if len(spans) > 1 else [])]
        total = sum([_known(span.estimate) for span in ends])
        low = sum([_known(span.low) for span in ends]) / total
        high = sum([_known(span.high) for span in ends]) / total
        least = bound if self.batch else sum([_known(span.floor) for span in spans])
        return Recomputed(took, bound, max(took * low, least), took * high, len(steps))

    def swapped(self, tokens: int) -> tuple[float, float]:
        """Seconds out and back in."""
        out, back = self.swap.seconds(tokens, 0)
        return float(out), float(back)


def _known(value: float | None) -> float:
    return 0.0 if value is None else value


def evicted(values: Values) -> Evicted:
    """The sequence of a state.

    Raises:
        InputError: it does not fit on the device, or the model caches nothing.
    """
    tokens, batch = int(values["tokens"]), int(values["batch"])
    request = prepare(values["model"], values["hardware"], context=tokens - 1, batch=1, phase="decode", **_options(values))
    if not request.all_fit():
        raise InputError(f"a sequence of {plural(tokens, 'token')} does not fit with the weights of {request.model.title}")
    link = values["host_link"] * LINK_GB if values["host_link"] else None
    swap = Swap.of(
        request, host_link=link, pinned=values["pinned"], coalesced=values["coalesced"], gpus_per_link=int(values["per_link"])
    )
    if swap.bytes(1, 0) == 0:
        raise InputError(f"{request.model.name} keeps nothing of a sequence: there is nothing to evict")
    return Evicted(request, swap, batch, int(values["context"]) or tokens, {})


def _options(values: Values) -> Values:
    chosen: Values = {name: values[key] for key, name in (("dtype", "dtype"), ("kv", "kv_cache_dtype")) if values[key]}
    if values["tp"] != "1":
        chosen["tensor_parallel_size"] = int(values["tp"])
    if values["block_size"] != "":
        chosen["block_size"] = int(values["block_size"])
    return chosen


def view(values: Values) -> View:
    """Everything that the page shows of a state."""
    case, tokens = evicted(values), int(values["tokens"])
    recomputed, (out, back) = case.recompute(tokens), case.swapped(tokens)
    choice = Choice(recomputed.seconds, out, back)
    return View(
        title=f"Recompute or swap: {case.request.model.title} on {case.request.hardware.title}",
        subtitle=_subtitle(case, tokens),
        answer=(),
        fits=True,
        error="",
        tiles=_tiles(case, tokens, recomputed, choice),
        commands=(
            Command(label="Reproduce in a terminal, with splits and block sizes", text=in_terminal(values), repeats=True),
        ),
        sections=(figure_section(_costs(case, tokens)), _methods(case, tokens, recomputed)),
        assumptions=_assumptions(case),
        not_modelled=_NOT_MODELLED,
        verdict=_verdict(recomputed, choice),
    )


def _subtitle(case: Evicted, tokens: int) -> str:
    meanwhile = f" · beside {plural(case.batch, 'sequence')} of {case.context:,} cached tokens" if case.batch else ""
    return f"{plural(tokens, 'token')} in blocks of {case.request.memory.block_size:,}{meanwhile}"


def _verdict(recomputed: Recomputed, choice: Choice) -> str:
    faster, slower = ("Swapping", "recomputing") if choice.cheaper == "swap" else ("Recomputing", "swapping")
    times = max(recomputed.seconds, choice.swap_s) / max(min(recomputed.seconds, choice.swap_s), 1e-300)
    took, other = formatting.about(choice.swap_s), formatting.about(recomputed.seconds)
    first, second = (took, other) if choice.cheaper == "swap" else (other, took)
    return f"{faster} is faster: {first} against {second} for {slower}, {times:.2g} times as long."


def _tiles(case: Evicted, tokens: int, recomputed: Recomputed, choice: Choice) -> tuple[Tile, ...]:
    interval = "bound: no kernels were measured"
    if recomputed.low is not None and recomputed.high is not None:
        interval = f"80 % interval {about_range(recomputed.low, recomputed.high)}"
    link = exact_link(case.swap, recomputed.seconds, tokens)
    rate = case.swap.copies.curves.rate * case.swap.share
    return (
        Tile(label="Recompute", cell=about_time(recomputed.seconds), note=interval),
        Tile(
            label="Swap",
            cell=about_time(choice.swap_s),
            note=f"{formatting.about(choice.out_s)} out, {formatting.about(choice.in_s)} in",
        ),
        Tile(label="Cheaper", cell=text_cell(choice.cheaper), note="for this sequence"),
        Tile(
            label="Break-even link",
            meaning="of large copies, above which a swap is faster",
            cell=Cell(text="none") if link is None else amount(link, "B/s"),
            note="calls alone take longer than recomputing"
            if link is None
            else f"this link: {formatting.quantity(rate, 'B/s', 3)}",
        ),
    )


def _lengths(case: Evicted, tokens: int) -> list[int]:
    """Powers of two from 64 to the longest sequence of the model, and the chosen number."""
    most = max(case.request.model.max_position_embeddings, tokens)
    return sorted({tokens, *[2**power for power in range(6, 18) if 2**power <= most]})


def _costs(case: Evicted, tokens: int) -> Figure:
    """Line plot of the seconds of each method, against evicted tokens."""
    lengths = _lengths(case, tokens)
    gathered = replace(case.swap, coalesced=True)
    lines = [
        ("recompute", "compute", [case.recompute(length).seconds for length in lengths]),
        (
            "swap, coalesced" if case.swap.coalesced else "swap, block by block",
            "link",
            [float(case.swap.both(length, 0)) for length in lengths],
        ),
    ]
    if not case.swap.coalesced:
        lines.append(("swap, coalesced", "gathered", [float(gathered.both(length, 0)) for length in lengths]))
    x = tuple([float(length) for length in lengths])
    series = [
        Series(
            name=name,
            kind="line",
            role=role,
            x=x,
            y=tuple(times),
            labels=tuple(
                [f"{name}, {length:,} tokens: {formatting.about(took)}" for length, took in zip(lengths, times, strict=True)]
            ),
        )
        for name, role, times in lines
    ]
    rows: list[tuple[Cell, ...]] = [
        (whole(length), *[about_time(times[index]) for _, _, times in lines]) for index, length in enumerate(lengths)
    ]
    return Figure(
        key="costs",
        title="Time to restore a sequence, by length",
        note="Recomputing a short sequence costs a pass over the weights, a long one attention on top; copies grow by blocks.",
        x=Axis(title="evicted tokens", scale="log", unit="tokens"),
        y=Axis(title="time", scale="log", unit="s"),
        series=tuple(series),
        marks=(Mark(text=f"{tokens:,} tokens", x=float(tokens), role="pinned"),),
        table=table("costs-rows", "By length", "", ("tokens", *[name for name, _, _ in lines]), rows),
    )


def _methods(case: Evicted, tokens: int, recomputed: Recomputed) -> Section:
    """What each method does, in numbers."""
    swap = case.swap
    size = float(swap.bytes(tokens, 0))
    fullest = max(swap.stages, key=lambda stage: float(stage.bytes(tokens, 0)))
    calls = float(swap.calls(fullest, tokens, 0))
    low, high = [
        sum([float(way) for way in swap.seconds(tokens, 0, curves)]) for curves in (swap.copies.fast, swap.copies.slow)
    ]
    rows: list[tuple[Cell, ...]] = [
        (text_cell("recompute: steps"), whole(recomputed.steps)),
        (text_cell("recompute: roofline bound"), seconds(recomputed.bound)),
        (text_cell("swap: bytes each way, of a device"), amount(size, "B")),
        (text_cell("swap: calls each way"), whole(round(calls))),
        (text_cell("swap: bytes per call"), amount(size / calls, "B") if calls else text_cell("–")),
        (text_cell("swap: 80 % interval"), text_cell(about_range(max(low, float(swap.bound(tokens, 0))), high))),
        (text_cell("swap: lower bound, bytes at the link's rate"), seconds(float(swap.bound(tokens, 0)))),
        (text_cell("swap, coalesced"), about_time(float(replace(swap, coalesced=True).both(tokens, 0)))),
    ]
    listed = table("method-rows", "What each takes", "", ("quantity", "value"), rows)
    return Section(key="methods", title="Methods", note="", figure=None, tables=(listed,), half=True)


def _assumptions(case: Evicted) -> Table:
    notes = [note for note in case.request.assumptions if note.name not in ("batch", "input_len", "context")]
    return text_table("assumptions", summary.assumptions_table(Noted((*notes, *case.swap.copies.notes))))


def in_terminal(values: Values) -> str:
    """The command that compares the same."""
    line = ["roofline", "preempt", str(values["model"]), "--hardware", str(values["hardware"]), "--tokens"]
    line.append(str(int(values["tokens"])))
    for name, value in _options(values).items():
        line += [f"--{name.replace('_', '-')}", str(value)]
    if values["batch"]:
        line += ["--batch", str(int(values["batch"]))]
        line += ["--context", str(int(values["context"]))] if values["context"] else []
    if values["host_link"]:
        line += ["--host-link", f"{values['host_link']:.10g} GB/s"]
    line += [] if values["pinned"] else ["--pageable"]
    line += ["--coalesced"] if values["coalesced"] else []
    line += ["--gpus-per-link", str(int(values["per_link"]))] if values["per_link"] != "1" else []
    return shell_line(tuple(line))
