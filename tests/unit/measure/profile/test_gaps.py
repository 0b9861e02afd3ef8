"""Idle times, worked out by hand."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from roofline.measure.profile.gaps import find_gaps
from roofline.measure.profile.profile import profile
from roofline.measure.profile.trace import Trace


def trace(rows: list[tuple[float, float, float]], syncs: list[tuple[float, float]] | None = None) -> Trace:
    """Kernels by start, duration and launch, in seconds."""
    made = Trace(Path("made"), "hand", syncs=syncs or [])
    made.kernels.names = ["kernel"]
    for start, duration, launch in rows:
        made.kernels.append(0, start, duration, launch_s=launch)
    return made


def gaps(made: Trace, collective: list[bool] | None = None):
    """Of all kernels of a trace."""
    n = len(made.kernels)
    return find_gaps(made, np.arange(n), np.array(collective or [False] * n))


def test_causes_of_gaps() -> None:
    """0..10, 12..20, 25..30 and 32..40: idle 2, 5 and 2 of 40.

    The second kernel was launched at 4, while the first ran: the device needed 2 between them. The third was launched at 24,
    after the device had been free since 20: it waited for the host. So did the fourth, launched at 31, but only after the
    host's wait for the device, which ended at 30.5.
    """
    made = trace([(0, 10, -1), (12, 8, 4), (25, 5, 24), (32, 8, 31)], syncs=[(28, 2.5)])
    result = gaps(made)
    assert (result.span_s, result.running_s, result.idle_s) == (40, 31, 9)
    assert (result.queued_s, result.launch_bound_s, result.after_sync_s, result.unknown_s) == (2, 7, 2, 0)
    assert result.longest == ((20, 5, "launch"), (10, 2, "queue"), (30, 2, "sync"))


def test_kernels_that_overlap_leave_no_gap() -> None:
    """Two streams: 0..10 and 2..6, then 11..12: busy 11 of 12."""
    result = gaps(trace([(0, 10, -1), (2, 4, -1), (11, 1, -1)]))
    assert (result.span_s, result.running_s, result.idle_s) == (12, 11, 1)


def test_an_unknown_launch_is_no_cause() -> None:
    """Without its launch nothing is said of why a gap is there."""
    result = gaps(trace([(0, 1, float("nan")), (3, 1, float("nan"))]))
    assert (result.unknown_s, result.launch_bound_s, result.queued_s) == (2, 0, 0)


def test_exposed_communication() -> None:
    """A collective 0..10 beside a product 4..8 and one after it 12..14: 6 of its 10 are not hidden."""
    result = gaps(trace([(0, 10, -1), (4, 4, -1), (12, 2, -1)]), [True, False, False])
    assert result.communication_s == 10
    assert result.communication_exposed_s == pytest.approx(6)


def test_nothing_ran() -> None:
    """All zero."""
    assert gaps(trace([])).span_s == 0


def test_devices_have_gaps_of_their_own() -> None:
    """Device 0 runs 0..4 and 6..10, device 1 3..7 only: together they are never idle, device 0 is for 2 of 10."""
    made = Trace(Path("made"), "hand")
    made.kernels.names = ["fused_moe_kernel"]
    for start, duration, device in ((0, 4, 0), (3, 4, 1), (6, 4, 0)):
        made.kernels.append(0, start, duration, launch_s=-1, device=device)
    result = profile(made)
    assert {device: (own.span_s, own.idle_s) for device, own in result.gaps_of_devices.items()} == {0: (10, 2), 1: (4, 0)}
    assert result.gaps is result.gaps_of_devices[0]
    assert (result.gaps.queued_s, result.time_s) == (2, 12)
    assert [row["device"] for row in result.to_dict()["gaps"]["devices"]] == [0, 1]
    assert any("2 devices" in note for note in result.notes)
