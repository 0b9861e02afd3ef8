"""What others made is here unchanged, with its licence, in the version that it has to be."""

from __future__ import annotations

import hashlib
import re
import zlib
from pathlib import Path

import pytest
from ruamel.yaml import YAML

ROOT = Path(__file__).resolve().parents[2]
ENTRIES = YAML(typ="safe").load(ROOT / "reports" / "vendored.yaml")
BUNDLE = next(entry for entry in ENTRIES if "plotly" in entry["file"])


def content(entry: dict[str, str]) -> bytes:
    """The file as it was published."""
    data = (ROOT / entry["file"]).read_bytes()
    return zlib.decompress(data, wbits=-zlib.MAX_WBITS) if entry.get("packed") == "deflate" else data


def opening(entry: dict[str, str]) -> str:
    """The comment in which a script says what it is."""
    return content(entry)[:400].decode()


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: entry["file"])
def test_hash_version_and_licence(entry):
    assert hashlib.sha256(content(entry)).hexdigest() == entry["sha256"]
    if entry["file"].endswith(".ttf"):  # texts of a font are UTF-16
        assert f"Version {entry['version']}".encode("utf-16-be") in content(entry)
    else:
        assert re.search(rf"\bv{re.escape(entry['version'])}$", opening(entry), re.MULTILINE)
    name = {"MIT": "MIT License", "MPL-2.0": "Mozilla Public License", "OFL-1.1": "SIL OPEN FONT LICENSE"}[entry["licence"]]
    assert name in (ROOT / entry["licence_file"]).read_text(encoding="utf-8")


def test_every_minified_script_and_font_is_listed():
    files = {
        path.relative_to(ROOT).as_posix()
        for folder in ("reports", "tests")
        for pattern in ("*.min.js*", "*.ttf", "*.otf", "*.woff*")
        for path in (ROOT / folder).rglob(pattern)
    }
    assert files == {entry["file"] for entry in ENTRIES}


def test_bundle_is_of_the_release_that_plotly_brings():
    """The Python package's figures are made for the plotly.js that it ships itself; the bundle is a part of the same."""
    from plotly import __version__
    from plotly.offline import get_plotlyjs

    if __version__ != BUNDLE["brought_by"]:
        pytest.skip(f"plotly {__version__} is installed; the bundle is of {BUNDLE['brought_by']}")
    (brought,) = re.findall(r"plotly\.js v([\d.]+)$", get_plotlyjs()[:400], re.MULTILINE)
    (ours,) = re.findall(r"plotly\.js \(cartesian - minified\) v([\d.]+)$", opening(BUNDLE), re.MULTILINE)
    assert ours == brought


def test_bundle_can_stand_inline():
    assert not re.search(rb"</script|<!--|\r|\0", content(BUNDLE), re.IGNORECASE)
