"""What must hold of every answer, whatever was asked, and between the answers to two questions.

`broken` looks at one document. A relation asks once more (with a faster card, with more memory, with a quantity as it is
printed, as text, for the formula behind a number), and compares the two answers.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterator
from typing import Any

from roofline.formatting import about, fixed, quantity

Ask = Callable[[tuple[str, ...], bool], tuple[int, str]]
"""Runs a command line, with `--json` or without: its exit code and what it printed."""
Relation = Callable[[tuple[str, ...], dict[str, Any], Ask], Iterator[str]]
"""Looks at a command line and its answer, asks once more, and names what does not hold."""
_EXACT = 1e-9
_DIGITS = 17
"""Significant digits with which a float is written without loss."""


def broken(document: Any, place: str = "") -> Iterator[str]:
    """What does not hold in a document: of times, percentiles, shares, and sums of parts."""
    if isinstance(document, list):
        for index, entry in enumerate(document):
            yield from broken(entry, f"{place}[{index}]")
    if not isinstance(document, dict) or document.get("path") == "microbatch_overlap":  # a difference of times
        return
    for check in (_times, _percentiles, _parts, _memory):
        yield from (f"{place}: {problem}" for problem in check(document, place))
    for key, entry in document.items():
        share = key in ("mfu", "mbu") and isinstance(entry, int | float) and not place.startswith(".asked")
        if share and not 0 <= entry <= 1 + _EXACT:
            yield f"{place}.{key} is {entry}"
        yield from broken(entry, f"{place}.{key}")


def _times(entry: dict[str, Any], place: str) -> Iterator[str]:
    """Nothing is faster than the floor, a bound not above the estimate, which is in its interval.

    That of an operator begins at its bound, for each by itself is measured so; in a step operators overlap. Rates are not
    looked at.
    """
    rate = "per_s" in place or "speedup" in place or str(entry.get("unit")).startswith("tok")
    if "bound" not in entry or rate:
        return
    names = ("floor", "bound", "sum", "low", "estimate", "high")
    time = {name: entry[name] for name in names if isinstance(entry.get(name), int | float)}
    pairs = [
        ("floor", "bound"),
        ("bound", "sum"),
        ("bound", "estimate"),
        ("floor", "low"),
        ("low", "estimate"),
        ("estimate", "high"),
    ]
    if "floor" not in time and "operators[" in place:
        pairs.append(("bound", "low"))
    for less, more in pairs:
        if less in time and more in time and time[less] > time[more] * (1 + _EXACT):
            yield f"{less} {time[less]!r} is above {more} {time[more]!r}"


def _percentiles(entry: dict[str, Any], place: str) -> Iterator[str]:
    """Percentiles ascend; how far those of two runs are apart need not."""
    if ".error" in place:
        return
    names = [name for name in ("min", "p10", "p50", "p90", "p95", "p99", "max") if isinstance(entry.get(name), int | float)]
    values = [entry[name] for name in names]
    if values != sorted(values):
        yield f"{', '.join(names)} are not ascending: {values}"


def _parts(entry: dict[str, Any], place: str) -> Iterator[str]:
    """Totals are the sums of their parts, and those of a step the sums over its operators."""
    if place.endswith((".flops", ".bytes")) and "total" in entry:
        parts = sum(value for key, value in entry.items() if key != "total")
        if not math.isclose(parts, entry["total"], rel_tol=_EXACT):
            yield f"parts are {parts!r}, the total {entry['total']!r}"
    if "operators" in entry and "phase" in entry:
        for name in ("flops", "bytes"):
            parts = sum(one[name]["total"] for one in entry["operators"])
            if not math.isclose(parts, entry[name]["total"], rel_tol=_EXACT):
                yield f"{name} of operators are {parts!r}, of the step {entry[name]['total']!r}"


def _memory(entry: dict[str, Any], place: str) -> Iterator[str]:
    """What is held and what is left are what the engine may use; it fits where nothing is missing."""
    if place or "memory" not in entry or "budget_bytes" not in entry["memory"]:
        return
    memory = entry["memory"]
    names = ("weights_bytes", "tower_bytes", "activation_bytes", "reserved_bytes", "usable_bytes")
    held = sum(memory[name] for name in names)
    if memory["usable_bytes"] and "speculative" not in entry and not math.isclose(held, memory["budget_bytes"], rel_tol=_EXACT):
        yield f"{' + '.join(names)} are {held!r}, the budget {memory['budget_bytes']!r}"
    if memory["fits"] != (memory["missing_bytes"] == 0):
        yield f"fits is {memory['fits']}, and {memory['missing_bytes']!r} bytes are missing"


def _spans(document: dict[str, Any]) -> dict[str, dict[str, float | None]]:
    """The times of an analysis by what they are of."""
    found = dict(document.get("request") or {})
    for phase in document["phases"]:
        found |= {phase["phase"]: phase["time_s"], f"{phase['phase']}, all stages": phase["pipeline"]}
    return found


def faster(line: tuple[str, ...], document: dict[str, Any], ask: Ask) -> Iterator[str]:
    """Twice the bandwidth, or the highest of its peaks twice for every format, makes no time longer."""
    hardware = document["hardware"]
    for flag, value in (
        ("--bandwidth", f"{hardware['bandwidth'] * 2} B/s"),
        ("--peak-flops", f"{max(hardware['peak_flops'].values()) * 2} FLOP/s"),
    ):
        _, text = ask((*line, flag, value), True)
        now = _spans(json.loads(text))
        for name, span in _spans(document).items():
            for end in ("floor", "bound", "estimate"):
                before, after = span[end], now[name][end]
                if before is not None and after is not None and after > before * (1 + _EXACT):
                    yield f"{flag} '{value}': {name} {end} is {after!r}, and was {before!r}"


def larger(line: tuple[str, ...], document: dict[str, Any], ask: Ask) -> Iterator[str]:
    """Twice the memory: no fewer sequences, no shorter contexts, no smaller cache."""
    value = f"{document['memory']['capacity_bytes'] * 2} B"
    _, text = ask((*line, "--memory", value), True)
    before, after = document["memory"], json.loads(text)["memory"]
    for name in ("max_batch", "max_context", "kv_capacity_tokens", "usable_bytes", "fits"):
        if before[name] is not None and after[name] is not None and after[name] < before[name]:
            yield f"--memory '{value}': {name} is {after[name]!r}, and was {before[name]!r}"


def given_back(line: tuple[str, ...], document: dict[str, Any], ask: Ask) -> Iterator[str]:
    """Bandwidth and memory as they are printed, given as options: the same times and the same memory."""
    hardware = document["hardware"]
    shown = {"--bandwidth": quantity(hardware["bandwidth"], "B/s", _DIGITS), "--memory": f"{hardware['memory_bytes']} B"}
    _, text = ask((*line, *(part for pair in shown.items() for part in pair)), True)
    again = json.loads(text)
    if again["memory"] != document["memory"]:
        yield f"{shown}: another memory"
    for name, span in _spans(document).items():
        for end, value in span.items():
            now = _spans(again)[name][end]
            if (value is None) != (now is None) or (value is not None and now is not None and not math.isclose(value, now)):
                yield f"{shown}: {name} {end} is {now!r}, and was {value!r}"


def as_text(line: tuple[str, ...], document: dict[str, Any], ask: Ask) -> Iterator[str]:
    """What a person reads has the numbers of the JSON: bound, floor and estimate of each step, weights, and the batch."""
    _, text = ask(line, False)
    words = " ".join(text.split())
    for phase in document["phases"]:
        span = phase["time_s"]
        pipeline = document["deployment"]["pipeline_parallel"] > 1 or "encoder" in document
        if span["bound"] is None or pipeline or "speculative" in document or phase["phase"] == "decode":
            continue  # several rows are of the sums of what the steps have
        shown = {"bound": fixed(span["bound"], "s", 3)} | ({"estimate": about(span["estimate"])} if span["estimate"] else {})
        for end, value in shown.items():
            if not _says(words, value):
                yield f"as text: {end} of {phase['phase']}, {value}, is not in it"
    batch = document["memory"]["max_batch_of_steps"]
    if document["memory"]["fits"] and batch is not None and batch < 10**6 and not _says(words, f"{batch:,}"):
        yield f"as text: the maximum batch size, {batch:,}, is not in it"


def _says(text: str, number: str) -> bool:
    """Whether a number is in a text, and not only digits of another."""
    return re.search(rf"(?<![\d.,]){re.escape(number)}(?![\d])", text) is not None


EXPLAINED: dict[str, Callable[[dict[str, Any]], Any]] = {
    "ttft bound": lambda document: document["request"]["ttft_s"]["bound"],
    "ttft estimate": lambda document: document["request"]["ttft_s"]["estimate"],
    "ttft floor": lambda document: document["request"]["ttft_s"]["floor"],
    "tpot bound": lambda document: document["request"]["tpot_s"]["bound"],
    "tpot estimate": lambda document: document["request"]["tpot_s"]["estimate"],
    "e2e bound": lambda document: document["request"]["e2e_s"]["bound"],
    "prefill bound": lambda document: _phase(document, "prefill")["time_s"]["bound"],
    "decode estimate": lambda document: _phase(document, "decode")["time_s"]["estimate"],
    "decode floor": lambda document: _phase(document, "decode")["time_s"]["floor"],
    "kv_bytes_per_token": lambda document: document["memory"]["kv_bytes_per_token"],
    "weight_bytes": lambda document: document["memory"]["weights_bytes"],
    "max_batch": lambda document: document["memory"]["max_batch"],
    "max_context": lambda document: document["memory"]["max_context"],
    "parameters": lambda document: document["model"]["parameters"]["total"],
}
"""Quantities of `explain`, and where the analysis has them."""


def _phase(document: dict[str, Any], name: str) -> dict[str, Any]:
    return next(phase for phase in document["phases"] if phase["phase"] == name)


def explained(line: tuple[str, ...], document: dict[str, Any], ask: Ask) -> Iterator[str]:
    """`explain` comes to the number that `analyze` has, for each quantity that the analysis has and the formula is known of."""
    _, model, *options = line
    wanted = list(EXPLAINED)
    # two of them, which differ from line to line
    for name in (wanted[sum(map(ord, "".join(line))) % len(wanted)], wanted[len("".join(line)) % len(wanted)]):
        try:
            value = EXPLAINED[name](document)
        except (KeyError, TypeError, StopIteration):
            continue
        code, text = ask(("explain", model, *name.split(), *options), True)
        if value is None or code != 0:
            continue
        found = json.loads(text)["value"]
        if found is not None and not math.isclose(found, value, rel_tol=1e-6):
            yield f"explain {name} is {found!r}, analyze has {value!r}"


RELATIONS: dict[str, tuple[Relation, ...]] = {"analyze": (faster, larger, given_back, as_text, explained)}
"""By command."""
