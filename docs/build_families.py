"""Write families, multimodal classes and GGUF architectures into docs/configs.md: `python docs/build_families.py`."""  # noqa: INP001

from __future__ import annotations

from pathlib import Path

from roofline.specs.gguf.architectures import ARCHITECTURES
from roofline.specs.huggingface.families import families
from roofline.specs.huggingface.families.base import Family
from roofline.specs.huggingface.multimodal import WRAPPERS
from roofline.specs.huggingface.towers import senses_of

PAGE = Path(__file__).with_name("configs.md")
BEGIN, END = "<!-- families: written by docs/build_families.py -->", "<!-- end of families -->"
WRAPPERS_BEGIN, WRAPPERS_END = "<!-- multimodal: written by docs/build_families.py -->", "<!-- end of multimodal -->"

GGUF_BEGIN, GGUF_END = "<!-- architectures: written by docs/build_families.py -->", "<!-- end of architectures -->"


def rows() -> list[str]:
    """A row a reader: what it reads, and where it is said what the keys mean."""
    readers: dict[str, Family] = {entry.name: entry for entry in families().values()}
    found = ["| `model_type` | class | keys |", "|---|---|---|"]
    for name in sorted(readers, key=str.lower):
        entry = readers[name]
        types = ", ".join(f"`{one}`" for one in sorted(entry.model_types, key=str.lower))
        refused = " (refused)" if entry.read.__module__.endswith(".refused") else ""
        found.append(f"| {types}{refused} | {', '.join(entry.architectures)} | [{name}]({entry.source}) |")
    return found


def multimodal_rows() -> list[str]:
    """A row for each kind of multimodal config: what it is called, and whether its towers are counted."""
    lines = ["| `model_type` | class | towers | keys |", "|---|---|---|---|"]
    for wrapper in sorted(WRAPPERS, key=lambda one: one.name.lower()):
        types = ", ".join(f"`{one}`" for one in wrapper.model_types)
        towers = ", ".join(senses_of(wrapper.name)) or "named, not counted"
        lines.append(f"| {types} | {', '.join(wrapper.architectures)} | {towers} | [{wrapper.name}]({wrapper.source}) |")
    return lines


def architectures() -> list[str]:
    """The architectures of GGUF files, in a sentence between empty lines."""
    return ["", f"Architectures: {', '.join(f'`{name}`' for name in sorted(ARCHITECTURES))}.", ""]


def page() -> str:
    """The page with the tables as the readers have them now."""
    text = PAGE.read_text(encoding="utf-8")
    for begin, end, lines in (
        (BEGIN, END, rows()),
        (WRAPPERS_BEGIN, WRAPPERS_END, multimodal_rows()),
        (GGUF_BEGIN, GGUF_END, architectures()),
    ):
        head, _, rest = text.partition(begin)
        _, _, tail = rest.partition(end)
        text = "\n".join([f"{head}{begin}", *lines, f"{end}{tail}"])
    return text


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
