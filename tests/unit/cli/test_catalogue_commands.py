"""`models` and `hardware`: list, show, check."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from roofline.specs.library import ids, load_hardware, shipped

Run = Callable[..., Any]


@pytest.mark.parametrize("kind", ["models", "hardware"])
def test_list(run: Run, kind: str) -> None:
    """Every id is in the table and in the JSON."""
    table, rows = run(kind, "list").out, json.loads(run(kind, "list", "--json").out)[kind]
    known = list(ids(kind))  # type: ignore[arg-type]
    assert [row["id"] for row in rows] == known
    assert all(f"  {name} " in table for name in known)


@pytest.mark.parametrize(("kind", "name"), [("models", "gpt2"), ("hardware", "h100-sxm"), ("hardware", "dgx-h100")])
def test_show_yaml_is_the_file(run: Run, kind: str, name: str) -> None:
    """--format yaml prints the file as it is, comments included."""
    assert run(kind, "show", name, "--format", "yaml").out == (shipped(kind) / f"{name}.yaml").read_text(encoding="utf-8")  # type: ignore[arg-type]


@pytest.mark.parametrize(("kind", "name"), [("models", "gpt2"), ("hardware", "h100-sxm"), ("hardware", "dgx-h100")])
def test_show_json(run: Run, kind: str, name: str) -> None:
    """--format json is one object, and --json, as every command has it, the same."""
    whole = json.loads(run(kind, "show", name, "--format", "json").out)
    assert list(whole)[:4] == ["schema_version", "tool_version", "data_version", "inputs"]
    assert whole[kind.removesuffix("s")]["name"] == name
    assert json.loads(run(kind, "show", name, "--json").out) == whole


def test_show_model_adds_up(run: Run) -> None:
    """Parameters by operator, times their layers, are the total."""
    model = json.loads(run("models", "show", "gpt2", "--format", "json").out)["model"]
    assert sum(part["parameters"] * part["repeat"] for part in model["operators"]) == 124_439_808
    assert model["parameters"]["total"] == 124_439_808


def test_show_model_draws_its_layers(run: Run) -> None:
    """The pattern with its legend, where the parameters are, and what each type of layer keeps."""
    out = run("models", "show", "gemma-2-9b").out
    assert "42 layers: 21 x sf" in out
    row = next(line for line in out.splitlines() if line.startswith("  s  sliding"))
    assert row.endswith(" 4,096")  # tokens of the window
    assert " 8 KiB " in row  # 2 x 8 KV heads x 256 x 2 bytes
    assert "tied to the embedding" in out
    model = json.loads(run("models", "show", "mixtral-8x7b", "--json").out)["model"]
    assert model["layer_pattern"] == "32 x d"
    shares = {part["name"]: part["share"] for part in model["parts"]}
    assert sum(shares.values()) == pytest.approx(1)
    assert shares["experts"] == pytest.approx(32 * 8 * 3 * 4096 * 14336 / 46_702_792_704)


def test_show_hardware_gives_every_number_with_its_source(run: Run) -> None:
    """Each figure of the file is a row with its grade and the title of its source."""
    out = run("hardware", "show", "h100-sxm").out
    accelerator = load_hardware("h100-sxm")[0].accelerator
    for dtype in accelerator.peak_flops:
        assert f"peak_flops.{dtype}" in out
    for path in (
        "memory.bandwidth",
        "memory.label",
        "memory.reported",
        "compute_units",
        "boost_clock",
        "power",
        "host_link.per_direction",
    ):
        assert path in out
    row = next(line for line in out.splitlines() if "memory.bandwidth" in line)
    assert "3.35 TB/s" in row
    assert accelerator.sources[accelerator.memory.bandwidth.source].title in row


def test_show_takes_aliases(run: Run) -> None:
    """`show` finds what `analyze` finds."""
    assert run("hardware", "show", "H100_SXM5").out == run("hardware", "show", "h100-sxm").out
