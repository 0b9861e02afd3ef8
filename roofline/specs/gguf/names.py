"""What GGUF files call the weights of a model: the same names for all architectures, some of them for several weights.

Source: https://github.com/ggml-org/llama.cpp, gguf-py/gguf/constants.py (TENSOR_NAMES)
"""

from __future__ import annotations

import re
from collections.abc import Collection

from roofline.specs.huggingface.names import Names, TensorName

# The names of each weight, the usual one first. Where weights are stored as one tensor, they share a name.
_NAMES: dict[str, tuple[str, ...]] = {
    "embedding": ("token_embd",),
    "positions": ("position_embd",),
    "embedding_norm": ("token_embd_norm",),
    "final_norm": ("output_norm",),
    "lm_head": ("output",),
    "norm.pre.before_mixer": ("attn_norm",),
    "norm.pre.before_mlp": ("ffn_norm", "post_attention_norm", "attn_norm"),
    "norm.both.before_mixer": ("attn_norm",),
    "norm.both.after_mixer": ("post_attention_norm",),
    "norm.both.before_mlp": ("ffn_norm",),
    "norm.both.after_mlp": ("post_ffw_norm",),
    "norm.post.after_mixer": ("post_attention_norm",),
    "norm.post.after_mlp": ("post_ffw_norm",),
    "norm.parallel": ("attn_norm",),
    "norm.parallel.mixer": ("attn_norm_2",),
    "norm.parallel.mlp": ("attn_norm",),
    **{f"attention.{part}": (f"attn_{part}", "attn_qkv") for part in "qkv"},
    "attention.q_gate": ("attn_q",),
    "attention.gate": ("attn_gate",),
    "attention.o": ("attn_output",),
    "attention.q_norm": ("attn_q_norm",),
    "attention.k_norm": ("attn_k_norm",),
    "attention.sinks": ("attn_sinks",),
    "mla.q": ("attn_q",),
    "mla.q_a": ("attn_q_a",),
    "mla.q_a_norm": ("attn_q_a_norm",),
    "mla.q_b": ("attn_q_b",),
    "mla.kv_a": ("attn_kv_a_mqa",),
    "mla.kv_a_norm": ("attn_kv_a_norm",),
    "mla.kv_b": ("attn_kv_b",),
    "mla.o": ("attn_output",),
    "mlp.gate": ("ffn_gate", "ffn_up"),
    "mlp.up": ("ffn_up",),
    "mlp.down": ("ffn_down",),
    "router": ("ffn_gate_inp",),
    "experts.gate": ("ffn_gate_exps", "ffn_gate_up_exps"),
    "experts.up": ("ffn_up_exps", "ffn_gate_up_exps"),
    "experts.down": ("ffn_down_exps",),
    "shared.gate": ("ffn_gate_shexp", "ffn_gate"),
    "shared.up": ("ffn_up_shexp", "ffn_up"),
    "shared.down": ("ffn_down_shexp", "ffn_down"),
    "shared.gate_of_output": ("ffn_gate_inp_shexp",),
    "delta.qkv": ("attn_qkv", "ssm_in"),
    "delta.z": ("attn_gate", "ssm_in"),
    "delta.b": ("ssm_beta", "ssm_ba"),
    "delta.a": ("ssm_alpha", "ssm_ba"),
    "delta.conv": ("ssm_conv1d",),
    "delta.norm": ("ssm_norm",),
    "delta.out": ("ssm_out",),
    "mamba.in": ("ssm_in",),
    "mamba.conv": ("ssm_conv1d",),
    "mamba.x": ("ssm_x",),
    "mamba.dt": ("ssm_dt",),
    "mamba.norm": ("ssm_norm",),
    "mamba.out": ("ssm_out",),
    **{f"mamba.{part}_norm": (f"ssm_{part}_norm",) for part in ("dt", "b", "c")},
}
# Tensors whose names end here, without .weight.
_BARE = {
    "delta.A_log": "ssm_a", "delta.dt_bias": "ssm_dt.bias",
    "mamba.A_log": "ssm_a", "mamba.D": "ssm_d", "mamba.dt_bias": "ssm_dt.bias",
}  # fmt: skip

SPLIT = {"attn_kv_b.weight": ("attn_k_b.weight", "attn_v_b.weight")}
"""Tensors that a file may have in two parts."""

NOT_WEIGHTS = re.compile(
    r"rope_freqs\.weight|rope_factors_(long|short)\.weight|blk\.\d+\.(rope_freqs|rope_factors_(long|short)|attn_rot_embd)\.weight"
    r"|blk\.\d+\.exp_probs_b\.bias"
)
"""Tensors that are no weights of a product, norm or table: factors of rotations, and corrections of routers."""


def names_in(tensors: Collection[str]) -> Names:
    """The names that the weights of a model have in a file: of several, that of which the file has a tensor.

    Args:
        tensors: names of those in the file.
    """
    there = {re.sub(r"^blk\.\d+\.", "", name).removesuffix(".weight") for name in tensors}
    chosen: dict[str, str | TensorName] = {
        key: next((name for name in ways if name in there), ways[0]) for key, ways in _NAMES.items()
    }
    bare = {key: TensorName(name, bare=True) for key, name in _BARE.items()}
    return {"layer": "blk.{i}", **chosen, **bare}
