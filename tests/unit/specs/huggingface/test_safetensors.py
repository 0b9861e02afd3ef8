"""Headers of safetensors files and their index: what is there, and what is wrong with it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from roofline.errors import SpecError
from roofline.specs.huggingface.safetensors import INDEX, MAX_HEADER, Stored, read_checkpoint, read_header

TWO = {
    "a": {"dtype": "BF16", "shape": [2, 3], "data_offsets": [0, 12]},
    "b": {"dtype": "F32", "shape": [], "data_offsets": [12, 16]},
}


def write(path: Path, header: Any, data: int = 16, length: int | None = None) -> Path:
    """A file with a header and so many bytes of zeros behind it."""
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    path.write_bytes((len(text) if length is None else length).to_bytes(8, "little") + text + bytes(data))
    return path


def test_header(tmp_path: Path) -> None:
    """Names, dtypes, shapes and bytes; what is said about the file is no tensor."""
    found = read_header(write(tmp_path / "x.safetensors", {"__metadata__": {"format": "pt"}, **TWO}))
    assert found == {"a": Stored("BF16", (2, 3), 12), "b": Stored("F32", (), 4)}


def test_an_unknown_dtype_is_taken_as_it_is(tmp_path: Path) -> None:
    """Its bytes are those between its offsets."""
    header = {"a": {"dtype": "F4", "shape": [8], "data_offsets": [0, 4]}}
    assert read_header(write(tmp_path / "x.safetensors", header, 4))["a"] == Stored("F4", (8,), 4)


@pytest.mark.parametrize(
    ("header", "data", "length", "message"),
    [
        (TWO, 10, None, "is cut off: 6 bytes are missing"),
        (TWO, 20, None, "has 4 bytes too many"),
        (TWO, 0, 10**6, "is cut off in its header"),
        (b"", 0, MAX_HEADER * 2**30, "is cut off in its header"),
        (b"version https://git-lfs.github.com/spec/v1", 0, None, "its header is not JSON"),
        (b"[1]", 0, None, "its header is no object"),
        (b"[" * 100_000, 0, None, "its header is not JSON"),
        ({"a": 1}, 0, None, "'a': must have dtype, shape and data_offsets"),
        ({"a": {**TWO["a"], "shape": [-1]}}, 12, None, "'a': is no tensor"),
        ({"a": {**TWO["a"], "shape": [True]}}, 12, None, "'a': is no tensor"),
        ({"a": {**TWO["a"], "data_offsets": [12, 0]}}, 12, None, "'a': is no tensor"),
        ({"a": {**TWO["a"], "data_offsets": [0, 2**70]}}, 12, None, "'a': is no tensor"),
        ({"a": {**TWO["a"], "shape": [2, 2]}}, 12, None, "12 bytes are not 4 elements of BF16"),
    ],
)
def test_what_is_wrong(tmp_path: Path, header: Any, data: int, length: int | None, message: str) -> None:
    """One sentence, with the file."""
    path = write(tmp_path / "x.safetensors", header, data, length)
    with pytest.raises(SpecError, match=message) as caught:
        read_header(path)
    assert caught.value.path == path


@pytest.mark.parametrize("content", [b"", b"\x01\x02", b"version https://git-lfs.github.com/spec/v1\noid sha256:0\n"])
def test_what_is_no_safetensors_file(tmp_path: Path, content: bytes) -> None:
    """An empty file, a piece of one, and the note that git-lfs leaves where a file was not fetched."""
    (tmp_path / "x.safetensors").write_bytes(content)
    with pytest.raises(SpecError, match=r"no safetensors file"):
        read_header(tmp_path / "x.safetensors")


def test_a_header_beyond_what_the_format_allows(tmp_path: Path) -> None:
    """Refused before it is read; the file is all holes."""
    path = tmp_path / "x.safetensors"
    with path.open("wb") as file:
        file.write((MAX_HEADER + 1).to_bytes(8, "little"))
        file.truncate(MAX_HEADER + 100)
    with pytest.raises(SpecError, match="the format allows 100,000,000"):
        read_header(path)


def test_folder_without_a_checkpoint(tmp_path: Path) -> None:
    """Nothing, not an error."""
    assert read_checkpoint(tmp_path) is None


def test_several_files_without_an_index(tmp_path: Path) -> None:
    """Together; others beside model*.safetensors are left alone, and no tensor may stand in two files."""
    write(tmp_path / "model-1.safetensors", TWO)
    write(tmp_path / "model-2.safetensors", {"c": TWO["b"] | {"data_offsets": [0, 4]}}, 4)
    write(tmp_path / "consolidated.safetensors", TWO)
    found = read_checkpoint(tmp_path)
    assert found is not None
    assert (sorted(found.tensors), found.bytes, found.complete, found.total_size) == (["a", "b", "c"], 20, True, None)
    write(tmp_path / "model-3.safetensors", TWO)
    with pytest.raises(SpecError, match="holds 'a', as another file"):
        read_checkpoint(tmp_path)


def _index(folder: Path, files: dict[str, Any], **metadata: Any) -> None:
    (folder / INDEX).write_text(json.dumps({"metadata": metadata, "weight_map": files}), encoding="utf-8")


def test_index_alone(tmp_path: Path) -> None:
    """Names without shapes, and the size that it says."""
    _index(tmp_path, {"a": "model-1.safetensors"}, total_size=12.0)
    found = read_checkpoint(tmp_path)
    assert found is not None
    assert (found.tensors, found.complete, found.total_size) == ({"a": None}, False, 12)


def test_index_and_some_files(tmp_path: Path) -> None:
    """Shapes of what is there."""
    write(tmp_path / "model-1.safetensors", TWO)
    _index(tmp_path, {"a": "model-1.safetensors", "b": "model-1.safetensors", "c": "model-2.safetensors"})
    found = read_checkpoint(tmp_path)
    assert found is not None
    assert found.tensors["c"] is None
    assert found.tensors["a"] == Stored("BF16", (2, 3), 12)


def test_index_that_is_wrong(tmp_path: Path) -> None:
    """A tensor that the file does not hold, a path that leads elsewhere, a size that is none."""
    write(tmp_path / "model-1.safetensors", TWO)
    _index(tmp_path, {"z": "model-1.safetensors"})
    with pytest.raises(SpecError, match="does not hold 'z'"):
        read_checkpoint(tmp_path)
    _index(tmp_path, {"a": "../model-1.safetensors"})
    with pytest.raises(SpecError, match="weight_map"):
        read_checkpoint(tmp_path)
    _index(tmp_path, {"a": "model-1.safetensors"}, total_size="12")
    with pytest.raises(SpecError, match="total_size"):
        read_checkpoint(tmp_path)
