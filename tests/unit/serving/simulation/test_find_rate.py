"""`simulate --find-rate`: the rate is that of a queue whose percentiles are known, and what binds is what fails."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from roofline.errors import InputError
from roofline.report.simulation.page import first_view
from roofline.report.simulation.summary import verdict
from roofline.serving.simulation.find_rate import TOLERANCE, _Search
from roofline.serving.simulation.result import Simulation
from roofline.serving.simulation.run import Interrupts
from roofline.serving.simulation.simulate import simulate

MODEL, HARDWARE = "llama-3.1-8b", "a100-sxm-80gb"


def search(**given: Any) -> Simulation:
    """The usual model on the usual hardware."""
    return simulate(MODEL, HARDWARE, find_rate=True, **given)


def waits_within(load: float, wait: float) -> float:
    """Share of the requests of an M/D/1 queue that wait at most `wait` service times.

    Source: Crommelin 1932, Delay probability formulae when the holding times are constant.
    """
    terms = (load * (done - wait) for done in range(int(wait) + 1))
    return (1 - load) * math.fsum(at**done / math.factorial(done) * math.exp(-at) for done, at in enumerate(terms))


@pytest.mark.slow
def test_the_rate_of_a_known_queue() -> None:
    """One request at a time, outputs of one token: M/D/1.

    An objective of 3.5 services (a wait of 2.5) holds for 90 % of the requests at a load that Crommelin's formula has;
    the interval over five seeds has it.
    """
    server: dict[str, Any] = {"input_len": 1000, "output_len": 1, "max_num_seqs": 1, "max_num_batched_tokens": 1000}
    service = simulate(MODEL, HARDWARE, workload="at-once:1", basis="bound", **server).ttft_s.mean
    assert service is not None
    low, high = 0.0, 1.0
    for _ in range(40):
        low, high = ((low + high) / 2, high) if waits_within((low + high) / 2, 2.5) >= 0.9 else (low, (low + high) / 2)
    result = search(basis="bound", ttft=3.5 * service, percentile=90, requests=6_000, **server)
    found = result.find_rate
    assert found is not None
    assert found["rate"] * service == pytest.approx(low, rel=0.03)
    assert found["low"] * service < low * 1.02
    assert found["high"] * service > low * 0.98
    assert found["binds"] == "ttft"
    assert len(found["rates"]) == len(found["seeds"]) == 5
    assert found["percentile"] == 0.9
    assert result.workload["rate"] == pytest.approx(found["rate"], rel=1e-3)


@dataclass(frozen=True)
class Answered:
    """Of a run what the search looks at."""

    classes: list[dict[str, Any]]
    workload: dict[str, Any]
    within_slo: float
    saturated: bool = False
    fits: bool = True
    interrupted: bool = False
    find_rate: dict[str, Any] | None = None


def answering(**limits: float) -> Any:
    """A server for two classes: up to a rate for each objective, which grows by 1 with the seed, 95 % meet it, and beyond less.

    The class "hasty" has both objectives, and misses them by ten times as much as the class "patient".
    """
    rates: list[tuple[float, int, Any]] = []

    def simulate(model: str, hardware: str, *, rate: float, seed: int, **options: Any) -> Answered:
        rates.append((rate, seed, options.get("requests")))
        classes = []
        for slope in (1.0, 0.1):
            within = {name: 0.95 - max(rate / (limits[name] + seed) - 1, 0) * slope for name in limits}
            classes.append({f"within_{name}": within.get(name) for name in ("ttft", "tpot", "slo")})
            classes[-1] |= {"name": f"slope {slope}", "within_slo": min(within.values())}
        described = [{"percentile": 0.9, **{f"{name}_s": limits.get(name) for name in ("ttft", "tpot")}}] * 2
        return Answered(classes, {"classes": described, "rate": rate}, min(one["within_slo"] for one in classes))

    simulate.rates = rates  # type: ignore[attr-defined]
    return simulate


@pytest.mark.parametrize(("limits", "binds"), [({"ttft": 12.0, "tpot": 9.0}, "tpot"), ({"ttft": 9.0, "tpot": 12.0}, "ttft")])
def test_the_highest_rate_of_each_seed(limits: dict[str, float], binds: str) -> None:
    """90 % are met up to 1.05 x 9 with seed 0, and 1.05 x (9 + k) with seed k: the mean of three is 10.5.

    The deviation of 9.45, 10.5 and 11.55 is 1.05, t(0.975, 2) = 4.3027: 10.5 +- 4.3027 x 1.05/sqrt(3) = 10.5 +- 2.608. A search
    ends with the rate that holds, at most `TOLERANCE` below the limit.
    """
    simulate = answering(**limits)
    search = _Search(simulate, "m", "h", {"requests": 7}, None, 3, 0)
    result: Any = search.run(4.0)
    found = result.find_rate
    for rate, limit in zip(found["rates"], (9.45, 10.5, 11.55), strict=True):
        assert limit / (1 + TOLERANCE) - 1e-3 <= rate <= limit
    assert (found["seeds"], found["binds"], found["percentile"]) == ([0, 1, 2], binds, 0.9)
    mean = sum(found["rates"]) / 3
    assert found["rate"] == pytest.approx(mean)
    assert found["high"] - mean == pytest.approx(mean - found["low"]) == pytest.approx(2.608, rel=0.05)
    assert result.workload["rate"] == pytest.approx(mean, rel=1e-3)
    assert simulate.rates[0] == (4.0, 0, 1)  # whether it fits, and what the classes are
    assert {requests for _, _, requests in simulate.rates[1:]} == {7}
    assert len({(rate, seed) for rate, seed, requests in simulate.rates[1:-1]}) == len(simulate.rates) - 2  # none twice
    beyond = next(point for point in found["points"] if point["seed"] == 0 and not point["holds"])
    worst = 0.95 - (beyond["rate"] / 9 - 1)
    assert beyond[f"within_{binds}"] == pytest.approx(worst)  # of the class that is worse off


def test_not_even_the_lowest_rate_holds() -> None:
    """Where 95 % are wanted of 94 %, no rate is found, and what fails is said."""
    search = _Search(answering(tpot=1e-9), "m", "h", {"requests": 7}, 0.96, 2, 5)
    result: Any = search.run(1.0)
    assert (result.find_rate["rate"], result.find_rate["binds"], result.find_rate["rates"]) == (None, "tpot", [])
    assert result.find_rate["percentile"] == 0.96
    assert result.workload["rate"] == min(point["rate"] for point in result.find_rate["points"])


LOAD: dict[str, Any] = {"input_len": "lognormal:500:300", "output_len": 60, "requests": 300, "replications": 2}


@pytest.mark.slow
def test_what_binds() -> None:
    """A tight TPOT, a tight TTFT; a loose one of both is met until the server is saturated."""
    tpot = search(ttft="10 s", tpot="25 ms", **LOAD)
    ttft = search(ttft="80 ms", tpot="1 s", **LOAD)
    loose = search(ttft="1000 s", **LOAD)
    assert [one.find_rate and one.find_rate["binds"] for one in (tpot, ttft, loose)] == ["tpot", "ttft", "throughput"]
    assert loose.find_rate is not None
    assert tpot.find_rate is not None
    assert loose.find_rate["rate"] > tpot.find_rate["rate"]
    for point in tpot.find_rate["points"]:
        assert point["holds"] == (point["within_slo"] >= 0.95 and not point["saturated"])
    for seed in tpot.find_rate["seeds"]:  # each seed's rate holds, and one a hundredth higher does not
        of_seed = [point for point in tpot.find_rate["points"] if point["seed"] == seed]
        held = max(point["rate"] for point in of_seed if point["holds"])
        failed = min(point["rate"] for point in of_seed if not point["holds"])
        assert held in tpot.find_rate["rates"]
        assert 1 < failed / held < 1.011
    assert "beyond it TPOT exceeds its objective first" in verdict(tpot)[0]
    assert "find-rate" in [section.key for section in first_view(tpot).sections]
    assert Simulation.from_dict(tpot.to_dict()).to_dict() == tpot.to_dict()


@pytest.mark.slow
def test_twice_the_replicas_twice_the_rate() -> None:
    """Two replicas in turn hold about twice as much; the same seeds give the same."""
    one, two = (search(tpot="25 ms", replicas=replicas, **LOAD).find_rate for replicas in (1, 2))
    once, again = (search(tpot="25 ms", **{**LOAD, "requests": 100}).find_rate for _ in range(2))
    assert one is not None
    assert two is not None
    assert two["rate"] / one["rate"] == pytest.approx(2, rel=0.15)
    assert again == once


@pytest.mark.slow
def test_a_trace_is_stretched(tmp_path: Path) -> None:
    """The first seed has the trace itself, so that its rate is that of a search with one seed, which has no interval."""
    rows = "".join(f"{0.5 * number},{300 + 7 * (number % 50)},{20 + number % 30}\n" for number in range(400))
    path = tmp_path / "trace.csv"
    path.write_text(f"arrived_at,num_prefill_tokens,num_decode_tokens\n{rows}")
    one, two = (search(trace=path, tpot="25 ms", replications=number).find_rate for number in (1, 2))
    assert one is not None
    assert two is not None
    assert one["rates"][0] == two["rates"][0]
    assert (one["low"], one["high"]) == (None, None)
    assert two["low"] <= two["rate"] <= two["high"]


@pytest.mark.slow
def test_no_rate_holds() -> None:
    """Not one request is as quick as that, however few come."""
    result = search(tpot="1 ms", **LOAD)
    assert result.find_rate is not None
    assert result.find_rate["rate"] is None
    assert result.find_rate["binds"] == "tpot"
    assert verdict(result)[0].startswith("No rate that was tried")


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({}, "the highest rate within what"),
        ({"ttft": 1, "workload": "closed:8"}, "--find-rate: clients"),
        ({"ttft": 1, "perfetto": "trace.json"}, "leave out --perfetto"),
        ({"ttft": 1, "percentile": 101}, "--percentile: must be"),
        ({"ttft": 1, "rate": "fast"}, "--rate"),
    ],
    ids=str,
)
def test_what_is_refused(given: dict[str, Any], message: str) -> None:
    """No objective, no rate to find, options of one run."""
    with pytest.raises(InputError, match=message):
        search(**{**LOAD, **given})
    with pytest.raises(InputError, match="--percentile says what --find-rate looks for"):
        simulate(MODEL, HARDWARE, rate=1, percentile=90, input_len=10, output_len=2)


def test_stopped() -> None:
    """Ctrl-C ends the search with the rates that were tried by then."""
    import signal

    def report(done: int, of: int | None) -> None:
        del of
        if done == 3:
            signal.raise_signal(signal.SIGINT)

    with Interrupts() as interrupts:
        result = search(tpot="25 ms", interrupts=interrupts, progress=report, **LOAD)
    assert result.interrupted
    assert result.find_rate is not None
    assert len(result.find_rate["points"]) == 3
    assert result.find_rate["rate"] is None
