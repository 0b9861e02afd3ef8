"""CUDA graphs and buffers of collectives, which are estimated coarsely."""

from __future__ import annotations

from roofline.audit.engine_logs.case import CACHE, GIB, Case
from roofline.audit.engine_logs.rows import Row

RANK = 3
QUANTITIES = ("graphs_bytes", *CACHE)


def reason(row: Row, case: Case) -> str:
    """Where the log has graphs that are far from the estimate, or where devices share layers and less is left."""
    graphs = case.row("graphs_bytes")
    if graphs is not None and graphs.within is False:
        size = f"{graphs.measured / GIB:.2f} GiB for CUDA graphs"
        return f"{size}: vLLM estimates them from two of them, and for some models by far too many"
    if row.ratio is not None and row.ratio > 1 and case.request.deployment.devices > 1 and row.quantity != "graphs_bytes":
        return "buffers of collectives (NCCL, custom all-reduce) take more than the 0.3 GiB that are counted"
    return ""
