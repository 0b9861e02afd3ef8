"""What a check says of a deployment: met, at risk, missed, saturated, too large, and how many replicas would do."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import roofline
from roofline.audit.config_check import Check, Finding, check
from roofline.errors import InputError
from roofline.specs.library import shipped

pytestmark = pytest.mark.slow

TRAFFIC: dict[str, Any] = {
    "rate": 20, "input_len": "lognormal:1155:900:8000", "output_len": "lognormal:211:160:2000", "ttft": "2 s", "tpot": "50 ms",
}  # fmt: skip


def _file(folder: Path, flags: str = "--max-model-len 16384", **keys: object) -> Path:
    lines: dict[str, object] = {"model": "llama-3.1-8b", "hardware": "l40s", "replicas": 2, **keys}
    path = folder / "deployment.yaml"
    head = "".join(f"{name}: {value}\n" for name, value in lines.items())
    path.write_text(f"kind: deployment\n{head}command: vllm serve m {flags}\n")
    return path


def _finding(found: Check, objective: str, of: str | None = None) -> Finding:
    return next(one for one in found.findings if one.objective == objective and of in (None, one.of))


def test_met_at_risk_and_missed(tmp_path: Path) -> None:
    """The limit moves over one band: above its slow end, within it, below the expected value."""
    path = _file(tmp_path, replicas=6)
    loose = check(path, **{**TRAFFIC, "tpot": 10.0})
    seen = _finding(loose, "tpot")
    assert loose.passed
    assert seen.low is not None and seen.expected is not None and seen.high is not None  # noqa: PT018
    assert seen.low < seen.expected < seen.high
    for limit, verdict, passed in (
        (seen.high * 1.01, "met", True),
        ((seen.expected + seen.high) / 2, "at risk", True),
        (seen.expected * 0.99, "missed", False),
    ):
        found = check(path, **{**TRAFFIC, "tpot": limit})
        assert (_finding(found, "tpot").verdict, found.passed) == (verdict, passed)
        told = [reason for reason in found.reasons if reason.startswith("TPOT p95")]
        assert bool(told) == (verdict != "met")


def test_the_expected_value_is_the_candidates(tmp_path: Path) -> None:
    """Of the same deployment at the same rate: what `plan` would tell of it."""
    found = check(_file(tmp_path, replicas=6), **TRAFFIC)
    assert found.candidate is not None
    assert _finding(found, "tpot").expected == pytest.approx(found.candidate.performance.tpot.at, rel=1e-6)
    assert _finding(found, "ttft").expected == pytest.approx(found.candidate.performance.ttft.at, rel=1e-6)
    assert found.candidate.replicas == 6


@pytest.mark.parametrize(
    "traffic",
    [TRAFFIC, {**TRAFFIC, "tpot": "200 ms", "ttft": "300 ms"}, {**TRAFFIC, "rate": None, "concurrency": 300}],
    ids=["tpot", "ttft", "closed loop"],
)
def test_more_replicas_never_fail(tmp_path: Path, traffic: dict[str, Any]) -> None:
    """What passes goes on to pass; the fewest that pass are what every smaller number is told."""
    checks = {many: check(_file(tmp_path, replicas=many), **traffic) for many in range(1, 17)}
    passed = [many for many, found in checks.items() if found.passed]
    assert passed
    first = passed[0]
    assert 1 < first < 16
    assert passed == list(range(first, 17))
    assert {found.replicas_needed for many, found in checks.items() if many < first} == {first}
    assert all(found.replicas_needed == many for many, found in checks.items() if many >= first)
    reason = f"{first} replicas would do ({first - 1:,} now)"
    assert any(reason in text for text in checks[first - 1].reasons)


def test_saturated(tmp_path: Path) -> None:
    """More comes than can be served: waits have no end, and no number says otherwise."""
    found = check(_file(tmp_path, replicas=1), **{**TRAFFIC, "rate": 200})
    busy = _finding(found, "utilisation")
    assert busy.verdict == "missed"
    assert busy.expected is not None
    assert busy.expected > 1
    assert _finding(found, "ttft").expected is None
    assert found.reasons[0].startswith("200 requests/s are more than the ")
    assert not found.passed
    found.to_json()  # no infinity in it


def test_no_number_of_replicas(tmp_path: Path) -> None:
    """8 billion parameters of 2 bytes take 16 GB / 864 GB/s = 18 ms to read on an L40S: 15 ms a token are beyond it."""
    found = check(_file(tmp_path), **{**TRAFFIC, "tpot": "15 ms"})
    assert not found.passed
    assert found.replicas_needed is None
    assert any("more replicas do not help" in reason and "--tensor-parallel-size" in reason for reason in found.reasons)


def test_weights_do_not_fit(tmp_path: Path) -> None:
    """70 billion parameters of 2 bytes are 131 GiB; a card has 80 GB."""
    found = check(_file(tmp_path, model="llama-3.1-70b", hardware="h100-sxm"), **TRAFFIC)
    assert not found.passed
    assert found.candidate is None
    assert found.reasons[0].startswith("it does not fit: weights take 131.4 GiB")
    assert found.to_dict()["candidates"] == []


def test_one_request_does_not_fit(tmp_path: Path) -> None:
    """The longest that does is what `analyze` says: its most cached tokens and the one that is decoded."""
    path = _file(tmp_path, "--max-model-len 131072 -tp 2", model="llama-3.1-70b", hardware="h100-sxm")
    found = check(path, **TRAFFIC)
    most = roofline.analyze("llama-3.1-70b", "h100-sxm", tp=2, batch=1, phase="decode").memory.max_context
    assert most is not None
    message = f"one request of --max-model-len 131072 does not fit, and the engine refuses to start: at most {most + 1:,}"
    assert found.reasons[0] == message
    assert not found.passed
    shorter = _file(tmp_path, f"--max-model-len {most + 1} -tp 2", model="llama-3.1-70b", hardware="h100-sxm")
    assert check(shorter, **{**TRAFFIC, "rate": 0.1}).candidate is not None
    longer = _file(tmp_path, f"--max-model-len {most + 2} -tp 2", model="llama-3.1-70b", hardware="h100-sxm")
    assert check(longer, **{**TRAFFIC, "rate": 0.1}).candidate is None


@pytest.mark.parametrize(("percentile", "verdict"), [("50", "at risk"), ("60", "missed")])
def test_requests_that_are_too_long(tmp_path: Path, percentile: str, verdict: str) -> None:
    """Of prompts of 1 to 100 tokens with an answer of 9, those of 52 to 100 have more than 60: 49 in a hundred."""
    traffic = {
        "rate": 1,
        "input_len": "uniform:1:100",
        "output_len": 9,
        "ttft": "5 s",
        "tpot": "1 s",
        "percentile": percentile,
    }
    found = check(_file(tmp_path, "--max-model-len 60"), **traffic)
    length = _finding(found, "length")
    assert length.expected == pytest.approx(0.49, abs=0.003)
    assert length.verdict == verdict
    assert any("--max-model-len 109 takes them" in reason for reason in found.reasons)
    assert not [one for one in check(_file(tmp_path, "--max-model-len 109"), **traffic).findings if one.objective == "length"]


def test_slots_that_never_fill(tmp_path: Path) -> None:
    """Llama has 128 KiB a token: requests of 1,000 tokens in what a card of 48 GB has beside 15 GiB of weights."""
    found = check(
        _file(tmp_path, "--max-num-seqs 512 --max-model-len 4096"), **{**TRAFFIC, "input_len": 900, "output_len": 100}
    )
    held = next(reason for reason in found.reasons if reason.startswith("--max-num-seqs 512 never fills: memory holds "))
    memory = roofline.analyze(
        "llama-3.1-8b", "l40s", batch=1, input_len=900, output_len=100, max_num_batched_tokens=2048
    ).memory
    assert float(held.split("holds ")[1].split()[0]) == pytest.approx(memory.usable_bytes / (1000 * 2**17), rel=0.03)


def test_too_few_slots(tmp_path: Path) -> None:
    """The flag, not memory, makes requests wait."""
    found = check(_file(tmp_path, "--max-num-seqs 8 --max-model-len 16384"), **{**TRAFFIC, "rate": 3})
    told = next(reason for reason in found.reasons if reason.startswith("TTFT"))
    assert "one of the 8 slots of --max-num-seqs, and memory holds" in told


def test_devices_and_money(tmp_path: Path) -> None:
    """Two replicas of two devices; a container that has one."""
    path = _file(tmp_path, "-tp 2 --max-model-len 16384", gpus=1)
    found = check(path, **{**TRAFFIC, "rate": 1}, max_gpus=3, max_cost=0.01, inventory="l40s=4")
    verdicts = {one.objective: (one.expected, one.verdict) for one in found.findings}
    assert verdicts["gpus"] == (2, "missed")
    assert verdicts["max_gpus"] == (4, "missed")
    assert verdicts["inventory"] == (4, "met")
    assert verdicts["max_cost"][1] == "missed"
    assert "-tp 2 takes 2 GPUs per replica, and the deployment has 1" in found.reasons
    assert "2 replicas take 4 x l40s, and --max-gpus is 3" in found.reasons


def test_spare_replicas_are_not_counted_on(tmp_path: Path) -> None:
    """Three with one spare serve as two do."""
    two = check(_file(tmp_path, replicas=2), **TRAFFIC)
    three = check(_file(tmp_path, replicas=3), **TRAFFIC, spare=1)
    assert _finding(two, "tpot").expected == _finding(three, "tpot").expected
    assert two.replicas_needed is not None
    assert three.replicas_needed == two.replicas_needed + 1
    with pytest.raises(InputError, match="--spare 2 leaves none of the 2 replicas"):
        check(_file(tmp_path, replicas=2), **TRAFFIC, spare=2)


def test_engines_that_refuse_to_start(tmp_path: Path) -> None:
    """It wants a token for each sequence in a step, and the longest prompt where it is not cut."""
    few = check(_file(tmp_path, "--max-num-seqs 256 --max-num-batched-tokens 128 --max-model-len 16384"), **TRAFFIC)
    assert few.reasons[0] == "--max-num-batched-tokens 128 is less than --max-num-seqs 256: the engine refuses to start"
    whole = "--no-enable-chunked-prefill --max-num-batched-tokens 4096 --max-model-len 16384"
    found = check(_file(tmp_path, whole), **TRAFFIC)
    assert found.reasons[0].startswith("--max-num-batched-tokens 4096 is less than the 16,384 tokens of --max-model-len")


def test_prefix_caching_that_is_off(tmp_path: Path) -> None:
    """Then all of a prompt is computed, whatever the traffic has cached."""
    traffic = {**TRAFFIC, "rate": 1}
    off = check(_file(tmp_path, "--no-enable-prefix-caching"), **traffic, prefix_hit=0.9)
    none = check(_file(tmp_path), **traffic)
    hit = check(_file(tmp_path), **traffic, prefix_hit=0.9)
    times = [_finding(found, "ttft").expected or 0.0 for found in (off, none, hit)]
    assert times[0] == pytest.approx(times[1])
    assert times[2] < times[1]


def test_a_bound_is_never_sure(tmp_path: Path) -> None:
    """On a host, for which no accelerator's kernels stand: the least that it takes keeps to the limit, which is a risk."""
    host = tmp_path / "host.yaml"
    host.write_text(
        (shipped("hardware") / "l40s.yaml")
        .read_text()
        .replace("vendor: nvidia", "vendor: host")
        .replace("name: l40s", "name: box")
    )
    found = check(_file(tmp_path, hardware="host.yaml"), **{**TRAFFIC, "rate": 1})
    assert found.passed
    assert _finding(found, "tpot").verdict == "at risk"
    assert any("is a bound" in reason for reason in found.reasons)


def test_classes(tmp_path: Path) -> None:
    """Each has its own objective; sentences name the class."""
    traffic = tmp_path / "traffic.yaml"
    traffic.write_text(
        "classes:\n- {name: chat, rate: 1, input_len: 500, output_len: 100, ttft: 5 s, tpot: 1 s}\n"
        "- {name: code, rate: 1, input_len: 4000, output_len: 100, ttft: 10 ms}\n"
    )
    found = check(_file(tmp_path), traffic=traffic)
    assert {(one.objective, one.of): one.verdict for one in found.findings if one.of} == {
        ("ttft", "chat"): "met", ("tpot", "chat"): "met", ("ttft", "code"): "missed",
    }  # fmt: skip
    assert found.reasons[0].startswith("TTFT p95 of code ")


def test_layout(tmp_path: Path) -> None:
    """That of a plan with one candidate, and `check` beside it."""
    found = check(_file(tmp_path), **TRAFFIC)
    data = json.loads(found.to_json())
    assert list(data)[:4] == ["schema_version", "tool_version", "data_version", "inputs"]
    assert data["inputs"]["deployment"]["sha256"]
    assert len(data["candidates"]) == 1
    assert data["candidates"][0]["replicas"] == 2
    assert data["check"]["passed"] is found.passed
    assert data["check"]["lines"]["max_model_len"] == 5
    assert {"objective", "class", "limit", "expected", "low", "high", "verdict"} <= set(data["check"]["findings"][0])
    assert len(found.to_frame()) == len(found.findings)
