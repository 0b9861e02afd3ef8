"""Write the table of families into docs/configs.md: `python docs/build_families.py`."""  # noqa: INP001 - no package

from __future__ import annotations

from pathlib import Path

from roofline.specs.huggingface.families import families
from roofline.specs.huggingface.families.base import Family

PAGE = Path(__file__).with_name("configs.md")
BEGIN, END = "<!-- families: written by docs/build_families.py -->", "<!-- end of families -->"


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


def page() -> str:
    """The page with the table as the readers have it now."""
    text = PAGE.read_text(encoding="utf-8")
    head, _, rest = text.partition(BEGIN)
    _, _, tail = rest.partition(END)
    return "\n".join([f"{head}{BEGIN}", *rows(), f"{END}{tail}"])


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
