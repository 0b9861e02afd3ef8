"""`--kv-offload`: sizes and files, what is refused, and what results say of tiers."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import pytest

import roofline
from roofline.errors import InputError, SpecError
from roofline.predict.request import prepare
from roofline.report.simulation.page import simulation_page
from roofline.report.simulation.summary import answer, offload_table
from roofline.serving.preemption.costs import replica_bytes
from roofline.serving.simulation.result import Simulation

MODEL, HARDWARE = "llama-3.1-8b", "a100-sxm-80gb"
CHAT: dict[str, Any] = {
    "rate": 4, "turns": 5, "think": "30 s", "input_len": 400, "output_len": 150, "requests": 400, "basis": "bound",
    "num_gpu_blocks_override": 3000,
}  # fmt: skip
FILE = """\
tiers:
  - {name: host, capacity: 20 GB, read: 25 GB/s, write: 20 GB/s, latency: 20 us}
  - {name: store, capacity: 10 TB, read: 5 GB/s, latency: 1 ms, shared: true}
"""


def simulated(**more: object) -> Simulation:
    """Conversations on a device whose cache holds 48,000 tokens."""
    return roofline.simulate(MODEL, HARDWARE, **{**CHAT, **more})


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """Two tiers."""
    path = tmp_path / "tiers.yaml"
    path.write_text(FILE)
    return path


def read_rows(path: Path) -> list[tuple[int, int]]:
    """Prompt tokens of each request, and how many were cached."""
    with path.open(encoding="utf-8") as lines:
        return [(int(row["num_prefill_tokens"]), int(row["num_cached_tokens"])) for row in csv.DictReader(lines)]


def test_conversations_come_back_from_the_host(tmp_path: Path) -> None:
    """With a host tier that holds all, only new messages (and what is left of a block) are computed, and TTFT falls."""
    without, result = simulated(), simulated(kv_offload="200 GB", coalesced=True, rows=tmp_path / "rows.csv")
    offload = result.kv_offload
    assert offload is not None
    sources = offload["prompt_tokens"]
    assert sum(sources.values()) == pytest.approx(1)
    assert result.prefix_hit_rate == pytest.approx(sources["device"] + sources["host"])
    assert without.prefix_hit_rate is not None
    assert without.prefix_hit_rate < 0.2
    # a turn that comes after n others finds 550 n - 1 tokens in whole blocks of 16; the 400 of the last turn are new
    rows = read_rows(tmp_path / "rows.csv")
    for prompt, hit in rows:
        assert hit == (prompt - 400 - 1) // 16 * 16 * (prompt > 400)
    assert result.prefix_hit_rate == pytest.approx(sum(hit for _, hit in rows) / sum(prompt for prompt, _ in rows))
    assert result.ttft_s.mean is not None
    assert without.ttft_s.mean is not None
    assert result.ttft_s.mean < without.ttft_s.mean
    (tier,) = offload["tiers"]
    block = 2 * 32 * 16 * 8 * 128 * 2  # K and V, layers, tokens, heads, their size, bytes
    assert tier["capacity_bytes"] == 200e9 // block * block
    assert tier["loaded_bytes"] == tier["loaded_tokens"] / 16 * block
    # A100: 32 GB/s, of which large copies reach 0.8; gathering reads and writes every byte in device memory
    assert tier["read_bandwidth"] == pytest.approx(1 / (1 / 25.6e9 + 2 / 2.039e12), rel=0.03)
    assert 0 < tier["read_utilisation"] < 1
    assert tier["mean_load_s"] > tier["mean_wait_s"] >= 0


def test_without_tiers_nothing_is_said_of_them() -> None:
    """The JSON has no key of them."""
    assert "kv_offload" not in simulated(requests=20).to_dict()


@pytest.mark.slow
def test_a_file(file: Path) -> None:
    """Tiers in order, a file among the inputs; the same twice; and step by step."""
    options = {"kv_offload": str(file), "replicas": 2}
    result = simulated(**options)
    offload = result.kv_offload
    assert offload is not None
    host, store = offload["tiers"]
    assert [host["name"], store["name"], store["shared"]] == ["host", "store", True]
    rates = [tier[f"{way}_bandwidth"] for tier in (host, store) for way in ("read", "write")]
    assert rates == pytest.approx([25e9, 20e9, 5e9, 5e9])
    assert store["loads"] > 0
    assert set(offload["prompt_tokens"]) == {"device", "host", "store", "computed"}
    assert result.inputs["kv offload"]["name"] == "tiers.yaml"
    assert simulated(**options).to_json() == result.to_json()
    steps = simulated(**options, stepwise=True)
    assert steps.kv_offload is not None
    assert steps.kv_offload["prompt_tokens"] == pytest.approx(offload["prompt_tokens"])
    assert steps.ttft_s.mean == pytest.approx(result.ttft_s.mean)


@pytest.mark.slow
def test_more_capacity_and_faster_links_help(file: Path, tmp_path: Path) -> None:
    """Hits grow with the host's capacity; from 1 to 100 GB/s TTFT falls."""
    hits = [simulated(kv_offload=size, coalesced=True).prefix_hit_rate for size in ("1 GB", "5 GB", "20 GB", "100 GB")]
    assert hits == sorted(hits, key=lambda hit: hit or 0)
    assert (hits[-1] or 0) > 2 * (hits[0] or 0)
    means = []
    for rate in (1, 10, 100):
        path = tmp_path / f"{rate}.yaml"
        path.write_text(f"tiers:\n  - {{name: host, capacity: 100 GB, read: {rate} GB/s}}\n")
        means.append(simulated(kv_offload=path).ttft_s.mean or 0)
    assert means == sorted(means, reverse=True)


def test_results(file: Path, tmp_path: Path) -> None:
    """Terminal, page, JSON and back, trace, rows, runs with other seeds."""
    rows, trace = tmp_path / "rows.csv", tmp_path / "trace.json"
    result = simulated(kv_offload=file, rows=rows, perfetto=trace)
    parts = dict(answer(result).parts[1])
    assert "loaded from host" in parts["KV cache tiers"]
    assert "link of store" in parts["KV cache tiers"]
    assert "Prefix cache" not in parts
    table = offload_table(result)
    assert table is not None
    assert [row[0] for row in table.rows] == ["host", "store (shared)"]
    assert "KV cache tiers" in simulation_page(result, "roofline simulate")
    again = Simulation.from_dict(json.loads(result.to_json()))
    assert again.kv_offload == result.kv_offload
    events = json.loads(trace.read_text())["traceEvents"]
    tracks = {event["args"]["name"] for event in events if event["name"] == "thread_name"}
    assert "loads from host" in tracks
    offload = result.kv_offload
    assert offload is not None
    assert sum(event["name"] == "load" for event in events) == sum(tier["loads"] for tier in offload["tiers"])
    assert any(event["name"] == "loading" for event in events)
    assert sum(hit for _, hit in read_rows(rows)) > 0
    several = simulated(kv_offload=file, replications=2, requests=100)
    assert several.replications is not None
    assert "kv_offload.host.loads" in several.replications["figures"]


@pytest.mark.slow
def test_find_rate_and_study(file: Path, tmp_path: Path) -> None:
    """Both pass the option on; a study finds the file beside its own."""
    options = {**CHAT, "requests": 150, "kv_offload": str(file), "find_rate": True, "replications": 1, "ttft": "1 s"}
    highest = roofline.simulate(MODEL, HARDWARE, **options)
    assert highest.find_rate is not None
    assert highest.kv_offload is not None
    study = tmp_path / "study.yaml"
    study.write_text(
        f"kind: study\noptions: {{model: {MODEL}, hardware: {HARDWARE}, turns: 4, think: 20 s, input_len: 400, "
        "output_len: 100, requests: 100, basis: bound, num_gpu_blocks_override: 3000, ttft: 1 s}\n"
        "policies:\n  plain: {}\n  tiers: {kv_offload: tiers.yaml}\nrates: [4]\n"
    )
    table = roofline.study(study, output=tmp_path / "out").table
    assert {row["policy"] for row in table} == {"plain", "tiers"}


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"kv_offload": "200 GBB"}, "--kv-offload"),
        ({"kv_offload": "1 kB"}, "holds no block: a block of 16 tokens has 2 MiB"),
        ({"kv_offload": "0 GB"}, "must be more than 0"),
        ({"kv_offload": "20 GB", "preemption": "swap"}, "--preemption swap and --kv-offload"),
        ({"kv_offload": "20 GB", "enable_prefix_caching": False}, "leave out --no-enable-prefix-caching"),
        ({"kv_offload": "20 GB", "scheduler": "static"}, "scheduler static"),
        ({"kv_offload": "20 GB", "scheduler": "vllm-v0"}, "scheduler vllm-v0"),
        ({"kv_offload": "20 GB", "host_memory": "30 GB"}, "--host-memory"),
        ({"kv_offload": "20 GB", "turns": None, "think": None, "prefix_hit": 0.5}, "--prefix-hit"),
        ({"coalesced": True}, "--preemption swap or cheaper"),
    ],
)
def test_refused(options: dict[str, Any], says: str) -> None:
    """With the reason."""
    with pytest.raises(InputError) as error:
        simulated(**options)
    assert says in str(error.value)


@pytest.mark.parametrize("model", ["gemma-3-27b", "gpt-oss-120b"])
def test_windows_are_refused(model: str) -> None:
    """Prefixes are not cached in simulation where layers have a window."""
    with pytest.raises(InputError, match="window or a state"):
        roofline.simulate(model, "h100-sxm", rate=1, input_len=100, output_len=10, requests=5, kv_offload="20 GB")


@pytest.mark.parametrize(
    ("text", "place", "says"),
    [
        ("tiers: []\n", ":1:", "tiers"),
        ("tiers:\n  - {name: host, capacity: 20, read: 1 GB/s}\n", ":2:", "must be a text with a unit"),
        ("tiers:\n  - {name: host, capacity: 20 GB, raed: 1 GB/s}\n", ":2:", "raed"),
        ("tiers:\n  - {name: device, capacity: 20 GB, read: 1 GB/s}\n", ":2:", "is taken"),
        ("tiers:\n  - {name: a, capacity: 20 GB, read: 1 GB/s}\n  - {name: a, capacity: 1 GB}\n", ":3:", "there twice"),
        ("tiers:\n  - {name: a, capacity: 20 GB}\n  - {name: b, capacity: 1 GB}\n", ":3:", "the host link already"),
        ("tiers:\n  - {name: a, capacity: 20 GB, shared: true}\n", ":2:", "of one replica"),
        ("tiers:\n  - {name: a, capacity: 1 MB, read: 1 GB/s}\n", ":2:", "holds no block"),
        ("load: sometimes\ntiers:\n  - {name: a, capacity: 1 GB}\n", ":1:", "load"),
    ],
)
def test_faults_of_a_file_have_a_place(tmp_path: Path, text: str, place: str, says: str) -> None:
    """File, line, key."""
    path = tmp_path / "tiers.yaml"
    path.write_text(text)
    with pytest.raises(SpecError) as error:
        simulated(kv_offload=path)
    assert f"{path}{place}" in str(error.value)
    assert says in str(error.value)


def test_options_of_the_host_link_need_a_tier_on_it(file: Path, tmp_path: Path) -> None:
    """Rates in the file leave nothing to them; a tier without `read` takes them."""
    with pytest.raises(InputError, match="every tier has a `read` of its own"):
        simulated(kv_offload=file, host_link="50 GB/s")
    path = tmp_path / "linked.yaml"
    path.write_text("load: always\ntiers:\n  - {name: host, capacity: 20 GB}\n")
    result = simulated(kv_offload=path, host_link="50 GB/s", coalesced=True)
    assert result.kv_offload is not None
    assert result.kv_offload["load"] == "always"
    assert result.kv_offload["tiers"][0]["read_bandwidth"] == pytest.approx(1 / (1 / 50e9 + 2 / 2.039e12), rel=0.03)


def test_bytes_are_those_of_all_devices() -> None:
    """70B: 80 layers of 8 heads. In two devices each has half; in 16 a head is in two of them, and each writes its own."""
    block = 2 * 80 * 16 * 8 * 128 * 2
    for size, times in ((2, 1), (8, 1), (16, 2)):
        request = prepare("llama-3.1-70b", "dgx-h100", tensor_parallel_size=size)
        assert replica_bytes(request, 16) == times * block
    request = prepare("llama-3.1-70b", "dgx-h100", tensor_parallel_size=2, pipeline_parallel_size=4)
    assert replica_bytes(request, 16) == block
