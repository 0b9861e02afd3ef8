"""The memory of llama.cpp: a cache that is reserved when the server starts."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from roofline import analyze
from roofline.errors import InputError
from roofline.graph.build import build
from roofline.graph.sharding import Stage
from roofline.predict.engine_command import engine_command
from roofline.predict.offload import Side, offload
from roofline.predict.request import ResolvedRequest, prepare
from roofline.predict.timing import stage_bound, stage_estimate, with_engine

pytestmark = pytest.mark.every_case

GIB = 2**30
# Llama 3.1 8B in Q8_0, a byte and a sixteenth an element: a layer's matrices, a norm in 16 bits, and the tables at both ends.
_LAYER = (4096 * (4096 + 2 * 1024) + 4096 * 4096 + 3 * 4096 * 14336) * 34 / 32
_NORM, _TABLE = 4096 * 2, 128256 * 4096 * 34 / 32
_KV_OF_A_LAYER = 5 * 256 * 2 * 8 * 128 * 2
"""1,025 tokens in cells of 256, keys and values of 8 heads of 128."""


def test_the_cache_is_reserved_for_every_slot() -> None:
    """Llama 3.1 8B: 32 layers x 8 heads x 128 x (K and V); 4 slots of 8,192 tokens at 34/32 bytes, whatever is in them."""
    memory = analyze(
        "llama-3.1-8b",
        "apple-m4-max",
        engine="llama.cpp",
        max_model_len=8192,
        max_num_seqs=4,
        kv_cache_dtype="q8_0",
        context=100,
    ).memory
    assert memory.needed_bytes == 4 * 8192 * 32 * 2 * 8 * 128 * 34 / 32
    assert memory.max_batch == 4


def test_the_cache_of_a_workload_is_padded() -> None:
    """Without a length and slots: 2 sequences of 1,000 + 1 tokens in cells of 256, of which each takes four."""
    memory = analyze("llama-3.1-8b", "apple-m4-max", engine="llama.cpp", batch=2, context=1000, phase="decode").memory
    assert memory.needed_bytes == 2 * 4 * 256 * 32 * 2 * 8 * 128 * 2


def test_windows_have_one_pass_beside_them() -> None:
    """Gemma 3 12B: 40 of 48 layers have a window of 1,024 tokens: 1,024 + 512 cells. 8 have all 8,192; 8 heads of 256."""
    memory = analyze("gemma-3-12b", "apple-m4-max", engine="llama.cpp", max_model_len=8192, max_num_seqs=1).memory
    assert memory.needed_bytes == (40 * 1536 + 8 * 8192) * 2 * 8 * 256 * 2


def test_a_gibibyte_stays_free() -> None:
    """Of what Metal lets the GPU have, 96 GiB."""
    memory = analyze("llama-3.1-8b", "apple-m4-max", engine="llama.cpp").memory
    assert round(memory.budget_bytes / GIB, 1) == 95.0


def test_some_layers_are_on_the_host() -> None:
    """--n-gpu-layers 11: the LM head and the last 10 of 32 layers are on the GPU, 22 layers and the embedding on the host."""
    result = offload("llama-3.1-8b", "rtx-4090", "epyc-9654", 11, quantization="ggml")
    gpu, host = result.gpu, result.host
    assert (gpu.layers, host.layers) == (10, 22)
    assert gpu.weights_bytes == 10 * (_LAYER + 2 * _NORM) + _NORM + _TABLE
    assert host.weights_bytes == 22 * (_LAYER + 2 * _NORM) + _TABLE
    assert (gpu.kv_bytes, host.kv_bytes) == (10 * _KV_OF_A_LAYER, 22 * _KV_OF_A_LAYER)


def test_a_decoded_token_passes_both_memories() -> None:
    """The bound is at least the weights of each side over its bandwidth; over the link go the stream and the logits in fp32."""
    result = offload("llama-3.1-8b", "rtx-4090", "epyc-9654", 11, quantization="ggml", phase="decode")
    (decode,) = result.phases
    assert decode.host.bound is not None
    assert decode.gpu.bound is not None
    assert decode.host.bound >= 22 * _LAYER / 460.8e9
    assert decode.gpu.bound >= (10 * _LAYER + _TABLE) / 1008e9
    assert decode.link_bytes == 4 * (4096 + 128256)
    assert decode.whole.bound == pytest.approx(decode.host.bound + decode.gpu.bound + decode.link_s)
    assert not decode.copied


def test_prompts_copy_the_weights_where_that_is_faster() -> None:
    """All layers' products of 4,096 tokens on the GPU, for the host's weights over the link."""
    result = offload("llama-3.1-8b", "rtx-4090", "epyc-9654", 11, quantization="ggml", phase="prefill", input_len=4096)
    (prefill,) = result.phases
    assert prefill.copied
    layers = 22 * (_LAYER + 2 * _NORM) + _TABLE
    assert prefill.link_bytes == layers + 4 * (4096 * 4096 + 128256)
    assert prefill.host.bound == 0


def test_none_and_all_layers_on_the_gpu() -> None:
    """With none the host has everything; with 33 or more only the embedding."""
    none = offload("llama-3.1-8b", "rtx-4090", "epyc-9654", 0, quantization="ggml")
    assert (none.gpu.weights_bytes, none.host.layers) == (0, 32)
    every = offload("llama-3.1-8b", "rtx-4090", "epyc-9654", 99, quantization="ggml")
    assert (every.gpu.layers, every.host.weights_bytes) == (32, _TABLE)


@pytest.mark.parametrize(("layers", "options"), [(-1, {}), (4, {"tp": 2})])
def test_what_cannot_be_split_is_refused(layers: int, options: dict[str, int]) -> None:
    """Fewer layers than none, and several GPUs."""
    with pytest.raises(InputError, match="--n-gpu-layers"):
        offload("llama-3.1-8b", "rtx-4090", "epyc-9654", layers, **options)


def test_the_command_that_starts_it() -> None:
    """The context of all slots together, as llama-server wants it; no command for several devices."""
    options = {"engine": "llama.cpp", "max_num_seqs": 4, "kv_cache_dtype": "q8_0"}
    line = " ".join(engine_command(prepare("llama-3.1-8b", "rtx-4090", **options), 8192))
    assert line == (
        "llama-server --model llama-3.1-8b.gguf --ctx-size 32768 --parallel 4 --cache-type-k q8_0 --cache-type-v q8_0 "
        "--n-gpu-layers all"
    )
    assert engine_command(prepare("llama-3.1-8b", "rtx-4090", **options, tp=2), 8192) == ()


@pytest.mark.parametrize(("layers", "phase"), [(11, "decode"), (11, "prefill"), (33, "decode"), (0, "decode")])
def test_a_step_over_both_sides(layers: int, phase: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each side's operators one after another, with the engine's 5 s where the model samples, and the link between them.

    Weights of the host are copied where that and their products take less than the host does, from 32 tokens on.
    """
    options = {"quantization": "ggml", "batch": 3, "input_len": 700, "phase": phase, "engine": "vllm"}

    def slowed(*arguments: Any, **given: Any) -> ResolvedRequest:
        request = prepare(*arguments, **given)
        return replace(request, steps=request.steps and request.steps.model_copy(update={"step": 5.0}))

    monkeypatch.setattr("roofline.predict.offload.prepare", slowed)
    result = offload("llama-3.1-8b", "rtx-4090", "epyc-9654", layers, **options)
    card, host = slowed("llama-3.1-8b", "rtx-4090", **options), slowed("llama-3.1-8b", "epyc-9654", **options)
    below = Stage(0, (("decoder", min(33 - layers, 32)),) if layers < 33 else (), first=True, last=layers == 0)
    above = Stage(1, (("decoder", layers - 1),), first=False, last=True)
    (found,), (step,) = result.phases, [step for _, step in card.workload.steps]
    assert card.steps is not None
    sides = []
    for request, stage in ((host, below), (card, above), (card, below)):
        graph = build(request.model, request.deployment, request.precision, step, stage) if layers or stage is below else {}
        graph = {path: entry for path, entry in graph.items() if path != "send"}
        estimate = stage_estimate(request, step, graph)[0]
        if estimate is not None and stage.last:
            estimate = with_engine(request, estimate, 3)
        weights = sum(operator.held_bytes * repeat for operator, repeat in graph.values() if operator.parameters)
        sides.append((stage_bound(request, step, graph), estimate, weights))
    on_host, on_card, moved = sides
    sent = 4 * ((3 if phase == "decode" else 2100) * 4096 + 3 * 128256) if layers else 0
    link = card.hardware.to_host().within(2)
    copied = layers == 11 and phase == "prefill"
    assert found.copied == copied
    assert found.link_bytes == sent + (on_host[2] if copied else 0)
    assert found.link_s == pytest.approx(found.link_bytes / link)
    assert found.host.bound == pytest.approx(0 if copied else on_host[0])
    assert found.gpu.bound == pytest.approx((on_card[0] if layers else 0) + (moved[0] if copied else 0))
    assert found.whole.bound == pytest.approx(found.host.bound + found.gpu.bound + found.link_s)
    if layers:
        expected = on_card[1].seconds + (moved[1].seconds if copied else 0)
        assert found.gpu.estimate == pytest.approx(expected)
        assert found.gpu.low == pytest.approx(on_card[1].low + (moved[1].low if copied else 0))
    assert result.n_gpu_layers == layers
    assert (result.batch, result.context) == (3, 700)
    assert result.fits == (result.gpu.fits and result.host.fits)


def test_a_side_fits_up_to_its_memory() -> None:
    """Weights, cache and activations together."""
    side = Side("x", "X", 3, 5.0, 3.0, 2.0, 10.0)
    assert side.fits
    assert not replace(side, usable_bytes=9.9).fits
