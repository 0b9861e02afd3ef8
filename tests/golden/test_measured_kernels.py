"""Measured kernels of other laboratories against our bounds: none may be faster without a reason.

729,366 rows of AIConfigurator, Vidur and InferSim on seven cards. A bound that is beaten is a wrong count, unit or peak; a
measurement that did not flush a cache beats it too, and says so.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from roofline.measure.validate import UNEXPLAINED, Validation, groups, to_dict, validate

pytest.importorskip("pyarrow", reason="the kernels are a Parquet file")


@pytest.fixture(scope="module")
def kernels(truth: Path) -> Validation:
    """All rows, joined with their predictions."""
    path = truth / "truth" / "kernels" / "kernels.parquet"
    if not path.is_file():
        pytest.skip("the measured kernels are not there")
    return validate([path])


def test_most_rows_are_used(kernels: Validation) -> None:
    """Refused are cards that we do not ship, a name that is not whole, and groups of 16 without a network: 1.2 %."""
    assert len(kernels.frame) > 700_000
    assert kernels.refused / (len(kernels.frame) + kernels.refused) < 0.02
    assert all(word in " ".join(entry.why for entry in kernels.refusals) for word in ("pairwise", "h800", "16 devices"))


def test_nothing_is_faster_than_its_bound_without_a_reason(kernels: Validation) -> None:
    """Under 1 % is faster, nearly all of it from an L2 cache (the L40S has 96 MB), and none is unexplained."""
    why = kernels.frame["why"]
    assert (why != "").mean() < 0.01
    assert not (why == UNEXPLAINED).any()
    from_cache = why.str.contains("L2 cache")
    assert from_cache.sum() / (why != "").sum() > 0.9


def test_figures_of_the_page(kernels: Validation) -> None:
    """docs/validation.md says what is so."""
    page = (Path(__file__).resolve().parents[2] / "docs" / "validation.md").read_text(encoding="utf-8")
    frame = kernels.frame.assign(ratio=kernels.frame["measured_s"] / kernels.frame["bound_s"])
    why = frame["why"]
    counts = [len(frame) + kernels.refused, len(frame), kernels.refused, (why != "").sum()]
    counts += [(frame["bytes_moved"] > 4 * frame["l2_bytes"]).sum(), why.str.contains("L2 cache").sum()]
    counts += [why.str.contains(word).sum() for word in ("gate", "from one operator", "switch")]
    for count in counts:
        assert f"{count:,}" in page
    long = frame[frame["dtype"].isin(["bf16", "fp16"]) & (frame["latency_us"] > 100)]
    rows = {"gemm": "gemm", "attention, prefill": "attention_prefill", "attention, decode": "attention_decode"}
    rows |= {"MLA, decode": "mla_decode", "moe": "moe", "all_reduce": "all_reduce"}
    for title, op in rows.items():
        cells = []
        for card in ("a100-sxm-80gb", "h100-sxm", "h200-sxm", "l40s"):
            ratio = long[(long["op"] == op) & (long["hardware"] == card)]["ratio"]
            cells.append(f"{_shown(ratio.median())}, {_shown(ratio.quantile(0.1))}" if len(ratio) else "")
        assert f"| {title} | {' | '.join(cells)} |".replace("|  |", "| |") in page


def _shown(ratio: float) -> str:
    return f"{ratio:.1f}" if ratio >= 10 else f"{ratio:.2f}"


@pytest.mark.parametrize("op", ["attention_decode", "attention_prefill", "mla_decode", "mla_prefill", "gemm"])
def test_no_large_kernel_is_faster(kernels: Validation, op: str) -> None:
    """Where neither cache nor clock can help (over four times the L2), the bound holds for every row."""
    frame = kernels.frame
    large = frame[(frame["op"] == op) & (frame["bytes_moved"] > 4 * frame["l2_bytes"])]
    assert len(large) > 100
    assert (large["measured_s"] >= large["bound_s"]).all()


def test_the_best_kernels_come_near(kernels: Validation) -> None:
    """A bound that no kernel comes near would be no use.

    The best tenth of large products is within 45 % of it, and the best tenth of long decode attention within 35 %.
    """
    frame = kernels.frame.assign(ratio=kernels.frame["measured_s"] / kernels.frame["bound_s"])
    for op, limit in (("gemm", 1.45), ("attention_decode", 1.35)):
        long = frame[(frame["op"] == op) & (frame["dtype"] == "bf16") & (frame["measured_s"] > 1e-3)]
        assert len(long) > 1000
        assert long["ratio"].quantile(0.1) < limit


def test_every_kind_is_predicted(kernels: Validation) -> None:
    """Each op of the file has groups, with the bias that a bound has."""
    found = groups(kernels.frame)
    assert {group["op"] for group in found} == set(kernels.frame["op"])
    assert sum(group["n"] for group in found) == len(kernels.frame)
    assert to_dict(kernels)["overall"]["bound"]["bias"] < 0
