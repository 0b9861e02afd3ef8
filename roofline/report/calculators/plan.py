"""The calculator of capacity: devices for a rate of requests, from what one replica serves. Translated to JavaScript.

A replica of n running sequences, with prompts of p tokens and outputs of m, takes per request

    (m - 1) t_decode(n)/n + w,    w = t_mixed(n, p) - t_decode(n)

seconds: its decode steps, shared with the others, and what a prompt adds to a step. TPOT of the running sequences is
t_decode + (n - 1)/m w, as in `roofline.serving.queueing.closed_loop`. The planned rate of a replica is the highest with which
TPOT is within its objective, and at most `UTILISATION` of that with all the sequences that memory holds at their full length.
Waits, percentiles, several classes and layouts other than tensor parallelism are that command's.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from roofline import formatting
from roofline.errors import InputError
from roofline.formatting import money, plural
from roofline.predict.engine_command import shell_line
from roofline.predict.memory import largest
from roofline.predict.request import ResolvedRequest, prepare
from roofline.predict.timing import pipeline
from roofline.report import summary
from roofline.report.analysis.view import WEIGHTS, figure_section
from roofline.report.cells import about_count, about_time, best, number_cell, table, text_cell, text_table, whole
from roofline.report.figure import Axis, Cell, Command, Figure, Mark, Section, Series, Tile, View
from roofline.serving.planning.sizing import UTILISATION
from roofline.specs.prices import load_prices
from roofline.specs.source import Assumption
from roofline.specs.workload import Segment, decode, prefill

Values = dict[str, Any]
"""What the controls hold, by key: model, up to three hardware with their prices, rate, lengths, objectives, formats."""

PLACES = ("1", "2", "3")
"""Keys of the hardware that are compared end in these."""
SIZES = (1, 2, 4, 8)
"""Tensor-parallel sizes that are tried."""
_SLOTS = 256
"""Most sequences of a replica: vLLM's default for `max_num_seqs` on most hardware."""
_RATES = (0.1, 0.15, 0.2, 0.3, 0.5, 0.7, 1.0, 1.5, 2.0, 3.0, 5.0, 7.0, 10.0)
"""Rates of the figure, over the one that is set."""
_NOT_MODELLED = (
    "Waits and percentiles, which `roofline plan` has: here a share of the saturation rate is left free instead.",
    "Layouts besides tensor parallelism; pools for prefill and decode; spare replicas; traffic that varies over a day.",
    "Hosts, networks, storage and staff, as far as the price of a device does not have them.",
)


@dataclass(frozen=True, slots=True)
class Sized:
    """What one replica serves, and how many are needed.

    Args:
        key: which of the compared hardware it is.
        request: its deployment.
        batch: running sequences.
        tpot: seconds, with the prompts of others in between.
        ttft: seconds of a prompt alone.
        rate: requests/s that are planned for one replica.
        binds: what stops a larger batch: "TPOT", "memory" or "slots".
        replicas: number that serves the rate.
        price: of a device per hour; None: not known.
    """

    key: str
    request: ResolvedRequest
    batch: int
    tpot: float
    ttft: float
    rate: float
    binds: str
    replicas: int
    price: float | None

    @property
    def devices(self) -> int:
        """Devices of all replicas."""
        return self.replicas * self.request.deployment.devices

    @property
    def cost(self) -> float | None:
        """Cost per hour of all devices; None: not known."""
        return None if self.price is None else self.devices * self.price

    @property
    def title(self) -> str:
        """The hardware and the parallel size."""
        size = self.request.deployment.tensor_parallel_size
        return f"{self.request.hardware.title}{f', tp {size}' if size > 1 else ''}"


@dataclass(frozen=True, slots=True)
class Noted:
    """Assumptions, as a result that has them."""

    assumptions: tuple[Assumption, ...]


def shipped_prices() -> dict[str, float]:
    """Price of one device per hour, by id of the accelerator, in the currency of the shipped list."""
    prices = load_prices()
    return {name: price.value for name in prices.names if (price := prices.of(name)) is not None}


def view(values: Values) -> View:
    """Everything that the page shows of a state."""
    sized, refused = [], []
    for key in PLACES:
        if values[f"hardware{key}"]:
            one, why = smallest(values, key)
            if one is None:
                refused.append((values[f"hardware{key}"], why))
            else:
                sized.append(one)
    if len(sized) == 0:
        raise InputError("; ".join([f"{name}: {why}" for name, why in refused]))
    priced = all(one.cost is not None for one in sized)
    sized = sorted(sized, key=lambda one: (_known(one.cost) if priced else 0.0, one.devices))
    first = sized[0]
    return View(
        title=f"Devices for {formatting.number(values['rate'])} requests/s: {first.request.model.title}",
        subtitle=_subtitle(values),
        answer=(),
        fits=True,
        error="",
        tiles=_tiles(values, first),
        commands=(Command(label="Search all layouts and formats, with waits and percentiles", text=in_terminal(values)),),
        sections=(figure_section(_by_rate(values, sized, priced)), figure_section(_by_batch(values, sized)),
                  _candidates(values, sized, refused)),
        assumptions=text_table("assumptions", summary.assumptions_table(Noted((*_notes(sized), *first.request.assumptions)))),
        not_modelled=_NOT_MODELLED,
        verdict=_verdict(sized, refused),
    )  # fmt: skip


def _known(value: float | None) -> float:
    return 0.0 if value is None else value


def _subtitle(values: Values) -> str:
    limits = [
        f"{name} at most {formatting.seconds(values[key] / 1e3)}"
        for name, key in (("TTFT", "ttft_ms"), ("TPOT", "tpot_ms"))
        if values[key]
    ]
    lengths = f"prompts of {int(values['input_len']):,}, outputs of {int(values['output_len']):,} tokens"
    return " · ".join([lengths, *(limits or ["no objectives"])])


def smallest(values: Values, key: str) -> tuple[Sized | None, str]:
    """The tensor-parallel size that needs the fewest devices; None and the reason where none serves a request."""
    listed: list[Sized] = []
    why = ""
    sizes = SIZES if values["tp"] == "0" else (int(values["tp"]),)
    for size in sizes:
        try:
            one, reason = _replica(values, key, size)
        except InputError as error:
            one, reason = None, str(error)
        if one is not None:
            listed.append(one)
        else:
            why = reason
    if len(listed) == 0:
        return None, why
    return min(listed, key=lambda one: one.devices), ""


def request_of(values: Values, key: str, size: int) -> ResolvedRequest:
    """The deployment of a replica."""
    chosen: Values = {}
    if values["weights"]:
        option, dtype = WEIGHTS[values["weights"]]
        chosen[option] = dtype
    if values["kv"]:
        chosen["kv_cache_dtype"] = values["kv"]
    if size > 1:
        chosen["tensor_parallel_size"] = size
    lengths: Values = {"input_len": int(values["input_len"]), "output_len": int(values["output_len"])}
    return prepare(values["model"], values[f"hardware{key}"], **lengths, **chosen)


def _replica(values: Values, key: str, size: int) -> tuple[Sized | None, str]:
    """What a replica of `size` devices serves; None and the reason where it serves no request within the objectives."""
    request = request_of(values, key, size)
    prompt, output = int(values["input_len"]), int(values["output_len"])
    held = min(request.memory.max_batch(prompt + output), _SLOTS)
    if held < 1:
        return None, f"a request of {prompt + output:,} tokens does not fit"
    ttft = _known(best(pipeline(request, prefill(1, prompt))))
    if values["ttft_ms"] and ttft > values["ttft_ms"] / 1e3:
        return None, f"TTFT of one prompt alone is {formatting.about(ttft)}"
    limit = values["tpot_ms"] / 1e3 if values["tpot_ms"] else math.inf
    most = UTILISATION * tpot_and_rate(request, held, prompt, output)[1]
    within = largest(lambda count: tpot_and_rate(request, count, prompt, output)[0] <= limit, held)
    if within < 1:
        return None, f"TPOT of one sequence alone is {formatting.about(tpot_and_rate(request, 1, prompt, output)[0])}"
    batch = max(largest(lambda count: tpot_and_rate(request, count, prompt, output)[1] <= most, within), 1)
    tpot, rate = tpot_and_rate(request, batch, prompt, output)
    rate = min(rate, most)
    binds = "TPOT" if batch == within < held else "slots" if held == _SLOTS else "memory"
    replicas = math.ceil(values["rate"] / rate - 1e-9)
    return Sized(key, request, batch, tpot, ttft, rate, binds, max(replicas, 1), _price(values, key, request)), ""


def _price(values: Values, key: str, request: ResolvedRequest) -> float | None:
    given = values[f"price{key}"]
    return given or shipped_prices().get(request.hardware.accelerator.name)


def tpot_and_rate(request: ResolvedRequest, count: int, prompt: int, output: int) -> tuple[float, float]:
    """Seconds per output token, and requests/s, of a replica with `count` running sequences (see the module)."""
    context = prompt + output // 2
    step = _known(best(pipeline(request, decode(count, context))))
    mixed = _known(best(pipeline(request, (Segment(count, 1, context, decode=True), Segment(1, prompt, 0)))))
    added = max(mixed - step, 0.0)
    tpot = step + (count - 1) / output * added
    return tpot, 1 / max((output - 1) * step / count + added, 1e-300)


def _cost_text(one: Sized) -> str:
    cost = one.cost
    return "" if cost is None else f", {money(cost)} USD/h"


def _verdict(sized: list[Sized], refused: list[tuple[str, str]]) -> str:
    texts = [f"{plural(one.devices, 'device')} of {one.title}{_cost_text(one)}" for one in sized]
    missing = [f"{name} does not serve it: {why}" for name, why in refused]
    return f"{'; or '.join(texts)}.{''.join([f' {text}.' for text in missing])}"


def _per_million(values: Values, one: Sized) -> float | None:
    """Cost of a million output tokens, prompts included."""
    return None if one.cost is None else one.cost / (values["rate"] * values["output_len"] * 3600) * 1e6


def _tiles(values: Values, one: Sized) -> tuple[Tile, ...]:
    cost, million = one.cost, _per_million(values, one)
    size = one.request.deployment.devices
    each = f"{plural(one.replicas, 'replica')} of {plural(size, 'device')}" if size > 1 else f"one replica each, {one.title}"
    full = f"{formatting.percent(UTILISATION)} of the rate that fills {'the slots' if one.binds == 'slots' else 'memory'}"
    limited = "limited by TPOT" if one.binds == "TPOT" else full
    paid = Cell(text="not known") if cost is None else Cell(text=money(cost), value=cost)
    return (
        Tile(label="Devices", cell=whole(one.devices), note=each),
        Tile(
            label="Cost",
            meaning="USD per hour",
            cell=paid,
            note="" if million is None else f"{money(million)} USD per million output tokens",
        ),
        Tile(
            label="Requests/s",
            meaning="of a replica",
            cell=number_cell(float(f"{one.rate:.3g}")),
            note=limited,
        ),
        Tile(label="TPOT", meaning="time per output token", cell=about_time(one.tpot), note=f"at batch {one.batch:,}"),
        Tile(label="TTFT", meaning="time to first token", cell=about_time(one.ttft), note="of a prompt alone, without waits"),
    )


def _by_rate(values: Values, sized: list[Sized], priced: bool) -> Figure:
    """Line plot of cost per hour, or devices, against the rate."""
    rates = [values["rate"] * factor for factor in _RATES]
    series = []
    rows: list[tuple[Cell, ...]] = []
    heights = []
    for index, one in enumerate(sized):
        unit = _known(one.price) if priced else 1.0
        counts = [_devices(one, rate) for rate in rates]
        heights.append([count * unit for count in counts])
        steps = _steps(one, rates)
        series.append(
            Series(
                name=one.title,
                kind="line",
                role="roof",
                x=tuple([rate for rate, _ in steps]),
                y=tuple([count * unit for _, count in steps]),
                labels=tuple(
                    [
                        f"{one.title}, {formatting.number(float(f'{rate:.3g}'))} requests/s: {plural(count, 'device')}"
                        for rate, count in steps
                    ]
                ),
                variant=index,
            )
        )
    for at, rate in enumerate(rates):
        cells = [Cell(text=money(line[at]), value=line[at]) if priced else whole(line[at]) for line in heights]
        rows.append((number_cell(float(f"{rate:.4g}")), *cells))
    return Figure(
        key="by-rate",
        title="Cost against the rate" if priced else "Devices against the rate",
        note="Each further replica is a step." if priced else "Each further replica is a step. Not all prices are known.",
        x=Axis(title="rate", scale="log", unit="requests/s"),
        y=Axis(title="cost per hour" if priced else "devices", scale="log", unit="USD/h" if priced else ""),
        series=tuple(series),
        marks=(Mark(text=f"{formatting.number(values['rate'])} requests/s", x=values["rate"], role="slo"),),
        table=table("by-rate-rows", "Against the rate", "", ("requests/s", *[one.title for one in sized]), rows),
    )


def _devices(one: Sized, rate: float) -> int:
    """Devices for a rate."""
    return math.ceil(rate / one.rate - 1e-9) * one.request.deployment.devices


_MOST_STEPS = 60
"""Steps of a line beyond which they are too narrow to be seen: then there is a point for each rate of the table."""


def _steps(one: Sized, rates: list[float]) -> list[tuple[float, int]]:
    """(rate, devices) along the rates: both ends of each step, whose edges are where a replica is full."""
    first, last = _devices(one, rates[0]), _devices(one, rates[len(rates) - 1])
    each = one.request.deployment.devices
    if (last - first) / each > _MOST_STEPS:
        return [(rate, _devices(one, rate)) for rate in rates]
    points = [(rates[0], first)]
    for replicas in range(round(first / each), round(last / each)):
        points += [(replicas * one.rate, replicas * each), (replicas * one.rate, (replicas + 1) * each)]
    return [*points, (rates[len(rates) - 1], last)]


def _by_batch(values: Values, sized: list[Sized]) -> Figure:
    """Line plot of what a device serves against TPOT, along the batch."""
    prompt, output = int(values["input_len"]), int(values["output_len"])
    series = []
    rows: list[tuple[Cell, ...]] = []
    for index, one in enumerate(sized):
        most = min(one.request.memory.max_batch(prompt + output), _SLOTS)
        batches = sorted({one.batch, most, *[2**power for power in range(9) if 2**power <= most]})
        points = [tpot_and_rate(one.request, count, prompt, output) for count in batches]
        devices = one.request.deployment.devices
        series.append(
            Series(
                name=one.title,
                kind="line",
                role="roof",
                x=tuple([tpot for tpot, _ in points]),
                y=tuple([rate / devices for _, rate in points]),
                labels=tuple(
                    [
                        f"{one.title}, batch {count:,}: TPOT {formatting.about(tpot)}, {rate / devices:.3g} requests/s each"
                        for count, (tpot, rate) in zip(batches, points, strict=True)
                    ]
                ),
                variant=index,
            )
        )
        rows += [
            (text_cell(one.title), whole(count), about_time(tpot), number_cell(float(f"{rate / devices:.3g}")))
            for count, (tpot, rate) in zip(batches, points, strict=True)
        ]
    limit = values["tpot_ms"] / 1e3
    return Figure(
        key="by-batch",
        title="What a device serves, against TPOT",
        note="Along the batch, up to what memory holds.",
        x=Axis(title="TPOT", scale="log", unit="s"),
        y=Axis(title="rate per device", scale="log", unit="requests/s"),
        series=tuple(series),
        marks=(Mark(text=f"TPOT {formatting.seconds(limit)}", x=limit, role="slo"),) if limit else (),
        table=table("by-batch-rows", "By batch", "", ("hardware", "batch", "TPOT", "requests/s per device"), rows),
    )


def _candidates(values: Values, sized: list[Sized], refused: list[tuple[str, str]]) -> Section:
    rows: list[tuple[Cell, ...]] = []
    for one in sized:
        cost, million = one.cost, _per_million(values, one)
        rows.append(
            (
                text_cell(one.title),
                whole(one.replicas),
                whole(one.devices),
                whole(one.batch),
                text_cell(one.binds),
                about_time(one.tpot),
                about_time(one.ttft),
                about_count(one.rate * values["output_len"]),
                Cell(text="not known") if cost is None else Cell(text=money(cost), value=cost),
                Cell(text="not known") if million is None else Cell(text=money(million), value=million),
            )
        )
    names = (
        "hardware", "replicas", "devices", "batch", "bound by", "TPOT", "TTFT alone", "tok/s each", "USD/h", "USD/1M out",
    )  # fmt: skip
    listed = [table("candidates", "Smallest deployment of each", "", names, rows)]
    if refused:
        without: list[tuple[Cell, ...]] = [(text_cell(name), text_cell(why)) for name, why in refused]
        listed.append(table("refused", "Not possible", "", ("hardware", "why"), without))
    return Section(key="hardware", title="Hardware", note="", figure=None, tables=tuple(listed))


def _notes(sized: list[Sized]) -> list[Assumption]:
    """What holds for every hardware, and the prices."""
    notes = [
        Assumption("utilization", UTILISATION, "default", "at most, of a replica's saturation rate"),
        Assumption("max_num_seqs", _SLOTS, "default", "most running sequences of a replica"),
    ]
    for one in sized:
        if one.price is not None:
            shipped = shipped_prices().get(one.request.hardware.accelerator.name) == one.price
            why = f"USD per hour of one {one.request.hardware.accelerator.title}"
            listed = f"{why}, prices/default.yaml: on demand" if shipped else why
            notes.append(Assumption(f"price {one.key}", one.price, "assumed" if shipped else "given", listed))
    return notes


def in_terminal(values: Values) -> str:
    """The command that searches all deployments for the same traffic."""
    hardware = ",".join(dict.fromkeys([str(values[f"hardware{key}"]) for key in PLACES if values[f"hardware{key}"]]))
    line = ["roofline", "plan", str(values["model"]), "--hardware", hardware, "--rate", f"{values['rate']:.10g}"]
    line += ["--input-len", str(int(values["input_len"])), "--output-len", str(int(values["output_len"]))]
    for key in ("ttft", "tpot"):
        line += [f"--{key}", f"{values[f'{key}_ms']:.10g} ms"] if values[f"{key}_ms"] else []
    if values["weights"]:
        option, dtype = WEIGHTS[values["weights"]]
        line += [f"--{option}", dtype]
    line += ["--kv-cache-dtype", str(values["kv"])] if values["kv"] else []
    line += ["--tp", str(values["tp"])] if values["tp"] != "0" else []
    return shell_line(tuple(line))
