"""Fit every accelerator and backend that records are of: `python benchmarks/accuracy/fits.py RECORDS|- [SERVING...]`.

`--only OP` (may be repeated) fits families of these ops and leaves the others in the files as they are. Writes
hardware/fits/<accelerator>/<backend>.yaml and, from serving points, engines/steps/*.yaml. Fits see two thirds of the shapes
(`roofline.measure.calibrate.family`); the errors that they carry are of the others.
"""

from __future__ import annotations

import argparse
import sys
from concurrent.futures import ProcessPoolExecutor
from datetime import date
from pathlib import Path

from roofline.measure.calibrate import as_yaml, assemble, engine_steps, families, steps_yaml
from roofline.measure.calibrate.family import Fitting, fit
from roofline.measure.records.read import read
from roofline.predict.efficiency.fits import slug
from roofline.predict.efficiency.forms import forms_by_op
from roofline.predict.efficiency.kernels import UNGATED
from roofline.specs.library import load_engine_steps, load_fit, load_hardware
from roofline.specs.source import Source

ROOT = Path(__file__).resolve().parents[2]
FEWEST = 200
"""Records below which a fit would tell little."""
WORST = 0.25
"""A held-out median error above which a transfer from another accelerator is the better estimate."""
# Who measured, by the `source` of a record.
SOURCES = {
    "aiconfigurator": Source(title="AIConfigurator (Apache-2.0)", url="https://github.com/ai-dynamo/aiconfigurator"),
    "vidur": Source(title="Vidur (MIT)", url="https://github.com/microsoft/vidur"),
    "infersim": Source(title="InferSim (Apache-2.0)", url="https://github.com/alibaba/InferSim"),
}


def jobs(records: Path) -> list[tuple[str, str]]:
    """Accelerators that have a file, and the backends of their records."""
    frame = read([records]).frame
    frame = frame[frame["op"].isin(list(forms_by_op()))]
    known = {path.stem for path in (ROOT / "hardware").glob("*.yaml")}
    sizes = frame.groupby(["gpu", "backend"], observed=True).size().sort_values(ascending=False)
    pairs = sizes[sizes >= FEWEST].index
    return [(str(gpu), str(backend)) for gpu, backend in pairs if gpu in known]


def one(records: Path, gpu: str, backend: str, only: tuple[str, ...] = ()) -> None:
    """Fit one accelerator and backend, and write the file; of `only` some ops, and the rest of the file as it is."""
    frame = read([records]).frame
    frame = frame[(frame["gpu"] == gpu) & (frame["backend"] == backend) & frame["op"].isin(only or list(forms_by_op()))]
    device = load_hardware(gpu)[0]
    fittings: list[Fitting] = []
    for key, rows in families(frame, device, {}):
        fittings.append(fit(key, [form for form in forms_by_op()[rows.op] if form.applies_to(key)], rows))
        held = fittings[-1].family.held_out
        if held is not None:
            sys.stderr.write(
                f"{gpu} {backend} {key}: median {held.median_ape:.1%}, mean {held.mape:.1%}, bias {held.bias:+.1%}, "
                f"in band {held.coverage:.0%} of {held.rows:,} in {held.shapes} shapes; "
                f"{fittings[-1].family.undetermined}\n"
            )
    sources = tuple(SOURCES.get(str(name), Source(title=str(name))) for name in sorted(set(frame["source"])))
    fittings = [entry for entry in fittings if entry.key.endswith(UNGATED) or _good(entry)]
    path = ROOT / "hardware" / "fits" / gpu / f"{slug(backend)}.yaml"
    if not fittings:
        return
    made = assemble(device, backend, fittings, sources, date.today())  # noqa: DTZ011
    if only and path.exists():
        before = load_fit(path)[0]
        made = before.model_copy(update={"families": before.families | made.families, "fitted": made.fitted})
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(as_yaml(made), encoding="utf-8")


def _good(found: Fitting) -> bool:
    """Whether a family is worth keeping.

    NB: ungated experts are kept all the same: the kernel of the gated ones, which would stand for theirs, is off by more.
    """
    held = found.family.held_out
    return held is not None and held.median_ape <= WORST


def engines(points: list[Path]) -> None:
    """What each engine adds to the kernels of a step; last, because it stands on the fits."""
    for engine in ("vllm", "sglang", "trtllm"):
        steps, frame = engine_steps(points, engine, sources=(SOURCES["aiconfigurator"],))
        versions = tuple(sorted({version for version in frame[frame["usable"]]["version"] if version}))
        path = ROOT / "engines" / "steps" / f"{engine}.yaml"
        shipped = load_engine_steps([engine])
        # fitted to, and read from, published throughputs; fitted to TTFT by docs/build_closed_loop.py
        others = ("stage", "fused_quantization", "eager")
        further = {name: getattr(shipped[0], name) for name in others} if shipped else {}
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(
            steps_yaml(steps.model_copy(update={"versions": versions, **further})),
            encoding="utf-8",
        )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("records", help="measured kernels; -: fit engines alone")
    parser.add_argument("serving", nargs="*", type=Path)
    parser.add_argument("--only", action="append", default=[], metavar="OP")
    arguments = parser.parse_intermixed_args()
    if arguments.records != "-":
        source, ops = Path(arguments.records), tuple(arguments.only)
        with ProcessPoolExecutor(2) as pool:
            futures = [pool.submit(one, source, gpu, backend, ops) for gpu, backend in jobs(source)]
            for future in futures:
                future.result()
    if arguments.serving:
        engines(arguments.serving)
