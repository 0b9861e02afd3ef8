"""Words in the columns `kernel` and `backend` that choose how an op is run; the suites name them, the kernels read them."""

from __future__ import annotations

PREQUANTISED = "prequantised"
"""Activations of an fp8 product were quantised before the call."""
FAST = "prequantised, fast accumulation"
"""Likewise, and sums are kept in the matrix units' own precision: the rate that datasheets state."""
OVERLAPPED = "beside a product"
"""A copy on a stream of its own, while the matrix units are busy."""
BOTH_WAYS = "both ways"
"""A copy, while as much crosses the link in the other direction."""
COMPILED = "compiled"
"""Fused by torch's compiler."""
EAGER = "eager"
"""Attention written out: scores, softmax, values."""
GROUPED, LOOP = "grouped", "loop"
"""The products of experts: one grouped product, or one an expert."""
