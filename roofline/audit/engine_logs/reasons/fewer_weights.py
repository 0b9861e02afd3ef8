"""Less was loaded than the model in its format."""

from __future__ import annotations

from roofline.audit.engine_logs.case import CACHE, GIB, Case
from roofline.audit.engine_logs.rows import Row

RANK = 1
QUANTITIES = ("weights_bytes", *CACHE)
_SMALL = 0.1 * GIB


def reason(row: Row, case: Case) -> str:
    """Where the log's weights are smaller."""
    weights = case.row("weights_bytes")
    if weights is None or weights.within or weights.predicted is None or weights.predicted < weights.measured + _SMALL:
        return ""
    less = f"{(weights.predicted - weights.measured) / GIB:.2f} GiB less were loaded than predicted"
    if row.quantity != "weights_bytes":
        return less
    offload = case.argument("cpu_offload_gb")
    if offload not in (None, "0", "0.0"):
        return f"{less}: cpu_offload_gb {offload} leaves some with the host"
    return f"{less}: a smaller format (--quantization), a larger --tp, or a model of other dimensions"
