"""Traps in the configs of classic families, each with numbers that can be checked by hand."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from golden.oracle.classic_configs import PUBLISHED, Keys

from roofline.blocks.config_json import read
from roofline.blocks.model import Model
from roofline.errors import SpecError
from roofline.predict.parameters import count_parameters, kv_bytes_per_token
from roofline.specs.huggingface.document import parse_json
from roofline.specs.huggingface.read import Origin


def model(config: Keys) -> Model:
    return read(parse_json(json.dumps(config, indent=1), "config.json"), Origin("test", "Test"))


def total(config: Keys) -> int:
    return count_parameters(model(config)).total


def without(config: Keys, *names: str) -> Keys:
    return {key: value for key, value in config.items() if key not in names}


def refused(config: Keys) -> str:
    with pytest.raises(SpecError) as caught:
        model(config)
    return str(caught.value)


def mixers(config: Keys) -> list[Keys]:
    """The mixer of every layer."""
    found = model(config)
    return [found.layer_types[name].mixer.model_dump() for name in found.layer_sequence]  # type: ignore[union-attr]


def assumed(config: Keys) -> dict[str, object]:
    return {choice.name: choice.value for choice in model(config).assumptions}


# What Hugging Face shows as the size of each checkpoint (of those that hold no tensor twice).
SIZES = {
    "openai-community/gpt2-xl": 1_557_611_200,
    "bigcode/starcoder": 15_517_456_384,
    "EleutherAI/gpt-neox-20b": 20_554_567_680,
    "EleutherAI/pythia-6.9b": 6_857_302_016,
    "bigcode/starcoder2-3b": 3_030_371_328,
    "bigcode/starcoder2-7b": 7_173_923_840,
    "facebook/opt-125m": 125_239_296,
    "facebook/opt-350m": 331_196_416,
    "CohereForAI/c4ai-command-r-plus": 103_810_674_688,
    "CohereForAI/c4ai-command-r7b-12-2024": 8_028_033_024,
    "allenai/OLMo-2-1124-7B": 7_298_617_344,
    "microsoft/phi-2": 2_779_683_840,
    "microsoft/phi-4": 14_659_507_200,
    "microsoft/Phi-4-mini-instruct": 3_836_021_760,
    "microsoft/Phi-3.5-MoE-instruct": 41_873_153_344,
    "mistralai/Mistral-Large-Instruct-2407": 122_610_069_504,
    "mistralai/Mistral-Small-24B-Instruct-2501": 23_572_403_200,
    "mistralai/Mixtral-8x22B-v0.1": 140_620_634_112,
    "bigscience/bloom": 176_247_271_424,
    "mosaicml/mpt-7b": 6_649_286_656,
    "HuggingFaceTB/SmolLM3-3B": 3_075_098_624,
    "ByteDance-Seed/Seed-OSS-36B-Instruct": 36_151_104_512,
}


@pytest.mark.parametrize("name", SIZES)
def test_published_sizes(name: str) -> None:
    assert total(PUBLISHED[name]) == SIZES[name]


# Every key of every config, left out, nulled or misspelt.


def paths(keys: Keys, place: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    for key, value in keys.items():
        yield (*place, key)
        if isinstance(value, dict):
            yield from paths(value, (*place, key))


def changed(config: Keys, place: tuple[str, ...], how: str) -> Keys:
    copied: Keys = json.loads(json.dumps(config))
    inner = copied
    for key in place[:-1]:
        inner = inner[key]
    value = inner.pop(place[-1])
    if how != "left out":
        inner[place[-1] + ("_" if how == "misspelt" else "")] = None if how == "nulled" else value
    return copied


def counts(config: Keys) -> tuple[int, int, int, list[object]]:
    found = model(config)
    windows = [getattr(found.layer_types[name].mixer, "sliding_window", None) for name in found.layer_sequence]
    return (*(getattr(count_parameters(found), name) for name in ("total", "active")), kv_bytes_per_token(found), windows)


# Where the classes have a rule for an absent key or for null, on which published configs rely.
RULES = {
    "num_key_value_heads": ("nulled",),  # as many as query heads
    "sliding_window": ("nulled",),  # full attention
    "head_dim": ("left out", "nulled"),  # hidden_size over the heads
    "num_ln_in_parallel_attn": ("left out", "nulled"),  # Falcon: two norms
    "tie_word_embeddings": ("left out",),  # true: what save_pretrained leaves out
    "use_parallel_residual": ("left out",),  # came after the first configs of GPT-NeoX and StableLM
    "qk_layernorm": ("left out",),  # came after the first configs of StableLM
    "use_qk_norm": ("left out",),  # came after Command R; see below
}


@pytest.mark.parametrize("name", PUBLISHED)
@pytest.mark.parametrize("how", ["left out", "nulled", "misspelt"])
def test_no_key_is_missed_in_silence(name: str, how: str) -> None:
    """Without a key that matters, a config is refused, and the message names the key."""
    config = PUBLISHED[name]
    wanted = counts(config)
    for place in paths(config):
        try:
            found = counts(changed(config, place, how))
        except SpecError as error:
            named = place[-1] in str(error) or place == ("text_config",)
        else:
            named = found == wanted or how in RULES.get(place[-1], ())
        assert named, place


# GPT-2 and what came of it


def test_gpt2_defaults() -> None:
    """n_inner null or absent is four times n_embd; the LM head is tied, which the file does not say."""
    gpt2 = PUBLISHED["openai-community/gpt2-xl"]
    assert model(gpt2).layer_types["decoder"].mlp.intermediate_size == 6400  # type: ignore[union-attr]
    assert total({**gpt2, "n_inner": None}) == total({**gpt2, "n_inner": 6400}) == total(gpt2)
    assert total({**gpt2, "tie_word_embeddings": False}) - total(gpt2) == 50257 * 1600


def test_multi_query_of_a_gpt2_is_refused() -> None:
    """SantaCoder's first config calls itself gpt2 and is none."""
    assert "attention_head_type" in refused({**PUBLISHED["openai-community/gpt2-xl"], "attention_head_type": "multiquery"})


def test_old_and_new_names_must_agree() -> None:
    gpt2 = PUBLISHED["openai-community/gpt2-xl"]
    assert total({**without(gpt2, "n_embd"), "hidden_size": 1600}) == total(gpt2)
    assert "different things" in refused({**gpt2, "hidden_size": 1024})


def test_opt_350m_needs_both_of_its_keys() -> None:
    """Either without the other would pass for another shape of OPT."""
    opt = PUBLISHED["facebook/opt-350m"]
    assert "word_embed_proj_dim" in refused(without(opt, "word_embed_proj_dim"))
    assert "do_layer_norm_before" in refused(without(opt, "do_layer_norm_before"))
    assert total(without(PUBLISHED["facebook/opt-66b"], "word_embed_proj_dim")) == total(PUBLISHED["facebook/opt-66b"])


def test_opt_positions_and_last_norm() -> None:
    """Two rows more than positions; a flag with an underscore takes the last norm (weight and bias) away."""
    opt = PUBLISHED["facebook/opt-125m"]
    assert model(opt).learned_positions == 2050
    assert total(opt) - total({**opt, "_remove_final_layer_norm": True}) == 2 * 768


# Falcon

REFINED_WEB: Keys = {
    "model_type": "RefinedWeb",
    "alibi": False,
    "architectures": ["RWForCausalLM"],
    "bias": False,
    "hidden_size": 8192,
    "n_head": 128,
    "n_head_kv": 8,
    "n_layer": 60,
    "parallel_attn": True,
    "vocab_size": 65024,
}


def test_falcon_under_its_first_name() -> None:
    """RefinedWeb is the new decoder, RefinedWebModel the old one."""
    assert model(REFINED_WEB).layer_types == model(PUBLISHED["tiiuae/falcon-40b"]).layer_types
    old = {**without(REFINED_WEB, "n_head_kv"), "model_type": "RefinedWebModel", "multi_query": True}
    assert mixers(old)[0]["num_key_value_heads"] == 1
    assert model(old).layer_types["decoder"].parallel_norms == 1


def test_falcon_ignores_kv_heads_of_the_old_decoder() -> None:
    """multi_query is one KV head whatever num_kv_heads says; without it there are as many as query heads."""
    falcon = {**PUBLISHED["tiiuae/falcon-40b"], "new_decoder_architecture": False, "num_kv_heads": 128}
    assert mixers(falcon)[0]["num_key_value_heads"] == 1
    assert mixers({**falcon, "multi_query": False})[0]["num_key_value_heads"] == 128
    assert "num_kv_heads" in refused({**falcon, "multi_query": False, "num_kv_heads": 8})
    assert "parallel_attn" in refused({**PUBLISHED["tiiuae/falcon-40b"], "parallel_attn": False})


def test_falcon_norms() -> None:
    """Two of them in the new decoder (weight and bias of 8192 in each of 60 layers), unless one is asked for."""
    falcon = PUBLISHED["tiiuae/falcon-40b"]
    assert total(falcon) - total({**falcon, "num_ln_in_parallel_attn": 1}) == 60 * 2 * 8192
    assert "num_ln_in_parallel_attn" in refused({**falcon, "num_ln_in_parallel_attn": 3})


# Windows


def test_a_window_over_the_longest_context_is_none() -> None:
    """Phi-4-mini: 262144 of 131072 positions; Phi-3.5-MoE: as many. Both are on record."""
    for name in ("microsoft/Phi-4-mini-instruct", "microsoft/Phi-3.5-MoE-instruct"):
        config = PUBLISHED[name]
        assert {mixer["sliding_window"] for mixer in mixers(config)} == {None}
        assert assumed(config)["sliding_window"] == config["sliding_window"]
        assert {mixer["sliding_window"] for mixer in mixers({**config, "sliding_window": 2047})} == {2047}


def test_every_fourth_layer_without_a_list() -> None:
    """Command R7B: 24 layers of 4096 tokens with rotated heads, 8 of all tokens without."""
    command = PUBLISHED["CohereForAI/c4ai-command-r7b-12-2024"]
    for config in (
        command,
        without(command, "sliding_window_pattern"),
        without(command, "sliding_window_pattern", "layer_switch"),
    ):
        found = [(mixer["sliding_window"], mixer["rotary_dim"]) for mixer in mixers(config)]
        assert found == [(4096, None), (4096, None), (4096, None), (None, 0)] * 8
    assert "layer_switch" in refused({**command, "layer_switch": 2})


def test_lists_of_layers() -> None:
    """One entry for each layer, of known kinds; in a mistral config they may not differ."""
    nemo = PUBLISHED["mistralai/Mistral-Small-24B-Instruct-2501"]
    mixed = ["full_attention", "sliding_attention"] * 20
    assert "layer_types" in refused({**nemo, "layer_types": mixed, "sliding_window": 4096})
    assert "sliding_window" in refused({**nemo, "model_type": "ministral", "layer_types": mixed})
    ministral = {**nemo, "model_type": "ministral", "layer_types": mixed, "sliding_window": 4096}
    assert [mixer["sliding_window"] for mixer in mixers(ministral)] == [None, 4096] * 20
    assert "39" in refused({**ministral, "layer_types": mixed[1:]})
    assert "sliding_attention" in refused({**ministral, "layer_types": ["sliding_atention", *mixed[1:]]})


def test_smollm_window_counts_only_when_it_is_used() -> None:
    smol = {**PUBLISHED["HuggingFaceTB/SmolLM3-3B"], "sliding_window": 512}
    assert {mixer["sliding_window"] for mixer in mixers(smol)} == {None}
    used = without({**smol, "use_sliding_window": True}, "layer_types")
    assert [mixer["sliding_window"] for mixer in mixers(used)] == [None, None, None, 512] * 9


# Switches that came late, and those that are known one way only


def test_command_r_plus_without_its_norms() -> None:
    """Command R was published before the key was made; what a later version wrote has to have it."""
    command = without(PUBLISHED["CohereForAI/c4ai-command-r-plus"], "use_qk_norm")
    assert assumed({**command, "transformers_version": "4.38.2"})["use_qk_norm"] is False
    assert "use_qk_norm" in refused({**command, "transformers_version": "4.40.0.dev0"})
    norms = 64 * (96 + 8) * 128  # a weight for each element of each query and KV head, in 64 layers
    assert total(PUBLISHED["CohereForAI/c4ai-command-r-plus"]) - total(command) == norms


def test_multimodal_mistral() -> None:
    """The text model's class unties the LM head, and its config does not say so."""
    small = PUBLISHED["mistralai/Mistral-Small-3.1-24B-Instruct-2503"]
    assert model(small).tie_word_embeddings is False
    inside = {**small["text_config"], "tie_word_embeddings": True}
    assert model({**small, "text_config": inside}).tie_word_embeddings is True


@pytest.mark.parametrize(
    ("name", "changes"),
    [
        ("microsoft/Phi-4-mini-instruct", {"full_attn_mod": 2}),
        ("microsoft/phi-4", {"attention_bias": True}),
        ("mistralai/Mixtral-8x22B-v0.1", {"attention_bias": True}),
        ("bigcode/starcoder2-3b", {"mlp_type": "gated"}),
        ("bigcode/starcoder2-3b", {"norm_type": "rms_norm"}),
        ("EleutherAI/gpt-neox-20b", {"num_key_value_heads": 8}),
        ("CohereForAI/c4ai-command-r7b-12-2024", {"use_parallel_block": False}),
        ("mosaicml/mpt-7b", {"no_bias": False}),
        ("mosaicml/mpt-7b", {"expansion_ratio": 3}),
        ("tiiuae/falcon-40b", {"ff_factor": 2}),
        ("baidu/ERNIE-4.5-21B-A3B-PT", {"use_bias": True}),
        ("mistralai/Mixtral-8x22B-v0.1", {"num_experts_per_tok": 9}),
        ("microsoft/phi-4", {"num_key_value_heads": 7}),
    ],
)
def test_refused_by_name(name: str, changes: Keys) -> None:
    message = refused({**PUBLISHED[name], **changes})
    assert all(key in message for key in changes)


def test_phi_3_small_is_no_phi_3() -> None:
    assert "block-sparse" in refused({**PUBLISHED["microsoft/phi-4"], "model_type": "phi3small"})


def test_keys_of_parts_are_looked_at() -> None:
    """What stands in an object of its own is as strict as the rest."""
    dbrx = PUBLISHED["databricks/dbrx-instruct"]
    unknown = {**dbrx["ffn_config"], "num_shared_experts": 1}
    assert "ffn_config.num_shared_experts" in refused({**dbrx, "ffn_config": unknown})
    missing = without(dbrx["attn_config"], "kv_n_heads")
    assert "attn_config.kv_n_heads" in refused({**dbrx, "attn_config": missing})
    assert "kv_n_heads" in refused({**dbrx, "attn_config": {**dbrx["attn_config"], "kv_n_heads": 7}})


def test_phi_under_its_first_names() -> None:
    phi = PUBLISHED["microsoft/phi-2"]
    old = {
        "model_type": "phi-msft",
        "architectures": ["PhiForCausalLM"],
        "n_embd": 2560,
        "n_head": 32,
        "n_head_kv": None,
        "n_inner": None,
        "n_layer": 32,
        "n_positions": 2048,
        "rotary_dim": 32,
        "tie_word_embeddings": False,
        "vocab_size": 51200,
    }
    assert model(old).layer_types == model(phi).layer_types  # 0.4 of 80 elements are rotated
    assert total(old) == total(phi)


def test_ernie_layers() -> None:
    """Layer 0 is dense; the others have 64 experts and two shared ones, one block of twice the width."""
    ernie = PUBLISHED["baidu/ERNIE-4.5-21B-A3B-PT"]
    found = model(ernie)
    assert found.layer_sequence == ("dense", *["moe"] * 27)
    assert found.layer_types["moe"].mlp.shared_intermediate_size == 2 * 1536  # type: ignore[union-attr]
    assert model({**ernie, "moe_layer_interval": 2, "moe_layer_end_index": 9}).layer_sequence[:12] == (
        *["dense", "moe"] * 5, "dense", "dense"
    )  # fmt: skip


def test_nemotron_width_of_heads() -> None:
    """Minitron-8B: 4096 over 48 heads is no whole number; its first config calls the width kv_channels."""
    minitron = {
        **without(PUBLISHED["nvidia/Minitron-4B-Base"], "head_dim"),
        "hidden_size": 4096,
        "num_attention_heads": 48,
    }
    assert "num_attention_heads" in refused(minitron)
    assert mixers({**minitron, "kv_channels": 128})[0]["head_dim"] == 128
