"""A trace of a run: valid by the rules of its format, and true to what happened."""

from __future__ import annotations

import csv
import gzip
import json
import signal
import sys
from collections import defaultdict
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from simulated import AffineStepTime, LinearCosts, Served, serve, world

from roofline.errors import InputError
from roofline.serving.simulation.kv_cache import EngineConfig
from roofline.serving.simulation.perfetto import Trace
from roofline.serving.simulation.preemption import PreemptionPolicy
from roofline.serving.simulation.request import Request
from roofline.serving.simulation.run import Interrupts
from roofline.serving.simulation.simulate import simulate
from roofline.serving.simulation.step_log import END, RUN, SHED

Event = dict[str, Any]
MODEL, HARDWARE = "llama-3.1-8b", "a100-sxm-80gb"
WORLDS = 150
STEPS, COPIES = 1, "copies to or from the host"
WAITING = {"queued", "preempted", "swapped"}
NEEDED = {
    "X": {"name", "pid", "tid", "ts", "dur"}, "C": {"name", "pid", "ts", "args"}, "M": {"name", "pid", "args"},
    "b": {"name", "cat", "id", "pid", "tid", "ts"}, "e": {"name", "cat", "id", "pid", "tid", "ts"},
    "i": {"name", "s", "pid", "tid", "ts"},
}  # fmt: skip
"""Of each kind of event, by the tables of "Trace Event Format" (complete, counter, metadata, nestable async, instant)."""


def read(path: Path) -> list[Event]:
    """The events of a file, which is as its format demands."""
    text = (gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()).decode()
    found = json.loads(text)
    assert found["displayTimeUnit"] == "ms"
    events: list[Event] = found["traceEvents"]
    named = {(event["pid"], event.get("tid")) for event in events if event["ph"] == "M"}
    ends: dict[Any, int] = defaultdict(int)
    open_: dict[Any, Event] = {}
    for event in events:
        kind = event["ph"]
        assert NEEDED[kind] <= event.keys(), event
        assert all(isinstance(event[key], int) and event[key] >= 0 for key in ("pid", "tid", "ts", "dur") if key in event), (
            event
        )
        assert kind == "M" or (event["pid"], None) in named, f"a process without a name: {event}"
        if kind == "X":  # those of a track neither overlap nor go back in time
            track = event["pid"], event["tid"]
            assert track in named, f"a track without a name: {event}"
            assert event["ts"] >= ends[track], (event, ends[track])
            ends[track] = event["ts"] + event["dur"]
        elif kind == "C":
            assert event["ts"] >= ends[event["pid"], event["name"]]
            ends[event["pid"], event["name"]] = event["ts"]
            assert all(isinstance(value, int) and value >= 0 for value in event["args"].values())
        elif kind in "be":
            track = event["pid"], event["cat"], event["id"]
            if kind == "b":
                assert track not in open_
                assert event["ts"] >= ends[track]
                open_[track] = event
            else:
                begun = open_.pop(track)
                assert begun["name"] == event["name"]
                assert event["ts"] >= begun["ts"]
                ends[track] = event["ts"]
    assert not open_
    return events


def lives(events: list[Event]) -> dict[int, list[tuple[str, int, int]]]:
    """What each request does, in the order of time: what, from, to."""
    found: dict[int, list[tuple[str, int, int]]] = defaultdict(list)
    begun: dict[Any, Event] = {}
    for event in events:
        if event["ph"] == "X" and event["tid"] != STEPS:
            found[event["args"]["request"]].append((event["name"], event["ts"], event["ts"] + event["dur"]))
        elif event["ph"] == "b":
            begun[event["cat"], event["id"]] = event
        elif event["ph"] == "e":
            first = begun.pop((event["cat"], event["id"]))
            found[first["args"]["request"]].append((first["name"], first["ts"], event["ts"]))
    return {request: sorted(parts, key=lambda part: part[1:]) for request, parts in found.items()}


def steps(events: list[Event]) -> list[Event]:
    """Slices of the tracks of steps."""
    return [event for event in events if event["ph"] == "X" and event["tid"] == STEPS]


def table(row: list[float], names: Sequence[str]) -> list[dict[str, float]]:
    """Rows of a log, by the names of their columns."""
    return [dict(zip(names, part, strict=True)) for part in zip(*[iter(row)] * len(names), strict=True)]


def traced(path: Path, seed: int, *, stepwise: bool = False) -> tuple[list[Event], Served]:
    """A random world, and its trace."""
    with Trace(path) as trace:
        found = world(seed).run(stepwise, trace.watch)
    return read(path), found


def test_by_hand(tmp_path: Path) -> None:
    """Prompts of 4 tokens at 0 s and 0.5 s; a step takes 1 s; a block holds 4 tokens.

    The second waits for the end of the first step; it is computed beside the first's second token, and both decode: 3 and 2
    tokens are done after 3 s.
    """
    path = tmp_path / "trace.json"
    with Trace(path, {"tool": "test"}) as trace:
        requests = [Request(0, 0.0, 4, 3), Request(1, 0.5, 4, 2)]
        serve(
            "vllm-v1",
            requests,
            AffineStepTime(1.0),
            EngineConfig(10, 4, max_num_seqs=4, max_num_batched_tokens=16),
            watch=trace.watch,
        )
    events = read(path)
    assert [(event["name"], event["ts"], event["dur"]) for event in steps(events)] == [
        ("prefill", 0, 10**6), ("prefill and decode", 10**6, 10**6), ("decode", 2 * 10**6, 10**6),
    ]  # fmt: skip
    assert steps(events)[0]["args"] == {
        "prompt tokens": 4, "cached of prompts": 0, "requests": [0], "KV blocks taken": 1,
    }  # fmt: skip
    assert steps(events)[2]["args"] == {"steps": 1, "sequences": 2, "cached tokens": 9, "KV blocks taken": 4}
    assert lives(events) == {
        0: [("prefill", 0, 10**6), ("decode", 10**6, 3 * 10**6)],
        1: [("queued", 500_000, 10**6), ("prefill", 10**6, 2 * 10**6), ("decode", 2 * 10**6, 3 * 10**6)],
    }
    last = [event for event in events if event["ph"] == "X" and event["tid"] != STEPS][-1]["args"]
    assert last == {"request": 1, "prompt": 4, "answer": 2, "ttft_s": 1.5, "e2e_s": 2.5}
    counted = [(event["name"], event["ts"], *event["args"].values()) for event in events if event["ph"] == "C"]
    assert counted == [
        ("running", 0, 1), ("KV blocks", 0, 9), ("waiting", 10**6, 1),
        ("running", 10**6, 2), ("KV blocks", 10**6, 7), ("waiting", 2 * 10**6, 0),
        ("KV blocks", 2 * 10**6, 6), ("running", 3 * 10**6, 0), ("KV blocks", 3 * 10**6, 10),
    ]  # fmt: skip


def test_copies_stand_before_their_step(tmp_path: Path) -> None:
    """Two requests of 4 + 8 tokens in 4 blocks of 4; a copy takes 1 s.

    When both need a third block the second goes to the host, and comes back after the first.
    """
    path = tmp_path / "trace.json"
    swapping = PreemptionPolicy("swap", LinearCosts(0.0, 0.0, 1.0))
    with Trace(path) as trace:
        requests = [Request(0, 0.0, 4, 8), Request(1, 0.0, 4, 8)]
        serve(
            "vllm-v1",
            requests,
            AffineStepTime(1.0),
            EngineConfig(4, 4, max_num_seqs=4, max_num_batched_tokens=16),
            preemption=swapping,
            watch=trace.watch,
        )
    events = read(path)
    copies = [event for event in steps(events) if event["name"] == COPIES]
    assert [event["dur"] for event in copies] == [10**6, 10**6]
    whole = lives(events)
    assert [name for name, *_ in whole[1]] == ["prefill", "decode", "swapped", "decode"]
    assert copies[0]["ts"] == whole[1][2][1]
    assert copies[1]["ts"] == whole[1][2][2] == whole[0][-1][2]


@pytest.mark.parametrize("seed", range(WORLDS))
def test_random_worlds(tmp_path: Path, seed: int) -> None:
    """Every request from its arrival to its end without a gap; steps as long as the server was busy."""
    events, found = traced(tmp_path / "trace.json", seed)
    whole = lives(events)
    rows = table(found.log.ends, END)
    waited = [row for row in table(found.log.sheds, SHED) if round(row["shed"] * 1e6) > round(row["arrived"] * 1e6)]
    assert whole.keys() == {row["index"] for row in (*rows, *waited)}
    for row in waited:
        assert [part[1:3] for part in whole[int(row["index"])]] == [(round(row["arrived"] * 1e6), round(row["shed"] * 1e6))]
    for row in rows:
        parts = whole[int(row["index"])]
        assert (parts[0][1], parts[-1][2]) == (round(row["arrived"] * 1e6), round(row["ended"] * 1e6))
        assert all(before[2] == after[1] for before, after in pairwise(parts)), parts
        held = [name for name, *_ in parts]
        assert held.count("preempted") + held.count("swapped") <= row["preemptions"]
        assert "prefill" in held
    runs = table(found.log.runs, RUN)
    busy = sum(row["ends"] - row["begins"] for row in runs)
    assert sum(event["dur"] for event in steps(events)) == pytest.approx(busy * 1e6, abs=len(runs))
    copied = sum(event["dur"] for event in steps(events) if event["name"] == COPIES)
    assert copied == pytest.approx(sum(row["lead"] for row in runs) * 1e6, abs=len(runs))
    decoded = sum(event["args"]["steps"] for event in steps(events) if event["name"] == "decode")
    assert decoded == sum(row["steps"] for row in runs if not row["prompt_tokens"])


@pytest.mark.parametrize("seed", range(0, WORLDS, 3))
def test_step_by_step_is_the_same_but_for_the_slices_of_steps(tmp_path: Path, seed: int) -> None:
    """What requests do, to the rounding; the steps with prompts, one by one; as many decode steps."""
    one, other = (traced(tmp_path / f"{name}.json", seed, stepwise=name == "all")[0] for name in ("runs", "all"))
    first, second = lives(one), lives(other)
    assert first.keys() == second.keys()
    for request, parts in first.items():
        assert [name for name, *_ in parts] == [name for name, *_ in second[request]]
        for (_, *here), (_, *there) in zip(parts, second[request], strict=True):
            assert here == pytest.approx(there, abs=2, rel=1e-8)
    prompts = [[event for event in steps(events) if event["name"] not in {"decode", COPIES}] for events in (one, other)]
    assert [event["args"] for event in prompts[0]] == [event["args"] for event in prompts[1]]
    decodes = [[event for event in steps(events) if event["name"] == "decode"] for events in (one, other)]
    assert sum(event["args"]["steps"] for event in decodes[0]) == len(decodes[1])
    assert len(decodes[0]) <= len(decodes[1])


def test_simulate_packs_it(tmp_path: Path) -> None:
    """Two replicas that swap: packed and plain hold the same, twice the same bytes, and what the rows say."""
    given: dict[str, Any] = {
        "rate": 10, "input_len": "lognormal:1155:900:6000", "output_len": 211, "requests": 400, "memory": "20.5 GiB",
        "preemption": "swap", "replicas": 2,
    }  # fmt: skip
    plain, packed, again = (tmp_path / name for name in ("trace.json", "trace.json.gz", "again.json.gz"))
    result = simulate(MODEL, HARDWARE, perfetto=plain, rows=tmp_path / "rows.csv", **given)
    simulate(MODEL, HARDWARE, perfetto=packed, **given)
    simulate(MODEL, HARDWARE, perfetto=again, **given)
    assert gzip.decompress(packed.read_bytes()) == plain.read_bytes()
    assert packed.read_bytes() == again.read_bytes()
    assert len(packed.read_bytes()) < len(plain.read_bytes()) / 5
    events = read(packed)
    assert result.requests.preemptions > 10
    assert sum(event["ph"] == "b" and event["name"] == "swapped" for event in events) == result.requests.preemptions
    copied = sum(event["dur"] for event in steps(events) if event["name"] == COPIES)
    assert copied == pytest.approx(result.preemption["swap_s"] * 1e6, rel=1e-4)
    whole = lives(events)
    with (tmp_path / "rows.csv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == len(whole) == 400
    pids = {event["args"]["request"]: event["pid"] for event in events if event["ph"] == "X" and event["tid"] != STEPS}
    for row in rows:
        parts = whole[int(row["request"])]
        assert parts[0][1] == round(float(row["arrived_at"]) * 1e6)
        assert parts[-1][2] == round(float(row["finished_at"]) * 1e6)
        assert pids[int(row["request"])] == int(row["replica"]) + 1


def test_who_is_refused_is_seen(tmp_path: Path) -> None:
    """Prompts of 10 and of 900 tokens where a sequence has 500: every other one."""
    trace = tmp_path / "requests.csv"
    lines = [f"{at},{prompt},5" for at, prompt in enumerate([10, 900] * 4)]
    trace.write_text("\n".join(["arrived_at,num_prefill_tokens,num_decode_tokens", *lines]), encoding="utf-8")
    path = tmp_path / "trace.json"
    simulate(MODEL, HARDWARE, trace=trace, max_model_len=500, perfetto=path)
    events = read(path)
    refused = [event for event in events if event["ph"] == "i"]
    assert [(event["ts"], event["args"]["request"]) for event in refused] == [(at * 10**6, at) for at in (1, 3, 5, 7)]
    assert lives(events).keys() == {0, 2, 4, 6}


def test_refusals(tmp_path: Path) -> None:
    """Before anything is done, and nothing is left behind."""
    given: dict[str, Any] = {"rate": 4, "input_len": 100, "output_len": 10, "requests": 10}
    with pytest.raises(InputError, match="--perfetto shows one run: leave out --replications"):
        simulate(MODEL, HARDWARE, perfetto=tmp_path / "trace.json", replications=2, **given)
    with pytest.raises(InputError, match=r"the name must end in \.json or \.json\.gz"):
        simulate(MODEL, HARDWARE, perfetto=tmp_path / "trace.pftrace", **given)
    with pytest.raises(InputError, match="No such file or directory"):
        simulate(MODEL, HARDWARE, perfetto=tmp_path / "none" / "trace.json", **given)
    assert list(tmp_path.iterdir()) == []


def test_what_fails_leaves_nothing(tmp_path: Path) -> None:
    """A file that was there stays."""
    path = tmp_path / "trace.json"
    path.write_text("old", encoding="utf-8")
    with pytest.raises(RuntimeError, match="stop"), Trace(path):
        raise RuntimeError("stop")
    assert [one.name for one in tmp_path.iterdir()] == ["trace.json"]
    assert path.read_text(encoding="utf-8") == "old"


def test_a_run_that_is_cut_off_has_an_end(tmp_path: Path) -> None:
    """Whoever still ran did so up to the last step."""
    path = tmp_path / "trace.json"

    class StoppedError(Exception):
        pass

    ended = 0

    def tell(replica: Any) -> Any:
        heard = trace.watch(replica)

        def count(event: tuple[Any, ...]) -> None:
            nonlocal ended
            heard(event)
            ended += event[0] == "end"
            if ended == 3:
                raise StoppedError

        return count

    with Trace(path) as trace:
        requests = [Request(index, 0.0, 4, 3 * index + 1) for index in range(6)]
        with pytest.raises(StoppedError):
            serve(
                "vllm-v1",
                requests,
                AffineStepTime(1.0),
                EngineConfig(100, 4, max_num_seqs=8, max_num_batched_tokens=64),
                watch=tell,
            )
    events = read(path)
    last = max(event["ts"] + event["dur"] for event in steps(events))
    assert {parts[-1][2] for request, parts in lives(events).items() if request > 2} == {last}


def test_memory_does_not_grow_with_the_run(tmp_path: Path) -> None:
    """Requests that have ended are forgotten, and events go to the file a part at a time."""
    with Trace(tmp_path / "trace.json") as trace:
        for seed in range(3):
            world(seed).run(False, trace.watch)
        assert all(not watch._now for watch in trace._watches)
        for at in range(20_000):
            trace.put(f'"C","pid":1,"ts":{at},"name":"x","args":{{"n":1}}')
            assert len(trace._lines) < 5000


@pytest.mark.parametrize("after", [2000, 20_000])
def test_ctrl_c_anywhere_leaves_a_valid_file(tmp_path: Path, after: int) -> None:
    """A signal after so many lines of Python in the trace itself: what was written is whole."""
    path = tmp_path / "trace.json"
    seen = 0

    def breaking(frame: Any, event: str, _: Any) -> Any:
        nonlocal seen
        if frame.f_code.co_filename.endswith("perfetto.py") and event == "line":
            seen += 1
            if seen == after:
                sys.settrace(None)
                signal.raise_signal(signal.SIGINT)
        return breaking

    before = sys.gettrace()
    with Interrupts() as interrupts:
        sys.settrace(breaking)
        try:
            given: dict[str, Any] = {"rate": 20, "input_len": 400, "output_len": 30, "requests": 2000}
            found = simulate(MODEL, HARDWARE, perfetto=path, interrupts=interrupts, **given)
        finally:
            sys.settrace(before)
    assert found.interrupted
    assert len(lives(read(path))) >= found.requests.completed > 0
