"""The weights that a model holds, one by one: what each is, its shape, and the role by which it may be quantised.

Keys are ours and say what a weight does (`attention.q`, `experts.down`); `names` says what checkpoints of a family call it.
A matrix has the outputs of its product first, as PyTorch stores it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from roofline.errors import InputError
from roofline.specs.model import LayerType, Model

Shape = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Weight:
    """A matrix, a table or a vector. `role` is that of the operator which holds it, and empty for what is never quantised;
    `bias` is the length of the bias beside it (0: none); `copies` are experts that have one each, `heads` those that have a
    part of it each (0: none)."""

    key: str
    shape: Shape
    role: str = ""
    bias: int = 0
    copies: int = 0
    heads: int = 0


def outside(model: Model) -> Iterator[Weight]:
    """What stands before and behind the layers."""
    hidden, width = model.hidden_size, model.embedding_width
    yield Weight("embedding", (model.vocab_size, width), "embedding")
    if model.learned_positions:
        yield Weight("positions", (model.learned_positions, hidden), "embedding")
    if model.embedding_norm:
        yield _norm(model, "embedding_norm")
    if model.word_embed_proj_dim is not None:
        yield Weight("project_in", (hidden, width), "linear/projection")
        yield Weight("project_out", (width, hidden), "linear/projection")
    if model.hidden_size_per_layer_input:
        rows, joint = model.per_layer_embedding
        yield Weight("per_layer.embedding", (rows, joint), "embedding")
        yield Weight("per_layer.projection_of_stream", (joint, hidden), "linear/projection")
        yield Weight("per_layer.norm_of_stream", (model.hidden_size_per_layer_input,))
    if model.hc_mult is not None:
        yield from _hyper(model, "final", model.hc_mult, 1)
    if model.final_norm and model.norm.weight:
        yield _norm(model, "final_norm")
    if not model.tie_word_embeddings:
        yield Weight("lm_head", (model.vocab_size, width), "lm_head", bias=model.vocab_size * model.lm_head_bias)
    elif model.lm_head_bias:
        yield Weight("lm_head_bias", (model.vocab_size,))


def of_layer(model: Model, layer: LayerType) -> Iterator[Weight]:
    """One layer's: norms, blocks, and what a model adds to every layer.

    Raises:
        InputError: the layer has a kind of block whose weights are not listed here.
    """
    if model.norm.weight:
        yield from (_norm(model, f"norm.{place}") for place in _places(layer))
    for block in (layer.mixer, layer.mlp):
        if block is not None:
            if block.kind not in _KINDS:
                msg = f"how checkpoints store the weights of a {block.kind} block is not known"
                raise InputError(msg)
            if model.hc_mult is not None:
                yield from _hyper(model, block.role, (2 + model.hc_mult) * model.hc_mult, 3)
            yield from _KINDS[block.kind](block, model)
    if width := model.hidden_size_per_layer_input:
        yield Weight("per_layer.gate", (width, model.hidden_size), "linear/projection")
        yield Weight("per_layer.projection", (model.hidden_size, width), "linear/projection")
        yield Weight("per_layer.norm", (model.hidden_size,))


def _norm(model: Model, key: str) -> Weight:
    return Weight(key, (model.hidden_size,), bias=model.hidden_size * model.norm.bias)


def _places(layer: LayerType) -> list[str]:
    """Where the norms stand: how they are arranged, and the block that each belongs to."""
    blocks = [name for name, block in (("mixer", layer.mixer), ("mlp", layer.mlp)) if block is not None]
    if layer.parallel:
        return ["parallel.mixer", "parallel.mlp"] if layer.parallel_norms == len(blocks) else ["parallel"]
    kinds = {"pre": ("before",), "post": ("after",), "both": ("before", "after")}[layer.norms]
    return [f"{layer.norms}.{kind}_{name}" for name in blocks for kind in kinds]


def _hyper(model: Model, place: str, coefficients: int, scales: int) -> Iterator[Weight]:
    """Hyper-connections: a matrix and an offset for the coefficients, and scales for groups of them."""
    yield Weight(f"hyper.{place}.fn", (coefficients, model.residual_width))
    yield Weight(f"hyper.{place}.base", (coefficients,))
    yield Weight(f"hyper.{place}.scale", (scales,))


def _gqa(block: Any, model: Model) -> Iterator[Weight]:
    hidden, n_q, n_kv, d = model.hidden_size, block.num_attention_heads, block.num_key_value_heads, block.head_dim
    d_v = block.v_head_dim or d
    inputs: list[tuple[str, int]] = [("q", n_q * (d + d_v if block.output_gate == "elementwise" else d))]  # gates beside it
    if not block.kv_shared:
        inputs += [("k", n_kv * d)] + ([] if block.attention_k_eq_v else [("v", n_kv * d_v)])
    for name, rows in inputs:
        yield Weight(f"attention.{name}", (rows, hidden), "attention/qkv_proj", bias=rows * block.qkv_bias)
    if block.output_gate == "headwise":
        yield Weight("attention.gate", (n_q, hidden), "attention/gate_proj")
    if block.qk_norm in ("head", "full"):
        whole = block.qk_norm == "full"
        for name, heads in (("q", n_q), ("k", n_kv))[: 1 if block.kv_shared else 2]:
            width = d * (heads if whole else 1)
            yield Weight(f"attention.{name}_norm", (width,), bias=width * block.qk_norm_bias, heads=heads if whole else 0)
    if block.sinks:
        yield Weight("attention.sinks", (n_q,))
    yield Weight("attention.o", (hidden, n_q * d_v), "attention/o_proj", bias=hidden * block.o_bias)


def _mla(block: Any, model: Model) -> Iterator[Weight]:
    hidden, n, rank, biased = model.hidden_size, block.num_attention_heads, block.kv_lora_rank, block.attention_bias
    d_qk, latent = block.qk_nope_head_dim + block.qk_rope_head_dim, rank + block.qk_rope_head_dim
    if (rank_q := block.q_lora_rank) is None:
        yield Weight("mla.q", (n * d_qk, hidden), "attention/q_b_proj")
    else:
        yield Weight("mla.q_a", (rank_q, hidden), "attention/a_proj", bias=rank_q * biased)
        yield Weight("mla.q_a_norm", (rank_q,))
        yield Weight("mla.q_b", (n * d_qk, rank_q), "attention/q_b_proj")
    yield Weight("mla.kv_a", (latent, hidden), "attention/a_proj", bias=latent * biased)
    yield Weight("mla.kv_a_norm", (rank,))
    yield Weight("mla.kv_b", (n * (block.qk_nope_head_dim + block.v_head_dim), rank), "attention/kv_b_proj")
    if block.output_gate != "none":
        gates = n if block.output_gate == "headwise" else n * block.v_head_dim
        yield Weight("mla.gate", (gates, hidden), "attention/gate_proj")
    yield Weight("mla.o", (hidden, n * block.v_head_dim), "attention/o_proj", bias=hidden * biased)
    if block.index_n_heads is not None:
        d = block.index_head_dim
        yield Weight("indexer.q_b", (block.index_n_heads * d, rank_q), "attention/indexer")
        yield Weight("indexer.k", (d, hidden), "attention/indexer")
        yield Weight("indexer.k_norm", (d,), bias=d)
        yield Weight("indexer.weights", (block.index_n_heads, hidden), "router")


def _csa(block: Any, model: Model) -> Iterator[Weight]:
    hidden, n, d, rank = model.hidden_size, block.num_attention_heads, block.head_dim, block.q_lora_rank
    joint = block.o_groups * block.o_lora_rank
    yield Weight("csa.q_a", (rank, hidden), "attention/a_proj")
    yield Weight("csa.q_a_norm", (rank,))
    yield Weight("csa.q_b", (n * d, rank), "attention/q_b_proj")
    yield Weight("csa.kv", (d, hidden), "attention/a_proj")
    yield Weight("csa.kv_norm", (d,))
    if block.sinks:
        yield Weight("csa.sinks", (n,))
    yield Weight("csa.o_a", (joint, n // block.o_groups * d), "attention/o_proj")
    yield Weight("csa.o_b", (hidden, joint), "attention/o_proj")
    overlap = 2 if block.index_n_heads is not None else 1
    if block.compress_ratio:
        yield from _compressor("compressor", d, overlap, block.compress_ratio, hidden)
    if block.index_n_heads is not None:
        yield from _compressor("indexer.compressor", block.index_head_dim, overlap, block.compress_ratio, hidden)
        yield Weight("csa.indexer.q_b", (block.index_n_heads * block.index_head_dim, rank), "attention/indexer")
        yield Weight("csa.indexer.weights", (block.index_n_heads, hidden), "router")


def _compressor(path: str, width: int, overlap: int, ratio: int, hidden: int) -> Iterator[Weight]:
    for name in ("kv", "gate"):
        yield Weight(f"csa.{path}.{name}", (overlap * width, hidden), "router")
    yield Weight(f"csa.{path}.positions", (ratio, overlap * width))
    yield Weight(f"csa.{path}.norm", (width,))


def _gated_delta_net(block: Any, model: Model) -> Iterator[Weight]:
    hidden, heads = model.hidden_size, block.linear_num_value_heads
    keys, values = block.linear_num_key_heads * block.linear_key_head_dim, heads * block.linear_value_head_dim
    yield Weight("delta.qkv", (2 * keys + values, hidden), "mixer/in_proj_qkvz")
    yield Weight("delta.z", (values, hidden), "mixer/in_proj_qkvz")
    yield Weight("delta.b", (heads, hidden), "mixer/in_proj_ba")
    yield Weight("delta.a", (heads, hidden), "mixer/in_proj_ba")
    yield Weight("delta.conv", (2 * keys + values, 1, block.linear_conv_kernel_dim))
    yield Weight("delta.A_log", (heads,))
    yield Weight("delta.dt_bias", (heads,))
    yield Weight("delta.norm", (block.linear_value_head_dim,))
    yield Weight("delta.out", (hidden, values), "mixer/out_proj")


def _kda(block: Any, model: Model) -> Iterator[Weight]:
    hidden, heads, d = model.hidden_size, block.linear_num_heads, block.linear_head_dim
    width = heads * d
    for name in "qkv":
        yield Weight(f"kda.{name}", (width, hidden), "mixer/qkv_proj")
    for name in "qkv":
        yield Weight(f"kda.{name}_conv", (width, 1, block.linear_conv_kernel_dim))
    for gate in "fg":
        yield Weight(f"kda.{gate}_a", (d, hidden), f"mixer/{gate}_a_proj")
        yield Weight(f"kda.{gate}_b", (width, d), f"mixer/{gate}_b_proj")
    yield Weight("kda.b", (heads, hidden), "mixer/b_proj")
    yield Weight("kda.A_log", (heads,))
    yield Weight("kda.dt_bias", (width,))
    yield Weight("kda.norm", (d,))
    yield Weight("kda.o", (hidden, width), "mixer/o_proj")


def _lightning(block: Any, model: Model) -> Iterator[Weight]:
    hidden, width = model.hidden_size, block.num_attention_heads * block.head_dim
    yield Weight("lightning.qkv", (3 * width, hidden), "mixer/qkv_proj")
    yield Weight("lightning.norm", (width,))
    yield Weight("lightning.gate", (width, hidden), "mixer/output_gate")
    yield Weight("lightning.out", (hidden, width), "mixer/out_proj")


def _mamba(block: Any, model: Model) -> Iterator[Weight]:
    hidden, inner, state, rank = model.hidden_size, block.mamba_d_inner, block.ssm_state_size, block.time_step_rank
    yield Weight("mamba.in", (2 * inner, hidden), "mixer/in_proj", bias=2 * inner * block.use_bias)
    yield Weight("mamba.conv", (inner, 1, block.conv_kernel), bias=inner * block.use_conv_bias)
    yield Weight("mamba.x", (rank + 2 * state, inner), "mixer/x_proj")
    if block.ssm_norms:
        yield from (Weight(f"mamba.{name}_norm", (width,)) for name, width in (("dt", rank), ("b", state), ("c", state)))
    yield Weight("mamba.dt", (inner, rank), "mixer/dt_proj", bias=inner)
    yield Weight("mamba.A_log", (inner, state))
    yield Weight("mamba.D", (inner,))
    yield Weight("mamba.out", (hidden, inner), "mixer/out_proj", bias=hidden * block.use_bias)


def _mamba2(block: Any, model: Model) -> Iterator[Weight]:
    hidden, heads = model.hidden_size, block.mamba_num_heads
    inner = heads * block.mamba_head_dim
    convolved = inner + 2 * block.n_groups * block.ssm_state_size
    rows = inner + convolved + heads
    yield Weight("mamba.in", (rows, hidden), "mixer/in_proj", bias=rows * block.use_bias)
    yield Weight("mamba.conv", (convolved, 1, block.conv_kernel), bias=convolved * block.use_conv_bias)
    yield from (Weight(f"mamba.{name}", (heads,)) for name in ("A_log", "D", "dt_bias"))
    if block.mamba_rms_norm:
        yield Weight("mamba.norm", (inner,))
    yield Weight("mamba.out", (hidden, inner), "mixer/out_proj", bias=hidden * block.use_bias)


def _linear(key: str, role: str) -> Callable[[Any, Model], Iterator[Weight]]:
    def weights(block: Any, model: Model) -> Iterator[Weight]:
        yield Weight(key, (model.hidden_size,) * 2, role, bias=model.hidden_size * block.bias)

    return weights


def _feed_forward(block: Any, model: Model) -> Iterator[Weight]:
    hidden, width = model.hidden_size, block.intermediate_size
    ups, role = (("gate", "up"), "mlp/gate_up_proj") if block.kind == "gated_mlp" else (("up",), "mlp/up_proj")
    yield from (Weight(f"mlp.{name}", (width, hidden), role, bias=width * block.bias) for name in ups)
    yield Weight("mlp.down", (hidden, width), "mlp/down_proj", bias=hidden * block.bias)
    yield from (Weight(f"mlp.activation_{number}", (1,)) for number in range(getattr(block, "activation_parameters", 0)))


def _moe(block: Any, model: Model) -> Iterator[Weight]:
    hidden, experts, inner = model.hidden_size, block.num_experts, block.moe_intermediate_size
    ups = ("gate", "up") if block.gated else ("up",)
    width = hidden if block.moe_latent_size is None else block.moe_latent_size
    if block.router_norm:
        yield Weight("router.scale", (hidden,))
    yield Weight("router", (experts, hidden), "router", bias=experts * block.router_bias)
    if block.expert_scale:
        yield Weight("router.expert_scale", (experts,))
    if block.branch_norms:
        yield from (Weight(f"norm.{place}", (hidden,)) for place in ("before_experts", "after_experts", "after_shared"))
    if block.moe_latent_size is not None:
        yield Weight("latent.down", (width, hidden), "mlp/latent_proj", bias=width * block.shared_bias)
        yield Weight("latent.up", (hidden, width), "mlp/latent_proj", bias=hidden * block.shared_bias)
    for name in ups:
        yield Weight(f"experts.{name}", (inner, width), "experts/up_proj", bias=inner * block.bias, copies=experts)
    yield Weight("experts.down", (width, inner), "experts/down_proj", bias=width * block.bias, copies=experts)
    if shared := block.shared_intermediate_size:
        if block.shared_gate:
            yield Weight("shared.gate_of_output", (1, hidden), "router")
        bias = block.shared_bias
        yield from (Weight(f"shared.{name}", (shared, hidden), "shared_experts/up_proj", bias=shared * bias) for name in ups)
        yield Weight("shared.down", (hidden, shared), "shared_experts/down_proj", bias=hidden * bias)


_KINDS: dict[str, Callable[[Any, Model], Iterator[Weight]]] = {
    "gqa": _gqa,
    "mla": _mla,
    "csa": _csa,
    "gated_delta_net": _gated_delta_net,
    "kda": _kda,
    "lightning_attention": _lightning,
    "mamba": _mamba,
    "mamba2": _mamba2,
    "linear_mixer": _linear("linear.mixer", "attention/linear"),
    "linear_mlp": _linear("linear.mlp", "mlp/linear"),
    "gated_mlp": _feed_forward,
    "mlp": _feed_forward,
    "moe": _moe,
}
