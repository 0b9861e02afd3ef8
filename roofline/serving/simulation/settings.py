"""Settings of a mechanism by name: `min=1,max=8,start-up=60 s`, or a YAML file with the same keys."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from roofline.errors import InputError, SpecError, UnknownNameError
from roofline.serving.traffic.scalars import parse_seconds
from roofline.specs.library import Input
from roofline.specs.yaml_file import FILE_VERSION, read_yaml, wrong_version
from roofline.text import clean

Parsers = Mapping[str, Callable[[Any], Any]]
"""How the value of each key is read; a key of `repeated` gets a list of values."""


def parse_settings(
    value: object, parsers: Parsers, flag: str, kind: str, repeated: tuple[str, ...] = ()
) -> tuple[dict[str, Any], Input | None]:
    """Return the values of settings by key (with `_` for `-`), and the file that they were read from.

    Args:
        value: a mapping, a text of `key=value` separated by commas, or the path of a YAML file.
        parsers: how each key is read.
        flag: the option, for messages.
        kind: of the file, which may state it as `kind`.
        repeated: keys that may be given several times, or in a file as a list.

    Raises:
        InputError: an unknown key, a wrong value, a key that is given twice.
        SpecError: the same in a file.
    """
    if isinstance(value, str | Path) and Path(str(value)).suffix.lower() in (".yaml", ".yml"):
        path = Path(str(value)).expanduser()
        file = read_yaml(path)
        content = dict(file.data)
        if content.pop("kind", kind) != kind:
            raise SpecError(f"kind must be {kind}", path=path, line=1, column=1)
        if (version := content.pop("schema_version", FILE_VERSION)) != FILE_VERSION:
            line, column = file.marks["schema_version",]
            raise SpecError(wrong_version(version), path=path, line=line, column=column)
        try:
            return _read(content.items(), parsers, repeated), Input(kind, clean(path.name), str(path), file.sha256)
        except InputError as error:
            raise SpecError(str(error), path=path) from None
    try:
        if isinstance(value, Mapping):
            return _read(value.items(), parsers, repeated), None
        return _read(_pairs(str(value), parsers), parsers, repeated), None
    except InputError as error:
        raise InputError(f"{flag}: {error}") from None


def _pairs(value: str, parsers: Parsers) -> list[tuple[str, str]]:
    pairs = []
    for part in filter(None, (part.strip() for part in value.split(","))):
        key, equals, text = part.partition("=")
        if not equals:
            raise InputError(f"{part[:60]!r} must be key=value, with a key of {', '.join(map(_dashed, parsers))}")
        pairs.append((key.strip(), text.strip()))
    return pairs


def _read(pairs: Any, parsers: Parsers, repeated: tuple[str, ...]) -> dict[str, Any]:
    settings: dict[str, Any] = {}
    for given, text in pairs:
        key = str(given).replace("-", "_")
        if key not in parsers:
            raise UnknownNameError("key", given, [_dashed(one) for one in parsers], list_all=True)
        if key in settings and key not in repeated:
            raise InputError(f"{_dashed(key)} is given twice")
        try:
            if key in repeated:
                settings.setdefault(key, []).extend(parsers[key](one) for one in (text if isinstance(text, list) else [text]))
            else:
                settings[key] = parsers[key](text)
        except InputError as error:
            raise InputError(f"{_dashed(key)}: {error}") from None
    return settings


def _dashed(key: str) -> str:
    return key.replace("_", "-")


def parse_delay(value: object) -> float:
    """Parse a time of 0 or more into seconds: `0`, `60 s`, `5 min`.

    Raises:
        InputError: no time, or below 0.

    >>> parse_delay("5 min"), parse_delay(0)
    (300.0, 0.0)
    """
    return 0.0 if str(value).strip() in ("0", "0.0", "0 s") else parse_seconds(value)
