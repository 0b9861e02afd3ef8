"""LoRA adapters, by hand: a step takes 1 s, a load from the host 0.5 s, one from disk 0.25 s more."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from simulated import AffineStepTime, Served, adapters, serve

from roofline import plan, simulate
from roofline.errors import InputError
from roofline.serving.simulation.kv_cache import EngineConfig
from roofline.serving.simulation.lora import LoraConfig, resolve_lora
from roofline.serving.simulation.request import Request
from roofline.serving.simulation.server import HostCopyOptions, resolve_replica
from roofline.serving.simulation.step_log import END

STEP = AffineStepTime(1.0)
MANY = EngineConfig(num_gpu_blocks=100, block_size=4, max_num_seqs=8, max_num_batched_tokens=100)
ALONE = EngineConfig(num_gpu_blocks=100, block_size=4, max_num_seqs=1, max_num_batched_tokens=100)


def both(of: Sequence[tuple[float, int, int]], lora: LoraConfig, config: EngineConfig = MANY, **more: Any) -> Served:
    """Requests by arrival, output tokens and adapter, in runs; step by step it is the same."""
    served = []
    for stepwise in (False, True):
        requests = [Request(index, arrival, 4, output) for index, (arrival, output, _) in enumerate(of)]
        for request, (_, _, adapter) in zip(requests, of, strict=True):
            request.adapter = adapter
        served.append(serve("vllm-v1", requests, STEP, config, lora=lora, stepwise=stepwise, **more))
    assert list(served[0].log.ends) == pytest.approx(list(served[1].log.ends))
    assert served[0].lora == served[1].lora
    return served[0]


def times(served: Served) -> dict[int, tuple[float, float]]:
    """When each request had its first token, and when it ended."""
    rows = [served.log.ends[at : at + len(END)] for at in range(0, len(served.log.ends), len(END))]
    named = [dict(zip(END, row, strict=True)) for row in rows]
    return {int(row["index"]): (row["first"], row["ended"]) for row in named}


def test_a_request_without_a_slot_is_passed_over() -> None:
    """One slot: A's first request is let in, B's waits, and A's second, behind it, is let in too.

    0: A is read and loaded, 0.75 s, then a step: first tokens at 1.75, the third ones at 3.75. Then B: 0.75 s and a step, 5.5,
    and two more.
    """
    served = both([(0.0, 3, 0), (0.0, 3, 1), (0.0, 3, 0)], adapters(2, 1, on_host=1, load=0.5, fetch=0.25))
    assert times(served) == {0: (1.75, 3.75), 2: (1.75, 3.75), 1: (5.5, 7.5)}
    record = served.lora
    assert (record.num_admitted, record.num_hits, record.num_loaded, record.num_fetched) == (3, 1, 2, 2)
    assert record.seconds == 1.5


def test_one_that_comes_later_joins_its_adapter() -> None:
    """While B waits for the slot, A's request of time 2 begins with the next step, at 2.75."""
    served = both([(0.0, 6, 0), (0.0, 1, 1), (2.0, 2, 0)], adapters(2, 1, on_host=1, load=0.5, fetch=0.25))
    assert times(served)[2] == (3.75, 4.75)
    assert times(served)[0] == (1.75, 6.75)
    assert times(served)[1] == (8.5, 8.5)


@pytest.mark.parametrize(("on_host", "last"), [(2, 8.0), (3, 7.75)])
def test_the_least_recently_used_leaves(on_host: int, last: float) -> None:
    """A, B, A, C, B of four adapters, one after another, in two slots.

    A: 0.75 + 1. B: 3.5. A is there: 4.5. C takes the slot of B: 6.25. B takes that of A: 0.75 + 1, or where the host holds
    three, 0.5 + 1.
    """
    of = [(0.0, 1, adapter) for adapter in (0, 1, 0, 2, 1)]
    served = both(of, adapters(4, 2, on_host=on_host, load=0.5, fetch=0.25), ALONE)
    assert [times(served)[index][1] for index in range(5)] == [1.75, 3.5, 4.5, 6.25, last]


def test_what_adapters_add_to_a_step() -> None:
    """0.01 s a token or 0.25 s an adapter, whichever is more.

    Two prompts of 4 tokens: 1 + 0.5; then two tokens of two adapters: 1 + 0.5; once the first has ended 1 + 0.25. A prompt of 4
    without an adapter adds nothing.
    """
    lora = adapters(2, 2, token=0.01, each=0.25)
    assert times(both([(0.0, 2, 0), (0.0, 4, 1)], lora)) == {0: (1.5, 3.0), 1: (1.5, 5.5)}
    assert times(both([(0.0, 2, -1)], lora)) == {0: (1.0, 2.0)}
    # 4 tokens of one adapter, at 0.1 s a token: more than 0.25 s
    assert times(both([(0.0, 1, 0)], adapters(2, 2, token=0.1, each=0.25))) == {0: (1.4, 1.4)}


def test_the_router_finds_adapters() -> None:
    """A, A, B, B at 0, 10, 20, 30 on two replicas with a slot each.

    In turn every one is loaded: A, A, B, B. By adapters A is on the first replica, then B replaces it (of equal loads the
    first), and stays.
    """
    of = [(10.0 * index, 2, adapter) for index, adapter in enumerate((0, 0, 1, 1))]
    lora = adapters(2, 1, load=0.5)
    assert both(of, lora, replicas=2).lora.num_loaded == 4
    assert both(of, lora, replicas=2, router="lora-aware").lora.num_loaded == 2
    # two at a time: each goes where its adapter is
    of = [(10.0 * (index // 2), 2, index % 2) for index in range(8)]
    assert both(of, lora, replicas=2, router="lora-aware").lora.num_loaded == 2


# As options


def lora_of(model: str = "llama-3.1-8b", hardware: str = "h100-sxm", *, tp: int = 1, **options: Any) -> LoraConfig:
    """The adapters of a deployment."""
    given = {"max_loras": None, "max_cpu_loras": None, "max_lora_rank": None, **options}
    replica = resolve_replica(model, hardware, {"tensor_parallel_size": tp})
    lora = resolve_lora(replica, given.pop("adapters", 10), host=HostCopyOptions(), notes=[], **given)
    assert lora is not None
    return lora


def test_bytes_of_an_adapter() -> None:
    """Rank 16 on Llama 3.1 8B: 41,943,040 parameters, as PEFT prints for all linear layers ("trainable params"); 2 bytes each.

    A layer: q and o 16 (4096 + 4096), k and v 16 (4096 + 1024), gate, up and down 16 (4096 + 14336): 1,310,720; 32 layers. On
    each of two devices A of q, k, v, gate and up and B of o and down are whole, the rest is halved: 884,736 a layer.
    """
    assert lora_of().adapter_bytes == lora_of().device_bytes == 2 * 41_943_040
    halves = lora_of(tp=2)
    assert (halves.adapter_bytes, halves.device_bytes) == (2 * 41_943_040, 2 * 32 * 884_736)
    assert lora_of(max_lora_rank=64).adapter_bytes == 4 * 2 * 41_943_040


def test_seconds_of_a_step() -> None:
    """One token: the bytes of its adapter, and the inputs and outputs of its products, over 3.35 TB/s.

    A layer: inputs of 4,096 (three times) and 14,336, outputs of 6,144, 4,096, 28,672 and 4,096 that are read and written, and
    112 + 64 between A and B: 112,816 elements. 8,192 tokens of one: no less than their FLOP over 989 TFLOP/s, 2 a parameter.
    """
    lora = lora_of()
    assert lora.step_seconds(1, 1) == pytest.approx(2 * (41_943_040 + 32 * 112_816) / 3.35e12, rel=1e-6)
    assert lora.step_seconds(32, 32) == pytest.approx(32 * lora.step_seconds(1, 1), rel=1e-6)
    assert lora.step_seconds(8192, 1) >= 2 * 41_943_040 * 8192 / 989.5e12
    assert lora.step_seconds(8192, 1) < lora.step_seconds(8192, 64)


OF = {"rate": 4, "input_len": 400, "output_len": 60, "requests": 300}


def run(**options: Any) -> Any:
    """The result for a small model on one card."""
    return simulate("llama-3.1-8b", "h100-sxm", **{**OF, **options})


def test_slots_take_memory_from_the_cache() -> None:
    """16 slots of 83,886,080 bytes are 640 blocks of 16 tokens with 131,072 bytes each."""
    blocks = [run(requests=1, **lora).server["blocks"] for lora in ({}, {"lora_adapters": 20, "max_loras": 16})]
    assert blocks[0] - blocks[1] in (640, 641)


def test_results_of_adapters() -> None:
    """Every request had its adapter loaded or found it; the same seed gives the same; shares by Zipf are found more often."""
    result = run(lora_adapters=50, max_loras=8)
    lora = result.lora
    assert result.requests.completed == 300
    assert lora["hit_rate"] == pytest.approx(1 - lora["loaded"] / 300)
    assert lora["loaded"] >= lora["fetched"] > 0
    assert result.preemption["swap_s"] == 0
    assert run(lora_adapters="50:uniform", max_loras=8).to_dict() == result.to_dict()
    assert run(lora_adapters="50:zipf:1.5", max_loras=8).lora["hit_rate"] > lora["hit_rate"] + 0.2
    assert run().lora is None
    assert type(result).from_dict(result.to_dict()).to_dict() == result.to_dict()


def test_more_slots_never_find_fewer() -> None:
    """The least recently used leave: the adapters of few slots are among those of more, where requests come one at a time.

    Source: Mattson et al. 1970, Evaluation techniques for storage hierarchies, IBM Systems Journal 9(2): stack algorithms.
    """
    rates = [run(lora_adapters=20, max_loras=slots, rate=0.2, requests=100).lora["hit_rate"] for slots in (1, 2, 4, 8, 16)]
    assert rates == sorted(rates)
    assert rates[0] < rates[-1]


def test_throughput_hardly_depends_on_the_number_of_adapters() -> None:
    """S-LoRA (arXiv:2311.03285, abstract) serves thousands of adapters of Llama 7B on an A100 with a small overhead.

    Here, with 32 slots, an equal share of each, and all on the host: at most 15 % slower, and not faster.
    """
    load = {"workload": "at-once", "requests": 300, "input_len": "uniform:8:512", "output_len": "uniform:8:512"}
    slots = {"max_loras": 32, "max_cpu_loras": 1000, "max_lora_rank": 8, "max_num_seqs": 32}
    rates = [
        simulate("llama-2-7b", "a100-sxm-80gb", lora_adapters=count, **load, **slots).throughput["requests_per_s"]
        for count in (5, 1000)
    ]
    assert 0.85 < rates[1] / rates[0] < 1


def test_adapters_of_classes(tmp_path: Path) -> None:
    """Two classes of one name share an adapter, the third has the base model, or one that is drawn; a plan refuses them."""
    path = tmp_path / "traffic.yaml"
    entries = [("a", "sql"), ("b", "sql"), ("c", None)]
    keys = "rate: 2, input_len: 100, output_len: 20"
    lines = [f"- {{name: {name}, {keys}{f', adapter: {adapter}' if adapter else ''}}}" for name, adapter in entries]
    path.write_text("classes:\n" + "\n".join(lines) + "\n")
    given = {"workload": str(path), "requests": 200}
    result = simulate("llama-3.1-8b", "h100-sxm", **given)
    assert (result.lora["adapters"], result.lora["loaded"]) == (1, 1)
    several = simulate("llama-3.1-8b", "h100-sxm", lora_adapters=3, max_loras=4, **given)
    assert (several.lora["adapters"], several.lora["loaded"]) == (4, 4)
    with pytest.raises(InputError, match="not planned"):
        plan("llama-3.1-8b", hardware="h100-sxm", traffic=str(path))


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"max_loras": 2}, "--lora-adapters"),
        ({"lora_adapters": 0}, "lora-adapters"),
        ({"lora_adapters": "5:normal"}, "zipf"),
        ({"lora_adapters": "5:zipf:-1"}, "above 0"),
        ({"lora_adapters": 5, "max_loras": 4, "max_cpu_loras": 2}, "at least --max-loras"),
        ({"lora_adapters": 5, "preemption": "swap"}, "--preemption swap"),
        ({"lora_adapters": 5, "pipeline_parallel_size": 2}, "pipeline"),
        ({"router": "lora-aware", "replicas": 2}, "--lora-adapters"),
    ],
)
def test_wrong_options(options: dict[str, Any], why: str) -> None:
    """Each says what is wrong with which option."""
    with pytest.raises(InputError, match=why):
        run(**options)


def test_experts_are_not_modelled() -> None:
    """Adapters on experts are refused, by the layer."""
    with pytest.raises(InputError, match="not modeled"):
        simulate("mixtral-8x7b", "h200-sxm", tensor_parallel_size=2, lora_adapters=5, **OF)
