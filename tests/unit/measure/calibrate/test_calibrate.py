"""From records to a fit: parameters that were put in come out, and what the data cannot tell is said."""

from __future__ import annotations

import csv
import json
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from roofline.errors import InputError, UnknownNameError
from roofline.measure.calibrate import as_yaml, calibrate
from roofline.measure.records.columns import dtypes
from roofline.measure.records.ops import RECORD_OPS, Call
from roofline.predict.efficiency.form import Conditions, chip
from roofline.predict.efficiency.forms import FORMS
from roofline.specs.library import load_fit, load_hardware

pytestmark = pytest.mark.slow

COLUMNS = ("source", "gpu", "op", "dtype", "backend", "version", "m", "n", "k", "tokens", "hidden", "latency_us", "cache")
# What a made-up library reaches: those figures have to come out again.
TRUE = {"launch": 3e-6, "compute": 0.8, "memory": 0.7, "feed": 0.02, "tile": 2e-6, "split": 4e-6, "throttle": 0.05}
SIZES = (512, 1024, 2048, 4096, 8192)


def seconds(op: str, row: dict[str, Any], form: str, values: dict[str, float]) -> float:
    """What a kernel takes by a form."""
    operators = {name: one for name, (one, _) in RECORD_OPS[op].operators(Call(dtypes("bf16"), row)).items()}
    device = chip(load_hardware("h100-sxm")[0])
    return float(FORMS[form].seconds(operators, device, Conditions(), values))


def table(path: Path, rows: Iterable[dict[str, Any]]) -> Path:
    """A file of records."""
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS)
        writer.writeheader()
        writer.writerows(rows)
    return path


@pytest.fixture(scope="module")
def products(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Products as the made-up library does them, cold."""
    values = {entry.name: TRUE.get(entry.name, entry.start) for entry in FORMS["gemm"].parameters}
    rows = [
        {
            "source": "made up", "gpu": "h100-sxm", "op": "gemm", "dtype": "bf16", "backend": "mine", "version": "1",
            "m": m, "n": n, "k": k, "cache": "cold",
            "latency_us": 1e6 * seconds("gemm", {"m": m, "n": n, "k": k}, "gemm", values),
        }
        for n in SIZES for k in SIZES for m in (1, 16, 64, 128, 256, 512, 1024, 4096, 16384)
    ]  # fmt: skip
    return table(tmp_path_factory.mktemp("records") / "records.csv", rows)


def test_what_was_put_in_comes_out(products: Path) -> None:
    """Held-out shapes are predicted to a few per mille, and the ceilings are those of the made-up library."""
    (fitting,) = calibrate([products], "h100-sxm").fittings
    held = fitting.family.held_out
    assert held is not None
    assert held.median_ape < 0.005
    assert held.shapes == 8  # of 25: every third, the second first
    assert fitting.family.parameters["compute"] == pytest.approx(TRUE["compute"], rel=0.05)
    assert fitting.family.parameters["memory"] == pytest.approx(TRUE["memory"], rel=0.02)
    assert {"compute", "memory"}.isdisjoint(fitting.family.undetermined)


def test_the_file_reads_back(products: Path, tmp_path: Path) -> None:
    """To five digits, with the range of what was measured."""
    found = calibrate([products], "h100-sxm")
    path = tmp_path / "fit.yaml"
    path.write_text(as_yaml(found.fit), encoding="utf-8")
    fit, _ = load_fit(path)
    assert (fit.accelerator, fit.backend, fit.versions) == ("h100-sxm", "mine", ("1",))
    (key, family), *_ = fit.families.items()
    assert key == "gemm/bf16"
    assert family.parameters == pytest.approx(found.fit.families[key].parameters, rel=1e-4)
    assert family.range["n"] == (512, 8192)


def test_rows_of_one_size_determine_little(products: Path, tmp_path: Path) -> None:
    """At m = 1 all time goes to reading weights: the compute ceiling is said to be undetermined."""
    with products.open(encoding="utf-8", newline="") as file:
        rows = [row for row in csv.DictReader(file) if row["m"] == "1"]
    (fitting,) = calibrate([table(tmp_path / "small.csv", rows)], "h100-sxm").fittings
    assert "compute" in fitting.family.undetermined
    assert "memory" not in fitting.family.undetermined


def test_backends_are_not_mixed(products: Path, tmp_path: Path) -> None:
    """Records of two libraries: one has to be named; one that is not there is refused with those that are."""
    with products.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    path = table(tmp_path / "two.csv", [*rows[:100], *({**row, "backend": "yours"} for row in rows[:100])])
    with pytest.raises(InputError, match=r"2 backends.*--backend"):
        calibrate([path], "h100-sxm")
    with pytest.raises(UnknownNameError, match="mine"):
        calibrate([path], "h100-sxm", "myne")
    found = calibrate([path], "h100-sxm", "yours")
    assert found.left_out == {"other backends": 100}


def test_nothing_to_fit_is_said(products: Path) -> None:
    """Records of another card."""
    with pytest.raises(InputError, match="no record of a100-sxm-80gb"):
        calibrate([products], "a100-sxm-80gb", "mine")


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    """The command line."""
    return subprocess.run([sys.executable, "-m", "roofline", *arguments], capture_output=True, text=True, check=False)


def test_command(products: Path, tmp_path: Path) -> None:
    """JSON on stdout has the keys that scripts read; the fit is written and then used by name of its file."""
    out = tmp_path / "mine.yaml"
    result = run("calibrate", str(products), "--hardware", "h100-sxm", "--json", "-o", str(out))
    assert result.returncode == 0, result.stderr
    found = json.loads(result.stdout)
    assert list(found)[:4] == ["schema_version", "tool_version", "data_version", "inputs"]
    assert set(found["parameters"]["gemm/bf16"]["memory"]) == {"value", "unit", "meaning", "within_factor", "determined"}
    assert found["held_out"]["gemm/bf16"]["median_ape"] < 0.01
    assert isinstance(found["undetermined"], list)
    used = run("analyze", "llama-3.1-8b", "--hardware", "h100-sxm", "--backend", str(out), "--json")
    assert used.returncode == 0, used.stderr
    assumptions = {entry["name"]: entry for entry in json.loads(used.stdout)["assumptions"]}
    assert assumptions["fit.gemm"]["value"] == "h100-sxm mine gemm/bf16"
    compared = run("validate", str(products), "--fit", str(out), "--json")
    assert json.loads(compared.stdout)["overall"]["estimate"]["median_ape"] < 0.01


def test_a_file_that_is_fitted_is_not_overwritten(products: Path) -> None:
    """One error, exit code 2, nothing on stdout."""
    result = run("calibrate", str(products), "--hardware", "h100-sxm", "-o", str(products))
    assert (result.returncode, result.stdout) == (2, "")
    assert "would be overwritten" in result.stderr.splitlines()[-1]
