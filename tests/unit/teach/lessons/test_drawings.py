"""Drawings: texts that can be read, words for those who do not see them, numbers of the files."""

from __future__ import annotations

import re
from typing import Any, get_args
from xml.etree import ElementTree as ET

import pytest

from roofline.errors import InputError
from roofline.teach.lessons.draw import DRAWINGS
from roofline.teach.lessons.draw.canvas import Canvas
from roofline.teach.lessons.draw.chunked_prefill import chunks
from roofline.teach.lessons.draw.continuous_batching import Policy, schedule
from roofline.teach.lessons.drawn import draw
from roofline.teach.markdown import Ids


@pytest.mark.parametrize("name", DRAWINGS)
def test_texts_can_be_read(name: str) -> None:
    """None leaves the picture or its box, lies on another or across an edge, or is smaller than 11 pixels."""
    assert DRAWINGS[name]().faults == ()


@pytest.mark.parametrize(
    ("name", "parameters"),
    [
        ("attention-heads", {"kind": "mla"}),
        ("continuous-batching", {"policy": "static"}),
        ("gpu-memory", {"hardware": "a100-sxm-80gb"}),
        ("gpu-memory", {"hardware": "dgx-b200"}),
        ("paged-blocks", {"shared": True}),
        ("prefill-and-decode", {"batch": 256}),
        ("quantized-group", {"scheme": "fp8_block"}),
        ("quantized-group", {"scheme": "mxfp4"}),
        ("roofline-anatomy", {"batch": 64}),
        ("tiles-and-waves", {"tokens": 2048, "tile": (128, 256)}),
        ("transformer-block", {"model": "mixtral-8x7b"}),
        ("transformer-block", {"model": "qwen3-30b-a3b"}),
    ],
)
def test_texts_of_variants_can_be_read(name: str, parameters: dict[str, Any]) -> None:
    """The same with other parameters, and under another key than the usual picture."""
    variant = DRAWINGS[name](**parameters)
    assert variant.faults == ()
    assert variant.key.startswith(name)
    assert variant.key != DRAWINGS[name]().key


@pytest.mark.parametrize("name", DRAWINGS)
def test_words_say_what_is_seen(name: str) -> None:
    """An image with title and description, each a sentence or more."""
    drawing = DRAWINGS[name]()
    root = ET.fromstring(drawing.svg)  # noqa: S314 - our own
    title, description = (child.text or "" for child in list(root)[:2])
    assert (root.get("role"), title, description) == ("img", drawing.title, drawing.words)
    assert len(drawing.words) > 60
    assert drawing.words.endswith(".")
    assert drawing.key.startswith(name)


def test_faults_are_found() -> None:
    """A text outside, one in a box that is too narrow, two on one another, one across an edge, and a small one."""
    canvas = Canvas(100, 100)
    canvas.box(20, 20, 20, 20, "a long text")
    canvas.label("outside", 90, 10)
    canvas.label("one", 10, 80)
    canvas.label("two", 12, 82, size=9)
    canvas.label("edge", 30, 41)
    found = canvas.drawing("k", "t", "w").faults
    for what in ("wider than its box", "leaves the picture", "lies on 'two'", "smaller than 11", "edge of a box"):
        assert any(what in fault for fault in found), what


@pytest.mark.parametrize(("kind", "elements"), [("mha", 2 * 32 * 128), ("gqa", 2 * 8 * 128), ("mqa", 2 * 128), ("mla", 576)])
def test_elements_of_heads(kind: str, elements: int) -> None:
    """Llama 3.1 8B: 32 query heads and 8 KV heads of 128."""
    assert f"{elements:,} elements" in DRAWINGS["attention-heads"](kind=kind).words


def test_weights_of_a_layer() -> None:
    """Llama 3.1 8B: Q and O are 4096 x 4096, K and V 4096 x 1024; three matrices of 4096 x 14336. Mixtral: eight such MLPs."""
    attention, mlp = 2 * 4096 * 4096 + 2 * 4096 * 1024, 3 * 4096 * 14336
    dense = DRAWINGS["transformer-block"]().words
    assert f"attention have {attention:,} weights, those of the MLP {mlp:,}; the layer has {attention + mlp:,}" in dense
    whole, used = attention + 4096 * 8 + 8 * mlp, attention + 4096 * 8 + 2 * mlp
    moe = DRAWINGS["transformer-block"](model="mixtral-8x7b")
    assert f"the layer has {whole:,}" in moe.words
    assert f"a token uses {used / whole:.0%}".replace("%", " %") in moe.svg


def test_rows_of_prefill_and_decode() -> None:
    """4096 x 4096 weights: 2 FLOP each per row, over 2 bytes of weights, inputs and outputs."""
    words = DRAWINGS["prefill-and-decode"](tokens=2048).words
    intensity = 2 * 2048 * 4096**2 / (2 * (4096**2 + 2 * 2048 * 4096))
    assert intensity == 1024
    assert "Prefill multiplies 2,048 rows: 1,024 FLOP per byte, bound by compute" in words
    assert "Decode multiplies 1 row: 1 FLOP per byte, bound by memory" in words


def test_memories_of_a_gpu() -> None:
    """H100: 132 SMs with 65536 registers of 4 bytes and 228 KiB each; 989.4 TFLOP/s over 3.35 TB/s are 295 FLOP/byte."""
    drawing = DRAWINGS["gpu-memory"](hardware="h100-sxm")
    for words in ("132 x 256 KiB = 33 MiB", "132 x 228 KiB = 29.4 MiB", "50 MiB", "80 GB", "3.35 TB/s", ">295<"):
        assert words in drawing.svg, words
    assert "7.22 TB/s" in DRAWINGS["gpu-memory"](hardware="a100-sxm-80gb").svg  # 5120 bytes a clock at 1.41 GHz


def test_tiles_and_waves() -> None:
    """1000 x 4096 in tiles of 128 x 128: 8 x 32 tiles, on 108 units 108 + 108 + 40."""
    drawing = DRAWINGS["tiles-and-waves"](tokens=1000, outputs=4096, tile=(128, 128), hardware="a100-sxm-80gb")
    assert "8 x 32 = 256 tiles" in drawing.words
    assert "3 waves, the last with 40 tiles" in drawing.words
    assert f"{1000 * 4096 / (3 * 108 * 128 * 128):.1%}".replace("%", " %") in drawing.words
    assert "wave 3: 40 of 108 units, 68 idle" in drawing.svg


def test_roofline_of_a_card() -> None:
    """A100: 312 TFLOP/s over 2.039 TB/s are 153 FLOP/byte; one row of 4096 x 14336 does 1."""
    drawing = DRAWINGS["roofline-anatomy"]()
    assert "ridge point at 153 FLOP per byte" in drawing.words
    assert "decode: 1 FLOP/byte" in drawing.svg


def test_bytes_of_attention() -> None:
    """4096 tokens: Q and O of 32 heads, K and V of 8, of 128 x 2 bytes; scores of 32 heads four times more."""
    fused = 4096 * 128 * 2 * (2 * 32 + 2 * 8)
    eager = fused + 4 * 32 * 4096**2 * 2
    words = DRAWINGS["flash-attention"](context=4096).words
    assert f"{eager / 1e9:.3g} GB against {fused / 1e6:.3g} MB" in words


def test_cache_of_a_window() -> None:
    """Gemma 3 12B: 8 KV heads of 256 in bf16; a window of 1024 of 32768 tokens."""
    each = 2 * 8 * 256 * 2
    svg = DRAWINGS["sliding-window"](context=32768).svg
    assert f"at 32,768 tokens: {32768 * each / 1e6:.3g} MB" in svg
    assert f"at 32,768 tokens: {1024 * each / 1e6:.3g} MB" in svg


def test_slots_of_batches() -> None:
    """Three requests in two slots. Static: 4 steps for the first two, then 2. Continuous: the third follows the first."""
    ends = {
        policy: [(run.slot, run.start, run.released) for run in schedule((1, 4, 2), 2, policy)] for policy in get_args(Policy)
    }
    assert ends["static"] == [(0, 0, 4), (1, 0, 4), (0, 4, 6)]
    assert ends["continuous"] == [(0, 0, 1), (1, 0, 4), (0, 1, 3)]
    words = DRAWINGS["continuous-batching"](policy="static", lengths=(1, 4, 2), slots=2).words
    assert "after 6 steps, and 58 % of" in words  # 7 of 12


def test_chunks_of_a_prompt() -> None:
    """A budget of 512 tokens leaves 384 beside 128 sequences; one of 128 leaves none."""
    assert chunks(1500, 128, 512) == [384, 384, 384, 348]
    with pytest.raises(InputError, match="leaves none"):
        chunks(1500, 128, 128)
    assert "in 4 chunks" in DRAWINGS["chunked-prefill"]().words


def test_blocks_of_sequences() -> None:
    """10 and 7 tokens in blocks of 4: 3 and 2 blocks, with 2 and 1 empty slots; a shared block is there once."""
    assert "5 blocks are used, and 3 of their 20 slots" in DRAWINGS["paged-blocks"](tokens=(10, 7), block=4).words
    assert "4 blocks are used, and 3 of their 16 slots" in DRAWINGS["paged-blocks"](tokens=(10, 7), block=4, shared=True).words


def test_gaps_of_launches() -> None:
    """Ten kernels of a layer are started in 100 µs at the earliest; a graph starts them after 10 and leaves no gap."""
    svg = DRAWINGS["launch-gaps"]().svg
    eager, graph = (float(part) for part in re.findall(r"(?:eager|graph): ([\d.]+) µs", svg))
    assert eager > 100 > graph > 10


def test_latencies_of_a_request() -> None:
    """TPOT is what is left of E2E after TTFT, over the tokens after the first."""
    words = DRAWINGS["request-timeline"](tokens=7, queue=0.035).words
    ttft, _, _, tpot, e2e = (float(part) for part in re.findall(r"([\d.]+) ms", words)[2:])
    assert tpot == pytest.approx((e2e - ttft) / 6, rel=0.02)


@pytest.mark.parametrize(
    ("scheme", "bits"),
    [("awq", 4 + (16 + 4) / 128), ("mxfp4", 4 + 8 / 32), ("nvfp4", 4 + 8 / 16), ("fp8_block", 8 + 32 / 128**2)],
)
def test_bits_of_a_weight(scheme: str, bits: float) -> None:
    """Elements, and scale and zero point over the weights that share them."""
    drawing = DRAWINGS["quantized-group"](scheme=scheme)
    assert f"{bits:.4g} bits per weight" in drawing.words
    assert f"{bits / 8:.4f} bytes per weight" in drawing.svg


def test_choices() -> None:
    """A radio button and a picture each; in a notebook all pictures; one choice is none."""
    item = draw("attention-heads", {"MHA": {"kind": "mha"}, "GQA": {}}, about="Attention")
    html = item.html(Ids())
    assert html.count('type="radio"') == html.count('class="frame"') == item.markdown().count("data:image/svg+xml") == 2
    assert html.count(" checked>") == 1
    with pytest.raises(InputError, match="two or more"):
        draw("cache-growth", {"one": {}})
