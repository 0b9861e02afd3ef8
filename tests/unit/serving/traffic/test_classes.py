"""Classes of requests from options and from files: values, defaults that are told, and what is refused, with its place."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import roofline
from roofline.errors import InputError, SpecError
from roofline.serving.planning.load import Load
from roofline.serving.planning.plan import plan
from roofline.serving.simulation.simulate import simulate
from roofline.serving.traffic import RequestClass, Traffic, load_traffic, parse_lengths, read_trace, single

TRACE = "arrived_at,num_prefill_tokens,num_decode_tokens\n0,100,7\n1,200,8\n4,600,9\n"
TWO = """\
classes:
  - {name: chat, rate: 8, input_len: lognormal:1155:900, output_len: 9, ttft: 2 s, tpot: 50 ms, percentile: 99, prefix_hit: 0.3}
  - name: batch
    concurrency: 16
    input_len: 8k
    output_len: uniform:1:511
peak_factor: 2.5
"""


def test_one_class_from_options() -> None:
    """Texts as on the command line; what was not said is a default that is told."""
    traffic = single(rate="300/min", input_len="8k", output_len=128, ttft="2 s", tpot=0.05)
    (found,) = traffic.classes
    assert (found.rate, found.concurrency, found.ttft, found.tpot) == (5, None, 2, 0.05)
    assert (found.input_len.mean, found.output_len.mean) == (8192, 128)
    assert (found.percentile, found.prefix_hit, found.burstiness) == (0.95, 0, 1)
    assert (traffic.peak_factor, traffic.rate, traffic.at_peak) == (1, 5, (found,))
    assert [(entry.name, entry.value, entry.origin) for entry in traffic.assumptions] == [
        ("requests.percentile", 0.95, "default")
    ]


def test_a_trace_brings_its_rate_and_bursts(tmp_path: Path) -> None:
    """Three arrivals in 4 s: 0.5/s; intervals of 1 and 3 s vary by half their mean. A given rate comes before the trace's."""
    path = tmp_path / "trace.csv"
    path.write_text(TRACE)
    traffic = single(trace=path)
    (found,) = traffic.classes
    assert (found.rate, found.burstiness, found.input_len.mean) == (0.5, 0.5, 300)
    assert found.sample_pairs(3).tolist() == [[100, 7], [200, 8], [600, 9]]
    assert {entry.name for entry in traffic.assumptions} == {"requests.rate", "requests.percentile", "requests.burstiness"}
    assert [entry.role for entry in traffic.inputs] == ["trace"]
    given = single(trace=read_trace(path), rate=3, burstiness=2, percentile="p99").classes[0]
    assert (given.rate, given.burstiness, given.percentile) == (3, 2, 0.99)
    assert single(trace=path, concurrency=4).classes[0].rate is None


def test_broken_rows_of_a_trace(tmp_path: Path) -> None:
    """Refused, or skipped where that is asked for."""
    path = tmp_path / "trace.csv"
    path.write_text(TRACE + "x,1,2\n")
    with pytest.raises(InputError, match=r"^--trace: .*trace\.csv:5: arrived_at must be a number of seconds"):
        single(trace=path)
    assert len(single(trace=path, skip_bad_rows=True).classes[0].pairs or ()) == 3


@pytest.mark.parametrize(
    ("written", "percentile"),
    [(95, 0.95), ("p95", 0.95), ("95%", 0.95), (0.95, 0.95), ("99.9", 0.999), (0.5, 0.5), ("P50", 0.5)],
)
def test_percentiles(written: object, percentile: float) -> None:
    """As people write them."""
    assert single(rate=1, input_len=1, output_len=1, percentile=written).classes[0].percentile == percentile


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"rate": None}, "--rate is missing: give a rate (requests/s) or a concurrency (clients)"),
        ({"concurrency": 4}, "--concurrency: a rate is given too"),
        ({"rate": 0}, "--rate: must be a number of requests/s above 0, such as 8, or 300/min, not '0'"),
        ({"rate": -1}, "--rate: must be a number of requests/s above 0"),
        ({"rate": float("inf")}, "--rate: must be a number of requests/s above 0"),
        ({"rate": "nan"}, "--rate: must be a number of requests/s above 0"),
        ({"rate": "8/fortnight"}, "it may be per s, min, h or day"),
        ({"rate": True}, "--rate: must be a number of requests/s above 0"),
        ({"rate": None, "concurrency": 0}, "--concurrency: the number of clients must be at least 1, not 0"),
        ({"rate": None, "concurrency": 2.5}, "--concurrency: the number of clients must be a whole number"),
        ({"input_len": None}, "--input-len is missing: give a length such as 1024 or lognormal:1155:900, or a trace"),
        ({"output_len": "lognormal:5"}, "--output-len: 'lognormal:5' is not lognormal:MEAN:SD[:MAX]"),
        ({"ttft": "2"}, "--ttft: '2' has no unit"),
        ({"ttft": "0 s"}, '--ttft: must be a time above 0, such as "50 ms"'),
        ({"tpot": -0.1}, '--tpot: must be a time above 0, such as "50 ms"'),
        ({"tpot": float("nan")}, '--tpot: must be a time above 0, such as "50 ms"'),
        ({"percentile": 30}, "--percentile: must be a percentile from p50 to p99.9, such as 95, p95 or 0.95, not '30'"),
        ({"percentile": "p0.95"}, "--percentile: must be a percentile from p50 to p99.9"),
        ({"percentile": 100}, "--percentile: must be a percentile from p50 to p99.9"),
        ({"percentile": 1}, "--percentile: must be a percentile from p50 to p99.9"),
        ({"percentile": "most"}, "--percentile: must be a percentile from p50 to p99.9"),
        ({"prefix_hit": 1}, "--prefix-hit: must be a fraction from 0 to below 1, such as 0.3 or 30%, not '1'"),
        ({"prefix_hit": "-5%"}, "--prefix-hit: must be a fraction from 0 to below 1"),
        ({"burstiness": -1}, "--burstiness: must be the standard deviation of the times between arrivals over their mean"),
        ({"peak_factor": 0.5}, "--peak-factor: must be the peak load over the mean load, 1 or more, such as 2.5, not '0.5'"),
        ({"peak_factor": 2, "profile": "1,2"}, "--peak-factor: a profile is given too"),
        ({"profile": "1,x"}, "--profile: must be a weight, 0 or more, not 'x'"),
        ({"trace": "nowhere.csv"}, "--trace: nowhere.csv: no such file"),
    ],
)
def test_options_that_are_refused(options: dict[str, Any], message: str) -> None:
    """By flag: what is wrong, and what is allowed."""
    with pytest.raises(InputError) as caught:
        single(**{"rate": 1, "input_len": 100, "output_len": 10} | options)
    assert message in str(caught.value)


def test_lengths_beside_a_trace(tmp_path: Path) -> None:
    """A trace has its own; and one without arrivals has no rate."""
    path = tmp_path / "trace.csv"
    path.write_text(TRACE)
    with pytest.raises(InputError, match="--output-len: a trace has its own lengths"):
        single(trace=path, output_len=5)
    path.write_text("num_prefill_tokens,num_decode_tokens\n1,2\n")
    with pytest.raises(InputError, match=r"--rate is missing: .*the trace trace\.csv has no arrivals to take it from"):
        single(trace=path)


def test_a_file_of_classes(tmp_path: Path) -> None:
    """Each as its own options would have it; at the peak rates and clients are 2.5 times as many."""
    path = tmp_path / "traffic.yaml"
    path.write_text(TWO)
    traffic = load_traffic(path)
    chat, batch = traffic.classes
    assert (chat.name, chat.rate, chat.ttft, chat.tpot, chat.percentile, chat.prefix_hit) == ("chat", 8, 2, 0.05, 0.99, 0.3)
    assert (batch.concurrency, batch.rate, batch.input_len.mean, batch.output_len.mean) == (16, None, 8192, 256)
    assert traffic.rate is None
    assert [(each.rate, each.concurrency) for each in traffic.at_peak] == [(20, None), (None, 40)]
    assert traffic.inputs[0].name == "traffic.yaml"


def test_paths_in_a_file_are_seen_from_its_folder(tmp_path: Path) -> None:
    """Wherever it is read from."""
    (tmp_path / "trace.csv").write_text(TRACE)
    (tmp_path / "lengths.txt").write_text("5\n7\n")
    (tmp_path / "day.csv").write_text("weight\n1\n3\n")
    path = tmp_path / "traffic.yaml"
    path.write_text(
        "classes:\n  - {name: a, trace: trace.csv}\n"
        "  - {name: b, rate: 1, input_len: file:lengths.txt, output_len: 9}\nprofile: day.csv\n"
    )
    traffic = load_traffic(path)
    assert [each.input_len.mean for each in traffic.classes] == [300, 6]
    assert (traffic.rate, traffic.peak_factor) == (1.5, 1.5)
    assert [entry.role for entry in traffic.inputs] == ["traffic", "trace", "lengths", "profile"]


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("rate: 8,", "rat: 8,", ":2:18: unknown key 'rat'. Did you mean rate or ramp? (at classes.0.rat)"),
        ("rate: 8,", "rate: 0,", ":2:18: classes.0.rate: must be a number of requests/s above 0"),
        ("rate: 8,", "rate: .nan,", ":2:18: classes.0.rate: must be a number of requests/s above 0"),
        ("rate: 8,", "rate: [8],", ":2:18: classes.0.rate: must be a number or a text, not '[8]'"),
        ("rate: 8,", "rate: true,", ":2:18: classes.0.rate: must be a number or a text, not 'True'"),
        ("rate: 8,", "", ":2:5: classes.0.rate: is missing"),
        ("ttft: 2 s", "ttft: 2", "classes.0.ttft: '2' has no unit"),
        ("percentile: 99", "percentile: 20", "classes.0.percentile: must be a percentile from p50"),
        ("name: batch", "name: chat", ":3:5: classes.1.name: two classes are called 'chat'"),
        ("concurrency: 16", "concurrency: many", ":4:5: classes.1.concurrency: the number of clients must be a whole number"),
        ("input_len: 8k", "input_len: 8q", ":5:5: classes.1.input_len: a length must be a whole number"),
        ("peak_factor: 2.5", "peak_factor: 0", ":7:1: peak_factor: must be the peak load over the mean load"),
        ("peak_factor: 2.5", "peek_factor: 2", ":7:1: unknown key 'peek_factor'. Did you mean peak_factor?"),
        ("peak_factor: 2.5", "profile: [1]", ":7:1: profile: a profile has 2 to 86,400 parts of a day, not 1"),
        ("peak_factor: 2.5", "profile: 7", ":7:1: profile: must be weights of the parts of a day"),
        ("peak_factor: 2.5", "peak_factor: 2\nprofile: [1, 2]", "peak_factor: a profile is given too"),
        (TWO, "classes: []\n", ":1:1: classes: at least one class is needed"),
        (TWO, "clases: []\n", ":1:1: unknown key 'clases'. Did you mean classes?"),
    ],
)
def test_files_that_are_refused(tmp_path: Path, old: str, new: str, message: str) -> None:
    """By line and column, key, and what is allowed."""
    assert old in TWO
    path = tmp_path / "traffic.yaml"
    path.write_text(TWO.replace(old, new))
    with pytest.raises(SpecError) as caught:
        load_traffic(path)
    assert message in str(caught.value)
    assert str(caught.value).startswith(str(path))


def test_a_class_is_open_or_closed() -> None:
    """Not both, not neither; a loop of no clients is none."""
    one = parse_lengths(1)
    for wrong in ({}, {"rate": 1.0, "concurrency": 1}, {"rate": 0.0}, {"rate": float("nan")}, {"concurrency": 0}):
        with pytest.raises(InputError, match="class a: "):
            RequestClass(name="a", input_len=one, output_len=one, **wrong)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="without a class"):
        Traffic(classes=())


@pytest.mark.parametrize(
    "use",
    [
        lambda path: plan("llama-3.1-8b", hardware="h100-sxm", traffic=path),
        lambda path: simulate("llama-3.1-8b", "h100-sxm", workload=path),
    ],
)
def test_rates_and_clients_in_one_file(tmp_path: Path, use: Callable[[Path], object]) -> None:
    """Neither a plan nor a simulation has a model of both at once: the message names the classes and what to write."""
    path = tmp_path / "traffic.yaml"
    path.write_text(TWO)
    with pytest.raises(InputError) as caught:
        use(path)
    assert str(caught.value).startswith(
        f"{path}: class 'batch' has a concurrency and class 'chat' a rate: give all classes the "
    )


@pytest.mark.parametrize("prefix", ["prefix_hit: 0.875", "cached_prefix: 3584"])
def test_simulation_computes_what_is_not_cached(tmp_path: Path, prefix: str) -> None:
    """Of requests that meet no other the first token takes what `analyze` has for the rest of the prompt."""
    path = tmp_path / "traffic.yaml"
    path.write_text(f"classes: [{{name: a, rate: 1, input_len: 4096, output_len: 2, {prefix}}}]\n")
    result = simulate("llama-3.1-8b", "h100-sxm", workload=path, rate="1/min", requests=3)
    alone = roofline.analyze("llama-3.1-8b", "h100-sxm", input_len=4096, cached_prefix=3584, output_len=2).request
    assert alone is not None
    assert result.ttft_s.mean == pytest.approx(alone.ttft_s.estimate, rel=1e-3)
    assert result.steps["prefill"]["cached_tokens"] == 3584
    name, value = prefix.split(": ")
    assert [note.value for note in result.assumptions if note.name == f"a.{name}"] == [float(value)]


def test_tokens_and_share_of_a_prefix() -> None:
    """Plans compute the same rest of prompts of one length; a prefix longer than every prompt is refused."""
    share, tokens = (
        Load.of(traffic).services[0].mix.computed
        for traffic in (
            single(rate=1, input_len=4096, output_len=8, prefix_hit=0.875),
            single(rate=1, input_len=4096, output_len=8, cached_prefix="3584"),
        )
    )
    assert set(share.tolist()) == set(tokens.tolist()) == {512}
    mixed = single(rate=1, input_len="uniform:100:300", output_len=8, cached_prefix=200).classes[0]
    assert [mixed.cached_tokens(prompt) for prompt in (100, 200, 201, 300)] == [99, 199, 200, 200]
    assert mixed.mean_hit == pytest.approx(175 / 200, rel=0.01)  # of lengths to 200 all but one token, mean 150; beyond 200
    with pytest.raises(InputError, match="--cached-prefix: 100 leaves nothing of a prompt of 100 tokens: at most 99"):
        single(rate=1, input_len=100, output_len=8, cached_prefix=100)
    with pytest.raises(InputError, match="--cached-prefix: says the same as prefix_hit"):
        single(rate=1, input_len=100, output_len=8, cached_prefix=10, prefix_hit=0.1)


def test_clients_are_rounded_up() -> None:
    """10 clients at 1.1 times the load are 11, at 1.11 times 12."""
    found = single(concurrency=10, input_len=1, output_len=1).classes[0]
    assert [found.scaled(factor).concurrency for factor in (1.0, 1.1, 1.11)] == [10, 11, 12]


def test_samples_of_a_class() -> None:
    """Pairs of prompt and answer, each from its distribution."""
    found = single(rate=1, input_len="uniform:10:20", output_len=5).classes[0]
    drawn = found.sample(np.random.default_rng(1), 1000)
    assert drawn.shape == (1000, 2)
    assert (drawn[:, 0].min(), drawn[:, 0].max(), set(drawn[:, 1])) == (10, 20, {5})
