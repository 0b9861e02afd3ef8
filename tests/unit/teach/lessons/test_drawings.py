"""Drawings: texts that can be read, words for those who do not see them, numbers of the files."""

from __future__ import annotations

import math
import re
from typing import Any
from xml.etree import ElementTree as ET

import pytest

from roofline.errors import InputError
from roofline.teach.lessons.draw import DRAWINGS
from roofline.teach.lessons.draw.canvas import Canvas
from roofline.teach.lessons.draw.moe_routing import gates
from roofline.teach.lessons.draw.ring_all_reduce import contributions
from roofline.teach.lessons.drawn import draw
from roofline.teach.markdown import Ids


@pytest.mark.parametrize("name", DRAWINGS)
def test_texts_can_be_read(name: str) -> None:
    """None leaves the picture or its box, lies on another or across an edge, or is smaller than 11 pixels."""
    assert DRAWINGS[name]().faults == ()


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
    assert DRAWINGS[name](**settings).faults == ()


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
