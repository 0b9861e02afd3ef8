"""`simulate` as a whole: what it answers, what it refuses, and that its figures hang together."""

from __future__ import annotations

import csv
import gc
import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from roofline.errors import InputError, RooflineError, UnknownNameError
from roofline.predict.compiled import compile
from roofline.serving.queueing.replica import step_seconds
from roofline.serving.simulation import run as runs
from roofline.serving.simulation.arrivals import Clients
from roofline.serving.simulation.result import Simulation
from roofline.serving.simulation.run import Interrupts, StoppedError
from roofline.serving.simulation.simulate import simulate
from roofline.serving.simulation.step_log import FLUSH
from roofline.serving.simulation.workload import Workload
from roofline.specs.library import load_engine_steps
from roofline.specs.workload import Segment

MODEL, HARDWARE = "llama-3.1-8b", "a100-sxm-80gb"
QUICK = {"input_len": 500, "output_len": 50, "requests": 300}


def run(**given: Any) -> Simulation:
    """The usual model on the usual hardware."""
    return simulate(MODEL, HARDWARE, **given)


@pytest.mark.slow
@pytest.mark.parametrize("options", [{}, {"replicas": 2, "router": "least-loaded"}], ids=["one", "two"])
def test_nothing_waits_for_the_garbage_collector(options: dict[str, Any]) -> None:
    """Step tables have megabytes, and few objects for the collector to count: they are freed without it."""
    run(workload="poisson:20", **QUICK, **options)  # what is kept for the next
    gc.collect()
    gc.disable()
    try:
        run(workload="poisson:20", **QUICK, **options)
        gc.set_debug(gc.DEBUG_SAVEALL)
        gc.collect()
        assert [one for one in gc.garbage if type(one).__module__.startswith("roofline.serving.simulation")] == []
    finally:
        gc.set_debug(0)
        gc.garbage.clear()
        gc.enable()


def test_one_request_takes_its_steps() -> None:
    """Alone: a step for the prompt, and one for each later token, at contexts 500 to 548."""
    found = run(workload="at-once:1", input_len=500, output_len=50, basis="bound")
    steps = compile(MODEL, HARDWARE)
    prompt = float(step_seconds(steps, (Segment(1, 500, 0),), 1)["bound"])
    later = [float(step_seconds(steps, (Segment(1, 1, 500 + done, decode=True),), 1)["bound"]) for done in range(49)]
    assert found.ttft_s.mean == pytest.approx(prompt, rel=1e-9)
    assert found.e2e_s.mean == pytest.approx(prompt + sum(later), rel=1e-9)
    assert found.tpot_s.mean == pytest.approx(sum(later) / 49, rel=1e-9)
    assert found.itl_s.mean == pytest.approx(sum(later) / 49, rel=1e-9)
    assert found.itl_s.p50 == pytest.approx(sorted(later)[24], rel=1e-3)
    assert found.itl_s.max == pytest.approx(max(later), rel=1e-3)
    assert found.duration_s == found.e2e_s.mean
    assert found.throughput["output_tokens_per_s"] == pytest.approx(50 / found.duration_s)
    assert (found.offered_rate, found.saturated, found.goodput) == (None, False, None)
    # the steps that stand for all: the prompt, of which nothing is cached, and one sequence with half of its output
    steps_of_all = {name: (step["batch"], step["new_tokens"], step["cached_tokens"]) for name, step in found.steps.items()}
    assert steps_of_all == {"prefill": (1, 500, 0), "decode": (1, 1, 525)}


def test_the_interval_of_a_rate_is_that_of_its_steps() -> None:
    """A request takes its share of a prompt and of 49 decode steps; at the high end of their times the rate is lowest."""
    found = run(workload="at-once:300", input_len=500, output_len=50)
    parts = {
        end: found.steps["prefill"]["time_s"][end] + 49 * found.steps["decode"]["time_s"][end] / found.steps["decode"]["batch"]
        for end in ("estimate", "low", "high")
    }
    assert found.throughput_interval is not None
    for name, rate in found.throughput.items():
        between = found.throughput_interval[name]
        assert between["low"] == pytest.approx(rate * parts["estimate"] / parts["high"])
        assert between["high"] == pytest.approx(rate * parts["estimate"] / parts["low"])
        assert between["low"] < rate < between["high"]
    assert run(workload="at-once:300", input_len=500, output_len=50, basis="bound").throughput_interval is None
    assert run(rate=1, **QUICK).throughput_interval is None  # the clients set the pace


def test_a_round_of_a_pipeline_has_a_budget_per_stage() -> None:
    """Two stages with 1,024 tokens each may run 2,048 sequences, and no more."""
    options = {"pp": 2, "max_num_batched_tokens": 1024, "workload": "at-once:4", "input_len": 10, "output_len": 2}
    assert run(max_num_seqs=2048, **options).requests.completed == 4
    with pytest.raises(InputError, match="less than the 2,049 sequences"):
        run(max_num_seqs=2049, **options)


def test_the_memory_of_a_lone_decode_is_busy() -> None:
    """At the bound a step of one sequence is the time of its bytes, but for what vector units do; compute is nearly idle."""
    busy = run(workload="at-once:1", input_len=16, output_len=2000, basis="bound").utilisation
    assert 0.97 < busy["memory"] <= 1
    assert 0 < busy["compute"] < 0.02
    long_prompt = run(workload="at-once:1", input_len=8000, output_len=1, basis="bound").utilisation
    assert long_prompt["compute"] > 0.9


@pytest.mark.slow
def test_a_rate_beyond_capacity_is_recognised() -> None:
    """A server that answers so many of all that come at once saturates at twice that rate, and not at half."""
    load = {"input_len": "lognormal:1155:900:8000", "output_len": "uniform:100:300", "requests": 2000}
    capacity = run(workload="at-once", **load).throughput["requests_per_s"]
    over, under = (run(rate=capacity * factor, **load) for factor in (2, 0.5))
    assert over.saturated
    assert not under.saturated
    assert over.throughput["requests_per_s"] == pytest.approx(capacity, rel=0.15)
    assert under.throughput["requests_per_s"] == pytest.approx(capacity / 2, rel=0.1)


def test_equal_seeds_are_equal() -> None:
    """To the last digit; another seed is another run."""
    one, same, other = (run(rate=4, seed=seed, **QUICK).to_json() for seed in (1, 1, 2))
    assert one == same
    assert json.loads(one)["ttft_s"] != json.loads(other)["ttft_s"]


def test_stepwise_is_the_same() -> None:
    """Every figure of the summary to nine digits."""
    given: dict[str, Any] = {"rate": 8, "memory": "20.5 GiB", "replicas": 2, **QUICK}
    one, other = run(**given).to_dict(), run(stepwise=True, **given).to_dict()
    assert one["requests"] == other["requests"]
    for latency in ("ttft_s", "tpot_s", "e2e_s"):
        for result in (one, other):
            intervals = result[latency].pop("confidence")
            assert intervals["mean"]["low"] < result[latency]["mean"] < intervals["mean"]["high"]
    for name in ("ttft_s", "tpot_s", "e2e_s", "throughput", "utilisation"):
        # blocks are a mean over the steps of a run, half of what is taken in it
        assert one[name] == pytest.approx(other[name], rel=2e-3 if name == "utilisation" else 1e-9), name
    assert one["itl_s"]["mean"] == pytest.approx(other["itl_s"]["mean"], rel=1e-9)
    assert one["itl_s"]["p99"] == pytest.approx(other["itl_s"]["p99"], rel=2e-3)


@pytest.mark.slow
def test_goodput_counts_what_keeps_to_the_slo() -> None:
    """All, half and none of the requests, by the median TTFT."""
    plain = run(rate=4, **QUICK)
    median = plain.ttft_s.p50
    assert median is not None
    shares = [run(rate=4, ttft=limit, **QUICK).within_slo for limit in (60.0, median * 1.001, 1e-6)]
    assert shares[0] == 1
    assert shares[1] == pytest.approx(0.5, abs=0.05)
    assert shares[2] == 0
    good = run(rate=4, ttft=60.0, tpot=60.0, **QUICK)
    assert good.goodput == pytest.approx(good.throughput["requests_per_s"])


def test_replications() -> None:
    """Five seeds, a tenth of each cut: means within their intervals, which hold what a sixth seed gives for TPOT."""
    found = run(rate=4, replications=5, **QUICK)
    assert found.replications is not None
    assert found.replications["runs"] == 5
    figures = found.replications["figures"]
    for name, one in figures.items():
        assert one["low"] <= one["mean"] <= one["high"], name
    assert (found.requests.arrived, found.requests.cut) == (1500, 150)
    single = [run(rate=4, seed=0, warm_up="10%", **QUICK).tpot_s.mean or 0.0]
    assert figures["tpot_s.mean"]["low"] * 0.9 < single[0] < figures["tpot_s.mean"]["high"] * 1.1


def test_student() -> None:
    """1, 2, 3: mean 2, standard error 1/sqrt(3), t(0.975, 2) = 4.3027 (any table)."""
    from roofline.serving.simulation.result import intervals

    found = intervals([{"x": 1.0, "y": None}, {"x": 2.0, "y": 1.0}, {"x": 3.0, "y": 1.0}])["figures"]
    assert found["x"]["mean"] == 2
    assert found["x"]["high"] - 2 == pytest.approx(4.3027 / 3**0.5, rel=1e-4)
    assert "y" not in found


def test_the_warm_up_is_not_counted() -> None:
    """All at once: the requests behind the first half wait longer."""
    whole, half = (run(workload="at-once:400", input_len=2000, output_len=20, warm_up=share) for share in (0, 0.5))
    assert half.requests.cut == 200
    assert (half.ttft_s.mean or 0) > (whole.ttft_s.mean or 0) * 1.3


def test_rows(tmp_path: Path) -> None:
    """A row a request, whose figures are those of the summary; in Parquet the same."""
    path = tmp_path / "rows.csv"
    found = run(rate=4, rows=path, **QUICK)
    with path.open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert sorted(int(row["request"]) for row in rows) == list(range(300))
    assert sum(float(row["ttft_s"]) for row in rows) / 300 == pytest.approx(found.ttft_s.mean)
    for row in rows[:20]:
        span = float(row["ttft_s"]) + 49 * float(row["tpot_s"])
        assert span == pytest.approx(float(row["e2e_s"]))
        assert float(row["arrived_at"]) + span == pytest.approx(float(row["finished_at"]))
    parquet = pytest.importorskip("pyarrow.parquet", reason="the extra 'parquet' is not installed")
    run(rate=4, rows=tmp_path / "rows.parquet", **QUICK)
    table = parquet.read_table(tmp_path / "rows.parquet")
    assert table.num_rows == 300
    assert table.column("e2e_s").to_pylist() == [float(row["e2e_s"]) for row in rows]


def test_no_half_file_is_left(tmp_path: Path) -> None:
    """When the run fails there is neither the file nor what was beside it."""
    with pytest.raises(InputError):
        run(
            rate=4, rows=tmp_path / "rows.csv", warm_up=0.5, input_len=5, output_len=5, until="1 s", requests=None, replicas="x"
        )
    with pytest.raises(InputError, match=r"the suffix must be one of .csv, .parquet"):
        run(rate=4, rows=tmp_path / "rows.html", **QUICK)
    assert not list(tmp_path.iterdir())


def test_refused_requests_have_reasons(tmp_path: Path) -> None:
    """Longer than the model was made for; more than the blocks; the others are answered."""
    path = tmp_path / "trace.csv"
    path.write_text("arrived_at,num_prefill_tokens,num_decode_tokens\n0,200000,5\n1,40000,5\n2,100,5\n")
    found = run(trace=path, memory="21 GiB")
    assert (found.requests.arrived, found.requests.refused, found.requests.completed) == (3, 2, 1)
    first, second = (one["why"] for one in found.refusals)
    assert first == "200,005 tokens are more than the 131,072 of a sequence"
    assert "blocks at its last token, and there are" in second


def test_the_series_adds_up() -> None:
    """Requests that arrived and ended, tokens, and mean levels within what there is."""
    found = run(rate=8, replicas=2, router="least-loaded", **QUICK)
    series, width = found.series, found.series["interval_s"]
    assert sum(series["arrived_per_s"]) * width == pytest.approx(300)
    assert sum(series["ended_per_s"]) * width == pytest.approx(300)
    assert sum(series["output_tokens_per_s"]) * width == pytest.approx(300 * 50, rel=1e-6)
    blocks = sum(series["blocks"]) / len(series["blocks"]) / (2 * found.server["blocks"])
    span = len(series["blocks"]) * width / found.duration_s
    assert blocks * span == pytest.approx(found.utilisation["kv"], rel=1e-6)
    frame = found.to_frame()
    assert list(frame.columns[:3]) == ["begins_s", "running", "waiting"]


@pytest.mark.parametrize("name", ["vllm-v0", "vllm-v1", "sarathi", "orca", "static", "sjf", "priority"])
@pytest.mark.parametrize("preemption", ["recompute", "swap", "cheaper"])
def test_every_scheduler_with_too_few_blocks(name: str, preemption: str) -> None:
    """1,420 blocks for answers of 300 tokens at a rate that they do not hold: all are answered all the same."""
    found = run(
        rate=12, input_len="lognormal:800:600:4000", output_len=300, requests=150, memory="19.5 GiB", scheduler=name,
        preemption=preemption,
    )  # fmt: skip
    assert found.requests.completed == 150
    assert 0.3 < (found.utilisation["kv"] or 0) <= 1
    if name not in ("orca", "static"):
        assert found.requests.preemptions > 0
    else:
        assert found.requests.preemptions == 0


def test_a_pipeline_and_tensor_parallelism() -> None:
    """Two devices either way are quicker than one, and tensor parallelism answers one request sooner than a pipeline."""
    load: dict[str, Any] = {"workload": "at-once:200", "input_len": 1000, "output_len": 100, "basis": "bound"}
    alone, tensor, pipeline = (run(**load, **more).duration_s for more in ({}, {"tp": 2}, {"pp": 2}))
    assert tensor < alone
    assert pipeline < alone
    single = {**load, "workload": "at-once:1"}
    assert run(tp=2, **single).duration_s < run(pp=2, **single).duration_s


def test_closed_loop() -> None:
    """Eight clients: never more than eight run, and throughput is clients over the time of an answer (Little's law)."""
    found = run(workload="closed:8", input_len=500, output_len=50, requests=800)
    assert found.throughput["requests_per_s"] == pytest.approx(8 / (found.e2e_s.mean or 1), rel=0.02)
    assert max(found.series["running"]) <= 8 + 1e-9
    assert found.offered_rate is None


def test_a_step_with_prompts_waits_for_the_host() -> None:
    """gpt-oss-120b on 8 H200: 100 prompt tokens take the host's time for 36 layers with TensorRT-LLM, not with vLLM."""
    first = {
        name: simulate(
            "gpt-oss-120b", "h200-sxm", backend=name, workload="at-once:1", tp=8, input_len=100, output_len=50
        ).ttft_s.mean
        for name in ("trtllm", "vllm")
    }
    assert first["trtllm"] == pytest.approx(36 * load_engine_steps(["trtllm"])[0].eager)
    assert first["vllm"] < first["trtllm"] / 3


def test_clients_that_begin_together_stay_together() -> None:
    """Prompts of one length: whoever begins with 31 others waits for their prompts; begun over 20 s, hardly anybody does."""
    load: dict[str, Any] = {"input_len": 2000, "output_len": 200, "requests": 320}
    together, apart = (run(workload=f"closed:32:0:{ramp}", **load).ttft_s.p50 or 0.0 for ramp in (0, 20))
    assert together > 3 * apart


@pytest.mark.parametrize(
    ("given", "error", "message"),
    [
        ({"scheduler": "vllm"}, UnknownNameError, "unknown scheduler 'vllm'.*vllm-v1 or vllm-v0"),
        ({"router": "random"}, UnknownNameError, "unknown router 'random'.*least-loaded"),
        ({"preemption": "drop"}, UnknownNameError, "unknown way to preempt 'drop'.*recompute"),
        ({"basis": "sum"}, UnknownNameError, "unknown basis 'sum'"),
        ({"replicas": 0}, InputError, "--replicas"),
        ({"replicas": 100_000_000}, InputError, "--replicas must be at most 10,000, not 100,000,000"),
        ({"replications": 10**12}, InputError, "--replications must be at most 1,000, not 1,000,000,000,000"),
        ({"dp": 2}, InputError, "give --replicas"),
        ({"shared_prefix": 8}, InputError, "shared.prefix"),
        ({"max_num_batched_tokens": 100}, InputError, "is less than the 256 sequences"),
        ({"warm_up": 1.5}, InputError, "--warm-up: must be a fraction"),
        ({"seed": -1}, InputError, "--seed"),
        ({"bogus": 1}, RooflineError, "bogus"),
    ],
)
def test_wrong_options(given: dict[str, Any], error: type[RooflineError], message: str) -> None:
    """What is wrong, by flag, and what is allowed."""
    with pytest.raises(error, match=message):
        run(rate=1, **{**QUICK, **given})


@pytest.mark.parametrize(
    ("workload", "ends"),
    [("closed:123456789012", {"until": 1}), ("closed:123456789012:prompts=2", {})],
)
def test_more_clients_than_a_run_holds(workload: str, ends: dict[str, Any]) -> None:
    """All of them send at least one request; the message has their number and the limit."""
    with pytest.raises(InputError, match="123,456,789,012 clients send at least one request, and a run holds 2,000,000"):
        run(workload=workload, input_len=3, output_len=4, **ends)


@pytest.mark.parametrize("load", [{"workload": "at-once:1000"}, {"rate": 1e9, "requests": 10**9}])
def test_more_requests_under_way_than_a_run_holds(load: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """A queue that grows without end is an error once the limit, here 500, is passed; 500 of 1000 at once are none."""
    monkeypatch.setattr(runs, "MAX_UNFINISHED", 500)
    with pytest.raises(InputError, match=r"500 requests run or wait .* fewer --requests"):
        run(input_len=3, output_len=4, **load)
    assert run(input_len=3, output_len=4, workload="at-once:1000", requests=500).requests.completed == 500


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"rate": 1, "requests": 10**12}, "--requests must be at most 1,000,000,000, not 1,000,000,000,000"),
        ({"workload": "at-once:1000000000000"}, "1,000,000,000,000 requests wait at the start, and a run holds 2,000,000"),
        ({"workload": "at-once", "requests": 10**9}, "1,000,000,000 requests wait at the start, and a run holds 2,000,000"),
        ({"rate": 1, "lora_adapters": 10**12}, "--lora-adapters must be at most 1,000,000, not 1,000,000,000,000"),
    ],
)
def test_absurd_numbers_are_refused_at_once(given: dict[str, Any], message: str) -> None:
    """With the number and the limit, before anything is simulated or held."""
    with pytest.raises(InputError, match=message):
        run(input_len=3, output_len=4, **given)


COUNTS = """
import resource, sys
limit = 3 * 2**30
resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
from roofline.serving.preemption.preempt import preempt
from roofline.serving.simulation.simulate import simulate

def run(**given):
    return simulate("llama-3.1-8b", "h100-sxm", input_len=3, output_len=4, requests=20, **given)

few = run(workload="closed:20:0:2")
assert few.requests.completed == 20
for clients in (10**8, 123_456_789_012):
    many = run(workload=f"closed:{clients}")
    assert many.e2e_s == run(workload="closed:20").e2e_s
run(rate=4, max_num_seqs=10**12, max_num_batched_tokens=10**12)
run(rate=4, max_model_len=10**12)
preempt("llama-3.1-8b", "h100-sxm", tokens=4096, max_num_batched_tokens=10**12)
"""


@pytest.mark.slow
def test_memory_goes_by_the_requests_not_by_the_limits() -> None:
    """In 3 GiB: more clients than requests are as many as requests, and limits that nothing reaches cost nothing."""
    done = subprocess.run([sys.executable, "-c", COUNTS], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr[-2000:]


def test_clients_of_several_classes_begin_in_turn() -> None:
    """Three clients over 3 s begin at 0, 1, 2; two over 3 s at 0, 1.5. Of four requests the one at 2 s sends none."""
    clients = (Clients(3, ramp=3.0), Clients(2, ramp=3.0))
    assert Workload(clients=clients).starts() == [0.0, 0.0, 1.0, 1.5, 2.0]
    assert Workload(clients=clients, requests=4).starts() == [0.0, 0.0, 1.0, 1.5]


def test_series_hold_nothing_negative() -> None:
    """Rates and levels of an ordinary run."""
    series = run(rate=4, **QUICK).series
    assert all(min(values) >= 0 for name, values in series.items() if name != "interval_s")


def test_a_trace_is_not_replicated(tmp_path: Path) -> None:
    """It is the same each time."""
    path = tmp_path / "trace.csv"
    path.write_text("arrived_at,num_prefill_tokens,num_decode_tokens\n0,10,5\n")
    with pytest.raises(InputError, match="--replications: a trace is the same"):
        run(trace=path, replications=3)


def test_hardware_without_measured_kernels_has_the_bound() -> None:
    """And says so; an estimate of it is refused."""
    found = simulate("qwen3-8b", "mi300x", rate=2, **QUICK)
    basis = next(note for note in found.assumptions if note.name == "basis")
    assert basis.value in ("bound", "estimate")


@pytest.mark.parametrize(
    "given",
    [
        {"rate": 6},
        {"rate": 6, "stepwise": True},
        {"rate": 9, "memory": "20 GiB", "preemption": "swap", "scheduler": "vllm-v0"},
        {"rate": 9, "memory": "20 GiB", "replicas": 2},
        {"rate": 4, "scheduler": "static"},
        {"rate": 6, "scheduler": "vllm-v1-async"},
        {"workload": "closed:16"},
        {"workload": "at-once:100"},
    ],
    ids=str,
)
def test_little(given: dict[str, Any]) -> None:
    """Whoever is in the system runs or waits: both levels over all time are what all requests spend in it."""
    lengths = {"input_len": "lognormal:800:700", "output_len": "lognormal:150:120"}
    found = run(requests=300, **lengths, **given)
    series = found.series
    spent = sum(map(sum, (series["running"], series["waiting"]))) * series["interval_s"]
    assert spent == pytest.approx((found.e2e_s.mean or 0) * found.requests.completed, rel=1e-9)


def test_a_deployment_that_does_not_fit() -> None:
    """No figures, and why."""
    found = run(rate=1, **{**QUICK, "memory": "12 GiB"})
    assert not found.fits
    assert "the weights alone do not fit" in (found.unfit or "")
    assert found.to_dict()["ttft_s"]["mean"] is None
    assert found.requests.completed == 0


@pytest.mark.slow
def test_stopped() -> None:
    """Ctrl-C ends a run where it is; what had ended by then is counted, and the handler is as it was."""
    before = signal.getsignal(signal.SIGINT)
    heard: list[int] = []

    def told(done: int, of: int | None) -> None:
        assert of == 30_000
        heard.append(done)
        if done >= 2 * FLUSH:
            signal.raise_signal(signal.SIGINT)

    with Interrupts() as interrupts:
        found = run(rate=5, interrupts=interrupts, progress=told, **{**QUICK, "requests": 30_000})
    assert signal.getsignal(signal.SIGINT) is before
    assert heard == [FLUSH, 2 * FLUSH]
    counts = found.requests
    assert found.interrupted
    assert counts.completed == 2 * FLUSH
    assert 0 < counts.unfinished == counts.arrived - counts.completed < 1000
    whole = run(rate=5, **{**QUICK, "requests": 30_000})
    assert not whole.interrupted
    assert whole.ttft_s.mean == pytest.approx(found.ttft_s.mean, rel=0.2)


def test_stopped_while_rows_are_added_up() -> None:
    """It waits until they are, and then ends the run."""
    done = []

    def add_up(interrupts: Interrupts) -> None:
        with interrupts.running():
            with interrupts.whole():
                signal.raise_signal(signal.SIGINT)
                done.append("added up")
            done.append("went on")

    with Interrupts() as interrupts, pytest.raises(StoppedError):
        add_up(interrupts)
    assert done == ["added up"]


def test_stopped_where_nothing_runs() -> None:
    """Then it is only noted, and the next run ends before it begins."""
    with Interrupts() as interrupts:
        signal.raise_signal(signal.SIGINT)
        found = run(rate=5, interrupts=interrupts, **QUICK)
    assert found.interrupted
    assert found.requests.arrived == 0
    assert found.ttft_s.mean is None


def test_stopped_between_replications() -> None:
    """Whole runs stay, what had begun goes."""
    many = 0

    def told(done: int, of: int | None) -> None:
        nonlocal many
        many += done
        if many == 600:  # the second of three runs of 300 has ended
            signal.raise_signal(signal.SIGINT)

    with Interrupts() as interrupts:
        found = run(rate=5, replications=3, interrupts=interrupts, progress=told, **QUICK)
    assert found.interrupted
    assert found.requests.arrived == 300
