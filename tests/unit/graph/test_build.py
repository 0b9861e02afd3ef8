"""What a graph has for a step: copies of the stream, tables, collectives, and what cannot be divided, by hand."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hybrids import hybrid
from small_models import GQA, MOE, WIDTH, small_model

import roofline
from roofline.blocks.model import Model
from roofline.dtypes import FORMATS
from roofline.errors import InputError
from roofline.graph.build import build
from roofline.graph.sharding import check_parallel, communication_groups
from roofline.graph.vision import encoder_graph
from roofline.operators.collectives import Collective
from roofline.operators.gemm import Gemm
from roofline.operators.grouped_gemm import expert_load_imbalance
from roofline.predict.parameters import TWO_BYTES
from roofline.predict.request import prepare
from roofline.specs.deployment import Conventions, Deployment
from roofline.specs.workload import decode, prefill

TOKENS = 16
LATENT = {
    "kind": "mla", "num_attention_heads": 8, "kv_lora_rank": 32, "qk_nope_head_dim": 8, "qk_rope_head_dim": 4, "v_head_dim": 8,
}  # fmt: skip


def _graph(model: Model | str, **sizes: int) -> dict[str, tuple[Any, Any]]:
    loaded = roofline.load_model(model) if isinstance(model, str) else model
    return dict(build(loaded, Deployment(**sizes), TWO_BYTES, decode(TOKENS, 1024)))


def test_streams_begin_as_copies_of_the_embedding() -> None:
    """DeepSeek-V4-Flash has four streams of 4096: three are written once a step."""
    operator, repeat = _graph("deepseek-v4-flash")["embedding/streams"]
    assert repeat == 1
    assert operator.cost().activation_bytes == TOKENS * 3 * 4096 * 2


def test_copies_of_altup() -> None:
    """Four copies get the magnitude of the first by norms without weights; a layer adds to one of them and corrects all."""
    graph = _graph(small_model({"norms": "both"}, altup_num_inputs=4))
    magnitude, repeat = graph["embedding/altup/magnitude"]
    assert (repeat, magnitude.rows, magnitude.width, magnitude.parameters) == (1, TOKENS * 4, WIDTH, 0)
    assert graph["layers/altup/add"][0].elements == TOKENS * WIDTH
    assert graph["layers/altup/correct"][0].streams == 4


def test_tables_beside_that_of_the_vocabulary() -> None:
    """A narrow table is projected once, 4 tables of n-grams are 64/4 wide and projected; layers' own tables are read once."""
    graph = _graph(small_model(word_embed_proj_dim=32, hidden_size_per_layer_input=8))
    projected, repeat = graph["project_in"]
    assert isinstance(projected, Gemm)
    assert (projected.m, projected.n, projected.k, repeat) == (TOKENS, WIDTH, 32, 1)
    own = {path: repeat for path, (_, repeat) in graph.items() if path.startswith("per_layer_embedding")}
    assert own
    assert set(own.values()) == {1}
    product = _graph(small_model(ngram_embedders=4, ngram_rows=400))["ngram_embedding/projection"][0]
    assert (product.m, product.n, product.k, product.batch) == (TOKENS, WIDTH, 16, 4)


def test_a_pass_without_a_mixer_borrows_its_weights() -> None:
    """The second of two layers of an MLP alone runs with the weights of the first: read twice, held once."""
    alone = {"mixer": None}
    graph = _graph(small_model(alone, {**alone, "shared_weights": True}))
    held = [operator.parameters for path, (operator, _) in graph.items() if path.endswith("mlp/down_proj")]
    assert sorted(held) == [0, 128 * WIDTH]


def test_what_passes_of_layers_have() -> None:
    """A vector that every pass begins with, and per block two norms of which only the third has a weight, and none a bias."""
    graph = _graph(small_model({"norms": "interpolated"}, initial_state=True, norm={"function": "layernorm", "bias": True}))
    assert (graph["initial_state"][0].parameters, graph["initial_state"][0].cost().activation_bytes) == (WIDTH, 2 * WIDTH)
    norms = {path: operator.parameters for path, (operator, _) in graph.items() if "attention/" in path and "norm" in path}
    assert norms == {f"layers/attention/{name}": held for name, held in zip(PASS_NORMS, (0, 0, WIDTH), strict=True)}


PASS_NORMS = ("post_norm", "stream_norm", "interpolation_norm")


def test_layers_of_one_type_have_formats_of_their_own() -> None:
    """Attention of the second type of layer is in fp8, that of the first and all MLPs are not."""
    precision = replace(TWO_BYTES, layers=(("layer1", (("attention", FORMATS["fp8"]),)),))
    graph = build(small_model({}, {}), Deployment(), precision, decode(TOKENS, 1024))
    weights = {path: operator.dtypes.weight.name for path, (operator, _) in graph.items() if path.endswith("_proj")}
    assert sum(name == "fp8" for name in weights.values()) == 2
    assert {path for path, name in weights.items() if name == "fp8"} == {
        f"layers/layer1/attention/{name}" for name in ("qkv_proj", "o_proj")
    }


def test_experts_divided_over_two_devices_gather_rows() -> None:
    """Of a group of two each device gets half of the rows, and both add up their partial sums; one device does neither."""
    for size, expected in ((1, set()), (2, {"dispatch/all_gather", "collect/reduce_scatter"})):
        layout = {"data_parallel_size": 4, "expert_parallel_size": 4 // size, "moe_tp": size, "expert_exchange": "all_to_all"}
        graph = _graph(MODELS["experts"], **layout)  # type: ignore[arg-type]
        inside = {
            path.removeprefix("layers/moe/"): op for path, (op, _) in graph.items() if "dispatch/" in path or "collect/" in path
        }
        assert set(inside) == expected
        assert {op.world for op in inside.values()} <= {2}


def test_one_device_sums_nothing() -> None:
    """Mamba's x_proj has partial outputs on two devices, which are summed inside the block; on one there are none."""
    inside = {
        tp: [path for path, (operator, _) in _graph(hybrid("mamba"), tensor_parallel_size=tp).items()
             if isinstance(operator, Collective) and "x_proj" in path]
        for tp in (1, 2)
    }  # fmt: skip
    assert inside[1] == []
    assert len(inside[2]) == 1


def test_formats_of_what_is_added_and_gathered() -> None:
    """In fp32 an addition moves three tensors of 4 bytes per element; in a gather of 2 devices each sends half of one."""
    added = {op.path: op for op in roofline.analyze("gpt2", "h100-sxm", dtype="fp32", batch=TOKENS).decode.operators}
    assert added["position_add"].cost.activation_bytes == 3 * TOKENS * 768 * 4
    precision = prepare("gpt2", "h100-sxm", dtype="fp32").precision
    graph = dict(build(small_model({"mlp": MOE}), _experts(), precision, decode(2 * TOKENS, 1024)))
    assert graph["layers/moe/all_gather"][0].cost().link_bytes == TOKENS * WIDTH * 4 / 2


def _experts(imbalance: float = 1.0) -> Deployment:
    """Two replicas of two devices, which share experts and send each token to its experts alone."""
    return Deployment(
        tensor_parallel_size=2, data_parallel_size=2, expert_parallel_size=4, expert_exchange="all_to_all",
        conventions=Conventions(expert_imbalance=imbalance),
    )  # fmt: skip


def test_the_busiest_device_is_sent_more() -> None:
    """Of 8 experts on 4 devices, the fullest device gets the stated multiple of what all get on average."""
    even, uneven = (
        dict(build(small_model({"mlp": MOE}), _experts(imbalance), TWO_BYTES, decode(TOKENS, 1024)))["layers/moe/dispatch"][0]
        for imbalance in (1.0, 1.5)
    )
    assert uneven.cost().link_bytes / even.cost().link_bytes == pytest.approx(expert_load_imbalance(1.5, 8, 2, 4), rel=1e-12)


@pytest.mark.every_case
@pytest.mark.parametrize(
    ("layers", "sizes", "message"),
    [
        # 12 query heads are divided by 3, and 128 inner dimensions rounded up; 4 KV heads are neither divided nor copied
        ([{}], {"tensor_parallel_size": 3}, r"be a multiple of, num_key_value_heads \(4\).*that work: 1, 2, 4, 12$"),
        ([{}, {"mixer": {**GQA, "kv_shared": True}}], {"pipeline_parallel_size": 2}, "read an earlier layer's cache"),
        # 3 devices of 12 share 8 experts, and one copy makes them 9
        ([{"mlp": MOE}], {"tensor_parallel_size": 12, "expert_parallel_size": 3}, r"4; or --num-redundant-experts 1$"),
    ],
)
def test_what_cannot_be_divided(layers: list[dict[str, Any]], sizes: dict[str, int], message: str) -> None:
    """The message says what the number must divide, and which numbers work."""
    with pytest.raises(InputError, match=message):
        check_parallel(small_model(*layers), Deployment(**sizes))


def test_groups_of_devices() -> None:
    """Stages of 2 x 2 devices: 2 of tensor parallelism, 4 of a context over them, and 8 for a message to the next stage."""
    assert communication_groups(Deployment(tensor_parallel_size=2, context_parallel_size=2, pipeline_parallel_size=2)) == [
        2,
        4,
        8,
    ]


def test_devices_that_hold_the_same_cache() -> None:
    """Of latents all 8 tensor-parallel devices do; 4 KV heads on 8 devices are held by 2 each. The divisors of that work."""
    grouped = {**GQA, "num_attention_heads": 16}
    for mixer, works in ((LATENT, (1, 2, 4, 8)), (grouped, (1, 2))):
        model = small_model({"mixer": mixer})
        for size in range(1, 9):
            deployment = Deployment(tensor_parallel_size=8, decode_context_parallel_size=size)
            if size in works:
                check_parallel(model, deployment)
            else:
                with pytest.raises(InputError, match=f"must divide the {works[-1]} tensor-parallel devices"):
                    check_parallel(model, deployment)


MODELS: dict[str, Model] = {
    "dense": small_model({"norms": "both"}, {"parallel": True}, word_embed_proj_dim=32, hidden_size_per_layer_input=8),
    "experts": small_model({"mlp": {**MOE, "shared_intermediate_size": 32}}),
    "streams": small_model(hc_mult=4),
    "mean of streams": small_model(hc_mult=4, hc_head="mean"),
    "copies": small_model({"norms": "both"}, altup_num_inputs=4, laurel_rank=8),
    "tables of n-grams": small_model(ngram_embedders=4, ngram_rows=400),
    "passes": small_model({"norms": "interpolated"}, initial_state=True),
    "chosen keys": small_model(
        {"mixer": {**LATENT, "q_lora_rank": 24, "index_n_heads": 2, "index_head_dim": 16, "index_topk": 64}}
    ),
}
LAYOUTS: dict[str, dict[str, Any]] = {
    "one device": {},
    "tensor": {"tensor_parallel_size": 2},
    "sequence": {"tensor_parallel_size": 2, "sequence_parallel": True},
    "pipeline": {"pipeline_parallel_size": 2},
    "context": {"context_parallel_size": 2},
    "experts": {"data_parallel_size": 4, "expert_parallel_size": 4, "expert_exchange": "all_to_all"},
    "experts gathered": {"data_parallel_size": 4, "expert_parallel_size": 4, "expert_exchange": "all_gather"},
    "experts divided": {"data_parallel_size": 4, "expert_parallel_size": 2, "moe_tp": 2, "expert_exchange": "all_to_all"},
}


@pytest.mark.every_case
@pytest.mark.parametrize("layout", LAYOUTS)
def test_everything_has_the_format_of_the_model(layout: str) -> None:
    """In fp32 each operator and collective of each model reads and writes fp32, however it is divided."""
    precision = prepare("gpt2", "h100-sxm", dtype="fp32").precision
    for name, model in MODELS.items():
        if "expert_parallel_size" in LAYOUTS[layout] and name != "experts":
            continue
        for step in (decode(TOKENS, 1024), prefill(2, 512)):
            graph = build(model, Deployment(**LAYOUTS[layout]), precision, step)
            other = {
                path: (operator.dtypes.weight.name, operator.dtypes.activation.name)
                for path, (operator, _) in graph.items()
                if (operator.dtypes.weight.name, operator.dtypes.activation.name) != ("fp32", "fp32")
            }
            assert not other, name


def test_weights_of_a_vision_tower() -> None:
    """A layer has 4 w^2 + 2 w i of its products, a bias for each output of these (3 w + w + i + w), and two norms of 2 w."""
    tower = roofline.load_model("gemma-3-27b").vision
    assert tower is not None
    graph = encoder_graph(tower, 2, "fp32")
    width, inner = tower.hidden_size, tower.intermediate_size
    layer = sum(operator.parameters for path, (operator, _) in graph.items() if path.startswith("vision/layers/"))
    assert layer == 4 * width * width + 2 * width * inner + 5 * width + inner + 2 * 2 * width
    assert {operator.dtypes.weight.name for operator, _ in graph.values()} == {"fp32"}
    (up,) = [operator for path, (operator, _) in graph.items() if path.endswith("mlp/up_proj")]
    assert up.cost().weight_bytes == (width + 1) * inner * 4


def test_streams_end_in_their_mean() -> None:
    """Of four streams with one output for each token; a learned collapse has products instead."""
    mean, repeat = _graph(MODELS["mean of streams"])["final_hc_mean"]
    assert (repeat, mean.elements, mean.terms) == (1, TOKENS * WIDTH, 4)
    assert "final_hc_mean" not in _graph(MODELS["streams"])
