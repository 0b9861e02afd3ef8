"""Kinds of arrivals, and workloads made of them."""

from __future__ import annotations

import math
from itertools import islice, pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from simulated import sent

from roofline.errors import InputError
from roofline.serving.simulation.arrivals import ARRIVALS, Arrivals, Clients, parse_arrivals
from roofline.serving.simulation.request import Request
from roofline.serving.simulation.workload import Workload, read_workload
from roofline.specs.source import Assumption


def times(text: str, many: int = 200_000) -> np.ndarray:
    """The first arrivals."""
    arrivals = parse_arrivals(text)
    assert isinstance(arrivals, Arrivals)
    found: list[np.ndarray] = []
    for part in arrivals.times(np.random.default_rng(5)):
        found.append(part)
        if sum(map(len, found)) >= many:
            return np.concatenate(found)[:many]
    raise AssertionError(text)


@pytest.mark.parametrize(
    ("text", "cv"),
    [("poisson:8", 1.0), ("gamma:8:2", 2.0), ("gamma:480/min:0.5", 0.5), ("constant:8", 0.0), ("gamma:8:0", 0.0)],
)
def test_rate_and_spread(text: str, cv: float) -> None:
    """Eight a second, and standard deviation over mean as written."""
    gaps = np.diff(times(text))
    assert gaps.min() >= 0
    assert gaps.mean() == pytest.approx(1 / 8, rel=0.02)
    assert gaps.std() / gaps.mean() == pytest.approx(cv, abs=0.03)


def test_bursts() -> None:
    """Eight a second on average, though none come in pauses: within a burst four times as fast, and bursts of 5 s."""
    found = times("bursty:8:4:5", 400_000)
    gaps = np.diff(found)
    assert gaps.min() >= 0
    assert len(found) / found[-1] == pytest.approx(8, rel=0.1)
    assert np.median(gaps) == pytest.approx(math.log(2) / 32, rel=0.05)  # of an exponential at 32/s, pauses being few
    # interrupted Poisson: squared cv of the gaps = 1 + 2 rate on-time^2 off-time / (on + off)^2, Kuczura 1973
    on, off, rate = 5.0, 15.0, 32.0
    squared = 1 + 2 * rate * on**2 * off**2 / (on + off) ** 2 / on
    assert (gaps.std() / gaps.mean()) ** 2 == pytest.approx(squared, rel=0.15)


def test_all_at_once_and_closed() -> None:
    """No rate; clients wait."""
    everything = parse_arrivals("at-once:1k")
    assert isinstance(everything, Arrivals)
    assert (everything.rate, everything.count) == (None, 1024)
    assert parse_arrivals("closed:32:2 s") == Clients(32, 2.0)
    assert parse_arrivals("closed:4") == Clients(4)
    assert parse_arrivals("closed:4:0:500 ms") == Clients(4, 0.0, 0.5)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("poison:8", r"unknown arrivals 'poison'.*Did you mean poisson\?.*poisson:RATE"),
        ("poisson", "must be poisson:RATE"),
        ("poisson:8:9", "must be poisson:RATE"),
        ("poisson:0", "a number of requests/s above 0"),
        ("gamma:8", "must be gamma:RATE:CV"),
        ("gamma:8:-1", "standard deviation of the times"),
        ("bursty:8:1", "must be more than the mean one"),
        ("closed:0", "clients"),
        ("closed:1:x", "closed:1:x"),
        ("closed:1:2:3:4", "must be closed:CLIENTS"),
        ("at-once:0", "N"),
    ],
)
def test_wrong_arrivals(text: str, message: str) -> None:
    """What is wrong, and what is allowed."""
    with pytest.raises(InputError, match=message):
        parse_arrivals(text)


def test_every_kind_reads_its_form() -> None:
    """The forms that an error lists."""
    examples = {
        "poisson": "poisson:8", "gamma": "gamma:8:2", "constant": "constant:8", "bursty": "bursty:8:4:30 s",
        "closed": "closed:3", "at-once": "at-once",
    }  # fmt: skip
    assert set(examples) == set(ARRIVALS)
    for text in examples.values():
        parse_arrivals(text)


def asked(**given: Any) -> tuple[Workload, list[Assumption]]:
    """A workload, and what was assumed."""
    notes: list[Assumption] = []
    return read_workload(notes=notes, **given), notes


def trace_file(folder: Path, arrivals: bool = True) -> Path:
    """Three requests, the first at 10 s."""
    path = folder / "trace.csv"
    rows = [(10, 100, 5), (12, 200, 6), (16, 300, 7)]
    if arrivals:
        path.write_text("arrived_at,num_prefill_tokens,num_decode_tokens\n" + "".join(f"{a},{p},{d}\n" for a, p, d in rows))
    else:
        path.write_text("num_prefill_tokens,num_decode_tokens\n" + "".join(f"{p},{d}\n" for _, p, d in rows))
    return path


def shown(requests: list[Request]) -> list[tuple[float, int, int]]:
    """Arrival, prompt, answer."""
    return [(request.arrival_time, request.num_prompt_tokens, request.max_tokens) for request in requests]


def test_a_trace_begins_at_its_first_arrival(tmp_path: Path) -> None:
    """Two and four seconds between; at three times its rate (2 gaps in 6 s) they are a third of that."""
    path = trace_file(tmp_path)
    found, _ = asked(trace=path)
    assert shown(list(found.open_requests((0,)))) == [(0, 100, 5), (2, 200, 6), (6, 300, 7)]
    faster, notes = asked(trace=path, rate="1")
    assert [request.arrival_time for request in faster.open_requests((0,))] == pytest.approx([0, 2 / 3, 2])
    assert faster.rate == pytest.approx(1)
    assert any(note.name == "rate" for note in notes)
    assert [request.arrival_time for request in asked(trace=path, until="3 s")[0].open_requests((0,))] == [0, 2]
    assert len(list(asked(trace=path, requests=1)[0].open_requests((0,)))) == 1


def test_lengths_of_a_trace_with_other_arrivals(tmp_path: Path) -> None:
    """Prompts keep their answers."""
    found, _ = asked(trace=trace_file(tmp_path, arrivals=False), rate="2", requests=50)
    requests = list(found.open_requests((0,)))
    assert {(request.num_prompt_tokens, request.max_tokens) for request in requests} <= {(100, 5), (200, 6), (300, 7)}
    assert len(requests) == 50


def test_seeds() -> None:
    """Equal seeds are equal requests, others are others."""
    found, notes = asked(rate=3, input_len="lognormal:100:50", output_len="uniform:1:9")
    one, same, other = (shown(list(islice(found.open_requests((seed, 0)), 100))) for seed in (1, 1, 2))
    assert one == same != other
    assert found.num_expected == 10_000
    assert any(note.name == "requests" for note in notes)


def test_classes_of_a_file(tmp_path: Path) -> None:
    """Merged in the order of arrival, each at its rate; `--rate` scales all."""
    path = tmp_path / "two.yaml"
    path.write_text(
        "schema_version: 1\nkind: traffic\nclasses:\n"
        "  - {name: chat, rate: 3, input_len: 100, output_len: 10}\n"
        "  - {name: batch, rate: 1, input_len: 900, output_len: 1, burstiness: 0}\n"
    )
    found, _ = asked(workload=path, requests=8000)
    requests = list(found.open_requests((0, 0)))
    assert [request.index for request in requests] == list(range(8000))
    assert all(left.arrival_time <= right.arrival_time for left, right in pairwise(requests))
    assert sum(request.class_index for request in requests) / 8000 == pytest.approx(1 / 4, abs=0.02)
    assert {(request.class_index, request.num_prompt_tokens) for request in requests} == {(0, 100), (1, 900)}
    assert asked(workload=path, rate=8)[0].rate == pytest.approx(8)


def test_clients_of_several_classes(tmp_path: Path) -> None:
    """By the share of their clients."""
    path = tmp_path / "two.yaml"
    path.write_text(
        "schema_version: 1\nkind: traffic\nclasses:\n"
        "  - {name: chat, concurrency: 3, input_len: 100, output_len: 10}\n"
        "  - {name: batch, concurrency: 1, input_len: 900, output_len: 1}\n"
    )
    found, _ = asked(workload=path, requests=4000)
    requests = sent(found)
    assert found.closed
    assert len(requests) == 4000
    assert sum(request.class_index for request in requests) / 4000 == pytest.approx(1 / 4, abs=0.03)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({}, "no arrivals: give --rate"),
        ({"rate": 1}, "--input-len is missing"),
        ({"rate": "x", "input_len": 1, "output_len": 1}, "--rate: must be"),
        ({"workload": "closed:2", "rate": 1, "input_len": 1, "output_len": 1}, "--rate: clients of a closed loop"),
        ({"workload": "at-once:5", "rate": 1, "input_len": 1, "output_len": 1}, "all come at once"),
        ({"workload": "nowhere.yaml"}, "no such file"),
        ({"trace": "nowhere.csv"}, "no such file"),
        ({"rate": 1, "input_len": 1, "output_len": 1, "requests": 0}, "--requests"),
        ({"rate": 1, "input_len": 1, "output_len": 1, "until": "0 s"}, "--until: must be a time above 0"),
    ],
)
def test_what_is_missing_or_too_much(given: dict[str, Any], message: str) -> None:
    """By flag."""
    with pytest.raises(InputError, match=message):
        asked(**given)


def test_a_trace_has_its_lengths(tmp_path: Path) -> None:
    """And a trace without arrivals needs a rate."""
    with pytest.raises(InputError, match="the trace has its own lengths"):
        asked(trace=trace_file(tmp_path), input_len=5)
    with pytest.raises(InputError, match=r"trace.csv has no arrivals: give --rate"):
        asked(trace=trace_file(tmp_path, arrivals=False))
