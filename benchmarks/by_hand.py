"""The bound, the memory and the fit of a decode step of llama-3.1-8b on one a100-sxm-80gb, written by hand in NumPy.

What somebody who knows this one model and this one device would write: a maximum an operator, each on the axes that move
it, linear operators on the batch axis alone. Figures are the model's configuration and the datasheet's; bf16 throughout,
2 B an element. `batch` and `context` (tokens cached before the step) are float64 arrays that broadcast against each other.
All answers are seconds and bytes of the whole model on one device.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Answer = tuple[Array, Array, NDArray[np.bool_]]
"""Seconds at the bound, bytes of memory, whether they fit."""

MATRIX, VECTOR, BANDWIDTH = 312e12, 19.5e12, 2.039e12  # FLOP/s of tensor cores in bf16, of the rest in fp32; B/s
BUDGET = 0.9 * 80 * 2**30  # B, of 80 GiB
LAYERS, WIDTH, HIDDEN, VOCABULARY = 32, 4096, 14336, 128256
HEADS, KV_HEADS, HEAD = 32, 8, 128
BLOCK = 16  # tokens of the KV cache that are allocated at once
QKV = (HEADS + 2 * KV_HEADS) * HEAD
KV_TOKEN = 2 * 2 * KV_HEADS * HEAD  # B of a token's keys and values in one layer
MATRICES = LAYERS * (WIDTH * QKV + WIDTH * WIDTH + 3 * WIDTH * HIDDEN) + 2 * VOCABULARY * WIDTH
WEIGHTS = 2 * (MATRICES + (2 * LAYERS + 1) * WIDTH)  # B: 8,030,261,248 parameters


def step(batch: Array, context: Array) -> Answer:
    """Every operator's maximum where its FLOP and bytes differ: attention's at every point of the grid."""
    keys = context + 1
    products = batch * (4 * HEADS * HEAD / MATRIX * keys)
    softmax = batch * (HEADS / VECTOR * (5 * keys + HEAD))
    traffic = batch * (4 * HEADS * HEAD / BANDWIDTH + KV_TOKEN / BANDWIDTH * keys)
    attention = np.maximum(np.maximum(products, softmax), traffic)
    return _answer(_linear(batch) + LAYERS * attention, batch, keys)


def factored(batch: Array, context: Array) -> Answer:
    """The same with the batch taken out of attention's maximum: all of its sequences cost the same."""
    keys = context + 1
    products = 4 * HEADS * HEAD / MATRIX * keys
    softmax = HEADS / VECTOR * (5 * keys + HEAD)
    traffic = 4 * HEADS * HEAD / BANDWIDTH + KV_TOKEN / BANDWIDTH * keys
    a_sequence = np.maximum(np.maximum(products, softmax), traffic)
    return _answer(_linear(batch) + batch * (LAYERS * a_sequence), batch, keys)


def _answer(bound: Array, batch: Array, keys: Array) -> Answer:
    """Memory: weights, the residual stream with the LM head's inputs and outputs (the largest), the cache in blocks."""
    activations = 2 * WIDTH * batch + 2 * (WIDTH + VOCABULARY) * batch
    memory = batch * (np.ceil(keys / BLOCK) * (BLOCK * KV_TOKEN * LAYERS)) + (WEIGHTS + activations)
    return bound, memory, memory <= BUDGET


def _linear(tokens: Array) -> Array:
    """All that depends on the number of tokens alone."""
    layer = (
        _other(5 * WIDTH * tokens, 2 * WIDTH + 8 * WIDTH * tokens)  # add and norm: two arrays read, two written
        + _gemm(tokens, QKV, WIDTH)
        + _other(3 * (HEADS + KV_HEADS) * HEAD * tokens, 4 * (HEADS + KV_HEADS) * HEAD * tokens)  # rotation of Q and K
        + 2 * KV_TOKEN / BANDWIDTH * tokens  # K and V into the cache: read, written
        + _gemm(tokens, WIDTH, WIDTH)
        + _other(5 * WIDTH * tokens, 2 * WIDTH + 8 * WIDTH * tokens)
        + _gemm(tokens, 2 * HIDDEN, WIDTH)
        + _other(5 * HIDDEN * tokens, 6 * HIDDEN * tokens)  # SiLU of the gate, times the other half
        + _gemm(tokens, WIDTH, HIDDEN)
    )
    return (
        4 * WIDTH / BANDWIDTH * tokens  # embedding: a row read, written
        + LAYERS * layer
        + _other(4 * WIDTH * tokens, 2 * WIDTH + 4 * WIDTH * tokens)  # norm
        + _gemm(tokens, VOCABULARY, WIDTH)
        + _other(6 * VOCABULARY * tokens, 2 * VOCABULARY * tokens)  # sampling
    )


def _gemm(m: Array, n: int, k: int) -> Array:
    return np.maximum(2 * n * k / MATRIX * m, (2 * n * k + 2 * (n + k) * m) / BANDWIDTH)


def _other(flops: Array, size: Array) -> Array:
    return np.maximum(flops / VECTOR, size / BANDWIDTH)
