"""Whether a file can be written where it is asked for, told before the work is done."""

from __future__ import annotations

import os
from pathlib import Path

from roofline.errors import InputError


def check_place(output: Path) -> None:
    """Refuse a place that cannot be written.

    Raises:
        InputError: no such folder, or one that is read-only; a folder in the place of the file.
    """
    folder = output.expanduser().parent
    if not folder.is_dir():
        raise InputError(f"cannot write {output}: there is no folder {output.parent}")
    if not os.access(folder, os.W_OK):
        raise InputError(f"cannot write {output}: the folder {output.parent} is read-only")
    if output.is_dir():
        raise InputError(f"cannot write {output}: it is a folder")
