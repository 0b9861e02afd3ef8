"""Points that were faster than their bound, each with the likeliest reason.

A bound that is beaten is a wrong count, unit or peak, or a measurement of something else than the record says, most often
of a cache. A reason is tried in turn, the most certain first; what none explains is called unexplained.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from roofline.formatting import percent

if TYPE_CHECKING:
    import pandas as pd

UNEXPLAINED = "unexplained"
NOISE = 0.05
# The share of the weights of gated experts that experts without a gate have; how far fewer may be met than is said.
WITHOUT_A_GATE, FEWER = 2 / 3, 0.1
# So many times faster than possible is no cache but another unit: milliseconds are a thousand.
OTHER_UNIT = 100


def reasons(frame: pd.DataFrame) -> pd.Series:
    """Why each row may have been faster than its bound; empty where it was not."""
    import numpy as np
    import pandas as pd

    ratio = frame["measured_s"] / frame["bound_s"]
    share = frame["bytes_moved"] / frame["l2_bytes"]
    from_memory = (frame["binds"] == "memory") & (frame["cache"] != "cold")
    # A ring sends 2(n-1)/n of the tensor, to a switch that sums a device sends it once: of two ranks no less.
    switched = (frame["op"] == "all_reduce") & (frame["binds"] == "link") & frame["sums_in_switch"]
    in_switch = switched & (ratio >= frame["world"] / (2 * (frame["world"] - 1)))
    composed = frame["floor_s"] < frame["bound_s"]
    cases: list[tuple[Any, str]] = [
        (ratio >= 1, ""),
        (ratio < 1 / OTHER_UNIT, "over 100 times too fast: latency_us or a dimension in another unit"),
        (from_memory & (share <= 1), "all its bytes fit in the L2 cache, which was not flushed"),
        (from_memory & (share <= 4), "a part of its bytes fits in the L2 cache, which was not flushed"),
        (composed & (frame["measured_s"] >= frame["floor_s"]), "activations stayed in a cache from one operator to the next"),
        (in_switch, "a switch that sums what passes it sends less than a ring"),
        (
            (frame["op"] == "moe") & (ratio >= WITHOUT_A_GATE * (1 - FEWER)),
            "experts without a gate (two matrices of three), or fewer of them met than their routing says",
        ),
        (ratio >= 1 - NOISE, f"within {percent(NOISE, 0)}: noise of clocks and timing"),
    ]
    conditions = [np.asarray(case, dtype=bool) for case, _ in cases]
    return pd.Series(np.select(conditions, [text for _, text in cases], default=UNEXPLAINED), index=frame.index)
