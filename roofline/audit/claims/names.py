"""Names of models and hardware as people write them, made ids: "Llama 3.1 70B", "H100 SXM", "meta-llama/Llama-3.1-8B-Instruct".

What the library finds (ids, aliases, paths) is taken first. Then names are compared part by part: `llama3-8b` is llama, 3, 8b.
All parts have to be in the id, in its order and from its first part on; 3 stands for 3.1 too. What could be several is an
error that lists them: each has numbers of its own.
"""

from __future__ import annotations

import re
from functools import cache
from os import PathLike
from pathlib import Path
from typing import Literal

from roofline.errors import AmbiguousNameError, InputError, UnknownNameError
from roofline.specs.library import find, ids, is_path, text_of
from roofline.specs.source import Assumption

NameKind = Literal["models", "hardware"]

# Words that say whose it is or what it was tuned for, and not which.
_NOISE = {
    "models": {"meta", "instruct", "chat", "it", "base", "hf", "mistralai", "model", "tuned", "google", "openai"},
    "hardware": {"nvidia", "amd", "intel", "aws", "google", "gpu", "gpus", "card", "cards", "tensor", "core", "instinct",
                 "hbm2", "hbm2e", "hbm3", "hbm3e", "accelerator", "accelerators", "node"},
}  # fmt: skip
_SIZE = re.compile(r"\d+(\.\d+)?(x\d+)?b")


def resolve_name(kind: NameKind, name: str | PathLike[str], notes: list[Assumption]) -> str | PathLike[str]:
    """The id or path that a name stands for.

    Args:
        kind: `models` or `hardware`.
        name: as a person writes it; a path or `org/name` of Hugging Face is returned as it is.
        notes: gets an assumption where the name is not the library's own.

    Raises:
        UnknownNameError: nothing has such a name.
        AmbiguousNameError: several have.
    """
    if not isinstance(name, str):
        return name
    if is_path(name):
        return name  # a path, or a name on Hugging Face: the library's to find
    try:
        find(kind, name)
    except InputError as error:
        entries = matching_ids(kind, name)
        if len(entries) == 1:
            why = f"the only one known that {name!r} can stand for"
            notes.append(Assumption(_noun(kind), entries[0], "assumed", why))
            return entries[0]
        if len(entries) > 1 and not isinstance(error, AmbiguousNameError):
            raise ambiguous_name_error(kind, name, entries) from None
        raise
    return name


def matching_ids(kind: NameKind, name: str) -> list[str]:
    """Ids that a name can stand for: one where it is clear, several where it is ambiguous, none where nothing matches."""
    key = re.sub(r"[\s_]+", "-", name.strip().lower())
    exact = _exact(kind)
    if key in exact:
        return [exact[key]]
    return _matches(kind, name)


def ambiguous_name_error(kind: NameKind, name: str, entries: list[str]) -> AmbiguousNameError:
    """The error for a name that stands for several ids (`entries`)."""
    return AmbiguousNameError(_noun(kind), name, entries)


def unknown_name_error(kind: NameKind, name: str) -> UnknownNameError:
    """The error for a name that starts like a known one; its message has the nearest names."""
    return UnknownNameError(_noun(kind), name, ids(kind), f"`roofline {kind} list` shows all.")


def _noun(kind: NameKind) -> str:
    return "model" if kind == "models" else "hardware"


def first_words(kind: NameKind) -> frozenset[str]:
    """Lower-case words that a name can start with: first parts of the known names, and words such as `nvidia` before them."""
    known = {name[0] for names in _parts_of_all(kind).values() for name in names}
    return frozenset(known | _NOISE[kind] - {"it", "gpu", "gpus", "card", "cards", "model", "node", "core", "base"})


def name_parts(name: str) -> tuple[str, ...]:
    """The lower-case parts of a name: words, numbers, and numbers with a unit or a suffix.

    >>> name_parts("Llama3-8B"), name_parts("qwen2.5-7b"), name_parts("A100 80 GB"), name_parts("mistral-7b-v0.1")
    (('llama', '3', '8b'), ('qwen', '2.5', '7b'), ('a100', '80gb'), ('mistral', '7b', 'v0.1'))
    """
    text = re.sub(r"(\d)\s*-?(?:gib|gb|g)\b", r"\1gb", name.lower())
    text = re.sub(r"(\d)\s+b\b", r"\1b", text)
    text = re.sub(r"(?<![a-z\d])([a-z]{2,})(?=\d)", r"\1 ", text)
    return tuple(re.findall(r"[a-z]\d[\d.]*[a-z]*|[a-z]+|\d[\d.]*(?:[a-z][a-z\d]*)?", text.rstrip(".")))


def without_owner(name: str) -> str:
    """A name without the organization that Hugging Face puts before it.

    >>> without_owner("meta-llama/Llama-3.1-8B"), without_owner("95 tok/s on an")
    ('Llama-3.1-8B', '95 tok/s on an')
    """
    return re.sub(r"^[\w.-]+/(?=[A-Za-z]\S)(?!s(?:ec)?\b)", "", name.strip())


def _matches(kind: NameKind, name: str) -> list[str]:
    text = without_owner(name.lower())
    text = re.sub(r"'s\b", "", text)
    if re.search(r"[^\w\s.-]", text, re.ASCII):
        return []
    wanted = _meaningful(kind, name_parts(text))
    if not wanted:
        return []
    squeezed = "".join(wanted)
    known = _parts_of_all(kind)
    same = [entry for entry, names in known.items() if any("".join(_meaningful(kind, own)) == squeezed for own in names)]
    if same:
        return same
    if text.endswith("s") and (singular := _matches(kind, text[:-1])):
        return singular
    only_size = all(_SIZE.fullmatch(part) for part in wanted) and kind == "models"
    return [
        entry
        for entry, names in known.items()
        if any(_inside(wanted, _meaningful(kind, own), anywhere=only_size) for own in names)
    ]


def _inside(wanted: tuple[str, ...], own: tuple[str, ...], *, anywhere: bool) -> bool:
    """Whether all parts are in a name in its order, from its first part on."""
    place = 0
    for index, part in enumerate(wanted):
        while place < len(own) and not _same(part, own[place]):
            if index == 0 and not anywhere:
                return False
            place += 1
        if place == len(own):
            return False
        place += 1
    return True


def _same(part: str, own: str) -> bool:
    """Equal, or a version's number before its point."""
    return part == own or (part.isdigit() and len(part) == 1 and re.fullmatch(rf"{part}\.\d+", own) is not None)


def _meaningful(kind: NameKind, parts: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(part for part in parts if part not in _NOISE[kind]) if len(parts) > 1 else parts


@cache
def _parts_of_all(kind: NameKind) -> dict[str, tuple[tuple[str, ...], ...]]:
    """The parts of every id and its aliases."""
    return {
        entry: tuple(dict.fromkeys(name_parts(name) for name in (entry, *_listed(path, "aliases"))))
        for entry, path in ids(kind).items()
    }


@cache
def _exact(kind: NameKind) -> dict[str, str]:
    """Ids, aliases and the names that drivers give, in small letters, and the ids that they stand for."""
    entries: dict[str, str] = {}
    for entry, path in ids(kind).items():
        entries[entry] = entry
        for name in (*_listed(path, "aliases"), *_listed(path, "driver_names")):
            entries.setdefault(re.sub(r"[\s_]+", "-", name.lower()), entry)
    return entries


def _listed(path: Path, key: str) -> list[str]:
    """A list of names in a file, without parsing all of it; none where it cannot be read, which is an error when it is used."""
    match = re.search(rf"^{key}:\s*\[(.*?)\]", text_of(path), re.MULTILINE | re.DOTALL)
    return [name.strip(" \n\"'") for name in match[1].split(",")] if match else []
