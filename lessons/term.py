"""Write a whole term by one seed: `python lessons/term.py --seed 2027 [FOLDER]`, to build/term if not told."""

from __future__ import annotations

import argparse
from pathlib import Path

from roofline.errors import InputError
from roofline.teach.term.build import LENGTHS, build

HOME = Path(__file__).resolve().parent


def main() -> None:
    """Write what the command line asks for."""
    parser = argparse.ArgumentParser(description="Write syllabus, assignments, exams and keys of a course.")
    parser.add_argument("to", nargs="?", type=Path, default=HOME.parent / "build" / "term", help="folder to write to")
    parser.add_argument("--seed", type=int, required=True, help="the same seed writes the same papers")
    parser.add_argument("--length", choices=LENGTHS, default="term", help="twelve weeks, three days or three hours")
    parser.add_argument("--course", default="../lessons", help="where the pages of the lessons are, from the folder")
    given = parser.parse_args()
    try:
        term = build(given.to, given.seed, given.length, given.course)
    except InputError as error:
        parser.error(str(error))
    print(f"wrote {len(term.papers)} papers and {len(term.files)} files to {given.to}; open {given.to / 'syllabus.html'}")


if __name__ == "__main__":
    main()
