"""Offline throughputs that NVIDIA published: how near predictions are, and that none of them beats a floor."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from published_throughput import Row, limits, loaded, model, rows

import roofline
from roofline.audit.claims import judge

PAGE = Path(__file__).resolve().parents[2] / "docs" / "accuracy.md"


@pytest.fixture(scope="module")
def published(truth: Path) -> tuple[list[Row], Path]:
    """The rows, and the folder of configurations."""
    path = truth / "truth" / "serving" / "published.csv"
    if not path.is_file():
        pytest.skip("the published figures are not there")
    return rows(path), truth / "truth" / "models" / "configs"


def slices() -> dict[str, list[float]]:
    """The figures of the documented table, by slice. `test_docs.py` holds the table itself against the simulator."""
    _, _, text = PAGE.read_text(encoding="utf-8").partition("<!-- published: written by docs/build_published.py -->")
    table = text.partition("<!-- end of published -->")[0].splitlines()
    lines = [line.strip("| ").split(" | ") for line in table if line.startswith("| ")]
    return {name: list(map(float, figures)) for name, *figures in lines[1:]}


def test_errors_are_as_small_as_documented() -> None:
    """Rows, median error and share within 25 %, over all and of what had been wrong by factors.

    Before attention-DP's ranks stepped together, its rows with long prompts stood at 0.39 of what was published.
    """
    found = slices()
    count, error, near = found["all"][:3]
    assert count == 474  # all rows
    assert error <= 9
    assert near >= 85
    assert found["all"][6] >= 80  # in the 80 % interval
    assert all(figures[6] >= 70 for name, figures in found.items() if name.startswith(("card: ", "precision: ", "layout: ")))
    assert 0.9 <= found["model: llama-4-scout"][3] <= 1.15
    assert 0.9 <= found["layout: DEP4"][3] <= 1.1
    assert found["precision: fp16"][1] <= 6


def test_limits_are_those_of_trtllm_bench(published: tuple[list[Row], Path]) -> None:
    """Of Llama 3.1 8B in fp8 on an H200, 128/128, there is a log.

    It has 125.75 GiB for the cache, 8,048 requests, hence 4,096 sequences and 8,192 tokens
    (docs/source/performance/perf-benchmarking.md, v0.17). With 1,000/1,000 a request takes 65,536 x 2,000 bytes:
    0.95 x (140.4 - 7.5) / 0.1221 = 1,034 requests, rounded up to 1,280; twice as many tokens, 2,068, to 2,304.
    """
    some, configs = published
    chosen = {
        (row.input_len, row.output_len): limits(replace(row, gpu="h200-sxm"), loaded(row.model, configs))
        for row in some
        if (row.model, row.gpu, row.release) == ("llama-3.1-8b", "h100-sxm", "v0.17")
    }
    assert chosen[128, 128] == (4096, 8192)
    assert chosen[1000, 1000] == (1280, 2304)


@pytest.mark.parametrize(
    ("model_id", "lengths", "count", "published_rate"),
    [
        ("llama-3.1-70b", (128, 2048), 3200, 13383.3),
        ("llama-3.1-70b", (2048, 2048), 1500, 7560.9),
        ("llama-3.1-405b", (128, 4096), 1500, 3043.3),
        ("llama-3.1-405b", (2048, 2048), 500, 2174.1),
    ],
)
def test_a_prior_holds_what_a_card_without_measurements_does(
    published: tuple[list[Row], Path], model_id: str, lengths: tuple[int, int], count: int, published_rate: float
) -> None:
    """Eight MI300X, fp8, vLLM 0.10: figures of ROCm/vllm, docs/dev-docker/README.md. They are in the interval."""
    result = roofline.simulate(
        model(model_id, published[1]), "mi300x", tp=8, quantization="fp8", kv_cache_dtype="fp8", workload=f"at-once:{count}",
        input_len=lengths[0], output_len=lengths[1], max_num_seqs=count, max_num_batched_tokens=131072, max_model_len=8192,
    )  # fmt: skip
    assert result.estimate_basis == "prior"
    assert result.throughput_interval is not None
    between = result.throughput_interval["output_tokens_per_s"]
    assert between["low"] <= published_rate <= between["high"]


def _fastest(some: list[Row]) -> list[Row]:
    """Of each model in each format, and of each card in each format, the row of the most tokens per device."""

    def tokens(row: Row) -> float:
        return row.measured * (1 + row.input_len / row.output_len) / (row.tp * row.pp * row.dp)

    chosen: dict[tuple[str, str], Row] = {}
    for row in some:
        for key in ((row.model, row.dtype), (row.gpu, row.dtype)):
            chosen[key] = max(chosen.get(key, row), row, key=tokens)
    return list(dict.fromkeys(chosen.values()))


@pytest.mark.night
def test_no_row_beats_its_floor(published: tuple[list[Row], Path]) -> None:
    """What was measured is possible, as a claim with its lengths: the rows that come nearest to what hardware can do."""
    some, configs = published
    fastest = _fastest(some)
    assert len(fastest) >= 27
    for row in fastest:
        options = {name: value for name, value in row.options.items() if name not in ("engine", "backend")}
        judged = judge(
            model=model(row.model, configs), hardware=row.gpu, tokens_per_s=row.measured, input_len=row.input_len,
            output_len=row.output_len, **options,
        )  # fmt: skip
        assert judged.verdict != "impossible", row
