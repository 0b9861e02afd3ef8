"""`models` and `hardware`: list, show, check."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

import pytest

from roofline.specs.hardware import facts
from roofline.specs.library import ids, load_hardware, shipped

Run = Callable[..., Any]


@pytest.mark.parametrize("kind", ["models", "hardware"])
def test_list(run: Run, kind: str) -> None:
    """Every id is on the screen, in the table of figures and in the JSON."""
    screen, table = run(kind, "list").out, run(kind, "list", "-v").out
    rows = json.loads(run(kind, "list", "--json").out)[kind]
    known = list(ids(kind))  # type: ignore[arg-type]
    assert [row["id"] for row in rows] == known
    assert all(f"  {name} " in table for name in known)
    assert set(known) <= set(screen.replace(",", " ").split())
    assert screen.startswith(f"{len(known)} ")


def test_list_by_name(run: Run) -> None:
    """--search keeps ids and titles with a text, whatever its case, in every form; a few are shown with their figures."""
    out = run("hardware", "list", "--search", "TRILLIUM").out  # in the title alone
    assert out.startswith("1 accelerator or node with 'TRILLIUM' in the name\n")
    assert "  tpu-v6e  Google TPU v6e (Trillium)     918" in out
    rows = json.loads(run("models", "list", "--search", "qwen3", "--json").out)["models"]
    assert [row["id"] for row in rows] == [name for name in ids("models") if name.startswith("qwen3")]
    assert run("models", "list", "--search", "nothing").out.startswith("0 models with 'nothing' in the name\n")


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


def test_list_sorted(run: Run) -> None:
    """--sort puts the largest first, on the screen and in JSON; a column is a key of the JSON, or short for one."""
    rows = json.loads(run("models", "list", "--search", "qwen2.5", "--sort", "parameters", "--json").out)["models"]
    sizes = ["72b", "32b", "14b", "7b", "vl-7b", "3b", "1.5b", "0.5b"]
    assert [row["id"] for row in rows] == [f"qwen2.5-{size}" for size in sizes]
    screen = run("models", "list", "--search", "qwen2.5", "--sort", "parameters").out
    assert re.findall(r"^  qwen2\.5-(\S+)", screen, re.MULTILINE) == sizes
    by_memory = json.loads(run("hardware", "list", "--sort", "memory", "--json").out)["hardware"]
    assert [row["memory_bytes"] for row in by_memory] == sorted((row["memory_bytes"] for row in by_memory), reverse=True)
    by_peak = json.loads(run("hardware", "list", "--sort", "fp8", "--json").out)["hardware"]
    assert by_peak[0]["peak_flops_fp8"] is not None
    assert by_peak[-1]["peak_flops_fp8"] is None  # without the figure last


def test_an_unknown_column(run: Run) -> None:
    """One error, with what there is."""
    result = run("models", "list", "--sort", "size")
    assert result.code == 2
    assert "unknown column 'size'. Did you mean hidden_size? Known: context, kv, state, id, parameters," in result.err


def test_capacity_as_it_is_sold(run: Run) -> None:
    """Apple sells powers of two; cards are sold in decimal."""
    assert re.search(r"memory, as sold +128 GiB ", run("hardware", "show", "apple-m4-max").out)
    assert re.search(r"memory, as sold +80 GB ", run("hardware", "show", "h100-sxm").out)


def test_show_hardware_gives_every_number_with_its_source(run: Run) -> None:
    """Each figure of the file is a row with its grade and its source: named on the screen, with title and address with -v."""
    accelerator = load_hardware("h100-sxm")[0].accelerator
    source = accelerator.sources[accelerator.memory.bandwidth.source]
    screen, whole = run("hardware", "show", "h100-sxm").out, run("hardware", "show", "h100-sxm", "-v").out
    paths = [path for path, _ in facts(accelerator)]
    assert {"memory.bandwidth", "links.0.per_direction", "power"} < set(paths)
    for path in paths:
        assert f"  {path} " in whole
    rows = [line.strip() for line in screen.splitlines() if re.search(r"  [ABC]  ", line)]
    assert len(rows) == len(paths)
    assert not [row for row in rows if re.match(r"\S*[._]", row)], "keys are for -v and the file"
    assert {row.split("  ")[0] for row in rows} > {"memory bandwidth", "dense peak, bf16", "NVLink 4, bandwidth per direction"}
    row = next(row for row in rows if row.startswith("memory bandwidth"))
    assert row.split() == ["memory", "bandwidth", "3.35", "TB/s", "A", source.title.split(",")[0]]
    row = next(line for line in whole.splitlines() if "memory.bandwidth" in line)
    assert row.split() == ["memory.bandwidth", "3.35", "TB/s", "A", accelerator.memory.bandwidth.source]
    told = " ".join(whole.split())
    assert all(f"{key} {each.title} {each.url}" in told for key, each in accelerator.sources.items() if key in told)
    assert all(f"Note {note}" in told for note in accelerator.notes)


def test_show_takes_aliases(run: Run) -> None:
    """`show` finds what `analyze` finds."""
    assert run("hardware", "show", "H100_SXM5").out == run("hardware", "show", "h100-sxm").out
