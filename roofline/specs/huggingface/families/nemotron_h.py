"""Nemotron-H and Nemotron 3: layers that are one block each, Mamba-2, attention, an MLP or experts."""

from __future__ import annotations

from typing import Any

from roofline.errors import UnknownNameError
from roofline.specs.huggingface.config import Config
from roofline.specs.huggingface.draft import Draft, Layer, Section
from roofline.specs.huggingface.families import family, transformers
from roofline.specs.huggingface.latent import correction_biases
from roofline.specs.huggingface.parts import experts_of, gqa, lean, mlp, moe, mtp, stream
from roofline.specs.huggingface.recurrent import mamba2, state_dtype

# One letter a layer, one word a layer, and the words of later versions.
_LETTERS = {"M": "mamba", "*": "attention", "-": "mlp", "E": "moe"}
_WORDS = {word: word for word in _LETTERS.values()} | {"linear_attention": "mamba", "full_attention": "attention"}


@family("nemotron_h", architectures=("NemotronHForCausalLM",), source=transformers("nemotron_h"))
def nemotron_h(config: Config) -> Draft:
    """Attention has no positions and no biases; experts are not gated, and may work on a narrower stream (moe_latent_size)."""
    config.off("sliding_window", "attention_bias")
    config.harmless("partial_rotary_factor", "moe_shared_expert_overlap", "expand", "time_step_rank")
    config.harmless("mtp_hybrid_override_pattern", "mtp_layers_block_type")
    mtp(config, "num_nextn_predict_layers")
    kinds = _kinds(config)
    sections = {kind: _READERS[kind](config) for kind in dict.fromkeys(kinds)}
    config.harmless(*(name for kind, names in _KEYS.items() if kind not in sections for name in names))
    layers = [
        Layer(kind, mixer=sections[kind]) if kind in ("mamba", "attention") else Layer(kind, mlp=sections[kind])
        for kind in kinds
    ]
    return Draft(layers, stream(config, **state_dtype(config, "mamba_ssm_cache_dtype"), **correction_biases(layers)))


def _kinds(config: Config) -> list[str]:
    """What each layer is; num_hidden_layers, where it is given, has to agree."""
    letters: Any = config.raw("hybrid_override_pattern")
    listed: Any = config.raw("layers_block_type", "layer_types")
    name = "hybrid_override_pattern" if letters is not None else "layers_block_type"
    if letters is None and listed is None:
        config.text("hybrid_override_pattern", "layers_block_type")  # names the missing key
    found = []
    for key, given, known in (("hybrid_override_pattern", letters, _LETTERS), ("layers_block_type", listed, _WORDS)):
        if given is None:
            continue
        if not isinstance(given, (str if known is _LETTERS else list)) or not given:
            config.refuse(key, "must be a line of letters" if known is _LETTERS else "must be a list of words")
        if unknown := next((one for one in given if not isinstance(one, str) or one not in known), None):
            config.refuse(key, str(UnknownNameError("layer", str(unknown), known, list_all=True)))
        found.append([known[one] for one in given])
    if len(found) == 2 and found[0] != found[1]:
        config.needs("says other layers than layers_block_type", "hybrid_override_pattern", "layers_block_type")
    count = config.whole("num_hidden_layers", default=None)
    if count is not None and count != len(found[0]):
        config.refuse("num_hidden_layers", f"{count} is not the number of layers in {name} ({len(found[0])})")
    return found[0]


def _mamba(config: Config) -> Section:
    config.off("mamba_proj_bias")
    return mamba2(
        config,
        config.whole("mamba_num_heads"),
        config.whole("mamba_head_dim"),
        config.whole("n_groups", "mamba_n_groups"),
        config.whole("ssm_state_size"),
        conv_kernel=config.whole("conv_kernel", "mamba_d_conv"),
        conv_bias=config.flag("use_conv_bias", "mamba_conv_bias"),
        chunk_size=config.whole("chunk_size", "mamba_chunk_size"),
        use_bias=config.flag("use_bias"),
    )


def _attention(config: Config) -> Section:
    n_q, n_kv = config.whole("num_attention_heads"), config.whole("num_key_value_heads")
    config.divides(("num_key_value_heads", n_kv), ("num_attention_heads", n_q))
    return gqa(n_q, n_kv, config.whole("head_dim", "attention_head_dim"), rotary_dim=0)


def _mlp(config: Config) -> Section:
    return mlp(config.whole("intermediate_size"), bias=config.flag("mlp_bias"))


def _experts(config: Config) -> Section:
    experts, chosen = experts_of(config, ("n_routed_experts", "num_local_experts"))
    config.whole("n_shared_experts")
    config.only("n_shared_experts", 1, "the class has one shared expert, of moe_shared_expert_intermediate_size")
    more = lean(
        moe_latent_size=config.whole("moe_latent_size", default=None, why="absent: the experts work on the stream as it is"),
        shared_bias=config.flag("mlp_bias"),
    )
    width = config.whole("moe_intermediate_size")
    shared = config.whole("moe_shared_expert_intermediate_size")
    return {**moe(experts, chosen, width, shared_intermediate_size=shared), "gated": False, **more}


_READERS = {"mamba": _mamba, "attention": _attention, "mlp": _mlp, "moe": _experts}
# What only layers of a kind look at: in a model without such layers it says nothing.
_KEYS = {
    "mamba": (
        "mamba_num_heads", "mamba_head_dim", "n_groups", "ssm_state_size", "conv_kernel", "chunk_size", "use_conv_bias",
        "use_bias",
    ),
    "attention": ("num_attention_heads", "num_key_value_heads", "head_dim", "attention_head_dim"),
    "mlp": ("intermediate_size", "mlp_bias"),
    "moe": (
        "n_routed_experts", "num_local_experts", "num_experts_per_tok", "n_shared_experts", "moe_intermediate_size",
        "moe_shared_expert_intermediate_size", "moe_latent_size", "mlp_bias",
    ),
}  # fmt: skip
