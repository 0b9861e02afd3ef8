"""Closed forms against the textbook."""

from __future__ import annotations

import pytest
import sympy

from roofline.formulas.closed_forms import (
    context_where_kv_overtakes_weights,
    critical_batch,
    intensity,
    kv_read_bytes,
    limit_context,
    limit_tokens,
    ridge_point,
)
from roofline.formulas.symbolic import evaluate, symbol
from roofline.operators.activation import Activation
from roofline.operators.attention import Attention
from roofline.operators.gemm import Gemm
from roofline.operators.latent_attention import LatentAttention

B, S, N_Q, N_KV, D, W = (symbol(name) for name in ("B", "S_c", "n_q", "n_kv", "d_head", "w"))
D_MODEL, D_FF = symbol("d_model"), symbol("d_ff")
LINEAR = Gemm(m=B, n=D_FF, k=D_MODEL)
ATTENTION = Attention(batch=B, new=1, cached=S, n_heads=N_Q, n_kv_heads=N_KV, head_dim=D)


def test_linear_layer_with_weight_traffic_only_is_the_batch() -> None:
    """2Bnk FLOP over 2nk bytes."""
    assert intensity(LINEAR, "matrix", ["weight"]) == B


def test_linear_layer_tends_to_its_widths() -> None:
    """For many tokens weights vanish: 2nk/(2(n + k)), the harmonic kind of mean of the widths."""
    assert sympy.simplify(limit_tokens(intensity(LINEAR)) - D_FF * D_MODEL / (D_FF + D_MODEL)) == 0


def test_decode_attention_is_the_group_size() -> None:
    """Each cached element is read once for the n_q/n_kv query heads that share it, 2 FLOP each, 2 bytes long."""
    assert intensity(ATTENTION, "matrix", ["kv_read"]) == N_Q / N_KV
    assert limit_context(intensity(ATTENTION, "matrix")) == N_Q / N_KV
    assert evaluate(limit_context(intensity(ATTENTION, "matrix")), {N_Q: 32, N_KV: 8}) == 4  # Llama 3.1 8B


def test_batching_does_not_help_attention() -> None:
    """Every sequence has a cache of its own."""
    assert B not in intensity(ATTENTION).free_symbols


def test_a_window_does_not_change_the_limit() -> None:
    """Inside the window the same keys are read and multiplied."""
    windowed = Attention(batch=B, new=1, cached=S, n_heads=N_Q, n_kv_heads=N_KV, head_dim=D, window=W)
    assert sympy.simplify(limit_context(intensity(windowed, "matrix", ["kv_read"])) - N_Q / N_KV) == 0


def test_absorbed_mla() -> None:
    """2(2r + d_rope) FLOP a head and cached token over 2(r + d_rope) bytes: n*(1024 + 64)/(512 + 64) for DeepSeek-V2."""
    rank, rope, nope, values = (symbol(name) for name in ("r_kv", "d_rope", "d_nope", "d_v"))
    core = LatentAttention(
        batch=B, new=1, cached=S, n_heads=N_Q, r_kv=rank, d_nope=nope, d_rope=rope, d_v=values, absorbed=True
    )
    limit = limit_context(intensity(core, "matrix"))
    assert evaluate(limit, {N_Q: 128, rank: 512, rope: 64}) == pytest.approx(128 * 1088 / 576)


def test_an_elementwise_operator_is_a_constant() -> None:
    """SwiGLU: 5 FLOP an element over three tensors of two bytes."""
    assert intensity(Activation(rows=B, width=D_FF)) == sympy.Rational(5, 6)


def test_critical_batch_is_half_the_ridge_for_each_byte() -> None:
    """B* = I_ridge * b_w / 2: on an A100 (312 TFLOP/s, 2039 GB/s) 153.0 at two bytes, half of it at one."""
    assert critical_batch() == ridge_point() * symbol("b_w") / 2
    a100 = {symbol("P"): 312 * 10**12, symbol("beta"): 2039 * 10**9}
    assert evaluate(critical_batch(), {**a100, symbol("b_w"): 2}) == pytest.approx(153.0, abs=0.05)
    assert evaluate(critical_batch(), {**a100, symbol("b_w"): 1}) == pytest.approx(76.5, abs=0.05)


def test_kv_overtakes_weights() -> None:
    """Llama 3.1 8B: 15.0 GB are streamed, 131072 bytes of cache a token; 64 sequences reach it at 1789 tokens each."""
    weights, token = 15_009_857_536, 131_072
    context = context_where_kv_overtakes_weights(weights, [(token, None, 1)], 64)
    assert context == pytest.approx(weights / (64 * token) - 1)
    assert kv_read_bytes([(token, None, 1)], 64, context) == pytest.approx(weights)


@pytest.mark.parametrize("weights", [5, 20, 57, 100, 1000])
def test_kv_overtakes_weights_with_windows(weights: int) -> None:
    """Found on the right piece: put back, the cache weighs what the weights do."""
    layers = [(2, None, 1), (3, 5, 1), (1, 9, 2)]
    context = context_where_kv_overtakes_weights(weights, layers, 1)
    assert kv_read_bytes(layers, 1, context) == pytest.approx(max(weights, 7))  # 7: the new token alone


def test_windows_everywhere_may_never_reach_the_weights() -> None:
    """Two layers that keep 8 tokens of 3 bytes hold 48 bytes at most."""
    assert context_where_kv_overtakes_weights(49, [(3, 8, 2)], 1) is None
    assert context_where_kv_overtakes_weights(48, [(3, 8, 2)], 1) == 7
