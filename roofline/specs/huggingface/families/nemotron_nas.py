"""Models that a search made out of Llama (Nemotron 49B, 51B, 253B; DeciLM): every layer has blocks of its own sizes."""

from __future__ import annotations

from roofline.specs.huggingface.config import Config
from roofline.specs.huggingface.draft import Draft, Layer, Section
from roofline.specs.huggingface.families import family
from roofline.specs.huggingface.parts import gated_mlp, gqa, layers_of, stream, width_of_head

_SOURCE = "https://huggingface.co/nvidia/Llama-3_3-Nemotron-Super-49B-v1/blob/main/modeling_decilm.py"


@family("nemotron-nas", types=("deci",), architectures=("DeciLMForCausalLM",), source=_SOURCE)
def nemotron_nas(config: Config) -> Draft:
    """`block_configs` say for each layer how many query heads share a KV head, and how wide its MLP is; a block may be left
    out (no_op), or be one matrix (replace_with_linear)."""
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
        mixer = _attention(block.part("attention"), n_q, head_dim, bias=biases[0])
        mlp = _feed_forward(block.part("ffn"), config.whole("hidden_size"), bias=biases[1])
        block.off("parallel_blocks")
        block.finish()
        if mixer is None and mlp is None:
            empty += 1
        else:
            layers.append(Layer(_name(mixer, mlp), mixer, mlp))
    notes = [f"{empty} of the {count} layers hold no block, pass their input on, and are left out."] if empty else []
    return Draft(layers, stream(config), notes)


def _decilm(config: Config, n_q: int, head_dim: int) -> Draft:
    """DeciLM, the first of them: layers differ in their KV heads alone."""
    config.off("block_configs", "num_key_value_heads")
    heads = config.wholes("num_key_value_heads_per_layer", layers_of(config), low=1)
    for n_kv in heads:
        config.divides(("num_key_value_heads_per_layer", n_kv), ("num_attention_heads", n_q))
    biased, mlp_bias = config.flag("attention_bias", default=False), config.flag("mlp_bias", default=False)
    mlp = gated_mlp(config.whole("intermediate_size"), bias=mlp_bias)
    layers = [Layer("decoder", gqa(n_q, n_kv, head_dim, qkv_bias=biased, o_bias=biased), mlp) for n_kv in heads]
    return Draft(layers, stream(config))


def _name(mixer: Section | None, mlp: Section | None) -> str:
    """What is left out or is one matrix; layers that differ in sizes alone are numbered."""
    found = ["" if mixer else "mlp_only", "linear_attention" if mixer and mixer["kind"] == "linear_mixer" else ""]
    found += ["" if mlp else "attention_only", "linear_mlp" if mlp and mlp["kind"] == "linear_mlp" else ""]
    return "_".join(filter(None, found)) or "decoder"


def _attention(block: Config, n_q: int, head_dim: int, *, bias: bool) -> Section | None:
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
