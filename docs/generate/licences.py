"""What roofline needs at run time, and under which licences that is: from the metadata of what is installed."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from importlib.metadata import Distribution, PackageNotFoundError, distribution

from packaging.markers import default_environment
from packaging.requirements import Requirement

from generate.table import table

EXTRAS = ("parquet", "figures", "cluster", "hub")
"""Extras of those who use roofline. `bench` and `torch` bring PyTorch, of which the page says what it is."""
ALLOWED = frozenset(
    {
        "0BSD", "Apache-2.0", "BSD", "BSD-2-Clause", "BSD-3-Clause", "CC0-1.0", "ISC", "MIT", "MPL-2.0", "PSF-2.0", "Unlicense",
        "Zlib",
    }
)  # fmt: skip
"""Licences under which a dependency may be: permissive ones, and MPL-2.0 for what is used as it is. `BSD`: the package says no
more."""
_NAMES = {
    "Apache 2.0": "Apache-2.0", "Apache License 2.0": "Apache-2.0", "Apache Software License": "Apache-2.0",
    "BSD License": "BSD", "ISC License": "ISC", "ISC License (ISCL)": "ISC", "MIT License": "MIT",
    "Mozilla Public License 2.0 (MPL 2.0)": "MPL-2.0", "Python Software Foundation License": "PSF-2.0",
    "The Unlicense (Unlicense)": "Unlicense", "zlib/libpng License": "Zlib",
}  # fmt: skip
"""Identifiers of SPDX for what older packages write."""


@dataclass(frozen=True, slots=True)
class Dependency:
    """A package that roofline needs, itself or through others. `needed_by`: "" or the extra; `installed`: None if it is not."""

    name: str
    needed_by: str
    installed: Distribution | None

    @property
    def licence(self) -> str:
        """What its metadata say, as an expression of SPDX; "" if they say nothing."""
        if self.installed is None:
            return ""
        about = self.installed.metadata
        if expression := about.get("License-Expression"):
            return str(expression)
        kinds = [text.removeprefix("License :: OSI Approved :: ") for text in about.get_all("Classifier") or ()]
        listed = [kind for text, kind in zip(about.get_all("Classifier") or (), kinds, strict=True) if kind != text]
        stated = " ".join(str(about.get("License") or "").split())
        # a classifier may say only which family it is, and the field which member; a field may hold the whole text instead
        if stated and len(stated) < 40 and (len(listed) != 1 or _NAMES.get(listed[0]) in (None, "BSD")):
            return _NAMES.get(stated, stated)
        return " AND ".join(_NAMES.get(kind, kind) for kind in listed)

    @property
    def is_allowed(self) -> bool:
        """Whether its licence is one of `ALLOWED`: of alternatives one, of several together all."""
        return is_allowed(self.licence)


def is_allowed(licence: str) -> bool:
    """Whether an expression of SPDX names licences that are allowed.

    >>> [is_allowed(text) for text in ("MIT", "MIT AND GPL-3.0", "(GPL-3.0 OR MIT) AND ISC", "")]
    [True, False, True, False]
    """
    text = re.sub(r"\s+", " ", licence).strip()
    while match := re.search(r"\(([^()]*)\)", text):
        text = text.replace(match[0], "MIT" if is_allowed(match[1]) else "refused")
    return any(all(part.strip() in ALLOWED for part in one.split(" AND ")) for one in text.split(" OR "))


def dependencies() -> list[Dependency]:
    """Everything that roofline needs at run time, by name, as far as it is installed."""
    known: dict[str, Dependency] = {}
    for extra in ("", *EXTRAS):
        waiting = [entry for entry in _required("roofline", (extra,)) if entry.name != "roofline"]
        while waiting:
            wanted = waiting.pop()
            name = re.sub(r"[-_.]+", "-", wanted.name).lower()
            if name in known:
                continue
            known[name] = Dependency(name, extra, _found(wanted.name))
            waiting += _required(wanted.name, tuple(wanted.extras))
    return sorted(known.values(), key=lambda entry: entry.name)


def _found(name: str) -> Distribution | None:
    try:
        return distribution(name)
    except PackageNotFoundError:
        return None


def _required(name: str, extras: Iterable[str]) -> list[Requirement]:
    """What an installed package asks for here, with these extras; nothing of one that is not installed."""
    found = _found(name)
    listed = [Requirement(text) for text in (found.requires or ())] if found is not None else []
    environments = [{**default_environment(), "extra": extra} for extra in (*extras, "")]
    return [entry for entry in listed if entry.marker is None or any(entry.marker.evaluate(each) for each in environments)]


_HEAD = (
    "# Licences\n\nroofline is under Apache-2.0, its lessons' texts under CC BY 4.0. What its pages and tests hold of others "
    "is listed, with licences and hashes, in `reports/vendored.yaml`.\n\n"
    'What is installed with it, by the packages\' own metadata ("BSD": they say no more). A test fails where a licence is none '
    "of {allowed}."
)
_TAIL = (
    "The extras `torch` and `bench` install PyTorch (BSD-3-Clause), whose builds for CUDA need NVIDIA's libraries, which have "
    "licences of their own. roofline contains nothing of these packages."
)


def pages() -> dict[str, str]:
    """One page."""
    rows = [
        [
            entry.name,
            f"extra `{entry.needed_by}`" if entry.needed_by else "always",
            entry.installed.version if entry.installed is not None else "",
            entry.licence or "not installed when this page was built",
        ]
        for entry in dependencies()
    ]
    parts = [_HEAD.format(allowed=", ".join(sorted(ALLOWED))), table(["package", "needed", "version", "licence"], rows), _TAIL]
    return {"licences.md": "\n\n".join(parts) + "\n"}
