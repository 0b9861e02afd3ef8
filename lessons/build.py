"""Build the lessons: `python lessons/build.py [FOLDER]` writes pages, notebooks and figures, to build/lessons if not told.

It also writes the table of how long lessons are into lessons/README.md; `--words` prints that by part.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from pathlib import Path

from roofline.teach.lessons.build import WHEEL, build, sources
from roofline.teach.lessons.execute import execute
from roofline.teach.lessons.extent import by_part, extent, with_table
from roofline.teach.worksheets.practice import practice

HOME = Path(__file__).resolve().parent
README = HOME / "README.md"


def wheel(folder: Path) -> None:
    """Put the package's wheel beside the notebooks, which install it where the package is not there."""
    pip = (sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation")
    command = [*pip, "--wheel-dir", str(folder), str(HOME.parent)]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    if done.returncode or not (folder / WHEEL).is_file():
        print(f"no wheel beside the notebooks: {done.stderr.strip() or 'it has another name'}")


def main() -> None:
    """Build what the command line asks for."""
    parser = argparse.ArgumentParser(description="Execute every lesson, and write its page, its notebook and its figures.")
    parser.add_argument("to", nargs="?", type=Path, default=HOME.parent / "build" / "lessons", help="folder to write to")
    parser.add_argument("--no-png", action="store_true", help="write figures as SVG alone")
    parser.add_argument(
        "--words",
        nargs="*",
        metavar="LESSON",
        help="print the words of each part of some lessons (03, ...), or of all, and stop",
    )
    given = parser.parse_args()
    if given.words is not None:
        for path in sources(HOME):
            if not given.words or any(path.stem.startswith(name) for name in given.words):
                print(by_part(extent(execute(path))), end="\n\n", flush=True)
        return
    start = time.monotonic()
    built = build(HOME, given.to, lambda name: print(f"executing {name}", flush=True), png=not given.no_png)
    wheel(given.to / "notebooks")
    (given.to / "practice.html").write_text(practice(), encoding="utf-8", newline="\n")
    README.write_text(with_table(README.read_text(encoding="utf-8"), map(extent, built.lessons)), encoding="utf-8")
    if built.left_out:
        print(built.left_out)
    print(f"wrote {len(built.files)} files to {given.to} in {time.monotonic() - start:.0f} s; open {given.to / 'index.html'}")


if __name__ == "__main__":
    main()
