"""A page as its parser sees it: elements, what is inline, and whether its content security policy allows that and no more."""

from __future__ import annotations

import zlib
from base64 import b64decode, b64encode
from hashlib import sha256
from html.parser import HTMLParser

_DATA = ("application/json", "application/octet-stream")
CRISP = (
    "image-rendering: optimizeSpeed; image-rendering: -moz-crisp-edges; image-rendering: -o-crisp-edges; "
    "image-rendering: -webkit-optimize-contrast; image-rendering: optimize-contrast; image-rendering: crisp-edges; "
    "image-rendering: pixelated; "
)
"""The one style attribute that plotly.js sets, on heat maps, beside empty ones."""


class Parts(HTMLParser):
    """The elements of a page with their attributes, and the text inside scripts and styles."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.inline: dict[str, list[str]] = {"script": [], "style": [], **{kind: [] for kind in _DATA}}
        self._into: list[str] | None = None
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """An element begins."""
        self.elements.append((tag, dict(attrs)))
        self._into = self.inline[dict(attrs).get("type") or tag] if tag in ("script", "style") else None
        if self._into is not None:
            self._into.append("")

    def handle_endtag(self, tag: str) -> None:
        """An element ends."""
        self._into = None

    def handle_data(self, data: str) -> None:
        """Text."""
        if self._into is not None:
            self._into[-1] += data

    @property
    def policy(self) -> dict[str, list[str]]:
        """The directives of the content security policy, of which there is one, before anything that it is about."""
        names = [tag if attributes.get("http-equiv") is None else attributes["http-equiv"] for tag, attributes in self.elements]
        assert names.count("Content-Security-Policy") == 1
        assert names.index("Content-Security-Policy") < min(
            names.index(name) for name in ("script", "style", "link", "body") if name in names
        )
        content = self.elements[names.index("Content-Security-Policy")][1]["content"]
        assert content is not None
        return {name: values for name, *values in (entry.split() for entry in content.split("; "))}

    @property
    def packed_scripts(self) -> list[str]:
        """Scripts that a page unpacks and adds: what is packed and no JSON, nor HTML."""
        unpacked = [zlib.decompress(b64decode(text), wbits=-zlib.MAX_WBITS).decode() for text in self.inline[_DATA[1]]]
        return [text for text in unpacked if not text.startswith(("{", "[", "null", "<"))]


def hashed(text: str) -> str:
    """The source of a policy that allows an inline element with this text."""
    return f"'sha256-{b64encode(sha256(text.encode()).digest()).decode()}'"


def check_policy(text: str) -> None:
    """Assert that a page loads nothing, sends nothing, and allows what is inline in it by its hash, and nothing else."""
    parts = Parts(text)
    policy = parts.policy
    plots = any("plotly.js" in script[:400] for script in parts.packed_scripts)
    scripts = {hashed(script) for script in (*parts.inline["script"], *parts.packed_scripts)}
    styles = {hashed(style) for style in parts.inline["style"]}
    none = {"default-src", "connect-src", "base-uri", "form-action"}
    assert {name: set(values) for name, values in policy.items()} == {
        **{name: {"'none'"} for name in none},
        "script-src": scripts or {"'none'"},
        "style-src": styles | ({"'unsafe-hashes'", hashed(""), hashed(CRISP)} if plots else set()),
        "img-src": {"data:", "blob:"} if plots else {"data:"},
        **({"worker-src": {"blob:"}} if plots else {}),
    }
    assert len(styles) == 1
    for tag, attributes in parts.elements:
        assert "style" not in attributes, tag
        assert not [name for name in attributes if name.startswith("on")], tag
        assert not {"srcset", "action", "background", "ping", "formaction"} & set(attributes), tag
        assert tag not in ("base", "iframe", "object", "embed", "frame"), tag
        if "src" in attributes:
            assert (attributes["src"] or "").startswith("data:image/"), attributes
        # a link leads to a place of the page, to a page beside it, or to an address that one can read
        if tag in ("a", "area", "link", "use"):
            address = attributes.get("href", attributes.get("xlink:href")) or ""
            assert "javascript" not in address.lower(), address
            assert ":" not in address.partition("/")[0] or address.startswith(("https://", "http://", "mailto:", "data:,")), (
                address
            )
