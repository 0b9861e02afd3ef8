"""What is searched, and what memory holds: on requests whose bytes are made up, and on layouts."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import roofline
from roofline.blocks.model_files import load_model
from roofline.errors import InputError
from roofline.serving.planning import search as module
from roofline.serving.planning.load import Load
from roofline.serving.planning.search import _transfer_s, _wanted, layouts, longest_held, slots_in_memory
from roofline.serving.traffic.build import single
from roofline.specs.library import load_hardware


def load_of(**given: Any) -> Load:
    return Load.of(single(**{"rate": 1, "input_len": 1000, "output_len": 101, **given}))


def holding(sequences: int, ranks: int, asked: list[int]) -> Any:
    """A deployment that holds some sequences in the decode step with the most tokens."""

    def max_batch(context: int) -> int:
        asked.append(context)
        return sequences

    return SimpleNamespace(deployment=SimpleNamespace(data_parallel_size=ranks), memory=SimpleNamespace(max_batch=max_batch))


def test_slots_of_mean_requests(monkeypatch: pytest.MonkeyPatch) -> None:
    """As many on each rank as hold 1,000 + 101 - 1 tokens, less what the steps before the last token need beside them."""
    for sequences, ranks, fit, slots in [
        (100, 1, 100, 100),
        (100, 1, 95, 94),  # 98, 96 and 94, in steps of 2 %
        (10, 1, 8, 8),  # one at a time, as 2 % are less than one
        (10, 1, 0, 0),
        (0, 1, 5, 0),
        (103, 2, 100, 51),
        (10**6, 1, 10**6, 1024),  # the engines' default
        (10**6, 4, 10**6, 1024),
        (1024 * 4 - 1, 4, 10**6, 1023),
    ]:

        def requests(request: Any, load: Load, slots: int, fit: int = fit) -> Any:
            return SimpleNamespace(all_fit=lambda: slots <= fit)

        monkeypatch.setattr(module, "_mean_requests", requests)
        asked: list[int] = []
        assert slots_in_memory(holding(sequences, ranks, asked), load_of()) == slots
        assert asked == [1100]


def test_system_prompts_are_there_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A request takes 10 bytes, 6 of them of its system prompt: n take 4 n + 6 where all have the same.

    With a hundred prompts n take 4 n + 6 x 100 (1 - 0.99^n): 21 take 198.2.
    """
    layouts = [
        SimpleNamespace(
            shared=lambda prompt, context: 6.0 if (prompt, context) == (200, 1300) else None, state_bytes=0, kinds=()
        )
    ]

    one, hundred = load_of(system_prompt=200), load_of(system_prompt=200, system_prompts=100)

    def steps(request: Any, load: Load, slots: int) -> Any:
        return SimpleNamespace(memory_steps=lambda: [("prefill", 0), ("decode", slots)])

    monkeypatch.setattr(module, "_mean_requests", steps)

    def held(usable: float, load: Load = one) -> int:
        part = SimpleNamespace(layouts=layouts, needed_bytes=lambda step: 10.0 * step, usable_bytes=lambda step: usable)
        request: Any = SimpleNamespace(deployment=SimpleNamespace(data_parallel_size=1), memory=SimpleNamespace(stages=[part]))
        return slots_in_memory(request, load)

    assert (held(106.0), held(105.9), held(9.9), held(10.0)) == (25, 24, 0, 1)
    assert held(1e9) == 1024
    needed = 4 * 21 + 600 * (1 - 0.99**21)
    assert (held(needed - 0.1, hundred), held(needed + 0.1, hundred)) == (20, 21)


def test_the_longest_sequence() -> None:
    """The last token is computed with the ones before it cached, on each of the ranks."""
    for context, wanted, held in [(None, 5000, 5000), (4999, 5000, 5000), (4998, 5000, 4999), (9999, 5000, 5000)]:
        memory = SimpleNamespace(max_context=lambda batch, context=context: context if batch == 4 else 0)
        request: Any = SimpleNamespace(memory=memory, deployment=SimpleNamespace(data_parallel_size=4))
        assert longest_held(request, wanted) == held


def test_transfers_of_caches(monkeypatch: pytest.MonkeyPatch) -> None:
    """1,000 bytes and 2 per token of each prompt, at 1e6 bytes/s: from a dozen lengths, the shortest and the longest too."""
    asked: list[int] = []

    def size(request: Any, tokens: int) -> float:
        asked.append(tokens)
        return 1000.0 + 2 * tokens

    monkeypatch.setattr(module, "cache_bytes", size)
    load = load_of(input_len="uniform:1000:9000")
    request: Any = None
    (seconds,) = _transfer_s(request, load, 1e6)
    prompts = load.mix[0].prompts
    assert seconds == pytest.approx((1000 + 2 * prompts) / 1e6)
    assert len(asked) == 12
    assert (min(asked), max(asked)) == (prompts.min(), prompts.max())
    (one,) = _transfer_s(request, load_of(), 1e6)
    assert np.unique(one) == pytest.approx(0.003)


def sizes(experts: bool, linked: bool, node: int, **given: int) -> set[tuple[int, ...]]:
    return {tuple(one.values()) for one in _wanted(experts, linked, node, given)}


def test_sizes_that_are_wanted() -> None:
    """Tensor parallelism in a node, and pipelines of whole nodes; without a link pipelines within what there is."""
    assert sizes(False, True, 4) == {(1, 1, 1, 1), (2, 1, 1, 1), (4, 1, 1, 1), (4, 2, 1, 1), (4, 4, 1, 1)}
    assert sizes(False, False, 4) == {(1, 1, 1, 1), (1, 2, 1, 1), (1, 4, 1, 1), (2, 1, 1, 1), (2, 2, 1, 1), (4, 1, 1, 1)}
    assert sizes(False, True, 4, tp=2) == {(2, 1, 1, 1)}
    ranks = {(1, 1, count, count) for count in (8, 16, 32, 64, 128)}
    assert (
        sizes(True, True, 2)
        == {(1, 1, 1, 1), (2, 1, 1, 1), (2, 1, 1, 2), *((2, pp, 1, ep) for pp in (2, 4) for ep in (1, 2))} | ranks
    )
    assert sizes(True, True, 2, tp=1) == {(1, 1, 1, 1)} | ranks
    assert sizes(True, True, 4, tp=2) == {(2, 1, 1, 1), (2, 1, 1, 2)}


def test_layouts_come_smallest_first() -> None:
    """Fewest devices, then fewest stages, then fewest ranks; each once, up to the most devices. What is given holds for all."""

    def tried(model: str, hardware: str, most: int, **fixed: int) -> list[dict[str, int]]:
        return list(layouts(load_model(model)[0], load_hardware(hardware)[0], fixed, most))

    assert tried("llama-3.1-8b", "l40s", 4) == [{}, {"tp": 2}, {"pp": 2}, {"tp": 4}, {"tp": 2, "pp": 2}, {"pp": 4}]
    assert tried("llama-3.1-8b", "h100-sxm", 3, data_parallel_size=2) == [{"dp": 2}]
    # experts over all devices unless their number is given
    assert tried("mixtral-8x7b", "dgx-h100", 2) == [{}, {"tp": 2}, {"tp": 2, "ep": 2}]
    assert tried("mixtral-8x7b", "dgx-h100", 4, data_parallel_size=2) == [
        {"dp": 2}, {"dp": 2, "ep": 2}, {"tp": 2, "dp": 2}, {"tp": 2, "dp": 2, "ep": 4}
    ]  # fmt: skip


def test_pools_that_cannot_be() -> None:
    """Of clients, who are planned on colocated replicas; of outputs without a second token, which leave nothing to decode."""
    given: dict[str, Any] = {"hardware": "h100-sxm", "tp": 1, "dtype": "bf16", "mode": "disaggregated", "input_len": 100}
    with pytest.raises(InputError, match="clients are planned on colocated replicas"):
        roofline.plan("llama-3.1-8b", **given, concurrency=8, output_len=100)
    found = roofline.plan("llama-3.1-8b", **given, rate=1, output_len=1)
    assert found.infeasible is not None
    assert "outputs of one token leave a decode pool nothing to do" in found.infeasible["relax"][0]["why"]
