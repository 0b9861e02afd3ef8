"""What hardware there is: texts and files, and what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from roofline.errors import InputError
from roofline.serving.planning.plan import _hardware, parse_inventory
from roofline.specs.library import load_hardware
from roofline.specs.prices import load_prices


def test_texts() -> None:
    """Aliases are ids, and nodes are counted in accelerators: two of eight are sixteen."""
    assert parse_inventory("h100-sxm=16, a100_sxm_80gb = 8") == {"h100-sxm": 16, "a100-sxm-80gb": 8}
    assert parse_inventory("dgx-h100=2") == {"dgx-h100": 16}


@pytest.mark.parametrize("text", ["h100-sxm: 16\ndgx-a100: 1\n", "inventory: {h100-sxm: 16, dgx-a100: 1}\n"])
def test_files(tmp_path: Path, text: str) -> None:
    """With the key or without."""
    path = tmp_path / "inventory.yaml"
    path.write_text(text)
    assert parse_inventory(str(path)) == {"h100-sxm": 16, "dgx-a100": 8}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("h100-sxm", "write ID=COUNT, such as h100-sxm=16,a100-sxm-80gb=8, or a .yaml file"),
        ("", "write ID=COUNT"),
        ("h100-sxm=", "write ID=COUNT"),
        ("h100-sxm=1,", "write ID=COUNT"),
        ("h100-smx=3", "unknown hardware 'h100-smx'. Did you mean h100-sxm"),
        ("a100=4", "it could be a100-pcie-40gb, a100-pcie-80gb, a100-sxm-40gb, a100-sxm-80gb"),
        ("h100-sxm=0", "the number of h100-sxm must be at least 1, not 0"),
        ("h100-sxm=-2", "the number of h100-sxm must be at least 1, not -2"),
        ("h100-sxm=x", "the number of h100-sxm must be a whole number"),
        ("h100-sxm=1,h100_sxm=2", "h100-sxm is there twice"),
        ("nowhere.yaml", "nowhere.yaml: no such file"),
    ],
)
def test_texts_that_are_refused(text: str, message: str) -> None:
    """What is wrong, and what is allowed."""
    with pytest.raises(InputError) as caught:
        parse_inventory(text)
    assert message in str(caught.value)


def test_places_in_files(tmp_path: Path) -> None:
    """Line and column."""
    path = tmp_path / "inventory.yaml"
    path.write_text("inventory:\n  h100-sxm: 16\n  a100: 3\n")
    with pytest.raises(InputError, match=r"inventory\.yaml:3:3: inventory\.a100: hardware 'a100' is ambiguous"):
        parse_inventory(str(path))


def test_hardware_to_search() -> None:
    """What is named, each once, and what has a number; else what is in stock; else what was measured and has a price."""

    def named(hardware: Any, stock: dict[str, int] | None = None) -> tuple[list[str], dict[str, int]]:
        found, _, counts = _hardware(hardware, load_prices(), stock)
        return [one.name for one in found], counts

    assert named("l40s") == (["l40s"], {})
    assert named(["h100-sxm", "a40"], {"l40s": 4}) == (["h100-sxm", "a40"], {})
    assert named(["2xdgx-h100", "3xl40s"]) == (["dgx-h100", "l40s"], {"dgx-h100": 16, "l40s": 3})
    assert named(load_hardware("a40")[0]) == (["a40"], {})
    assert named("2xh100-sxm, 3xh100-sxm,") == (["h100-sxm"], {"h100-sxm": 5})
    files = [file.name for file in _hardware("dgx-h100,h100-sxm,dgx-h100", load_prices(), None)[1]]
    assert files == ["dgx-h100", "h100-sxm", "h100-sxm"]  # of the node, of its accelerator, of this alone
    with pytest.raises(InputError, match="--hardware names nothing"):
        named(" , ")


def test_hardware_that_is_not_named() -> None:
    """An A40 was measured and has no price, a B200 has a price and was not measured."""
    prices = load_prices()
    assert "b200-sxm" in prices.names
    assert "a40" not in prices.names
    usual = [one.name for one in _hardware(None, prices, None)[0]]
    assert {"h100-sxm", "l40s"} <= set(usual) <= set(prices.names)
    assert "b200-sxm" not in usual
    for stock in ({"a40": 3, "dgx-h100": 8}, {"b200-sxm": 1}):
        assert [one.name for one in _hardware(None, prices, stock)[0]] == list(stock)
    assert [one.name for one in _hardware(None, prices, {})[0]] == usual
