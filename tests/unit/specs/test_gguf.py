"""Headers of GGUF files: what is read of them, and that every damage is one error with the file's name."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import pytest

from roofline import load_model
from roofline.errors import RooflineError, SpecError
from roofline.predict.checkpoint import compare_gguf
from roofline.specs.gguf.header import MAX_KEYS, Entries, read_gguf

KEYS: dict[str, Any] = {
    "general.architecture": "llama", "llama.block_count": 1, "llama.context_length": 64, "llama.embedding_length": 64,
    "llama.feed_forward_length": 96, "llama.attention.head_count": 2, "llama.attention.head_count_kv": [1],
    "tokenizer.ggml.tokens": ["<s>", "a", "b"],
}  # fmt: skip
F32, Q8_0 = 0, 8
SIZES = {F32: (1, 4), 1: (1, 2), 2: (32, 18), Q8_0: (32, 34), 12: (256, 144), 14: (256, 210), 30: (1, 2)}
"""Elements and bytes of a block, by type: f32, f16, q4_0, q8_0, q4_k, q6_k, bf16."""
# Name, shape as PyTorch has it, type.
TENSORS: list[tuple[str, tuple[int, ...], int]] = [
    ("token_embd.weight", (3, 64), Q8_0), ("output_norm.weight", (64,), F32), ("blk.0.attn_norm.weight", (64,), F32),
    ("blk.0.attn_q.weight", (64, 64), Q8_0), ("blk.0.attn_k.weight", (32, 64), Q8_0), ("blk.0.attn_v.weight", (32, 64), F32),
    ("blk.0.attn_output.weight", (64, 64), Q8_0), ("blk.0.ffn_norm.weight", (64,), F32),
    ("blk.0.ffn_gate.weight", (96, 64), Q8_0), ("blk.0.ffn_up.weight", (96, 64), Q8_0),
    ("blk.0.ffn_down.weight", (64, 96), Q8_0),
]  # fmt: skip


def _text(text: str) -> bytes:
    return struct.pack("<Q", len(text)) + text.encode()


def _value(value: Any) -> bytes:
    if isinstance(value, str):
        return struct.pack("<I", 8) + _text(value)
    if isinstance(value, bool):
        return struct.pack("<I?", 7, value)
    if isinstance(value, int):
        return struct.pack("<II", 4, value)
    if value and isinstance(value[0], str):
        return struct.pack("<IIQ", 9, 8, len(value)) + b"".join(map(_text, value))
    return struct.pack("<IIQ", 9, 4, len(value)) + struct.pack(f"<{len(value)}I", *value)


def gguf_file(
    keys: dict[str, Any] = KEYS, tensors: list[tuple[str, tuple[int, ...], int]] = TENSORS, version: int = 3
) -> bytes:
    """A file as the format's description has it, tensors of zeros at multiples of 32 bytes."""
    header = b"GGUF" + struct.pack("<IQQ", version, len(tensors), len(keys))
    header += b"".join(_text(name) + _value(value) for name, value in keys.items())
    data = b""
    for name, shape, kind in tensors:
        header += _text(name) + struct.pack(f"<I{len(shape)}QIQ", len(shape), *reversed(shape), kind, len(data))
        elements, size = 1, SIZES[kind]
        for axis in shape:
            elements *= axis
        data += bytes(elements // size[0] * size[1])
        data += bytes(-len(data) % 32)
    return header + bytes(-len(header) % 32) + data


def _write(folder: Path, content: bytes, name: str = "small.gguf") -> Path:
    path = folder / name
    path.write_bytes(content)
    return path


def test_keys_and_tensors(tmp_path: Path) -> None:
    """Shapes have their axes as PyTorch has them; of a vocabulary only the length is kept."""
    file = read_gguf(_write(tmp_path, gguf_file()))
    assert file.keys["llama.attention.head_count_kv"] == [1]
    assert file.keys["tokenizer.ggml.tokens"] == Entries(3)
    stored = file.tensors["blk.0.ffn_down.weight"]
    assert (stored.type, stored.shape, stored.bytes) == ("q8_0", (64, 96), 64 * 3 * 34)


def test_the_model_has_the_bytes_of_the_file(tmp_path: Path) -> None:
    """Embedding tied, values in fp32 beside queries and keys in 8 bits, norms in fp32: each tensor at its size."""
    path = _write(tmp_path, gguf_file())
    comparison = compare_gguf(load_model(path), read_gguf(path))
    matrices = (3 * 64 + 64 * 64 + 32 * 64 + 64 * 64 + 3 * 96 * 64) * 34 // 32
    assert comparison.predicted_bytes == comparison.stored_bytes == matrices + 32 * 64 * 4 + 3 * 64 * 4
    assert (comparison.tensors, comparison.matched) == (11, 11)


def test_a_model_without_a_suffix_and_a_folder(tmp_path: Path) -> None:
    """A file that begins with GGUF is one; a folder with one model is that model, towers aside."""
    plain = load_model(_write(tmp_path, gguf_file(), "weights"))
    folder = tmp_path / "folder"
    folder.mkdir()
    _write(folder, gguf_file())
    _write(folder, gguf_file(), "mmproj-small.gguf")
    assert load_model(folder).layer_types == plain.layer_types
    _write(folder, gguf_file(), "other.gguf")
    with pytest.raises(SpecError, match=r"2 GGUF models: name one of other\.gguf, small\.gguf"):
        load_model(folder)


def test_a_model_in_parts(tmp_path: Path) -> None:
    """Every part is read from any of them; the first has the keys."""
    split = {"split.no": 0, "split.count": 2, "split.tensors.count": len(TENSORS)}
    first = _write(tmp_path, gguf_file({**KEYS, **split}, TENSORS[:4]), "small-00001-of-00002.gguf")
    with pytest.raises(SpecError, match=r"one of 2 parts, of which small-00002-of-00002\.gguf is missing"):
        read_gguf(first)
    second = {**split, "split.no": 1, "general.architecture": "llama"}
    path = _write(tmp_path, gguf_file(second, TENSORS[4:]), "small-00002-of-00002.gguf")
    file = read_gguf(path)
    assert (file.parts, len(file.tensors), file.keys["llama.block_count"]) == (2, len(TENSORS), 1)
    assert load_model(tmp_path) == load_model(first)
    _write(tmp_path, gguf_file({**second, "split.no": 0}, TENSORS[4:]), path.name)
    with pytest.raises(SpecError, match=r"split\.no and split\.count do not say what its name says"):
        read_gguf(first)


WRONG: dict[str, tuple[bytes, str]] = {
    "another magic": (b"GGML" + gguf_file()[4:], "does not begin with GGUF"),
    "version 1": (gguf_file(version=1), "GGUF of version 1; known: 2, 3"),
    "big-endian": (gguf_file()[:4] + struct.pack(">I", 3) + gguf_file()[8:], "big-endian"),
    "cut off in the data": (gguf_file()[:-40], "40 bytes are missing"),
    "cut off in the header": (gguf_file()[:200], "cut off in its header"),
    "keys without end": (b"GGUF" + struct.pack("<IQQ", 3, 1, 2**60), f"at most {MAX_KEYS:,} are read"),
    "text without end": (b"GGUF" + struct.pack("<IQQQ", 3, 1, 1, 2**62), "bytes in a text"),
    "a tensor of no type": (
        b"GGUF" + struct.pack("<IQQ", 3, 1, 0) + _text("x") + struct.pack("<IQIQ", 1, 32, 36, 0),
        "tensor 'x' is of type 36, which is not known",
    ),
    "half a block": (
        b"GGUF" + struct.pack("<IQQ", 3, 1, 0) + _text("x") + struct.pack("<IQIQ", 1, 48, Q8_0, 0),
        "tensor 'x' cannot be q8_0: rows of 48 elements are not whole blocks of 32",
    ),
    "an axis of 0": (
        b"GGUF" + struct.pack("<IQQ", 3, 1, 0) + _text("x") + struct.pack("<IQIQ", 1, 0, F32, 0),
        "an axis is 0",
    ),
    "nine axes": (b"GGUF" + struct.pack("<IQQ", 3, 1, 0) + _text("x") + struct.pack("<I", 9), "has 9 axes"),
    "no architecture": (gguf_file({"general.name": "x"}), "key general.architecture is missing"),
    "another architecture": (gguf_file({**KEYS, "general.architecture": "lama"}), "Did you mean llama"),
    "a tower": (gguf_file({"general.architecture": "clip"}), "give the file of the language model"),
    "an adapter": (gguf_file({**KEYS, "general.type": "adapter"}), "general.type is 'adapter'"),
    "a key that is not known": (
        gguf_file({**KEYS, "llama.mystery_count": 3}),
        r"key llama\.mystery_count \(3\) is not understood",
    ),
    "no layers": (gguf_file({**KEYS, "llama.block_count": "many"}), r"llama\.block_count: must be a whole number"),
    "heads that do not divide": (gguf_file({**KEYS, "llama.attention.head_count_kv": 3}), "num_key_value_heads"),
    "a tensor too many": (gguf_file(tensors=[*TENSORS, ("blk.0.extra.weight", (4,), F32)]), "extra.weight is not understood"),
    "a tensor too few": (gguf_file(tensors=TENSORS[:-1]), r"has no tensor blk\.0\.ffn_down\.weight"),
    "another width": (gguf_file({**KEYS, "llama.feed_forward_length": 128}), "ffn_gate.weight is 96x64, the model has 128x64"),
}  # fmt: skip


@pytest.mark.parametrize(("content", "message"), WRONG.values(), ids=WRONG)
def test_damage_is_one_error(content: bytes, message: str, tmp_path: Path) -> None:
    """With the name of the file, and of the key or the tensor."""
    path = _write(tmp_path, content)
    with pytest.raises(SpecError, match=message) as error:
        load_model(path)
    assert str(error.value).startswith(str(path))


@pytest.mark.slow
def test_every_cut_is_one_error(tmp_path: Path) -> None:
    """Wherever a file ends too early, and whatever byte of its header is another."""
    whole = gguf_file()
    for end in range(0, len(whole) - 32, 61):
        with pytest.raises(RooflineError):
            load_model(_write(tmp_path, whole[:end]))
    for place in range(0, 1200, 7):
        damaged = bytearray(whole)
        damaged[place] ^= 0x55
        try:
            load_model(_write(tmp_path, bytes(damaged)))
        except RooflineError:
            continue  # what a damaged name of a harmless key says is not looked at


def test_folders_without_a_model_say_what_is_missing(tmp_path: Path) -> None:
    """A folder of safetensors alone, and none of anything."""
    with pytest.raises(SpecError, match=r"is a folder without a config\.json$|without a config\.json, which"):
        load_model(tmp_path)
    (tmp_path / "model.safetensors.index.json").touch()
    with pytest.raises(SpecError, match=r"without a config\.json beside model\.safetensors\.index\.json"):
        load_model(tmp_path)
