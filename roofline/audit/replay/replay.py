"""`replay`: a measured run, the deployment that it says it had, and what the simulator makes of its requests."""

from __future__ import annotations

from os import PathLike
from pathlib import Path
from typing import Any

from roofline.audit.replay.question import Question
from roofline.audit.replay.result import Replay
from roofline.blocks.model import Model
from roofline.errors import InputError
from roofline.serving.traffic.engine_run import EngineRun, read_run
from roofline.specs.hardware import Hardware
from roofline.specs.source import Assumption
from roofline.units import parse_count

_LEAST = 10
"""Requests that two constants are fitted on, at least."""


def replay(
    run: str | Path | EngineRun,
    model: str | PathLike[str] | Model | None = None,
    hardware: str | PathLike[str] | Hardware | None = None,
    *,
    fit_first: int | str | None = None,
    scheduler: str | None = None,
    basis: str | None = None,
    skip_bad_rows: bool = False,
    num_gpu_blocks_override: int | str | None = None,
    **deployment: Any,
) -> Replay:
    """Serve the requests of a measured run again, and lay latencies beside latencies.

    Args:
        run: its folder (see `roofline.serving.traffic.read_run`), or what was read of it.
        model: a shipped id, the path of a file, or a loaded model; default: what the run names.
        hardware: likewise.
        fit_first: fit two constants of the card on so many requests, the first that arrived, and judge them by the others.
        scheduler: as in `simulate`; default: `vllm-v1-async` or `vllm-v1`, as the run had it.
        basis: `estimate` of step times (default where kernels were measured) or `bound`.
        skip_bad_rows: leave broken lines out.
        num_gpu_blocks_override: KV blocks of a replica; default: those that the run had, else what the memory holds.
        **deployment: the options of `roofline analyze` that describe the deployment, in place of what the run says.

    Returns:
        Both latencies and their differences; `.to_dict()` has the layout of `roofline replay --json`.

    Raises:
        roofline.errors.RooflineError: a broken file, an unknown name, a wrong value, requests that do not fit the deployment.
    """
    found = run if isinstance(run, EngineRun) else read_run(run, skip_bad_rows)
    notes: list[Assumption] = []
    if found.trace.skipped:
        why = f"broken, and left out: {'; '.join(found.trace.reasons)}"
        notes.append(Assumption("skipped_rows", found.trace.skipped, "given", why))
    question = Question(found, model, hardware, scheduler, basis, num_gpu_blocks_override, deployment, notes)
    first = None if fit_first is None else parse_count(fit_first, "--fit-first", minimum=_LEAST)
    if first is not None and first >= len(found):
        raise InputError(f"--fit-first {first:,}: the run has {len(found):,} requests, and some have to be left to judge by")
    return question.answer(first)
