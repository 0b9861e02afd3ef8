"""Families of 2026, and ones that share weights between layers, against transformers: shrunken, several draws."""

from __future__ import annotations

from typing import Any

import pytest
from golden.oracle.machinery import assert_same, read_config
from golden.oracle.test_gemma import GEMMA3N
from mutations import MUTATIONS, places, problem

from roofline.graph.build import CANONICAL, build
from roofline.operators.sparse_counts import block_pairs
from roofline.predict.parameters import TWO_BYTES
from roofline.specs.deployment import Deployment

Config = dict[str, Any]

BASE: Config = {
    "hidden_size": 96, "intermediate_size": 64, "num_hidden_layers": 6, "num_attention_heads": 6, "num_key_value_heads": 2,
    "pad_token_id": 0, "vocab_size": 331, "max_position_embeddings": 512, "tie_word_embeddings": False,
    "torch_dtype": "bfloat16",
}  # fmt: skip
LATENT: Config = {
    "num_key_value_heads": 6, "q_lora_rank": 28, "kv_lora_rank": 20, "qk_nope_head_dim": 12, "qk_rope_head_dim": 8,
    "v_head_dim": 10,
}  # fmt: skip
INDEXER = {"index_n_heads": 3, "index_head_dim": 14, "index_topk": 7}
ROUTED: Config = {"n_routed_experts": 8, "num_experts_per_tok": 3, "moe_intermediate_size": 40, "n_shared_experts": 2}
DENSE, SPARSE = "dense", "sparse"
LINEAR, INDEXED = "linear_attention", "indexed_attention"
FULL, BLOCKS = "full_attention", "minimax_m3_sparse"

BASES: dict[str, Config] = {
    "minimax_m3_vl_text": {
        **BASE, "head_dim": 24, "dense_intermediate_size": 112, "shared_intermediate_size": 64, "num_local_experts": 8,
        "num_experts_per_tok": 3, "index_n_heads": 2, "index_head_dim": 14, "index_block_size": 4, "index_topk_blocks": 3,
        "index_local_blocks": 1, "layer_types": [FULL, FULL, *[BLOCKS] * 4], "mlp_layer_types": [DENSE, *[SPARSE] * 5],
    },
    "hy_v4": {**BASE, **LATENT, **INDEXER, **ROUTED, "hc_mult": 4},
    "glm5_next_text": {
        **BASE, **LATENT, **INDEXER, **ROUTED, "qk_rope_head_dim": 0, "index_topk": 8, "index_kpool": 4, "hc_mult": 4,
        "hc_sinkhorn_iters": 20, "linear_num_heads": 4, "linear_head_dim": 12, "linear_conv_kernel_dim": 4,
    },
}  # fmt: skip
CHANGES: dict[str, tuple[Config, ...]] = {
    "minimax_m3_vl_text": (
        {"shared_intermediate_size": 128, "tie_word_embeddings": True, "layer_types": [BLOCKS, FULL] * 3},
        {
            "layer_types": None, "mlp_layer_types": None, "moe_layer_freq": [0, 0, 1, 1, 1, 1], "rotary_dim": 8,
            "sparse_attention_config": {
                "use_sparse_attention": True, "sparse_index_dim": 10, "sparse_num_index_heads": 2, "sparse_topk_blocks": 2,
                "sparse_block_size": 8, "sparse_local_block": 1, "sparse_init_block": 0, "sparse_score_type": "max",
                "sparse_attention_freq": [0, 1, 1, 1, 1, 1],
            },
        },
    ),
    "glm5_next_text": (
        {
            "n_shared_experts": 1, "attention_bias": True, "index_kpool": 2, "hc_mult": 2, "num_hidden_layers": 7,
            "layer_types": [LINEAR, INDEXED, INDEXED, LINEAR, INDEXED, INDEXED, LINEAR],
            "indexer_types": ["full", "full", "shared", "full", "full", "shared", "full"],
            "mlp_layer_types": [DENSE, *[SPARSE] * 6],
        },
        {
            "n_group": 4, "topk_group": 2,
            "linear_attn_config": {"head_dim": 10, "num_heads": 6, "short_conv_kernel_size": 3, "gate_lower_bound": -5.0},
        },
    ),
    "hy_v4": (
        {"hc_mult": 2, "n_shared_experts": 1, "tie_word_embeddings": True, "indexer_types": ["full", "shared"] * 3},
        {"mlp_layer_types": [DENSE, SPARSE] * 3, "attention_bias": True, "layer_types": ["indexed_attention"] * 6},
    ),
}  # fmt: skip
SMALL: dict[str, Config] = {
    **{name: {"model_type": name, **keys} for name, keys in BASES.items()},
    **{
        f"{name} {number}": {"model_type": name, **BASES[name], **change}
        for name, changes in CHANGES.items()
        for number, change in enumerate(changes, 2)
    },
}


# What is asked otherwise of a family: its class is of another name, needs numbers, or keeps more than engines do.
OTHER: dict[str, dict[str, Any]] = {
    "glm5_next_text": {
        "model_type": "glm5_next", "device": "cpu",
        "around": {"vision_config": {"hidden_size": 32, "intermediate_size": 32, "depth": 1, "num_heads": 2}},
        "leave_out": {"cache": "the class keeps keys and gates of all tokens, of which engines keep one key for each pool"},
    },
}  # fmt: skip


@pytest.mark.parametrize("name", SMALL)
def test_small(name: str) -> None:
    """Parameters, layer by layer, cache, state and FLOP."""
    assert_same(SMALL[name], **OTHER.get(SMALL[name]["model_type"], {}))


# Zero is a good value of these: no layer reads another's keys.
ZEROS = {"num_kv_shared_layers"}


# Those of `SMALL` that spell the same things otherwise than the first ones do.
OTHERWISE = ("minimax_m3_vl_text 3",)


@pytest.mark.parametrize("name", ["gemma3n", *BASES, *OTHERWISE])
def test_nothing_is_missed_in_silence(name: str) -> None:
    """A wrong, absent or misspelt key is refused by name, or changes nothing, or what was taken for it is on record."""
    config = {"gemma3n": GEMMA3N, **SMALL}[name]
    wrong = [
        f"{name}: {found}"
        for path in places(config)
        for mutation in MUTATIONS
        if not (mutation == "zero" and path[-1] in ZEROS) and (found := problem(config, path, mutation))
    ]
    assert not wrong, "\n".join(wrong)


# What the counter does not see


@pytest.mark.parametrize("tokens", [4, 11, 12, 13, 37])
def test_keys_of_chosen_blocks(tokens: int) -> None:
    """In the attention weights of MiniMax-M3's sparse layers, run with numbers, as many are not zero as pairs are seen."""
    torch = pytest.importorskip("torch", reason="PyTorch, on which the model runs, is not installed")
    transformers = pytest.importorskip("transformers", minversion="5.20", reason="transformers, the oracle, is not installed")
    config = {key: value for key, value in SMALL["minimax_m3_vl_text"].items() if key != "torch_dtype"}
    torch.manual_seed(3)
    network = transformers.AutoModelForCausalLM.from_config(
        transformers.AutoConfig.for_model(**config), attn_implementation="eager", dtype=torch.float32
    )
    with torch.no_grad():
        ids = torch.randint(1, 300, (1, tokens))
        weights = network.eval()(input_ids=ids, output_attentions=True, use_cache=False).attentions
    sparse = block_pairs(tokens, 0, config["index_block_size"], config["index_topk_blocks"], "causal")
    assert (sparse < tokens * (tokens + 1) / 2) == (tokens > 12)  # three blocks of four
    seen = [sparse if kind == BLOCKS else tokens * (tokens + 1) // 2 for kind in config["layer_types"]]
    assert [int((one != 0).sum()) for one in weights] == [config["num_attention_heads"] * pairs for pairs in seen]


def held(config: Config, tp: int) -> dict[str, int]:
    """Parameters of each operator on one of the devices, by the end of its path."""
    graph = build(read_config(config), Deployment(tensor_parallel_size=tp), TWO_BYTES, CANONICAL)
    return {path: op.parameters for path, (op, _) in graph.items() if op.parameters}


def test_devices_divide_what_stands_around_gemma_3n() -> None:
    """As vLLM does: projections between copies by columns, LAuReL by its rank; routers and coefficients are on all devices."""
    one, two = held(GEMMA3N, 1), held(GEMMA3N, 2)
    halved = {path for path in one if one[path] == 2 * two[path]}
    assert {"embedding/altup/projection", "final_altup/projection"} <= halved
    layers = [path for path in one if path.startswith("layers/")]
    assert {path.split("/", 2)[2] for path in layers if "laurel" in path and path in halved} == {"laurel/left", "laurel/right"}
    assert not any(path.split("/", 2)[2].startswith(("altup", "per_layer")) for path in layers if path in halved)


def test_devices_divide_the_choices_of_minimax_m3() -> None:
    """Each of two devices has one of two KV heads, and its indexer's queries; both have the indexer's key.

    From 96 elements: three query heads, a key and a value of 24 elements; a query and a key of 14.
    """
    one, two = (held(SMALL["minimax_m3_vl_text"], tp) for tp in (1, 2))
    path = next(path for path in one if "sparse_moe" in path and path.endswith("qkv_proj"))
    assert one[path] == 96 * ((6 + 2 * 2) * 24 + 3 * 14)
    assert two[path] == 96 * ((3 + 2) * 24 + 2 * 14)
