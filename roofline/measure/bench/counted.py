"""What the profiler runs: each point once, between marks. `python -m roofline.measure.bench.counted POINTS.json SECONDS`."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

import torch

from roofline.measure.bench.kernels import Kernel, make
from roofline.measure.bench.place import Place, tf32
from roofline.measure.bench.point import Point


def main(listed: Path, seconds: float) -> None:
    """Warm up and run every point until the time is up; one that fails leaves its marks with nothing between."""
    end, place = time.monotonic() + seconds, Place("cuda")
    for entry in json.loads(listed.read_text(encoding="utf-8")):
        if time.monotonic() > end:
            break
        point = Point(**entry)
        with tf32(allowed=point.dtype == "tf32"), torch.no_grad():
            kernel, inputs = _ready(point, place)
            torch.cuda.synchronize()
            torch.cuda.profiler.start()
            torch.cuda._sleep(1)  # noqa: SLF001 - the one kernel whose name nothing else has
            if kernel is not None:
                kernel.run(*inputs)
            torch.cuda._sleep(1)  # noqa: SLF001
            torch.cuda.synchronize()
            torch.cuda.profiler.stop()
        del kernel, inputs
        torch.cuda.empty_cache()


def _ready(point: Point, place: Place) -> tuple[Kernel | None, tuple[Any, ...]]:
    """A kernel that has run once, and its inputs; None where it does not run."""
    try:
        kernel = make(point, place)
        inputs = kernel.inputs()
        kernel.run(*inputs)
    except Exception as error:  # noqa: BLE001 - whatever it is, the next point is counted
        sys.stderr.write(f"{point}: {error}\n")  # timing it will say so too
        return None, ()
    return kernel, inputs


if __name__ == "__main__":
    main(Path(sys.argv[1]), float(sys.argv[2]))
