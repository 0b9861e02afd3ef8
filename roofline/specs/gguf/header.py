"""The header of a GGUF file: its keys and values, and name, shape and type of every tensor. No tensor is read.

Source: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md
"""

from __future__ import annotations

import hashlib
import io
import os
import re
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any, NoReturn

from roofline import files
from roofline.errors import SpecError
from roofline.specs.quantization.ggml import TYPES

MAGIC = b"GGUF"
VERSIONS = (2, 3)
MAX_FILE = 2**50
"""Only headers are read, so that files may be as large as they are."""
MAX_KEYS, MAX_TENSORS, MAX_ENTRIES = 2**16, 2**20, 2**24
"""Keys and tensors of a file, and entries of an array; tokenizers have some hundred thousand."""
MAX_NAME, MAX_TEXT, MAX_AXES = 2**12, 2**24, 4
"""Bytes of a name and of a text, and axes of a tensor, of which the format has four."""
_RETAINED = 4096
"""Entries of an array that are kept: values for each layer. Of a longer one, such as a vocabulary, only the length is."""

_NUMBERS = {0: "<B", 1: "<b", 2: "<H", 3: "<h", 4: "<I", 5: "<i", 6: "<f", 7: "<?", 10: "<Q", 11: "<q", 12: "<d"}
_TEXT, _ARRAY = 8, 9
_IDS = {
    0: "f32", 1: "f16", 2: "q4_0", 3: "q4_1", 6: "q5_0", 7: "q5_1", 8: "q8_0", 10: "q2_k", 11: "q3_k", 12: "q4_k", 13: "q5_k",
    14: "q6_k", 15: "q8_k", 16: "iq2_xxs", 17: "iq2_xs", 18: "iq3_xxs", 19: "iq1_s", 20: "iq4_nl", 21: "iq3_s", 22: "iq2_s",
    23: "iq4_xs", 29: "iq1_m", 30: "bf16", 34: "tq1_0", 35: "tq2_0", 39: "mxfp4", 40: "nvfp4", 41: "q1_0",
}  # fmt: skip
_SPLIT = re.compile(r"(?P<stem>.*)-(?P<number>\d{5})-of-(?P<count>\d{5})\.gguf")


@dataclass(frozen=True, slots=True)
class Stored:
    """A tensor in a file: its type in lower case ("q4_k"), its shape with the longest stride first, as PyTorch has it, and
    its size in bytes."""

    type: str
    shape: tuple[int, ...]
    bytes: int


@dataclass(frozen=True, slots=True)
class Entries:
    """A long array of which only the number of entries was kept."""

    count: int


@dataclass(frozen=True, slots=True)
class Gguf:
    """A model in one GGUF file or in several: its keys, and its tensors by name. `sha256` is that of the headers."""

    path: Path
    keys: Mapping[str, Any]
    tensors: Mapping[str, Stored]
    parts: int
    sha256: str

    @property
    def bytes(self) -> int:
        """Bytes of all tensors, without what pads them."""
        return sum(tensor.bytes for tensor in self.tensors.values())

    def error(self, message: str) -> SpecError:
        """An error in this file."""
        return SpecError(message, path=self.path)


def read_gguf(path: Path) -> Gguf:
    """The keys and tensors of a GGUF file, or of all files of the model that it is a part of (`NAME-00001-of-0000N.gguf`).

    Raises:
        SpecError: a file is missing, is cut off, has no valid header, or has a tensor that another part has too.
    """
    first, tensors, digest = _read(path)
    if (split := _SPLIT.fullmatch(path.name)) is None:
        if (count := first.get("split.count")) not in (None, 0, 1):
            raise SpecError(
                f"is one of {count} parts, and its name does not say which: NAME-00001-of-{count:05}.gguf", path=path
            )
        return Gguf(path, first, tensors, 1, digest)
    count = int(split["count"])
    every: dict[str, Stored] = {}
    keys: dict[str, Any] = {}
    hashes = []
    for number in range(1, count + 1):
        part = path.with_name(f"{split['stem']}-{number:05}-of-{count:05}.gguf")
        if not files.is_file(part):
            raise SpecError(f"is one of {count} parts, of which {part.name} is missing", path=path)
        own, held, digest = (first, tensors, digest) if part == path else _read(part)
        if own.get("split.count") != count or own.get("split.no") != number - 1:
            raise SpecError("split.no and split.count do not say what its name says", path=part)
        if twice := every.keys() & held.keys():
            raise SpecError(f"holds {min(twice)!r}, as another part does", path=part)
        every |= held
        keys = {**own, **keys}
        hashes.append(digest)
        files.note_input(part, "the model's GGUF file")
    if (total := keys.get("split.tensors.count")) is not None and total != len(every):
        raise SpecError(f"split.tensors.count is {total}, its {count} parts hold {len(every)} tensors", path=path)
    return Gguf(path, keys, every, count, hashlib.sha256("".join(hashes).encode()).hexdigest())


def _read(path: Path) -> tuple[dict[str, Any], dict[str, Stored], str]:
    """Keys and tensors of one file, and the hash of its header."""
    with files.open_input(path, MAX_FILE, "a GGUF file") as file:
        if not file.seekable():
            raise SpecError("is a pipe; a GGUF file has to be on disk, as its size is compared with its header", path=path)
        size = file.seek(0, os.SEEK_END)
        file.seek(0)
        reader = _Reader(path, file)
        if file.read(4) != MAGIC:
            reader.refuse("is no GGUF file: it does not begin with GGUF")
        version = reader.number("<I")
        if version not in VERSIONS:
            big = " (it is of a big-endian machine)" if version.to_bytes(4, "little")[:2] == b"\0\0" else ""
            reader.refuse(f"is GGUF of version {version}{big}; known: {', '.join(map(str, VERSIONS))}")
        count = reader.count("tensors", MAX_TENSORS)
        keys = reader.keys(reader.count("keys", MAX_KEYS))
        alignment = keys.get("general.alignment", 32)
        if isinstance(alignment, bool) or not isinstance(alignment, int) or alignment < 8 or alignment % 8:
            reader.refuse(f"general.alignment must be a multiple of 8, not {alignment!r:.60}")
        tensors, end = reader.tensors(count, alignment)
        length = file.tell()
        expected = -(-length // alignment) * alignment + end if tensors else length
        if size < expected:
            reader.refuse(f"is cut off: {expected - size:,} bytes are missing")
        file.seek(0)
        digest = hashlib.sha256(file.read(length)).hexdigest()
    return keys, tensors, digest


class _Reader:
    """What a file has next, at a place in its header."""

    def __init__(self, path: Path, file: io.BufferedReader) -> None:
        self.path, self.file = path, file

    def refuse(self, message: str) -> NoReturn:
        raise SpecError(message, path=self.path)

    def bytes(self, size: int) -> bytes:
        data = self.file.read(size)
        if len(data) < size:
            self.refuse("is cut off in its header")
        return data

    def number(self, form: str) -> Any:
        return struct.unpack(form, self.bytes(struct.calcsize(form)))[0]

    def count(self, what: str, most: int) -> int:
        number: int = self.number("<Q")
        if number > most:
            self.refuse(f"has {number:,} {what} by its header; at most {most:,} are read")
        return number

    def text(self, most: int) -> str:
        data = self.bytes(self.count("bytes in a text", most))
        try:
            return data.decode()
        except UnicodeDecodeError:
            return data.decode(errors="replace")

    def keys(self, count: int) -> dict[str, Any]:
        keys: dict[str, Any] = {}
        for _ in range(count):
            name = self.text(MAX_NAME)
            if name in keys:
                self.refuse(f"has the key {name!r:.100} twice")
            keys[name] = self.value(name, self.number("<I"))
        return keys

    def value(self, name: str, kind: int) -> Any:
        if kind == _TEXT:
            return self.text(MAX_TEXT)
        if kind != _ARRAY:
            if kind not in _NUMBERS:
                self.refuse(f"{name}: values of type {kind} are not known")
            return self.number(_NUMBERS[kind])
        of, count = self.number("<I"), self.count(f"entries of {name}", MAX_ENTRIES)
        if of == _TEXT:
            for _ in range(count):
                self.bytes(self.count("bytes in a text", MAX_TEXT))
            return Entries(count)
        if of not in _NUMBERS:
            self.refuse(f"{name}: arrays of type {of} are not known")
        size = struct.calcsize(_NUMBERS[of])
        if count > _RETAINED:
            left = count * size
            while left:
                left -= len(self.bytes(min(left, 2**20)))
            return Entries(count)
        return list(struct.unpack(f"<{count}{_NUMBERS[of][1]}", self.bytes(count * size)))

    def tensors(self, count: int, alignment: int) -> tuple[dict[str, Stored], int]:
        """The tensors, and the bytes from the beginning of the first to the end of the last."""
        tensors: dict[str, Stored] = {}
        end = 0
        for _ in range(count):
            name = self.text(MAX_NAME)
            if name in tensors:
                self.refuse(f"has the tensor {name!r:.100} twice")
            axes = self.number("<I")
            if not 1 <= axes <= MAX_AXES:
                self.refuse(f"tensor {name!r:.100} has {axes} axes; 1 to {MAX_AXES} are allowed")
            shape = tuple(reversed(struct.unpack(f"<{axes}Q", self.bytes(8 * axes))))
            kind, offset = self.number("<I"), self.number("<Q")
            if kind not in _IDS:
                known = ", ".join(TYPES)
                self.refuse(f"tensor {name!r:.100} is of type {kind}, which is not known; known: {known}")
            per_block, size = TYPES[_IDS[kind]]
            if min(shape) < 1 or prod(shape) >= 2**63 or shape[-1] % per_block:
                why = f"rows of {shape[-1]:,} elements are not whole blocks of {per_block}" if min(shape) else "an axis is 0"
                self.refuse(f"tensor {name!r:.100} cannot be {_IDS[kind]}: {why}")
            held = prod(shape) // per_block * size
            if offset % alignment or offset < end:
                self.refuse(f"tensor {name!r:.100} begins at {offset:,}, which is not behind the one before it or not aligned")
            end = offset + held
            tensors[name] = Stored(_IDS[kind], shape, held)
        return tensors, end
