"""What others made is here unchanged, with its licence and version; what is needed has a licence that is allowed."""

from __future__ import annotations

import hashlib
import json
import re
import sys
import zlib
from importlib.machinery import SourceFileLoader
from importlib.metadata import PathDistribution
from importlib.util import module_from_spec, spec_from_loader
from pathlib import Path

import pytest
from ruamel.yaml import YAML

if (docs := str(Path(__file__).resolve().parents[2] / "docs")) not in sys.path:
    sys.path.append(docs)

from generate.licences import Dependency, dependencies

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


# Dependencies


@pytest.mark.same_calls
def test_licences_of_dependencies_are_allowed():
    """Those of all that is needed at run time, by metadata of what is installed; docs/generate/licences.py has the list."""
    needed = dependencies()
    installed = {entry.name for entry in needed if entry.installed is not None}
    assert {"jinja2", "numpy", "pydantic", "pydantic-core", "ruamel-yaml", "sympy", "mpmath"} <= installed
    assert [entry.name for entry in needed if entry.needed_by == "" and entry.installed is None] == []
    refused = {entry.name: entry.licence for entry in needed if entry.installed is not None and not entry.is_allowed}
    assert refused == {}


_OF = "Classifier: License :: OSI Approved ::"
_GPL = "GNU General Public License v3 (GPLv3)"


@pytest.mark.parametrize(
    ("about", "licence", "is_allowed"),
    [
        ("License-Expression: MIT OR GPL-3.0-only", "MIT OR GPL-3.0-only", True),
        ("License-Expression: BSD-3-Clause AND GPL-3.0-only", "BSD-3-Clause AND GPL-3.0-only", False),
        (f"{_OF} MIT License", "MIT", True),
        (f"License: BSD-2-Clause\n{_OF} BSD License", "BSD-2-Clause", True),
        (f"License: Copyright (c) 2001, 2002 the developers, all rights\n{_OF} BSD License", "BSD", True),
        ("License: Apache 2.0", "Apache-2.0", True),
        ("License: Proprietary", "Proprietary", False),
        (f"{_OF} {_GPL}", _GPL, False),
        ("Summary: says nothing of a licence", "", False),
    ],
)
def test_what_metadata_say_of_a_licence(tmp_path, about, licence, is_allowed):
    """New packages have an expression, older ones a classifier or a text, some of them neither."""
    folder = tmp_path / "a-1.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text(f"Metadata-Version: 2.4\nName: a\nVersion: 1\n{about}\n", encoding="utf-8")
    entry = Dependency("a", "", PathDistribution(folder))
    assert (entry.licence, entry.is_allowed) == (licence, is_allowed)


def test_an_audit_that_did_not_happen_is_no_good_news():
    """As pip-audit 2.10 reports: a package with a vulnerability, one without, and one that the service does not know."""
    path = ROOT / ".ci" / "audit"
    if not path.exists():
        pytest.skip("CI is no part of the source distribution")
    loader = SourceFileLoader("audit", str(path))
    audit = module_from_spec(spec_from_loader("audit", loader))
    loader.exec_module(audit)
    entries = [
        {"name": "a", "version": "1", "vulns": [{"id": "PYSEC-1", "fix_versions": ["2"], "aliases": ["CVE-1"]}]},
        {"name": "b", "version": "1", "vulns": []},
        {"name": "c", "skip_reason": "Dependency not found on PyPI and could not be audited: c (1)"},
    ]
    report = json.dumps({"dependencies": entries, "fixes": []})
    assert audit.judged(report) == (["a 1: PYSEC-1, mended in 2"], ["c"], 2)
    audit.ACCEPTED["CVE-1"] = "what it is in is not called"
    assert audit.judged(report) == ([], ["c"], 2)
