"""What hardware there is: texts and files, and what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from roofline.errors import InputError
from roofline.serving.planning.plan import parse_inventory


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
