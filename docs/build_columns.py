"""Write the table of columns into measurements/README.md: `python docs/build_columns.py`."""  # noqa: INP001 - no package

from __future__ import annotations

from pathlib import Path

from roofline.measure.records.columns import COLUMNS
from roofline.measure.records.ops import RECORD_OPS

PAGE = Path(__file__).resolve().parents[1] / "measurements" / "README.md"
BEGIN, END = "<!-- columns: written by docs/build_columns.py -->", "<!-- end of columns -->"


def page() -> str:
    """The whole page, with the table in its place."""
    text = PAGE.read_text(encoding="utf-8")
    rows = [f"| `{column.name}` | {column.kind} | {column.meaning} |" for column in COLUMNS.values()]
    table = "\n".join(["| column | holds | meaning |", "|---|---|---|", *rows])
    needs = [f"| `{op}` | {_names(rule.needs)} | {_names(rule.optional)} |" for op, rule in RECORD_OPS.items()]
    ops = "\n".join(["| op | needs | looks at, where filled |", "|---|---|---|", *needs])
    before, _, rest = text.partition(BEGIN)
    return f"{before}{BEGIN}\n\n{table}\n\n{ops}\n\n{END}{rest.partition(END)[2]}"


def _names(names: tuple[str, ...]) -> str:
    return ", ".join(f"`{name}`" for name in names)


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
