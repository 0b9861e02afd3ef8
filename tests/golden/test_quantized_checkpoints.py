"""Weights of published quantised checkpoints, to the byte.

Sizes are sums over the headers of the safetensors files (what `metadata.total_size` of model.safetensors.index.json
states where it is right), so without the headers themselves. Those without a figure of the publisher were read from the
headers by others.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from roofline.blocks.model import Model
from roofline.blocks.model_files import load_model
from roofline.blocks.precision import resolve_precision
from roofline.graph.build import CANONICAL, build
from roofline.predict.memory import weights_by_path
from roofline.specs.deployment import Deployment
from roofline.specs.library import ids


def quantized(name: str, *schemes: dict[str, Any]) -> Model:
    """A shipped model, quantised in another way."""
    model, _ = load_model(name)
    return Model.model_validate({**model.model_dump(), "quantization": list(schemes)})


def weights(model: Model) -> dict[str, float]:
    """Bytes by the operator that holds them, on one device."""
    precision, _ = resolve_precision(model, Deployment(), {"bf16", "fp16", "fp8", "fp4", "int8"})
    return weights_by_path(build(model, Deployment(), precision, CANONICAL))


# An Llama of 8B has, in 32 layers, matrices with this many outputs together.
_OUTPUTS_8B = 32 * (4096 + 2 * 1024 + 4096 + 2 * 14336 + 4096)


@pytest.mark.parametrize(
    ("model", "schemes", "published"),
    [
        # https://huggingface.co/openai/gpt-oss-20b/blob/main/model.safetensors.index.json, total_size
        ("gpt-oss-20b", None, 13_761_264_768),
        # https://huggingface.co/Qwen/Qwen3-32B-FP8: 1,558,406,144 elements in BF16, scales among them; the rest in F8_E4M3
        ("qwen3-32b", {"name": "fp8_block", "scale_dtype": "bf16"}, 2 * 1_558_406_144 + 31_205_621_760),
        # https://huggingface.co/Qwen/Qwen3-32B-AWQ (total_size there is 13,107,200 more than the tensors)
        ("qwen3-32b", {"name": "awq"}, 19_325_298_688),
        # https://huggingface.co/RedHatAI/Meta-Llama-3.1-8B-Instruct-FP8-dynamic
        ("llama-3.1-8b", {"name": "fp8", "strategy": "channel", "scale_dtype": "bf16"}, 9_083_953_152),
        # https://huggingface.co/RedHatAI/Meta-Llama-3.1-8B-Instruct-quantized.w4a16, by AutoGPTQ: less its biases of zeros
        ("llama-3.1-8b", {"name": "gptq"}, 5_735_587_840 - 2 * _OUTPUTS_8B),
        # https://huggingface.co/RedHatAI/Llama-3.3-70B-Instruct-quantized.w4a16, of the shape of Llama-3.1-70B
        ("llama-3.1-70b", {"name": "pack_quantized", "g_idx": True}, 39_525_311_232),
        # https://huggingface.co/nvidia/Llama-3.3-70B-Instruct-FP4
        ("llama-3.1-70b", {"name": "nvfp4"}, 42_709_045_632),
    ],
    ids=lambda value: value if isinstance(value, str) else value["name"] if isinstance(value, dict) else "",
)
def test_weights_of_a_checkpoint(model: str, schemes: dict[str, Any] | None, published: int) -> None:
    """Every byte of every tensor."""
    loaded = load_model(model)[0] if schemes is None else quantized(model, schemes)
    assert sum(weights(loaded).values()) == published


PUBLISHED = {
    "RedHatAI/Meta-Llama-3.1-8B-Instruct-FP8-dynamic": 9_083_953_152,
    "Qwen/Qwen3-32B-FP8": 2 * 1_558_406_144 + 31_205_621_760,
    "nvidia/Llama-3.3-70B-Instruct-FP4": 42_709_045_632,
    "nvidia/Qwen3-8B-NVFP4": 6_396_932_352 - 36 * 2 * 4,
}
"""Bytes of the tensors of checkpoints that models name, as above and below."""


def test_checkpoints_of_models() -> None:
    """Those of which the size is published have it to the byte; every one is smaller than the model as it is published."""
    seen = {}
    for name in ids("models"):
        model, _ = load_model(name)
        for checkpoint in model.checkpoints:
            seen[checkpoint.hf_id] = sum(weights(model.as_checkpoint(checkpoint)).values())
            assert seen[checkpoint.hf_id] < 0.8 * sum(weights(model).values()), checkpoint.hf_id
    assert {name: seen[name] for name in PUBLISHED} == PUBLISHED


def modelopt_folder(folder: Path, config: dict[str, Any], quantization: dict[str, Any]) -> Model:
    """A model of a folder as ModelOpt writes it: a config.json without formats, and hf_quant_config.json beside it."""
    beside = {"producer": {"name": "modelopt", "version": "0.23.0"}, "quantization": quantization}
    common = {"max_position_embeddings": 131072, "tie_word_embeddings": False, "torch_dtype": "bfloat16"}
    (folder / "config.json").write_text(json.dumps({**common, **config}))
    (folder / "hf_quant_config.json").write_text(json.dumps(beside))
    return load_model(folder)[0]


FP8 = {"quant_algo": "FP8", "kv_cache_quant_algo": "FP8", "exclude_modules": ["lm_head"]}
NVFP4 = {"quant_algo": "NVFP4", "kv_cache_quant_algo": "FP8", "group_size": 16, "exclude_modules": ["lm_head"]}
LLAMA = {"architectures": ["LlamaForCausalLM"], "model_type": "llama"}
QWEN3_MOE = {"architectures": ["Qwen3MoeForCausalLM"], "model_type": "qwen3_moe", "decoder_sparse_step": 1}


def test_a_folder_as_modelopt_writes_it(tmp_path: Path) -> None:
    """The config.json of Llama 3.3 70B, which says nothing of formats, and hf_quant_config.json beside it.

    https://huggingface.co/nvidia/Llama-3.3-70B-Instruct-FP4 has 42,709,045,632 bytes in its tensors.
    """
    config = {
        **LLAMA, "hidden_size": 8192, "intermediate_size": 28672, "num_hidden_layers": 80, "num_attention_heads": 64,
        "num_key_value_heads": 8, "head_dim": 128, "vocab_size": 128256,
    }  # fmt: skip
    model = modelopt_folder(tmp_path, config, NVFP4)
    assert sum(weights(model).values()) == 42_709_045_632
    assert model.quantization[0].kv_cache_dtype == "fp8"


def test_a_repository_in_nvfp4_with_a_cache_in_fp8(tmp_path: Path) -> None:
    """The config.json of Qwen3 8B, and hf_quant_config.json of ModelOpt 0.35 beside it.

    https://huggingface.co/nvidia/Qwen3-8B-NVFP4/tree/ccd10a893cbca613259517c3efe08e151ddf2b8e has 6,396,932,352 bytes in 1,227
    tensors (its index, and the headers of its two files): they are the weights, and a `k_scale` and a `v_scale` in fp32 for
    each of 36 layers, which are none.
    """
    config = {
        "architectures": ["Qwen3ForCausalLM"], "model_type": "qwen3", "hidden_size": 4096, "intermediate_size": 12288,
        "num_hidden_layers": 36, "num_attention_heads": 32, "num_key_value_heads": 8, "head_dim": 128, "vocab_size": 151936,
    }  # fmt: skip
    model = modelopt_folder(tmp_path, config, NVFP4)
    assert sum(weights(model).values()) == 6_396_932_352 - 36 * 2 * 4
    assert model.quantization[0].kv_cache_dtype == "fp8"


_TINY = {
    "hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2,
    "vocab_size": 320,
}  # fmt: skip
_TINY_MOE = {**_TINY, "head_dim": 32, "moe_intermediate_size": 32, "num_experts": 4, "num_experts_per_tok": 2}


@pytest.mark.parametrize(
    ("config", "quantization", "written"),
    [
        ({**LLAMA, **_TINY}, FP8, 156_400),
        ({**LLAMA, **_TINY}, NVFP4, 124_144),
        ({**QWEN3_MOE, **_TINY_MOE}, {**NVFP4, "exclude_modules": ["lm_head", "model.layers.*.mlp.gate"]}, 139_392),
    ],
    ids=["llama-fp8", "llama-nvfp4", "qwen3-moe-nvfp4"],
)
def test_what_the_exporter_writes(tmp_path: Path, config: dict[str, Any], quantization: dict[str, Any], written: int) -> None:
    """Bytes in the tensors that `export_hf_checkpoint` of nvidia-modelopt 0.47.0 wrote for these small models.

    With a cache in FP8 it writes a `k_scale` and a `v_scale` in fp32 for each layer besides, 16 bytes here: no weights.
    """
    assert sum(weights(modelopt_folder(tmp_path, config, quantization)).values()) == written


def test_a_repository_in_fp8_from_its_layout(tmp_path: Path) -> None:
    """Llama 3.1 8B as nvidia/Llama-3.1-8B-Instruct-FP8. NB: the total is computed from the exporter's layout, not published.

    Matrices of a byte with two scales in fp32 each (of weights, of inputs); embedding, LM head and 65 norms in bf16.
    """
    config = {
        **LLAMA, "hidden_size": 4096, "intermediate_size": 14336, "num_hidden_layers": 32, "num_attention_heads": 32,
        "num_key_value_heads": 8, "vocab_size": 128256,
    }  # fmt: skip
    layer = 2 * 4096 * 4096 + 2 * 1024 * 4096 + 3 * 14336 * 4096
    total = 32 * (layer + 7 * 2 * 4) + 2 * (2 * 128256 * 4096 + 65 * 4096)
    assert sum(weights(modelopt_folder(tmp_path, config, FP8)).values()) == total


def test_a_repository_of_experts_in_nvfp4_from_its_layout(tmp_path: Path) -> None:
    """Qwen3 30B-A3B as nvidia/Qwen3-30B-A3B-FP4. NB: the total is computed from the exporter's layout, not published.

    Matrices of half a byte an element, a scale of a byte for 16 of them and two in fp32 for all; routers, norms, embedding and
    LM head in bf16.
    """
    config = {
        **QWEN3_MOE, "hidden_size": 2048, "intermediate_size": 6144, "moe_intermediate_size": 768, "num_hidden_layers": 48,
        "num_attention_heads": 32, "num_key_value_heads": 4, "head_dim": 128, "num_experts": 128, "num_experts_per_tok": 8,
        "norm_topk_prob": True, "vocab_size": 151936,
    }  # fmt: skip
    attention, expert = 2 * 4096 * 2048 + 2 * 512 * 2048, 3 * 768 * 2048
    packed = (attention + 128 * expert) // 2 + (attention + 128 * expert) // 16 + (4 + 3 * 128) * 2 * 4
    plain = 2 * (128 * 2048 + 2 * 2048 + 2 * 128)
    total = 48 * (packed + plain) + 2 * (2 * 151936 * 2048 + 2048)
    excluded = {**NVFP4, "exclude_modules": ["lm_head", "model.layers.*.mlp.gate"]}
    assert sum(weights(modelopt_folder(tmp_path, config, excluded)).values()) == total


def test_gpt_oss_20b_by_hand() -> None:
    """The experts' share: 24 layers of 32 experts whose 3 x 2880 rows have 90 blocks of 16 + 1 bytes, and as many biases."""
    found = sum(size for path, size in weights(load_model("gpt-oss-20b")[0]).items() if "/experts/" in path)
    assert found == 24 * 32 * 3 * 2880 * (90 * (16 + 1) + 2)


def test_size_on_the_model_card_of_gpt_oss() -> None:
    """12.8 GiB, table 1 of the model card, arXiv:2508.10925."""
    assert sum(weights(load_model("gpt-oss-20b")[0]).values()) / 2**30 == pytest.approx(12.8, abs=0.05)


def test_deepseek_v3() -> None:
    """The repository's files have 688,586,727,753 bytes.

    They are the model; the layer for multi-token prediction with copies of embedding and LM head, its projection in bf16
    and three norms; a correction bias in fp32 for each expert of 59 layers; and the headers of the files, some 130 bytes a
    tensor. Quantised matrices are two tensors each: 3 x 256 + 3 + 5 of them in a layer with experts, 3 + 5 in a dense
    one; then there are four norms, router and correction bias.

    https://huggingface.co/deepseek-ai/DeepSeek-V3; README_WEIGHTS.md there for what multi-token prediction adds.
    """
    found = weights(load_model("deepseek-v3")[0])
    layer = sum(size for path, size in found.items() if path.startswith("layers/moe/")) / 58
    more = layer + 2 * 129280 * 7168 * 2 + 2 * 7168 * 7168 * 2 + 3 * 7168 * 2 + 59 * 256 * 4
    tensors = 59 * (2 * (3 * 256 + 3 + 5) + 4 + 2) + 3 * (2 * (3 + 5) + 4) + 3 + 6
    assert sum(found.values()) + more == pytest.approx(688_586_727_753 - 130 * tensors, rel=1e-6)


def test_bitsandbytes() -> None:
    """5.70 GB, as the download of https://huggingface.co/unsloth/Meta-Llama-3.1-8B-bnb-4bit shows.

    The texts that describe the matrices are not counted.
    """
    found = sum(weights(quantized("llama-3.1-8b", {"name": "nf4", "double_quant": True})).values())
    assert found == pytest.approx(5.70e9, rel=0.001)
