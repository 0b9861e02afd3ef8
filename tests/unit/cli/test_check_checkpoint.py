"""`models check FOLDER`: the tensors of a checkpoint beside those that its config describes."""

from __future__ import annotations

import json
from collections.abc import Callable
from math import prod
from pathlib import Path
from typing import Any

import pytest

from roofline.blocks.model import Choice
from roofline.blocks.model_files import load_model
from roofline.predict.checkpoint import _not_language

Run = Callable[..., Any]
Shapes = dict[str, tuple[int, ...]]

CONFIG: dict[str, Any] = {
    "model_type": "llama", "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 2, "num_attention_heads": 4,
    "num_key_value_heads": 2, "vocab_size": 331, "max_position_embeddings": 512, "tie_word_embeddings": False,
    "torch_dtype": "bfloat16",
}  # fmt: skip
LAYER: Shapes = {
    "self_attn.q_proj": (64, 64),
    "self_attn.k_proj": (32, 64),
    "self_attn.v_proj": (32, 64),
    "self_attn.o_proj": (64, 64),
    "mlp.gate_proj": (96, 64),
    "mlp.up_proj": (96, 64),
    "mlp.down_proj": (64, 96),
    "input_layernorm": (64,),
    "post_attention_layernorm": (64,),
}
TENSORS: Shapes = {
    "model.embed_tokens.weight": (331, 64),
    **{f"model.layers.{i}.{name}.weight": shape for i in range(2) for name, shape in LAYER.items()},
    "model.norm.weight": (64,),
    "lm_head.weight": (331, 64),
}
SIZES = {"BF16": 2, "F32": 4, "F8_E4M3": 1, "U8": 1, "I32": 4}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A checkpoint that is as it should be, in one file without an index."""
    (tmp_path / "config.json").write_text(json.dumps(CONFIG), encoding="utf-8")
    store(tmp_path, TENSORS)
    return tmp_path


def store(folder: Path, shapes: Shapes, dtypes: dict[str, str] | None = None, file: str = "model.safetensors") -> int:
    """Write tensors of zeros; the bytes that they take."""
    header, end = {}, 0
    for name, shape in shapes.items():
        dtype = (dtypes or {}).get(name, "BF16")
        size = prod(shape) * SIZES[dtype]
        header[name] = {"dtype": dtype, "shape": list(shape), "data_offsets": [end, end + size]}
        end += size
    text = json.dumps(header).encode()
    (folder / file).write_bytes(len(text).to_bytes(8, "little") + text + bytes(end))
    return end


def _checked(run: Run, folder: Path, code: int) -> dict[str, Any]:
    answer = run("models", "check", folder, "--json")
    assert answer.code == code, answer
    (row,) = json.loads(answer.out)["checked"]
    assert row["ok"] == (code == 0)
    found: dict[str, Any] = row["checkpoint"]
    assert found["problems"] == [] if code == 0 else found["problems"]
    return found


def test_all_is_well(run: Run, folder: Path) -> None:
    """21 tensors, and the bytes that the model is predicted to take."""
    found = _checked(run, folder, 0)
    elements = 2 * (2 * 64 * 64 + 2 * 32 * 64 + 3 * 96 * 64 + 2 * 64) + 64 + 2 * 331 * 64
    assert (found["known"], found["matched"]) == (True, 2 * 9 + 3)
    assert found["predicted_bytes"] == found["stored_bytes"] == 2 * elements
    out = run("models", "check", folder).out
    assert "21 tensors: 21 match, 0 missing, 0 extra, 0 of another shape" in out
    assert out.startswith("1 of 1 model file is valid; 1 compared with the tensors of a checkpoint\n")


def test_what_is_missing_extra_and_otherwise(run: Run, folder: Path) -> None:
    """Each by its name, and exit code 1."""
    shapes = {name: shape for name, shape in TENSORS.items() if name != "model.layers.1.mlp.up_proj.weight"}
    shapes |= {"model.layers.1.mlp.third_proj.weight": (96, 64), "model.layers.0.self_attn.k_proj.weight": (64, 64)}
    store(folder, shapes)
    found = _checked(run, folder, 1)
    assert found["missing"] == ["model.layers.1.mlp.up_proj.weight"]
    assert found["extra"] == ["model.layers.1.mlp.third_proj.weight"]
    assert found["wrong_shape"] == [["model.layers.0.self_attn.k_proj.weight", [32, 64], [64, 64]]]
    shown = run("models", "check", folder)
    assert "  missing: model.layers.1.mlp.up_proj.weight\n" in shown.out
    assert "k_proj.weight is 64 x 64, the model has 32 x 64\n" in shown.out
    assert "1 tensor is missing; 1 tensor is not of the model; 1 tensor is of another shape" in shown.err


def test_transposed_is_another_shape(run: Run, folder: Path) -> None:
    """As many elements are not enough."""
    store(folder, TENSORS | {"model.layers.0.mlp.down_proj.weight": (96, 64)})
    assert _checked(run, folder, 1)["wrong_shape_count"] == 1


def test_what_stands_apart(run: Run, folder: Path) -> None:
    """Buffers and vision towers are not of the language model."""
    more = {"model.layers.0.self_attn.rotary_emb.inv_freq": (8,), "vision_tower.blocks.0.attn.qkv.weight": (8, 8)}
    store(folder, TENSORS | more)
    found = _checked(run, folder, 0)
    assert found["apart"] == {"buffers": 1, "vision and audio": 1}
    assert found["stored_bytes"] == found["predicted_bytes"]


def test_a_layer_more(run: Run, folder: Path) -> None:
    """A layer behind the last is too much, unless the config speaks of layers for multi-token prediction."""
    more = {name.replace("layers.1", "layers.2"): shape for name, shape in TENSORS.items() if "layers.1" in name}
    store(folder, TENSORS | more)
    assert _checked(run, folder, 1)["extra_count"] == 9


@pytest.mark.parametrize(
    ("decoder", "head"),
    [("language_model.model.", "language_model.lm_head."), ("model.language_model.", "lm_head."), ("", "lm_head.")],
)
def test_what_stands_before_the_names(run: Run, folder: Path, decoder: str, head: str) -> None:
    """Checkpoints of several parts put the language model into one of them."""
    renamed = {
        name.replace("model.", decoder, 1) if name.startswith("model.") else name.replace("lm_head.", head): shape
        for name, shape in TENSORS.items()
    }
    store(folder, renamed)
    assert _checked(run, folder, 0)["matched"] == 21


def test_a_copy_of_the_tied_table(run: Run, folder: Path) -> None:
    """Some checkpoints store the LM head although it is the embedding table."""
    (folder / "config.json").write_text(json.dumps({**CONFIG, "tie_word_embeddings": True}), encoding="utf-8")
    assert _checked(run, folder, 0)["apart"] == {"LM head of a model whose embeddings are tied": 1}


def test_norms_in_another_dtype(run: Run, folder: Path) -> None:
    """It is told, and explains the difference: 5 norms of 64, 2 bytes more each."""
    store(folder, TENSORS, {name: "F32" for name in TENSORS if "norm" in name})
    found = _checked(run, folder, 0)
    assert found["other_dtypes"] == {"F32": 5}
    assert found["stored_bytes"] - found["predicted_bytes"] == 5 * 64 * 2
    assert "5 tensors are F32 and not as the model says" in run("models", "check", folder).out


def test_total_size(run: Run, folder: Path) -> None:
    """What the index says has to be what the files hold."""
    held = store(folder, TENSORS)
    index = {"metadata": {"total_size": held}, "weight_map": dict.fromkeys(TENSORS, "model.safetensors")}
    path = folder / "model.safetensors.index.json"
    path.write_text(json.dumps(index), encoding="utf-8")
    assert _checked(run, folder, 0)["total_size"] == held
    index["metadata"] = {"total_size": held + 1}
    path.write_text(json.dumps(index), encoding="utf-8")
    assert _checked(run, folder, 1)["problems"] == [f"the index says {held + 1:,} bytes, the files hold {held:,} (-1)"]


def test_the_index_alone(run: Run, folder: Path) -> None:
    """Names, and the total size against what is predicted: 2 bytes an element."""
    (folder / "model.safetensors").unlink()
    total = 2 * sum(prod(shape) for shape in TENSORS.values())
    path = folder / "model.safetensors.index.json"
    index = {"metadata": {"total_size": total}, "weight_map": dict.fromkeys(TENSORS, "model.safetensors")}
    path.write_text(json.dumps(index), encoding="utf-8")
    found = _checked(run, folder, 0)
    assert (found["complete"], found["matched"], found["stored_bytes"]) == (False, 21, None)
    index["metadata"] = {"total_size": 2 * total}  # as if it were stored in fp32
    path.write_text(json.dumps(index), encoding="utf-8")
    assert "the index says" in _checked(run, folder, 1)["problems"][0]
    index["weight_map"]["vision_tower.proj.weight"] = "model.safetensors"  # type: ignore[index]  # of a size that nobody knows
    path.write_text(json.dumps(index), encoding="utf-8")
    _checked(run, folder, 0)
    text = run("models", "check", folder).out
    assert text.startswith("1 of 1 model file is valid; 1 compared with the tensors of a checkpoint\n")
    assert [line for line in text.splitlines() if "not compared" in line] == [
        "  not compared: shapes and bytes of tensors whose files are not there",
        "  not compared: the index's total: it counts what stands apart as well",
        "  not compared: names and shapes of 1 tensor of vision and audio",
    ]


def test_fp8_with_scales(run: Run, folder: Path) -> None:
    """Weights in one byte, and a scale in fp32 for each block of 32 x 32 beside them."""
    said = {"quant_method": "fp8", "activation_scheme": "dynamic", "weight_block_size": [32, 32]}
    (folder / "config.json").write_text(json.dumps({**CONFIG, "quantization_config": said}), encoding="utf-8")
    matrices = [name for name, shape in TENSORS.items() if ".layers." in name and len(shape) == 2]
    scales = {f"{name}_scale_inv": tuple(-(-size // 32) for size in TENSORS[name]) for name in matrices}
    dtypes = dict.fromkeys(matrices, "F8_E4M3") | dict.fromkeys(scales, "F32")
    store(folder, TENSORS | scales, dtypes)
    found = _checked(run, folder, 0)
    assert (found["matched"], found["beside"]) == (21, 14)
    assert found["stored_bytes"] == found["predicted_bytes"]
    store(folder, TENSORS, dtypes)  # the scales are not there
    assert "bytes are predicted" in _checked(run, folder, 1)["problems"][0]


def test_packed_weights(run: Run, folder: Path) -> None:
    """AWQ: 4 bits in words of 32, scales in fp16 and zero points for each 32 inputs of an output."""
    said = {"quant_method": "awq", "bits": 4, "group_size": 32, "version": "gemm", "zero_point": True}
    config = {**CONFIG, "torch_dtype": "float16", "quantization_config": said}
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
    shapes: Shapes = {}
    dtypes: dict[str, str] = {}
    for name, shape in TENSORS.items():
        if ".layers." in name and len(shape) == 2:
            base, (outputs, inputs) = name.removesuffix(".weight"), shape
            shapes |= {
                f"{base}.qweight": (inputs, outputs // 8),
                f"{base}.qzeros": (inputs // 32, outputs // 8),
                f"{base}.scales": (inputs // 32, outputs),
            }
            dtypes |= {f"{base}.qweight": "I32", f"{base}.qzeros": "I32"}
        else:
            shapes[name] = shape
    store(folder, shapes, dtypes)
    found = _checked(run, folder, 0)
    assert (found["matched"], found["packed"], found["beside"]) == (7, 14, 28)
    assert found["stored_bytes"] == found["predicted_bytes"]


def test_a_broken_file(run: Run, folder: Path) -> None:
    """One message with the file, and no traceback."""
    path = folder / "model.safetensors"
    path.write_bytes(path.read_bytes()[:-7])
    answer = run("models", "check", folder)
    assert answer.code == 1
    assert answer.err == f"error: {path}: is cut off: 7 bytes are missing\n"


def test_names_that_are_not_known(run: Run, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Totals are compared, and the result says so."""
    from roofline.predict import checkpoint

    monkeypatch.setattr(checkpoint, "names", lambda family: ())
    assert _checked(run, folder, 0)["known"] is False
    assert "the names of this family are not known: totals are compared" in run("models", "check", folder).out
    store(folder, TENSORS | {"model.more.weight": (3, 5)})
    assert "(+15)" in _checked(run, folder, 1)["problems"][0]


def test_a_folder_with_a_config_alone(run: Run, folder: Path) -> None:
    """It is checked as a file is, and the answer says that no tensor was looked at."""
    (folder / "model.safetensors").unlink()
    answer = run("models", "check", folder, "gpt2", "--json")
    assert answer.code == 0
    alone, shipped = json.loads(answer.out)["checked"]
    assert alone["checkpoint"] is None
    assert "checkpoint" not in shipped
    assert alone["not_compared"] == ["names, shapes and bytes: there are no safetensors and no index beside the config"]
    assert shipped["not_compared"] == ["a file of numbers: no checkpoint stands beside it"]
    text = run("models", "check", folder).out
    assert text.startswith("1 of 1 model file is valid; none compared with the tensors of a checkpoint\n")
    assert "not compared: names, shapes and bytes" in text


def test_a_total_that_nobody_published_and_a_tower(run: Run, folder: Path) -> None:
    """Files without an index have no published total; a tower that is not counted is named with what is left out of it."""
    whole = {"model_type": "llava", "text_config": CONFIG, "vision_config": {"depth": 3}}
    (folder / "config.json").write_text(json.dumps(whole), encoding="utf-8")
    row = json.loads(run("models", "check", folder, "--json").out)["checked"][0]
    assert row["ok"]
    assert row["not_compared"] == [
        "a published total: there is no index that names one", "weights, memory and time of vision_config",
    ]  # fmt: skip


def test_csv_of_both(run: Run, folder: Path, tmp_path: Path) -> None:
    """Files and folders have the same columns."""
    run("models", "check", "gpt2", folder, "-o", tmp_path / "c.csv")
    assert (tmp_path / "c.csv").read_text(encoding="utf-8").startswith("name,path,ok,error\n")


def test_layers_of_multi_token_prediction() -> None:
    """As many behind the last as the config speaks of: DeepSeek stores them so."""
    said = Choice(name="num_nextn_predict_layers", value=1, why="layers for multi-token prediction are not counted")
    model = load_model("llama-3.1-8b")[0].model_copy(update={"assumptions": (said,)})
    found = [_not_language(f"model.layers.{index}.self_attn.o_proj.weight", model) for index in (31, 32, 33)]
    assert found == [None, "multi-token prediction", None]


def test_scales_of_the_cache_are_no_weights(folder: Path, run: Run) -> None:
    """ModelOpt writes them since some release, a number in fp32 for K and for V of each layer: no config says whether."""
    scales: Shapes = {f"model.layers.{i}.self_attn.{kv}_proj.{kv}_scale": () for i in range(2) for kv in "kv"}
    store(folder, {**TENSORS, **scales}, dict.fromkeys(scales, "F32"))
    result = run("models", "check", str(folder))
    assert result.code == 0, result.err
    assert "4 scales of the KV cache" in result.out
    total = 2 * sum(map(prod, TENSORS.values()))
    index = {"weight_map": dict.fromkeys([*TENSORS, *scales], "gone.safetensors")}
    for size, code in ((total + 16, 0), (total + 8, 0), (total, 1), (total + 32, 1)):
        (folder / "model.safetensors.index.json").write_text(json.dumps({**index, "metadata": {"total_size": size}}))
        assert run("models", "check", str(folder)).code == code, size


PACKED: dict[str, tuple[str, tuple[int, ...]]] = {
    "model.embed_tokens.weight": ("BF16", (331, 64)),
    # NVFP4: two elements in a byte, a scale for 16 of them and one for all
    "model.layers.0.mlp.up_proj.weight": ("U8", (64, 32)),
    "model.layers.0.mlp.up_proj.weight_scale": ("F8_E4M3", (64, 4)),
    "model.layers.0.mlp.up_proj.weight_scale_2": ("F32", ()),
    # AWQ: 8 outputs in 32 bits, as those of its zero points say
    "model.layers.0.mlp.down_proj.qweight": ("I32", (64, 8)),
    "model.layers.0.mlp.down_proj.scales": ("BF16", (2, 64)),
    "model.layers.0.mlp.down_proj.qzeros": ("I32", (2, 8)),
}


def _packed(folder: Path, more: dict[str, tuple[str, tuple[int, ...]]] | None = None) -> None:
    every = {**PACKED, **(more or {})}
    store(folder, {name: shape for name, (_, shape) in every.items()}, {name: dtype for name, (dtype, _) in every.items()})


def test_a_folder_without_a_config(tmp_path: Path, run: Run) -> None:
    """331 x 64 + 64 x 64 twice are 29,376 parameters; bytes are those of all seven tensors."""
    _packed(tmp_path)
    for command in (("check",), ("show",)):
        result = run("models", *command, str(tmp_path), "--json")
        assert result.code == 0
        document = json.loads(result.out)
        sizes = document["stored"] if command == ("show",) else document["checked"][0]["stored"]
        assert (sizes["tensors"], sizes["unread"], sizes["beside"]) == (7, 0, 4)
        assert sizes["parameters"] == 331 * 64 + 2 * 64 * 64
        assert sizes["bytes"] == 2 * 331 * 64 + (64 * 32 + 64 * 4 + 4) + (4 * 64 * 8 + 2 * 2 * 64 + 4 * 2 * 8)
        assert sizes["dtypes"]["I32"] == {"tensors": 2, "elements": 64 * 8 + 16, "bytes": 4 * (64 * 8 + 16)}
        assert sizes["packed"] == {"2 of 4 bits in a byte": 1, "8 of 4 bits in 32 bits": 1}
    text = run("models", "show", str(tmp_path)).out
    assert "29,376 parameters" in text
    assert "packed: 1 tensor with 8 of 4 bits in 32 bits" in text


def test_packing_that_no_header_tells(tmp_path: Path, run: Run) -> None:
    """compressed-tensors has the number of elements in the values of weight_shape: no parameters are given."""
    _packed(
        tmp_path, {"x.weight_packed": ("I32", (64, 8)), "x.weight_scale": ("BF16", (64, 4)), "x.weight_shape": ("I32", (2,))}
    )
    sizes = json.loads(run("models", "show", str(tmp_path), "--json").out)["stored"]
    assert sizes["parameters"] is None
    assert sizes["packed"]["an unknown number, of 2 to 8 bits, in 32 bits"] == 1


def test_an_index_alone(tmp_path: Path, run: Run) -> None:
    """It has names and a total; no shapes, and so no parameters."""
    index = {"metadata": {"total_size": 123_456}, "weight_map": {"a.weight": "model-00001-of-00001.safetensors"}}
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps(index), encoding="utf-8")
    result = run("models", "check", str(tmp_path))
    assert result.code == 0
    assert "1 tensor, none of whose files is there" in result.out
    assert "123,456 bytes by the index" in result.out
    sizes = json.loads(run("models", "show", str(tmp_path), "--json").out)["stored"]
    assert (sizes["unread"], sizes["parameters"], sizes["total_size"]) == (1, None, 123_456)


def test_analyze_says_what_is_missing(tmp_path: Path, run: Run) -> None:
    """One error: no config.json, and what there is instead."""
    _packed(tmp_path)
    result = run("analyze", str(tmp_path), "--hardware", "h100-sxm")
    assert (result.code, result.out) == (2, "")
    assert "is a folder without a config.json beside model.safetensors" in result.err
    assert "7 tensors" in result.err
    assert "29,376 parameters" in result.err
    refused = run("models", "show", str(tmp_path), "--format", "yaml")
    assert refused.code == 2
    assert "no config.json" in refused.err


def test_a_broken_file_is_named(tmp_path: Path, run: Run) -> None:
    """A checkpoint that was cut off is an error, not a size."""
    (tmp_path / "model.safetensors").write_bytes(b"\xff" * 20)
    assert run("models", "show", str(tmp_path)).code == 2
    checked = run("models", "check", str(tmp_path))
    assert checked.code == 1
    assert "safetensors" in checked.err
