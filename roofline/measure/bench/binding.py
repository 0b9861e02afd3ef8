"""Threads that stay where they start. Knows no torch: it has to be asked before torch is loaded.

OpenMP, which runs torch's threads on a host, reads its environment when it is loaded, and then binds the first thread too: from
then on the process seems to have one core.
"""

from __future__ import annotations

import os

CORES: tuple[int, ...] = tuple(sorted(os.sched_getaffinity(0))) if hasattr(os, "sched_getaffinity") else ()
"""The cores that this process had when this module was loaded; none where the system does not say."""


def bind() -> None:
    """Let each thread keep its core, unless the user has said otherwise."""
    os.environ.setdefault("OMP_PROC_BIND", "true")
