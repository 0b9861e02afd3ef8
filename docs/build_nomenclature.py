"""Write docs/nomenclature.md from the table of symbols: `python docs/build_nomenclature.py`."""  # noqa: INP001 - no package

from __future__ import annotations

from pathlib import Path

from roofline.symbols import TABLE

PAGE = Path(__file__).with_name("nomenclature.md")
HEAD = """\
# Nomenclature

Symbols of the formulas, the documents and the code. Generated from `roofline/symbols.py` by `docs/build_nomenclature.py`;
change the table there. Keys are those of a model's file, which are Hugging Face's where Hugging Face has one.

| symbol | in code | unit | meaning | key |
|---|---|---|---|---|
"""


def page() -> str:
    """The whole page as text.

    >>> page().splitlines()[0]
    '# Nomenclature'
    """
    rows = (
        (f"${symbol.latex}$", f"`{symbol.name}`", symbol.unit, symbol.meaning, f"`{symbol.hf_key}`" if symbol.hf_key else "")
        for symbol in TABLE
    )
    return HEAD + "".join(f"| {' | '.join(row)} |\n" for row in rows)


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
