"""Shipped fits against measured kernels of other laboratories: errors on shapes that no fit has seen.

The rows are those of `roofline.measure.calibrate.family.held_out`. What is asserted is what the documentation promises, by op,
accelerator and backend, and that files and page say what is so.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from roofline.measure.calibrate import engine_steps, families
from roofline.measure.calibrate.family import held_out, regimes
from roofline.measure.records.read import read
from roofline.predict.efficiency.forms import FORMS, forms_by_op
from roofline.specs.fit import Family
from roofline.specs.library import fit_files, load_engine_steps, load_fit, load_hardware

if TYPE_CHECKING:
    import pandas as pd

pytest.importorskip("pyarrow", reason="the kernels are a Parquet file")

ROOT = Path(__file__).resolve().parents[2]
# Family, accelerator, backend (a later entry before an earlier one; None is any): the most that the median error may be.
MOST: list[tuple[str, str | None, str | None, float]] = [
    ("gemm/bf16", "a100-sxm-80gb", None, 0.06),
    ("gemm/bf16", "h100-sxm", None, 0.045),
    ("gemm/bf16", "h200-sxm", None, 0.05),
    ("gemm/fp8", None, None, 0.13),
    ("gemm/fp8", None, "trtllm", 0.05),
    ("gemm/fp8_block", None, None, 0.13),
    ("gemm/fp8_block", None, "trtllm", 0.05),
    ("attention_prefill/bf16", None, None, 0.08),
    ("attention_decode/bf16", None, None, 0.08),
    ("attention_decode/bf16/kv-fp8", None, "vllm", 0.08),
    ("attention_decode/bf16/kv-fp8", None, "sglang", 0.08),
    ("attention_decode/bf16/kv-fp8", None, "trtllm", 0.19),
    ("mla_prefill/bf16", None, None, 0.08),
    ("mla_decode/bf16", None, None, 0.08),
    ("moe/bf16", None, "vllm", 0.10),
    ("moe/bf16", "a100-sxm-80gb", "vllm", 0.16),
    ("moe/bf16", None, "trtllm", 0.15),
    ("moe/bf16", None, "sglang", 0.12),
    *((op, None, None, 0.06) for op in ("rmsnorm", "rope", "silu_mul", "add", "embedding")),
    *((op, None, None, 0.06) for op in ("all_gather",)),
    # worse than one would like, each with its reason in docs/accuracy.md
    ("gemm/bf16", "h100-sxm", "sglang", 0.055),
    ("gemm/bf16", "h200-sxm", "sglang", 0.06),
    ("gemm/bf16", "l40s", None, 0.10),
    ("rope", "h100-sxm", None, 0.17),
    ("reduce_scatter", None, None, 0.08),
    ("all_to_all", None, None, 0.09),
    ("all_reduce", None, None, 0.06),
    ("all_reduce", "h100-sxm", "sglang", 0.085),
    ("all_reduce", "l40s", None, 0.12),
    ("all_reduce", "a100-sxm-80gb", "trtllm", 0.25),
    ("moe/bf16/ungated", None, "sglang", 0.38),
    ("p2p", None, None, 0.08),
    ("bmm/bf16", None, None, 0.12),
]  # fmt: skip
FITS = [
    (accelerator, path, key)
    for accelerator, paths in fit_files().items()
    for path in paths
    for key in load_fit(path)[0].families
]


@pytest.fixture(scope="module")
def records(truth: Path) -> pd.DataFrame:
    """All rows, as they are read."""
    path = truth / "truth" / "kernels" / "kernels.parquet"
    if not path.is_file():
        pytest.skip("the measured kernels are not there")
    frame = read([path]).frame
    return frame[frame["op"].isin(list(forms_by_op()))]


@pytest.fixture(scope="module")
def judged(records: pd.DataFrame) -> dict[tuple[str, str, str], tuple[Family, Any, Any]]:
    """Of every shipped fit the family, the held-out kernels, and measured over estimated."""
    import numpy as np

    found = {}
    for accelerator, paths in fit_files().items():
        device = load_hardware(accelerator)[0]
        for path in paths:
            fit = load_fit(path)[0]
            rows = records[(records["gpu"] == accelerator) & (records["backend"] == fit.backend)]
            for key, kernels in families(rows, device, {}):
                out = held_out(kernels.shapes)
                unseen = kernels.of(np.array([shape in out for shape in kernels.shapes]))
                family = fit.families[key]
                ratio = unseen.measured / unseen.predicted(FORMS[family.form], family.parameters)
                found[accelerator, path.stem, key] = (family, unseen, ratio)
    return found


@pytest.mark.parametrize(("accelerator", "path", "key"), FITS, ids=[f"{a} {p.stem} {k}" for a, p, k in FITS])
def test_held_out_error(judged: Any, accelerator: str, path: Path, key: str) -> None:
    """The file says what is so, and the error is no more than what is promised for its kind."""
    import numpy as np

    family, _, ratio = judged[accelerator, path.stem, key]
    error = float(np.median(np.abs(1 / ratio - 1)))
    assert family.held_out is not None
    assert error == pytest.approx(family.held_out.median_ape, abs=2e-3)
    backend = load_fit(path)[0].backend
    limits = [
        most for kind, gpu, whose, most in MOST if kind == key and gpu in (None, accelerator) and whose in (None, backend)
    ]
    assert limits, f"no promise for {key}"
    assert error <= limits[-1] + 5e-4


@pytest.mark.parametrize(("kind", "least", "most"), [("gemm/", 0.75, 0.85), ("attention_", 0.75, 0.85), ("moe/", 0.70, 0.85)])
def test_bands_hold_what_they_say(judged: Any, kind: str, least: float, most: float) -> None:
    """80 % bands hold about 80 % of the held-out rows. NB: experts a little less: nine models tell little of a tenth."""
    import numpy as np

    inside = rows = 0
    for (_, _, key), (family, unseen, ratio) in judged.items():
        if key.startswith(kind):
            names = regimes(unseen, unseen.measured / ratio)
            low, high = np.array([family.bands.get(name, family.bands["all"]) for name in names.tolist()]).T
            within = (ratio >= low) & (ratio <= high)
            assert family.held_out is not None
            assert within.mean() == pytest.approx(family.held_out.coverage, abs=0.02)
            inside, rows = inside + int(within.sum()), rows + len(ratio)
    assert rows > 20_000
    assert least <= inside / rows <= most


def test_the_page_states_every_fit(judged: Any) -> None:
    """docs/accuracy.md has a row for every fit, with the error that the file states."""
    page = (ROOT / "docs" / "accuracy.md").read_text(encoding="utf-8")
    stated = {
        (match[2], match[3], match[1]): float(match[4])
        for match in re.finditer(r"^\| (\S+) \| (\S+) \| (\S+) \| [\d,]+ of \d+ \|.*\| \*\*([\d.]+)\*\* /", page, re.MULTILINE)
    }
    for accelerator, path, key in FITS:
        fit = load_fit(path)[0]
        held = fit.families[key].held_out
        assert held is not None
        assert stated[accelerator, fit.backend, key] == pytest.approx(100 * held.median_ape, abs=0.11)


@pytest.fixture(scope="module")
def left_out(truth: Path) -> dict[str, Any]:
    """By engine the fit of its steps, and its points, each predicted without any point of the same model."""
    paths = [truth / "truth" / "serving" / name for name in ("end_to_end.csv", "moe_end_to_end.csv")]
    if not all(path.is_file() for path in paths):
        pytest.skip("the serving points are not there")
    return {engine: engine_steps(paths, engine) for engine in ("vllm", "sglang", "trtllm")}


@pytest.mark.parametrize(("engine", "most"), [("vllm", 0.105), ("sglang", 0.145), ("trtllm", 0.105)])
@pytest.mark.night
def test_time_per_output_token(left_out: dict[str, Any], engine: str, most: float) -> None:
    """Of closed loops, each model left out in turn; the file says what is so."""
    found, _ = left_out[engine]
    shipped = load_engine_steps([engine])
    assert shipped is not None
    names = ("step", "sequence", "rank", "experts", "hidden", "routing_skew")
    assert [getattr(found, name) for name in names] == pytest.approx(
        [getattr(shipped[0], name) for name in names], rel=0.2, abs=1e-9
    )
    assert found.band == pytest.approx(shipped[0].band, rel=0.05)
    assert found.held_out is not None
    assert found.held_out.median_ape <= most


def test_serving_intervals(left_out: dict[str, Any]) -> None:
    """Of models that neither fit nor interval has seen 70 to 90 % of the points lie in the 80 % interval.

    It was 36 % with fits to dense models, and at 8 clients or fewer models with experts were 17 to 31 % too fast.
    """
    import pandas as pd

    frame = pd.concat([frame for _, frame in left_out.values()])
    usable = frame[frame["usable"]]
    assert len(usable) > 1100
    assert 0.7 <= usable["measured_s"].between(usable["low_s"], usable["high_s"]).mean() <= 0.9
    error = usable["estimate_s"] / usable["measured_s"] - 1
    assert error.abs().median() <= 0.105
    few = error[usable["regime"].astype(str) == "<=8 clients"]
    for _, some in few.groupby(usable["hardware"]):
        assert abs(some.median()) <= 0.1
    assert (usable["measured_s"] < usable["bound_s"]).mean() < 0.01  # the bound has no prompts of others in it
