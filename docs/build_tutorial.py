"""Write the outputs of docs/tutorial.md: `python docs/build_tutorial.py`."""  # noqa: INP001 - no package

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

from generate.tutorial import PAGE, refreshed


def page() -> str:
    """The page with outputs as they are now."""
    return refreshed(PAGE.read_text(encoding="utf-8"))


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
