"""What the `quantization_config` of published checkpoints says, on the names of their modules."""

from __future__ import annotations

from typing import Any

import pytest

from roofline.blocks.checkpoint import modules
from roofline.blocks.model import Model
from roofline.blocks.model_files import load_model
from roofline.blocks.precision import resolve_precision
from roofline.errors import InputError
from roofline.graph.build import CANONICAL, build
from roofline.operators.gemm import Gemm
from roofline.operators.grouped_gemm import GroupedGemm
from roofline.specs.deployment import Deployment
from roofline.specs.huggingface.methods import METHODS
from roofline.specs.huggingface.quantization import Modules, Published, read, section

_MLP = ("gate_proj", "up_proj", "down_proj")


def dense(layers: int = 2, prefix: str = "model.") -> dict[str, tuple[int | None, str]]:
    """Names as Llama has them."""
    found: dict[str, tuple[int | None, str]] = {f"{prefix}embed_tokens": (None, "embedding"), "lm_head": (None, "lm_head")}
    for layer in range(layers):
        at = f"{prefix}layers.{layer}"
        found |= {f"{at}.self_attn.{name}_proj": (layer, "attention/qkv_proj") for name in "qkv"}
        found[f"{at}.self_attn.o_proj"] = (layer, "attention/o_proj")
        found |= {f"{at}.mlp.{name}": (layer, f"mlp/{name}") for name in _MLP}
    return found


def experts(layers: int = 3, dense_layers: int = 1) -> Modules:
    """Names as DeepSeek and Kimi have them: the first layers are dense."""
    found = dense(layers)
    for layer in range(dense_layers, layers):
        at = f"model.layers.{layer}.mlp"
        for name in _MLP:
            del found[f"{at}.{name}"]
            found |= {f"{at}.experts.{expert}.{name}": (layer, "experts") for expert in range(2)}
            found[f"{at}.shared_experts.{name}"] = (layer, "shared_experts")
        found[f"{at}.gate"] = (layer, "router")
    return found


_LINEAR = {"name": "fp8", "roles": ["linear"]}
_INT4 = {"num_bits": 4, "type": "int", "strategy": "group", "group_size": 32, "symmetric": True, "actorder": None}
_FLOAT8 = {"num_bits": 8, "type": "float", "symmetric": True}
_FLOAT4 = {"num_bits": 4, "type": "float", "strategy": "tensor_group", "group_size": 16}
_GROUPS8 = {**_FLOAT8, "strategy": "group", "group_size": 32}


def _compressed(form: str, weights: dict[str, Any], inputs: dict[str, Any] | None = None, **more: Any) -> dict[str, Any]:
    group = {"targets": ["Linear"], "weights": weights, "input_activations": inputs, "output_activations": None}
    ignore = more.pop("ignore", ["lm_head"])
    return {"quant_method": "compressed-tensors", "format": form, "config_groups": {"group_0": group}, "ignore": ignore, **more}


def _rotated(*locations: str) -> dict[str, Any]:
    """A `transform_config` that rotates by a Hadamard matrix at some places."""
    apply = [{"location": one, "targets": ["re:.*o_proj$"], "ignore": [], "inverse": False} for one in locations]
    matrix = {"type": "hadamard", "apply": apply, "head_dim": 128, "precision": "torch.float64"}
    return {"config_groups": {"R1": {**matrix, "randomize": False, "requires_grad": False}}}


CONFIGS: dict[str, tuple[dict[str, Any], list[dict[str, Any]]]] = {
    "fp8": ({"quant_method": "fp8", "activation_scheme": "dynamic"}, [_LINEAR]),
    "fp8 static": (
        {"quant_method": "fp8", "activation_scheme": "static", "ignored_layers": ["lm_head"]},
        [{**_LINEAR, "activation_scheme": "static"}],
    ),
    "AutoFP8": (
        {"quant_method": "fp8", "activation_scheme": "static", "ignored_layers": ["re:.*lm_head"], "kv_cache_scheme": "static"},
        [{**_LINEAR, "activation_scheme": "static", "kv_cache_dtype": "fp8"}],
    ),
    "fp8 blocks": (
        {"quant_method": "fp8", "fmt": "e4m3", "activation_scheme": "dynamic", "weight_block_size": [128, 128]},
        [{"name": "fp8_block", "roles": ["linear"]}],
    ),
    "fbgemm": (
        {"quant_method": "fbgemm_fp8", "activation_scale_ub": 1200.0, "modules_to_not_convert": ["lm_head", "layers.0"]},
        [{**_LINEAR, "strategy": "channel"}],
    ),
    "awq": (
        {
            "quant_method": "awq",
            "bits": 4,
            "group_size": 64,
            "version": "gemm",
            "zero_point": True,
            "modules_to_not_convert": None,
        },
        [{"name": "awq", "roles": ["linear"], "group_size": 64}],
    ),
    "awq's own file": (
        {"w_bit": 4, "q_group_size": 128, "zero_point": True, "version": "GEMM"},
        [{"name": "awq", "roles": ["linear"]}],
    ),
    "gptq": (
        {"quant_method": "gptq", "bits": 8, "group_size": -1, "desc_act": False, "sym": True, "checkpoint_format": "gptq"},
        [{"name": "gptq", "roles": ["linear"], "bits": 8, "group_size": -1}],
    ),
    "gptq as GPTQModel writes it": (
        {
            "quant_method": "gptq",
            "method": "gptq",
            "bits": 4,
            "group_size": 128,
            "desc_act": False,
            "sym": True,
            "lm_head": False,
            "format": "gptq",
            "checkpoint_format": "gptq",
            "pack_dtype": "int32",
            "meta": {"quantizer": ["gptqmodel:5.7.0"], "damp_percent": 0.05},
        },
        [{"name": "gptq", "roles": ["linear"]}],
    ),
    "gptq with head": (
        {"quant_method": "gptq", "bits": 4, "group_size": 128, "lm_head": True},
        [{"name": "gptq", "roles": ["linear", "lm_head"]}],
    ),
    "gptq in part": (
        {"quant_method": "gptq", "bits": 4, "group_size": 128, "dynamic": {"-:.*self_attn.*": {}}},
        [{"name": "gptq", "roles": ["mlp"]}],
    ),
    "gptq in two widths": (
        {"quant_method": "gptq", "bits": 4, "group_size": 128, "dynamic": {r"+:.*\.mlp\..*": {"bits": 8}}},
        [{"name": "gptq", "roles": ["attention"]}, {"name": "gptq", "roles": ["mlp"], "bits": 8}],
    ),
    "gptq of some": (
        {
            "quant_method": "gptq",
            "bits": 4,
            "modules_in_block_to_quantize": [["mlp.gate_proj", "mlp.up_proj"], ["mlp.down_proj"]],
        },
        [{"name": "gptq", "roles": ["mlp"]}],
    ),
    "bitsandbytes 4": (
        {"quant_method": "bitsandbytes", "load_in_4bit": True, "bnb_4bit_quant_type": "nf4", "bnb_4bit_use_double_quant": True},
        [{"name": "nf4", "roles": ["linear"], "double_quant": True}],
    ),
    "bitsandbytes 8": (
        {"quant_method": "bitsandbytes", "load_in_8bit": True, "llm_int8_threshold": 6.0, "load_in_4bit": False},
        [{"name": "llm_int8", "roles": ["linear"]}],
    ),
    "W4A16": (
        _compressed("pack-quantized", {**_INT4, "group_size": 128, "actorder": "group"}),
        [{"name": "pack_quantized", "roles": ["linear"], "g_idx": True}],
    ),
    "W4A16 with head": (
        _compressed("pack-quantized", {**_INT4, "symmetric": False}, ignore=[]),
        [{"name": "pack_quantized", "roles": ["linear", "lm_head"], "group_size": 32, "symmetric": False}],
    ),
    "W8A16": (
        _compressed("pack-quantized", {**_INT4, "num_bits": 8, "strategy": "channel", "group_size": None}),
        [{"name": "pack_quantized", "roles": ["linear"], "bits": 8, "group_size": -1}],
    ),
    "W4A8": (
        _compressed("pack-quantized", _INT4, {**_FLOAT8, "dynamic": True}),
        [{"name": "pack_quantized", "roles": ["linear"], "group_size": 32, "activations": "fp8"}],
    ),
    "W8A8": (
        _compressed(
            "int-quantized",
            {"num_bits": 8, "type": "int", "strategy": "channel", "symmetric": True},
            {"num_bits": 8, "type": "int", "strategy": "token", "dynamic": True, "symmetric": True},
        ),
        [{"name": "int8", "roles": ["linear"]}],
    ),
    "FP8-dynamic": (
        _compressed("float-quantized", {**_FLOAT8, "strategy": "channel"}, {**_FLOAT8, "dynamic": True}),
        [{**_LINEAR, "strategy": "channel", "scale_dtype": "bf16"}],
    ),
    "FP8 static": (
        _compressed("naive-quantized", {**_FLOAT8, "strategy": "tensor"}, {**_FLOAT8, "dynamic": False}),
        [{**_LINEAR, "scale_dtype": "bf16", "activation_scheme": "static"}],
    ),
    "FP8 weights alone": (
        _compressed("float-quantized", {**_FLOAT8, "strategy": "channel"}),
        [{**_LINEAR, "strategy": "channel", "scale_dtype": "bf16", "activation_scheme": "none"}],
    ),
    "FP8 blocks": (
        _compressed(
            "float-quantized", {**_FLOAT8, "strategy": "block", "block_structure": [128, 128]}, {**_FLOAT8, "dynamic": True}
        ),
        [{"name": "fp8_block", "roles": ["linear"], "scale_dtype": "bf16"}],
    ),
    "NVFP4": (
        _compressed("nvfp4-pack-quantized", _FLOAT4, {**_FLOAT4, "dynamic": "local"}, kv_cache_scheme=_FLOAT8),
        [{"name": "nvfp4", "roles": ["linear"], "kv_cache_dtype": "fp8"}],
    ),
    "NVFP4A16": (
        _compressed("nvfp4-pack-quantized", _FLOAT4),
        [{"name": "nvfp4", "roles": ["linear"], "activation_scheme": "none"}],
    ),
    "MXFP4 of both": (
        _compressed("mxfp4-pack-quantized", {**_FLOAT4, "group_size": 32}, {**_FLOAT4, "group_size": 32}),
        [{"name": "mxfp4", "roles": ["linear"], "activations": "fp4"}],
    ),
    "MXFP8": (
        _compressed("mxfp8-quantized", _GROUPS8, {**_GROUPS8, "dynamic": True}),
        [{"name": "mxfp8", "roles": ["linear"]}],
    ),
    "ModelOpt": (
        {"quant_method": "modelopt", "quant_algo": "NVFP4", "ignore": ["lm_head"], "kv_cache_scheme": _FLOAT8},
        [{"name": "nvfp4", "roles": ["linear"], "kv_cache_dtype": "fp8"}],
    ),
    "ModelOpt, FP8 head": (
        {"quant_method": "modelopt", "quant_algo": "FP8"},
        [{"name": "fp8", "roles": ["linear", "lm_head"], "activation_scheme": "static"}],
    ),
    "ModelOpt, mixed": (
        {
            "quant_method": "modelopt",
            "quant_algo": "MIXED_PRECISION",
            "group_size": 16,
            "quantized_layers": {
                **{f"model.layers.{layer}.self_attn.{name}_proj": {"quant_algo": "FP8"} for layer in (0, 1) for name in "qkvo"},
                **{
                    f"model.layers.{layer}.mlp.{name}": {"quant_algo": "NVFP4", "group_size": 16}
                    for layer in (0, 1)
                    for name in _MLP
                },
            },
        },
        [{"name": "fp8", "roles": ["attention"], "activation_scheme": "static"}, {"name": "nvfp4", "roles": ["mlp"]}],
    ),
}


@pytest.mark.parametrize(("config", "schemes"), CONFIGS.values(), ids=CONFIGS)
def test_a_dense_model(config: dict[str, Any], schemes: list[dict[str, Any]]) -> None:
    """Schemes and roles, as a model's file has them."""
    assert read(config, dense()).plain() == schemes


def test_every_method_is_tried() -> None:
    """A new one cannot be forgotten here, or in test_library_formats.py; mxfp4 is for experts alone."""
    named = {config.get("quant_method", "awq").replace("_", "-") for config, _ in CONFIGS.values()}
    libraries = {"aqlm", "auto-round", "bitnet", "eetq", "exl2", "exl3", "higgs", "hqq", "mlx", "quark", "torchao"}
    assert named | {"mxfp4"} | libraries == set(METHODS)


def test_gpt_oss() -> None:
    """https://huggingface.co/openai/gpt-oss-20b: everything but the experts is left as it is."""
    left = ["model.layers.*.self_attn", "model.layers.*.mlp.router", "model.embed_tokens", "lm_head"]
    names = {**dense(1), "model.layers.0.mlp.experts": (0, "experts"), "model.layers.0.mlp.router": (0, "router")}
    found = read({"quant_method": "mxfp4", "modules_to_not_convert": left}, names)
    assert found.plain() == [{"name": "mxfp4", "roles": ["experts"]}]


def test_kimi_k2() -> None:
    """https://huggingface.co/moonshotai/Kimi-K2-Thinking: regular expressions leave attention, dense and shared experts out."""
    ignore = ["lm_head", "re:.*self_attn.*", "re:.*shared_experts.*", r"re:.*mlp\.(gate|up|gate_up|down)_proj.*"]
    found = read(_compressed("pack-quantized", _INT4, ignore=ignore, kv_cache_scheme=None), experts())
    assert found.plain() == [{"name": "pack_quantized", "roles": ["experts"], "group_size": 32}]
    assert found.unquantized == ()


def test_deepseek() -> None:
    """No list at all: routers and LM head are left as they are, the rest is in blocks; DeepSeek-V4 has its experts in fp4."""
    config = {"quant_method": "fp8", "weight_block_size": [128, 128], "scale_fmt": "ue8m0"}
    assert read(config, experts()).plain() == [{"name": "fp8_block"}]  # linear and experts
    found = read(section({"quantization_config": config, "expert_dtype": "fp4"}) or {}, experts())
    assert found.plain() == [
        {"name": "fp8_block", "roles": ["linear"], "scale_dtype": "e8m0"},
        {"name": "mxfp4", "roles": ["experts"], "activations": "fp8"},
    ]


def test_layers_by_name() -> None:
    """Gemma-4-31B-NVFP4 lists attention layer by layer; here layer 1 of twelve alone, not 10 or 11, and a vision tower."""
    ignore = ["lm_head", "model.language_model.layers.1.self_attn*", "model.vision_tower*"]
    config = {"quant_method": "modelopt", "quant_algo": "NVFP4", "ignore": ignore}
    for names in (dense(12, "model.language_model."), dense(12, "model."), dense(12, "language_model.model.")):
        assert read(config, names) == Published(read(config, dense(1)).quantization, ((1, ("attention",)),))


def test_first_and_last_layers() -> None:
    """A name of a module around others stands for all of them."""
    config = {"quant_method": "fp8", "modules_to_not_convert": ["model.layers.0", "model.layers.3.mlp", "gate"]}
    found = read(config, dense(4))
    assert found.plain() == [_LINEAR]
    assert found.unquantized == ((0, ("attention", "mlp")), (3, ("mlp",)))


def test_a_name_is_no_part_of_a_word() -> None:
    """`gate` is the router, not gate_proj; a pattern of another tower is not of this one."""
    found = read({"quant_method": "fp8", "modules_to_not_convert": ["gate", "model.vision_tower.layers.0"]}, experts())
    assert found.plain() == [{"name": "fp8"}]
    assert found.unquantized == ()


def test_a_plain_name_of_compressed_tensors_is_one_module() -> None:
    """Its library compares whole names; transformers takes the modules inside one too.

    https://github.com/vllm-project/compressed-tensors, utils/match.py. Qwen3.6-27B in W4A16 as published lists `linear_attn`,
    `linear_attn.in_proj_a` and `linear_attn.in_proj_b`, and has packed `linear_attn.in_proj_qkv`, `in_proj_z` and `out_proj`.
    """
    left = ["lm_head", "model.layers.0.self_attn", "model.language_model.layers.1.mlp.down_proj"]
    found = read(_compressed("pack-quantized", _INT4, ignore=left), dense())
    assert found.unquantized == ((1, ("mlp/down_proj",)),)
    found = read({"quant_method": "fp8", "modules_to_not_convert": left}, dense())
    assert found.unquantized == ((0, ("attention",)), (1, ("mlp/down_proj",)))


@pytest.mark.parametrize(
    "pattern", ["model.layers.0.self_attn.qkv_proj", "model.layers.0*qkv_proj", r"re:.*layers\.0\..*qkv_proj$"]
)
def test_a_fused_module_is_its_parts(pattern: str) -> None:
    """A name that vLLM gives to several products in one, as some checkpoints list it: q_proj, k_proj and v_proj, not o_proj."""
    found = read({"quant_method": "modelopt", "quant_algo": "FP8", "ignore": ["lm_head", pattern]}, dense())
    assert found.unquantized == ((0, ("attention/qkv_proj",)),)


@pytest.mark.parametrize("backend", ["auto_round:exllamav2", "auto_round:gptq:exllamav2", "auto_round:auto_awq"])
def test_auto_round_of_2024(backend: str) -> None:
    """OPEA's checkpoints: the method by its maker's name too, and the layout as `backend`."""
    old = {"quant_method": "intel/auto-round", "backend": backend, "bits": 4, "group_size": 128, "sym": True, "iters": 1000}
    new = "auto_round:auto_awq" if "awq" in backend else "auto_round:auto_gptq"
    assert read(old, dense()) == read({"quant_method": "auto-round", "packing_format": new, "bits": 4}, dense())


def test_rotated_weights() -> None:
    """SpinQuant's rotations of weights are merged into them (poolside/Laguna-XS.2-FP8): nothing else is stored."""
    config = _compressed("pack-quantized", _INT4, transform_config=_rotated("weight_output", "weight_input"))
    assert read(config, dense()) == read(_compressed("pack-quantized", _INT4), dense())


def test_part_of_a_role() -> None:
    """The output projection alone, as some NVFP4 checkpoints of DeepSeek have it in their attention."""
    ignore = ["lm_head", "*self_attn.q_proj", "*self_attn.k_proj", "*self_attn.v_proj"]
    found = read({"quant_method": "modelopt", "quant_algo": "NVFP4", "exclude_modules": ignore}, dense())
    assert found.plain() == [{"name": "nvfp4", "roles": ["attention/o_proj", "mlp"]}]


FAMILIES = {
    "llama-3.1-8b": "llama", "deepseek-v2": "deepseek_v2", "deepseek-v2-lite": "deepseek_v2", "gpt2": "gpt2",
    "mixtral-8x7b": "mixtral", "gpt-oss-20b": "gpt_oss", "falcon-7b": "falcon", "phi-3-mini-4k": "phi3", "gemma-2-9b": "gemma2",
}  # fmt: skip


def _of_family(name: str) -> Model:
    return load_model(name)[0].model_copy(update={"family": FAMILIES[name], "quantization": ()})


@pytest.mark.parametrize("name", FAMILIES)
def test_names_cover_a_model(name: str) -> None:
    """Quantised wholly, every product of attention and feed-forward blocks has the scheme, and nothing else has."""
    model = _of_family(name)
    found = read({"quant_method": "fp8"}, modules(model))
    assert found.unquantized == ()
    quantised = Model.model_validate({**model.model_dump(), "quantization": found.plain()})
    precision, _ = resolve_precision(quantised, Deployment(), {"bf16", "fp16", "fp32", "fp8"})
    for path, (operator, _) in build(quantised, Deployment(), precision, CANONICAL).items():
        if isinstance(operator, (Gemm, GroupedGemm)):
            assert (operator.dtypes.weight.name == "fp8") == (path != "lm_head" and not path.endswith("/router")), path


@pytest.mark.parametrize(
    ("left", "bare"),
    [
        (["kv_b_proj"], {"q_absorb", "v_up"}),
        (["o_proj"], {"o_proj"}),
        (["q_b_proj"], {"q_b_proj"}),
        (["q_a_proj", "kv_a_proj_with_mqa"], {"qkv_a_proj"}),
    ],
)
def test_names_of_latent_attention(left: list[str], bare: set[str]) -> None:
    """A projection that a checkpoint leaves as it is, and the product that it becomes."""
    model = _of_family("deepseek-v2")
    found = read({"quant_method": "fp8", "modules_to_not_convert": left}, modules(model))
    quantised = Model.model_validate({**model.model_dump(), "quantization": found.plain()})
    precision, _ = resolve_precision(quantised, Deployment(), {"bf16", "fp8"})
    graph = build(quantised, Deployment(), precision, CANONICAL)
    inside = "layers/moe/attention/"
    gemms = {
        path.removeprefix(inside): op for path, (op, _) in graph.items() if isinstance(op, Gemm) and path.startswith(inside)
    }
    assert {name for name, op in gemms.items() if op.dtypes.weight.name == "bf16"} == bare


def test_names_that_are_not_known() -> None:
    """There are none for a family that is not known, and so none that could be passed over."""
    assert modules(load_model("gpt2")[0].model_copy(update={"family": "no-such"})) == {}


def test_dtype_of_scales() -> None:
    """compressed-tensors stores them as the weights were."""
    inputs = {**_FLOAT8, "dynamic": True}
    config = _compressed("float-quantized", {**_FLOAT8, "strategy": "channel"}, inputs)
    assert read(config, dense(), "fp16").plain()[0]["scale_dtype"] == "fp16"
    named = _compressed("float-quantized", {**_FLOAT8, "strategy": "channel", "scale_dtype": "torch.float32"}, inputs)
    assert "scale_dtype" not in read(named, dense()).plain()[0]


def test_named_embedding_and_head() -> None:
    """What is named is quantised, whatever it is."""
    config = _compressed("pack-quantized", _INT4, ignore=[])
    config["config_groups"]["group_1"] = {"targets": ["re:.*embed_tokens"], "weights": {**_INT4, "num_bits": 8}}
    found = read(config, dense())
    assert [(scheme["roles"], scheme.get("bits", 4)) for scheme in found.plain()] == [
        (["linear", "lm_head"], 4),
        (["embedding"], 8),
    ]


@pytest.mark.parametrize(
    "config",
    [
        {"quantization_config": {"quant_method": "fp8"}},
        {"text_config": {"quantization_config": {"quant_method": "fp8"}}},
        {"compression_config": {"quant_method": "fp8"}},
        {"model_type": "llama", "quantization": {"quant_method": "fp8"}},
    ],
)
def test_where_it_stands(config: dict[str, Any]) -> None:
    """At the top, in the part of the language model, and in older places."""
    assert section(config) == {"quant_method": "fp8"}


@pytest.mark.parametrize("key", [None, "hf_quant_config"])
def test_hf_quant_config(key: str | None) -> None:
    """The file that ModelOpt wrote beside config.json, alone or inside it."""
    own = {
        "producer": {"name": "modelopt", "version": "0.29"},
        "quantization": {"quant_algo": "FP8", "kv_cache_quant_algo": "FP8"},
    }
    own["quantization"] |= {"exclude_modules": ["lm_head"]}
    found = read(section({key: own} if key else own) or {}, dense())
    assert found.plain() == [{**_LINEAR, "activation_scheme": "static", "kv_cache_dtype": "fp8"}]


@pytest.mark.parametrize(
    "head",
    [
        "lm_head",
        "language_model.lm_head",
        "model.language_model.lm_head",
        "re:.*lm_head",
        "re:language_model.lm_head",
        "*lm_head*",
    ],
)
def test_lm_head_inside_a_wrapper(head: str) -> None:
    """Multimodal checkpoints (Llama 4 Scout in FP8, Kimi K2.5 in NVFP4) call the LM head by their wrapper; it stays in bf16."""
    config = _compressed("float-quantized", _FLOAT8, {"num_bits": 8, "type": "float", "dynamic": True}, ignore=[head])
    assert [scheme["roles"] for scheme in read(config, dense()).plain()] == [["linear"]]


def test_layers_by_an_expression_with_the_wrapper() -> None:
    """An expression that begins with the wrapper means the layers of the language model, and no others."""
    left = [r"re:model\.language_model\.layers\.1\.", "lm_head"]
    published = read({"quant_method": "fp8", "modules_to_not_convert": left}, dense())
    assert [layer for layer, _ in published.unquantized] == [1]


def test_an_expression_that_may_mean_the_whole_model_is_refused() -> None:
    """All that is not below `language_model`: names here have no such wrapper, and would all be left out."""
    with pytest.raises(InputError, match=r"ignore: .* is not understood: it may be about the language model as a whole"):
        read(_compressed("float-quantized", _FLOAT8, ignore=[r"re:^(?!language_model).*"]), dense())


@pytest.mark.parametrize(
    ("layers", "expected"),
    [
        ({"quant_algo": "W4A16_NVFP4", "group_size": 16}, {"name": "nvfp4", "roles": ["linear"], "activation_scheme": "none"}),
        ({"quant_algo": "NVFP4", "group_size": 16}, {"name": "nvfp4", "roles": ["linear"]}),
    ],
)
def test_nvfp4_with_and_without_quantised_activations(layers: dict[str, Any], expected: dict[str, Any]) -> None:
    """ModelOpt's two kinds: products in fp4, or of 16-bit activations."""
    config = {"quant_method": "modelopt", "ignore": ["lm_head"], "kv_cache_scheme": "FP8", **layers}
    assert read(config, dense()).plain() == [{**expected, "kv_cache_dtype": "fp8"}]


def test_not_quantised() -> None:
    """Nothing is said, or all is left as it is."""
    assert section({"model_type": "llama", "quantization_config": None}) is None
    assert read({"quant_method": "fp8", "modules_to_not_convert": ["model", "lm_head"]}, dense()) == Published()


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"bits": 4}, "quant_method is missing.*Known: aqlm"),
        ({"quant_method": "awk"}, "unknown quant_method 'awk'. Did you mean awq"),
        ({"quant_method": "spqr"}, "unknown quant_method 'spqr'"),
        (
            {"quant_method": "fp8", "activation_scheme": "sometimes"},
            "activation_scheme: 'sometimes' is not known; known: dynamic",
        ),
        ({"quant_method": "fp8", "weight_block_size": [128]}, "weight_block_size"),
        ({"quant_method": "fp8", "weight_block_size": [128, 0]}, "weight_block_size"),
        (
            {"quant_method": "fp8", "weight_block_sise": [128, 128]},
            "unknown key 'weight_block_sise'. Did you mean weight_block_size",
        ),
        ({"quant_method": "fp8", "modules_to_not_convert": "lm_head"}, "must be a list"),
        ({"quant_method": "fp8", "modules_to_not_convert": [3]}, "a pattern of module names is a text"),
        ({"quant_method": "fp8", "modules_to_not_convert": ["re:(("]}, "no regular expression"),
        ({"quant_method": "awq", "bits": 3}, "bits"),
        ({"quant_method": "awq", "version": "gemv"}, "version: 'gemv' is not known"),
        ({"quant_method": "gptq", "bits": 4, "checkpoint_format": "marlin"}, "checkpoint_format: 'marlin' is not known"),
        ({"quant_method": "gptq", "bits": 5}, "bits"),
        ({"quant_method": "gptq", "bits": 4, "group_size": "all"}, "group_size"),
        ({"quant_method": "gptq", "bits": 4, "group_size": 0}, "group_size"),
        ({"quant_method": "bitsandbytes"}, "either load_in_4bit or load_in_8bit"),
        ({"quant_method": "compressed-tensors", "format": "dense", "config_groups": {}}, "no group has targets"),
        (_compressed("dense", _INT4), "format: 'dense' is not known; known: pack-quantized"),
        (_compressed("marlin-24", _INT4), "format: 'marlin-24' is not known"),
        (
            _compressed("pack-quantized", {**_INT4, "strategy": "tensor"}),
            "group_size: 32 is not understood beside strategy 'tensor'",
        ),
        (
            _compressed("pack-quantized", {**_INT4, "strategy": "tensor", "group_size": None}),
            "int weights of 4 bits by tensor.*are not known",
        ),
        (_compressed("pack-quantized", {**_INT4, "rotation": "hadamard"}), "unknown key 'rotation'"),
        (_compressed("pack-quantized", _INT4, transform_config={"R1": {"type": "hadamard"}}), "transform_config.*'R1'"),
        (
            _compressed("pack-quantized", _INT4, transform_config=_rotated("weight_output", "input")),
            "location 'input' is not known",
        ),
        (
            {**_compressed("pack-quantized", _INT4), "config_groups": {"g": {"targets": ["Conv1d"], "weights": _INT4}}},
            "the class of modules 'Conv1d' is not known; known: Linear",
        ),
        (
            _compressed("pack-quantized", _INT4, sparsity_config={"format": "sparse-24-bitmask"}),
            "sparse-24-bitmask.*is not known",
        ),
        (_compressed("pack-quantized", _INT4, kv_cache_scheme={"num_bits": 4, "type": "int"}), "kv_cache_scheme: is not known"),
        ({"quant_method": "modelopt", "quant_algo": "W4A8_AWQ"}, "quant_algo: 'W4A8_AWQ' is not known"),
        ({"quant_method": "modelopt", "quant_algo": "MIXED_PRECISION"}, "quantized_layers: is missing"),
        ({"quant_method": "modelopt", "quant_algo": "NVFP4", "group_size": 32}, "group_size: 32 is not known for NVFP4"),
    ],
)
def test_what_is_not_known_is_refused(config: dict[str, Any], message: str) -> None:
    """By name, with what is known; never guessed."""
    with pytest.raises(InputError, match=message):
        read(config, dense())


def test_a_role_in_part_is_refused() -> None:
    """Keys alone: Q, K and V are one product here."""
    with pytest.raises(InputError, match=r"layers.0.self_attn.k_proj is not quantised and .*q_proj is fp8.*attention/qkv_proj"):
        read({"quant_method": "fp8", "modules_to_not_convert": ["k_proj"]}, dense())


def test_a_layer_in_another_way() -> None:
    """One layer in 8 bits, the others in 4: the scheme of most is the model's, the other that of the layer."""
    config = {"quant_method": "gptq", "bits": 4, "dynamic": {r"+:.*layers\.0\..*": {"bits": 8}}}
    found = read(config, dense(3))
    assert [(one.name, one.model_dump()["bits"], one.roles) for one in found.quantization] == [("gptq", 4, ("linear",))]
    (index, schemes), *others = found.otherwise
    assert (index, others) == (0, [])
    assert {role: one.model_dump()["bits"] for one in schemes for role in one.roles} == {"attention": 8, "mlp": 8}


def test_a_quantised_cache_alone_is_refused() -> None:
    """There is no scheme that it could stand with."""
    with pytest.raises(InputError, match="KV cache"):
        read(_compressed("pack-quantized", _INT4, ignore=["re:.*"], kv_cache_scheme=_FLOAT8), dense())
