"""Write docs/drawings.md, the gallery of drawings, and the drawings of other pages: `python docs/build_drawings.py`.

A page shows a drawing by an image of `images/drawing-KEY.svg`; its alternative text is what the drawing says in words.
"""  # noqa: INP001 - no package

from __future__ import annotations

import re
import sys
from functools import lru_cache
from pathlib import Path
from typing import Any

from roofline.report.figure_files import FONT
from roofline.report.styles import DARK, LIGHT
from roofline.specs.library import shipped
from roofline.teach.lessons.draw import DRAWINGS
from roofline.teach.lessons.draw.canvas import Drawing

HERE = Path(__file__).parent
PAGE = HERE / "drawings.md"
PAGES = ("capacity.md", "conventions.md", "limits.md", "preemption.md", "simulation.md")
"""Those with drawings of their own."""
OTHERS: dict[str, tuple[dict[str, Any], ...]] = {
    "attention-heads": ({"kind": "mha"}, {"kind": "gqa"}, {"kind": "mqa"}, {"kind": "mla"}),
    "mla-absorb": ({"form": "absorbed"}, {"form": "expanded"}),
    "moe-routing": ({"view": "token"}, {"view": "batch"}),
    "parallel-layouts": tuple({"layout": layout} for layout in ("tp", "pp", "tp-pp", "tp-ep", "dp-ep", "dp")),
    "pipeline-parallel": ({"microbatches": 4}, {"microbatches": 12}),
    "prefix-tree": ({"view": "reuse"}, {"view": "evict"}),
    "recompute-or-swap": ({"tokens": 8192}, {"tokens": 2048, "hardware": "a100-sxm-80gb"}),
    "ring-all-reduce": ({"step": 0}, {"step": 2}, {"step": 3}, {"step": 5}, {"step": 6}),
    "speculation-tree": ({"kind": "chain"}, {"kind": "tree"}),
    "tensor-parallel": ({"part": "mlp"}, {"part": "attention", "devices": 4}),
}
"""Settings of drawings of which more than the usual one is shown."""
_RULE = re.compile(r"^\.(f-[\w-]+) (\{[^}]*\})$", re.MULTILINE)
_IMAGE = re.compile(r"!\[[^\]]*\]\(images/drawing-([\w-]+)\.svg\)")
_MARGIN = 12
HEAD = """# Drawings

The drawings of the [course](../lessons/README.md). Numbers in them come from model and hardware files or are computed by
roofline; they follow light and dark themes. Each is a function of `roofline.teach.lessons.draw` with parameters (model,
hardware, devices, step, ...), and `draw(NAME, ...)` puts it into a lesson:

```python
>>> from roofline.teach.lessons import draw
>>> draw("ring-all-reduce", step=2).key
'ring-all-reduce-4-2'
```

You may reuse them under [CC BY 4.0](https://creativecommons.org/licenses/by/4.0/), in slides, articles and lectures, changed or
not: name roofline as the source.
"""


@lru_cache(maxsize=1)
def drawings() -> dict[str, tuple[str, Drawing]]:
    """Each drawing that pages show, with what draws it, by its key."""
    made = {}
    for name in sorted(DRAWINGS):
        for settings in OTHERS.get(name, ({},)):
            drawing = DRAWINGS[name](**settings)
            options = "".join(f", {key}={value!r}" for key, value in settings.items()).replace("'", '"')
            made[drawing.key] = (f'draw("{name}"{options})', drawing)
    return made


def themed(drawing: Drawing) -> str:
    """The drawing as a file that follows the reader's theme: the rules of `reports/figures.css` that it needs are in it."""
    svg = drawing.svg
    rules = dict(_RULE.findall((shipped("reports") / "figures.css").read_text(encoding="utf-8")))
    used = sorted({name for listed in re.findall(r'class="([^"]*)"', svg) for name in listed.split()} & set(rules))
    light, dark = (";".join(f"--f-{name}:{value}" for name, value in hues.items()) for hues in (LIGHT, DARK))
    style = (
        f"svg{{{light};color:var(--f-ink);font-family:{FONT}}}\n"
        f"@media (prefers-color-scheme: dark){{svg{{{dark}}}}}\n" + "\n".join(f".{name} {rules[name]}" for name in used)
    )
    width, height = (float(side) for side in re.findall(r'viewBox="0 0 ([\d.]+) ([\d.]+)"', svg)[0])
    wide, tall = width + 2 * _MARGIN, height + 2 * _MARGIN
    place = f"{-_MARGIN} {-_MARGIN} {wide:g} {tall:g}"
    svg = re.sub(r'viewBox="[^"]*" width="100%"', f'viewBox="{place}" width="{wide:g}" height="{tall:g}"', svg)
    ground = f'<rect x="{-_MARGIN}" y="{-_MARGIN}" width="{wide:g}" height="{tall:g}" fill="var(--f-ground)"/>'
    return svg.replace("</desc>", f"</desc>\n<style>\n{style}\n</style>\n{ground}\n", 1).replace("><g ", ">\n<g ") + "\n"


def image(drawing: Drawing) -> str:
    """The drawing as an image of a page, with its words."""
    words = drawing.words.replace("[", "(").replace("]", ")")
    return f"![{words}](images/drawing-{drawing.key}.svg)"


def page() -> str:
    """The gallery."""
    parts, before = [HEAD], ""
    for call, drawing in drawings().values():
        name = call.split('"')[1]
        if name != before:
            about = (sys.modules[DRAWINGS[name].__module__].__doc__ or "").strip()
            heading = name.replace("-", " ").capitalize()
            for word, spelled in (("Kv", "KV"), ("Mla", "MLA"), ("Moe", "MoE")):
                heading = heading.replace(word, spelled)
            parts.append(f"## {heading}\n\n{about}\n")
            before = name
        note = f" {drawing.note}" if drawing.note else ""
        parts.append(f"### {drawing.title}\n\n{image(drawing)}\n\n{drawing.words}{note}\n\n`{call}`\n")
    return "\n".join(parts)


def files() -> dict[Path, str]:
    """The drawings, and other pages with the words of theirs."""
    made = {HERE / "images" / f"drawing-{key}.svg": themed(drawing) for key, (_, drawing) in drawings().items()}
    for name in PAGES:
        text = (HERE / name).read_text(encoding="utf-8")
        made[HERE / name] = _IMAGE.sub(lambda match: image(drawings()[match[1]][1]), text)
    return made


if __name__ == "__main__":
    for path, text in {PAGE: page(), **files()}.items():
        path.write_text(text, encoding="utf-8")
