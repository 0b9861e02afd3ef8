"""Drawings: texts that can be read, words for those who do not see them, numbers of the files."""

from __future__ import annotations

import math
import re
from typing import Any, get_args
from xml.etree import ElementTree as ET

import pytest

from roofline.errors import InputError
from roofline.teach.lessons.draw import DRAWINGS
from roofline.teach.lessons.draw.canvas import Canvas
from roofline.teach.lessons.draw.chunked_prefill import chunks
from roofline.teach.lessons.draw.continuous_batching import Policy, schedule
from roofline.teach.lessons.draw.moe_routing import gates
from roofline.teach.lessons.draw.ring_all_reduce import contributions
from roofline.teach.lessons.drawn import draw
from roofline.teach.lessons.slide_blocks import SMALLEST
from roofline.teach.lessons.slides import arranged
from roofline.teach.markdown import Ids


@pytest.mark.parametrize("name", DRAWINGS)
def test_texts_can_be_read(name: str) -> None:
    """None leaves the picture or its box, lies on another or across an edge, or is smaller than 11 pixels."""
    assert DRAWINGS[name]().canvas.faults() == ()


VARIANTS: list[tuple[str, dict[str, Any]]] = [
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
]
"""Drawings with parameters that give them another key."""


@pytest.mark.parametrize(("name", "parameters"), VARIANTS)
def test_texts_of_variants_can_be_read(name: str, parameters: dict[str, Any]) -> None:
    """The same with other parameters, and under another key than the usual picture."""
    variant = DRAWINGS[name](**parameters)
    assert variant.canvas.faults() == ()
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
    found = canvas.faults()
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


CHOICES = {
    "ring-all-reduce": [{"step": step} for step in range(7)] + [{"devices": n, "step": n} for n in (2, 3, 5, 6)],
    "tensor-parallel": [{"part": part, "devices": n} for part in ("mlp", "attention") for n in (2, 4)],
    "pipeline-parallel": [{"stages": 2, "microbatches": 1}, {"microbatches": 12}, {"stages": 8, "microbatches": 17}],
    "parallel-layouts": [{"layout": name} for name in ("tp", "pp", "tp-pp", "tp-ep", "dp", "dp-ep")],
    "prefill-decode-pools": [{"prompt": 1024}, {"prompt": 32768}],
    "speculation-tree": [{"kind": "tree"}, {"acceptance": 0.9}],
    "prefix-tree": [{"view": "evict"}],
    "kv-tiers": [{"tokens": 1024}, {"tokens": 65536}, {"disk": "12 GB/s"}],
    "recompute-or-swap": [{"tokens": 512}, {"tokens": 65536}],
    "moe-routing": [{"view": "batch"}, {"seed": 8}],
    "mla-absorb": [{"form": "expanded"}, {"model": "deepseek-v2"}],
}
"""Other settings of drawings."""


@pytest.mark.parametrize(("name", "settings"), [(name, each) for name, listed in CHOICES.items() for each in listed])
def test_texts_of_other_settings_can_be_read(name: str, settings: dict[str, Any]) -> None:
    """As of the usual ones."""
    assert DRAWINGS[name](**settings).canvas.faults() == ()


SHOWN = [*((name, {}) for name in DRAWINGS), *VARIANTS, *((name, each) for name, listed in CHOICES.items() for each in listed)]


@pytest.mark.parametrize(("name", "settings"), SHOWN)
def test_texts_can_be_read_on_slides(name: str, settings: dict[str, Any]) -> None:
    """Letters that a slide would show smaller than 18 pixels are enlarged; then too none lies on another or leaves its box.

    Of several the slide has a line for the choice, which leaves less space.
    """
    drawing = DRAWINGS[name](**settings)
    for kicker in ("", "Shown: this one") if settings or name in CHOICES else ("",):
        _, scale = arranged(drawing, kicker)
        assert drawing.canvas.faults(SMALLEST / scale) == ()


def test_enlarged_letters_are_checked() -> None:
    """A text in a box and two below one another have space in 12 pixels and not in 24; lines of one text stay apart."""
    canvas = Canvas(200, 200)
    canvas.box(10, 10, 50, 20, "a box", size=12)
    canvas.label("one\ntwo\nthree", 90, 20, size=12)
    canvas.label("four", 90, 90, size=12)
    assert canvas.faults() == ()
    assert canvas.faults(24) == ("'a box' is wider than its box", "'three' lies on 'four'")


def test_ring_reduces_then_gathers() -> None:
    """Four devices: after 3 steps each has one chunk that is summed over all, after 6 all 16; a chunk moves on in each step."""
    held, sent = contributions(4, 3)
    assert [chunks.count(4) for chunks in held] == [1, 1, 1, 1]
    assert sorted(device.index(4) for device in held) == [0, 1, 2, 3]
    assert sorted(chunk for chunk in sent if chunk is not None) == [0, 1, 2, 3]
    assert contributions(4, 6)[0] == [[4] * 4] * 4


WORDS = {
    # 2048 tokens x 8192 x 2 B = 33.55 MB; 2 * 3/4 of it
    ("ring-all-reduce", ()): "it sends 50.3 MB",
    # 64 x 8192 x 2 B = 1.049 MB; 3/4 of it
    ("collectives", ()): "Reduce-scatter: each gets a piece of the sum; each device sends 786 kB",
    # 28672/4 = 7168 rows
    ("tensor-parallel", (("devices", 4),)): "(7,168 x 8,192). The partial sums are added by one",
    # (64 + 2*8)/2 heads of 128
    ("tensor-parallel", (("part", "attention"),)): "(8,192 x 5,120)",
    # of p - 1 = 3 and 12 + 3
    ("pipeline-parallel", (("microbatches", 12),)): "3 of 15 columns, 20 %",
    # 64 sequences x 4096 tokens x 131072 B/8, with one KV head of eight, all sequences
    ("parallel-layouts", (("layout", "tp"),)): "4.29 GB of cache",
    # the vectors of 64 tokens to the next stage: 64 x 4096 x 2 B
    ("parallel-layouts", (("layout", "pp"),)): "sends 524 kB in a decode step",
    # two all-reduces of 2 * 7/8 * 64 * 4096 * 2 B in 32 layers, one of the embedding; 7/8 of 64 * 32000 * 2 B of logits
    ("parallel-layouts", (("layout", "tp-ep"),)): "sends 63.2 MB in a decode step",
    # 131072 B x 4096 x 8 sequences: the same
    ("parallel-layouts", (("layout", "dp-ep"),)): "4.29 GB of cache",
    # 80 layers x 2 x 8 heads x 128 x 2 B x 4096 tokens / 4 devices = 335.5 MB over 50 GB/s
    ("prefill-decode-pools", ()): "336 MB on each of 4 GPUs, goes over InfiniBand NDR between nodes in 6.7 ms",
    # 1 + 0.5 + 0.25 + 0.125 + 0.0625
    ("speculation-tree", (("acceptance", 0.5),)): "a round gives 1.94 tokens",
    # 1 + 0.75 + 0.75² + 0.75³ = 2.734
    ("speculation-tree", (("kind", "tree"), ("acceptance", 0.5), ("second", 0.25))): "a round gives 2.73 tokens",
    # (512 + 2048)/16 of (512 + 2048 + 128)/16
    ("prefix-tree", ()): "finds 160 of its 168 blocks",
    # 40 = the 24 of the leaf that was used first, and 16 of the next
    ("prefix-tree", (("view", "evict"),)): "24 of A, 16 of B",
    # 8192 x 131072 B = 1.074 GB over 450 GB/s
    ("kv-tiers", ()): "another device 450 GB/s, 2.4 ms",
    # 5 µs x 32 layers x 2 x 512 blocks + 1.074 GB/(0.8 x 64 GB/s) = 163.8 + 21 ms, twice
    ("recompute-or-swap", ()): "swap 370 ms",
    # 3 x 4096 x 14336 x 2 B
    ("moe-routing", (("view", "batch"),)): "each has 352 MB of weights",
    # 128 heads x 2 x (512 + 64 + 512)
    ("mla-absorb", ()): "278,528 FLOP per cached token",
    # 128 heads x 2 x (128 + 64 + 128)
    ("mla-absorb", (("form", "expanded"),)): "81,920 FLOP per cached token",
    # 8192 - 5
    ("scheduler-loop", ()): "a chunk of 8,187",
}  # fmt: skip
"""What a drawing says, by its name and settings; the arithmetic is beside it."""


@pytest.mark.parametrize(("name", "settings"), WORDS)
def test_numbers(name: str, settings: tuple[tuple[str, Any], ...]) -> None:
    """Computed ones are in the words."""
    assert WORDS[name, settings] in DRAWINGS[name](**dict(settings)).words


def test_expert_loads() -> None:
    """16 tokens choose 2 each: 32 copies on four devices, of which the fullest has at least 8."""
    listed = re.search(r"The devices get ([\d, ]+) copies: device (\d)", DRAWINGS["expert-parallel"]().words)
    assert listed is not None
    loads = [int(load) for load in listed[1].split(", ")]
    assert (len(loads), sum(loads)) == (4, 32)
    assert loads[int(listed[2])] == max(loads) >= 8


def test_gates_of_the_chosen_sum_to_one() -> None:
    """Softmax of 0, ln 2, ln 5: 1/8, 2/8, 5/8; of the best two 2/7 and 5/7."""
    shares, chosen = gates([0.0, math.log(2), math.log(5)], 2)
    assert shares == pytest.approx([1 / 8, 2 / 8, 5 / 8])
    assert chosen == pytest.approx({1: 2 / 7, 2: 5 / 7})


def test_littles_law_holds_of_the_bars() -> None:
    """Rate times mean time is the mean number, and the area over the seconds."""
    words = DRAWINGS["littles-law"]().words
    numbers = re.search(
        r"are ([\d.]+) request-\w+: ([\d.]+) requests .* times ([\d.]+) s each is ([\d.]+) .* over ([\d.]+) s", words
    )
    assert numbers is not None
    area, rate, each, mean, seconds = map(float, numbers.groups())
    assert rate * each == pytest.approx(mean, rel=0.01)
    assert area / seconds == pytest.approx(mean, rel=0.01)
