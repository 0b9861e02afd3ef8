"""Latent, sparse and compressed attention against the modules of transformers, shrunken, with odd widths.

Parameters, FLOP by PyTorch's counter and what the caches hold come from the meta device: shapes alone. The counter sees whole
products, every key of the cache and logits at every position, and MLA expands the whole cache at each step; those are the
conventions here. What a query attends to is counted in the attention weights of small models that run on the CPU.
"""

from __future__ import annotations

from collections import Counter
from functools import cache
from typing import Any

import pytest

from roofline.blocks.model import Model
from roofline.graph.build import CANONICAL, build
from roofline.graph.sharding import caches
from roofline.operators.sparse_counts import entry_pairs
from roofline.predict.parameters import TWO_BYTES, count_parameters
from roofline.specs.deployment import Conventions, Deployment
from roofline.specs.workload import Segment

torch = pytest.importorskip("torch", reason="PyTorch, the counter, is not installed")
transformers = pytest.importorskip("transformers", reason="transformers, whose modules are counted, is not installed")
from torch.utils.flop_counter import FlopCounterMode

D, VOCABULARY, HEADS, D_FF, D_EXPERT, EXPERTS, TOP_K = 48, 331, 4, 112, 28, 8, 3
INDEXER = {"index_n_heads": 3, "index_head_dim": 10}
LATENT = {"q_lora_rank": 36, "kv_lora_rank": 24, "qk_nope_head_dim": 16, "qk_rope_head_dim": 8, "v_head_dim": 12}
COMPRESSED = {"head_dim": 20, "q_lora_rank": 36, "qk_rope_head_dim": 8, "o_groups": 2, "o_lora_rank": 14, "sliding_window": 9}
COMMON = {
    "vocab_size": VOCABULARY, "hidden_size": D, "num_attention_heads": HEADS, "num_key_value_heads": HEADS,
    "moe_intermediate_size": D_EXPERT, "n_routed_experts": EXPERTS, "n_shared_experts": 2, "num_experts_per_tok": TOP_K,
    "tie_word_embeddings": False, "max_position_embeddings": 4096,
}  # fmt: skip
V3 = COMMON | LATENT | {"intermediate_size": D_FF, "n_group": 1, "topk_group": 1, "first_k_dense_replace": 1}
V4 = (
    COMMON | COMPRESSED | INDEXER
    | {"model_type": "deepseek_v4", "num_key_value_heads": 1, "n_shared_experts": 1, "index_topk": 5, "hc_mult": 3,
       "num_hidden_layers": 4, "num_hash_layers": 2, "compress_ratios": [0, 4, 128, 4, 0],
       "compress_rates": {"compressed_sparse_attention": 4, "heavily_compressed_attention": 16}}
)  # fmt: skip
LATENT_ALONE = {"num_hidden_layers": 2, "layer_types": ["full_attention"] * 2, "num_experts": EXPERTS, "pad_token_id": 0}
CONFIGS = {
    "deepseek_v3": V3 | {"model_type": "deepseek_v3", "num_hidden_layers": 2},
    "deepseek_v3_bias": V3 | {"model_type": "deepseek_v3", "num_hidden_layers": 2, "attention_bias": True},
    "deepseek_v3_full_queries": V3 | {"model_type": "deepseek_v3", "num_hidden_layers": 2, "q_lora_rank": None},
    # latent attention alone: a gate a head, and no rotation
    "bailing_hybrid": V3 | {"model_type": "bailing_hybrid", "q_lora_rank": None, **LATENT_ALONE},
    "kimi_linear": V3 | {"model_type": "kimi_linear", "q_lora_rank": None, **LATENT_ALONE},
    "deepseek_v32": V3 | INDEXER | {"model_type": "deepseek_v32", "num_hidden_layers": 2, "index_topk": 6},
    "glm_moe_dsa": V3 | INDEXER | {
        "model_type": "glm_moe_dsa", "num_hidden_layers": 4, "index_topk": 6,
        "indexer_types": ["full", "full", "shared", "shared"],
    },
    "deepseek_v4": V4,
}  # fmt: skip
each_model = pytest.mark.parametrize("name", CONFIGS)


def module(name: str, device: str) -> Any:
    """The model of transformers."""
    config = transformers.AutoConfig.for_model(**CONFIGS[name])
    torch.manual_seed(1)
    with torch.device(device):
        found = transformers.AutoModelForCausalLM.from_config(config, attn_implementation="eager", dtype=torch.float32)
    return found.eval()


@cache
def on_meta(name: str) -> Any:
    """Of shapes alone; the experts of a token are gathered, so that routing needs no numbers."""
    found = module(name, "meta")
    found.set_experts_implementation("batched_mm")
    return found


def mixers(name: str) -> list[dict[str, Any]]:
    """The mixer of each layer, in the keys of our files."""
    config = CONFIGS[name]
    if name == "deepseek_v4":
        rates = {0: {}, 4: {"compress_ratio": 4, **INDEXER, "index_topk": 5}, 128: {"compress_ratio": 16}}
        chosen = [rates[ratio] for ratio in config["compress_ratios"][: config["num_hidden_layers"]]]
        return [{"kind": "csa", "num_attention_heads": HEADS, **COMPRESSED, "sinks": True, **rate} for rate in chosen]
    latent = {"kind": "mla", "num_attention_heads": HEADS, **{key: config[key] for key in LATENT}}
    latent["attention_bias"] = config.get("attention_bias", False)
    latent |= {"bailing_hybrid": {"output_gate": "headwise"}, "kimi_linear": {"use_rope": False}}.get(name, {})
    if "index_topk" in config:
        latent["index_topk"] = config["index_topk"]
    types = config.get("indexer_types", ["full"] * config["num_hidden_layers"])
    return [latent | (INDEXER if "index_topk" in config and kind == "full" else {}) for kind in types]


@cache
def ours(name: str) -> Model:
    """Our file of the same dimensions, each layer a type of its own."""
    v4 = name == "deepseek_v4"
    experts = {
        "kind": "moe", "num_experts": EXPERTS, "num_experts_per_tok": TOP_K, "moe_intermediate_size": D_EXPERT,
        "shared_intermediate_size": D_EXPERT * CONFIGS[name]["n_shared_experts"],
    }  # fmt: skip
    layers = {}
    for index, mixer in enumerate(mixers(name)):
        dense = index == 0 and not v4
        mlp = {"kind": "gated_mlp", "intermediate_size": D_FF} if dense else experts
        layers[f"l{index}"] = {"mixer": mixer, "mlp": mlp | ({"hash_routing": True} if v4 and index < 2 else {})}
    return Model.model_validate(
        {
            "schema_version": 1, "name": name, "title": name, "hidden_size": D, "vocab_size": VOCABULARY,
            "max_position_embeddings": 4096, "tie_word_embeddings": False, "layer_types": layers,
            "layers": [{"pattern": list(layers)}], "sources": {}, "hc_mult": 3 if v4 else None,
        }
    )  # fmt: skip


def part_of_theirs(path: str) -> str:
    """`layers.1.self_attn.indexer.wk.weight` and the like: the layer, and which part of it."""
    path = path.removeprefix("model.")
    if not path.startswith("layers."):
        return {"embed_tokens": "embedding", "lm_head": "lm_head", "norm": "norm", "hc_head": "hc"}[path.split(".")[0]]
    _, layer, rest = path.split(".", 2)
    if ".indexer" in rest:
        return f"{layer} indexer"
    if ".compressor" in rest:
        return f"{layer} compressor"
    block = rest.split(".")[0]
    return f"{layer} {'norm' if block.endswith('layernorm') else block}"


def part_of_ours(path: str) -> str:
    """`layers/l1/attention/indexer/wk` and the like."""
    if not path.startswith("layers/"):
        return {"final_norm": "norm", "final_hc_proj": "hc", "final_hc_collapse": "hc"}.get(path, path)
    _, layer, block, rest = path.split("/", 3)
    layer = layer.removeprefix("l")
    if rest.startswith(("indexer/", "compressor/")):
        return f"{layer} {rest.split('/')[0]}"
    if rest == "norm":
        return f"{layer} norm"
    attention = block == "attention"
    if rest == "hc_expand":
        return f"{layer} streams"
    if rest.startswith("hc_"):
        return f"{layer} {'attn_hc' if attention else 'ffn_hc'}"
    return f"{layer} {'self_attn' if attention else 'mlp'}"


@each_model
def test_parameters(name: str) -> None:
    """Every part of every layer has as many, and so has the whole."""
    theirs, found = Counter[str](), Counter[str]()
    for path, tensor in on_meta(name).named_parameters():
        theirs[part_of_theirs(path)] += tensor.numel()
    for path, (operator, _) in build(ours(name), Deployment(), TWO_BYTES, CANONICAL).items():
        if operator.parameters:
            found[part_of_ours(path)] += operator.parameters
    assert found == theirs
    assert count_parameters(ours(name)).total == theirs.total()


def run(model: Any, count: int, tokens: int, cached: Any) -> None:
    ids = torch.zeros(count, tokens, dtype=torch.long, device=model.device)
    with torch.no_grad():
        model(input_ids=ids, past_key_values=cached, use_cache=True)


def cache_after(model: Any, count: int, tokens: int) -> Any:
    """The cache of sequences of some length."""
    held = transformers.DynamicCache(config=model.config)
    if tokens:
        run(model, count, tokens, held)
    return held


STEPS = [(2, 21, 0), (1, 3, 0), (2, 8, 13), (1, 7, 50), (3, 1, 30), (1, 1, 3), (2, 1, 31)]


@each_model
@pytest.mark.parametrize(("count", "new", "cached"), STEPS)
def test_flop(name: str, count: int, new: int, cached: int) -> None:
    """Prompts, chunks and decode: every part of every layer to the last FLOP."""
    model = on_meta(name)
    held = cache_after(model, count, cached)
    with FlopCounterMode(display=False) as counter:
        run(model, count, new, held)
    within = {path.split(".", 1)[1]: sum(counts.values()) for path, counts in counter.get_flop_counts().items() if "." in path}
    theirs = Counter[str]()
    for layer in range(model.config.num_hidden_layers):
        at = f"model.layers.{layer}"
        attention = within[f"{at}.self_attn"]
        compressor = within.get(f"{at}.self_attn.compressor", 0)
        indexer = within.get(f"{at}.self_attn.indexer", 0) + within.get(f"{at}.self_attn.compressor.indexer", 0)
        theirs[f"{layer} indexer"] = indexer
        theirs[f"{layer} compressor"] = compressor - (indexer if compressor else 0)
        theirs[f"{layer} self_attn"] = attention - theirs[f"{layer} compressor"] - indexer
        blocks = {part: within.get(f"{at}.{part}", 0) for part in ("mlp", "attn_hc", "ffn_hc")}
        theirs.update({f"{layer} {part}": flop for part, flop in blocks.items()})
        theirs[f"{layer} streams"] = within[at] - attention - sum(blocks.values())
    theirs["lm_head"], theirs["hc"] = within["lm_head"], within.get("model.hc_head", 0)

    conventions, found = Conventions(mask="full", logits="all", mla="expand"), Counter[str]()
    step = (Segment(count, new, cached, decode=new == 1),)
    for path, (operator, _) in build(ours(name), Deployment(conventions=conventions), TWO_BYTES, step).items():
        found[part_of_ours(path)] += operator.cost().matrix_flops
    assert +found == +theirs
    assert found.total() == counter.get_total_flops()


@each_model
@pytest.mark.parametrize("tokens", [1, 3, 4, 8, 9, 15, 16, 50, 131])
def test_what_the_caches_hold(name: str, tokens: int) -> None:
    """Elements a sequence and layer, and no copy of keys that are values.

    Of a window of w tokens transformers keeps the w - 1 that the next query sees.
    """
    config = CONFIGS[name]
    held = cache_after(on_meta(name), 1, tokens)
    theirs = []
    for layer in held.layers:
        entries = sum(part.numel() for part in getattr(layer, "compressed_kv", {}).values() if part is not None)
        keys = [layer.keys, getattr(layer, "indexer_keys", None), None if name == "deepseek_v4" else layer.values]
        theirs.append(entries + sum(part.numel() for part in keys if part is not None))
    found = Counter[int]()
    for index in range(config["num_hidden_layers"]):
        alone = ours(name).model_copy(update={"layers": (ours(name).layers[0].model_copy(update={"pattern": (f"l{index}",)}),)})
        for kept, _ in caches(alone, Deployment()):
            beside = 1 if kept.window is not None and tokens >= kept.window else 0
            found[index] += (kept.retained(tokens) - beside) * kept.elements
    assert [found[index] for index in range(config["num_hidden_layers"])] == theirs


@pytest.mark.parametrize(("name", "tokens"), [("deepseek_v32", 23), ("glm_moe_dsa", 23), ("deepseek_v4", 37)])
def test_keys_that_a_query_attends_to(name: str, tokens: int) -> None:
    """In the attention weights of a run, as many are not zero as there are pairs: min(visible, chosen) a query and head."""
    model = module(name, "cpu")
    with torch.no_grad():
        ids = torch.arange(tokens).unsqueeze(0)
        weights = model(input_ids=ids, output_attentions=True, use_cache=False).attentions
    for mixer, attended in zip(mixers(name), weights, strict=True):
        counted = int((attended != 0).sum())
        if mixer["kind"] == "mla":
            wanted = entry_pairs(tokens, 0, None, mixer["index_topk"], "causal")
            assert mixer["index_topk"] < tokens
        else:
            wanted = entry_pairs(tokens, 0, None, mixer["sliding_window"], "causal")
            if ratio := mixer.get("compress_ratio"):
                wanted += entry_pairs(tokens, 0, ratio, mixer.get("index_topk"), "causal")
        assert counted == HEADS * wanted
