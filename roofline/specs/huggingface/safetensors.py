"""What the files of a checkpoint hold, from their headers: no tensor is read.

A safetensors file is 8 bytes with the length of a header, the header, which is JSON, and the tensors, one behind the other.
Source: https://huggingface.co/docs/safetensors
"""

from __future__ import annotations

import json
import os
import re
from collections import Counter
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any, NoReturn

from roofline import files
from roofline.errors import SpecError
from roofline.formatting import plural
from roofline.specs.huggingface.document import Document, read_json

INDEX = "model.safetensors.index.json"
# The format allows no longer header; an index has a line for each tensor, of which there are 100,000 and more.
MAX_HEADER, MAX_INDEX = 100_000_000, 2**28
# Only headers are read, so that the files may be as large as they are.
MAX_FILE = 2**50

_SIZES = {
    "F64": 8, "F32": 4, "F16": 2, "BF16": 2, "I64": 8, "I32": 4, "I16": 2, "I8": 1, "U64": 8, "U32": 4, "U16": 2, "U8": 1,
    "BOOL": 1, "F8_E4M3": 1, "F8_E5M2": 1, "F8_E8M0": 1, "F8_E4M3FNUZ": 1, "F8_E5M2FNUZ": 1, "C64": 8,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Stored:
    """A tensor in a file: dtype as the format spells it ("BF16"), shape in elements, and size in bytes."""

    dtype: str
    shape: tuple[int, ...]
    bytes: int


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """The tensors of a checkpoint, by name; None where the file that holds one is not there. `total_size` is what the index
    says, if there is one."""

    tensors: dict[str, Stored | None]
    total_size: int | None = None

    @property
    def complete(self) -> bool:
        """Whether the files of all tensors are there."""
        return None not in self.tensors.values()

    @property
    def bytes(self) -> int:
        """Bytes of all tensors whose files are there."""
        return sum(stored.bytes for stored in self.tensors.values() if stored is not None)


_HALF_BYTES = ("_blocks", "_packed", ".weight_packed", ".weight")
"""Endings of tensors of bytes that hold two elements of 4 bits each: MXFP4, NVFP4, bitsandbytes."""
_SCALED = (".weight_scale", ".weight_scale_2", ".weight.absmax", ".weight.quant_map", "_scales", ".weight_global_scale")
"""Endings of what stands beside such a tensor."""
_INT32 = (".qweight", ".weight_packed")
QUANTIZATION_TENSORS = re.compile(
    r"[._](weight_scale(_inv|_2)?|scales?|scale_inv|weight_shape|weight_zero_point|weight_g_idx|qzeros|g_idx|input_scale"
    r"|input_global_scale|weight_global_scale|pre_quant_scale|SCB|weight_format|weight\.(absmax|quant_map|nested_absmax"
    r"|nested_quant_map|quant_state\.\w+)|[kvq]_scale|[kvq]_proj\.(output|[kv])_scale|bias_scale)$"
)
"""What is stored with the weights of a quantised module, behind its name: scales, zero points, orders, tables."""


@dataclass(frozen=True, slots=True)
class StoredSizes:
    """What the headers of a checkpoint say of its size, without the config.json that says what its tensors are for.

    Attributes:
        tensors: number of tensors; of `unread` ones the file is not there.
        bytes: of the tensors that were read.
        total_size: bytes of all tensors by the index; None without one, or where it does not say.
        parameters: elements of weights; None where a header does not tell how many are packed into a number.
        dtypes: number of tensors, elements as they are stored, and bytes, by dtype, the most bytes first.
        packed: number of tensors with several elements in a number, by what is in one: "2 of 4 bits in a byte".
        beside: number of tensors that are no weights (scales, zero points, orders of columns).
    """

    tensors: int
    unread: int
    bytes: int
    total_size: int | None
    parameters: int | None
    dtypes: dict[str, tuple[int, int, int]]
    packed: dict[str, int]
    beside: int


def stored_sizes(checkpoint: Checkpoint) -> StoredSizes:
    """Sizes of a checkpoint from the names, shapes and dtypes in its headers."""
    dtypes: dict[str, tuple[int, int, int]] = {}
    packed: Counter[str] = Counter()
    elements: int | None = 0
    beside = 0
    for name, stored in checkpoint.tensors.items():
        if stored is None:
            continue
        count, stored_elements, size = dtypes.get(stored.dtype, (0, 0, 0))
        dtypes[stored.dtype] = count + 1, stored_elements + prod(stored.shape), size + stored.bytes
        if QUANTIZATION_TENSORS.search(name) or name.endswith("inv_freq"):
            beside += 1
            continue
        each, what = _packing(name, stored, checkpoint)
        if what:
            packed[what] += 1
        elements = None if elements is None or each is None else elements + prod(stored.shape) * each
    unread = sum(stored is None for stored in checkpoint.tensors.values())
    return StoredSizes(
        tensors=len(checkpoint.tensors),
        unread=unread,
        bytes=checkpoint.bytes,
        total_size=checkpoint.total_size,
        parameters=None if unread else elements,
        dtypes=dict(sorted(dtypes.items(), key=lambda entry: -entry[1][2])),
        packed=dict(packed),
        beside=beside,
    )


def sizes_in_words(sizes: StoredSizes) -> str:
    """The sizes of a checkpoint in a phrase: tensors, bytes, dtypes, parameters."""
    size = sizes.total_size if sizes.unread else sizes.bytes
    parts = [plural(sizes.tensors, "tensor")]
    parts += [f"{size:,} bytes"] if size is not None else []
    parts += [f"{' and '.join(sizes.dtypes)}"] if 0 < len(sizes.dtypes) < 3 else []
    parts += [f"{sizes.parameters:,} parameters"] if sizes.parameters is not None else []
    return ", ".join(parts)


def _packing(name: str, stored: Stored, checkpoint: Checkpoint) -> tuple[int | None, str]:
    """Elements of a weight in each number of a tensor, and that in words; None: the header does not tell."""
    if stored.dtype == "U8" and (ending := next((end for end in _HALF_BYTES if name.endswith(end)), None)) is not None:
        base = name.removesuffix(ending)
        if any(base + end in checkpoint.tensors for end in _SCALED):
            return 2, "2 of 4 bits in a byte"
    if stored.dtype in ("I32", "U32") and name.endswith(_INT32):
        each = _elements_of_int32(name.removesuffix(".qweight"), stored, checkpoint) if name.endswith(".qweight") else None
        what = "an unknown number, of 2 to 8 bits, in 32 bits" if each is None else f"{each} of {32 // each} bits in 32 bits"
        return each, what
    return 1, ""


def _elements_of_int32(module: str, stored: Stored, checkpoint: Checkpoint) -> int | None:
    """Elements in each number of AWQ's and GPTQ's `qweight`, by the outputs of `scales` and of the packed zero points."""
    scales, zeros = (checkpoint.tensors.get(f"{module}.{name}") for name in ("scales", "qzeros"))
    if scales is None or zeros is None or len(scales.shape) != 2 or len(zeros.shape) != 2 or not zeros.shape[1]:
        return None
    each, rest = divmod(scales.shape[1], zeros.shape[1])
    return each if not rest and each in (4, 8, 16) else None


def read_checkpoint(folder: Path) -> Checkpoint | None:
    """The tensors of the checkpoint in a folder, from the headers of its safetensors files; None if it has no such files.

    Raises:
        SpecError: a file is cut off, is no safetensors file, holds a tensor that another holds too, or does not hold what the
            index says.
    """
    if files.is_file(folder / INDEX):
        return _indexed(folder)
    parts = sorted(folder.glob("model*.safetensors")) or sorted(folder.glob("*.safetensors"))
    if not parts:
        return None
    tensors: dict[str, Stored | None] = {}
    for file in parts:
        header = read_header(file)
        if twice := tensors.keys() & header.keys():
            raise SpecError(f"holds {min(twice)!r}, as another file of the folder does", path=file)
        tensors |= header
    return Checkpoint(tensors)


def _indexed(folder: Path) -> Checkpoint:
    document = read_json(folder / INDEX, MAX_INDEX)
    where = document.data.get("weight_map")
    if not isinstance(where, dict) or not all(isinstance(file, str) and Path(file).name == file for file in where.values()):
        raise document.error(("weight_map",), "weight_map must say for each tensor which file beside the index holds it")
    headers = {file: read_header(folder / file) for file in sorted(set(where.values())) if files.is_file(folder / file)}
    for name, file in where.items():
        if file in headers and name not in headers[file]:
            raise SpecError(f"does not hold {name!r}, which {INDEX} says it does", path=folder / file)
    known = {name: stored for header in headers.values() for name, stored in header.items()}
    return Checkpoint({**{name: known.get(name) for name in where}, **known}, _total_size(document))


def _total_size(document: Document) -> int | None:
    metadata = document.data.get("metadata")
    size = metadata.get("total_size") if isinstance(metadata, dict) else None
    if isinstance(size, float) and size.is_integer():
        size = int(size)  # as some tools write it
    if size is not None and (isinstance(size, bool) or not isinstance(size, int) or size < 0):
        raise document.error(("metadata",), f"metadata.total_size must be a number of bytes, not {size!r:.60}")
    return size


def read_header(path: Path) -> dict[str, Stored]:
    """The tensors of one safetensors file, by name; only its header is read.

    Raises:
        SpecError: the file cannot be read, is cut off or too long, or its header is no valid one.
    """
    with files.open_input(path, MAX_FILE, "a safetensors file") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(0)
        length = int.from_bytes(file.read(8), "little")
        if size < 8 or length > size - 8:
            raise SpecError(f"is cut off in its header, or no safetensors file ({size:,} bytes)", path=path)
        if length > MAX_HEADER:
            raise SpecError(f"has a header of {length:,} bytes; the format allows {MAX_HEADER:,}", path=path)
        text = file.read(length)
    try:
        data = json.loads(text)
    except (ValueError, RecursionError):
        raise SpecError("is no safetensors file: its header is not JSON", path=path) from None
    if not isinstance(data, dict):
        raise SpecError("is no safetensors file: its header is no object", path=path)
    data.pop("__metadata__", None)
    tensors = {name: _stored(path, name, entry) for name, entry in data.items()}
    end = 8 + length + max((entry["data_offsets"][1] for entry in data.values()), default=0)
    if size != end:
        what = f"is cut off: {end - size:,} bytes are missing" if size < end else f"has {size - end:,} bytes too many"
        raise SpecError(what, path=path)
    return tensors


def _stored(path: Path, name: str, entry: Any) -> Stored:
    def refuse(why: str) -> NoReturn:
        raise SpecError(f"header of {name!r}: {why}", path=path)

    if not isinstance(entry, dict) or not {"dtype", "shape", "data_offsets"} <= entry.keys():
        refuse("must have dtype, shape and data_offsets")
    dtype, shape, offsets = entry["dtype"], entry["shape"], entry["data_offsets"]
    if not _whole(shape) or not _whole(offsets) or len(offsets) != 2 or offsets[0] > offsets[1] or not isinstance(dtype, str):
        refuse("is no tensor")
    size = offsets[1] - offsets[0]
    if dtype in _SIZES and size != prod(shape) * _SIZES[dtype]:
        refuse(f"{size:,} bytes are not {prod(shape):,} elements of {dtype}")
    return Stored(dtype, tuple(shape), size)


def _whole(numbers: Any) -> bool:
    return isinstance(numbers, list) and all(
        isinstance(number, int) and not isinstance(number, bool) and 0 <= number < 2**63 for number in numbers
    )
