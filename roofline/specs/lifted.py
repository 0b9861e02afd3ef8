"""Files whose one long section may be left out: its entries then stand at the top."""

from __future__ import annotations

from dataclasses import replace

from roofline.specs.base import Spec
from roofline.specs.yaml_file import YamlFile


def lifted(file: YamlFile, section: str, spec: type[Spec]) -> YamlFile:
    """A file without `section`, as if all keys that the spec does not know stood under it; one that has it, as it is."""
    if section in file.data:
        return file
    loose = {key: value for key, value in file.data.items() if key not in spec.model_fields}
    data = {key: value for key, value in file.data.items() if key not in loose} | {section: loose}
    marks = {(section, *keys) if keys and keys[0] in loose else keys: mark for keys, mark in file.marks.items()}
    return replace(file, data=data, marks=marks)
