"""More was loaded than the language model in its format."""

from __future__ import annotations

from roofline.audit.engine_logs.case import CACHE, GIB, Case
from roofline.audit.engine_logs.rows import Row

RANK = 1
QUANTITIES = ("weights_bytes", *CACHE)
_SMALL = 0.1 * GIB


def reason(row: Row, case: Case) -> str:
    """Where the log's weights are larger."""
    weights = case.row("weights_bytes")
    if weights is None or weights.within or weights.predicted is None or weights.measured < weights.predicted + _SMALL:
        return ""
    more = f"{(weights.measured - weights.predicted) / GIB:.2f} GiB more were loaded than the language model"
    if row.quantity != "weights_bytes":
        return more
    if case.argument("speculative_config") is not None:
        return f"{more}: the draft model of speculative decoding"
    if case.request.precision.roles or case.request.deployment.quantization:
        return f"{more}: layers that are not quantised, a vision tower, or weights repacked for their kernels"
    if case.log is not None and case.log.engine == "sglang":
        return f"{more}: SGLang counts all memory that went while it loaded, workspaces of libraries included"
    return f"{more}: a vision tower, layers for several tokens at a time, or a model of other dimensions"
