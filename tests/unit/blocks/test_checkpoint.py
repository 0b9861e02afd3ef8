"""Names and shapes of tensors, with numbers that a reader can check; nothing is left out."""

from __future__ import annotations

from math import prod
from typing import Any

import pytest

from roofline.blocks.checkpoint import Tensor, layer_weights, modules, non_layer_weights, tensors
from roofline.blocks.model import Model
from roofline.blocks.model_files import load_model
from roofline.dtypes import Dtypes, Precision
from roofline.errors import InputError
from roofline.graph.build import CANONICAL, build
from roofline.predict.parameters import TWO_BYTES, count_parameters
from roofline.specs.deployment import Deployment
from roofline.specs.huggingface.families import families
from roofline.specs.huggingface.names import BY_FAMILY, names
from roofline.specs.library import ids, shipped
from roofline.specs.workload import prefill

# The family of each shipped model that the tests below look at.
OF_FAMILY = {
    "deepseek-v2": "deepseek_v2", "deepseek-v3": "deepseek_v3", "falcon-7b": "falcon", "gemma-2-9b": "gemma2", "gpt2": "gpt2",
    "gpt-oss-20b": "gpt_oss", "llama-3.2-1b": "llama", "mixtral-8x7b": "mixtral", "phi-3-mini-4k": "phi3",
    "qwen2.5-7b": "qwen2", "qwen3-30b-a3b": "qwen3_moe",
}  # fmt: skip


def _model(name: str) -> Model:
    return load_model(name)[0].model_copy(update={"family": OF_FAMILY[name]})


def _stored(name: str) -> dict[str, Tensor]:
    model = _model(name)
    listed = list(tensors(model, names(model.family)[0]))
    found = {tensor.name: tensor for tensor in listed}
    assert len(found) == len(listed)  # no name stands twice
    return found


@pytest.mark.parametrize("name", [*ids("models"), str(shipped("models") / "_template.yaml")])
def test_no_weight_is_left_out(name: str) -> None:
    """Weights one by one are as many parameters as the operators hold."""
    model, _ = load_model(name)
    weights = [
        *non_layer_weights(model),
        *(w for kind in model.layer_sequence for w in layer_weights(model, model.layer_types[kind])),
    ]
    counted = sum((prod(weight.shape) + weight.bias) * max(weight.copies, 1) for weight in weights)
    assert counted == count_parameters(model).total


@pytest.mark.parametrize("name", OF_FAMILY)
def test_no_tensor_is_left_out(name: str) -> None:
    """Nor are tensors, however they are joined."""
    assert sum(tensor.elements for tensor in _stored(name).values()) == count_parameters(_model(name)).total


@pytest.mark.parametrize(
    ("model", "name", "shape"),
    [
        ("gpt2", "transformer.h.11.attn.c_attn.weight", (768, 3 * 768)),  # inputs first
        ("gpt2", "transformer.h.0.mlp.c_proj.bias", (768,)),
        ("phi-3-mini-4k", "model.layers.0.self_attn.qkv_proj.weight", (3 * 32 * 96, 3072)),
        ("phi-3-mini-4k", "model.layers.0.mlp.gate_up_proj.weight", (2 * 8192, 3072)),
        ("falcon-7b", "transformer.h.3.self_attention.query_key_value.weight", ((71 + 2) * 64, 4544)),
        ("mixtral-8x7b", "model.layers.31.block_sparse_moe.experts.7.w2.weight", (4096, 14336)),
        ("qwen3-30b-a3b", "model.layers.0.mlp.experts.127.gate_proj.weight", (768, 2048)),
        ("gpt-oss-20b", "model.layers.0.mlp.experts.gate_up_proj", (32, 2880, 2 * 2880)),
        ("gpt-oss-20b", "model.layers.0.mlp.experts.down_proj_bias", (32, 2880)),
        ("gpt-oss-20b", "model.layers.0.self_attn.sinks", (64,)),
        ("deepseek-v3", "model.layers.60.self_attn.kv_a_proj_with_mqa.weight", (512 + 64, 7168)),
        ("deepseek-v3", "model.layers.3.mlp.shared_experts.up_proj.weight", (2048, 7168)),
        ("gemma-2-9b", "model.layers.0.pre_feedforward_layernorm.weight", (3584,)),
    ],
)
def test_tensor(model: str, name: str, shape: tuple[int, ...]) -> None:
    """As the checkpoint on Hugging Face has it."""
    assert _stored(model)[name].shape == shape


def test_tied_and_separate_heads() -> None:
    """The LM head is a tensor of its own where it is not the embedding table."""
    assert "lm_head.weight" not in _stored("llama-3.2-1b")
    assert _stored("qwen2.5-7b")["lm_head.weight"].shape == (152064, 3584)


def test_modules_have_layers_and_roles() -> None:
    """What patterns of a quantization_config point at; one expert stands for all, and norms are none."""
    found = modules(_model("qwen3-30b-a3b"))
    assert found["model.layers.47.self_attn.o_proj"] == (47, "attention/o_proj")
    assert found["model.layers.0.mlp.experts.0.up_proj"] == (0, "experts/up_proj")
    assert found["model.layers.0.mlp.gate"] == (0, "router")
    assert found["lm_head"] == (None, "lm_head")
    assert "model.layers.0.mlp.experts.1.up_proj" not in found
    assert not [name for name in found if "norm" in name]


@pytest.mark.parametrize("name", [*OF_FAMILY, str(shipped("models") / "_template.yaml")])
def test_roles_are_those_that_operators_ask_for(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A role that no operator has would be quantised in vain."""
    model = load_model(name)[0]
    asked: set[str] = set()

    def dtypes(self: Precision, role: str) -> Dtypes:
        asked.add(role)
        return original(self, role)

    original = Precision.dtypes
    monkeypatch.setattr(Precision, "dtypes", dtypes)
    for step in (CANONICAL, prefill(1, 8)):
        build(model, Deployment(), TWO_BYTES, step)
    weights = [*non_layer_weights(model), *(w for kind in model.layer_types.values() for w in layer_weights(model, kind))]
    assert {weight.role for weight in weights if weight.role} <= asked


# transformers 5.23 writes their delta layers otherwise than it builds them, or has no class of theirs.
UNNAMED = {
    "bailing_hybrid", "bailing_moe", "chatglm", "dory", "exaone", "glm5_next_text", "hrm_text", "iquestloopcoder",
    "longcat_flash", "olmo_hybrid", "pangu_pro_moe_v2", "pangu_ultra_moe", "param2moe", "plamo3", "sarvam_mla", "step1",
    "step3_text", "telechat",
}  # fmt: skip


def test_families_are_known() -> None:
    """Every family whose configs are read has names, but for those of which nothing says how checkpoints are written."""
    refused = {entry.name for entry in families().values() if entry.read.__module__.endswith(".refused")}
    registered = {entry.name for entry in families().values()}
    assert set(BY_FAMILY) == registered - refused - UNNAMED


def test_a_block_of_another_family() -> None:
    """A model's file may put together what no checkpoint has: its names are not made up."""
    mixed: dict[str, Any] = {"family": "llama"}
    model = load_model(str(shipped("models") / "_template.yaml"))[0].model_copy(update=mixed)
    with pytest.raises(InputError, match="what checkpoints call"):
        list(tensors(model, names("llama")[0]))
