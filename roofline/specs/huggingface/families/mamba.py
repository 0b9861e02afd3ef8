"""Mamba, Mamba-2 and Falcon-Mamba, whose layers are state-space mixers and nothing else, and Bamba: Mamba-2 with attention
in a few layers, where half of each head is rotated."""

from __future__ import annotations

from roofline.specs.huggingface.config import Config
from roofline.specs.huggingface.draft import Draft, Layer, Section
from roofline.specs.huggingface.families.base import family, transformers
from roofline.specs.huggingface.sections import gated_mlp, gqa, heads, layers_of, mamba2_of_bamba, model_keys, tied_and_dtype
from roofline.specs.huggingface.sections import mamba as mamba_1
from roofline.specs.huggingface.sections import mamba2 as mamba_2

# A state holds a sequence of any length; a model's file wants a number.
_POSITIONS = 1 << 20


@family("mamba", architectures=("MambaForCausalLM",), source=transformers("mamba"))
def mamba(config: Config) -> Draft:
    """Reads `mamba` configs: embeddings are tied where the key is absent, as in the models of state-spaces."""
    return Draft(_layers(config, _selective(config)), _stream(config, tie=True))


@family("falcon_mamba", architectures=("FalconMambaForCausalLM",), source=transformers("falcon_mamba"))
def falcon_mamba(config: Config) -> Draft:
    """Reads `falcon_mamba` configs: Mamba with norms of Delta, B and C that have no weights."""
    note = "The norms of Delta, B and C, which have no weights, are not among the operators."
    config.harmless("mixer_rms_eps", "use_falcon_mambapy")
    return Draft(_layers(config, _selective(config)), _stream(config), notes=[note])


@family("mamba2", architectures=("Mamba2ForCausalLM",), source=transformers("mamba2"))
def mamba2(config: Config) -> Draft:
    """Reads `mamba2` configs: heads of a given width fill all channels."""
    heads, width, inner = config.whole("num_heads"), config.whole("head_dim"), _inner(config)
    if heads * width != inner:
        config.refuse("num_heads", f"{heads} heads of {width} are not expand x hidden_size ({inner})")
    config.only("rms_norm", True, "the class has a norm with the gate")
    config.harmless("time_step_rank", "norm_before_gate")
    mixer = mamba_2(
        config,
        heads,
        width,
        config.whole("n_groups"),
        config.whole("state_size"),
        conv_kernel=config.whole("conv_kernel"),
        conv_bias=config.flag("use_conv_bias"),
        chunk_size=config.whole("chunk_size"),
        use_bias=config.flag("use_bias"),
    )
    return Draft(_layers(config, mixer), _stream(config))


def _selective(config: Config) -> Section:
    config.only("rms_norm", True, "the class has RMSNorm")
    return mamba_1(
        config,
        _inner(config),
        state="state_size",
        rank="time_step_rank",
        kernel="conv_kernel",
        conv_bias="use_conv_bias",
        bias="use_bias",
    )


def _inner(config: Config) -> int:
    """Channels: expand x hidden_size, which older configs give as well."""
    inner = int(config.whole("expand") * config.whole("hidden_size", "d_model"))
    given = config.whole("intermediate_size", "d_inner", default=inner)
    if config.data.get("model_type") == "falcon_mamba":
        return int(given)  # published with an expand that means nothing beside it
    if given != inner:
        config.needs(f"{given} is not expand x hidden_size ({inner})", "intermediate_size", "expand")
    return inner


def _layers(config: Config, mixer: Section) -> list[Layer]:
    config.off("ssm_cfg", "attn_layer_idx", "attn_cfg", "d_intermediate")
    config.harmless("fused_add_norm", "pad_vocab_size_multiple", "use_mambapy", "use_associative_scan", "time_step_init_scheme")
    return [Layer("mamba", mixer)] * config.whole("num_hidden_layers", "n_layer")


def _stream(config: Config, **tie: bool) -> Section:
    positions = config.whole("max_position_embeddings", default=None)
    if positions is None:
        positions = _POSITIONS
        config.note("max_position_embeddings", positions, "config.json names none: a state holds a sequence of any length")
    return {
        "hidden_size": config.whole("hidden_size", "d_model"),
        "vocab_size": config.whole("vocab_size"),
        "max_position_embeddings": positions,
        **tied_and_dtype(config, **tie),
    }


@family("bamba", architectures=("BambaForCausalLM",), source=transformers("bamba"))
def bamba(config: Config) -> Draft:
    """Reads `bamba` configs: which layers have attention is listed; all others have Mamba-2."""
    config.harmless("attn_rotary_emb")  # half of a head, as the class has it, whatever this says
    count = layers_of(config)
    attention = set(config.indices("attn_layer_indices", count))
    n_q, n_kv, head_dim = heads(config)
    biased = config.flag("attention_bias", default=False)
    mixers = {
        True: gqa(n_q, n_kv, head_dim, qkv_bias=biased, o_bias=biased, rotary_dim=head_dim // 2),
        False: mamba2_of_bamba(config),
    }
    mlp = gated_mlp(config.whole("intermediate_size"), bias=config.flag("mlp_bias", default=False))
    layers = [Layer("attention" if index in attention else "mamba", mixers[index in attention], mlp) for index in range(count)]
    return Draft(layers, model_keys(config))
