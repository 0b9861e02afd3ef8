"""Errors that are found after a file was validated, with the place of their key."""

from __future__ import annotations

from dataclasses import dataclass

from roofline.errors import SpecError
from roofline.specs.yaml_file import YamlFile


@dataclass(frozen=True, slots=True)
class Places:
    """Makes the errors of a section of a file: called with a key of it (or several, downwards) and what is wrong. Of a key
    that is not there the place is that of what should hold it."""

    file: YamlFile
    section: tuple[str | int, ...] = ()

    def __call__(self, key: str | tuple[str | int, ...], problem: str) -> SpecError:
        """The error."""
        keys = (*self.section, *((key,) if isinstance(key, str) else key))
        marks = self.file.marks
        line, column = next((marks[keys[:n]] for n in range(len(keys), -1, -1) if keys[:n] in marks), (1, 1))
        where = ".".join(str(part) for part in keys)
        return SpecError(f"{where}: {problem}" if where else problem, path=self.file.path, line=line, column=column)
