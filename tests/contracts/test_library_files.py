"""Every shipped file: it loads, its name is its id, and each number has a source."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from roofline.blocks import kinds
from roofline.blocks.model import Model
from roofline.blocks.model_files import load_model
from roofline.dtypes import FORMATS
from roofline.specs.hardware import Accelerator, facts
from roofline.specs.library import load_engine, load_hardware, shipped
from roofline.specs.price_file import PriceFile
from roofline.specs.prices import load_prices
from roofline.specs.yaml_file import read_yaml


def _files(kind: str) -> list[Path]:
    return sorted(path for path in shipped(kind).glob("*.yaml") if not path.name.startswith("_"))  # type: ignore[arg-type]


MODELS, HARDWARE, ENGINES = _files("models"), _files("hardware"), _files("engines")


def test_there_are_files() -> None:
    """The lists that the other tests walk are not empty."""
    assert len(MODELS) > 10
    assert len(HARDWARE) > 10
    assert ENGINES


@pytest.mark.parametrize("path", MODELS, ids=lambda path: path.stem)
def test_model(path: Path) -> None:
    """It loads, its name is its file's, and it says where its numbers come from."""
    model, _ = load_model(str(path))
    assert model.name == path.stem
    assert model.sources
    for name, source in model.sources.items():
        assert source.url.startswith("https://"), f"sources.{name} needs a url: where a reader can look its numbers up"


@pytest.mark.parametrize("path", HARDWARE, ids=lambda path: path.stem)
def test_hardware(path: Path) -> None:
    """It loads, its name is its file's, every number has a source that is listed, and a grade."""
    hardware, _ = load_hardware(str(path))
    spec = hardware.node or hardware.accelerator
    assert spec.name == path.stem
    found = facts(spec)
    assert found
    for where, fact in found:
        assert fact.source in spec.sources, where
        assert fact.grade in ("A", "B", "C"), where
        assert fact.value > 0, where


@pytest.mark.parametrize("path", HARDWARE, ids=lambda path: path.stem)
def test_every_number_of_a_hardware_file_is_a_fact(path: Path) -> None:
    """No number of a datasheet stands outside {value, source, grade}: in the file, `source` is written beside each."""
    plain = {"schema_version", "count", "fma_per_unit_clock", "tolerance", "max_devices", "devices"}

    def bare(node: Any, key: str = "") -> list[str]:
        if isinstance(node, dict):
            if "value" in node:
                return [] if {"source"} <= node.keys() else [key]
            return [found for name, item in node.items() for found in bare(item, str(name))]
        if isinstance(node, list):
            return [found for item in node for found in bare(item, key)]
        return [key] if isinstance(node, (int, float)) and not isinstance(node, bool) and key not in plain else []

    assert bare(read_yaml(path).data) == []


@pytest.mark.parametrize("path", HARDWARE, ids=lambda path: path.stem)
def test_dtypes_of_peaks_are_known(path: Path) -> None:
    """Peaks are named as formats are (tf32 is a way to multiply, not a format)."""
    assert set(load_hardware(str(path))[0].accelerator.peak_flops) <= {*FORMATS, "tf32", "fp6", "int4", "fp64"}


def test_sparse_peaks_are_excluded_by_a_check() -> None:
    """Most accelerators carry the facts of their self-check, and it holds within its tolerance."""
    accelerators = [load_hardware(str(path))[0].accelerator for path in HARDWARE]
    checked = [(a, peaks) for a in accelerators if (peaks := a.self_check())]
    assert len(checked) > len(accelerators) / 2
    for accelerator, (computed, stated) in checked:
        assert computed == pytest.approx(stated, rel=accelerator.check.tolerance), accelerator.name  # type: ignore[union-attr]


def test_aliases() -> None:
    """No alias is an id or another file's alias; each is written as ids are."""
    ids = {path.stem for path in HARDWARE}
    aliases = Counter(
        alias
        for path in HARDWARE
        for hardware in [load_hardware(str(path))[0]]
        for alias in (hardware.node or hardware.accelerator).aliases
    )
    assert not {alias: n for alias, n in aliases.items() if n > 1}
    assert not set(aliases) & ids
    assert all(re.fullmatch(r"[a-z0-9]+([.-][a-z0-9]+)*", name) for name in {*aliases, *ids, *(path.stem for path in MODELS)})


@pytest.mark.slow
def test_every_alias_is_found() -> None:
    """Aliases lead to their file."""
    for path in HARDWARE:
        hardware, _ = load_hardware(str(path))
        for alias in (hardware.node or hardware.accelerator).aliases:
            assert load_hardware(alias)[0].name == path.stem


@pytest.mark.parametrize("path", ENGINES, ids=lambda path: path.stem)
def test_engine(path: Path) -> None:
    """NAME-VERSION.yaml holds that name and that version."""
    name, _, version = path.stem.rpartition("-")
    engine, _ = load_engine(f"{name}@{version}")
    assert (engine.name, engine.version) == (name, version)
    assert engine.source.url.startswith("https://")


def test_default_prices() -> None:
    """Each is of hardware that there is, low is no more than high, and a document says so; most say when."""
    prices = load_prices()
    found = {name: prices.of(name) for name in prices.names}
    assert len(found) >= 10
    assert set(found) <= {path.stem for path in HARDWARE}
    for name, price in found.items():
        assert price is not None, name
        assert 0 < price.low <= price.value <= price.high, name
        assert price.origin == "default range", name
        assert "https://" in price.source, name
    assert sum(price.read is not None for price in found.values() if price) >= 9


def test_template_of_prices() -> None:
    """It loads, and has every way to say a price."""
    prices = load_prices(shipped("prices") / "_template.yaml")
    found = [price for name in prices.names if (price := prices.of(name)) and price.origin == "given"]
    assert {price.kind for price in found} == {"rented", "owned", "mixed"}
    assert any(price.low < price.value < price.high for price in found)


def _keys(spec: type[BaseModel]) -> set[str]:
    """Every key that a spec and the sections within it may have."""
    document = spec.model_json_schema()
    return {key for node in [document, *document.get("$defs", {}).values()] for key in node.get("properties", {})}


@pytest.mark.parametrize(("kind", "spec"), [("models", Model), ("hardware", Accelerator), ("prices", PriceFile)])
def test_template_mentions_every_key(kind: str, spec: type[BaseModel]) -> None:
    """Whoever copies the template sees all there is."""
    text = (shipped(kind) / "_template.yaml").read_text(encoding="utf-8")  # type: ignore[arg-type]
    assert sorted(key for key in _keys(spec) if not re.search(rf"(^|[\s{{,]){re.escape(key)}:", text, re.MULTILINE)) == []


def test_templates_are_valid() -> None:
    """A template is a file that loads; the model's uses every kind of section."""
    model, _ = load_model(str(shipped("models") / "_template.yaml"))
    used = {block.kind for layer in model.layer_types.values() for block in (layer.mixer, layer.mlp) if block is not None}
    assert used == {*kinds("mixer"), *kinds("mlp")}
    load_hardware(str(shipped("hardware") / "_template.yaml"))
