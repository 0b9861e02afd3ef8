"""Traps in the configs of families with latent attention and with recurrent layers, with numbers to check by hand."""

from __future__ import annotations

import json
from typing import Any

import pytest
from golden.oracle.latent_configs import PUBLISHED as LATENT
from golden.oracle.recurrent_configs import PUBLISHED as RECURRENT
from mutations import MUTATIONS, places, problem

from roofline.blocks.config_json import read
from roofline.blocks.model import Model
from roofline.errors import SpecError
from roofline.predict.parameters import count_parameters, kv_bytes_per_token
from roofline.specs.huggingface.document import parse_json
from roofline.specs.huggingface.read import Origin

Config = dict[str, Any]
PUBLISHED = {**LATENT, **RECURRENT}


def model(config: Config) -> Model:
    return read(parse_json(json.dumps(config), "config.json"), Origin("test", "Test"))


def total(config: Config) -> int:
    return count_parameters(model(config)).total


def refused(config: Config) -> str:
    with pytest.raises(SpecError) as caught:
        model(config)
    return str(caught.value)


def without(config: Config, *names: str) -> Config:
    return {key: value for key, value in config.items() if key not in names}


def assumed(config: Config) -> dict[str, Any]:
    return {choice.name: choice.value for choice in model(config).assumptions}


# One thing wrong with a config. 0 is a good value of these: no dense layers, experts or attention from the first layer
# on, no hash routing, no routed experts.
ZEROS = {"first_k_dense_replace", "num_hash_layers", "attn_layer_offset", "expert_layer_offset", "num_local_experts"}


@pytest.mark.slow
@pytest.mark.parametrize("name", PUBLISHED)
def test_nothing_is_missed_in_silence(name: str) -> None:
    """A wrong, absent or misspelt key is refused by name, or changes nothing, or what was taken for it is on record."""
    found = [
        wrong
        for path in places(PUBLISHED[name])
        for mutation in MUTATIONS
        if not (mutation == "zero" and path[-1] in ZEROS) and (wrong := problem(PUBLISHED[name], path, mutation))
    ]
    assert not found, "\n".join(found)


# Latent attention

KIMI_K2, GLM_5 = LATENT["kimi-k2"], LATENT["glm-5"]


def test_the_latent_is_cached_whatever_kv_heads_say() -> None:
    """512 + 64 elements of two bytes in each of 61 layers."""
    assert kv_bytes_per_token(model(KIMI_K2)) == 61 * 576 * 2
    for key, value in (("num_key_value_heads", 8), ("head_dim", 17)):
        assert kv_bytes_per_token(model({**KIMI_K2, key: value})) == 61 * 576 * 2


def test_null_says_that_queries_are_not_compressed() -> None:
    """Absent says nothing: the class would compress them. 7168 x 64 heads x 192 stands instead of two factors."""
    difference = total({**KIMI_K2, "q_lora_rank": None}) - total(KIMI_K2)
    assert difference == 61 * (7168 * 64 * 192 - 1536 * (7168 + 64 * 192 + 1))
    assert assumed({**KIMI_K2, "q_lora_rank": None})["q_lora_rank"] is None
    assert "q_lora_rank is missing" in refused(without(KIMI_K2, "q_lora_rank"))


def test_another_step_of_expert_layers_is_refused() -> None:
    assert "moe_layer_freq" in refused({**KIMI_K2, "moe_layer_freq": 2})


def test_shared_experts_are_one_block() -> None:
    """Moonlight: two of 1408; one more is 3 x 2048 x 1408 in each of 26 layers."""
    moonlight = LATENT["moonlight"]
    assert total({**moonlight, "n_shared_experts": 3}) - total(moonlight) == 26 * 3 * 2048 * 1408


def test_deepseek_v2_without_latent_attention() -> None:
    """The smallest DeepSeek-VL2 has ordinary attention under the same model_type: four matrices instead of latent ones."""
    v2 = {
        **LATENT["moonlight"],
        "model_type": "deepseek_v2",
        "architectures": ["DeepseekV2ForCausalLM"],
        "topk_method": "greedy",
    }
    mixers = [layer.mixer for layer in model({**v2, "use_mla": False}).layer_types.values()]
    assert {mixer.kind for mixer in mixers if mixer is not None} == {"gqa"}
    assert "use_mla" in refused({**v2, "use_mla": "no"})
    assert total({**v2, "use_mla": True}) == total(v2)
    assert "router_correction_bias" not in count_parameters(model(v2)).apart


def test_glm_flash_has_one_dense_layer() -> None:
    """The class does not look at first_k_dense_replace; another number in it is refused unless the layers are listed."""
    flash = LATENT["glm-4.7-flash"]
    assert "first_k_dense_replace" in refused({**flash, "first_k_dense_replace": 2})
    listed = ["dense"] * 2 + ["sparse"] * 45
    difference = total(flash) - total({**flash, "first_k_dense_replace": 2, "mlp_layer_types": listed})
    assert difference == 2048 * (64 + (64 + 1) * 3 * 1536 - 3 * 10240)  # router, experts; dense
    assert "mlp_layer_types" in refused({**flash, "mlp_layer_types": listed})  # with one dense layer by the other key


def test_rules_for_shared_indexers_agree() -> None:
    """GLM-5.2: a list, a line of letters, and every fourth layer from the third on."""
    listed = ["shared" if index > 2 and (index - 2) % 4 else "full" for index in range(78)]
    assert listed.count("full") == 21
    every = {"index_topk_freq": 4, "index_skip_topk_offset": 3}
    letters = "".join(word[0].upper() for word in listed)
    indexer = 128 * 6144 + 32 * 128 * 2048 + 32 * 6144 + 2 * 128  # keys, queries, weights of the heads, a LayerNorm
    for rule in ({"indexer_types": listed}, {"index_topk_pattern": letters}, every):
        assert total(GLM_5) - total({**GLM_5, **rule}) == 57 * indexer
        assert kv_bytes_per_token(model({**GLM_5, **rule})) == 2 * (78 * 576 + 21 * 128)
    assert "letters" in refused({**GLM_5, "index_topk_pattern": letters[1:]})
    assert "no earlier one" in refused({**GLM_5, "indexer_types": ["shared"] * 78})


# Nemotron

NANO = RECURRENT["nemotron-3-nano"]
WORDS = {"M": "mamba", "E": "moe", "*": "attention", "-": "mlp"}


def test_layers_as_letters_and_as_words() -> None:
    """num_hidden_layers may be absent, and has to agree where it is there."""
    words = [WORDS[letter] for letter in NANO["hybrid_override_pattern"]]
    listed = {**without(NANO, "hybrid_override_pattern", "num_hidden_layers"), "layers_block_type": words}
    assert total(listed) == total(NANO)
    later = {"mamba": "linear_attention", "attention": "full_attention"}
    assert total({**listed, "layers_block_type": [later.get(word, word) for word in words]}) == total(NANO)
    assert "num_hidden_layers" in refused({**NANO, "num_hidden_layers": 51})
    assert "hybrid_override_pattern" in refused({**NANO, "layers_block_type": words[::-1]})
    assert "Known" in refused({**NANO, "hybrid_override_pattern": "MX"})


def test_latent_experts() -> None:
    """Experts on a narrower stream, made and undone by two projections; the shared expert and the router stay."""
    latent = {**NANO, "moe_latent_size": 1024}
    difference = 128 * 2 * 1856 * (2688 - 1024) - 2 * 2688 * 1024
    assert total(NANO) - total(latent) == 23 * difference


def test_keys_of_layers_that_are_not_there() -> None:
    """Transformers saves them for every model: a dense one has numbers of experts, too."""
    dense = {**without(NANO, "num_hidden_layers"), "hybrid_override_pattern": "M-*-"}
    kinds = ("n_routed_experts", "num_experts_per_tok", "n_shared_experts", "moe_intermediate_size")
    assert total(dense) == total(without(dense, *kinds, "moe_shared_expert_intermediate_size"))


def test_old_name_of_the_head() -> None:
    """Nemotron-H: attention_head_dim; one of the two has to be there, and both have to agree."""
    old = {**without(NANO, "head_dim"), "attention_head_dim": 128}
    assert total(old) == total(NANO)
    assert "head_dim" in refused(without(NANO, "head_dim"))
    assert "attention_head_dim" in refused({**NANO, "attention_head_dim": 64})


def _puzzle(*blocks: tuple[int | None, float | None]) -> Config:
    """Nemotron 49B with these layers: query heads that share a KV head, and the width of the MLP; None: no block."""
    return {
        "architectures": ["DeciLMForCausalLM"],
        "model_type": "nemotron-nas",
        "attention_bias": False,
        "block_configs": [
            {
                "attention": {
                    "n_heads_in_group": shared,
                    "no_op": shared is None,
                    "num_sink_tokens": None,
                    "replace_with_linear": False,
                    "sparsify": None,
                    "unshifted_sink": False,
                    "use_prefill_window_in_sink_attention": False,
                    "window_length": None,
                },
                "ffn": {"ffn_mult": factor, "no_op": factor is None, "replace_with_linear": False, "sparsify": None},
            }
            for shared, factor in blocks
        ],
        "hidden_size": 8192,
        "intermediate_size": None,
        "max_position_embeddings": 131072,
        "mlp_bias": False,
        "num_attention_heads": 64,
        "num_hidden_layers": len(blocks),
        "num_key_value_heads": None,
        "tie_word_embeddings": False,
        "torch_dtype": "bfloat16",
        "vocab_size": 128256,
    }


# Layers of Llama-3_3-Nemotron-Super-49B-v1 by kind (their order changes no count).
SUPER_49B = [
    *[(8, 5.25)] * 48, *[(None, 1.3125)] * 10, *[(None, 1.0)] * 8, *[(None, 0.5)] * 6, *[(None, 2.625)] * 5,
    (8, 2.625), (None, 3.28125), (None, 5.25),
]  # fmt: skip


def test_nemotron_49b() -> None:
    """Hugging Face shows 49,867,145,216 parameters of Llama-3_3-Nemotron-Super-49B-v1."""
    found = model(_puzzle(*SUPER_49B))
    assert count_parameters(found).total == 49_867_145_216
    assert kv_bytes_per_token(found) == 49 * 2 * 8 * 128 * 2
    assert found.num_hidden_layers == 80


def test_widths_of_a_search() -> None:
    """Two thirds of the factor times hidden_size, cut to a whole number, then up to a multiple of 256."""
    for factor, width in ((5.25, 28672), (1.0, 5632), (0.5, 2816)):  # 28672; 5461 + 171; 2730 + 86
        layer = model(_puzzle((8, factor))).layer_types["decoder"]
        assert layer.mlp.intermediate_size == width  # type: ignore[union-attr]


def test_blocks_that_are_left_out_or_one_matrix() -> None:
    """A layer without blocks is none; the norm of a block goes with it; replace_with_linear is hidden x hidden."""
    one, empty = _puzzle((8, 1.0)), _puzzle((8, 1.0), (None, None))
    assert total(empty) == total(one)
    assert any("1 of the 2 layers" in note for note in model(empty).notes)
    linear = _puzzle((8, 1.0), (None, None))
    linear["block_configs"][1]["attention"] |= {"no_op": False, "replace_with_linear": True}
    linear["block_configs"][1]["ffn"] |= {"no_op": False, "replace_with_linear": True}
    assert total(linear) - total(one) == 2 * (8192 * 8192 + 8192)
    assert kv_bytes_per_token(model(linear)) == kv_bytes_per_token(model(one))


@pytest.mark.parametrize(
    ("part", "key", "value"),
    [("attention", "window_length", 4096), ("attention", "num_sink_tokens", 4), ("attention", "n_heads_in_group", 7),
     ("attention", "n_heads_in_group", None), ("ffn", "ffn_mult", None), ("ffn", "sparsify", ["2:4"]), ("ffn", "experts", 8)],
)  # fmt: skip
def test_blocks_that_are_not_understood(part: str, key: str, value: Any) -> None:
    wrong = _puzzle((8, 1.0), (8, 1.0))
    wrong["block_configs"][1][part][key] = value
    assert f"block_configs.1.{part}.{key}" in refused(wrong)


def test_decilm_lists_kv_heads() -> None:
    """DeciLM-7B, the ancestor: layers have 4, 2 or 1 KV heads (here in numbers of our own)."""
    heads = [4] * 16 + [2] * 8 + [1] * 8
    old = {**without(_puzzle((8, 1.0)), "block_configs"), "model_type": "deci", "hidden_size": 4096, "intermediate_size": 14336}
    old |= {"num_attention_heads": 32, "num_hidden_layers": 32, "num_key_value_heads_per_layer": heads, "vocab_size": 32000}
    assert kv_bytes_per_token(model(old)) == sum(heads) * 2 * 128 * 2
    assert "num_key_value_heads_per_layer" in refused({**old, "num_key_value_heads_per_layer": [4] * 31})


# Recurrent layers


def test_kimi_linear_numbers_layers_from_one() -> None:
    """Seven layers of latent attention, the last one among them; the head_dim of the file (72) is of no layer."""
    kimi = RECURRENT["kimi-linear-48b"]
    found = model(kimi)
    assert [index + 1 for index, name in enumerate(found.layer_sequence) if "mla" in name] == [4, 8, 12, 16, 20, 24, 27]
    assert kv_bytes_per_token(found) == 7 * 576 * 2
    lists = kimi["linear_attn_config"]
    assert "kda_layers" in refused({**kimi, "linear_attn_config": {**lists, "full_attn_layers": [4, 8, 12, 16, 20, 24]}})
    assert "mla_use_nope" in refused({**kimi, "mla_use_nope": False})


def test_granite_layers() -> None:
    """intermediate_size is the experts' width; without experts the shared MLP is the block."""
    small = RECURRENT["granite-4.0-h-small"]
    wider = total({**small, "intermediate_size": 769}) - total(small)
    assert wider == 40 * 72 * 3 * 4096
    dense = model({**small, "num_local_experts": 0, "num_experts_per_tok": 0})
    assert {layer.mlp.kind for layer in dense.layer_types.values()} == {"gated_mlp"}  # type: ignore[union-attr]
    assert "mamba_d_head" in refused({**small, "mamba_d_head": 32})


def test_granite_without_recurrent_layers() -> None:
    """The keys of Mamba-2 stand in the file all the same."""
    small = RECURRENT["granite-4.0-h-small"]
    attention = model({**small, "layer_types": ["attention"] * 40})
    assert kv_bytes_per_token(attention) == 40 * 2 * 8 * 128 * 2


def test_jamba_period_and_offset() -> None:
    """One layer of eight has attention, every second one experts; one expert is a dense block."""
    mini = RECURRENT["jamba-1.5-mini"]
    assert kv_bytes_per_token(model(mini)) == 4 * 2 * 8 * 128 * 2
    assert total(mini) - total({**mini, "num_experts": 1}) == 16 * (15 * 3 * 4096 * 14336 + 16 * 4096)
    assert "attn_layer_offset" in refused({**mini, "attn_layer_offset": 8})


def test_minimax_heads_are_wider_than_their_share() -> None:
    """64 heads of 128 on a stream of 6144; ten layers of softmax attention, in numbers or in words."""
    text = RECURRENT["minimax-text-01"]
    assert kv_bytes_per_token(model(text)) == 10 * 2 * 8 * 128 * 2
    assert "head_dim is missing" in refused(without(text, "head_dim"))
    words = ["full_attention" if kind else "linear_attention" for kind in text["attn_type_list"]]
    named = {**without(text, "attn_type_list"), "layer_types": words, "model_type": "minimax", "architectures": []}
    assert total(named) == total(text)
    assert "attn_type_list" in refused({**text, "layer_types": words[::-1]})
    assert "attn_type_list is missing" in refused(without(text, "attn_type_list"))


def test_mamba_under_older_names() -> None:
    """state-spaces/mamba-130m-hf: embeddings are tied, which the file does not say; some numbers stand there twice."""
    config: Config = {
        "architectures": ["MambaForCausalLM"], "model_type": "mamba", "conv_kernel": 4, "d_inner": 1536, "d_model": 768,
        "expand": 2, "fused_add_norm": True, "hidden_size": 768, "intermediate_size": 1536, "n_layer": 24,
        "num_hidden_layers": 24, "pad_vocab_size_multiple": 8, "residual_in_fp32": True, "rms_norm": True, "ssm_cfg": {},
        "state_size": 16, "time_step_init_scheme": "random", "time_step_rank": 48, "torch_dtype": "float32",
        "use_bias": False, "use_conv_bias": True, "vocab_size": 50280,
    }  # fmt: skip
    assert total(config) == 129_135_360  # as Hugging Face shows it
    assert assumed(config)["tie_word_embeddings"] is True
    assert kv_bytes_per_token(model(config)) == 0
    assert total({**config, "time_step_rank": "auto"}) == total(config)  # 768 / 16
    assert "n_layer" in refused({**config, "n_layer": 23})
    assert "expand" in refused({**config, "expand": 3})


@pytest.mark.parametrize(
    ("model_type", "why"),
    [("zamba2", "adapter"), ("phi4flash", "SambaY")],
)  # fmt: skip
def test_families_that_are_not_understood(model_type: str, why: str) -> None:
    """Refused with the reason, not read as what they resemble."""
    assert why in refused({"model_type": model_type})
