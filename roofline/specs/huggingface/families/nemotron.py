"""Nemotron: three families of NVIDIA's that share a name.

Nemotron 3 and 4 and Minitron have a plain feed-forward block (squared ReLU). Layers of Nemotron-H and Nemotron 3 Nano are
one block each, Mamba-2, attention, an MLP or experts. Models that a search made out of Llama (Nemotron 49B, 51B, 253B;
DeciLM) have blocks of their own sizes in every layer.
"""

from __future__ import annotations

from typing import Any

from roofline.errors import UnknownNameError
from roofline.specs.huggingface.config import Config
from roofline.specs.huggingface.draft import Draft, Layer, Section
from roofline.specs.huggingface.families.base import family, transformers, vllm
from roofline.specs.huggingface.families.gpt import LAYERNORM
from roofline.specs.huggingface.sections import (
    correction_biases,
    experts_of,
    gated_mlp,
    gqa,
    heads,
    layers_of,
    mamba2,
    mlp,
    model_keys,
    moe,
    mtp,
    rotary,
    state_dtype,
    width_of_head,
    without_absent,
)


@family("nemotron", architectures=("NemotronForCausalLM",), source=transformers("nemotron"))
def nemotron(config: Config) -> Draft:
    """Reads `nemotron` configs.

    One bias switch for the four projections of attention, one for the two of the feed-forward block.
    """
    n_q, n_kv, head_dim = heads(config, widths=("head_dim", "kv_channels"))
    why = "the default of the class, which came after Minitron"
    biased = config.flag("attention_bias", default=False, why=why)
    share = rotary(config, head_dim, 0.5, "rope_percent", "rotary_percent", "rotary_percentage")
    layer = Layer(
        "decoder",
        gqa(n_q, n_kv, head_dim, **share, qkv_bias=biased, o_bias=biased),
        mlp(config.whole("intermediate_size"), bias=config.flag("mlp_bias", default=False, why=why)),
    )
    return Draft([layer] * layers_of(config), model_keys(config, norm=LAYERNORM))


# One letter per layer, one word per layer, and the words of later versions.
_LETTERS = {"M": "mamba", "*": "attention", "-": "mlp", "E": "moe"}
_WORDS = {word: word for word in _LETTERS.values()} | {"linear_attention": "mamba", "full_attention": "attention"}


@family("nemotron_h", architectures=("NemotronHForCausalLM",), source=transformers("nemotron_h"))
def nemotron_h(config: Config) -> Draft:
    """Reads `nemotron_h` configs.

    Attention has no positions and no biases; experts are not gated, and may work on a narrower stream (moe_latent_size).
    """
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
    return Draft(layers, model_keys(config, **state_dtype(config, "mamba_ssm_cache_dtype"), **correction_biases(layers)))


@family("nemotron_h_puzzle", architectures=("NemotronHPuzzleForCausalLM",), source=vllm("nemotron_h"))
def nemotron_h_puzzle(config: Config) -> Draft:
    """Reads `nemotron_h_puzzle` configs: Nemotron-H whose `block_configs` say what each layer is, and its own sizes.

    A key of a block holds for its layer; what it leaves out stands beside the list, once for all layers.
    """
    listed: Any = config.raw("block_configs")
    if not isinstance(listed, list) or not listed or not all(isinstance(block, dict) for block in listed):
        config.refuse("block_configs", "must be a list of objects, one for each layer")
    config.off("sliding_window", "attention_bias")
    config.harmless("partial_rotary_factor", "moe_shared_expert_overlap", "expand", "time_step_rank", "blockwise_members")
    config.harmless("mtp_hybrid_override_pattern", "mtp_layers_block_type", "mtp_block_configs", "mtp_n_routed_experts")
    mtp(config, "num_nextn_predict_layers")
    kinds, layers = [], []
    for index, data in enumerate(listed):
        around = {key: value for key, value in config.data.items() if key != "block_configs"}
        block = Config(config.document, data, (*config.place, "block_configs", index), around, lenient=config.lenient)
        kind = _WORDS[block.choice("block_type", of=_WORDS)]
        window = block.whole("sliding_window", default=None) if kind == "attention" else None
        section = _READERS[kind](block) | ({} if window is None else {"sliding_window": window})
        block.harmless("routed_scaling_factor", "n_group", "topk_group", "norm_topk_prob")
        block.finish()
        config.harmless(*block.requested)
        config.readings += block.readings
        kinds.append(kind)
        layers.append(Layer(kind, **{"mixer" if kind in ("mamba", "attention") else "mlp": section}))
    if any(config.has(key) for key in ("hybrid_override_pattern", "layers_block_type", "layer_types")):
        if _kinds(config) != kinds:
            config.needs("says other layers than block_configs", "hybrid_override_pattern")
    elif config.whole("num_hidden_layers", default=len(kinds)) != len(kinds):
        config.refuse("num_hidden_layers", f"is not the number of layers in block_configs ({len(kinds)})")
    config.harmless(*(name for kind, names in _KEYS.items() if kind not in kinds for name in names))
    return Draft(layers, model_keys(config, **state_dtype(config, "mamba_ssm_cache_dtype"), **correction_biases(layers)))


def _kinds(config: Config) -> list[str]:
    """What each layer is; num_hidden_layers, where it is given, has to agree."""
    letters: Any = config.raw("hybrid_override_pattern")
    listed: Any = config.raw("layers_block_type", "layer_types")
    name = "hybrid_override_pattern" if letters is not None else "layers_block_type"
    if letters is None and listed is None:
        config.text("hybrid_override_pattern", "layers_block_type")  # names the missing key
    spellings = []
    for key, given, known in (("hybrid_override_pattern", letters, _LETTERS), ("layers_block_type", listed, _WORDS)):
        if given is None:
            continue
        if not isinstance(given, (str if known is _LETTERS else list)) or not given:
            config.refuse(key, "must be a line of letters" if known is _LETTERS else "must be a list of words")
        if unknown := next((one for one in given if not isinstance(one, str) or one not in known), None):
            config.refuse(key, str(UnknownNameError("layer", str(unknown), known, list_all=True)))
        spellings.append([known[one] for one in given])
    if len(spellings) == 2 and spellings[0] != spellings[1]:
        config.needs("says other layers than layers_block_type", "hybrid_override_pattern", "layers_block_type")
    count = config.whole("num_hidden_layers", default=None)
    if count is not None and count != len(spellings[0]):
        config.refuse("num_hidden_layers", f"{count} is not the number of layers in {name} ({len(spellings[0])})")
    return spellings[0]


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
    more = without_absent(
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


_SOURCE = "https://huggingface.co/nvidia/Llama-3_3-Nemotron-Super-49B-v1/blob/main/modeling_decilm.py"


@family("nemotron-nas", types=("deci",), architectures=("DeciLMForCausalLM",), source=_SOURCE)
def nemotron_nas(config: Config) -> Draft:
    """Reads `nemotron-nas` configs.

    `block_configs` say for each layer how many query heads share a KV head, and how wide its MLP is; a block may be left out
    (no_op), or be one matrix (replace_with_linear).
    """
    count, n_q = layers_of(config), config.whole("num_attention_heads")
    head_dim = width_of_head(config, n_q)
    if config.has("num_key_value_heads_per_layer"):
        return _decilm(config, n_q, head_dim)
    blocks = config.raw("block_configs")
    if not isinstance(blocks, list) or len(blocks) != count or not all(isinstance(block, dict) for block in blocks):
        size = f"it has {len(blocks)}" if isinstance(blocks, list) else "there is none"
        config.refuse("block_configs", f"must be a list with an object for each of the {count} layers; {size}")
    config.off("num_key_value_heads", "intermediate_size")  # the blocks say
    biases = config.flag("attention_bias", default=False), config.flag("mlp_bias", default=False)
    layers, empty = [], 0
    for index, data in enumerate(blocks):
        block = Config(config.document, data, (*config.place, "block_configs", index), lenient=config.lenient)
        mixer = _replaced_attention(block.part("attention"), n_q, head_dim, bias=biases[0])
        mlp = _feed_forward(block.part("ffn"), config.whole("hidden_size"), bias=biases[1])
        block.off("parallel_blocks")
        block.finish()
        if mixer is None and mlp is None:
            empty += 1
        else:
            layers.append(Layer(_name(mixer, mlp), mixer, mlp))
    notes = [f"{empty} of the {count} layers hold no block, pass their input on, and are left out."] if empty else []
    return Draft(layers, model_keys(config), notes)


def _decilm(config: Config, n_q: int, head_dim: int) -> Draft:
    """DeciLM, the first of them: layers differ in their KV heads alone."""
    config.off("block_configs", "num_key_value_heads")
    heads = config.wholes("num_key_value_heads_per_layer", layers_of(config), low=1)
    for n_kv in heads:
        config.divides(("num_key_value_heads_per_layer", n_kv), ("num_attention_heads", n_q))
    biased, mlp_bias = config.flag("attention_bias", default=False), config.flag("mlp_bias", default=False)
    mlp = gated_mlp(config.whole("intermediate_size"), bias=mlp_bias)
    layers = [Layer("decoder", gqa(n_q, n_kv, head_dim, qkv_bias=biased, o_bias=biased), mlp) for n_kv in heads]
    return Draft(layers, model_keys(config))


def _name(mixer: Section | None, mlp: Section | None) -> str:
    """What is left out or is one matrix; layers that differ in sizes alone are numbered."""
    features = ["" if mixer else "mlp_only", "linear_attention" if mixer and mixer["kind"] == "linear_mixer" else ""]
    features += ["" if mlp else "attention_only", "linear_mlp" if mlp and mlp["kind"] == "linear_mlp" else ""]
    return "_".join(filter(None, features)) or "decoder"


def _replaced_attention(block: Config, n_q: int, head_dim: int, *, bias: bool) -> Section | None:
    block.off("sparsify", "window_length", "num_sink_tokens", "unshifted_sink", "use_prefill_window_in_sink_attention")
    block.off("mamba", "llama4")
    absent, linear = block.flag("no_op", default=False), block.flag("replace_with_linear", default=False)
    block.harmless("n_heads_in_group")
    if absent or linear:
        block.finish()
        return None if absent else _linear("linear_mixer", bias=bias)
    shared = block.whole("n_heads_in_group")
    block.divides(("n_heads_in_group", shared), ("num_attention_heads", n_q))
    block.finish()
    return gqa(n_q, n_q // shared, head_dim, qkv_bias=bias, o_bias=bias)


def _feed_forward(block: Config, hidden_size: int, *, bias: bool) -> Section | None:
    block.off("sparsify", "moe")
    absent, linear = block.flag("no_op", default=False), block.flag("replace_with_linear", default=False)
    given, factor = block.whole("intermediate_size", default=None), block.raw("ffn_mult")
    if absent or linear:
        block.finish()
        return None if absent else _linear("linear_mlp", bias=bias)
    if given is None:
        if isinstance(factor, bool) or not isinstance(factor, (int, float)) or factor <= 0:
            block.refuse("ffn_mult", f"must be a number above 0, not {factor!r}")
        given = -(-int(2 * factor * hidden_size / 3) // 256) * 256  # two thirds, in steps of 256
    block.finish()
    return gated_mlp(given, bias=bias)


def _linear(kind: str, *, bias: bool) -> Section:
    return {"kind": kind, **({"bias": True} if bias else {})}
