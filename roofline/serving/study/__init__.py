"""Studies: a grid of policies, deployments, rates and seeds, simulated, kept run by run, and compared."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from roofline.errors import InputError

if TYPE_CHECKING:
    from roofline.serving.study.result import StudyResult


def study(
    content: str | PathLike[str] | Mapping[str, Any],
    *,
    output: str | PathLike[str] | None = None,
    executor: str | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> StudyResult:
    """Simulate every policy of a study on every deployment at every rate with every seed, and compare them.

    Args:
        content: the path of a study's YAML file, or a mapping with its keys: `options`, `policies`, `deployments`, `rates`,
            `seeds`, `price`.
        output: a folder, in which each run is a file as soon as it is finished; runs that are there are not repeated. None:
            nothing is kept.
        executor: "processes", "processes:N", "dask" or "dask:ADDRESS"; None: this process.
        progress: called with the number of runs that are finished, and of all.

    Returns:
        The result, with a row per run (`table`), and the runs of all seeds taken together (`comparison`).

    Raises:
        roofline.errors.RooflineError: a wrong key or value; a folder of another study; workers that are lost again and again.
    """
    from roofline.serving.study.run import run_study
    from roofline.serving.study.spec import load_study, read_study

    if isinstance(content, Mapping):
        wanted = read_study(content)
    elif isinstance(content, str | PathLike):
        wanted = load_study(Path(content))
    else:
        raise InputError("a study is the path of a YAML file, or a mapping with its keys")
    return run_study(wanted, None if output is None else Path(output), executor, progress)
