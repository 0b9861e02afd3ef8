"""Answers of the topics `memory-hierarchy`, `disaggregation` and `energy` against arithmetic that a reader can check."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator

import pytest

from roofline.teach.worksheets import TEMPLATES, make
from roofline.teach.worksheets.problem import Problem

SCALES = {
    "s": 1.0,
    "ms": 1e-3,
    "µs": 1e-6,
    "W": 1.0,
    "kW": 1e3,
    "GB/s": 1e9,
    "TB/s": 1e12,
    "MB": 1e6,
    "GB": 1e9,
    "TFLOP/s": 1e12,
}
BYTES = {"bf16": 2, "fp8": 1}


def problems(name: str, seeds: int = 40) -> Iterator[Problem]:
    return (make(TEMPLATES[name], seed) for seed in range(seeds))


def numbers(pattern: str, text: str) -> list[float]:
    """The numbers of a pattern's groups; NUM stands for one, QTY for one with its unit."""
    pattern = pattern.replace("NUM", r"([\d,]*\.?\d+)").replace("QTY", r"([\d,.]+ (?:" + "|".join(SCALES) + r")\b)")
    match = re.search(pattern, text, re.DOTALL)
    assert match, (pattern, text)
    values = []
    for group in match.groups():
        number, _, unit = group.replace(",", "").partition(" ")
        values.append(float(number) * SCALES.get(unit, 1.0))
    return values


def token(text: str) -> float:
    """2 x layers x KV heads x width x 2 bytes."""
    kv, width = numbers(r"NUM KV heads.*head width NUM", text)
    (layers,) = numbers(r"NUM layers \(\$L", text)
    return 4 * layers * kv * width


def near(value: float, problem: Problem, rel: float = 1e-3) -> None:
    assert problem.answer.value == pytest.approx(value, rel=rel), problem.text


def test_transfer_time() -> None:
    """Bytes of the cache over GPUs, over a port's bits by 8: 2,048 x 128 KiB of Llama 3.1 8B over 2 x 50 GB/s is 2.68 ms."""
    golden = []
    for problem in problems("disaggregation-transfer-time", 500):
        tokens, gpus, gbit = numbers(r"prompt of NUM tokens.*computed on NUM GPUs.*port of NUM Gbit/s", problem.text)
        near(tokens * token(problem.text) / gpus / (gbit * 1e9 / 8), problem)
        if "Llama 3.1 8B" in problem.text and (tokens, gpus, gbit) == (2048, 2, 400):
            golden.append(problem.answer.value)
    assert golden
    assert golden == pytest.approx([2.684e-3] * len(golden), rel=1e-3)


def test_layer_by_layer() -> None:
    """The last layer alone, and sending a layer takes less than computing one."""
    for problem in problems("disaggregation-layer-by-layer"):
        layers, prefill, rate = numbers(r"NUM layers.*takes QTY on an.*decode GPU at QTY", problem.text)
        (tokens,) = numbers(r"prompt of NUM tokens", problem.text)
        near(tokens * token(problem.text) / layers / rate, problem)
        assert problem.answer.value < prefill / layers


def test_break_even_link_one_way() -> None:
    """Cache of a token x share x peak / (2 N): half of what swapping out and in again needs."""
    for problem in problems("disaggregation-break-even-link"):
        weights, peak, share = numbers(r"itself: NUM weights.*\(QTY dense.*reaches NUM % of its peak", problem.text)
        near(token(problem.text) * peak * share / 100 / (2 * weights), problem)


def test_first_token() -> None:
    """Wait, prefill, transfer and a step."""
    for problem in problems("disaggregation-first-token"):
        wait, tokens, prefill, rate, step = numbers(
            r"waits QTY in.*prompt of NUM tokens then takes QTY there.*done, at QTY\. As.*step of QTY", problem.text
        )
        near(wait + prefill + tokens * token(problem.text) / rate + step, problem)


def test_blocks_on_both_sides() -> None:
    """Twice rate x time x whole blocks."""
    for problem in problems("disaggregation-blocks-on-both-sides"):
        tokens, rate, seconds = numbers(r"Prompts of NUM tokens.*pool at NUM requests/s.*takes QTY\. Blocks", problem.text)
        near(2 * rate * seconds * math.ceil(tokens / 16) * 16 * token(problem.text), problem)


def test_colocated_rate() -> None:
    """At the rate, t / (1 - r t_p) is the objective."""
    for problem in problems("disaggregation-colocated-rate"):
        step, prompt, limit = numbers(r"steps of QTY; each.*computed in QTY longer.*TPOT is QTY\.", problem.text)
        assert step / (1 - problem.answer.value * prompt) == pytest.approx(limit)


def test_pool_sizes() -> None:
    """Each pool rounded up on its own."""
    for problem in problems("disaggregation-pool-sizes"):
        rate, prompt, out, fill, decode = numbers(
            r"^NUM requests.*prompts of NUM tokens and NUM output.*does NUM tokens/s.*sequences, NUM tokens/s", problem.text
        )
        assert problem.answer.value == math.ceil(rate * prompt / fill) + math.ceil(rate * out / decode)


def test_goodput_per_gpu() -> None:
    """Rate over GPUs, of both."""
    for problem in problems("disaggregation-goodput-per-gpu"):
        replicas, together, prefill, decode, pools = numbers(
            r"of NUM replicas.*up to NUM requests.*, NUM prefill and NUM decode.*up to NUM requests", problem.text
        )
        near(pools / (prefill + decode) / (together / replicas), problem)


def test_transfer_in_a_post() -> None:
    """The post's number is query heads over KV heads too much, and 8 times too little."""
    for problem in problems("disaggregation-find-the-mistakes"):
        tokens, gbit = numbers(r"prompt of NUM tokens.*port of NUM Gbit/s", problem.text)
        layers, queries, width = numbers(r"> 2 x NUM layers x NUM heads x NUM x", problem.text)
        (kv,) = numbers(r"NUM KV heads", problem.text)
        near(4 * layers * kv * width * tokens / (gbit / 8 * 1e9), problem)
        both = next(one for one in problem.mistakes if one.name.startswith("both"))
        assert both.value == pytest.approx(problem.answer.value * queries / kv / 8)


def test_weights_in_l2() -> None:
    """MiB over three matrices: of Llama 3.1 8B in bf16 50 MiB are 50 x 1048576 / (3 x 4096 x 14336 x 2) = 14.9 %."""
    golden = []
    for problem in problems("memory-hierarchy-weights-in-l2", 300):
        hidden, inner = numbers(r"hidden size NUM .* inner width NUM ", problem.text)
        (size,) = numbers(r"holds NUM MiB", problem.text)
        element = BYTES[re.search(r"in (bf16|fp8)\. The L2", problem.text)[1]]  # type: ignore[index]
        near(size * 2**20 / (3 * hidden * inner * element), problem)
        if (hidden, inner, element, size) == (4096, 14336, 2, 50):
            golden.append(problem.answer.value)
    assert golden
    assert golden == pytest.approx([0.1488] * len(golden), rel=1e-3)


def test_all_of_memory() -> None:
    """Bytes over bandwidth."""
    for problem in problems("memory-hierarchy-all-of-memory"):
        filled, memory, reached, bandwidth = numbers(r"NUM % of the NUM GiB.*at NUM % of the bandwidth of QTY;", problem.text)
        near(filled / 100 * memory * 2**30 / (reached / 100 * bandwidth), problem)


def test_share_for_the_cache() -> None:
    """The engine's share, less weights and activations over the memory."""
    for problem in problems("memory-hierarchy-share-for-the-cache"):
        share, memory, billions, used = numbers(r"takes NUM % of the NUM GiB.*, NUM billion.*and NUM GiB of", problem.text)
        element = BYTES[re.search(r"parameters in (bf16|fp8)", problem.text)[1]]  # type: ignore[index]
        near(share / 100 - (billions * 1e9 * element / 2**30 + used) / memory, problem, rel=5e-3)


def test_bytes_in_flight() -> None:
    """Rate x latency: an H100 at 3.35 TB/s, 600 ns and 90 % has 1.81 MB in flight, 13.7 kB in each of 132 SMs."""
    for problem in problems("memory-hierarchy-bytes-in-flight"):
        latency, bandwidth, units, share = numbers(r"takes NUM ns .* delivers QTY\..*has NUM SMs.*reach NUM %", problem.text)
        near(share / 100 * bandwidth * latency * 1e-9 / units, problem)
        if "H100" in problem.text:
            assert problem.answer.value / (latency * share) == pytest.approx(13.7e3 / (600 * 90), rel=2e-3)


def test_tile_bytes() -> None:
    """Both tiles, of every stage."""
    for problem in problems("memory-hierarchy-tile-bytes"):
        rows, depth, again, columns, stages = numbers(
            r"loads NUM x NUM elements.*and NUM x NUM of the other.*has NUM stages", problem.text
        )
        element = BYTES[re.search(r"other, in (bf16|fp8)", problem.text)[1]]  # type: ignore[index]
        assert depth == again
        assert problem.answer.value == stages * (rows + columns) * depth * element


def test_tile_intensity() -> None:
    """2 m n k over the bytes of both operands."""
    for problem in problems("memory-hierarchy-tile-intensity"):
        rows, depth, again, columns = numbers(r"reads NUM x NUM elements of one operand and NUM x NUM of", problem.text)
        element = BYTES[re.search(r"cache, in (bf16|fp8)", problem.text)[1]]  # type: ignore[index]
        assert depth == again
        near(2 * rows * columns * depth / ((rows + columns) * depth * element), problem)


def test_score_matrix() -> None:
    """Heads x tokens x tokens x 2 bytes: 8,192 tokens and 32 heads are 4 GiB."""
    golden = set()
    for problem in problems("memory-hierarchy-score-matrix", 400):
        tokens, queries = numbers(r"prompt of NUM tokens.* NUM query heads", problem.text)
        assert problem.answer.value == 2 * queries * tokens * tokens
        if (tokens, queries) == (8192, 32):
            golden.add(problem.answer.value)
    assert golden == {2**32}


def test_fused_attention() -> None:
    """1 + 4 n_q p / (d (2 n_q + 2 n_kv)): the width and the two bytes drop out."""
    for problem in problems("memory-hierarchy-fused-attention"):
        queries, kv, width, tokens = numbers(r"\(NUM query.* NUM KV.*width NUM .*prompt of NUM tokens", problem.text)
        near(1 + 4 * queries * tokens / (width * (2 * queries + 2 * kv)), problem)


def test_offloaded_layers() -> None:
    """Some layers over the link, the others from device memory."""
    for problem in problems("memory-hierarchy-offloaded-layers"):
        away, layers, weights, rate, bandwidth = numbers(
            r"^NUM of the NUM layers.*has NUM weights.*carries QTY in.*memory QTY\. A", problem.text
        )
        near(2 * weights * (away / rate + (layers - away) / bandwidth), problem)


def test_offloading_in_a_post() -> None:
    """Two bytes for each weight over the link; the post took one, at the bandwidth of the memory."""
    for problem in problems("memory-hierarchy-find-the-mistakes"):
        weights, bandwidth, rate = numbers(r"have NUM weights.*delivers QTY, the link to the host QTY in", problem.text)
        near(2 * weights / rate, problem)
        both = next(one for one in problem.mistakes if one.name.startswith("both"))
        assert both.value == pytest.approx(weights / bandwidth)


def test_energy_per_token() -> None:
    """Watts over tokens per second: 8 boards of 700 W at 2,800 tokens/s are 2 J."""
    for problem in problems("energy-per-token"):
        devices, power, rate = numbers(r"^NUM .*power of QTY each serve NUM output", problem.text)
        near(devices * power / rate, problem)


def test_energy_of_a_million_tokens() -> None:
    """Seconds of a million tokens, in hours, times kW, PUE and price."""
    for problem in problems("energy-million-tokens"):
        devices, power, rate, pue, price = numbers(
            r"^NUM .*\(QTY each.*produce NUM output.*takes NUM times.*costs \$NUM\. What", problem.text
        )
        near(1e6 / rate / 3600 * devices * power / 1000 * pue * price, problem)


def test_energy_of_a_day() -> None:
    """Replicas that the tokens keep at work, each at its power, for 24 hours of 3,600 seconds."""
    for problem in problems("energy-of-a-day"):
        rate, out, power, each = numbers(r"^NUM requests.*with NUM output.*\(QTY\) produces NUM output", problem.text)
        near(rate * out / each * power * 24 * 3600, problem)


def test_energy_beyond_the_machines() -> None:
    """(PUE - 1) of what the boards draw in 8,760 hours."""
    for problem in problems("energy-pue"):
        nodes, gpus, power, share, pue = numbers(r"^NUM .*with NUM GPUs of QTY that draw NUM %.*PUE of NUM\. How", problem.text)
        near((pue - 1) * nodes * gpus * power * share / 100 * 8760 * 3600, problem)


def test_tokens_per_joule() -> None:
    """Rate over power, of both."""
    for problem in problems("energy-two-cards"):
        first, rate, second, other = numbers(r"tokens an .*\(QTY\) gives NUM tokens.*\(QTY\) NUM\. Both", problem.text)
        near((rate / first) / (other / second), problem, rel=2e-3)


def test_power_cap() -> None:
    """Power over rate, with the cap and without."""
    for problem in problems("energy-power-cap"):
        power, cap, loss = numbers(r"draws QTY under.*Capped at QTY, .*produces NUM % fewer", problem.text)
        near(1 - (cap / (1 - loss / 100)) / power, problem)


def test_energy_of_a_batch() -> None:
    """B (W + k) / (W + B k)."""
    for problem in problems("energy-batch"):
        weights, cache, batch = numbers(r"reads QTY of weights.*sequence, QTY of cache.*with NUM sequences", problem.text)
        near(batch * (weights + cache) / (weights + batch * cache), problem)


def test_rent_or_own() -> None:
    """At the share of hours, rent is purchase and electricity."""
    for problem in problems("energy-rent-or-own"):
        cost, years, power, pue, price, rent = numbers(
            r"costs \$NUM to buy.*over NUM years.*draws QTY, times a PUE of NUM, at \$NUM for.*hour costs NUM USD/h",
            problem.text,
        )
        used = problem.answer.value * years * 8760
        assert used * rent == pytest.approx(cost + used * power / 1000 * pue * price)


def test_energy_in_a_post() -> None:
    """All boards, in joules: the post has one of them, and 3,600 times too much."""
    for problem in problems("energy-find-the-mistakes"):
        devices, power, rate = numbers(r"server with NUM .*, QTY each, gives NUM output", problem.text)
        near(devices * power / rate * 1e6, problem)
        both = next(one for one in problem.mistakes if one.name.startswith("both"))
        assert both.value == pytest.approx(problem.answer.value / devices * 3600)
