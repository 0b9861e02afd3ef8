"""Attention: of heads that share keys and values, and of the latents of MLA.

A row counts in `kv_len` the new tokens too, so that q_len = kv_len is a whole prompt, and a smaller q_len a chunk.
"""

from __future__ import annotations

from roofline.measure.records.ops.base import Call, Operators, Rule
from roofline.operators.attention import Attention
from roofline.operators.latent_attention import LatentAttention

# Widths of the models that use MLA: DeepSeek-V2, arXiv:2405.04434, section 2.1.
R_KV, D_NOPE, D_ROPE, D_V = 512, 128, 64, 128


def _attention(call: Call) -> Operators:
    core = Attention(
        batch=call["batch"],
        new=call["q_len"],
        cached=call["kv_len"] - call["q_len"],
        n_heads=call["n_heads"],
        n_kv_heads=call["n_kv_heads"],
        head_dim=call["head_dim"],
        window=call.numbers.get("window"),
        dtypes=call.dtypes,
    )
    return {"core": (core, 1)}


def _latent(call: Call, *, absorbed: bool) -> Operators:
    core = LatentAttention(
        batch=call["batch"],
        new=call["q_len"],
        cached=call["kv_len"] - call["q_len"],
        n_heads=call["n_heads"],
        r_kv=R_KV,
        d_nope=D_NOPE,
        d_rope=D_ROPE,
        d_v=D_V,
        absorbed=absorbed,
        dtypes=call.dtypes,
    )
    return {"core": (core, 1)}


def _expanded(call: Call) -> Operators:
    return _latent(call, absorbed=False)


def _absorbed(call: Call) -> Operators:
    return _latent(call, absorbed=True)


_HEADS = ("batch", "q_len", "kv_len", "n_heads", "n_kv_heads", "head_dim")
_SHAPE = ("n_heads", "n_kv_heads", "head_dim", "window")
_ORDER = (("q_len", "kv_len"),)
_SHARED = (("n_kv_heads", "n_heads"),)
_LATENT = ("batch", "q_len", "kv_len", "n_heads", "head_dim")

PREFILL = Rule("attention_prefill", _HEADS, _attention, _SHAPE, ("window",), {"window": 0}, order=_ORDER, divides=_SHARED)
DECODE = Rule("attention_decode", _HEADS, _attention, _SHAPE, ("window",), {"window": 0}, order=_ORDER, divides=_SHARED)
MLA_PREFILL = Rule("mla_prefill", _LATENT, _expanded, ("n_heads",), order=_ORDER, allowed={"head_dim": (D_NOPE + D_ROPE,)})
MLA_DECODE = Rule("mla_decode", _LATENT, _absorbed, ("n_heads",), order=_ORDER, allowed={"head_dim": (R_KV + D_ROPE,)})
